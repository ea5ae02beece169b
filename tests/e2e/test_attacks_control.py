"""Commands, signals and reloads all at once, while clients come, go and stay."""

import itertools
import json
import os
import random
import re
import signal
import threading
import time

import numpy as np
import pytest

from harness import Background, Daemon, Forked, Producer, Reader, pace, pipeline, read_y4m, wait_until, whole

SIZE = 2048
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def entries(turn, place):
    """cam0 never changes; cam1 changes each time, cam2 comes and goes, cam1 and cam2 swap their sockets."""
    swap = turn % 2
    first, second = place / f"a{swap}.sock", place / f"a{1 - swap}.sock"
    result = {
        "cam0": pipeline(FORMAT, slots=3),
        "cam1": pipeline(FORMAT, slots=turn % 3 + 1, source={"socket": str(first)},
                         sink={"overload": ("drop", "block")[turn % 2]}),
        "file": pipeline(FORMAT, source={"file": "/dev/zero"}, sink={"file": str(place / "results")}, slots=turn % 2 + 1),
    }
    if turn % 3:
        result["cam2"] = pipeline(FORMAT, source={"socket": str(second)}, sink={"reply": True})
    if turn % 5 == 4:
        del result["file"]
    return result


class Life:
    """Clients that connect to whatever is there and never mind what happens to them."""

    def __init__(self, place, stop, seed):
        self.place, self.stop, self.chance = place, stop, random.Random(seed)

    def produce(self):
        while not self.stop.is_set():
            try:
                with Producer(self.place / self.chance.choice(["a0.sock", "a1.sock"])) as producer:
                    producer.socket.settimeout(0.3)
                    for number in range(self.chance.randrange(50)):
                        producer.send(whole(number, SIZE).tobytes()[: self.chance.choice([SIZE, SIZE, SIZE, 100])])
            except OSError:
                pass

    def read(self):
        while not self.stop.is_set():
            try:
                with Reader(self.place / "cam1.out.sock") as reader:
                    reader.socket.settimeout(0.3)
                    for _ in range(self.chance.randrange(50)):
                        reader.read(SIZE)
            except (OSError, EOFError):
                pass


def lossless(daemon, stop):
    """A stream through cam0 that must not be disturbed by anything; returns how many frames went through."""
    count = 0
    with daemon.producer() as producer, daemon.reader() as reader:
        while not stop.is_set() or count < 10:
            producer.send(whole(count, SIZE).tobytes())
            assert reader.read(SIZE) == whole(count, SIZE).tobytes()
            count += 1
    return count


@pytest.mark.parametrize("lanes", [1, 4])
def test_a_storm_of_reloads(place, lanes):
    with Daemon(place, entries(0, place), lanes=lanes, drain_timeout="200ms") as daemon:
        before = daemon.open_files()
        stop = threading.Event()
        stream = Background(lossless, daemon, stop)
        lives = [Background(getattr(Life(place, stop, seed), kind)) for seed, kind in enumerate(["produce", "read"] * 2)]
        chance = random.Random(lanes)
        try:
            for turn in itertools.chain(range(1, 25), [0]):
                daemon.write(entries(turn, place), lanes=lanes, drain_timeout="200ms")
                commands = [Background(daemon.post, f"/v1/pipelines/{name}/{command}") for name, command in
                            zip(("cam1", "cam2", "file"), chance.choices(["pause", "drain", "resume"], k=3))]
                if chance.random() < 0.5:
                    daemon.signal(signal.SIGHUP)
                wait_until(lambda: daemon.post("/v1/reload")[0] == 200, lambda: f"it reloads:\n{daemon.log}")
                for command in commands:
                    code, answer = command.join()
                    assert code in (200, 404, 409, 504), (code, answer)
                assert set(daemon.status()["pipelines"]) == set(entries(turn, place))
        finally:
            stop.set()
        count = stream.join()
        for life in lives:
            life.join()
        daemon.account(came=count, emitted=count)
        daemon.command("/v1/pipelines/file/pause")
        daemon.command("/v1/pipelines/cam1/resume")
        daemon.wait_view("all have left", lambda view: view["sessions"] == 0 and view["readers"] == 0, "cam1")
        with daemon.reader("cam1") as reader, daemon.producer("cam1") as producer:
            producer.send(whole(5, SIZE).tobytes())
            assert reader.read(SIZE) == whole(5, SIZE).tobytes()
        daemon.quiet()
        wait_until(lambda: daemon.open_files() <= before,
                   lambda: f"descriptors come back: {before} before, {daemon.open_files()} now")
    assert (place / "results").stat().st_size % SIZE == 0


