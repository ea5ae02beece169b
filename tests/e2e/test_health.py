"""/v1/live, and systemd's watchdog after it: whether frames, or canaries where none come, get through the device in time."""

import json
import os
import pathlib
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import pytest

from harness import BACKEND, FRAMECTL, Background, Daemon, environment, fault_stage, limit, numbered, pace, pipeline, wait_until
from harness.injection import REST, Injection

pytestmark = pytest.mark.waits

SIZE = 512
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def gpu(seconds):
    """Canaries go every second or, if that is less, every half of the timeout, which is the limit too."""
    return {"backend": BACKEND, "timeout": f"{pace(seconds) * 1000:.0f}ms"}


def health(daemon):
    """(whether the daemon says that all moves, its document); where nothing else is wrong, /v1/health says the same."""
    code, body = daemon.request("GET", "/v1/live")
    document = json.loads(body)
    assert code == (200 if document["ok"] else 503), (code, body)
    assert document["ok"] == (document["why"] == ""), body
    return document["ok"], document


def unhealthy(daemon):
    """The document of one that is not well, else None. Of the next one it may be known by then that the process had stopped."""
    well, document = health(daemon)
    return None if well else document


def canary_age(document):
    return document["devices"]["0"]["canary_age_s"]


def stays_healthy(daemon, canaries=5):
    """While that many canaries come back, which no frame does: longer than the limit."""
    before, seen = 0.0, 0
    end = time.monotonic() + limit(20)
    while seen < canaries:
        ok, document = health(daemon)
        assert ok, document
        seen += canary_age(document) < before
        before = canary_age(document)
        assert time.monotonic() < end, f"{seen} canaries came back: {document}"


def test_idle_is_healthy(place):
    with Daemon(place, {"cam0": pipeline(FORMAT), "cam1": pipeline(FORMAT)}, gpu=gpu(4)) as daemon:
        stays_healthy(daemon)
        _, document = health(daemon)
        assert set(document["devices"]) == {"0"} and set(document["pipelines"]) == {"cam0", "cam1"}, document
        assert document["devices"]["0"]["canary_us"] > 0, document
        assert daemon.status()["health"]["ok"] is True
        assert "framed_healthy 1\n" in daemon.metrics()
        assert 'framed_canary_seconds{device="0"} ' in daemon.metrics()


@pytest.mark.parametrize("command", ["pause", "drain"])
def test_paused_and_drained_are_healthy(place, command):
    with Daemon(place, {"cam0": pipeline(FORMAT)}, gpu=gpu(4)) as daemon:
        daemon.command(f"/v1/pipelines/cam0/{command}")
        with daemon.producer() as producer:
            producer.send(numbered(2, SIZE).tobytes())
            stays_healthy(daemon)
            daemon.command("/v1/pipelines/cam0/resume")
            with daemon.reader() as reader:
                reader.frames(2, SIZE)
        daemon.account(came=2, emitted=2)


def test_a_pipeline_whose_results_nobody_takes_is_healthy(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, slots=2)}, gpu=gpu(4)) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(5, SIZE).tobytes())
            daemon.wait_view("results wait for a reader", lambda view: view["waiting"] == "reader")
            stays_healthy(daemon)
            with daemon.reader() as reader:
                reader.frames(5, SIZE)
        daemon.account(came=5, emitted=5)


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=limit(20)) as answer:
            return answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.loads(error.read())


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def hang(daemon, name="cam0"):
    """Sends one frame, which hangs, and waits until health says so: that is before the device is given up for lost."""
    producer = daemon.producer(name)
    producer.send(numbered(1, SIZE).tobytes())

    def it_is_seen():
        document = unhealthy(daemon)
        return document if document and not document["pipelines"][name]["ok"] else None
    document = wait_until(it_is_seen, lambda: f"health sees it\n{daemon.log}", 40)
    assert "the worker of device 0 failed" not in daemon.log
    return producer, document


def stop_at_once(daemon):
    """What is on the device never comes back, and how that ends is for other tests."""
    daemon.status()  # whose accounts balance
    daemon.kill()
    for path in daemon.socket_paths():
        os.unlink(path)
    daemon.settled = True


