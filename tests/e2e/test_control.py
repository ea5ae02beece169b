"""Commands and signals while frames move: pause, drain and resume, and what each signal does. Reloads are in test_reload.py."""

import contextlib
import itertools
import signal
import subprocess

import numpy as np
import pytest

from harness import FRAMECTL, Background, Daemon, environment, limit, numbered, pipeline, wait_until, whole
from harness.injection import REST, UNTIL_TOLD, Injected, Injection
from harness.stream import FORMAT, SIZE, Stream

# -- pause, drain, resume ------------------------------------------------------------------------------------------------


def test_pause_stops_at_a_frame_and_resume_goes_on(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(5, SIZE).tobytes())
            np.testing.assert_array_equal(reader.frames(5, SIZE), numbered(5, SIZE))
            daemon.command("/v1/pipelines/cam0/pause")
            assert daemon.view()["state"] == "paused"
            producer.send(numbered(5, SIZE, first=5).tobytes())
            daemon.quiet()
            view = daemon.view()
            assert view["frames"]["in"] == 5 and view["sessions"] == 1, view
            daemon.command("/v1/pipelines/cam0/resume")
            np.testing.assert_array_equal(reader.frames(5, SIZE), numbered(5, SIZE, first=5))
            daemon.account(came=10, emitted=10)
            assert daemon.view()["state"] == "running"


def test_pause_finishes_the_frame_that_has_begun(place):
    frame = whole(0, SIZE).tobytes()
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(frame[:100])
            daemon.wait_view("it has begun", lambda view: view["frames"]["in"] == 1)
            daemon.command("/v1/pipelines/cam0/pause")
            producer.send(frame[100:] + whole(1, SIZE).tobytes())
            assert reader.read(SIZE) == frame
            daemon.account(came=1, emitted=1)
            daemon.command("/v1/pipelines/cam0/resume")
            assert reader.read(SIZE) == whole(1, SIZE).tobytes()


def test_what_comes_after_the_answer_to_a_pause_waits(place):
    """Also where the lane, all of whose slots were full, is between a result and the next read."""
    injection = Injection(place, "sendmsg", at=1, error=REST, wait=300)
    with Injected(place, {"cam0": pipeline(FORMAT, slots=1)}, injection) as daemon:
        daemon.wait_ready()
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(whole(0, SIZE).tobytes())
            assert reader.read(SIZE) == whole(0, SIZE).tobytes()
            daemon.command("/v1/pipelines/cam0/pause")
            producer.send(whole(1, SIZE).tobytes())
            daemon.command("/v1/pipelines/cam0/drain")
            assert injection.happened and daemon.frames()["in"] == 1
            daemon.command("/v1/pipelines/cam0/resume")
            assert reader.read(SIZE) == whole(1, SIZE).tobytes()
        daemon.account(came=2, emitted=2)


@contextlib.contextmanager
def busy_lane(place):
    """A daemon whose lane, with its first result just sent, rests until it is told to go on; and that which tells it."""
    injection = Injection(place, "sendmsg", at=1, error=REST, wait=UNTIL_TOLD)
    with Injected(place, {"cam0": pipeline(FORMAT)}, injection) as daemon:
        daemon.wait_ready()
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(whole(0, SIZE).tobytes())
            assert reader.read(SIZE) == whole(0, SIZE).tobytes()
            yield daemon, injection.go_on


def pausing(daemon):
    before = daemon.log.count("paused")
    request = Background(daemon.post, "/v1/pipelines/cam0/pause")
    wait_until(lambda: request.done or daemon.log.count("paused") > before, "it is asked for")
    return request


def test_a_lane_that_does_not_hear_of_a_pause_is_told_of(place):
    with busy_lane(place) as (daemon, go_on):
        code, answer = daemon.post("/v1/pipelines/cam0/pause")
        assert code == 504 and "may still take frames" in answer["error"] and "health" in answer["remedy"], answer
        go_on()
        daemon.command("/v1/pipelines/cam0/pause")
        assert daemon.view()["state"] == "paused"


