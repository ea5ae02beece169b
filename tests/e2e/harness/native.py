"""A native client written from the bytes in framed-protocol(7) alone, without the daemon's or the clients' code."""

import struct
from typing import NamedTuple

from harness.clients import Client

PRODUCER, CONSUMER, BOTH = 1, 2, 3
HELLO, WELCOME, FRAME, RESULT, ERROR = 1, 2, 3, 4, 5
E_PROTOCOL, E_VERSION, E_ROLE, E_BUSY, E_QUOTA, E_TIMEOUT, E_STOPPING = 1, 2, 3, 4, 5, 6, 7


class Refused(Exception):
    def __init__(self, code, sentence):
        super().__init__(sentence)
        self.code = code


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
    payload: bytes


def message(kind, body, payload=0):
    return b"FRMD" + struct.pack("<HHQ", kind, 0, len(body) + payload) + body


def hello(role, transport=0, version=1):
    return message(HELLO, struct.pack("<IIII", version, role, transport, 0))


def frame(payload, sequence=0, timestamp=0, deadline=0):
    return message(FRAME, struct.pack("<QqqQ", sequence, timestamp, deadline, 0), len(payload)) + payload


def text(field):
    return field.rstrip(b"\0").decode()


class Native(Client):
    """Says HELLO and waits for the answer."""

    def __init__(self, path, role, **options):
        super().__init__(path, **options)
        try:
            self.send(hello(role))
            self.welcome = self.read_welcome()
        except BaseException:
            self.close()
            raise

    def message(self):
        """The type and body of the next message."""
        magic, kind, flags, length = struct.unpack("<4sHHQ", self.read(16))
        assert magic == b"FRMD" and flags == 0
        body = self.read(length)
        if kind == ERROR:
            code, zero = struct.unpack("<II", body[:8])
            assert zero == 0
            raise Refused(code, body[8:].decode())
        return kind, body

    def read_welcome(self):
        kind, body = self.message()
        assert kind == WELCOME and len(body) == 256
        fields = struct.unpack("<IIIIQQQQQQ64s64s64s", body)
        return Welcome(*fields[:10], *map(text, fields[10:]))

    def send_frame(self, payload, **stamps):
        self.send(frame(payload, **stamps))

    def result(self):
        kind, body = self.message()
        assert kind == RESULT
        fields = struct.unpack("<QQq8III", body[:64])
        return Result(*fields[:3], fields[3:11], *fields[11:], body[64:])
