"""A daemon near what one of its pipelines carries, while clients of all kinds come to the others and go.

The good stream is framebench's, by the clock, a window after the other. It is bound either by its sockets, where whatever
holds a processor up makes several frames late, or by its kernel, as is that of a camera before a network. What the daemon
has of memory, descriptors and devices is taken where nobody is connected: after the first window, and at the end.
"""

import contextlib
import itertools
import json
import os
import pathlib
import random
import subprocess
import threading
import time

from harness import native
from harness.clients import Producer, Reader
from harness.daemon import BACKEND, BINARY, Daemon, environment, pipeline
from harness.frames import whole
from harness.store import settle
from harness.waiting import Background, limit, wait_until

FRAMEBENCH = pathlib.Path(os.environ.get("FRAMEBENCH", BINARY.with_name("framebench"))).absolute()
VISITORS, PAUSE_S = 2, 0.02  # who come and go, and rest between their visits
# From so many processors on there are some to spare for a lane and a load generator that never sleep. Then no frame is late
# because a processor had to wake up.
SPARE_PROCESSORS = 8
SIZE = 512
TENSOR = {"dtype": "uint8", "shape": [SIZE]}
GRAY = {"pixels": "gray", "width": 32, "height": 16}
INVERT = {"affine": {"scale": -1.0, "offset": 255.0}}


WORK = {"work": {"rounds": {"cuda": 16000, "cpu": 2}[BACKEND]}}  # for a frame of 1080p 35 ms of an H200, some 4 ms of a processor
GOOD = {
    "sockets": ({"pixels": "gray", "width": 320, "height": 240}, [INVERT]),
    "kernel": ({"pixels": "gray", "width": 1920, "height": 1080}, [WORK]),
}


def entries(place, bound_by, spin):
    format, stages = GOOD[bound_by]
    return {
        "good": pipeline(dict(format), slots=3, stages=stages, completion="spin" if spin else "callback"),
        "raw": pipeline(TENSOR, slots=3, sink={"overload": "drop"}),
        "reply": pipeline(TENSOR, source={"clients": 4}, sink={"reply": True}),
        "y4m": pipeline(GRAY, source={"protocol": "y4m"}, sink={"overload": "drop", "protocol": "y4m"}, completion="spin"),
        "native": pipeline(GRAY, source={"protocol": "native", "clients": 2}, sink={"reply": True, "protocol": "native"}),
        "file": pipeline(TENSOR, overload="drop-newest", sink={"file": str(place / "results")}),
    }


# -- the good stream ----------------------------------------------------------------------------------------------------------


def load(daemon, seconds, *arguments):
    """What framebench says of so many seconds. They may become more on a machine that cannot keep the rate."""
    done = subprocess.run(
        [FRAMEBENCH, "load", "-s", daemon.socket, "--json", "--duration", f"{seconds * 1000:.0f}ms", "--warm-up", "500ms",
         *map(str, arguments), "good"],
        capture_output=True, text=True, env=environment(), timeout=limit(4 * seconds + 30), check=False)
    assert done.returncode == 0, done
    return json.loads(done.stdout)["sections"]["load"][0]


# -- those who come and go -----------------------------------------------------------------------------------------------------


def produce(path, chance, marks=(b"", b"")):
    """Some frames, maybe not the whole of the last one, and off without a word."""
    with Producer(path) as producer:
        producer.socket.settimeout(0.2)
        producer.send(marks[0])
        for number in range(chance.randrange(10)):
            producer.send(marks[1] + whole(number, SIZE).tobytes())
        producer.send((marks[1] + bytes(SIZE))[:chance.choice([0, 0, 3, 200])])


def read(path, chance):
    with Reader(path, buffer=chance.choice([None, 4096])) as reader:
        reader.socket.settimeout(0.05)
        reader.socket.recv(chance.choice([1, SIZE, 100 * SIZE]))


def share(path, chance):
    """Frames in shared memory, of which some results may be left untaken."""
    with native.Shared(path) as client:
        for number in range(chance.randrange(1, 6)):
            client.submit(number % client.welcome.slots, whole(number, SIZE).tobytes())
            slot, fate, _ = client.completion(5)
            assert fate == 0 and client.payload(slot) == whole(number, SIZE).tobytes()
            client.take()


def ask(path, chance):
    with Producer(path) as client:
        for number in range(chance.randrange(10)):
            client.send(whole(number, SIZE).tobytes())
            assert client.read(SIZE) == whole(number, SIZE).tobytes()


def visit(daemon, chance):
    """One short life of a client; that it is turned away, or that nobody takes what it sends, is part of it."""
    y4m = (b"YUV4MPEG2 W32 H16 Cmono\n", b"FRAME\n")
    life = chance.choice([
        lambda: produce(daemon.path("raw", "source"), chance), lambda: produce(daemon.path("file", "source"), chance),
        lambda: produce(daemon.path("y4m", "source"), chance, y4m), lambda: read(daemon.path("raw", "sink"), chance),
        lambda: read(daemon.path("y4m", "sink"), chance), lambda: share(daemon.path("native", "source"), chance),
        lambda: ask(daemon.path("reply", "source"), chance), daemon.status, daemon.metrics])
    with contextlib.suppress(OSError, EOFError, native.Refused, native.NotLent):
        life()


def come_and_go(daemon, seed, stop):
    """Visits until told to stop; returns how many. What it costs the daemon is of interest, and not what it takes from the processors
    itself: it gives way to everybody."""
    os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), 19)
    chance = random.Random(seed)
    for count in itertools.count():
        if stop:
            return count
        visit(daemon, chance)
        time.sleep(PAUSE_S)


# -- the soak -------------------------------------------------------------------------------------------------------------------


