"""Models in a daemon: what they compute, what is refused, and what becomes of a frame that a model cannot compute.

The models are in tests/data/models, and what they compute is said where they are made. Without ONNX Runtime
(FRAMED_ONNXRUNTIME) only what is said then is tested.
"""

import os
import pathlib
import re
import shutil
import subprocess

import numpy as np
import pytest

from harness import BACKEND, BINARY, Background, Daemon, environment, limit, pipeline, run_framed

MODELS = pathlib.Path(__file__).parents[1] / "data/models"
with_runtime = pytest.mark.skipif("FRAMED_ONNXRUNTIME" not in os.environ, reason="there is no ONNX Runtime")


def model(name, **settings):
    return {"model": {"file": str(MODELS / f"{name}.onnx"), **settings}}


def tensor(dtype, *shape):
    return {"dtype": dtype, "shape": list(shape)}


def through(daemon, frames, shape, dtype):
    """Sends all frames on one connection and returns as many results."""
    with daemon.reader() as reader, daemon.producer() as producer:
        sending = Background(producer.send, frames.tobytes())
        results = reader.frames(len(frames), shape, dtype)
        sending.join()
    daemon.account(came=len(frames), emitted=len(frames))
    return results


@with_runtime
@pytest.mark.parametrize("slots", [1, 3])
def test_a_model_computes_every_frame(place, slots):
    frames = np.random.default_rng(1).standard_normal((200, 1, 3, 4, 5)).astype(np.float32)
    with Daemon(place, {"cam0": pipeline(tensor("float32", 3, 4, 5), slots=slots, stages=[model("line")])}) as daemon:
        results = through(daemon, frames, (1, 3, 4, 5), np.float32)
    np.testing.assert_array_equal(results, frames * np.float32(2) + np.float32(1))


@with_runtime
@pytest.mark.parametrize("graph", ["on", "off"])
def test_frames_that_find_every_instance_busy_go_on_through_the_next_stages(place, graph):
    """Of all pipelines on the lane, also those without the model."""
    frames = np.random.default_rng(1).standard_normal((300, 1, 3, 4, 5)).astype(np.float32)
    stages = {"cam0": [{"model": {"name": "line"}}, {"affine": {"scale": 3}}], "cam1": [{"model": {"name": "line"}}, {"affine": {"scale": 3}}],
              "cam2": [{"affine": {"scale": 3}}]}
    entries = {name: pipeline(tensor("float32", 3, 4, 5), slots=8, graph=graph, stages=chain) for name, chain in stages.items()}
    models = {"line": {"file": str(MODELS / "line.onnx"), "instances": 1}}
    with Daemon(place, entries, models=models, lanes=1) as daemon:
        clients = {name: (daemon.reader(name), daemon.producer(name)) for name in entries}
        sending = [Background(producer.send, frames.tobytes()) for _, producer in clients.values()]
        for name, (reader, producer) in clients.items():
            expected = frames if name == "cam2" else frames * np.float32(2) + np.float32(1)
            np.testing.assert_array_equal(reader.frames(len(frames), frames.shape[1:], np.float32), expected * np.float32(3))
            reader.close()
        for each, (_, producer) in zip(sending, clients.values()):
            each.join()
            producer.close()
        assert daemon.status()["handovers"]["fault"] == 0


@with_runtime
def test_pictures_go_in_as_they_lie_in_memory_and_through_stages_before_it(place):
    frames = np.random.default_rng(2).integers(0, 256, (20, 4, 6, 3), np.uint8)
    entry = pipeline({"pixels": "rgb24", "width": 6, "height": 4}, stages=[model("pixels")])
    planes = pipeline({"pixels": "rgb24", "width": 5, "height": 4}, stages=[{"normalize": {"scale": 1.0}}, model("line")])
    with Daemon(place, {"cam0": entry, "cam1": planes}) as daemon:
        np.testing.assert_array_equal(through(daemon, frames, (4, 6, 3), np.uint8), 255 - frames)
        with daemon.reader("cam1") as reader, daemon.producer("cam1") as producer:
            producer.send(frames[0, :, :5].tobytes())
            result = reader.frames(1, (3, 4, 5), np.float32)[0]
    np.testing.assert_array_equal(result, frames[0, :, :5].transpose(2, 0, 1).astype(np.float32) * 2 + 1)


@with_runtime
@pytest.mark.parametrize("dtype", ["uint8", "float16", "int32", "int64"])
def test_each_type_of_element_passes(place, dtype):
    frames = np.random.default_rng(3).integers(0, 100, (20, 1, 6)).astype(dtype)
    with Daemon(place, {"cam0": pipeline(tensor(dtype, 6), stages=[model(dtype)])}) as daemon:
        np.testing.assert_array_equal(through(daemon, frames, (1, 6), dtype), frames)


@with_runtime
def test_of_several_outputs_one_or_all_are_the_result(place):
    frames = np.random.default_rng(4).integers(0, 100, (10, 2, 3)).astype(np.float32)
    given = tensor("float32", 2, 3)
    entries = {"cam0": pipeline(given, stages=[model("several", output="halves")]),
               "cam1": pipeline(given, stages=[model("several", output="all")])}
    with Daemon(place, entries) as daemon:
        np.testing.assert_array_equal(through(daemon, frames, (2, 3), np.float32), frames / 2)
        with daemon.reader("cam1") as reader, daemon.producer("cam1") as producer:
            producer.send(frames[0].tobytes())
            result = reader.frames(1, (1304,), np.uint8)[0].tobytes()
    assert result[:8] == b"FRPARTS1" and int.from_bytes(result[8:12], "little") == 2
    parts = np.frombuffer(result, np.uint64, 7, 16 + 56)  # the second part: type and rank, shape, offset, bytes
    assert list(parts[1:3]) == [2, 3] and parts[6] == 24
    np.testing.assert_array_equal(np.frombuffer(result, np.float32, 6, int(parts[5])).reshape(2, 3), frames[0] / 2)


