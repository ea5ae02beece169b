"""Shared memory: frames written where the device reads them, by a client that knows the layout from the manual page."""

import mmap
import os
import random

import pytest

from harness import Background, Daemon, pipeline, wait_until
from harness import native
from harness.native import BOTH, CONSUMER, PRODUCER, Native, Refused, Shared

GRAY = {"pixels": "gray", "width": 32, "height": 16}
INVERT = {"affine": {"scale": -1.0, "offset": 255.0}}
EMITTED, OLDEST, LATE, INVALID, UNREAD = 0, 1, 3, 4, 7


def replying(**keys):
    return pipeline(GRAY, stages=[INVERT], source={"protocol": "native"}, sink={"reply": True, "protocol": "native"}, **keys)


def one_by_one(client, count, first=0):
    for n in range(first, first + count):
        client.submit(n % client.welcome.slots, bytes([n % 256]) * 512, sequence=n)
        slot, fate, result = client.completion()
        assert (slot, fate, result.sequence, result.dropped) == (n % client.welcome.slots, EMITTED, n, 0)
        assert client.payload(slot) == bytes([255 - n % 256]) * 512
        client.take()


@pytest.mark.parametrize("completion", ["callback", "spin"])
@pytest.mark.parametrize("slots", [1, 2, 3, 16])
def test_frames_and_results_in_shared_memory(place, slots, completion):
    with Daemon(place, {"cam0": replying(slots=slots, completion=completion)}) as daemon:
        with Shared(daemon.path("cam0", "source")) as client:
            assert client.welcome.slots == slots
            one_by_one(client, 100)
        daemon.account(came=100, emitted=100)


def test_all_slots_under_way(place):
    with Daemon(place, {"cam0": replying(slots=4)}) as daemon:
        with Shared(daemon.path("cam0", "source")) as client:
            for n in range(4):
                client.submit(n, bytes([n]) * 512, sequence=n)
            for n in range(4, 200):
                slot, fate, result = client.completion()
                assert (fate, result.sequence, client.payload(slot)) == (EMITTED, n - 4, bytes([255 - (n - 4)]) * 512)
                client.take()
                client.submit(slot, bytes([n]) * 512, sequence=n)
            for _ in range(4):
                client.completion()
                client.take()
            daemon.account(came=200, emitted=200)


def test_a_producer_whose_results_go_to_a_sink(place):
    with Daemon(place, {"cam0": pipeline(GRAY, stages=[INVERT], source={"protocol": "native"})}) as daemon:
        with daemon.reader() as reader, Shared(daemon.path("cam0", "source"), PRODUCER) as client:
            for n in range(20):
                client.submit(n % 2, bytes([n]) * 512)
                assert reader.read(512) == bytes([255 - n]) * 512
                assert client.completion()[0] == n % 2
                client.take()
        daemon.account(came=20, emitted=20)


def test_dropped_frames_give_their_slots_back(place):
    with Daemon(place, {"cam0": replying(slots=3)}) as daemon:
        with Shared(daemon.path("cam0", "source")) as client:
            client.submit(0, b"a" * 512, sequence=1, timestamp=2**62)
            client.submit(1, b"b" * 512, sequence=2, deadline=1)
            client.submit(2, b"c" * 512, sequence=3)
            told = {}
            for _ in range(3):
                slot, fate, result = client.completion()
                told[slot] = (fate, result.sequence)
                client.take()
            assert told == {0: (INVALID, 1), 1: (LATE, 2), 2: (EMITTED, 3)}
        daemon.account(came=3, emitted=1, late=1, invalid=1)


@pytest.mark.parametrize("overload", ["block", "drop"])
def test_frames_of_a_producer_come_back_in_their_order(place, overload):
    """Whichever slots they are in, and however many are through when the daemon looks; under drop nobody reads."""
    chance = random.Random(1)
    count = 3000
    entry = pipeline(GRAY, stages=[INVERT], slots=8, source={"protocol": "native"},
                     sink={"protocol": "native", "overload": overload})
    with Daemon(place, {"cam0": entry}) as daemon:
        with Native(daemon.path("cam0", "sink"), CONSUMER) as reader, Shared(daemon.path("cam0", "source"), PRODUCER) as client:
            if overload == "drop":
                reader.close()
                daemon.wait_view("nobody reads", lambda view: view["readers"] == 0)
            reading = Background(lambda: [reader.result().sequence for _ in range(count if overload == "block" else 0)])
            back, submitted = [], 0
            while len(back) < count:
                chance.shuffle(client.free)
                while client.free and submitted < count:
                    client.submit(client.free.pop(), b"x" * 512, sequence=submitted)
                    submitted += 1
                slot, fate, result = client.completion()
                assert fate == (EMITTED if overload == "block" else UNREAD)
                back.append(result.sequence)
                client.free.append(slot)
                client.take()
            assert back == list(range(count))
            reading.join()
        daemon.settled = True


