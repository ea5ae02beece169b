"""Another process image takes over, after a fault of the device or for an upgrade: nobody notices but by a pause.

The `fault` stage of test builds strikes with `again: no`, so that frames that run once more get through.
"""

import os
import signal
import subprocess

import numpy as np
import pytest

from harness import (BACKEND, FRAMECTL, Background, Client, Daemon, environment, limit, numbered, pipeline, read_y4m,
                     require_whole, wait_until, y4m_stream)

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
GRAY = {"pixels": "gray", "width": 64, "height": 64}


def gpu(**keys):
    return {"backend": BACKEND, "faults": "60/min", **keys}


def strike(kind, at, every=0, again="no"):
    return {"fault": {"kind": kind, "at": at, "every": every, "again": again}}


def wait_handovers(daemon, cause, count):
    """As many of them or more: a worker that the machine has stopped is a device that hangs."""
    def done():
        return daemon.status()["handovers"][cause] >= count
    wait_until(done, lambda: f"{count} hand-overs by {cause}: {daemon.last.get('handovers')}\n{daemon.log}", 30)
    return daemon.last["handovers"]


def carry(daemon, count, name="cam0", size=SIZE):
    """Sends numbered frames, takes as many results on a connection that stays, and demands every one in order."""
    with daemon.reader(name) as reader, daemon.producer(name) as producer:
        sending = Background(producer.send, numbered(count, size).tobytes())
        np.testing.assert_array_equal(reader.frames(count, size), numbered(count, size))
        sending.join()


# -- faults -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("completion", ["callback", "spin", "persistent"])
@pytest.mark.parametrize("slots", [1, 2, 4])
@pytest.mark.parametrize("kind, timeout", [("illegal", "20s"), ("hang", "700ms")])
def test_a_fault_costs_no_frame_and_no_connection(place, kind, timeout, slots, completion):
    entry = pipeline(FORMAT, slots=slots, completion=completion, stages=[strike(kind, at=20, every=30)])
    with Daemon(place, {"cam0": entry}, gpu=gpu(timeout=timeout)) as daemon:
        carry(daemon, 100)
        daemon.account(came=100, emitted=100)
        handovers = wait_handovers(daemon, "fault", 3)
        assert handovers["fault"] == 3 or kind == "hang", handovers
        last = handovers["last"]
        assert last["cause"] == "fault" and "cam0" in last["text"] and last["gap_ms"] > 0, last
        process = daemon.process.pid
        assert daemon.process.poll() is None and process == daemon.process.pid


def test_y4m_goes_on_within_its_stream(place):
    entry = pipeline(GRAY, source={"protocol": "y4m"}, sink={"protocol": "y4m"}, slots=3, stages=[strike("illegal", 10, 15)])
    frames = numbered(50, 64 * 64)
    with Daemon(place, {"cam0": entry}, gpu=gpu()) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            taking = Background(reader.rest)
            producer.send(y4m_stream(frames, 64, 64))
            producer.close()
            daemon.account(came=50, emitted=50)
            wait_handovers(daemon, "fault", 3)
            daemon.signal(signal.SIGTERM)
            words, got = read_y4m(taking.join(), 64 * 64)
        daemon.ends()
        assert "F30:1" in words, words
        np.testing.assert_array_equal(got, frames)


def test_clients_that_get_replies_go_on(place):
    entry = pipeline(FORMAT, source={"clients": 2}, sink={"reply": True}, slots=2, stages=[strike("illegal", 30, 40)])

    def talk(client, first):
        """On one connection, both ways."""
        sending = Background(client.send, numbered(100, SIZE, first=first).tobytes())
        np.testing.assert_array_equal(np.frombuffer(client.read(100 * SIZE), np.uint8).reshape(100, SIZE), numbered(100, SIZE, first=first))
        sending.join()

    with Daemon(place, {"cam0": entry}, gpu=gpu(), lanes=2) as daemon:
        with Client(daemon.path("cam0", "source")) as one, Client(daemon.path("cam0", "source")) as other:
            both = [Background(talk, one, 0), Background(talk, other, 1000)]
            for thread in both:
                thread.join()
            daemon.account(came=200, emitted=200)
        assert daemon.status()["handovers"]["fault"] >= 2