@with_runtime
@pytest.mark.parametrize("name, settings, words", [
    ("open", {}, "give it as `shape: {x: [1, 3, 640, 640]}`"),
    ("unknown", {}, "uses an operator `Froobnicate`"),
    ("too-new", {}, "is too new, with opset 99"),
    ("two-inputs", {}, "has 2 inputs: x, z"),
    ("line", {}, "`resize: {width: 5, height: 4}`, `normalize: {}` before it"),
    ("line", {"output": "z"}, "no output of that name; give as `output` one of: all, y"),
    ("several", {}, "several outputs; give as `output` one of: all, sum, halves"),
])
def test_check_says_what_does_not_fit_and_what_would(place, name, settings, words):
    given = {"line": tensor("float32", 3, 4, 5), "several": tensor("float32", 2, 3)}.get(name, tensor("float32", 4))
    if "resize" in words:
        given = {"pixels": "rgb24", "width": 64, "height": 48}
    daemon = Daemon(place, {"cam0": pipeline(given, stages=[model(name, **settings)])})
    result = run_framed("-c", daemon.file, "--check")
    assert result.returncode == 78 and words in result.stderr, result.stderr


def test_without_the_runtime_the_command_that_brings_it_is_said(place):
    daemon = Daemon(place, {"cam0": pipeline(tensor("float32", 3, 4, 5), stages=[model("line")])})
    result = run_framed("-c", daemon.file, "--check", env={"FRAMED_ONNXRUNTIME": str(place)})
    assert result.returncode == 78 and "run `framectl models install`" in result.stderr, result.stderr


@with_runtime
@pytest.mark.skipif(BACKEND == "cuda", reason="a kernel checks no index")
def test_a_frame_that_the_model_cannot_compute_is_dropped_and_nothing_else_happens(place):
    frames = np.tile(np.arange(4, dtype=np.int64), (30, 1))
    frames[10, 2] = 400
    with Daemon(place, {"cam0": pipeline(tensor("int64", 4), stages=[model("lookup")], sink={"overload": "block"})}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(frames.tobytes())
            results = reader.frames(29, (4,), np.float32)
        daemon.account(came=30, emitted=29, invalid=1)
        daemon.wait_log("cannot be computed and is dropped as invalid: stages[0] (model): ")
        assert re.search(r" frame 10 of epoch \d{16} cannot be computed", daemon.log), daemon.log
        assert "400" in daemon.log and daemon.status()["handovers"]["fault"] == 0
    np.testing.assert_array_equal(results, np.delete(frames, 10, 0).astype(np.float32))


@with_runtime
@pytest.mark.host
@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
@pytest.mark.plain
def test_nobody_is_told_of_a_model(place):
    """ONNX Runtime's later versions report what they run. Of whatever version: no socket but the daemon's own, nothing written
    elsewhere, and nothing read that names the machine."""
    frames = np.random.default_rng(5).standard_normal((3, 3, 4, 5)).astype(np.float32)
    (place / "in").write_bytes(frames.tobytes())
    entry = pipeline(tensor("float32", 3, 4, 5), source={"file": str(place / "in")}, sink={"file": str(place / "out")}, stages=[model("line")])
    daemon, home = Daemon(place, {"cam0": entry}), place / "home"
    home.mkdir()
    command = ["strace", "-f", "-qq", "-o", place / "calls", "-e", "trace=socket,connect,sendto,sendmsg,sendmmsg,open,openat,creat,execve"]
    done = subprocess.run([*command, BINARY, "-c", daemon.file], capture_output=True, text=True, timeout=limit(60), check=False,
                          env=environment({"HOME": str(home), "TMPDIR": str(home), "XDG_CACHE_HOME": str(home)}))
    if done.returncode != 0 and "ptrace" in done.stderr:
        pytest.skip("tracing is not allowed here")
    assert done.returncode == 0, done.stderr
    calls = (place / "calls").read_text()
    np.testing.assert_array_equal(np.fromfile(place / "out", np.float32), frames.ravel() * 2 + 1)
    assert "libonnxruntime" in calls  # so it was watched
    assert re.findall(r"socket\(AF_(?!UNIX)\w+.*", calls) == []
    assert [line for line in calls.splitlines() if re.search(r"\b(connect|sendmsg|sendmmsg)\(", line)
            and not re.search(r"NOTIFY|msg_name=NULL", line)] == []  # what has no address goes to a worker, over a pair of sockets
    assert re.findall(r".*sendto\((?!.*MSG_NOSIGNAL, NULL, 0\b).*", calls) == []
    assert re.findall(r".*(?:machine-id|dbus/machine|product_uuid|hostname).*", calls) == [] and calls.count("execve(") == 2  # the worker, too
    written = set(re.findall(r'"([^"]+)", [^)]*(?:O_WRONLY|O_RDWR|O_CREAT)', calls))
    written = {path for path in written if "/" in path}  # the others are in a folder that is open already
    assert all(path.startswith((str(place), "/dev/", "/proc/self/")) and not path.startswith(str(home)) for path in written), written
    assert list(home.iterdir()) == []
