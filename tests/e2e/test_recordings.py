"""Recordings: files of results that stay found, in segments, with an index beside each."""

import fcntl
import json
import os
import pathlib
import resource
import shutil
import signal
import subprocess
import time

import pytest

from harness import FRAMECTL, Background, Daemon, complete, limit, numbered, pipeline, require_whole, run_framed, wait_until
from harness.recordings import FORMAT, SIZE, feed, parts, read_index
from harness.store import start


def file_sink(path, **keys):
    return {"cam0": pipeline(FORMAT, sink={"file": str(path), **keys})}


# -- a file that somebody takes away -------------------------------------------------------------------------------


def feed_until_there(daemon, producer, output, number):
    """The lane of the sink hears of the new file a moment after it is made. Says how many were sent in all."""
    while not output.stat().st_size:
        feed(daemon, producer, number, 1)
        number += 1
    feed(daemon, producer, number, 3)
    daemon.account(came=number + 3, emitted=number + 3)
    return number + 3


def require_last(output, count):
    numbers = require_whole(output.read_bytes(), SIZE)
    assert len(numbers) >= 3 and numbers == list(range(count - len(numbers), count))


@pytest.mark.parametrize("take", [lambda path: path.unlink(), lambda path: path.rename(path.with_name("old"))])
def test_results_go_on_into_a_new_file_when_theirs_is_taken_away(place, take):
    """Nobody asks for it: a deleted file would take results, and disk space, that nobody ever sees."""
    output = place / "out"
    with Daemon(place, file_sink(output)) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 3)
            take(output)
            daemon.wait_log("results go into a new file")
            wait_until(output.exists, lambda: "there is a new file")
            count = feed_until_there(daemon, producer, output, 3)
    require_last(output, count)


@pytest.mark.parametrize("ask", [lambda daemon: daemon.command("/v1/reload"), lambda daemon: daemon.signal(signal.SIGHUP)])
def test_a_reload_is_what_logrotate_asks_for(place, ask):
    output = place / "out"
    with Daemon(place, file_sink(output)) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 3)
            output.rename(place / "old")
            ask(daemon)
            wait_until(output.exists, lambda: "there is a new file")
            daemon.wait_log("results go into a new file")
            feed(daemon, producer, 3, 2)
    old, new = (require_whole((place / name).read_bytes(), SIZE) for name in ("old", "out"))
    assert old + new == [0, 1, 2, 3, 4]


@pytest.mark.waits
def test_a_file_that_is_cut_goes_on_at_its_end(place):
    """As logrotate's copytruncate does it: else the file would begin with a hole."""
    output = place / "out"
    with Daemon(place, file_sink(output)) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 3)

            time.sleep(limit(3))  # the size of the file must have been looked at before, which is done every 2 s
            os.truncate(output, 0)
            daemon.wait_log("was truncated: results continue")
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
            wait_until(lambda: "moved or removed" in daemon.request("GET", "/v1/health")[1], lambda: "health says so")
            feed(daemon, producer, 2, 2)
            folder.mkdir()
            wait_until(output.exists, lambda: "there is a new file")
            count = feed_until_there(daemon, producer, output, 4)
    require_last(output, count)


# -- segments --------------------------------------------------------------------------------------------------------

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
        for offset, size, sequence, _, stamp, came, _, _, _, epoch in entries:
            assert epoch and offset == at and size >= SIZE and stamp <= came, (path, sequence)
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


def test_segments_end_at_their_size_and_nothing_is_lost_or_twice_at_a_seam(place):
    with Daemon(place, rotating(place, size=f"{5 * SIZE + 100}B")) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(53, SIZE).tobytes())
            daemon.account(came=53, emitted=53)
        assert len(parts(place)) >= 2
    found = segments(place)
    assert numbers_of(found) == list(range(53)) and [len(entries) for _, _, entries in found] == [5] * 10 + [3]
    assert parts(place) == []


def test_a_segment_that_is_as_large_as_a_file_may_be_begins_the_next(place):
    """As FAT's 4 GiB: the limit of the process gives the same EFBIG."""
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE * 10 + SIZE // 2,) * 2)

    with Daemon(place, rotating(place, every="1h"), before=limited) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 25)
            daemon.account(came=25, emitted=25)
        assert daemon.request("GET", "/v1/health")[0] == 200 and "cannot write" not in daemon.log, daemon.log
    found = segments(place)
    assert [len(entries) for _, _, entries in found] == [10, 10, 5] and numbers_of(found) == list(range(25))


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
    # They are finished beside each other: one that was late may outlive a newer one, but not the newest.
    assert 2 <= len(left) <= 8 and left == sorted(left) and left[-2:] == [38, 39]


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
    assert "results; 100 bytes were cut off" in daemon.log


