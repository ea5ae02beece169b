"""framectl camera try: what a camera sends, as text, JSON, picture and configuration."""

import json
import os
import socket
import re
import subprocess

import pytest
import yaml

from harness import FRAMECTL, Background, environment, limit
from harness.framed_camera import CAMERA
from harness.rtsp import Camera, video

pytestmark = pytest.mark.skipif(not CAMERA.exists(), reason="framed-camera is not built: libav is missing")


def camera_try(*arguments):
    return subprocess.run([FRAMECTL, "camera", "try", *map(str, arguments)], env=environment({"FRAMED_CAMERA": str(CAMERA)}),
                          capture_output=True, text=True, timeout=limit(30), check=False)


def test_what_a_camera_sends(place):
    (place / "login").write_text("admin:pass:word\n")
    with Camera(login=("admin", "pass:word"), clock=0) as server:
        tried = camera_try(server.url, "--credentials", place / "login", "-o", place / "first.png")
    assert tried.returncode == 0, tried.stderr
    said, _, text = tried.stdout.partition("\n\n")
    assert re.match(r"h264 160x120, [0-9.]+ pictures a second, ", said) and "tells the time" in said, said
    source = yaml.safe_load(text)["pipelines"]["camera"]["source"]
    assert source == {"url": server.url, "credentials": "camera", "format": {"pixels": "nv12", "width": 160, "height": 120}}
    assert (place / "first.png").read_bytes()[1:4] == b"PNG"


def test_json_and_a_user_in_the_url(place):
    with Camera(login=("admin", "secret")) as server:
        url = server.url.replace("//", "//admin:secret@")
        tried = camera_try(url, "--json")
        assert (json.loads(tried.stdout)["codec"], tried.returncode) == ("h264", 0)
        refused = camera_try(url.replace("secret", "wrong"))
    assert refused.returncode == 1 and "(camera.password)" in refused.stderr and "wrong" not in refused.stderr


def test_a_picture_on_the_terminal(place):
    (place / "yard.mp4").write_bytes(video(container="mp4"))
    tried = camera_try(f"file:{place}/yard.mp4", "--terminal")
    assert tried.stdout.count("\u2580") == 80 * 30 and "h264 160x120" in tried.stdout


@pytest.mark.parametrize("arguments,status,text", [
    (["rtsp://127.0.0.1:1/x"], 1, "refused the connection: check the address and the port (camera.refused)"),
    (["nonsense"], 1, "must begin with rtsp:"),
    (["rtsp://x", "--credentials", "/no/such"], 64, "cannot read /no/such"),
    ([], 64, "needs 'try' and a URL"),
])
def test_what_is_wrong_is_said(place, arguments, status, text):
    tried = camera_try(*arguments)
    assert tried.returncode == status and text in tried.stderr, tried.stderr


def test_without_framed_camera(place):
    tried = subprocess.run([FRAMECTL, "camera", "try", "rtsp://x"], env={**environment(), "FRAMED_CAMERA": "/no/such"},
                           capture_output=True, text=True, timeout=limit(30), check=False)
    assert tried.returncode == 70 and "framed-camera" in tried.stderr


ANSWER = """<?xml version="1.0"?><SOAP-ENV:Envelope><SOAP-ENV:Body><d:ProbeMatches><d:ProbeMatch><wsa:EndpointReference>
<wsa:Address>urn:uuid:%d</wsa:Address></wsa:EndpointReference><d:Types>dn:NetworkVideoTransmitter</d:Types>
<d:Scopes>onvif://www.onvif.org/type/video onvif://www.onvif.org/name/Yard%%20West%%1b[31m onvif://www.onvif.org/hardware/X-%d</d:Scopes>
<d:XAddrs>http://127.0.0.1/onvif/device_service http://[fe80::1]/onvif</d:XAddrs></d:ProbeMatch></d:ProbeMatches></SOAP-ENV:Body>"""


def answer_probe(listener):
    probe, sender = listener.recvfrom(65536)
    assert b"NetworkVideoTransmitter" in probe and b"discovery/Probe" in probe
    for answer in (ANSWER % (1, 1), "garbage", "<ProbeMatch><XAddrs", ANSWER % (2, 2), ANSWER % (1, 1)):
        listener.sendto(answer.encode(), sender)


def test_find(place):
    """Each camera once; a name cannot change the terminal's colour."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as listener:
        address = f"127.1.{os.getpid() >> 8 & 255}.{os.getpid() & 254 | 1}"  # tests run side by side
        listener.bind((address, 3702))
        for json_wanted in (False, True):
            answering = Background(answer_probe, listener)
            found = subprocess.run([FRAMECTL, "camera", "find", address, "--seconds", "0.3", *["--json"] * json_wanted],
                                   capture_output=True, text=True, timeout=limit(20), check=True, env=environment())
            answering.join()
            if json_wanted:
                assert [camera["hardware"] for camera in json.loads(found.stdout)] == ["X-1", "X-2"]
            else:
                rows = found.stdout.splitlines()
                assert rows[1].split() == [address, "Yard", "West\\x1b[31m", "X-1", "http://127.0.0.1/onvif/device_service"]
                assert rows[2].split()[3] == "X-2" and f"framectl camera try rtsp://{address}/PATH" in found.stdout


def test_find_without_cameras(place):
    found = subprocess.run([FRAMECTL, "camera", "find", "127.0.0.2", "--seconds", "0.1"], capture_output=True, text=True,
                           timeout=limit(20), check=False, env=environment())
    assert (found.returncode, found.stdout) == (1, "") and "no camera answered" in found.stderr
