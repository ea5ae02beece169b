"""What a reload changes and leaves alone, what it hands over to the pipelines that come, and takes back when it fails."""

import os
import signal
import stat
import subprocess

import numpy as np
import pytest

from harness import FRAMECTL, Daemon, environment, limit, numbered, pipeline, whole
from harness.daemon import UnixConnection
from harness.stream import FORMAT, SIZE, Stream

GRAY = {"pixels": "gray", "width": 32, "height": 16}
INVERT = {"affine": {"scale": -1.0, "offset": 255.0}}


def scaled(scale, offset):
    return [{"affine": {"scale": scale, "offset": offset}}]


def reload_with(daemon, pipelines, **keys):
    daemon.write(pipelines, **keys)
    return daemon.post("/v1/reload")


def passes(daemon, name, expected, first=0):
    """Sends frames through a pipeline and compares what comes out."""
    frames = numbered(5, SIZE, first=first)
    with daemon.reader(name) as reader, daemon.producer(name) as producer:
        producer.send(frames.tobytes())
        np.testing.assert_array_equal(reader.frames(5, SIZE), expected(frames))


def ask_and_leave(daemon, path):
    """Sends a command, of which the daemon has heard when this returns, and does not wait for its answer."""
    connection = UnixConnection(daemon.socket)
    connection.request("POST", path)
    daemon.status()  # who comes later is heard later
    connection.close()


# -- which pipelines change ------------------------------------------------------------------------------------------------


