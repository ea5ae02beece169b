"""As much of a client of MQTT 3.1.1 as tests need: it subscribes and publishes with QoS 0."""

import socket
import struct

from harness.waiting import limit


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
    """Keeps the last payload of each topic that came, as Home Assistant does."""

    def __init__(self, port, *topics, name="test"):
        self.socket = socket.create_connection(("127.0.0.1", port), limit(20))
        self.file = self.socket.makefile("rb")
        self.last = {}
        self.socket.sendall(packet(0x10, text("MQTT") + bytes([4, 2, 0, 0]) + text(name)))
        assert self.next() == (0x20, b"\0\0")
        self.socket.sendall(packet(0x82, b"\0\1" + b"".join(text(topic) + b"\0" for topic in topics)))
        assert self.next()[0] == 0x90

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

    def publish(self, topic, payload):
        self.socket.sendall(packet(0x30, text(topic) + payload.encode()))

    def take(self):
        """The next message that is published, which is kept, too."""
        kind, body = self.next()
        assert kind & 0xf6 == 0x30, kind
        end = 2 + struct.unpack(">H", body[:2])[0]
        topic, payload = body[2:end].decode(), body[end:].decode()
        self.last[topic] = payload
        return topic, payload

    def wait(self, topic, condition=lambda payload: True):
        """Takes messages until one of this topic is as it should be."""
        while True:
            found, payload = self.take()
            if found == topic and condition(payload):
                return payload
