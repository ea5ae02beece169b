"""framectl doctor: what it finds, what it recommends, and its exit status."""

import http.server
import itertools
import json
import shutil
import socketserver
import subprocess
import threading

import pytest

from harness import FRAMECTL, Background, Daemon, environment, limit, numbered, pipeline, slow_stage, wait_until, whole

pytestmark = [pytest.mark.host, pytest.mark.plain]

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}

# NVIDIA's library with one GPU that is too hot, on half of its link, without persistence mode.
NVML = r"""
#include <string.h>
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char address[32]; };
int nvmlInit_v2(void) { return 0; }
int nvmlShutdown(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = &*device; return index != 0; }
int nvmlDeviceGetName(void *device, char *name, unsigned room) { (void)device; strncpy(name, "Fake GPU", room); return 0; }
int nvmlDeviceGetPciInfo_v3(void *device, struct pci *info) {
  (void)device; strcpy(info->address, "00000000:FE:00.0"); return 0; }
int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *bits) { (void)device; *bits = 0x40; return 0; }
int nvmlDeviceGetCurrPcieLinkGeneration(void *device, unsigned *value) { (void)device; *value = 5; return 0; }
int nvmlDeviceGetMaxPcieLinkGeneration(void *device, unsigned *value) { (void)device; *value = 5; return 0; }
int nvmlDeviceGetCurrPcieLinkWidth(void *device, unsigned *value) { (void)device; *value = 8; return 0; }
int nvmlDeviceGetMaxPcieLinkWidth(void *device, unsigned *value) { (void)device; *value = 16; return 0; }
int nvmlDeviceGetPersistenceMode(void *device, unsigned *value) { (void)device; *value = 0; return 0; }
"""


def doctor(place, *arguments, env=None):
    done = subprocess.run([FRAMECTL, "-s", place / "status.sock", "doctor", *arguments], capture_output=True, text=True,
                          env=environment(env), timeout=limit(20), check=False)
    assert not done.stderr or done.returncode not in (0, 2), done
    return done


def verdicts(document):
    return {finding["check"]: finding["verdict"] for finding in document["machine"]}


def expected_status(document):
    """What the machine itself gives cause for, wherever this runs."""
    changes = ("slots", "spin", "graph", "reader", "processors", "instances")
    due = any(entry["improve"] in changes for entry in document["pipelines"].values())
    return 2 if due or "better" in verdicts(document).values() else 0


class Answer(http.server.BaseHTTPRequestHandler):
    """A daemon that says that it has a GPU."""

    body = json.dumps({"version": "0.1.0", "backend": "cuda", "device": "Fake GPU", "pipelines": {}}).encode()

    def do_GET(self):  # noqa: N802, the name is the base class's
        self.send_response(200)
        self.send_header("Content-Length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)

    def address_string(self):
        return "local"

    def log_message(self, *arguments):
        pass


class FakeDaemon(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __enter__(self):
        self.thread = threading.Thread(target=self.serve_forever, daemon=True)
        self.thread.start()
        return self

    def __exit__(self, *error):
        self.shutdown()
        self.server_close()
        self.thread.join()


def test_without_frames_there_is_nothing_to_change(place):
    with Daemon(place, {"cam0": pipeline(FORMAT), "rear": pipeline(FORMAT)}):
        done = doctor(place, "--json")
        document = json.loads(done.stdout)
        assert set(document["pipelines"]) == {"cam0", "rear"}, document
        assert document["pipelines"]["cam0"]["improve"] == "none" and document["pipelines"]["cam0"]["bound_by"] == "source"
        assert verdicts(document)["gpu"] == "fine" and "governor" in verdicts(document), document
        assert done.returncode == expected_status(document), done
        text = doctor(place, "cam0").stdout
        assert "cam0: bound by source" in text and "rear" not in text and "governor" in text, text


def test_one_slot_wants_another(place):
    """Frames of 20 ms, one at a time: with several workers another slot helps, with one only cheaper stages do."""
    with Daemon(place, {"cam0": pipeline(FORMAT, stages=[slow_stage(20)], slots=1)}) as daemon:
        stop = threading.Event()
        with daemon.reader() as reader, daemon.producer() as producer:
            def produce():
                for number in itertools.count():
                    if stop.is_set():
                        return
                    producer.send(whole(number, SIZE).tobytes())

            producing = Background(produce)
            reader.frames(60, SIZE)
            reading = Background(reader.rest)
            view = daemon.wait_view("the kernel bounds it", lambda view: view["overlap"]["bound_by"] == "kernel")
            helps, said = "slots" if view["overlap"]["kernels_at_once"] > 1 else "stages", {}

            def wants_what_helps():
                """What bounds it may be another thing a second later, so that one answer alone proves nothing."""
                done = doctor(place, "--json", "cam0")
                said.update(json.loads(done.stdout)["pipelines"]["cam0"])
                assert done.returncode == expected_status(json.loads(done.stdout)), done
                return (said["bound_by"], said["improve"]) == ("kernel", helps) and said["gain"] > 1.05
            wait_until(wants_what_helps, lambda: f"{helps} help: {said}", 30)
            stop.set()
            producing.join()
            producer.close()
            daemon.finish()
            reading.join()


def test_results_that_nobody_reads_are_found(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, sink={"overload": "drop"})}) as daemon:
        with daemon.producer() as producer:
            producer.send(numbered(20, SIZE).tobytes())
            daemon.wait_view("they are dropped", lambda view: view["frames"]["dropped"]["unread"] == 20 and
                             view["throughput"]["in_bytes_per_s"] > 0)
            done = doctor(place)
            assert done.returncode == 2 and "cam0 has no reader: 20 results were dropped" in done.stdout, done
        with daemon.reader():
            daemon.wait_view("somebody reads", lambda view: view["readers"] == 1)
            assert "nobody reads" not in doctor(place).stdout
        daemon.account(came=20, unread=20)


