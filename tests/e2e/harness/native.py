"""A native client written from the bytes in framed-protocol(7) alone, without the daemon's or the clients' code."""

import contextlib
import mmap
import os
import socket
import struct
import threading
from typing import NamedTuple

from harness.clients import Client
from harness.waiting import wait_until

PRODUCER, CONSUMER, BOTH = 1, 2, 3
HELLO, WELCOME, FRAME, RESULT, ERROR, ACK = 1, 2, 3, 4, 5, 6
AGAIN, MARKS = 2, 0xFFFFFFF0  # flags of a frame that come back in its result
E_PROTOCOL, E_VERSION, E_ROLE, E_BUSY, E_QUOTA, E_TIMEOUT, E_STOPPING, E_INTERNAL, E_DENIED = range(1, 10)


class Refused(Exception):
    def __init__(self, code, sentence):
        super().__init__(sentence)
        self.code = code


class NotLent(Exception):
    """The daemon has no memory to lend at this moment; the client may send its frames over the socket."""


class Welcome(NamedTuple):
    version: int
    role: int
    transport: int
    slots: int
    input_bytes: int
    output_bytes: int
    input_stride: int
    output_stride: int
    control_bytes: int
    session: int
    pipeline: str
    input_format: str
    output_format: str


class Result(NamedTuple):
    sequence: int
    dropped: int
    timestamp: int
    steps: tuple
    session: int
    flags: int
    number: int
    epoch: int
    payload: bytes


def message(kind, body, payload=0):
    return b"FRMD" + struct.pack("<HHQ", kind, 0, len(body) + payload) + body


def hello(role, transport=0, version=1):
    return message(HELLO, struct.pack("<IIII", version, role, transport, 0))


def long_hello(role, token, flags=1, transport=0, version=1):
    return message(HELLO, struct.pack("<IIIIQ", version, role, transport, flags, token))


def frame(payload, sequence=0, timestamp=0, deadline=0, flags=0):
    return message(FRAME, struct.pack("<QqqII", sequence, timestamp, deadline, flags, 0), len(payload)) + payload


def text(field):
    return field.rstrip(b"\0").decode()


class Native(Client):
    """Says HELLO and waits for the answer."""

    def __init__(self, path, role, token=0, **options):
        super().__init__(path, **options)
        try:
            self.greet(long_hello(role, token) if token else hello(role))
            self.welcome = self.read_welcome()
        except BaseException:
            self.close()
            raise

    def greet(self, hello_message):
        """One that was turned away at once cannot send, and finds the reason in what it reads."""
        with contextlib.suppress(BrokenPipeError):
            self.send(hello_message)

    def message(self):
        """The type and body of the next message."""
        return self.rest_of_message(self.read(16))

    def rest_of_message(self, begun):
        """The same, where its first bytes have come."""
        begun += self.read(max(16 - len(begun), 0))
        magic, kind, flags, length = struct.unpack("<4sHHQ", begun[:16])
        assert magic == b"FRMD" and flags == 0
        body = begun[16:] + self.read(16 + length - len(begun))
        if kind == ERROR:
            code, zero = struct.unpack("<II", body[:8])
            assert zero == 0
            raise Refused(code, body[8:].decode())
        return kind, body

    def read_welcome(self):
        return self.welcome_of(*self.message())

    @staticmethod
    def welcome_of(kind, body):
        assert kind == WELCOME and len(body) == 256
        fields = struct.unpack("<IIIIQQQQQQ64s64s64s", body)
        return Welcome(*fields[:10], *map(text, fields[10:]))

    def send_frame(self, payload, **stamps):
        self.send(frame(payload, **stamps))

    def acknowledged(self):
        """Of how many frames the next message, which is no result, says that they have their fate."""
        kind, body = self.message()
        assert kind == ACK and len(body) == 8
        return struct.unpack("<Q", body)[0]

    def result(self):
        kind, body = self.message()
        assert kind == RESULT
        fields = struct.unpack("<QQq8IIIQQ", body[:80])
        return Result(*fields[:3], fields[3:11], *fields[11:], body[80:])


