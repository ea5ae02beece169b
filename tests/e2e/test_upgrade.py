"""framectl upgrade: the program that is installed takes over, and whoever asked for it knows what became of that."""

import json
import shutil
import subprocess

import numpy as np
import pytest

from harness import BACKEND, FRAMECTL, Background, Daemon, environment, limit, numbered, pipeline, wait_until
from harness.daemon import BINARY

pytestmark = pytest.mark.host

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def framectl(daemon, *arguments):
    return subprocess.run([FRAMECTL, "-s", daemon.socket, *arguments], capture_output=True, text=True, env=environment(),
                          timeout=limit(40), check=False)


def install(place, script=None):
    """A program of the test's own, put in place as packages do: under another name first."""
    new = place / "new"
    if script:
        new.write_text(f"#!/bin/sh\n{script}\n")
    else:
        shutil.copy(BINARY, new)
    new.chmod(0o755)
    return new.rename(place / "framed")


def running(place, **keys):
    return Daemon(place, {"cam0": pipeline(FORMAT, slots=3, **keys)}, gpu={"backend": BACKEND}, binary=install(place))


def test_the_installed_program_takes_over_under_load(place):
    with running(place) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            taking = Background(reader.frames, 3000, SIZE)
            producer.send(numbered(1000, SIZE).tobytes())
            process = daemon.process.pid
            install(place)
            done = framectl(daemon, "upgrade")
            assert done.returncode == 0 and not done.stderr, done
            assert str(place / "framed") in done.stdout and "took over after" in done.stdout, done
            producer.send(numbered(1000, SIZE, first=1000).tobytes())
            answer = json.loads(framectl(daemon, "--json", "upgrade").stdout)
            assert answer["ok"] and answer["program"] == str(place / "framed") and answer["gap_ms"] > 0, answer
            assert answer["version"] == answer["version_before"] == daemon.status()["version"], answer
            producer.send(numbered(1000, SIZE, first=2000).tobytes())
            np.testing.assert_array_equal(taking.join(), numbered(3000, SIZE))
        daemon.account(came=3000, emitted=3000)
        assert daemon.status()["handovers"]["upgrade"] == 2 and daemon.process.pid == process
        text = framectl(daemon, "status").stdout
        assert "handed over 2 times (upgrade 2)" in text and "by upgrade, after" in text, text


def test_status_says_nothing_of_hand_overs_that_were_not(place):
    with running(place) as daemon:
        assert "handed over" not in framectl(daemon, "status").stdout


@pytest.mark.parametrize("script", ["echo 'it is too old' >&2; exit 1", "kill -9 $$"])
def test_a_program_that_cannot_take_over_is_refused(place, script):
    with running(place) as daemon:
        install(place, script)
        done = framectl(daemon, "upgrade")
        assert done.returncode == 1 and "does not take over" in done.stderr and "restart the service" in done.stderr, done
        assert "too old" in done.stderr or "kill" in script, done
        text = framectl(daemon, "status").stdout
        assert "the last upgrade was refused" in text and "handed over" not in text, text
        install(place)
        assert framectl(daemon, "upgrade").returncode == 0
        assert daemon.status()["handovers"]["refused"] is None


def test_a_program_that_goes_away_at_the_last_moment_is_told_of(place):
    """It has said that it can: only the daemon's status says what became of it."""
    with running(place) as daemon:
        install(place, 'rm "$0"')
        done = framectl(daemon, "upgrade")
        assert done.returncode == 1 and "the running program goes on" in done.stderr, done
        assert "No such file" in done.stderr and "install" in done.stderr, done
        assert daemon.status()["handovers"]["upgrade"] == 0


def test_a_program_that_begins_anew_is_told_of(place):
    with running(place) as daemon:
        install(place, f'case "$*" in *--check*) exit 0;; esac\nexport FRAMED_STATE=0\nexec {BINARY} "$@"')
        document = framectl(daemon, "--json", "upgrade")
        assert document.returncode == 1 and "began anew" in json.loads(document.stdout)["error"], document


def test_an_upgrade_goes_on_over_a_fault(place):
    """The GPU fails while the new program is asked: the answer never comes, the upgrade does."""
    fault = {"fault": {"kind": "illegal", "at": 3, "every": 0, "again": "no"}}
    with running(place, stages=[fault]) as daemon:
        install(place, f'case "$*" in *--check*) sleep {limit(1)}; exit 0;; esac\nexec {BINARY} "$@"')
        with daemon.reader() as reader, daemon.producer() as producer:
            upgrading = Background(framectl, daemon, "upgrade")
            wait_until(lambda: daemon.status()["handovers"]["upgrading"], "the new program is asked")
            producer.send(numbered(10, SIZE).tobytes())
            np.testing.assert_array_equal(reader.frames(10, SIZE), numbered(10, SIZE))
            done = upgrading.join()
        assert done.returncode == 0 and "took over after" in done.stdout, (done, daemon.log)
        counts = daemon.status()["handovers"]
        assert (counts["fault"], counts["upgrade"]) == (1, 1), counts
        daemon.account(came=10, emitted=10)


def test_no_daemon_is_said(place):
    done = subprocess.run([FRAMECTL, "-s", place / "none", "upgrade"], capture_output=True, text=True, timeout=limit(20), check=False)
    assert done.returncode == 69 and "none" in done.stderr, done
