"""What comes in is recorded, always or around what was seen, and replayed with the same results each time."""

import hashlib
import json
import os
import resource
import signal
import subprocess
import time

import numpy
import pytest

from harness import BACKEND, FRAMECTL, Background, Daemon, complete, limit, numbered, pipeline, run_framed, wait_until, whole
from harness.native import PRODUCER, Native
from harness.recordings import ENTRY, FORMAT, HEAD, SIZE, feed, parts, read_index
from harness.store import start

# -- what comes in ----------------------------------------------------------------------------------------------------


MEMORY = "8MiB"


def recording(place, stages=(), format=None, **record):
    """A pipeline whose results go nowhere. The daemon has the memory of a recording from the start, hence little of it."""
    record = {"file": str(place / "in-%Y%m%d-%H%M%S.raw"), "memory": MEMORY, **record}
    return {"cam0": pipeline(format or FORMAT, stages=stages, sink={"file": "/dev/null"}, record=record)}


def recorded(place):
    """The frames in the recording, by the index of each segment and held to their payload: [[numbers], ...]."""
    found = []
    for path in place.glob("in-*.raw"):
        (*_, owner), entries = read_index(path.with_name(path.name + ".index"))
        assert owner.rstrip(b"\0") == b"cam0 input"
        found.append(([entry[2] for entry in entries], path.read_bytes(), entries[0][4]))
    return [(numbers, data) for numbers, data, _ in sorted(found, key=lambda entry: entry[2])]


def test_all_that_comes_in_is_recorded(place):
    with Daemon(place, recording(place, size=f"{10 * SIZE}B")) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(35, SIZE).tobytes())
            daemon.account(came=35, emitted=35)
    found = recorded(place)
    assert [len(numbers) for numbers, _ in found] == [10, 10, 10, 5]
    assert b"".join(data for _, data in found) == numbered(35, SIZE).tobytes() and parts(place) == []


def test_frames_that_are_dropped_are_recorded_too(place):
    entries = recording(place, stages=[{"work": {"rounds": 3000}}], memory="64MiB")
    entries["cam0"].update(overload="drop-oldest", slots=4)
    with Daemon(place, entries) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(60, SIZE).tobytes())
            daemon.wait_view("all came", lambda view: view["frames"]["in"] == 60 and view["frames"]["in_flight"] == 0)
            assert daemon.frames()["dropped"]["oldest"] > 0
    assert b"".join(data for _, data in recorded(place)) == numbered(60, SIZE).tobytes()


def test_an_event_is_recorded_with_what_came_before(place):
    with Daemon(place, recording(place, when="event", before="60s", after="1ms", memory=f"{8 * SIZE}B")) as daemon:
        with daemon.producer() as producer:
            for round in range(2):
                feed(daemon, producer, 20 * round, 20)
                done = subprocess.run([FRAMECTL, "-s", daemon.socket, "record", "cam0"], capture_output=True, text=True,
                                      timeout=limit(20), check=False)
                assert done.returncode == 0 and "is recording" in done.stdout, done
                wait_until(lambda: len(recorded(place)) == round + 1, lambda: "the event is recorded")
            feed(daemon, producer, 40, 5)
    assert [numbers for numbers, _ in recorded(place)] == [list(range(12, 20)), list(range(32, 40))]


def test_an_upgrade_costs_a_recording_no_frame(place):
    """The frames are so large that some wait to be written when the next process takes over."""
    large, count = 1 << 20, 200
    frames = numbered(count, large).tobytes()
    with Daemon(place, recording(place, format={"dtype": "uint8", "shape": [large]}, memory="256MiB")) as daemon:
        with daemon.producer() as producer:
            sending = Background(producer.send, frames)
            daemon.signal(signal.SIGUSR2)
            wait_until(lambda: "took over" in daemon.log, lambda: daemon.log)
            sending.join()
            daemon.account(came=count, emitted=count)
    found = recorded(place)
    assert [number for numbers, _ in found for number in numbers] == list(range(count))
    assert b"".join(data for _, data in found) == frames


def test_upgrades_at_seams_cost_a_recording_no_frame(place):
    with Daemon(place, recording(place, size=f"{3 * SIZE}B")) as daemon:
        with daemon.producer() as producer:
            sending = Background(producer.send, numbered(300, SIZE).tobytes())
            for number in range(3):
                daemon.signal(signal.SIGUSR2)
                wait_until(lambda: daemon.log.count("took over") > number, lambda: daemon.log)
            sending.join()
            daemon.account(came=300, emitted=300)
    assert [number for numbers, _ in recorded(place) for number in numbers] == list(range(300)) and parts(place) == []


