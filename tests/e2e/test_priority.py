"""Whose frames go first where those of several pipelines wait for the same worker, and what becomes of those that wait too long."""

import os
import threading

import numpy as np
import pytest

from harness import BACKEND, Background, Daemon, numbered, pipeline, slow_stage

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
SLOTS = 16


def one_processor():
    """The CPU backend has one worker then."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def test_frames_of_high_priority_overtake_those_that_wait(place):
    """One worker has as many slow frames to do as there are slots, and another pipeline's frame comes after all of them."""
    entries = {
        "bulk": pipeline(FORMAT, slots=SLOTS, priority="low", stages=[slow_stage(300)]),
        "camera": pipeline(FORMAT, priority="high"),
    }
    daemon = Daemon(place, entries, lanes=1, before=one_processor)
    with daemon, daemon.reader("bulk"), daemon.reader("camera") as reader, daemon.producer("bulk") as bulk:
        bulk.send(numbered(SLOTS, SIZE).tobytes())
        daemon.wait_view("all are on the device", lambda view: view["frames"]["in_flight"] == SLOTS, "bulk")
        with daemon.producer("camera") as camera:
            camera.send(numbered(3, SIZE).tobytes())
            assert len(reader.frames(3, SIZE)) == 3
        assert daemon.view("bulk")["frames"]["emitted"] < SLOTS, "the camera's frames waited behind all others"
        daemon.settled = daemon.leaves_sockets = True
        daemon.kill()  # nobody waits for the rest


@pytest.mark.host
def test_a_frame_that_is_late_by_then_is_not_computed(place):
    """The one worker has frames of another pipeline before it at all times, for longer than the deadline."""
    entries = {
        "bulk": pipeline(FORMAT, slots=8, stages=[slow_stage(100)], sink={"file": "/dev/null"}),
        "camera": pipeline(FORMAT, deadline="50ms"),
    }
    with Daemon(place, entries, lanes=1, before=one_processor) as daemon, daemon.producer("bulk") as bulk:
        over = threading.Event()

        def send():
            while not over.is_set():
                bulk.send(numbered(1, SIZE).tobytes())
        sending = Background(send)
        daemon.wait_view("they wait for the worker", lambda view: view["frames"]["in_flight"] == 8, "bulk")
        with daemon.producer("camera") as camera:
            camera.send(numbered(1, SIZE).tobytes())
            daemon.wait_view("it has its fate", lambda view: view["frames"]["dropped"]["late"] == 1, "camera")
        over.set()
        sending.join()


@pytest.mark.skipif(BACKEND != "cpu", reason="of the CPU backend")
def test_without_shares_it_is_said_so(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, share={"percent": 30}), "cam1": pipeline(FORMAT)}) as daemon:
        assert "cam0: its kernels have the whole device, since there is no share of 30 %: the cpu backend" in daemon.log
        assert "cam1: its kernels" not in daemon.log
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(1, SIZE).tobytes())
            assert len(reader.frames(1, SIZE)) == 1


@pytest.mark.skipif(BACKEND != "cuda", reason="needs a GPU")
@pytest.mark.parametrize("graph", ["on", "off"])
def test_pipelines_with_shares_compute_what_others_do(place, graph):
    """Stages with state and large copies pass frames on by events, from stream to stream."""
    motion, gray = {"motion": {"rate": 0.5}}, {"pixels": "gray", "width": 1024, "height": 1024}
    entries = {name: pipeline(gray, slots=3, stages=[motion, "sobel"], graph=graph, **keys)
               for name, keys in {"cam0": {"share": {"percent": 30}}, "cam1": {"share": {"percent": 70}}, "cam2": {}}.items()}
    frames = np.random.default_rng(1).integers(0, 256, (20, 1024 * 1024), np.uint8)
    with Daemon(place, entries) as daemon:
        got = []
        for name in entries:
            with daemon.reader(name) as reader, daemon.producer(name) as producer:
                sending = Background(producer.send, frames.tobytes())
                got.append(reader.frames(20, 1024 * 1024))
                sending.join()
        np.testing.assert_array_equal(got[0], got[2])
        np.testing.assert_array_equal(got[1], got[2])
        assert "cam0: its kernels keep to" in daemon.log or "cam0: its kernels have the whole device" in daemon.log
