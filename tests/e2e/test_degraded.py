"""/v1/health names each pipeline that does not do its job, with reason, since when and remedy, while /v1/live and with it the
watchdog say that all moves; status keeps the last error until it is mended."""

import json
import os
import resource
import signal
import subprocess

import pytest

from harness import FRAMECTL, Daemon, environment, limit, numbered, pace, pipeline, wait_until, whole

pytestmark = pytest.mark.waits

SIZE = 64 << 10
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def ask(daemon, path="/v1/health"):
    code, body = daemon.request("GET", path)
    document = json.loads(body)
    assert code == (200 if document["ok"] else 503), (code, body)
    return document


def degraded(daemon):
    """The reasons there are, by pipeline: {"cam0": {"silent": {...}}}."""
    found = {}
    for entry in ask(daemon)["degraded"]:
        found.setdefault(entry["name"], {})[entry["reason"]] = entry
    return found


def wait_degraded(daemon, reason, name="cam0"):
    return wait_until(lambda: degraded(daemon).get(name, {}).get(reason), lambda: f"{name}: {reason}: {ask(daemon)}", 30)


def wait_well(daemon):
    wait_until(lambda: ask(daemon)["ok"], lambda: f"all is well again: {ask(daemon)}", 30)


def framectl_health(daemon, *arguments):
    return subprocess.run([FRAMECTL, "-s", daemon.socket, "health", *arguments], capture_output=True, text=True,
                          timeout=limit(20), env=environment(), check=False)


