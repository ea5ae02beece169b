"""A daemon that is killed, or stopped, and is there again at once: at the clients' interface that is a pause. No frame is lost, no
result comes twice or out of its order, nothing ends and nothing fails."""

import os
import pathlib
import random
import re
import select
import signal
import subprocess
import sys

import pytest

from harness import Daemon, limit, pipeline, wait_until
from harness.waiting import thread_states
from test_libframed import INVERT, drive_client, environment, finish

SOAK = bool(os.environ.get("FRAMED_SOAK"))
LIVES = 272 if SOAK else 8  # of the daemon: of eight six end by a kill, one is stopped, and one is replaced
GRAY = {"pixels": "gray", "width": 64, "height": 32}
LARGE = {"pixels": "gray", "width": 1024, "height": 512}
NATIVE = {"protocol": "native"}
PACKAGE = pathlib.Path(__file__).resolve().parents[2] / "tools/client/python/src"
WITH_PYTHON = pytest.param("python", marks=pytest.mark.skipif(not PACKAGE.exists(), reason="the portable folder has no Python client"))
PATIENCE = 60  # seconds, for machines on which a start takes long

pytestmark = [pytest.mark.host, pytest.mark.takes(600 if SOAK else 60), pytest.mark.memory]


PYTHON = """
import signal, sys, time
import framed
path, role, transport, seconds = sys.argv[1], framed.Role[sys.argv[2]], framed.Transport[sys.argv[3]], float(sys.argv[4])
LAST = 1 << 63
stop = []
signal.signal(signal.SIGTERM, lambda *_: stop.append(1))
sent = results = wrong = out_of_order = again = 0
ended = last = False

def take(result):
    global results, wrong, out_of_order, again, last
    sequence = result.sequence & ~LAST
    wrong += bytes(result.memory) != bytes([255 - sequence % 256]) * len(result.memory)
    out_of_order += sequence != results
    again += bool(result.flags & framed.AGAIN)
    last = last or bool(result.sequence & LAST)
    results += 1
    result.release()

def send(client):
    global sent, ended
    frame = client.acquire()
    frame.memory[:] = bytes([sent % 256]) * len(frame.memory)
    ended = bool(stop)
    client.submit(frame, sent | (LAST if ended else 0))
    sent += 1
    if ended:
        client.finish()

with framed.connect(path, role, transport=transport, reconnect_for=seconds) as client:
    there = framed.Event(0)
    while not there & framed.Event.END and not (role == framed.Role.CONSUMER and last):
        wanted = framed.Event(0) if role == framed.Role.PRODUCER else framed.Event.RESULT
        wanted |= framed.Event.ROOM if role != framed.Role.CONSUMER and not ended else framed.Event(0)
        there = client.poll(wanted)
        if there & framed.Event.RESULT:
            take(client.receive())
        if there & wanted & framed.Event.ROOM:
            send(client)
    said = f"sent {sent} results {results} dropped 0 wrong {wrong} out_of_order {out_of_order} again {again}"
    print(f"transport {client.transport.name.lower()} {said} code 0: ")
"""


def replying(format):
    return {"cam0": pipeline(format, slots=3, stages=[INVERT], source=NATIVE, sink={"reply": True, **NATIVE})}


def sunk(format):
    return {"cam0": pipeline(format, slots=3, stages=[INVERT], source=NATIVE, sink={"overload": "block", **NATIVE})}


def start(path, role, transport, wait):
    command = [drive_client(), path, role, transport, "0", wait, str(int(limit(PATIENCE)))]
    if wait == "python":
        command = [sys.executable, "-c", PYTHON, path, role.upper(), transport.upper(), str(limit(PATIENCE))]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            env=environment({"PYTHONPATH": str(PACKAGE)}))


def came(daemon):
    return daemon.status()["pipelines"]["cam0"]["frames"]["emitted"]


def alive(*processes):
    for process in processes:
        assert process.poll() is None, process.communicate()[0]
    return True


