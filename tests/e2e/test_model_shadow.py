"""The shadow of a model: a second one computes some of its frames, and what they differ by is told; results stay as they are."""

import subprocess

import numpy as np

from harness import FRAMECTL, Daemon, limit, pipeline
from test_model import MODELS, tensor, with_runtime

FRAMES = np.random.default_rng(6).standard_normal((300, 1, 6)).astype(np.float32)


def told(daemon, count):
    """The shadow's report once each frame is in it: it compares the first of them, and others when it has time."""
    def all_in(view):
        shadow = view["shadow"]
        return shadow["compared"] > 0 and shadow["compared"] + shadow["skipped"] + shadow["failed"] == count
    return daemon.wait_view("all are told of", all_in)["shadow"]


def run(place, new, frames=FRAMES, dtype="float32", name="identity"):
    models = {"one": {"file": str(MODELS / f"{name}.onnx"), "shadow": {"file": str(MODELS / f"{new}.onnx")}}}
    entry = pipeline(tensor(dtype, frames.shape[-1]), slots=3, stages=[{"model": {"name": "one"}}])
    with Daemon(place, {"cam0": entry}, models=models) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(frames.tobytes())
            results = reader.frames(len(frames), frames.shape[1:], np.float32)
        shadow = told(daemon, len(frames))
        text = subprocess.run([FRAMECTL, "-s", daemon.socket, "status", "cam0"], capture_output=True, text=True,
                              timeout=limit(20), check=True).stdout
        samples = daemon.metrics()
    assert "  shadow    " in text and f"{new}.onnx: " in text
    assert f'framed_shadow_frames_total{{pipeline="cam0",result="compared"}} {shadow["compared"]}\n' in samples
    return results, shadow


@with_runtime
def test_the_same_model_differs_by_nothing(place):
    results, shadow = run(place, "identity")
    np.testing.assert_array_equal(results, FRAMES)
    assert (shadow["largest"], shadow["mean"], shadow["agreement"], shadow["failed"]) == (0, 0, 1, 0), shadow


@with_runtime
def test_what_another_model_gives_is_compared_and_changes_no_result(place):
    """y = x and y = -x, of frames whose largest element is the last one: 0 to 5, so that they differ by 0 to 10."""
    frames = np.tile(np.arange(6, dtype=np.float32), (50, 1, 1))
    results, shadow = run(place, "negated", frames)
    np.testing.assert_array_equal(results, frames)
    assert shadow["largest"] == 10 and abs(shadow["mean"] - 5) < 1e-6 and shadow["agreement"] == 0, shadow


@with_runtime
def test_without_a_shadow_there_is_none(place):
    entry = pipeline(tensor("float32", 6), stages=[{"model": {"file": str(MODELS / "identity.onnx")}}])
    with Daemon(place, {"cam0": entry}) as daemon:
        assert daemon.view()["shadow"] is None and "framed_shadow_agreement{" not in daemon.metrics()
