#!/usr/bin/env python3
"""How many instructions a frame costs on its lane: 64 KiB frames, raw, from socket to socket, cpu backend.

    instructions.py [--programs build] [--json] [--quick]

Runs framed under valgrind's callgrind, with framebench load as its clients, and counts the lane's thread alone: user
space, without the stage's workers, from the thread's start to its end. As a document, `framebench report` reads it.
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
MOST = 5000
START_S = 60
WAYS = (  # what people read, and what framebench load is told
    ("saturated", ["--rate", "max"]),
    ("one frame in flight", ["--in-flight", "1"]),
)


def configuration(folder):
    """JSON is YAML. One lane, so that reading and writing count on one thread."""
    return json.dumps({
        "lanes": 1,
        "status": {"socket": f"{folder}/status.sock"},
        "gpu": {"backend": "cpu"},
        "pipelines": {"frames": {
            "source": {"socket": f"{folder}/in.sock", "format": {"dtype": "float32", "shape": [SIZE // 4]}},
            "stages": [{"affine": {"scale": 2, "offset": 1}}],
            "sink": {"socket": f"{folder}/out.sock", "overload": "block"},
        }},
    })


def wait_ready(folder, programs, process):
    end = time.monotonic() + START_S
    command = [programs / "framectl", "-s", folder / "status.sock", "status"]
    while subprocess.run(command, capture_output=True, check=False).returncode != 0:
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"framed does not start under valgrind:\n{(folder / 'log').read_text(errors='replace')}")
        time.sleep(0.1)


def load(folder, programs, options, seconds):
    """How many frames framebench load sent through, all of them with a result."""
    done = subprocess.run([programs / "framebench", "load", "--json", "-s", folder / "status.sock", "--warm-up", "0s",
                           "--duration", f"{seconds}s", *options], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    (row,) = json.loads(done.stdout)["sections"]["frames"]
    if row["emitted"] != row["in"] or row["in"] == 0:
        raise RuntimeError(f"of {row['in']} frames {row['emitted']} came through")
    return row["in"]


def lane_instructions(folder):
    """The sum over the threads that ran the turns of sessions: with one lane, one."""
    lanes = [text for text in (file.read_text() for file in folder.glob("callgrind.out-*"))
             if re.search(r"fn=\(\d+\) session_turn$", text, re.MULTILINE)]
    if len(lanes) != 1:
        raise RuntimeError(f"{len(lanes)} threads of the daemon look like a lane: has the name session_turn changed?")
    return int(re.search(r"^totals: (\d+)", lanes[0], re.MULTILINE).group(1))


def measure(programs, options, seconds):
    """(frames, instructions of the lane) of one life of the daemon."""
    with tempfile.TemporaryDirectory(prefix="framed-count-", dir="/tmp") as name:
        folder = pathlib.Path(name)
        (folder / "framed.yaml").write_text(configuration(folder))
        with open(folder / "log", "w", encoding="utf-8") as log, subprocess.Popen(
                ["valgrind", "--tool=callgrind", "--separate-threads=yes", "--fair-sched=try",
                 f"--callgrind-out-file={folder}/callgrind.out", programs / "framed", "-c", folder / "framed.yaml"],
                stdout=log, stderr=log) as process:
            try:
                wait_ready(folder, programs, process)
                frames = load(folder, programs, options, seconds)
                process.send_signal(signal.SIGTERM)
                process.wait(START_S)
            finally:
                process.kill()
        return frames, lane_instructions(folder)


def document(rows):
    """As framebench's own, so that its report takes it."""
    value = rows[0]["instructions_per_frame"]
    target = {"what": "user-space instructions a frame on the lane, 64 KiB, saturated, cpu backend, stage aside",
              "limit": "", "unit": "", "value": value, "at_most": MOST, "reached": "yes" if value <= MOST else "no"}
    machine = {"processor": platform.processor() or platform.machine(), "processors": len(os.sched_getaffinity(0)),
               "kernel": platform.release(), "driver": "", "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime())}
    return {"command": "instructions", "machine": machine, "backend": "cpu",
            "sections": {"instructions": rows, "targets": [target]}}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build"), help="the folder with framed in it")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true", help="few frames, to see that it works")
    arguments = parser.parse_args()
    if not shutil.which("valgrind"):
        sys.exit("instructions.py: there is no valgrind here: install the package valgrind")
    rows = []
    try:
        for way, options in WAYS:
            frames, instructions = measure(arguments.programs.absolute(), options, 0.5 if arguments.quick else 5)
            rows.append({"way": way, "bytes": SIZE, "frames": frames, "instructions": instructions,
                         "instructions_per_frame": round(instructions / frames, 1)})
            if not arguments.json:
                print(f"{way}: {instructions / frames:.0f} instructions a frame on the lane, over {frames} frames")
    except (RuntimeError, OSError, subprocess.TimeoutExpired) as error:
        sys.exit(f"instructions.py: {error}")
    if arguments.json:
        json.dump(document(rows), sys.stdout, indent=1)
        print()


if __name__ == "__main__":
    main()
