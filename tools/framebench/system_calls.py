#!/usr/bin/env python3
"""How many system calls a frame costs the daemon and its client in shared memory: cpu backend, both sides spinning.

    system_calls.py [--programs build] [--json] [--quick]

Watches framed and then framebench load with strace while frames pass, and counts their system calls against the frames
of the same time. Those to epoll_wait stand aside: a lane that spins asks without waiting. Both sides, and the workers of
the stage, need processors of their own for the figure to say something: four at least, with nothing else running. As a
document, `framebench report` reads it.
"""

import argparse
import json
import os
import pathlib
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

SIZE = 65536
MOST = 0.01
START_S = 60
SETTLE_S = 0.5  # from the start of the load to full rate


def configuration(folder):
    """JSON is YAML."""
    return json.dumps({
        "lanes": 1,
        "status": {"socket": f"{folder}/status.sock"},
        "gpu": {"backend": "cpu"},
        "pipelines": {"frames": {
            "source": {"socket": f"{folder}/in.sock", "protocol": "native", "format": {"dtype": "float32", "shape": [SIZE // 4]}},
            "slots": 4, "completion": "spin", "spin_for": "50ms",
            "stages": [{"affine": {"scale": 2, "offset": 1}}],
            "sink": {"reply": True},
        }},
    })


def frames(folder, programs):
    """How many the daemon has emitted; None while it does not answer."""
    done = subprocess.run([programs / "framectl", "-s", folder / "status.sock", "--json", "status"], capture_output=True,
                          text=True, check=False)
    return json.loads(done.stdout)["pipelines"]["frames"]["frames"]["emitted"] if done.returncode == 0 else None


def wait_ready(folder, programs, process):
    end = time.monotonic() + START_S
    while frames(folder, programs) is None:
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"framed does not start:\n{(folder / 'log').read_text(errors='replace')}")
        time.sleep(0.1)


def watch(threads, seconds, folder, programs):
    """(frames, {system call: how often}) of these threads while they are watched, epoll_wait aside."""
    summary = folder / "summary"
    attached = [option for thread in threads for option in ("-p", str(thread))]
    with open(folder / "strace", "w+", encoding="utf-8") as said:
        with subprocess.Popen(["strace", "-c", "-U", "calls,name", "-e", "trace=!epoll_wait,epoll_pwait", "-o", summary, *attached],
                              stderr=said) as strace:
            end = time.monotonic() + START_S
            while (folder / "strace").read_text().count("attached") < len(threads):
                if strace.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"strace cannot watch here: {(folder / 'strace').read_text().strip()}")
                time.sleep(0.01)
            before = frames(folder, programs)
            time.sleep(seconds)
            after = frames(folder, programs)
            strace.send_signal(signal.SIGINT)
            strace.wait(START_S)
    calls = {name: int(count) for count, name in re.findall(r"^\s*(\d+) (\w+)$", summary.read_text(), re.MULTILINE)}
    calls.pop("total", None)
    if after == before:
        raise RuntimeError("no frame came through while strace watched")
    return after - before, calls


def lanes_and_workers(pid):
    """The daemon's threads but the first, which answers about its status."""
    return [int(thread) for thread in os.listdir(f"/proc/{pid}/task") if int(thread) != pid]


def measure(programs, seconds):
    """A row for each side."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="framed-count-", dir="/tmp") as name:
        folder = pathlib.Path(name)
        (folder / "framed.yaml").write_text(configuration(folder))
        with open(folder / "log", "w", encoding="utf-8") as log, subprocess.Popen(
                [programs / "framed", "-c", folder / "framed.yaml"], stdout=log, stderr=log) as daemon:
            try:
                wait_ready(folder, programs, daemon)
                for side in ("daemon", "client"):
                    with subprocess.Popen([programs / "framebench", "load", "--json", "-s", folder / "status.sock", "--spin",
                                           "--transport", "shm", "--duration", f"{seconds + 60}s"],
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as client:
                        try:
                            time.sleep(SETTLE_S)
                            pid = daemon.pid if side == "daemon" else client.pid
                            count, calls = watch(lanes_and_workers(pid), seconds, folder, programs)
                        finally:
                            client.kill()
                    rows.append({"side": side, "bytes": SIZE, "frames": count, "calls": calls,
                                 "calls_per_frame": round(sum(calls.values()) / count, 5)})
                    wait_gone(folder, programs)
                daemon.send_signal(signal.SIGTERM)
                daemon.wait(START_S)
            finally:
                daemon.kill()
    return rows


def wait_gone(folder, programs):
    """Until the client's seat is free again."""
    end = time.monotonic() + START_S
    while time.monotonic() < end:
        done = subprocess.run([programs / "framectl", "-s", folder / "status.sock", "--json", "status"], capture_output=True,
                              text=True, check=False)
        if done.returncode == 0 and json.loads(done.stdout)["pipelines"]["frames"]["sessions"] == 0:
            return
        time.sleep(0.02)
    raise RuntimeError("the daemon keeps the seat of a client that has gone")


def document(rows):
    """As framebench's own, so that its report takes it."""
    targets = [{"what": f"system calls a frame, {row['side']}, shared memory, 64 KiB, saturated, spin, cpu backend",
                "limit": "", "unit": "", "value": row["calls_per_frame"], "at_most": MOST,
                "reached": "yes" if row["calls_per_frame"] <= MOST else "no"} for row in rows]
    machine = {"processor": platform.processor() or platform.machine(), "processors": len(os.sched_getaffinity(0)),
               "kernel": platform.release(), "driver": "", "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime())}
    return {"command": "system_calls", "machine": machine, "backend": "cpu",
            "sections": {"system_calls": rows, "targets": targets}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build"), help="the folder with framed in it")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="few frames, to see that it works")
    arguments = parser.parse_args()
    if not shutil.which("strace"):
        sys.exit("system_calls.py: there is no strace here: install the package strace")
    try:
        rows = measure(arguments.programs.absolute(), 0.5 if arguments.quick else 5)
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        sys.exit(f"system_calls.py: {error}")
    if arguments.json:
        json.dump(document(rows), sys.stdout, indent=1)
        print()
        return
    for row in rows:
        print(f"{row['side']}: {row['calls_per_frame']:.4f} system calls a frame, over {row['frames']} frames: {row['calls']}")


if __name__ == "__main__":
    main()
