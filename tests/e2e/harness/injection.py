"""The daemon with one of its calls made to fail, by tests/injection/fail_call.c.

FRAMED_FAIL_CALL   the built library (default: build/check/tests/fail-call.so)
"""

import errno
import http.client
import mmap
import os
import pathlib
import sys

from harness.daemon import ROOT, Daemon
from harness.waiting import wait_until

LIBRARY = pathlib.Path(os.environ.get("FRAMED_FAIL_CALL", ROOT / "build/check/tests/fail-call.so")).absolute()
SHORT = 0  # instead of an errno: half of the bytes,
KILL = -1  # or SIGKILL,
KILL_AFTER = -2  # once bytes were moved,
REST = -3  # or the thread rests for `wait` ms then, or before a call that moves none
REST_EACH = -4  # the same at every call from that one on
UNTIL_TOLD = -1  # ms: until go_on()
MOST_SITES = 1 << 16
OUTCOMES = {SHORT: "half the bytes", KILL: "SIGKILL", KILL_AFTER: "SIGKILL after it", REST: "a rest",
            REST_EACH: "rests from then on"}


class Injection:
    """Call number `at` of those named `call` fails with `error`; 0: none does, and the calls are counted."""

    def __init__(self, place, call, at=0, error=errno.EIO, libraries=False, wait=0):
        self.call, self.at, self.error, self.libraries = call, at, error, libraries
        self.file = place / "calls"
        with open(self.file, "wb") as file:
            file.truncate(16 + 4 * MOST_SITES)
        self.environment = {
            "LD_PRELOAD": str(LIBRARY), "FAIL_CALL": call, "FAIL_AT": str(at), "FAIL_ERRNO": str(error),
            "FAIL_WHOSE": "libraries" if libraries else "program", "FAIL_REPORT": str(self.file), "FAIL_WAIT": str(wait),
            "ASAN_OPTIONS": "detect_leaks=1:exitcode=99:verify_asan_link_order=0",
        }

    def __str__(self):
        return f"{self.call} number {self.at} with {OUTCOMES.get(self.error) or errno.errorcode[self.error]}"

    def go_on(self):
        """Whoever rests until told does so no more, and never will."""
        with open(self.file, "r+b") as file:
            file.seek(8)
            file.write((1).to_bytes(8, sys.byteorder))

    def report(self):
        with open(self.file, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as bytes_:
            return memoryview(bytes_[:]).cast("Q")[0], memoryview(bytes_[16:]).cast("I")

    @property
    def count(self):
        """How many calls there were."""
        return self.report()[0]

    @property
    def happened(self):
        return 0 < self.at <= self.count

    def site(self):
        """Where in the program the call was made, for addr2line."""
        count, sites = self.report()
        return hex(sites[self.at - 1]) if 0 < self.at <= min(count, MOST_SITES) else "nowhere"

    def firsts(self, after=0):
        """Of every place in the code, the number of its first call after so many, in the order of the numbers."""
        count, sites = self.report()
        seen = {}
        for number in range(after, min(count, MOST_SITES)):
            seen.setdefault(sites[number], number + 1)
        return sorted(seen.values())


class Injected(Daemon):
    """A daemon whose answer may be what fails: then it is asked again. It may also end before it is ready."""

    def __init__(self, place, pipelines, injection, **keys):
        self.injection = injection
        super().__init__(place, pipelines, env=injection.environment, ready=False, **keys)
        self.leaves_sockets = injection.call in ("unlink", "lstat")

    def request(self, method, path, body=None):
        before = self.injection.happened
        try:
            code, answer = super().request(method, path, body)
            if code < 500 or before:
                return code, answer
        except (OSError, http.client.HTTPException):
            if before or not self.injection.happened:
                raise
        return super().request(method, path, body)

    def starts(self):
        """Whether it has become ready, with every pipeline that had to wait; it has ended otherwise."""
        def answers():
            if self.process.poll() is not None:
                return True
            try:
                return all(entry["state"] != "waiting" for entry in self.status()["pipelines"].values())
            except (FileNotFoundError, ConnectionRefusedError):
                return False
            except OSError:
                return self.process.poll() is not None
        wait_until(answers, lambda: f"it answers or ends; log:\n{self.log}", 30)
        return self.process.poll() is None