def test_a_segment_that_is_locked_at_the_next_start_is_finished_later(place):
    """Its lock may go on in the service manager, which has a copy of each descriptor, until the next process serves."""
    with Daemon(place, rotating(place, size=f"{4 * SIZE}B")) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 2)
        [part] = place.glob("*.part")
        with open(part, "rb") as copy:
            daemon.process.kill()
            daemon.process.wait(limit(10))
            daemon.settled = True
            fcntl.flock(copy, fcntl.LOCK_EX)
            (place / "cam0.sock").unlink()
            daemon.start()
            daemon.wait_ready()
            producer = daemon.producer()
            feed(daemon, producer, 0, 5)
            wait_until(lambda: len(segments(place)) == 1, lambda: "the first of the new ones is finished")
            assert part.exists()
        with producer:
            feed(daemon, producer, 5, 4)
        wait_until(lambda: not part.exists(), lambda: f"it is finished: {parts(place)}\n{daemon.log}")
    assert numbers_of(segments(place)) == [0, 1, *range(9)]
    assert "unfinished" not in daemon.log, "nothing of it was cut off"


def test_a_segment_that_was_only_made_is_removed_at_the_next_start(place):
    """Its maker was killed before it wrote whose it is; a file with something in it is somebody else's."""
    for name in ("out-01.part", "out-01.part.index", "out-02.part"):
        (place / name).touch()
    (place / "out-03.part").write_bytes(b"something")
    with Daemon(place, rotating(place, "out-%S", size="1GiB")):
        wait_until(lambda: not (place / "out-01.part").exists() and not (place / "out-02.part").exists(), "they are gone")
    assert parts(place) == ["out-03.part"]


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


@pytest.mark.plain  # a preloaded library and a sanitizer each replace the same calls
def test_steps_of_the_clock_change_no_segment(place):
    """A month forward removed all that `keep` had; an hour back before an upgrade made a segment an hour longer."""
    library, ahead = place / "clock.so", place / "ahead"
    source = pathlib.Path(__file__).with_name("harness") / "clock.c"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True, timeout=limit(30))
    ahead.write_text("0")
    env = {"LD_PRELOAD": str(library), "CLOCK_AHEAD": str(ahead)}
    with Daemon(place, rotating(place, every="1s", keep="7d"), env=env) as daemon:
        with daemon.producer() as producer:
            for number, step in enumerate((0, 30 * 86400, -3600)):
                feed(daemon, producer, 2 * number, 1)
                ahead.write_text(str(step))
                if step < 0:
                    daemon.command("/v1/upgrade")
                    wait_until(lambda: "took over" in daemon.log, lambda: daemon.log)
                feed(daemon, producer, 2 * number + 1, 1)
                # an upgrade may last until the next second, which then begins another segment
                wait_until(lambda: len(numbers_of(segments(place))) == 2 * number + 2, lambda: f"all are finished: {daemon.log}")
    assert sorted(numbers_of(segments(place))) == list(range(6))
    spans = [entries[-1][5] - entries[0][5] for _, _, entries in segments(place)]
    assert all(0 <= span < 60 * 10**9 for span in spans), spans


def upgrades(daemon):
    """Also those that are refused, where a disk is slow."""
    return daemon.log.count("took over") + daemon.log.count("no upgrade, the running program goes on")


def test_upgrades_at_seams_lose_nothing(place):
    with Daemon(place, rotating(place, size=f"{2 * SIZE}B")) as daemon:
        with daemon.producer() as producer:
            sending = Background(producer.send, numbered(300, SIZE).tobytes())
            for _ in range(4):
                before = upgrades(daemon)
                daemon.signal(signal.SIGUSR2)
                wait_until(lambda: upgrades(daemon) > before, lambda: daemon.log)
            assert daemon.log.count("took over") > 0
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
            wait_until(lambda: "results continue in the previous segment" in daemon.request("GET", "/v1/health")[1],
                       lambda: "health says so")
            folder.unlink()
            (place / "aside").rename(folder)
            wait_until(lambda: daemon.request("GET", "/v1/health")[0] == 200, lambda: "all is well again")
            feed(daemon, producer, 5, 3)
            daemon.account(came=8, emitted=8)
    assert numbers_of(segments(folder)) == list(range(8))


def test_a_segment_that_begins_does_not_hide_that_results_are_lost(place):
    """No segment begins and no result is written; then segments begin, and still no result is written."""
    folder = place / "folder"
    with Daemon(place, rotating(place, "folder/out-%H%M%S", every="1s")) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 1)
            folder.rename(place / "aside")
            folder.write_text("no folder")
            resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (SIZE // 2, resource.RLIM_INFINITY))

            def feed_until(condition):
                wait_until(lambda: feed(daemon, producer, daemon.frames()["in"], 1) or condition(), lambda: daemon.log)

            feed_until(lambda: "cannot begin the segment" in daemon.log)
            folder.unlink()
            (place / "aside").rename(folder)
            before = parts(folder)
            feed_until(lambda: parts(folder) and parts(folder) != before)
            for _ in range(10):
                time.sleep(0.1)
                feed(daemon, producer, daemon.frames()["in"], 1)
                assert "(EFBIG)" in daemon.request("GET", "/v1/health")[1], daemon.log
            assert daemon.frames()["emitted"] == 1
            resource.prlimit(daemon.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY,) * 2)
            feed(daemon, producer, daemon.frames()["in"], 1)
            wait_until(lambda: daemon.request("GET", "/v1/health")[0] == 200, lambda: "all is well again")
            lost = daemon.frames()["dropped"]["sink_error"]
            assert f"can be written again, {lost} results were lost" in daemon.log, daemon.log


