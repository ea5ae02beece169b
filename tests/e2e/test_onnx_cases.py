"""The cases by which ONNX says what its operators compute, each a model in the daemon with one frame through it.

They lie in ONNX's own wheel (build/onnx) with their inputs and what must come out. A model here takes one tensor a frame: of
a case with several the first is the frame, and the others become constants of the model.
"""

import collections
import json
import os
import pathlib
import re
import sys

import numpy as np
import pytest

from harness import BACKEND, complete, pipeline, run_framed

WHEEL = pathlib.Path(__file__).parents[2] / "build/onnx"
CASES = WHEEL / "onnx/backend/test/data"
NAMES = {1: "float32", 2: "uint8", 6: "int32", 7: "int64", 10: "float16"}  # of element types, as ONNX counts them
CHANCE = ("bernoulli", "dropout", "random", "multinomial")  # what comes out is not said by what goes in
A_DAEMON = 150  # models in one configuration
# Where ONNX Runtime itself computes otherwise than ONNX says.
OTHERWISE = {"node-test_averagepool_3d_dilations_large_count_include_pad_is_1_ceil_mode_is_True",
             "node-test_maxunpool_export_with_output_shape", "node-test_resize_downsample_scales_cubic_align_corners",
             "node-test_resize_downsample_scales_linear_align_corners"}

pytestmark = [pytest.mark.plain, pytest.mark.skipif(not CASES.is_dir() or "FRAMED_ONNXRUNTIME" not in os.environ, reason="there is no ONNX or no ONNX Runtime"),
              pytest.mark.skipif(BACKEND != "cpu", reason="on a GPU kernels round in other ways"), pytest.mark.takes(120)]


@pytest.fixture(scope="module")
def onnx():
    sys.path.insert(0, str(WHEEL))
    try:
        import onnx
        import onnx.numpy_helper
        yield onnx
    finally:
        sys.path.remove(str(WHEEL))


Case = collections.namedtuple("Case", "name model frame expected")


def tensor(onnx, file):
    """The tensor in a file, or None if it is a sequence, or of a type or a shape that frames cannot have."""
    given = onnx.TensorProto()
    given.ParseFromString(file.read_bytes())
    if given.data_type not in NAMES:
        return None
    array = onnx.numpy_helper.to_array(given)
    sides = [side for number, side in enumerate(array.shape) if side != 1 or any(each != 1 for each in array.shape[:number])]
    return array if array.size and len(sides) <= 4 else None


def read_case(onnx, folder):
    """The case in a folder, or why it is none for a daemon."""
    model = onnx.load(folder / "model.onnx")
    constants = {each.name for each in model.graph.initializer}
    inputs = [each for each in model.graph.input if each.name not in constants]
    files = sorted((folder / "test_data_set_0").glob("input_*.pb"))
    outputs = sorted((folder / "test_data_set_0").glob("output_*.pb"))
    if not inputs or len(files) != len(inputs) or len(outputs) != 1 or len(model.graph.output) != 1:
        return "inputs left out, or not one output"
    if any(word in folder.name for word in CHANCE):
        return "chance"
    if any(not each.type.HasField("tensor_type") for each in [*inputs, *model.graph.output]):
        return "sequences, maps and optional values"
    frame, expected = tensor(onnx, files[0]), tensor(onnx, outputs[0])
    if frame is None or expected is None:
        return "an element type or a shape that frames do not have"
    for given, file in zip(inputs[1:], files[1:]):
        constant = onnx.TensorProto()
        constant.ParseFromString(file.read_bytes())
        constant.name = given.name
        model.graph.initializer.append(constant)
        model.graph.input.remove(given)
    return Case(f"{folder.parent.name}-{folder.name}", model, frame, expected)


def entry(place, case):
    """A pipeline that reads the frame of a case from a file, and writes what comes out to another one."""
    (place / f"{case.name}.onnx").write_bytes(case.model.SerializeToString())
    (place / f"{case.name}.in").write_bytes(case.frame.tobytes())
    sides = list(case.frame.shape)
    while sides and sides[0] == 1:
        sides = sides[1:]
    given = {case.model.graph.input[0].name: list(case.frame.shape)} if case.frame.shape else {}
    stage = {"file": str(place / f"{case.name}.onnx"), **({"shape": given} if is_open(case) else {})}
    return pipeline({"dtype": case.frame.dtype.name, "shape": sides or [1]}, source={"file": str(place / f"{case.name}.in")},
                    sink={"file": str(place / f"{case.name}.out")}, slots=1, stages=[{"model": stage}])


def is_open(case):
    return any(not side.HasField("dim_value") for each in case.model.graph.input for side in each.type.tensor_type.shape.dim)


def run_cases(place, cases):
    """Runs all of these in one daemon; gives those that it refused, each with why."""
    refused = {}
    while True:
        left = [case for case in cases if case.name not in refused]
        file = place / "framed.yaml"
        file.write_text(json.dumps(complete(place, {f"case{number}": entry(place, case) for number, case in enumerate(left)})))
        done = run_framed("-c", file, seconds=60)
        if done.returncode == 0:
            return refused
        found = {name: line for line in done.stderr.splitlines() for name in re.findall(r"/([\w.-]+)\.onnx", line)[:1]}
        assert done.returncode == 78 and found.keys() & {case.name for case in left}, done.stderr
        refused.update(found)


def differs(case, place):
    """What came out beside what should have, or None if they agree."""
    data = (place / f"{case.name}.out").read_bytes()
    if len(data) != case.expected.nbytes:
        return f"{len(data)} bytes came, {case.expected.nbytes} should"
    result = np.frombuffer(data, case.expected.dtype).reshape(case.expected.shape)
    exact = case.expected.dtype.kind in "iu"
    agrees = np.array_equal(result, case.expected) if exact else \
        np.allclose(result.astype(np.float64), case.expected.astype(np.float64), rtol=1e-3, atol=1e-3, equal_nan=True)
    return None if agrees else f"{result.ravel()[:8]} came, {case.expected.ravel()[:8]} should"


def test_every_case_of_onnx_comes_out_as_it_says(place, onnx, say):
    left_out, cases = collections.Counter(), []
    for folder in sorted(file.parent for file in CASES.glob("*/*/model.onnx")):
        case = read_case(onnx, folder)
        if isinstance(case, Case):
            cases.append(case)
        else:
            left_out[case] += 1
    refused, wrong = {}, {}
    for first in range(0, len(cases), A_DAEMON):
        batch = cases[first:first + A_DAEMON]
        refused.update(run_cases(place, batch))
        wrong.update({case.name: differs(case, place) for case in batch if case.name not in refused})
    wrong = {name: why for name, why in wrong.items() if why}
    agree = len(cases) - len(refused) - len(wrong)
    say(f"{agree} of {len(cases)} cases of ONNX agree; ONNX Runtime refuses {len(refused)}; left out: {dict(left_out)}")
    assert not {name: why for name, why in wrong.items() if name not in OTHERWISE} and agree >= 800
