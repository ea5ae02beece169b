"""framebench: every measurement runs on the cpu backend, and says what it should about what it measured."""

import collections
import json
import os
import pathlib
import re
import subprocess
import xml.etree.ElementTree

import pytest

from harness import BINARY, environment, limit

pytestmark = [pytest.mark.host, pytest.mark.measures]

FRAMEBENCH = pathlib.Path(os.environ.get("FRAMEBENCH", BINARY.with_name("framebench"))).absolute()
MODELS = pathlib.Path(__file__).resolve().parents[1] / "data/models"
QUICK = ("--quick", "--backend", "cpu")


def framebench(*arguments):
    return subprocess.run([FRAMEBENCH, *map(str, arguments)], capture_output=True, text=True, env=environment(),
                          timeout=limit(50), check=False)


def measured(command, *arguments):
    """The document of a quick run, and its sections."""
    done = framebench(command, "--json", *QUICK, *arguments)
    assert done.returncode == 0 and not done.stderr, done
    document = json.loads(done.stdout)
    assert document["command"] == command
    assert document["backend"] == "cpu" and document["device"] and document["machine"]["processors"] > 0
    return document, document["sections"]


def test_limits():
    _, sections = measured("limits")
    assert {(row["bytes"], row["threads"], row["socket_buffer"]) for row in sections["relay"]} == {
        (size, threads, buffer) for size in (4096, 65536, 4 << 20) for threads in (1, 2) for buffer in ("default", "1 MiB")}
    assert all(row["gb_per_s"] > 0 for row in sections["relay"] + sections["memory"])
    for row in sections["hops"] + sections["wake"]:
        assert 0 < row["p50_us"] <= row["p99_us"], row
    loops = {(row["bytes"], row["completion"], row["slots"]) for row in sections["loop"]}
    assert loops == {(size, way, slots) for size in (4096, 65536) for way in ("spin", "callback") for slots in (1, 2, 3, 4, 8)}
    for row in sections["loop"]:
        assert row["engine_frames_per_s"] * row["bytes"] / 1e9 == pytest.approx(row["engine_gb_per_s"], rel=1e-3), row
    assert [row["graph"] for row in sections["timing"]] == ["no"]


def test_overlap():
    _, sections = measured("overlap")
    ways = {(row["way"], row.get("slots")) for row in sections["rows"]}
    assert ways == {("serial, pageable", None), ("serial, pinned", None),
                    *((way, slots) for way in ("spin", "callback") for slots in (1, 2, 3))}
    for row in sections["rows"]:
        assert row["us"] > 0 and row["gb_per_s"] == pytest.approx(row["bytes"] / row["us"] / 1e3, rel=1e-3), row
        if "slots" in row:
            assert row["of_ideal"] == pytest.approx(row["ideal_us"] / row["us"], rel=1e-3), row
            assert 0 <= row["overlap"] < 1, row
    serial = {(row["bytes"], row["kernel"]): row["us"] for row in sections["rows"] if row["way"] == "serial, pinned"}
    for row in sections["rows"]:
        assert row["speedup"] == pytest.approx(serial[row["bytes"], row["kernel"]] / row["us"], rel=1e-3), row


def test_stages():
    _, sections = measured("stages")
    names = {row["stage"].partition(":")[0] for row in sections["stages"]}
    assert names == {"affine", "convert", "resize", "normalize", "blur", "sobel", "threshold", "motion", "stats", "top", "detect",
                     "mask", "image", "work"}
    for row in sections["stages"]:
        assert row["backend"] == "cpu" and row["ratio"] == pytest.approx(row["floor_us"] / row["us"], rel=1e-3), row
    sizes = {(row["pixels"], row["stage"]): row["bytes"] for row in sections["stages"]}
    assert sizes["yuv420p", "convert: to=rgb24"] == 640 * 480 * 3 // 2 + 640 * 480 * 3
    assert sizes["gray", "resize: width=half,height=half"] == 640 * 480 + 320 * 240
    assert sizes["gray", "resize: width=three_quarters,height=three_quarters"] == 640 * 480 + 480 * 360
    assert sizes["gray", "motion"] == 640 * 480 * (1 + 1 + 2 * 4), "its background is read and written, too"
    assert sizes["float32", "detect: layout=yolo8"] == 4 * (84 * 8400 + 100 * 6)
    assert {row["stage"].partition(":")[0] for row in sections["stages"] if row["computes"]} == {"work", "top", "detect"}


