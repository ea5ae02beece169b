"""What the journal gets of a fault: the test plays journald, at its socket, for a daemon with a /run of its own."""

import os
import signal
import socket
import subprocess
import threading

import pytest

from harness import BACKEND, Background, Daemon, limit, numbered, pipeline, wait_until
from harness.daemon import BINARY

pytestmark = [pytest.mark.host, pytest.mark.memory]

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def may_mount():
    return subprocess.run(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/run"], capture_output=True, check=False).returncode == 0


class Journal:
    """A directory's own journald; `entries` are those that came, as {field: value}."""

    def __init__(self, place, reads=True):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(place / "journal"))
        self.entries, self.fillers = [], []
        log = place / "log"
        log.touch()
        program = place / "start"
        program.write_text("#!/bin/sh\nexec unshare -m sh -c 'mount -t tmpfs none /run && mkdir -p /run/systemd/journal && "
                           f'ln -s {place}/journal /run/systemd/journal/socket && exec {BINARY} "$@"\' - "$@"\n')
        program.chmod(0o755)
        self.options = {"binary": program, "env": {"JOURNAL_STREAM": f"{os.stat(log).st_dev}:{os.stat(log).st_ino}"}}
        if reads:
            self.read()

    def read(self):
        threading.Thread(target=self.take, daemon=True).start()

    def take(self):
        """As journald does, at once: its socket holds few entries."""
        while text := self.socket.recv(1 << 16).decode():
            entry = dict(line.split("=", 1) for line in text.splitlines())
            (self.entries if "FRAMED_KIND" in entry else self.fillers).append(entry)

    def find(self, kind):
        return [entry for entry in self.entries if entry["FRAMED_KIND"] == kind]

    def wait(self, kind, count=1):
        wait_until(lambda: len(self.find(kind)) >= count, lambda: f"{count} of {kind}: {self.entries}")
        return self.find(kind)


@pytest.mark.skipif(not may_mount(), reason="needs to mount a /run for the daemon")
def test_a_fault_is_one_entry_with_everything_in_fields(place):
    journal = Journal(place)
    stages = [{"affine": {"scale": 1, "offset": 0}}, {"fault": {"kind": "illegal", "at": 5, "every": 0, "again": "yes"}}]
    with Daemon(place, {"cam0": pipeline(FORMAT, stages=stages, slots=1)}, gpu={"backend": BACKEND, "faults": "60/min"},
                **journal.options) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            sending = Background(producer.send, numbered(20, SIZE).tobytes())
            reader.read(19 * SIZE)
            sending.join()
        daemon.account(came=20, emitted=19, gpu_fault=1)
        faults, taken = journal.wait("GPU_FAULT", 2), journal.wait("WORKER_REPLACED", 2)
        assert len(faults) == len(taken) == 2, journal.entries
        for entry in faults:
            assert "illegal" in entry["FRAMED_ERROR"] and entry["FRAMED_ERROR"] in entry["MESSAGE"], entry
            assert entry["PRIORITY"] == "3", entry
        named = [entry for entry in faults if "FRAMED_PIPELINE" in entry]
        assert named, faults  # a look at the device's clock may meet one of them before the lane does, and knows of no frame
        for entry in named:
            fields = [entry[f"FRAMED_{field}"] for field in ("PIPELINE", "DEVICE", "STAGE", "SEQUENCE")]
            assert fields == ["cam0", "0", "affine, fault", "5"], entry
            assert f"frame 5 of epoch {entry['FRAMED_EPOCH']} was on the device (stages affine, fault)" in entry["MESSAGE"], entry
        condemned = [(entry["FRAMED_EPOCH"], entry["FRAMED_SEQUENCE"]) for entry in journal.wait("CONDEMNED")]
        assert condemned == [(named[0]["FRAMED_EPOCH"], "5")], condemned
        daemon.signal(signal.SIGUSR2)
        assert "took over" in journal.wait("HANDED_OVER")[0]["MESSAGE"]


@pytest.mark.skipif(not may_mount(), reason="needs to mount a /run for the daemon")
def test_several_frames_on_the_device_are_a_range(place):
    journal = Journal(place)
    entry = pipeline(FORMAT, stages=[{"fault": {"kind": "hang", "at": 0, "every": 0, "again": "no"}}], slots=4)
    with Daemon(place, {"cam0": entry, "cam1": pipeline(FORMAT)}, gpu={"backend": BACKEND, "timeout": f"{limit(400):.0f}ms"},
                **journal.options) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(4, SIZE).tobytes())
            reader.read(4 * SIZE)
        daemon.account(came=4, emitted=4)
        fault = journal.wait("GPU_FAULT")[0]
        assert fault["FRAMED_SEQUENCE"] == "0-3" and fault["FRAMED_STAGE"] == "fault", fault
        assert f"frames 0 to 3 of epoch {fault['FRAMED_EPOCH']} were on the device (stage fault)" in fault["MESSAGE"], fault
        assert fault["MESSAGE"].endswith("raise gpu.timeout"), fault