def test_reload_leaves_an_unchanged_pipeline_undisturbed(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        stream = Stream(daemon)
        for _ in range(5):
            before = daemon.frames()["in"]
            daemon.command("/v1/reload")
            daemon.wait_view("it goes on", lambda view: view["frames"]["in"] > before)
        count = stream.end()
        daemon.account(came=count, emitted=count)


def test_reload_changes_one_pipeline_beside_another(place):
    """cam1 changes many times in a row, lossless cam0 runs on without losing its connection or a frame."""
    def entries(offset):
        return {"cam0": pipeline(FORMAT, slots=3), "cam1": pipeline(FORMAT, stages=scaled(1.0, offset))}

    with Daemon(place, entries(0)) as daemon:
        stream = Stream(daemon)
        for offset in range(1, 11):
            daemon.write(entries(offset))
            daemon.command("/v1/reload")
            with daemon.reader("cam1") as reader, daemon.producer("cam1") as producer:
                producer.send(bytes(SIZE))
                assert reader.read(SIZE) == bytes([offset]) * SIZE
        count = stream.end()
        daemon.account(came=count, emitted=count)


def test_reload_adds_and_removes_pipelines(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        first = daemon.config["pipelines"]["cam0"]["source"]["socket"]
        daemon.write({"cam1": pipeline(FORMAT)})
        daemon.command("/v1/reload")
        assert list(daemon.status()["pipelines"]) == ["cam1"]
        assert not os.path.exists(first)
        with daemon.reader("cam1") as reader, daemon.producer("cam1") as producer:
            producer.send(whole(0, SIZE).tobytes())
            assert reader.read(SIZE) == whole(0, SIZE).tobytes()
        daemon.write({"cam0": pipeline(FORMAT), "cam1": pipeline(FORMAT)})
        daemon.command("/v1/reload")
        daemon.account("cam1", came=1, emitted=1)  # unchanged: its account goes on
        with daemon.reader("cam0") as reader, daemon.producer("cam0") as producer:
            producer.send(whole(1, SIZE).tobytes())
            assert reader.read(SIZE) == whole(1, SIZE).tobytes()


def test_reload_ends_the_clients_of_a_removed_pipeline(place):
    with Daemon(place, {"cam0": pipeline(FORMAT), "cam1": pipeline(FORMAT)}) as daemon:
        with daemon.reader("cam0") as reader, daemon.producer("cam0") as producer:
            producer.send(numbered(3, SIZE).tobytes())
            np.testing.assert_array_equal(reader.frames(3, SIZE), numbered(3, SIZE))
            daemon.write({"cam1": pipeline(FORMAT)})
            daemon.command("/v1/reload")
            assert reader.rest() == b"" and producer.rest() == b""


@pytest.mark.parametrize("text, problem", [
    ("pipelines: {cam0: {sorce: {}}}", "sorce"),
    ("pipelines: [", "framed.yaml:"),
    ("", "pipelines"),
], ids=["unknown key", "syntax", "empty"])
def test_reload_of_an_invalid_file_keeps_the_old_one_and_says_why(place, text, problem):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        stream = Stream(daemon)
        daemon.file.write_text(text)
        code, answer = daemon.post("/v1/reload")
        assert code in (400, 409, 422), (code, answer)
        assert problem in answer["error"], answer
        assert daemon.view()["state"] == "running"
        count = stream.end()
        daemon.account(came=count, emitted=count)


def test_reload_without_a_file_keeps_the_old_one(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        daemon.file.unlink()
        code, answer = daemon.post("/v1/reload")
        assert code == 400 and "framed.yaml" in answer["error"] and "No such file" in answer["error"], (code, answer)
        assert daemon.view()["state"] == "running"


def test_what_helps_is_told_behind_a_long_reason(place):
    gone = "/" + "/".join(["gone"] * 90)
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        daemon.write({"cam0": pipeline(FORMAT, source={"file": gone})})
        code, answer = daemon.post("/v1/reload")
        assert code == 400 and gone in answer["error"] and answer["remedy"], (code, answer)
        told = f"{answer['error']}; {answer['remedy']}"
        assert daemon.status()["reloads"]["refused"] == told and f"nothing was changed: {told}\n" in daemon.log


def test_why_a_reload_was_refused_is_known_to_the_process_that_takes_over(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        good = daemon.file.read_text()
        daemon.file.write_text(good.replace("stages", "sauce"))
        assert daemon.post("/v1/reload")[0] == 400
        before = daemon.status()["reloads"]
        assert "sauce" in before["refused"], before
        subprocess.run([FRAMECTL, "-s", daemon.socket, "upgrade"], env=environment(), timeout=limit(20), check=True)
        assert daemon.status()["reloads"] == before
        daemon.file.write_text(good)
        assert daemon.post("/v1/reload")[0] == 200 and daemon.status()["reloads"]["refused"] is None


def test_reload_with_a_socket_that_cannot_be_made_keeps_the_old_one(place):
    """What only shows when the new pipeline is set up is refused as a whole too."""
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        (place / "taken").write_text("precious")
        entries = {"cam0": pipeline(FORMAT, stages=scaled(1.0, 1.0)),
                   "cam1": pipeline(FORMAT, source={"socket": str(place / "taken")})}
        old = daemon.config
        daemon.write(entries)
        code, answer = daemon.post("/v1/reload")
        daemon.config = old
        assert code >= 400 and "taken" in answer["error"], (code, answer)
        assert list(daemon.status()["pipelines"]) == ["cam0"]
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(whole(5, SIZE).tobytes())
            assert reader.read(SIZE) == whole(5, SIZE).tobytes()


# -- what is handed over ---------------------------------------------------------------------------------------------------


def test_a_changed_pipeline_keeps_its_sockets(place):
    with Daemon(place, {"cam0": pipeline(GRAY)}) as daemon:
        paths = [place / "cam0.sock", place / "cam0.out.sock"]
        before = [os.stat(path).st_ino for path in paths]
        passes(daemon, "cam0", lambda frames: frames)
        code, answer = reload_with(daemon, {"cam0": pipeline(GRAY, slots=3, stages=[INVERT])})
        assert (code, answer["changed"], answer["in_place"]) == (200, ["cam0"], [])
        assert [os.stat(path).st_ino for path in paths] == before
        passes(daemon, "cam0", lambda frames: 255 - frames)


def test_a_socket_gets_its_new_mode(place):
    with Daemon(place, {"cam0": pipeline(GRAY)}) as daemon:
        code, answer = reload_with(daemon, {"cam0": pipeline(GRAY, source={"mode": "0600"})})
        assert (code, answer["changed"]) == (200, ["cam0"])
        assert stat.S_IMODE(os.stat(place / "cam0.sock").st_mode) == 0o600
        passes(daemon, "cam0", lambda frames: frames)


def test_two_pipelines_swap_their_sockets(place):
    def swapped(first, second):
        return {name: pipeline(GRAY, stages=stages, source={"socket": str(place / f"{path}.sock")},
                               sink={"socket": str(place / f"{path}.out.sock")})
                for name, path, stages in (("cam0", first, []), ("cam1", second, [INVERT]))}
    with Daemon(place, swapped("cam0", "cam1")) as daemon:
        passes(daemon, "cam0", lambda frames: frames)
        code, answer = reload_with(daemon, swapped("cam1", "cam0"))
        assert (code, sorted(answer["changed"])) == (200, ["cam0", "cam1"])
        with daemon.reader("cam0") as reader, daemon.producer("cam0") as producer:
            producer.send(bytes(SIZE))
            assert reader.read(SIZE) == bytes(SIZE)
        daemon.account("cam0", came=1, emitted=1)


def test_frames_in_flight_are_finished_before_the_change(place):
    frames = numbered(4, SIZE)
    with Daemon(place, {"cam0": pipeline(GRAY, stages=[INVERT])}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(frames.tobytes())
            np.testing.assert_array_equal(reader.frames(1, SIZE), 255 - frames[:1])
            assert reload_with(daemon, {"cam0": pipeline(GRAY, slots=3)})[0] == 200
            rest = np.frombuffer(reader.rest(), np.uint8).reshape(-1, SIZE)
            np.testing.assert_array_equal(rest, 255 - frames[1:1 + len(rest)])
        passes(daemon, "cam0", lambda frames: frames)


def test_a_file_goes_on_after_the_change(place):
    def entries(stages):
        return {"cam0": pipeline(GRAY, slots=2 + len(stages), stages=stages, sink={"file": str(place / "results")})}
    frames = numbered(3, SIZE)
    with Daemon(place, entries([])) as daemon:
        for stages in ([], [INVERT]):
            assert reload_with(daemon, entries(stages))[0] == 200
            with daemon.producer() as producer:
                producer.send(frames.tobytes())
            daemon.wait_view("the results are written", lambda view: view["frames"]["emitted"] == 3)
    assert (place / "results").read_bytes() == frames.tobytes() + (255 - frames).tobytes()


def test_a_file_that_does_not_fit_the_new_frames_changes_nothing(place):
    """The file is looked at when the old pipeline has written its last result: the last step that may fail."""
    def entries(width):
        return {"cam0": pipeline({**GRAY, "width": width}, sink={"file": str(place / "results"), "protocol": "y4m"}),
                "cam1": pipeline(GRAY)}
    frames = numbered(3, SIZE)
    with Daemon(place, entries(32)) as daemon, daemon.producer("cam1") as other:
        with daemon.producer() as producer:
            producer.send(frames.tobytes())
            daemon.account("cam0", came=3, emitted=3)
            code, answer = reload_with(daemon, entries(31))
            assert code == 400 and "results" in answer["error"], answer
            producer.send(frames.tobytes())
            daemon.account("cam0", came=6, emitted=6)
        assert daemon.view("cam0")["state"] == "running"
        daemon.write(entries(32))
        other.send(frames.tobytes())
        with daemon.reader("cam1") as reader:
            np.testing.assert_array_equal(reader.frames(3, SIZE), frames)
        daemon.account("cam1", came=3, emitted=3)


def test_keys_that_need_a_restart_are_named(place):
    entries = {"cam0": pipeline(GRAY)}
    with Daemon(place, entries) as daemon:
        code, answer = reload_with(daemon, {"cam0": pipeline(GRAY)}, lanes=3)
        assert code == 400 and "lanes" in answer["error"] and "restart" in answer["remedy"], answer
        assert daemon.status()["reloads"]["failed"] == 1
        daemon.write({"cam0": pipeline(GRAY)})


def test_a_paused_pipeline_that_changes_runs_again(place):
    with Daemon(place, {"cam0": pipeline(GRAY)}) as daemon:
        daemon.command("/v1/pipelines/cam0/pause")
        assert reload_with(daemon, {"cam0": pipeline(GRAY, slots=3, stages=[INVERT])})[0] == 200
        assert daemon.view()["state"] == "running"
        passes(daemon, "cam0", lambda frames: 255 - frames)


def test_sigterm_during_a_reload_ends_the_daemon(place):
    """A frame that never ends keeps the reload waiting until the signal comes."""
    with Daemon(place, {"cam0": pipeline(GRAY)}, drain_timeout="4s") as daemon, daemon.producer() as producer:
        producer.send(bytes(100))
        daemon.wait_view("half a frame has come", lambda view: view["frames"]["in"] == 1)
        daemon.write({"cam0": pipeline(GRAY, slots=3)}, drain_timeout="60s")
        daemon.signal(signal.SIGHUP)
        daemon.wait_view("the pipeline waits for the frame", lambda view: view["state"] == "stopping")
        daemon.signal(signal.SIGTERM)
        daemon.ends(0)
        daemon.leaves_frames = True
    assert daemon.final_account()["shutdown"] == 1


# -- commands that wait for it ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("before, order", [("running", "pause"), ("paused", "resume"), ("running", "drain")])
def test_a_command_that_was_given_up_is_not_obeyed(place, before, order):
    """It waits until a reload has exchanged pipelines, which waits for a frame on the device."""
    def entries(slots):
        slow = pipeline(FORMAT, slots=slots, stages=[{"fault": {"kind": "delay", "ms": 1500}}])
        return {"cam0": pipeline(FORMAT), "slow": slow}
    with Daemon(place, entries(1), drain_timeout="50ms") as daemon:
        if before == "paused":
            daemon.command("/v1/pipelines/cam0/pause")
        with daemon.producer("slow") as producer:
            producer.send(bytes(SIZE))
            daemon.wait_view("it is on the device", lambda view: view["frames"]["in"] == 1, "slow")
            daemon.write(entries(2), drain_timeout="50ms")
            daemon.signal(signal.SIGHUP)
            daemon.wait_log("was disconnected")
        ask_and_leave(daemon, f"/v1/pipelines/cam0/{order}")
        assert "slow: stopped" not in daemon.log
        daemon.wait_log("configuration reloaded")
        assert daemon.view("cam0")["state"] == before
        assert f"pipeline 'cam0' was not told to {order}" in daemon.log
        if before == "paused":
            daemon.command("/v1/pipelines/cam0/resume")
