"""Makes a client from a path: connection, HELLO, WELCOME, and the memory of the WELCOME."""

import errno
import os
import select
import socket
import time
from typing import Optional, Union

from framed.client import Client
from framed.comeback import Comeback
from framed.consumer import SharedConsumer
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
            kind = SharedConsumer if role == Role.CONSUMER else SharedClient
            return kind(connection, welcome, comeback if keeps else None, spin, greeting.descriptors)
        comeback.transport = Transport.STREAM
        return StreamClient(connection, welcome, comeback if keeps else None)


def connect(path: Union[str, "os.PathLike[str]"], role: int = Role.BOTH, *, transport: int = Transport.SHARED,
            spin: float = 100e-6, timeout: float = 10.0, reconnect_for: float = 10.0) -> Client:
    """Connects to the native socket at `path`, and returns after the daemon's welcome.

    Without shared memory the connection carries the frames; `transport` can ask for that. `spin` is for how many seconds a
    waiting call polls shared memory before it sleeps. Raises OSError if the socket cannot be reached, TimeoutError, or Error
    with the daemon's reason.

    If the daemon stops and returns within `reconnect_for` seconds (0: the client fails at once), the client reconnects during
    its next calls. It sends frames without a known fate again, and returns each result once. For a consumer this needs a sink
    with `overload: block` and no other reader. If the daemon does not return, a consumer reaches the end of the sink, and other
    clients raise Error.

    With shared memory, results that a consumer holds may be overwritten once the connection is lost. A result was intact if
    `welcome` is the same object before and after the program used it.
    """
    role, path, transport = Role(role), os.fspath(path), Transport(transport)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.settimeout(min(timeout, LONGEST_SLEEP))  # Python rejects the largest values
        try:
            connection.connect(path)
        except OSError as error:
            if error.errno is None:
                raise  # a timeout, or a path that is too long
            raise type(error)(error.errno, f"{error.strerror}{HINTS.get(error.errno, '')}", path) from None
        return greet(connection, Comeback(path, role, transport, reconnect_for), reconnect_for > 0, spin, timeout)
    except BaseException:
        connection.close()
        raise
