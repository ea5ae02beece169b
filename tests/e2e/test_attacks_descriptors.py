"""Descriptors that clients pass: whatever becomes of them, no lane and no control loop waits for it, and none is kept.

Linux 6.16 refuses them where the daemon asks for that; of older kernels the daemon has to take them. Both are looked at."""

import contextlib
import os
import signal
import socket

import pytest

from harness import (BINARY, NOBODY, Background, Client, Daemon, Forked, Producer, Reader, numbered, pace, pipeline, wait_until,
                     whole)
from harness import native
from harness.hostile import Lingering
from harness.native import BOTH, CONSUMER, Borrower, Native, Shared

SIZE = 2048
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
GRAY = {"pixels": "gray", "width": 64, "height": 32}
OLDER = {"FRAMED_FAULT_OLDER_KERNEL": "1"}

pytestmark = pytest.mark.parametrize("kernel", [{}, OLDER], ids=["this", "older"])



def entries():
    """One lane is everybody's: what stops one pipeline stops the other."""
    return {
        "good": pipeline(FORMAT),
        "raw": pipeline(FORMAT, sink={"overload": "drop"}),
        "auto": pipeline(GRAY, source={"protocol": "auto"}, sink={"protocol": "y4m", "overload": "drop"}),
        "native": pipeline(GRAY, source={"protocol": "native", "clients": 8}, sink={"reply": True, "protocol": "native"}),
        "taken": pipeline(GRAY, source={"protocol": "native"}, sink={"protocol": "native", "overload": "drop"}),
        "closed": pipeline(FORMAT, source={"allow": {"users": ["root"]}, "mode": "0666"}, sink={"overload": "drop"}),
    }


def leave(client, data):
    lingering = Lingering()
    lingering.leave_to(client.socket, data)
    return lingering


# -- what stands still -------------------------------------------------------------------------------------------------------


def amid_a_frame(daemon):
    with daemon.producer("raw") as producer:
        yield leave(producer, bytes(100))
        producer.wait_read()


def amid_a_hello(daemon):
    with daemon.producer("native") as client:
        yield leave(client, native.hello(BOTH)[:5])
        client.wait_read()


def at_the_first_byte(daemon):
    with daemon.producer("auto") as client:
        yield leave(client, b"YUV4")
        client.wait_read()


def with_a_wrong_hello(daemon):
    with daemon.producer("taken") as client:
        yield leave(client, b"FRMX" + bytes(1000))
        client.rest()


def with_a_doorbell(daemon):
    with Shared(daemon.path("native", "source")) as client:
        yield leave(client, b"\0")
        client.wait_read()


def as_a_shared_reader(daemon):
    with Borrower(daemon.path("taken", "sink")) as client:
        yield leave(client, b"\0")


def as_a_reader_that_leaves(daemon):
    with Reader(daemon.path("raw", "sink")) as reader:
        yield leave(reader, b"x")


def with_a_request(daemon):
    with Client(daemon.socket) as client:
        yield leave(client, b"GET /v1/health HTTP/1.1\r\n")
        client.wait_read()


def with_a_request_that_is_not_read(daemon):
    """All of it is there before the daemon answers and closes."""
    daemon.stand_still()
    with Client(daemon.socket) as client:
        client.send(b"GET /v1/health HTTP/1.0\r\n\r\n")
        lingering = leave(client, bytes(1 << 16))
        daemon.signal(signal.SIGCONT)
        yield lingering
        client.rest()


def as_one_too_many(daemon):
    with Native(daemon.path("taken", "source"), native.PRODUCER), Client(daemon.path("taken", "source")) as client:
        yield leave(client, native.hello(native.PRODUCER) + bytes(100))
        client.rest()


def as_one_that_may_not(daemon):
    if os.getuid() != 0:
        pytest.skip("only root can become somebody else")
    daemon.place.chmod(0o711)
    daemon.stand_still()  # until all of it is there
    os.seteuid(NOBODY)
    try:
        client = Client(daemon.path("closed", "source"))
    finally:
        os.seteuid(0)
    with client:
        lingering = leave(client, b"x")
        daemon.signal(signal.SIGCONT)
        yield lingering


WAYS = [amid_a_frame, amid_a_hello, at_the_first_byte, with_a_wrong_hello, with_a_doorbell, as_a_shared_reader,
        as_a_reader_that_leaves, with_a_request, with_a_request_that_is_not_read, as_one_too_many, as_one_that_may_not]


def goes_on(daemon, number):
    """The control loop answers, and the lane takes a frame of another client."""
    with daemon.reader("good") as reader, daemon.producer("good") as producer:
        producer.send(whole(number, SIZE).tobytes())
        assert reader.read(SIZE) == whole(number, SIZE).tobytes()
    daemon.wait_view("they have left", lambda view: view["sessions"] == 0 and view["readers"] == 0, "good")


@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
def test_nobody_waits_for_what_a_client_passes(place, kernel, way):
    with Daemon(place, entries(), lanes=1, env=kernel) as daemon:
        goes_on(daemon, 0)
        before = daemon.open_files()
        left = []
        with contextlib.ExitStack() as held:
            for number in range(1, 4):
                life = way(daemon)
                lingering = next(life)
                left.append(lingering)
                if lingering:
                    held.callback(lingering.close)
                goes_on(daemon, number)
                with contextlib.suppress(OSError, StopIteration):
                    next(life)
                goes_on(daemon, number)
            wait_until(lambda: daemon.open_files() <= before,
                       lambda: f"descriptors come back: {before} before, {daemon.open_files()} now\n{daemon.log}")