class Words:
    """Control memory and descriptors that come with it."""

    def word(self, offset, value=None):
        if value is not None:
            self.cursors[offset // 4] = value & 0xFFFFFFFF
        return self.cursors[offset // 4]

    def close(self):
        for descriptor in getattr(self, "descriptors", ()):
            os.close(descriptor)
        self.descriptors = ()
        super().close()


class Borrower(Words, Native):
    """A consumer with shared memory."""

    RING, COMPLETIONS = 16, 12288

    def __init__(self, path, **options):
        Client.__init__(self, path, **options)
        try:
            self.greet(hello(CONSUMER, transport=1))
            begun, self.descriptors, _, _ = socket.recv_fds(self.socket, 16 + 256, 3)
            self.welcome = welcome = self.welcome_of(*self.rest_of_message(begun))
            if welcome.transport == 0:
                raise NotLent
            assert len(self.descriptors) == 2 and welcome.input_stride == 0
            self.output = mmap.mmap(self.descriptors[0], welcome.slots * welcome.output_stride, prot=mmap.PROT_READ)
            self.control = mmap.mmap(self.descriptors[1], welcome.control_bytes)
            self.cursors = memoryview(self.control).cast("I")
            self.seen = self.taken = 0
        except BaseException:
            self.close()
            raise

    def lent(self):
        """How many results wait that were not received."""
        return (self.word(4096) - self.seen) & 0xFFFFFFFF

    def result(self, seconds=20):
        """The next one, waiting for it without sleeping: (slot, result with payload). It is held until taken."""
        wait_until(lambda: self.lent() > 0, "a result", seconds)
        at = self.COMPLETIONS + self.seen % self.RING * 88
        slot, fate, *fields = struct.unpack("<IIQQq8IIIQQ", self.control[at:at + 88])
        assert fate == 0
        self.seen += 1
        return slot, Result(*fields[:3], tuple(fields[3:11]), *fields[11:], self.payload(slot))

    def payload(self, slot):
        at = slot * self.welcome.output_stride
        return self.output[at:at + self.welcome.output_bytes]

    def take(self, count=1):
        """Gives the oldest back, and wakes the daemon if it sleeps; taking a lock is the fence in between."""
        self.taken += count
        self.word(64, self.taken)
        with threading.Lock():
            sleeps = self.word(4096 + 64)
        if sleeps:
            self.word(4096 + 64, 0)
            self.send(b"\0")

    def sleep(self):
        """Waits until the daemon rings, unless there is a result by now."""
        self.word(128, 1)
        with threading.Lock():
            there = self.lent() > 0
        if not there:
            self.hear()
        self.word(128, 0)

    def hear(self):
        """A doorbell; the end, or an ERROR, is raised."""
        heard = self.socket.recv(64)
        if not heard:
            raise EOFError("the daemon ends it")
        behind = heard.lstrip(b"\0")
        if behind:
            self.rest_of_message(behind)


class Shared(Words, Native):
    """A producer, or both, with shared memory: the layout as in the manual page, each number at its offset."""

    RING, SUBMISSIONS, COMPLETIONS = 16, 8192, 12288

    def __init__(self, path, role=BOTH, **options):
        Client.__init__(self, path, **options)
        try:
            self.greet(hello(role, transport=1))
            begun, self.descriptors, _, _ = socket.recv_fds(self.socket, 16 + 256, 3)
            self.welcome = self.welcome_of(*self.rest_of_message(begun))
            descriptors = self.descriptors
            if self.welcome.transport == 0:
                raise NotLent
            assert len(descriptors) == 3
            slots, welcome = self.welcome.slots, self.welcome
            self.input = mmap.mmap(descriptors[0], slots * welcome.input_stride)
            self.output = mmap.mmap(descriptors[1], slots * welcome.output_stride, prot=mmap.PROT_READ)
            self.control = mmap.mmap(descriptors[2], welcome.control_bytes)
            self.cursors = memoryview(self.control).cast("I")
            self.submitted = self.taken = 0
            self.free = list(range(slots))
        except BaseException:
            self.close()
            raise

    def ring(self):
        """Wakes the daemon if it sleeps; taking a lock is the fence between the cursor and the flag."""
        with threading.Lock():
            sleeps = self.word(4096 + 64)
        if sleeps:
            self.word(4096 + 64, 0)
            self.send(b"\0")

    def submit(self, slot, payload=None, sequence=0, timestamp=0, deadline=0, ring=True, flags=0):
        if payload is not None:
            at = slot * self.welcome.input_stride
            self.input[at:at + len(payload)] = payload
        at = self.SUBMISSIONS + self.submitted % self.RING * 40
        self.control[at:at + 40] = struct.pack("<IIQqqII", slot, 0, sequence, timestamp, deadline, flags, 0)
        self.submitted += 1
        self.word(0, self.submitted)
        if ring:
            self.ring()

    def sleep(self):
        """Waits until the daemon rings, unless there is a completion by now."""
        self.word(128, 1)
        with threading.Lock():
            there = self.word(4096) != self.taken & 0xFFFFFFFF
        if not there:
            heard = self.socket.recv(64)
            if heard.strip(b"\0") or not heard:
                raise EOFError(f"the daemon ends it: {heard!r}")
        self.word(128, 0)

    def completion(self, seconds=20):
        """The next completion, waiting for it without sleeping: (slot, fate, result without payload)."""
        def there():
            return self.word(4096) != self.taken & 0xFFFFFFFF
        wait_until(there, "a completion", seconds)
        at = self.COMPLETIONS + self.taken % self.RING * 88
        slot, fate, *fields = struct.unpack("<IIQQq8IIIQQ", self.control[at:at + 88])
        return slot, fate, Result(*fields[:3], tuple(fields[3:11]), *fields[11:], b"")

    def payload(self, slot):
        at = slot * self.welcome.output_stride
        return self.output[at:at + self.welcome.output_bytes]

    def take(self):
        self.taken += 1
        self.word(64, self.taken)
