#!/usr/bin/env python3
"""Counts the system calls of a frame in the daemon and its clients, in shared memory: cpu backend, all sides spinning.

It measures a pipeline that replies, and one whose results a consumer reads in shared memory. framebench load is both producer
and consumer.

    system_calls.py [--programs build] [--json] [--quick]

Watches framed and then framebench load with strace while frames pass, and divides their system calls by the frames of that
time. Calls of epoll_wait do not count, since a spinning lane makes them to poll. Both sides and the stage's workers need their own
processors: at least four, with no other load. `framebench report` reads the JSON document.
"""

import os
import pathlib
import re
import signal
import subprocess
import tempfile
import time

import counting

MOST = 0.01
SETTLE_S = 0.5  # from the start of the load to the full rate
WAYS = {
    "": lambda folder: {"reply": True},
    ", with a consumer": lambda folder: {"socket": f"{folder}/out.sock", "protocol": "native", "overload": "block"},
}


def emitted(folder, programs):
    return counting.view(folder, programs)["frames"]["emitted"]


def watch(threads, seconds, folder, programs):
    """(frames, {system call: count}) of these threads while they are watched, without epoll_wait."""
    summary = folder / "summary"
    attached = [option for thread in threads for option in ("-p", str(thread))]
    with open(folder / "strace", "w+", encoding="utf-8") as said:
        with subprocess.Popen(["strace", "-c", "-U", "calls,name", "-e", "trace=!epoll_wait,epoll_pwait", "-o", summary, *attached],
                              stderr=said) as strace:
            end = time.monotonic() + counting.START_S
            while (folder / "strace").read_text().count("attached") < len(threads):
                if strace.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"strace cannot watch here: {(folder / 'strace').read_text().strip()}")
                time.sleep(0.01)
            before = emitted(folder, programs)
            time.sleep(seconds)
            after = emitted(folder, programs)
            strace.send_signal(signal.SIGINT)
            strace.wait(counting.START_S)
    calls = {name: int(count) for count, name in re.findall(r"^\s*(\d+) (\w+)$", summary.read_text(), re.MULTILINE)}
    calls.pop("total", None)
    if after == before:
        raise RuntimeError("no frame came through while strace watched")
    return after - before, calls


def lanes_and_workers(pid):
    """The daemon's threads except the first, which answers status requests."""
    return [int(thread) for thread in os.listdir(f"/proc/{pid}/task") if int(thread) != pid]


def watch_side(side, way, daemon, seconds, folder, programs):
    """The row of one side, while framebench load sends frames."""
    with subprocess.Popen([programs / "framebench", "load", "--json", "-s", folder / "status.sock", "--spin", "--transport",
                           "shm", "--duration", f"{seconds + 60}s"],
                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
        try:
            time.sleep(SETTLE_S)
            pid = daemon.pid if side == "daemon" else client.pid
            count, calls = watch(lanes_and_workers(pid), seconds, folder, programs)
        finally:
            client.kill()
    return {"side": side + way, "bytes": counting.SIZE, "frames": count, "calls": calls,
            "calls_per_frame": round(sum(calls.values()) / count, 5)}


def measure_side(side, way, sink, seconds, programs):
    """Runs with a separate daemon, since results may still wait for a consumer of an earlier run."""
    with tempfile.TemporaryDirectory(prefix="framed-count-", dir="/tmp") as name:
        folder = pathlib.Path(name)
        (folder / "framed.yaml").write_text(counting.configuration(
            folder, {"protocol": "native"}, sink(folder), slots=4, completion="spin", spin_for="50ms"))
        with open(folder / "log", "w", encoding="utf-8") as log, subprocess.Popen(
                [programs / "framed", "-c", folder / "framed.yaml"], stdout=log, stderr=log) as daemon:
            try:
                counting.wait_ready(folder, programs, daemon)
                return watch_side(side, way, daemon, seconds, folder, programs)
            finally:
                daemon.kill()


def measure(programs, seconds):
    for way, sink in WAYS.items():
        for side in ("daemon", "client"):
            yield measure_side(side, way, sink, seconds, programs)


def targets(rows):
    return [counting.target(f"system calls a frame, {row['side']}, shared memory, 64 KiB, saturated, spin, cpu backend",
                            row["calls_per_frame"], MOST) for row in rows]


def say(row):
    return f"{row['side']}: {row['calls_per_frame']:.4f} system calls a frame, over {row['frames']} frames: {row['calls']}"


if __name__ == "__main__":
    counting.run(__doc__, "strace", measure, targets, say)