@pytest.mark.skipif("FRAMED_ONNXRUNTIME" not in os.environ, reason="there is no ONNX Runtime")
def test_model():
    _, sections = measured("model", MODELS / "line.onnx")
    assert [(row["way"], row["slots"]) for row in sections["model"]] == [
        (way, slots) for slots in (3, 8, 1) for way in ("daemon, shared memory", "alone")]
    for row in sections["model"]:
        assert (row["p50_us"] if row["slots"] == 1 else row["frames_per_s"]) > 0, row
    assert [row.get("at_least", row.get("at_most")) for row in sections["targets"]] == [0.95, 12]


@pytest.mark.skipif("FRAMED_ONNXRUNTIME" not in os.environ, reason="there is no ONNX Runtime")
def test_model_that_takes_several_frames_at_once():
    _, sections = measured("model", os.path.relpath(MODELS / "pictures.onnx"))
    rows = sections["model"][-4:]
    assert [(row["way"], row["slots"]) for row in rows] == [
        ("daemon, 4 cameras, batches", 3), ("alone, batches", 2), ("alone, batches", 4),
        ("daemon, 4 cameras, batches, a third of that", 3)]
    assert all(row["frames_per_s"] > 0 for row in rows) and rows[0]["clients"] == rows[3]["clients"] == 4
    assert rows[3]["rate"] == pytest.approx(rows[0]["frames_per_s"] / 3, rel=1e-3) and rows[3]["p99_us"] > 0
    share, p99 = sections["targets"][-2:]
    assert (share["at_least"], p99["at_most"]) == (0.92, 6000)
    assert share["value"] == rows[0]["frames_per_s"] and p99["value"] == rows[3]["p99_us"]
    assert share["limit_value"] == max(row["frames_per_s"] for row in rows[1:3])


@pytest.mark.skipif("FRAMED_ONNXRUNTIME" not in os.environ, reason="there is no ONNX Runtime")
@pytest.mark.parametrize("arguments, status, said", [
    ((), 64, "needs a file"),
    ((MODELS / "pixels.onnx",), 64, "does not take pictures as planes of floats"),
    ((MODELS / "none.onnx",), 1, "none.onnx: No such file"),
])
def test_what_is_no_model_of_pictures(arguments, status, said):
    done = framebench("model", *QUICK, *arguments)
    assert done.returncode == status and said in done.stderr, done


def test_transport():
    _, sections = measured("transport")
    assert {(row["bytes"], row["way"]) for row in sections["transport"]} == {
        (4 << 20, "shm"), (4 << 20, "stream"), (4 << 20, "sockets"), (65536, "shm"), (4096, "shm"),
        (4 << 20, "alone"), (65536, "alone"), (4096, "alone"), (65536, "shm, persistent"), (4096, "shm, persistent"),
        (4096, "shm, persistent, one at a time"), (4096, "copies and kernels")}
    runs = collections.Counter((row["bytes"], row["way"]) for row in sections["transport"])
    assert all(count == (3 if size == 4 << 20 else 5) for (size, _), count in runs.items()), runs
    for row in sections["transport"]:
        is_one = row["bytes"] == 4096 and row["way"] not in ("shm, persistent", "copies and kernels")
        assert row["p50_us"] > 0 if is_one else row["frames_per_s"] > 0, row
    assert [row.get("at_least", row.get("at_most")) for row in sections["targets"]] == [0.95, 6.5, 0.8, 1.4, 0.5, 0.45]
    for row in sections["targets"]:
        assert row["value"] > 0, row


def check_scale(sections, works):
    rows = sections["scale"]
    assert [(row["work"], row["devices"], row["clients"]) for row in rows] == [
        (work, count, 2 * count) for work in works for count in (1, 2, 3)]
    for row in rows:
        one = next(other for other in rows if (other["work"], other["devices"]) == (row["work"], 1))
        assert row["frames_per_s"] > 0 and row["lost"] == row["dropped"] == 0 and row["transport"] == "shm", row
        assert row["linear"] == pytest.approx(row["frames_per_s"] / one["frames_per_s"] / row["devices"], rel=1e-3), row
        assert row["of_alone"] == pytest.approx(row["frames_per_s"] / row["alone_frames_per_s"], rel=1e-3), row
    for target, row in zip(sections["targets"], [row for row in rows if row["devices"] > 1], strict=True):
        linear = row["frames_per_s"] / row["linear"]
        assert target["at_least"] == 0.95 and target["value"] == pytest.approx(row["frames_per_s"], rel=1e-3), target
        assert target["limit_value"] == pytest.approx(min(linear, row["alone_frames_per_s"]), rel=1e-3), target


