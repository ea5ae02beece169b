"""What `make demo` runs, where a step does not come to its end: each is limited in time and says what it waited for, and no process
and no socket is left. The whole of it runs on each system in `make check-systems`."""

import os
import pathlib
import shutil
import signal
import subprocess

import pytest

from harness import BINARY, FRAMECTL, environment, limit, wait_until
from harness.daemon import ROOT

pytestmark = [pytest.mark.host, pytest.mark.plain]
HANGS = "echo $$ >>started; exec sleep 1000"
VIDEO = 'for file; do :; done; printf "YUV4MPEG2 W640 H480 F30:1 Ip A1:1 C420jpeg\\n" >"$file"'  # its last argument
SENDS = f'case "$*" in *unix:*) {HANGS} ;; *) {VIDEO} ;; esac'


@pytest.fixture(name="tree")
def fixture_tree(place):
    """What the demonstration needs of a tree that was built. Its ffmpeg is made up."""
    shutil.copytree(ROOT / "tools/demo", place / "tools/demo")
    (place / "config/examples").mkdir(parents=True)
    shutil.copy(ROOT / "config/examples/demo.yaml", place / "config/examples")
    (place / "build").mkdir()
    for program in (BINARY, FRAMECTL):
        (place / "build" / program.name).symlink_to(program)
    return place


def start(tree, ffmpeg, seconds):
    (tree / "programs").mkdir()
    (tree / "programs/ffmpeg").write_text(f"#!/bin/bash\n{ffmpeg}\n")
    (tree / "programs/ffmpeg").chmod(0o755)
    env = environment({"PATH": f"{tree}/programs:{os.environ['PATH']}", "DEMO_LIMIT": str(seconds)})
    # A shell that starts programs in the background has them ignore SIGINT, and a shell script cannot undo that.
    return subprocess.Popen([tree / "tools/demo/demo.sh"], preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL), env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def left_in(tree):
    """Processes that have a file of the tree open, or run there."""
    found = []
    for process in pathlib.Path("/proc").iterdir():
        try:
            if process.name.isdigit() and os.readlink(process / "cwd").startswith(str(tree)):
                found.append((process / "cmdline").read_text())
        except OSError:
            pass
    return found


def nothing_is_left(tree):
    wait_until(lambda: not left_in(tree), lambda: left_in(tree))
    assert not list((tree / "build/demo").glob("*.sock"))


@pytest.mark.parametrize("ffmpeg, step", [(HANGS, "making the video"), (SENDS, "sending the video")], ids=["making", "sending"])
def test_a_step_that_hangs_is_named_after_its_limit(tree, ffmpeg, step):
    with start(tree, ffmpeg, 2) as demo:
        told = demo.communicate(timeout=limit(60))[1]
    assert demo.returncode == 1 and f"demo: {step} took more than 2 s\n" in told, told
    nothing_is_left(tree)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_it_and_leaves_nothing(tree, number):
    with start(tree, SENDS, 60) as demo:
        wait_until((tree / "started").exists, "the video is being sent", 30)
        assert list((tree / "build/demo").glob("*.sock"))
        demo.send_signal(number)
        told = demo.communicate(timeout=limit(20))[1]
    assert demo.returncode == 128 + number, told
    nothing_is_left(tree)