@pytest.mark.parametrize("moment", range(6))
def test_sigterm_in_the_middle_of_it_all(place, moment):
    """While a reload, a drain and a pause are on their way, with clients of every kind connected."""
    with Daemon(place, entries(1, place), drain_timeout="500ms") as daemon:
        stop = threading.Event()
        lives = [Background(getattr(Life(place, stop, seed), kind)) for seed, kind in enumerate(["produce", "read"] * 2)]

        def command(path):
            try:
                daemon.post(path)
            except (OSError, EOFError, json.JSONDecodeError):
                pass  # it has ended
        daemon.wait_view("frames move", lambda view: view["frames"]["in"] > 10 * moment, "cam1")
        old = daemon.config
        daemon.write(entries(2, place), drain_timeout="500ms")
        paths = ["/v1/reload", "/v1/pipelines/cam1/drain", "/v1/pipelines/cam0/drain", "/v1/pipelines/file/pause"]
        commands = [Background(command, path) for path in paths[moment % 2:]]
        for _ in range(moment):
            daemon.signal(signal.SIGHUP)
        daemon.signal(signal.SIGTERM)
        daemon.ends(0)
        stop.set()
        for thread in commands + lives:
            thread.join()
        daemon.config = old
        daemon.check_remains()


@pytest.mark.slow
def test_a_file_passes_from_one_pipeline_to_the_next_without_a_torn_result(place):
    """With no time to finish: what the old one is still writing is neither cut nor written over."""
    size = 8 << 20
    source = place / "in"
    source.write_bytes(bytes(size // 2) + bytes([255]) * (size // 2))

    def entry(offset):
        return {"cam0": pipeline({"dtype": "uint8", "shape": [size]}, stages=[{"affine": {"scale": 1.0, "offset": offset}}],
                                 source={"file": str(source), "loop": True}, sink={"file": str(place / "out")},
                                 slots=2 + offset % 2)}

    keys = {"drain_timeout": "0s", "gpu": {"backend": "cpu", "timeout": "60s"}}
    with Daemon(place, entry(0), **keys) as daemon:
        for turn in range(1, 9):
            daemon.wait_view("results are written", lambda view: view["frames"]["emitted"] > 0)
            daemon.write(entry(turn), **keys)
            daemon.command("/v1/reload")
            if (place / "out").stat().st_size > 1 << 28:
                break
        daemon.command("/v1/pipelines/cam0/pause")
    emitted = sum(int(count) for count in re.findall(r"cam0: stopped: in \d+ = emitted (\d+)", daemon.log))
    data = np.memmap(place / "out", np.uint8, "r").reshape(-1, size)
    assert len(data) == emitted
    offsets = [int(frame[0]) for frame in data]
    assert offsets == sorted(offsets)
    for frame, offset in zip(data, offsets):
        assert (frame[: size // 2] == offset).all() and (frame[size // 2:] == 255).all()


def test_a_fifo_ends_with_its_pipeline_when_another_takes_it_over(place):
    """Its reader sees one whole y4m stream and its end, not the next one's header in the middle."""
    fifo = place / "out"
    os.mkfifo(fifo)
    with Daemon(place, y4m_into(fifo, 0)) as daemon:
        for turn in range(3):
            with open(fifo, "rb", buffering=0) as reader:
                taking = Background(reader.readall)
                send_five(daemon)
                daemon.write(y4m_into(fifo, turn + 1))
                daemon.command("/v1/reload")
                _, frames = read_y4m(taking.join(), SIZE)
            assert len(frames) == 5 and (frames == turn).all()


def test_the_reader_of_a_fifo_may_come_to_its_end_late(place):
    """It has no processor for a while when another pipeline takes the FIFO over."""
    fifo = place / "out"
    os.mkfifo(fifo)
    with Daemon(place, y4m_into(fifo, 0)) as daemon:
        taking = Forked(fifo.read_bytes)
        send_five(daemon)
        os.kill(taking.process.pid, signal.SIGSTOP)
        daemon.write(y4m_into(fifo, 1))
        daemon.command("/v1/reload")
        time.sleep(pace(0.4))
        os.kill(taking.process.pid, signal.SIGCONT)
        assert len(read_y4m(taking.join(), SIZE)[1]) == 5


def y4m_into(fifo, offset):
    return {"cam0": pipeline({"pixels": "gray", "width": 64, "height": 32}, sink={"file": str(fifo), "protocol": "y4m"},
                             stages=[{"affine": {"scale": 1.0, "offset": offset}}], slots=2 + offset % 2)}


def send_five(daemon):
    with daemon.producer() as producer:
        producer.send(bytes(5 * SIZE))
        daemon.account(came=5, emitted=5)
