"""Sessions on several devices: where they are placed, and how they move when a device fails for good, is drained, or comes back.

The CPU backend is as many devices as `gpu.count` says; with GPUs the tests run where there are four. The `fault` stage, kind
`lost`, ends those for good whose numbers stand in the file that FRAMED_FAULT_DEVICES names, and none of these can be opened.
"""

import itertools
import os
import re
import signal
import subprocess
import threading

import numpy as np
import pytest

from harness import BACKEND, FRAMECTL, Background, Client, Daemon, limit, numbered, pipeline, wait_until
from harness.daemon import environment

SIZE = 512
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
LOST = {"fault": {"kind": "lost"}}

MOST = 4
there = len([name for name in os.listdir("/dev") if re.fullmatch(r"nvidia\d+", name)])
pytestmark = pytest.mark.skipif(BACKEND != "cpu" and there < MOST, reason="there are not so many devices")


class Many(Daemon):
    def __init__(self, place, pipelines, count=MOST, faults="60/min", timeout="2s", more=None, **keys):
        self.broken = place / "broken"
        self.broken.write_text("")
        gpu = {"backend": BACKEND, "faults": faults, "timeout": timeout, **({"count": count} if BACKEND == "cpu" else {})}
        seen = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, range(count)))}
        super().__init__(place, pipelines, gpu=gpu, env={"FRAMED_FAULT_DEVICES": str(self.broken), **seen, **(more or {})}, lanes=2,
                         **keys)

    def break_devices(self, *numbers):
        """At once for whoever reads the file meanwhile."""
        new = self.broken.with_suffix(".new")
        new.write_text(" ".join(map(str, numbers)))
        new.rename(self.broken)

    def wait_state(self, device, state):
        def there():
            return self.status()["devices"].get(str(device), {}).get("state") == state
        wait_until(there, lambda: f"device {device} is {state}: {self.last.get('devices')}\n{self.log}", 30)
        return self.last["devices"][str(device)]

    def places(self):
        """The device of each producer, by pipeline."""
        return {name: [client["device"] for client in view["connected"]] for name, view in self.status()["pipelines"].items()}

    def health(self):
        return self.request("GET", "/v1/health")


def talking(clients=4, slots=2):
    return pipeline(FORMAT, source={"clients": clients}, sink={"reply": True}, slots=slots, devices="all", stages=[LOST])


class Traffic:
    """Clients that send frames for as long as they are in use, and demand each result in order."""

    def __init__(self, daemon, name="cam0", clients=4):
        self.daemon, self.ending, self.counts = daemon, threading.Event(), [0] * clients
        self.clients = [Client(daemon.path(name, "source")) for _ in range(clients)]
        self.threads = [Background(self.talk, index) for index in range(clients)]

    def talk(self, index):
        client = self.clients[index]
        for first in itertools.count(step=4):
            if self.ending.is_set():
                return
            frames = numbered(4, SIZE, first=first)
            client.send(frames.tobytes())
            np.testing.assert_array_equal(np.frombuffer(client.read(4 * SIZE), np.uint8).reshape(4, SIZE), frames)
            self.counts[index] += 4

    def wait_more(self):
        """Until each of them got results of frames that were sent after this call."""
        before = list(self.counts)
        wait_until(lambda: all(now >= then + 8 for now, then in zip(self.counts, before)),
                   lambda: f"frames go on: {before}, then {self.counts}\n{self.daemon.log}", 30)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.ending.set()
        if error[0] is None:
            for thread in self.threads:
                thread.join()
        for client in self.clients:
            client.close()


def test_sessions_are_spread_over_the_devices(place):
    """Eight pipelines of eight producers: whoever comes is on the device with the fewest."""
    entries = {f"cam{i}": pipeline(FORMAT, source={"clients": 8}, sink={"reply": True}, slots=1, devices="all") for i in range(8)}
    with Many(place, entries) as daemon:
        clients = []
        for turn in range(8):
            for name in entries:
                client = Client(daemon.path(name, "source"))
                client.send(numbered(1, SIZE).tobytes())
                assert client.read(SIZE) == numbered(1, SIZE).tobytes()
                clients.append(client)
            counts = [daemon.status()["devices"][str(device)]["producers"] for device in range(4)]
            assert counts == [2 * (turn + 1)] * 4, counts
        assert all(sorted(devices) == [0, 0, 1, 1, 2, 2, 3, 3] for devices in daemon.places().values()), daemon.places()
        assert daemon.last["pipelines"]["cam3"]["devices"] == [0, 1, 2, 3]
        assert 'framed_device_producers{device="2"} 16' in daemon.metrics()
        for client in clients:
            client.close()
        wait_until(lambda: daemon.status()["devices"]["2"]["producers"] == 0, "nobody is there any more")


