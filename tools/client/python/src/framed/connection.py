"""The connection of a client: its events, waiting, and reconnection.

A connection has a `problem` once it cannot take part in the protocol any more. Earlier results are still returned; then every
call raises the problem. If the client reconnects, a lost connection is only a pause: there is no problem, and calls behave as
with a slow daemon. Subclasses define frames, results and events.
"""

import select
import socket
import time
from typing import Optional

from framed.comeback import Comeback, GaveUp
from framed.frames import END, RESULT, ROOM, Event
from framed.greeting import Greeting, milliseconds
from framed.wire import Code, Error, Welcome


class Connection:
    def __init__(self, connection: socket.socket, welcome: Welcome, comeback: Optional[Comeback], spin: float) -> None:
        connection.setblocking(False)
        self.welcome = welcome
        self._connection = connection
        self._comeback = comeback  # None: it does not reconnect
        self._paused = self._over = False
        self._cause: Optional[Error] = None  # the reason of the pause
        self._quietly = False  # the connection ended as that of a sink does at its end
        self._spin = spin
        self._problem: Optional[Error] = None
        self._closed = False
        self._poller = select.poll()

    # -- what a transport does --------------------------------------------------------------------------------------

    def _look(self) -> int:
        """Does all work that needs no waiting. Returns the pending events."""
        raise NotImplementedError

    def _arm(self) -> int:
        """Called before a sleep. Returns the poll events of the connection that must end it."""
        raise NotImplementedError

    def _wake(self, conditions: int) -> None:
        """Called after a sleep."""
        raise NotImplementedError

    def _events(self) -> int:
        """The pending events, without any work."""
        raise NotImplementedError

    def _lose(self) -> None:
        """The connection is lost. Frames without a known fate will be sent again."""
        raise NotImplementedError

    def _resume(self, greeting: Greeting) -> None:
        """A new connection exists. If it raises Error or OSError, nothing has changed."""
        raise NotImplementedError

    def _reach_end(self) -> None:
        """There will be no new connection, which ends a sink normally."""
        raise NotImplementedError

    # -- waiting ------------------------------------------------------------------------------------------------------

    def poll(self, wanted: int = RESULT | ROOM, timeout: Optional[float] = None) -> Event:
        """Waits for one of the `wanted` events, or the end. Returns all pending events; none after `timeout`."""
        self._check(True, "")
        return Event(self._poll(wanted, timeout))

    def fileno(self) -> int:
        """The descriptor for the caller's event loop (see arm()). Do not read, write or close it. It stays the same for the
        client's life."""
        return self._connection.fileno() if self._comeback is None else self._comeback.waiting().fileno()

    def arm(self, wanted: int = RESULT | ROOM) -> "tuple[Event, int]":
        """Returns the pending events. If none is wanted, also returns the poll events (select.POLLIN, POLLOUT) of the
        descriptor to wait for before the next call."""
        wanted |= END
        if not self._paused:
            self._wake(select.POLLIN)
        there = self._look_or_raise(wanted)
        conditions = 0
        if not there & wanted:
            there, conditions = self._arm_and_look(wanted)
        if not there & wanted and conditions == 0 and self._comeback is None:  # no loop would notice the end
            self._wake(sum(shown for _, shown in self._wait_for(0, 0)))
            there = self._look_or_raise(wanted)
        if there & wanted:
            return Event(there), 0
        return Event(there), self._watch(conditions)

    def _arm_and_look(self, wanted: int) -> "tuple[int, int]":
        """Asks the daemon to wake this client, then looks again, since an event may have come before the request. If that look
        changes the connection, the request is void and is repeated."""
        while True:
            before = self._paused, self._connection
            conditions = select.POLLIN if self._paused else self._arm()
            there = self._look_or_raise(wanted)
            if there & wanted or before == (self._paused, self._connection):
                return there, conditions

    def _watch(self, conditions: int) -> int:
        """Watches the connection, or the time of the next attempt. Returns the poll events of the descriptor."""
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
                ready = self._wait_for(conditions, seconds)
                woken = ready[0][1] if ready else 0
        finally:
            if not self._paused:
                self._wake(woken)

    def _wait_for(self, conditions: int, seconds: Optional[float]) -> "list[tuple[int, int]]":
        """poll() always reports the connection's end. A client that reconnects ignores it unless it waits for data, since it
        notices the end later anyway."""
        poller = self._poller if conditions or self._comeback is None else select.poll()
        if poller is self._poller:
            poller.register(self._connection, conditions)
        return poller.poll(None if seconds is None else milliseconds(seconds))

    def _sleep_through_pause(self, seconds: Optional[float]) -> None:
        assert self._comeback is not None
        patience = self._comeback.patience()
        poller = select.poll()
        if self._comeback.greeting is not None:
            poller.register(self._comeback.greeting.connection, select.POLLIN)
        poller.poll(milliseconds(patience if seconds is None else min(patience, seconds)))

    def _look_or_raise(self, wanted: int) -> int:
        there = self._look_again() if self._paused else self._look()
        if self._problem is not None and self._may_come_back():
            self._begin_pause()
            there = self._look_again()
            if self._problem is not None and self._may_come_back():  # lost again at once, so the next call continues
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
            pass  # it was never registered, or is closed
        self._connection.close()
        if self._comeback is not None:
            self._comeback.forget()

    def _look_again(self) -> int:
        """Makes one step of a pause. Returns the pending events."""
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
        """Uses a new connection. If memory or descriptors are short, nothing has changed, and the attempt counts as failed."""
        comeback, before = self._comeback, (self.welcome, self._connection)
        assert comeback is not None and comeback.greeting is not None
        self.welcome, self._connection = welcome, comeback.greeting.connection
        try:
            self._resume(comeback.greeting)
        except (Error, OSError) as error:
            self.welcome, self._connection = before
            comeback.fail(error)
            return
        with comeback.greeting:
            comeback.greeting = None
            self._paused = False

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
