"""A file sink on a full disk loses whole results, counts them, and goes on when there is room."""

import json
import os
import resource
import subprocess

import pytest

from harness import (BINARY, Background, Daemon, complete, environment, limit, numbered, pipeline, read_y4m, require_whole,
                     run_framed, whole)

pytestmark = pytest.mark.host

SIZE = 64 << 10
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


@pytest.fixture
def small_disk(place):
    """A file system with room for about 15 results."""
    disk = place / "disk"
    disk.mkdir()
    mounted = os.geteuid() == 0 and subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "none", disk], stderr=subprocess.DEVNULL, check=False).returncode == 0
    if not mounted:
        pytest.skip("no file system can be mounted here")
    yield disk
    subprocess.run(["umount", "-l", disk], check=False)


def feed(daemon, producer, first, count):
    """Sends results one by one and waits until each has its fate."""
    for number in range(first, first + count):
        producer.send(whole(number, SIZE).tobytes())
        daemon.wait_view("it has its fate", lambda view: view["frames"]["in"] == number + 1 and
                         view["frames"]["in_flight"] == 0)


def test_a_full_disk_loses_whole_results_and_recovers(place, small_disk):
    output = small_disk / "out"
    with Daemon(place, {"cam0": pipeline(FORMAT, sink={"file": str(output)})}) as daemon:
        with daemon.producer() as producer:
            ballast = small_disk / "ballast"
            ballast.write_bytes(bytes(512 << 10))
            feed(daemon, producer, 0, 16)
            lost = daemon.frames()["dropped"]["sink_error"]
            assert 0 < lost < 16
            daemon.wait_log("No space left")
            ballast.unlink()
            feed(daemon, producer, 16, 3)
            daemon.account(came=19, emitted=19 - lost, sink_error=lost)
    numbers = require_whole(output.read_bytes(), SIZE)
    assert len(numbers) == 19 - lost and numbers[-3:] == [16, 17, 18], numbers


def test_a_y4m_file_on_a_full_disk_stays_well_formed(place, small_disk):
    output = small_disk / "out.y4m"
    entry = pipeline({"pixels": "gray", "width": 256, "height": 256}, sink={"file": str(output), "protocol": "y4m"})
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.producer() as producer:
            ballast = small_disk / "ballast"
            ballast.write_bytes(bytes(512 << 10))
            feed(daemon, producer, 0, 16)
            ballast.unlink()
            feed(daemon, producer, 16, 3)
            emitted = daemon.frames()["emitted"]
    words, frames = read_y4m(output.read_bytes(), SIZE)
    assert "W256" in words and len(frames) == emitted
    require_whole(frames.tobytes(), SIZE)


def test_a_file_size_limit_loses_whole_results(place):
    """Works for every user: the daemon may write files of at most 10.5 results, and its signal must not end it."""
    def limited():
        resource.setrlimit(resource.RLIMIT_FSIZE, (SIZE * 10 + SIZE // 2,) * 2)

    output = place / "out"
    with Daemon(place, {"cam0": pipeline(FORMAT, sink={"file": str(output)})}, before=limited) as daemon:
        with daemon.producer() as producer:
            feed(daemon, producer, 0, 15)
            daemon.account(came=15, emitted=10, sink_error=5)
    assert require_whole(output.read_bytes(), SIZE) == list(range(10))


def test_dev_full_loses_everything_and_says_so(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, sink={"file": "/dev/full"})}) as daemon:
        with daemon.producer() as producer:
            Background(producer.send, numbered(5, SIZE).tobytes()).join()
            daemon.account(came=5, sink_error=5)
        daemon.wait_log("No space left")
        assert daemon.view()["state"] == "running"


def test_a_directory_as_sink_is_refused(place):
    (place / "out").mkdir()
    file = place / "framed.yaml"
    file.write_text(json.dumps(complete(place, {"cam0": pipeline(FORMAT, sink={"file": str(place / "out")})})))
    done = run_framed("-c", file)
    assert done.returncode == 78 and str(place / "out") in done.stderr, done.stderr


@pytest.mark.parametrize("option", ["--check", "--print-config", "--print-schema", "--print-manual", "--version", "--help"])
def test_what_cannot_be_printed_is_an_error(place, option):
    file = place / "framed.yaml"
    file.write_text(json.dumps(complete(place, {"cam0": pipeline(FORMAT)})))
    with open("/dev/full", "wb") as full:
        done = subprocess.run([BINARY, "-c", file, option], stdout=full, stderr=subprocess.PIPE, text=True, env=environment(),
                              timeout=limit(20), check=False)
    assert done.returncode == 70 and "cannot write to standard output" in done.stderr, done
