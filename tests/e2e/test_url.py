"""Sources that are URLs, mostly with a stand-in for framed-camera: its start message, its faults, its start and its end."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess

import numpy as np
import pytest

from harness import FRAMECTL, Daemon, environment, pipeline, wait_until
from harness.camera import BYTES, REFUSED, RUNNING, Stage, picture
from harness.daemon import run_framed
from harness.framed_camera import CAMERA
from harness.rtsp import Camera
from harness.store import leave, settle, start

GRAY = {"pixels": "gray", "width": 32, "height": 16}
URL = "rtsp://10.0.0.17/main"
PASSWORD = "geheim:\"\\ 17"


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
    """They wait for a reader, since a file waits. The process has the descriptors of its interface and no other."""
    stage.plays(say=[RUNNING], frames=50)
    with Daemon(place, yard("file:/nowhere.mp4"), env=stage.environment) as daemon:
        start = one_start(stage)
        assert start["order"] == {"version": 1, "pipeline": "yard", "url": "file:/nowhere.mp4", "width": 32, "height": 16,
                                  "pixels": "gray8", "transport": "tcp", "silence": 1.0}
        assert len(start["arguments"]) == 1 and start["files"] == ["0", "1", "2", "3", "4", "5"]  # the last is of the look
        with daemon.reader("yard") as reader:
            read_pictures(reader, 0, 50)
        daemon.account("yard", came=50, emitted=50)
        assert f"camera pid {start['pid']} connected" in daemon.log
        daemon.wait_log("pictures come from the camera: h264 2560x1440, 25 a second, decoder cpu")
    assert not is_alive(start["pid"])


def read_some(reader, count):
    for _ in range(count):
        rows = np.frombuffer(reader.read(BYTES), np.uint8).reshape(16, 32)
        assert (rows[:, :4] == 0).all() and (rows[:, -4:] == 0).all() and rows[:, 8:24].std() > 20


@pytest.mark.skipif(not CAMERA.exists(), reason="framed-camera is not built: libav is missing")
def test_a_camera_of_the_network(place):
    """The real program, a password, and a picture of 160x120 in a frame of 32x16: black at both sides."""
    write_credentials(place, "admin:p@ss w/o#\n")
    variables = {"FRAMED_CAMERA": str(CAMERA), "CREDENTIALS_DIRECTORY": str(place)}
    with Camera(login=("admin", "p@ss w/o#")) as server:
        with Daemon(place, yard(server.url, source={"credentials": "yard"}, sink={"overload": "drop"}), env=variables) as daemon:
            with daemon.reader("yard") as reader:
                read_some(reader, 20)
            camera = daemon.wait_view("it runs", lambda view: view["camera"]["rate"] > 0, "yard")["camera"]
            assert (camera["state"], camera["codec"], camera["width"], camera["height"]) == ("running", "h264", 160, 120)
            assert camera["picture"][1::2] == [0, 16], "it fills the height of a frame"
            pid = camera["pid"]
            daemon.write(yard(server.url, source={"credentials": "yard"}, sink={"overload": "drop"}, slots=6))
            daemon.command("/v1/reload")
            with daemon.reader("yard") as reader:
                read_some(reader, 20)
                assert daemon.view("yard")["camera"]["pid"] == pid and server.sessions == 1
                os.kill(pid, signal.SIGKILL)
                daemon.wait_view("another process runs", lambda view: view["camera"]["pid"] not in (0, pid), "yard")
                daemon.command("/v1/upgrade")
                daemon.wait_log("everything goes on")
                read_some(reader, 60)
                assert server.sessions == 2
            assert "h264 160x120" in subprocess.run([FRAMECTL, "-s", daemon.socket, "status", "yard"], capture_output=True, text=True, check=True,
                                                  env=environment()).stdout
            assert "p@ss" not in daemon.log


def test_a_process_that_ends_is_started_again(place, stage):
    """The reader notices the gap and nothing else."""
    stage.plays(say=[RUNNING], frames=5, then="exit")
    with Daemon(place, yard("file:/nowhere.mp4"), env=stage.environment) as daemon, daemon.reader("yard") as reader:
        read_pictures(reader, 0, 5)
        stage.plays(say=[RUNNING], frames=5, first=5)
        read_pictures(reader, 5, 5)
        first, second = one_start(stage), one_start(stage, 2)
        assert not is_alive(first["pid"]) and is_alive(second["pid"])
        daemon.wait_log("framed-camera has ended with status 3 (camera.ended)")
        os.kill(second["pid"], signal.SIGKILL)
        stage.plays(say=[RUNNING], frames=5, first=10)
        read_pictures(reader, 10, 5)
        daemon.wait_log("framed-camera was ended by signal 9 (Killed) (camera.ended)")
        daemon.account("yard", came=15, emitted=15)


def memory_of(pid):
    """What a core dump would have, but for large mappings, which hold frames."""
    with open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
        for line in pathlib.Path(f"/proc/{pid}/maps").read_text().splitlines():
            begin, end = (int(address, 16) for address in line.split()[0].split("-"))
            if line.split()[1].startswith("rw") and end - begin <= 1 << 26:
                memory.seek(begin)
                with contextlib.suppress(OSError):
                    yield memory.read(end - begin)


def test_the_password_is_told_and_seen_nowhere(place, stage):
    write_credentials(place, f"admin:{PASSWORD}\n")
    stage.plays(say=[RUNNING])
    with Daemon(place, yard(source={"credentials": "yard"}), env=stage.environment) as daemon:
        start = one_start(stage)
        assert (start["order"]["user"], start["order"]["password"]) == ("admin", PASSWORD)
        daemon.wait_view("it runs", lambda view: view["camera"]["state"] == "running", "yard")
        seen = [daemon.request("GET", path)[1] for path in ("/v1/status", "/v1/config", "/v1/health", "/metrics", "/")]
        for pid in (daemon.process.pid, start["pid"]):
            seen += [pathlib.Path(f"/proc/{pid}/{name}").read_bytes().decode(errors="replace") for name in ("cmdline", "environ")]
        seen += [json.dumps(start["environment"]), daemon.log]
        assert not any(PASSWORD in text or PASSWORD.split(":")[0] in text for text in seen)
        assert "CREDENTIALS_DIRECTORY" not in start["environment"]
        assert not any(PASSWORD.encode() in memory for memory in memory_of(daemon.process.pid))


@pytest.mark.parametrize("text, mode, words", [
    ("admin:secret\n", 0o644, "which lets others read or change it"),
    ("admin:secret\n", 0o660, "which lets others read or change it"),
    ("secret\n", 0o600, "is not one line with a user and a password"),
    ("admin:secret\nmore\n", 0o600, "is not one line with a user and a password"),
    (None, 0, "cannot read the credentials"),
], ids=["all may read", "the group may write", "no user", "two lines", "no file"])
def test_credentials_that_are_refused(place, stage, text, mode, words):
    if text is not None:
        write_credentials(place, text, mode)
    daemon = Daemon(place, yard(source={"credentials": "yard"}), env=stage.environment)
    checked = run_framed("--check", "-c", daemon.file, env=stage.environment)
    assert checked.returncode == 78 and words in checked.stderr and "secret" not in checked.stderr
    assert not stage.starts()


def test_a_program_that_is_missing_is_said(place, stage):
    daemon = Daemon(place, yard(), env=stage.environment)
    checked = run_framed("--check", "-c", daemon.file, env={**stage.environment, "FRAMED_CAMERA": str(place / "nothing")})
    assert checked.returncode == 78 and "there is no framed-camera" in checked.stderr


def test_what_the_camera_says_is_shown(place, stage):
    stage.plays(say=[{"state": "connecting"}, REFUSED])
    with Daemon(place, yard(), env=stage.environment) as daemon:
        view = daemon.wait_view("it waits", lambda view: view["camera"]["state"] == "waiting", "yard")
        camera = view["camera"]
        assert (camera["token"], camera["text"], camera["reconnects"]) == ("camera.refused", REFUSED["text"], 3)
        code, health = daemon.request("GET", "/v1/health")
        assert code == 503 and REFUSED["text"] in health and "camera.refused" in health
        assert view["condition"] == "camera"
        daemon.wait_log(f"{REFUSED['text']} (camera.refused)")
        assert 'framed_camera_up{pipeline="yard"} 0' in daemon.metrics()
        os.kill(one_start(stage)["pid"], signal.SIGKILL)
        stage.plays(say=[RUNNING])
        view = daemon.wait_view("it runs", lambda view: view["camera"]["state"] == "running", "yard")
        camera = view["camera"]
        assert (camera["codec"], camera["width"], camera["height"], camera["rate"]) == ("h264", 2560, 1440, 25)
        assert (camera["bitrate"], camera["decoder"], camera["token"], camera["text"]) == (4012000, "cpu", "", "")
        assert daemon.request("GET", "/v1/health")[0] == 200
        assert 'framed_camera_up{pipeline="yard"} 1' in daemon.metrics()


def test_the_last_message_has_the_reason_of_the_end(place, stage):
    stage.plays(say=[{"state": "waiting", "token": "camera.url", "text": "install both of one version"}], then="exit")
    with Daemon(place, yard(), env=stage.environment) as daemon:
        one_start(stage, 2)
        assert daemon.log.count("install both of one version (camera.url)") == 1 and "has ended with status" not in daemon.log


@pytest.mark.parametrize("then, words", [
    ("garbage", "it said what makes no sense"),
    ("flood", "it sent more than 64 messages a second"),
    ("stranger", "its connection to the pipeline was closed"),
])
def test_a_lying_process_is_ended(place, stage, then, words):
    stage.plays(say=[RUNNING], then=then)
    with Daemon(place, yard("file:/nowhere.mp4"), env=stage.environment) as daemon, daemon.reader("yard") as reader:
        first = one_start(stage)
        stage.plays(say=[RUNNING], frames=3)
        daemon.wait_log(f"framed-camera was killed: {words}")
        read_pictures(reader, 0, 3)
        assert not is_alive(first["pid"])


def test_a_reload_keeps_the_process(place, stage):
    """Other stages are none of its business. Other credentials, or another URL, are."""
    write_credentials(place, "admin:one\n")
    stage.plays(say=[RUNNING])
    with Daemon(place, yard(source={"credentials": "yard"}), env=stage.environment) as daemon:
        first = one_start(stage)
        daemon.write(yard(source={"credentials": "yard"}, stages=["threshold"]))
        daemon.command("/v1/reload")
        assert len(stage.starts()) == 1 and is_alive(first["pid"])
        write_credentials(place, "admin:another\n")
        daemon.command("/v1/reload")
        second = one_start(stage, 2)
        assert second["order"]["password"] == "another"
        wait_until(lambda: not is_alive(first["pid"]), "the first process has ended")
        daemon.write({})
        daemon.command("/v1/reload")
        wait_until(lambda: not is_alive(second["pid"]), "the process ends with its pipeline")


def test_a_pipeline_that_follows_another_keeps_the_process(place, stage):
    """Only the source is the camera's business: other slots and another sink make another pipeline of the same camera."""
    stage.plays(say=[RUNNING], frames=3)
    with Daemon(place, yard("file:/nowhere.mp4"), env=stage.environment) as daemon:
        with daemon.reader("yard") as reader:
            read_pictures(reader, 0, 3)
            stage.plays(frames=3, first=3)
        daemon.write(yard("file:/nowhere.mp4", slots=3, sink={"socket": str(place / "other.sock")}))
        daemon.command("/v1/reload")
        with daemon.reader("yard") as reader:
            read_pictures(reader, 3, 3)
        assert len(stage.starts()) == 1 and daemon.view("yard")["camera"]["state"] == "running"
        stage.plays(say=[RUNNING])
        daemon.write(yard("file:/other.mp4"))
        daemon.command("/v1/reload")
        assert one_start(stage, 2)["order"]["url"] == "file:/other.mp4"
        wait_until(lambda: not is_alive(one_start(stage)["pid"]), "the first process has ended")


