"""Sources that are URLs, with a stand-in for framed-camera: what it is told, what it may do, and who ends and starts it."""

import json
import os
import pathlib
import signal

import pytest

from harness import Daemon, pipeline, wait_until
from harness.camera import BYTES, REFUSED, RUNNING, Stage, picture
from harness.daemon import run_framed

GRAY = {"pixels": "gray", "width": 32, "height": 16}
URL = "rtsp://10.0.0.17/main"
PASSWORD = "ge:heim\"\\ 17"


def yard(url=URL, **keys):
    source = {"url": url, **keys.pop("source", {})}
    return {"yard": pipeline(GRAY, source=source, **keys)}


@pytest.fixture
def stage(place):
    return Stage(place)


def write_credentials(place, text, mode=0o600, name="yard"):
    file = place / name
    file.write_text(text)
    file.chmod(mode)
    return file


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def one_start(stage, number=1):
    return wait_until(lambda: stage.starts()[number - 1] if len(stage.starts()) >= number else None,
                      f"stand-in {number} has started", 30)


def read_pictures(reader, first, count):
    for number in range(first, first + count):
        assert reader.read(BYTES) == picture(number), f"frame {number}"


def test_frames_come_in_order(place, stage):
    stage.plays(say=[RUNNING], frames=50, pause=0.002)
    with Daemon(place, yard("file:/nowhere.mp4"), env=stage.environment) as daemon:
        with daemon.reader("yard") as reader:
            start = one_start(stage)
            daemon.account("yard", came=50, emitted=50)
        order = start["order"]
        assert order == {"version": 1, "pipeline": "yard", "url": "file:/nowhere.mp4", "width": 32, "height": 16,
                         "pixels": "gray8", "transport": "tcp", "silence": 1.0}
        assert len(start["arguments"]) == 1 and start["files"][:5] == ["0", "1", "2", "3", "4"] and len(start["files"]) == 6
        del reader
