"""Recordings: files of results that stay found, in segments, with an index beside each."""

import hashlib
import json
import os
import resource
import shutil
import signal
import struct
import subprocess
import time

import numpy
import pytest

from harness import FRAMECTL, Background, Daemon, complete, limit, numbered, pipeline, require_whole, run_framed, wait_until, whole
from harness.native import PRODUCER, Native
from harness.store import start

SIZE = 16 << 10
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def feed(daemon, producer, first, count, size=SIZE):
    """Sends results one by one and waits until each has its fate."""
    for number in range(first, first + count):
        producer.send(whole(number, size).tobytes())
    daemon.wait_view("they have their fate", lambda view: view["frames"]["in"] == first + count and
                     view["frames"]["in_flight"] == 0)


def file_sink(path, **keys):
    return {"cam0": pipeline(FORMAT, sink={"file": str(path), **keys})}


# -- a file that somebody takes away -------------------------------------------------------------------------------


@pytest.mark.parametrize("take", [lambda path: path.unlink(), lambda path: path.rename(path.with_name("old"))])
def test_results_go_on_into_a_new_file_when_theirs_is_taken_away(place, take):
    """Nobody asks for it: a deleted file would take results, and disk space, that nobody ever sees."""
    output = place / "out"
    with Daemon(place, file_sink(output)) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 3)
            take(output)
            daemon.wait_log("results go on into a new one")
            wait_until(output.exists, lambda: "there is a new file")
            feed(daemon, producer, 3, 4)
            daemon.account(came=7, emitted=7)
    assert require_whole(output.read_bytes(), SIZE) == [3, 4, 5, 6]


@pytest.mark.parametrize("ask", [lambda daemon: daemon.command("/v1/reload"), lambda daemon: daemon.signal(signal.SIGHUP)])
def test_a_reload_is_what_logrotate_asks_for(place, ask):
    output = place / "out"
    with Daemon(place, file_sink(output)) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 3)
            output.rename(place / "old")
            ask(daemon)
            wait_until(output.exists, lambda: "there is a new file")
            daemon.wait_log("results go on into a new one")
            feed(daemon, producer, 3, 2)
    old, new = (require_whole((place / name).read_bytes(), SIZE) for name in ("old", "out"))
    assert old + new == [0, 1, 2, 3, 4]


def test_a_file_that_is_cut_goes_on_at_its_end(place):
    """As logrotate's copytruncate does it: else the file would begin with a hole."""
    output = place / "out"
    with Daemon(place, file_sink(output)) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 3)

            def is_seen():  # the size of the file must have been looked at before
                daemon.command("/v1/reload")
                os.truncate(output, 0)
                return "somebody has cut" in daemon.log
            wait_until(is_seen, lambda: "it is seen that the file was cut")
            feed(daemon, producer, 3, 2)
            daemon.account(came=5, emitted=5)
    assert require_whole(output.read_bytes(), SIZE) == [3, 4]


def test_a_file_that_cannot_be_made_anew_is_told_until_it_can(place):
    folder = place / "folder"
    folder.mkdir()
    output = folder / "out"
    with Daemon(place, file_sink(output)) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 2)
            shutil.rmtree(folder)
            wait_until(lambda: "taken the file away" in daemon.request("GET", "/v1/health")[1], lambda: "health says so")
            feed(daemon, producer, 2, 2)
            folder.mkdir()
            wait_until(output.exists, lambda: "there is a new file")
            feed(daemon, producer, 4, 2)
            daemon.account(came=6, emitted=6)
    assert require_whole(output.read_bytes(), SIZE) == [4, 5]


# -- segments --------------------------------------------------------------------------------------------------------

HEAD = struct.Struct("<IHHqQ72s32x")
ENTRY = struct.Struct("<QQQQqqqII")


def read_index(path):
    """(the head, the entries) of an index, whose sizes must fit."""
    data = path.read_bytes()
    head = HEAD.unpack_from(data)
    assert head[:3] == (0x49524D46, 1, ENTRY.size) and (len(data) - HEAD.size) % ENTRY.size == 0, (path, head, len(data))
    return head, [ENTRY.unpack_from(data, at) for at in range(HEAD.size, len(data), ENTRY.size)]


