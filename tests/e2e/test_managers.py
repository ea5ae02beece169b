"""A service manager or a journal that reads nothing for a while, and a daemon that leaves where no descriptor is free: frames go on,
and what was to be told is told, or counted."""

import contextlib
import os
import re
import resource
import select
import signal
import socket
import time

import numpy as np
import pytest

from harness import Daemon, Reader, limit, numbered, pace, pipeline, wait_until
from test_handover_again import Store
from test_journal import Journal, may_mount
from test_keeper import high

pytestmark = pytest.mark.memory

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


# -- no descriptor is free --------------------------------------------------------------------------------------------------


def use_up(daemon):
    """Readers until there is no descriptor for another one: that is told so, and status cannot be asked either. They are taken
    in order: once one has been told so, those before it have their place or have been told as well."""
    readers = [Reader(daemon.path("cam0", "sink"))]
    while not is_told(readers[-1], pace(0.1)):
        readers.append(Reader(daemon.path("cam0", "sink")))
    refused = [reader for reader in readers if is_told(reader, 0)]
    for reader in refused:
        assert b"no free descriptor" in reader.socket.recv(1 << 10), daemon.log
        reader.close()
    return [reader for reader in readers if reader not in refused]


def is_told(reader, seconds):
    return bool(select.select([reader.socket], [], [], seconds)[0])


@pytest.mark.host
def test_everything_is_left_where_no_descriptor_is_free(place):
    def before():
        resource.setrlimit(resource.RLIMIT_NOFILE, (80, 80))
    with Store(place) as store, Daemon(place, {"cam0": pipeline(FORMAT)}, env=store.environment, before=before,
                                       limits={"readers_per_user": 0}) as daemon:
        with daemon.producer() as producer:
            readers = use_up(daemon)
            daemon.signal(signal.SIGTERM)
            assert daemon.process.wait(limit(20)) == 0
            held = store.take()
            assert any(name.startswith("framed-image-") for name in held) and len(held) > len(readers), (held, daemon.log)
            daemon.binary, daemon.options["pass_fds"] = store.activate(place, held), held.values()
            daemon.options["preexec_fn"] = None
            daemon.start()
            for fd in held.values():
                os.close(fd)
            daemon.wait_ready()
            producer.send(numbered(3, SIZE).tobytes())
            for reader in readers:
                np.testing.assert_array_equal(reader.frames(3, SIZE), numbered(3, SIZE))
                reader.close()
        daemon.account(came=3, emitted=3)
        daemon.leaves_sockets = True


class Slow(Store):
    """It has what it kept until it comes to being told otherwise, as systemd does."""

    def hear(self, said, descriptors):
        if "FDSTOREREMOVE" in said:
            time.sleep(pace(0.02))
        super().hear(said, descriptors)

    def take(self):
        return {name: high(os.dup(fd)) for name, fd in self.held.items()}


def test_a_daemon_that_begins_anew_waits_until_its_sockets_are_let_go_of(place):
    """They would look like those of another daemon."""
    with Slow(place) as store, Daemon(place, {"cam0": pipeline(FORMAT)}, env=store.environment, lanes=1) as daemon:
        with daemon.reader(), daemon.producer():
            daemon.signal(signal.SIGTERM)
            assert daemon.process.wait(limit(20)) == 0
        held = store.take()
        daemon.write({"cam0": pipeline(FORMAT)}, lanes=2)
        daemon.binary, daemon.options["pass_fds"] = store.activate(place, held), held.values()
        daemon.start()
        for fd in held.values():
            os.close(fd)
        daemon.wait_ready()
        assert "these keys have changed: lanes" in daemon.log
        pass_through(daemon, 0)
        daemon.leaves_sockets = True


# -- nobody reads -----------------------------------------------------------------------------------------------------------


def fill(path):
    """Nothing more fits into what its reader has not read; returns how much did. What a sender may have there is limited as well."""
    count, before = 0, -1
    while count > before:
        before = count
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other, contextlib.suppress(BlockingIOError):
            other.setblocking(False)
            while True:
                other.sendto(b"FILL=1\n", str(path))
                count += 1
    return count


