"""Reconnection: when a client tries to connect again, and the marks of its frames.

Nothing here waits: an attempt proceeds in steps, and a sleeping caller asks when the next one is due. For the caller's event
loop there is a descriptor that stays the same through every pause.
"""

import ctypes
import os
import select
import socket
import struct
import time
from typing import Dict, Optional

from framed.greeting import LONGEST_SLEEP, Greeting
from framed.wire import AGAIN, Code, Error, Welcome

SHORTEST_WAIT, LONGEST_WAIT = 0.001, 0.05  # seconds
NUMBERS, NUMBER_SHIFT, CLIENT_SHIFT, CLIENTS = 256, 4, 12, 1 << 20
FINAL = {Code.PROTOCOL, Code.VERSION, Code.ROLE, Code.DENIED, Code.DAEMON}  # permanent refusals
TIMER_FORM = struct.Struct("@llll")


class GaveUp(Exception):
    """The daemon has not returned in time."""


class Timer:
    """A timerfd; Python has no call for it before 3.13."""

    def __init__(self) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        descriptor = self._libc.timerfd_create(time.CLOCK_MONOTONIC, os.O_CLOEXEC | os.O_NONBLOCK)
        if descriptor < 0:
            raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
        self._file = open(descriptor, "rb", buffering=0)  # closes the descriptor with its last reference

    def fileno(self) -> int:
        return self._file.fileno()

    def close(self) -> None:
        self._file.close()

    def set(self, seconds: float) -> None:
        """0: stops the timer."""
        ns = int(min(seconds, LONGEST_SLEEP) * 1e9)
        self._libc.timerfd_settime(self.fileno(), 0, TIMER_FORM.pack(0, 0, ns // 1000000000, ns % 1000000000), None)


class Waiting:
    """A descriptor for the caller's event loop: ready with the connection, or at the next attempt."""

    def __init__(self) -> None:
        self._epoll = select.epoll()
        self._timer = Timer()
        self._epoll.register(self._timer.fileno(), select.EPOLLIN)
        self._watched: Optional[socket.socket] = None

    def fileno(self) -> int:
        return self._epoll.fileno()

    def watch(self, connection: Optional[socket.socket], conditions: int, patience: float) -> None:
        self._timer.set(patience)
        events = (select.EPOLLIN if conditions & select.POLLIN else 0) | (select.EPOLLOUT if conditions & select.POLLOUT else 0)
        wanted = connection if events else None  # an epoll always reports an end, so an unwatched connection must be removed
        if wanted is not None and wanted is self._watched:
            self._epoll.modify(wanted.fileno(), events)
        elif wanted is not None:
            self._epoll.register(wanted.fileno(), events)
        elif self._watched is not None:
            self._epoll.unregister(self._watched.fileno())
        self._watched = wanted

    def forget(self) -> None:
        """Forgets the connection. Closing it removes it from the epoll."""
        self._watched = None

    def close(self) -> None:
        self._epoll.close()
        self._timer.close()


class Comeback:
    def __init__(self, path: str, role: int, transport: int, seconds: float) -> None:
        self.path, self.role, self.transport, self.seconds = path, role, transport, seconds
        self.token = int.from_bytes(os.urandom(8), "little") or 1
        self.greeting: Optional[Greeting] = None  # of the current attempt
        self._numbered = 0
        self._last: Dict[int, int] = {}  # a consumer's: the number of the last result of each client
        self._since = self._until = self._next = 0.0
        self._wait = SHORTEST_WAIT
        self._waiting: Optional[Waiting] = None

    # -- marks --------------------------------------------------------------------------------------------------------

    def mark(self) -> int:
        """The mark of the next frame, by which consumers recognise its result."""
        number = self._numbered % NUMBERS
        self._numbered += 1
        return self.token % CLIENTS << CLIENT_SHIFT | number << NUMBER_SHIFT

    def is_new(self, flags: int) -> bool:
        """Notes that a consumer received a result with these flags. False if it already had it."""
        client, number = flags >> CLIENT_SHIFT, flags >> NUMBER_SHIFT & NUMBERS - 1
        last = self._last.get(client)
        if flags & AGAIN and last is not None and (last - number) % NUMBERS < NUMBERS // 2:
            return False
        self._last[client] = number
        return True

    # -- tries --------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begins a pause. A connection that lasted only a moment is not retried at once."""
        now = time.monotonic()
        was_there = now - self._since > LONGEST_WAIT
        self._wait = SHORTEST_WAIT if was_there else self._wait
        self._next = now if was_there else now + self._wait
        self._until = now + self.seconds

    def patience(self) -> float:
        """How long to sleep before the next step, unless the connection becomes readable."""
        until = self._until if self.greeting else self._next
        return max(until - time.monotonic(), 1e-6)

    def step(self, before: Welcome) -> Optional[Welcome]:
        """Makes one step. Returns the welcome of the new connection in `greeting`, which the caller must end, or None. Raises
        Error if the daemon refuses the client permanently, and GaveUp when its time is over."""
        now = time.monotonic()
        if self.greeting is None and now < self._next:
            return None
        try:
            if self.greeting is None:
                self._connect()
            assert self.greeting is not None
            welcome = self.greeting.step(self.role, self.transport)
            if welcome is None and now >= self._until:
                raise TimeoutError("no welcome came")
            if welcome is not None:
                same_pipeline(welcome, before)
                self._since = now
            return welcome
        except (Error, OSError) as error:
            self.fail(error)
            return None

    def fail(self, error: Exception) -> None:
        """Ends a failed attempt and plans the next one. Raises if the refusal is permanent or the time is over."""
        self.drop()
        if isinstance(error, Error) and error.code in FINAL:
            raise error
        now = time.monotonic()
        if now >= self._until:
            raise GaveUp(str(error)) from None
        self._next = now + self._wait
        self._wait = min(2 * self._wait, LONGEST_WAIT)

    def _connect(self) -> None:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        connection.setblocking(False)
        self.greeting = Greeting(connection)
        connection.connect(self.path)
        self.greeting.say_hello(self.role, self.transport, self.token)

    def drop(self) -> None:
        """Ends the current attempt."""
        if self.greeting is not None:
            with self.greeting:
                self.greeting.connection.close()
        self.greeting = None
        self.forget()

    # -- loops of the caller's own --------------------------------------------------------------------------------------

    def waiting(self) -> Waiting:
        if self._waiting is None:
            self._waiting = Waiting()
        return self._waiting

    def forget(self) -> None:
        if self._waiting is not None:
            self._waiting.forget()

    def close(self) -> None:
        self.drop()
        if self._waiting is not None:
            self._waiting.close()
            self._waiting = None


def same_pipeline(welcome: Welcome, before: Welcome) -> None:
    formats = (welcome.input_bytes, welcome.output_bytes, welcome.input_format, welcome.output_format)
    if formats != (before.input_bytes, before.output_bytes, before.input_format, before.output_format):
        raise Error(Code.DAEMON, f"pipeline {before.pipeline} is there again with other formats: "
                    f"{welcome.input_format} to {welcome.output_format}")
    if welcome.transport != before.transport:
        raise Error(Code.INTERNAL, f"pipeline {before.pipeline} no longer offers shared memory")
