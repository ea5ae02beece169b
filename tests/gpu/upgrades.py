#!/usr/bin/env python3
"""Upgrades a daemon again and again under load, and measures what a reader notices of it.

    upgrades.py [--backend cuda|cpu] [--upgrades 8] [--pause 1.5]

The daemon of the test build (FRAMED_BINARY, as for the end-to-end tests) executes itself, as it does when another version was
installed. A producer sends 1 MiB frames as fast as they are taken. Printed: how long frames stood still, as the daemon says, and
how long the reader waited for a result. The exit status tells whether each upgrade kept the worker.
"""

import argparse
import contextlib
import io
import os
import pathlib
import statistics
import sys
import tempfile
import time

here = pathlib.Path(__file__).resolve().parent
for folder in (here / "e2e", here.parent / "e2e"):
    sys.path.insert(0, str(folder))

from harness import Background, Daemon, pipeline, wait_until  # noqa: E402

SIZE = 1 << 20
FRAME = bytes(SIZE)
STAGE = {"affine": {"scale": 1.0, "offset": 1.0}}


def worker(daemon):
    return daemon.status()["devices"]["0"]["worker"]["pid"]


class Load:
    """Sends until finish(), and reads all results."""

    def __init__(self, reader, producer):
        self.reader, self.producer = reader, producer
        self.waits, self.is_over, self.total = [], False, None
        self.clients = [Background(self.send), Background(self.read)]

    def send(self):
        sent = 0
        while not self.is_over:
            self.producer.send(FRAME)
            sent += 1
        self.total = sent + 1
        self.producer.send(FRAME)

    def read(self):
        last, count = time.monotonic(), 0
        while count != self.total:
            self.reader.read(SIZE)
            count += 1
            now = time.monotonic()
            self.waits.append(now - last)
            last = now

    def finish(self):
        self.is_over = True
        for client in self.clients:
            client.join()


def measure(options):
    gaps, longest, kept = [], [], True
    entry = pipeline({"dtype": "uint8", "shape": [SIZE]}, slots=3, stages=[STAGE])
    with contextlib.redirect_stdout(io.StringIO()), tempfile.TemporaryDirectory() as place, \
            Daemon(place, {"cam0": entry}, gpu={"backend": options.backend}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            load, before = Load(reader, producer), worker(daemon)
            for number in range(options.upgrades):
                time.sleep(options.pause)
                load.waits.clear()
                daemon.post("/v1/upgrade")
                wait_until(lambda: daemon.status()["handovers"]["upgrade"] == number + 1, "the upgrade", seconds=20)
                time.sleep(0.3)
                gaps.append(daemon.status()["handovers"]["last"]["gap_ms"])
                longest.append(1e3 * max(load.waits))
                kept = kept and worker(daemon) == before
            load.finish()
        daemon.account(came=load.total, emitted=load.total)
    return gaps, longest, kept


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default=os.environ.get("FRAMED_BACKEND", "cpu"))
    parser.add_argument("--upgrades", type=int, default=8)
    parser.add_argument("--pause", type=float, default=1.5, help="seconds before each")
    gaps, longest, kept = measure(parser.parse_args())
    print(f"{len(gaps)} upgrades: frames stood still for {statistics.median(gaps):.1f} ms (median), {max(gaps):.1f} ms (max); the reader "
          f"waited {statistics.median(longest):.1f} ms (median), {max(longest):.1f} ms (max); the worker "
          f"{'stayed' if kept else 'was replaced'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
