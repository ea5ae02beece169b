"""A NATS server of the test's own, what a test asks of it, and framed-link between it and a daemon."""

import base64
import contextlib
import functools
import itertools
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time

import pytest

from harness.daemon import BINARY, COMPLAINTS, environment
from harness.waiting import limit, wait_until

SERVER = shutil.which("nats-server", path=f"{os.environ['PATH']}:{pathlib.Path(__file__).parents[3] / 'build'}")
LINK = BINARY.with_name("framed-link")
DURABLE = (2, 10, 0)  # the first version that knows sync_interval

needs_nats = [
    pytest.mark.skipif(not SERVER, reason="no nats-server: tools/setup.sh check could not install it"),
    pytest.mark.skipif(not LINK.exists(), reason="no framed-link: it was built without libnats-dev"),
]


@functools.cache
def version():
    """Of nats-server, as numbers."""
    text = subprocess.run([SERVER, "--version"], capture_output=True, text=True, check=True).stdout
    return tuple(int(number) for number in re.search(r"v(\d+)\.(\d+)\.(\d+)", text).groups())


class Server:
    """nats-server with JetStream on a port of its own, which stays the same when it is killed and starts again.

    A durable one has on its disk what it acknowledges. A version before 2.10 cannot: it runs with its defaults, as is said.
    """

    def __init__(self, place, name="nats", durable=False, **keys):
        self.folder = place / name
        self.folder.mkdir()
        jetstream = {"store_dir": str(self.folder)}
        if durable and version() >= DURABLE:
            jetstream["sync_interval"] = "always"
        elif durable:
            print(f"nats-server {'.'.join(map(str, version()))} does not know sync_interval: what it acknowledges is in memory first")
        self.host = keys.get("host", "127.0.0.1")
        with socket.socket() as free:
            free.bind((self.host, 0))
            self.port = free.getsockname()[1]
        self.file = self.folder / "server.json"
        self.file.write_text(json.dumps({"host": self.host, "port": self.port, "max_payload": 8 << 20,
                                         "jetstream": jetstream, **keys}))
        self.url = f"nats://{self.host}:{self.port}"
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    def start(self):
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([SERVER, "-c", self.file], stdout=log, stderr=log)
        wait_until(self.answers, "nats-server answers", 20)

    def answers(self):
        try:
            with socket.create_connection((self.host, self.port), 1) as found:
                return found.recv(4) == b"INFO"
        except OSError:
            return False

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait(limit(10))

    def client(self, **options):
        return Nats(self.port, self.host, **options)