def test_a_list_names_the_devices(place):
    entries = {"cam0": pipeline(FORMAT, source={"clients": 4}, sink={"reply": True}, devices=[1, 3]), "cam1": pipeline(FORMAT)}
    with Many(place, entries) as daemon:
        assert {name: view["devices"] for name, view in daemon.status()["pipelines"].items()} == {"cam0": [1, 3], "cam1": [0]}
        assert set(daemon.last["devices"]) == {"0", "1", "3"}


def test_a_device_that_fails_for_good_is_left_out(place):
    """Its sessions go on with the others, with every frame; health and a metric say so until it is brought back."""
    with Many(place, {"cam0": talking()}) as daemon:
        with Traffic(daemon) as traffic:
            traffic.wait_more()
            daemon.break_devices(1)
            assert "broken" in daemon.wait_state(1, "failed")["text"]
            traffic.wait_more()
            assert sorted(daemon.places()["cam0"]) in ([0, 0, 2, 3], [0, 2, 2, 3], [0, 2, 3, 3]), daemon.last
            code, body = daemon.health()
            assert code == 503 and '"left_out"' in body and "device 1: it is left out" in body, body
            assert daemon.request("GET", "/v1/live")[0] == 200
            assert 'framed_device_state{device="1",state="failed"} 1' in daemon.metrics()
            code, answer = daemon.post("/v1/devices/1/drain")
            assert code == 409 and "left out" in answer["error"], answer
            daemon.command("/v1/devices/1/resume")  # it is still broken
            wait_until(lambda: daemon.log.count("device 1 is left out") == 2, lambda: f"it is tried\n{daemon.log}", 30)
            daemon.wait_state(1, "failed")
            daemon.break_devices()
            daemon.command("/v1/devices/1/resume")
            daemon.wait_state(1, "open")
            traffic.wait_more()
            assert sorted(daemon.places()["cam0"]) == [0, 1, 2, 3], daemon.last
            assert daemon.health()[0] == 200
        count = sum(traffic.counts)
        daemon.account(came=count, emitted=count)


def test_a_device_is_drained_and_comes_back(place):
    with Many(place, {"cam0": talking()}) as daemon:
        with Traffic(daemon) as traffic:
            traffic.wait_more()
            process = daemon.process.pid
            assert daemon.command("/v1/devices/2/drain")["state"] == "draining"
            daemon.wait_state(2, "drained")
            traffic.wait_more()
            assert 2 not in daemon.places()["cam0"] and daemon.health()[0] == 200
            assert daemon.command("/v1/devices/2/drain")["state"] == "drained"
            daemon.signal(signal.SIGUSR2)  # an upgrade
            wait_until(lambda: daemon.status()["handovers"]["upgrade"] == 1, lambda: f"it takes over\n{daemon.log}", 30)
            assert daemon.last["devices"]["2"]["state"] == "drained", daemon.last["devices"]
            daemon.command("/v1/devices/2/resume")
            daemon.wait_state(2, "open")
            traffic.wait_more()
            assert 2 in daemon.places()["cam0"]
            assert daemon.process.pid == process
        count = sum(traffic.counts)
        daemon.account(came=count, emitted=count)


def test_a_device_that_fails_again_at_once_is_left_out(place):
    """It can be opened, but no frame gets through it when the next process warms it up."""
    warm_ups = place / "warm-ups"
    warm_ups.write_bytes(b"")
    strike = {"fault": {"kind": "illegal", "at": 5, "every": 0, "again": "no"}}
    entry = pipeline(FORMAT, sink={"reply": True}, devices="all", stages=[strike])
    with Many(place, {"cam0": entry}, count=2, more={"FRAMED_FAULT_WARM_UPS": str(warm_ups)}) as daemon:
        with Client(daemon.path("cam0", "source")) as client:
            warm_ups.write_bytes(b"1")
            client.send(numbered(20, SIZE).tobytes())
            assert client.read(20 * SIZE) == numbered(20, SIZE).tobytes()
            assert "illegal memory access" in daemon.wait_state(0, "failed")["text"]
            assert daemon.places()["cam0"] == [1]
        daemon.account(came=20, emitted=20)


