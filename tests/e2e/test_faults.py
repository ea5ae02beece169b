"""What is said of a worker that fails, what counts as a failure, and how a device waits whose workers fail too often.

The `fault` stage of test builds strikes a frame of choice; with `again: no` that frame gets through when it runs once more.
"""

import json
import re
import signal
import threading
import time

import numpy as np

from harness import BACKEND, Background, Daemon, numbered, pace, pipeline, slow_stage, wait_until
from harness.stream import Stream

SIZE = 512
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def gpu(**keys):
    return {"backend": BACKEND, "faults": "60/min", **keys}


def strike(kind, at):
    return {"fault": {"kind": kind, "at": at, "every": 0, "again": "no"}}


def carry(daemon, count):
    with daemon.reader() as reader, daemon.producer() as producer:
        producer.send(numbered(count, SIZE).tobytes())
        np.testing.assert_array_equal(reader.frames(count, SIZE), numbered(count, SIZE))


def test_a_hang_is_named_with_its_limit(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, stages=[strike("hang", 0)])}, gpu=gpu(timeout="300ms")) as daemon:
        carry(daemon, 5)
        assert "the worker of device 0 failed" in daemon.log
        assert "no completion for 0.3 s" in daemon.log and "raise gpu.timeout" in daemon.log, daemon.log


def test_a_hang_beside_a_busy_pipeline_is_found(place):
    """Frames of others that go on completing excuse one that hangs only for a while."""
    # one worker of the CPU backend hangs; another goes on
    entries = {"cam0": pipeline(FORMAT, stages=[strike("hang", 5)]), "cam1": pipeline(FORMAT, stages=[slow_stage(2)])}
    ends = threading.Event()

    def flood(producer):
        while not ends.is_set():
            producer.send(numbered(1, SIZE).tobytes())
        producer.close()

    with Daemon(place, entries, lanes=2, gpu=gpu(timeout=f"{pace(0.5):.1f}s")) as daemon:
        with daemon.reader("cam1") as reader, daemon.producer("cam1") as producer:
            busy = [Background(flood, producer), Background(reader.rest)]
            carry(daemon, 6)
            ends.set()
            busy[0].join()
            daemon.wait_view("all is through", lambda view: view["frames"]["in_flight"] == 0, "cam1")
            assert re.search(r"a kernel hangs; frame 5 of epoch \d{16} was on the device \(stage fault\)", daemon.log), daemon.log
            daemon.signal(signal.SIGTERM)
            busy[1].join()
        daemon.ends()
    assert daemon.final_account("cam0") == {"in": 6, "emitted": 6}


def test_a_device_whose_workers_fail_too_often_waits(place):
    """With `0/min` once is too often. Connections and frames stay, and nobody restarts the daemon for it."""
    with Daemon(place, {"cam0": pipeline(FORMAT, slots=2, stages=[strike("illegal", 5)])}, gpu=gpu(faults="0/min")) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            process = daemon.process.pid
            producer.send(numbered(8, SIZE).tobytes())
            daemon.wait_log("another one is started in 1 s, since that was more than 0 times in a minute (gpu.faults)")
            code, body = daemon.request("GET", "/v1/health")
            told = json.loads(body)["degraded"]
            assert code == 503 and any(one["reason"] == "waiting" and "fail too often" in one["text"] for one in told), body
            assert daemon.request("GET", "/v1/live")[0] == 200
            np.testing.assert_array_equal(reader.frames(8, SIZE), numbered(8, SIZE))
        daemon.account(came=8, emitted=8)
        assert daemon.process.pid == process and daemon.request("GET", "/v1/health")[0] == 200


def test_a_stop_does_not_wait_for_such_a_device(place):
    entry = pipeline(FORMAT, slots=2, stages=[{"fault": {"kind": "illegal", "at": 0}}])
    with Daemon(place, {"cam0": entry}, gpu=gpu(faults="0/min"), drain_timeout="100ms") as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(2, SIZE).tobytes())
            daemon.wait_log("another one is started in 1 s")
            daemon.signal(signal.SIGTERM)
            daemon.leaves_frames = True
            daemon.ends()
    assert daemon.final_account() == {"in": 2, "emitted": 0, "shutdown": 2}


def test_no_fault_without_the_frame(place):
    """The stage by itself is harmless."""
    with Daemon(place, {"cam0": pipeline(FORMAT, stages=[strike("illegal", 1000)])}) as daemon:
        carry(daemon, 50)
        daemon.account(came=50, emitted=50)


def test_a_slow_device_is_not_a_dead_one(place):
    """`gpu.timeout` counts from the device's last completion: a long queue that moves is healthy."""
    entry = pipeline(FORMAT, slots=16, stages=[slow_stage(50)])
    with Daemon(place, {"cam0": entry}, gpu=gpu(timeout=f"{pace(2):.1f}s")) as daemon:
        stream = Stream(daemon)
        time.sleep(pace(3))  # for so long the device always has something to do
        count = stream.end()
        daemon.account(came=count, emitted=count)
        wait_until(lambda: daemon.status()["handovers"]["fault"] == 0, "nothing failed")
