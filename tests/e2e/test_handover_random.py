"""Configurations at random, exchanged or not, met by a kill, a restart or an upgrade at a random moment, under a service manager that
keeps what it was given: the next process always goes on, with what the file says, and serves everybody.

With FRAMED_SOAK set there are more seeds, and longer runs.
"""

import os
import random
import signal
import socket
import time

import pytest

from harness import Background, Client, pipeline, wait_until, whole
from harness.store import leave, start

SOAK = bool(os.environ.get("FRAMED_SOAK"))
SEEDS, TURNS = (range(12), 50) if SOAK else (range(1), 10)
SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def entries(place, chance):
    """Pipelines that exchange sockets, protocols and kinds of sinks with those before them."""
    sockets = [str(place / f"socket{number}") for number in range(8)]
    chance.shuffle(sockets)
    made = {}
    for name in chance.sample("abcd", chance.randrange(1, 4)):
        kind = chance.choice(["raw", "raw", "reply", "file", "native"])
        source = {"socket": sockets.pop(), **({"protocol": "native"} if kind == "native" else {})}
        sink = {"reply": {"reply": True}, "file": {"file": str(place / f"results-{name}{chance.randrange(3)}")}}.get(kind)
        sink = sink or {"socket": sockets.pop(), "protocol": "native" if kind == "native" else "raw"}
        made[name] = pipeline(FORMAT, source=source, sink=sink, slots=chance.choice([2, 3]))
    return made


def of_bytes(daemon):
    return [(name, entry) for name, entry in daemon.config["pipelines"].items() if "protocol" not in entry["source"]]


def come(daemon, chance):
    """Clients that are in the middle of something and stay."""
    clients = []
    for _, entry in of_bytes(daemon):
        if chance.random() < 0.5:
            clients.append(Client(entry["source"]["socket"]))
            clients[-1].send(bytes(chance.randrange(1, 3 * SIZE)))
            if "socket" in entry["sink"] and chance.random() < 0.5:
                clients.append(Client(entry["sink"]["socket"]))
    return clients


def told(daemon):
    """How many upgrades have ended."""
    return daemon.log.count("everything goes on after") + daemon.log.count("no upgrade, the running program goes on")


def befall(store, daemon, what, chance):
    if what == "upgrade":
        before = told(daemon)
        daemon.signal(signal.SIGUSR2)
        wait_until(lambda: told(daemon) > before, lambda: f"it is over, one way or the other:\n{daemon.log}", 30)
        return
    for _ in range(2 if what == "two kills" else 1):
        leave(store, daemon, what == "restart")
        store.start(daemon)
        time.sleep(chance.uniform(0, 0.03) if what == "two kills" else 0)


def nobody(view):
    return view["sessions"] == view["frames"]["in_flight"] == 0


def empty(daemon, name, entry):
    """What others left goes to a reader."""
    if "socket" not in entry["sink"]:
        daemon.wait_view("nobody is there", nobody, name)
        return
    with Client(entry["sink"]["socket"]) as reader:
        resting = Background(reader.rest)
        daemon.wait_view("nobody is there", nobody, name)
        reader.socket.shutdown(socket.SHUT_RDWR)
        resting.join()
    daemon.wait_view("no reader is", lambda view: view["readers"] == 0, name)


def serves(daemon, name, entry):
    before = daemon.frames(name)["emitted"]
    with Client(entry["source"]["socket"]) as producer:
        reader = Client(entry["sink"]["socket"]) if "socket" in entry["sink"] else producer
        with reader:
            if reader is not producer:
                daemon.wait_view("a reader is there", lambda view: view["readers"] == 1, name)
            for number in range(3):
                producer.send(whole(number, SIZE).tobytes())
                assert "file" in entry["sink"] or reader.read(SIZE) == whole(number, SIZE).tobytes(), entry
            daemon.wait_view("all are emitted", lambda view: view["frames"]["emitted"] == before + 3, name)


@pytest.mark.takes(600 if SOAK else 60)
@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_whatever_meets_whatever_the_next_process_goes_on(place, store, seed):
    chance = random.Random(seed)
    keys = {"lanes": 1 + seed % 3, "drain_timeout": "200ms"}
    with start(place, store, entries(place, chance), **keys) as daemon:
        for _ in range(TURNS):
            clients = come(daemon, chance)
            daemon.write(entries(place, chance), **keys)
            if chance.random() < 0.7:
                daemon.signal(signal.SIGHUP)
            time.sleep(chance.choice([0, 0.002, 0.01, 0.05, 0.3]))
            befall(store, daemon, chance.choice(["kill", "two kills", "upgrade", "restart"]), chance)
            wait_until(lambda: store.ready and daemon.process.poll() is None, lambda: f"it is ready:\n{daemon.log}", 30)
            daemon.wait_ready()
            wait_until(lambda: daemon.post("/v1/reload")[0] == 200, lambda: f"the file is in force:\n{daemon.log}", 30)
            assert "anew" not in daemon.log and set(daemon.status()["pipelines"]) == set(daemon.config["pipelines"])
            for client in clients:
                client.close()
            for name, entry in of_bytes(daemon):
                empty(daemon, name, entry)
                serves(daemon, name, entry)
        daemon.leaves_frames = True