def test_a_process_that_does_not_end_is_killed(place, stage):
    stage.plays(say=[RUNNING], then="deaf")
    with Daemon(place, yard(), env=stage.environment) as daemon:
        pid = one_start(stage)["pid"]
        daemon.write({})
        daemon.command("/v1/reload")
        wait_until(lambda: not is_alive(pid), "it was killed")


def test_the_process_ends_with_a_daemon_that_is_killed(place, stage):
    with Daemon(place, yard(), env=stage.environment) as daemon:
        pid = one_start(stage)["pid"]
        daemon.kill()
        wait_until(lambda: not is_alive(pid), "it has ended")
        daemon.settled = daemon.leaves_sockets = True


def test_an_upgrade_keeps_the_process(place, stage):
    stage.plays(say=[RUNNING], frames=400, pause=0.005)
    with Daemon(place, yard("file:/nowhere.mp4"), env=stage.environment) as daemon, daemon.reader("yard") as reader:
        read_pictures(reader, 0, 20)
        daemon.command("/v1/upgrade")
        read_pictures(reader, 20, 380)
        daemon.wait_log("everything goes on")
        assert len(stage.starts()) == 1
        stage.plays(say=[RUNNING], frames=3)
        os.kill(one_start(stage)["pid"], signal.SIGKILL)
        read_pictures(reader, 0, 3)


