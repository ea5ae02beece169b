"""Processes that are stopped and go on: time in which nobody could work is held against nobody."""

import signal
import time

import pytest

from harness import Background, Daemon, limit, numbered, pipeline, slow_stage, whole

pytestmark = pytest.mark.memory

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def sleep_stopped(daemon, seconds):
    """The one thing here that takes a fixed time: the daemon is stopped for longer than its limits allow."""
    daemon.signal(signal.SIGSTOP)
    time.sleep(seconds)
    daemon.signal(signal.SIGCONT)


def test_a_stopped_daemon_takes_no_frame_for_overdue(place):
    """Neither the GPU's nor the producer's limit counts the time in which the daemon itself was stopped."""
    entry = pipeline(FORMAT, stages=[slow_stage(300)], source={"timeout": "4s"})
    frames = numbered(3, SIZE)
    with Daemon(place, {"cam0": entry}, gpu={"backend": "cpu", "timeout": "4s"}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            for number in range(2):
                producer.send(whole(number, SIZE).tobytes()[:100] if number else whole(number, SIZE).tobytes())
                daemon.wait_view("it has begun", lambda view: view["frames"]["in"] == number + 1)
                sleep_stopped(daemon, 5)
                if number:
                    producer.send(whole(number, SIZE).tobytes()[100:])
            producer.send(whole(2, SIZE).tobytes())
            assert reader.read(3 * SIZE) == frames.tobytes()
        daemon.account(came=3, emitted=3)
        assert daemon.status()["handovers"]["fault"] == 0
