"""A worker that stands by takes the place of one that ends, and another one stands by after that."""

import os
import shutil
import signal

import pytest

from harness import BACKEND, Daemon, numbered, pipeline, wait_until
from harness.daemon import WORKER

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def worker(daemon):
    return daemon.status()["devices"]["0"]["worker"]


def wait_for_standby(daemon, state, other_than=None):
    """The process that serves, and the one that stands by."""

    def look():
        now = worker(daemon)
        standby = now["standby"]
        is_there = standby and standby["state"] == state and standby["pid"] != other_than
        return is_there and (now["pid"], standby["pid"])

    return wait_until(look, f"one stands by, and is {state}")


def pass_frames(producer, reader, first):
    producer.send(numbered(5, SIZE, first=first).tobytes())
    assert reader.read(5 * SIZE) == numbered(5, SIZE, first=first).tobytes()


@pytest.mark.parametrize("standby", ["warm", "bare"])
def test_it_takes_over_again_and_again(place, standby):
    entry = pipeline(FORMAT, stages=["affine"])
    with Daemon(place, {"cam0": entry}, gpu={"backend": BACKEND, "standby": standby}) as daemon:
        with daemon.producer() as producer, daemon.reader() as reader:
            for round in range(3):
                pass_frames(producer, reader, 10 * round)
                serves, stands_by = wait_for_standby(daemon, standby)
                os.kill(serves, signal.SIGKILL)
                wait_until(lambda: worker(daemon)["replaced"] == round + 1, "it is replaced")
                assert worker(daemon)["pid"] == stands_by
                pass_frames(producer, reader, 10 * round + 5)


def test_its_own_end_costs_nothing(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}, gpu={"backend": BACKEND, "standby": "warm"}) as daemon:
        with daemon.producer() as producer, daemon.reader() as reader:
            _, first = wait_for_standby(daemon, "warm")
            os.kill(first, signal.SIGKILL)
            wait_for_standby(daemon, "warm", other_than=first)
            pass_frames(producer, reader, 0)
            assert worker(daemon)["replaced"] == 0


def test_a_reload_takes_it_and_gives_it(place):
    entries = {"cam0": pipeline(FORMAT)}
    with Daemon(place, entries, gpu={"backend": BACKEND, "standby": "off"}) as daemon:
        daemon.write(entries, gpu={"backend": BACKEND, "standby": "bare"})
        daemon.command("/v1/reload")
        serves, _ = wait_for_standby(daemon, "bare")
        daemon.write(entries, gpu={"backend": BACKEND, "standby": "off"})
        daemon.command("/v1/reload")
        wait_until(lambda: worker(daemon)["standby"] is None, "it has gone")
        assert worker(daemon)["pid"] == serves


@pytest.mark.parametrize("standby", ["warm", "off"])
def test_an_installed_worker_takes_over(place, standby):
    """An upgrade keeps the worker that runs; one that was installed with the daemon then takes its place."""
    program, new = place / "framed-worker", place / "new"
    shutil.copy(WORKER, program)
    with Daemon(place, {"cam0": pipeline(FORMAT)}, gpu={"backend": BACKEND, "standby": standby}, env={"FRAMED_WORKER": program}) as daemon:
        with daemon.producer() as producer, daemon.reader() as reader:
            pass_frames(producer, reader, 0)
            first = worker(daemon)["pid"]
            shutil.copy(WORKER, new)
            new.rename(program)
            assert daemon.post("/v1/upgrade")[0] == 200
            pass_frames(producer, reader, 5)
            wait_until(lambda: worker(daemon)["pid"] not in (first, None), "the worker is replaced")
            pass_frames(producer, reader, 10)
            assert worker(daemon)["last"]["reason"] == "another framed-worker is installed"
            assert daemon.status()["handovers"]["fault"] == 0
