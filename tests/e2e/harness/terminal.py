"""A program on a terminal of its own, and what that shows."""

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time

from harness.daemon import environment
from harness.waiting import limit, wait_until


class Terminal:
    def __init__(self, *command):
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
        self.process = subprocess.Popen(command, stdin=slave, stdout=slave, stderr=slave, start_new_session=True,
                                        env=environment({"TERM": "xterm"}))
        os.close(slave)
        self.screen = b""

    def __enter__(self):
        return self

    def __exit__(self, *error):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self.master)

    def read(self):
        while select.select([self.master], [], [], 0.05)[0]:
            try:
                part = os.read(self.master, 65536)
            except OSError:
                return  # the other end is closed
            if not part:
                return
            self.screen += part

    def shows(self, text):
        def seen():
            self.read()
            return text in self.screen
        wait_until(seen, lambda: f"the screen shows {text!r}: {self.screen[-2000:]!r}")

    def resize(self, rows, columns):
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        os.kill(self.process.pid, signal.SIGWINCH)

    def ends(self):
        deadline = time.monotonic() + limit(10)
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read()
        return self.process.poll()
