"""A device that fails more often than the daemon may recover: it is said, the frames on it are counted, and it ends with 71.

The `fault` stage of test builds makes it fail on a frame of choice.
"""

import re
import time

import numpy as np
import pytest

from harness import BACKEND, Background, Daemon, fault_stage, numbered, pace, pipeline, require_whole, slow_stage
from harness.stream import Stream

SIZE = 512
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
GPU_LOST = 71


def gpu(**keys):
    return {"backend": BACKEND, "faults": "0/min", **keys}


def drive_into_fault(daemon, count):
    """Sends frames until the daemon has ended, and returns what the reader got before."""
    daemon.leaves_frames = True
    with daemon.reader() as reader, daemon.producer() as producer:
        def send():
            try:
                producer.send(numbered(count, SIZE).tobytes())
            except OSError:
                pass  # the daemon has ended
        sending, taking = Background(send), Background(reader.rest)
        daemon.ends(GPU_LOST, seconds=30)
        sending.join()
        return taking.join()


@pytest.mark.parametrize("completion", ["callback", "spin"])
@pytest.mark.parametrize("slots", [1, 2, 4])
@pytest.mark.parametrize("kind, timeout", [("illegal", "20s"), ("hang", "300ms")])
def test_a_fault_ends_the_daemon_with_an_account(place, kind, timeout, slots, completion):
    """An illegal access is found although its callback never comes, a hang by `gpu.timeout`."""
    entry = pipeline(FORMAT, slots=slots, completion=completion, stages=[fault_stage(kind, at=5)])
    with Daemon(place, {"cam0": entry}, gpu=gpu(timeout=timeout)) as daemon:
        received = drive_into_fault(daemon, 50)
    account = daemon.final_account()
    assert 1 <= account["gpu_fault"] <= slots, account
    whole_part = received[:len(received) // SIZE * SIZE]
    numbers = require_whole(whole_part, SIZE)
    assert numbers == list(range(len(numbers))) and len(numbers) <= 5 + slots, numbers
    assert account["in"] == account["emitted"] + sum(
        count for fate, count in account.items() if fate not in ("in", "emitted")), account
    assert "the worker of device 0 failed" in daemon.log


def test_the_log_says_what_happened_and_what_to_do(place):
    entry = pipeline(FORMAT, stages=[fault_stage("illegal", at=0)])
    with Daemon(place, {"cam0": entry}, gpu=gpu()) as daemon:
        drive_into_fault(daemon, 5)
    log = daemon.log
    assert "illegal" in log and "cam0" in log, log


def test_a_hang_is_named_with_its_limit(place):
    entry = pipeline(FORMAT, stages=[fault_stage("hang", at=0)])
    with Daemon(place, {"cam0": entry}, gpu=gpu(timeout="300ms")) as daemon:
        drive_into_fault(daemon, 5)
    log = daemon.log
    assert "no completion for 0.3 s" in log and "raise gpu.timeout" in log, log


def test_a_hang_beside_a_busy_pipeline_is_found(place):
    """Frames of others that go on completing excuse one that hangs only for a while."""
    hang = {"fault": {"kind": "hang", "at": 5, "every": 0}}  # one worker of the CPU backend; another goes on
    entries = {"cam0": pipeline(FORMAT, stages=[hang]), "cam1": pipeline(FORMAT, stages=[slow_stage(2)])}

    def flood(producer):
        try:
            while True:
                producer.send(numbered(1, SIZE).tobytes())
        except OSError:
            pass  # the daemon has ended

    with Daemon(place, entries, lanes=2, gpu=gpu(timeout=f"{pace(1):.1f}s")) as daemon:
        with daemon.reader("cam1") as reader, daemon.producer("cam1") as producer:
            busy = [Background(flood, producer), Background(reader.rest)]
            drive_into_fault(daemon, 6)
            for thread in busy:
                thread.join()
        assert re.search(r"a kernel hangs; frame 5 of epoch \d{16} was on the device \(stage fault\)", daemon.log)
    assert daemon.final_account("cam0")["gpu_fault"] == 1


def test_frames_of_another_pipeline_are_accounted_for_too(place):
    """One device serves both; what the other had under way has a fate in the last line."""
    entries = {"cam0": pipeline(FORMAT, stages=[fault_stage("illegal", at=20)]), "cam1": pipeline(FORMAT)}
    with Daemon(place, entries, lanes=2, gpu=gpu()) as daemon:
        with daemon.reader("cam1") as reader, daemon.producer("cam1") as producer:
            producer.send(numbered(10, SIZE).tobytes())
            np.testing.assert_array_equal(reader.frames(10, SIZE), numbered(10, SIZE))
            daemon.account("cam1", came=10, emitted=10)
            drive_into_fault(daemon, 50)
    account = daemon.final_account()
    assert account["emitted"] >= 10 and account["gpu_fault"] >= 1, account


def test_no_fault_without_the_frame(place):
    """The stage by itself is harmless."""
    entry = pipeline(FORMAT, stages=[fault_stage("illegal", at=1000)])
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(50, SIZE).tobytes())
            np.testing.assert_array_equal(reader.frames(50, SIZE), numbered(50, SIZE))
        daemon.account(came=50, emitted=50)


def test_a_slow_device_is_not_a_dead_one(place):
    """`gpu.timeout` counts from the device's last completion: a long queue that moves is healthy."""
    entry = pipeline(FORMAT, slots=16, stages=[slow_stage(50)])
    with Daemon(place, {"cam0": entry}, gpu=gpu(timeout=f"{pace(2):.1f}s")) as daemon:
        stream = Stream(daemon)
        time.sleep(pace(3))  # for so long the device always has something to do
        count = stream.end()
        daemon.account(came=count, emitted=count)