def test_scale():
    _, sections = measured("scale", "--devices", 3)
    check_scale(sections, ("affine", "work"))


@pytest.mark.skipif("FRAMED_ONNXRUNTIME" not in os.environ, reason="there is no ONNX Runtime")
def test_scale_of_a_model():
    _, sections = measured("scale", "--devices", 3, MODELS / "line.onnx")
    check_scale(sections, ("model",))


def test_tables_for_people():
    done = framebench("limits", *QUICK)
    assert done.returncode == 0 and not done.stderr, done
    assert "GB/s EACH WAY" in done.stdout and "4 MiB" in done.stdout and "ENGINE FRAMES/s" in done.stdout, done.stdout
    done = framebench("overlap", *QUICK)
    rows = done.stdout.split("\n\n")[0].splitlines()[1:]
    assert rows[0].rstrip().endswith("GB/s EACH WAY") and {row.split()[1] for row in rows[1:]} == {"KiB"}, rows


def test_report_collects_what_framed_is_held_to(place):
    machine = {"processor": "A processor", "processors": 4, "kernel": "6.1", "driver": "580.1", "date": "2026-01-02 03:04"}
    one = {"command": "limits", "version": "1.2.3", "backend": "cuda", "device": "A device", "machine": machine,
           "sections": {"targets": [{"what": "frames", "limit": "a bare loop", "unit": "frames/s", "value": 90, "limit_value": 100,
                                     "ratio": 0.9, "at_least": 0.98, "reached": "no"}]}}
    two = {"command": "load", "version": "1.2.3", "backend": "cpu", "device": "Another", "machine": machine,
           "sections": {"targets": [{"what": "added", "limit": "round trip and hops", "unit": "us", "value": 7.5, "at_most": 10,
                                     "reached": "yes"}]}}
    (place / "one.json").write_text(json.dumps(one))
    (place / "two.json").write_text(json.dumps(two))
    (place / "notes.txt").write_text("not a document")
    done = framebench("report", place)
    assert done.returncode == 0 and not done.stderr, done
    assert "A device (driver 580.1)" in done.stdout and "2026-01-02" in done.stdout
    assert "| frames | 90.0 frames/s | a bare loop: 100 frames/s | 0.900 | 0.98 | no |" in done.stdout, done.stdout
    assert "| added | 7.50 us | round trip and hops | | at most 10 us | yes |" in done.stdout, done.stdout


def test_a_report_names_a_device_where_any_document_does(place):
    machine = {"processor": "A processor", "processors": 4, "kernel": "6.1", "date": "2026-01-02 03:04"}
    one = {"command": "load", "version": "1.2.3", "machine": machine, "sections": {"targets": [
        {"what": "added", "limit": "none", "unit": "us", "value": 7.5, "at_most": 10, "reached": "yes"}]}}
    (place / "one.json").write_text(json.dumps(one))
    assert "framed 1.2.3 on no device (driver none), A processor" in framebench("report", place).stdout
    (place / "a.json").write_text(json.dumps({"backend": "cuda", "rows": []}))  # as tests write them
    assert "framed 1.2.3 on no device (driver none), A processor" in framebench("report", place).stdout
    (place / "two.json").write_text(json.dumps({**one, "backend": "cpu", "device": "A device"}))
    assert "framed 1.2.3 on A device (driver none), A processor" in framebench("report", place).stdout


PEER = """
import array, os, socket, sys
listeners = []
for path in sys.argv[3:5]:
    listeners.append(socket.socket(socket.AF_UNIX))
    listeners[-1].bind(path)
    listeners[-1].listen()
output, source = listeners[1].accept()[0], listeners[0].accept()[0]
count = int(sys.argv[5])
result = array.array("f", [4.0]) * count
while len(source.recv(4 * count, socket.MSG_WAITALL)) == 4 * count:
    output.sendall(result)
"""


