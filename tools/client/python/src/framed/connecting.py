"""From a path to a client: the connection, HELLO, WELCOME, and the memory that may come with it."""

import errno
import os
import select
import socket
import time
from typing import Optional, Union

from framed.borrowing import BorrowingClient
from framed.client import Client
from framed.comeback import Comeback
from framed.greeting import LONGEST_SLEEP, Greeting, milliseconds
from framed.shared import SharedClient
from framed.stream import StreamClient
from framed.wire import Role, Transport, Welcome


HINTS = {errno.ENOENT: "; is framed running, and is this its folder?", errno.ECONNREFUSED: "; is framed running?"}


def wait_for(connection: socket.socket, until: float, timeout: float) -> None:
    left = until - time.monotonic()
    if left <= 0:
        raise TimeoutError(f"no welcome came within {timeout} s; does the socket speak the native protocol?")
    poller = select.poll()
    poller.register(connection, select.POLLIN)
    poller.poll(milliseconds(left))


def greet(connection: socket.socket, comeback: Comeback, keeps: bool, spin: float, timeout: float) -> Client:
    role, transport, until = comeback.role, comeback.transport, time.monotonic() + timeout
    with Greeting(connection) as greeting:
        greeting.say_hello(role, transport, comeback.token if keeps else 0)
        connection.setblocking(False)
        welcome: Optional[Welcome] = greeting.step(role, transport)
        while welcome is None:
            wait_for(connection, until, timeout)
            welcome = greeting.step(role, transport)
        if welcome.transport == Transport.SHARED:
            kind = BorrowingClient if role == Role.CONSUMER else SharedClient
            return kind(connection, welcome, comeback if keeps else None, spin, greeting.descriptors)
        comeback.transport = Transport.STREAM
        return StreamClient(connection, welcome, comeback if keeps else None)


def connect(path: Union[str, "os.PathLike[str]"], role: int = Role.BOTH, *, transport: int = Transport.SHARED,
            spin: float = 100e-6, timeout: float = 10.0, reconnect_for: float = 10.0) -> Client:
    """Connects to the native socket at `path`, and returns when the daemon has welcomed the client.

    Where no memory can be shared the connection carries the frames; `transport` asks for that. `spin` is for how many seconds
    a call that waits looks again and again at shared memory before it sleeps. OSError where the socket cannot be reached,
    TimeoutError, or Error with the daemon's reason.

    A daemon that goes and is there again within `reconnect_for` seconds (0: the client fails at once) is a pause: the client
    connects again within the calls that are made or waited in, sends again what has no fate, and gives each result once. For a
    consumer that needs a sink with `overload: block` and no other reader, which waits for it. A daemon that does not come back
    is the end of a sink to a consumer, and an Error to others. What a consumer holds in shared memory may be written over once
    its connection is gone: it was whole if `welcome` is still the same one when the program is done with it.
    """
    role, path, transport = Role(role), os.fspath(path), Transport(transport)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.settimeout(min(timeout, LONGEST_SLEEP))  # Python refuses the largest
        try:
            connection.connect(path)
        except OSError as error:
            if error.errno is None:
                raise  # a time-out, or a path that is too long
            raise type(error)(error.errno, f"{error.strerror}{HINTS.get(error.errno, '')}", path) from None
        return greet(connection, Comeback(path, role, transport, reconnect_for), reconnect_for > 0, spin, timeout)
    except BaseException:
        connection.close()
        raise
