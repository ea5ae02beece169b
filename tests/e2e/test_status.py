"""What the status socket says, and what it does with nonsense."""

import itertools
import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

from harness import BACKEND, FRAMECTL, Background, Daemon, environment, limit, numbered, pipeline, wait_until, whole

SIZE = 512
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
FATES = {"oldest", "newest", "late", "invalid", "gpu_fault", "client_gone", "unread", "sink_error", "shutdown"}
ON_DEVICE = {"gpu_wait", "h2d", "kernel", "d2h", "wake"}  # what only timed frames have
STEPS = {"total", "receive", "queue", "gpu_wait", "h2d", "kernel", "model", "d2h", "wake", "emit"}


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_frames(daemon, count=50, name="cam0"):
    with daemon.reader(name) as reader, daemon.producer(name) as producer:
        producer.send(numbered(count, SIZE).tobytes())
        reader.frames(count, SIZE)
        daemon.account(name, came=count, emitted=count)


def test_the_document_has_every_key(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        idle = daemon.status()
        run_frames(daemon)
        document = daemon.status()
        for answer in (idle, document):
            assert {"version", "uptime_s", "backend", "device", "pipelines"} <= answer.keys()
            assert answer["version"] == "0.1.0" and answer["backend"] == BACKEND and answer["device"]
            view = answer["pipelines"]["cam0"]
            assert view["state"] == "running"
            assert set(view["frames"]) == {"in", "emitted", "in_flight", "dropped"}
            assert set(view["frames"]["dropped"]) == FATES
            assert {"in_fps", "out_fps", "fps", "in_bytes_per_s", "out_bytes_per_s"} <= view["throughput"].keys()
            assert set(view["latency_us"]) == STEPS
            for step in view["latency_us"].values():
                assert {"p50", "p99", "p999", "max"} <= step.keys()
    assert document["uptime_s"] >= idle["uptime_s"]


def test_usage_follows_what_pipelines_take(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        before = daemon.status()["usage"]
        assert before["resident_bytes"] > 1 << 20
        daemon.write({"cam0": pipeline(FORMAT), "cam1": pipeline(FORMAT, slots=5)})
        daemon.command("/v1/reload")
        with_more = daemon.status()["usage"]
        assert with_more["pinned_bytes"] == before["pinned_bytes"] + 2 * 5 * 4096
        assert with_more["device_bytes"] > before["device_bytes"] or BACKEND == "cpu"
        assert with_more["descriptors"] >= before["descriptors"] + 5  # two sockets, two arenas, a spare or more
        assert f"framed_pinned_bytes {with_more['pinned_bytes']}\n" in daemon.metrics()
        daemon.write({"cam0": pipeline(FORMAT)})
        daemon.command("/v1/reload")
        taken = ("pinned_bytes", "device_bytes")
        wait_until(lambda: all(daemon.status()["usage"][key] == before[key] for key in taken), lambda: f"it is given back: {daemon.last}")
        # Of a request before, the connection may still be open.
        wait_until(lambda: daemon.status()["usage"]["descriptors"] <= before["descriptors"], "its descriptors are closed")


def test_every_step_of_every_frame_is_timed(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, stages=[{"work": {"rounds": 2}}])}) as daemon:
        run_frames(daemon, 200)
        view = daemon.view()
        assert view["timed_one_in"] == 1 or BACKEND != "cpu", view
        assert view["copies"] in (["none"] if BACKEND == "cpu" else ["engine", "kernel"]), view
        assert view["latency_us"].pop("model")["count"] == 0  # there is none
        for name, step in view["latency_us"].items():
            if name in ON_DEVICE and view["timed_one_in"] > 1:
                assert step["count"] == view["latency_us"]["kernel"]["count"] <= 200, (name, step)
            else:
                assert step["count"] == 200, (name, step)
            assert 0 <= step["p50"] <= step["p99"] <= step["p999"] <= step["max"], (name, step)
        latency = view["latency_us"]
        assert latency["total"]["max"] >= max(step["p50"] for step in latency.values())
        assert view["throughput"]["fps"] > 0
        parts = sum(step["mean"] for name, step in latency.items() if name != "total")
        # The steps do not overlap.
        assert view["timed_one_in"] > 1 or parts <= latency["total"]["mean"] * 1.1 + 5, latency


