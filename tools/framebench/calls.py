#!/usr/bin/env python3
"""Counts the function calls of a frame on its lane: 64 KiB frames, cpu backend, raw over sockets, and in shared memory.

    calls.py [--programs build] [--json] [--quick]

Runs a daemon that counts its own calls (build/calls/framed, made by `make bench-calls`), with framebench load as its clients.
It counts only the lane's thread, and only functions of the daemon's rooms, including those in headers. `framebench report`
reads the JSON document.
"""

import collections
import pathlib
import subprocess
import tempfile

import counting
import instructions

MOST = 200
OFTEN = 0.3  # calls per frame: functions that are called less often are not on the frame's path


def function_names(program):
    """Names of functions by the address that the counter writes."""
    listing = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    words = (line.split() for line in listing.splitlines())
    return {int(each[0], 16): each[2] for each in words if len(each) == 3 and each[1] in "tT"}


def lane_calls(counts, names):
    """{function: calls} of the lane's thread, which runs the sessions' turns. Static functions of several files may share a
    name; then their calls are summed."""
    threads = collections.defaultdict(collections.Counter)
    for line in counts.read_text().splitlines():
        thread, address, calls = line.split()
        threads[thread][names[int(address, 16)]] += int(calls)
    lanes = [calls for calls in threads.values() if "session_turn" in calls]
    if len(lanes) != 1:
        raise RuntimeError(f"{len(lanes)} threads of the daemon look like a lane: has the name session_turn changed?")
    return lanes[0]


def count(programs, way, seconds):
    """(frames, calls of the lane by function) of one run of the daemon."""
    program = programs / "calls/framed"
    with tempfile.TemporaryDirectory(prefix="framed-count-", dir="/tmp") as name:
        folder = pathlib.Path(name)
        frames = instructions.live(folder, programs, [program], way, seconds, {"FRAMED_CALLS": str(folder / "calls")})
        return frames, lane_calls(folder / "calls", function_names(program))


def measure(programs, seconds):
    for way in instructions.WAYS:
        frames, calls = count(programs, way, seconds)
        often = {name: round(number / frames, 2) for name, number in sorted(calls.items(), key=lambda each: -each[1])
                 if number > OFTEN * frames}
        yield {"way": way[0], "bytes": counting.SIZE, "frames": frames, "calls": sum(calls.values()),
               "calls_per_frame": round(sum(calls.values()) / frames, 1), "functions": often}


def targets(rows):
    return [counting.target(f"calls of functions a frame on the lane, {row['way']}, cpu backend", row["calls_per_frame"], MOST)
            for row in rows]


def say(row):
    most = ", ".join(f"{name} {calls:.3g}" for name, calls in list(row["functions"].items())[:4])
    return (f"{row['way']}: {row['calls_per_frame']:.0f} calls a frame on the lane, of {len(row['functions'])} functions "
            f"(most: {most}), over {row['frames']} frames")


if __name__ == "__main__":
    counting.run(__doc__, "nm", measure, targets, say)
