"""The daemon under test, held to its promises whenever a test lets go of it.

Every status answer must balance. At the end nothing may be in flight, SIGTERM must end the daemon with status 0,
no sanitizer may have complained, the account in its last log lines must balance, no process may be left, and the
sockets must be gone.
"""

import contextlib
import http.client
import json
import os
import pathlib
import re
import signal
import socket
import subprocess

from harness.clients import Producer, Reader
from harness.waiting import limit, thread_states, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[3]
BINARY = pathlib.Path(os.environ.get("FRAMED_BINARY", ROOT / "build/check/framed")).absolute()
WORKER = pathlib.Path(os.environ.get("FRAMED_WORKER", BINARY.with_name("framed-worker"))).absolute()
FRAMECTL = pathlib.Path(os.environ.get("FRAMECTL", BINARY.with_name("framectl"))).absolute()
BACKEND = os.environ.get("FRAMED_BACKEND", "cpu")

COMPLAINTS = ("AddressSanitizer", "LeakSanitizer", "ThreadSanitizer", "runtime error:", "MemorySanitizer")
SANITIZERS = {
    "ASAN_OPTIONS": "detect_leaks=1:exitcode=99",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1:exitcode=99",
    # At its end a program with other threads waits for what they do meanwhile: a second, if it is not told otherwise.
    "TSAN_OPTIONS": "halt_on_error=0:exitcode=99:second_deadlock_stack=1:atexit_sleep_ms=20:"
                    f"suppressions={pathlib.Path(__file__).with_name('tsan-suppressions.txt').resolve()}",
}


def pipeline(format, *, stages=(), source=None, sink=None, **keys):
    """One entry of `pipelines`. Endpoints left out become sockets in the daemon's directory; the sink is lossless."""
    return {
        "source": {"format": format, **(source or {})},
        "stages": list(stages),
        "sink": {"overload": "block", **(sink or {})},
        **keys,
    }


def complete(place, pipelines, **keys):
    """A whole configuration with every path filled in; `keys` override top-level keys."""
    for name, entry in pipelines.items():
        source, sink = entry["source"], entry["sink"]
        if not {"socket", "file", "url"} & source.keys():
            source["socket"] = str(place / f"{name}.sock")
        if not {"socket", "file", "reply"} & sink.keys():
            sink["socket"] = str(place / f"{name}.out.sock")
        if "socket" not in sink:
            sink.pop("overload", None)
    return {
        "log": {"level": "debug"},
        "status": {"socket": str(place / "status.sock")},
        "gpu": {"backend": BACKEND},
        "pipelines": pipelines,
        **keys,
    }


# A portable folder has the libraries beside its programs, where a copy of one would not find them.
LIBRARIES = BINARY.parent.parent / "lib"
PORTABLE = {"LD_LIBRARY_PATH": f"{LIBRARIES}:{os.environ.get('LD_LIBRARY_PATH', '')}"} if LIBRARIES.is_dir() else {}


def environment(extra=None):
    return {**SANITIZERS, **os.environ, **PORTABLE, **(extra or {})}


def run_framed(*arguments, input=None, seconds=30, env=None, **options):
    """Runs framed to its end and returns the finished process, text streams captured."""
    return subprocess.run(
        [BINARY, *map(str, arguments)], input=input, env=environment(env), timeout=limit(seconds),
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=not isinstance(input, bytes), check=False, **options)


class UnixConnection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("framed", timeout=limit(20))
        self.path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self.path))


