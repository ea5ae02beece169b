"""Each allocation and each system call of the daemon's fails in turn: nothing crashes, hangs, leaks or is shifted, and whoever
comes after it is served as if nothing had been.

Every place in the code that makes such a call is visited here with its first call, spread over SAMPLE runs a kind of call;
with FRAMED_SOAK set, every single call is.
"""

import errno
import itertools
import os
import re
import select
import signal
import stat
import traceback

import pytest

from harness import limit, native, numbered, pipeline, require_whole, wait_until
from harness.clients import Client
from harness.injection import SHORT, Injected, Injection
from harness.traffic import COUNT, DEAD, FILES, GRAY, SIZE, drive, entries, inverted, is_served, lay_out, through

SOAK = bool(os.environ.get("FRAMED_SOAK"))
SAMPLE, MOST_RUNS = 5, 1500  # runs a kind of call
pytestmark = [pytest.mark.host, pytest.mark.slow, pytest.mark.takes(7200 if SOAK else 60), pytest.mark.memory]
DOCUMENTED_ENDS = (69, 70, 78)

ERRORS = {
    "memory": [errno.ENOMEM], "mmap": [errno.ENOMEM], "memfd_create": [errno.EMFILE], "ftruncate": [errno.ENOSPC],
    "read": [errno.EINTR, errno.EIO, SHORT], "readv": [errno.EINTR, errno.EIO, SHORT],
    "recvmsg": [errno.EINTR, errno.EAGAIN, errno.ECONNRESET, errno.ENOMEM, SHORT],
    "write": [errno.EINTR, errno.EPIPE, SHORT],
    "send": [errno.EINTR, errno.ENOBUFS, SHORT], "sendmsg": [errno.EINTR, errno.EAGAIN, errno.ENOBUFS, SHORT],
    "pread64": [errno.EIO], "pwrite64": [errno.ENOSPC, errno.EIO, SHORT],
    "accept4": [errno.EMFILE, errno.ECONNABORTED, errno.EINTR], "socket": [errno.EMFILE], "bind": [errno.EACCES],
    "listen": [errno.EADDRINUSE], "connect": [errno.EAGAIN], "getsockopt": [errno.ENOBUFS],
    "open": [errno.EMFILE, errno.EACCES], "fcntl": [errno.EPERM], "flock": [errno.ENOLCK],
    "fstat": [errno.EIO], "lstat": [errno.EIO], "stat": [errno.EIO], "chmod": [errno.EPERM], "fchmod": [errno.EPERM],
    "unlink": [errno.EACCES], "epoll_create1": [errno.EMFILE], "epoll_ctl": [errno.ENOSPC], "eventfd": [errno.EMFILE],
    "pipe2": [errno.EMFILE], "pthread_create": [errno.EAGAIN],
}
IN_LIBRARIES = {"memory": [errno.ENOMEM], "sendmsg": [errno.EINTR, errno.EPIPE],
                "epoll_ctl": [errno.ENOSPC]}
IN_UPGRADES = {
    "memory": [errno.ENOMEM], "mmap": [errno.ENOMEM], "memfd_create": [errno.EMFILE], "write": [errno.ENOSPC, SHORT, errno.EINTR],
    "pread": [errno.EIO, SHORT], "execv": [errno.ENOENT], "fcntl": [errno.EBADF], "fstat": [errno.EIO],
    "open": [errno.EMFILE], "epoll_create1": [errno.EMFILE], "epoll_ctl": [errno.ENOSPC], "eventfd": [errno.EMFILE],
    "pipe2": [errno.EMFILE], "pthread_create": [errno.EAGAIN], "sendmsg": [errno.EAGAIN], "setenv": [errno.ENOMEM],
}


def control(daemon, place):
    """A command of each kind. One that fails says so, has changed nothing, and can be given again."""
    daemon.metrics()
    assert daemon.request("GET", "/v1/config")[0] == 200
    for command in ("pause", "resume", "drain", "resume"):
        daemon.command(f"/v1/pipelines/raw/{command}")
    daemon.version = 1
    daemon.write(entries(place, version=1))
    code, answer = daemon.post("/v1/reload")
    if code != 200:
        assert daemon.injection.happened and answer["error"], answer
        daemon.version = 0
        through(daemon, "other", "raw", 50)
        daemon.version = 1
        code, answer = daemon.post("/v1/reload")
    assert (code, answer["changed"]) in ((200, ["other"]), (200, [])), answer


# -- one run --------------------------------------------------------------------------------------------------------------------


def check_end(daemon):
    """It ended before it was ready, by itself: as documented, and saying why."""
    status = daemon.process.wait()
    assert daemon.injection.happened, f"framed ended with {status}:\n{daemon.log}"
    assert status in DOCUMENTED_ENDS, f"framed ended with {status}, {daemon.injection}:\n{daemon.log}"
    assert re.search(r"\w+ \w+", daemon.log), "it ends without a word"
    daemon.settled = True
    dead = daemon.place / "raw.sock"
    if dead.exists() and stat.S_IMODE(dead.stat().st_mode) == DEAD:
        dead.unlink()  # it never came to look at it
    daemon.check_remains()


