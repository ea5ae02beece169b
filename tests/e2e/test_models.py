"""Models: opened once for all pipelines that run them, replaced by a reload at a frame boundary, and refused with their place."""

import os
import pathlib
import signal
import struct

import numpy as np
import pytest

from harness import BACKEND, Daemon, pipeline, run_framed
from harness.daemon import ROOT
from harness.waiting import wait_until
from test_handover_again import Warm
from test_own_stages import GRAY
from test_reload_moments import Resting

LIBRARY = os.environ.get("FRAMED_ONNXRUNTIME", ROOT / "build/onnxruntime")
needs_library = pytest.mark.skipif(not pathlib.Path(LIBRARY).exists(), reason="ONNX Runtime is not there: tools/setup.sh check")
WITH = {"FRAMED_ONNXRUNTIME": str(LIBRARY)}
WITHOUT = {"FRAMED_ONNXRUNTIME": "/nowhere"}

TENSOR = {"dtype": "float32", "shape": [1, 3, 4, 5]}
SIZE = 60


def model_file(place, name="line", factor=None, to="model.onnx"):
    """A model of tests/data in the daemon's folder; `line` computes `factor` x + 1."""
    target = place / to
    data = (ROOT / f"tests/data/models/{name}.onnx").read_bytes()
    if factor is not None:
        assert data.count(struct.pack("<f", 2)) == 1
        data = data.replace(struct.pack("<f", 2), struct.pack("<f", factor))
    fresh = place / f"{to}.new"
    fresh.write_bytes(data)
    fresh.rename(target)  # as an editor or a package would
    return target


def runs(name="line", **keys):
    return pipeline(TENSOR, stages=[{"model": {"name": name}}], sink={"overload": "block"}, **keys)


def check(place, text):
    file = place / "checked.yaml"
    file.write_text(text)
    return run_framed("-c", file, "--check", env=WITH)


def computes(daemon, name, factor):
    frame = np.arange(SIZE, dtype=np.float32)
    with daemon.reader(name) as reader, daemon.producer(name) as producer:
        producer.send(frame.tobytes())
        got = np.frombuffer(reader.read(4 * SIZE), np.float32)
    np.testing.assert_array_equal(got, factor * frame + 1)


# -- pipelines that run them -------------------------------------------------------------------------------------------


@needs_library
def test_two_pipelines_run_one_model(place):
    models = {"line": {"file": str(model_file(place))}}
    with Daemon(place, {"cam0": runs(), "cam1": runs()}, models=models, env=WITH) as daemon:
        computes(daemon, "cam0", 2)
        computes(daemon, "cam1", 2)
        assert daemon.log.count("model line is open") == 1


@needs_library
def test_paths_begin_at_the_folder_of_the_configuration(place):
    (place / "models").mkdir()
    model_file(place / "models", to="own.onnx")
    entry = pipeline(TENSOR, stages=[{"model": {"file": "models/own.onnx"}}])
    with Daemon(place, {"cam0": entry}, env=WITH) as daemon:
        computes(daemon, "cam0", 2)


@needs_library
def test_an_output_is_chosen_where_the_model_is_named(place):
    models = {"several": {"file": str(model_file(place, "several")), "output": "halves"}}
    entry = pipeline({"dtype": "float32", "shape": [2, 3]}, stages=[{"model": {"name": "several"}}])
    with Daemon(place, {"cam0": entry}, models=models, env=WITH) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(np.arange(6, dtype=np.float32).tobytes())
            np.testing.assert_array_equal(np.frombuffer(reader.read(24), np.float32), np.arange(6) / 2)


@needs_library
def test_a_model_that_nobody_runs_is_told(place):
    models = {"line": {"file": str(model_file(place))}, "spare": {"file": "gone.onnx"}}
    with Daemon(place, {"cam0": runs()}, models=models, env=WITH) as daemon:
        assert "no pipeline runs model 'spare', which is not opened" in daemon.log
        done = run_framed("-c", daemon.file, "--check", env=WITH)
    assert done.returncode == 0 and "note: no pipeline runs model 'spare', which was not looked into" in done.stdout


# -- reload ------------------------------------------------------------------------------------------------------------


