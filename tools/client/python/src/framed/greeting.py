"""A connection up to its WELCOME. Nothing here waits: each step reads what is available.

Only the bytes of WELCOME are read, since results may follow.
"""

import errno
import os
import socket
from typing import Optional

from framed import wire
from framed.wire import Code, Error, Role, Transport, Welcome

MOST_DESCRIPTORS = 8
LONGEST_SLEEP = 3600.0  # seconds; longer waits wake up in between


def milliseconds(seconds: float) -> float:
    """A timeout for select.poll, which accepts at most 24 days. It is 1 ms longer, so that a wait never ends too early."""
    return min(seconds, LONGEST_SLEEP) * 1000 + 1


class Greeting:
    """Leaving its `with` block closes the descriptors; mapped memory remains."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.descriptors: "list[int]" = []
        self._data = b""

    def __enter__(self) -> "Greeting":
        return self

    def __exit__(self, *_: object) -> None:
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors = []

    def say_hello(self, role: int, transport: int, token: int) -> None:
        try:
            self.connection.sendall(wire.hello(role, transport, token), socket.MSG_NOSIGNAL)
        except (BrokenPipeError, ConnectionResetError):
            pass  # the daemon may have sent the reason before it closed the connection

    def _some(self, count: int) -> bytes:
        flags = socket.MSG_CMSG_CLOEXEC | socket.MSG_DONTWAIT
        try:
            data, descriptors, flags, _ = socket.recv_fds(self.connection, count, MOST_DESCRIPTORS, flags)
        except ConnectionResetError:
            return b""
        self.descriptors += descriptors
        if flags & socket.MSG_CTRUNC:
            raise OSError(errno.EMFILE, "no descriptors are left for the memory of the pipeline")
        return data

    def _has(self, count: int) -> bool:
        """Reads until so many bytes have come. Returns whether they have."""
        try:
            while len(self._data) < count:
                more = self._some(count - len(self._data))
                if not more:
                    raise Error(Code.CLOSED, "the daemon closed the connection before it welcomed this client")
                self._data += more
        except (BlockingIOError, InterruptedError):
            return False
        return True

    def step(self, role: int, transport: int) -> Optional[Welcome]:
        """The welcome, or None until it is complete."""
        begun = wire.HEADER_FORM.size
        if not self._has(begun):
            return None
        magic, kind, flags, length = wire.HEADER_FORM.unpack_from(self._data)
        if magic != wire.MAGIC:
            raise self._no_native()
        if wire.is_error(magic, kind, flags, length):
            if not self._has(begun + length):
                return None
            raise wire.error_of(self._data[begun:])
        if (kind, flags, length) != (wire.WELCOME, 0, wire.WELCOME_FORM.size):
            raise Error(Code.DAEMON, f"a message of type {kind} and {length} bytes came where WELCOME was due")
        return self._checked(wire.welcome_of(self._data[begun:]), role, transport) if self._has(begun + length) else None

    def _no_native(self) -> Error:
        """Reads the refusal of a socket with another protocol, which is a line."""
        try:
            self._data += self._some(512)
        except (BlockingIOError, InterruptedError):
            pass
        line = self._data.partition(b"\n")[0].decode(errors="replace")
        if line.startswith("framed: "):
            return Error(Code.DAEMON, f"this is no native socket: {line[8:]}")
        return Error(Code.DAEMON, "the listener does not speak the native protocol of framed")

    def _checked(self, welcome: Welcome, role: int, transport: int) -> Welcome:
        fine = (welcome.version == wire.VERSION and welcome.role == role and welcome.transport <= transport
                and 1 <= welcome.slots <= wire.MOST_SLOTS and welcome.output_bytes > 0
                and (welcome.input_bytes > 0 or role == Role.CONSUMER))
        if not fine:
            raise Error(Code.DAEMON, f"the welcome makes no sense: {welcome}")
        descriptors = 2 if role == Role.CONSUMER else 3
        promised = descriptors if welcome.transport == Transport.SHARED else 0
        if len(self.descriptors) != promised:
            raise Error(Code.DAEMON, f"{len(self.descriptors)} descriptors came with the welcome, where {promised} should")
        return welcome
