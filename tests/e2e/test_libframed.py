"""The C client against the daemon, on both transports, with every way to wait."""

import os
import pathlib
import re
import subprocess

import pytest

from harness import BINARY, Background, Daemon, environment, limit, numbered, pipeline, wait_until
from harness.native import BOTH, Shared

EXAMPLE = BINARY.with_name("framed-example")
GRAY = {"pixels": "gray", "width": 32, "height": 16}
LARGE = {"pixels": "gray", "width": 1024, "height": 512}
INVERT = {"affine": {"scale": -1.0, "offset": 255.0}}


def replying(format=GRAY, **keys):
    return pipeline(format, stages=[INVERT], source={"protocol": "native"}, sink={"reply": True, "protocol": "native"}, **keys)


def sunk(format=GRAY):
    return pipeline(format, stages=[INVERT], source={"protocol": "native"}, sink={"protocol": "native"})


def drive_client():
    folder = BINARY.parent
    places = [os.environ.get("FRAMED_DRIVE_CLIENT"), folder / "tests/drive-client", folder / "../tests/drive-client"]
    found = [place for place in places if place and os.path.exists(place)]
    assert found, "drive-client is not built; `make e2e` does that, or set FRAMED_DRIVE_CLIENT"
    return found[0]


def start(path, role, transport, count, wait="sleep"):
    return subprocess.Popen([drive_client(), path, role, transport, str(count), wait], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, env=environment())


def finish(process):
    """Its line as a dictionary; the exit status and what it said as "status" and "said"."""
    said, _ = process.communicate(timeout=limit(60))
    found = dict(re.findall(r"(\w+) (\w+)", said.split("code ")[0]))
    return {**{key: int(value) if value.isdigit() else value for key, value in found.items()},
            "status": process.returncode, "said": said}


def drive(*arguments):
    return finish(start(*arguments))


@pytest.mark.parametrize("wait", ["sleep", "spin", "own"])
@pytest.mark.parametrize("transport", ["stream", "shared"])
@pytest.mark.parametrize("format,slots,count", [(GRAY, 1, 200), (GRAY, 4, 2000), (LARGE, 3, 100)])
def test_frames_and_results(place, format, slots, count, transport, wait):
    completion = "spin" if wait == "spin" else "callback"
    with Daemon(place, {"cam0": replying(format, slots=slots, completion=completion)}) as daemon:
        answer = drive(daemon.path("cam0", "source"), "both", transport, count, wait)
        assert answer["status"] == 0, answer["said"]
        assert (answer["transport"], answer["sent"], answer["results"]) == (transport, count, count)
        assert (answer["dropped"], answer["wrong"], answer["out_of_order"]) == (0, 0, 0)
        daemon.account(came=count, emitted=count)


@pytest.mark.parametrize("transport", ["stream", "shared"])
def test_a_producer_and_a_consumer(place, transport):
    with Daemon(place, {"cam0": sunk()}) as daemon:
        consumer = start(daemon.path("cam0", "sink"), "consumer", transport, 500)
        daemon.wait_view("the consumer is there", lambda view: view["readers"] == 1)
        producer = drive(daemon.path("cam0", "source"), "producer", transport, 500)
        assert producer["status"] == 0 and producer["sent"] == 500, producer["said"]
        answer = finish(consumer)
        assert answer["status"] == 0 and (answer["results"], answer["wrong"], answer["out_of_order"]) == (500, 0, 0), answer["said"]
        daemon.account(came=500, emitted=500)


def test_one_more_is_told_why(place):
    with Daemon(place, {"cam0": replying()}) as daemon:
        with Shared(daemon.path("cam0", "source"), BOTH):
            answer = drive(daemon.path("cam0", "source"), "both", "shared", 1)
            assert answer["status"] == 1 and answer["said"].startswith("code 4: ") and "already has" in answer["said"]
        answer = drive(daemon.path("cam0", "source"), "producer", "shared", 1)
        assert answer["said"].startswith("code 3: ")


def test_what_listens_is_not_native(place):
    with Daemon(place, {"cam0": pipeline(GRAY, source={"protocol": "y4m"}, sink={"protocol": "raw"})}) as daemon:
        answer = drive(daemon.path("cam0", "source"), "producer", "shared", 1)
        assert answer["status"] == 1 and "this is no native socket: a y4m stream is expected here" in answer["said"]
        daemon.settled = True
    answer = drive(place / "nothing.sock", "producer", "shared", 1)
    assert answer["said"].startswith("code 64: ") and "nothing.sock: No such file" in answer["said"]


@pytest.mark.parametrize("wait", ["sleep", "spin", "own"])
@pytest.mark.parametrize("transport", ["stream", "shared"])
def test_a_daemon_that_dies_is_noticed(place, transport, wait):
    with Daemon(place, {"cam0": replying()}) as daemon:
        client = start(daemon.path("cam0", "source"), "both", transport, 10**12, wait)
        wait_until(lambda: daemon.status()["pipelines"]["cam0"]["frames"]["in"] > 100, "frames are on their way")
        daemon.kill()
        for left in (daemon.path("cam0", "source"), daemon.socket):
            pathlib.Path(left).unlink()
        answer = finish(client)
        assert answer["status"] == 1 and answer["wrong"] == 0 and "code 65: " in answer["said"], answer["said"]
        daemon.settled = True


def test_the_example_says_what_it_does():
    def run(argument):
        return subprocess.run([EXAMPLE, argument], capture_output=True, text=True, timeout=limit(30), check=False)

    assert run("--help").returncode == 0 and "usage: framed-example [SOCKET]" in run("--help").stdout
    assert run("--nonsense").returncode == 1 and "usage" in run("--nonsense").stderr


def test_the_example(place):
    with Daemon(place, {"cam0": replying()}) as daemon:
        ran = subprocess.run([EXAMPLE, daemon.path("cam0", "source")], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             text=True, timeout=limit(30), check=False, env=environment())
        head, *lines = ran.stdout.splitlines()
        assert ran.returncode == 0 and head.startswith("cam0: frames are ") and len(lines) == 100, ran.stdout
        assert lines[99].startswith("frame 99: first byte 156, ")
        daemon.account(came=100, emitted=100)


@pytest.mark.parametrize("form, named", [({"dtype": "float32", "shape": [8]}, "float32[8]"),
                                         ({"pixels": "grayf32le", "width": 4, "height": 2}, "grayf32le 4x2")])
def test_the_example_looks_at_numbers_as_such(place, form, named):
    numbers = pipeline(form, source={"protocol": "native"}, sink={"reply": True}, stages=[{"affine": {"scale": 0.5, "offset": 1}}])
    with Daemon(place, {"cam0": numbers}) as daemon:
        ran = subprocess.run([EXAMPLE, daemon.path("cam0", "source")], capture_output=True, text=True, timeout=limit(30),
                             check=False, env=environment())
        head, *lines = ran.stdout.splitlines()
        assert ran.returncode == 0 and head == f"cam0: frames are {named}, results {named}" and len(lines) == 100, ran
        assert lines[99].startswith("frame 99: first number 50.5, "), ran
        daemon.account(came=100, emitted=100)
