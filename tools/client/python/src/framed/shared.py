"""The shared transport: frames and results stay in place, and cursors in the control memory move.

The fast path makes no system call, except to wake a sleeping daemon. Without events it also checks ten times a second whether
the daemon is still connected. Data of the daemon comes from another process, so it is checked before use.

Each connection has its own memory, a lot. Completions of a lost connection are received from its lot. Unfinished frames are
copied into the next lot. A lot lives as long as the caller's last reference.
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
from framed.frames import AWAY, END, FREE, RETURNED, HELD, RESULT, ROOM, Frame, Result
from framed.greeting import Greeting
from framed.lots import Past, check_strides, map_memory, slices
from framed.wire import (CLIENT_SLEEPS, COMPLETED, COMPLETION_FORM, COMPLETIONS, CURSOR, DAEMON_SLEEPS, LAST_OF_RING,
                         SUBMISSION_FORM, SUBMISSIONS, SUBMITTED, TAKEN, AGAIN, Code, Fate, Welcome)

READ_EVERY = 0.1  # seconds
READ_AT_ONCE = 1024  # bytes, more than one ERROR
EMITTED = int(Fate.EMITTED)
UNDONE = {int(Fate.CLIENT_GONE), int(Fate.SHUTDOWN)}  # given up by a stopping daemon, so they are sent again


def check_stamps(sequence: int, timestamp: int, deadline: int) -> None:
    try:
        SUBMISSION_FORM.pack(0, 0, sequence, timestamp, deadline, 0, 0)
    except struct.error:
        raise stamps_too_large() from None


class Kept:
    """A submitted frame whose fate is unknown or must not count."""

    __slots__ = ("deadline", "flags", "frame", "parked", "sent", "sequence", "timestamp")

    def __init__(self, frame: Frame, sequence: int, timestamp: int, deadline: int, flags: int) -> None:
        self.frame = frame
        self.sequence, self.timestamp, self.deadline, self.flags = sequence, timestamp, deadline, flags
        self.sent = False    # on this connection
        self.parked = False  # returned undone by a daemon that stops


class SharedClient(Client):
    def __init__(self, connection: socket.socket, welcome: Welcome, comeback: Optional[Comeback], spin: float,
                 descriptors: Sequence[int]) -> None:
        super().__init__(connection, welcome, comeback, spin)
        self._kept: Dict[Frame, Kept] = {}  # in order of submission; only if the client keeps frames
        self._waits = False  # some of them wait for a slot
        self._strays: "set[Frame]" = set()  # frames that the caller holds in older lots
        self._past: Deque[Past] = collections.deque()
        self._said = b""  # by the daemon, after its doorbells
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
        self._submitted = self._seen = self._taken = 0  # cursors: frames, completions seen, completions released
        self._unreleased: Deque[Result] = collections.deque()  # the completions between the last two cursors
        self._read_at = time.monotonic()

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
        """True if the frame is in the newest lot."""
        return frame.slot < len(self._frames) and self._frames[frame.slot] is frame

    def _send_kept(self) -> None:
        """Sends waiting frames in order, copied to the current lot. The first one that cannot be sent stops the loop."""
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
        """Puts a kept frame into another place. The frames before it are sent, so the order of the others is preserved."""
        kept.frame._place, frame._place = FREE, AWAY
        kept.frame = frame
        self._kept = {other.frame: other for other in self._kept.values()}

    def _has_room(self) -> bool:
        """Held and kept frames together must not exceed the daemon's slots, so that each one gets a slot."""
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
            pass  # either the socket holds enough doorbells, or the next read notices the end

    def _finish(self) -> None:
        """The daemon treats a closed connection as a client that left, so nothing is sent."""

    def _under_way(self) -> int:
        return (len(self._kept) if self._keeps else (self._submitted - self._seen) & CURSOR) + len(self._past)

    def _all_held(self) -> bool:
        if not self._receives:
            self._take_all()
        self._send_kept()
        if self._keeps:  # _take_all() has already used a producer's completions
            return not self._has_room() and len(self._kept) <= (self._waiting() if self._receives else 0)
        done = self._words[COMPLETED] if self._receives else self._seen
        return not self._free and done == self._submitted

    # -- completions --------------------------------------------------------------------------------------------------

    def _waiting(self) -> int:
        """The number of unread completions."""
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
                self._frames[slot]._place = RETURNED
            if fate == EMITTED and self._receives:
                result = Result(self, slot, fate, fields, self._outputs[slot], self._arrays[slot])
                self._unreleased.append(result)
                return result
            result = Result(self, slot, fate, fields, None, None)
            self._unreleased.append(result)
            result.release()
            if not parked:
                return result
        return None

    def _note_fate(self, slot: int, fate: int) -> bool:
        """False: the frame was never sent. A frame that will be sent again is parked until the next daemon."""
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
        result._done = True  # its memory needs no release
        return result

    def _release(self, result: Result) -> None:
        """Releases finished completions, up to the first that the caller still holds."""
        unreleased = self._unreleased
        if not unreleased or not unreleased[0]._done:
            return
        while unreleased and unreleased[0]._done:
            frame = self._frames[unreleased.popleft()._place]
            if frame._place == RETURNED:
                frame._place = FREE
                self._free.append(frame)
            self._taken += 1
        self._taken &= CURSOR
        self._words[TAKEN] = self._taken

    def _take_all(self) -> None:
        """Releases all completions of a producer, which only wants its slots back."""
        while self._next() is not None:
            pass

    def _forget(self) -> None:
        super()._forget()
        self._unreleased.clear()
        self._kept.clear()
        self._past.clear()

    # -- another connection ---------------------------------------------------------------------------------------------

    def _lose(self) -> None:
        """Frames with a completion are finished, even if the caller has not read it. All others will be sent again."""
        completions: "Deque[tuple[int, int, Sequence[int]]]" = collections.deque()
        for n in range((self._words[COMPLETED] - self._seen) & CURSOR):
            slot, fate, fields = self._read(self._seen + n)
            if n >= len(self._frames) or slot >= len(self._frames) or not self._note_fate(slot, fate):
                break  # invalid, and the daemon is gone
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
        """Earlier results need no release any more. Earlier frames are copied when they are submitted."""
        for result in self._unreleased:
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
        received = results and self._receives  # a producer's completions only free slots
        return (RESULT if received else 0) | (ROOM if room else 0) | (END if at_end else 0)

    def _skip_undone(self) -> int:
        """The number of results for the caller. Skips those of frames that will be sent again."""
        count = self._waiting()
        while self._keeps and count and self._problem is None and self._read(self._seen)[1] in UNDONE:
            slot, fate, fields = self._read(self._seen)
            if slot >= len(self._frames) or self._frames[slot]._place != AWAY or not self._note_fate(slot, fate):
                self._break(Code.DAEMON, f"pipeline {self.welcome.pipeline} completed slot {slot}, which it does not have")
                return 0
            self._seen = (self._seen + 1) & CURSOR
            result = Result(self, slot, fate, fields, None, None)
            self._unreleased.append(result)
            result.release()
            count -= 1
        return count

    def _look(self) -> int:
        there = self._events()
        quiet = not there & (RESULT if self._receives else ROOM)
        if quiet and self._problem is None and time.monotonic() - self._read_at > READ_EVERY:
            self._read_connection()
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
            self._read_connection()

    # -- the connection -----------------------------------------------------------------------------------------------

    def _read_connection(self) -> None:
        """Reads the connection. A doorbell carries no data. An ERROR may follow any doorbell."""
        self._read_at = time.monotonic()
        received = bytes(READ_AT_ONCE)
        try:
            while len(received) == READ_AT_ONCE:
                received = self._connection.recv(READ_AT_ONCE)
                self._said += received if self._said else received.lstrip(wire.DOORBELL)
                self._take_error()
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self._break(Code.CLOSED, f"the connection to pipeline {self.welcome.pipeline} broke: {error}")
        if not received:
            self._handle_close()

    def _handle_close(self) -> None:
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
