"""Commands, reloads, traces and ends at bad moments for sessions whose memory clients share or that is being replaced."""

import random
import signal
import threading

import pytest

from harness import Background, Daemon, pipeline, wait_until
from harness.native import BOTH, PRODUCER, Native, Refused, Shared

GRAY = {"pixels": "gray", "width": 32, "height": 16}
LARGE = {"pixels": "gray", "width": 1024, "height": 512}
SMALL_BYTES, LARGE_BYTES = 32 * 16, 1024 * 512
EMITTED = 0


def replying(scale=-1.0, format=GRAY, clients=1, **keys):
    return {"cam0": pipeline(format, stages=[{"affine": {"scale": scale, "offset": 255.0}}],
                             source={"protocol": "native", "clients": clients}, sink={"reply": True, "protocol": "native"},
                             **keys)}


class Crowd:
    """Clients that come by shared memory and by stream, do a little, and go as they are; what they meet is theirs."""

    def __init__(self, path, size, count):
        self.path, self.size = path, size
        self.enough, self.served = threading.Event(), 0
        self.threads = [Background(self.live, seed) for seed in range(count)]

    def live(self, seed):
        chance = random.Random(seed)
        while not self.enough.is_set():
            try:
                with Shared(self.path) if chance.random() < 0.8 else Native(self.path, BOTH) as client:
                    self.visit(client, chance.randrange(7))
            except (Refused, OSError, EOFError, AssertionError):
                self.enough.wait(0.002)

    def visit(self, client, frames):
        if not isinstance(client, Shared):
            client.send_frame(bytes(self.size))
            client.result()
            return
        slots = client.welcome.slots
        for n in range(frames):
            if n >= slots and n % 2 == 0 and client.word(4096) != client.taken:
                client.take()
            client.submit(n % slots, bytes([n]) * self.size, sequence=n)
        self.served += 1

    def end(self):
        wait_until(lambda: self.served > 0 or any(thread.done for thread in self.threads), "somebody is served")
        self.enough.set()
        for thread in self.threads:
            thread.join()
        assert self.served > 0


def serves(daemon, size):
    daemon.wait_view("all have left", lambda view: view["sessions"] == 0)
    with Shared(daemon.path("cam0", "source")) as client:
        client.submit(0, bytes(size), sequence=7)
        _, fate, result = client.completion()
        assert (fate, result.sequence) == (EMITTED, 7)
        client.take()


@pytest.mark.parametrize("clients", [1, 3])
@pytest.mark.parametrize("format,size,lanes", [(GRAY, SMALL_BYTES, 1), (LARGE, LARGE_BYTES, 2)])
def test_reload_beside_clients_that_come_and_go(place, clients, format, size, lanes):
    with Daemon(place, replying(format=format, clients=clients), lanes=lanes, drain_timeout="200ms") as daemon:
        crowd = Crowd(daemon.path("cam0", "source"), size, clients + 1)
        for turn in range(8):
            daemon.write(replying(-1.0 + turn / 8, format, clients), lanes=lanes, drain_timeout="200ms")
            daemon.command("/v1/reload")
        crowd.end()
        serves(daemon, size)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("moment", range(4))
def test_the_end_beside_clients_that_come_and_go(place, moment, number):
    entries = replying(format=LARGE, clients=3, slots=4)
    with Daemon(place, entries, lanes=2, drain_timeout="100ms") as daemon:
        crowd = Crowd(daemon.path("cam0", "source"), LARGE_BYTES, 4)
        daemon.wait_view("frames move", lambda view: view["frames"]["in"] > 20 * moment and crowd.served > 0)
        daemon.signal(number)
        daemon.ends(0)
        crowd.end()
        daemon.check_remains()


def test_trace_pause_and_drain_beside_clients_that_come_and_go(place):
    with Daemon(place, replying(clients=2), drain_timeout="200ms") as daemon:
        crowd = Crowd(daemon.path("cam0", "source"), SMALL_BYTES, 3)
        for turn in range(4):
            tracing = Background(lambda: daemon.request("GET", "/v1/trace?seconds=0.2"))
            daemon.command("/v1/pipelines/cam0/pause")
            daemon.command("/v1/pipelines/cam0/resume")
            daemon.write(replying(-1.0 + turn / 8, clients=2), drain_timeout="200ms")
            daemon.command("/v1/reload")
            assert tracing.join()[0] == 200
        crowd.end()
        serves(daemon, SMALL_BYTES)


def test_what_was_submitted_while_it_was_paused_counts_although_its_producer_left(place):
    entry = pipeline(GRAY, source={"protocol": "native"})
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.reader() as reader:
            daemon.command("/v1/pipelines/cam0/pause")
            with Shared(daemon.path("cam0", "source"), PRODUCER) as client:
                for n in range(2):
                    client.submit(n, bytes([n]) * SMALL_BYTES)
            daemon.quiet()
            daemon.command("/v1/pipelines/cam0/resume")
            assert reader.read(2 * SMALL_BYTES) == bytes(SMALL_BYTES) + b"\1" * SMALL_BYTES
        daemon.account(came=2, emitted=2)


def test_many_pipelines_with_shared_clients(place):
    entries = {}
    for n in range(64):
        entries[f"cam{n}"] = replying()["cam0"]
    with Daemon(place, entries, lanes=2) as daemon:
        clients = [Shared(daemon.path(name, "source")) for name in entries]
        for n in range(10):
            for client in clients:
                client.submit(n % 2, bytes([n]) * SMALL_BYTES, sequence=n)
            for client in clients:
                assert client.completion()[1] == EMITTED
                client.take()
        before = daemon.open_files()
        for client in clients:
            client.close()
        wait_until(lambda: daemon.open_files() <= before - 2 * 64,
                   lambda: f"descriptors come back: {before} before, {daemon.open_files()} now")
        for name in entries:
            daemon.account(name, came=10, emitted=10)
