"""Who may ask over HTTP: no website through a browser, and over TCP with a token nobody without it."""

import socket
import urllib.error
import urllib.request

import pytest

from harness import Daemon, pipeline, run_framed
from test_status import free_port

FORMAT = {"pixels": "gray", "width": 64, "height": 48}
TOKEN = "0123456789abcdef"


def start(place, address="127.0.0.1", **keys):
    port = free_port()
    return Daemon(place, {"cam0": pipeline(FORMAT)}, status={"socket": str(place / "status.sock"), "http": f"{address}:{port}", **keys}), port


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
