"""What `make demo-model` runs: with a model that gives one box for each picture, and where something cannot be had."""

import os
import pathlib
import shutil
import subprocess

import pytest

from harness import BINARY, FRAMECTL, environment
from harness.daemon import ROOT
from harness.waiting import limit

pytestmark = [pytest.mark.host, pytest.mark.plain]
LIBRARY = pathlib.Path(os.environ.get("FRAMED_ONNXRUNTIME", ROOT / "build/onnxruntime"))
MODEL = ROOT / "tests/data/models/corner.onnx"
FETCHED = ROOT / "build/demo-model/characters.onnx"  # once `make demo-model` ran


@pytest.fixture(name="tree")
def fixture_tree(place):
    """What the demonstration needs of a tree that was built."""
    shutil.copytree(ROOT / "tools/demo", place / "tools/demo")
    (place / "build/demo-model").mkdir(parents=True)
    for program in (BINARY, FRAMECTL):
        (place / "build" / program.name).symlink_to(program)
    return place


def demo(tree, **env):
    """Called in a folder of its own."""
    folder = tree / "here"
    folder.mkdir(exist_ok=True)
    return subprocess.run([tree / "tools/demo/demo-model.sh"], cwd=folder, env=environment({"FRAMED_ONNXRUNTIME": str(LIBRARY), **env}),
                          timeout=limit(120), text=True, capture_output=True, check=False)


@pytest.mark.slow
@pytest.mark.skipif(not LIBRARY.exists(), reason="ONNX Runtime is not there: tools/setup.sh check")
@pytest.mark.parametrize("model, boxes", [
    (MODEL, 1), pytest.param(FETCHED, 6, marks=pytest.mark.skipif(not FETCHED.exists(), reason="not fetched: make demo-model"))])
def test_the_picture_has_the_boxes(tree, model, boxes):
    (tree / "build/demo-model/characters.onnx").symlink_to(model)
    done = demo(tree)
    assert done.returncode == 0, done.stderr
    assert f"120 frames with {120 * boxes} boxes" in done.stdout and done.stdout.count("  a character of ") == boxes, done.stdout
    picture = pytest.importorskip("cv2").imread(str(tree / "here/demo-model.png"))
    assert picture.shape == (480, 640, 3)
    if model == MODEL:
        assert "a character of 62 x 37 pixels at (289, 222), score 0.75" in done.stdout


def only(tree, **scripts):
    """A PATH with what the script calls before it makes a video, and programs that are made up."""
    folder = tree / "only"
    folder.mkdir()
    for name in ("bash", "dirname", "grep", "mkdir", "rm", "tail", "timeout"):
        (folder / name).symlink_to(shutil.which(name))
    for name, script in scripts.items():
        (folder / name).write_text(f"#!/bin/bash\n{script}\n")
        (folder / name).chmod(0o755)
    return str(folder)


@pytest.mark.parametrize("scripts, told, remedy", [
    ({}, "ffmpeg, which makes the video, is not there", "apt install ffmpeg"),
    ({"ffmpeg": ""}, "pip, which fetches the model, is not there", "apt install python3-pip"),
    ({"ffmpeg": "", "python3": "[[ $* = *version ]] || { echo ERROR: No matching distribution found for it; exit 1; }"},
     "pip could not fetch the model: ERROR: No matching distribution found for it", "where there is a network, run `pip download"),
])
def test_what_cannot_be_had_is_told(tree, scripts, told, remedy):
    done = demo(tree, PATH=only(tree, **scripts))
    assert done.returncode == 1 and f"demo-model: {told}\ndemo-model: {remedy}" in done.stderr.replace("Debian: ", ""), done.stderr


def test_a_wheel_that_is_none_is_told(tree):
    (tree / "build/demo-model/ddddocr-1.6.1-py3-none-any.whl").write_text("no archive")
    done = demo(tree)
    assert done.returncode == 1 and "ddddocr-1.6.1-py3-none-any.whl could not be unpacked" in done.stderr, done.stderr
