#!/usr/bin/env python3
"""Says what it costs a process to come to a GPU, and what it could do without.

    start_times.py FOLDER [ROUNDS]        FOLDER has framed, and start-bare and start-whole in tests/ beside it (or above)

Runs start-bare and start-whole in several environments, out of processes that had the device before, in ways in which
they may have lost it, and several at once; then the daemon, up to the line that says it is ready. Every run gives a line
with milliseconds for each phase; start_times.c says what the phases are.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

LIMIT_S = 30

STAGES = [
    "affine: {scale: 2.0, offset: 1.0}",
    "blur: {sigma: 1.5}",
    "sobel: {}",
    "threshold: {level: 100}",
]


def environment(changes):
    env = {name: value for name, value in os.environ.items() if not name.startswith("CUDA_")}
    env.update(changes)
    env["START_NS"] = str(time.monotonic_ns())
    return env


def start(program, arguments, changes, **options):
    return subprocess.Popen([program, *arguments], env=environment(changes), text=True, **options)


def finish(process):
    try:
        return process.communicate(timeout=LIMIT_S)[0]
    except subprocess.TimeoutExpired:
        process.kill()
        return f"(killed after {LIMIT_S} s) " + process.communicate()[0]


def show(title, rounds, run):
    print(f"== {title}", flush=True)
    for _ in range(rounds):
        print(run().rstrip(), flush=True)


def phases(program, arguments, changes, at_once=1):
    processes = [start(program, arguments, changes, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) for _ in range(at_once)]
    return "\n".join(finish(process).rstrip() for process in processes)


# -- the daemon ----------------------------------------------------------------------------------------------------------


def configuration(folder, pipelines):
    text = f"log: {{level: debug}}\nstatus: {{socket: {folder}/status.sock}}\n"
    text += f"gpu: {{backend: {os.environ.get('START_BACKEND', 'cuda')}}}\npipelines:\n"
    for i in range(pipelines):
        text += (
            f"  p{i}:\n    source: {{socket: {folder}/p{i}.sock, protocol: raw,"
            " format: {pixels: gray, width: 2048, height: 2048}}\n"
            f"    slots: 3\n    stages: [{STAGES[i % len(STAGES)]}]\n    sink: {{socket: {folder}/p{i}.out.sock}}\n"
        )
    path = os.path.join(folder, "framed.yaml")
    with open(path, "w") as out:
        out.write(text)
    return path


def daemon(program, pipelines, changes, wrapper=()):
    with tempfile.TemporaryDirectory() as folder:
        path = configuration(folder, pipelines)
        began = time.monotonic()
        command = [*wrapper, program, "-c", path]
        process = start(command[0], command[1:], changes, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        lines = []
        for line in process.stderr:
            lines.append(f"{(time.monotonic() - began) * 1e3:8.1f} ms {line.rstrip()}")
            if " ready" in line:
                break
        pid = process.pid
        if wrapper:
            children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True).stdout.split()
            pid = int(children[0]) if children else pid
        ended = time.monotonic()
        os.kill(pid, signal.SIGTERM)
        process.communicate(timeout=LIMIT_S)
        if wrapper:
            lines = [line for line in lines if float(re.search(r"<([0-9.]+)>$|$", line)[1] or 0) >= 0.002] + lines[-1:]
        return "\n".join(lines) + f"\n{(time.monotonic() - ended) * 1e3:8.1f} ms from SIGTERM to its end"


# -- all of it -----------------------------------------------------------------------------------------------------------


def say_machine():
    for query in (
        ["nvidia-smi", "--query-gpu=index,name,driver_version,persistence_mode,compute_mode,mig.mode.current", "--format=csv"],
        ["sh", "-c", "ls -l /dev/nvidia*; cat /proc/driver/nvidia/params | head -60; nproc; uname -r; pgrep -a nvidia-pers"],
        ["nvidia-smi", "--query-gpu=pstate,clocks.sm,memory.used", "--format=csv"],
    ):
        try:
            result = subprocess.run(query, capture_output=True, text=True, timeout=LIMIT_S)
            print((result.stdout + result.stderr).rstrip(), flush=True)
        except OSError as error:
            print(error)


def main():
    folder = os.path.abspath(sys.argv[1])
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    bare, whole = (os.path.join(folder, "tests", name) for name in ("start-bare", "start-whole"))
    framed = os.path.join(folder, "framed")
    say_machine()
    lazy, eager = {"CUDA_MODULE_LOADING": "LAZY"}, {"CUDA_MODULE_LOADING": "EAGER"}

    def queues(count):
        return {"CUDA_DEVICE_MAX_CONNECTIONS": str(count)}

    for program in (bare, whole):
        for loading in (lazy, eager):
            for count in (8, 32):
                title = f"{os.path.basename(program)}, {loading['CUDA_MODULE_LOADING']}, {count} connections"
                show(title, rounds, lambda: phases(program, [], {**loading, **queues(count)}))
    show("start-whole, LAZY, 1 to 16 connections", 1, lambda: "\n".join(
        phases(whole, [], {**lazy, **queues(count)}) for count in (1, 2, 3, 4, 5, 6, 7, 16)))
    show("start-whole, LAZY, 8, CUDA_VISIBLE_DEVICES=0", rounds, lambda: phases(
        whole, [], {**lazy, **queues(8), "CUDA_VISIBLE_DEVICES": "0"}))
    show("start-whole, four programs", 1, lambda: phases(whole, ["--programs", "4"], {**lazy, **queues(8)}))
    for kept in ("nothing", "nodes"):
        for how in ("healthy", "illegal", "hang"):
            show(f"start-whole, LAZY, 8, executing itself when {how}, keeping {kept}", max(1, rounds - 1), lambda: phases(
                whole, ["--then", how, "--keep", kept], {**lazy, **queues(8)}))
    show("start-whole, EAGER, 32, executing itself when illegal", 1, lambda: phases(
        whole, ["--then", "illegal"], {**eager, **queues(32)}))
    for count in (2, 4):
        show(f"start-whole, LAZY, 8, {count} at once", 1, lambda: phases(whole, [], {**lazy, **queues(8)}, count))

    for pipelines in (1, 4):
        for changes in ({}, {**lazy, **queues(8)}):
            show(f"framed, {pipelines} pipelines, {changes}", rounds, lambda: daemon(framed, pipelines, changes))
    strace = shutil.which("strace")
    if strace:
        show("framed, 1 pipeline, calls that took over 2 ms", 1, lambda: daemon(framed, 1, {}, [strace, "-f", "-T", "-qq"]))
    check = os.path.join(folder, "check", "framed")
    if os.path.exists(check):
        show("framed of VARIANT=check, 1 pipeline", 1, lambda: daemon(check, 1, {}))


if __name__ == "__main__":
    sys.exit(main())
