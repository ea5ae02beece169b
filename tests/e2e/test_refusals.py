"""What a client that was turned away, or had nothing to send, leaves behind, for whoever wonders why no frames come."""

import contextlib
import errno
import json
import os
import subprocess

import pytest

from harness import FRAMECTL, Client, Daemon, environment, limit, numbered, pipeline, wait_until, whole, y4m_stream
from harness import native
from harness.injection import Injection
from harness.native import PRODUCER, Native, Refused

GRAY = {"pixels": "gray", "width": 32, "height": 16}
SIZE = 512


def framectl(place, *arguments, **options):
    return subprocess.run([FRAMECTL, "-s", place / "status.sock", *arguments], capture_output=True, text=True,
                          env=environment(), timeout=limit(20), check=False, **options)


def refused(daemon, count=1, name="cam0"):
    return daemon.wait_view("it was refused", lambda view: view["refused"] == count, name)["last_refusal"]


def test_a_stream_of_another_size_is_told_of_everywhere(place):
    with Daemon(place, {"cam0": pipeline(GRAY, source={"protocol": "y4m"})}) as daemon:
        assert daemon.view()["last_refusal"] is None
        assert "refusal" not in framectl(place, "status").stdout + framectl(place, "status", "cam0").stdout
        with daemon.producer() as producer:
            producer.send(b"YUV4MPEG2 W64 H16 Cmono\n")
            assert b"the stream is gray 64x16" in producer.rest()
        last = refused(daemon)
        assert "was turned away: the stream is gray 64x16, but the pipeline's format is gray 32x16" in last["text"], last
        assert last["remedy"] == "send it y4m, gray 32x16, or configure another `protocol` or `format`" and last["age_s"] >= 0
        for said in (framectl(place, "status"), framectl(place, "status", "cam0")):
            [line] = [line for line in said.stdout.splitlines() if "refusal" in line]
            assert "last refusal of 1, " in line and last["text"] in line and last["remedy"] in line, line
        doctor = framectl(place, "doctor", "--json")
        [finding] = [finding for finding in json.loads(doctor.stdout)["machine"] if finding["check"] == "clients"]
        assert doctor.returncode == 2 and finding["verdict"] == "better" and finding["remedy"] == last["remedy"], doctor
        assert finding["found"].startswith("cam0 turned 1 away") and last["text"] in finding["found"], finding
        assert 'framed_refused_clients_total{pipeline="cam0"} 1\n' in daemon.metrics()
        daemon.account(came=0)


def test_the_last_of_both_ends_is_told(place):
    entry = pipeline(GRAY, source={"protocol": "native"}, sink={"protocol": "native"})
    with Daemon(place, {"cam0": entry, "cam1": pipeline(GRAY)}) as daemon:
        with Native(daemon.path("cam0", "source"), PRODUCER) as producer:
            producer.send(native.frame(bytes(SIZE + 1)))
            with pytest.raises(Refused, match="a FRAME of"):
                producer.message()
        assert "a FRAME of" in refused(daemon)["text"]
        with Client(daemon.path("cam0", "sink")) as reader:
            reader.send(b"YUV4MPEG2 W32 H16\n")
            reader.rest()
        last = refused(daemon, 2)
        assert last["text"].startswith("reader pid") and "this is a y4m stream" in last["text"] and last["remedy"], last
        with daemon.reader("cam1") as reader, daemon.producer("cam1") as producer:
            with daemon.producer("cam1") as second:
                said = second.rest().decode()
                assert f"already has its 1 producer: pid {os.getpid()} (" in said and ", connected for " in said, said
            producer.send(whole(0, SIZE).tobytes())
            reader.read(SIZE)
        assert "`clients`" in refused(daemon, name="cam1")["remedy"]


@pytest.mark.parametrize("end", ["source", "sink"])
def test_who_only_looks_whether_somebody_is_there_is_not_refused(place, end):
    entry = pipeline(GRAY, source={"protocol": "native"}, sink={"protocol": "native"})
    with Daemon(place, {"cam0": entry}) as daemon:
        with Client(daemon.path("cam0", end)):
            pass
        daemon.wait_view("it has gone", lambda view: view["refused"] == 0)
        with Client(daemon.path("cam0", end)) as client:
            client.send(native.hello(PRODUCER)[:5])
        assert "within its HELLO" in refused(daemon)["text"]


