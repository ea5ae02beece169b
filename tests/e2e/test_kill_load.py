"""A daemon killed again and again under load: connections may be cut off, and no result is ever torn, shifted or seen twice."""

import os
import random
import shutil
import signal
import socket
import time

import pytest

from harness import Background, Producer, Reader, pipeline, require_whole, slow_stage, wait_until, whole
from harness.daemon import BINARY
from harness.injection import KILL, Injection
from harness.store import Store, start

pytestmark = pytest.mark.threads

SIZE = 4096
LARGE = 4 * 1024 * 1024
KILLS = 60 if os.environ.get("FRAMED_SOAK") else 6

ENTRIES = {
    "plain": lambda size: pipeline({"dtype": "uint8", "shape": [size]}, slots=3),
    "two slots, spinning": lambda size: pipeline({"dtype": "uint8", "shape": [size]}, completion="spin"),
    "drop": lambda size: pipeline({"dtype": "uint8", "shape": [size]}, slots=4, sink={"overload": "drop"}),
    "drop-oldest": lambda size: pipeline({"dtype": "uint8", "shape": [size]}, slots=4, overload="drop-oldest",
                                         stages=[slow_stage(2)]),
    "drop-newest": lambda size: pipeline({"dtype": "uint8", "shape": [size]}, slots=3, overload="drop-newest",
                                         stages=[slow_stage(2)]),
    "deadline": lambda size: pipeline({"dtype": "uint8", "shape": [size]}, slots=3, deadline="2ms", stages=[slow_stage(2)]),
}


class Stream:
    """A producer and a reader that come again when they are cut off. Results are whole, and on a connection they rise."""

    def __init__(self, daemon, size):
        self.daemon, self.size, self.stopped = daemon, size, False
        self.sent, self.got = 0, 0
        self.clients = {}
        self.threads = [Background(self.produce), Background(self.read)]

    def again(self, client, path, use):
        """Whoever comes while no daemon is there waits at its socket."""
        while not self.stopped:
            with client(path) as self.clients[client]:
                try:
                    use(self.clients[client])
                except (OSError, EOFError):
                    pass

    def produce(self):
        self.again(Producer, self.daemon.path("cam0", "source"), self.send_on)

    def read(self):
        self.again(Reader, self.daemon.path("cam0", "sink"), self.read_on)

    def send_on(self, producer):
        while not self.stopped:
            frame = whole(self.sent, self.size)
            self.sent += 1
            producer.send(frame.tobytes())

    def read_on(self, reader):
        last = -1
        while not self.stopped:
            (number,) = require_whole(reader.read(self.size), self.size)
            assert number > last, f"{number} after {last}"
            last = number
            self.got += 1

    def stop(self):
        """The reader takes what there is until the producer has gone."""
        self.stopped = True
        for client in (Producer, Reader):
            try:
                self.clients[client].socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
        for thread in self.threads:
            thread.join()


@pytest.mark.takes(120)
@pytest.mark.parametrize("size", [SIZE, 256 * 1024])
@pytest.mark.parametrize("kind", ENTRIES)
def test_no_result_is_torn_or_shifted_under_load(place, store, kind, size):
    chance = random.Random(kind + str(size))
    with start(place, store, {"cam0": ENTRIES[kind](size)}, lanes=2) as daemon:
        stream = Stream(daemon, size)
        for _ in range(KILLS):
            before = stream.got
            wait_until(lambda: stream.got > before or stream.threads[1].done, "results flow")
            time.sleep(chance.random() / 50)
            store.kill(daemon)
        stream.stop()
        with daemon.reader() as reader:
            resting = Background(reader.rest)
            all_have_left(daemon)
            reader.socket.shutdown(socket.SHUT_RDWR)
            resting.join()
        assert daemon.status()["handovers"]["crash"] == KILLS and "anew" not in daemon.log


def install(place, script=None):
    """The program that an upgrade executes."""
    new = place / "new"
    if script:
        new.write_text(f'#!/bin/sh\n{script}\nexec {BINARY} "$@"\n')
    else:
        shutil.copy(BINARY, new)
    new.chmod(0o755)
    new.rename(place / "framed")


def killed_at(word):
    """Of the program itself, and not where it is only asked."""
    given = " ".join(f"{name}={value}" for name, value in word.environment.items())
    return f'case "$*" in *--check*) ;; *) export {given} ;; esac'


@pytest.mark.takes(120)
@pytest.mark.parametrize("size", [SIZE, 256 * 1024])
def test_a_kill_within_an_upgrade_shifts_nothing(place, size):
    """At each word to the manager, while lanes go on: what the image before had noted is behind by then."""
    for at in range(1, 13):
        folder = place / f"{at}"
        folder.mkdir()
        install(folder)
        with Store(folder) as store:
            store.program.write_text(store.program.read_text().replace(str(BINARY), str(folder / "framed")))
            with start(folder, store, {"cam0": ENTRIES["plain"](size)}, lanes=2) as daemon:
                stream = Stream(daemon, size)
                wait_until(lambda: stream.got > 5, "results flow")
                install(folder, killed_at(Injection(folder, "sendmsg", at, KILL, wait=20)))
                daemon.signal(signal.SIGUSR2)
                wait_until(lambda: daemon.process.poll() is not None, lambda: f"it is killed:\n{daemon.log}")
                install(folder)
                store.heard()
                store.start(daemon)
                daemon.wait_ready()
                before = stream.got
                wait_until(lambda: stream.got > before + 20 or stream.threads[1].done, "results flow again")
                stream.stop()
                with daemon.reader() as reader:
                    resting = Background(reader.rest)
                    all_have_left(daemon)
                    reader.socket.shutdown(socket.SHUT_RDWR)
                    resting.join()


def all_have_left(daemon):
    """What a producer had sent before it left is read to its end, too."""
    daemon.wait_view("all is over", lambda view: view["sessions"] == 0 and view["frames"]["in_flight"] == 0, seconds=30)


class Replied(Stream):
    """The same on one connection."""

    def __init__(self, daemon, size):
        self.daemon, self.size, self.stopped = daemon, size, False
        self.sent, self.got = 0, 0
        self.clients = {}
        self.threads = [Background(self.again, Producer, daemon.path("cam0", "source"), self.both)]

    def both(self, client):
        sending = Background(self.try_to_send, client)
        try:
            self.read_on(client)
        finally:
            try:
                client.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            sending.join()

    def try_to_send(self, client):
        try:
            self.send_on(client)
        except OSError:
            pass

    def stop(self):
        self.stopped = True
        try:
            self.clients[Producer].socket.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass
        self.threads[0].join()


@pytest.mark.takes(120)
@pytest.mark.parametrize("lanes", [1, 2])
@pytest.mark.parametrize("size", [SIZE, LARGE])
def test_no_answer_is_torn_or_shifted_under_load(place, store, lanes, size):
    chance = random.Random(size + lanes)
    entry = pipeline({"dtype": "uint8", "shape": [size]}, source={"clients": 2}, sink={"reply": True}, slots=3)
    with start(place, store, {"cam0": entry}, lanes=lanes) as daemon:
        streams = [Replied(daemon, size), Replied(daemon, size)]
        for _ in range(KILLS):
            before = [stream.got for stream in streams]
            wait_until(lambda: all(stream.got > got or stream.threads[0].done for stream, got in zip(streams, before)),
                       "results flow")
            time.sleep(chance.random() / 50)
            store.kill(daemon)
        for stream in streams:
            stream.stop()
        all_have_left(daemon)
        assert daemon.status()["handovers"]["crash"] == KILLS and "anew" not in daemon.log
