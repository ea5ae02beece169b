"""Native clients killed at random: no slot stays with the dead, every frame has its fate, and of the daemon's descriptors,
memory and threads nothing is lost."""

import contextlib
import os
import random
import time

import pytest

from harness import Daemon, Forked, environment, limit, pipeline, wait_until
from harness.native import BOTH, CONSUMER, PRODUCER, Native, Refused, Shared

SIZE = 1 << 16
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
STEPS = [{"affine": {"scale": -1.0, "offset": 255.0}}]
NATIVE = {"protocol": "native"}
SLOTS = 3


def entries():
    return {
        "reply": pipeline(FORMAT, stages=STEPS, slots=SLOTS, source={**NATIVE, "clients": 3}, sink={"reply": True, **NATIVE}),
        "apart": pipeline(FORMAT, stages=STEPS, slots=SLOTS, source=NATIVE, sink={"overload": "drop", **NATIVE}),
    }


def shared(path, role, seed):
    """Frames as fast as they come, with all slots under way, for as long as it lives."""
    chance = random.Random(seed)
    with contextlib.suppress(OSError, EOFError), Shared(path, role) as client:
        number = 0
        while True:
            while client.free and chance.random() < 0.9:
                client.submit(client.free.pop(), bytes([number % 256]) * SIZE, sequence=number)
                number += 1
            while client.word(4096) == client.taken & 0xFFFFFFFF:
                client.sleep()
            client.free.append(client.completion()[0])
            client.take()


def stream(path, role, _seed):
    with contextlib.suppress(OSError, EOFError), Native(path, role) as client:
        while True:
            client.send_frame(bytes(SIZE))
            if role == BOTH:
                client.result()


def consume(path, _role, _seed):
    with contextlib.suppress(OSError, EOFError), Native(path, CONSUMER) as client:
        while True:
            client.result()


def live(kind, path, role, seed):
    """One life, which begins anew while the places are taken."""
    while True:
        with contextlib.suppress(Refused):
            kind(path, role, seed)
        time.sleep(0.001)


def resident(daemon):
    """Pages: what is its own, and what it shares."""
    with open(f"/proc/{daemon.process.pid}/statm", encoding="ascii") as file:
        return int(file.read().split()[1])


def threads(daemon):
    return len(os.listdir(f"/proc/{daemon.process.pid}/task"))


def kill_at_random(daemon, kills, seed, alive=4):
    """Keeps some clients of all kinds alive, and kills one after the other at any moment of its life."""
    chance = random.Random(seed)
    crowd = []
    for turn in range(kills + alive):
        if turn < kills:
            kind, end, role = chance.choice([(shared, "source", PRODUCER), (stream, "source", PRODUCER), (consume, "sink", None)])
            name = chance.choice(["reply", "apart", "apart"])
            if name == "reply":
                kind, end, role = chance.choice([shared, shared, stream]), "source", BOTH
            crowd.append(Forked(live, kind, daemon.path(name, end), role, seed * 10000 + turn))
        if len(crowd) > alive or turn >= kills:
            time.sleep(chance.random() * limit(0.02))
            crowd.pop(chance.randrange(len(crowd))).kill()
    for name in ("reply", "apart"):
        daemon.wait_view("all have left", lambda view: view["sessions"] == 0 and view["frames"]["in_flight"] == 0, name, 30)
    daemon.wait_view("no reader is left", lambda view: view["readers"] == 0, "apart")


def every_slot_serves(daemon):
    """Each seat has all of its slots, and they give right results."""
    clients = []
    for _ in range(3):
        def seated():
            with contextlib.suppress(Refused):
                return Shared(daemon.path("reply", "source"))
        clients.append(wait_until(seated, "there is a place"))
    for client in clients:
        for slot in range(SLOTS):
            client.submit(slot, bytes([slot]) * SIZE, sequence=slot)
        for _ in range(SLOTS):
            slot, fate, _ = client.completion()
            assert fate == 0 and client.payload(slot) == bytes([255 - slot]) * SIZE
            client.take()
        client.close()
    daemon.wait_view("they have left", lambda view: view["sessions"] == 0, "reply")


def besiege(place, kills, seed, **options):
    with Daemon(place, entries(), lanes=2, **options) as daemon:
        every_slot_serves(daemon)
        kill_at_random(daemon, kills // 5, seed)
        every_slot_serves(daemon)  # what is made once is made by now
        before, pages, tasks = daemon.open_files(), resident(daemon), threads(daemon)
        kill_at_random(daemon, kills, seed + 1)
        every_slot_serves(daemon)
        wait_until(lambda: daemon.open_files() <= before, lambda: f"{before} descriptors before, {daemon.open_files()} now")
        assert threads(daemon) == tasks
        print(f"{kills} killed: {resident(daemon) - pages} pages more than {pages}")
        dropped = daemon.view("reply")["frames"]["dropped"]
        assert dropped["client_gone"] > 0
        return resident(daemon) - pages


def test_clients_killed_at_random(place):
    besiege(place, 50, 1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 5])
def test_five_hundred_clients_killed_at_random(place, seed):
    """Half of them each time. ThreadSanitizer keeps a history that grows, and is told to keep the shortest."""
    shortest = {"TSAN_OPTIONS": environment()["TSAN_OPTIONS"] + ":history_size=0"}
    assert besiege(place, 250, seed, env=shortest) < 512, "pages"