def test_whoever_asks_for_a_pause_is_answered(place):
    with busy_lane(place) as (daemon, go_on):
        first = pausing(daemon)
        second = Background(daemon.post, "/v1/pipelines/cam0/pause")
        daemon.status()
        go_on()
        assert first.join()[0] == second.join()[0] == 200
        assert daemon.view()["state"] == "paused"


@pytest.mark.parametrize("end", ["resume", "stop"])
def test_a_pause_that_comes_to_nothing_is_answered(place, end):
    with busy_lane(place) as (daemon, go_on):
        request = pausing(daemon)
        if end == "resume":
            daemon.command("/v1/pipelines/cam0/resume")
        else:
            daemon.signal(signal.SIGTERM)
        code, answer = request.join()
        assert code == 409 and "before it was paused" in answer["error"], answer
        go_on()
        if end == "stop":
            daemon.ends()


def test_pausing_and_resuming_twice_is_no_error(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        for command in ("resume", "pause", "pause", "resume", "resume"):
            daemon.command(f"/v1/pipelines/cam0/{command}")
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(whole(0, SIZE).tobytes())
            assert reader.read(SIZE) == whole(0, SIZE).tobytes()


def test_one_pipeline_pauses_without_the_other(place):
    with Daemon(place, {"cam0": pipeline(FORMAT), "cam1": pipeline(FORMAT)}) as daemon:
        daemon.command("/v1/pipelines/cam0/pause")
        with daemon.reader("cam1") as reader, daemon.producer("cam1") as producer:
            producer.send(numbered(20, SIZE).tobytes())
            np.testing.assert_array_equal(reader.frames(20, SIZE), numbered(20, SIZE))
        daemon.account("cam1", came=20, emitted=20)
        assert daemon.view("cam0")["state"] == "paused"


def test_pausing_under_load_loses_nothing(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, slots=4)}) as daemon:
        stream = Stream(daemon)
        for _ in range(10):
            daemon.command("/v1/pipelines/cam0/pause")
            before = daemon.frames()["in"]
            daemon.command("/v1/pipelines/cam0/resume")
            daemon.wait_view("it goes on", lambda view: view["frames"]["in"] > before)
        count = stream.end()
        daemon.account(came=count, emitted=count)


def test_drain_answers_when_nothing_is_in_flight(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}, drain_timeout="1min") as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(2, SIZE).tobytes())
            daemon.wait_view("results wait", lambda view: view["waiting"] == "reader")
            draining = Background(daemon.post, "/v1/pipelines/cam0/drain")
            daemon.wait_view("it drains", lambda view: view["state"] == "draining")
            assert not draining.done
            with daemon.reader() as reader:
                np.testing.assert_array_equal(reader.frames(2, SIZE), numbered(2, SIZE))
                code, answer = draining.join()
                assert (code, answer["ok"]) == (200, True), answer
                view = daemon.view()
                assert view["frames"]["in_flight"] == 0 and view["state"] == "drained", view
                assert view["sessions"] == 1 and view["readers"] == 1, view  # connections stay
                producer.send(whole(2, SIZE).tobytes())
                daemon.command("/v1/pipelines/cam0/resume")
                assert reader.read(SIZE) == whole(2, SIZE).tobytes()
        daemon.account(came=3, emitted=3)


def test_drain_under_load_leaves_nothing_in_flight(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, slots=4)}) as daemon:
        stream = Stream(daemon)
        for _ in range(5):
            daemon.wait_view("frames move", lambda view: view["frames"]["in"] > 0)
            daemon.command("/v1/pipelines/cam0/drain")
            frames = daemon.frames()
            assert frames["in_flight"] == 0, frames
            assert daemon.frames()["in"] == frames["in"]
            daemon.command("/v1/pipelines/cam0/resume")
        count = stream.end()
        daemon.account(came=count, emitted=count)


