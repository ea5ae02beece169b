#!/usr/bin/env python3
"""Compares framed with a PyTorch program: 4 MiB frames of floats over Unix sockets, out = 2 in + 1, in the same run.

    compare.py [--framed build/framed] [--seconds 3] [--backend cuda|cpu] [--quick]

Prints a document that `framebench report` reads. Both programs have the same writing and reading processes. They take turns
with a new process each time, and the median counts. If PyTorch is missing, it exits with status 1.
"""

import argparse
import array
import json
import multiprocessing
import os
import pathlib
import platform
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
FLOATS = 1 << 20
FRAME = 4 * FLOATS
WARM_UP = 20
RUNS = 3

CONFIGURATION = """
status: {{socket: {folder}/status.sock}}
gpu: {{backend: {backend}}}
pipelines:
  frames:
    source: {{socket: {folder}/in.sock, format: {{dtype: float32, shape: [{floats}]}}}}
    slots: 4
    completion: spin
    stages: [affine: {{scale: 2, offset: 1}}]
    sink: {{socket: {folder}/out.sock, overload: block}}
"""


def connect(path, process, limit=60):
    """Connects to a socket that the process is about to create."""
    end = time.monotonic() + limit
    while True:
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(str(path))
            return connection
        except OSError:
            connection.close()
            if process.poll() is not None:
                raise RuntimeError(f"{process.args[0]} ended: {process.stderr.read().decode(errors='replace').strip()}") from None
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


def write_frames(connection):
    frame = array.array("f", [1.5]) * FLOATS
    try:
        while True:
            connection.sendall(frame)
    except OSError:
        pass  # the peer closed the connection, as expected


def read_frame(connection, buffer):
    view = memoryview(buffer)
    while view:
        count = connection.recv_into(view)
        if count == 0:
            raise RuntimeError("the results ended early")
        view = view[count:]


def frames_per_second(reader, seconds):
    buffer = bytearray(FRAME)
    for _ in range(WARM_UP):
        read_frame(reader, buffer)
    results = array.array("f", bytes(buffer))
    if results[0] != 4.0 or results[-1] != 4.0:
        raise RuntimeError(f"a result is {results[0]}, not 4.0")
    start, count = time.monotonic(), 0
    while time.monotonic() - start < seconds:
        read_frame(reader, buffer)
        count += 1
    return count / (time.monotonic() - start)


def measure(command, folder, seconds):
    """Starts the program with the sockets in.sock and out.sock in `folder`, and measures its frame rate."""
    with subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL) as process:
        try:
            reader = connect(folder / "out.sock", process)
            producer = connect(folder / "in.sock", process)
            writer = multiprocessing.get_context("fork").Process(target=write_frames, args=(producer,), daemon=True)
            writer.start()
            producer.close()
            try:
                return frames_per_second(reader, seconds)
            finally:
                writer.terminate()
                writer.join()
                reader.close()
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()


def measure_framed(arguments, seconds):
    with tempfile.TemporaryDirectory(prefix="framed-peers-") as name:
        folder = pathlib.Path(name)
        configuration = folder / "framed.yaml"
        configuration.write_text(CONFIGURATION.format(folder=folder, backend=arguments.backend, floats=FLOATS))
        return measure([arguments.framed, "-c", str(configuration)], folder, seconds)


def measure_peer(arguments, seconds):
    with tempfile.TemporaryDirectory(prefix="framed-peers-") as name:
        folder = pathlib.Path(name)
        device = "cpu" if arguments.backend == "cpu" else "cuda"
        return measure([sys.executable, arguments.peer, "--device", device, str(folder / "in.sock"), str(folder / "out.sock"),
                        str(FLOATS)], folder, seconds)


def document(arguments, runs):
    """`runs`: for each program the frames/s of all its runs, in order."""
    framed, peer = statistics.median(runs["framed"]), statistics.median(runs["pytorch"])
    target = {"what": "daemon, Unix socket in and out, 4 MiB frames", "limit": "PyTorch, double buffering, same sockets",
              "unit": "frames/s", "value": framed, "limit_value": peer, "ratio": framed / peer, "at_least": 2.0,
              "reached": "yes" if framed >= 2 * peer else "no"}
    machine = {"processor": platform.processor() or platform.machine(), "processors": len(os.sched_getaffinity(0)),
               "kernel": platform.release(), "driver": "", "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime())}
    rows = [{"program": name, "run": run, "bytes": FRAME, "frames_per_s": rate, "gb_per_s": rate * FRAME / 1e9, "us": 1e6 / rate}
            for run, rates in enumerate(zip(runs["framed"], runs["pytorch"]), 1)
            for name, rate in zip(("framed", "pytorch"), rates)]
    return {"command": "peers", "machine": machine, "asked_backend": arguments.backend,
            "sections": {"peers": rows, "targets": [target]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framed", default="build/framed")
    parser.add_argument("--peer", default=str(HERE / "pytorch_frames.py"))
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--backend", default="auto", choices=("auto", "cuda", "cpu"))
    parser.add_argument("--quick", action="store_true", help="a fifth of a second each")
    arguments = parser.parse_args()
    seconds = 0.2 if arguments.quick else arguments.seconds
    runs = {"framed": [], "pytorch": []}
    try:
        for _ in range(RUNS):
            runs["framed"].append(measure_framed(arguments, seconds))
            runs["pytorch"].append(measure_peer(arguments, seconds))
    except (RuntimeError, OSError) as error:
        sys.exit(f"compare.py: {error}")
    json.dump(document(arguments, runs), sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
