"""framebench load: what it says of a daemon agrees with what the daemon and its configuration say."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest

from harness import BINARY, Daemon, environment, limit, pipeline, slow_stage, wait_until

pytestmark = [pytest.mark.host, pytest.mark.measures]

ROOT = pathlib.Path(__file__).resolve().parents[2]
FRAMEBENCH = pathlib.Path(os.environ.get("FRAMEBENCH", BINARY.with_name("framebench"))).absolute()
COUNT = ROOT / "tools/framebench/instructions.py"
SIZE = 16384
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
SHORT = ("--duration", "300ms", "--warm-up", "100ms")


def framebench(place, *arguments, seconds=40):
    return subprocess.run([FRAMEBENCH, "load", "-s", place / "status.sock", *map(str, arguments)], capture_output=True,
                          text=True, env=environment(), timeout=limit(seconds), check=False)


def load(place, *arguments):
    """(rows of the trials, frames by pipeline, whole document) of a short run."""
    done = framebench(place, "--json", *SHORT, *arguments)
    assert done.returncode == 0 and not done.stderr, done
    document = json.loads(done.stdout)
    sections = document["sections"]
    return sections["load"], {row["pipeline"]: row for row in sections.get("frames", [])}, document


def load_in_time(place, *arguments):
    """The same of a run in whose window something came: where the machine stood still all the while there are no figures."""
    runs = []

    def something_came():
        runs.append(load(place, *arguments))
        (row,) = runs[-1][0]
        return row["answered"] > 0 and row["frames_per_s"] > 0
    wait_until(something_came, lambda: f"something comes while it is measured: {runs}")
    return runs[-1]


def percentiles(row):
    return [row[key] for key in ("p50_us", "p90_us", "p99_us", "p999_us", "p9999_us", "max_us")]


def test_frames_by_the_clock(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        (row,), frames, document = load(place, "--rate", 200, "cam0")
        assert row["offered"] == row["answered"] == 60 and row["lost"] == row["disordered"] == 0, row
        assert row["rate"] == 200 and row["numbered"] == "by stamp" and "note" not in row, row
        assert 0 < row["p50_us"] and percentiles(row) == sorted(percentiles(row)), row
        assert frames["cam0"]["in"] == frames["cam0"]["emitted"] == 80, frames
        assert document["daemon"]["pid"] == daemon.process.pid
        daemon.account(came=80, emitted=80)


def native(replies=True, source=None, **keys):
    sink = {"reply": True} if replies else {"overload": "block"}
    return pipeline(FORMAT, source={"protocol": "native", **(source or {})}, sink={**sink, "protocol": "native"}, **keys)


@pytest.mark.parametrize("replies", [True, False], ids=["reply", "consumer"])
@pytest.mark.parametrize("transport", ["shm", "stream"])
def test_native_pipelines_on_either_transport(place, transport, replies):
    with Daemon(place, {"cam0": native(replies)}) as daemon:
        (row,), frames, _ = load(place, "--transport", transport, "--rate", 200)
        assert row["transport"] == transport and row["offered"] == row["answered"] == 60 and row["lost"] == 0, row
        assert frames["cam0"]["in"] == frames["cam0"]["emitted"] == 80, frames
        (row,), _, _ = load_in_time(place, "--transport", transport)
        assert row["transport"] == transport and row["frames_per_s"] > 0 and row["lost"] == row["disordered"] == 0, row
        (row,), frames, _ = load_in_time(place, "--in-flight", 1, "--spin")
        assert row["transport"] == "shm" and row["p50_us"] > 0, row
        assert frames["cam0"]["in"] == frames["cam0"]["emitted"] >= row["answered"]
        came = daemon.frames()["in"]
        daemon.account(came=came, emitted=came)


def test_native_pipelines_with_several_clients(place):
    with Daemon(place, {"cam0": native(source={"clients": 3})}) as daemon:
        (row,), frames, _ = load(place, "--clients", 3, "--rate", 300)
        assert row["transport"] == "shm" and row["offered"] == row["answered"] == 90 and row["lost"] == 0, row
        came = frames["cam0"]["in"]
        daemon.account(came=came, emitted=came)


def test_there_is_a_transport_to_choose_for_native_pipelines_only(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        done = framebench(place, *SHORT, "--transport", "shm")
        assert done.returncode == 64 and "cam0 has no transport to choose" in done.stderr, done
        done = framebench(place, *SHORT, "--transport", "pigeon")
        assert done.returncode == 64 and "--transport does not take 'pigeon'" in done.stderr, done
        daemon.account(came=0)


def test_as_fast_as_frames_are_taken(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        (row,), frames, _ = load_in_time(place)
        assert row["frames_per_s"] > 0 and row["lost"] == 0 and row["asked"] == "max", row
        assert row["in_gb_per_s"] == pytest.approx(row["frames_per_s"] * SIZE / 1e9, rel=1e-3)
        assert row["cpu_user_s"] + row["cpu_system_s"] >= 0
        assert frames["cam0"]["in"] == frames["cam0"]["emitted"] >= row["answered"]
        came = daemon.frames()["in"]
        daemon.account(came=came, emitted=came)


@pytest.mark.parametrize("spin", [(), ("--spin",)])
def test_one_frame_in_flight(place, spin):
    with Daemon(place, {"cam0": pipeline(FORMAT, completion="spin", sink={"reply": True})}):
        (row,), _, _ = load_in_time(place, "--in-flight", 1, *spin)
        assert row["in_flight"] == 1 and row["answered"] > 0 and row["lost"] == 0, row
        assert 0 < row["p50_us"] and percentiles(row) == sorted(percentiles(row)), row


def test_many_clients_and_pipelines(place):
    pipelines = {name: pipeline(FORMAT, source={"clients": 3}, sink={"reply": True}) for name in ("front", "rear")}
    pipelines["other"] = pipeline(FORMAT)
    with Daemon(place, pipelines) as daemon:
        (row,), frames, _ = load(place, "--clients", 3, "--rate", 600, "front", "rear")
        assert row["clients"] == 6 and row["pipelines"] == 2 and row["offered"] == row["answered"] == 180, row
        assert {name: one["in"] for name, one in frames.items()} == {"front": 120, "rear": 120}
        assert daemon.frames("other")["in"] == 0


def test_y4m_and_results_of_another_size(place):
    image = {"pixels": "yuv420p", "width": 64, "height": 48}
    pipelines = {
        "video": pipeline(image, source={"protocol": "y4m"}, sink={"protocol": "y4m"}),
        "small": pipeline(image, stages=[{"resize": {"width": 32, "height": 24}}], sink={"reply": True}),
    }
    with Daemon(place, pipelines):
        (row,), _, _ = load(place, "--rate", 200, "video")
        assert row["answered"] == 60 and row["numbered"] == "by stamp", row
        (row,), _, _ = load(place, "--rate", 200, "small")
        assert row["answered"] == 60 and row["numbered"] == "by order", row
        assert row["out_gb_per_s"] == pytest.approx(row["in_gb_per_s"] / 4, rel=1e-2)


def test_results_whose_numbers_a_stage_has_changed(place):
    floats = {"dtype": "float32", "shape": [256]}
    with Daemon(place, {"cam0": pipeline(floats, stages=[{"affine": {"scale": 1.0, "offset": 1.0}}], sink={"reply": True})}):
        (row,), _, _ = load(place, "--rate", 200)
        assert row["numbered"] == "by order" and row["answered"] == 60 and row["lost"] == 0, row


def test_what_a_full_pipeline_drops(place):
    slow = pipeline(FORMAT, stages=[slow_stage(20)], slots=3, overload="drop-oldest")
    with Daemon(place, {"cam0": slow}) as daemon:
        (row,), frames, _ = load(place, "--rate", 500)
        dropped = frames["cam0"]["dropped"]["oldest"]
        assert row["offered"] == 150 and 0 < row["answered"] and row["lost"] == 150 - row["answered"] > 0, row
        assert row["numbered"] == "by stamp" and row["disordered"] == 0, row
        assert row["dropped"] == dropped > 0 and frames["cam0"]["in"] == 200 == frames["cam0"]["emitted"] + dropped
        daemon.account(came=200, emitted=200 - dropped, oldest=dropped)


def test_no_latency_where_results_cannot_be_told_apart(place):
    stages = [slow_stage(20), {"affine": {"scale": 2.0, "offset": 1.0}}]
    with Daemon(place, {"cam0": pipeline(FORMAT, stages=stages, slots=3, overload="drop-oldest")}):
        (row,), _, _ = load(place, "--rate", 500)
        assert row["dropped"] > 0 and row["numbered"] == "by order" and "p50_us" not in row, row
        assert "cannot be matched to frames; protocol: native" in row["note"], row
        done = framebench(place, *SHORT, "--rate", 500)
        assert done.returncode == 0 and f"\n  {row['note']}\n" in done.stdout, done
        done = framebench(place, *SHORT, "--search", "p99<5ms")
        assert done.returncode == 1 and "cannot be matched to frames" in done.stderr, done


@pytest.mark.parametrize("entry", [pipeline, lambda _format, **keys: native(**keys)], ids=["raw", "native"])
def test_a_slow_stage_shows_in_every_latency(place, entry):
    with Daemon(place, {"cam0": entry(FORMAT, stages=[slow_stage(20)], slots=1)}):
        (row,), _, _ = load_in_time(place, "--in-flight", 1)
        assert row["p50_us"] >= 0.97 * 20e3, row
        (row,), _, _ = load(place, "--rate", 100)  # it does 50: a frame that is due after 300 ms comes after 800
        assert row["max_us"] >= 0.97 * 350e3 and row["lost"] == 0, row


def test_the_search_ends_below_what_a_slow_stage_allows(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, stages=[slow_stage(10)], slots=1)}):
        trials, _, document = load(place, "--search", "p50<60ms")
        (found,) = document["sections"]["search"]
        assert found["goal"] == "p50<60ms" and 0 <= found["frames_per_s"] <= 110, found
        assert len(trials) >= 2 and trials[0]["asked"] == "max", trials
        none, _, document = load(place, "--search", "p50<1ms")
        assert document["sections"]["search"][0]["frames_per_s"] == 0 and len(none) > 5


def test_tables_for_people(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}):
        done = framebench(place, *SHORT, "--rate", 100)
        assert done.returncode == 0 and "P99.99" in done.stdout and "EMITTED" in done.stdout, done


@pytest.mark.parametrize("arguments, status, words", [
    (("nowhere",), 1, "there is no pipeline 'nowhere'"),
    (("--clients", "2", "cam0"), 64, "allows one client"),
    (("--clients", "2", "echo"), 1, "already"),
    (("cam0", "echo", "cam0"), 64, "cam0 is named twice"),
    (("--rate", "0"), 64, "--rate does not take '0'"),
    (("--rate", "1e10"), 64, "--rate does not take '1e10'"),
    (("--rate", "5", "--search", "p99<5ms"), 64, "--rate excludes --search"),
    (("--rate", "5", "--in-flight", "1"), 64, "--in-flight excludes --rate"),
    (("--in-flight", "0"), 64, "--in-flight does not take '0'"),
    (("--in-flight", "1000000"), 64, "give a whole number from 1 to "),
    (("--duration", "5"), 64, "--duration does not take '5'"),
    (("--warm-up", "1y"), 64, "--warm-up does not take '1y'"),
    (("--search", "p99"), 64, "--search does not take 'p99'"),
    (("--socket",), 64, "needs a value"),
    (("--nonsense",), 64, "no option --nonsense"),
    (("-xs", "here"), 64, "no option -x"),
    (("file",), 1, "writes its results to a file"),
])
def test_what_it_refuses(place, arguments, status, words):
    pipelines = {"cam0": pipeline(FORMAT), "echo": pipeline(FORMAT, sink={"reply": True}),
                 "file": pipeline(FORMAT, sink={"file": str(place / "results")})}
    with Daemon(place, pipelines):
        done = framebench(place, *SHORT, *arguments)
        assert done.returncode == status and words in done.stderr, done


# -- framebench daemon ---------------------------------------------------------------------------------------------------


def own_daemon(*arguments, **env):
    return subprocess.run([FRAMEBENCH, "daemon", "--quick", *arguments], capture_output=True, text=True, env=environment(env),
                          timeout=limit(50), check=False)


def test_a_daemon_of_its_own_beside_its_limits():
    done = own_daemon("--json", "--backend", "cpu", FRAMED_BINARY=str(BINARY))
    assert done.returncode == 0 and not done.stderr, done
    document = json.loads(done.stdout)
    assert document["command"] == "daemon" and document["backend"] == "cpu" and document["device"], document
    rows, targets = document["sections"]["daemon"], document["sections"]["targets"]
    assert {row["bytes"] for row in rows} == {4096, 1 << 20, 4 << 20}
    for row in rows:
        assert row.get("lost", 0) == 0 and row.get("dropped", 0) == 0 and row.get("frames_per_s", 1) > 0, row
    assert [target["unit"] for target in targets] == ["GB/s", "GB/s", "us", "frames/s"], targets
    assert all(target["limit_value"] > 0 for target in targets), targets


def test_windows_in_which_nothing_comes_back_are_made_longer(place):
    """As on a machine with no processor to spare: one frame of the small ones takes longer than a window."""
    program = place / "framed"
    program.write_text(f"""#!{sys.executable}