@needs_library
def test_a_replaced_file_takes_over_at_a_frame_boundary(place):
    """Pipelines that run it change over when the reload is ordered; others are left alone."""
    models = {"line": {"file": str(model_file(place))}}
    untouched = pipeline(TENSOR)
    with Daemon(place, {"cam0": runs(), "cam1": runs(), "other": untouched}, models=models, env=WITH) as daemon:
        computes(daemon, "cam1", 2)
        model_file(place, factor=5.0)
        computes(daemon, "cam1", 2)  # nothing has been ordered yet
        answer = daemon.command("/v1/reload")
        assert sorted(answer["changed"]) == ["cam0", "cam1"] and answer["unchanged"] == ["other"] and not answer["same"]
        computes(daemon, "cam0", 5)
        computes(daemon, "cam1", 5)
        assert daemon.log.count("model line is open") == 2
        again = daemon.command("/v1/reload")
        assert again["changed"] == [] and again["same"]


@needs_library
def test_a_file_that_does_not_open_changes_nothing(place):
    models = {"line": {"file": str(model_file(place))}}
    with Daemon(place, {"cam0": runs()}, models=models, env=WITH) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            model_file(place, "unknown")
            code, answer = daemon.post("/v1/reload")
            assert code == 400 and "Froobnicate" in answer["error"] and f"{daemon.file}:" in answer["error"]
            (place / "model.onnx").unlink()
            code, answer = daemon.post("/v1/reload")
            assert code == 400 and "model.onnx: No such file or directory" in answer["error"]
            producer.send(np.zeros(SIZE, np.float32).tobytes())
            np.testing.assert_array_equal(np.frombuffer(reader.read(4 * SIZE), np.float32), np.ones(SIZE))
        model_file(place)
        daemon.command("/v1/reload")
        computes(daemon, "cam0", 2)


@needs_library
def test_a_pipeline_that_comes_shares_the_model_that_runs(place):
    models = {"line": {"file": str(model_file(place))}}
    with Daemon(place, {"cam0": runs()}, models=models, env=WITH) as daemon:
        daemon.write({"cam0": runs(), "cam1": runs()}, models=models)
        daemon.command("/v1/reload")
        computes(daemon, "cam0", 2)
        computes(daemon, "cam1", 2)
        assert daemon.log.count("model line is open") == 1
        daemon.write({"cam1": runs()}, models=models)  # the one that opened it leaves
        daemon.command("/v1/reload")
        computes(daemon, "cam1", 2)
        assert daemon.log.count("model line is open") == 1


@needs_library
def test_a_fault_of_the_device_opens_models_again(place):
    """What was on the device runs once more, and no connection is closed."""
    strikes = {"fault": {"kind": "illegal", "at": 2, "again": "no"}}
    entry = pipeline(TENSOR, stages=[strikes, {"model": {"name": "line"}}])
    models = {"line": {"file": str(model_file(place))}}
    with Daemon(place, {"cam0": entry}, models=models, env=WITH) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            for number in range(5):
                producer.send(np.full(SIZE, number, np.float32).tobytes())
                np.testing.assert_array_equal(np.frombuffer(reader.read(4 * SIZE), np.float32), np.full(SIZE, 2 * number + 1))
        assert daemon.status()["handovers"]["fault"] >= 1


@needs_library
def test_what_stands_in_the_place_of_a_model_is_for_a_reload(place):
    """After a fault the process goes on with the file that was open, also if another one is no model; an upgrade is refused."""
    strikes = {"fault": {"kind": "illegal", "at": 2, "again": "no"}}
    entry = pipeline(TENSOR, stages=[strikes, {"model": {"name": "line"}}])
    models = {"line": {"file": str(model_file(place))}}
    with Daemon(place, {"cam0": entry}, models=models, env=WITH) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            for number in range(5):
                if number == 1:
                    model_file(place, "unknown")
                producer.send(np.full(SIZE, number, np.float32).tobytes())
                np.testing.assert_array_equal(np.frombuffer(reader.read(4 * SIZE), np.float32), np.full(SIZE, 2 * number + 1))
            assert daemon.status()["handovers"]["fault"] >= 1
            assert daemon.post("/v1/reload")[0] == 400
            code, answer = daemon.post("/v1/upgrade")
            assert code == 409 and "Froobnicate" in answer["error"], answer
            model_file(place, factor=3.0)
            assert daemon.command("/v1/reload")["in_place"] == ["cam0"]
            producer.send(np.full(SIZE, 5, np.float32).tobytes())
            np.testing.assert_array_equal(np.frombuffer(reader.read(4 * SIZE), np.float32), np.full(SIZE, 16))