def test_devices_that_fail_at_once_one_after_the_other_are_left_out(place):
    """Each is found at a start of its own, and none comes back while the others are looked for."""
    warm_ups = place / "warm-ups"
    warm_ups.write_bytes(b"")
    strike = {"fault": {"kind": "illegal", "at": 5, "every": 0, "again": "no"}}
    entry = pipeline(FORMAT, sink={"reply": True}, devices="all", stages=[strike])
    with Many(place, {"cam0": entry}, more={"FRAMED_FAULT_WARM_UPS": str(warm_ups)}) as daemon:
        with Client(daemon.path("cam0", "source")) as client:
            warm_ups.write_bytes(b"11")
            client.send(numbered(20, SIZE).tobytes())
            assert client.read(20 * SIZE) == numbered(20, SIZE).tobytes()
            daemon.wait_state(0, "failed")
            daemon.wait_state(1, "failed")
            assert daemon.places()["cam0"] == [2]
        daemon.account(came=20, emitted=20)


def test_framectl_waits_until_it_is_done(place):
    def device(*words):
        done = subprocess.run([FRAMECTL, "-s", place / "status.sock", "device", *words], capture_output=True, text=True,
                              env=environment(), timeout=limit(30), check=False)
        return done.returncode, done.stdout + done.stderr

    with Many(place, {"cam0": talking(clients=2), "cam1": pipeline(FORMAT, device=0)}, count=2) as daemon:
        assert device("1", "drain") == (0, "device 1 is drained\n")
        assert daemon.status()["devices"]["1"]["state"] == "drained"
        status = subprocess.run([FRAMECTL, "-s", place / "status.sock", "status"], capture_output=True, text=True, env=environment(),
                                timeout=limit(30), check=True).stdout
        assert "device 1: drained: somebody asked for it" in status, status
        assert device("1", "resume") == (0, "device 1 is open\n")
        assert daemon.status()["pipelines"]["cam0"]["devices"] == [0, 1]
        code, said = device("0", "drain")
        assert code == 1 and "'cam1' has no other device" in said, said
        code, said = device("1", "free")
        assert code == 64 and "framectl device 1 drain" in said, said


def test_a_device_that_somebody_needs_is_not_drained(place):
    entries = {"cam0": talking(), "cam1": pipeline(FORMAT, device=3)}
    with Many(place, entries) as daemon:
        code, answer = daemon.post("/v1/devices/3/drain")
        assert code == 409 and "'cam1' has no other device" in answer["error"], answer
        code, answer = daemon.post("/v1/devices/9/drain")
        assert code == 404 and "0 1 2 3" in answer["remedy"], answer
        assert daemon.command("/v1/devices/3/resume")["state"] == "open"


def test_the_last_device_waits(place):
    """One after the other is left out. Where none is left it is tried again and again, and at once at a reload."""
    with Many(place, {"cam0": talking(clients=2)}, count=2, faults="4/min") as daemon:
        with Client(daemon.path("cam0", "source")) as client:
            def ask():
                client.send(numbered(1, SIZE).tobytes())
                assert client.read(SIZE) == numbered(1, SIZE).tobytes()
            ask()
            daemon.break_devices(0)
            ask()
            wait_until(lambda: daemon.places()["cam0"] == [1], lambda: f"it is on the other\n{daemon.log}")
            assert daemon.wait_state(0, "failed")
            daemon.break_devices(0, 1)
            client.send(numbered(1, SIZE).tobytes())
            daemon.wait_log("the worker of device 1 failed, and another one is started in 2 s")
            assert "device 1 cannot be used: it is broken" in daemon.log
            assert daemon.request("GET", "/v1/live")[0] == 200
            daemon.break_devices()
            daemon.signal(signal.SIGHUP)
            assert client.read(SIZE) == numbered(1, SIZE).tobytes()
            ask()


def test_a_start_from_nothing_forgets(place):
    daemon = Many(place, {"cam0": talking(clients=2)}, count=2)
    with daemon:
        daemon.command("/v1/devices/1/drain")
        daemon.wait_state(1, "drained")
    with Many(place, {"cam0": talking(clients=2)}, count=2) as daemon:
        assert daemon.status()["devices"]["1"]["state"] == "open"


def test_a_device_that_is_broken_from_the_start_is_left_out(place):
    daemon = Many(place, {"cam0": talking(clients=2)}, count=2)
    daemon.break_devices(1)
    with daemon:
        assert daemon.status()["devices"]["1"]["state"] == "failed"
        assert daemon.last["pipelines"]["cam0"]["devices"] == [0]