def test_a_kernel_that_stays_has_no_times(place):
    """On a GPU, and status says so; on the CPU all have them."""
    with Daemon(place, {"cam0": pipeline(FORMAT, completion="persistent")}) as daemon:
        run_frames(daemon, 200)
        view = daemon.view()
        count = 200 if BACKEND == "cpu" else 0
        assert view["timed_one_in"] == (1 if count else 0) and view["copies"] == ("none" if count else "kernel"), view
        assert {view["latency_us"][name]["count"] for name in ON_DEVICE} == {count}, view["latency_us"]
        assert view["latency_us"]["total"]["count"] == 200
        told = subprocess.run([FRAMECTL, "-s", daemon.socket, "status", "cam0"], capture_output=True, text=True, env=environment(),
                              timeout=limit(20), check=True).stdout
        assert ("a resident kernel copies and computes the frames" in told) == (BACKEND != "cpu"), told


@pytest.mark.parametrize("completion", ["callback", "spin"])
def test_graphs_change_nothing_but_the_status(place, completion):
    """Also from one producer to the next, whose background is its own, and over reloads, which capture anew."""
    entry = pipeline({"pixels": "gray", "width": 32, "height": 16}, stages=[{"motion": {"rate": 0}}], slots=3, completion=completion)
    with Daemon(place, {"cam0": entry}) as daemon:
        for graph in ("off", "on", "auto"):
            daemon.write({"cam0": entry | {"graph": graph}})
            assert daemon.post("/v1/reload")[0] == 200
            shows = daemon.view()["graph"]
            assert shows == (graph == "on") if BACKEND != "cpu" and graph != "auto" else shows in (False, BACKEND != "cpu")
            for level in (0, 200):
                with daemon.reader() as reader, daemon.producer() as producer:
                    frames = np.full((10, SIZE), level, np.uint8)
                    frames[5:, :7] = 100
                    producer.send(frames.tobytes())
                    masks = reader.frames(10, SIZE)
                    assert not masks[:5].any() and (masks[5:, :7] == 255).all() and not masks[5:, 7:].any(), (graph, level)
                daemon.wait_view("the producer left", lambda view: view["sessions"] == 0)


def test_sessions_and_readers_are_counted(place):
    entries = {"cam0": pipeline(FORMAT, source={"clients": 3}, sink={"reply": True}), "cam1": pipeline(FORMAT)}
    with Daemon(place, entries) as daemon:
        clients = [daemon.producer("cam0") for _ in range(3)]
        daemon.wait_view("three producers", lambda view: view["sessions"] == 3)
        readers = [daemon.reader("cam1") for _ in range(2)]
        assert daemon.view("cam1")["readers"] == 2
        for client in clients + readers:
            client.close()
        daemon.wait_view("no producer", lambda view: view["sessions"] == 0)
        daemon.wait_view("no reader", lambda view: view["readers"] == 0, "cam1")


