"""Clients that come, do something at random, and go: in the end everything is accounted for and given back."""

import random

import pytest

from harness import Background, Daemon, Producer, Reader, environment, pipeline, wait_until, whole

SIZE = 2048
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
TURNS = 200


def misbehave(path, seed, y4m=False):
    """One producer's life: connects, sends some frames and perhaps a part of one, and leaves in some way."""
    chance = random.Random(seed)
    try:
        with Producer(path) as producer:
            producer.socket.settimeout(0.2)  # the place may be taken, or nobody may read
            if chance.random() < 0.1:
                return
            if y4m:
                producer.send(b"YUV4MPEG2 W64 H32 Cmono\n"[:chance.choice([3, 20, 100, 100, 100])])
            for number in range(chance.randrange(20)):
                producer.send((b"FRAME\n" if y4m else b"") + whole(number, SIZE).tobytes())
            if chance.random() < 0.5:
                producer.send(bytes(chance.randrange(1, SIZE)))
            if chance.random() < 0.3:
                producer.finish()
                producer.socket.recv(1)
    except OSError:
        pass  # refused, closed or full: all part of the game


def listen(path, seed):
    """One reader's life."""
    chance = random.Random(seed)
    try:
        with Reader(path, buffer=chance.choice([None, 4096])) as reader:
            reader.socket.settimeout(0.05)
            if chance.random() < 0.7:
                reader.socket.recv(chance.choice([1, SIZE, 100 * SIZE]))
            if chance.random() < 0.2:
                reader.send(b"nonsense")
    except OSError:
        pass


@pytest.mark.parametrize("seed", [1, 2])
def test_random_clients_on_every_kind_of_pipeline(place, seed):
    entries = {
        "drop": pipeline(FORMAT, sink={"overload": "drop"}, slots=3),
        "oldest": pipeline(FORMAT, sink={"overload": "drop"}, slots=4, overload="drop-oldest", completion="spin"),
        "newest": pipeline(FORMAT, sink={"overload": "drop"}, overload="drop-newest", slots=1),
        "reply": pipeline(FORMAT, source={"clients": 4}, sink={"reply": True}),
        "y4m": pipeline({"pixels": "gray", "width": 64, "height": 32}, source={"protocol": "y4m"},
                        sink={"overload": "drop", "protocol": "y4m"}),
    }
    with Daemon(place, entries, lanes=2) as daemon:
        daemon.status()
        before = daemon.open_files()
        chance = random.Random(seed)
        for turn in range(0, TURNS, 8):
            lives = []
            for life in range(8):
                name = chance.choice(list(entries))
                key = seed * 100000 + turn * 8 + life
                if name != "reply" and chance.random() < 0.4:
                    lives.append(Background(listen, daemon.path(name, "sink"), key))
                else:
                    lives.append(Background(misbehave, daemon.path(name, "source"), key, name == "y4m"))
            daemon.status()  # every answer must balance
            for life in lives:
                life.join()
        for name in entries:
            daemon.wait_view("everybody has left", lambda view: view["sessions"] == 0 and view["readers"] == 0, name)
        daemon.quiet()
        wait_until(lambda: daemon.open_files() <= before,
                   lambda: f"descriptors come back: {before} before, {daemon.open_files()} now")

        # Each pipeline serves a well-behaved client as if nothing had been.
        for name in entries:
            head, mark = (b"YUV4MPEG2 W64 H32 Cmono\n", b"FRAME\n") if name == "y4m" else (b"", b"")
            reader = daemon.producer(name) if name == "reply" else daemon.reader(name)
            with reader:
                producer = reader if name == "reply" else daemon.producer(name)
                producer.send(head + mark + whole(1, SIZE).tobytes())
                if name == "y4m":
                    line = b""
                    while not line.endswith(b"FRAME\n"):
                        line += reader.read(1)
                assert reader.read(SIZE) == whole(1, SIZE).tobytes()
                producer.close()


@pytest.mark.slow
def test_memory_does_not_grow_with_connections(place):
    """The resident size after 3,000 more connections is that after the first 1,000, give or take a few pages. ThreadSanitizer
    keeps a history of each thread that grows for thousands of connections more; it is told to keep the shortest."""
    def resident():
        with open(f"/proc/{daemon.process.pid}/statm", encoding="ascii") as file:
            return int(file.read().split()[1])

    def connect(count):
        for number in range(count):
            with daemon.producer() as producer:
                producer.send(whole(number, SIZE).tobytes())
                assert producer.read(SIZE) == whole(number, SIZE).tobytes()
            daemon.wait_view("it has left", lambda view: view["sessions"] == 0)

    shortest = {"TSAN_OPTIONS": environment()["TSAN_OPTIONS"] + ":history_size=0"}
    with Daemon(place, {"cam0": pipeline(FORMAT, sink={"reply": True})}, env=shortest) as daemon:
        connect(1000)
        settled = resident()
        connect(3000)
        assert resident() - settled < 256, "pages"
