"""Producers that attack a source: bursts, resets, passed descriptors, FIFOs and files that change under the reader."""

import os
import random
import socket
import threading

import numpy as np
import pytest

from harness import Background, Daemon, Producer, limit, numbered, pipeline, slow_stage, wait_until, whole

SIZE = 2048
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
GRAY = {"pixels": "gray", "width": 64, "height": 32}


def test_descriptors_that_a_producer_passes_are_not_kept(place):
    """On kernels that send them: others refuse that."""
    entries = {"cam0": pipeline(FORMAT), "echo": pipeline(FORMAT, sink={"reply": True})}
    with Daemon(place, entries, env={"FRAMED_FAULT_OLDER_KERNEL": "1"}) as daemon:
        before = daemon.open_files()
        with daemon.reader() as reader, daemon.producer() as producer, daemon.producer("echo") as client:
            with open("/dev/null", "rb") as victim:
                for number in range(20):
                    data = whole(number, SIZE).tobytes()
                    for stream in (producer, client):
                        socket.send_fds(stream.socket, [data[:700]], [victim.fileno()] * 50)
                        stream.send(data[700:])
            np.testing.assert_array_equal(reader.frames(20, SIZE), numbered(20, SIZE))
            assert client.read(20 * SIZE) == numbered(20, SIZE).tobytes()
            wait_until(lambda: daemon.open_files() <= before + 4,  # three clients, and the duplicate of `reply`
                       lambda: f"nothing was kept: {before} files before, {daemon.open_files()} now")
        daemon.account(came=20, emitted=20)


@pytest.mark.parametrize("sink", ["socket", "reply"])
def test_producers_that_hang_up_and_come_back_at_once(place, sink):
    """One place; each finds the one before it just gone, its bytes still unread. All are served, none is refused."""
    entry = pipeline(FORMAT, sink={"reply": True} if sink == "reply" else {"overload": "drop"}, stages=[slow_stage(1)])
    with Daemon(place, {"cam0": entry}) as daemon:
        for number in range(60):
            with daemon.producer() as producer:
                producer.send(numbered(3, SIZE, first=number).tobytes() + b"x" * (number % 2))
        view = daemon.wait_view("all have left", lambda view: view["sessions"] == 0)
        assert view["refused"] == 0, view
        if sink == "socket":
            daemon.account(came=210, unread=180, invalid=30)


def wait_taken(daemon, name):
    """Connections are taken in order: once this one has ended, or was refused, none before it waits to be taken."""
    with daemon.producer(name) as last:
        last.socket.shutdown(socket.SHUT_WR)
        while last.socket.recv(4096):
            pass


def test_connections_in_a_burst_that_say_nothing(place):
    entries = {"cam0": pipeline(FORMAT, sink={"overload": "drop"}), "echo": pipeline(FORMAT, sink={"reply": True})}
    with Daemon(place, entries) as daemon:
        before = daemon.open_files()
        for _ in range(500):
            for name in entries:
                Producer(daemon.path(name, "source")).close()
        for name in entries:
            wait_taken(daemon, name)
            with daemon.producer(name) as producer:
                producer.send(whole(1, SIZE).tobytes())
                daemon.wait_view("it is served", lambda view: view["frames"]["in"] == 1, name)
        daemon.quiet()
        wait_until(lambda: daemon.open_files() <= before, "descriptors come back")


def echo_life(path, seed, refused):
    """A client of `reply` at random; what it reads must be a prefix of what it sent."""
    chance = random.Random(seed)
    sent = numbered(chance.randrange(1, 30), SIZE, first=seed * 1000).tobytes()
    way = chance.choice(["all", "half-close", "leave", "leave", "never read", "mid-frame"])
    try:
        with Producer(path, buffer=chance.choice([None, 4096])) as client:
            sending = Background(try_to_send, client, sent if way != "mid-frame" else sent[:-100])
            if way == "never read":
                client.socket.settimeout(0.2)
                sending.join()
                return
            wanted = len(sent) if way in ("all", "half-close") else chance.randrange(len(sent) - SIZE + 1)
            got = b""
            while len(got) < wanted:
                part = client.socket.recv(min(chance.choice([1, 100, 1 << 16]), wanted - len(got)))
                if not part:
                    break
                got += part
                if way == "half-close" and sending.done and chance.random() < 0.1:
                    client.finish()
            if got.startswith(b"framed: "):
                refused.append(got)
                return
            assert sent.startswith(got), "the replies are not what was sent"
            assert way in ("leave", "mid-frame") or len(got) == len(sent), (way, len(got), len(sent))
            client.socket.shutdown(socket.SHUT_RDWR)
            sending.join()
    except (ConnectionError, BrokenPipeError):
        if way == "all":
            raise