def test_drain_says_what_it_waits_for_after_its_limit(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}, drain_timeout="100ms") as daemon:
        with daemon.producer() as producer:
            producer.send(whole(0, SIZE).tobytes())
            daemon.wait_view("it waits", lambda view: view["waiting"] == "reader")
            code, answer = daemon.post("/v1/pipelines/cam0/drain")
            assert code == 504 and "reader" in answer["error"], (code, answer)
            daemon.command("/v1/pipelines/cam0/resume")
            with daemon.reader() as reader:
                assert reader.read(SIZE) == whole(0, SIZE).tobytes()
        daemon.account(came=1, emitted=1)


def test_drain_waits_for_the_slowest_lossless_reader(place):
    size = 256 << 10
    with Daemon(place, {"cam0": pipeline({"dtype": "uint8", "shape": [size]}, slots=4)}, drain_timeout="1min") as daemon:
        with daemon.reader() as quick, daemon.reader(buffer=4096) as slow, daemon.producer() as producer:
            producer.send(numbered(4, size).tobytes())
            np.testing.assert_array_equal(quick.frames(4, size), numbered(4, size))
            daemon.account(came=4, emitted=4)
            draining = Background(daemon.post, "/v1/pipelines/cam0/drain")
            daemon.wait_view("it drains", lambda view: view["state"] in ("draining", "drained"))
            assert daemon.view()["state"] == "draining"
            np.testing.assert_array_equal(slow.frames(4, size), numbered(4, size))
            code, answer = draining.join()
            assert code == 200, answer


def test_drain_of_a_file_source_stops_at_a_frame(place):
    """Reads under way when the drain comes belong to it."""
    (place / "in").write_bytes(numbered(100, SIZE).tobytes())
    entry = pipeline(FORMAT, source={"file": str(place / "in"), "loop": True}, sink={"file": str(place / "out")}, slots=4)
    with Daemon(place, {"cam0": entry}) as daemon:
        for _ in range(10):
            before = daemon.frames()["in"]
            daemon.wait_view("frames move", lambda view: view["frames"]["in"] > before)
            daemon.command("/v1/pipelines/cam0/drain")
            frames = daemon.frames()
            assert frames["in_flight"] == 0, frames
            assert daemon.frames()["in"] == frames["in"]
            daemon.command("/v1/pipelines/cam0/resume")
        daemon.command("/v1/pipelines/cam0/drain")


@pytest.mark.parametrize("command", ["pause", "resume", "drain"])
def test_an_unknown_pipeline_is_404_with_the_names_there_are(place, command):
    with Daemon(place, {"front": pipeline(FORMAT), "rear": pipeline(FORMAT)}) as daemon:
        code, answer = daemon.post(f"/v1/pipelines/side/{command}")
        assert code == 404, answer
        text = answer["error"] + answer.get("remedy", "")
        assert "side" in text and "front" in text and "rear" in text, answer


