"""Stages that users bring: shared libraries and CUDA kernels of their own; and `framectl try`."""

import functools
import json
import pathlib
import re
import struct
import subprocess
import tempfile
import zlib

import numpy as np
import pytest

from harness import BACKEND, FRAMECTL, Daemon, complete, environment, limit, numbered, pipeline, run_framed

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLE = ROOT / "packaging/examples/brighten.c"
GRAY = {"pixels": "gray", "width": 64, "height": 48}
SIZE = 64 * 48


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


def test_a_library_slower_than_the_timeout_is_no_fault(place):
    """The warm-up shows how long its frames take. A frame that takes many times as long hangs, and is found."""
    text = "#include <stdio.h>\n#include <unistd.h>\n" + table(
        run="usleep(300000);" + FAILS_ONCE % (place / "struck", "for (;;) { pause(); }"))
    entries = {"cam0": pipeline(GRAY, slots=1, stages=[{"library": {"file": build(place, text)}}]), "cam1": pipeline(GRAY)}
    with Daemon(place, entries, gpu={"backend": "cpu", "timeout": "100ms", "faults": "60/min"}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(6, SIZE).tobytes())
            np.testing.assert_array_equal(reader.frames(6, SIZE), numbered(6, SIZE))
        assert daemon.status()["handovers"]["fault"] == 1
        assert re.search(r"a frame takes 0\.[3-9]\d* s, which is longer than gpu.timeout \(0\.1 s\)", daemon.log), daemon.log
        assert re.search(r"no completion for (1\.[5-9]|[2-9])\d* s: a kernel hangs", daemon.log), daemon.log


# -- the example that runs filters of frei0r ------------------------------------------------------------------------

FILTER = r"""
#include <stdint.h>
#include <stdlib.h>
struct info { const char *name, *author; int type, colours, version, major, minor, parameters; const char *explanation; };
struct parameter { const char *name; int kind; const char *explanation; };
struct state { unsigned pixels; double add; uint8_t seen; };
int f0r_init(void) { return 1; }
void f0r_get_plugin_info(struct info *info) { *info = (struct info){"own0r", "", 0, 1, 1, 1, 0, 1, ""}; }
void f0r_get_param_info(struct parameter *about, int index) { *about = (struct parameter){"add", 1, ""}; (void)index; }
void *f0r_construct(unsigned width, unsigned height) {
  struct state *state = calloc(1, sizeof *state);
  state->pixels = width * height;
  return state;
}
void f0r_destruct(void *state) { free(state); }
void f0r_set_param_value(void *object, void *value, int index) { ((struct state *)object)->add = *(double *)value; (void)index; }
void f0r_update(void *object, double time, const uint32_t *in, uint32_t *out) {
  struct state *state = object; /* red becomes green, and green the number of the frame; blue gets what is set */
  for (unsigned i = 0; i < state->pixels; i++) {
    uint32_t blue = (in[i] >> 16 & 255) + (uint32_t)(state->add * 100);
    out[i] = (uint32_t)state->seen | (in[i] & 255) << 8 | (blue & 255) << 16;
  }
  state->seen++;
  (void)time;
}
"""


def test_the_example_runs_filters_of_frei0r(place):
    """Each channel gets to its place, parameters to the filter, and an instance sees the frames of a session in order."""
    plugin = build(place, FILTER, name="own0r.so")
    file = build(place, EXAMPLE.with_name("frei0r.c"), name="frei0r.so")
    frames = np.random.default_rng(1).integers(0, 256, (20, 48 * 64, 3), np.uint8)
    stage = {"library": {"file": file, "settings": {"filter": plugin, "set": [0, 0.5]}}}
    results = filtered(place, stage, frames, pixels="rgb24").reshape(frames.shape)
    np.testing.assert_array_equal(results[:, :, 0], np.repeat(np.arange(20, dtype=np.uint8)[:, None], 48 * 64, axis=1))
    np.testing.assert_array_equal(results[:, :, 1], frames[:, :, 0])
    np.testing.assert_array_equal(results[:, :, 2], frames[:, :, 2] + np.uint8(50))
    for settings, said in (({"filter": file}, "names no plugin of frei0r"), ({"filter": plugin, "set": [1, 0.5]}, "`set` takes")):
        assert said in refused(place, {"library": {"file": file, "settings": settings}}, pixels="rgb24")
    assert "the stage 'frei0r' was removed" in refused(place, {"frei0r": {"name": "cartoon"}})