def test_a_segment_that_is_removed_makes_room_for_another(place):
    with Daemon(place, rotating(place, size="1GiB")) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 2)
            for name in parts(place):
                (place / name).unlink()
            daemon.wait_log("results go into a new file")
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
    # The last one is left to the next process, and so is one that the manager let go of after the last sweep.
    unfinished = [entry[2] for index in place.glob("*.part.index") for entry in read_index(index)[1]]
    assert sorted(numbers_of(segments(place, owner=b"file")) + unfinished) == list(range(400))


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
    ("out-%Q", {"size": "2GiB"}, "could not be found again"),
    ("out-%H", {"size": "2GiB"}, None),
    ("out-%H", {"every": "7d", "size": "2GiB", "keep": "30d", "most": "200GiB"}, None)])
def test_segments_are_checked(place, name, rotate, said):
    file = place / "framed.yaml"
    file.write_text(json.dumps(complete(place, rotating(place, name, **rotate))))
    done = run_framed("--check", "-c", file)
    assert (done.returncode == 78 and said in done.stderr) if said else done.returncode == 0, done
    assert ("at most 80 % of the file system" in done.stdout) == (not said and "keep" not in rotate), done


def test_names_that_another_pipeline_could_make_are_refused(place):
    entries = {**rotating(place, "%Y.raw", size="1MiB"), "cam1": rotating(place, "%H%M.raw", size="1MiB")["cam0"]}
    file = place / "framed.yaml"
    file.write_text(json.dumps(complete(place, entries)))
    done = run_framed("--check", "-c", file)
    assert done.returncode == 78 and "could make files with names of the sink" in done.stderr and "'cam1-'" in done.stderr, done


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
            feed(daemon, producer, 30, 1)
            wait_until(lambda: daemon.request("GET", "/v1/health")[0] == 200, lambda: "all is well again")
            emitted = daemon.frames()["emitted"]
    numbers = numbers_of(segments(small_disk))
    assert len(numbers) == emitted and numbers == sorted(set(numbers)) and parts(small_disk) == []


def test_a_disk_that_is_smaller_than_most_loses_the_oldest(place, small_disk):
    with Daemon(place, rotating(small_disk, "%D/out-%H%M%S", size=f"{4 * SIZE}B", most="1GiB")) as daemon:
        with daemon.producer() as producer:
            for number in range(0, 160, 4):
                feed(daemon, producer, number, 4)
            daemon.account(came=160, emitted=160)
    numbers = numbers_of(segments(small_disk, "*/*/*/out-*"))
    assert numbers[-1] == 159 and 20 < len(numbers) < 64 and numbers == list(range(numbers[0], 160))


# -- folders of another user ---------------------------------------------------------------------------------------------


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("trap", ["fifo", "link", "folder"])
def test_the_owner_of_a_folder_leads_the_daemon_nowhere(place, trap):
    """A FIFO where an index would be held up the worker that finishes segments; a link led root to files elsewhere."""
    victim = place / "victim"
    victim.mkdir(mode=0o700)
    (victim / "out-1999.raw.part").write_bytes(b"secret")
    folder = place / "folder"
    if trap == "folder":
        folder.symlink_to(victim)
        os.lchown(folder, 65534, 65534)
    else:
        folder.mkdir()
        os.chown(folder, 65534, 65534)
    for name in ("out-1999.raw.part.index", "out-1999.raw.part"):
        if trap == "fifo":
            os.mkfifo(folder / name)
        elif trap == "link":
            (folder / name).symlink_to(victim / "out-1999.raw.part")
    entries = rotating(place, "folder/out-%Y.raw", size=f"{2 * SIZE}B", most=f"{8 * SIZE}B")
    with Daemon(place, entries, ready=trap != "folder") as daemon:
        if trap == "folder":
            daemon.wait_log("symbolic link")
            daemon.process.kill()
            daemon.process.wait(limit(10))
            daemon.settled = daemon.leaves_sockets = True
        else:
            with daemon.producer() as producer:
                feed(daemon, producer, 0, 20)
            wait_until(lambda: len(segments(place, "folder/out-20*")) < 8, lambda: "segments are finished and removed")
    assert [path.read_bytes() for path in victim.iterdir()] == [b"secret"]