def test_peers_take_turns(place):
    """framed beside a program that takes PyTorch's place: three runs of each, of which the median is told."""
    script = pathlib.Path(__file__).resolve().parents[2] / "tools/framebench/peers/compare.py"
    script = script if script.exists() else script.parents[3] / "peers/compare.py"
    (place / "peer.py").write_text(PEER)
    done = subprocess.run([script, "--framed", BINARY, "--peer", place / "peer.py", "--backend", "cpu", "--quick"],
                          capture_output=True, text=True, env=environment(), timeout=limit(60), check=False)
    assert done.returncode == 0 and not done.stderr, done
    sections = json.loads(done.stdout)["sections"]
    assert [(row["program"], row["run"]) for row in sections["peers"]] == [
        (name, run) for run in (1, 2, 3) for name in ("framed", "pytorch")]
    medians = [sorted(row["frames_per_s"] for row in sections["peers"] if row["program"] == name)[1]
               for name in ("framed", "pytorch")]
    assert [sections["targets"][0][key] for key in ("value", "limit_value")] == medians and medians[0] > 0


def test_measure_writes_a_folder_that_report_reads(place):
    script = pathlib.Path(__file__).resolve().parents[2] / "tools/framebench/measure.sh"
    script = script if script.exists() else script.parents[2] / "measure.sh"
    done = subprocess.run([script, place / "results", *QUICK], capture_output=True, text=True, timeout=limit(120), check=False,
                          env=environment({"PROGRAMS": str(FRAMEBENCH.parent)}))
    # PyTorch is not everywhere, not everybody may trace, and valgrind runs nothing with ASan in it; what needs them is left
    # out, and said.
    may_lack = {"peers", "system_calls"} | ({"instructions"} if b"__asan_init" in FRAMEBENCH.read_bytes() else set())
    lacks = re.search(r"left out: (.*)$", done.stderr.strip())
    assert done.returncode == 0 if not lacks else set(lacks.group(1).split()) <= may_lack, done
    names = {path.name for path in (place / "results").iterdir()}
    assert {"limits.json", "overlap.json", "stages.json"} <= names <= {
        "limits.json", "overlap.json", "stages.json", "daemon.json", "transport.json", "peers.json", "instructions.json",
        "system_calls.json"}
    assert framebench("report", place / "results").stdout in done.stdout and "| reached |" in done.stdout


@pytest.mark.parametrize("arguments, status, said", [
    ((), 64, "no command"),
    (("limit",), 64, "no command 'limit'"),
    (("limit",), 64, "did you mean 'limits'?"),
    (("limits", "--fast"), 64, "no option --fast"),
    (("limits", "-xq"), 64, "no option -x"),
    (("limits", "--devices", "2"), 64, "--devices"),
    (("limits", "--device", "one"), 64, "'one'"),
    (("limits", "--backend", "gpu"), 64, "'gpu'"),
    (("overlap", "more"), 64, "more"),
    (("overlap", "--devices", "2"), 64, "does not take --devices"),
    (("scale", "--devices", "0"), 64, "'0'"),
    (("scale", "--device", "1"), 64, "does not take --device"),
    (("scale", "--backend", "cpu", "/nonexistent.onnx"), 1, "/nonexistent.onnx"),
    (("overlap", "--witness", *QUICK), 69, "CUPTI"),
    (("report",), 64, "one folder"),
    (("report", "/nonexistent"), 1, "/nonexistent"),
])
def test_errors_say_what_was_wrong(arguments, status, said):
    done = framebench(*arguments)
    assert done.returncode == status and said in done.stderr and not done.stdout, done


def test_broken_results_are_named(place):
    (place / "broken.json").write_text('{"sections": ')
    done = framebench("report", place)
    assert done.returncode == 1 and "broken.json:1" in done.stderr, done
    (place / "broken.json").unlink()
    assert framebench("report", place).returncode == 1


def test_help_names_every_command():
    done = framebench("--help")
    for command in ("limits", "overlap", "stages", "scale", "report"):
        assert command in done.stdout
        for arguments in ([command, "--help"], [command, "--json", "-h"]):
            one = framebench(*arguments)
            assert one.returncode == 0 and one.stdout.startswith(f"usage: framebench {command} "), one