def test_a_frame_that_is_dropped_waits_for_none_before_it(place):
    """The newest is kept while nobody reads, though those before it go nowhere."""
    entry = pipeline(GRAY, stages=[INVERT], slots=4, overload="drop-oldest", source={"protocol": "native"},
                     sink={"protocol": "native", "overload": "block"})
    with Daemon(place, {"cam0": entry}) as daemon:
        with Shared(daemon.path("cam0", "source"), PRODUCER) as client:
            for n in range(4):
                client.submit(n, b"x" * 512, sequence=n)
            for n in range(4, 100):
                slot, fate, result = client.completion()
                assert (fate, result.sequence) == (OLDEST, n - 2)
                client.take()
                client.submit(slot, b"x" * 512, sequence=n)
            with Native(daemon.path("cam0", "sink"), CONSUMER) as reader:
                assert [reader.result().sequence for _ in range(3)] == [0, 1, 99]
        daemon.settled = True


def test_the_next_client_gets_other_memory(place):
    with Daemon(place, {"cam0": replying()}) as daemon:
        with Shared(daemon.path("cam0", "source")) as first:
            one_by_one(first, 3)
            first.close()
            for n in range(3):
                wait_until(lambda: daemon.status()["pipelines"]["cam0"]["sessions"] == 0, "the client before has left")
                with Shared(daemon.path("cam0", "source")) as second:
                    assert second.input[:1024] == bytes(1024)
                    assert second.output[:512] == b"\xff" * 512  # the warm-up's result
                    first.input[:512] = b"evil" * 128
                    assert second.input[:512] == bytes(512)
                    one_by_one(second, 3)
        daemon.account(came=12, emitted=12)


def test_the_output_cannot_be_written(place):
    with Daemon(place, {"cam0": replying()}) as daemon, Shared(daemon.path("cam0", "source")) as client:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.pwrite(client.descriptors[1], b"x", 0)
        with pytest.raises(PermissionError):
            mmap.mmap(client.descriptors[1], 512)
        for descriptor in client.descriptors:
            with pytest.raises(OSError):
                os.ftruncate(descriptor, 0)


LIES = {
    "a slot that does not exist": lambda client: client.submit(99),
    "a slot twice": lambda client: (client.submit(0, ring=False), client.submit(0)),
    "more frames than slots": lambda client: (client.word(0, 17), client.ring()),
    "a cursor that went back": lambda client: (client.word(0, -1), client.ring()),
    "results that it did not get": lambda client: (client.word(64, 5), client.submit(0)),
    "bytes that are no doorbell": lambda client: client.send(b"hello"),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_client_that_lies_loses_its_session_and_nothing_else(place, lie):
    with Daemon(place, {"cam0": replying(), "cam1": replying()}) as daemon:
        with Shared(daemon.path("cam1", "source")) as good:
            one_by_one(good, 3)
            with Shared(daemon.path("cam0", "source")) as client:
                LIES[lie](client)
                with pytest.raises(Refused) as refused:
                    client.message()
                assert refused.value.code == native.E_PROTOCOL
                assert client.rest() == b""
            one_by_one(good, 3, first=3)
        with Native(daemon.path("cam0", "source"), BOTH) as next_one:
            next_one.send_frame(b"x" * 512)
            assert next_one.result().payload == bytes(255 - byte for byte in b"x" * 512)


def test_a_client_that_dies_with_frames_under_way(place):
    with Daemon(place, {"cam0": replying(slots=4)}) as daemon:
        for _ in range(20):
            with Shared(daemon.path("cam0", "source")) as client:
                for n in range(4):
                    client.submit(n, b"x" * 512)
            wait_until(lambda: daemon.status()["pipelines"]["cam0"]["sessions"] == 0, "it has left")
        frames = daemon.status()["pipelines"]["cam0"]["frames"]
        assert frames["in"] == 80 and frames["in_flight"] == 0
        assert frames["emitted"] + frames["dropped"]["client_gone"] == 80
        daemon.settled = True


def test_pause_drain_and_reload_beside_shared_memory(place):
    with Daemon(place, {"cam0": replying()}) as daemon:
        with Shared(daemon.path("cam0", "source")) as client:
            one_by_one(client, 2)
            daemon.post("/v1/pipelines/cam0/pause")
            client.submit(0, b"x" * 512)
            daemon.post("/v1/pipelines/cam0/resume")
            assert client.completion()[1] == EMITTED
            client.take()
            daemon.post("/v1/pipelines/cam0/drain")
            daemon.post("/v1/pipelines/cam0/resume")
            one_by_one(client, 2, first=2)
