"""The shared transport: frames and results stay where they are, and cursors in the control memory move.

Nothing on this way asks the system, except to wake a daemon that sleeps and, ten times a second while nothing comes, to see
whether it is still there. What the daemon wrote is checked before it is used, as it comes from another process.

Each connection has memory of its own, a lot. What a daemon that is gone has completed is received from the lot that it left; what
it has not is copied into the next one's. A lot lives as long as anything that the caller has of it.
"""

import collections
import select
import socket
import struct
import time
from typing import Deque, Dict, Optional, Sequence

from framed import formats, wire
from framed.client import Client, stamps_too_large
from framed.comeback import Comeback
from framed.frames import AWAY, END, FREE, GIVEN, HELD, RESULT, ROOM, Frame, Result
from framed.greeting import Greeting
from framed.lots import Past, check_strides, map_memory, slices
from framed.wire import (CLIENT_SLEEPS, COMPLETED, COMPLETION_FORM, COMPLETIONS, CURSOR, DAEMON_SLEEPS, LAST_OF_RING,
                         SUBMISSION_FORM, SUBMISSIONS, SUBMITTED, TAKEN, AGAIN, Code, Fate, Welcome)

HEAR_EVERY = 0.1  # seconds
HEAR_AT_ONCE = 1024  # bytes, more than one ERROR
EMITTED = int(Fate.EMITTED)
UNDONE = {int(Fate.CLIENT_GONE), int(Fate.SHUTDOWN)}  # given up by a daemon that ends: to be sent again


def check_stamps(sequence: int, timestamp: int, deadline: int) -> None:
    try:
        SUBMISSION_FORM.pack(0, 0, sequence, timestamp, deadline, 0, 0)
    except struct.error:
        raise stamps_too_large() from None


class Kept:
    """A frame that was submitted and has no fate that counts."""

    __slots__ = ("deadline", "flags", "frame", "parked", "sent", "sequence", "timestamp")

    def __init__(self, frame: Frame, sequence: int, timestamp: int, deadline: int, flags: int) -> None:
        self.frame = frame
        self.sequence, self.timestamp, self.deadline, self.flags = sequence, timestamp, deadline, flags
        self.sent = False    # on this connection
        self.parked = False  # the daemon, which ends, gave it back undone


