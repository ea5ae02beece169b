"""What bounds a pipeline, as status and framectl tell it, and what framectl plan makes of times."""

import itertools
import json
import subprocess
import threading
import time

import pytest

from harness import BACKEND, FRAMECTL, Background, Daemon, environment, limit, numbered, pipeline, wait_until, whole
from test_doctor import Answer, FakeDaemon

pytestmark = pytest.mark.measures

PATIENT = {"backend": BACKEND, "timeout": "60s"}  # without optimisation its frames take seconds
SIZE = 65536
HEAVY = {"work": {"rounds": 300 if BACKEND == "cpu" else 30000}}  # longer than anything else that a frame goes through
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
KEYS = {"ratio", "speedup", "ideal_speedup", "bound_by", "advice", "improve", "gain", "slots", "kernels_at_once", "turnaround_us", "host_us",
        "service_us", "succession_us", "alone_us", "devices"}


def framectl(place, *arguments, seconds=20):
    return subprocess.run([FRAMECTL, "-s", place / "status.sock", *map(str, arguments)], capture_output=True, text=True,
                          env=environment(), timeout=limit(seconds), check=False)


def plan(place, *arguments):
    done = framectl(place, "--json", "plan", *arguments)
    assert done.returncode == 0 and not done.stderr, done
    return json.loads(done.stdout)


class Load:
    """Frames without end into one pipeline, and its results read to their end, `pause` seconds after each piece."""

    def __init__(self, daemon, pause=0.0):
        self.stop = threading.Event()
        self.daemon, self.pause = daemon, pause

    def __enter__(self):
        self.reader = self.daemon.reader()
        self.producer = self.daemon.producer()
        self.threads = [Background(self.produce), Background(self.drain)]
        return self

    def __exit__(self, *error):
        self.stop.set()
        self.threads[0].join()
        self.producer.close()
        if error[0] is None:
            self.daemon.finish()
        else:
            self.daemon.kill()
        self.threads[1].join()

    def produce(self):
        for number in itertools.count():
            if self.stop.is_set():
                return
            self.producer.send(whole(number % 100, SIZE).tobytes())

    def drain(self):
        while self.reader.socket.recv(SIZE):
            if not self.stop.is_set():
                time.sleep(self.pause)


def bound_by(name):
    return lambda view: view["overlap"]["bound_by"] == name and view["frames"]["emitted"] > 20


# -- status ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("completion", ["callback", "spin"])
def test_heavy_stages_bound_by_the_kernel(place, completion):
    entry = pipeline(FORMAT, stages=[HEAVY], slots=4, completion=completion)
    with Daemon(place, {"cam0": entry}, lanes=1, gpu=PATIENT) as daemon:
        with Load(daemon):
            view = daemon.wait_view("the kernel bounds it", bound_by("kernel"), seconds=30)
            overlap = view["overlap"]
            assert set(overlap) == KEYS, overlap
            assert overlap["slots"] == 4 and overlap["kernels_at_once"] >= 1, overlap
            assert overlap["speedup"] > 0 and 0 <= overlap["ratio"] < 1 and overlap["gain"] >= 1, overlap
            # what it says may be another thing a second later, so that one of two answers alone proves nothing
            says = {"text": "", "view": {}}

            def says_the_same():
                says.update(view=daemon.view()["overlap"], text=framectl(place, "status", "cam0").stdout)
                return f"by kernel: {says['view']['advice']}" in says["text"]
            wait_until(says_the_same, lambda: f"framectl shows the bound and the advice of status: {says['view']}\n{says['text']}", 30)
            wait_until(lambda: 'framed_pipeline_bound{pipeline="cam0",by="kernel"} 1' in daemon.metrics(), daemon.metrics, 30)


def test_a_slow_reader_bounds_by_the_reader(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, slots=3)}) as daemon:
        with Load(daemon, pause=0.05):
            view = daemon.wait_view("the reader bounds it", bound_by("reader"), seconds=30)
            assert "reader" in view["overlap"]["advice"], view


def test_a_paced_source_bounds_by_the_source(place):
    (place / "frames").write_bytes(numbered(50, SIZE).tobytes())
    source = {"file": str(place / "frames"), "rate": 50, "loop": True}
    with Daemon(place, {"cam0": pipeline(FORMAT, source=source)}) as daemon:
        with daemon.reader() as reader:
            reading = Background(lambda: [reader.frames(10, SIZE) for _ in range(6)])
            daemon.wait_view("the source bounds it, and nothing is to be changed", lambda view: bound_by("source")(view) and
                             "nothing to change here" in view["overlap"]["advice"] and view["overlap"]["gain"] == 1, seconds=30)
            reading.join()
            daemon.command("/v1/pipelines/cam0/pause")
            daemon.settled = daemon.leaves_frames = True


