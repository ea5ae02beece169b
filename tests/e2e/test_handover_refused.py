"""An upgrade that fails at the last moment, when all lanes stand still: everything goes on as if nothing had been."""

import os
import pathlib
import shutil
import signal

import numpy as np
import pytest

from harness import BACKEND, Background, Daemon, numbered, pipeline, require_whole, slow_stage, wait_until
from harness.daemon import BINARY
from test_handover_storm import more, open_files
from test_models import WITH, model_file, needs_library, runs

pytestmark = pytest.mark.memory

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
LARGE = 1 << 20


class Installed:
    """A program of one's own, which can be replaced as a package manager does: by a rename."""

    def __init__(self, place):
        self.path, self.count = place / "framed", 0
        self.install(lambda new: shutil.copy(BINARY, new))

    def install(self, make):
        new = self.path.with_suffix(".new")
        make(new)
        os.rename(new, self.path)

    def whole(self):
        self.install(lambda new: shutil.copy(BINARY, new))

    def willing_but_unable(self):
        """It says that it takes over, and cannot be executed when it is to."""
        def make(new):
            new.write_text(f'#!/bin/sh\nchmod 0 "$0"\nexec {BINARY} "$@"\n')
            new.chmod(0o755)
        self.install(make)


def daemon_of(place, installed, entry, last=None, **keys):
    entries = {"cam0": entry, **({"last": last} if last else {})}
    return Daemon(place, entries, binary=installed.path, gpu={"backend": BACKEND, "faults": "60/min"}, **keys)


def fail_to_upgrade(daemon, installed):
    before = daemon.log.count("no upgrade, the running program goes on")
    installed.willing_but_unable()
    daemon.signal(signal.SIGUSR2)
    wait_until(lambda: daemon.log.count("no upgrade, the running program goes on") > before, lambda: f"it is refused:\n{daemon.log}")
    assert "cannot execute" in daemon.log, daemon.log


def upgrade(daemon, installed):
    before = daemon.status()["handovers"]["upgrade"]
    installed.whole()
    daemon.signal(signal.SIGUSR2)
    wait_until(lambda: daemon.status()["handovers"]["upgrade"] == before + 1, lambda: f"it has taken over:\n{daemon.log}")


@pytest.mark.parametrize("size, slots", [(SIZE, 1), (SIZE, 3), (LARGE, 3)])
def test_a_connection_goes_on(place, size, slots):
    installed = Installed(place)
    entry = pipeline({"dtype": "uint8", "shape": [size]}, slots=slots, stages=[slow_stage(5)])
    count = 150
    with daemon_of(place, installed, entry, lanes=2) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            sending = Background(producer.send, numbered(count, size).tobytes())
            taking = Background(reader.frames, count, size)
            for _ in range(3):
                fail_to_upgrade(daemon, installed)
            upgrade(daemon, installed)
            np.testing.assert_array_equal(taking.join(), numbered(count, size))
            sending.join()
        daemon.account(came=count, emitted=count)


@pytest.mark.parametrize("slots", [1, 3])
@pytest.mark.parametrize("size", [SIZE, LARGE])
def test_files_are_read_and_written_to_their_ends(place, size, slots):
    """A request to a file that was waited for while the lanes stood still is followed by the next one. Another pipeline's input
    ends last, and with it the daemon."""
    count = 120
    installed = Installed(place)
    (place / "in").write_bytes(numbered(count, size).tobytes())
    entry = pipeline({"dtype": "uint8", "shape": [size]}, source={"file": str(place / "in")}, sink={"file": str(place / "out")},
                     slots=slots, stages=[slow_stage(20)])
    last = pipeline(FORMAT, source={"file": "-"}, sink={"file": str(place / "last")})
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as input, daemon_of(place, installed, entry, last=last, lanes=2, stdin=reading) as daemon:
        os.close(reading)
        for _ in range(3):
            fail_to_upgrade(daemon, installed)
        input.close()
        daemon.ends(0, seconds=60)
    assert (place / "out").read_bytes() == numbered(count, size).tobytes()


def test_the_rest_of_a_result_goes_over_at_the_second_attempt(place):
    """A reader that is in the middle of a result whose slot was needed holds an open frame, which is put on each tape."""
    installed = Installed(place)
    entry = pipeline({"dtype": "uint8", "shape": [LARGE]}, sink={"overload": "drop"}, slots=2)
    with daemon_of(place, installed, entry) as daemon:
        with daemon.reader() as slow, daemon.producer() as producer:
            for number in range(6):
                producer.send(numbered(1, LARGE, first=number).tobytes())
            daemon.wait_view("the reader misses all but the first", lambda view: view["frames"]["dropped"]["unread"] == 5)
            fail_to_upgrade(daemon, installed)
            upgrade(daemon, installed)
            producer.close()
            frames = daemon.frames()
            assert frames["in"] == 6 and frames["in_flight"] >= 1, frames
            assert require_whole(slow.read(LARGE), LARGE) == [0]
            daemon.account(came=6, emitted=1, unread=5)


@needs_library
def test_files_of_models_stay_open_once(place):
    installed = Installed(place)
    with daemon_of(place, installed, runs(), models={"line": {"file": str(model_file(place))}}, env=WITH) as daemon:
        fail_to_upgrade(daemon, installed)
        files = open_files(daemon)
        for _ in range(2):
            fail_to_upgrade(daemon, installed)
        wait_until(lambda: not more(files, open_files(daemon)), lambda: f"nothing leaks: {more(files, open_files(daemon))}")


# -- signals that come while another image takes over -----------------------------------------------------------------


def wait_next_image(daemon):
    """Until another image has begun: it has its state in its environment."""
    environment = f"/proc/{daemon.process.pid}/environ"
    def begun():
        with open(environment, "rb") as file:
            return b"FRAMED_STATE=" in file.read()
    wait_until(begun, "the next image begins", 20)


def test_a_stop_during_the_start_of_the_next_image_finishes_what_is_in_flight(place):
    entry = pipeline(FORMAT, slots=4, stages=[slow_stage(30)])
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(8, SIZE).tobytes())
            daemon.wait_view("frames came", lambda view: view["frames"]["in"] >= 4)
            daemon.signal(signal.SIGUSR2)
            wait_next_image(daemon)
            daemon.signal(signal.SIGTERM)
            numbers = require_whole(reader.rest(), SIZE)
        daemon.ends(0)
        account = daemon.final_account()
        assert account["in"] == account["emitted"] == len(numbers) >= 4, (account, numbers)


def test_signals_wait_in_the_kernel_until_they_are_acted_upon(place):
    """In whichever thread: one that was caught and not yet acted upon would be lost with the image that another follows."""
    wanted = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        for _ in range(2):
            threads = list(pathlib.Path(f"/proc/{daemon.process.pid}/task").iterdir())
            for thread in threads:
                lines = dict(line.split(":", 1) for line in (thread / "status").read_text().splitlines())
                blocked, caught = int(lines["SigBlk"], 16), int(lines["SigCgt"], 16)
                assert all(blocked >> number - 1 & 1 and not caught >> number - 1 & 1 for number in wanted), lines
            assert len(threads) > 3
            daemon.signal(signal.SIGUSR2)
            wait_until(lambda: daemon.status()["handovers"]["upgrade"] > 0, "another image has taken over")
