"""What both transports have in common: frames, results, and waiting.

A client has a `problem` from the moment at which it can take part in the protocol no more; results that came before are
still given out, and then every call raises it.
"""

import collections
import enum
import select
import socket
import threading
import time
from typing import Any, Callable, Deque, Iterable, Iterator, NamedTuple, Optional, Sequence, Union

from framed import formats
from framed.wire import Code, Error, Fate, Role, Transport, Welcome

# A frame's place: nobody's, the caller's, the daemon's or on its way there, and the caller's as a result.
FREE, HELD, AWAY, GIVEN = range(4)


class Event(enum.IntFlag):
    RESULT = 1  # receive() has something
    ROOM = 2    # acquire() has something
    END = 4     # nothing will come any more: after finish(), or at the end of a sink


RESULT, ROOM, END = 1, 2, 4  # the same as plain numbers, which cost less


class Steps(NamedTuple):
    """What took how long, in ns; 2^32 - 1 where one took longer, and 0 for steps on the device that were not timed."""

    receive: int   # from a frame's first byte to its last
    queue: int     # until its dispatch to the device
    gpu_wait: int  # on the device, waiting for an engine or handed from one to the next
    h2d: int       # copy to the device
    kernel: int    # the stages
    d2h: int       # copy from the device
    wake: int      # until the daemon took notice
    total: int     # from its first byte, or its timestamp, until the result was offered


class Frame:
    """Memory for one frame: the caller's from acquire() to submit(). It holds what it held before."""

    __slots__ = ("_owner", "_place", "array", "memory", "slot")

    def __init__(self, owner: "Client", slot: int, memory: memoryview, layout: formats.Layout) -> None:
        self._owner = owner
        self._place = FREE
        self.slot = slot
        self.memory = memory  # its bytes
        self.array: Any = formats.view(memory, layout)

    def fill(self, data: Any) -> None:
        """Copies a whole frame in: an array of just this type and shape, or an object of as many bytes."""
        if formats.is_array(data):
            if data.shape != self.array.shape or data.dtype != self.array.dtype:
                raise ValueError(f"a frame is {self.array.dtype}{list(self.array.shape)}, "
                                 f"and this is {data.dtype}{list(data.shape)}")
            self.array[...] = data
        else:
            given = memoryview(data).cast("B")
            if given.nbytes != self.memory.nbytes:
                raise ValueError(f"a frame has {self.memory.nbytes} bytes, and this has {given.nbytes}")
            self.memory[:] = given

    def cancel(self) -> None:
        """Gives the frame back without submitting it."""
        if self._place == HELD and not self._owner._closed:
            self._place = FREE
            self._owner._free.appendleft(self)


class Result:
    """A frame's result: the caller's until release(), or until the next one of an iterator. `with` releases it, too."""

    __slots__ = ("_done", "_owner", "_place", "_steps", "array", "dropped", "fate", "flags", "memory", "sequence", "session",
                 "timestamp")

    def __init__(self, owner: "Client", place: int, fate: int, fields: Sequence[int], memory: Optional[memoryview],
                 array: Any) -> None:
        self._owner = owner
        self._place = place
        self._done = False
        self._steps = fields[3:11]
        self.fate: Union[Fate, int] = FATES.get(fate, fate)
        self.sequence = fields[0]   # the frame's
        self.dropped = fields[1]    # frames of this session without a result since the last that had one
        self.timestamp = fields[2]  # the frame's; its arrival if it had none
        self.session = fields[11]   # seat of the producer
        self.flags = fields[12]
        self.memory = memory  # None: the frame was dropped
        self.array = array

    @property
    def steps(self) -> Steps:
        return Steps(*self._steps)

    def release(self) -> None:
        """Gives the memory back, in any order, best in the order of the results. Once more is taken for nothing."""
        if not self._done:
            self._done = True
            if not self._owner._closed:
                self._owner._release(self)

    def __enter__(self) -> "Result":
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


FATES = {int(fate): fate for fate in Fate}


