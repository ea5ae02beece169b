"""Recordings as framed-protocol(7) describes them, and what both tests of them share."""

import struct

from harness.frames import whole

SIZE = 16 << 10
FORMAT = {"dtype": "uint8", "shape": [SIZE]}

HEAD = struct.Struct("<IHHqQ72s32x")
ENTRY = struct.Struct("<QQQQqqqIIQ")


def read_index(path):
    """(the head, the entries) of an index, whose sizes must fit."""
    data = path.read_bytes()
    head = HEAD.unpack_from(data)
    assert head[:3] == (0x49524D46, 2, ENTRY.size) and (len(data) - HEAD.size) % ENTRY.size == 0, (path, head, len(data))
    return head, [ENTRY.unpack_from(data, at) for at in range(HEAD.size, len(data), ENTRY.size)]


def parts(place):
    return sorted(path.name for path in place.rglob("*.part*"))


def feed(daemon, producer, first, count, size=SIZE):
    """Sends results one by one and waits until each has its fate."""
    for number in range(first, first + count):
        producer.send(whole(number, size).tobytes())
    daemon.wait_view("they have their fate", lambda view: view["frames"]["in"] == first + count and
                     view["frames"]["in_flight"] == 0)
