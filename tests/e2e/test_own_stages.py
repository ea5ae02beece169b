"""Stages that users bring: shared libraries of their own, and filters of frei0r."""

import json
import pathlib
import subprocess

import numpy as np
import pytest

from harness import Daemon, complete, numbered, pipeline, run_framed

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLE = ROOT / "packaging/examples/brighten.c"
GRAY = {"pixels": "gray", "width": 64, "height": 48}
SIZE = 64 * 48
FILTERS = sorted(pathlib.Path("/usr/lib/frei0r-1").glob("*.so"))
needs_filters = pytest.mark.skipif(not FILTERS, reason="frei0r-plugins is not installed")


def build(place, source, *flags, name="own.so"):
    """Compiles a library as framed-stage(3) says, from a file or a text."""
    if not isinstance(source, pathlib.Path):
        file = place / "own.c"
        file.write_text(source)
        source = file
    subprocess.run(["cc", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I", ROOT / "gpu/stages/library", *flags,
                    "-o", place / name, source], check=True)
    return str(place / name)


def write_config(place, *stages, pixels="gray", width=64, height=48, backend="cpu"):
    entry = pipeline({"pixels": pixels, "width": width, "height": height}, stages=stages,
                     source={"file": "-"}, sink={"file": "-"})
    file = place / "framed.yaml"
    file.write_text(json.dumps(complete(place, {"cam0": entry}, gpu={"backend": backend})))
    return file


def filtered(place, stage, frames, **keys):
    done = run_framed("-c", write_config(place, stage, **keys), input=frames.tobytes())
    assert done.returncode == 0, done.stderr.decode()
    return np.frombuffer(done.stdout, np.uint8)


def refused(place, *stages, **keys):
    done = run_framed("-c", write_config(place, *stages, **keys), "--check")
    assert done.returncode == 78, done.stdout
    assert f"{place}/framed.yaml:1:" in done.stderr
    return done.stderr


# -- libraries ----------------------------------------------------------------------------------------------------

TABLE = """
#include <framed-stage.h>
#include <string.h>
static int prepare(struct framed_stage_plan *plan) {{ {prepare}; (void)plan; return 0; }}
static int run(const struct framed_stage_plan *plan, const struct framed_stage_call *call) {{
  (void)plan; memcpy(call->output, call->input, 64 * 48); {run}; return 0; }}
const struct framed_stage *framed_stage(void) {{
  static const struct framed_stage table = {{.abi = FRAMED_STAGE_ABI, .size = sizeof table, .name = "own", {members}}};
  return &table;
}}
"""


def table(members=".prepare = prepare, .run = run", prepare="", run="(void)0"):
    return TABLE.format(members=members, prepare=prepare, run=run)


def test_the_example_adds_what_its_setting_says(place):
    file = build(place, EXAMPLE)
    frames = np.arange(5 * SIZE).astype(np.uint8)
    brighter = filtered(place, {"library": {"file": file, "settings": {"by": 40}}}, frames)
    np.testing.assert_array_equal(brighter, np.minimum(frames.astype(int) + 40, 255))


def test_a_relative_file_lies_beside_the_configuration(place):
    build(place, EXAMPLE)
    frames = np.zeros(SIZE, np.uint8)
    assert (filtered(place, {"library": {"file": "own.so", "settings": {"by": 7}}}, frames) == 7).all()


def test_a_library_says_itself_what_it_does_not_take(place):
    file = build(place, EXAMPLE)
    said = refused(place, {"library": {"file": file, "settings": {"strength": 3}}})
    assert "stages[0] (library)" in said and "brighten takes one setting, `by`" in said


def test_state_keeps_frames_in_order(place):
    """Each frame gets the number of those before it, whichever slot and thread it is on."""
    file = build(place, table(prepare="plan->state_bytes = sizeof(int)", run="int *seen = call->state; *(char *)call->output = "
                              "(char)(*seen)++"))
    frames = np.zeros(200 * SIZE, np.uint8)
    results = filtered(place, {"library": {"file": file}}, frames).reshape(-1, SIZE)
    assert results[:, 0].tolist() == list(range(200))


