#!/usr/bin/env python3
"""A stand-in for framed-camera, and the stage on which a test lets it play.

The daemon executes this file by FRAMED_CAMERA. It does what the file `plays` of CAMERA_PLACE says at that moment, and writes a
line about each start to `starts`. It is written from the bytes in framed-protocol(7) alone, as harness/native.py is.
"""

import json
import os
import pathlib
import select
import signal
import socket
import struct
import sys
import time

RUNNING = {"state": "running", "codec": "h264", "width": 2560, "height": 1440, "rate": 25.0, "bitrate": 4012000, "decoder": "cpu",
           "frames": 0, "lost": 0, "reconnects": 0, "time": "arrival"}
REFUSED = {"state": "waiting", "token": "camera.refused", "text": "the camera refused the connection: check its address and port",
           "reconnects": 3, "retry": 4.0}
BYTES = 512  # of a frame: gray, 32x16


def picture(number):
    """Frame `number`: bytes that belong to no other one of the next 251."""
    return struct.pack("<Q", number) + bytes([number % 251]) * (BYTES - 8)


class Stage:
    """Where stand-ins of one test play; its environment is for the daemon."""

    def __init__(self, place):
        self.place = pathlib.Path(place)
        self.environment = {"FRAMED_CAMERA": str(pathlib.Path(__file__).resolve()), "CAMERA_PLACE": str(place),
                            "CREDENTIALS_DIRECTORY": str(place)}
        self.plays()

    def plays(self, **what):
        """Directs stand-ins that start from now on: `say` (messages), `frames` (how many), `first`, `pause`, `then` (wait, exit,
        garbage, flood, mute, deaf, hang_up)."""
        new = self.place / "plays.new"
        new.write_text(json.dumps(what))
        new.rename(self.place / "plays")

    def starts(self):
        file = self.place / "starts"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def message(kind, body, payload=b""):
    return b"FRMD" + struct.pack("<HHQ", kind, 0, len(body) + len(payload)) + body + payload


def greet(frames):
    frames.sendall(message(1, struct.pack("<IIII", 1, 1, 0, 0)))
    welcome = frames.recv(16 + 256, socket.MSG_WAITALL)
    assert welcome[4:6] == b"\2\0", welcome


def send_frames(frames, plays):
    first = plays.get("first", 0)
    for number in range(first, first + plays.get("frames", 0)):
        frames.sendall(message(3, struct.pack("<QqqII", number, 0, 0, 0, 0), picture(number)))
        time.sleep(plays.get("pause", 0))


def wait_for_the_end(control, frames):
    """Until the daemon closes either of the two. A pipeline that follows another one sends a connection of its own."""
    while True:
        poll = select.poll()
        poll.register(control, select.POLLIN)
        poll.register(frames, select.POLLHUP)
        if control.fileno() not in dict(poll.poll()):
            return
        said, descriptors, _, _ = socket.recv_fds(control, 64, 1)
        if not said:
            return
        frames = socket.socket(fileno=descriptors[0])
        plays = json.loads((pathlib.Path(os.environ["CAMERA_PLACE"]) / "plays").read_text())
        greet(frames)
        send_frames(frames, plays)


def play(control, frames, plays):
    for text in plays.get("say", []):
        control.send(json.dumps(text).encode())
    if "frames" in plays:
        greet(frames)
        send_frames(frames, plays)
    then = plays.get("then", "wait")
    if then == "exit":
        sys.exit(plays.get("status", 3))
    elif then == "garbage":
        control.send(b'{"state": "running", "rate": ')
    elif then == "flood":
        while True:
            control.send(json.dumps({**RUNNING, "text": "x" * 3000}).encode())
    elif then == "stranger":
        frames.sendall(b"GET / HTTP/1.1\r\n\r\n")
    if then in ("garbage", "deaf", "stranger"):
        while True:
            signal.pause()
    wait_for_the_end(control, frames)


def main():
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    place = pathlib.Path(os.environ["CAMERA_PLACE"])
    control, frames = socket.socket(fileno=3), socket.socket(fileno=4)
    order = json.loads(control.recv(16384))
    said = {"pid": os.getpid(), "arguments": sys.argv[1:], "order": order, "files": sorted(os.listdir("/proc/self/fd")),
            "environment": dict(os.environ)}
    with open(place / "starts", "a", encoding="utf-8") as file:
        file.write(json.dumps(said) + "\n")
    play(control, frames, json.loads((place / "plays").read_text()))


if __name__ == "__main__":
    main()
