#!/usr/bin/env python3
"""Makes a device fail again and again under load, and measures what clients notice of it.

    faults.py [--backend cuda|cpu] [--standby warm|bare|off] [--illegal N] [--hang N] [--json FILE]

A kernel that makes an illegal access strikes N frames, then one that never ends does, each once, in a daemon of the test
build (FRAMED_BINARY, as for the end-to-end tests), and each when a worker stands by, if one is to. One producer and one reader
stay connected; every result is compared. For each row: frames lost, frames that came twice or wrong, connections that were
closed, how long the daemon says that nothing moved (from finding the fault to serving again), and how long the reader waited,
which the finding is part of. The exit status tells whether anything was lost.
"""

import argparse
import contextlib
import io
import json
import os
import pathlib
import statistics
import sys
import tempfile
import time

import numpy as np

here = pathlib.Path(__file__).resolve().parent
for folder in (here / "e2e", here.parent / "e2e"):
    sys.path.insert(0, str(folder))

from harness import Background, Daemon, pipeline, wait_until  # noqa: E402

TIMEOUT = {"illegal": 2.0, "hang": 0.3}  # gpu.timeout, seconds
SIZE = 1 << 20
EVERY = 100


def frame(number, body):
    return number.to_bytes(8, "little") + body


def stands(daemon, standby):
    return (daemon.status()["devices"]["0"]["worker"]["standby"] or {}).get("state") == standby


def measure(kind, faults, backend, standby, slots, completion):
    count = EVERY * faults + EVERY - 10
    body = np.random.Generator(np.random.PCG64(1)).integers(0, 256, SIZE - 8, dtype=np.uint8).tobytes()
    strike = {"fault": {"kind": kind, "at": EVERY, "every": EVERY, "again": "no"}}
    entry = pipeline({"dtype": "uint8", "shape": [SIZE]}, slots=slots, completion=completion, stages=[strike])
    gpu = {"backend": backend, "timeout": f"{TIMEOUT[kind]}s", "faults": "64/min", "standby": standby}
    waits, wrong = [], 0
    unread = io.StringIO()  # the daemon's log, which the harness prints for tests
    with contextlib.redirect_stdout(unread), tempfile.TemporaryDirectory() as place, Daemon(place, {"cam0": entry}, gpu=gpu) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            def send():
                for number in range(count):
                    if number % EVERY == EVERY // 2 and standby != "off":
                        wait_until(lambda: stands(daemon, standby), "a worker stands by", seconds=20)
                    producer.send(frame(number, body))
            sending = Background(send)
            last = time.monotonic()
            for number in range(count):
                if number % EVERY == EVERY // 2:
                    last = None  # for a worker was waited
                wrong += reader.read(SIZE) != frame(number, body)
                now = time.monotonic()
                waits.append(now - last if last else 0)
                last = now
            sending.join()
            closed = daemon.log.count(" left after ")
        ledger = daemon.account(came=count, emitted=count)
        handovers = daemon.status()["handovers"]
        still = "frames there stood still for "
        gaps = [float(line.split(still)[1].split()[0]) for line in daemon.log.splitlines() if still in line]
    waits = sorted(waits, reverse=True)[:faults]
    return {"kind": kind, "standby": standby, "slots": slots, "completion": completion, "faults": handovers["fault"], "frames": count,
            "lost": count - ledger["emitted"], "wrong_or_twice": wrong, "closed": closed,
            "gap_ms": {"median": statistics.median(gaps), "max": max(gaps)},
            "reader_waited_ms": {"median": round(1e3 * statistics.median(waits), 1), "max": round(1e3 * waits[0], 1)},
            "timeout_ms": 1e3 * TIMEOUT[kind] if kind == "hang" else None}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend", default=os.environ.get("FRAMED_BACKEND", "cpu"))
    parser.add_argument("--standby", choices=("warm", "bare", "off"), default="off")
    parser.add_argument("--illegal", type=int, default=50)
    parser.add_argument("--hang", type=int, default=20)
    parser.add_argument("--json")
    options = parser.parse_args()
    rows = []
    for kind, faults in (("illegal", options.illegal), ("hang", options.hang)):
        rows.append(measure(kind, faults, options.backend, options.standby, 3, "spin"))
        row = rows[-1]
        print(f"{kind}: {row['faults']} faults in {row['frames']} frames, {row['lost']} lost, {row['wrong_or_twice']} wrong or "
              f"twice, {row['closed']} connections closed; nothing moved for {row['gap_ms']['median']:.0f} ms (median), "
              f"{row['gap_ms']['max']:.0f} ms (max); the reader waited {row['reader_waited_ms']['median']:.0f} ms (median), "
              f"{row['reader_waited_ms']['max']:.0f} ms (max)", flush=True)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps({"measured": "faults", "backend": options.backend, "rows": rows}, indent=2))
    return 0 if all(row["lost"] == row["wrong_or_twice"] == row["closed"] == 0 for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
