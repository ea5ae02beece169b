"""A daemon with a pipeline of each kind, and some frames through each of them, which any of its calls may spoil.

What always holds, whatever failed: each result that came is whole and in its place, and there are as many of them as the
ledger says. How many came is for the caller to judge.
"""

import contextlib
import os
import socket
import struct

import numpy as np

from harness import native
from harness.clients import Client
from harness.daemon import pipeline
from harness.frames import numbered
from harness.waiting import wait_until

WIDTH, HEIGHT, SIZE, COUNT = 32, 16, 512, 6
INVERT = {"affine": {"scale": -1.0, "offset": 255.0}}
GRAY = {"pixels": "gray", "width": WIDTH, "height": HEIGHT}
FILES = {"file": "results", "fifo": "fifo.results", "recorded": "recorded.results"}  # what some of the sinks write
DEAD = 0o604  # mode of the socket that a daemon before this one has left
OF_WRITING = ("write", "writev", "send", "sendmsg")


def entries(place, version=0):
    """One pipeline of each kind; `version` changes one of them, and more of it than stages, which a reload would exchange in place."""
    return {
        "raw": pipeline(GRAY, slots=3, stages=[INVERT], sink={"overload": "drop"}),
        "y4m": pipeline(GRAY, source={"protocol": "y4m"}, sink={"protocol": "y4m"}),
        "native": pipeline(GRAY, source={"protocol": "native"}, sink={"protocol": "native"}),
        "shared": pipeline(GRAY, source={"protocol": "native"}, sink={"reply": True, "protocol": "native"}),
        "file": pipeline(GRAY, sink={"file": str(place / FILES["file"])}, completion="spin"),
        "fifo": pipeline(GRAY, source={"file": str(place / "fifo")}, sink={"file": str(place / FILES["fifo"])}),
        "recorded": pipeline(GRAY, source={"file": str(place / "recorded")}, sink={"file": str(place / FILES["recorded"])}),
        "other": pipeline(GRAY, slots=2 + version, stages=[INVERT] if version else []),
    }


def lay_out(place):
    """The files that a run finds."""
    for name in ("log", *FILES.values()):
        (place / name).unlink(missing_ok=True)
    for path in place.glob("*.sock"):
        path.unlink()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(place / "raw.sock"))
    (place / "raw.sock").chmod(DEAD)
    if not (place / "fifo").exists():
        os.mkfifo(place / "fifo")
        (place / "recorded").write_bytes(numbered(COUNT, SIZE).tobytes())


# -- what goes in and comes out -------------------------------------------------------------------------------------------


def encode(protocol, frames):
    mark = {"raw": b"", "y4m": b"FRAME\n", "native": native.message(native.FRAME, bytes(32), SIZE)}[protocol]
    head = {"raw": b"", "y4m": b"YUV4MPEG2 W%d H%d Cmono\n" % (WIDTH, HEIGHT), "native": native.hello(native.PRODUCER)}
    return head[protocol] + b"".join(mark + frame.tobytes() for frame in frames)


def split_y4m(data):
    header, newline, rest = data.partition(b"\n")
    if not newline:
        return b"", data
    assert header.startswith(b"YUV4MPEG2 "), header
    results, unit = [], SIZE + 6
    while len(rest) >= unit:
        assert rest.startswith(b"FRAME\n"), rest[:6]
        results.append(rest[6:unit])
        rest = rest[unit:]
    return b"".join(results), rest


def split_native(data):
    results = []
    while len(data) >= 16:
        magic, kind, _, length = struct.unpack("<4sHHQ", data[:16])
        assert magic == b"FRMD" and kind in (native.WELCOME, native.RESULT, native.ERROR), data[:16]
        if len(data) < 16 + length:
            break
        if kind == native.RESULT:
            results.append(data[16 + 80:16 + length])
        data = data[16 + length:]
    return b"".join(results), data


def decode(protocol, data):
    """The results in what a reader got, and what is left of one that was cut off."""
    if data.startswith(b"framed: "):
        return b"", data  # why it was turned away
    if protocol == "raw":
        end = len(data) - len(data) % SIZE
        return data[:end], data[end:]
    return (split_y4m if protocol == "y4m" else split_native)(data)


def produce(path, data):
    """A client that has sent this, or as much of it as the daemon took before it ended the connection."""
    client = Client(path)
    with contextlib.suppress(ConnectionError):
        client.send(data)
    return client


class Taker:
    """Reads a sink, and comes again when the daemon sends it away. Nothing in it waits."""

    def __init__(self, path, greeting=b""):
        self.path, self.greeting = path, greeting
        self.ended, self.data, self.client = [], bytearray(), None

    def take(self):
        if self.client is None:
            self.client = produce(self.path, self.greeting)
            self.client.socket.setblocking(False)
        try:
            while part := self.client.socket.recv(1 << 16):
                self.data += part
        except BlockingIOError:
            return
        except ConnectionResetError:
            pass
        self.client.close()
        self.client = None
        self.ended.append(bytes(self.data))
        self.data.clear()

    def streams(self):
        if self.client is not None:
            self.client.close()
        return [*self.ended, bytes(self.data)]


