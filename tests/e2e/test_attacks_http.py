"""Clients of the status socket that do what no client should, and framectl in unfriendly company."""

import contextlib
import os
import random
import selectors
import socket
import subprocess
import threading
import time

import pytest

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


# -- places ----------------------------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Door:
    """One of the two listeners for HTTP."""

    def __init__(self, family, address):
        self.family, self.address = family, address

    def dial(self):
        stream = socket.socket(self.family)
        stream.settimeout(limit(10))
        stream.connect(self.address)
        return stream

    def ask(self, path):
        with self.dial() as stream:
            stream.sendall(f"GET {path} HTTP/1.1\r\nHost: f\r\nConnection: close\r\n\r\n".encode())
            return answers(stream)


@pytest.fixture(params=["socket", "tcp"])
def door(request, place):
    """It, and a daemon with both."""
    port = free_port()
    keys = {"status": {"socket": str(place / "status.sock"), "http": f"127.0.0.1:{port}"}}
    with Daemon(place, {"cam0": pipeline(FORMAT, source={"mode": "0666"}, sink={"mode": "0666"})}, **keys) as daemon:
        unix = request.param == "socket"
        yield (Door(socket.AF_UNIX, str(daemon.socket)) if unix else Door(socket.AF_INET, ("127.0.0.1", port))), daemon


@contextlib.contextmanager
def dripping(door, count):
    """So many clients send a request a byte at a time, and come again, one by one, when they are cut off. Gives how often."""
    cuts, over = [], threading.Event()
    text = b"GET /v1/status HTTP/1.1\r\nX: " + b"x" * 10000

    def drip():
        streams = [(door.dial(), 0) for _ in range(count)]
        while not over.wait(0.5):
            for n, (stream, sent) in enumerate(streams):
                try:
                    stream.send(text[sent:sent + 1])
                    streams[n] = stream, sent + 1
                except OSError:
                    cuts.append(n)
                    stream.close()
                    over.wait(0.02)
                    streams[n] = door.dial(), 0
        for stream, _ in streams:
            stream.close()
    dripper = Background(drip)
    try:
        yield cuts
    finally:
        over.set()
        dripper.join()


def test_a_byte_at_a_time_keeps_nobody_out(door):
    door, daemon = door
    with dripping(door, 64) as cuts:
        for _ in range(20):
            # Who comes in the middle of the burst, from the same address, may be cut off once.
            assert any(door.ask("/metrics").startswith(b"HTTP/1.1 200") for _ in range(2))
            assert subprocess.run([FRAMECTL, "-s", daemon.socket, "status"], env=environment(), capture_output=True,
                                  timeout=limit(20), check=False).returncode == 0
            time.sleep(0.1)
        wait_until(lambda: len(cuts) >= 64, lambda: f"{len(cuts)} were cut off", 30)


def test_a_burst_cuts_off_nobody_who_has_just_come(place):
    """As many as there are places come between a connection and its request."""
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        for _ in range(5):
            with contextlib.ExitStack() as stack:
                first = stack.enter_context(dial(daemon))
                for _ in range(64):
                    stack.enter_context(dial(daemon))
                time.sleep(0.02)  # the daemon looks at them
                first.sendall(b"GET /v1/health HTTP/1.1\r\nHost: f\r\nConnection: close\r\n\r\n")
                assert answers(first).startswith(b"HTTP/1.1 200")


def test_traces_keep_nobody_out_over_tcp(place):
    port = free_port()
    keys = {"status": {"socket": str(place / "status.sock"), "http": f"127.0.0.1:{port}"}}
    with Daemon(place, {"cam0": pipeline(FORMAT, source={"mode": "0666"}, sink={"mode": "0666"})}, **keys) as daemon:
        before = daemon.open_files()
        door = Door(socket.AF_INET, ("127.0.0.1", port))
        streams = [door.dial() for _ in range(40)]
        for stream in streams:
            with contextlib.suppress(OSError):
                stream.sendall(b"GET /v1/trace?seconds=50 HTTP/1.1\r\nHost: f\r\n\r\n")
            assert door.ask("/metrics").startswith(b"HTTP/1.1 200")
        for stream in streams:
            stream.close()
        wait_until(lambda: daemon.open_files() <= before, "descriptors come back", 20)


def test_clients_that_have_gone_take_no_place(door):
    """In the middle of a request, behind one and before their answer."""
    door, daemon = door
    before = daemon.open_files()
    for n in range(200):
        with door.dial() as stream:
            stream.sendall([b"", b"GET /v1/st", b"GET /v1/trace?seconds=50 HTTP/1.1\r\nHost: f\r\n\r\n"][n % 3])
    assert door.ask("/v1/status").startswith(b"HTTP/1.1 200")
    wait_until(lambda: daemon.open_files() <= before, "descriptors come back", 20)


def test_whoever_says_nothing_is_cut_off(door):
    door, _ = door
    began = time.monotonic()
    with door.dial() as silent, door.dial() as between:
        between.sendall(b"GET /v1/health HTTP/1.1\r\nHost: f\r\n\r\n")
        silent.settimeout(limit(20))
        between.settimeout(limit(20))
        assert answers(silent) == b"" and answers(between).startswith(b"HTTP/1.1 200")
    assert time.monotonic() - began < limit(20)


def test_a_long_answer_may_take_its_time(door):
    door, _ = door
    with dripping(door, 64):
        with door.dial() as stream:
            stream.settimeout(limit(30))
            stream.sendall(b"GET /v1/trace?seconds=8 HTTP/1.1\r\nHost: f\r\nConnection: close\r\n\r\n")
            assert answers(stream).startswith(b"HTTP/1.1 200")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs another user")
def test_another_user_takes_not_every_place(place):
    """Whatever it does there: the daemon's own user is served, and its commands are."""
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        for path in [daemon.socket, *daemon.socket.parents[:-2]]:
            os.chmod(path, 0o777)
        with daemon.producer() as producer:
            producer.send(whole(0, SIZE).tobytes())
            daemon.wait_view("a result waits", lambda view: view["frames"]["in"] == 1)
            os.seteuid(65534)
            try:
                streams = [dial(daemon) for _ in range(100)]
            finally:
                os.seteuid(0)
            for stream in streams:
                with contextlib.suppress(OSError):
                    stream.sendall(b"POST /v1/pipelines/cam0/drain HTTP/1.1\r\nHost: f\r\nContent-Length: 0\r\n\r\n")
            daemon.wait_view("it drains", lambda view: view["state"] == "draining")
            with selectors.DefaultSelector() as waiting:
                for stream in streams:
                    waiting.register(stream, selectors.EVENT_READ)
                wait_until(lambda: len(waiting.select(0)) >= 84, "others are cut off")
                assert len(waiting.select(0)) == 84
            assert daemon.post("/v1/pipelines/cam0/resume")[0] == 200
            for stream in streams:
                stream.close()
            with daemon.reader() as reader:
                assert reader.read(SIZE) == whole(0, SIZE).tobytes()


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