@pytest.mark.parametrize("unread", [False, True])
def test_one_that_came_before_the_daemon(place, kernel, unread):
    """Of a socket that another process has opened: its clients came while nobody asked for anything."""
    path = place / "raw.sock"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener, contextlib.ExitStack() as held:
        listener.bind(str(path))
        listener.listen()
        client = held.enter_context(Client(path))
        lingering = leave(client, bytes(SIZE + 100))
        held.callback(lingering.close)
        if unread:
            client.close()
        pipelines = {**entries(), "raw": pipeline(FORMAT, source={"socket": str(path)}, sink={"overload": "drop"})}
        starts = {"LISTEN_FDS": "1", "LISTEN_FDNAMES": "raw"}
        with activated(place, pipelines, listener, {**kernel, **starts}) as daemon:
            goes_on(daemon, 0)
            daemon.wait_view("it is read", lambda view: view["frames"]["in"] > 0, "raw")
            client.close()
            daemon.wait_view("it has left", lambda view: view["sessions"] == 0, "raw")
            goes_on(daemon, 1)


@contextlib.contextmanager
def activated(place, pipelines, listener, environment):
    """A daemon that is given a listening socket as number 3."""
    def before():
        os.dup2(listener.fileno(), 3)
    starter = place / "start"
    starter.write_text(f"#!/bin/sh\nexport LISTEN_PID=$$\nexec {BINARY} \"$@\"\n")
    starter.chmod(0o755)
    with Daemon(place, pipelines, lanes=1, env=environment, before=before, binary=starter, inherits=(3,)) as daemon:
        daemon.leaves_sockets = True
        yield daemon


# -- dead ones ----------------------------------------------------------------------------------------------------------------


def pass_itself_and_exit(path, begin, data):
    """The connection's own end lies in the connection: nobody else has it."""
    client = begin(path)
    with contextlib.suppress(PermissionError):
        socket.send_fds(client.socket, [data], [client.socket.fileno()])
    os._exit(0)


def read_natively(path):
    return Native(path, CONSUMER)


def leaves(path, begin, data):
    process = Forked(pass_itself_and_exit, path, begin, data)
    process.process.join()


@pytest.mark.parametrize("protocol, begin", [("raw", Reader), ("y4m", Reader), ("native", read_natively)])
def test_a_reader_that_is_dead_is_gone(place, kernel, protocol, begin):
    with Daemon(place, {"cam0": pipeline(GRAY, sink={"protocol": protocol})}, env=kernel) as daemon:
        before = daemon.open_files()
        for _ in range(3):
            leaves(daemon.path("cam0", "sink"), begin, b"x")
        daemon.wait_view("nobody is left", lambda view: view["readers"] == 0)
        wait_until(lambda: daemon.open_files() <= before, "descriptors come back")
        with begin(daemon.path("cam0", "sink")), daemon.producer() as producer:
            producer.send(numbered(1, SIZE).tobytes())
            daemon.account(came=1, emitted=1)


def test_what_readers_send_is_thrown_away(place, kernel):
    """However much it is, and results come in between."""
    with Daemon(place, {"cam0": pipeline(FORMAT)}, env=kernel) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            flood = Background(reader.send, bytes(64 << 20))
            for number in range(50):
                producer.send(whole(number, SIZE).tobytes())
                assert reader.read(SIZE) == whole(number, SIZE).tobytes()
            flood.join()
            reader.finish()
            daemon.wait_view("one that ends its side is still there", lambda view: view["readers"] == 1)
            producer.send(whole(50, SIZE).tobytes())
            assert reader.read(SIZE) == whole(50, SIZE).tobytes()
        daemon.account(came=51, emitted=51)


def stuck(path):
    """It reads no result, so that the frames that it goes on sending are read no more."""
    client = Producer(path, buffer=4096)
    client.socket.settimeout(pace(1))
    with contextlib.suppress(TimeoutError):
        while True:
            client.send(bytes(SIZE))
    client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 17)  # room for one message more
    return client


@pytest.mark.slow
@pytest.mark.parametrize("lanes", [1, 2])
def test_a_dead_reply_client_that_never_read_is_gone(place, kernel, lanes):
    with Daemon(place, {"cam0": pipeline(FORMAT, sink={"reply": True})}, lanes=lanes, env=kernel) as daemon:
        before = daemon.open_files()
        leaves(daemon.path("cam0", "source"), stuck, b"x")
        daemon.wait_view("it has left", lambda view: view["sessions"] == 0 and view["frames"]["in"] > 0, seconds=40)
        with daemon.producer() as client:
            client.send(whole(1, SIZE).tobytes())
            assert client.read(SIZE) == whole(1, SIZE).tobytes()
        wait_until(lambda: daemon.open_files() <= before, "descriptors come back")


def test_a_reply_client_that_is_dead_is_gone(place, kernel):
    with Daemon(place, {"cam0": pipeline(FORMAT, sink={"reply": True})}, env=kernel) as daemon:
        daemon.leaves_frames = True
        leaves(daemon.path("cam0", "source"), Producer, bytes(SIZE))
        daemon.wait_view("it has left", lambda view: view["sessions"] == 0)
