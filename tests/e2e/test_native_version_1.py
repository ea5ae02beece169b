"""Conversations of version 1 of the native protocol as bytes written down here, so that a layout cannot change unnoticed when
the header, the manual page and their tests change together. Do not adapt this file: a new layout is a new version."""

import array
import mmap
import socket
import time

import pytest

from harness import Daemon, pipeline, wait_until

FRAME = bytes.fromhex("00 01 02 03 04 05 06 07 08 09 0a 0b 0c 0d 0e 0f")
RESULT = bytes.fromhex("ff fe fd fc fb fa f9 f8 f7 f6 f5 f4 f3 f2 f1 f0")
HELLO_BOTH = "46 52 4d 44  01 00 00 00  18 00 00 00 00 00 00 00  01 00 00 00  03 00 00 00"
STREAM_WITH_ACKS = "00 00 00 00  01 00 00 00  88 77 66 55 44 33 22 11"
SHARED = "01 00 00 00  00 00 00 00  00 00 00 00 00 00 00 00"
SHORT_HELLO = "46 52 4d 44  01 00 00 00  10 00 00 00 00 00 00 00  01 00 00 00  03 00 00 00  00 00 00 00  00 00 00 00"
WELCOME = "46 52 4d 44  02 00 00 00  00 01 00 00 00 00 00 00  01 00 00 00  03 00 00 00"
TWO_SLOTS_OF_16_BYTES = "02 00 00 00  10 00 00 00 00 00 00 00  10 00 00 00 00 00 00 00"
# Of a frame: sequence, timestamp, deadline, flags, zero. The second frame's deadline has passed.
SAYS = "ef cd ab 89 67 45 23 01  00 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  52 34 12 80  00 00 00 00"
SAYS_LATE = "02 00 00 00 00 00 00 00  00 00 00 00 00 00 00 00  01 00 00 00 00 00 00 00  00 00 00 00  00 00 00 00"
SEQUENCE_DROPPED = "ef cd ab 89 67 45 23 01  00 00 00 00 00 00 00 00"
FIRST = "00 00 00 00  53 34 12 80"  # session, flags: bit 0 says that the stages' state began with this frame
LATER = "00 00 00 00  52 34 12 80"


def hexed(*parts):
    return bytes.fromhex("".join(parts))


@pytest.fixture
def path(place):
    entry = pipeline({"pixels": "gray", "width": 8, "height": 2}, stages=[{"affine": {"scale": -1.0, "offset": 255.0}}],
                     source={"protocol": "native"}, sink={"reply": True, "protocol": "native"})
    with Daemon(place, {"cam0": entry}) as daemon:
        daemon.settled = True
        yield daemon.path("cam0", "source")


@pytest.fixture
def connection(path):
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(20)
        connection.connect(str(path))
        yield connection


def read(connection, count):
    data = b""
    while len(data) < count:
        more = connection.recv(count - len(data))
        assert more, data
        data += more
    return data


def check_times(result):
    """The timestamp, and the epoch in microseconds, which differ from run to run."""
    age = time.monotonic_ns() - int.from_bytes(result[16:24], "little")
    assert 0 <= age < 60e9
    assert abs(time.time() * 1e6 - int.from_bytes(result[72:80], "little")) < 600e6