# -- kernels ------------------------------------------------------------------------------------------------------

KERNEL = """\
#include <framed-kernel.h>

__global__ void invert(framed_in in, framed_out out, float gain, int add) {
  int x = blockIdx.x * blockDim.x + threadIdx.x, y = blockIdx.y * blockDim.y + threadIdx.y;
  if (x < out.width && y < out.height) {
    for (int c = 0; c < out.channels; c++) {
      *out.at<unsigned char>(x, y, c) = 255 - gain * *in.at<unsigned char>(x, y, c) + add;
    }
  }
}

__global__ void __launch_bounds__(128) narrow(framed_in in, framed_out out) { out.data[0] = in.data[0]; }
"""
PARAMETERS = {"gain": 1, "add": 0}


@functools.cache
def has_compiler():
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        return "libnvrtc.so is not found" not in run_framed("-c", with_kernel(place), "--check").stderr


def with_kernel(place, text=KERNEL, *, backend="cuda", **keys):
    (place / "own.cu").write_text(text)
    stage = {"source": "own.cu", "name": "invert", "parameters": PARAMETERS, **keys}
    return write_config(place, {"kernel": stage}, backend=backend)


def needs_compiler():
    if not has_compiler():
        pytest.skip("there is no libnvrtc.so")


def test_a_kernel_is_checked_without_a_device(place):
    needs_compiler()
    done = run_framed("-c", with_kernel(place, output={"pixels": "rgb24", "width": 32}), "--check")
    assert done.returncode == 0 and "rgb24 32x48" in done.stdout, done.stderr


@pytest.mark.parametrize("text, keys, said", [
    (KERNEL.replace("255 -", "255 - lost *"), {}, 'own.cu:7: error: identifier "lost" is undefined, in `*out.at'),
    (KERNEL, {"name": "inverse"}, "there is no kernel 'inverse' in"),
    (KERNEL.replace("__global__ void invert", 'extern "C" __global__ void invert'), {}, 'is extern "C"'),
    (KERNEL, {"parameters": {"gain": 1}}, "the next is of type int"),
    (KERNEL, {"parameters": {"gain": 1, "add": 0.5}}, "'add' is of type int"),
    (KERNEL, {"name": "narrow", "parameters": {}}, "a block of this kernel may have 128"),
    (KERNEL, {"block": [64, 32]}, "`block` makes 2048 threads"),
    (KERNEL, {"source": "none.cu"}, "none.cu cannot be read: No such file"),
    (KERNEL, {"output": {"pixels": "rgb"}}, "`output` does not take 'pixels: rgb'"),
], ids=lambda value: value if isinstance(value, str) and "\n" not in value else "")
def test_a_wrong_kernel_is_refused_with_its_reason(place, text, keys, said):
    needs_compiler()
    done = run_framed("-c", with_kernel(place, text, **keys), "--check")
    assert done.returncode == 78 and said in done.stderr, done.stderr


def test_without_a_compiler_it_is_said_where_to_get_one(place, monkeypatch):
    monkeypatch.setenv("FRAMED_NVRTC", "/nowhere/libnvrtc.so")
    done = run_framed("-c", with_kernel(place), "--check")
    assert done.returncode == 78
    assert "libnvrtc.so is not found" in done.stderr and "pip install nvidia-cuda-nvrtc" in done.stderr


INVERTS = """
#include <framed-stage.h>
static int prepare(struct framed_stage_plan *plan) { return plan->setting_count != 2; }
static int run(const struct framed_stage_plan *plan, const struct framed_stage_call *call) {
  for (int i = 0; i < 64 * 48; i++) ((uint8_t *)call->output)[i] = 255 - ((const uint8_t *)call->input)[i];
  (void)plan; return 0; }
const struct framed_stage *framed_stage(void) {
  static const struct framed_stage table = {.abi = FRAMED_STAGE_ABI, .size = sizeof table, .name = "inverts",
                                            .prepare = prepare, .run = run};
  return &table;
}
"""


def test_a_library_stands_in_for_a_kernel_on_the_cpu(place):
    build(place, INVERTS)
    frames = numbered(5, SIZE)
    done = run_framed("-c", with_kernel(place, backend="cpu", cpu="own.so"), input=frames.tobytes())
    assert done.stdout == (255 - frames).tobytes(), done.stderr.decode()