def test_files_are_read_and_written_on(place):
    (place / "in").write_bytes(numbered(200, SIZE).tobytes())
    entry = pipeline(FORMAT, source={"file": str(place / "in")}, sink={"file": str(place / "out")}, slots=3,
                     stages=[strike("illegal", 25, 50)])
    with Daemon(place, {"cam0": entry}, gpu=gpu(), ready=False) as daemon:
        daemon.ends(0, seconds=30)
    assert (place / "out").read_bytes() == numbered(200, SIZE).tobytes()
    assert daemon.log.count("another one takes its place") == 4, daemon.log


def test_a_slow_reader_gets_whole_results_over_a_fault(place):
    """Under `drop`: what a reader is in the middle of goes on at its byte."""
    size = 1 << 20
    entry = pipeline({"dtype": "uint8", "shape": [size]}, sink={"overload": "drop"}, slots=3, stages=[strike("illegal", 10, 0)])
    with Daemon(place, {"cam0": entry}, gpu=gpu()) as daemon:
        with daemon.reader() as slow, daemon.producer() as producer:
            for number in range(40):
                producer.send(numbered(1, size, first=number).tobytes())
            wait_handovers(daemon, "fault", 1)
            producer.close()
            daemon.wait_view("all frames came", lambda view: view["frames"]["in"] == 40)
            daemon.signal(signal.SIGTERM)
            numbers = require_whole(slow.rest(), size)
        assert numbers and numbers[0] == 0, numbers
        daemon.ends(0)


def test_another_pipeline_pauses_and_goes_on(place):
    entries = {"cam0": pipeline(FORMAT, stages=[strike("illegal", 20, 20)]), "cam1": pipeline(FORMAT, slots=3)}
    with Daemon(place, entries, gpu=gpu(), lanes=2) as daemon:
        both = [Background(carry, daemon, 100, "cam0"), Background(carry, daemon, 3000, "cam1")]
        for thread in both:
            thread.join()
        daemon.account("cam0", came=100, emitted=100)
        daemon.account("cam1", came=3000, emitted=3000)


def test_a_frame_that_strikes_alone_twice_is_dropped(place):
    entry = pipeline(FORMAT, slots=3, stages=[strike("illegal", 20, again="yes")])
    with Daemon(place, {"cam0": entry}, gpu=gpu()) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(60, SIZE).tobytes())
            numbers = require_whole(reader.read(59 * SIZE), SIZE)
            assert numbers == [*range(20), *range(21, 60)], numbers
        daemon.account(came=60, emitted=59, gpu_fault=1)
        assert 2 <= daemon.status()["handovers"]["fault"] <= 3


def test_a_pipeline_that_strikes_too_often_fails_alone(place):
    entries = {"cam0": pipeline(FORMAT, stages=[strike("illegal", 10, 10, again="yes")]), "cam1": pipeline(FORMAT)}
    with Daemon(place, entries, gpu=gpu()) as daemon:
        daemon.leaves_frames = True
        with daemon.reader() as reader, daemon.producer() as producer:
            Background(producer.send, numbered(33, SIZE).tobytes())
            # Nine processes, each with a device to open: seconds where others open it meanwhile.
            daemon.wait_view("it has failed", lambda view: view["state"] == "failed", seconds=45)
            wait_until(lambda: daemon.frames()["dropped"]["gpu_fault"] == 3, daemon.frames)
            carry(daemon, 20, "cam1")
            health = daemon.status()["health"]
            assert [(entry["name"], entry["reason"]) for entry in health["degraded"]] == [("cam0", "failed")], health
            assert health["live"] and "framectl resume" in health["degraded"][0]["remedy"], health
            assert daemon.view()["errors"]["pipeline"]["text"] == health["degraded"][0]["text"]
            assert daemon.command("/v1/pipelines/cam0/drain")["state"] == "failed", "that is what it is, with nothing in flight"
            daemon.command("/v1/pipelines/cam0/resume")
            daemon.wait_view("it runs again", lambda view: view["state"] == "running")
            assert daemon.status()["health"]["degraded"] == []
            assert require_whole(reader.read(30 * SIZE), SIZE)[-1] == 32
        daemon.account(came=33, emitted=30, gpu_fault=3)