def test_clients_are_listed(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        run_frames(daemon, 5)
        with daemon.producer() as producer:
            producer.send(numbered(3, SIZE).tobytes())
            daemon.wait_view("nobody reads", lambda view: view["frames"]["in"] >= 7 and view["waiting"] == "reader")
            [client] = daemon.view()["connected"]
            name = pathlib.Path("/proc/self/comm").read_text().strip()
            assert (client["role"], client["pid"], client["user"], client["process"], client["waiting"]) == (
                "producer", os.getpid(), os.geteuid(), name, "reader"), client
            daemon.signal(signal.SIGUSR2)
            daemon.wait_log("everything goes on after")
            [after] = daemon.view()["connected"]
            assert after["since_s"] >= client["since_s"] and after["process"] == name and after["frames"] >= client["frames"]
            with daemon.reader() as reader:
                reader.frames(3, SIZE)
                daemon.wait_view("both wait", lambda view: {(one["role"], one["frames"], one["waiting"]) for one in
                                 view["connected"]} == {("producer", 3, "nothing"), ("reader", 3, "results")})
                done = subprocess.run([FRAMECTL, "-s", daemon.socket, "status", "cam0"], capture_output=True, text=True,
                                      timeout=limit(20), env=environment(), check=False)
                [line] = [line for line in done.stdout.splitlines() if line.startswith("  reader ")]
                assert line.split()[1] == name.split()[0] and str(os.getpid()) in line and line.endswith("results"), done
        daemon.wait_view("nobody is there", lambda view: view["connected"] == [])


def test_rates_of_frames_and_of_bytes_agree(place):
    """Frames that nobody reads come in all the same, and a window that is shorter than ten seconds counts as it is."""
    entry = pipeline(FORMAT, source={"file": str(place / "in"), "rate": 40, "loop": True}, sink={"overload": "drop"})
    (place / "in").write_bytes(numbered(10, SIZE).tobytes())
    with Daemon(place, {"cam0": entry}) as daemon:
        daemon.wait_view("frames come", lambda view: view["throughput"]["window_s"] > 1)
        rate = daemon.view()["throughput"]
        assert 10 < rate["in_fps"] < 60 and rate["out_fps"] == rate["fps"] == 0, rate
        assert abs(rate["in_bytes_per_s"] - rate["in_fps"] * SIZE) <= SIZE * 4, rate


def test_what_a_pipeline_waits_for(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        daemon.wait_view("nobody is there", lambda view: view["waiting"] == "producer")
        with daemon.producer() as producer:
            daemon.wait_view("no frame comes", lambda view: view["waiting"] == "frames")
            producer.send(whole(0, SIZE).tobytes())
            daemon.wait_view("nobody reads", lambda view: view["waiting"] == "reader")
            with daemon.reader() as reader:
                reader.frames(1, SIZE)
            daemon.command("/v1/pipelines/cam0/pause")
            daemon.wait_view("it is paused", lambda view: view["waiting"] == "resume")
            daemon.command("/v1/pipelines/cam0/resume")


def test_the_ledger_balances_under_load_for_many_pollers(place):
    """Daemon.status() asserts the balance of each answer; counters never go back."""
    entries = {
        "cam0": pipeline(FORMAT, slots=4),
        "cam1": pipeline(FORMAT, sink={"overload": "drop"}, overload="drop-newest"),
    }
    stop, answers = threading.Event(), []

    def produce(producer):
        for number in itertools.count():
            if stop.is_set():
                return
            producer.send(whole(number % 100, SIZE).tobytes())

    def poll():
        before = 0
        while not stop.is_set():
            frames = daemon.status()["pipelines"]["cam0"]["frames"]
            assert frames["in"] >= before
            before = frames["in"]
            answers.append(before)

    def drain(reader):
        while reader.socket.recv(1 << 16):
            pass

    with Daemon(place, entries, lanes=2) as daemon:
        clients = [daemon.producer("cam0"), daemon.producer("cam1")]
        reader = daemon.reader("cam0")
        draining = Background(drain, reader)
        producing = [Background(produce, client) for client in clients]
        polling = [Background(poll) for _ in range(4)]
        daemon.wait_view("it is under load", lambda view: view["frames"]["emitted"] > 3000, seconds=30)
        wait_until(lambda: len(answers) > 10 or any(thread.done for thread in polling), "everybody has been answered")
        stop.set()
        for thread in polling + producing:
            thread.join()
        for client in clients:
            client.close()
        daemon.finish()
        draining.join()


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_has_nothing_to_say(place):
    with Daemon(place, {"cam0": pipeline(FORMAT), "rear-2.x_y": pipeline(FORMAT)}) as daemon:
        for moment in range(2):
            if moment:
                run_frames(daemon)
            done = subprocess.run(["promtool", "check", "metrics"], input=daemon.metrics(), text=True, capture_output=True,
                                  timeout=limit(20), check=False)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), done


def parse_metrics(text):
    samples = {}
    for line in text.splitlines():
        if line and not line.startswith("#"):
            key, _, value = line.rpartition(" ")
            assert key not in samples, f"twice: {key}"
            samples[key] = float(value)
    return samples


def test_metrics_agree_with_status(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        run_frames(daemon)
        frames, samples = daemon.frames(), parse_metrics(daemon.metrics())
        assert samples['framed_frames_in_total{pipeline="cam0"}'] == frames["in"] == 50
        assert samples['framed_frames_total{pipeline="cam0",fate="emitted"}'] == frames["emitted"]
        for fate, count in frames["dropped"].items():
            assert samples[f'framed_frames_total{{pipeline="cam0",fate="{fate}"}}'] == count
        latency = daemon.view()["latency_us"]
        for step in STEPS:
            key = f'{{pipeline="cam0",step="{step}"'
            assert samples[f'framed_latency_seconds_count{key}}}'] == latency[step]["count"]
            buckets = [value for name, value in samples.items() if name.startswith(f"framed_latency_seconds_bucket{key}")]
            assert buckets == sorted(buckets) and buckets[-1] == latency[step]["count"]
            assert latency[step]["count"] == (50 if step != "model" else 0) or step in ON_DEVICE


def test_the_configuration_in_force_round_trips(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, stages=[{"affine": {"scale": 3.0}}])}) as daemon:
        code, text = daemon.request("GET", "/v1/config")
        assert code == 200 and "affine" in text
        daemon.file.write_text(text)
        daemon.command("/v1/reload")
        assert daemon.request("GET", "/v1/config") == (200, text)