def test_a_kernel_alone_is_refused_for_the_cpu(place):
    needs_compiler()
    done = run_framed("-c", with_kernel(place, backend="cpu"), "--check")
    assert done.returncode == 78 and "stages[0] (kernel) runs on CUDA alone" in done.stderr
    assert "give a library under `cpu:`" in done.stderr


@pytest.mark.skipif(BACKEND != "cuda", reason="needs a GPU")
@pytest.mark.parametrize("graph", ["on", "off"])
def test_a_kernel_computes_on_the_device(place, graph):
    needs_compiler()
    (place / "own.cu").write_text(KERNEL)
    stage = {"kernel": {"source": "own.cu", "name": "invert", "parameters": PARAMETERS}}
    with Daemon(place, {"cam0": pipeline(GRAY, stages=[stage], graph=graph)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(50, SIZE).tobytes())
            np.testing.assert_array_equal(reader.frames(50, SIZE), 255 - numbered(50, SIZE))


STRIKES = """\
#include <framed-kernel.h>

__global__ void invert(framed_in in, framed_out out, float gain, int add) {
  if (in.data[0] == 20) { %s }
  out.data[blockIdx.x * blockDim.x + threadIdx.x] = in.data[0];
}
"""


@pytest.mark.skipif(BACKEND != "cuda", reason="needs a GPU")
@pytest.mark.parametrize("how", ["*(volatile int *)16 = 1;", "for (;;) { __nanosleep(1000); }"], ids=["wild", "endless"])
def test_a_kernel_that_breaks_is_survived(place, how):
    """The frame that always strikes is given up in the end, and all others pass."""
    needs_compiler()
    (place / "own.cu").write_text(STRIKES % how)
    stage = {"kernel": {"source": "own.cu", "name": "invert", "parameters": PARAMETERS, "block": 64, "grid": 48}}
    entries = {"cam0": pipeline(GRAY, slots=1, stages=[stage])}
    with Daemon(place, entries, gpu={"backend": "cuda", "timeout": "1s", "faults": "60/min"}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(np.repeat(np.arange(40, dtype=np.uint8), SIZE).tobytes())
            firsts = reader.frames(39, SIZE)[:, 0].tolist()
        assert firsts == [number for number in range(40) if number != 20]
        assert daemon.status()["handovers"]["fault"] >= 1


# -- files that change meanwhile ----------------------------------------------------------------------------------


def test_after_a_fault_stages_go_on_with_the_files_that_they_had(place):
    """Whatever has become of them since, in their place or in place; a reload says what is wrong with them."""
    library, stand_in, labels = build(place, EXAMPLE, name="own.so"), build(place, table(), name="cpu.so"), place / "labels.txt"
    kernel = {"source": "own.cu", "name": "invert", "parameters": PARAMETERS, "cpu": stand_in}
    header = place / "own.cuh"
    strike = {"fault": {"kind": "illegal", "at": 1, "again": "no"}}
    header.write_text(KERNEL)
    (place / "own.cu").write_text('#include "own.cuh"\n')
    labels.write_text("cat\ndog\n")
    entries = {"cam0": pipeline(GRAY, stages=[{"library": {"file": library, "settings": {"by": 40}}}, {"kernel": kernel}, strike]),
               "top": pipeline({"dtype": "float32", "shape": [2]}, stages=[{"top": {"k": 1, "labels": str(labels)}}],
                               sink={"protocol": "json"})}
    with Daemon(place, entries, gpu={"backend": "cpu", "faults": "60/min"}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer, daemon.reader("top") as lines, daemon.producer("top") as scores:
            for file in (library, stand_in):
                (place / "broken").write_text("nothing of use")
                (place / "broken").rename(file)
            for file in (place / "own.cu", header, labels):
                file.write_text("nothing of use\0")
            producer.send(bytes(5 * SIZE))
            assert reader.read(5 * SIZE) == bytes([40]) * (5 * SIZE)
            scores.send(struct.pack("<2f", 1, 3))
            assert b'"label":"dog"' in lines.socket.makefile("rb").readline()
        assert daemon.status()["handovers"]["fault"] >= 2
        code, answer = daemon.post("/v1/reload")
        assert code == 400 and "own.so cannot be loaded" in answer["error"] and "labels.txt" in answer["error"], answer


# -- framectl try and stages --------------------------------------------------------------------------------------


def framectl(*arguments, **options):
    return subprocess.run([FRAMECTL, *map(str, arguments)], env=environment(), timeout=limit(30), capture_output=True,
                          check=False, **options)


def png(picture):
    """A PNG of a gray or RGB picture, written without any library."""
    height, width = picture.shape[:2]

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 2 if picture.ndim == 3 else 0, 0, 0, 0)
    rows = b"".join(b"\0" + row.tobytes() for row in picture)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def pnm(picture):
    return b"P%d\n%d %d\n255\n" % (6 if picture.ndim == 3 else 5, *picture.shape[1::-1]) + picture.tobytes()


PICTURE = np.random.default_rng(5).integers(0, 256, (10, 14, 3), np.uint8)
INVERT = "affine: {scale: -1, offset: 255}"


@pytest.mark.parametrize("picture", [PICTURE, PICTURE[:, :, 0].copy()], ids=["rgb", "gray"])
def test_try_reads_and_writes_pictures(place, picture):
    (place / "in.png").write_bytes(png(picture))
    done = framectl("try", "--cpu", "-i", place / "in.png", "-o", place / "out.ppm", INVERT)
    assert done.returncode == 0, done.stderr
    assert (place / "out.ppm").read_bytes() == pnm(255 - picture)
    done = framectl("try", "--cpu", "-i", place / "out.ppm", "-o", place / "out.png", INVERT)
    done = framectl("try", "--cpu", "-i", place / "out.png", "-o", place / "back.ppm", "affine")
    assert (place / "back.ppm").read_bytes() == pnm(picture)


def test_try_goes_from_standard_input_to_standard_output(place):
    done = framectl("try", "--cpu", "convert: {to: bgr24}", input=pnm(PICTURE))
    assert done.stdout == pnm(PICTURE), "a file has red first"
    assert done.stderr == b"result: bgr24 14x10\n"
    tensor = np.arange(6, dtype=np.float32)
    done = framectl("try", "--cpu", "--format", "float32[2,3]", "affine: {scale: 2}", INVERT, input=tensor.tobytes())
    np.testing.assert_array_equal(np.frombuffer(done.stdout, np.float32), 255 - 2 * tensor)


@pytest.mark.parametrize("arguments, data, status, said", [
    (["try", "blurr"], pnm(PICTURE), 1, b"did you mean 'blur'?"),
    (["try", "sobel"], pnm(PICTURE), 1, b"put `convert: {to: gray}` before it"),
    (["try", "affine"], b"nothing", 64, b"is no PNG, PGM or PPM"),
    (["try", "affine"], pnm(PICTURE)[:-1], 64, b"ends before its last pixel"),
    (["try", "affine"], png(PICTURE)[:60], 64, b"cannot be read"),
    (["try", "--format", "gray 640x", "affine"], b"", 64, b"is no format"),
    (["try", "--format", "gray 6x6", "affine"], bytes(35), 1, b"less than the 36 bytes"),
    (["try", "-o", "out.png", "--format", "gray 6x6", "stats"], bytes(36), 64, b"which no picture file holds"),
    (["try"], b"", 64, b"'try' needs a stage"),
    (["try", "-i", "none.png", "affine"], b"", 64, b"No such file"),
])
def test_try_says_what_is_wrong(place, arguments, data, status, said):
    done = framectl(*arguments, input=data, cwd=place)
    assert (done.returncode, done.stdout) == (status, b"") and said in done.stderr, done.stderr


def test_try_finds_files_from_where_it_is_run(place):
    build(place, EXAMPLE, name="brighten.so")
    done = framectl("try", "--cpu", "--format", "gray 4x4", "library: {file: brighten.so, settings: {by: 9}}", input=bytes(16), cwd=place)
    assert done.stdout == bytes([9] * 16), done.stderr


def test_try_ends_with_a_stage_that_hangs(place):
    """After `gpu.timeout`, which is that of every configuration."""
    build(place, table(run="for (;;) { pause(); }", prepare="plan->output = plan->input").replace("#include <string.h>", "#include <string.h>\n#include <unistd.h>"))
    done = framectl("try", "--cpu", "--format", "gray 64x48", "library: {file: own.so}", input=bytes(SIZE), cwd=place)
    assert done.returncode == 1 and b"a stage hangs" in done.stderr, done.stderr


def test_stages_are_listed(place):
    said = framectl("stages").stdout.decode()
    assert "  blur  " in said and "  kernel  " in said
    assert "sigma" in framectl("stages", "blur").stdout.decode()
    none = framectl("stages", "blurr")
    assert none.returncode == 64 and b"there is no stage 'blurr'" in none.stderr
