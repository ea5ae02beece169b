"""What `realtime` is worth beside programs that want all processors: latencies of a steady stream, each with it and without.

    jitter.py FOLDER [SECONDS]      (of programs, build/release; 15 s each)

As root, on an idle machine; six measurements. FRAMED_BACKEND chooses the backend: with cuda the lane alone keeps a frame waiting,
on the CPU backend a worker does so as well. The client that measures has a priority of its own. Without stress-ng shells
that count do what they can.
"""

import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

BACKEND = os.environ.get("FRAMED_BACKEND", "cpu")
RATES = (30, 200)
FIGURES = ("p50_us", "p99_us", "p999_us", "max_us", "generator_late_p999_us")
SIZE = 65536
CLIENT_PRIORITY = 60  # above the lanes, so that its own lateness is not theirs


@contextlib.contextmanager
def daemon(programs, place, realtime):
    source = {"socket": f"{place}/cam0", "protocol": "native", "format": {"dtype": "uint8", "shape": [SIZE]}}
    config = {"status": {"socket": f"{place}/status"}, "gpu": {"backend": BACKEND}, "lanes": 1, "log": {"level": "error"},
              "pipelines": {"cam0": {"source": source, "completion": "spin" if BACKEND == "cuda" else "callback", "sink": {"reply": True, "protocol": "native"}}}}
    if realtime:
        config["realtime"] = {"policy": "fifo", "priority": 20, "lock": True}
    file = pathlib.Path(place) / "framed.yaml"
    file.write_text(json.dumps(config))
    with subprocess.Popen([programs / "framed", "-c", file]) as process:
        try:
            for _ in range(100):
                if subprocess.run([programs / "framectl", "-s", f"{place}/status", "health"], capture_output=True, check=False).returncode == 0:
                    break
                time.sleep(0.1)
            yield
        finally:
            process.terminate()


@contextlib.contextmanager
def stress():
    count = 2 * os.cpu_count()
    words = [["stress-ng", "--quiet", "--cpu", str(count), "--vm", "1", "--vm-bytes", "128M", "--io", "1", "--switch", "1"]]
    if not shutil.which("stress-ng"):
        words = [["sh", "-c", "while :; do :; done"]] * count
    processes = [subprocess.Popen(each, stdout=subprocess.DEVNULL) for each in words]
    try:
        time.sleep(1)
        yield
    finally:
        for process in processes:
            process.terminate()
            process.wait()


def measure(programs, place, rate, seconds):
    words = ["chrt", "-f", str(CLIENT_PRIORITY), programs / "framebench", "load", "-s", f"{place}/status", "--json",
             "--rate", str(rate), "--warm-up", "1s", "--duration", f"{seconds}s", "cam0"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=seconds + 30, check=False)
    if done.returncode != 0:
        sys.exit(done.stderr)
    row = json.loads(done.stdout)["sections"]["load"][0]
    return " ".join(f"{row.get(figure, float('nan')):>10.0f}" for figure in FIGURES)


def main():
    programs, seconds = pathlib.Path(sys.argv[1]).resolve(), int(sys.argv[2]) if len(sys.argv) > 2 else 15
    if os.geteuid() != 0 or not shutil.which("chrt"):
        sys.exit("needs root and chrt")
    print(f"{'':34} {' '.join(f'{figure:>10.10}' for figure in FIGURES)}")
    for load, realtime in ((False, False), (True, False), (True, True)):
        for rate in RATES:
            with tempfile.TemporaryDirectory() as place, daemon(programs, place, realtime):
                with stress() if load else contextlib.nullcontext():
                    figures = measure(programs, place, rate, seconds)
            name = f"{rate} frames/s, {'loaded' if load else 'idle'}{', realtime' if realtime else ''}"
            print(f"{name:34} {figures}", flush=True)


if __name__ == "__main__":
    main()
