"""Sources and sinks that are neither socket nor file, and standard descriptors that nobody opened."""

import json
import os
import signal
import subprocess

import pytest

from harness import BINARY, Daemon, complete, limit, numbered, pipeline, run_framed

FORMAT = {"dtype": "uint8", "shape": [512]}


def write_config(place, **entry):
    file = place / "framed.yaml"
    file.write_text(json.dumps(complete(place, {"cam0": pipeline(FORMAT, **entry)})))
    return file


def test_from_a_device_that_cannot_be_polled_to_another(place):
    entry = pipeline(FORMAT, source={"file": "/dev/zero", "rate": 200}, sink={"file": "/dev/null"})
    with Daemon(place, {"cam0": entry}) as daemon:
        daemon.wait_view("frames go through", lambda view: view["frames"]["emitted"] >= 20)


def test_a_filter_may_have_its_output_thrown_away(place):
    file = write_config(place, source={"file": "-"}, sink={"file": "-"})
    with open("/dev/null", "wb") as nowhere:
        done = subprocess.run([BINARY, "-c", file], input=numbered(10, 512).tobytes(), stdout=nowhere,
                              stderr=subprocess.PIPE, timeout=limit(20), check=False)
    assert done.returncode == 0, done.stderr
    assert b"in 10 = emitted 10 " in done.stderr


@pytest.mark.parametrize("closed", [0, 1, 2])
def test_a_closed_standard_descriptor_is_an_empty_one(place, closed):
    file = write_config(place, source={"file": "-"}, sink={"file": "-"})
    done = run_framed("-c", file, preexec_fn=lambda: os.close(closed), input="" if closed else None)
    assert done.returncode == 0, done.stderr


def test_a_filter_ends_when_nobody_reads_it_any_more(place):
    file = write_config(place, source={"file": "/dev/zero"}, sink={"file": "-"})
    with subprocess.Popen([BINARY, "-c", file], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as daemon:
        assert daemon.stdout.read(5120) == bytes(5120)
        daemon.stdout.close()
        assert daemon.wait(limit(20)) == 0, daemon.stderr.read()


def test_a_signal_ends_a_filter_that_waits_for_input(place):
    file = write_config(place, source={"file": "-"}, sink={"file": "-"})
    with subprocess.Popen([BINARY, "-c", file], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.DEVNULL) as daemon:
        frames = numbered(3, 512).tobytes()
        daemon.stdin.write(frames)
        daemon.stdin.flush()
        assert daemon.stdout.read(len(frames)) == frames
        daemon.send_signal(signal.SIGTERM)
        assert daemon.wait(limit(20)) == 0
