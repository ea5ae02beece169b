#!/usr/bin/env python3
"""Counts the instructions of a frame on its lane: 64 KiB frames, cpu backend, raw over sockets, and in shared memory.

    instructions.py [--programs build] [--json] [--quick]

Runs framed under valgrind's callgrind, with framebench load as its clients. It counts only the lane's thread from its start to
its end: user space, without the stage's workers. `framebench report` reads the JSON document.
"""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import threading

import counting

MOST = 3200
SATURATED, ONE = ["--rate", "max"], ["--in-flight", "1"]
WAYS = (  # title, options of framebench load, whether a service manager stores the state for a kill, and transport
    ("saturated", SATURATED, False, "sockets"),
    ("one frame in flight", ONE, False, "sockets"),
    ("saturated, noted for a kill", SATURATED, True, "sockets"),
    ("one frame in flight, noted for a kill", ONE, True, "sockets"),
    ("saturated, in shared memory", [*SATURATED, "--transport", "shm"], False, "shared"),
    ("one frame in flight, in shared memory", [*ONE, "--transport", "shm"], False, "shared"),
)


class Manager:
    """Accepts descriptors like a service manager with a descriptor store, and discards them."""

    def __init__(self, folder):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(str(folder / "notify"))
        self.environment = {"NOTIFY_SOCKET": str(folder / "notify"), "FDSTORE": "100"}
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            for descriptor in socket.recv_fds(self.socket, 4096, 16)[1]:
                os.close(descriptor)


def load(folder, programs, options, seconds):
    """The number of frames that framebench load sent, each of which had a result."""
    done = subprocess.run([programs / "framebench", "load", "--json", "-s", folder / "status.sock", "--warm-up", "0s",
                           "--duration", f"{seconds}s", *options], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip())
    (row,) = json.loads(done.stdout)["sections"]["frames"]
    if row["emitted"] != row["in"] or row["in"] == 0:
        raise RuntimeError(f"of {row['in']} frames {row['emitted']} came through")
    return row["in"]


def lane_instructions(folder):
    """The sum over the threads that ran the sessions' turns: with one lane, a single one."""
    lanes = [text for text in (file.read_text() for file in folder.glob("callgrind.out-*"))
             if re.search(r"fn=\(\d+\) session_turn$", text, re.MULTILINE)]
    if len(lanes) != 1:
        raise RuntimeError(f"{len(lanes)} threads of the daemon look like a lane: has the name session_turn changed?")
    return int(re.search(r"^totals: (\d+)", lanes[0], re.MULTILINE).group(1))


def configuration(folder, road):
    if road == "shared":
        return counting.configuration(folder, {"protocol": "native"}, {"reply": True}, slots=4)
    return counting.configuration(folder, {}, {"socket": f"{folder}/out.sock", "overload": "block"})


def live(folder, programs, command, way, seconds, environment=None):
    """Runs a daemon with this command, and sends frames in one of WAYS."""
    _, options, kept, road = way
    environment = {**os.environ, **(environment or {}), **(Manager(folder).environment if kept else {})}
    (folder / "framed.yaml").write_text(configuration(folder, road))
    with open(folder / "log", "w", encoding="utf-8") as log, subprocess.Popen(
            [*command, "-c", folder / "framed.yaml"], stdout=log, stderr=log, env=environment) as process:
        try:
            counting.wait_ready(folder, programs, process)
            frames = load(folder, programs, options, seconds)
            process.send_signal(signal.SIGTERM)
            process.wait(counting.START_S)
        finally:
            process.kill()
    return frames


def count(programs, way, seconds):
    """(frames, instructions of the lane) of one run of the daemon."""
    with tempfile.TemporaryDirectory(prefix="framed-count-", dir="/tmp") as name:
        folder = pathlib.Path(name)
        frames = live(folder, programs, ["valgrind", "--tool=callgrind", "--separate-threads=yes", "--fair-sched=try",
                                         f"--callgrind-out-file={folder}/callgrind.out", programs / "framed"], way, seconds)
        return frames, lane_instructions(folder)


def measure(programs, seconds):
    for way in WAYS:
        frames, instructions = count(programs, way, seconds)
        yield {"way": way[0], "bytes": counting.SIZE, "frames": frames, "instructions": instructions,
               "instructions_per_frame": round(instructions / frames, 1)}


def targets(rows):
    return [counting.target("user-space instructions a frame on the lane, 64 KiB, saturated, cpu backend, stage aside",
                            rows[0]["instructions_per_frame"], MOST)]


def say(row):
    return f"{row['way']}: {row['instructions_per_frame']:.0f} instructions a frame on the lane, over {row['frames']} frames"


if __name__ == "__main__":
    counting.run(__doc__, "valgrind", measure, targets, say)
