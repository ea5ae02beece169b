"""Whose frames go first where those of several pipelines wait for the same worker."""

import os

from harness import Daemon, numbered, pipeline, slow_stage

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
