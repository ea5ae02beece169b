"""Whenever nothing can move, the daemon sleeps: no state of a client may turn into a busy loop."""

import os
import time

import pytest

from harness import Background, Daemon, numbered, pipeline, whole

pytestmark = pytest.mark.memory

SIZE = 512
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
LARGE_BYTES = 1 << 20
LARGE = {"dtype": "uint8", "shape": [LARGE_BYTES]}


def assert_sleeps(daemon):
    """Processor time over one second in which nothing happens; a loop that spins would take all of it."""
    before = daemon.cpu_seconds()
    time.sleep(1)  # what is measured is what it does meanwhile
    spent = daemon.cpu_seconds() - before
    assert spent < 0.3, f"{spent:.2f} s of processor time in one idle second"


@pytest.mark.parametrize("completion", ["callback", "spin"])
def test_idle(place, completion):
    """Nobody there, somebody silent, a frame begun, and all that after traffic."""
    entries = {name: pipeline(FORMAT, completion=completion) for name in ("nobody", "silent", "begun", "after")}
    with Daemon(place, entries, lanes=2) as daemon:
        with daemon.producer("silent"), daemon.reader("silent"), daemon.producer("begun") as begun:
            begun.send(b"x")
            with daemon.reader("after") as reader, daemon.producer("after") as producer:
                producer.send(numbered(100, SIZE).tobytes())
                reader.frames(100, SIZE)
                assert_sleeps(daemon)


@pytest.mark.parametrize("completion", ["callback", "spin"])
def test_blocked(place, completion):
    """Bytes wait in sockets and may not be read: no reader, a stalled reader, paused, and a producer that has left."""
    keys = {"completion": completion}
    entries = {
        "unread": pipeline(FORMAT, **keys),
        "stalled": pipeline(LARGE, **keys),
        "paused": pipeline(FORMAT, **keys),
        "left": pipeline(FORMAT, slots=1, **keys),
        "reply": pipeline(LARGE, sink={"reply": True}, **keys),
    }
    with Daemon(place, entries, lanes=2, drain_timeout="100ms") as daemon:
        daemon.leaves_frames = True
        daemon.command("/v1/pipelines/paused/pause")
        with daemon.producer("left") as producer:
            producer.send(numbered(10, SIZE).tobytes())
        clients = {name: daemon.producer(name) for name in ("unread", "stalled", "paused", "reply")}
        clients["reader"] = daemon.reader("stalled", buffer=4096)
        clients["unread"].send(numbered(10, SIZE).tobytes())
        clients["paused"].send(numbered(10, SIZE).tobytes())
        sending = [Background(clients[name].send, bytes(10 * LARGE_BYTES)) for name in ("stalled", "reply")]
        for name in ("unread", "stalled", "left", "reply"):
            daemon.wait_view("it waits", lambda view: view["waiting"] == "reader", name)
        assert_sleeps(daemon)
        for client in clients.values():
            client.socket.shutdown(2)
            client.close()
        for thread in sending:
            with pytest.raises(OSError):
                thread.join()
        assert_sleeps(daemon)


def test_with_slow_readers_that_drop(place):
    """Readers that stalled within a result, and one that has shut its writing side down."""
    entries = {"cam0": pipeline(LARGE, sink={"overload": "drop"}), "cam1": pipeline(FORMAT, sink={"overload": "drop"})}
    with Daemon(place, entries, drain_timeout="100ms") as daemon:
        daemon.leaves_frames = True
        with daemon.reader("cam0", buffer=4096), daemon.reader("cam1") as deaf, daemon.producer("cam0") as producer:
            deaf.finish()
            for number in range(10):
                producer.send(whole(number, LARGE_BYTES).tobytes())
            daemon.wait_view("all came in", lambda view: view["frames"]["in"] == 10)
            assert_sleeps(daemon)


def test_with_fifos_and_files(place):
    """A FIFO without a writer, one with a silent writer, and a file into a full FIFO."""
    for name in ("lonely", "silent", "full"):
        os.mkfifo(place / name)
    (place / "in").write_bytes(numbered(400, SIZE).tobytes())
    entries = {
        "lonely": pipeline(FORMAT, source={"file": str(place / "lonely")}),
        "silent": pipeline(FORMAT, source={"file": str(place / "silent")}),
        "full": pipeline(FORMAT, source={"file": str(place / "in")}, sink={"file": str(place / "full")}),
        "paced": pipeline(FORMAT, source={"file": str(place / "in"), "rate": 0.01}, sink={"file": str(place / "paced")}),
    }
    with Daemon(place, entries) as daemon:
        with open(place / "silent", "wb"), open(place / "full", "rb") as full:
            daemon.wait_view("it is blocked", lambda view: view["waiting"] == "reader", "full")
            assert_sleeps(daemon)
            assert full.read(400 * SIZE) == numbered(400, SIZE).tobytes()
            daemon.account("full", came=400, emitted=400)