@needs_library
@pytest.mark.skipif(BACKEND != "cpu", reason="the devices are those of the CPU backend")
def test_a_fault_during_a_reload_goes_on_with_the_models_in_force(place):
    """The reload has opened the other file and still warms up on another device; it is not disturbed."""
    resting = Resting(place)
    keys = {"models": {"line": {"file": str(model_file(place))}}, "gpu": {"backend": "cpu", "count": 2, "faults": "60/min"}}

    def entries(*stages):
        strike = {"fault": {"kind": "illegal", "at": 2, "again": "no"}}
        return {"cam0": runs(), "faulty": pipeline(TENSOR, stages=[strike]), "slow": pipeline(GRAY, stages=stages, device=1)}

    with Daemon(place, entries(), env=WITH, **keys) as daemon:
        computes(daemon, "cam0", 2)
        model_file(place, factor=5.0)
        daemon.write(entries(resting.stage), **keys)
        daemon.signal(signal.SIGHUP)
        resting.wait(daemon)
        daemon.file.write_text("no configuration")
        with daemon.reader("faulty") as reader, daemon.producer("faulty") as producer:
            producer.send(bytes(4 * 4 * SIZE))
            assert reader.read(4 * 4 * SIZE) == bytes(4 * 4 * SIZE)
        wait_until(lambda: daemon.status()["handovers"]["fault"] == 1, lambda: f"it is noted\n{daemon.log}")
        computes(daemon, "cam0", 2)
        resting.rests.unlink()
        wait_until(lambda: daemon.status()["reloads"]["done"] == 1, lambda: f"the reload is done\n{daemon.log}")
        computes(daemon, "cam0", 5)


@needs_library
def test_models_are_there_when_the_device_fails_once_more_before_anything_runs(place):
    strike = {"fault": {"kind": "illegal", "at": 2, "every": 0, "again": "no"}}
    models = {"line": {"file": str(model_file(place))}}
    with Warm(place, {"cam0": runs(), "faulty": pipeline(TENSOR, stages=[strike])}, models=models, env=WITH) as daemon:
        with daemon.reader("faulty") as reader, daemon.producer("faulty") as producer:
            (place / "model.onnx").unlink()
            daemon.fail_warm_ups(2)
            producer.send(bytes(4 * 4 * SIZE))
            assert reader.read(4 * 4 * SIZE) == bytes(4 * 4 * SIZE)
            daemon.wait_faults(3)
        computes(daemon, "cam0", 2)


@needs_library
def test_an_upgrade_goes_on_with_its_models(place):
    models = {"line": {"file": str(model_file(place))}}
    with Daemon(place, {"cam0": runs()}, models=models, env=WITH) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            for number in range(3):
                producer.send(np.full(SIZE, number, np.float32).tobytes())
                np.testing.assert_array_equal(np.frombuffer(reader.read(4 * SIZE), np.float32), np.full(SIZE, 2 * number + 1))
                daemon.command("/v1/upgrade")
                wait_until(lambda: daemon.status()["handovers"]["upgrade"] == number + 1, lambda: "it goes on")
            producer.send(np.zeros(SIZE, np.float32).tobytes())
            np.testing.assert_array_equal(np.frombuffer(reader.read(4 * SIZE), np.float32), np.ones(SIZE))


# -- what is refused, and what --check says ------------------------------------------------------------------------------

CONFIG = """status: {{socket: s}}
gpu: {{backend: cpu}}
models:
  one: {{file: {file}{more}}}
pipelines:
  cam0:
    source: {{socket: a, format: {format}}}
    stages: [model: {{name: one}}]
    sink: {{reply: true}}
"""
FOUR = "{dtype: float32, shape: [4]}"


