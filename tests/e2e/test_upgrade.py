"""framectl upgrade: the program that is installed takes over, and whoever asked for it knows what became of that.

With FRAMED_SOAK set it does so a hundred times under load. FRAMED_OTHER_BINARY is a build of the same version that is not the one
under test; without it that one has to do for both, and says of itself that it is another version.
"""

import hashlib
import itertools
import json
import os
import pathlib
import re
import select
import shutil
import statistics
import subprocess

import numpy as np
import pytest

from harness import BACKEND, FRAMECTL, Background, Daemon, environment, limit, numbered, pipeline, run_framed, wait_until
from harness.daemon import BINARY

pytestmark = [pytest.mark.host, pytest.mark.memory]

SOAK = bool(os.environ.get("FRAMED_SOAK"))
UPGRADES = 100 if SOAK else 5
OTHER_BINARY = pathlib.Path(os.environ.get("FRAMED_OTHER_BINARY", BINARY))
SIZE = 4096
LARGE = 300 * 1024
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
        counted = re.findall(r'^framed_latency_seconds_count\{.*step="total".*\} (\d+)', daemon.metrics(), re.MULTILINE)
        assert counted == ["3000"], counted  # histograms go on as counters do
        assert daemon.status()["handovers"]["upgrade"] == 2 and daemon.process.pid == process
        text = framectl(daemon, "status").stdout
        assert "handed over 2 times (upgrade 2)" in text and "by upgrade, after" in text, text


class Flow:
    """A raw producer that sends as fast as it can, until it is stopped or has sent `most` frames, and a raw reader that keeps up
    with it; each has one connection from begin to end."""

    BLOCK = 16

    def __init__(self, daemon, size, most=None):
        self.size, self.most, self.stopped = size, most, False
        self.sent, self.taken, self.digest = 0, 0, hashlib.sha256()
        self.reader, self.producer = daemon.reader(), daemon.producer()
        self.sending = Background(self.send)
        self.taking = Background(self.take)

    def send(self):
        block = numbered(self.BLOCK, self.size)
        while not self.stopped and self.sent != self.most:
            block[:, :8] = np.arange(self.sent, self.sent + self.BLOCK, dtype=np.uint64).view(np.uint8).reshape(-1, 8)
            self.producer.send(block.data)
            self.sent += self.BLOCK

    def take(self):
        buffer = memoryview(bytearray(1 << 20))
        while not self.sending.done or self.taken < self.sent * self.size:
            if select.select([self.reader.socket], [], [], 0.05)[0]:
                length = self.reader.socket.recv_into(buffer)
                if length == 0:
                    raise EOFError(f"the stream ended after {self.taken} bytes")
                self.digest.update(buffer[:length])
                self.taken += length

    def goes_on(self):
        """Waits until frames that are sent only now come out."""
        wanted = (self.sent + 2 * self.BLOCK) * self.size
        wait_until(lambda: self.taken >= wanted or self.sending.done or self.taking.done, "frames flow", 20)
        assert not self.sending.done and not self.taking.done, (self.sending.error, self.taking.error)

    def join(self, seconds):
        """(how many frames there were, SHA-256 of all that was read)"""
        self.sending.join(seconds)
        self.taking.join(seconds)
        assert self.taken == self.sent * self.size, "more came than was sent"
        self.producer.close()
        self.reader.close()
        return self.sent, self.digest.hexdigest()


def builds(place):
    """Two programs of which each says of itself that it is another version, by version."""
    version = run_framed("--version").stdout.split()[1].encode()
    other = version[:-1] + (b"9" if version[-1:] != b"9" else b"8")
    programs = {version.decode(): place / "one", other.decode(): place / "other"}
    shutil.copy(BINARY, place / "one")
    (place / "other").write_bytes(OTHER_BINARY.read_bytes().replace(version + b"\0", other + b"\0"))
    (place / "other").chmod(0o755)
    for said, program in programs.items():
        assert run_program(program, "--version").split()[1] == said
    return programs


def run_program(program, *arguments):
    return subprocess.run([program, *arguments], stdout=subprocess.PIPE, text=True, env=environment(), timeout=limit(20), check=True).stdout


def put_in_place(program, place):
    shutil.copy(program, place / "new")
    (place / "new").rename(place / "framed")


def upgrade_over_and_over(daemon, place, flow):
    """Two builds by turns; returns how long nothing moved each time, in ms."""
    gaps, versions = [], [daemon.status()["version"]]
    turns = itertools.cycle(reversed(builds(place).items()))
    for number, (version, program) in zip(range(1, UPGRADES + 1), turns):
        flow.goes_on()
        put_in_place(program, place)
        answer = json.loads(framectl(daemon, "--json", "upgrade").stdout)
        assert answer["ok"] and answer["version"] == version != versions[-1], (answer, daemon.log)
        handovers = daemon.status()["handovers"]
        assert handovers["upgrade"] == number and handovers["connections_lost"] == 0 and not handovers["refused"], handovers
        gaps.append(handovers["last"]["gap_ms"])
        versions.append(version)
    assert max(gaps) == daemon.status()["handovers"]["longest_ms"]
    return gaps