def test_nobody_there_is_the_source_too(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        overlap = daemon.view()["overlap"]
        assert set(overlap) == KEYS and overlap["bound_by"] == "source" and overlap["speedup"] == 0, overlap
        daemon.command("/v1/pipelines/cam0/pause")
        view = daemon.wait_view("nothing bounds it while it is paused", lambda view: view["overlap"]["bound_by"] == "nothing")
        assert "resume" in view["overlap"]["advice"], view


# -- plan --------------------------------------------------------------------------------------------------------------------


@pytest.mark.host
def test_plan_of_four_chunks(place):
    """30, 20 and 30 ms in four chunks on two slots: the third chunk waits for a slot."""
    times = ["--h2d", "30ms", "--kernel", "20ms", "--d2h", "30ms", "--chunks", "4"]
    document = plan(place, *times, "--slots", "2")
    assert document["serial_us"] == 80000 and document["wall_us"] == 47500 and document["bound_us"] == 42500, document
    assert round(document["speedup"], 2) == 1.68 and round(document["bound_speedup"], 2) == 1.88
    assert document["bound_by"] == "h2d" and "pipeline_bound_by" not in document
    assert document["slots_for_bound"] == 3 and [entry["wall_us"] for entry in document["by_slots"]][:4] == [
        80000, 47500, 42500, 42500]
    assert [frame["h2d"] for frame in document["timeline"]] == [[0, 7500], [7500, 15000], [20000, 27500], [27500, 35000]]
    done = framectl(place, "plan", *times)
    for part in ("47.5 ms against 80.0 ms", "1.68 times", "bound: 42.5 ms, 1.88 times, by h2d, reached with 3 slots", "two streams"):
        assert part in done.stdout, done
    assert done.returncode == 0 and not done.stderr, done


@pytest.mark.host
def test_plan_of_two_frames(place):
    done = framectl(place, "plan", "--h2d", "1s", "--kernel", "1s", "--d2h", "1s", "--frames", "2", "--slots", "2")
    assert "4.00 s against 6.00 s, 1.50 times" in done.stdout, done
    rows = {line[:10].strip(): line[10:] for line in done.stdout.splitlines() if line[:8] in ("copy in ", "kernel  ", "copy out")}
    third = len(rows["kernel"]) // 4
    assert rows["copy in"].startswith("0" * (third - 1)) and rows["copy out"].endswith("1" * (third - 1)), rows
    assert rows["kernel"].strip(".").startswith("0") and rows["kernel"].strip(".").endswith("1"), rows


@pytest.mark.host
def test_plan_of_more_slots_than_its_table_has(place):
    done = framectl(place, "plan", "--h2d", "1ms", "--kernel", "1ms", "--d2h", "1ms", "--turnaround", "20ms", "--slots", "12")
    rows = [line.split() for line in done.stdout.splitlines() if line.split()[-1:] == ["%"]]
    assert [row[:-1][0] for row in rows] == [*map(str, range(1, 9)), "*"] and rows[-1][1] == "12", rows


@pytest.mark.host
@pytest.mark.parametrize("arguments, said", [
    ([], "--h2d"), (["--h2d", "1ms"], "--kernel"), (["--h2d", "30", "--kernel", "1s", "--d2h", "1s"], "30"),
    (["--h2d", "1s", "--kernel", "1s", "--d2h", "1s", "--slots", "65"], "64"),
    (["--h2d", "1s", "--kernel", "1s", "--d2h", "1s", "--chunks", "0"], "--chunks"),
    (["--h2d", "1s", "--kernel", "1s", "--d2h", "1s", "--chunks", "2", "--frames", "2"], "exclude"),
    (["--from", "cam0", "--chunks", "2"], "whole frames"), (["cam0"], "cam0"),
], ids=str)
def test_plan_names_what_is_wrong(place, arguments, said):
    done = framectl(place, "plan", *arguments)
    assert done.returncode == 64 and not done.stdout and said in done.stderr, done


def test_plan_from_a_running_daemon(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, stages=[HEAVY], slots=2)}, gpu=PATIENT) as daemon:
        done = framectl(place, "plan", "--from", "cam0")
        assert done.returncode == 1 and "no frame" in done.stderr, done
        with Load(daemon):
            daemon.wait_view("frames pass", lambda view: view["frames"]["emitted"] > 20)
            document = plan(place, "--from", "cam0")
            assert document["pipeline"] == "cam0" and document["work"]["slots"] == 2, document
            assert document["work"]["kernel_us"] > 0 and len(document["by_slots"]) == 8, document
            walls = [entry["wall_us"] for entry in document["by_slots"]]
            assert walls == sorted(walls, reverse=True) and walls[0] > 0, walls
            said = framectl(place, "plan", "--from", "cam0").stdout
            assert "cam0, measured" in said and "for newer frames" not in said and "(now it is bound by " in said, said


