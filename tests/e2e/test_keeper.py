"""What is left to a service manager when the daemon is to end, where that cannot be as it should: the manager is the test."""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import struct
import threading

import pytest

from harness import BACKEND, Daemon, complete, limit, numbered, pipeline, run_framed, wait_until
from harness.daemon import BINARY
from harness.store import BASE, HEAD, PAGE, STATE, USE, is_of_use

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


class Keeper:
    """Takes notifications and what comes with them at once, so that nobody waits for it; names are those that lie there."""

    def __init__(self, place, room, answers=True):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(place / "notify"))
        self.environment = {"NOTIFY_SOCKET": str(place / "notify"), "FDSTORE": str(room)}
        self.answers, self.barriers = answers, []
        self.names, self.lost = set(), 0
        self.room, self.pulse = room, None
        self.thread = threading.Thread(target=self.run, daemon=True)
        self.thread.start()

    def run(self):
        while True:
            data, descriptors, _, _ = socket.recv_fds(self.socket, 4096, 16)
            if data == b"end":
                return
            self.hear(dict(line.split("=", 1) for line in data.decode().splitlines()), descriptors)

    def hear(self, said, descriptors):
        name = said.get("FDNAME")
        if "FDSTOREREMOVE" in said:
            self.names.discard(name)
        elif "FDSTORE" in said and len(self.names) == self.room:
            self.lost += 1
        elif "FDSTORE" in said:
            self.names.add(name)
            if name.startswith("framed-image-"):
                self.pulse = os.dup(descriptors[0])
        elif "BARRIER" in said and not self.answers:
            self.barriers += descriptors  # as long as somebody has these, the daemon waits
            return
        for descriptor in descriptors:
            os.close(descriptor)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as to:
            to.sendto(b"end", self.environment["NOTIFY_SOCKET"])
        self.thread.join(limit(10))
        self.socket.close()
        for descriptor in self.barriers + ([self.pulse] if self.pulse else []):
            os.close(descriptor)

    @property
    def has_state(self):
        return bool(self.pulse and is_of_use(self.pulse))

    @property
    def last_beat(self):
        return int.from_bytes(os.pread(self.pulse, 8, 4096), "little") if self.pulse else 0


def carried(keeper):
    return {name for name in keeper.names if name.startswith("framed-d")}


VARIABLE = 128 << 10  # bytes that one may have in the environment of a program
MOST = 8192  # descriptors that the daemon keeps


def test_everything_is_left_where_there_is_room(place):
    with Keeper(place, room=100) as keeper:
        with Daemon(place, {"cam0": pipeline(FORMAT)}, env=keeper.environment) as daemon:
            daemon.leaves_sockets = True
            with daemon.reader(), daemon.producer():
                daemon.signal(signal.SIGTERM)
                daemon.ends(0)
        assert "are left to the next process" in daemon.log
        assert keeper.has_state and len(carried(keeper)) >= 5, keeper.names
        longest = max(len(name.rstrip("0123456789")) for name in carried(keeper)) + len("99999:")
        assert MOST * longest < VARIABLE - 4096, "the next process is told of all in LISTEN_FDNAMES"


def test_nothing_is_left_where_there_is_not_room_for_all(place):
    with Keeper(place, room=6) as keeper:
        with Daemon(place, {"cam0": pipeline(FORMAT)}, env=keeper.environment) as daemon:
            with daemon.reader() as reader, daemon.producer() as producer:
                producer.send(numbered(3, SIZE).tobytes())
                reader.read(3 * SIZE)
                wait_until(lambda: keeper.last_beat > 0, "it says that it lives")
                daemon.signal(signal.SIGTERM)
                daemon.ends(0)
        assert "FileDescriptorStoreMax" in daemon.log
        assert keeper.lost == 0 and not carried(keeper), keeper.names
        assert keeper.last_beat == 0, "the next one would take this one for killed"


def test_what_was_left_is_taken_back_where_nobody_says_that_it_is_there(place):
    """Else the process after this one would go on with what is over."""
    with Keeper(place, room=100, answers=False) as keeper:
        with Daemon(place, {"cam0": pipeline(FORMAT)}, env=keeper.environment) as daemon:
            with daemon.reader() as reader, daemon.producer():
                daemon.signal(signal.SIGTERM)
                assert reader.rest() == b""
                daemon.ends(0)
        assert "does not say whether it kept everything" in daemon.log
        wait_until(lambda: not carried(keeper), lambda: f"nothing lies there: {keeper.names}")


def test_a_daemon_without_pipelines_ends_where_nothing_can_be_left(place):
    with Keeper(place, room=1) as keeper:
        with Daemon(place, {}, env=keeper.environment) as daemon:
            daemon.signal(signal.SIGTERM)
            daemon.ends(0)
        assert "FileDescriptorStoreMax" in daemon.log


def test_a_stop_goes_on_over_a_fault(place):
    entry = pipeline(FORMAT, stages=[{"fault": {"kind": "hang", "at": 1, "again": "no"}}])
    gpu = {"backend": BACKEND, "timeout": "2s"}
    with Keeper(place, room=100) as keeper:
        with Daemon(place, {"cam0": entry}, gpu=gpu, env=keeper.environment) as daemon:
            daemon.leaves_sockets = True
            with daemon.reader() as reader, daemon.producer() as producer:
                producer.send(numbered(2, SIZE).tobytes())
                daemon.wait_view("both have come", lambda view: view["frames"]["in"] == 2)
                daemon.signal(signal.SIGTERM)
                assert reader.read(2 * SIZE) == numbered(2, SIZE).tobytes()
                daemon.ends(0)
        assert "another one takes its place" in daemon.log
        assert keeper.has_state, keeper.names


