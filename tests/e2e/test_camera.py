"""framed-camera: what it makes of cameras, good and bad. The test is its daemon."""

import pathlib
import random
import re
import time

import pytest

from harness import Background, wait_until
from harness.framed_camera import CAMERA, CameraProcess
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
    wait_until(lambda: server.ended == 1, "the session at the camera is ended in good order")


def test_a_frame_has_the_time_at_which_it_began_to_come(place):
    with Camera(rate=8) as server, CameraProcess(server.url) as camera:
        camera.welcome()
        late = sorted(timestamp / 1e9 - server.began[number] for number, timestamp, _ in (camera.frame() for _ in range(9)))
        assert -0.01 < late[4] < 0.06, late


@pytest.mark.parametrize("seed", range(2))
def test_damaged_files(place, seed):
    """A thousandth of all bytes is wrong. The program reads to the end of the file."""
    chance, stream = random.Random(seed), bytearray(video(frames=250, width=320, height=240, container="ts" if seed else "mp4"))
    for _ in range(len(stream) // 1000):
        stream[chance.randrange(len(stream))] = chance.randrange(256)
    path = place / "yard.bin"
    path.write_bytes(stream)
    with CameraProcess(f"file:{path}") as camera:
        camera.welcome()
        reader = Background(lambda: [camera.frame() for _ in range(10**6)])
        report = camera.wait_for(state="waiting")
        assert report["token"] in ("camera.ended", "camera.codec") and not reader.done


def test_h265(place):
    stream = video(container="hevc", width=320, height=240, frames=30)
    with Camera(stream, codec="H265", rate=50) as server, CameraProcess(server.url) as camera:
        camera.welcome()
        assert [camera.frame()[0] for _ in range(60)] == list(range(60))
        report = camera.wait_for(state="running")
        assert (report["codec"], report["width"], report["lost"]) == ("hevc", 320, 0)


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_a_frame_does_not_wait_for_the_next_one(place, transport):
    """Not after the first second, in which the habits of the camera are learned."""
    with Camera(rate=20) as server, CameraProcess(server.url, transport=transport) as camera:
        camera.welcome()
        came = [(camera.frame()[0], time.monotonic()) for _ in range(45)]
        waits = sorted(at - server.began[number] for number, at in came[-11:])
        assert 0 < waits[5] < 0.04, waits


def test_udp(place):
    with Camera() as server, CameraProcess(server.url, transport="udp") as camera:
        camera.welcome()
        assert [camera.frame()[0] for _ in range(10)] == list(range(10))


@pytest.mark.parametrize("pixels", ["rgb24", "nv12", "gray"])
def test_letterbox(place, pixels):
    """4:3 in 2:1 has 40 black columns on each side, also where rows have no whole vectors."""
    url = file_of(place, "yard.mp4", pattern="color=c=white", frames=3)
    with CameraProcess(url, pixels=pixels, width=212, height=100) as camera:
        pixel = camera.welcome().frame()[2]
        black, white = {"rgb24": (0, 250), "nv12": (16, 230), "gray": (0, 250)}[pixels]
        rows = pixel[:212 * 100 * (3 if pixels == "rgb24" else 1)].reshape(100, 212, -1)
        x, _, width, height = camera.wait_for(state="running")["picture"]
        assert (x, width, height) == (38, 134, 100)
        assert (rows[:, :x] == black).all() and (rows[:, x + width:] == black).all() and (rows[:, x:x + width] >= white).all()


@pytest.mark.parametrize("scheme", ["Basic", "Digest"])
def test_a_password(place, scheme):
    """With every character that a URL reserves; it is to be found nowhere."""
    login = ("ad min", "p@ss:w/o?r#d%&")
    with Camera(login=login, scheme=scheme) as server, CameraProcess(server.url, user=login[0], password=login[1]) as camera:
        camera.welcome().frame()
        pid = camera.process.pid
        with open(f"/proc/{pid}/cmdline", "rb") as arguments, open(f"/proc/{pid}/environ", "rb") as variables:
            assert b"p@ss" not in arguments.read() + variables.read()
        camera.wait_for(state="running")
        assert "p@ss" not in str(camera.reports) and "p%40ss" not in str(camera.reports)


@pytest.mark.parametrize("fault,token,text", [
    ({"login": ("admin", "right")}, "camera.password", "refused the user name"),
    ({"login": ("admin", "right"), "scheme": "Basic"}, "camera.password", "refused the user name"),
    ({"answers": {"SETUP": 453}}, "camera.sessions", "allows no further session (it answered 453"),
    ({"answers": {"PLAY": 453}}, "camera.sessions", "allows no further session"),
    ({"answers": {"DESCRIBE": 503}}, "camera.sessions", "allows no further session"),
    ({"answers": {"DESCRIBE": 404}}, "camera.path", "no stream at this path"),
    ({"answers": {"SETUP": 461}}, "camera.url", "does not offer this transport"),
    ({"answers": {"DESCRIBE": 500}}, "camera.refused", "answered 500"),
    ({"codec": "X-FANCY"}, "camera.codec", "unknown codec"),
    ({"codec": "JPEG2000"}, "camera.codec", "set it to H.264"),
])
def test_a_camera_that_refuses(place, fault, token, text):
    with Camera(**fault) as server, CameraProcess(server.url, user="admin", password="wrong-one") as camera:
        report = camera.welcome().wait_for(state="waiting")
        assert report["token"] == token and text in report["text"] and report["retry"] >= 0.4
        assert "wrong-one" not in str(camera.reports)


def test_credentials_that_are_missing(place):
    with Camera(login=("admin", "right")) as server, CameraProcess(server.url) as camera:
        report = camera.welcome().wait_for(token="camera.password")
        assert "add credentials" in report["text"] and report["retry"] > 17, "a camera may lock a user out"


@pytest.mark.parametrize("url,token,text", [
    ("rtsp://127.0.0.1:1/main", "camera.refused", "127.0.0.1:1 refused the connection"),
    ("rtsp://no-such-camera.invalid/main", "camera.name", "no-such-camera.invalid"),
    ("file:/no/such.mp4", "camera.path", "cannot open such.mp4: No such file or directory"),
    ("http://127.0.0.1:1/stream", "camera.refused", "refused the connection"),
])
def test_a_camera_that_is_not_there(place, url, token, text):
    with CameraProcess(url) as camera:
        report = camera.welcome().wait_for(state="waiting")
        assert report["token"] == token and text in report["text"]


@pytest.mark.parametrize("url", ["rtmp://127.0.0.1/x", "rtsp:///x", "rtsp://host:99999/x", "file:relative.mp4", "rtsp://host/a b",
                                 "concat:/etc/passwd", "rtsp:/host", "srt://host"])
def test_a_url_that_is_none(place, url):
    with CameraProcess(url) as camera:
        assert camera.report()["token"] == "camera.url"
        camera.expected = 1


def test_silence_opens_the_stream_again(place):
    with Camera(silent=20) as server, CameraProcess(server.url) as camera:
        camera.welcome()
        for _ in range(19):
            camera.frame()
        report = camera.wait_for(token="camera.silent")
        assert report["state"] == "waiting" and "nothing came from the camera for 1." in report["text"]
        camera.frame()
        assert camera.wait_for(state="running")["reconnects"] == 1
    assert server.sessions == 2


def test_a_stream_that_is_cut(place):
    with Camera(cut=10) as server, CameraProcess(server.url) as camera:
        camera.welcome()
        for _ in range(20):
            camera.frame()
        assert {"waiting", "connecting", "running"} == {camera.wait_for(reconnects=1)["state"], *(r["state"] for r in camera.reports)}
        assert any(report.get("token") == "camera.ended" for report in camera.reports)


@pytest.mark.parametrize("transport", ["tcp", "udp"])
def test_lost_packets(place, transport):
    with Camera(lost=lambda n: n % 10 == 9) as server, CameraProcess(server.url, transport=transport) as camera:
        report = camera.welcome().wait_for(token="camera.loss")
        assert report["state"] == "running" and report["lost"] > 0 and "% of the camera's packets are lost" in report["text"]


@pytest.mark.parametrize("ahead", [0, 3600, -86400])
def test_the_camera_s_clock(place, ahead):
    with Camera(clock=ahead) as server, CameraProcess(server.url) as camera:
        camera.welcome()
        if ahead == 0:
            report = camera.wait_for(time="rtcp", state="running")
            assert "token" not in report and abs(report.get("clock_ahead", 0)) < 1
        else:
            report = camera.wait_for(token="camera.clock")
            assert report["time"] == "arrival" and f"{abs(ahead)} s {'ahead of' if ahead > 0 else 'behind'}" in report["text"]


def test_time_stamps_that_jump(place):
    with Camera(jump=(15, 3600)) as server, CameraProcess(server.url) as camera:
        report = camera.welcome().wait_for(token="camera.clock")
        assert "jumped by 3600 s" in report["text"]


def test_pictures_that_come_later_and_later(place):
    with Camera(slow=10, rate=10) as server, CameraProcess(server.url) as camera:
        report = camera.welcome().wait_for(token="camera.slow")
        assert report["state"] == "running" and "s late" in report["text"]


def test_another_size(place):
    with Camera(video(frames=10) + video(width=320, height=180, frames=10)) as server, CameraProcess(server.url) as camera:
        camera.welcome()
        assert camera.wait_for(state="running", width=320)["picture"] == [0, 14, 160, 90]
        assert camera.wait_for(state="running", width=160)["picture"] == [0, 0, 160, 120]
        assert camera.reports[-1]["reconnects"] == 0


def test_a_pipeline_without_room_does_not_stop_the_camera(place):
    with Camera() as server, CameraProcess(server.url, width=640, height=480) as camera:
        report = camera.welcome().wait_for(state="running")
        while report["dropped"] < 10:
            report = camera.report()
        assert report["state"] == "running" and "token" not in report
        last = [camera.frame()[0] for _ in range(12)]
        assert last == sorted(last) and last[-1] > 12, "the numbers tell of the frames between"


def test_damage(place):
    """Garbage in each third packet; whole pictures come again, and nothing ends."""
    def garbage(payload, number):
        return payload[:2] + bytes((byte * 7 + number) & 255 for byte in payload[2:]) if number % 3 == 1 and number < 60 else payload
    with Camera(damage=garbage) as server, CameraProcess(server.url) as camera:
        camera.welcome()
        for _ in range(40):
            camera.frame()
        assert camera.wait_for(state="running")["lost"] > 0


def test_it_waits_for_a_key_frame(place):
    with Camera(begin=5) as server, CameraProcess(server.url, pixels="rgb24") as camera, \
            CameraProcess(file_of(place, "yard.mp4"), pixels="rgb24") as whole:
        whole.welcome()
        wanted = [whole.frame()[2] for _ in range(11)][10]
        assert abs(camera.welcome().frame()[2].astype(int) - wanted).max() < 3


def test_no_signal_ends_it(place):
    with Camera() as server, CameraProcess(server.url) as camera:
        camera.welcome().frame()
        for number in (1, 2, 15):
            camera.process.send_signal(number)
        camera.frame()


def test_another_version(place):
    with CameraProcess("rtsp://127.0.0.1/", version="0.0.9") as camera:
        assert "install both of one version" in camera.report()["text"]
        camera.expected = 64


def test_a_daemon_that_takes_no_frames(place):
    with CameraProcess("rtsp://127.0.0.1/") as camera:
        camera.stream.close()
        assert "did not take framed-camera as a producer" in camera.report()["text"]
        camera.expected = 1


def test_it_confines_itself(place):
    """It can start no program and look into no other process, and nobody finds its memory in a core dump."""
    with Camera() as server, CameraProcess(server.url) as camera:
        camera.welcome().frame()
        process = pathlib.Path(f"/proc/{camera.process.pid}")
        status = dict(line.split(":\t") for line in (process / "status").read_text().splitlines() if ":\t" in line)
        limits = (process / "limits").read_text()
        assert status["NoNewPrivs"] == "1" and re.search(r"Max core file size +0 +0", limits)
        if "asan" not in CAMERA.parts and "tsan" not in CAMERA.parts:
            assert re.search(rf"Max data size +{2**30} +{2**30}", limits)
            assert status["Seccomp"] in ("0", "2") and status["Threads"].strip() == "1"