@pytest.mark.parametrize("text, said", [
    (table(".prepare = prepare"), "no run() and no enqueue()"),
    (table(".run = run").replace("prepare(struct", "prepare(struct", 1) + "int (*unused)(struct framed_stage_plan *) = prepare;",
     "has no prepare()"),
    (table().replace(".abi = FRAMED_STAGE_ABI", ".abi = 7"), "was built for version 7 of framed-stage.h"),
    (table().replace(".size = sizeof table", ".size = 8"), "has 8 bytes"),
    (table(prepare="plan->output.pixels = 99"), "gives a format that no frame can have"),
    (table(prepare="return 3"), "does not say why"),
    ("int nothing;", "has no function framed_stage()"),
    (table(run="extern int missing(void); missing()"), "undefined symbol: missing"),
    (table(".prepare = prepare, .enqueue = (int (*)(const struct framed_stage_plan *, const struct framed_stage_call *, void *))run"),
     "has no run() for the CPU backend"),
])
def test_a_wrong_library_is_refused_with_its_reason(place, text, said):
    file = build(place, text, "-Wno-unused-function", "-Wno-cast-function-type")
    assert said in refused(place, {"library": {"file": file}})


def test_what_is_no_library_is_refused(place):
    (place / "own.so").write_text("not one\n" * 20)
    assert "own.so cannot be loaded: invalid ELF header" in refused(place, {"library": {"file": "own.so"}})
    assert "No such file" in refused(place, {"library": {"file": "none.so"}})


def test_a_library_without_a_kernel_is_refused_for_cuda(place):
    file = build(place, table())
    said = refused(place, {"library": {"file": file}}, backend="cuda")
    assert "has no enqueue() for CUDA" in said and "add one, or set gpu.backend to cpu" in said


FAILS_ONCE = """{
  const char *file = "%s";
  if (call->sequence == 5 && access(file, F_OK) != 0) { fclose(fopen(file, "w")); %s; }
}"""


@pytest.mark.parametrize("how", ["return 9", "for (;;) { pause(); }"], ids=["failure", "hang"])
def test_a_library_that_breaks_is_survived(place, how):
    """As a fault of the device is: the process begins anew, and no frame is lost."""
    text = "#include <stdio.h>\n#include <unistd.h>\n" + table(run=FAILS_ONCE % (place / "struck", how))
    file = build(place, text)
    entries = {"cam0": pipeline(GRAY, stages=[{"library": {"file": file}}])}
    with Daemon(place, entries, gpu={"backend": "cpu", "timeout": "1s", "faults": "60/min"}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(12, SIZE).tobytes())
            np.testing.assert_array_equal(reader.frames(12, SIZE), numbered(12, SIZE))
        assert (place / "struck").exists()
        assert daemon.status()["handovers"]["fault"] >= 1


# -- frei0r -------------------------------------------------------------------------------------------------------


@needs_filters
@pytest.mark.parametrize("pixels, channels", [("gray", 1), ("rgb24", 3), ("bgr24", 3)])
def test_a_filter_turns_a_picture_round(place, pixels, channels):
    """Of three channels each must be back in its place."""
    frames = np.random.default_rng(1).integers(0, 256, (4, 48, 64, channels), np.uint8)
    turned = filtered(place, {"frei0r": {"name": "flippo", "settings": {"X axis": 1}}}, frames, pixels=pixels)
    np.testing.assert_array_equal(turned.reshape(frames.shape), frames[:, :, ::-1])


@needs_filters
def test_a_filter_keeps_frames_in_order(place):
    """It gives each frame with a delay of one: the instance sees them in their order."""
    frames = np.repeat(np.arange(100, dtype=np.uint8), SIZE)
    results = filtered(place, {"frei0r": {"name": "delay0r", "settings": {"DelayTime": 0}}}, frames)
    assert results.reshape(-1, SIZE)[:, 0].tolist() == list(range(100))


@needs_filters
@pytest.mark.parametrize("parameters, keys, said", [
    ({"name": "cartonn"}, {}, "there is no frei0r filter 'cartonn'"),
    ({"name": "cartoon", "settings": {"levels": 1}}, {}, "no parameter 'levels'"),
    ({"name": "flippo", "settings": {"X axis": 3}}, {}, "'X axis' takes 0 or 1"),
    ({"name": "tint0r", "settings": {"Map black to": 1}}, {}, "takes [red, green, blue]"),
    ({"name": "addition"}, {}, "is a mixer of two pictures"),
    ({"name": "plasma"}, {}, "is a source of pictures"),
    ({"name": "cartoon"}, {"width": 62}, "multiples of 8; put `resize: {width: 64, height: 48}` before it"),
    ({"name": "cartoon"}, {"pixels": "nv12"}, "takes gray, rgb24 and bgr24"),
    ({"name": "cartoon"}, {"backend": "cuda"}, "runs on the CPU backend alone"),
    ({"name": "../cartoon"}, {}, "is no name of a filter"),
])
def test_a_filter_is_refused_with_its_reason(place, parameters, keys, said):
    assert said in refused(place, {"frei0r": parameters}, **keys)
