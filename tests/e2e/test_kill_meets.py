"""Kills that meet something else: an upgrade, a reload, another kill, or an end."""

import errno
import signal
import socket
import time

import pytest

from harness import Background, numbered, pipeline, wait_until, whole
from harness.daemon import BINARY
from harness.injection import Injection
from harness.store import connections, copy, settle, start
from harness.waiting import limit
from test_kill_load import install

pytestmark = pytest.mark.memory

SIZE = 4096
LARGE = 4 * 1024 * 1024
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def test_a_kill_after_an_upgrade_and_an_upgrade_after_a_kill(place, store):
    with start(place, store, {"cam0": pipeline(FORMAT, slots=3)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            for number in range(4):
                producer.send(whole(2 * number, SIZE).tobytes() + whole(2 * number + 1, SIZE).tobytes()[:50])
                assert reader.read(SIZE) == whole(2 * number, SIZE).tobytes()
                daemon.wait_view("a part is there", lambda view: view["frames"]["in"] == 2 * number + 2)
                if number % 2 == 0:
                    handovers = daemon.status()["handovers"]["fault"]
                    daemon.signal(signal.SIGUSR2)
                    wait_until(lambda: daemon.status()["handovers"]["upgrade"] == number // 2 + 1, "it has taken over", 30)
                    assert daemon.status()["handovers"]["fault"] == handovers
                settle(daemon)
                store.kill(daemon)
                producer.send(whole(2 * number + 1, SIZE).tobytes()[50:])
                assert reader.read(SIZE) == whole(2 * number + 1, SIZE).tobytes()
        daemon.account(came=8, emitted=8)
        assert connections(daemon) == 0


@pytest.mark.parametrize("size", [SIZE, LARGE])
@pytest.mark.parametrize("script", ["exit 1", "kill -KILL $$"])
def test_a_program_that_ends_as_soon_as_it_takes_over_costs_nothing(place, store, script, size):
    """It was willing. What the image before it noted is there for the next process, of a program that is well."""
    install(place)
    store.program.write_text(store.program.read_text().replace(str(BINARY), str(place / "framed")))
    frames = numbered(6, size).tobytes()
    with start(place, store, {"cam0": pipeline({"dtype": "uint8", "shape": [size]}, slots=3)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            sending = Background(producer.send, frames[:5 * size + 100])
            got = reader.read(size + size // 2)
            settle(daemon)
            install(place, f'case "$*" in *--check*) exec {BINARY} "$@" ;; esac\n{script}')
            daemon.signal(signal.SIGUSR2)
            assert daemon.process.wait(limit(20)) != 0
            store.heard()
            install(place)
            store.start(daemon)
            daemon.wait_ready()
            got += reader.read(5 * size - len(got))
            sending.join()
            sending = Background(producer.send, frames[5 * size + 100:])
            assert got + reader.read(size) == frames
            sending.join()
        assert connections(daemon) == 0 and "anew" not in daemon.log


@pytest.mark.plain  # sanitizers handle these signals themselves
@pytest.mark.parametrize("fault", [signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT])
def test_after_a_fault_of_its_own_only_listeners_go_on(place, store, fault):
    """A wild store may have gone anywhere."""
    with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader() as reader, daemon.producer():
            settle(daemon)
            daemon.signal(fault)
            assert daemon.process.wait() == -fault
            store.end(daemon)
            with socket.socket(socket.AF_UNIX) as early:
                early.connect(daemon.path("cam0", "sink"))
                store.start(daemon)
                daemon.wait_ready()
                assert reader.rest() == b""
                daemon.wait_view("it waited", lambda view: view["readers"] == 1)
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(whole(0, SIZE).tobytes())
            assert reader.read(SIZE) == whole(0, SIZE).tobytes()


@pytest.mark.host  # a driver makes memory files of its own
def test_where_nothing_can_be_noted_only_listeners_are_kept(place, store):
    """And nobody knows how many connections that cost. The first memory file is for what a worker counts."""
    daemon = start(place, store, {"cam0": pipeline(FORMAT)})
    store.arm(daemon, Injection(place, "memfd_create", at=2, error=errno.EMFILE))
    with daemon:
        with daemon.reader() as reader, daemon.producer():
            settle(daemon)
            store.end(daemon)
            store.arm(daemon)
            with socket.socket(socket.AF_UNIX) as early:
                early.connect(daemon.path("cam0", "sink"))
                store.start(daemon)
                daemon.wait_ready()
                assert reader.rest() == b""
                daemon.wait_view("it waited", lambda view: view["readers"] == 1)
        assert connections(daemon) == 0 and "anew" not in daemon.log


def test_a_kill_after_a_gpu_fault(place, store):
    entry = pipeline(FORMAT, slots=3, stages=[{"fault": {"kind": "illegal", "at": 2, "every": 0, "again": "no"}}])
    with start(place, store, {"cam0": entry}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(4, SIZE).tobytes())
            assert reader.read(4 * SIZE) == numbered(4, SIZE).tobytes()
            settle(daemon)
            store.kill(daemon)
            assert daemon.status()["handovers"]["fault"] == 1
            assert connections(daemon) == 0


def test_a_reload_and_then_a_kill(place, store):
    with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            daemon.write({"cam0": pipeline(FORMAT), "cam1": pipeline(FORMAT)})
            daemon.command("/v1/reload")
            with daemon.reader("cam1") as other:
                producer.send(whole(0, SIZE).tobytes()[:7])
                daemon.wait_view("it has begun", lambda view: view["frames"]["in"] == 1)
                settle(daemon)
                store.kill(daemon)
                producer.send(whole(0, SIZE).tobytes()[7:])
                assert reader.read(SIZE) == whole(0, SIZE).tobytes()
                with daemon.producer("cam1") as second:
                    second.send(whole(1, SIZE).tobytes())
                    assert other.read(SIZE) == whole(1, SIZE).tobytes()
        assert connections(daemon) == 0
        assert daemon.log.count("configuration reloaded") == 1  # it was over


def test_a_kill_at_any_time_of_a_start(place, store):
    """Before it is ready a process has taken what lay there, and keeps it no longer: connections may go, but nothing else."""
    with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon:
        for number in range(10):
            with daemon.reader(), daemon.producer():
                store.end(daemon)
                store.start(daemon)
                time.sleep(number * 0.002)
                store.kill(daemon)
        with daemon.reader() as reader, daemon.producer() as producer:
            daemon.wait_view("they are there", lambda view: view["readers"] == 1 and view["sessions"] == 1)
            producer.send(whole(0, SIZE).tobytes())
            assert reader.read(SIZE) == whole(0, SIZE).tobytes()


def test_a_kill_within_an_orderly_end_leaves_nothing_that_is_older(place, store):
    """Both kinds of an end lie there: what the later one says counts, also at the kill after it."""
    with start(place, store, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            for number in range(3):  # so that it notes more than once
                with daemon.reader():
                    daemon.wait_view("it is there", lambda view: view["readers"] == 2)
                daemon.wait_view("it has gone", lambda view: view["readers"] == 1)
            store.heard()
            older = [(name, copy(descriptor)) for name, descriptor in store.kept if not name.startswith("framed-d")]
            assert {name.split("-")[1] for name, _ in older} == {"image"}
            daemon.signal(signal.SIGTERM)
            daemon.process.wait(limit(20))
            store.heard()
            assert store.noted()
            store.kept += older
            store.start(daemon)
            daemon.wait_ready()
            store.kill(daemon)
            producer.send(whole(0, SIZE).tobytes())
            assert reader.read(SIZE) == whole(0, SIZE).tobytes()
        assert connections(daemon) == 0 and "anew" not in daemon.log


@pytest.mark.parametrize("reply", [False, True])
def test_a_store_that_is_behind_brings_nobody_back(place, store, reply):
    """A producer was sent away in mid-frame and another one came, and the kill was before the manager had heard so: what the first one
    sends on is no frame."""
    entry = pipeline(FORMAT, source={"timeout": "4s"}, sink={"reply": True} if reply else {})
    with start(place, store, {"cam0": entry}) as daemon:
        with daemon.producer() as first:
            first.send(whole(0, SIZE).tobytes()[:100])
            daemon.wait_view("it has begun", lambda view: view["frames"]["in"] == 1)
            settle(daemon)  # and it is noted
            store.heard()
            before = [(name, copy(descriptor)) for name, descriptor in store.kept]
            assert daemon.view()["sessions"] == 1
            daemon.wait_view("it was sent away", lambda view: view["sessions"] == 0, seconds=40)  # from the last standstill on
            with pytest.raises(BrokenPipeError):  # although the service manager has its connection open
                first.socket.send(whole(0, SIZE).tobytes()[100:] + whole(1, SIZE).tobytes()[:100])
            with daemon.producer() as second:
                second.send(whole(2, SIZE).tobytes()[:10])
                daemon.wait_view("another one came", lambda view: view["frames"]["in"] == 2)
                settle(daemon)
                store.end(daemon)
            store.clear()
            store.kept = before
            store.start(daemon)
            daemon.wait_ready()
            assert daemon.view()["frames"]["in"] == 2 and "anew" not in daemon.log
        daemon.account(came=2, invalid=2)
