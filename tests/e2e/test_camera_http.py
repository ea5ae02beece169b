"""framed-camera and cameras that speak HTTP: MJPEG and HLS."""

import pytest

from harness.framed_camera import CAMERA, CameraProcess
from harness.http_camera import HttpCamera
from harness.rtsp import video

pytestmark = pytest.mark.skipif(not CAMERA.exists(), reason="framed-camera is not built: libav is missing")

PLAYLIST = b"#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:2\n#EXTINF:2,\n%s\n#EXT-X-ENDLIST\n"


def test_mjpeg(place):
    with HttpCamera(login=("admin", "a:b"), rate=8) as server, CameraProcess(f"{server.url}/mjpeg", user="admin", password="a:b") as camera:
        camera.welcome()
        assert [camera.frame()[0] for _ in range(15)] == list(range(15))
        report = camera.wait_for(state="running")
        assert (report["codec"], report["width"], report["height"]) == ("mjpeg", 160, 120)
        assert not any("token" in report for report in camera.reports), "time stamps of MJPEG are invented by libavformat"


def test_hls(place):
    with HttpCamera({"/yard.m3u8": PLAYLIST % b"yard.ts", "/yard.ts": video(container="ts")}) as server, \
            CameraProcess(f"{server.url}/yard.m3u8") as camera:
        camera.welcome()
        assert camera.frame()[2].std() > 20
        assert camera.wait_for(token="camera.ended")["codec"] == "h264"


@pytest.mark.parametrize("name", [b"file:///etc/passwd", b"file:yard.ts", b"concat:/etc/passwd", b"tcp://127.0.0.1:1/x"])
def test_a_playlist_leads_to_no_file(place, name):
    (place / "yard.ts").write_bytes(video(container="ts"))
    with HttpCamera({"/yard.m3u8": PLAYLIST % name}) as server, CameraProcess(f"{server.url}/yard.m3u8") as camera:
        report = camera.welcome().wait_for(state="waiting")
        assert report["frames"] == 0 and report["token"].startswith("camera.")


@pytest.mark.parametrize("path,fault,token", [
    ("/none", {}, "camera.path"),
    ("/mjpeg", {"login": ("admin", "right")}, "camera.password"),
    ("/mjpeg", {"status": 503}, "camera.sessions"),
    ("/mjpeg", {"status": 500}, "camera.refused"),
    ("/page", {"files": {"/page": b"<html><body>Welcome to the camera</body></html>" * 40}}, "camera.codec"),
])
def test_a_camera_that_refuses(place, path, fault, token):
    with HttpCamera(**fault) as server, CameraProcess(server.url + path, user="admin", password="wrong") as camera:
        report = camera.welcome().wait_for(state="waiting")
        assert report["token"] == token, report