class Client:
    """One connection to one pipeline, made by connect(). Leaving its `with` block closes it."""

    def __init__(self, connection: socket.socket, welcome: Welcome, spin: float) -> None:
        connection.setblocking(False)
        self.welcome = welcome
        self._connection = connection
        self._spin = spin
        self._problem: Optional[Error] = None
        self._finished = False
        self._closed = False
        self._sends = welcome.role != Role.CONSUMER
        self._receives = welcome.role != Role.PRODUCER
        self._frames: "list[Frame]" = []
        self._outputs: "list[memoryview]" = []
        self._arrays: "list[Any]" = []
        self._free: Deque[Frame] = collections.deque()
        self._input_layout = formats.layout_of(welcome.input_format, welcome.input_bytes)
        self._output_layout = formats.layout_of(welcome.output_format, welcome.output_bytes)
        self._poller = select.poll()
        # Whoever takes a lock sees what the one before left in memory: releasing and taking it is a fence, of both kinds.
        lock = threading.Lock()
        lock.acquire()
        self._fence: "tuple[Callable[[], object], Callable[[], object]]" = lock.release, lock.acquire

    # -- what a transport does --------------------------------------------------------------------------------------

    def _look(self) -> int:
        """Does what needs no waiting, and returns the events that are there."""
        raise NotImplementedError

    def _arm(self) -> int:
        """Before a sleep: which conditions of the connection end it."""
        raise NotImplementedError

    def _wake(self, conditions: int) -> None:
        """After it."""
        raise NotImplementedError

    def _send(self, frame: Frame, sequence: int, timestamp: int, deadline: int) -> None:
        raise NotImplementedError

    def _next(self) -> Optional[Result]:
        raise NotImplementedError

    def _release(self, result: Result) -> None:
        raise NotImplementedError

    def _finish(self) -> None:
        raise NotImplementedError

    def _under_way(self) -> int:
        """Frames whose result or fate is not known yet; those that have not been sent count, too."""
        raise NotImplementedError

    def _all_held(self) -> bool:
        """Whether there is no room, and never will be unless the caller receives and releases."""
        raise NotImplementedError

    # -- frames -------------------------------------------------------------------------------------------------------

    @property
    def transport(self) -> Transport:
        return Transport(self.welcome.transport)

    def acquire(self, timeout: Optional[float] = None) -> Frame:
        """Memory for a frame, waiting for it; several may be held. TimeoutError after `timeout` seconds."""
        self._check(self._sends and not self._finished, "no frames are sent by a consumer, or after finish()")
        while not self._free:
            if self._all_held():
                raise Error(Code.USAGE, f"all {self.welcome.slots} slots are held by this program, as frames that were not "
                            "submitted or results that were not received and released")
            if not self._poll(ROOM, timeout) & ROOM:
                raise TimeoutError(f"pipeline {self.welcome.pipeline} had no room for a frame within {timeout} s")
        frame = self._free.popleft()
        frame._place = HELD
        return frame

    def submit(self, frame: Frame, sequence: int = 0, timestamp: int = 0, deadline: int = 0) -> None:
        """Gives an acquired frame to the daemon, which has it from here on.

        `sequence` is the caller's own number and comes back in the result. `timestamp` is when the frame was made, from
        which its latency and the pipeline's deadline run, or 0 for when it arrives; `deadline` is when it is of no use any
        more, or 0 for the pipeline's.
        """
        if self._problem is not None or self._finished or frame._place != HELD or frame._owner is not self or self._closed:
            self._check(frame._place == HELD and frame._owner is self,
                        "only a frame that this client gave can be submitted, and once")
            self._check(not self._finished, "nothing is submitted after finish()")
        self._send(frame, sequence, timestamp, deadline)

    def finish(self) -> None:
        """No frame will follow; those not submitted are given up. What is under way is still worth waiting for."""
        self._check(True, "")
        if self._sends and not self._finished:
            self._finished = True
            self._finish()

    # -- results ------------------------------------------------------------------------------------------------------

    def receive(self, timeout: Optional[float] = None) -> Optional[Result]:
        """The next result, in the order of the frames, waiting for it; None at the end. TimeoutError after `timeout` seconds.

        At most as many as there are slots can be held at once, and a held one holds its frame's slot where memory is shared.
        A frame that was dropped comes there with its fate and without memory; over a connection only `dropped` of the next
        result tells of it.
        """
        if self._closed or not self._receives:
            self._check(self._receives, "a producer gets no results")
        result = self._next()
        while result is None:
            if timeout is None and self._sends and not self._finished and self._problem is None and self._under_way() == 0:
                raise Error(Code.USAGE, "no frame is under way, so that no result would ever come")
            there = self._poll(RESULT, timeout)
            if there & RESULT:
                result = self._next()
            elif there & END:
                return None
            else:
                raise TimeoutError(f"pipeline {self.welcome.pipeline} had no result within {timeout} s")
        return result

    def __iter__(self) -> Iterator[Result]:
        """Results until the end (see finish()), without the frames that were dropped. Each is released for the next."""
        result = self.receive()
        while result is not None:
            if result.memory is not None:
                yield result
                result.release()
            result = self.receive()

    def process(self, frames: Iterable[Any]) -> Iterator[Result]:
        """Sends each of `frames` (see Frame.fill()), numbered from 0, and gives the results as they come, as iterating does.

        Then it finishes: the client sends nothing more.
        """
        for sequence, data in enumerate(frames):
            there = self._poll(ROOM | RESULT, 0)
            while not self._free or there & RESULT:
                result = self._next()
                if result is not None and result.memory is not None:
                    yield result
                    result.release()
                there = self._poll(ROOM | RESULT, 0 if self._free else None)
            frame = self.acquire()
            frame.fill(data)
            self.submit(frame, sequence)
        self.finish()
        yield from self

    # -- waiting ------------------------------------------------------------------------------------------------------

    def poll(self, wanted: int = RESULT | ROOM, timeout: Optional[float] = None) -> Event:
        """Waits until one of the `wanted` events is there, or the end, and returns all that are there; none after `timeout`."""
        self._check(True, "")
        return Event(self._poll(wanted, timeout))

    def drain(self, timeout: Optional[float] = None) -> None:
        """After a producer's last frame: finishes, and waits until each has its fate. TimeoutError after `timeout` seconds."""
        self._check(not self._receives, "results are to be received, not drained")
        self.finish()
        if not self._poll(0, timeout) & END:
            raise TimeoutError(f"pipeline {self.welcome.pipeline} did not take all frames within {timeout} s")

    def fileno(self) -> int:
        """The descriptor to wait for in a loop of the caller's own (see arm()); not to be read, written or closed."""
        return self._connection.fileno()

    def arm(self, wanted: int = RESULT | ROOM) -> "tuple[Event, int]":
        """The events that are there; and if none is of `wanted`, which conditions (select.POLLIN, POLLOUT) of the descriptor
        to wait for before the next call."""
        self._wake(select.POLLIN)
        there = self._look_or_raise(wanted | END)
        conditions = 0
        if not there & (wanted | END):
            conditions = self._arm()
            there = self._look_or_raise(wanted | END)
        return Event(there), 0 if there & (wanted | END) else conditions

    def _poll(self, wanted: int, timeout: Optional[float]) -> int:
        wanted |= END
        there = self._look_or_raise(wanted)
        if there & wanted or timeout == 0:
            return there
        start = time.monotonic()
        spin = self._spin if timeout is None else min(self._spin, timeout)
        while time.monotonic() < start + spin:
            there = self._look_or_raise(wanted)
            if there & wanted:
                return there
        while True:
            left = None if timeout is None else start + timeout - time.monotonic()
            if left is not None and left <= 0:
                return there
            self._sleep(wanted, left)
            there = self._look_or_raise(wanted)
            if there & wanted:
                return there

    def _sleep(self, wanted: int, seconds: Optional[float]) -> None:
        conditions = self._arm()
        woken = 0
        try:
            if not self._look_or_raise(wanted) & wanted:
                self._poller.register(self._connection, conditions)
                ready = self._poller.poll(None if seconds is None else seconds * 1000 + 1)
                woken = ready[0][1] if ready else 0
        finally:
            self._wake(woken)

    def _look_or_raise(self, wanted: int) -> int:
        there = self._look()
        if self._problem is not None and not there & wanted & (RESULT | END):
            self._check(True, "")
        return there

    # -- the end ------------------------------------------------------------------------------------------------------

    def _break(self, code: int, sentence: str) -> None:
        if self._problem is None:
            self._problem = Error(code, sentence)

    def _check(self, sensible: bool, otherwise: str) -> None:
        if self._closed:
            raise Error(Code.USAGE, "this client is closed")
        if self._problem is not None:
            raise Error(self._problem.code, self._problem.sentence)
        if not sensible:
            raise Error(Code.USAGE, otherwise)

    def close(self) -> None:
        """Ends the connection at once. Arrays stay what they are, but nothing comes into them any more."""
        if not self._closed:
            self._closed = True
            self._connection.close()
            self._forget()

    def _forget(self) -> None:
        """Keeps nothing that belongs to this client, so that its memory ends with the last array that the caller has."""
        self._frames, self._outputs, self._arrays = [], [], []
        self._free.clear()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """A producer that leaves without an error waits until its frames have their fate."""
        try:
            if kind is None and not self._receives and not self._closed and self._problem is None:
                self.drain()
        finally:
            self.close()


def stamps_too_large() -> ValueError:
    return ValueError("sequence is a number of 64 bits without sign, timestamp and deadline are such with one")
