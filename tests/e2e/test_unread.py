"""A client of a `reply` pipeline that sends and never reads: it stands still, and everybody who asks is told why."""

import json
import socket
import subprocess

import pytest

from harness import FRAMECTL, Background, Daemon, environment, limit, pipeline, wait_until

pytestmark = pytest.mark.waits

GRAY = {"pixels": "gray", "width": 640, "height": 480}
SIZE = 640 * 480


def framectl(place, *arguments):
    return subprocess.run([FRAMECTL, "-s", place / "status.sock", *arguments], capture_output=True, text=True,
                          env=environment(), timeout=limit(20), check=False)


def send_until_cut(producer):
    try:
        while True:
            producer.send(bytes(SIZE))
    except OSError:
        pass


def test_a_client_that_never_reads_is_told_of(place):
    with Daemon(place, {"cam0": pipeline(GRAY, sink={"reply": True})}) as daemon:
        assert "does not read" not in framectl(place, "status", "cam0").stdout + framectl(place, "doctor").stdout
        with daemon.producer() as producer:
            sending = Background(send_until_cut, producer)
            daemon.wait_view("it stands still", lambda view: view["waiting"] == "reader" and view["not_read"])
            assert "waits for reader: its client does not read its results" in framectl(place, "status", "cam0").stdout
            doctor = framectl(place, "doctor", "--json")
            [finding] = [finding for finding in json.loads(doctor.stdout)["machine"] if finding["check"] == "results"]
            assert doctor.returncode == 2 and finding["found"] == "a client of cam0 does not read its results"
            says = {}

            def says_the_same():
                says.update(advice=daemon.view()["overlap"]["advice"], doctor=framectl(place, "doctor").stdout)
                return "reads its results while it sends" in says["advice"] and says["advice"] in says["doctor"]
            wait_until(says_the_same, lambda: f"status and framectl advise the same: {says}", 30)
            daemon.wait_log("has read no result to its end for 10 s", 60)
            producer.socket.shutdown(socket.SHUT_RDWR)
            sending.join()
        daemon.wait_view("it has gone", lambda view: view["sessions"] == 0)
        assert daemon.log.count("has read no result") == 1, daemon.log
        daemon.settled = True


def test_a_client_that_stopped_sending_is_not_told_to_read(place):
    """Its results wait and none of its frames does; what cam1's client is told by then cam0's would have been told before."""
    entries = {name: pipeline(GRAY, slots=2, sink={"reply": True}) for name in ("cam0", "cam1")}
    with Daemon(place, entries) as daemon:
        with daemon.producer("cam0") as quiet, daemon.producer("cam1") as producer:
            assert not daemon.view("cam0")["not_read"]
            sent = 0
            while daemon.view("cam0")["frames"]["in_flight"] < 2:
                quiet.send(bytes(SIZE))
                sent += 1
                daemon.wait_view("it is as far as it gets", lambda view: view["frames"]["in"] == sent and
                                 view["waiting"] in ("frames", "reader"), "cam0")
            sending = Background(send_until_cut, producer)
            daemon.wait_log("has read no result to its end for 10 s", 60)
            [line] = [line for line in daemon.log.splitlines() if "has read no result" in line]
            assert "cam1: producer" in line, line
            assert daemon.view("cam1")["not_read"] and not daemon.view("cam0")["not_read"]
            daemon.command("/v1/pipelines/cam1/pause")
            daemon.wait_view("nothing waits behind its results", lambda view: not view["not_read"], "cam1")
            producer.socket.shutdown(socket.SHUT_RDWR)
            sending.join()
        daemon.settled = True