def segments(place, glob="out-*", owner=b"cam0"):
    """All finished segments in the order of their times, each held to its index: (path, bytes, entries)."""
    found = []
    for path in place.glob(glob):
        if path.suffix in (".index", ".part"):
            continue
        data = path.read_bytes()
        (*_, payload, writer), entries = read_index(path.with_name(path.name + ".index"))
        assert entries and writer.rstrip(b"\0") == owner and payload == SIZE
        at = entries[0][0]
        for offset, size, sequence, _, stamp, came, _, _, _ in entries:
            assert offset == at and size >= SIZE and stamp <= came, (path, sequence)
            at += size
        assert at == len(data), (path, at, len(data))
        found.append((entries[0][4], path, data, entries))
    return [entry[1:] for entry in sorted(found, key=lambda entry: entry[0])]


def numbers_of(found):
    """The frames of all segments: those that the payloads say must be those of the index."""
    numbers = []
    for _, data, entries in found:
        for offset, size, sequence, *_ in entries:
            numbers += require_whole(data[offset + size - SIZE:offset + size], SIZE)
            assert numbers[-1] == sequence
    return numbers


def rotating(place, name="out-%Y%m%d-%H%M%S", protocol="raw", **rotate):
    return file_sink(place / name, rotate=rotate, protocol=protocol)


def parts(place):
    return sorted(path.name for path in place.rglob("*.part*"))


def test_segments_end_at_their_size_and_nothing_is_lost_or_twice_at_a_seam(place):
    with Daemon(place, rotating(place, size=f"{5 * SIZE + 100}B")) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(53, SIZE).tobytes())
            daemon.account(came=53, emitted=53)
        assert len(parts(place)) >= 2
    found = segments(place)
    assert numbers_of(found) == list(range(53)) and [len(entries) for _, _, entries in found] == [5] * 10 + [3]
    assert parts(place) == []


def test_each_segment_of_y4m_begins_with_a_header(place):
    entry = pipeline({"pixels": "gray", "width": 128, "height": 128},
                     sink={"file": str(place / "out-%s.y4m"), "protocol": "y4m", "rotate": {"size": f"{3 * SIZE}B"}})
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(7, SIZE).tobytes())
            daemon.account(came=7, emitted=7)
    found = segments(place)
    assert numbers_of(found) == list(range(7)) and len(found) == 4  # a header and two frames in each
    for path, data, _ in found:
        assert data.startswith(b"YUV4MPEG2 W128 H128") and data.count(b"FRAME\n") in (1, 2) and path.suffix == ".y4m"


def test_a_segment_ends_when_its_time_is_over_also_without_a_frame(place):
    with Daemon(place, rotating(place, "days/%Y/out-%H%M%S.raw", every="1s")) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 2)
            wait_until(lambda: list(place.glob("days/*/out-*.raw")), lambda: "the segment is finished")
            feed(daemon, producer, 2, 1)
    assert numbers_of(segments(place, "days/*/out-*.raw")) == [0, 1, 2]
    assert parts(place) == []


def test_old_segments_and_too_many_are_removed_and_nobody_elses(place):
    alien = place / "out-alien"
    alien.write_bytes(bytes(10 * SIZE))
    (place / "out-alien.index").write_bytes(b"nothing of framed's")
    with Daemon(place, rotating(place, size=f"{2 * SIZE}B", most=f"{8 * SIZE}B")) as daemon:
        with daemon.producer() as producer:
            alien.rename(place / "kept")  # it counts where its name is one of ours
            producer.send(numbered(40, SIZE).tobytes())
            daemon.account(came=40, emitted=40)
            (place / "kept").rename(alien)
        (place / "out-alien.index").unlink()
    assert alien.exists()
    alien.unlink()
    left = numbers_of(segments(place))
    assert 2 <= len(left) <= 8 and left == list(range(40 - len(left), 40))


def test_a_kill_leaves_an_unfinished_segment_that_the_next_start_finishes(place):
    with Daemon(place, rotating(place, size=f"{4 * SIZE}B")) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 10)
        daemon.process.kill()
        daemon.process.wait(limit(10))
        daemon.settled = True
        part = [place / name for name in parts(place) if name.endswith(".part")][-1]
        with open(part, "ab") as torn:
            torn.write(bytes(100))
        (place / "cam0.sock").unlink()
        daemon.start()
        daemon.wait_ready()
        wait_until(lambda: not part.exists(), lambda: f"it is finished: {parts(place)}\n{daemon.log}")
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 3)
    assert numbers_of(segments(place)) == [*range(10), 0, 1, 2]