class Manager:
    """Bound, and nothing of it is read until it is asked for."""

    def __init__(self, place, watchdog_s):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.path = place / "notify"
        self.socket.bind(str(self.path))
        self.socket.settimeout(limit(20))
        self.environment = {"NOTIFY_SOCKET": str(self.path), "WATCHDOG_USEC": f"{watchdog_s * 1e6:.0f}"}

    def wait(self, *wanted):
        """Reads until each of these was said; returns all that was."""
        said = []
        while not set(wanted) <= set(said):
            said += self.socket.recv(4096).decode().splitlines()
        return said


def pass_through(daemon, first, count=20):
    with daemon.reader() as reader, daemon.producer() as producer:
        producer.send(numbered(count, SIZE, first=first).tobytes())
        np.testing.assert_array_equal(reader.frames(count, SIZE), numbered(count, SIZE, first=first))


def test_a_manager_that_reads_nothing_holds_nobody_up(place):
    """It starts, serves, reloads and ends; what it says last of itself is heard once somebody reads."""
    manager = Manager(place, watchdog_s=pace(0.4))
    fill(manager.path)
    with Daemon(place, {"cam0": pipeline(FORMAT)}, env=manager.environment, drain_timeout=f"{pace(6):.0f}s") as daemon:
        pass_through(daemon, 0)
        manager.wait("READY=1", "WATCHDOG=1")
        fill(manager.path)
        for number in range(3):
            daemon.write({"cam0": pipeline(FORMAT, slots=2 + number % 2)}, drain_timeout=f"{pace(6):.0f}s")
            daemon.command("/v1/reload")
        pass_through(daemon, 20)
        said = manager.wait("READY=1", "WATCHDOG=1")
        assert said.count("READY=1") == 1 and "RELOADING=1" not in said, said
        daemon.signal(signal.SIGUSR2)
        daemon.wait_log("everything goes on after")
        manager.wait("READY=1")
        fill(manager.path)
        with daemon.producer() as producer:  # whose frame nobody takes: the stop waits for its limit
            producer.send(numbered(1, SIZE).tobytes())
            daemon.wait_view("it is there", lambda view: view["frames"]["in_flight"] == 1)
            daemon.signal(signal.SIGTERM)
            daemon.wait_log("SIGTERM")
            manager.wait("STOPPING=1")
            daemon.leaves_frames = True
            daemon.ends(0)
    manager.socket.close()


def test_a_manager_that_has_gone_holds_nobody_up(place):
    manager = Manager(place, watchdog_s=pace(0.4))
    with Daemon(place, {"cam0": pipeline(FORMAT)}, env=manager.environment) as daemon:
        manager.wait("READY=1")
        manager.socket.close()
        os.unlink(manager.path)
        pass_through(daemon, 0)


@pytest.mark.skipif(not may_mount(), reason="needs to mount a /run for the daemon")
@pytest.mark.host
def test_a_journal_that_reads_nothing_holds_nobody_up(place):
    """What it did not take is counted, and said when it takes entries again."""
    journal = Journal(place, reads=False)
    room = fill(place / "journal")
    with Daemon(place, {"cam0": pipeline(FORMAT)}, **journal.options) as daemon:
        pass_through(daemon, 0)
        journal.read()
        wait_until(lambda: len(journal.fillers) == room, "it has read")
        pass_through(daemon, 20)
        daemon.signal(signal.SIGUSR1)
        journal.wait("STATE_DUMP", 2)
        said = [re.fullmatch(r"(\d+) lines were lost because the journal did not take them", entry["MESSAGE"])
                for entry in journal.wait("SUPPRESSED")]
        assert sum(int(one.group(1)) for one in said if one) >= 1 + 2, journal.entries  # it was ready, a reader and a producer came
    assert not journal.find("STARTED")
