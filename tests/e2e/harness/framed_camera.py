"""framed-camera alone: the test takes the part of the daemon, on both of its sockets."""

import fcntl
import json
import os
import pathlib
import socket
import struct
import subprocess
import sys
import time

import numpy as np

from harness.daemon import BINARY, COMPLAINTS, environment
from harness.native import FRAME, HELLO, WELCOME, message
from harness.waiting import limit

CAMERA = pathlib.Path(os.environ.get("FRAMED_CAMERA", BINARY.with_name("framed-camera"))).absolute()
VERSION = subprocess.run([BINARY, "--version"], capture_output=True, text=True, check=True, env=environment()).stdout.split()[1]

# Descriptors 3 and 4 may be in use in a process that a test just forked.
STARTER = ("import os, sys\n"
           "a, b = int(sys.argv[1]), int(sys.argv[2])\n"
           "os.dup2(a, 3), os.dup2(b, 4), os.close(a), os.close(b)\n"
           "os.execv(sys.argv[3], sys.argv[3:])\n")


def bytes_of(pixels, width, height):
    return width * height * {"nv12": 3, "gray": 2, "rgb24": 6}[pixels] // 2


class CameraProcess:
    """framed-camera with its start message sent; frames and reports are read as the test wants them."""

    def __init__(self, url, version=VERSION, slots=4, **keys):
        self.settings = {"version": 1, "pipeline": "yard", "url": url, "width": 160, "height": 120, "pixels": "gray", "transport": "tcp",
                         "silence": 1.0, **keys}
        self.slots = slots
        self.bytes = bytes_of(*(self.settings[key] for key in ("pixels", "width", "height")))
        self.reports = []
        self.control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.stream, stream = socket.socketpair()
        high = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (control, stream)]
        control.close()
        stream.close()
        self.control.settimeout(limit(20))
        self.stream.settimeout(limit(20))
        self.control.send(json.dumps(self.settings).encode())
        self.process = subprocess.Popen([sys.executable, "-S", "-E", "-c", STARTER, *map(str, high), CAMERA, version], pass_fds=high,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment())
        for end in high:
            os.close(end)

    def __enter__(self):
        return self

    def __exit__(self, kind, *error):
        """It ends with its daemon, at once and in good order, and has said nothing."""
        self.control.close()
        try:
            self.said = self.process.communicate(timeout=limit(10))[0].decode()
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self.stream.close()
        assert not any(complaint in self.said for complaint in COMPLAINTS), self.said
        if kind is None:
            assert (self.process.returncode, self.said) == (self.expected, ""), self.said

    expected = 0

    def read(self, count):
        parts = bytearray()
        while len(parts) < count:
            part = self.stream.recv(count - len(parts))
            if not part:
                raise EOFError("framed-camera closed its connection for frames")
            parts += part
        return bytes(parts)

    def welcome(self):
        """Takes the HELLO of a producer, and answers it."""
        magic, kind, _, length = struct.unpack("<4sHHQ", self.read(16))
        assert (magic, kind) == (b"FRMD", HELLO)
        _, role, _, _ = struct.unpack_from("<IIII", self.read(length))
        assert role == 1
        names = [name.encode().ljust(64, b"\0") for name in ("yard", "gray 160x120", "gray 160x120")]
        self.stream.sendall(message(WELCOME, struct.pack("<IIIIQQQQQQ", 1, 1, 0, self.slots, self.bytes, 1, 0, 0, 0, 1) + b"".join(names)))
        return self

    def frame(self):
        """The next frame: (sequence, timestamp, pixels)."""
        magic, kind, _, length = struct.unpack("<4sHHQ", self.read(16))
        assert (magic, kind, length) == (b"FRMD", FRAME, 32 + self.bytes)
        sequence, timestamp = struct.unpack_from("<Qq", self.read(32))
        return sequence, timestamp, np.frombuffer(self.read(self.bytes), np.uint8)

    def report(self):
        self.reports.append(json.loads(self.control.recv(4096)))
        return self.reports[-1]

    def wait_for(self, seconds=15, **wanted):
        """The first report that has these values."""
        end = time.monotonic() + limit(seconds)
        while time.monotonic() < end:
            report = self.report()
            if all(report.get(key) == value for key, value in wanted.items()):
                return report
        raise TimeoutError(f"no report with {wanted}: {self.reports[-3:]}")
