"""A daemon killed at a chosen moment under a service manager that keeps what it was given."""

import os
import signal
import time

import pytest

from harness import Background, Daemon, numbered, pipeline, wait_until, whole
from harness.store import Store

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


@pytest.fixture
def store(place):
    with Store(place) as kept:
        yield kept


def start(place, store, pipelines, **keys):
    daemon = Daemon(place, pipelines, env=store.environment, binary=store.program, **keys)
    daemon.leaves_sockets = True
    return daemon


def test_a_torn_file_is_mended_after_two_kills_in_a_row(place, store):
    entry = pipeline(FORMAT, sink={"file": str(place / "out")})
    with start(place, store, {"cam0": entry}) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(3, SIZE).tobytes())
            daemon.wait_view("it is written", lambda view: view["frames"]["emitted"] == 3)
            for number in range(12):
                store.end(daemon)
                with open(place / "out", "ab") as file:
                    file.write(b"torn")
                store.start(daemon)
                time.sleep(number * 0.002)
                store.kill(daemon)
        assert (place / "out").read_bytes()[:3 * SIZE] == numbered(3, SIZE).tobytes()


def test_what_a_file_held_before_is_left_alone_where_no_result_came(place, store):
    before = numbered(3, SIZE).tobytes()
    (place / "out").write_bytes(before)
    with start(place, store, {"cam0": pipeline(FORMAT, sink={"file": str(place / "out")})}) as daemon:
        for _ in range(3):
            store.kill(daemon)
        assert (place / "out").read_bytes() == before
        with daemon.producer() as producer:
            producer.send(whole(3, SIZE).tobytes())
            daemon.account(came=1, emitted=1)
            store.kill(daemon)
        assert (place / "out").read_bytes() == before + whole(3, SIZE).tobytes()


LARGE = 4 * 1024 * 1024


@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("reply", [False, True])
def test_a_result_goes_on_at_its_next_byte_after_an_upgrade_and_a_kill(place, store, lanes, reply):
    """The next image of the program has written nothing yet when it is killed."""
    frames = numbered(5, LARGE)
    entry = pipeline({"dtype": "uint8", "shape": [LARGE]}, sink={"reply": True} if reply else {}, slots=3)
    with start(place, store, {"cam0": entry}, lanes=lanes) as daemon:
        readers = [] if reply else [daemon.reader(), daemon.reader()]
        with daemon.producer() as producer:
            readers = readers or [producer]
            sending = Background(producer.send, frames.tobytes())
            got = [reader.read(LARGE // 2 + 4321 + number * LARGE) for number, reader in enumerate(readers)]
            daemon.wait_view("it waits", lambda view: view["waiting"] == "reader")
            daemon.signal(signal.SIGUSR2)
            wait_until(lambda: daemon.status()["handovers"]["upgrade"] == 1, "it has taken over", 30)
            store.kill(daemon)
            rests = [Background(reader.read, 5 * LARGE - len(part)) for reader, part in zip(readers, got)]
            assert all(part + rest.join() == frames.tobytes() for part, rest in zip(got, rests))
            sending.join()
        daemon.account(came=5, emitted=5)
        assert "anew" not in daemon.log