@pytest.mark.parametrize("saying,what", [(b"YUV4MPEG2 W32 H16 Cmono\nFRAME\n" + bytes(SIZE), "a y4m stream"),
                                         (native.hello(PRODUCER), "framed's native protocol")], ids=["y4m", "native"])
def test_what_is_no_raw_frames_is_recognised_at_its_end(place, saying, what):
    """Raw frames may have any bytes; what does not come out even is told what it looks like."""
    with Daemon(place, {"cam0": pipeline(GRAY)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(saying)
            producer.finish()
            reader.read(len(saying) // SIZE * SIZE)
            assert producer.rest() == f"framed: raw frames are expected here, and this began like {what}\n".encode()
        assert f"this began like {what}" in refused(daemon)["text"]
        daemon.account(came=1 + len(saying) // SIZE, emitted=len(saying) // SIZE, invalid=1)


def test_a_first_raw_frame_that_looks_like_y4m_is_warned_of_once(place):
    """It is taken all the same; the next producer is looked at anew."""
    warning = "begins like a y4m stream, and is taken as raw bytes all the same"
    with Daemon(place, {"cam0": pipeline(GRAY)}) as daemon:
        with daemon.reader() as reader:
            for times in (1, 2):
                with daemon.producer() as producer:
                    frame = b"YUV4MPEG2 W32 H16 Cmono\nFRAME\n".ljust(SIZE, b"\0")
                    producer.send(frame)
                    wait_until(lambda: daemon.log.count(warning) == times, lambda: daemon.log)
                    producer.send(frame * 3)
                    producer.finish()
                    assert reader.read(4 * SIZE) == frame * 4
                assert daemon.log.count(warning) == times, daemon.log
        daemon.account(came=8, emitted=8)


def test_a_first_raw_frame_is_not_warned_of_again_when_another_process_takes_over(place):
    """Neither the producer's that has gone, nor that of one that is still there."""
    warning = "begins like a y4m stream, and is taken as raw bytes all the same"
    frame = b"YUV4MPEG2 ".ljust(SIZE, b"\0")
    with Daemon(place, {"cam0": pipeline(GRAY), "cam1": pipeline(GRAY)}) as daemon:
        with daemon.reader("cam0") as gone, daemon.reader("cam1") as reader, daemon.producer("cam1") as producer:
            with daemon.producer("cam0") as first:
                first.send(frame)
                first.finish()
                assert gone.read(SIZE) == frame
            producer.send(frame)
            assert reader.read(SIZE) == frame
            wait_until(lambda: daemon.log.count(warning) == 2, lambda: daemon.log)
            daemon.wait_view("it has gone", lambda view: view["sessions"] == 0, "cam0")
            assert framectl(place, "upgrade").returncode == 0
            with daemon.producer("cam0") as second:
                second.send(bytes(SIZE))
                assert gone.read(SIZE) == bytes(SIZE)
            producer.send(frame)
            assert reader.read(SIZE) == frame
            assert daemon.log.count(warning) == 2, daemon.log


def test_a_raw_file_that_looks_like_y4m_is_warned_of_by_its_name(place):
    (place / "in").write_bytes(b"YUV4MPEG2 W32 H16 Cmono\nFRAME\n".ljust(2 * SIZE, b"\0"))
    entry = pipeline(GRAY, source={"file": str(place / "in")}, sink={"file": str(place / "out")})
    with Daemon(place, {"cam0": entry, "cam1": pipeline(GRAY)}) as daemon:
        daemon.wait_log(f"the first frame of {place / 'in'} begins like a y4m stream, and is taken")
        daemon.account(came=2, emitted=2)


def test_a_raw_client_that_waits_for_an_answer_is_told(place):
    with Daemon(place, {"cam0": pipeline(GRAY, source={"timeout": "100ms"})}) as daemon:
        with Client(daemon.path("cam0", "source")) as client:
            client.send(native.hello(PRODUCER))
            assert b"this began like framed's native protocol" in client.rest()
        assert "send it raw, gray 32x16" in refused(daemon)["remedy"]
        daemon.account(came=1, invalid=1)


def test_what_is_no_text_in_a_stream_does_not_spoil_the_document(place):
    with Daemon(place, {"cam0": pipeline(GRAY, source={"protocol": "y4m"})}) as daemon:
        with daemon.producer() as producer:
            producer.send(b"YUV4MPEG2 W32 H16 C\xff\x1b[31m\n")
            producer.rest()
        assert r"C\xff\x1b[31m" in refused(daemon)["text"]


def test_a_file_is_no_client_and_its_fault_is_said_whole(place):
    deep = place / ("d" * 200) / ("e" * 200)
    deep.mkdir(parents=True)
    (deep / "in").write_bytes(b"YUV4MPEG2 W64 H16 Cmono\n")
    entry = pipeline(GRAY, source={"file": str(deep / "in"), "protocol": "y4m"}, sink={"file": str(place / "out")})
    with Daemon(place, {"cam0": entry, "cam1": pipeline(GRAY)}) as daemon:
        daemon.wait_log("the stream is gray 64x16, but the pipeline's format is gray 32x16")
        assert daemon.view()["refused"] == 0 and daemon.view()["last_refusal"] is None
        daemon.account(came=0)


@pytest.mark.host
def test_the_count_outlives_an_upgrade(place):
    with Daemon(place, {"cam0": pipeline(GRAY, source={"protocol": "y4m"})}) as daemon:
        with daemon.producer() as producer:
            producer.send(b"nonsense")
            producer.rest()
        refused(daemon)
        assert framectl(place, "upgrade").returncode == 0
        assert daemon.view()["refused"] == 1 and daemon.view()["last_refusal"] is None
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(y4m_stream(numbered(2, SIZE), 32, 16))
            reader.frames(2, SIZE)
        daemon.account(came=2, emitted=2)


@pytest.mark.parametrize("protocol", ["raw", "native"])
def test_push_of_nothing_says_so(place, protocol):
    with Daemon(place, {"cam0": pipeline(GRAY, source={"protocol": protocol})}) as daemon:
        done = framectl(place, "push", "cam0", stdin=subprocess.DEVNULL)
        assert done.returncode == 64 and "nothing was sent" in done.stderr and "pipe" in done.stderr, done
        daemon.account(came=0)


@pytest.mark.host
def test_what_a_stream_began_like_outlives_an_upgrade(place):
    with Daemon(place, {"cam0": pipeline(GRAY)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(b"YUV4MPEG2 W32 H16 Cmono\nFRAME\n" + bytes(SIZE))
            reader.read(SIZE)
            daemon.wait_view("a part is there", lambda view: view["frames"]["in"] == 2)
            daemon.command("/v1/upgrade")
            producer.finish()
            assert b"this began like a y4m stream" in producer.rest()
        assert "this began like a y4m stream" in refused(daemon)["text"]
        daemon.account(came=2, emitted=1, invalid=1)


@pytest.mark.host
@pytest.mark.parametrize("error", [errno.ENOBUFS, errno.ENOMEM], ids=errno.errorcode.get)
def test_who_cannot_be_taken_for_a_moment_waits(place, error):
    """The first to connect; no limit of descriptors is blamed for it."""
    injection = Injection(place, "accept4", at=1, error=error)

    def connects():
        with contextlib.suppress(FileNotFoundError, ConnectionRefusedError):
            return daemon.producer()

    with Daemon(place, {"cam0": pipeline(GRAY, sink={"reply": True})}, env=injection.environment, ready=False) as daemon:
        with wait_until(connects, "its socket is there") as producer:
            producer.send(whole(0, SIZE).tobytes())
            assert producer.read(SIZE) == whole(0, SIZE).tobytes() and injection.happened
        daemon.wait_log("cannot take connections for a moment")
        assert os.strerror(error) in daemon.log and "LimitNOFILE" not in daemon.log
        daemon.wait_ready()
