"""Frames and results: the part of a client that both transports share."""

import collections
import socket
import threading
from typing import Any, Callable, Deque, Iterable, Iterator, Optional

from framed import formats
from framed.comeback import Comeback
from framed.connection import Connection
from framed.frames import END, HELD, RESULT, ROOM, Frame, Result
from framed.wire import Code, Error, Role, Transport, Welcome

LOOK_AGAIN = 0.1  # seconds without an event, after which process() checks whether one can still come


class Client(Connection):
    """One connection to one pipeline, made by connect(). Leaving its `with` block closes it."""

    def __init__(self, connection: socket.socket, welcome: Welcome, comeback: Optional[Comeback], spin: float) -> None:
        super().__init__(connection, welcome, comeback, spin)
        self._keeps = comeback is not None
        self._finished = False
        self._sends = welcome.role != Role.CONSUMER
        self._receives = welcome.role != Role.PRODUCER
        self._frames: "list[Frame]" = []
        self._outputs: "list[memoryview]" = []
        self._arrays: "list[Any]" = []
        self._free: Deque[Frame] = collections.deque()
        self._spare: Deque[Frame] = collections.deque()  # used only when no other frame is free
        self._input_layout = formats.layout_of(welcome.input_format, welcome.input_bytes)
        self._output_layout = formats.layout_of(welcome.output_format, welcome.output_bytes)
        # Releasing and acquiring a lock is a fence in both directions, which Python offers in no other way.
        lock = threading.Lock()
        lock.acquire()
        self._fence: "tuple[Callable[[], object], Callable[[], object]]" = lock.release, lock.acquire

    # -- what a transport does --------------------------------------------------------------------------------------

    def _send(self, frame: Frame, sequence: int, timestamp: int, deadline: int) -> None:
        raise NotImplementedError

    def _next(self) -> Optional[Result]:
        raise NotImplementedError

    def _release(self, result: Result) -> None:
        raise NotImplementedError

    def _finish(self) -> None:
        raise NotImplementedError

    def _take_back(self, frame: Frame) -> None:
        self._free.appendleft(frame)

    def _has_room(self) -> bool:
        return bool(self._free or self._spare)

    def _under_way(self) -> int:
        """The number of frames without a known fate, including unsent ones."""
        raise NotImplementedError

    def _all_held(self) -> bool:
        """True if only the caller can make room, by receiving and releasing results."""
        raise NotImplementedError

    # -- frames -------------------------------------------------------------------------------------------------------

    @property
    def transport(self) -> Transport:
        return Transport(self.welcome.transport)

    def acquire(self, timeout: Optional[float] = None) -> Frame:
        """Waits for memory for a frame; several frames may be held. TimeoutError after `timeout` seconds."""
        self._check(self._sends and not self._finished, "no frames are sent by a consumer, or after finish()")
        while not self._has_room():
            if not self._paused and self._all_held():
                raise all_held()
            if not self._poll(ROOM, timeout) & ROOM:
                raise TimeoutError(f"pipeline {self.welcome.pipeline} had no room for a frame within {timeout} s")
        frame = (self._free or self._spare).popleft()
        frame._place = HELD
        return frame

    def submit(self, frame: Frame, sequence: int = 0, timestamp: int = 0, deadline: int = 0) -> None:
        """Passes an acquired frame to the daemon, which owns it from here on.

        `sequence` is the caller's own number, which the result repeats. `timestamp` is when the frame was made, or 0 for its
        arrival; latency and the pipeline's deadline count from there. `deadline` is when the frame becomes useless, or 0 for
        the pipeline's deadline.
        """
        if self._problem is not None or self._finished or frame._place != HELD or frame._owner is not self or self._closed:
            self._check(frame._place == HELD and frame._owner is self,
                        "only a frame that this client gave can be submitted, and once")
            self._check(not self._finished, "nothing is submitted after finish()")
        self._send(frame, sequence, timestamp, deadline)

    def finish(self) -> None:
        """Announces that no frame will follow, and discards acquired frames. Frames in flight are still processed."""
        self._check(True, "")
        if self._sends and not self._finished:
            self._finished = True
            if not self._paused:
                self._finish()

    # -- results ------------------------------------------------------------------------------------------------------

    def receive(self, timeout: Optional[float] = None) -> Optional[Result]:
        """Waits for the next result, in frame order. Returns None at the end. TimeoutError after `timeout` seconds.

        The caller can hold as many results as there are slots. With shared memory a held result keeps its frame's slot, and a
        dropped frame is returned with its fate and without memory. Over a connection only `dropped` of the next result counts
        it.
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
        """Iterates over results until the end (see finish()), and skips dropped frames. Each is released before the next
        one."""
        result = self.receive()
        while result is not None:
            if result.memory is not None:
                yield result
                result.release()
            result = self.receive()

    def process(self, frames: Iterable[Any]) -> Iterator[Result]:
        """Sends each of `frames` (see Frame.fill()), numbered from 0, and yields the results as they come, as iterating does.

        Then it finishes: the client sends nothing more.
        """
        for sequence, data in enumerate(frames):
            there, waited = self._poll(ROOM | RESULT, 0), False
            while not self._has_room() or there & RESULT:
                result = self._next()
                if result is not None and result.memory is not None:
                    yield result
                    result.release()
                if waited and not there and not self._paused and self._all_held() and not self._poll(ROOM | RESULT, 0):
                    raise all_held()
                there, waited = self._poll(ROOM | RESULT, 0 if self._has_room() else LOOK_AGAIN), True
            frame = self.acquire()
            try:
                frame.fill(data)
                self.submit(frame, sequence)
            except BaseException:
                frame.cancel()
                raise
        self.finish()
        yield from self

    # -- the end ------------------------------------------------------------------------------------------------------

    def drain(self, timeout: Optional[float] = None) -> None:
        """Finishes a producer and waits until each frame has its fate. TimeoutError after `timeout` seconds."""
        self._check(not self._receives, "results are to be received, not drained")
        self.finish()
        if not self._poll(0, timeout) & END:
            raise TimeoutError(f"pipeline {self.welcome.pipeline} did not take all frames within {timeout} s")

    def close(self) -> None:
        """Closes the connection at once. Arrays keep their contents, but get no new ones."""
        if not self._closed:
            self._closed = True
            self._connection.close()
            if self._comeback is not None:
                self._comeback.close()
            self._forget()

    def _forget(self) -> None:
        """Drops all references to its memory, which is then freed with the caller's last array."""
        self._frames, self._outputs, self._arrays = [], [], []
        self._free.clear()
        self._spare.clear()

    def __enter__(self) -> "Client":
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Leaving the block without an error drains a producer's frames first."""
        try:
            if kind is None and not self._receives and not self._closed and self._problem is None:
                self.drain()
        finally:
            self.close()


def all_held() -> Error:
    return Error(Code.USAGE, "all places for frames are held by this program, as frames that were not submitted or results that were "
                 "not received and released")


def stamps_too_large() -> ValueError:
    return ValueError("sequence is a number of 64 bits without sign, timestamp and deadline are such with one")
