#!/usr/bin/env python3
"""Compares a model in framed with ONNX Runtime in Python, in the usual ways of calling it.

    onnxruntime_model.py FILE.onnx [--programs build] [--backend cuda|cpu] [--streams 3] [--seconds 3] [--quick]

Prints a document that `framebench report` reads. Each way has its own memory, and as many streams as framed has slots and
instances. On the CPU backend there is one for each processor (taskset limits them). framed and its client share memory. The
ways take turns, each in its own process, and the median of each counts. A way that cannot run here is skipped with a message on
standard error. Needs the package onnxruntime (onnxruntime-gpu); framed finds the library by FRAMED_ONNXRUNTIME.
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
import threading
import time

RUNS = 3
WARM_UP = 10


# -- the ways, each in its own process ----------------------------------------------------------------------------------


def sessions(arguments, count, threads):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    providers = ["CPUExecutionProvider"]
    if arguments.backend == "cuda":
        providers = [("CUDAExecutionProvider", {"device_id": 0, "use_tf32": 1, "prefer_nhwc": 1})]
        if "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
            raise RuntimeError("this onnxruntime has no CUDA")
    return [onnxruntime.InferenceSession(arguments.file, options, providers=providers) for _ in range(count)]


def frame_for(session):
    import numpy
    given = session.get_inputs()[0]
    return {given.name: numpy.random.default_rng(1).standard_normal(given.shape).astype(numpy.float32)}


def in_threads(work, count, seconds):
    """Frames per second of work(number), which computes one frame, in `count` threads."""
    counts, go, end = [0] * count, threading.Barrier(count + 1), [float("inf")]

    def loop(number):
        for _ in range(WARM_UP):
            work(number)
        go.wait()
        while time.monotonic() < end[0]:
            work(number)
            counts[number] += 1

    threads = [threading.Thread(target=loop, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    go.wait()
    start = time.monotonic()
    end[0] = start + seconds
    for thread in threads:
        thread.join()
    return sum(counts) / (time.monotonic() - start)


def ort_run(arguments, count, threads):
    made = sessions(arguments, count, threads)
    frames = [frame_for(session) for session in made]
    return in_threads(lambda number: made[number].run(None, frames[number]), count, arguments.seconds)


def ort_async(arguments, count):
    """run_async() needs another thread of the session besides the caller."""
    made = sessions(arguments, count, 2)
    frames, gates = [frame_for(session) for session in made], [threading.Semaphore(0) for _ in made]

    def work(number):
        made[number].run_async(None, frames[number], lambda results, gate, error: gate.release(), gates[number])
        gates[number].acquire()
    return in_threads(work, count, arguments.seconds)


def ort_bound(arguments, count):
    """Binds inputs and outputs once, so that frames need no allocation."""
    made = sessions(arguments, count, 1)
    bindings = [session.io_binding() for session in made]
    for session, binding in zip(made, bindings):
        (name, frame), = frame_for(session).items()
        binding.bind_cpu_input(name, frame)
        binding.bind_output(session.get_outputs()[0].name, "cpu")
    return in_threads(lambda number: made[number].run_with_iobinding(bindings[number]), count, arguments.seconds)


# -- framed ---------------------------------------------------------------------------------------------------------------


def configuration(arguments, folder, shape):
    cuda = arguments.backend == "cuda"
    model = {"file": str(pathlib.Path(arguments.file).absolute()), "instances": arguments.streams}
    entry = {"source": {"socket": f"{folder}/frames.sock", "protocol": "native", "format": {"dtype": "float32", "shape": shape}},
             "slots": arguments.streams, "completion": "spin" if cuda else "callback", "stages": [{"model": {"name": "peer"}}],
             "sink": {"reply": True}}
    return {"status": {"socket": f"{folder}/status.sock"}, "gpu": {"backend": arguments.backend}, "models": {"peer": model}, "pipelines": {"frames": entry}}


def framed(arguments, shape):
    with tempfile.TemporaryDirectory(prefix="framed-peers-") as name:
        folder = pathlib.Path(name)
        (folder / "framed.yaml").write_text(json.dumps(configuration(arguments, folder, shape)))
        with subprocess.Popen([arguments.programs / "framed", "-c", folder / "framed.yaml"], stderr=subprocess.PIPE) as process:
            try:
                while not (folder / "status.sock").exists():
                    if process.poll() is not None:
                        raise RuntimeError(f"framed ended: {process.stderr.read().decode(errors='replace').strip()}")
                    time.sleep(0.05)
                return load(arguments, folder)
            finally:
                process.terminate()
                process.communicate(timeout=20)


def load(arguments, folder):
    command = [arguments.programs / "framebench", "load", "-s", folder / "status.sock", "--rate", "max", "--transport", "shm",
               "--duration", f"{int(arguments.seconds * 1000)}ms", "--warm-up", "500ms", "--json", "frames"]
    done = subprocess.run(command + ["--spin"] * (arguments.backend == "cuda"), capture_output=True, check=False, timeout=120)
    if done.returncode != 0:
        raise RuntimeError(f"framebench load: {done.stderr.decode(errors='replace').strip()}")
    rate = json.loads(done.stdout)["sections"]["load"][0]["frames_per_s"]
    if not rate > 0:
        raise RuntimeError("not one frame came through framed")
    return rate


# -- all of it --------------------------------------------------------------------------------------------------------------


def ways(arguments):
    count = arguments.streams
    found = {"onnxruntime, run(), a session and a thread a stream": lambda: ort_run(arguments, count, 1)}
    if arguments.backend == "cpu":
        found["onnxruntime, run(), one session with all threads"] = lambda: ort_run(arguments, 1, count)
        return found
    return {**found, "onnxruntime, run_async(), a session a stream": lambda: ort_async(arguments, count),
            "onnxruntime, run_with_iobinding(), a session and a thread a stream": lambda: ort_bound(arguments, count)}


def measure_way(way):
    """Runs a way in its own process, so that none uses the memory or threads of another."""
    done = subprocess.run([sys.executable, *sys.argv, "--way", way], capture_output=True, check=False, timeout=300,
                          env={**os.environ, "ORT_DISABLE_TELEMETRY": "1"})
    if done.returncode != 0:
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        print(f"onnxruntime_model.py: {way}: {lines[-1] if lines else 'it ended'}", file=sys.stderr)
        return None
    return float(done.stdout.split()[-1])


def target(arguments, rates):
    """Compares framed with the fastest way."""
    medians = {way: statistics.median(values) for way, values in rates.items() if values}
    mine = medians.pop("framed")
    best, least = max(medians, key=medians.get), 3.0 if arguments.backend == "cuda" else 0.95
    unit = "streams" if arguments.backend == "cuda" else "threads"
    return {"what": f"model, shared memory in and out, {arguments.streams} {unit}", "limit": best, "unit": "frames/s", "value": mine,
            "limit_value": medians[best], "ratio": mine / medians[best], "at_least": least,
            "reached": "yes" if mine >= least * medians[best] else "no"}


def document(arguments, rates):
    machine = {"processor": platform.processor() or platform.machine(), "processors": len(os.sched_getaffinity(0)),
               "kernel": platform.release(), "driver": "", "date": time.strftime("%Y-%m-%d %H:%M", time.gmtime())}
    rows = [{"program": way, "slots": arguments.streams, "frames_per_s": rate, "us": 1e6 / rate} for way in rates for rate in rates[way]]
    return {"command": "onnxruntime-model", "machine": machine, "asked_backend": arguments.backend,
            "sections": {"peers": rows, "targets": [target(arguments, rates)]}}


def input_shape(file):
    import onnxruntime
    shape = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"]).get_inputs()[0].shape
    return shape[1:] if shape[0] == 1 else shape


def compare(arguments):
    rates, shape = {"framed": []}, input_shape(arguments.file)
    for run in range(1 if arguments.quick else RUNS):
        rates["framed"].append(framed(arguments, shape))
        for way in ways(arguments):
            rate = measure_way(way) if run == 0 or rates[way] else None
            rates.setdefault(way, []).extend([rate] if rate else [])
    if not any(rates[way] for way in ways(arguments)):
        raise RuntimeError("ONNX Runtime's Python package cannot run it here")
    return document(arguments, rates)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file")
    parser.add_argument("--programs", type=pathlib.Path, default=pathlib.Path("build"), help="folder of framed and framebench")
    parser.add_argument("--backend", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--streams", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3)
    parser.add_argument("--quick", action="store_true", help="one turn of half a second each")
    parser.add_argument("--way", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    arguments.seconds = 0.5 if arguments.quick else arguments.seconds
    arguments.streams = arguments.streams if arguments.backend == "cuda" else len(os.sched_getaffinity(0))
    try:
        if arguments.way:
            print(ways(arguments)[arguments.way]())
            return
        json.dump(compare(arguments), sys.stdout, indent=1)
        print()
    except (RuntimeError, OSError, ImportError, subprocess.TimeoutExpired) as error:
        sys.exit(f"onnxruntime_model.py: {error}")


if __name__ == "__main__":
    main()