def test_a_reader_that_misses_results_is_found(place):
    with Daemon(place, {"cam0": pipeline(FORMAT, sink={"overload": "drop"})}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(3000, SIZE).tobytes())
            daemon.wait_view("it misses results", lambda view: view["missed"] > 1500)
            said = {}

            def is_named():
                done = doctor(place)
                said.update(doctor=done.stdout, advice=daemon.view()["overlap"]["advice"])
                assert done.stdout.count("slow readers") <= 1, done
                return done.returncode == 2 and "slow readers" in done.stdout
            wait_until(is_named, lambda: f"the reader is named: {said}")
            reader.close()
        daemon.settled = True


def test_an_unknown_pipeline_is_refused(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}):
        done = doctor(place, "side")
        assert done.returncode == 1 and "side" in done.stderr and "cam0" in done.stderr, done


def test_no_daemon(place):
    assert doctor(place).returncode == 69


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no compiler")
def test_a_gpu_that_could_do_better(place):
    (place / "nvml.c").write_text(NVML)
    library = place / "libnvidia-ml.so.1"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, place / "nvml.c"], check=True)
    with FakeDaemon(str(place / "status.sock"), Answer):
        done = doctor(place, "--json", env={"LD_LIBRARY_PATH": str(place)})
        document = json.loads(done.stdout)
        found = verdicts(document)
        assert done.returncode == 2, done
        assert (found["clocks"], found["link"], found["persistence"]) == ("better", "better", "better"), document
        assert found["numa"] == found["slots"] == found["memlock"] == "unknown", document
        text = doctor(place, env={"LD_LIBRARY_PATH": str(place)}).stdout
        for part in ("Fake GPU", "too hot", "PCIe 5 x8, where 5 x16 is possible", "persistence mode is off"):
            assert part in text, text


def test_a_gpu_that_cannot_be_asked(place):
    with FakeDaemon(str(place / "status.sock"), Answer):
        document = json.loads(doctor(place, "--json", env={"LD_LIBRARY_PATH": str(place)}).stdout)
        assert verdicts(document).get("gpu", "unknown") == "unknown", document


class Turmoil(Answer):
    """A daemon whose clients were turned away by more pipelines than there is room for."""

    pipelines = dict.fromkeys((f"cam{index}" for index in range(100)), {
        "refused": 1, "last_refusal": {"age_s": 1, "text": "it was refused", "remedy": "come later"}})
    body = json.dumps({"version": "0.1.0", "backend": "cpu", "device": "Fake", "pipelines": pipelines}).encode()


def test_clients_hide_nothing_of_the_machine(place):
    with FakeDaemon(str(place / "status.sock"), Turmoil):
        document = json.loads(doctor(place, "--json").stdout)
        assert {"clients", "governor", "gpu"} <= verdicts(document).keys(), verdicts(document)
        assert len(document["machine"]) + document["left_out"] >= 102, document["left_out"]
        assert f"and {document['left_out']} more of other pipelines" in doctor(place).stdout
        document = json.loads(doctor(place, "--json", "cam99").stdout)
        assert document["left_out"] == 0 and "clients" in verdicts(document), document