class Daemon:
    """Runs framed on `pipelines` (see pipeline()) or, as `text`, on a whole configuration file."""

    def __init__(self, place, pipelines=None, *, text=None, env=None, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                 stderr=None, before=None, ready=True, binary=BINARY, inherits=(), **keys):
        self.place = pathlib.Path(place)
        self.file = self.place / "framed.yaml"
        self.log_file = self.place / "log"
        self.socket = self.place / "status.sock"
        self.config = {}
        self.settled = False  # whether finish() may find frames in flight
        self.leaves_frames = False
        self.leaves_sockets = False
        self.process = None
        self.last = {}
        self.readers = {}  # those from reader(), by pipeline
        if pipelines is None:
            self.file.write_text(text)
        else:
            self.write(pipelines, **keys)
        self.options = {"env": environment(env), "stdin": stdin, "stdout": stdout, "stderr": stderr, "preexec_fn": before,
                        "pass_fds": inherits}
        self.binary = binary
        self.wants_ready = ready

    # -- life ------------------------------------------------------------------------------------------------------

    def write(self, pipelines, **keys):
        """Writes the configuration file (JSON is YAML), as an operator would before a reload."""
        self.config = complete(self.place, pipelines, **keys)
        self.file.write_text(json.dumps(self.config, indent=2) + "\n")

    def __enter__(self):
        self.start()
        try:
            if self.wants_ready:
                self.wait_ready()
        except BaseException:
            self.kill()
            print(self.log)
            raise
        return self

    def __exit__(self, kind, error, trace):
        try:
            if kind is None:
                self.finish()
        finally:
            self.kill()
            print(f"-- log of framed --\n{self.log}")

    def start(self):
        """A process, at once or in the place of one that has ended; its log goes on."""
        with open(self.log_file, "ab") as log:
            options = {**self.options, "stderr": self.options["stderr"] or log}
            self.process = subprocess.Popen([self.binary, "-c", self.file], start_new_session=True, **options)

    def wait_ready(self):
        def answers():
            if self.process.poll() is not None:
                raise AssertionError(f"framed ended with {self.process.returncode}:\n{self.log}")
            try:
                return self.status()
            except (FileNotFoundError, ConnectionError):  # or one that begins anew has let go of it
                return None
        wait_until(answers, lambda: f"the status socket answers; log:\n{self.log}", 30)

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait(limit(10))

    def signal(self, number):
        self.process.send_signal(number)

    def stand_still(self):
        """Stops every thread, until SIGCONT or the end."""
        self.signal(signal.SIGSTOP)
        wait_until(lambda: thread_states(self.process.pid) == {"T"}, "the daemon stands still")

    def ends(self, status=0, seconds=20):
        """Waits for the end by itself (or by a signal sent before) and checks the exit status."""
        got = self.process.wait(limit(seconds))
        assert got == status, f"framed ended with {got}, expected {status}; log:\n{self.log}"
        self.check_remains()

    def finish(self):
        if self.process.poll() is not None:
            return self.ends(self.process.returncode if self.settled else 0)
        if not self.leaves_frames:
            self.quiet()
        self.signal(signal.SIGTERM)
        return self.ends(0)

    def check_remains(self):
        """What must hold of a daemon that has ended in whatever way it was asked to."""
        log = self.log
        assert not any(complaint in log for complaint in COMPLAINTS), f"a sanitizer complains:\n{log}"
        wait_until(lambda: not self.session_members(), "the workers end with the daemon")
        if self.process.returncode == 0:
            for name in re.findall(r" (\S+): stopped: in ", log):
                self.final_account(name)
        left = [path for path in self.socket_paths() if os.path.exists(path) and not self.leaves_sockets]
        assert not left, f"sockets are left: {left}"
        self.settled = True

    def final_account(self, name="cam0"):
        """What the last log line of a pipeline says: {"in": 5, "emitted": 4, "late": 1}, and no more than it names."""
        line = re.findall(rf" {re.escape(name)}: stopped: (.*)$", self.log, re.MULTILINE)[-1]
        came, emitted, in_flight, dropped, fates = re.fullmatch(
            r"in (\d+) = emitted (\d+) \+ in flight (\d+) \+ dropped (\d+)(?: \((.*)\))?", line).groups()
        account = {"in": int(came), "emitted": int(emitted)}
        account.update({fate: int(count) for fate, count in (part.split(" ") for part in (fates or "").split(", ") if part)})
        lost = sum(account.values()) - account["in"] - account["emitted"]
        assert int(in_flight) == 0 and lost == int(dropped) and account["in"] == account["emitted"] + lost, line
        return account

    def session_members(self):
        """Processes of the daemon's own session that are still alive."""
        members = []
        for entry in os.listdir("/proc"):
            if entry.isdigit():
                try:
                    fields = pathlib.Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
                except OSError:
                    continue
                if int(fields[3]) == self.process.pid and fields[0] != "Z":
                    members.append(int(entry))
        return members

    def socket_paths(self):
        paths = [self.socket]
        for entry in self.config.get("pipelines", {}).values():
            paths += [end["socket"] for end in (entry["source"], entry["sink"]) if "socket" in end]
        return paths

    # -- what it says ------------------------------------------------------------------------------------------------

    @property
    def log(self):
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    def wait_log(self, text, seconds=15):
        wait_until(lambda: text in self.log, lambda: f"the log says {text!r}:\n{self.log}", seconds)

    def request(self, method, path, body=None):
        """(HTTP status, body as text, of images as bytes) of one request on the status socket; a question is asked again if the
        daemon executes itself over it."""
        for _ in range(5 if method == "GET" else 0):
            try:
                return self.request_once(method, path, body)
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                if self.process.poll() is not None:
                    raise
        return self.request_once(method, path, body)

    def request_once(self, method, path, body=None):
        connection = UnixConnection(self.socket)
        try:
            connection.request(method, path, body)
            response = connection.getresponse()
            body = response.read()
            return response.status, body if response.getheader("Content-Type", "").startswith("image/") else body.decode()
        finally:
            connection.close()

    def status(self):
        """The status document, whose ledgers must balance in every answer."""
        code, body = self.request("GET", "/v1/status")
        assert code == 200, body
        document = json.loads(body)
        for name, entry in document["pipelines"].items():
            frames = entry["frames"]
            total = frames["emitted"] + sum(frames["dropped"].values()) + frames["in_flight"]
            assert frames["in"] == total, f"the ledger of {name} does not balance: {frames}"
        self.last = document
        return document

    def metrics(self):
        code, body = self.request("GET", "/metrics")
        assert code == 200, body
        return body

    def post(self, path):
        """(HTTP status, answer as JSON) of one command."""
        code, body = self.request("POST", path)
        return code, json.loads(body)

    def command(self, path):
        code, answer = self.post(path)
        assert code == 200 and answer.get("ok") is True, (code, answer)
        return answer

    def view(self, name="cam0"):
        return self.status()["pipelines"][name]

    def frames(self, name="cam0"):
        return self.view(name)["frames"]

    def wait_view(self, what, condition, name="cam0", seconds=15):
        """Polls until `condition(view of the pipeline)` holds, and returns that view."""
        seen = {}

        def holds():
            seen.update(self.view(name))
            return seen if condition(seen) else None
        return wait_until(holds, lambda: f"{name}: {what}; it says {json.dumps(seen)}\n{self.log}", seconds)

    def account(self, name="cam0", *, came, seconds=20, **fates):
        """Waits until exactly `came` frames came in and have exactly these fates, and none is in flight."""
        def settled(view):
            frames = view["frames"]
            return frames["in"] == came and frames["in_flight"] == 0
        frames = self.wait_view(f"{came} frames have their fate", settled, name, seconds)["frames"]
        got = {fate: count for fate, count in {"emitted": frames["emitted"], **frames["dropped"]}.items() if count}
        assert got == {fate: count for fate, count in fates.items() if count}, frames
        return frames

    def quiet(self, seconds=20):
        """Waits until no pipeline has a frame in flight."""
        def still():
            pipelines = self.status()["pipelines"]
            return all(entry["frames"]["in_flight"] == 0 for entry in pipelines.values())
        wait_until(still, lambda: f"nothing is in flight: {json.dumps(self.last)}\n{self.log}", seconds)

    def open_files(self):
        """But for those of the NVIDIA driver, which opens some at the first question about the device."""
        number = 0
        for file in pathlib.Path(f"/proc/{self.process.pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
                number += not os.readlink(file).startswith("/dev/nvidia")
        return number

    def cpu_seconds(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # -- its clients ---------------------------------------------------------------------------------------------------

    def path(self, name, end):
        return self.config["pipelines"][name][end]["socket"]

    def producer(self, name="cam0", **options):
        return Producer(self.path(name, "source"), **options)

    def reader(self, name="cam0", **options):
        """A reader that the daemon knows of: it gets every result from now on."""
        reader = Reader(self.path(name, "sink"), **options)
        known = self.readers.setdefault(name, [])
        known[:] = [other for other in known if not other.closed] + [reader]
        self.wait_view("the reader is attached", lambda view: view["readers"] == len(known), name)
        return reader
