"""What takes longer than two seconds shows on a terminal how far it is, and nowhere else."""

import os
import re
import signal
import subprocess

import pytest

from harness import FRAMECTL, Daemon, environment, limit, pipeline, wait_until
from harness.terminal import Terminal
from test_framebench import FRAMEBENCH
from test_framectl import FORMAT, SIZE
from test_models_install import fake_pip

pytestmark = [pytest.mark.host, pytest.mark.slow]


def trace(daemon, place):
    return [FRAMECTL, "-s", daemon.socket, "trace", "--seconds", "3", "-o", place / "trace.json"]


def test_a_trace_shows_how_long_it_has_been_recorded(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        with Terminal(*map(str, trace(daemon, place))) as terminal:
            terminal.shows(b"recording 3 s, for 2 s")
            assert terminal.ends() == 0
            terminal.read()
            last = terminal.screen.rsplit(b"\r\x1b[K", 1)[1]
            assert b"trace.json" in last and b"recording" not in last, "the line is gone before anything else is printed"


def test_nothing_is_shown_where_there_is_no_terminal(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        done = subprocess.run(trace(daemon, place), capture_output=True, text=True, env=environment({"TERM": "xterm"}),
                              timeout=limit(30), check=True)
        assert done.stderr == "" and "\x1b" not in done.stdout, done


@pytest.mark.parametrize("protocol", ["raw", "native"])
def test_a_long_transfer_shows_how_much_it_was_so_far(place, protocol):
    """Its total stands alone on the line in the end."""
    sink = {"socket": str(place / "out.sock"), "protocol": protocol}
    with Daemon(place, {"cam0": pipeline(FORMAT, sink=sink)}) as daemon:
        with Terminal("sh", "-c", f"'{FRAMECTL}' -s '{daemon.socket}' pull cam0 > '{place}/pulled'") as terminal:
            daemon.wait_view("it pulls", lambda view: view["readers"] == 1)
            with daemon.producer() as producer:
                def shows():
                    producer.send(bytes(SIZE))
                    terminal.read()
                    return (b"frames" if protocol == "native" else b"pulling: ") in terminal.screen
                wait_until(shows, lambda: f"it shows how much: {terminal.screen}")
            os.killpg(terminal.process.pid, signal.SIGINT)
            terminal.shows(b"\r\x1b[Kcam0: pulled ")


def test_a_command_that_waits_says_for_how_long(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}, drain_timeout="3s") as daemon, daemon.producer() as producer:
        daemon.leaves_frames = True
        producer.send(bytes(SIZE))  # nobody reads: it stays in flight
        daemon.wait_view("a frame waits", lambda view: view["frames"]["in_flight"] == 1)
        with Terminal(FRAMECTL, "-s", str(daemon.socket), "drain", "cam0") as terminal:
            terminal.shows(b"waiting for drain of cam0, for 2 s")
            assert terminal.ends() == 1


def test_an_installation_shows_how_much_is_fetched(place):
    path = fake_pip(place, "sleep 3; exit 1")
    command = ("env", f"PATH={path}:/usr/bin:/bin", f"FRAMED_ONNXRUNTIME={place / 'target'}", FRAMECTL, "models", "install")
    with Terminal(*map(str, command)) as terminal:
        terminal.shows(b"fetching: 0 B of 19.0 MB")
        assert terminal.ends() == 1


def test_a_bench_shows_how_far_it_is(place):
    """And how long it takes from there; its document is as it is without a terminal."""
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        with Terminal(str(FRAMEBENCH), "load", "-s", str(daemon.socket), "--duration", "3s", "--json", "cam0") as terminal:
            terminal.shows(b"load: 2 of 4 s")
            assert terminal.ends() == 0
    with Terminal(str(FRAMEBENCH), "stages", "--backend", "cpu", "--json") as terminal:
        terminal.shows(b"stages stages: row ")
        shown = terminal.screen.decode()
    assert re.search(r"stages stages: row \d+ of \d+, \d+ %, .* to go", shown), shown
