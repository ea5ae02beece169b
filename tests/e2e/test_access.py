"""Who may ask over HTTP: no website through a browser, and over TCP with a token nobody without it."""

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest

from harness import FRAMECTL, Daemon, environment, limit, pipeline, run_framed
from test_status import free_port

FORMAT = {"pixels": "gray", "width": 64, "height": 48}
TOKEN = "0123456789abcdef"


def start(place, address="127.0.0.1", entries=None, **keys):
    port = free_port()
    return Daemon(place, entries or {"cam0": pipeline(FORMAT)}, status={"socket": str(place / "status.sock"), "http": f"{address}:{port}", **keys}), port


def code(port, path="/v1/status", **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code


def test_no_other_website_is_answered(place):
    daemon, port = start(place)
    with daemon:
        daemon.wait_log("is ready")
        assert code(port) == 200
        assert code(port, Host=f"localhost:{port}") == 200
        assert code(port, Host="evil.example") == 403
        assert code(port, "/", Host="evil.example") == 403
        assert code(port, Origin="http://evil.example") == 403


def test_no_other_website_commands_through_a_forwarded_socket(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        answers = []
        for host, origin in (("localhost:8080", "http://evil.example"), ("evil.example", "http://evil.example"),
                             ("localhost:8080", "http://localhost:8080")):
            with socket.socket(socket.AF_UNIX) as client:
                client.connect(str(daemon.socket))
                client.sendall(f"POST /v1/pipelines/cam0/pause HTTP/1.0\r\nHost: {host}\r\nOrigin: {origin}\r\n\r\n".encode())
                answers.append(client.makefile("rb").readline().split()[1])
        assert answers == [b"403", b"403", b"200"]


def test_a_token_opens(place):
    (place / "token").write_text(f"{TOKEN}\n")
    daemon, port = start(place, "0.0.0.0", token="token")
    with daemon:
        daemon.wait_log("is ready")
        assert code(port) == code(port, "/metrics") == 401
        assert code(port, "/") == 200  # the page, which asks for it
        for headers in ({"Authorization": f"Bearer {TOKEN}"}, {"Cookie": f"framed_token={TOKEN}"}):
            assert code(port, "/metrics", **headers) == 200
        assert code(port, Authorization=f"Bearer {TOKEN}", Host="box.example") == 200
        (place / "token").write_text("another-token-of-24-bytes\n")
        assert code(port, Authorization=f"Bearer {TOKEN}") == 401
        (place / "token").unlink()
        assert code(port, Authorization=f"Bearer {TOKEN}") == 503
        assert daemon.status()["read_only"] is False  # the socket needs none


@pytest.mark.parametrize("address", ["0.0.0.0:9464", "192.0.2.1:9464", "[::]:9464"])
def test_beyond_this_machine_there_must_be_a_token(place, address):
    text = f"status: {{http: '{address}'}}\npipelines: {{}}\n"
    (place / "t.yaml").write_text(text)
    done = run_framed("--check", "-c", str(place / "t.yaml"))
    assert done.returncode != 0 and "'http' answers other machines, and has no token" in done.stderr
    (place / "t.yaml").write_text(text.replace("}\n", ", token: token}\n", 1))
    done = run_framed("--check", "-c", str(place / "t.yaml"))
    assert done.returncode == 0 and "the token's file" in done.stdout + done.stderr


FRAMES = ("/v1/pipelines/cam0/in.jpg", "/v1/pipelines/cam0/out.jpg", "/v1/pipelines/cam0/live?side=in", "/v1/pipelines/cam0/history",
          "/v1/trace?seconds=0.1")
OPEN = {"mode": "0666"}


@pytest.mark.parametrize("source, sink", [(OPEN, {**OPEN, "allow": {"users": [0]}}), ({**OPEN, "allow": {"groups": [0]}}, OPEN), ({}, OPEN)],
                         ids=["allow of the sink", "allow of the source", "mode"])
def test_frames_are_shown_to_those_who_may_use_them(place, source, sink):
    """Over TCP nobody is known: what the sockets keep from some it keeps from all, but for metrics and health."""
    entries = {"cam0": pipeline(FORMAT, source=source, sink=sink), "free": pipeline(FORMAT, source=OPEN, sink=OPEN)}
    daemon, port = start(place, entries=entries)
    with daemon:
        daemon.wait_log("is ready")
        wrong = "out" if "allow" in sink else "in"
        assert code(port, f"/v1/pipelines/cam0/{wrong}.jpg") == code(port, "/v1/pipelines/cam0/history") == 403
        assert code(port, "/v1/trace?seconds=0.1") == code(port, f"/v1/pipelines/cam0/live?side={wrong}") == 403
        assert code(port, "/metrics") == code(port, "/v1/health") == code(port, "/v1/live") == 200
        status = json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/status"))
        assert list(status["pipelines"]) == ["free"] and status["hidden"] == {"cam0": {"state": "running", "condition": "running"}}
        text = urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/config").read().decode()
        assert "  free:\n" in text and "cam0" not in text
        assert set(daemon.status()["pipelines"]) == {"cam0", "free"} and daemon.status()["hidden"] == {}


def test_the_token_shows_all(place):
    (place / "token").write_text(f"{TOKEN}\n")
    daemon, port = start(place, token="token")
    with daemon:
        daemon.wait_log("is ready")
        for path in ("/v1/status", "/v1/config", "/v1/trace?seconds=0.1", "/v1/pipelines/cam0/history"):
            assert code(port, path) == 401 and code(port, path, Authorization=f"Bearer {TOKEN}") == 200
        assert "cam0" not in run_framed("--check", "-c", str(daemon.file)).stdout.partition("note: status.http")[2]


@pytest.mark.skipif(os.geteuid() != 0, reason="another user can only be had by root")
def test_a_user_of_the_status_socket_sees_what_its_sockets_show(place):
    """The kernel names the user: allow and mode count for it as they do at the pipeline's sockets."""
    entries = {name: pipeline(FORMAT, source={**OPEN, "allow": {"users": [user]}}, sink={**OPEN, "allow": {"users": [user]}})
               for name, user in (("cam0", 0), ("free", 65534))}
    place.chmod(0o755)
    with Daemon(place, entries) as daemon:
        daemon.socket.chmod(0o666)
        ask = "import http.client, socket, sys\nc = http.client.HTTPConnection('framed')\nc.sock = socket.socket(socket.AF_UNIX)\n" \
              "c.sock.connect(sys.argv[1])\nc.request(sys.argv[3], sys.argv[2])\nanswer = c.getresponse()\nprint(answer.status, answer.read().decode())"
        def nobody(path, method="GET"):
            done = subprocess.run([sys.executable, "-I", "-c", ask, daemon.socket, path, method], user=65534, group=65534, extra_groups=[],
                                  capture_output=True, text=True, timeout=limit(20), check=True)
            return done.stdout.partition(" ")
        status = json.loads(nobody("/v1/status")[2])
        assert list(status["pipelines"]) == ["free"] and list(status["hidden"]) == ["cam0"]
        for path in FRAMES:
            assert nobody(path)[0] == "403", path
        assert nobody("/v1/pipelines/free/history")[0] == nobody("/v1/pipelines/free/pause", "POST")[0] == "200"
        for command in ("pause", "resume", "drain", "record", "link"):
            assert nobody(f"/v1/pipelines/cam0/{command}", "POST")[0] == "403", command
        assert daemon.status()["pipelines"]["cam0"]["state"] == "running"
        shutil.copy(FRAMECTL, place / "framectl")  # where the build is, another user may not look
        told = subprocess.run([place / "framectl", "-s", daemon.socket, "status"], user=65534, group=65534, extra_groups=[], capture_output=True,
                              text=True, env=environment(), timeout=limit(20), check=False)
        assert told.returncode == 0 and "cam0: running; more is shown to users who may connect to its sockets" in told.stdout, told


def test_the_page_is_not_to_be_framed(place):
    daemon, port = start(place)
    with daemon:
        daemon.wait_log("is ready")
        headers = urllib.request.urlopen(f"http://127.0.0.1:{port}/").headers
        assert headers["X-Frame-Options"] == "DENY" and headers["Content-Security-Policy"] == "frame-ancestors 'none'"


def test_a_live_view_ends_with_the_right_to_see_it(place):
    """A reload that adds `allow` ends streams that are open."""
    entries = {"cam0": pipeline(FORMAT, source=OPEN, sink=OPEN)}
    daemon, port = start(place, entries=entries)
    with daemon, daemon.reader() as reader, daemon.producer() as producer:
        stream = urllib.request.Request(f"http://127.0.0.1:{port}/v1/pipelines/cam0/live?side=in")
        over = threading.Event()

        def feed():
            with contextlib.suppress(OSError):
                while not over.is_set():
                    producer.send(bytes(64 * 48))
                    reader.read(64 * 48)
                    time.sleep(0.02)
        feeding = threading.Thread(target=feed)
        feeding.start()
        with urllib.request.urlopen(stream, timeout=limit(20)) as live:
            assert live.read(100)
            entries["cam0"]["source"]["allow"] = {"users": [0]}
            daemon.write(entries, status=daemon.config["status"])
            daemon.command("/v1/reload")
            while live.read(65536):
                pass
        over.set()
        feeding.join()
