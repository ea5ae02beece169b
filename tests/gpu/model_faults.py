#!/usr/bin/env python3
"""An illegal access beside a model: a server of ONNX Runtime's own in Python, and then framed, each asked for frames again and again.

    model_faults.py FILE.onnx [--faults 5] [--backend cuda|cpu] [--standby warm|bare|off]

The server is the loop that everybody writes: a session, a request at a time, and an answer to whether it is ready. A kernel
in its process then writes where it may not, as one of a model or of a user's operator might. What it answers afterwards is
counted. framed's test build (FRAMED_BINARY) gets the same strike in a stage before the model, so many times under load, each when
a worker stands by, if one is to: each result is compared, and the log tells how long nothing moved. The exit status tells whether framed lost anything. The server
needs the package onnxruntime-gpu; where that is missing this is said, and framed is tried alone.
"""

import argparse
import contextlib
import ctypes
import http.server
import io
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request

import numpy as np

here = pathlib.Path(__file__).resolve().parent
for folder in (here / "e2e", here.parent / "e2e"):
    sys.path.insert(0, str(folder))

BEFORE, AFTER = 20, 20
WILD = b"""
.version 6.0
.target sm_50
.address_size 64
.visible .entry wild() {
  .reg .u64 %p;
  mov.u64 %p, 64;
  st.global.u64 [%p], %p;
  ret;
}
"""


# -- the server ---------------------------------------------------------------------------------------------------------------


def strike():
    """Launches the kernel in the context that this process has on the device already; gives what CUDA says of it."""
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, module, kernel = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    for status in (cuda.cuInit(0), cuda.cuDeviceGet(ctypes.byref(device), 0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
                   cuda.cuCtxSetCurrent(context), cuda.cuModuleLoadData(ctypes.byref(module), ctypes.c_char_p(WILD)),
                   cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"wild")):
        if status != 0:
            raise RuntimeError(f"the kernel cannot be loaded: CUDA error {status}")
    cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
    return cuda.cuCtxSynchronize()


def serve(file, backend):
    import onnxruntime
    if backend == "cuda" and "CUDAExecutionProvider" not in onnxruntime.get_available_providers():
        sys.exit("this onnxruntime has no CUDA")
    session = onnxruntime.InferenceSession(file, providers=["CUDAExecutionProvider" if backend == "cuda" else "CPUExecutionProvider"])
    given = session.get_inputs()[0]

    class Handler(http.server.BaseHTTPRequestHandler):
        def answer(self, status, body=b""):
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def do_GET(self):
            self.answer(200, b"ready" if session.get_inputs() else b"")

        def do_POST(self):
            frame = np.frombuffer(self.rfile.read(int(self.headers["Content-Length"])), np.float32)
            try:
                if self.path == "/strike":
                    self.answer(200, str(strike()).encode())
                else:
                    self.answer(200, session.run(None, {given.name: frame.reshape(given.shape)})[0].tobytes())
            except Exception as error:  # a server goes on after a request that failed
                self.answer(500, str(error).encode())

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    print(json.dumps({"port": server.server_port, "shape": given.shape}), flush=True)
    server.serve_forever()


def ask(port, path, body=None):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", body, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def try_server(file, backend):
    """Gives the shape of the model's input, and what became of the server's requests; or None, where it cannot be tried."""
    command = [sys.executable, __file__, "--serve", "--backend", backend, file]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        drain = threading.Thread(target=server.stderr.readlines, daemon=True)
        try:
            line = server.stdout.readline()
            if not line:
                print(f"ONNX Runtime's server: not tried: {(server.stderr.read().strip().splitlines() or ['it ended'])[-1]}")
                return None
            drain.start()
            return ask_server(json.loads(line), backend)
        finally:
            server.kill()


def ask_server(told, backend):
    port, frame = told["port"], np.zeros(told["shape"], np.float32).tobytes()
    before = [ask(port, "/infer", frame)[0] for _ in range(BEFORE)]
    struck = ask(port, "/strike", b"")[1].decode() if backend == "cuda" else "none on the CPU"
    after = [ask(port, "/infer", frame) for _ in range(AFTER)]
    ready = ask(port, "/ready")
    good = sum(status == 200 for status, _ in after)
    print(f"ONNX Runtime's server: {before.count(200)} of {BEFORE} requests answered; then an illegal access (CUDA error {struck}); then "
          f"{good} of {AFTER} answered; ready: {ready[1].decode()} ({ready[0]})")
    if good < AFTER:
        print(f"  it says: {next(text for status, text in after if status != 200).decode(errors='replace')[:160]}")
    return good


# -- framed -------------------------------------------------------------------------------------------------------------------


def stands(daemon, standby):
    return (daemon.status()["devices"]["0"]["worker"]["standby"] or {}).get("state") == standby


def try_framed(file, backend, faults, standby):
    from harness import Background, Daemon, pipeline, wait_until
    every = 400 if backend == "cuda" else 40
    count = every * faults + every // 2
    shape, outputs = [3, 224, 224], 1000
    frame = np.random.default_rng(1).standard_normal(shape).astype(np.float32).tobytes()
    stages = [{"fault": {"kind": "illegal", "at": every, "every": every, "again": "no"}}, {"model": {"file": file}}]
    entry = pipeline({"dtype": "float32", "shape": shape}, slots=3, completion="spin" if backend == "cuda" else "callback", stages=stages)
    unread, waits, wrong, first = io.StringIO(), [], 0, None
    with contextlib.redirect_stdout(unread), tempfile.TemporaryDirectory() as place, \
            Daemon(place, {"cam0": entry}, gpu={"backend": backend, "faults": "64/min", "standby": standby}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            def send():
                for number in range(count):
                    if number % every == every // 2 and standby != "off":
                        wait_until(lambda: stands(daemon, standby), "a worker stands by", seconds=30)
                    producer.send(frame)
            sending = Background(send)
            last = time.monotonic()
            for number in range(count):
                if number % every == every // 2:
                    last = None  # a wait for a worker
                result = np.frombuffer(reader.read(4 * outputs), np.float32)
                first = result if first is None else first
                wrong += not np.allclose(result, first, rtol=2e-2, atol=2e-2 * np.abs(first).max())
                waits.append(time.monotonic() - last if last else 0)
                last = time.monotonic()
            sending.join()
            closed = daemon.log.count(" left after ")
        daemon.account(came=count, emitted=count)
        still = "frames there stood still for "
        gaps = [line.split(still)[1] for line in daemon.log.splitlines() if still in line]
        found = daemon.status()["handovers"]["fault"]
    waits = sorted(waits, reverse=True)[:faults]
    print(f"framed: {found} illegal accesses in {count} frames: 0 lost, {wrong} wrong, {closed} connections closed; the reader "
          f"waited {1e3 * statistics.median(waits):.0f} ms (median), {1e3 * waits[0]:.0f} ms (at most)")
    for gap in gaps:
        print(f"  nothing moved for {gap}")
    return wrong == closed == 0 and found == faults


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", help="1x3x224x224 floats to 1000 (tools/framebench/peers/resnet18.py makes one)")
    parser.add_argument("--backend", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--faults", type=int, default=5)
    parser.add_argument("--standby", choices=("warm", "bare", "off"), default="warm")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    file = str(pathlib.Path(options.file).absolute())
    if options.serve:
        serve(file, options.backend)
    os.environ["FRAMED_BACKEND"] = options.backend
    try_server(file, options.backend)
    return 0 if try_framed(file, options.backend, options.faults, options.standby) else 1


if __name__ == "__main__":
    sys.exit(main())