import json, os, pathlib, sys
file = pathlib.Path(sys.argv[2])
config = json.loads(file.read_text())
config["pipelines"]["small"]["stages"] = [{slow_stage(150)!r}]
file.write_text(json.dumps(config))
os.execv({str(BINARY)!r}, sys.argv)
""")
    program.chmod(0o755)
    done = own_daemon("--json", "--backend", "cpu", FRAMED_BINARY=str(program))
    assert done.returncode == 0 and not done.stderr, done
    rows = [row for row in json.loads(done.stdout)["sections"]["daemon"] if "daemon" in row["what"] and row["bytes"] == 4096]
    assert rows and all(row["answered"] > 0 and row["p50_us"] > 100_000 for row in rows), rows


def test_a_daemon_that_does_not_start(place):
    program = place / "framed"
    program.write_text("#!/bin/sh\necho no such luck >&2\nexit 78\n")
    program.chmod(0o755)
    done = own_daemon(FRAMED_BINARY=str(program))
    assert done.returncode == 1 and "the daemon ended" in done.stderr and "no such luck" in done.stderr, done
    done = own_daemon(FRAMED_BINARY=str(place / "nothing"))
    assert done.returncode == 1 and "no daemon to measure" in done.stderr and "FRAMED_BINARY" in done.stderr, done


# -- instructions.py -------------------------------------------------------------------------------------------------------


@pytest.mark.slow  # valgrind does not run the programs of sanitizers
def test_instructions_a_frame_on_the_lane():
    done = subprocess.run([sys.executable, COUNT, "--json", "--quick", "--programs", BINARY.parent], capture_output=True,
                          text=True, timeout=limit(50), check=False)
    assert done.returncode == 0 and not done.stderr, done
    document = json.loads(done.stdout)
    rows, (target,) = document["sections"]["instructions"], document["sections"]["targets"]
    ways = ["saturated", "one frame in flight"]
    assert [row["way"] for row in rows] == [*ways, *(f"{way}, {how}" for how in ("noted for a kill", "in shared memory")
                                                     for way in ways)]
    for row in rows:
        assert row["instructions_per_frame"] == pytest.approx(row["instructions"] / row["frames"], rel=1e-3), row
    assert target["value"] == rows[0]["instructions_per_frame"] > 500 and target["at_most"] == 3200, target


@pytest.mark.skipif(not shutil.which("strace"), reason="needs strace")
def test_system_calls_a_frame_in_shared_memory():
    done = subprocess.run([sys.executable, COUNT.with_name("system_calls.py"), "--json", "--quick", "--programs", BINARY.parent],
                          capture_output=True, text=True, timeout=limit(50), check=False)
    if done.returncode != 0 and "strace cannot watch here" in done.stderr:
        pytest.skip("tracing is not allowed here")
    assert done.returncode == 0 and not done.stderr, done
    document = json.loads(done.stdout)
    rows, targets = document["sections"]["system_calls"], document["sections"]["targets"]
    sides = ["daemon", "client"]
    assert [row["side"] for row in rows] == [*sides, *(f"{side}, with a consumer" for side in sides)]
    for row, target in zip(rows, targets):
        assert row["calls_per_frame"] == pytest.approx(sum(row["calls"].values()) / row["frames"], abs=1e-4), row
        assert "epoll_wait" not in row["calls"] and target["value"] == row["calls_per_frame"], row
        assert target["at_most"] == 0.01 and target["reached"] in ("yes", "no"), target


def test_no_daemon(place):
    done = framebench(place)
    assert done.returncode == 69 and "does not answer" in done.stderr, done


@pytest.mark.parametrize("sink", [{"protocol": "native"}, {"reply": True}], ids=["consumer", "reply"])
def test_a_daemon_that_is_killed_is_not_waited_for(place, sink):
    """Neither by a producer whose last frames are under way or still to come, nor by the consumer beside it."""
    with Daemon(place, {"cam0": pipeline(FORMAT, source={"protocol": "native"}, sink=sink)}) as daemon:
        with subprocess.Popen([FRAMEBENCH, "load", "-s", place / "status.sock", "--rate", "2000", "--duration", "20s"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()) as load_process:
            daemon.wait_view("frames come", lambda view: view["frames"]["emitted"] > 100)
            began = time.monotonic()
            daemon.kill()
            _, said = load_process.communicate(timeout=limit(25))
            assert load_process.returncode in (1, 69) and said.startswith("framebench: "), said
            assert time.monotonic() - began < limit(5), said
        daemon.settled = daemon.leaves_sockets = True


@pytest.mark.takes(40)
def test_results_under_way_come_back_where_the_time_ends_before_the_frames(place):
    entry = pipeline(FORMAT, source={"protocol": "native"}, sink={"reply": True})
    with Daemon(place, {"cam0": entry}):
        (row,), frames, _ = load(place, "--rate", "1e9", "--warm-up", "0s", "cam0")
        assert frames["cam0"]["in_flight"] == 0 and row["answered"] == frames["cam0"]["in"], (row, frames)


def test_a_daemon_that_goes_away(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}, drain_timeout="0s") as daemon:
        with subprocess.Popen([FRAMEBENCH, "load", "-s", place / "status.sock", "--rate", "100", "--duration", "30s"],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment()) as load_process:
            daemon.wait_view("frames come", lambda view: view["frames"]["emitted"] > 0)
            daemon.signal(15)
            _, said = load_process.communicate(timeout=limit(25))
            assert load_process.returncode in (1, 69) and said.startswith("framebench: "), said
        daemon.ends(0)
