"""What a service manager hears of the daemon: notifications on a socket of our own, as systemd would listen."""

import os
import select
import signal
import socket

import pytest

from harness import Daemon, limit, numbered, pace, pipeline, wait_until

pytestmark = pytest.mark.memory

GRAY = {"pixels": "gray", "width": 32, "height": 16}


class Manager:
    """Receives notifications; each is a dictionary."""

    def __init__(self, place, watchdog_us=0):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(place / "notify"))
        self.socket.settimeout(limit(20))
        self.environment = {"NOTIFY_SOCKET": str(place / "notify")}
        if watchdog_us:
            self.environment["WATCHDOG_USEC"] = str(watchdog_us)

    def next(self):
        return dict(line.split("=", 1) for line in self.socket.recv(4096).decode().splitlines())

    def forget(self):
        """What was said until now."""
        while select.select([self.socket], [], [], 0)[0]:
            self.next()

    def wait_for(self, key):
        """The next notification that has this key."""
        while True:
            notification = self.next()
            if key in notification:
                return notification


@pytest.fixture
def manager(place):
    """One without a watchdog, whose messages would leave no room for others where nobody reads for some seconds."""
    manager = Manager(place)
    yield manager
    manager.socket.close()


@pytest.fixture
def watching(place):
    manager = Manager(place, watchdog_us=400_000)
    yield manager
    manager.socket.close()


def test_ready_reloading_and_stopping_are_told_in_this_order(place, manager):
    with Daemon(place, {"cam0": pipeline(GRAY)}, env=manager.environment) as daemon:
        assert manager.wait_for("READY")["READY"] == "1"
        assert daemon.post("/v1/reload")[0] == 200
        assert int(manager.wait_for("RELOADING")["MONOTONIC_USEC"]) > 0
        assert manager.wait_for("READY")["READY"] == "1"
        daemon.file.write_text("nonsense: [")
        assert daemon.post("/v1/reload")[0] == 400
        manager.wait_for("RELOADING")
        manager.wait_for("READY")  # a refused reload has ended too
        daemon.write(daemon.config["pipelines"])
    assert "finishing" in manager.wait_for("STOPPING")["STATUS"]


def test_the_status_line_says_what_runs(place, manager):
    with Daemon(place, {"cam0": pipeline(GRAY), "cam1": pipeline(GRAY)}, env=manager.environment) as daemon:
        assert manager.wait_for("READY")["STATUS"].startswith("2 of 2 pipelines running on ")
        daemon.command("/v1/pipelines/cam1/pause")
        wait_until(lambda: manager.wait_for("STATUS")["STATUS"].startswith("1 of 2 pipelines running on "), "the status line")
        assert daemon.post("/v1/reload")[0] == 200
        assert manager.wait_for("READY")["STATUS"].startswith("1 of 2 pipelines running on ")


def test_the_watchdog_is_fed_while_frames_move_and_while_they_wait(place, watching):
    entry = pipeline(GRAY, sink={"overload": "block"})
    with Daemon(place, {"cam0": entry}, env=watching.environment) as daemon:
        watching.wait_for("READY")
        for _ in range(5):  # idle
            watching.wait_for("WATCHDOG")
        with daemon.producer() as producer:
            producer.send(numbered(2, 512).tobytes())
            daemon.wait_view("results wait for a reader", lambda view: view["waiting"] == "reader")
            for _ in range(5):  # blocked
                watching.wait_for("WATCHDOG")
            with daemon.reader() as reader:
                reader.frames(2, 512)


def test_the_watchdog_starves_when_the_loop_stands_still(place, watching):
    with Daemon(place, {"cam0": pipeline(GRAY)}, env=watching.environment) as daemon:
        watching.wait_for("WATCHDOG")
        daemon.signal(signal.SIGSTOP)
        watching.socket.settimeout(limit(1))
        with pytest.raises(TimeoutError):
            for _ in range(1000):  # what was sent before
                watching.next()
        daemon.signal(signal.SIGCONT)
        watching.socket.settimeout(limit(20))
        watching.wait_for("WATCHDOG")


def test_the_watchdog_is_fed_while_another_image_prepares(place, watching):
    """Which may take longer than the watchdog waits: each slot of each pipeline is made anew."""
    slow = place / "slow-warm-ups"  # so many of them as it has bytes
    slow.touch()
    delay = {"fault": {"kind": "delay", "at": 1 << 30, "ms": round(pace(2) * 1000)}}
    environment = {**watching.environment, "FRAMED_FAULT_WARM_UPS": str(slow)}
    with Daemon(place, {"cam0": pipeline(GRAY, stages=[delay])}, env=environment) as daemon:
        watching.wait_for("READY")
        slow.write_bytes(b"x")
        daemon.signal(signal.SIGUSR2)
        wait_until(lambda: not slow.stat().st_size, "a warm-up of the next image takes its time")
        watching.forget()
        assert "WATCHDOG" in watching.next()
        assert "took over" not in daemon.log
        watching.wait_for("READY")


def test_an_order_that_comes_before_the_process_handles_any_waits(place):
    """A configuration that is read from a FIFO takes until somebody writes it."""
    with Daemon(place, {"cam0": pipeline(GRAY)}, ready=False) as daemon:
        daemon.kill()
        text = daemon.file.read_text()
        daemon.file.unlink()
        os.mkfifo(daemon.file)
        daemon.start()
        with open(daemon.file, "w") as fifo:  # which it opens as well
            daemon.signal(signal.SIGHUP)
            (place / "another").write_text(text)
            (place / "another").rename(daemon.file)
            fifo.write(text)
        daemon.wait_ready()
        daemon.wait_log("configuration reloaded")
