"""`split: rows`: each frame on several devices, in bands of its rows; what comes of it is what comes of one device.

The devices are those of test_many_devices.py.
"""

import json

import numpy as np
import pytest

from harness import Background, complete, pipeline, run_framed
from test_many_devices import LOST, SIZE, Many, Traffic, pytestmark  # noqa: F401
from test_spread import carry, strike

SMALL = {"pixels": "gray", "width": 32, "height": SIZE // 32}  # two bands of rows that begin at aligned addresses


def split(stages=(LOST,), given=SMALL, **keys):
    return pipeline(given, devices="all", split="rows", stages=stages, **keys)


def through(daemon, name, frames, result_bytes):
    with daemon.reader(name) as reader, daemon.producer(name) as producer:
        sending = Background(producer.send, frames.tobytes())
        results = reader.read(len(frames) * result_bytes)
        sending.join()
    return results


@pytest.mark.parametrize("completion", ["callback", "spin"])
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("stages, result", [
    ([{"affine": {"scale": 0.5}}, {"blur": {"sigma": 1.5}}], 3 * 640 * 360),
    ([{"convert": {"to": "gray"}}, {"blur": {"sigma": 4}}, {"sobel": {}}, {"threshold": {"level": 20}}], 640 * 360),
    ([{"blur": {"sigma": 2}}, {"stats": {}}], 260 * 4),
    ([{"normalize": {}}], 3 * 4 * 640 * 360),
])
def test_bands_are_the_frame(place, completion, count, stages, result):
    given = {"pixels": "rgb24", "width": 640, "height": 360}
    frames = np.random.default_rng(count).integers(0, 256, (6, 360, 640, 3), np.uint8)
    entries = {"cam0": split(stages, given, completion=completion), "cam1": pipeline(given, stages=stages)}
    with Many(place, entries, count=count) as daemon:
        assert through(daemon, "cam0", frames, result) == through(daemon, "cam1", frames, result)
        assert daemon.view()["devices"] == list(range(count))
        daemon.account(came=6, emitted=6)


@pytest.mark.parametrize("kind, timeout", [("illegal", "20s"), ("hang", "700ms")])
def test_a_fault_costs_no_frame(place, kind, timeout):
    with Many(place, {"cam0": split([strike(kind, 21)])}, count=3, timeout=timeout) as daemon:
        carry(daemon, 100)
        assert daemon.view()["devices"] == [0, 1, 2]


def test_a_frame_that_strikes_alone_twice_is_dropped_and_the_others_go_on(place):
    with Many(place, {"cam0": split([strike("illegal", 20, again="yes")])}) as daemon:
        carry(daemon, 60, lost=[20])


def test_frames_go_on_over_the_devices_that_are_left(place):
    """The device that fails has one band of each frame only, and is the one that is left out."""
    with Many(place, {"cam0": split(sink={"reply": True})}, count=2) as daemon:
        with Traffic(daemon, clients=1) as traffic:
            traffic.wait_more()
            daemon.break_devices(1)
            assert "broken" in daemon.wait_state(1, "failed")["text"]
            traffic.wait_more()
            assert daemon.view()["devices"] == [0]
            daemon.break_devices()
            for number, command, state, devices in (1, "resume", "open", [0, 1]), (0, "drain", "drained", [1]):
                daemon.command(f"/v1/devices/{number}/{command}")
                daemon.wait_state(number, state)
                traffic.wait_more()
                assert daemon.view()["devices"] == devices
        count = sum(traffic.counts)
        daemon.account(came=count, emitted=count)


@pytest.mark.parametrize("stages, given, why", [
    ([{"affine": {}}, {"motion": {}}], SMALL, "stages[1] (motion) cannot compute a frame in bands of rows: it needs all of it"),
    ([{"resize": {"width": 16, "height": 8}}], SMALL, "stages[0] (resize) cannot"),
    ([{"affine": {}}], {**SMALL, "pixels": "nv12"}, "stages[0] (affine) cannot"),
    ([{"blur": {"sigma": 1}}, {"stats": {}}], {**SMALL, "pixels": "grayf32le"}, "stages[1] (stats) cannot"),
    ([], SMALL, "there are no stages whose work could be split"),
])
def test_what_needs_the_whole_frame_is_refused(place, stages, given, why):
    file = place / "framed.yaml"
    file.write_text(json.dumps(complete(place, {"cam0": split(stages, given)}, gpu={"backend": "cpu", "count": 2})))
    done = run_framed("-c", file, "--check")
    assert done.returncode == 78 and why in done.stderr, done.stderr