def test_faults_at_seams_cost_a_recording_no_frame(place):
    strikes = {"fault": {"kind": "illegal", "at": 20, "every": 20, "again": "no"}}
    with Daemon(place, recording(place, stages=[strikes], size=f"{3 * SIZE}B"), gpu={"backend": BACKEND, "faults": "60/min"}) as daemon:
        with daemon.producer() as producer:
            sending = Background(producer.send, numbered(150, SIZE).tobytes())
            daemon.account(came=150, emitted=150)
            sending.join()
        assert daemon.status()["handovers"]["fault"] >= 2
    assert [number for numbers, _ in recorded(place) for number in numbers] == list(range(150)) and parts(place) == []


def test_a_kill_costs_a_recording_nothing_that_was_written(place, store):
    """What only waits in memory ends with its process; what is in a file stays there once, and the next segment follows it."""
    with start(place, store, recording(place)) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 20)
            wait_until(lambda: sum(path.stat().st_size for path in place.glob("in-*.raw.part")) == 20 * SIZE, "all are written")
            store.kill(daemon)
            feed(daemon, producer, 20, 20)
        daemon.write({"cam1": pipeline(FORMAT)})
        daemon.command("/v1/reload")
        wait_until(lambda: parts(place) == [], lambda: f"all segments are finished: {parts(place)}")
    found = recorded(place)
    assert len(found) == 2 and b"".join(data for _, data in found) == numbered(40, SIZE).tobytes()


def test_a_reload_begins_the_recording_anew(place):
    with Daemon(place, recording(place)) as daemon:
        for turn, size in enumerate(("1GiB", "2GiB")):
            with daemon.producer() as producer:
                feed(daemon, producer, 0, 5)
            daemon.write({**recording(place, size=size), "keep": pipeline(FORMAT)})
            daemon.command("/v1/reload")
            wait_until(lambda: len(recorded(place)) == turn + 1, lambda: "the recording before is finished")
        daemon.write({"keep": pipeline(FORMAT)})
        daemon.command("/v1/reload")
        assert parts(place) == [] and [numbers for numbers, _ in recorded(place)] == [list(range(5))] * 2


def test_what_is_not_recorded_on_demand_says_so(place):
    with Daemon(place, {**recording(place), "cam1": pipeline(FORMAT)}) as daemon:
        assert [daemon.post(f"/v1/pipelines/{name}/record")[0] for name in ("cam0", "cam1")] == [409, 409]
        assert "always recorded" in daemon.post("/v1/pipelines/cam0/record")[1]["error"]
        daemon.quiet()


def moving(frames):
    """Pictures of 64x64, grey but for a white square that stands still until it jumps in each of `frames`."""

    pictures = numpy.full((max(frames) + 20, 64, 64), 64, numpy.uint8)
    for number in range(len(pictures)):
        jumps = sum(number >= frame for frame in frames)
        pictures[number, 16:32, 8 + 16 * (jumps % 3):24 + 16 * (jumps % 3)] = 255
    return pictures


def test_what_is_around_boxes_is_recorded(place):
    pictures = moving([60])
    entries = recording(place, [{"motion": {"output": "boxes", "rate": 1, "threshold": 25}}], when="boxes", before="60s",
                        after="1ms", memory=f"{10 * 4096}B", format={"pixels": "gray", "width": 64, "height": 64})
    with Daemon(place, entries) as daemon:
        with daemon.producer() as producer:
            for picture in pictures:
                came = daemon.frames()["in"]
                producer.send(picture.tobytes())
                daemon.wait_view("it has its fate", lambda view: view["frames"]["in"] == came + 1 and
                                 view["frames"]["in_flight"] == 0)
    found = recorded(place)
    assert len(found) == 1 and 60 in found[0][0] and len(found[0][0]) >= 9 and found[0][0][0] >= 50, found


