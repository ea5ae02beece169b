"""Clients of the status socket that do what no client should, and framectl in unfriendly company."""

import os
import random
import socket
import subprocess

import pytest

from harness import FRAMECTL, Background, Daemon, environment, limit, numbered, pipeline, wait_until, whole

pytestmark = pytest.mark.memory

SIZE = 2048
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def dial(daemon):
    stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    stream.settimeout(limit(10))
    stream.connect(str(daemon.socket))
    return stream


def answers(stream):
    data = b""
    while True:
        try:
            part = stream.recv(1 << 16)
        except OSError:
            return data
        if not part:
            return data
        data += part


def test_a_thousand_connections_that_say_nothing(place):
    """Status is asked beside them: as soon as they are gone at the latest."""
    with Daemon(place, {"cam0": pipeline(FORMAT, sink={"overload": "drop"})}) as daemon:
        before = daemon.open_files()
        idle = []
        for _ in range(1000):
            stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            stream.setblocking(False)
            try:
                stream.connect(str(daemon.socket))
                idle.append(stream)
            except BlockingIOError:
                stream.close()
        with daemon.producer() as producer:
            producer.send(whole(0, SIZE).tobytes())
            for stream in idle:
                stream.close()
            daemon.wait_view("the frame came", lambda view: view["frames"]["in"] == 1)
        wait_until(lambda: daemon.open_files() <= before, "descriptors come back")


def test_pipelined_and_half_closed_requests_are_all_answered(place):
    request = b"GET /v1/status HTTP/1.1\r\nHost: framed\r\n\r\n"
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        with dial(daemon) as stream:
            stream.sendall(request * 20)
            stream.shutdown(socket.SHUT_WR)
            assert answers(stream).count(b"HTTP/1.1 200") == 20


def test_commands_whose_clients_leave_before_the_answer(place):
    """Drains that wait and reloads under way, on connections that are closed, reset or half-closed."""
    with Daemon(place, {"cam0": pipeline(FORMAT)}, drain_timeout="1s") as daemon:
        before = daemon.open_files()
        chance = random.Random(1)
        with daemon.producer() as producer:
            producer.send(whole(0, SIZE).tobytes())
            daemon.wait_view("a result waits", lambda view: view["frames"]["in"] == 1)
            for _ in range(60):
                path = chance.choice(["/v1/pipelines/cam0/drain", "/v1/reload", "/v1/pipelines/cam0/resume"])
                stream = dial(daemon)
                stream.sendall(f"POST {path} HTTP/1.1\r\nHost: f\r\nContent-Length: 5\r\n\r\n12345".encode()
                               [: chance.choice([10, 1000, 1000, 1000])])
                if chance.random() < 0.3:
                    stream.shutdown(socket.SHUT_WR)
                if chance.random() < 0.3:
                    daemon.status()
                stream.close()
            wait_until(lambda: daemon.post("/v1/pipelines/cam0/resume")[0] == 200, "it can be resumed")
            with daemon.reader() as reader:
                assert reader.read(SIZE) == whole(0, SIZE).tobytes()
        wait_until(lambda: daemon.open_files() <= before, "descriptors come back")


def test_sigterm_while_commands_wait(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}, drain_timeout="300ms") as daemon:
        with daemon.producer() as producer:
            producer.send(whole(0, SIZE).tobytes())
            daemon.wait_view("a result waits", lambda view: view["frames"]["in"] == 1)
            streams = [dial(daemon) for _ in range(10)]
            for stream in streams:
                stream.sendall(b"POST /v1/pipelines/cam0/drain HTTP/1.1\r\nHost: f\r\nContent-Length: 0\r\n\r\n")
            daemon.wait_view("it drains", lambda view: view["state"] == "draining")
            daemon.signal(15)
            for stream in streams:
                got = answers(stream)
                assert got.startswith((b"HTTP/1.1 409", b"HTTP/1.1 503", b"HTTP/1.1 504")), got
                stream.close()
            daemon.ends(0)


# -- framectl ---------------------------------------------------------------------------------------------------------------


def framectl(daemon, *arguments, **options):
    return subprocess.Popen([FRAMECTL, "-s", daemon.socket, *arguments], env=environment(), stderr=subprocess.PIPE,
                            **options)


def test_pull_into_a_pipe_that_nobody_reads_delays_nobody(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, sink={"overload": "drop"})}) as daemon:
        stalled = framectl(daemon, "pull", "cam0", stdout=subprocess.PIPE)
        daemon.wait_view("it is attached", lambda view: view["readers"] == 1)
        with daemon.producer() as producer:
            producer.send(numbered(2000, SIZE).tobytes())
            daemon.wait_view("all came", lambda view: view["frames"]["in"] == 2000)
        stalled.stdout.close()
        stalled.kill()
        stalled.communicate()
        daemon.wait_view("it is gone", lambda view: view["readers"] == 0)
        daemon.quiet()


def test_push_and_pull_end_with_the_daemon(place):
    """Killed in mid-stream: both end, with a status that says so, and none hangs."""
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        reading, writing = os.pipe()
        pull = framectl(daemon, "pull", "cam0", stdout=subprocess.DEVNULL)
        push = framectl(daemon, "push", "cam0", stdin=reading)
        os.close(reading)
        os.write(writing, numbered(3, SIZE).tobytes())
        daemon.account(came=3, emitted=3)
        daemon.process.kill()
        daemon.process.wait(limit(10))
        daemon.settled = True
        assert push.wait(limit(10)) != 0, push.stderr.read()
        pull.wait(limit(10))
        os.close(writing)
        push.communicate()
        pull.communicate()
        for path in daemon.socket_paths():
            os.unlink(path)


def test_pull_through_a_reply_pipeline_is_refused_with_a_remedy(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, sink={"reply": True})}) as daemon:
        pull = framectl(daemon, "pull", "cam0", stdout=subprocess.DEVNULL)
        _, error = pull.communicate(timeout=limit(10))
        assert pull.returncode != 0 and b"framectl push" in error, error


def test_many_pushes_at_once_are_refused_one_by_one(place):
    (place / "data").write_bytes(numbered(20, SIZE).tobytes())
    with Daemon(place, {"cam0": pipeline(FORMAT, sink={"overload": "drop"})}) as daemon:
        def push():
            with open(place / "data", "rb") as data:
                process = framectl(daemon, "push", "cam0", stdin=data)
                _, error = process.communicate(timeout=limit(20))
            return process.returncode, error
        pushes = [Background(push) for _ in range(12)]
        results = [thread.join() for thread in pushes]
        done = sum(code == 0 for code, _ in results)
        assert done >= 1
        for code, error in results:
            assert code == 0 or b"producer" in error, (code, error)
        daemon.account(came=20 * done, unread=20 * done)
