"""Odd circumstances of a hand-over: how the daemon was started, what the system refuses, what else is under way."""

import contextlib
import http.client
import os
import resource
import shutil
import signal

import numpy as np
import pytest

from harness import BACKEND, Background, Client, Daemon, Producer, numbered, pipeline, read_y4m, require_whole, slow_stage, wait_until, y4m_stream
from harness.daemon import BINARY

pytestmark = pytest.mark.memory

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def gpu(**keys):
    """Without a worker that stands by, whose descriptors come and go."""
    return {"backend": BACKEND, "faults": "60/min", "standby": "off", **keys}


def handovers(daemon):
    counts = daemon.status()["handovers"]
    return counts["upgrade"] + counts["fault"]


def upgrade(daemon):
    before = handovers(daemon)
    daemon.signal(signal.SIGUSR2)
    wait_until(lambda: handovers(daemon) > before, lambda: f"another image runs:\n{daemon.log}")


def carry(daemon, reader, producer, numbers):
    for number in numbers:
        producer.send(numbered(1, SIZE, first=number).tobytes())
        np.testing.assert_array_equal(reader.frames(1, SIZE), numbered(1, SIZE, first=number))


def hold_over(daemon, act, again=1):
    """A stream goes on over what `act` does."""
    with daemon.reader() as reader, daemon.producer() as producer:
        carry(daemon, reader, producer, range(3))
        for turn in range(again):
            act()
            carry(daemon, reader, producer, range(3 + turn, 4 + turn))
    daemon.account(came=3 + again, emitted=3 + again)


# -- how it was started ---------------------------------------------------------------------------------------------------


def test_started_by_a_relative_path(place):
    shutil.copy(BINARY, place / "framed")
    with Daemon(place, {"cam0": pipeline(FORMAT)}, gpu=gpu(), binary="./framed", before=lambda: os.chdir(place)) as daemon:
        hold_over(daemon, lambda: upgrade(daemon), again=2)


def test_started_by_a_link_that_names_the_next_version_later(place):
    """What is installed is what the path that it was started by names now."""
    (place / "one").mkdir()
    (place / "two").mkdir()
    shutil.copy(BINARY, place / "one/framed")
    (place / "framed").symlink_to("one/framed")
    def program(daemon):
        return os.readlink(f"/proc/{daemon.process.pid}/exe")
    with Daemon(place, {"cam0": pipeline(FORMAT)}, gpu=gpu(), binary=place / "framed") as daemon:
        assert program(daemon) == str(place / "one/framed")
        shutil.copy(BINARY, place / "two/framed")
        (place / "new").symlink_to("two/framed")
        os.rename(place / "new", place / "framed")
        shutil.rmtree(place / "one")
        hold_over(daemon, lambda: upgrade(daemon), again=2)
        assert program(daemon) == str(place / "two/framed")


def test_whose_file_is_gone_goes_on_after_a_fault(place):
    program = place / "framed"
    shutil.copy(BINARY, program)
    strike = {"fault": {"kind": "illegal", "at": 3, "every": 2, "again": "no"}}
    with Daemon(place, {"cam0": pipeline(FORMAT, stages=[strike])}, gpu=gpu(), binary=program) as daemon:
        program.unlink()
        hold_over(daemon, lambda: None, again=6)
        assert handovers(daemon) >= 2
        shutil.copy(BINARY, program)
        upgrade(daemon)


def test_alternating_two_programs_leaves_nothing_behind(place):
    program = place / "framed"
    shutil.copy(BINARY, program)
    def install():
        shutil.copy(BINARY, place / "new")
        os.rename(place / "new", program)
        upgrade(daemon)
    def memory():
        with open(f"/proc/{daemon.process.pid}/status") as file:
            return next(int(line.split()[1]) for line in file if line.startswith("VmRSS:"))
    def maps():
        with open(f"/proc/{daemon.process.pid}/maps") as file:
            return sum("framed:" in line for line in file)
    with Daemon(place, {"cam0": pipeline(FORMAT, slots=3)}, gpu=gpu(), binary=program) as daemon:
        install()
        before = daemon.open_files(), maps()
        kilobytes = memory()
        hold_over(daemon, install, again=50 if os.environ.get("FRAMED_SOAK") else 12)
        wait_until(lambda: daemon.open_files() <= before[0], lambda: f"descriptors: {before} {daemon.open_files()}")
        assert maps() == before[1]
        sanitized = "san" in BINARY.parent.name  # whose memory is another matter
        assert sanitized or memory() < kilobytes + 4096, (kilobytes, memory())