def test_a_disk_that_is_full_costs_the_recording_frames_and_nobody_else(place):
    with Daemon(place, recording(place)) as daemon:
        with daemon.producer() as producer:
            resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (SIZE // 2, resource.RLIM_INFINITY))
            producer.send(numbered(400, SIZE).tobytes())
            daemon.account(came=400, emitted=400)
            wait_until(lambda: "(EFBIG)" in daemon.request("GET", "/v1/health")[1], lambda: "health says so")
    assert recorded(place) == []


def test_recordings_are_checked(place):
    cases = {"names of their own": {"file": str(place / "in")}, "no boxes": {"when": "boxes"}, "y4m cannot": {"protocol": "y4m"}}
    for said, record in cases.items():
        file = place / "framed.yaml"
        file.write_text(json.dumps(complete(place, recording(place, **record))))
        done = run_framed("--check", "-c", file)
        assert done.returncode == 78 and said in done.stderr, (said, done)


# -- the same again -----------------------------------------------------------------------------------------------------

PICTURE = {"pixels": "gray", "width": 64, "height": 64}
MOTION = [{"motion": {"output": "mask", "rate": 0.3, "threshold": 25}}]


@pytest.fixture
def recorded_results(place):
    """(a recording, the results of its frames when they came) of a pipeline with motion and of two producers."""
    record = {"file": str(place / "in-%Y%m%d-%H%M%S.raw"), "memory": MEMORY}
    entries = {"cam0": pipeline(PICTURE, stages=MOTION, sink={"file": str(place / "results")}, record=record)}
    with Daemon(place, entries) as daemon:
        for turn in range(2):
            with daemon.producer() as producer:
                for picture in moving([5, 17])[:25]:
                    producer.send(picture.tobytes())
                daemon.wait_view("they came", lambda view: view["frames"]["emitted"] == 25 * (turn + 1))
            daemon.wait_view("it left", lambda view: view["sessions"] == 0)
    recording, = place.glob("in-*.raw")
    return recording, (place / "results").read_bytes()


def replay(place, recording, stages=MOTION, **keys):
    output = place / "again"
    output.unlink(missing_ok=True)
    keys = {"source": {"file": str(recording), "pace": "asap"}, **keys}
    entry = pipeline(PICTURE, stages=stages, sink={"file": str(output)}, **keys)
    with Daemon(place, {"cam0": entry}, ready=False) as daemon:
        daemon.ends(0)
    return output.read_bytes(), daemon.final_account()


@pytest.mark.parametrize("pace", ["asap", "recorded", "20x"])
def test_a_replay_gives_the_same_results(place, recorded_results, pace):
    recording, results = recorded_results
    again, _ = replay(place, recording, source={"file": str(recording), "pace": pace}, overload="drop-oldest")
    assert hashlib.sha256(again).digest() == hashlib.sha256(results).digest()


def test_an_index_of_version_1_is_replayed(place, recorded_results):
    """It has no epochs."""
    recording, results = recorded_results
    index = recording.with_name(f"{recording.name}.index")
    head, entries = read_index(index)
    index.write_bytes(HEAD.pack(head[0], 1, 64, *head[3:]) + b"".join(ENTRY.pack(*entry)[:64] for entry in entries))
    assert replay(place, recording)[0] == results


def test_a_replay_takes_as_long_as_the_recording(place):
    with Daemon(place, recording(place)) as daemon:
        with daemon.producer() as producer:
            for number in range(4):
                producer.send(whole(number, SIZE).tobytes())
                time.sleep(0.25)
    segment, = place.glob("in-*.raw")
    entry = pipeline(FORMAT, source={"file": str(segment), "pace": "recorded"}, sink={"file": str(place / "again")})
    began = time.monotonic()
    with Daemon(place, {"cam0": entry}, ready=False) as daemon:
        daemon.ends(0)
    assert time.monotonic() - began >= 0.75 and (place / "again").read_bytes() == segment.read_bytes()


def test_a_step_of_the_clock_is_no_pause(place, recorded_results):
    """The clock went forward by an hour in the middle, and back at the end: a replay stood still for an hour."""
    recording, results = recorded_results
    index = recording.with_name(f"{recording.name}.index")
    head, entries = read_index(index)
    later = [(*entry[:4], entry[4] + 3600 * 10**9, entry[5] + 3600 * 10**9, *entry[6:]) for entry in entries[20:40]]
    index.write_bytes(HEAD.pack(*head) + b"".join(ENTRY.pack(*entry) for entry in entries[:20] + later + entries[40:]))
    again, _ = replay(place, recording, source={"file": str(recording), "pace": "recorded"})
    assert again == results


@pytest.mark.parametrize("field, value", [(0, 2**63), (1, 0), (1, 2**64 - 1), (4, -2**63), (5, 2**63 - 1)])
def test_a_damaged_index_is_refused(place, recorded_results, field, value):
    recording, _ = recorded_results
    index = recording.with_name(f"{recording.name}.index")
    head, entries = read_index(index)
    entries[7] = (*entries[7][:field], value, *entries[7][field + 1:])
    index.write_bytes(HEAD.pack(*head) + b"".join(ENTRY.pack(*entry) for entry in entries))
    entry = pipeline(PICTURE, source={"file": str(recording), "pace": "recorded"}, sink={"file": "/dev/null"})
    with Daemon(place, {"cam0": entry}, ready=False) as daemon:
        daemon.settled = daemon.leaves_sockets = True
        daemon.ends(78)
    assert "is damaged" in daemon.log


def test_frames_that_came_too_late_are_late_in_each_replay(place):
    """Their age is that of the recording, however long a frame waits here."""
    native = {"protocol": "native"}
    record = {"file": str(place / "in-%Y%m%d-%H%M%S.raw"), "memory": MEMORY}
    entries = {"cam0": pipeline(FORMAT, source=native, sink={"file": "/dev/null"}, record=record)}
    with Daemon(place, entries) as daemon:
        with Native(daemon.path("cam0", "source"), PRODUCER) as producer:
            for number in range(20):
                old = 10**9 if number % 4 == 0 else 0
                producer.send_frame(whole(number, SIZE).tobytes(), sequence=number, timestamp=time.monotonic_ns() - old)
            daemon.wait_view("they came", lambda view: view["frames"]["emitted"] == 20)
    segment, = place.glob("in-*.raw")
    for _ in range(2):
        output = place / "again"
        entry = pipeline(FORMAT, source={"file": str(segment), "pace": "asap"}, sink={"file": str(output)}, deadline="500ms",
                         stages=[{"work": {"rounds": 300}}])
        with Daemon(place, {"cam0": entry}, ready=False) as daemon:
            daemon.ends(0)
        assert daemon.final_account() == {"in": 20, "emitted": 15, "late": 5}
        output.unlink()


def test_what_is_no_recording_is_refused(place, recorded_results):
    recording, _ = recorded_results
    recording.with_name(recording.name + ".index").rename(place / "index")
    entry = pipeline(PICTURE, source={"file": str(recording), "pace": "asap"}, sink={"file": "/dev/null"})
    with Daemon(place, {"cam0": entry}, ready=False) as daemon:
        daemon.settled = daemon.leaves_sockets = True
        daemon.ends(78)
    assert "which have an index" in daemon.log


def test_an_index_that_cannot_be_opened_for_now_is_waited_for(place, recorded_results):
    recording, _ = recorded_results
    index = recording.with_name(recording.name + ".index")
    index.rename(place / "index")
    os.mkfifo(index)
    entry = pipeline(PICTURE, source={"file": str(recording), "pace": "asap"}, sink={"file": "/dev/null"})
    with Daemon(place, {"cam0": entry}) as daemon:
        assert daemon.view()["state"] == "waiting"
        daemon.wait_log(f"cannot open '{index}': it is no regular file")
        index.unlink()
        (place / "index").rename(index)
        daemon.ends(0)


# -- what another configuration makes of it -------------------------------------------------------------------------------


def against(place, recording, before, after):
    for name, stages in (("old", before), ("new", after)):
        entries = {"cam0": pipeline(PICTURE, stages=stages)}
        (place / f"{name}.yaml").write_text(json.dumps(complete(place, entries)))
    return subprocess.run([FRAMECTL, "replay", recording, "--config", place / "old.yaml", "--against", place / "new.yaml"],
                          capture_output=True, text=True, timeout=limit(60), check=False)


def test_the_same_configuration_makes_no_difference(place, recorded_results):
    done = against(place, recorded_results[0], MOTION, MOTION)
    assert done.returncode == 0 and done.stdout.startswith("0 of 50 frames differ;") and not done.stderr, done


def test_a_replay_says_which_frames_differ_and_how(place, recorded_results):
    recording, results = recorded_results
    higher = [{"motion": {"output": "mask", "rate": 0.3, "threshold": 250}}]
    done = against(place, recording, MOTION, higher)
    again, _ = replay(place, recording, higher)
    old, new = (numpy.frombuffer(data, numpy.uint8).reshape(50, 4096) for data in (results, again))
    other = (old != new).sum(axis=1)
    said = [line for line in done.stdout.splitlines() if line.startswith("frame ")]
    assert done.returncode == 2 and f"{len(said)} of 50 frames differ" in done.stdout.splitlines()[-1], done
    assert [int(line.split(": ")[1].split(" ")[0]) for line in said] == [count for count in other if count], done


def test_a_replay_compares_boxes_one_by_one(place, recorded_results):
    def boxes(threshold):
        return [{"motion": {"output": "boxes", "rate": 0.3, "threshold": threshold}}]
    done = against(place, recorded_results[0], boxes(25), boxes(254))
    assert done.returncode == 2 and "gone, 0 new" in done.stdout and "boxes " in done.stdout.splitlines()[-1], done


@pytest.mark.parametrize("stages, said", [([{"resize": {"width": 8, "height": 8}}], "cannot be compared"),
                                          ([{"nonsense": {}}], "unknown stage")])
def test_what_cannot_be_compared_is_said(place, recorded_results, stages, said):
    done = against(place, recorded_results[0], MOTION, stages)
    assert done.returncode == 78 and said in done.stderr, done
