"""Producers that break every rule, and what they may not disturb."""

import fcntl
import os
import re
import resource
import signal
import socket
import struct
import time

import numpy as np
import pytest

from harness import Daemon, Producer, Reader, numbered, pipeline, wait_until, whole, y4m_stream

pytestmark = [pytest.mark.host, pytest.mark.memory]

SIZE = 512
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
GRAY = {"pixels": "gray", "width": 32, "height": 16}
Y4M = {"protocol": "y4m"}


def still_works(daemon, name="cam0"):
    """A well-behaved producer is served right after."""
    with daemon.reader(name) as reader:
        with daemon.producer(name) as producer:
            producer.send(whole(99, SIZE).tobytes())
            assert reader.read(SIZE) == whole(99, SIZE).tobytes()
        daemon.wait_view("it has left", lambda view: view["sessions"] == 0, name)


def ended(client):
    """Waits until the daemon has closed the connection, and returns what it said before."""
    return client.rest()


# -- producers in the middle of a frame -----------------------------------------------------------------------------


@pytest.mark.parametrize("tail", [1, SIZE // 2, SIZE - 1])
def test_a_truncated_last_frame_is_invalid_and_logged(place, tail):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader() as reader:
            with daemon.producer() as producer:
                producer.send(numbered(3, SIZE).tobytes() + bytes(tail))
            np.testing.assert_array_equal(reader.frames(3, SIZE), numbered(3, SIZE))
            daemon.account(came=4, emitted=3, invalid=1)
        daemon.wait_log(str(tail))
        still_works(daemon)
        daemon.account(came=5, emitted=4, invalid=1)


def test_a_truncated_y4m_frame_is_invalid(place):
    with Daemon(place, {"cam0": pipeline(GRAY, source=Y4M)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(y4m_stream(numbered(2, SIZE), 32, 16)[:-1])
            producer.finish()
            assert reader.read(SIZE) == whole(0, SIZE).tobytes()
            ended(producer)
            daemon.account(came=2, emitted=1, invalid=1)


def test_a_producer_that_is_reset_in_mid_frame(place):
    """It dies with results unread on its own connection, which resets it."""
    with Daemon(place, {"cam0": pipeline(FORMAT, sink={"reply": True})}) as daemon:
        with daemon.producer() as producer:
            producer.send(whole(0, SIZE).tobytes() + bytes(100))
            daemon.wait_view("the next has begun", lambda view: view["frames"]["in"] == 2)
        daemon.wait_view("it is gone", lambda view: view["sessions"] == 0)
        with daemon.producer() as producer:
            producer.send(whole(1, SIZE).tobytes())
            assert producer.read(SIZE) == whole(1, SIZE).tobytes()


def test_a_frame_of_one_byte_a_moment_times_out(place):
    """The limit is for the rest of the frame: bytes that trickle in do not extend it."""
    size = 16384  # which is sent at once, so that no time passes within a frame that comes as it should
    entry = pipeline({"dtype": "uint8", "shape": [size]}, source={"timeout": "200ms"})
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.producer() as producer:
            with pytest.raises(OSError):
                while True:
                    producer.send(b"x")
                    daemon.status()  # takes its time
        daemon.account(came=1, invalid=1)
        daemon.wait_log("did not come within 0.2 s")
        frame = bytes(size)
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(frame)
            assert reader.read(len(frame)) == frame


def test_a_y4m_header_that_never_ends_times_out(place):
    with Daemon(place, {"cam0": pipeline(GRAY, source={**Y4M, "timeout": "200ms"})}) as daemon:
        with daemon.producer() as producer:
            producer.send(b"YUV4MPEG2 W32")
            ended(producer)
        daemon.account(came=0)


def test_a_producer_that_never_sends_may_stay(place):
    """The limit is for frames that have begun."""
    with Daemon(place, {"cam0": pipeline(FORMAT, source={"timeout": "1ms"})}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            daemon.wait_view("it is connected", lambda view: view["sessions"] == 1)
            daemon.wait_view("it waits for frames", lambda view: view["waiting"] == "frames")
            producer.send(whole(0, SIZE).tobytes())
            assert reader.read(SIZE) == whole(0, SIZE).tobytes()
        daemon.account(came=1, emitted=1)


def test_waiting_for_a_reader_is_not_the_producers_fault(place):
    """A frame that the daemon itself does not read on must not time out."""
    with Daemon(place, {"cam0": pipeline(FORMAT, slots=1, source={"timeout": "1ms"})}) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(5, SIZE).tobytes())
            daemon.wait_view("it waits", lambda view: view["waiting"] == "reader")
            with daemon.reader() as reader:
                np.testing.assert_array_equal(reader.frames(5, SIZE), numbered(5, SIZE))
        daemon.account(came=5, emitted=5)


# -- y4m ---------------------------------------------------------------------------------------------------------------


BAD_HEADERS = {
    "not y4m": (b"GIF89a" + bytes(600), "YUV4MPEG2"),
    "raw video": (bytes(600), "YUV4MPEG2"),
    "lower case": (b"yuv4mpeg2 W32 H16\n", "YUV4MPEG2"),
    "other width": (b"YUV4MPEG2 W64 H16 Cmono\n", "64"),
    "other height": (b"YUV4MPEG2 W32 H17 Cmono\n", "17"),
    "other colour": (b"YUV4MPEG2 W32 H16 C420jpeg\n", "420"),
    "unknown colour": (b"YUV4MPEG2 W32 H16 C999\n", "999"),
    "deep colour": (b"YUV4MPEG2 W32 H16 Cmono16\n", "mono16"),
    "no width": (b"YUV4MPEG2 H16 Cmono\n", "W"),
    "no height": (b"YUV4MPEG2 W32 Cmono\n", "H"),
    "width is no number": (b"YUV4MPEG2 Wabc H16 Cmono\n", "W"),
    "width overflows": (b"YUV4MPEG2 W99999999999999999999999999 H16 Cmono\n", "W"),
    "width is negative": (b"YUV4MPEG2 W-32 H16 Cmono\n", "W"),
    "too long": (b"YUV4MPEG2 W32 H16 Cmono X" + b"x" * 100000 + b"\n", "long"),
    "endless": (b"YUV4MPEG2 " + b"X " * 100000, "long"),
    "no frame mark": (b"YUV4MPEG2 W32 H16 Cmono\nFRAMES\n" + bytes(600), "FRAME"),
    "frame line too long": (b"YUV4MPEG2 W32 H16 Cmono\nFRAME X" + b"x" * 100000, "long"),
    "frames of another size": (b"YUV4MPEG2 W32 H16 Cmono\nFRAME\n" + bytes(600) + b"FRAME\n", "FRAME"),
}


@pytest.mark.parametrize("name", BAD_HEADERS)
def test_a_bad_y4m_stream_is_refused_with_the_reason(place, name):
    stream, word = BAD_HEADERS[name]
    with Daemon(place, {"cam0": pipeline(GRAY, source=Y4M)}) as daemon:
        with daemon.producer() as producer:
            try:
                producer.send(stream)
                ended(producer)
            except (BrokenPipeError, ConnectionResetError):
                pass  # closed before all was sent
        daemon.wait_view("it is closed", lambda view: view["sessions"] == 0)
        wait_until(lambda: any(word in line and "cam0" in line for line in daemon.log.splitlines()),
                   lambda: f"the log says {word!r}:\n{daemon.log}")
        before = daemon.frames()
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(y4m_stream(numbered(2, SIZE), 32, 16))
            if before["in_flight"]:
                reader.read(SIZE * before["in_flight"])
            np.testing.assert_array_equal(reader.frames(2, SIZE), numbered(2, SIZE))


# -- too many ----------------------------------------------------------------------------------------------------------


def test_a_second_producer_is_told_so_and_closed(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as first:
            first.send(whole(0, SIZE).tobytes())
            assert reader.read(SIZE) == whole(0, SIZE).tobytes()
            with daemon.producer() as second:
                said = ended(second)
            assert b"cam0" in said and b"1" in said, said
            assert daemon.view()["refused"] == 1
            first.send(whole(1, SIZE).tobytes())
            assert reader.read(SIZE) == whole(1, SIZE).tobytes()
        daemon.account(came=2, emitted=2)


def test_a_place_that_became_free_can_be_taken(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, source={"clients": 3}, sink={"reply": True})}) as daemon:
        clients = [daemon.producer() for _ in range(3)]
        daemon.wait_view("all are taken", lambda view: view["sessions"] == 3)
        with daemon.producer() as fourth:
            ended(fourth)
        clients.pop().close()
        daemon.wait_view("one has left", lambda view: view["sessions"] == 2)
        with daemon.producer() as fourth:
            fourth.send(whole(4, SIZE).tobytes())
            assert fourth.read(SIZE) == whole(4, SIZE).tobytes()
        for client in clients:
            client.close()


def test_a_thousand_connections(place):
    """Readers all at once; each is served or refused, the stream goes on, and every descriptor comes back."""
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < 4096:
        pytest.skip("the limit of open files is too low for this test itself")
    entries = {"cam0": pipeline(FORMAT, sink={"overload": "drop"})}
    with Daemon(place, entries, limits={"readers_per_user": 0}) as daemon:
        before = daemon.open_files()
        readers = [Reader(daemon.path("cam0", "sink")) for _ in range(1000)]
        daemon.wait_view("all are attached or refused", lambda view: view["readers"] + view["refused"] == 1000)
        attached = daemon.view()["readers"]
        assert attached > 0
        with daemon.producer() as producer:
            producer.send(whole(0, SIZE).tobytes())
            daemon.account(came=1, emitted=1)
            got = 0
            for reader in readers:
                try:
                    got += reader.read(SIZE) == whole(0, SIZE).tobytes()
                except (EOFError, ConnectionResetError):
                    pass  # one of the refused
            assert got == attached
        for reader in readers:
            reader.close()
        daemon.wait_view("all are gone", lambda view: view["readers"] == 0 and view["sessions"] == 0)
        wait_until(lambda: daemon.open_files() <= before, "the descriptors came back")
        with daemon.producer() as producer:
            producer.send(whole(1, SIZE).tobytes())
            daemon.account(came=2, emitted=1, unread=1)


def test_a_thousand_producers_for_one_place(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as first:
            first.send(whole(0, SIZE).tobytes())
            assert reader.read(SIZE) == whole(0, SIZE).tobytes()
            for _ in range(1000):
                Producer(daemon.path("cam0", "source")).close()
            daemon.wait_view("all were refused", lambda view: view["refused"] == 1000)
            first.send(whole(1, SIZE).tobytes())
            assert reader.read(SIZE) == whole(1, SIZE).tobytes()
        daemon.account(came=2, emitted=2)
        assert daemon.log.count("\n") < 100, "such log lines are rate-limited"


def few_descriptors():
    """A start needs about 60 descriptors, some more with libuv 1.45 or later; the rest is fewer than the 60 clients of the tests."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))


def test_without_free_descriptors_clients_are_refused_and_the_daemon_recovers(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}, before=few_descriptors, limits={"readers_per_user": 0}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(whole(0, SIZE).tobytes())
            assert reader.read(SIZE) == whole(0, SIZE).tobytes()
            before = daemon.open_files()
            crowd = [Reader(daemon.path("cam0", "sink")) for _ in range(60)]
            refused = [client for client in crowd[40:] if ended(client) is not None]
            assert len(refused) == 20  # each was closed, none is left hanging
            daemon.wait_log("LimitNOFILE")

            # The crowd stays, and the daemon must not spin for it.
            spent = daemon.cpu_seconds()
            for _ in range(50):
                producer.send(whole(1, SIZE).tobytes())
                assert reader.read(SIZE) == whole(1, SIZE).tobytes()
                for client in crowd[:40]:
                    try:
                        client.read(SIZE)
                    except (EOFError, ConnectionResetError):
                        pass
            assert daemon.cpu_seconds() - spent < 5

            for client in crowd:
                client.close()
            wait_until(lambda: daemon.open_files() <= before, "the descriptors came back")
            with daemon.reader() as late:
                producer.send(whole(2, SIZE).tobytes())
                assert reader.read(SIZE) == late.read(SIZE) == whole(2, SIZE).tobytes()
        daemon.wait_view("all emitted", lambda view: view["frames"]["emitted"] == view["frames"]["in"])


def test_an_idle_daemon_without_free_descriptors_sleeps(place):
    """Connections that wait in the backlog must not keep the loop busy."""
    with Daemon(place, {"cam0": pipeline(FORMAT)}, before=few_descriptors, limits={"readers_per_user": 0}) as daemon:
        crowd = [Reader(daemon.path("cam0", "sink")) for _ in range(60)]
        daemon.wait_log("LimitNOFILE")
        spent = daemon.cpu_seconds()
        time.sleep(1)  # what is measured is what it does while nothing happens
        assert daemon.cpu_seconds() - spent < 0.5
        for client in crowd:
            client.close()
        daemon.wait_ready()


def test_descriptors_that_a_client_passes_vanish(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}, env={"FRAMED_FAULT_OLDER_KERNEL": "1"}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer, open("/dev/null", "rb") as gift:
            daemon.wait_view("it is connected", lambda view: view["sessions"] == 1)
            before = daemon.open_files()
            rights = [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("4i", *[gift.fileno()] * 4))]
            for number in range(20):
                data = whole(number, SIZE).tobytes()
                assert producer.socket.sendmsg([data], rights) == SIZE
                reader.socket.sendmsg([b"x"], rights)
                assert reader.read(SIZE) == data
            wait_until(lambda: daemon.open_files() <= before, "those that came are closed")
        daemon.account(came=20, emitted=20)


def test_log_lines_that_were_left_out_are_counted(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.producer():
            for _ in range(100):
                with Producer(daemon.path("cam0", "source")) as refused:
                    ended(refused)
            daemon.wait_view("all were refused", lambda view: view["refused"] == 100)
        daemon.finish()
        said = daemon.log.count("was refused")
        left_out = sum(map(int, re.findall(r"(\d+) more [^\n]*left out", daemon.log)))
        assert 0 < said < 50 and said + left_out in (100, 101), daemon.log


def test_a_log_that_nobody_reads_holds_up_no_frame(place):
    """Standard error is a full pipe; more lines come than it takes."""
    end, full = os.pipe()
    fcntl.fcntl(full, fcntl.F_SETPIPE_SZ, 4096)
    with Daemon(place, {"cam0": pipeline(FORMAT)}, stderr=full) as daemon:
        os.close(full)
        with daemon.reader() as reader:
            for number in range(200):
                with daemon.producer() as producer:
                    producer.send(whole(number, SIZE).tobytes())
                    assert reader.read(SIZE) == whole(number, SIZE).tobytes()
                daemon.signal(signal.SIGUSR1)  # its lines are not limited
                daemon.wait_view("it has left", lambda view: view["sessions"] == 0)
        daemon.account(came=200, emitted=200)
        daemon.finish()
    os.close(end)


def test_random_bytes_never_disturb_another_pipeline(place):
    """Seeded noise into a y4m source, beside a lossless pipeline."""
    noise = np.random.default_rng(11)
    with Daemon(place, {"cam0": pipeline(GRAY, source=Y4M), "cam1": pipeline(FORMAT)}) as daemon:
        with daemon.reader("cam1") as reader, daemon.producer("cam1") as producer:
            for turn in range(100):
                with daemon.producer() as bad:
                    try:
                        bad.send(b"YUV4MPEG2 "[:int(noise.integers(0, 11))] + noise.bytes(int(noise.integers(1, 3000))))
                    except OSError:
                        pass  # closed at the first wrong byte
                producer.send(whole(turn, SIZE).tobytes())
                assert reader.read(SIZE) == whole(turn, SIZE).tobytes()
        daemon.account("cam1", came=100, emitted=100)
        daemon.wait_view("all are gone", lambda view: view["sessions"] == 0)