def run(place, injection, most_files=None):
    """Starts the daemon, drives everything, drives it again, and ends it. Returns how many files it had open at the end."""
    lay_out(place)
    with Injected(place, entries(place), injection) as daemon:
        daemon.version = 0
        if not daemon.starts():
            check_end(daemon)
            return None
        came = drive(daemon, 0)
        assert injection.happened or set(came.values()) == {COUNT}, came
        control(daemon, place)
        turns = itertools.count(1)
        if injection.happened:
            wait_until(lambda: is_served(daemon, turns), lambda: f"all is well again:\n{daemon.log}", 20)
        else:
            drive(daemon, 100)
        if most_files:
            wait_until(lambda: daemon.open_files() <= most_files, f"{most_files} files are open")
        files = daemon.open_files()
        written = {name: daemon.frames(name)["emitted"] for name in FILES}
        assert written["recorded"] == COUNT or injection.happened
    for name, file in FILES.items():
        assert len(require_whole((place / file).read_bytes(), SIZE)) == written[name], name
    return files


# -- one run with an upgrade -----------------------------------------------------------------------------------------------------


class Guest:
    """A producer and a reader that stay: three and a half frames before an upgrade, the rest after it."""

    BEFORE = 3 * SIZE + SIZE // 2

    def __init__(self, daemon, name, first):
        self.daemon, self.name = daemon, name
        self.data = b"".join(frame.tobytes() for frame in numbered(COUNT, SIZE, first=first))
        before = daemon.frames(name)["in"]
        self.reader, self.producer = Client(daemon.path(name, "sink")), Client(daemon.path(name, "source"))
        self.producer.send(self.data[:self.BEFORE])
        daemon.wait_view("three and a half frames came", lambda view: view["frames"]["in"] == before + 4, name)

    def finish(self):
        """Whether everything came as if nothing had been; a cut connection is the other way. One that is cut after it was sent
        the last bytes shows that where nothing else would come."""
        with self.reader, self.producer:
            try:
                self.producer.send(self.data[self.BEFORE:])
                got = b""
                while len(got) < len(self.data):
                    if self.producer.socket in select.select([self.reader.socket, self.producer.socket], [], [], limit(20))[0]:
                        return False
                    got += self.reader.read(SIZE)
                return got == self.data
            except (EOFError, ConnectionError):
                return False

    def clear(self):
        """Of two that were cut off by themselves, the producer's frames wait for another reader."""
        with Client(self.daemon.path(self.name, "sink")):
            self.daemon.wait_view("the producer has left", lambda view: view["sessions"] == 0, self.name)


class SharingGuest:
    """The same in shared memory, where one result waits to be taken and one frame waits in a ring."""

    def __init__(self, daemon, first):
        self.frames = numbered(COUNT, SIZE, first=first)
        self.client = wait_until(lambda: self.connect(daemon), "there is memory to share")
        self.client.submit(0, self.frames[0].tobytes())
        wait_until(lambda: self.client.word(4096) == 1, "there is a result")
        self.client.submit(1, self.frames[1].tobytes())

    @staticmethod
    def connect(daemon):
        """None where the last call that failed has cost a place, which comes back by itself."""
        try:
            return native.Shared(daemon.path("shared", "source"))
        except (native.Refused, native.NotLent, EOFError, ConnectionError):
            assert daemon.injection.happened
            return None

    def take(self, number):
        slot, fate, _ = self.client.completion()
        assert (fate, self.client.payload(slot)) == (0, self.frames[number].tobytes())
        self.client.take()

    def finish(self):
        with self.client as client:
            client.socket.setblocking(False)
            try:
                if client.socket.recv(64) == b"":
                    return False
            except BlockingIOError:
                pass
            except ConnectionError:
                return False
            for number in range(COUNT):
                if number >= 2:
                    client.submit(number % 2, self.frames[number].tobytes())
                self.take(number)
            return True


def said(daemon):
    """How many upgrades have ended, by the log."""
    return sum(daemon.log.count(text) for text in ("everything goes on after", "the running program goes on", "begins anew"))


def upgrade(daemon, first):
    """Guests of all kinds over an upgrade; whether it cost no connection. Afterwards the daemon is there or has ended."""
    guests = [Guest(daemon, "other", first), Guest(daemon, "paced", first), SharingGuest(daemon, first)]
    ended, done = said(daemon), daemon.status()["handovers"]["upgrade"]
    daemon.calls_before = daemon.calls_before or daemon.injection.count
    daemon.signal(signal.SIGUSR2)

    def is_over():
        if daemon.process.poll() is not None or said(daemon) > ended:
            return True
        try:
            return daemon.status()["handovers"]["upgrade"] > done
        except OSError:
            return False
    wait_until(is_over, lambda: f"the upgrade is over, one way or the other:\n{daemon.log}", 30)
    if not daemon.starts():
        return False
    kept = [guest.finish() for guest in guests]
    for guest, was_kept in zip(guests[:2], kept):
        if not was_kept:
            guest.clear()
    for name in ("other", "paced", "shared"):
        daemon.wait_view("everybody has left", lambda view: view["sessions"] == view["readers"] == 0, name)
    return all(kept)


