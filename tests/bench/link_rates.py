"""What framed-link carries beside a bare client of libnats, and what a broker in trouble costs the daemon beside it."""

import contextlib
import json
import os
import pathlib
import resource
import signal
import socket
import statistics
import subprocess
import threading
import time

from harness import Background, Daemon, pipeline, wait_until
from harness.nats import DURABLE, Link, Server, version

SMALL = 1024
NV12 = {"pixels": "nv12", "width": 1920, "height": 1080}
NV12_BYTES = 1920 * 1080 * 3 // 2
SLOTS = 16  # as many results as a reader may hold
QUEUE_SLOTS = 4


def bare(programs, *words):
    """Seconds that the bare client took."""
    done = subprocess.run([programs / "tests/bare-nats", *map(str, words)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    return float(done.stdout)


def median_ratio(over, under):
    return round(statistics.median(a / b for a, b in zip(over, under)), 3)


# -- results -------------------------------------------------------------------------------------------------------------------


def used(**processes):
    """Microseconds of a processor that each has used so far: a process, or what this one waited for."""
    def threads(process):
        return pathlib.Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {"client": (children.ru_utime + children.ru_stime) * 1e6, "producer": time.process_time() * 1e6,
            **{name: sum(int(each.read_text().split()[0]) for each in threads(process)) / 1e3 for name, process in processes.items()}}


class Profile:
    """What is spent on a result by each of those that have a part in it; medians of rounds."""

    def __init__(self, *names):
        self.spent = {name: [] for name in names}

    def add(self, before, after, count):
        for name, each in self.spent.items():
            each.append((after[name] - before[name]) / count)

    def total(self):
        return sum(statistics.median(each) for each in self.spent.values())

    def __str__(self):
        shares = ", ".join(f"{name} {statistics.median(each):.1f}" for name, each in self.spent.items())
        return f"{shares} us of a processor a result, so at most {os.cpu_count() * 1e6 / self.total():.0f}/s"


def link_results(nats, daemon, count, size=SMALL):
    """Seconds from the first frame to the last result in the stream."""
    frames = bytes(size * count)
    with daemon.producer() as producer:
        begin = time.monotonic()
        sending = Background(producer.send, frames)
        wait_until(lambda: nats.stored("RESULTS") >= count, "all results are stored", 120)
        seconds = time.monotonic() - begin
        sending.join()
    return seconds


def small_results(place, programs, rounds, count):
    entry = pipeline({"dtype": "uint8", "shape": [SMALL]}, sink={"protocol": "native"}, slots=SLOTS)
    seconds = {"link": [], SLOTS: [], 256: []}
    profiles = {"link": Profile("server", "link", "daemon", "producer"), **{each: Profile("server", "client") for each in (SLOTS, 256)}}
    with Server(place) as server, server.client() as nats, Daemon(place, {"cam0": entry}, log={"level": "error"}) as daemon:
        nats.make_stream("RESULTS", ["results.cam0"])
        for turn in range(rounds):
            for kind in list(seconds)[turn % 3:] + list(seconds)[:turn % 3]:
                nats.ask("STREAM.PURGE.RESULTS")
                if kind == "link":
                    with Link(daemon, server, sinks={"cam0": {"stream": "RESULTS", "overload": "block"}}) as link:
                        link.wait_up()
                        processes = {"server": server.process, "link": link.process, "daemon": daemon.process}
                        before = used(**processes)
                        seconds[kind].append(link_results(nats, daemon, count))
                        profiles[kind].add(before, used(**processes), count)
                else:
                    before = used(server=server.process)
                    seconds[kind].append(bare(programs, "results", server.url, "results.cam0", count, SMALL, kind))
                    profiles[kind].add(before, used(server=server.process), count)
    rates = {kind: count / statistics.median(each) for kind, each in seconds.items()}
    more = f"link {rates['link']:.0f}/s, bare {rates[SLOTS]:.0f}/s with {SLOTS} in flight, {rates[256]:.0f}/s with 256; {rounds} rounds"
    for in_flight in (SLOTS, 256):
        yield {"what": f"1 KiB results, link over bare client with {in_flight} in flight",
               "value": median_ratio(seconds[in_flight], seconds["link"]), "at_least": 0.9,
               "more": f"{more}; link: {profiles['link']}; bare: {profiles[in_flight]}"}


def synced_results(place, rounds, count, size):
    """What it costs that results are on the server's disk when they are acknowledged: two servers, which take turns."""
    entry = pipeline({"dtype": "uint8", "shape": [size]}, sink={"protocol": "native"}, slots=SLOTS)
    seconds = {"default": [], "always": []}
    with contextlib.ExitStack() as stack:
        servers = {kind: stack.enter_context(Server(place, kind, durable=kind == "always")) for kind in seconds}
        daemon = stack.enter_context(Daemon(place, {"cam0": entry}, log={"level": "error"}))
        for turn in range(rounds):
            for kind in list(seconds)[::-1 if turn % 2 else 1]:
                with servers[kind].client() as nats, \
                        Link(daemon, servers[kind], sinks={"cam0": {"stream": "RESULTS", "overload": "block"}}) as link:
                    link.wait_up()
                    nats.ask("STREAM.PURGE.RESULTS")
                    seconds[kind].append(link_results(nats, daemon, count, size))
    rates = {kind: count / statistics.median(each) for kind, each in seconds.items()}
    yield {"what": f"{size >> 10} KiB results, sync_interval: always over the default", "value": median_ratio(seconds["default"], seconds["always"]),
           "more": f"{rates['always']:.0f}/s over {rates['default']:.0f}/s; {rounds} rounds of {count}; nats-server {'.'.join(map(str, version()))}"}


def sync(place, rounds, count):
    if version() < DURABLE:
        raise RuntimeError(f"nats-server {'.'.join(map(str, version()))} does not know sync_interval; 2.10 does")
    for size in (SMALL, 64 * SMALL):
        folder = place / str(size)
        folder.mkdir()
        yield from synced_results(folder, rounds, count if size == SMALL else count // 4, size)


# -- frames of a queue ---------------------------------------------------------------------------------------------------------


def drain(nats, frames, taker):
    """Seconds from the first frame that leaves the queue to the last, while `taker` takes them."""
    seen = {}
    with taker:
        wait_until(lambda: nats.stored("FRAMES") < frames, "the first frame is done", 60)
        begin = time.monotonic()
        first = nats.stored("FRAMES")
        wait_until(lambda: nats.stored("FRAMES") == 0, "the queue is empty", 120)
        seen = (time.monotonic() - begin) / max(first, 1)
    return seen * frames


@contextlib.contextmanager
def bare_queue(programs, server, frames):
    working = Background(bare, programs, "queue", server.url, "FRAMES", "workers", frames, QUEUE_SLOTS)
    yield
    working.join(120)


def queue_frames(place, programs, rounds, frames):
    entry = pipeline(NV12, source={"protocol": "native"}, sink={"file": "/dev/null"}, slots=QUEUE_SLOTS)
    seconds = {"link": [], "bare": []}
    with Server(place) as server, server.client() as nats, Daemon(place, {"cam0": entry}, log={"level": "error"}) as daemon:
        nats.make_stream("FRAMES", ["frames.cam0"], retention="workqueue")
        nats.ask("CONSUMER.DURABLE.CREATE.FRAMES.workers", {"stream_name": "FRAMES", "config": {
            "durable_name": "workers", "ack_policy": "explicit", "ack_wait": 30_000_000_000, "filter_subject": "frames.cam0",
            "max_waiting": 512}})
        for turn in range(rounds):
            for kind in ("link", "bare") if turn % 2 else ("bare", "link"):
                bare(programs, "results", server.url, "frames.cam0", frames, NV12_BYTES, 8)
                wait_until(lambda: nats.stored("FRAMES") == frames, "the queue is filled", 60)
                taker = bare_queue(programs, server, frames) if kind == "bare" else \
                    Link(daemon, server, sources={"cam0": {"stream": "FRAMES", "consumer": "workers"}})
                seconds[kind].append(drain(nats, frames, taker))
    rates = {kind: frames / statistics.median(each) for kind, each in seconds.items()}
    yield {"what": "1080p NV12 frames through a queue, link over bare client", "value": median_ratio(seconds["bare"], seconds["link"]),
           "at_least": 0.9, "more": f"link {rates['link']:.1f}/s, bare {rates['bare']:.1f}/s, {QUEUE_SLOTS} in flight; {rounds} rounds"}


def rate(place, programs, rounds, results, frames):
    for name, rows in (("results", small_results(place / "results", programs, rounds, results)),
                       ("frames", queue_frames(place / "frames", programs, rounds, frames))):
        (place / name).mkdir()
        yield from rows


# -- a broker in trouble -------------------------------------------------------------------------------------------------------


class Nonsense:
    """What listens where a server should be, and says anything."""

    def __init__(self, port):
        self.socket = socket.create_server(("127.0.0.1", port), reuse_port=False)
        self.thread = threading.Thread(target=self.serve, daemon=True)

    def serve(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.socket.accept()
                with client, contextlib.suppress(OSError):
                    client.sendall(b"INFO {\"max_payload\":8388608}\r\nPONG\r\nMSG x 1 99999\r\n\0\xff" * 10)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join()


def p99(daemon, programs):
    """From when a link has noticed that its broker hangs, which takes a second of silence. A window has none if results were missed."""
    for _ in range(5):
        done = subprocess.run([programs / "framebench", "load", "--json", "-s", daemon.socket, "--in-flight", "1", "--warm-up", "1500ms",
                               "--duration", "1s", "cam0"], capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.strip())
        (row,) = json.loads(done.stdout)["sections"]["load"]
        if "p99_us" in row:
            return row["p99_us"]
    raise RuntimeError("results were missed in five windows")


@contextlib.contextmanager
def broker_in(state, server, link):
    """The link had a broker, which is in trouble from here on."""
    link.wait_up()
    if state == "hangs":
        server.process.send_signal(signal.SIGSTOP)
    else:
        server.kill()
    nonsense = Nonsense(server.port) if state == "answers nonsense" else contextlib.nullcontext()
    try:
        with nonsense:
            yield
    finally:
        server.kill()
        server.start()


def latency(place, programs, windows):
    """Windows take turns: without a link, and with one that has lost its broker in one of three ways."""
    entry = pipeline({"dtype": "uint8", "shape": [65536]}, source={"protocol": "native"}, sink={"protocol": "native", "overload": "drop"},
                     slots=4)
    states = ("hangs", "vanishes", "answers nonsense")
    figures = {"alone": [], **{state: [] for state in states}}
    with Server(place) as server, Daemon(place, {"cam0": entry}, log={"level": "error"}) as daemon:
        for _ in range(windows):
            figures["alone"].append(p99(daemon, programs))
            for state in states:
                with Link(daemon, server, sinks={"cam0": {"stream": "RESULTS", "overload": "drop"}}) as link, \
                        broker_in(state, server, link):
                    figures[state].append(p99(daemon, programs))
    for state in states:
        yield {"what": f"p99 of a daemon whose link's broker {state}, over the same without a link",
               "value": median_ratio(figures[state], figures["alone"]), "at_most": 1.1,
               "more": f"{statistics.median(figures[state]):.0f} us over {statistics.median(figures['alone']):.0f} us; {windows} windows"}
