"""A daemon that is killed, or stopped, and is there again at once: at the clients' interface that is a pause. No frame is lost, no
result comes twice or out of its order, nothing ends and nothing fails."""

import os
import random
import re
import subprocess

import pytest

from harness import Daemon, limit, pipeline, wait_until
from test_libframed import INVERT, drive_client, environment, finish

SOAK = bool(os.environ.get("FRAMED_SOAK"))
KILLS = 200 if SOAK else 5
GRAY = {"pixels": "gray", "width": 64, "height": 32}
LARGE = {"pixels": "gray", "width": 1024, "height": 512}
NATIVE = {"protocol": "native"}
PATIENCE = 60  # seconds, for machines on which a start takes long

pytestmark = [pytest.mark.host, pytest.mark.takes(600 if SOAK else 60)]


def replying(format):
    return {"cam0": pipeline(format, slots=3, stages=[INVERT], source=NATIVE, sink={"reply": True, **NATIVE})}


def sunk(format):
    return {"cam0": pipeline(format, slots=3, stages=[INVERT], source=NATIVE, sink={"overload": "block", **NATIVE})}


def start(path, role, transport, wait):
    return subprocess.Popen([drive_client(), path, role, transport, "0", wait, str(int(limit(PATIENCE)))], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, env=environment())


def came(daemon):
    return daemon.status()["pipelines"]["cam0"]["frames"]["emitted"]


def die_and_return(daemon, times, chance, alive):
    """What systemd does with a service that is killed, or restarted, at any moment while frames flow."""
    for turn in range(times):
        wanted = chance.choice([1, 10, 200])
        wait_until(lambda: alive() and came(daemon) >= wanted, lambda: f"frames flow, in life {turn}\n{daemon.log}", 20)
        if turn % 5 == 4:
            daemon.signal(15)
            daemon.process.wait(limit(20))
        else:
            daemon.kill()
        daemon.start()
        daemon.wait_ready()


def stop(process):
    process.terminate()
    answer = finish(process)
    print(answer["said"])
    assert answer["status"] == 0 and "code 0: " in answer["said"], answer["said"]
    assert (answer["wrong"], answer["out_of_order"], answer["dropped"]) == (0, 0, 0), answer["said"]
    return answer


@pytest.mark.parametrize("wait", ["sleep", "own"])
@pytest.mark.parametrize("transport", ["stream", "shared"])
@pytest.mark.parametrize("format", [GRAY, LARGE])
def test_a_client_of_both_roles(place, format, transport, wait):
    with Daemon(place, replying(format)) as daemon:
        client = start(daemon.path("cam0", "source"), "both", transport, wait)
        die_and_return(daemon, KILLS, random.Random(wait), lambda: client.poll() is None)
        answer = stop(client)
        assert answer["results"] == answer["sent"] > 0 and answer["again"] > 0 and answer["transport"] == transport


@pytest.mark.parametrize("transport", ["stream", "shared"])
@pytest.mark.parametrize("format", [GRAY, LARGE])
def test_a_producer_and_a_consumer(place, format, transport):
    with Daemon(place, sunk(format)) as daemon:
        consumer = start(daemon.path("cam0", "sink"), "consumer", "stream", "sleep")
        daemon.wait_view("the consumer is there", lambda view: view["readers"] == 1)
        producer = start(daemon.path("cam0", "source"), "producer", transport, "sleep")
        die_and_return(daemon, KILLS, random.Random(transport), lambda: producer.poll() is None and consumer.poll() is None)
        sent = stop(producer)["sent"]
        said, _ = consumer.communicate(timeout=limit(60))
        print(said)
        answer = {key: int(value) for key, value in re.findall(r"(\w+) (\d+)", said)}
        assert consumer.returncode == 0 and "code 0: " in said, said
        assert (answer["results"], answer["wrong"], answer["out_of_order"]) == (sent, 0, 0), said
