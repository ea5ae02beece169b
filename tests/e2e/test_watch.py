"""framectl watch: one line at the start, one at each change of health, and nothing in between."""

import contextlib
import json
import queue
import signal
import subprocess
import threading

import pytest

from harness import FRAMECTL, Background, Daemon, environment, limit, pace, pipeline
from test_framectl import FORMAT, SIZE

pytestmark = pytest.mark.waits


def silent_after(seconds):
    entry = pipeline(FORMAT)
    entry["source"]["expect"] = f"{pace(seconds) * 1000:.0f}ms"
    return {"cam0": entry}


@contextlib.contextmanager
def watching(place, *options):
    """Gives a function that waits for the next line."""
    with subprocess.Popen([FRAMECTL, "-s", place / "status.sock", "watch", *options], stdout=subprocess.PIPE, text=True,
                          env=environment()) as watch:
        lines = queue.Queue()
        reading = Background(lambda: [lines.put(line) for line in watch.stdout])
        try:
            yield lambda: lines.get(timeout=limit(20))
        finally:
            watch.send_signal(signal.SIGINT)
            reading.join()
        assert watch.wait(limit(10)) == 0 and lines.empty()


def test_each_change_is_a_line(place):
    with Daemon(place, silent_after(0.5)) as daemon, watching(place) as line:
        first = line()
        if " healthy" in first:  # it may have become silent before the first look
            first = line()
        assert " degraded: pipeline cam0: silent, " in first, first
        with daemon.reader() as reader, daemon.producer() as producer:
            stop = threading.Event()

            def send():
                while not stop.wait(pace(0.05)):
                    producer.send(bytes(SIZE))
                    reader.read(SIZE)
            thread = threading.Thread(target=send)
            thread.start()
            try:
                assert line().rstrip("\n").endswith(" healthy: pipeline cam0: no longer silent")
            finally:
                stop.set()
                thread.join()
        assert " degraded: pipeline cam0: silent, " in line()


def test_a_daemon_may_come_back(place):
    def of(line, state):
        found = json.loads(line)
        assert found["state"] == state and found["time"].endswith("Z"), found
        return found

    with watching(place, "--json") as line:
        assert of(line(), "away")["why"]
        with Daemon(place, {"cam0": pipeline(FORMAT)}):
            assert of(line(), "healthy")["degraded"] == []
        assert of(line(), "away")["why"]
        with Daemon(place, silent_after(0.1)) as daemon:
            daemon.wait_view("it is silent", lambda view: view["silent"])
            found = json.loads(line())
            found = of(line() if found["state"] == "healthy" else json.dumps(found), "degraded")
            assert found["began"] == found["degraded"] and found["began"][0]["reason"] == "silent", found
        assert of(line(), "away")["ended"] == []


def test_it_ends_quietly_with_whoever_reads_it(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        done = subprocess.run(f"'{FRAMECTL}' -s '{daemon.socket}' watch | head -n 1; echo ${{PIPESTATUS[0]}}", shell=True, text=True,
                              executable="/bin/bash", env=environment(), capture_output=True, timeout=limit(20), check=True)
        first, status = done.stdout.splitlines()
        assert first.endswith(" healthy") and status == "0" and done.stderr == "", done