def run_upgrade(place, injection):
    """Two upgrades, in the first of which a call may fail. Returns how many calls there were before them."""
    lay_out(place)
    places = {**entries(place), "paced": pipeline(GRAY, slots=3, completion="spin")}
    with Injected(place, places, injection) as daemon:
        daemon.calls_before = 0
        assert daemon.starts()
        kept = upgrade(daemon, 0)
        if daemon.process.poll() is not None:
            check_end(daemon)
            return None
        told = "begins anew" in daemon.log or re.search(r"(left|failed) after .*: no space left on device", daemon.log)
        assert kept or (injection.happened and told), f"connections are lost:\n{daemon.log}"
        if injection.happened:
            done = daemon.status()["handovers"]["upgrade"]
            assert upgrade(daemon, 100), f"the next upgrade costs connections:\n{daemon.log}"
            refused = "has no memory that outlives a process" in daemon.log  # which is made once
            assert refused or daemon.status()["handovers"]["upgrade"] == done + 1, "the next upgrade is none"
        daemon.leaves_frames = True  # where the daemon began anew
        return daemon.calls_before


def spread(numbers, count):
    """Some of them, evenly spread, or all if there are no more."""
    step = max(len(numbers) / count, 1)
    return [numbers[int(turn * step)] for turn in range(min(count, len(numbers)))]


def sample(firsts, after, count, errors):
    """Which calls fail: of some places in the code the first one; under FRAMED_SOAK the first of each place, and all others
    as long as they are not thousands."""
    if SOAK:
        return sorted({*firsts, *spread(range(after + 1, count + 1), MOST_RUNS // errors)})
    return spread(firsts, SAMPLE)


def fail_in_turn(run_one, injections):
    """Runs with one failing call after the other; what goes wrong is told of all of them together."""
    problems = []
    for injection in injections:
        try:
            run_one(injection)
        except Exception as problem:
            where = traceback.extract_tb(problem.__traceback__)
            lines = ", ".join(f"{frame.name}:{frame.lineno}" for frame in where[1:])
            problems.append(f"{injection} (at {injection.site()}): {lines}: {problem!r}")
    assert not problems, "\n\n".join(problems)


def plan(place, say, counting, after, errors):
    """The injections for a kind of call, of which there were so many before it begins to count."""
    firsts, count = counting.firsts(after), counting.count
    assert count > after, "nothing can fail"
    numbers = sample(firsts, after, count, len(errors))
    if SOAK:
        say(f"{counting.call}: {count - after} calls in {len(firsts)} places, of which {len(numbers)} fail")
    for turn, number in enumerate(numbers):
        for error in errors if SOAK else [errors[turn % len(errors)]]:
            yield Injection(place, counting.call, number, error, counting.libraries)


@pytest.mark.parametrize("call", ERRORS)
def test_calls_of_the_daemon_fail_in_turn(place, say, call):
    counting = Injection(place, call)
    files = run(place, counting)
    fail_in_turn(lambda injection: run(place, injection, files), plan(place, say, counting, 0, ERRORS[call]))


@pytest.mark.parametrize("call", IN_LIBRARIES)
def test_calls_of_the_libraries_fail_in_turn(place, say, call):
    counting = Injection(place, call, libraries=True)
    files = run(place, counting)
    fail_in_turn(lambda injection: run(place, injection, files), plan(place, say, counting, 0, IN_LIBRARIES[call]))


def reload_once(place, injection):
    """How many calls there were before a reload that changes a pipeline and after it, and whether that could start."""
    lay_out(place)
    with Injected(place, {"other": entries(place)["other"]}, injection) as daemon:
        assert daemon.starts()
        before = injection.count
        daemon.write({"other": entries(place, version=1)["other"]})
        code, answer = daemon.request_once("POST", "/v1/reload")
        after, could = injection.count, "not all of it runs" not in daemon.log
        assert could or (code == 500 and "tried every two seconds" in answer), answer
        assert through(daemon, "other", "raw", 0, inverted) == COUNT or not could
        assert through(daemon, "other", "raw", 50, inverted) == COUNT
        assert could or "other: runs now" in daemon.log, daemon.log
        return before, after, could


def test_a_pipeline_that_a_reload_could_not_start_is_started_later(place):
    before, after, could = reload_once(place, Injection(place, "epoll_ctl"))
    assert could
    starts = [reload_once(place, Injection(place, "epoll_ctl", number, errno.ENOSPC))[2] for number in range(before + 1, after + 1)]
    assert not all(starts)


@pytest.mark.parametrize("call", IN_UPGRADES)
def test_calls_during_an_upgrade_fail_in_turn(place, say, call):
    counting = Injection(place, call)
    before = run_upgrade(place, counting)
    fail_in_turn(lambda injection: run_upgrade(place, injection), plan(place, say, counting, before, IN_UPGRADES[call]))