@pytest.mark.takes(900 if SOAK else 60)
@pytest.mark.parametrize("size", [SIZE, LARGE])
def test_upgrades_under_load_change_nothing_of_what_comes_out(place, say, size):
    """Of two builds by turns; what is read is what comes out where nothing happens."""
    entry = {"stages": [{"affine": {"scale": -1.0, "offset": 255.0}}], "slots": 3}
    with Daemon(place, {"cam0": pipeline({"dtype": "uint8", "shape": [size]}, **entry)}, gpu={"backend": BACKEND}, binary=install(place)) as daemon:
        process, flow = daemon.process.pid, Flow(daemon, size)
        gaps = upgrade_over_and_over(daemon, place, flow)
        flow.goes_on()
        view = daemon.view()
        assert (view["sessions"], view["readers"], daemon.process.pid) == (1, 1, process)
        flow.stopped = True
        count, digest = flow.join(60)
        daemon.account(came=count, emitted=count)
    calm = place / "calm"
    calm.mkdir()
    with Daemon(calm, {"cam0": pipeline({"dtype": "uint8", "shape": [size]}, **entry)}, gpu={"backend": BACKEND}) as daemon:
        assert Flow(daemon, size, count).join(600) == (count, digest)
        daemon.account(came=count, emitted=count)
        assert daemon.status()["handovers"]["upgrade"] == 0
    if SOAK:
        say(f"{UPGRADES} upgrades of {count} frames of {size} bytes: gap {statistics.median(gaps):.0f} ms (median), {max(gaps):.0f} ms (at most); "
            f"SHA-256 {digest[:16]}… as undisturbed")


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


@pytest.mark.parametrize("content, mode, said", [
    ("", 0o755, "Exec format error"), ("touch {place}/ran\n", 0o755, "Exec format error"), ("", 0o644, "Permission denied"),
    ("#!/bin/sh\nexit 0\n", 0o755, "did not answer as framed does"), ("#!/bin/sh\necho takes over states of version 0\n", 0o755, "did not answer"),
    (None, 0o755, "Permission denied"),
], ids=["empty", "text", "not executable", "silent", "another version", "folder"])
def test_what_is_no_program_of_framed_is_refused(place, content, mode, said):
    """Neither a shell runs it, nor is an end without an error taken for a yes."""
    with running(place) as daemon:
        there = place / "framed"
        there.unlink()
        if content is None:
            there.mkdir()
        else:
            there.write_text(content.format(place=place))
        there.chmod(mode)
        done = framectl(daemon, "upgrade")
        assert done.returncode == 1 and said in done.stderr, done
        assert not (place / "ran").exists() and daemon.view()["state"] == "running"


def test_a_program_that_says_why_in_another_encoding_is_refused(place):
    with running(place) as daemon:
        install(place, r"printf 'zu fr\374h\n' >&2; exit 1")
        done = framectl(daemon, "upgrade")
        assert done.returncode == 1 and r"zu fr\xfch" in done.stderr, done
        assert r"zu fr\xfch" in daemon.status()["handovers"]["refused"]


def test_a_program_that_goes_away_at_the_last_moment_is_told_of(place):
    """It has said that it can: only the daemon's status says what became of it."""
    with running(place) as daemon:
        install(place, f'rm "$0"\nexec {BINARY} "$@"')
        done = framectl(daemon, "upgrade")
        assert done.returncode == 1 and "the running program continues" in done.stderr, done
        assert "No such file" in done.stderr and "install" in done.stderr, done
        assert daemon.status()["handovers"]["upgrade"] == 0


def test_a_program_that_begins_anew_is_told_of(place):
    with running(place) as daemon:
        install(place, f'case "$*" in *--check*) exec {BINARY} "$@";; esac\nexport FRAMED_STATE=0\nexec {BINARY} "$@"')
        document = framectl(daemon, "--json", "upgrade")
        assert document.returncode == 1 and "was restarted" in json.loads(document.stdout)["error"], document


def test_an_upgrade_goes_on_over_a_fault(place):
    """The GPU fails while the new program is asked: the answer never comes, the upgrade does."""
    fault = {"fault": {"kind": "illegal", "at": 3, "every": 0, "again": "no"}}
    with running(place, stages=[fault]) as daemon:
        thinks = place / "thinks"
        thinks.touch()
        install(place, f'case "$*" in *--check*) while [ -e {thinks} ]; do sleep 0.05; done;; esac\nexec {BINARY} "$@"')
        with daemon.reader() as reader, daemon.producer() as producer:
            upgrading = Background(framectl, daemon, "upgrade")
            wait_until(lambda: daemon.status()["handovers"]["upgrading"], "the new program is asked")
            producer.send(numbered(10, SIZE).tobytes())
            np.testing.assert_array_equal(reader.frames(10, SIZE), numbered(10, SIZE))
            thinks.unlink()
            done = upgrading.join()
        assert done.returncode == 0 and "took over after" in done.stdout, (done, daemon.log)
        counts = daemon.status()["handovers"]
        assert (counts["fault"], counts["upgrade"]) == (1, 1), counts
        daemon.account(came=10, emitted=10)


def test_no_daemon_is_said(place):
    done = subprocess.run([FRAMECTL, "-s", place / "none", "upgrade"], capture_output=True, text=True, timeout=limit(20), check=False)
    assert done.returncode == 69 and "none" in done.stderr, done
