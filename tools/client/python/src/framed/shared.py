"""The shared transport: frames and results stay where they are, and cursors in the control memory move.

Nothing on this way asks the system, except to wake a daemon that sleeps and, ten times a second while nothing comes, to see
whether it is still there. What the daemon wrote is checked before it is used, as it comes from another process.
"""

import collections
import fcntl
import mmap
import os
import select
import socket
import struct
import time
from typing import Deque, Optional, Sequence

from framed import formats, wire
from framed.client import AWAY, END, FREE, GIVEN, RESULT, ROOM, Client, Frame, Result, stamps_too_large
from framed.wire import (CLIENT_SLEEPS, COMPLETED, COMPLETION_FORM, COMPLETIONS, CURSOR, DAEMON_SLEEPS, LAST_OF_RING,
                         SUBMISSION_FORM, SUBMISSIONS, SUBMITTED, TAKEN, Code, Error, Fate, Welcome)

HEAR_EVERY = 0.1  # seconds
HEAR_AT_ONCE = 1024  # bytes, more than one ERROR
EMITTED = int(Fate.EMITTED)


def map_memory(descriptor: int, size: int, writable: bool) -> mmap.mmap:
    """Memory that could shrink would end this process when it is touched."""
    sealed = fcntl.fcntl(descriptor, fcntl.F_GET_SEALS) & fcntl.F_SEAL_SHRINK
    if not sealed or os.fstat(descriptor).st_size < size:
        raise Error(Code.DAEMON, "memory came that is smaller than the welcome says, or could become so")
    access = mmap.PROT_READ | mmap.PROT_WRITE if writable else mmap.PROT_READ
    return mmap.mmap(descriptor, size, mmap.MAP_SHARED | getattr(mmap, "MAP_POPULATE", 0), access)


def slices(memory: mmap.mmap, count: int, stride: int, size: int) -> "list[memoryview]":
    whole = memoryview(memory)
    return [whole[n * stride:n * stride + size] for n in range(count)]


def check_strides(welcome: Welcome) -> None:
    fine = welcome.control_bytes == wire.CONTROL_BYTES
    for stride, size in (welcome.input_stride, welcome.input_bytes), (welcome.output_stride, welcome.output_bytes):
        fine = fine and stride >= size > 0 and stride % 64 == 0
    if not fine:
        raise Error(Code.DAEMON, f"the memory of pipeline {welcome.pipeline} makes no sense: {welcome}")


class SharedClient(Client):
    def __init__(self, connection: socket.socket, welcome: Welcome, spin: float, descriptors: Sequence[int]) -> None:
        super().__init__(connection, welcome, spin)
        check_strides(welcome)
        slots = welcome.slots
        inputs = map_memory(descriptors[0], slots * welcome.input_stride, True)
        outputs = map_memory(descriptors[1], slots * welcome.output_stride, False)
        self._control = map_memory(descriptors[2], wire.CONTROL_BYTES, True)
        self._words = memoryview(self._control).cast("I")
        parts = slices(inputs, slots, welcome.input_stride, welcome.input_bytes)
        self._frames = [Frame(self, slot, part, self._input_layout) for slot, part in enumerate(parts)]
        self._free.extend(self._frames)
        self._outputs = [part.toreadonly() for part in slices(outputs, slots, welcome.output_stride, welcome.output_bytes)]
        self._arrays = [formats.view(part, self._output_layout) for part in self._outputs]
        self._submitted = self._seen = self._taken = 0  # cursors: frames, completions looked at, those done with
        self._given: Deque[Result] = collections.deque()  # the completions between the last two
        self._heard = time.monotonic()
        self._said = b""  # by the daemon, behind its doorbells

    # -- frames -------------------------------------------------------------------------------------------------------

    def _send(self, frame: Frame, sequence: int, timestamp: int, deadline: int) -> None:
        words = self._words
        release, acquire = self._fence
        submitted = self._submitted
        try:
            SUBMISSION_FORM.pack_into(self._control, SUBMISSIONS + (submitted & LAST_OF_RING) * SUBMISSION_FORM.size,
                                      frame.slot, 0, sequence, timestamp, deadline, 0)
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

    def _ring(self) -> None:
        try:
            self._connection.send(wire.DOORBELL, socket.MSG_DONTWAIT | socket.MSG_NOSIGNAL)
        except OSError:
            pass  # enough of them wait there already; or nobody is there, which shows when the connection is heard

    def _finish(self) -> None:
        """The daemon takes an end of the connection for an end of the client, so there is nothing to say to it."""

    def _under_way(self) -> int:
        return (self._submitted - self._seen) & CURSOR

    def _all_held(self) -> bool:
        if not self._receives:
            self._take_all()
        return not self._free and self._words[COMPLETED] == self._submitted

    # -- completions --------------------------------------------------------------------------------------------------

    def _waiting(self) -> int:
        """So many are there to be looked at."""
        count = (self._words[COMPLETED] - self._seen) & CURSOR
        if count > (self._submitted - self._seen) & CURSOR:
            self._break(Code.DAEMON, f"pipeline {self.welcome.pipeline} claims {count} completions, of fewer frames")
            return 0
        return count

    def _next(self) -> Optional[Result]:
        seen = self._seen
        if self._words[COMPLETED] == seen or not self._waiting():
            return None
        release, acquire = self._fence
        release()
        acquire()
        slot, fate, *fields = COMPLETION_FORM.unpack_from(self._control, COMPLETIONS + (seen & LAST_OF_RING) * COMPLETION_FORM.size)
        if slot >= len(self._frames) or self._frames[slot]._place != AWAY:
            self._break(Code.DAEMON, f"pipeline {self.welcome.pipeline} completed slot {slot}, which it does not have")
            return None
        self._seen = (seen + 1) & CURSOR
        self._frames[slot]._place = GIVEN
        if fate == EMITTED and self._receives:
            result = Result(self, slot, fate, fields, self._outputs[slot], self._arrays[slot])
            self._given.append(result)
        else:
            result = Result(self, slot, fate, fields, None, None)
            self._given.append(result)
            result.release()
        return result

    def _release(self, result: Result) -> None:
        """Gives back what the caller is done with, up to the first that it still holds."""
        given = self._given
        if not given or not given[0]._done:
            return
        while given and given[0]._done:
            frame = self._frames[given.popleft()._place]
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

    # -- waiting ------------------------------------------------------------------------------------------------------

    def _events(self) -> int:
        if not self._receives:
            self._take_all()
        results = self._waiting()
        at_end = self._finished and not results and self._submitted == self._seen
        return (RESULT if results else 0) | (ROOM if self._free and not self._finished else 0) | (END if at_end else 0)

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