# -- what the system refuses ---------------------------------------------------------------------------------------------------


def test_a_limit_of_the_size_of_files_refuses_the_state(place):
    """A state that cannot be written is no reason to stop."""
    with Daemon(place, {"cam0": pipeline({"dtype": "uint8", "shape": [300000]}, sink={"overload": "drop"}, slots=2)}, gpu=gpu()) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            for number in range(8):
                producer.send(numbered(1, 300000, first=number).tobytes())
            daemon.wait_view("one is being read", lambda view: view["frames"]["in"] == 8 and view["frames"]["in_flight"] == 1)
            resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (64 * 1024, 64 * 1024))
            daemon.signal(signal.SIGUSR2)
            daemon.wait_log("no upgrade")
            assert require_whole(reader.read(300000), 300000) == [0]
            daemon.quiet()


def test_without_a_descriptor_left_a_fault_is_survived_all_the_same(place):
    strike = {"fault": {"kind": "illegal", "at": 3, "every": 0, "again": "no"}}
    entries = {"cam0": pipeline(FORMAT, stages=[strike])}
    with Daemon(place, entries, gpu=gpu(), limits={"readers_per_user": 0}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            carry(daemon, reader, producer, range(3))
            used = max(map(int, os.listdir(f"/proc/{daemon.process.pid}/fd"))) + 1
            hard = resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE)[1]
            resource.prlimit(daemon.process.pid, resource.RLIMIT_NOFILE, (used, hard))
            more = [Client(daemon.path("cam0", "sink")) for _ in range(40)]  # what is free below is taken by readers
            producer.send(numbered(1, SIZE, first=3).tobytes())
            np.testing.assert_array_equal(reader.frames(1, SIZE), numbered(1, SIZE, first=3))
            for client in more:
                client.close()
        daemon.account(came=4, emitted=4)
        assert handovers(daemon) == 1


# -- what else is under way ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["pause", "drain"])
@pytest.mark.parametrize("cause", ["upgrade", "fault"])
def test_a_held_pipeline_stays_held(place, state, cause):
    """With frames in flight, and a producer that has begun one."""
    strike = {"fault": {"kind": "illegal", "at": 3, "every": 0, "again": "no"}}
    entry = pipeline(FORMAT, slots=4, stages=[slow_stage(300), *([strike] if cause == "fault" else [])])  # after the order
    with Daemon(place, {"cam0": entry}, gpu=gpu(), drain_timeout="1s") as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(4, SIZE).tobytes() + numbered(1, SIZE, first=4).tobytes()[:100])
            before = 0
            daemon.wait_view("they came", lambda view: view["frames"]["in"] == 5)
            with contextlib.suppress(ConnectionError):  # whoever waits for a drain loses the connection
                daemon.post(f"/v1/pipelines/cam0/{state}")
            if cause == "upgrade":
                daemon.signal(signal.SIGUSR2)
            wait_until(lambda: handovers(daemon) > before, lambda: f"another image:\n{daemon.log}")
            assert daemon.view()["state"] in ("paused", "draining", "drained")
            producer.send(numbered(1, SIZE, first=4).tobytes()[100:] + numbered(2, SIZE, first=5).tobytes())
            daemon.command("/v1/pipelines/cam0/resume")
            np.testing.assert_array_equal(reader.frames(7, SIZE), numbered(7, SIZE))
        daemon.account(came=7, emitted=7)


def test_during_a_stop_a_fault_costs_no_frame(place):
    strike = {"fault": {"kind": "illegal", "at": 3, "every": 4, "again": "no"}}
    with Daemon(place, {"cam0": pipeline(FORMAT, slots=8, stages=[slow_stage(20), strike]), "cam1": pipeline(FORMAT)}, gpu=gpu(), drain_timeout="20s") as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(8, SIZE).tobytes())
            daemon.wait_view("they came", lambda view: view["frames"]["in"] == 8)
            daemon.signal(signal.SIGTERM)
            assert require_whole(reader.rest(), SIZE) == list(range(8))
        daemon.ends(0)
        assert daemon.final_account() == {"in": 8, "emitted": 8}


