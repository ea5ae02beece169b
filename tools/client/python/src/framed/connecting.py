"""From a path to a client: the connection, HELLO, WELCOME, and the memory that may come with it.

Exactly the bytes of WELCOME are read, since results may follow them.
"""

import os
import socket
import time
from typing import Union

from framed import wire
from framed.client import Client
from framed.shared import SharedClient
from framed.stream import StreamClient
from framed.wire import Code, Error, Role, Transport, Welcome

MOST_DESCRIPTORS = 8


class Greeting:
    """What comes before there is a client. Its descriptors are closed at the end: mapped memory stays."""

    def __init__(self, connection: socket.socket, timeout: float) -> None:
        self.connection = connection
        self.timeout = timeout
        self.until = time.monotonic() + timeout
        self.descriptors: "list[int]" = []

    def __enter__(self) -> "Greeting":
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)

    def late(self) -> TimeoutError:
        return TimeoutError(f"no welcome came within {self.timeout} s; does the socket speak the native protocol?")

    def hurry(self) -> None:
        left = self.until - time.monotonic()
        if left <= 0:
            raise self.late()
        self.connection.settimeout(left)

    def some(self, count: int) -> bytes:
        self.hurry()
        try:
            data, descriptors, flags, _ = socket.recv_fds(self.connection, count, MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
        except socket.timeout:
            raise self.late() from None
        except ConnectionResetError:
            return b""
        self.descriptors += descriptors
        if flags & socket.MSG_CTRUNC:
            raise Error(Code.DAEMON, "descriptors of the welcome were lost; is the limit of open files reached?")
        return data

    def read(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            more = self.some(count - len(data))
            if not more:
                raise Error(Code.CLOSED, "the daemon closed the connection before it welcomed this client")
            data += more
        return data

    def say_hello(self, role: int, transport: int) -> None:
        self.hurry()
        try:
            self.connection.sendall(wire.hello(role, transport), socket.MSG_NOSIGNAL)
        except (BrokenPipeError, ConnectionResetError):
            pass  # it may have said why

    def read_welcome(self) -> Welcome:
        begun = self.read(wire.HEADER_FORM.size)
        magic, kind, flags, length = wire.HEADER_FORM.unpack(begun)
        if magic != wire.MAGIC:
            raise self.no_native(begun)
        if wire.is_error(magic, kind, flags, length):
            raise wire.error_of(self.read(length))
        if (kind, flags, length) != (wire.WELCOME, 0, wire.WELCOME_FORM.size):
            raise Error(Code.DAEMON, f"a message of type {kind} and {length} bytes came where WELCOME was due")
        return wire.welcome_of(self.read(length))

    def no_native(self, begun: bytes) -> Error:
        """What a socket of another protocol says to whom it turns away is a line."""
        line = (begun + self.some(512)).partition(b"\n")[0].decode(errors="replace")
        if line.startswith("framed: "):
            return Error(Code.DAEMON, f"this is no native socket: {line[8:]}")
        return Error(Code.DAEMON, "what listens there does not speak the native protocol of framed")


def check_welcome(welcome: Welcome, role: int, transport: int) -> None:
    fine = (welcome.version == wire.VERSION and welcome.role == role and welcome.transport <= transport
            and 1 <= welcome.slots <= wire.MOST_SLOTS and welcome.output_bytes > 0
            and (welcome.input_bytes > 0 or role == Role.CONSUMER))
    if not fine:
        raise Error(Code.DAEMON, f"the welcome makes no sense: {welcome}")


def greet(connection: socket.socket, role: int, transport: int, spin: float, timeout: float) -> Client:
    with Greeting(connection, timeout) as greeting:
        greeting.say_hello(role, transport)
        welcome = greeting.read_welcome()
        check_welcome(welcome, role, transport)
        promised = 3 if welcome.transport == Transport.SHARED else 0
        if len(greeting.descriptors) != promised:
            raise Error(Code.DAEMON, f"{len(greeting.descriptors)} descriptors came with the welcome, where {promised} should")
        if promised:
            return SharedClient(connection, welcome, spin, greeting.descriptors)
        return StreamClient(connection, welcome)


def connect(path: Union[str, "os.PathLike[str]"], role: int = Role.BOTH, *, transport: int = Transport.SHARED,
            spin: float = 100e-6, timeout: float = 10.0) -> Client:
    """Connects to the native socket at `path`, and returns when the daemon has welcomed the client.

    Where no memory can be shared, and for consumers, the connection carries the frames; `transport` asks for that. `spin` is
    for how many seconds a call that waits looks again and again at shared memory before it sleeps. OSError where the socket
    cannot be reached, TimeoutError, or Error with the daemon's reason.
    """
    role, path = Role(role), os.fspath(path)
    transport = Transport.STREAM if role == Role.CONSUMER else Transport(transport)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        connection.settimeout(timeout)
        try:
            connection.connect(path)
        except OSError as error:
            if error.errno is None:
                raise  # a time-out, or a path that is too long
            raise type(error)(error.errno, error.strerror, path) from None
        return greet(connection, role, transport, spin, timeout)
    except BaseException:
        connection.close()
        raise