def test_frames_that_are_known_to_strike_do_not_count(place):
    """They cost their pipeline its place, and no other one a pause, with what is the default of gpu.faults."""
    entry = pipeline(FORMAT, slots=3, stages=[strike("illegal", 10, 10, again="yes")])
    with Daemon(place, {"cam0": entry}, gpu=gpu(faults="5/min")) as daemon:
        daemon.leaves_frames = True
        with daemon.reader() as reader, daemon.producer() as producer:
            Background(producer.send, numbered(40, SIZE).tobytes())
            daemon.wait_view("it has failed", lambda view: view["state"] == "failed", seconds=45)
            assert require_whole(reader.read(20 * SIZE), SIZE) == [n for n in range(22) if n not in (10, 20)]
        assert daemon.frames()["dropped"]["gpu_fault"] == 3, daemon.frames()
        assert "another one is started in" not in daemon.log


# -- upgrades ---------------------------------------------------------------------------------------------------------


def test_upgrades_under_load_lose_nothing(place):
    entry = pipeline(FORMAT, slots=3)
    with Daemon(place, {"cam0": entry}, gpu=gpu()) as daemon:
        carrying = Background(carry, daemon, 20000)
        wait_until(lambda: daemon.frames()["in"] > 100, "frames flow")
        for number in range(1, 6):
            daemon.signal(signal.SIGUSR2)
            wait_handovers(daemon, "upgrade", number)
        carrying.join()
        daemon.account(came=20000, emitted=20000)


def test_a_program_that_cannot_take_over_is_refused(place):
    """The running one goes on, and says why."""
    import shutil
    from harness.daemon import BINARY
    own = place / "framed"
    shutil.copy(BINARY, own)
    with Daemon(place, {"cam0": pipeline(FORMAT)}, gpu=gpu(), binary=own) as daemon:
        own.unlink()
        own.write_text("#!/bin/sh\necho 'it is too old' >&2\nexit 1\n")
        own.chmod(0o755)
        code, answer = daemon.post("/v1/upgrade")
        assert code == 409 and "it is too old" in answer["error"], answer
        own.unlink()
        code, answer = daemon.post("/v1/upgrade")
        assert code == 409, answer
        carry(daemon, 10)
        shutil.copy(BINARY, own)
        assert daemon.command("/v1/upgrade")["program"] == str(own)
        wait_handovers(daemon, "upgrade", 1)
        carry(daemon, 10)
        daemon.account(came=20, emitted=20)


def test_a_paused_pipeline_stays_paused(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}, gpu=gpu()) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(5, SIZE).tobytes())
            np.testing.assert_array_equal(reader.frames(5, SIZE), numbered(5, SIZE))
            daemon.command("/v1/pipelines/cam0/pause")
            daemon.signal(signal.SIGUSR2)
            wait_handovers(daemon, "upgrade", 1)
            assert daemon.view()["state"] == "paused"
            producer.send(numbered(3, SIZE, first=5).tobytes())
            daemon.command("/v1/pipelines/cam0/resume")
            np.testing.assert_array_equal(reader.frames(3, SIZE), numbered(3, SIZE, first=5))
        daemon.account(came=8, emitted=8)


# -- states that are none ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", [b"", b"nonsense", bytes(1 << 20)], ids=["empty", "nonsense", "zeros"])
def test_a_state_that_is_none_gives_a_clean_start(place, state):
    fd = os.memfd_create("state", 0)
    os.write(fd, state)
    os.set_inheritable(fd, True)
    with Daemon(place, {"cam0": pipeline(FORMAT)}, gpu=gpu(), env={"FRAMED_STATE": f"{fd}"}, inherits=[fd]) as daemon:
        os.close(fd)
        carry(daemon, 10)
        daemon.account(came=10, emitted=10)
    assert "begins anew without its connections" in daemon.log