@pytest.mark.parametrize("hello", [HELLO_BOTH + STREAM_WITH_ACKS, SHORT_HELLO], ids=["with ACKs", "short"])
def test_over_the_stream(connection, hello):
    connection.sendall(hexed(hello))
    expected = hexed(WELCOME, "00 00 00 00", TWO_SLOTS_OF_16_BYTES, "00" * 24, "01 00 00 00 00 00 00 00")
    expected += b"cam0".ljust(64, b"\0") + b"gray 8x2".ljust(64, b"\0") + b"gray 8x2".ljust(64, b"\0")
    assert read(connection, 272) == expected
    connection.sendall(hexed("46 52 4d 44  03 00 00 00  30 00 00 00 00 00 00 00", SAYS) + FRAME)
    answer = read(connection, 112)
    assert answer[:32] == hexed("46 52 4d 44  04 00 00 00  60 00 00 00 00 00 00 00", SEQUENCE_DROPPED)
    assert answer[72:88] == hexed(FIRST, "00 00 00 00 00 00 00 00") and answer[96:] == RESULT
    check_times(answer[16:])
    if hello != SHORT_HELLO:
        connection.sendall(hexed("46 52 4d 44  03 00 00 00  30 00 00 00 00 00 00 00", SAYS_LATE) + FRAME)
        assert read(connection, 24) == hexed("46 52 4d 44  06 00 00 00  08 00 00 00 00 00 00 00  02 00 00 00 00 00 00 00")
    connection.sendall(hexed("46 52 4d 44  03 00 00 00  2f 00 00 00 00 00 00 00"))
    error = read(connection, 24)
    if hello != SHORT_HELLO:  # the frame that is wrong has its fate, too
        assert error == hexed("46 52 4d 44  06 00 00 00  08 00 00 00 00 00 00 00  03 00 00 00 00 00 00 00")
        error = read(connection, 24)
    assert error[:8] == hexed("46 52 4d 44  05 00 00 00") and error[16:] == hexed("01 00 00 00  00 00 00 00")
    assert read(connection, int.from_bytes(error[8:16], "little") - 8).endswith(b"where one of this pipeline has 48")
    assert connection.recv(1) == b""


def test_in_shared_memory(connection):
    connection.sendall(hexed(HELLO_BOTH, SHARED))
    first, ancillary, _, _ = connection.recvmsg(272, socket.CMSG_SPACE(12))
    welcome = first + read(connection, 272 - len(first))
    descriptors = array.array("i", ancillary[0][2])
    assert len(descriptors) == 3 and welcome[:48] == hexed(WELCOME, "01 00 00 00", TWO_SLOTS_OF_16_BYTES)
    assert welcome[64:80] == hexed("00 40 00 00 00 00 00 00  01 00 00 00 00 00 00 00")  # control memory, session
    input_stride, output_stride = (int.from_bytes(welcome[at:at + 8], "little") for at in (48, 56))
    frames, results = mmap.mmap(descriptors[0], 2 * input_stride), mmap.mmap(descriptors[1], 2 * output_stride, prot=mmap.PROT_READ)
    control = mmap.mmap(descriptors[2], 0x4000)
    for turn, slot in enumerate([1, 0, 1] * 6):  # more than the 16 places of each ring
        place, number = turn % 16, bytes([turn + 1, 0, 0, 0])
        frames[slot * input_stride:slot * input_stride + 16] = FRAME
        control[0x2000 + 40 * place:0x2028 + 40 * place] = bytes([slot, 0, 0, 0, 0, 0, 0, 0]) + hexed(SAYS)
        control[0:4] = number       # submitted
        connection.sendall(b"\0")   # the doorbell
        wait_until(lambda: control[0x1000:0x1004] == number, "the frame is completed")
        completion = control[0x3000 + 88 * place:0x3058 + 88 * place]
        assert completion[:24] == bytes([slot, 0, 0, 0]) + hexed("00 00 00 00", SEQUENCE_DROPPED)  # fate 0: emitted
        assert completion[64:80] == hexed(LATER if turn else FIRST) + bytes([turn, 0, 0, 0, 0, 0, 0, 0])
        check_times(completion[8:])
        assert results[slot * output_stride:slot * output_stride + 16] == RESULT
        control[64:68] = number     # taken
    control[128:132] = bytes([1, 0, 0, 0])  # it sleeps, and is woken by a byte
    control[0x2000 + 40 * 2:0x2028 + 40 * 2] = bytes(8) + hexed(SAYS)
    control[0:4] = bytes([19, 0, 0, 0])
    connection.sendall(b"\0")
    assert connection.recv(16).strip(b"\0") == b"" and control[128:132] == bytes(4)