def test_a_busy_neighbour_on_its_lane_is_not_its_own_work(place):
    """A frame every 20 ms, beside a pipeline whose frames keep the lane busy: most of that is not for this frame."""
    small = {"dtype": "uint8", "shape": [512]}
    entries = {"cam0": pipeline(FORMAT), "rear": pipeline(small)}
    with Daemon(place, entries, lanes=1) as daemon, daemon.reader("rear") as reader:
        reading = Background(reader.rest)
        with Load(daemon), daemon.producer("rear") as producer:
            stop = threading.Event()

            def produce():
                while not stop.wait(0.02):
                    producer.send(whole(1, 512).tobytes())

            producing = Background(produce)
            daemon.wait_view("frames have passed", lambda view: view["throughput"]["window_s"] > 5, name="rear", seconds=30)
            views = daemon.status()["pipelines"]
            stop.set()
            producing.join()
            shares = [view["overlap"]["host_us"] * view["throughput"]["fps"] / 1e6 for view in (views["cam0"], views["rear"])]
            assert 0 < shares[1] < shares[0] / 3, (shares, views)
        reading.join()


def test_plan_and_status_name_the_same_bound(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, stages=[HEAVY], slots=4)}, lanes=1, gpu=PATIENT) as daemon:
        with Load(daemon):
            daemon.wait_view("the kernel bounds it", bound_by("kernel"), seconds=30)
            seen = {}

            def both():
                seen.update(plan(place, "--from", "cam0"))
                return (seen["bound_by"], seen["pipeline_bound_by"]) == ("kernel", "kernel")

            def both_in_words():
                seen["text"] = framectl(place, "plan", "--from", "cam0").stdout
                return "(now it is bound by kernel)" in seen["text"] and ", by kernel, " in seen["text"]
            wait_until(both, lambda: f"both are bound by the kernel: {seen}", 30)
            wait_until(both_in_words, lambda: f"both are said to be: {seen['text']}", 30)


class HostBeside(Answer):
    """A pipeline whose host does 50 of its 60 us on a frame while that is copied in."""

    step = {"count": 10, "mean": 20}
    body = json.dumps({"version": "0.1.0", "backend": "cuda", "device": "Fake GPU", "pipelines": {"cam0": {
        "state": "running", "slots": 1, "sessions": 1, "latency_us": {"h2d": step, "kernel": step, "d2h": step},
        "overlap": {"slots": 1, "kernels_at_once": 1, "turnaround_us": -50, "host_us": 60}}}}).encode()


class Starved(Answer):
    """A pipeline whose host could carry a tenth of what its device can, if there were frames."""

    step = {"count": 10, "mean": 20}
    body = json.dumps({"version": "0.1.0", "backend": "cuda", "device": "Fake GPU", "pipelines": {"cam0": {
        "state": "running", "slots": 1, "sessions": 1, "latency_us": {"h2d": step, "kernel": step, "d2h": step},
        "overlap": {"slots": 1, "kernels_at_once": 1, "host_us": 200, "bound_by": "source", "advice": "nothing to change here",
                    "speedup": 1, "ideal_speedup": 2}}}}).encode()


@pytest.mark.host
def test_plan_of_a_pipeline_that_waits_for_frames_says_so(place):
    with FakeDaemon(str(place / "status.sock"), Starved):
        said = framectl(place, "plan", "--from", "cam0").stdout
        assert "(now it is bound by source; the plan assumes that frames are always available" in said, said
        assert ", by host, " in said, said
        said = framectl(place, "status", "cam0").stdout
        assert "at best 2.00 times as fast, which matters only when frames come faster\n  bound     by source: nothing" in said, said
        document = plan(place, "--from", "cam0")
        assert (document["bound_by"], document["pipeline_bound_by"]) == ("host", "source"), document


@pytest.mark.host
def test_plan_lets_no_slot_be_taken_before_its_copy_out(place):
    """Where the host is said to do less, no more than that is done beside a copy."""
    with FakeDaemon(str(place / "status.sock"), HostBeside):
        for arguments, turnaround, wall in ([], -50, 10 * 70 + 50), (["--host", "0us"], 0, 600), (["--host", "20us"], -20, 620):
            document = plan(place, "--from", "cam0", "--frames", "10", *arguments)
            assert (document["work"]["turnaround_us"], document["wall_us"]) == (turnaround, wall), document
        said = framectl(place, "plan", "--from", "cam0").stdout
        assert "host 60 us (50 us of it beside a copy in), each of" in said and "turnaround" not in said, said


def test_plan_from_a_pipeline_that_keeps_slots_free(place):
    entry = pipeline(FORMAT, stages=[HEAVY], slots=3, overload="drop-oldest")
    with Daemon(place, {"cam0": entry}, gpu=PATIENT) as daemon:
        with Load(daemon):
            daemon.wait_view("frames pass", lambda view: view["frames"]["emitted"] > 5)
            said = framectl(place, "plan", "--from", "cam0").stdout
            assert "on 1 slot\n" in said and "(of the pipeline's 3 slots drop-oldest keeps 2 for newer frames, so 1 works)\n" in said, said
            assert ": one slot takes one frame after the other, so that no work is hidden" in said and "against" not in said, said