class Late:
    """A way to a server on which its words take `delay` seconds."""

    def __init__(self, server):
        self.server, self.delay = server, 0
        self.listener = socket.create_server((server.host, 0))
        self.url = f"nats://{server.host}:{self.listener.getsockname()[1]}"

    def __enter__(self):
        threading.Thread(target=self.accept, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client = self.listener.accept()[0]
                server = socket.create_connection((self.server.host, self.server.port))
                threading.Thread(target=self.carry, args=(client, server, lambda: 0), daemon=True).start()
                threading.Thread(target=self.carry, args=(server, client, lambda: self.delay), daemon=True).start()

    @staticmethod
    def carry(source, target, delay):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                time.sleep(delay())
                target.sendall(data)
        with contextlib.suppress(OSError):
            target.shutdown(socket.SHUT_WR)


class Message:
    def __init__(self, subject, reply, head, data):
        self.subject, self.reply, self.data = subject, reply, data
        lines = head.decode().split("\r\n")
        self.status = lines[0].removeprefix("NATS/1.0").strip()
        self.headers = dict(line.split(": ", 1) for line in lines[1:] if ": " in line)


class Nats:
    """As much of a client as tests need: one thread, one thing at a time."""

    def __init__(self, port, host="127.0.0.1", **options):
        self.socket = socket.create_connection((host, port), limit(20))
        self.file = self.socket.makefile("rb")
        self.inbox = f"_INBOX.test{id(self)}"
        self.numbers = itertools.count()
        self.file.readline()
        self.write(f"CONNECT {json.dumps({'verbose': False, 'headers': True, 'no_responders': True, **options})}\r\n"
                   f"SUB {self.inbox}.> 1\r\n")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def write(self, text, data=b""):
        self.socket.sendall(text.encode() + data)

    def publish(self, subject, data=b"", reply="", headers=None):
        if headers:
            head = b"NATS/1.0\r\n" + b"".join(f"{key}: {value}\r\n".encode() for key, value in headers.items()) + b"\r\n"
            self.write(f"HPUB {subject} {reply} {len(head)} {len(head) + len(data)}\r\n", head + data + b"\r\n")
        else:
            self.write(f"PUB {subject} {reply} {len(data)}\r\n", data + b"\r\n")

    def subscribe(self, subject):
        self.write(f"SUB {subject} {next(self.numbers) + 2}\r\n")

    def next(self):
        while True:
            words = self.file.readline().split()
            if not words:
                raise EOFError("the server closed the connection")
            if words[0] == b"PING":
                self.write("PONG\r\n")
            elif words[0] in (b"MSG", b"HMSG"):
                headers = words[0] == b"HMSG"
                sizes = [int(word) for word in words[-2 if headers else -1:]]
                body = self.file.read(sizes[-1] + 2)[:-2]
                head = sizes[0] if headers else 0
                reply = words[3].decode() if len(words) == 5 + headers else ""
                return Message(words[1].decode(), reply, body[:head], body[head:])
            elif words[0] == b"-ERR":
                raise AssertionError(b" ".join(words))

    def request(self, subject, data=b"", headers=None):
        reply = f"{self.inbox}.{next(self.numbers)}"
        self.publish(subject, data, reply, headers)
        message = self.next()
        while message.subject != reply:
            message = self.next()
        return message

    def ask(self, what, body=None):
        answer = json.loads(self.request(f"$JS.API.{what}", json.dumps(body or {}).encode()).data)
        if "error" in answer:
            raise LookupError(answer["error"]["description"])
        return answer

    def make_stream(self, name, subjects, **keys):
        return self.ask(f"STREAM.CREATE.{name}", {"name": name, "subjects": subjects, "storage": "file", "retention": "limits",
                                                  "max_consumers": -1, "max_msgs": -1, "max_bytes": -1, "num_replicas": 1,
                                                  "discard": "old", **keys})

    def put(self, subject, data, **headers):
        answer = json.loads(self.request(subject, data, headers).data)
        assert "error" not in answer, answer
        return answer["seq"]

    def state(self, stream):
        return self.ask(f"STREAM.INFO.{stream}")["state"]

    def stored(self, stream):
        """How many messages a stream has; 0 before it is there."""
        try:
            return self.state(stream)["messages"]
        except LookupError:
            return 0

    def messages(self, stream, count):
        """The first messages of a stream that keeps them."""
        found = [self.ask(f"STREAM.MSG.GET.{stream}", {"seq": number})["message"] for number in range(1, count + 1)]
        return [Message(one["subject"], "", *(base64.b64decode(one.get(part, "")) for part in ("hdrs", "data"))) for one in found]


class Link:
    """framed-link beside a daemon, whose pipelines' sockets it takes from there; `within` is a command that runs it elsewhere."""

    def __init__(self, daemon, server, *, sinks=None, sources=None, mqtt=None, within=(), **keys):
        self.place, self.within = daemon.place, within
        self.file, self.log_file, self.metrics_file = (self.place / name for name in ("link.yaml", "link.log", "link.prom"))
        for name, entry in (sinks or {}).items():
            entry.setdefault("socket", daemon.config["pipelines"][name]["sink"]["socket"])
        for name, entry in (sources or {}).items():
            entry.setdefault("socket", daemon.config["pipelines"][name]["source"]["socket"])
        for name, entry in (mqtt or {}).get("pipelines", {}).items():
            entry.setdefault("socket", daemon.config["pipelines"][name]["sink"]["socket"])
        if mqtt:
            keys["mqtt"] = mqtt
        if server:
            keys.setdefault("nats", {"servers": [server.url]})
        if sinks or sources:
            keys = {"sinks": sinks or {}, "sources": sources or {}, **keys}
        self.file.write_text(json.dumps({"metrics": str(self.metrics_file), "status": daemon.config["status"]["socket"], **keys}))
        self.log_file.unlink(missing_ok=True)
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, kind, *_):
        try:
            if kind is None and self.process.poll() is None:
                self.process.send_signal(signal.SIGTERM)
                status = self.process.wait(limit(20))
                assert status == 0, f"it ended with {status}:\n{self.log}"
            assert not any(complaint in self.log for complaint in COMPLAINTS), self.log
        finally:
            self.kill()
            print(f"-- log of framed-link --\n{self.log}")

    def start(self):
        with open(self.log_file, "ab") as log:
            self.process = subprocess.Popen([*self.within, LINK, "-c", self.file], stderr=log, env=environment())

    def kill(self):
        self.process.kill()
        self.process.wait(limit(10))

    @property
    def log(self):
        return self.log_file.read_text()

    def metrics(self, name="cam0", role="sink"):
        """The values of one link; empty before there are any."""
        lines = self.metrics_file.read_text().splitlines() if self.metrics_file.exists() else []
        labels = f'{{pipeline="{name}",role="{role}"}}'
        return {line.split("{")[0].removeprefix("framed_link_"): int(line.split()[-1]) for line in lines if labels in line}

    def wait(self, what, condition, role="sink", name="cam0", seconds=20):
        wait_until(lambda: self.metrics(name, role) and condition(self.metrics(name, role)),
                   lambda: f"{what}: {self.metrics(name, role)}; log:\n{self.log}", seconds)

    def wait_up(self, role="sink", name="cam0"):
        self.wait("both sides are there", lambda view: view["broker_up"] and view["pipeline_up"], role, name)