def test_a_frame_that_hangs_is_told_before_the_device_is_given_up(place):
    port = free_port()
    keys = {"status": {"socket": str(place / "status.sock"), "http": f"127.0.0.1:{port}"}, "gpu": gpu(12)}
    entries = {"cam0": pipeline(FORMAT, stages=[fault_stage("hang", at=0)]), "cam1": pipeline(FORMAT)}
    with Daemon(place, entries, **keys) as daemon:
        assert health(daemon)[0]
        producer, document = hang(daemon)
        assert document["why"].startswith("device 0: nothing has come back from it for "), document
        assert "with 1 frame there" in document["devices"]["0"]["why"], document
        assert document["devices"]["0"]["since_s"] > 0 and document["devices"]["0"]["count"] == 1, document
        assert document["pipelines"]["cam0"]["ok"] is False and "on device 0" in document["pipelines"]["cam0"]["why"], document
        assert document["pipelines"]["cam1"] == {"ok": True, "why": ""}, document
        assert get(f"http://127.0.0.1:{port}/v1/health")[0] == 503
        assert "framed_healthy 0\n" in daemon.metrics() and "framed_live 0\n" in daemon.metrics()
        assert 'framed_pipeline_degraded{pipeline="cam0",reason="stuck"} 1\n' in daemon.metrics()
        done = subprocess.run([FRAMECTL, "-s", daemon.socket, "health"], capture_output=True, text=True,
                              timeout=limit(20), env=environment(), check=False)
        assert done.returncode == 2 and done.stdout.startswith("not live\n") and not done.stderr, done
        assert ": its 1 frame on device 0 did not come back for " in done.stdout, done
        done = subprocess.run([FRAMECTL, "-s", daemon.socket, "health", "--json"], capture_output=True, text=True,
                              timeout=limit(20), env=environment(), check=False)
        assert done.returncode == 2 and json.loads(done.stdout)["ok"] is False and not done.stderr, done
        producer.close()
        stop_at_once(daemon)


def workers(daemon):
    """The processes of its workers."""
    tasks = pathlib.Path(f"/proc/{daemon.process.pid}/task").iterdir()
    return [int(child) for task in tasks for child in (task / "children").read_text().split()]


@pytest.mark.skipif(BACKEND != "cpu", reason="holds the worker of the CPU backend")
def test_a_device_that_stands_still_is_found_by_its_canary(place):
    """Where no frame comes: first health says so, and after gpu.timeout it is a fault."""
    with Daemon(place, {"cam0": pipeline(FORMAT)}, gpu=gpu(8)) as daemon:
        stays_healthy(daemon, canaries=1)
        [worker] = workers(daemon)
        os.kill(worker, signal.SIGSTOP)
        document = wait_until(lambda: unhealthy(daemon), "health sees it")
        assert "no frame is there, and the canary" in document["devices"]["0"]["why"], document
        assert document["pipelines"]["cam0"]["ok"] and "the worker of device 0 failed" not in daemon.log, document
        daemon.wait_log("no canary has come back from device 0 for ")
        daemon.wait_log("device 0 has another worker")
        stays_healthy(daemon, canaries=1)
        assert workers(daemon) != [worker]


def test_framectl_says_that_all_is_well(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}, gpu=gpu(8)) as daemon:
        for arguments, begin in (([], "healthy; device 0: the last canary took "), (["--json"], "{")):
            done = subprocess.run([FRAMECTL, "-s", daemon.socket, "health", *arguments], capture_output=True, text=True,
                                  timeout=limit(20), env=environment(), check=False)
            assert done.returncode == 0 and done.stdout.startswith(begin) and not done.stderr, done


def test_a_standstill_of_the_whole_process_is_no_fault(place):
    """Stopped for longer than gpu.timeout: no canary came back, and none could."""
    with Daemon(place, {"cam0": pipeline(FORMAT)}, gpu=gpu(1)) as daemon:
        for _ in range(3):
            daemon.signal(signal.SIGSTOP)
            time.sleep(pace(1.5))
            daemon.signal(signal.SIGCONT)
            wait_until(lambda: health(daemon)[0], lambda: f"it is healthy again: {health(daemon)}")
        stays_healthy(daemon, canaries=1)
        assert "the worker of device 0 failed" not in daemon.log