def test_a_state_that_is_none_ends_a_daemon_whose_sockets_the_manager_has(place):
    """Only a start by the manager brings them again."""
    fd = os.memfd_create("state", 0)
    os.set_inheritable(fd, True)
    starts = {"FRAMED_STATE": f"{fd}", "FRAMED_PASSED": "1"}
    with Daemon(place, {"cam0": pipeline(FORMAT)}, gpu=gpu(), env=starts, inherits=[fd], ready=False) as daemon:
        os.close(fd)
        daemon.ends(70)
    assert "the daemon ends, so that the service manager, which has its sockets, starts it anew" in daemon.log


def worker(daemon):
    return daemon.status()["devices"]["0"]["worker"]


def framectl(daemon, command):
    return subprocess.run([FRAMECTL, "-s", daemon.socket, command], capture_output=True, text=True, env=environment(),
                          timeout=limit(20), check=False)


def test_status_tells_of_a_killed_worker(place):
    """Its number, its age, and why it took another's place, which the next process image of the daemon knows, too."""
    with Daemon(place, {"cam0": pipeline(FORMAT)}, gpu=gpu()) as daemon:
        carry(daemon, 10)
        first = worker(daemon)
        with open(f"/proc/{first['pid']}/comm", encoding="ascii") as file:
            assert file.read() == "framed-worker\n"
        assert (first["generation"], first["replaced"], first["last"]) == (1, 0, None) and first["age_s"] >= 0, first
        assert 'framed_worker_replaced_total{device="0"} 0\n' in daemon.metrics()
        assert "its worker was replaced" not in framectl(daemon, "status").stdout
        assert "that of device 0 was replaced" not in framectl(daemon, "doctor").stdout
        os.kill(first["pid"], signal.SIGKILL)
        wait_until(lambda: worker(daemon)["replaced"] == 1, lambda: f"it is replaced: {daemon.last}\n{daemon.log}")
        second = worker(daemon)
        assert second["pid"] not in (None, first["pid"]) and second["generation"] == 2, second
        assert "signal 9" in second["last"]["reason"] and str(first["pid"]) in second["last"]["reason"], second
        assert second["last"]["gap_ms"] > 0 and 0 <= second["age_s"] <= second["last"]["age_s"], second
        assert 'framed_worker_replaced_total{device="0"} 1\n' in daemon.metrics()
        assert 'framed_worker_age_seconds{device="0"} ' in daemon.metrics()
        told = framectl(daemon, "status").stdout
        assert "device 0: its worker was replaced 1 time, the last " in told and "signal 9" in told, told
        told = framectl(daemon, "doctor")
        assert told.returncode == 2 and "that of device 0 was replaced " in told.stdout and "signal 9" in told.stdout, told
        carry(daemon, 10)
        assert daemon.post("/v1/upgrade")[0] == 200
        wait_handovers(daemon, "upgrade", 1)
        third = worker(daemon)
        assert third["generation"] == 2 and third["replaced"] == 1 and third["pid"] == second["pid"], third
        assert third["last"]["reason"] == second["last"]["reason"] and third["last"]["gap_ms"] == second["last"]["gap_ms"], third
        carry(daemon, 10)


def test_a_reload_goes_on_over_a_fault(place):
    """It waits for a frame that hangs; the process that takes over puts the file in force."""
    entry = pipeline(FORMAT, slots=2, stages=[strike("hang", at=1)])
    with Daemon(place, {"cam0": entry}, gpu=gpu(timeout="1s")) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(2, SIZE).tobytes())
            daemon.wait_view("both have come", lambda view: view["frames"]["in"] == 2)
            daemon.write({"cam0": {**daemon.config["pipelines"]["cam0"], "slots": 4}}, gpu=gpu(timeout="1s"))
            daemon.signal(signal.SIGHUP)
            assert reader.read(2 * SIZE) == numbered(2, SIZE).tobytes()
            daemon.wait_log("configuration reloaded")
        assert daemon.status()["handovers"]["fault"] == 1
        carry(daemon, 10)