# -- a state that cannot be taken up ----------------------------------------------------------------------------------


STATE_PAGE = 9
ADDRESS = 1 << 32  # where its process had that image


def state_with(place, config):
    """An image with a whole state of the program under test whose configuration is this text."""
    valid = place / "valid.yaml"
    valid.write_text(json.dumps(complete(place, {"cam0": pipeline(FORMAT)})))
    refusal = run_framed("-c", valid, "--check", "--state", "none").stderr
    version = re.search(r"states of version (\S+),", refusal).group(1).encode()
    state = struct.pack("<QQII", 0, 0, 0, 0) + config + b"\0"
    fd = os.memfd_create("image")
    os.truncate(fd, 256 * PAGE)
    os.pwrite(fd, version, 0)
    os.pwrite(fd, struct.pack("<Q", ADDRESS), BASE)
    os.pwrite(fd, struct.pack("<Q", ADDRESS + STATE_PAGE * PAGE + HEAD), STATE)
    os.pwrite(fd, b"\2", USE)
    os.pwrite(fd, struct.pack("<IIQ", 1, 4, len(state)), STATE_PAGE * PAGE)
    os.pwrite(fd, state, STATE_PAGE * PAGE + HEAD)
    return fd


def high(fd):
    """The same under a number that the daemon does not look at."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD, 20)
    os.close(fd)
    return moved


def listening(path):
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    return high(listener.detach())


def activated(place, binary, passed):
    """A program that is `binary`, started by a manager that passes it these descriptors."""
    program = place / "activated"
    moves = " ".join(f"{number}<&{fd} {fd}<&-" for number, fd in enumerate(passed.values(), 3))
    program.write_text(f"#!/bin/bash\nexec {moves}\nexport LISTEN_PID=$$ LISTEN_FDS={len(passed)} "
                       f'LISTEN_FDNAMES={":".join(passed)}\nexec {binary} "$@"\n')
    program.chmod(0o755)
    return program


def test_sockets_of_the_manager_are_served_where_a_configuration_is_none_any_more(place):
    """As after the installation of a program that has forgotten a key."""
    passed = [high(state_with(place, b"nonsense: [")), listening(place / "passed.sock")]
    program = activated(place, BINARY, dict(zip(["framed-image-7", "cam0"], passed)))
    entry = pipeline(FORMAT, source={"socket": str(place / "passed.sock")})
    with Keeper(place, room=100) as keeper:
        with Daemon(place, {"cam0": entry}, env=keeper.environment, binary=program, inherits=passed) as daemon:
            for fd in passed:
                os.close(fd)
            daemon.leaves_sockets = True
            assert "it holds no valid configuration" in daemon.log
            with daemon.reader() as reader, daemon.producer() as producer:
                producer.send(numbered(3, SIZE).tobytes())
                assert reader.read(3 * SIZE) == numbered(3, SIZE).tobytes()


@pytest.mark.parametrize("taken_over", [False, True])
def test_a_pipeline_at_a_socket_of_the_manager_can_be_removed_and_come_back(place, taken_over):
    """The manager goes on listening there, and passes the socket at the next start only."""
    fd = listening(place / "passed.sock")
    entries = {"cam0": pipeline(FORMAT, source={"socket": str(place / "passed.sock")}), "cam1": pipeline(FORMAT)}
    with Daemon(place, entries, binary=activated(place, BINARY, {"cam0": fd}), inherits=[fd]) as daemon:
        daemon.leaves_sockets = True
        daemon.write({"cam1": entries["cam1"]})
        assert daemon.post("/v1/reload")[1]["removed"] == ["cam0"]
        if taken_over:
            daemon.signal(signal.SIGUSR2)
            daemon.wait_log("took over")
        daemon.write(entries)
        code, answer = daemon.post("/v1/reload")
        assert code == 200 and answer["added"] == ["cam0"], answer
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(3, SIZE).tobytes())
            assert reader.read(3 * SIZE) == numbered(3, SIZE).tobytes()
    os.close(fd)  # which the manager has, too


@pytest.mark.parametrize("state", ["unusable", "too short"])
def test_a_daemon_that_begins_anew_has_the_manager_start_it_where_that_has_its_sockets(place, state):
    """It would find them in use by the manager, and take that for another daemon."""
    own = place / "framed"
    shutil.copy(BINARY, own)
    fd = listening(place / "passed.sock")
    program = activated(place, own, {"cam0": fd})
    entry = pipeline(FORMAT, source={"socket": str(place / "passed.sock")})
    with Daemon(place, {"cam0": entry}, binary=program, inherits=[fd]) as daemon:
        daemon.leaves_sockets = True
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(3, SIZE).tobytes())
            assert reader.read(3 * SIZE) == numbered(3, SIZE).tobytes()
        text = json.dumps(complete(place, {"cam0": entry})).encode()
        left = os.dup(0) if state == "unusable" else state_with(place, text)
        daemon.settled = True
        own.unlink()
        own.write_text(f'#!/bin/sh\ncase "$*" in *--check*) exec {BINARY} "$@";; esac\nexport FRAMED_STATE=9\n'
                       f'exec 9</proc/{os.getpid()}/fd/{left}\nexec {BINARY} "$@"\n')
        own.chmod(0o755)
        daemon.signal(signal.SIGUSR2)
        daemon.ends(70)
        os.close(left)
    os.close(fd)  # until here the manager listens there, too
    assert "starts it anew" in daemon.log