def test_a_standstill_is_told_for_a_while(place):
    """The control loop cannot tell while it stands; once it goes on, it says for how long it stood."""
    rest = Injection(place, "accept4", at=3, error=REST, wait=int(pace(2) * 1000))
    with Daemon(place, {"cam0": pipeline(FORMAT)}, gpu=gpu(10), env=rest.environment) as daemon:
        while not rest.happened:
            health(daemon)
        told = wait_until(lambda: health(daemon)[1]["control"]["standstill_s"], "it is told")
        assert told >= pace(1)
        stays_healthy(daemon, canaries=1)
        assert health(daemon)[1]["control"]["standstill_s"] >= told


def test_who_asks_right_after_a_standstill_hears_no_fault(place):
    """Who asks may have waited in the very step in which the control loop stood still, and its timers come after that."""
    rest = Injection(place, "accept4", at=5, error=REST, wait=int(pace(2) * 1000))
    with Daemon(place, {"cam0": pipeline(FORMAT)}, gpu=gpu(1), env=rest.environment) as daemon:
        while not rest.happened:
            assert health(daemon)[0], health(daemon)


class Manager:
    """Hears notifications as systemd would, at once, and counts how often the watchdog is fed."""

    def __init__(self, place):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(place / "notify"))
        self.environment = {"NOTIFY_SOCKET": str(place / "notify"), "WATCHDOG_USEC": f"{pace(0.4) * 1e6:.0f}"}
        self.fed = 0
        self.ear = Background(self.listen)

    def listen(self):
        while text := self.socket.recv(4096):
            if b"WATCHDOG=1" in text.splitlines():
                self.fed += 1

    def close(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as last:
            last.sendto(b"", self.environment["NOTIFY_SOCKET"])
        self.ear.join()
        self.socket.close()


@pytest.fixture
def manager(place):
    manager = Manager(place)
    yield manager
    manager.close()


def test_the_watchdog_starves_while_a_frame_hangs(place, manager):
    entry = pipeline(FORMAT, stages=[fault_stage("hang", at=0)])
    with Daemon(place, {"cam0": entry}, gpu=gpu(12), env=manager.environment) as daemon:
        wait_until(lambda: manager.fed, "it is fed")
        producer, _ = hang(daemon)
        time.sleep(pace(0.2))  # until what was sent before is heard
        before = manager.fed
        time.sleep(pace(1))
        assert manager.fed == before
        assert not health(daemon)[0] and "the worker of device 0 failed" not in daemon.log
        producer.close()
        stop_at_once(daemon)


@pytest.mark.parametrize("seconds, warned", [(0.2, False), (5, True)])
def test_a_watchdog_that_is_too_quick_is_said_once(place, manager, seconds, warned):
    """It would bite before a limit that is longer is over."""
    with Daemon(place, {"cam0": pipeline(FORMAT)}, gpu=gpu(seconds), env=manager.environment) as daemon:
        fed = manager.fed
        wait_until(lambda: manager.fed > fed + 10, "some intervals have passed")
        assert daemon.log.count("is longer than WatchdogSec") == warned


def test_a_frame_that_comes_late_is_told_until_it_comes(place):
    """A frame that takes longer than the limit, but comes."""
    entry = pipeline(FORMAT, stages=[{"fault": {"kind": "delay", "ms": pace(8) * 1000}}])
    with Daemon(place, {"cam0": entry}, gpu=gpu(10)) as daemon, daemon.reader() as reader, daemon.producer() as producer:
        count, what = 0, ""

        def becomes():
            return "late" if not health(daemon)[0] else "come" if daemon.frames()["emitted"] == count else ""
        while what != "late" and count < 4:  # a time in which nobody had a processor excuses the frame that is there
            producer.send(numbered(1, SIZE, first=count).tobytes())
            count += 1
            what = wait_until(becomes, "it is late, or comes", 40)
        assert what == "late"
        wait_until(lambda: health(daemon)[0], "it came")
        reader.frames(count, SIZE)
        daemon.account(came=count, emitted=count)