def try_to_send(client, data):
    try:
        client.send(data)
    except OSError:
        pass  # it is refused, or the client has left


@pytest.mark.parametrize("slots, lanes, completion", [(1, 1, "spin"), (2, 4, "callback"), (16, 4, "spin")])
def test_fifty_clients_of_reply_at_random(place, slots, lanes, completion):
    entry = pipeline(FORMAT, slots=slots, completion=completion, source={"clients": 50}, sink={"reply": True},
                     stages=[slow_stage(1)])
    with Daemon(place, {"cam0": entry}, lanes=lanes) as daemon:
        before = daemon.open_files()
        refused = []
        for round in range(3):
            lives = [Background(echo_life, daemon.path("cam0", "source"), round * 50 + seed, refused) for seed in range(50)]
            daemon.status()
            for life in lives:
                life.join()
            daemon.wait_view("all have left", lambda view: view["sessions"] == 0)
        assert not refused, refused[0]
        daemon.quiet()
        wait_until(lambda: daemon.open_files() <= before, "descriptors come back")


@pytest.mark.parametrize("completion", ["callback", "spin"])
def test_clients_of_reply_while_it_is_paused_and_drained(place, completion):
    """No order of commands and departures may lose a reply, or leave a place taken."""
    entry = pipeline(FORMAT, slots=2, completion=completion, source={"clients": 8}, sink={"reply": True},
                     stages=[slow_stage(1)])
    with Daemon(place, {"cam0": entry}, lanes=2, drain_timeout="300ms") as daemon:
        stop = threading.Event()

        def command():
            chance = random.Random(7)
            while not stop.is_set():
                code, answer = daemon.post(f"/v1/pipelines/cam0/{chance.choice(['pause', 'drain', 'resume', 'resume'])}")
                assert code in (200, 409, 504), answer
                if answer.get("state") == "drained":
                    assert daemon.frames()["in_flight"] == 0
            daemon.command("/v1/pipelines/cam0/resume")

        commanding = Background(command)
        refused = []
        for round in range(8):
            lives = [Background(echo_life, daemon.path("cam0", "source"), round * 8 + seed, refused) for seed in range(8)]
            for life in lives:
                life.join()
        stop.set()
        commanding.join()
        daemon.wait_view("all have left", lambda view: view["sessions"] == 0)
        daemon.quiet()


# -- files and FIFOs --------------------------------------------------------------------------------------------------------


def test_fifo_writers_that_come_and_go(place):
    """Each opens it, writes some frames and perhaps a part of one, and closes it; some write nothing at all."""
    fifo = place / "in"
    os.mkfifo(fifo)
    with Daemon(place, {"cam0": pipeline(FORMAT, source={"file": str(fifo)}, sink={"overload": "drop"})}) as daemon:
        before = daemon.open_files()
        came = invalid = 0
        for turn in range(60):
            with open(fifo, "wb", buffering=0) as writer:
                frames, part = turn % 4, turn % 3
                writer.write(numbered(frames, SIZE, first=turn).tobytes() if frames else b"")
                writer.write(b"x" * part)
            came, invalid = came + frames + (part > 0), invalid + (part > 0)
            if part:  # the next writer would complete its frame: a FIFO does not tell writers apart
                daemon.wait_view("its part is invalid", lambda view: view["frames"]["dropped"]["invalid"] == invalid)
        daemon.account(came=came, invalid=invalid, unread=came - invalid)
        wait_until(lambda: daemon.open_files() <= before, "descriptors come back")