def limited():
    """The daemon may write files of 10.5 frames at most."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE * 10 + SIZE // 2, resource.RLIM_INFINITY))


def test_a_sink_that_loses_results_degrades_its_pipeline_until_it_can_write(place):
    entries = {"cam0": pipeline(FORMAT, sink={"file": str(place / "out")}), "cam1": pipeline(FORMAT)}
    with Daemon(place, entries, before=limited) as daemon, daemon.producer() as producer:
        assert framectl_health(daemon).returncode == 0 and ask(daemon)["degraded"] == []
        producer.send(numbered(12, SIZE).tobytes())
        found = wait_degraded(daemon, "sink")
        assert "(EFBIG)" in found["text"] and found["remedy"] and found["since_s"] >= 0, found
        document = ask(daemon)
        assert document["live"] is True and not document["pipelines"]["cam0"]["ok"] and document["pipelines"]["cam1"]["ok"], document
        assert document["why"] == f"pipeline cam0: {found['text']}"
        assert ask(daemon, "/v1/live")["ok"] is True
        daemon.wait_view("both have their fate", lambda view: view["frames"]["dropped"]["sink_error"] == 2)
        error = wait_until(lambda: (e := daemon.view()["errors"]["sink"]) and e["count"] == 2 and e, "both results are counted")
        assert error["text"] == found["text"] and error["since_s"] >= error["age_s"], error
        assert daemon.view()["errors"]["pipeline"] is None and daemon.view("cam1")["errors"]["sink"] is None
        metrics = daemon.metrics()
        assert "framed_healthy 0\n" in metrics and "framed_live 1\n" in metrics
        assert 'framed_pipeline_degraded{pipeline="cam0",reason="sink"} 1\n' in metrics
        assert 'framed_pipeline_degraded{pipeline="cam0",reason="silent"} 0\n' in metrics
        assert 'framed_pipeline_degraded{pipeline="cam1",reason="sink"} 0\n' in metrics
        done = framectl_health(daemon)
        assert done.returncode == 2 and done.stdout.startswith("degraded\n  pipeline cam0: sink, for "), done
        assert "(EFBIG)" in done.stdout and found["remedy"] in done.stdout and not done.stderr, done
        done = framectl_health(daemon, "--json")
        assert done.returncode == 2 and json.loads(done.stdout)["degraded"][0]["reason"] == "sink", done
        done = subprocess.run([FRAMECTL, "-s", daemon.socket, "doctor"], capture_output=True, text=True, timeout=limit(20),
                              env=environment(), check=False)
        assert done.returncode == 2 and "(EFBIG)" in done.stdout, done
        daemon.signal(signal.SIGUSR2)  # an upgrade keeps since when it is so
        daemon.wait_log("everything goes on after")
        after = daemon.view()["errors"]["sink"]
        assert after["since_s"] >= error["since_s"] and after["count"] == 2, after
        resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
        producer.send(whole(12, SIZE).tobytes())
        wait_well(daemon)
        assert daemon.view()["errors"]["sink"] is None and framectl_health(daemon).returncode == 0


def test_a_source_that_is_silent_is_told_once_until_it_is_back(place):
    entry = pipeline(FORMAT, source={"expect": f"{pace(1) * 1000:.0f}ms"})
    with Daemon(place, {"cam0": entry, "cam1": pipeline(FORMAT)}) as daemon:
        found = wait_degraded(daemon, "silent")
        assert found["text"].endswith("no producer is connected"), found
        view = daemon.view()
        assert view["silent"]["text"] == view["last_error"] == found["text"] and view["last_in_age_s"] is None
        assert view["condition"] == "silent" and daemon.view("cam1")["condition"] == "running"
        done = subprocess.run([FRAMECTL, "-s", daemon.socket, "status"], capture_output=True, text=True, timeout=limit(20),
                              env=environment(), check=True)
        assert {line.split()[0]: line.split()[1] for line in done.stdout.splitlines() if line.startswith("cam") and
                ":" not in line.split()[0]} == {"cam0": "silent", "cam1": "running"}, done.stdout
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(whole(0, SIZE).tobytes())
            reader.frames(1, SIZE)
            daemon.wait_log("frames come again, after ")
            found = wait_degraded(daemon, "silent")
            assert found["text"].endswith("its producer is connected"), found
            view = daemon.view()
            assert view["last_in_age_s"] >= view["last_out_age_s"] >= pace(1), view
            assert 'framed_last_frame_age_seconds{pipeline="cam0",way="in"} ' in daemon.metrics()
        assert "cam1" not in degraded(daemon) and ask(daemon, "/v1/live")["ok"]
        assert daemon.log.count("what `expect` of its source allows") == 2, daemon.log
        done = framectl_health(daemon)
        assert done.returncode == 2 and "\n  pipeline cam0: silent, for " in done.stdout, done


def test_a_producer_that_was_turned_away_is_the_reason(place):
    picture = {"pixels": "gray", "width": 64, "height": 64}
    entry = pipeline(picture, source={"expect": f"{pace(1) * 1000:.0f}ms", "protocol": "y4m"})
    idle = pipeline(picture, source={"protocol": "y4m"})
    with Daemon(place, {"cam0": entry, "cam1": idle}) as daemon:
        for name in ("cam0", "cam1"):
            with daemon.producer(name) as producer:
                producer.send(b"YUV4MPEG2 W32 H32 F25:1 Cmono\n")
                wait_until(lambda: daemon.view(name)["last_refusal"], lambda: "it is turned away")
        found = wait_degraded(daemon, "silent")
        for _ in range(2):
            view = daemon.view()
            assert view["last_refusal"]["text"] in found["text"] and "no producer is connected" not in found["text"], found
            assert found["text"] == view["last_error"] and found["remedy"] == view["last_refusal"]["remedy"], view
            found = wait_degraded(daemon, "silent")
        assert daemon.view("cam1")["last_error"] == daemon.view("cam1")["last_refusal"]["text"]
        assert daemon.view("cam1")["condition"] == "running"


def test_frames_that_are_held_up_behind_a_source_are_no_silence(place):
    entry = pipeline(FORMAT, source={"expect": f"{pace(1) * 1000:.0f}ms"}, slots=2)
    with Daemon(place, {"cam0": entry}) as daemon, daemon.producer() as producer:
        producer.send(numbered(2, SIZE).tobytes())
        daemon.wait_view("results wait for a reader", lambda view: view["waiting"] == "reader")
        wait_until(lambda: (daemon.view()["last_in_age_s"] or 0) > pace(4), "longer than is expected")
        assert degraded(daemon) == {}
        with daemon.reader() as reader:
            reader.frames(2, SIZE)
            daemon.command("/v1/pipelines/cam0/pause")
            wait_well(daemon)


def test_without_a_daemon_the_exit_status_is_one(place):
    done = subprocess.run([FRAMECTL, "-s", place / "status.sock", "health"], capture_output=True, text=True,
                          timeout=limit(20), env=environment(), check=False)
    assert done.returncode == 1 and "status.sock" in done.stderr, done


def test_a_file_that_is_read_at_a_pace_is_expected_to_give_frames(place):
    """Three frames' time and a second at least, without a word in the configuration."""
    os.mkfifo(place / "in")
    entries = {"cam0": pipeline(FORMAT, source={"file": str(place / "in"), "rate": 50}),
               "cam1": pipeline(FORMAT, source={"file": str(place / "in1")}), "cam2": pipeline(FORMAT)}
    (place / "in1").write_bytes(b"")
    with Daemon(place, entries) as daemon:
        assert wait_degraded(daemon, "silent")["text"].endswith("no producer is connected")
        assert set(degraded(daemon)) == {"cam0"}