def die_and_return(daemon, times, chance, *clients):
    """What systemd does with a service that is killed, restarted or, with all connections, replaced at any moment."""
    for turn in range(times):
        wanted = chance.choice([1, 10, 200])
        wait_until(lambda: alive(*clients) and came(daemon) >= wanted, lambda: f"frames flow, in life {turn}\n{daemon.log}", 20)
        if turn % 8 == 6:
            daemon.signal(signal.SIGTERM)
            daemon.process.wait(limit(20))
        elif turn % 8 == 7:
            gone_on = daemon.log.count("everything goes on")
            daemon.signal(signal.SIGUSR2)
            wait_until(lambda: daemon.log.count("everything goes on") > gone_on, lambda: f"it goes on\n{daemon.log}", 20)
            continue
        else:
            daemon.kill()
        daemon.start()
        daemon.wait_ready()


def die_amid_frames(daemon, client):
    """A client that waits while the daemon stands still has frames on their way in all its room."""
    wait_until(lambda: alive(client) and came(daemon) > 0, lambda: f"frames flow\n{daemon.log}", 20)
    daemon.stand_still()
    wait_until(lambda: alive(client) and thread_states(client.pid) == {"S"}, "the client waits")
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


@pytest.mark.parametrize("wait", ["sleep", "own", WITH_PYTHON])
@pytest.mark.parametrize("transport", ["stream", "shared"])
@pytest.mark.parametrize("format", [GRAY, LARGE])
def test_a_client_of_both_roles(place, format, transport, wait):
    with Daemon(place, replying(format)) as daemon:
        client = start(daemon.path("cam0", "source"), "both", transport, wait)
        die_and_return(daemon, LIVES, random.Random(wait), client)
        die_amid_frames(daemon, client)
        answer = stop(client)
        assert answer["results"] == answer["sent"] > 0 and answer["again"] > 0 and answer["transport"] == transport


@pytest.mark.parametrize("wait", ["sleep", WITH_PYTHON])
@pytest.mark.parametrize("transport", ["stream", "shared"])
@pytest.mark.parametrize("format", [GRAY, LARGE])
def test_a_producer_and_a_consumer(place, format, transport, wait):
    with Daemon(place, sunk(format)) as daemon:
        consumer = start(daemon.path("cam0", "sink"), "consumer", transport, wait)
        daemon.wait_view("the consumer is there", lambda view: view["readers"] == 1)
        producer = start(daemon.path("cam0", "source"), "producer", transport, wait)
        die_and_return(daemon, LIVES, random.Random(transport), producer, consumer)
        sent = stop(producer)["sent"]
        said, _ = consumer.communicate(timeout=limit(60))
        print(said)
        answer = {key: int(value) for key, value in re.findall(r"(\w+) (\d+)", said)}
        assert consumer.returncode == 0 and "code 0: " in said, said
        assert (answer["results"], answer["wrong"], answer["out_of_order"]) == (sent, 0, 0), said


@pytest.mark.skipif(not PACKAGE.exists(), reason="the portable folder has no Python client")
@pytest.mark.parametrize("transport", [0, 1], ids=["stream", "shared"])
def test_a_loop_of_the_callers_own_in_python(place, transport):
    """Its descriptor is put into the set once, and stays there through every pause; held frames and arrays stay, too."""
    sys.path.insert(0, str(PACKAGE))
    import framed
    with Daemon(place, replying(GRAY)) as daemon, select.epoll() as loop:
        with framed.connect(daemon.path("cam0", "source"), transport=transport, reconnect_for=limit(PATIENCE)) as client:
            loop.register(client.fileno(), select.EPOLLIN)
            before = len(os.listdir("/proc/self/fd"))
            results, held = [], []
            for life in range(3):
                frame = client.acquire()
                frame.memory[:] = bytes([life]) * len(frame.memory)
                if life > 0:
                    daemon.kill()
                    assert client.arm()[0] in (0, framed.Event.ROOM)
                    daemon.start()
                client.submit(frame, life)
                while len(results) <= life:
                    there, conditions = client.arm(framed.Event.RESULT)
                    if there & framed.Event.RESULT:
                        results.append(client.receive())
                        held.append(bytes(results[-1].memory))
                    else:
                        assert conditions == select.POLLIN and loop.poll(limit(20))
            assert [result.sequence for result in results] == [0, 1, 2]
            assert [bytes(result.memory) for result in results] == held == [bytes([255 - n]) * len(held[0]) for n in range(3)]
            while results:
                results.pop().release()
            del frame
            assert len(os.listdir("/proc/self/fd")) <= before  # nothing is left of what the daemons before lent
        daemon.wait_ready()
        daemon.account(came=1, emitted=1)