def test_an_upgrade_goes_on_with_the_segment(place):
    with Daemon(place, rotating(place, size=f"{8 * SIZE}B")) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 5)
            before = parts(place)
            for number in range(2):
                daemon.command("/v1/upgrade")
                wait_until(lambda: daemon.log.count("took over") > number, lambda: daemon.log)
            assert parts(place) == before
            feed(daemon, producer, 5, 20)
    found = segments(place)
    assert numbers_of(found) == list(range(25)) and [len(entries) for _, _, entries in found] == [8, 8, 8, 1]


def test_upgrades_at_seams_lose_nothing(place):
    with Daemon(place, rotating(place, size=f"{2 * SIZE}B")) as daemon:
        with daemon.producer() as producer:
            sending = Background(producer.send, numbered(300, SIZE).tobytes())
            for number in range(4):
                daemon.signal(signal.SIGUSR2)
                wait_until(lambda: daemon.log.count("took over") > number, lambda: daemon.log)
            sending.join()
            daemon.account(came=300, emitted=300)
    assert numbers_of(segments(place)) == list(range(300))


def test_where_the_next_segment_cannot_begin_results_go_on_into_the_last(place):
    folder = place / "folder"
    with Daemon(place, rotating(place, "folder/out-%H%M%S", size=f"{2 * SIZE}B")) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 1)
            folder.rename(place / "aside")
            folder.write_text("no folder")
            feed(daemon, producer, 1, 4)
            wait_until(lambda: "results go on into the segment before" in daemon.request("GET", "/v1/health")[1],
                       lambda: "health says so")
            folder.unlink()
            (place / "aside").rename(folder)
            wait_until(lambda: daemon.request("GET", "/v1/health")[0] == 200, lambda: "all is well again")
            feed(daemon, producer, 5, 3)
            daemon.account(came=8, emitted=8)
    assert numbers_of(segments(folder)) == list(range(8))


def test_a_segment_that_is_removed_makes_room_for_another(place):
    with Daemon(place, rotating(place, size="1GiB")) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 2)
            for name in parts(place):
                (place / name).unlink()
            daemon.wait_log("results go on into a new one")
            feed(daemon, producer, 2, 2)
    assert numbers_of(segments(place)) == [2, 3]


@pytest.mark.memory
def test_kills_under_a_manager_lose_no_result_of_a_segment(place, store):
    (place / "in").write_bytes(numbered(400, SIZE).tobytes())
    entries = {"file": pipeline(FORMAT, source={"file": str(place / "in"), "rate": 400},
                                sink={"file": str(place / "out-%H%M%S"), "rotate": {"size": f"{7 * SIZE}B"}}, slots=3),
               "cam0": pipeline(FORMAT)}  # or the daemon would end with its file
    with start(place, store, entries) as daemon:
        for number in range(1, 6):
            daemon.wait_view("it is written", lambda view: view["frames"]["emitted"] > 60 * number, "file")
            store.kill(daemon)
        daemon.account("file", came=400, emitted=400)
    _, unfinished = read_index(next(place.glob("*.part.index")))  # it is left to the next process
    assert numbers_of(segments(place, owner=b"file")) + [entry[2] for entry in unfinished] == list(range(400))


# -- framectl repair -------------------------------------------------------------------------------------------------


def repair(*arguments):
    return subprocess.run([FRAMECTL, "repair", *arguments], capture_output=True, text=True, timeout=limit(20), check=False)


@pytest.fixture
def unfinished(place):
    """A segment that a killed daemon left, with a part of a result at its end."""
    with Daemon(place, rotating(place, size="1GiB")) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 4)
        part = next(place.glob("*.part"))
        running = repair(part)
        assert running.returncode != 0 and "is being written" in running.stderr, running
        daemon.process.kill()
        daemon.process.wait(limit(10))
        daemon.settled = daemon.leaves_sockets = True
    with open(part, "ab") as torn:
        torn.write(bytes(100))
    return part


@pytest.mark.parametrize("name", [lambda part: part, lambda part: part.parent, lambda part: part.with_suffix("")])
def test_repair_finishes_what_a_kill_left(place, unfinished, name):
    done = repair(name(unfinished))
    assert done.returncode == 0 and "4 results" in done.stdout and "100 bytes" in done.stdout, done
    assert numbers_of(segments(place)) == [0, 1, 2, 3] and parts(place) == []
    again = repair(place)
    assert again.returncode == 0 and "nothing" in again.stdout, again