def test_a_name_that_is_no_utf8_is_404(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        code, answer = daemon.post("/v1/pipelines/%ff/pause")
        assert code == 404 and r"\xff" in answer["error"], answer


def test_an_unknown_command_is_404(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        code, _ = daemon.request("POST", "/v1/pipelines/cam0/explode")
        assert code == 404


# -- signals ---------------------------------------------------------------------------------------------------------------


def test_sighup_reloads(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        daemon.write({"cam0": pipeline(FORMAT), "cam1": pipeline(FORMAT)})
        daemon.signal(signal.SIGHUP)
        wait_until(lambda: "cam1" in daemon.status()["pipelines"], "cam1 is there")


def test_sighup_with_an_invalid_file_is_logged(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        daemon.file.write_text("pipelines: {cam0: {sorce: {}}}")
        daemon.signal(signal.SIGHUP)
        daemon.wait_log("framed.yaml:1:13: ")
        daemon.wait_log("the first of 2 errors")
        assert list(daemon.status()["pipelines"]) == ["cam0"]


def test_status_says_why_the_last_reload_was_refused(place):
    """Whoever sends SIGHUP hears nothing of it."""
    def said():
        return subprocess.run([FRAMECTL, "-s", place / "status.sock", "status"], capture_output=True, text=True, env=environment(),
                              timeout=limit(20), check=True).stdout

    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        assert daemon.status()["reloads"]["refused"] is None and "reload" not in said()
        daemon.file.write_text("pipelines: {cam0: {sorce: {}}}")
        daemon.signal(signal.SIGHUP)
        daemon.wait_log("framed.yaml:1:13: ")
        assert f"the last reload was refused: {daemon.status()['reloads']['refused']}" in said()
        assert "framed.yaml:1:13: " in said() and "the first of 2 errors" in said()
        daemon.write({"cam0": pipeline(FORMAT)})
        daemon.signal(signal.SIGHUP)
        daemon.wait_log("configuration reloaded")
        assert daemon.status()["reloads"]["refused"] is None and "reload" not in said()


def test_sigusr1_dumps_the_state_to_the_log(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        daemon.signal(signal.SIGUSR1)
        daemon.wait_log('cam0: {"state":"running"')
        assert daemon.view()["state"] == "running"


def test_sigterm_under_load_finishes_what_came(place):
    """What the reader got is all that the daemon had taken: the final account has nothing but emitted frames."""
    with Daemon(place, {"cam0": pipeline(FORMAT, slots=4)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            def flood():
                try:
                    for number in itertools.count():
                        producer.send(whole(number, SIZE).tobytes())
                except OSError:
                    return
            sending, taking = Background(flood), Background(reader.rest)
            daemon.wait_view("frames move", lambda view: view["frames"]["emitted"] > 100)
            daemon.signal(signal.SIGTERM)
            daemon.ends(0)
            sending.join()
            received = np.frombuffer(taking.join(), np.uint8).reshape(-1, SIZE)
    np.testing.assert_array_equal(received, numbered(len(received), SIZE))
    account = daemon.final_account()
    assert account["emitted"] == len(received), account
    assert account["in"] - account["emitted"] == account.get("invalid", 0) + account.get("shutdown", 0), account
    assert account["in"] - account["emitted"] <= 1, account  # the frame within which the end came


def test_sigterm_waits_for_the_slowest_lossless_reader(place):
    """A frame is emitted once one reader took it; with `block` the others must get it too before the end."""
    size = 256 << 10
    with Daemon(place, {"cam0": pipeline({"dtype": "uint8", "shape": [size]}, slots=4)}, drain_timeout="1min") as daemon:
        with daemon.reader() as quick, daemon.reader(buffer=4096) as slow, daemon.producer() as producer:
            producer.send(numbered(4, size).tobytes())
            np.testing.assert_array_equal(quick.frames(4, size), numbered(4, size))
            daemon.account(came=4, emitted=4)
            daemon.signal(signal.SIGTERM)
            daemon.wait_log("finishing what is in flight")
            np.testing.assert_array_equal(slow.frames(4, size), numbered(4, size))
            assert slow.rest() == b""
            daemon.ends(0)


def test_sigterm_gives_up_after_the_drain_limit(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, slots=2)}, drain_timeout="200ms") as daemon:
        daemon.leaves_frames = True
        with daemon.producer() as producer:
            producer.send(numbered(2, SIZE).tobytes())
            daemon.wait_view("results wait", lambda view: view["frames"]["in_flight"] == 2)
            daemon.signal(signal.SIGTERM)
            daemon.ends(0)
    account = daemon.final_account()
    assert account == {"in": 2, "emitted": 0, "shutdown": 2}, account


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_at_once(place, number):
    """The drain would wait for a reader for an hour."""
    with Daemon(place, {"cam0": pipeline(FORMAT)}, drain_timeout="1h") as daemon:
        daemon.leaves_frames = True
        with daemon.producer() as producer:
            producer.send(whole(0, SIZE).tobytes())
            daemon.wait_view("the result waits", lambda view: view["waiting"] == "reader")
            daemon.signal(number)
            daemon.wait_log("finishing what is in flight")
            daemon.signal(number)
            daemon.ends(0)
    account = daemon.final_account()
    assert account == {"in": 1, "emitted": 0, "shutdown": 1}, account
