"""What both transports have in common: frames, results, and waiting.

A client has a `problem` from the moment at which it can take part in the protocol no more; results that came before are
still given out, and then every call raises it. One that may connect again makes a pause of the end of a connection: there is none
then, and calls do what they do with a daemon that is slow.
"""

import collections
import select
import socket
import threading
import time
from typing import Any, Callable, Deque, Iterable, Iterator, Optional

from framed import formats
from framed.comeback import Comeback, GaveUp
from framed.frames import END, HELD, RESULT, ROOM, Event, Frame, Result
from framed.greeting import Greeting
from framed.wire import Code, Error, Role, Transport, Welcome


class Client:
    """One connection to one pipeline, made by connect(). Leaving its `with` block closes it."""

    def __init__(self, connection: socket.socket, welcome: Welcome, comeback: Optional[Comeback], spin: float) -> None:
        connection.setblocking(False)
        self.welcome = welcome
        self._connection = connection
        self._comeback = comeback  # None: it does not connect again
        self._keeps = comeback is not None
        self._paused = self._over = False
        self._cause: Optional[Error] = None  # of the pause
        self._quietly = False  # the connection ended as that of a sink does at its end
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
        self._spare: Deque[Frame] = collections.deque()  # taken only where no other is free
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

    def _take_back(self, frame: Frame) -> None:
        self._free.appendleft(frame)

    def _has_room(self) -> bool:
        return bool(self._free or self._spare)

    def _events(self) -> int:
        """The events that are there without a look."""
        raise NotImplementedError

    def _lose(self) -> None:
        """The connection is gone: what is not known to have a fate will be sent again."""
        raise NotImplementedError

    def _resume(self, greeting: Greeting) -> None:
        """There is another."""
        raise NotImplementedError

    def _reach_end(self) -> None:
        """There will be none, which is the end of a sink."""
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
        while not self._has_room():
            if not self._paused and self._all_held():
                raise Error(Code.USAGE, "all places for frames are held by this program, as frames that were not submitted or "
                            "results that were not received and released")
            if not self._poll(ROOM, timeout) & ROOM:
                raise TimeoutError(f"pipeline {self.welcome.pipeline} had no room for a frame within {timeout} s")
        frame = (self._free or self._spare).popleft()
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
            if not self._paused:
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
            while not self._has_room() or there & RESULT:
                result = self._next()
                if result is not None and result.memory is not None:
                    yield result
                    result.release()
                there = self._poll(ROOM | RESULT, 0 if self._has_room() else None)
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
        """The descriptor to wait for in a loop of the caller's own (see arm()); not to be read, written or closed. It is the same
        one for the client's life."""
        return self._connection.fileno() if self._comeback is None else self._comeback.waiting().fileno()

    def arm(self, wanted: int = RESULT | ROOM) -> "tuple[Event, int]":
        """The events that are there; and if none is of `wanted`, which conditions (select.POLLIN, POLLOUT) of the descriptor
        to wait for before the next call."""
        wanted |= END
        if not self._paused:
            self._wake(select.POLLIN)
        there = self._look_or_raise(wanted)
        conditions = 0
        if not there & wanted:
            there, conditions = self._arm_and_look(wanted)
        if there & wanted:
            return Event(there), 0
        return Event(there), self._watch(conditions)

    def _arm_and_look(self, wanted: int) -> "tuple[int, int]":
        """Has the daemon wake us, and looks for the last time before that is relied on. If just that look has made another
        connection, nobody would wake us for what it is told of: then all of it once more."""
        while True:
            before = self._paused, self._connection
            conditions = select.POLLIN if self._paused else self._arm()
            there = self._look_or_raise(wanted)
            if there & wanted or before == (self._paused, self._connection):
                return there, conditions

    def _watch(self, conditions: int) -> int:
        """What to wait for so that the connection has these conditions, or it is time for the next try."""
        comeback = self._comeback
        if comeback is None:
            return conditions
        if self._paused:
            connection = comeback.greeting.connection if comeback.greeting else None
            comeback.waiting().watch(connection, select.POLLIN, comeback.patience())
        else:
            comeback.waiting().watch(self._connection, conditions, 0)
        return select.POLLIN

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
        if self._paused:
            self._sleep_through_pause(seconds)
            return
        woken = 0
        try:
            there, conditions = self._arm_and_look(wanted)
            if not there & wanted and not self._paused:
                self._poller.register(self._connection, conditions)
                ready = self._poller.poll(None if seconds is None else seconds * 1000 + 1)
                woken = ready[0][1] if ready else 0
        finally:
            if not self._paused:
                self._wake(woken)

    def _sleep_through_pause(self, seconds: Optional[float]) -> None:
        assert self._comeback is not None
        patience = self._comeback.patience()
        poller = select.poll()
        if self._comeback.greeting is not None:
            poller.register(self._comeback.greeting.connection, select.POLLIN)
        poller.poll((patience if seconds is None else min(patience, seconds)) * 1000 + 1)

    def _look_or_raise(self, wanted: int) -> int:
        there = self._look_again() if self._paused else self._look()
        if self._problem is not None and self._may_come_back():
            self._begin_pause()
            there = self._look_again()
            if self._problem is not None and self._may_come_back():  # it went again at once, which is for the next time
                self._begin_pause()
                there = self._events()
        if self._problem is not None and not there & wanted & (RESULT | END):
            self._check(True, "")
        return there

    # -- another connection -------------------------------------------------------------------------------------------

    def _may_come_back(self) -> bool:
        return (self._comeback is not None and not self._over and self._problem is not None
                and self._problem.code in (Code.CLOSED, Code.STOPPING))

    def _begin_pause(self) -> None:
        assert self._comeback is not None
        self._cause, self._problem = self._problem, None
        self._disconnect()
        self._lose()
        self._paused = True
        self._comeback.begin()

    def _disconnect(self) -> None:
        try:
            self._poller.unregister(self._connection)
        except (KeyError, ValueError):
            pass  # it was never slept for, or is closed
        self._connection.close()
        if self._comeback is not None:
            self._comeback.forget()

    def _look_again(self) -> int:
        """One step of a pause; the events that are there."""
        comeback = self._comeback
        assert comeback is not None
        try:
            welcome = comeback.step(self.welcome)
            if welcome is not None:
                self._take_up(welcome)
        except Error as error:
            self._end_for_good(error)
        except GaveUp as problem:
            cause = self._cause or Error(Code.CLOSED, "")
            self._end_for_good(None if self._quietly else Error(cause.code, f"{cause.sentence}; and it did not come back: {problem}"))
        return self._events() if self._paused or self._problem is not None else self._look()

    def _take_up(self, welcome: Welcome) -> None:
        comeback = self._comeback
        assert comeback is not None and comeback.greeting is not None
        with comeback.greeting as greeting:
            comeback.greeting = None
            self.welcome, self._connection = welcome, greeting.connection
            self._paused = False
            self._resume(greeting)

    def _end_for_good(self, problem: Optional[Error]) -> None:
        if self._comeback is not None:
            self._comeback.drop()
        self._paused = False
        self._over = True
        if problem is None:
            self._reach_end()
        else:
            self._problem = problem

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
            if self._comeback is not None:
                self._comeback.close()
            self._forget()

    def _forget(self) -> None:
        """Keeps nothing that belongs to this client, so that its memory ends with the last array that the caller has."""
        self._frames, self._outputs, self._arrays = [], [], []
        self._free.clear()
        self._spare.clear()

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
