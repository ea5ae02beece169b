"""Roads of every kind under a storm of upgrades and faults at random moments: every result is compared, none is lost, none comes
twice, and nothing leaks from image to image.

A seed gives the same plan at every run, but not the same moments. With FRAMED_SOAK set there are many seeds, and longer storms.
"""

import collections
import os
import random
import select
import signal
import threading
import time

import numpy as np
import pytest

from harness import BACKEND, Background, Client, Daemon, numbered, pipeline, read_y4m, require_whole, wait_until, whole, y4m_stream
from harness import native

SOAK = bool(os.environ.get("FRAMED_SOAK"))
SEEDS = range(int(os.environ.get("FRAMED_SEEDS", "20" if SOAK else "1")))
UPGRADES = 40 if SOAK else 6
STRIKES = 12
SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
GRAY = {"pixels": "gray", "width": 64, "height": 64}
LARGE = 300 * 1024
pytestmark = [pytest.mark.takes(600 if SOAK else 60), pytest.mark.threads]


def strike(every):
    """An illegal access now and then, which does not come again for the same frame: STRIKES times in a test at most."""
    return {"fault": {"kind": "illegal", "at": every // 2, "every": every, "again": "no"}}


def delay(milliseconds):
    return {"fault": {"kind": "delay", "ms": milliseconds}}


class Storm:
    """Upgrades at random moments for as long as it stands."""

    def __init__(self, daemon, seed, upgrades=UPGRADES):
        self.daemon, self.chance, self.upgrades = daemon, random.Random(seed), upgrades
        self.over = threading.Event()
        self.thread = None

    def blow(self):
        for _ in range(self.upgrades):
            before = self.daemon.status()["handovers"]["upgrade"]
            self.daemon.signal(signal.SIGUSR2)
            wait_until(lambda: self.over.is_set() or self.daemon.status()["handovers"]["upgrade"] > before or "no upgrade" in self.daemon.log,
                       lambda: f"an upgrade:\n{self.daemon.log}")
            if self.over.wait(self.chance.uniform(0, 0.05)):
                return

    def __enter__(self):
        self.files = open_files(self.daemon)
        self.thread = Background(self.blow)
        return self

    def __exit__(self, kind, error, trace):
        self.over.set()
        if kind is None:
            self.thread.join()
            if self.daemon.process.poll() is None:
                wait_until(lambda: not children(self.daemon), "no child is left")

    @property
    def blows(self):
        return not self.thread.done


def children(daemon):
    """But for its workers."""
    with open(f"/proc/{daemon.process.pid}/task/{daemon.process.pid}/children") as file:
        return [child for child in file.read().split() if name_of(child) != "framed-worker"]


def name_of(process):
    try:
        with open(f"/proc/{process}/comm") as file:
            return file.read().strip()
    except OSError:
        return ""


def open_files(daemon):
    """But for those of the NVIDIA driver, which has more of them in a process that follows another one."""
    folder, files = f"/proc/{daemon.process.pid}/fd", []
    for name in os.listdir(folder):
        try:
            files.append(os.readlink(f"{folder}/{name}").split(":")[0])
        except FileNotFoundError:
            pass
    return sorted(file for file in files if not file.startswith("/dev/nvidia"))


def more(before, after):
    """What is there more often than before."""
    return dict(collections.Counter(after) - collections.Counter(before))


def gpu(**keys):
    """Without a worker that stands by, whose descriptors come and go."""
    return {"backend": BACKEND, "faults": "64/min", "standby": "off", **keys}


def send_while(storm, send, most, least=20):
    """Sends frame after frame until the storm is over; returns how many."""
    number = 0
    while number < least or (storm.blows and number < most):
        send(number)
        number += 1
    return number


def expect(got, number, size, what="result"):
    assert got == whole(number, size).tobytes(), f"{what} {number} is not that: it begins with {np.frombuffer(got[:8], np.uint64)}"


# -- lossless roads ---------------------------------------------------------------------------------------------------


def lossless(reader, producer, size, storm, chance, most):
    """Frames in pieces as long as the storm stands; every one comes out, in order."""
    def send(number):
        data = whole(number, size).tobytes()
        cut = chance.randrange(size) if chance.random() < 0.05 else size
        producer.send(data[:cut])
        if cut < size:
            time.sleep(chance.uniform(0, 0.01))
            producer.send(data[cut:])
    sending = Background(send_while, storm, send, most)
    taken = 0
    while not sending.done or taken < sending.join():
        if select.select([reader.socket], [], [], 0.05)[0]:
            expect(reader.read(size), taken, size)
            taken += 1
    return taken


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("size, every", [(SIZE, 0), (SIZE, 500), (LARGE, 0), (LARGE, 30)])
def test_raw(place, size, every, seed):
    chance = random.Random(seed)
    entry = pipeline({"dtype": "uint8", "shape": [size]}, slots=1 + chance.randrange(4), stages=[strike(every)] if every else [],
                     completion=chance.choice(["callback", "spin"]))
    with Daemon(place, {"cam0": entry}, gpu=gpu(), lanes=2) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer, Storm(daemon, seed) as storm:
            count = lossless(reader, producer, size, storm, chance, STRIKES * (every or 1000))
        daemon.account(came=count, emitted=count)


@pytest.mark.parametrize("seed", SEEDS)
def test_replies_to_several(place, seed):
    entry = pipeline({"dtype": "uint8", "shape": [LARGE]}, source={"clients": 3}, sink={"reply": True}, slots=2, stages=[strike(50)])
    counts = []
    def talk(path, number, storm):
        with Client(path) as client:
            counts.append(lossless(client, client, LARGE, storm, random.Random(seed * 10 + number), STRIKES * 17))
    with Daemon(place, {"cam0": entry}, gpu=gpu(), lanes=2) as daemon:
        with Storm(daemon, seed) as storm:
            clients = [Background(talk, daemon.path("cam0", "source"), number, storm) for number in range(3)]
            for client in clients:
                client.join(120)
        daemon.account(came=sum(counts), emitted=sum(counts))


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("overload", ["block", "drop-oldest", "drop-newest"])
def test_native_streams(place, overload, seed):
    """Numbers of frames and results are consistent over images: what is missing was dropped, and said to be."""
    entry = pipeline(FORMAT, source={"protocol": "native"}, sink={"protocol": "native"}, slots=4, overload=overload, stages=[delay(0.3)])
    with Daemon(place, {"cam0": entry}, gpu=gpu(), lanes=2) as daemon:
        reader = native.Native(daemon.path("cam0", "sink"), native.CONSUMER)
        producer = native.Native(daemon.path("cam0", "source"), native.PRODUCER)
        daemon.wait_view("the reader is attached", lambda view: view["readers"] == 1)
        with reader, producer, Storm(daemon, seed) as storm:
            sending = Background(send_while, storm, lambda number: producer.send_frame(whole(number, SIZE).tobytes(), sequence=number), 20000)
            taken, last, dropped = 0, -1, 0
            def have_their_fate():
                frames = daemon.frames()
                return frames["in"] == sending.join() and frames["in_flight"] == 0
            while not sending.done or not have_their_fate() or select.select([reader.socket], [], [], 0)[0]:
                if not select.select([reader.socket], [], [], 0.1)[0]:
                    continue
                kind, body = reader.message()
                sequence, gone = np.frombuffer(body[:16], np.uint64)
                assert kind == native.RESULT and sequence > last if last >= 0 else True, (kind, sequence, last)
                expect(body[80:], int(sequence), SIZE)
                assert last + 1 + int(gone) == int(sequence), (last, gone, sequence)
                dropped, last, taken = dropped + int(gone), int(sequence), taken + 1
            count = sending.join()
        frames = daemon.frames()
        assert frames["in"] == count and frames["emitted"] == taken, (frames, count, taken)
        assert overload != "block" or taken == count


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("role", [native.BOTH, native.PRODUCER])
def test_shared_memory(place, role, seed):
    both = role == native.BOTH
    entry = pipeline(FORMAT, source={"protocol": "native"}, sink={"reply": True} if both else {}, slots=3, stages=[strike(200)])
    with Daemon(place, {"cam0": entry}, gpu=gpu(), lanes=2) as daemon:
        reader = None if both else daemon.reader()
        with native.Shared(daemon.path("cam0", "source"), role) as client, Storm(daemon, seed) as storm:
            free, numbers, sent, back, taken = list(client.free), set(), 0, 0, 0
            chance = random.Random(seed)
            while storm.blows or back < sent:
                if storm.blows and sent < STRIKES * 200 and free and chance.random() < 0.6:
                    client.submit(free.pop(0), whole(sent, SIZE).tobytes(), sequence=sent)
                    numbers.add(sent)
                    sent += 1
                elif back < sent:
                    if not both:
                        while taken < sent:
                            expect(reader.read(SIZE), taken, SIZE)
                            taken += 1
                    if chance.random() < 0.3:
                        client.sleep()
                    slot, fate, result = client.completion()
                    assert fate == 0 and (result.sequence == back if both else result.sequence in numbers), (fate, result, back)
                    numbers.remove(result.sequence)
                    if both:
                        expect(client.payload(slot), back, SIZE)
                    client.take()
                    free.append(slot)
                    back += 1
                    client.ring()
        if reader:
            reader.close()
        daemon.account(came=sent, emitted=sent)


# -- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("protocol", ["raw", "y4m"])
def test_files(place, protocol, seed):
    count = 4000 if SOAK else 600
    frames = numbered(count, 64 * 64)
    content = frames.tobytes() if protocol == "raw" else y4m_stream(frames, 64, 64)
    (place / "in").write_bytes(content)
    entry = pipeline(GRAY, source={"file": str(place / "in"), "protocol": protocol}, sink={"file": str(place / "out"), "protocol": protocol},
                     slots=1 + seed % 3, stages=[delay(5), strike(151)])
    with Daemon(place, {"cam0": entry}, gpu=gpu()) as daemon:
        storm = Storm(daemon, seed, 1000)
        try:
            with storm:
                daemon.process.wait(120)
        except Exception:
            assert daemon.process.poll() == 0, daemon.log
        daemon.ends(0)
    got = (place / "out").read_bytes()
    if protocol == "raw":
        assert got == content
    else:
        np.testing.assert_array_equal(read_y4m(got, 64 * 64)[1], frames)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("standard", [False, True])
def test_pipes(place, standard, seed):
    """FIFOs that writers open and close, or standard input and output."""
    chance = random.Random(seed)
    if standard:
        source_reads, source = os.pipe()
        sink, sink_writes = os.pipe()
        ends = {"source": {"file": "-"}, "sink": {"file": "-"}}
        options = {"stdin": source_reads, "stdout": sink_writes}
    else:
        os.mkfifo(place / "in")
        os.mkfifo(place / "out")
        ends = {"source": {"file": str(place / "in")}, "sink": {"file": str(place / "out")}}
        options = {}
    entry = pipeline(FORMAT, slots=3, stages=[strike(100)], **ends)
    with Daemon(place, {"cam0": entry}, gpu=gpu(), **options) as daemon:
        if standard:
            os.close(source_reads)
            os.close(sink_writes)
        else:
            sink = os.open(place / "out", os.O_RDONLY)
        got = bytearray()
        def take():
            while part := os.read(sink, 1 << 16):
                got.extend(part)
        taking = Background(take)
        sent = 0
        with Storm(daemon, seed) as storm:
            while storm.blows and sent < STRIKES * 100:
                fd = source if standard else os.open(place / "in", os.O_WRONLY)
                for _ in range(chance.randrange(1, 20)):
                    data = memoryview(whole(sent, SIZE).tobytes())
                    while data:
                        data = data[os.write(fd, data[:chance.randrange(1, SIZE + 1)]):]
                    sent += 1
                if not standard:
                    os.close(fd)
        daemon.wait_view("all came", lambda view: view["frames"]["in"] == sent and view["frames"]["in_flight"] == 0)
        if standard:
            os.close(source)
            daemon.ends(0)
        else:
            daemon.signal(signal.SIGTERM)
            daemon.ends(0)
        taking.join()
        os.close(sink)
    numbers = require_whole(bytes(got), SIZE)
    assert numbers == list(range(sent)), (len(numbers), sent)


# -- roads on which frames are dropped ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("overload", ["block", "drop-oldest", "drop-newest"])
def test_drops(place, overload, seed):
    """Slow readers get whole results in order, whatever they miss; the quick one too."""
    chance = random.Random(seed)
    size = chance.choice([SIZE, 200000, LARGE])
    entry = pipeline({"dtype": "uint8", "shape": [size]}, sink={"overload": "drop"}, overload=overload, slots=4,
                     stages=[delay(1), strike(41)], **({"deadline": "200ms"} if seed % 2 else {}))
    with Daemon(place, {"cam0": entry}, gpu=gpu(), lanes=2) as daemon:
        readers = [daemon.reader() for _ in range(3)]
        def take(reader, pause):
            got = bytearray()
            while True:
                try:
                    part = reader.socket.recv(1 << 16)
                except ConnectionResetError:
                    part = b""
                if not part:
                    return bytes(got)
                got.extend(part)
                time.sleep(pause)
        taking = [Background(take, reader, pause) for reader, pause in zip(readers, (0, 0.02))]
        with daemon.producer() as producer, Storm(daemon, seed) as storm:
            count = send_while(storm, lambda number: producer.send(whole(number, size).tobytes()), STRIKES * 41)
        daemon.wait_view("all came", lambda view: view["frames"]["in"] == count)
        daemon.leaves_frames = True
        third = Background(readers[2].rest)
        daemon.signal(signal.SIGTERM)
        daemon.ends(0)
        lists = [require_whole(one.join(60), size) for one in (*taking, third)]
        account = daemon.final_account()
        assert account["in"] == count, (account, count)
        assert account["emitted"] == len(set().union(*lists)), (account, [len(one) for one in lists])
        for reader in readers:
            reader.close()


# -- coming and going -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", SEEDS)
def test_many_seats(place, seed):
    """Clients of all kinds come, say half a HELLO, send some frames and a half one, wait for a seat, and go."""
    entry = pipeline(FORMAT, source={"clients": 4, "protocol": "native"}, sink={"reply": True}, slots=2, stages=[{"fault": {"kind": "illegal", "at": 4, "every": 0, "again": "no"}}])
    def careless(path, storm, chance):
        whole_visits = 0
        while whole_visits < (40 if storm.blows else 1):
            kind = chance.choice(["silent", "half", "stream", "shared", "torn"])
            try:
                if kind in ("silent", "half"):
                    with Client(path) as client:
                        client.send(native.hello(native.BOTH)[:0 if kind == "silent" else chance.randrange(1, 32)])
                        time.sleep(chance.uniform(0, 0.05))
                elif kind == "shared":
                    with native.Shared(path) as client:
                        for number in range(2):
                            client.submit(number, whole(number, SIZE).tobytes(), sequence=number)
                        for number in range(2):
                            slot, fate, result = client.completion()
                            assert fate == 0 and result.sequence == number
                            expect(client.payload(slot), number, SIZE)
                            client.take()
                        whole_visits += 1
                else:
                    with native.Native(path, native.BOTH) as client:
                        for number in range(chance.randrange(5)):
                            client.send_frame(whole(number, SIZE).tobytes(), sequence=number)
                            result = client.result()
                            assert result.sequence == number
                            expect(result.payload, number, SIZE)
                        if kind == "torn":
                            client.send(native.frame(whole(9, SIZE).tobytes())[:chance.randrange(16, SIZE)])
                        whole_visits += 1
            except (native.Refused, native.NotLent):
                pass
            except (BrokenPipeError, ConnectionResetError) as error:
                assert kind in ("silent", "half"), (kind, error)
        return whole_visits
    with Daemon(place, {"cam0": entry}, gpu=gpu(), lanes=2) as daemon:
        with Storm(daemon, seed) as storm:
            clients = [Background(careless, daemon.path("cam0", "source"), storm, random.Random(seed * 10 + number)) for number in range(6)]
            for client in clients:
                client.join(120)
        daemon.wait_view("all have gone", lambda view: view["sessions"] == 0)
        daemon.quiet()
        frames = daemon.frames()
        assert not {fate for fate, count in frames["dropped"].items() if count} - {"invalid", "client_gone"}, frames
        wait_until(lambda: not more(storm.files, open_files(daemon)), lambda: f"no descriptor is left: {more(storm.files, open_files(daemon))}")