def test_a_fault_after_the_time_of_a_stop_gives_no_account_twice(place):
    """One pipeline has stopped by then, and the other waits for its frame on the device."""
    strike = {"fault": {"kind": "illegal", "at": 0, "every": 0, "again": "no"}}
    entries = {"cam0": pipeline(FORMAT), "cam1": pipeline(FORMAT, stages=[slow_stage(4000), strike])}
    with Daemon(place, entries, gpu=gpu(timeout="20s"), drain_timeout="100ms") as daemon:
        with daemon.reader() as reader, daemon.producer() as producer, daemon.producer("cam1") as other:
            carry(daemon, reader, producer, range(3))
            other.send(bytes(SIZE))
            daemon.wait_view("it is on the device", lambda view: view["frames"]["in"] == 1, "cam1")
            daemon.signal(signal.SIGTERM)
            daemon.leaves_frames = True
            daemon.ends(0)
        assert "the worker of device 0 failed" in daemon.log.partition("cam0: stopped")[2]
        assert daemon.log.count("cam0: stopped") == daemon.log.count("cam1: stopped") == 1
        assert daemon.final_account() == {"in": 3, "emitted": 3}


def test_during_a_reload_a_fault_costs_no_frame(place):
    """The reload waits for the frames of the pipeline that changes, and one of them strikes."""
    strike = {"fault": {"kind": "illegal", "at": 5, "every": 7, "again": "no"}}
    def entries(version):
        return {"cam0": pipeline(FORMAT, slots=4, stages=[slow_stage(20), strike]),
                "cam1": pipeline(FORMAT, stages=[{"affine": {"offset": version}}, slow_stage(10)], slots=2 + version)}
    keys = {"gpu": gpu(), "drain_timeout": "10s"}
    with Daemon(place, entries(0), **keys) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer, daemon.reader("cam1"), Producer(daemon.path("cam1", "source")):
            for version in range(1, 4):
                sending = Background(producer.send, numbered(10, SIZE, first=10 * (version - 1)).tobytes())
                daemon.write(entries(version), **keys)
                daemon.signal(signal.SIGHUP)
                np.testing.assert_array_equal(reader.frames(10, SIZE), numbered(10, SIZE, first=10 * (version - 1)))
                sending.join()
        daemon.account(came=30, emitted=30)


def test_with_a_trace_and_questions_under_way(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, slots=3)}, gpu=gpu()) as daemon:
        files = daemon.open_files()
        tracing = Background(daemon.request, "GET", "/v1/trace?seconds=1")
        silent = [Client(daemon.socket) for _ in range(20)]
        for number, client in enumerate(silent):
            client.send(b"GET /v1/status HTTP/1.1\r\nHost: x\r\n"[:number + 1])
        hold_over(daemon, lambda: upgrade(daemon), again=3)
        assert tracing.join()[0] in (200, 503)  # a process that takes over before it is done says to ask again
        assert daemon.request("GET", "/v1/trace?seconds=0.2")[0] == 200
        for client in silent:
            client.close()
        wait_until(lambda: daemon.open_files() <= files, "the questions' descriptors are closed")