def test_repair_cannot_do_without_the_index(unfinished):
    unfinished.with_name(unfinished.name + ".index").unlink()
    done = repair(unfinished)
    assert done.returncode != 0 and "has no index" in done.stderr and unfinished.exists(), done


# -- the configuration -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name, rotate, said", [
    ("out", {"every": "10m"}, "names of their own"),
    ("out-%H", {"keep": "7d"}, "have no end"),
    ("out-%H", {"size": "2GiB", "most": "3GiB"}, "at least twice as large"),
    ("out-%H", {"every": "7d", "size": "2GiB", "keep": "30d", "most": "200GiB"}, None)])
def test_segments_are_checked(place, name, rotate, said):
    file = place / "framed.yaml"
    file.write_text(json.dumps(complete(place, rotating(place, name, **rotate))))
    done = run_framed("--check", "-c", file)
    assert (done.returncode == 78 and said in done.stderr) if said else done.returncode == 0, done


@pytest.fixture
def small_disk(place):
    disk = place / "disk"
    disk.mkdir()
    if os.geteuid() != 0 or subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], stderr=subprocess.DEVNULL,
                                           check=False).returncode != 0:
        pytest.skip("no file system can be mounted here")
    yield disk
    subprocess.run(["umount", "-l", disk], check=False)


def test_a_full_disk_costs_whole_results_until_there_is_room(place, small_disk):
    with Daemon(place, rotating(small_disk, size=f"{4 * SIZE}B")) as daemon:
        with daemon.producer() as producer:
            ballast = small_disk / "ballast"
            ballast.write_bytes(bytes(800 << 10))
            for number in range(30):
                feed(daemon, producer, number, 1)
            lost = daemon.frames()["dropped"]["sink_error"]
            assert 0 < lost < 30
            ballast.unlink()
            wait_until(lambda: feed(daemon, producer, daemon.frames()["in"], 1) or daemon.request("GET", "/v1/health")[0] == 200,
                       lambda: "all is well again")
            emitted = daemon.frames()["emitted"]
    numbers = numbers_of(segments(small_disk))
    assert len(numbers) == emitted and numbers == sorted(set(numbers)) and parts(small_disk) == []


# -- what comes in ----------------------------------------------------------------------------------------------------


def recording(place, stages=(), format=None, **record):
    """A pipeline whose results go nowhere."""
    record = {"file": str(place / "in-%Y%m%d-%H%M%S.raw"), **record}
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
                assert done.returncode == 0 and "is recorded" in done.stdout, done
                wait_until(lambda: len(recorded(place)) == round + 1, lambda: "the event is recorded")
            feed(daemon, producer, 40, 5)
    assert [numbers for numbers, _ in recorded(place)] == [list(range(12, 20)), list(range(32, 40))]


def test_an_upgrade_costs_a_recording_no_frame(place):
    with Daemon(place, recording(place, size=f"{9 * SIZE}B")) as daemon:
        with daemon.producer() as producer:
            for turn in range(3):
                producer.send(numbered(20 * (turn + 1), SIZE)[20 * turn:].tobytes())
                daemon.signal(signal.SIGUSR2)
                wait_until(lambda: daemon.log.count("took over") > turn, lambda: daemon.log)
            daemon.account(came=60, emitted=60)
    found = recorded(place)
    assert [number for numbers, _ in found for number in numbers] == list(range(60))
    assert b"".join(data for _, data in found) == numbered(60, SIZE).tobytes()


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
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, resource.RLIM_INFINITY))
    with Daemon(place, recording(place), before=limited) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(400, SIZE).tobytes())
            daemon.account(came=400, emitted=400)
            wait_until(lambda: "(EFBIG)" in daemon.request("GET", "/v1/health")[1], lambda: "health says so")
    (numbers, data), = recorded(place)
    assert numbers == list(range(256)) and data == numbered(256, SIZE).tobytes()


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
    record = {"file": str(place / "in-%Y%m%d-%H%M%S.raw")}
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


def test_frames_that_came_too_late_are_late_in_each_replay(place):
    """Their age is that of the recording, however long a frame waits here."""
    native = {"protocol": "native"}
    record = {"file": str(place / "in-%Y%m%d-%H%M%S.raw")}
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