@needs_library
@pytest.mark.parametrize("name, more, format, says", [
    ("unknown", "", FOUR, ["4:15: model 'one': ", "an operator `Froobnicate`", "standard operators"]),
    ("stranger", "", FOUR, ["4:15: model 'one': ", "an operator `com.example:Twist`", "standard operators"]),
    ("later", "", FOUR, ["4:15: model 'one': ", "an operator `Gelu` that opset 17 of ONNX Runtime ", "an opset that has it"]),
    ("too-new", "", FOUR, ["4:15: model 'one': ", "too new, with opset 99", "earlier opset"]),
    ("too-new-file", "", FOUR, ["4:15: model 'one': ", "too new, with IR version 99: ONNX Runtime ", "those up to ", "earlier opset"]),
    ("two-inputs", "", FOUR, ["4:15: model 'one': ", "2 inputs: x, z"]),
    ("open", "", FOUR, ["4:15: model 'one': ", "[batch?, 3, height?, ?]", "shape: {x: ["]),
    ("several", ", output: thirds", FOUR, ["4:15: model 'one' has no output 'thirds'", "its outputs are all, sum, halves"]),
    ("line", "", "{pixels: gray, width: 10, height: 8}",
     ["8:14: pipeline 'cam0': ", "takes float32[1,3,4,5]", "resize: {width: 5, height: 4}", "normalize: {}"]),
    ("half", "", "{pixels: rgb24, width: 10, height: 8}",
     ["takes float16[1,3,4,5]", "put `resize: {width: 5, height: 4}`, `normalize: {dtype: float16}` before it"]),
    ("half", "", "{dtype: float32, shape: [3, 4, 5]}", ["takes float16[1,3,4,5]", "let `normalize: {dtype: float16}` give them"]),
    ("line", "", "{dtype: float32, shape: [3, 8, 8]}", ["put `resize: {width: 5, height: 4}` before the `normalize` that gives them"]),
    ("gone", "", FOUR, ["4:15: model 'one': ", "gone.onnx: No such file or directory"]),
])
def test_what_does_not_fit_is_refused_with_place_and_remedy(place, name, more, format, says):
    for each in {name, "several"} - {"gone"}:
        model_file(place, each, to=f"{each}.onnx")
    done = check(place, CONFIG.format(file=f"{name}.onnx", more=more, format=format))
    assert done.returncode == 78, done.stdout
    for text in says:
        assert text in done.stderr, done.stderr


@needs_library
def test_check_shows_what_a_model_takes_and_gives(place):
    model_file(place, "several", to="several.onnx")
    done = check(place, CONFIG.format(file="several.onnx", more=", output: halves, instances: 3",
                                      format="{dtype: float32, shape: [2, 3]}"))
    assert done.returncode == 0, done.stderr
    line = next(line for line in done.stdout.splitlines() if line.startswith("one "))
    assert line.split() == ["one", "float32[2,3]", "float32[1]", "and", "1", "more", "3", "4", "bytes", "12", "bytes"]


@needs_library
@pytest.mark.parametrize("name, backend, noted", [("off-gpu", "auto", True), ("off-gpu", "cpu", False), ("line", "auto", False)])
def test_check_names_operators_that_a_gpu_does_not_compute(place, name, backend, noted):
    model_file(place, name)
    given = FOUR if name == "off-gpu" else "{dtype: float32, shape: [3, 4, 5]}"
    done = check(place, CONFIG.format(file="model.onnx", more="", format=given).replace("backend: cpu", f"backend: {backend}"))
    assert done.returncode == 0, done.stderr
    said = "note: model 'one' has operators that ONNX Runtime does not compute on a GPU alone: `Mean`, `Tan`; a GPU refuses it"
    assert (said in done.stdout) == noted and ("on a GPU alone" in done.stdout) == noted, done.stdout


def test_without_the_library_the_command_is_told(place):
    model_file(place)
    file = place / "checked.yaml"
    file.write_text(CONFIG.format(file="model.onnx", more="", format=FOUR))
    done = run_framed("-c", file, "--check", env=WITHOUT)
    assert done.returncode == 78 and "framectl models install" in done.stderr and "4:15: model 'one': " in done.stderr


def test_without_models_the_library_is_not_looked_for(place):
    with Daemon(place, {"cam0": pipeline(TENSOR)}, env=WITHOUT) as daemon:
        assert "onnx" not in pathlib.Path(f"/proc/{daemon.process.pid}/maps").read_text()
