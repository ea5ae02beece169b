#!/usr/bin/env python3
"""framed's Python client beside its C client: 4 MiB frames that are filled once, in shared memory with the same daemon.

    python_client.py [--programs build] [--seconds 3] [--backend cuda|cpu] [--quick]

Prints a document that `framebench report` reads. The clients take turns, since machines are faster at one time than at
another, and the median of each counts. The C client is that of `framebench load`.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
PACKAGES = [HERE.parents[1] / "client/python", HERE.parent / "tools/client/python"]  # in the sources, in the portable folder
SIDE = 2048
TURNS = 3

CONFIGURATION = """
status: {{socket: {folder}/status.sock}}
gpu: {{backend: {backend}}}
pipelines:
  frames:
    source: {{socket: {folder}/frames.sock, protocol: native, format: {{pixels: gray, width: {side}, height: {side}}}}}
    slots: 3
    completion: spin
    stages: [affine: {{scale: 2, offset: 1}}]
    sink: {{reply: true, protocol: native}}
"""


def answer(command, **environment):
    """What a program prints, as JSON."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=120, check=False,
                          env={**os.environ, **environment})
    if done.returncode != 0:
        raise RuntimeError(f"{command[0]} ended with status {done.returncode}: {done.stderr.decode(errors='replace').strip()}")
    return json.loads(done.stdout)


def wait_for(path, process, limit=60):
    end = time.monotonic() + limit
    while not path.exists():
        if process.poll() is not None:
            raise RuntimeError(f"framed ended: {process.stderr.read().decode(errors='replace').strip()}")
        if time.monotonic() > end:
            raise RuntimeError(f"{path} did not appear within {limit} s")
        time.sleep(0.02)


def wait_for_nobody(programs, folder, limit=20):
    """The place of the client before is free, and has its new memory."""
    end = time.monotonic() + limit
    while answer([programs / "framectl", "-s", folder / "status.sock", "--json", "status"])["pipelines"]["frames"]["sessions"]:
        if time.monotonic() > end:
            raise RuntimeError(f"a client is still there after {limit} s")
        time.sleep(0.02)


def python_rate(folder, seconds):
    package = next((path for path in PACKAGES if path.exists()), None)
    if package is None:
        raise RuntimeError("there is no Python client here")
    command = [sys.executable, package / "examples/throughput.py", "--json", "--seconds", str(seconds), folder / "frames.sock"]
    return answer(command, PYTHONPATH=str(package / "src"), PYTHONDONTWRITEBYTECODE="1")["frames_per_s"]


def c_rate(programs, folder, seconds):
    command = [programs / "framebench", "load", "-s", folder / "status.sock", "--rate", "max", "--transport", "shm", "--spin",
               "--duration", f"{int(seconds * 1000)}ms", "--warm-up", "200ms", "--json", "frames"]
    return answer(command)["sections"]["load"][0]["frames_per_s"]


def measure(arguments, seconds):
    """Frames a second of both, Python's first, turn by turn."""
    rates = []
    with tempfile.TemporaryDirectory(prefix="framed-peers-") as name:
        folder = pathlib.Path(name)
        (folder / "framed.yaml").write_text(CONFIGURATION.format(folder=folder, backend=arguments.backend, side=SIDE))
        command = [arguments.programs / "framed", "-c", folder / "framed.yaml"]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
            try:
                wait_for(folder / "status.sock", process)
                for _ in range(TURNS):
                    wait_for_nobody(arguments.programs, folder)
                    python = python_rate(folder, seconds)
                    wait_for_nobody(arguments.programs, folder)
                    rates.append((python, c_rate(arguments.programs, folder, seconds)))
            finally:
                process.terminate()
                try:
                    process.communicate(timeout=10)
                except subprocess.TimeoutExpired:
                    process.kill()
    return rates


def document(arguments, rates):
    if not all(rate > 0 for turn in rates for rate in turn):
        raise RuntimeError("not one frame came through")
    python, c = (statistics.median(column) for column in zip(*rates))
    target = {"what": "the Python client, shared memory, 4 MiB frames filled once", "limit": "the C client, same daemon",
              "unit": "frames/s", "value": python, "limit_value": c, "ratio": python / c, "at_least": 0.9,
              "reached": "yes" if python >= 0.9 * c else "no"}
    machine = {"processor": platform.processor() or platform.machine(), "processors": len(os.sched_getaffinity(0)),
               "kernel": platform.release(), "driver": "", "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime())}
    rows = [{"program": name, "bytes": SIDE * SIDE, "frames_per_s": rate, "gb_per_s": rate * SIDE * SIDE / 1e9, "us": 1e6 / rate}
            for turn in rates for name, rate in zip(("python", "c"), turn)]
    return {"command": "python-client", "machine": machine, "asked_backend": arguments.backend,
            "sections": {"peers": rows, "targets": [target]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build"), help="folder of framed, framectl and framebench")
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--backend", default="auto", choices=("auto", "cuda", "cpu"))
    parser.add_argument("--quick", action="store_true", help="half a second each")
    arguments = parser.parse_args()
    try:
        found = document(arguments, measure(arguments, 0.5 if arguments.quick else arguments.seconds))
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        sys.exit(f"python_client.py: {error}")
    json.dump(found, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