def test_during_the_exchange_of_pipelines_a_fault_costs_no_frame(place):
    """Reload after reload, while frames of a pipeline that stays strike; each is refused, given up or done."""
    strike = {"fault": {"kind": "illegal", "at": 40, "every": 60, "again": "no"}}
    count = 600
    def entries(version):
        return {"cam0": pipeline(FORMAT, slots=4, stages=[slow_stage(1), strike]),
                "cam1": pipeline(FORMAT, stages=[{"affine": {"offset": version % 5}}], slots=1 + version % 3)}
    keys = {"gpu": gpu(), "drain_timeout": "10s"}
    with Daemon(place, entries(0), **keys) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            sending = Background(producer.send, numbered(count, SIZE).tobytes())
            taking = Background(reader.frames, count, SIZE)
            version = 0
            while not taking.done:
                version += 1
                daemon.write(entries(version), **keys)
                with contextlib.suppress(http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                    daemon.post("/v1/reload")
            np.testing.assert_array_equal(taking.join(), numbered(count, SIZE))
            sending.join()
        daemon.account(came=count, emitted=count)
        assert handovers(daemon) == 10


def test_a_pipeline_that_goes_during_a_trial_is_not_woken_by_it(place):
    """A frame that is tried alone keeps the device of another pipeline, which a reload removes meanwhile."""
    strike = {"fault": {"kind": "illegal", "at": 3, "every": 0, "again": "no"}}
    both = {"cam0": pipeline(FORMAT, slots=4, stages=[slow_stage(300), strike]), "cam1": pipeline(FORMAT)}
    keys = {"gpu": gpu(), "lanes": 2, "drain_timeout": "10s"}
    with Daemon(place, both, **keys) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(8, SIZE).tobytes())
            wait_until(lambda: handovers(daemon) == 1, "it strikes")
            daemon.write({"cam0": both["cam0"]}, **keys)
            daemon.command("/v1/reload")
            np.testing.assert_array_equal(reader.frames(8, SIZE), numbered(8, SIZE))
        daemon.account(came=8, emitted=8)


@pytest.mark.parametrize("cut", [5, 30, 50, 54, 60, 5000])
def test_within_a_header_or_a_line(place, cut):
    entry = pipeline({"pixels": "gray", "width": 64, "height": 64}, source={"protocol": "y4m"}, sink={"protocol": "y4m"}, slots=3)
    stream = y4m_stream(numbered(4, SIZE), 64, 64)
    with Daemon(place, {"cam0": entry}, gpu=gpu()) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            taking = Background(reader.rest)
            producer.send(stream[:cut])
            upgrade(daemon)
            producer.send(stream[cut:cut + 1])
            upgrade(daemon)
            producer.send(stream[cut + 1:])
            daemon.account(came=4, emitted=4)
            daemon.signal(signal.SIGTERM)
            np.testing.assert_array_equal(read_y4m(taking.join(), SIZE)[1], numbered(4, SIZE))
        daemon.ends(0)


def test_who_waits_for_a_seat_gets_it(place):
    """A producer that has gone is read to its end first, before and after another image takes over."""
    entry = pipeline(FORMAT, slots=1)
    with Daemon(place, {"cam0": entry}, gpu=gpu()) as daemon:
        with daemon.producer() as first:
            first.send(numbered(5, SIZE).tobytes())
        with daemon.producer() as second:
            second.send(numbered(5, SIZE, first=5).tobytes())
            upgrade(daemon)
            upgrade(daemon)
            with daemon.reader() as reader:
                np.testing.assert_array_equal(reader.frames(10, SIZE), numbered(10, SIZE))
        daemon.account(came=10, emitted=10)


def test_a_fault_waits_for_the_exchange_of_pipelines(place):
    """What a reload removes is cut after drain_timeout, with a frame on the device; then another one's frame strikes."""
    strike = {"fault": {"kind": "illegal", "at": 3, "every": 0, "again": "no"}}
    cam0 = pipeline(FORMAT, slots=2, stages=[strike])
    keys = {"gpu": gpu(timeout="20s"), "lanes": 2, "drain_timeout": "100ms"}
    with Daemon(place, {"cam0": cam0, "cam1": pipeline(FORMAT, slots=1, stages=[slow_stage(3000)])}, **keys) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            gone = daemon.path("cam1", "source")
            with Producer(gone) as other:
                other.send(numbered(1, SIZE).tobytes())
                daemon.wait_view("it is on the device", lambda view: view["frames"]["in_flight"] == 1, "cam1")
                daemon.write({"cam0": cam0}, **keys)
                daemon.signal(signal.SIGHUP)
                carry(daemon, reader, producer, range(3))
                wait_until(lambda: not os.path.exists(gone), "it is cut")
                carry(daemon, reader, producer, range(3, 6))
        daemon.account(came=6, emitted=6)
        assert handovers(daemon) == 1
