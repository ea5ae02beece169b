#!/usr/bin/env python3
"""Several devices under load: what a fault of one, one that is drained, and one that breaks for good cost the clients of the others.

    many.py [--backend cuda|cpu] [--devices 4] [--rate 100] [--json FILE] [PART]...     parts: placement fault drain broken

Two clients of each device send frames at a steady rate to a daemon of the test build (FRAMED_BINARY, as for the end-to-end tests),
and compare each result. Each part says how late the results of clients on other devices came while nothing happened and from
when it did (p99, longest), how many frames were lost, came twice or wrong, and how many connections were closed; `broken` also
when the device was left out, and when its clients had results again. The exit status tells whether anything was lost.
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import threading
import time

import numpy as np

here = pathlib.Path(__file__).resolve().parent
for folder in (here / "e2e", here.parent / "e2e"):
    sys.path.insert(0, str(folder))

from harness import Background, Client, Daemon, pipeline, wait_until  # noqa: E402

SIZE = 256 << 10
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
CLIENTS = 2  # of each device
SETTLE = 2.0  # seconds before and after what happens
STRUCK = 300  # the frame that an illegal access strikes
VICTIM = 1  # the device that all of it happens to


class Steady:
    """A client that sends a frame whenever one is due, and knows when each was due and when its result came."""

    def __init__(self, path, rate):
        self.client, self.rate = Client(path), rate
        self.body = np.random.Generator(np.random.PCG64(1)).integers(0, 256, SIZE - 8, dtype=np.uint8).tobytes()
        self.sent, self.wrong, self.closed, self.ending = 0, 0, False, threading.Event()
        self.due, self.late = [], []  # of each frame; of each result, in seconds
        self.threads = [Background(self.send), Background(self.take)]

    def send(self):
        start = time.monotonic()
        while not self.ending.is_set():
            due = start + self.sent / self.rate
            time.sleep(max(0.0, due - time.monotonic()))
            self.due.append(due)
            self.client.send(self.sent.to_bytes(8, "little") + self.body)
            self.sent += 1
        self.client.finish()

    def take(self):
        with contextlib.suppress(EOFError):
            while True:
                result = self.client.read(SIZE)
                self.late.append(time.monotonic() - self.due[len(self.late)])
                self.wrong += result != (len(self.late) - 1).to_bytes(8, "little") + self.body
        self.closed = not self.ending.is_set()

    def finish(self):
        self.ending.set()
        for thread in self.threads:
            thread.join()
        self.client.close()

    def between(self, begin, end):
        return [late for due, late in zip(self.due, self.late) if begin <= due < end]

    def first_after(self, at):
        """When the first result came of a frame that was due after that."""
        return next(due + late for due, late in zip(self.due, self.late) if due >= at)


class Load:
    """A daemon with clients on each device, those of VICTIM in a pipeline of their own where a part wants that."""

    def __init__(self, place, options, stage, own=False):
        count = options.devices
        self.count, self.broken = count, pathlib.Path(place) / "broken"
        self.broken.write_text("")
        others = [device for device in range(count) if device != VICTIM]
        keys = {"sink": {"reply": True}, "slots": 3, "completion": "callback"}
        entries = {"all": pipeline(FORMAT, source={"clients": CLIENTS * count}, devices="all", stages=[{"affine": {"scale": 1}}, *stage],
                                   **keys)}
        if own:
            entries = {"all": pipeline(FORMAT, source={"clients": CLIENTS * len(others)}, devices=others, stages=[{"affine": {"scale": 1}}],
                                       **keys),
                       "victim": pipeline(FORMAT, source={"clients": 1}, devices=[VICTIM], stages=stage, **keys)}
        gpu = {"backend": options.backend, "faults": "60/min", **({"count": count} if options.backend == "cpu" else {})}
        environment = {"FRAMED_FAULT_DEVICES": str(self.broken),
                       "CUDA_VISIBLE_DEVICES": os.environ.get("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(count))))}
        self.daemon = Daemon(place, entries, gpu=gpu, env=environment, lanes=min(count, os.cpu_count()))
        self.rate, self.entries, self.clients = options.rate, entries, {}

    def __enter__(self):
        self.daemon.__enter__()
        self.clients = {name: [Steady(self.daemon.path(name, "source"), self.rate) for _ in range(entry["source"]["clients"])]
                        for name, entry in self.entries.items()}
        wait_until(lambda: all(len(client.late) > 10 for client in self.everybody()), "results come", 60)
        return self

    def everybody(self):
        return [client for clients in self.clients.values() for client in clients]

    def places(self):
        return [client["device"] for client in self.daemon.status()["pipelines"]["all"]["connected"]]

    def __exit__(self, *error):
        for client in self.everybody():
            client.finish()
        self.daemon.__exit__(*error)

    def state(self, device):
        return self.daemon.status()["devices"].get(str(device), {}).get("state")

    def row(self, part, begin, after, clients, **more):
        """The figures of these clients from `begin` until now, that which happens being at `after`."""
        now = time.monotonic()
        calm = [late for client in clients for late in client.between(begin, after)]
        rough = [late for client in clients for late in client.between(after - 0.5, now)]
        everybody = self.everybody()
        for client in everybody:
            client.finish()
        return {"part": part, "devices": self.count, "clients": len(everybody), "rate": self.rate,
                "frames": sum(client.sent for client in everybody), "lost": sum(client.sent - len(client.late) for client in everybody),
                "wrong_or_twice": sum(client.wrong for client in everybody), "closed": sum(client.closed for client in everybody),
                "calm_p99_ms": milliseconds(np.percentile(calm, 99)), "calm_longest_ms": milliseconds(max(calm)),
                "p99_ms": milliseconds(np.percentile(rough, 99)), "longest_ms": milliseconds(max(rough)),
                "pauses_ms": [float(line.split("after ")[1].split()[0]) for line in self.daemon.log.splitlines() if "goes on after" in line],
                **more}


def milliseconds(seconds):
    return round(1e3 * float(seconds), 1)


def placement(place, options):
    """Eight pipelines of four producers: how many each device has."""
    count = options.devices
    entries = {f"cam{i}": pipeline(FORMAT, source={"clients": 4}, sink={"reply": True}, slots=1, devices="all") for i in range(8)}
    gpu = {"backend": options.backend, **({"count": count} if options.backend == "cpu" else {})}
    with Daemon(place, entries, gpu=gpu) as daemon:
        clients = []
        for _ in range(4):
            for name in entries:
                clients.append(Client(daemon.path(name, "source")))
                clients[-1].send(bytes(SIZE))
                clients[-1].read(SIZE)
        counts = [daemon.status()["devices"][str(device)]["producers"] for device in range(count)]
        for client in clients:
            client.close()
    return {"part": "placement", "devices": count, "producers": counts, "lost": int(max(counts) - min(counts) > 1)}


def fault(place, options):
    """One illegal access on one device."""
    strike = {"fault": {"kind": "illegal", "at": STRUCK, "every": 0, "again": "no"}}
    with Load(place, options, [strike], own=True) as load:
        begin = time.monotonic()
        wait_until(lambda: load.daemon.status()["handovers"]["fault"] == 1, "the fault is found", 60)
        struck = load.clients["victim"][0].due[STRUCK]
        time.sleep(SETTLE)
        return load.row("fault", begin, struck, load.clients["all"])


def drain(place, options):
    with Load(place, options, []) as load:
        begin = time.monotonic()
        time.sleep(SETTLE)
        asked = time.monotonic()
        load.daemon.command(f"/v1/devices/{VICTIM}/drain")
        wait_until(lambda: load.state(VICTIM) == "drained", "it is drained", 60)
        drained = time.monotonic()
        moved = VICTIM not in load.places()
        time.sleep(SETTLE)
        load.daemon.command(f"/v1/devices/{VICTIM}/resume")
        wait_until(lambda: load.state(VICTIM) == "open", "it is open", 60)
        time.sleep(SETTLE)
        return load.row("drain and resume", begin, asked, load.everybody(), drained_after_ms=milliseconds(drained - asked),
                        moved=moved, back=VICTIM in load.places())


def broken(place, options):
    with Load(place, options, [{"fault": {"kind": "lost"}}]) as load:
        begin = time.monotonic()
        time.sleep(SETTLE)
        new = load.broken.with_suffix(".new")
        new.write_text(str(VICTIM))
        gone = time.monotonic()
        new.rename(load.broken)
        wait_until(lambda: load.state(VICTIM) == "failed", "it is left out", 60)
        out = time.monotonic()
        time.sleep(SETTLE)
        again = max(client.first_after(gone) for client in load.everybody())
        return load.row("broken for good", begin, gone, load.everybody(), left_out_after_ms=milliseconds(out - gone),
                        results_again_after_ms=milliseconds(again - gone), moved=VICTIM not in load.places())


PARTS = {"placement": placement, "fault": fault, "drain": drain, "broken": broken}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default=os.environ.get("FRAMED_BACKEND", "cpu"))
    parser.add_argument("--devices", type=int, default=4)
    parser.add_argument("--rate", type=float, default=100)
    parser.add_argument("--json")
    parser.add_argument("parts", nargs="*", metavar="PART")
    options = parser.parse_args()
    if not set(options.parts) <= set(PARTS):
        parser.error(f"parts are {' '.join(PARTS)}")
    rows = []
    for part in options.parts or PARTS:
        unread = io.StringIO()  # the daemon's log, which the harness prints for tests
        try:
            with contextlib.redirect_stdout(unread), tempfile.TemporaryDirectory() as place:
                rows.append(PARTS[part](pathlib.Path(place), options))
        except BaseException:
            print(unread.getvalue(), file=sys.stderr)
            raise
        print(json.dumps(rows[-1]), flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"measured": "many", "backend": options.backend, "rows": rows}, indent=2))
    return 0 if all(row["lost"] == row.get("wrong_or_twice", 0) == row.get("closed", 0) == 0 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
