"""framed-camera: what it makes of cameras, good and bad. The test is its daemon."""

import pytest

from harness.camera import CAMERA, CameraProcess
from harness.rtsp import Camera, video

pytestmark = pytest.mark.skipif(not CAMERA.exists(), reason="framed-camera is not built: libav is missing")


def file_of(place, name, **of):
    path = place / name
    path.write_bytes(video(container=path.suffix[1:], **of))
    return f"file:{path}"


@pytest.mark.parametrize("name", ["yard.mp4", "yard.ts"])
def test_a_file_comes_whole_and_waits_for_the_pipeline(place, name):
    with CameraProcess(file_of(place, name)) as camera:
        camera.welcome()
        assert [camera.frame()[0] for _ in range(50)] == list(range(50))
        report = camera.wait_for(token="camera.ended")
        assert report["text"] == f"{name} has ended"
        assert (report["state"], report["codec"], report["frames"], report["dropped"]) == ("waiting", "h264", 50, 0)
        assert (report["width"], report["height"], report["picture"]) == (160, 120, [0, 0, 160, 120])


def test_frames_of_a_camera(place):
    with Camera() as server, CameraProcess(server.url) as camera:
        camera.welcome()
        first = camera.frame()
        assert [camera.frame()[0] for _ in range(30)] == list(range(1, 31))
        assert first[2].std() > 20
        report = camera.wait_for(state="running")
        assert (report["codec"], report["time"], report["reconnects"]) == ("h264", "arrival", 0) and "token" not in report
    assert server.ended == 1, "the session at the camera is ended in good order"
