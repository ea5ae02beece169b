"""Batches: frames of several sessions go through a model together, and each result is its own frame's."""

import numpy as np
import pytest

from harness import BACKEND, Background, Daemon, pipeline, run_framed
from harness.waiting import wait_until

from test_model import MODELS, tensor, through, with_runtime

SHAPE = (1, 3, 4, 5)


def model(name="open", most=4, **keys):
    shape = {"shape": {"x": list(SHAPE)}} if name == "open" else {}
    batch = {"most": most, **{key: keys.pop(key) for key in ("wait",) if key in keys}}
    return {name: {"file": str(MODELS / f"{name}.onnx"), "batch": batch, **shape, **keys}}


def runs(name="open", given=tensor("float32", 3, 4, 5), **keys):
    return pipeline(given, stages=[{"model": {"name": name}}], sink={"overload": "block"}, **keys)


def batches(daemon, name="cam0"):
    return daemon.view(name)["model"]["batches"]


@with_runtime
@pytest.mark.parametrize("settings", [{"wait": "auto"}, {"wait": "5ms", "instances": 1}, {"most": 1}])
def test_many_sessions_get_the_results_that_they_would_get_alone(place, settings):
    entries = {f"cam{i}": runs(slots=3) for i in range(6)}
    rng = np.random.default_rng(1)
    frames = {name: rng.standard_normal((100, *SHAPE)).astype(np.float32) for name in entries}
    with Daemon(place, entries, models=model(**settings)) as daemon:
        going = {}
        for name in entries:
            reader, producer = daemon.reader(name), daemon.producer(name)
            going[name] = (reader, Background(reader.frames, 100, SHAPE, np.float32), Background(producer.send, frames[name].tobytes()))
        for name, (_, reading, sending) in going.items():
            sending.join()
            np.testing.assert_array_equal(reading.join(), frames[name] * np.float32(2) + np.float32(1))
        sizes = batches(daemon)
        assert len(sizes) == settings.get("most", 4)
        assert sum(count * (i + 1) for i, count in enumerate(sizes)) == 600 == sum(daemon.view("cam0")["model"]["instances"])


def together(daemon, frames):
    """Sends one frame to each pipeline at the same time; returns what each reader gets, in their order."""
    readers = [daemon.reader(f"cam{i}") for i in range(len(frames))]
    producers = [daemon.producer(f"cam{i}") for i in range(len(frames))]
    for producer, frame in zip(producers, frames):
        producer.send(frame.tobytes())
    return readers


@with_runtime
def test_a_batch_that_is_full_goes_at_once_and_is_named(place):
    frames = np.random.default_rng(2).standard_normal((4, *SHAPE)).astype(np.float32)
    with Daemon(place, {f"cam{i}": runs() for i in range(4)}, models=model(wait="1s")) as daemon:
        for reader, frame in zip(together(daemon, frames), frames):
            np.testing.assert_array_equal(reader.frames(1, SHAPE, np.float32)[0], frame * np.float32(2) + np.float32(1))
        sizes = batches(daemon)
        assert sum(count * (i + 1) for i, count in enumerate(sizes)) == 4
        assert f'framed_model_batch_frames_count{{pipeline="cam0"}} {sum(sizes)}\n' in daemon.metrics()