# -- TCP -------------------------------------------------------------------------------------------------------------------


def test_tcp_is_read_only(place):
    port = free_port()
    keys = {"status": {"socket": str(place / "status.sock"), "http": f"127.0.0.1:{port}"}}
    with Daemon(place, {"cam0": pipeline(FORMAT, source={"mode": "0666"}, sink={"mode": "0666"})}, **keys) as daemon:
        def get(path, method="GET"):
            request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", method=method)
            with urllib.request.urlopen(request, timeout=limit(20)) as answer:
                return answer.read()
        assert json.loads(get("/v1/status"))["pipelines"]["cam0"]["state"] == "running"
        assert b"framed_frames_in_total" in get("/metrics")
        for path in ("/v1/reload", "/v1/pipelines/cam0/pause"):
            with pytest.raises(urllib.error.HTTPError) as refused:
                get(path, "POST")
            assert refused.value.code in (403, 405)
        assert daemon.view()["state"] == "running"


def serves(port):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/v1/live", timeout=limit(20)) as answer:
            return answer.status == 200
    except (urllib.error.URLError, ConnectionError):
        return False


def test_a_tcp_port_in_use_is_tried_again(place):
    """All else runs meanwhile, and an upgrade leaves it so."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        keys = {"status": {"socket": str(place / "status.sock"), "http": f"127.0.0.1:{port}"}}
        with Daemon(place, {"cam0": pipeline(FORMAT)}, **keys) as daemon:
            daemon.wait_log("status.http does not answer, and is tried again: ")
            assert "in use" in daemon.status()["http_refused"] and str(port) in daemon.status()["http_refused"]
            done = subprocess.run([FRAMECTL, "-s", daemon.socket, "status"], capture_output=True, text=True, timeout=limit(20),
                                  env=environment(), check=False)
            assert done.returncode == 0 and "status.http does not answer: cannot listen on" in done.stdout, done
            run_frames(daemon, 5)
            daemon.signal(signal.SIGUSR2)
            daemon.wait_log("everything goes on after")
            taken.close()
            wait_until(lambda: serves(port), lambda: f"it answers:\n{daemon.log}")
            assert daemon.status()["http_refused"] is None
            daemon.wait_log(f"status.http answers at 127.0.0.1:{port}")


def test_a_reload_changes_the_tcp_address(place):
    socket_path, first, second = str(place / "status.sock"), free_port(), free_port()
    entries = {"cam0": pipeline(FORMAT)}
    with Daemon(place, entries, status={"socket": socket_path, "http": f"127.0.0.1:{first}"}) as daemon:
        wait_until(lambda: serves(first), "the first address answers")
        with daemon.producer() as producer, daemon.reader() as reader:
            for http, there, gone in ((f"127.0.0.1:{second}", second, first), (f"127.0.0.1:{first}", first, second)):
                daemon.write(entries, status={"socket": socket_path, "http": http})
                daemon.command("/v1/reload")
                wait_until(lambda: serves(there), lambda: f"{there} answers:\n{daemon.log}")
                assert not serves(gone)
            daemon.signal(signal.SIGUSR2)
            daemon.wait_log("everything goes on after")
            wait_until(lambda: serves(first), "it still answers")
            daemon.write(entries, status={"socket": socket_path})
            daemon.command("/v1/reload")
            wait_until(lambda: not serves(first), "none answers")
            producer.send(numbered(3, SIZE).tobytes())
            reader.frames(3, SIZE)
        daemon.account(came=3, emitted=3)


# -- nonsense --------------------------------------------------------------------------------------------------------------


GARBAGE = {
    "nothing": b"",
    "binary": bytes(range(256)) * 20,
    "no request": b"\r\n\r\n\r\n",
    "half a request": b"GET /v1/sta",
    "unknown method": b"BREW /v1/status HTTP/1.1\r\nHost: framed\r\n\r\n",
    "unknown version": b"GET /v1/status HTTP/9.9\r\nHost: framed\r\n\r\n",
    "long path": b"GET /" + b"a" * 200000 + b" HTTP/1.1\r\nHost: framed\r\n\r\n",
    "many headers": b"GET / HTTP/1.1\r\n" + b"X-A: b\r\n" * 20000 + b"\r\n",
    "wrong length": b"POST /v1/reload HTTP/1.1\r\nHost: framed\r\nContent-Length: -5\r\n\r\n",
    "huge length": b"POST /v1/reload HTTP/1.1\r\nHost: framed\r\nContent-Length: 99999999999999999999\r\n\r\nx",
    "traversal": b"GET /v1/../../etc/passwd HTTP/1.1\r\nHost: framed\r\nConnection: close\r\n\r\n",
    "name with zero": b"POST /v1/pipelines/cam%000/pause HTTP/1.1\r\nHost: framed\r\nConnection: close\r\n\r\n",
    "format string": b"POST /v1/pipelines/%25n%25s/pause HTTP/1.1\r\nHost: framed\r\nConnection: close\r\n\r\n",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_garbage_is_survived(place, name):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(limit(0.5))
            client.connect(str(daemon.socket))
            try:
                client.sendall(GARBAGE[name])
                client.shutdown(socket.SHUT_WR)
                while client.recv(65536):
                    pass
            except OSError:
                pass  # cut off, or left waiting for the rest
        assert daemon.view()["state"] == "running"
        run_frames(daemon)


@pytest.mark.parametrize("method, path, code", [
    ("GET", "/nothing", 404), ("GET", "/v1/reload", 405), ("POST", "/v1/status", 405), ("DELETE", "/v1/status", 405),
    ("GET", "/v1/pipelines/cam0/pause", 405), ("GET", "/v1/status/", 404), ("POST", "/v1/trace", 405), ("GET", "/v1/trace?seconds=0", 400),
])
def test_wrong_routes(place, method, path, code):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        got, body = daemon.request(method, path)
        assert got == code and json.loads(body)["error"], (got, body)
        assert daemon.view()["state"] == "running"


def test_head_has_no_body(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        assert daemon.request("HEAD", "/v1/status") == (200, "")


def test_slow_clients_of_status_hold_nobody_up(place):
    """Forty connections that never finish their request."""
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        before = daemon.open_files()
        clients = []
        for _ in range(40):
            client = socket.socket(socket.AF_UNIX)
            client.connect(str(daemon.socket))
            client.sendall(b"GET /v1/st")
            clients.append(client)
        run_frames(daemon)
        for client in clients:
            client.close()
        deadline = time.monotonic() + limit(15)
        while daemon.open_files() > before and time.monotonic() < deadline:
            daemon.status()
        assert daemon.open_files() <= before


def test_an_answer_that_nobody_reads_does_no_harm(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        with socket.socket(socket.AF_UNIX) as client:
            client.connect(str(daemon.socket))
            client.setblocking(False)
            try:
                for _ in range(2000):
                    client.send(b"GET /metrics HTTP/1.1\r\nHost: framed\r\n\r\n")
            except BlockingIOError:
                pass  # it has stopped to read: enough
            run_frames(daemon)


def test_the_status_socket_is_the_owners(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}) as daemon:
        assert os.stat(daemon.socket).st_mode & 0o007 == 0
