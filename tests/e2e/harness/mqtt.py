"""A broker of MQTT of the test's own, and as much of a client as tests need: it subscribes and publishes with QoS 0."""

import os
import shutil
import signal
import socket
import struct
import subprocess

import pytest

from harness.waiting import limit, wait_until

MOSQUITTO = shutil.which("mosquitto", path=f"{os.environ['PATH']}:/usr/sbin")

needs_mosquitto = pytest.mark.skipif(not MOSQUITTO, reason="no mosquitto: tools/setup.sh check could not install it")


class Broker:
    """mosquitto on a port of its own, which stays the same when it is killed and starts again. What is retained stays, too."""

    def __init__(self, place, *lines):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.folder = place / "mosquitto"
        self.folder.mkdir()
        self.url = f"mqtt://127.0.0.1:{self.port}"
        self.lines = lines or ("allow_anonymous true",)
        self.process = None

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    def start(self):
        file = self.folder / "mosquitto.conf"
        user = ["user root"] if os.geteuid() == 0 else []
        file.write_text("\n".join([*user, f"listener {self.port} 127.0.0.1", *self.lines]) + "\n")
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen([MOSQUITTO, "-v", "-c", file], stdout=log, stderr=log)
        wait_until(self.answers, "mosquitto answers", 20)

    @property
    def log(self):
        return (self.folder / "log").read_text()

    def answers(self):
        try:
            socket.create_connection(("127.0.0.1", self.port), 1).close()
            return True
        except OSError:
            return False

    def kill(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait(limit(10))

    def client(self, *topics, **options):
        return Mqtt(self.port, *topics, **options)

    def home(self, **options):
        """Home Assistant, as far as it is seen from here; says that it is there as that does when it starts."""
        home = self.client("homeassistant/#", "framed/#", **options)
        home.publish("homeassistant/status", "online")
        return home


def text(value):
    return struct.pack(">H", len(value)) + value.encode()


def packet(kind, body):
    length, head = len(body), bytearray([kind])
    while True:
        head.append(length % 128 | (128 if length >= 128 else 0))
        length //= 128
        if length == 0:
            return bytes(head) + body


class Mqtt:
    """Keeps the last payload of each topic that came, as Home Assistant does; `retained` are those that were there before."""

    def __init__(self, port, *topics, name="test", version=5, host="127.0.0.1"):
        self.socket = socket.create_connection((host, port), limit(20))
        self.file = self.socket.makefile("rb")
        self.last, self.retained = {}, {}
        self.properties = b"\0" if version == 5 else b""
        self.socket.sendall(packet(0x10, text("MQTT") + bytes([version, 2, 0, 0]) + self.properties + text(name)))
        kind, body = self.next()
        assert kind == 0x20 and body[1] == 0, body
        self.socket.sendall(packet(0x82, b"\0\1" + self.properties + b"".join(text(topic) + b"\0" for topic in topics)))
        while (came := self.next())[0] != 0x90:
            self.keep(*came)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.file.close()
        self.socket.close()

    def next(self):
        kind, length, shift = self.file.read(1)[0], 0, 0
        while True:
            byte = self.file.read(1)[0]
            length |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return kind, self.file.read(length)

    def publish(self, topic, payload, retain=False):
        self.socket.sendall(packet(0x31 if retain else 0x30, text(topic) + self.properties + payload.encode()))

    def take(self):
        """The next message that is published, which is kept, too."""
        return self.keep(*self.next())

    def keep(self, kind, body):
        assert kind & 0xf6 == 0x30, kind
        end = 2 + struct.unpack(">H", body[:2])[0]
        begin = end + (1 + body[end] if self.properties else 0)
        topic, payload = body[2:end].decode(), body[begin:].decode()
        self.last[topic] = payload
        if kind & 1:
            self.retained[topic] = payload
        return topic, payload

    def wait(self, topic, condition=lambda payload: True):
        """Takes messages until one of this topic is as it should be."""
        while True:
            found, payload = self.take()
            if found == topic and condition(payload):
                return payload