def is_gone(client):
    """Whether the daemon has ended a producer's connection; what it said before is of no interest."""
    client.socket.setblocking(False)
    try:
        while client.socket.recv(4096):
            pass
        return True
    except BlockingIOError:
        return False
    except ConnectionError:
        return True


# -- the pipelines ------------------------------------------------------------------------------------------------------------


def unchanged(frames):
    return frames


def inverted(frames):
    return 255 - frames


def through(daemon, name, protocol, first, transform=unchanged):
    """Sends frames through a pipeline. Returns how many results came, after checking that each is whole and in its place."""
    frames = numbered(COUNT, SIZE, first=first)
    before = daemon.frames(name)
    taker = None
    if "socket" in daemon.config["pipelines"][name]["sink"]:
        taker = Taker(daemon.path(name, "sink"), native.hello(native.CONSUMER) if protocol == "native" else b"")
    if daemon.config["pipelines"][name]["sink"].get("overload") == "drop":
        wait_until(lambda: daemon.view(name)["readers"] == 0, "the last reader has left")
        wait_until(lambda: taker.take() or daemon.view(name)["readers"] == 1, "a reader is there")
    producer = produce(daemon.path(name, "source"), encode(protocol, frames))

    def has_settled():
        if taker:
            taker.take()
        ended = producer.closed or is_gone(producer)  # and what the daemon says from here on is about what it took
        view = daemon.view(name)
        if ended or view["frames"]["in"] - before["in"] >= COUNT:
            producer.close()
        return ended and view["sessions"] == 0 and view["frames"]["in_flight"] == 0
    wait_until(has_settled, lambda: f"{name} has settled: {daemon.last['pipelines'][name]}\n{daemon.log}")
    emitted = daemon.frames(name)["emitted"] - before["emitted"]
    if taker:
        taker.take()
        check_results(daemon, taker.streams(), protocol, transform(frames), emitted)
    return emitted


def check_results(daemon, streams, protocol, frames, emitted):
    """Each result is whole, in order, and there as often as the ledger says."""
    numbers = []
    for index, stream in enumerate(streams):
        results, rest = decode(protocol, stream)
        assert not rest or rest.startswith(b"framed: ") or (
            index + 1 < len(streams) and daemon.injection.call in OF_WRITING), rest
        for result in np.frombuffer(results, np.uint8).reshape(-1, SIZE):
            [where] = np.flatnonzero((frames == result).all(axis=1))
            numbers.append(int(where))
    assert numbers == sorted(set(numbers)), numbers
    assert len(numbers) == emitted, (numbers, emitted)


def through_shared(daemon, first):
    """The same in shared memory, where the client sleeps until it is rung for."""
    came = 0
    try:
        with native.Shared(daemon.path("shared", "source")) as client:
            for number, frame in enumerate(numbered(COUNT, SIZE, first=first)):
                client.word(128, 1)  # sleeps before it submits, so that the daemon always has to ring
                client.submit(number % client.welcome.slots, frame.tobytes(), sequence=number)
                while client.word(4096) == client.taken:
                    client.sleep()
                slot, fate, result = client.completion()
                assert (fate, result.sequence, client.payload(slot)) == (0, number, frame.tobytes())
                client.take()
                came += 1
    except TimeoutError:
        raise
    except (OSError, EOFError, native.Refused, native.NotLent):
        assert daemon.injection.happened
    daemon.wait_view("the client has left", lambda view: view["sessions"] == 0 and view["frames"]["in_flight"] == 0, "shared")
    return came


def through_fifo(daemon, first):
    """A writer that does not hear what becomes of its frames."""
    before = daemon.frames("fifo")
    try:
        descriptor = os.open(daemon.place / "fifo", os.O_WRONLY | os.O_NONBLOCK)
    except OSError:
        return 0  # the daemon does not have it open
    with open(descriptor, "wb", buffering=0) as fifo:
        fifo.write(numbered(COUNT, SIZE, first=first).tobytes())

    def has_settled():
        view = daemon.view("fifo")
        came = view["frames"]["in"] - before["in"] >= COUNT or daemon.injection.happened
        return came and view["sessions"] == 0 and view["frames"]["in_flight"] == 0
    wait_until(has_settled, lambda: f"the FIFO has settled: {daemon.last['pipelines']['fifo']}\n{daemon.log}")
    return daemon.frames("fifo")["emitted"] - before["emitted"]


def drive(daemon, first):
    """Frames through every pipeline; how many results came of each."""
    return {
        "raw": through(daemon, "raw", "raw", first, inverted),
        "y4m": through(daemon, "y4m", "y4m", first),
        "native": through(daemon, "native", "native", first),
        "shared": through_shared(daemon, first),
        "file": through(daemon, "file", "raw", first),
        "fifo": through_fifo(daemon, first),
        "other": through(daemon, "other", "raw", first, inverted if daemon.version else unchanged),
    }


def is_served(daemon, turns):
    """Whether every pipeline passes every frame."""
    return set(drive(daemon, 100 * next(turns)).values()) == {COUNT}