class SharedClient(Client):
    def __init__(self, connection: socket.socket, welcome: Welcome, comeback: Optional[Comeback], spin: float,
                 descriptors: Sequence[int]) -> None:
        super().__init__(connection, welcome, comeback, spin)
        self._kept: Dict[Frame, Kept] = {}  # in their order, if any are kept
        self._waits = False  # one of them waits for a slot
        self._strays: "set[Frame]" = set()  # frames that the caller holds in older lots
        self._past: Deque[Past] = collections.deque()
        self._said = b""  # by the daemon, behind its doorbells
        self._map(descriptors)

    def _map(self, descriptors: Sequence[int]) -> None:
        welcome = self.welcome
        check_strides(welcome)
        slots = welcome.slots
        inputs = map_memory(descriptors[0], slots * welcome.input_stride, True)
        outputs = map_memory(descriptors[1], slots * welcome.output_stride, False)
        self._map_control(descriptors[2])
        parts = slices(inputs, slots, welcome.input_stride, welcome.input_bytes)
        self._frames = [Frame(self, slot, part, self._input_layout) for slot, part in enumerate(parts)]
        self._free = collections.deque(self._frames)
        self._outputs = [part.toreadonly() for part in slices(outputs, slots, welcome.output_stride, welcome.output_bytes)]
        self._arrays = [formats.view(part, self._output_layout) for part in self._outputs]

    def _map_control(self, descriptor: int) -> None:
        self._control = map_memory(descriptor, wire.CONTROL_BYTES, True)
        self._words = memoryview(self._control).cast("I")
        self._submitted = self._seen = self._taken = 0  # cursors: frames, completions looked at, those done with
        self._given: Deque[Result] = collections.deque()  # the completions between the last two
        self._heard = time.monotonic()

    # -- frames -------------------------------------------------------------------------------------------------------

    def _send(self, frame: Frame, sequence: int, timestamp: int, deadline: int) -> None:
        if self._comeback is None:
            self._put(frame, sequence, timestamp, deadline, 0)
            return
        kept = Kept(frame, sequence, timestamp, deadline, self._comeback.mark())
        if self._paused or self._waits or frame in self._strays:
            check_stamps(sequence, timestamp, deadline)
            frame._place = AWAY
            self._kept[frame] = kept
            self._waits = True
            self._strays.discard(frame)
            self._send_kept()
        else:
            self._put(frame, sequence, timestamp, deadline, kept.flags)
            kept.sent = True
            self._kept[frame] = kept

    def _put(self, frame: Frame, sequence: int, timestamp: int, deadline: int, flags: int) -> None:
        words = self._words
        release, acquire = self._fence
        submitted = self._submitted
        try:
            SUBMISSION_FORM.pack_into(self._control, SUBMISSIONS + (submitted & LAST_OF_RING) * SUBMISSION_FORM.size,
                                      frame.slot, 0, sequence, timestamp, deadline, flags, 0)
        except struct.error:
            raise stamps_too_large() from None
        frame._place = AWAY
        self._submitted = submitted = (submitted + 1) & CURSOR
        release()
        acquire()
        words[SUBMITTED] = submitted
        release()
        acquire()
        if words[DAEMON_SLEEPS]:
            words[DAEMON_SLEEPS] = 0
            self._ring()

    def _is_here(self, frame: Frame) -> bool:
        """In the newest lot."""
        return frame.slot < len(self._frames) and self._frames[frame.slot] is frame

    def _send_kept(self) -> None:
        """What waits goes in its order, copied to where the daemon reads: behind one that cannot go, none does."""
        if self._paused or not self._waits:
            return
        for kept in list(self._kept.values()):
            if kept.sent:
                continue
            if kept.parked or (not self._is_here(kept.frame) and not self._free):
                return
            if not self._is_here(kept.frame):
                frame = self._free.popleft()
                frame.memory[:] = kept.frame.memory
                self._replace(kept, frame)
            self._put(kept.frame, kept.sequence, kept.timestamp, kept.deadline, kept.flags)
            kept.sent = True
        self._waits = False

    def _replace(self, kept: Kept, frame: Frame) -> None:
        """Those in front of it have been sent, so that the order of the others is the one that counts."""
        kept.frame._place, frame._place = FREE, AWAY
        kept.frame = frame
        self._kept = {other.frame: other for other in self._kept.values()}

    def _has_room(self) -> bool:
        """Frames that the caller holds and those that are kept are together no more than the daemon has slots, so that there is a
        slot for each."""
        if not self._waits and not self._strays:
            return bool(self._free)
        held = len(self._strays) + sum(frame._place == HELD for frame in self._frames)
        return bool(self._free) and held + len(self._kept) < self.welcome.slots

    def _take_back(self, frame: Frame) -> None:
        if frame in self._strays:
            self._strays.discard(frame)
        else:
            super()._take_back(frame)

    def _ring(self) -> None:
        try:
            self._connection.send(wire.DOORBELL, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            pass  # enough of them wait there already; or nobody is there, which shows when the connection is heard

    def _finish(self) -> None:
        """The daemon takes an end of the connection for an end of the client, so there is nothing to say to it."""

    def _under_way(self) -> int:
        return (len(self._kept) if self._keeps else (self._submitted - self._seen) & CURSOR) + len(self._past)

    def _all_held(self) -> bool:
        if not self._receives:
            self._take_all()
        self._send_kept()
        if self._keeps:  # what has come for a producer since gives room
            return not self._has_room() and len(self._kept) <= (self._waiting() if self._receives else 0)
        done = self._words[COMPLETED] if self._receives else self._seen
        return not self._free and done == self._submitted

    # -- completions --------------------------------------------------------------------------------------------------

    def _waiting(self) -> int:
        """So many are there to be looked at."""
        count = (self._words[COMPLETED] - self._seen) & CURSOR
        if count > (self._submitted - self._seen) & CURSOR:
            self._break(Code.DAEMON, f"pipeline {self.welcome.pipeline} claims {count} completions, of fewer frames")
            return 0
        return count

    def _read(self, cursor: int) -> "tuple[int, int, list[int]]":
        slot, fate, *fields = COMPLETION_FORM.unpack_from(
            self._control, COMPLETIONS + (cursor & LAST_OF_RING) * COMPLETION_FORM.size)
        return slot, fate, fields

    def _next(self) -> Optional[Result]:
        if self._past:
            return self._next_of_past()
        while not self._paused:
            seen = self._seen
            if self._words[COMPLETED] == seen or not self._waiting():
                return None
            release, acquire = self._fence
            release()
            acquire()
            slot, fate, fields = self._read(seen)
            if slot >= len(self._frames) or self._frames[slot]._place != AWAY or not self._note_fate(slot, fate):
                self._break(Code.DAEMON, f"pipeline {self.welcome.pipeline} completed slot {slot}, which it does not have")
                return None
            self._seen = (seen + 1) & CURSOR
            parked = fate in UNDONE and self._keeps
            if not parked:
                self._frames[slot]._place = GIVEN
            if fate == EMITTED and self._receives:
                result = Result(self, slot, fate, fields, self._outputs[slot], self._arrays[slot])
                self._given.append(result)
                return result
            result = Result(self, slot, fate, fields, None, None)
            self._given.append(result)
            result.release()
            if not parked:
                return result
        return None

    def _note_fate(self, slot: int, fate: int) -> bool:
        """False: the frame was never sent. One that is to be sent again is parked until there is another daemon."""
        if not self._keeps:
            return True
        frame = self._frames[slot]
        kept = self._kept.get(frame)
        if kept is None or not kept.sent or kept.parked:
            return False
        if fate in UNDONE:
            kept.parked, kept.sent = True, False
            kept.flags |= AGAIN
            self._waits = True
        else:
            del self._kept[frame]
        return True

    def _next_of_past(self) -> Result:
        past = self._past[0]
        slot, fate, fields = past.completions.popleft()
        if not past.completions:
            self._past.popleft()
        emitted = fate == EMITTED and self._receives
        result = Result(self, -1, fate, fields, past.outputs[slot] if emitted else None, past.arrays[slot] if emitted else None)
        result._done = True  # nobody wants its memory back
        return result

    def _release(self, result: Result) -> None:
        """Gives back what the caller is done with, up to the first that it still holds."""
        given = self._given
        if not given or not given[0]._done:
            return
        while given and given[0]._done:
            frame = self._frames[given.popleft()._place]
            if frame._place == GIVEN:
                frame._place = FREE
                self._free.append(frame)
            self._taken += 1
        self._taken &= CURSOR
        self._words[TAKEN] = self._taken

    def _take_all(self) -> None:
        """A producer only wants its slots back."""
        while self._next() is not None:
            pass

    def _forget(self) -> None:
        super()._forget()
        self._given.clear()
        self._kept.clear()
        self._past.clear()

    # -- another connection ---------------------------------------------------------------------------------------------

    def _lose(self) -> None:
        """What the daemon has completed is done, also where the caller does not know of it yet; all else is to be sent."""
        completions: "Deque[tuple[int, int, Sequence[int]]]" = collections.deque()
        for n in range((self._words[COMPLETED] - self._seen) & CURSOR):
            slot, fate, fields = self._read(self._seen + n)
            if n >= len(self._frames) or slot >= len(self._frames) or not self._note_fate(slot, fate):
                break  # a lie, of a daemon that is gone
            if fate not in UNDONE:
                completions.append((slot, fate, fields))
        if completions:
            self._past.append(Past(completions, self._outputs, self._arrays))
        for kept in self._kept.values():
            kept.flags |= AGAIN if kept.sent else 0
            kept.sent = kept.parked = False
        self._waits = bool(self._kept)
        self._said = b""

    def _resume(self, greeting: Greeting) -> None:
        """Results of before need no release any more, and frames of before are moved over when they are submitted."""
        for result in self._given:
            result._done = True
        self._strays.update(frame for frame in self._frames if frame._place == HELD)
        self._map(greeting.descriptors)

    # -- waiting ------------------------------------------------------------------------------------------------------

    def _events(self) -> int:
        if not self._receives:
            self._take_all()
        self._send_kept()
        if self._past:
            results = 1
        else:
            results = 0 if self._paused else self._skip_undone()
        under_way = self._kept if self._keeps else self._submitted != self._seen
        at_end = self._finished and not results and not under_way
        room = not self._finished and self._has_room()
        received = results and self._receives  # a producer's completions only give room
        return (RESULT if received else 0) | (ROOM if room else 0) | (END if at_end else 0)

    def _skip_undone(self) -> int:
        """Frames that will be sent again are no results."""
        count = self._waiting()
        while self._keeps and count and self._problem is None and self._read(self._seen)[1] in UNDONE:
            slot, fate, fields = self._read(self._seen)
            if slot >= len(self._frames) or self._frames[slot]._place != AWAY or not self._note_fate(slot, fate):
                self._break(Code.DAEMON, f"pipeline {self.welcome.pipeline} completed slot {slot}, which it does not have")
                return 0
            self._seen = (self._seen + 1) & CURSOR
            result = Result(self, slot, fate, fields, None, None)
            self._given.append(result)
            result.release()
            count -= 1
        return count

    def _look(self) -> int:
        there = self._events()
        quiet = not there & (RESULT if self._receives else ROOM)
        if quiet and self._problem is None and time.monotonic() - self._heard > HEAR_EVERY:
            self._hear()
            there = self._events()
        return there

    def _arm(self) -> int:
        release, acquire = self._fence
        self._words[CLIENT_SLEEPS] = 1
        release()
        acquire()
        return select.POLLIN

    def _wake(self, conditions: int) -> None:
        self._words[CLIENT_SLEEPS] = 0
        if conditions and self._problem is None:
            self._hear()

    # -- the connection -----------------------------------------------------------------------------------------------

    def _hear(self) -> None:
        """Doorbells say nothing more; an ERROR may begin behind any of them."""
        self._heard = time.monotonic()
        heard = bytes(HEAR_AT_ONCE)
        try:
            while len(heard) == HEAR_AT_ONCE:
                heard = self._connection.recv(HEAR_AT_ONCE)
                self._said += heard if self._said else heard.lstrip(wire.DOORBELL)
                self._take_error()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._break(Code.CLOSED, f"the connection to pipeline {self.welcome.pipeline} broke: {error}")
        if not heard:
            self._hear_end()

    def _hear_end(self) -> None:
        self._break(Code.CLOSED, f"the daemon closed the connection to pipeline {self.welcome.pipeline}")

    def _take_error(self) -> None:
        if len(self._said) < wire.HEADER_FORM.size:
            return
        header = wire.HEADER_FORM.unpack_from(self._said)
        end = wire.HEADER_FORM.size + header[3]
        if not wire.is_error(*header):
            self._break(Code.DAEMON, f"pipeline {self.welcome.pipeline} sent what is neither a doorbell nor an ERROR")
        elif len(self._said) >= end:
            error = wire.error_of(self._said[wire.HEADER_FORM.size:end])
            self._break(int(error.code), error.sentence)
