"""A worker that stands by takes the place of one that ends, and another one stands by after that."""

import os
import signal

import pytest

from harness import BACKEND, Daemon, numbered, pipeline, wait_until

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def worker(daemon):
    return daemon.status()["devices"]["0"]["worker"]


def wait_for_standby(daemon, state):
    """The process that serves, and the one that stands by."""
    wait_until(lambda: (worker(daemon)["standby"] or {}).get("state") == state, f"one stands by, and is {state}")
    now = worker(daemon)
    return now["pid"], now["standby"]["pid"]


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
            wait_until(lambda: wait_for_standby(daemon, "warm")[1] != first, "another one stands by")
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
