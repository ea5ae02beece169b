"""Everything at once, at random: a lossless stream beside commands, reloads, faulty clients and readers of all kinds."""

import random

import pytest

from harness import Background, Daemon, Producer, Reader, numbered, pipeline, require_whole, whole

SIZE = 1024
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
ACTIONS = 150


def entries(version):
    return {
        "steady": pipeline(FORMAT, slots=3),
        "spinning": pipeline(FORMAT, slots=2, completion="spin"),
        "changing": pipeline(FORMAT, stages=[{"affine": {"offset": version}}], sink={"overload": "drop"},
                             slots=1 + version % 4, overload="drop-newest"),
        f"version-{version % 3}": pipeline(FORMAT, source={"clients": 2}, sink={"reply": True}),
    }


def stream(producer, reader, stop):
    """Sends numbered frames until told to stop, ten under way at most; returns how many went through."""
    sent = taken = 0
    while taken < sent or not stop:
        if sent - taken < 10 and not stop:
            producer.send(whole(sent, SIZE).tobytes())
            sent += 1
        else:
            require_whole(frame := reader.read(SIZE), SIZE)
            assert frame == whole(taken, SIZE).tobytes(), f"expected frame {taken}"
            taken += 1
    return sent


def visit(path, seed):
    """A short and careless visit to a socket."""
    chance = random.Random(seed)
    try:
        with Producer(path) as client:
            client.socket.settimeout(0.1)
            for _ in range(chance.randrange(5)):
                client.send(bytes(chance.randrange(1, 3 * SIZE)))
            client.socket.recv(chance.choice([1, 10 * SIZE]))
    except OSError:
        pass


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_lossless_pipelines_lose_nothing_whatever_happens_around_them(place, seed):
    chance = random.Random(seed)
    version, stop, visits, held = 0, [], [], []
    keys = {"lanes": 2, "drain_timeout": "300ms"}
    with Daemon(place, entries(version), **keys) as daemon:
        streams = {name: (daemon.producer(name), daemon.reader(name)) for name in ("steady", "spinning")}
        running = {name: Background(stream, *ends, stop) for name, ends in streams.items()}
        for action in range(ACTIONS):
            name = chance.choice(list(entries(version)))
            kind = chance.choice(["pause", "resume", "resume", "drain", "reload", "visit", "read", "hold", "status"])
            if kind in ("pause", "resume", "drain"):
                code, answer = daemon.post(f"/v1/pipelines/{name}/{kind}")
                may_stall = kind == "drain" and name not in streams  # a careless client holds a result
                assert code == 200 or (code == 504 and kind == "drain"), (name, kind, answer)
                if code == 504 and not may_stall:  # the machine stood still for longer than it may take
                    daemon.wait_view("it is drained", lambda view: view["state"] == "drained", name)
            elif kind == "reload":
                version += chance.randrange(2)
                daemon.write(entries(version), **keys)
                daemon.command("/v1/reload")
            elif kind == "visit" and name not in streams:
                visits.append(Background(visit, daemon.path(name, "source"), seed * ACTIONS + action))
            elif kind == "read" and name == "changing":
                visits.append(Background(visit, daemon.path(name, "sink"), seed * ACTIONS + action))
            elif kind == "hold" and name == "changing":
                held.append(Reader(daemon.path(name, "sink"), buffer=4096))
            daemon.status()  # must balance
            assert not any(thread.done for thread in running.values()), "a stream has ended"
        for name in entries(version):
            daemon.command(f"/v1/pipelines/{name}/resume")
        stop.append(True)
        for name, thread in running.items():
            count = thread.join()
            assert count > 0
            daemon.account(name, came=count, emitted=count)
        for thread in visits:
            thread.join()
        for client in [*held, *(end for ends in streams.values() for end in ends)]:
            client.close()


def test_sixteen_clients_at_once(place):
    """As many sessions, over several lanes, each with its own stream of frames."""
    entry = pipeline(FORMAT, source={"clients": 16}, sink={"reply": True}, slots=4)
    with Daemon(place, {"cam0": entry}, lanes=4) as daemon:
        def client(index):
            frames = numbered(200, SIZE, first=1000 * index).tobytes()
            with daemon.producer() as connection:
                sending = Background(connection.send, frames)
                assert connection.read(len(frames)) == frames
                sending.join()
        for thread in [Background(client, index) for index in range(16)]:
            thread.join()
        daemon.account(came=3200, emitted=3200)