class Soak:
    """Runs for about `seconds`, in windows, with `share` of what the good stream's pipeline carries; then `windows`, `before`,
    `after` and `visits` say what was seen."""

    def __init__(self, place, seconds, bound_by, share=0.8):
        self.place, self.seconds, self.bound_by, self.share = place, seconds, bound_by, share
        self.spin = len(os.sched_getaffinity(0)) >= SPARE_PROCESSORS
        self.window_s = min(60, max(2, seconds / 6))
        self.windows, self.before, self.after, self.visits = [], None, None, 0

    def run(self):
        with Daemon(self.place, entries(self.place, self.bound_by, self.spin), lanes="auto") as daemon:
            tries = [self.among_visitors(daemon, lambda: self.load(daemon, min(5, self.window_s / 4))) for _ in range(3)]
            most = min(row["frames_per_s"] for row in tries)
            self.rate = max(int(self.share * most), 1)
            self.add_window(daemon)
            self.before = self.at_rest(daemon)
            end = time.monotonic() + self.seconds - self.window_s
            while time.monotonic() < end:
                self.add_window(daemon)
            self.after = self.at_rest(daemon)
            self.frames = {name: view["frames"] for name, view in daemon.status()["pipelines"].items()}
        return self

    def load(self, daemon, seconds, *arguments):
        return load(daemon, seconds, *arguments, *(["--spin"] if self.spin else []))

    def add_window(self, daemon):
        waited = run_queue_seconds(daemon.process.pid)
        row = self.among_visitors(daemon, lambda: self.load(daemon, self.window_s, "--rate", self.rate))
        row["waited_ms"] = 1000 * (run_queue_seconds(daemon.process.pid) - waited)
        status = daemon.status()
        row["resident_bytes"] = status["usage"]["resident_bytes"]
        row["step_p999_us"] = {step: times["p999"] for step, times in status["pipelines"]["good"]["latency_us"].items()}
        self.windows.append(row)

    def among_visitors(self, daemon, function):
        stop, seed = [], len(self.windows) * VISITORS
        visitors = [Background(come_and_go, daemon, seed + index, stop) for index in range(VISITORS)]
        try:
            return function()
        finally:
            stop.append(True)
            self.visits += sum(visitor.join() for visitor in visitors)

    @staticmethod
    def at_rest(daemon):
        """What it has once everybody has left, and after the connections of status have been closed, too."""
        def is_alone():
            views = daemon.status()["pipelines"]
            present = {name: [view["sessions"], view["readers"] - ("file" in view["sink"]), view["frames"]["in_flight"]]
                       for name, view in views.items()}
            return present if not any(map(any, present.values())) else None
        wait_until(is_alone, lambda: f"everybody has left: {daemon.last}")
        usage = daemon.status()["usage"]
        settle(daemon)
        return {**usage, "descriptors": daemon.open_files(), **device_memory(daemon.process.pid)}

    # -- what was seen -------------------------------------------------------------------------------------------------------

    def document(self):
        return {"bound_by": self.bound_by, "seconds": self.seconds, "rate": self.rate, "visits": self.visits, "before": self.before, "after": self.after,
                "frames": self.frames, "windows": self.windows}

    def table(self):
        lines = [f"good stream, bound by its {self.bound_by}, at {self.rate} frames/s ({self.share:.0%} of what its pipeline carries), {self.visits} visits beside it",
                 "window  frames/s      p50      p99    p99.9      max us    lost  resident MiB  waited ms  late p99.9"]
        for index, row in enumerate(self.windows):
            lines.append(f"{index + 1:6} {row['frames_per_s']:9.0f} {row['p50_us']:8.0f} {row['p99_us']:8.0f} {row['p999_us']:8.0f} {row['max_us']:11.0f} "
                         f"{row['lost']:7} {row['resident_bytes'] / 2**20:13.2f} {row['waited_ms']:10.0f} "
                         f"{row['generator_late_p999_us']:11.0f}")
        steps = list(self.windows[0]["step_p999_us"])
        lines.append("p99.9 in the daemon, us: window" + "".join(f"{step:>10}" for step in steps))
        for index, row in enumerate(self.windows):
            lines.append(f"{index + 1:31}" + "".join(f"{row['step_p999_us'][step]:10.0f}" for step in steps))
        first, *others = [row["p999_us"] for row in self.windows]
        lines.append(f"p99.9 over that of the first window: the last one's {others[-1] / first:.3f}, the others' {min(others) / first:.3f} to "
                     f"{max(others) / first:.3f}")
        for key, before in self.before.items():
            lines.append(f"{key:15} {before:12} -> {self.after[key]:12} ({self.after[key] - before:+})")
        return "\n".join(lines)


def run_queue_seconds(pid):
    """For how long lanes and workers were ready to run and had no processor. A frame that meets this is late whatever the
    daemon does: of a minute's frames, those of 60 ms decide the 99.9th percentile."""
    waited = 0
    tasks = list(pathlib.Path(f"/proc/{pid}/task").iterdir())
    workers = [int(child) for task in tasks for child in (task / "children").read_text().split()]
    for task in tasks + [task for worker in workers for task in pathlib.Path(f"/proc/{worker}/task").iterdir()]:
        with contextlib.suppress(OSError):  # a thread that ends, a kernel that does not count
            if (task / "comm").read_text().startswith(("framed-lane", "framed-pool", "framed-serve")):
                waited += int((task / "schedstat").read_text().split()[1])
    return waited / 1e9


def device_memory(pid):
    """What the driver says that the process has of the device, where there is a driver that says so."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, timeout=limit(10), check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    rows = [line.split(",") for line in done.stdout.splitlines()]
    used = [int(memory) for process, memory in rows if int(process) == pid and memory.strip().isdigit()]
    return {"driver_bytes": sum(used) << 20} if used else {}
