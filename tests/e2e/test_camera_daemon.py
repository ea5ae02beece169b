"""A network camera, framed-camera and the daemon together: what its users see when the camera fails."""

import json
import subprocess

import pytest
import yaml

from harness import FRAMECTL, Daemon, environment, limit, pipeline, run_framed
from harness.framed_camera import CAMERA
from harness.rtsp import Camera, video

pytestmark = pytest.mark.skipif(not CAMERA.exists(), reason="framed-camera is not built: libav is missing")

GRAY = {"pixels": "gray", "width": 32, "height": 16}
VARIABLES = {"FRAMED_CAMERA": str(CAMERA)}


def yard(url):
    return {"yard": pipeline(GRAY, source={"url": url}, sink={"overload": "drop"})}


def health(daemon):
    return subprocess.run([FRAMECTL, "-s", daemon.socket, "health"], capture_output=True, text=True, check=False,
                          env=environment(), timeout=limit(20)).stdout


def test_a_stream_that_is_cut_is_a_pause_for_readers(place):
    with Camera(cut=20) as server, Daemon(place, yard(server.url), env=VARIABLES) as daemon, daemon.reader("yard") as reader:
        reader.read(25 * 512)
        daemon.wait_view("it runs again", lambda view: view["camera"]["reconnects"] == 1, "yard")
        assert daemon.log.count("camera pid") == 1, "the producer's session stays"


def test_health_has_the_sentence(place):
    with Camera(answers={"SETUP": 453}) as server, Daemon(place, yard(server.url), env=VARIABLES) as daemon:
        daemon.wait_view("it is refused", lambda view: view["camera"].get("token") == "camera.sessions", "yard")
        assert "allows no further session" in health(daemon) and "camera.sessions" in health(daemon)


def test_a_file_is_read_once_and_whole(place):
    (place / "yard.mp4").write_bytes(video(container="mp4"))
    entry = {"yard": pipeline(GRAY, source={"url": f"file:{place}/yard.mp4"})}
    with Daemon(place, entry, env=VARIABLES) as daemon, daemon.reader("yard") as reader:
        reader.read(50 * 512)
        daemon.account("yard", came=50, emitted=50)
        daemon.wait_view("it has ended", lambda view: view["camera"].get("token") == "camera.ended", "yard")


def test_the_pipeline_that_is_printed_is_valid(place):
    with Camera() as server:
        tried = subprocess.run([FRAMECTL, "camera", "try", server.url], capture_output=True, text=True, check=True,
                               env=environment(VARIABLES), timeout=limit(30)).stdout
    config = {**yaml.safe_load(tried.partition("\n\n")[2]), "status": {"socket": str(place / "status.sock")}}
    config["pipelines"]["camera"]["sink"]["socket"] = str(place / "camera.sock")
    (place / "camera.yaml").write_text(json.dumps(config))
    checked = run_framed("--check", "-c", place / "camera.yaml", env=VARIABLES)
    assert checked.returncode == 0, checked.stderr
