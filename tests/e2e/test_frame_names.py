"""Pipeline, epoch and number name a frame for ever, whatever its producer speaks."""

import json
import signal
import time

import pytest

from harness import Daemon, numbered, pipeline, wait_until
from harness.native import CONSUMER, PRODUCER, Native
from harness.recordings import read_index
from harness.store import settle, start

SIZE = 64
FORMAT = {"pixels": "gray", "width": 8, "height": 8}
NATIVE = {"protocol": "native"}


def names(consumer, count):
    return [(result.epoch, result.number) for result in (consumer.result() for _ in range(count))]


def entry(protocol, **keys):
    return pipeline(FORMAT, source={"protocol": protocol}, sink=NATIVE, **keys)


def stream(protocol, frames):
    if protocol == "raw":
        return frames.tobytes()
    return b"YUV4MPEG2 W8 H8 F25:1 Cmono\n" + b"".join(b"FRAME\n" + frame.tobytes() for frame in frames)


@pytest.mark.parametrize("protocol", ["raw", "y4m"])
def test_each_producer_has_an_epoch_of_its_own(place, protocol):
    frames = numbered(5, SIZE)
    before = time.time_ns() // 1000
    with Daemon(place, {"cam0": entry(protocol)}) as daemon, Native(daemon.path("cam0", "sink"), CONSUMER) as consumer:
        epochs = []
        for _ in range(3):
            with daemon.producer() as producer:
                producer.send(stream(protocol, frames))
                got = names(consumer, 5)
            assert [number for _, number in got] == [0, 1, 2, 3, 4] and len({epoch for epoch, _ in got}) == 1
            epochs.append(got[0][0])
        assert [before] + epochs == sorted({before, *epochs}) and epochs[-1] <= time.time_ns() // 1000


def test_a_clients_own_number_stands_beside_it(place):
    with Daemon(place, {"cam0": entry("native")}) as daemon, Native(daemon.path("cam0", "sink"), CONSUMER) as consumer:
        with Native(daemon.path("cam0", "source"), PRODUCER) as producer:
            for sequence in (70, 7, 7):
                producer.send_frame(bytes(SIZE), sequence=sequence)
            results = [consumer.result() for _ in range(3)]
    assert [result.sequence for result in results] == [70, 7, 7]
    assert [result.number for result in results] == [0, 1, 2]


def test_lines_of_json_and_recordings_say_the_same_names(place):
    record = {"file": str(place / "in-%H%M%S.raw"), "memory": "8MiB"}
    entries = {"cam0": pipeline(FORMAT, stages=[{"stats": {}}], sink={"protocol": "json"}, record=record)}
    with Daemon(place, entries) as daemon, daemon.reader() as reader, reader.socket.makefile() as told:
        lines = []
        for _ in range(2):
            with daemon.producer() as producer:
                producer.send(numbered(3, SIZE).tobytes())
                lines += [json.loads(told.readline()) for _ in range(3)]
    recorded = [(entry[9], entry[2]) for path in sorted(place.glob("in-*.raw")) for entry in read_index(path.with_name(f"{path.name}.index"))[1]]
    assert recorded == [(line["epoch"], line["number"]) for line in lines] == sorted(recorded)
    assert [number for _, number in recorded] == [0, 1, 2] * 2 and len(set(recorded)) == 6


@pytest.mark.parametrize("lanes", [1, 2])
def test_numbers_go_on_after_an_upgrade(place, lanes):
    frames = numbered(2, SIZE)
    with Daemon(place, {"cam0": entry("raw", slots=3)}, lanes=lanes) as daemon:
        with daemon.producer() as producer, Native(daemon.path("cam0", "sink"), CONSUMER) as consumer:
            got = []
            for upgrades in range(1, 4):
                producer.send(frames.tobytes())
                got += names(consumer, 2)
                daemon.signal(signal.SIGUSR2)
                wait_until(lambda: daemon.status()["handovers"]["upgrade"] == upgrades, "it has taken over", 30)
            assert [number for _, number in got] == list(range(6)) and len({epoch for epoch, _ in got}) == 1


@pytest.mark.memory
def test_no_name_comes_twice_after_a_kill(place, store):
    frames = numbered(2, SIZE)
    with start(place, store, {"cam0": entry("raw", slots=3)}) as daemon:
        got = []
        for _ in range(3):
            with daemon.producer() as producer, Native(daemon.path("cam0", "sink"), CONSUMER) as consumer:
                producer.send(frames.tobytes())
                got += names(consumer, 2)
                settle(daemon)
                store.kill(daemon)
        assert got == sorted(set(got)) and len(got) == 6