def test_what_a_fifo_held_when_its_writer_was_gone_already(place):
    """No hang-up is reported to whoever opens a FIFO after the last writer left, but its end can be read."""
    fifo = place / "in"
    os.mkfifo(fifo)
    keeps_it = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    with open(fifo, "wb", buffering=0) as writer:
        writer.write(numbered(2, SIZE).tobytes() + b"part")
    entry = pipeline(FORMAT, source={"file": str(fifo)}, sink={"overload": "drop"})
    with Daemon(place, {"cam0": entry}) as daemon:
        os.close(keeps_it)
        daemon.account(came=3, unread=2, invalid=1)
        daemon.wait_log("ended too early")
        assert "did not come within" not in daemon.log


@pytest.mark.parametrize("content, protocol", [(b"", "raw"), (b"", "y4m"), (b"YUV4MPEG2 W64 H32 Cmono\n", "y4m"),
                                               (b"x" * 100, "raw"), (b"YUV4MPEG2 W64 H32 Cmono\nFRA", "y4m")])
def test_a_file_without_a_frame_does_not_loop_for_ever(place, content, protocol):
    source = place / "in"
    source.write_bytes(content)
    entry = pipeline(GRAY, source={"file": str(source), "loop": True, "protocol": protocol}, sink={"file": str(place / "out")})
    with Daemon(place, {"cam0": entry}, ready=False) as daemon:
        daemon.ends(0)
    assert (place / "out").read_bytes() == b""


def test_a_file_that_is_cut_while_it_loops(place):
    """It is cut within a frame and grows again: every result is whole, and what was begun is invalid."""
    source = place / "in"
    source.write_bytes(numbered(8, SIZE).tobytes())
    entry = pipeline(FORMAT, source={"file": str(source), "loop": True, "rate": 500.0})
    with Daemon(place, {"cam0": entry}, ready=False) as daemon:
        daemon.wait_ready()
        with daemon.reader() as reader:
            taking = Background(reader.rest)
            daemon.wait_view("it loops", lambda view: view["frames"]["in"] > 20)
            os.truncate(source, 3 * SIZE + 100)
            daemon.ends(0)
            data = np.frombuffer(taking.join(), np.uint8)
    assert data.size % SIZE == 0
    for frame in data.reshape(-1, SIZE):
        np.testing.assert_array_equal(frame, whole(int(frame[:8].view(np.uint64)[0]), SIZE))
    assert daemon.final_account()["invalid"] == 1


@pytest.mark.parametrize("rate", [0.01, 100000.0])
def test_extreme_rates(place, rate):
    source = place / "in"
    source.write_bytes(numbered(50, SIZE).tobytes())
    entry = pipeline(FORMAT, source={"file": str(source), "rate": rate, "loop": True}, sink={"overload": "drop"})
    with Daemon(place, {"cam0": entry}) as daemon:
        daemon.wait_view("the first is there", lambda view: view["frames"]["in"] >= (1 if rate < 1 else 200))
        if rate < 1:
            assert daemon.frames()["in"] == 1
        daemon.command("/v1/pipelines/cam0/drain")


@pytest.mark.parametrize("kind", ["pipe", "file", "socket", "null", "closed"])
def test_every_kind_of_standard_input(place, kind):
    data = numbered(20, SIZE).tobytes()
    (place / "data").write_bytes(data)
    entry = pipeline(FORMAT, source={"file": "-"}, sink={"file": str(place / "out")})
    ours, theirs = socket.socketpair()
    feeding = None
    if kind == "pipe":
        reading, writing = os.pipe()
        stdin = os.fdopen(reading, "rb")
        feeding = Background(lambda: (os.write(writing, data), os.close(writing)))
    elif kind == "socket":
        stdin = theirs
        feeding = Background(lambda: (ours.sendall(data), ours.shutdown(socket.SHUT_WR)))
    else:
        stdin = open(place / "data" if kind == "file" else "/dev/null", "rb")
    before = (lambda: os.close(0)) if kind == "closed" else None
    with Daemon(place, {"cam0": entry}, stdin=stdin, before=before, ready=False) as daemon:
        if kind == "closed":
            daemon.ends(daemon.process.wait(limit(20)))
            assert daemon.process.returncode in (0, 78), daemon.log
        else:
            daemon.ends(0)
            assert (place / "out").read_bytes() == (b"" if kind == "null" else data)
    if feeding:
        feeding.join()
    stdin.close()
    ours.close()
    theirs.close()