@pytest.mark.parametrize("orderly", [False, True], ids=["SIGKILL", "restart"])
def test_the_next_process_has_a_camera_of_its_own(place, store, stage, orderly):
    """A service manager keeps connections, and no child. Whole frames of the first camera come through, then frames of the second one."""
    stage.plays(say=[RUNNING], frames=3)
    daemon = start(place, store, yard("file:/nowhere.mp4", slots=4))
    daemon.options["env"].update(stage.environment)
    with daemon:
        daemon.wait_view("they wait", lambda view: view["frames"]["in"] == 3 and view["waiting"] == "reader", "yard")
        first = one_start(stage)["pid"]
        stage.plays(say=[RUNNING], frames=3, first=3)
        settle(daemon)
        leave(store, daemon, orderly)
        wait_until(lambda: not is_alive(first), "the first process has ended")
        store.start(daemon)
        daemon.wait_ready()
        with daemon.reader("yard") as reader:
            read_pictures(reader, 0, 6)
        assert len(stage.starts()) == 2


def test_starts_are_a_few_at_once(place, stage):
    """After a power cut 150 cameras are not started in the same moment."""
    count, most = 12, 2 * os.cpu_count()
    pipelines = {f"cam{n}": pipeline(GRAY, source={"url": f"rtsp://10.0.0.{n}/"}) for n in range(count)}
    with Daemon(place, pipelines, env=stage.environment) as daemon:
        wait_until(lambda: len(stage.starts()) >= min(most, count), "the first ones start")
        assert len(stage.starts()) == min(most, count)
        assert {view["camera"]["state"] for view in daemon.status()["pipelines"].values()} == {"starting"}
