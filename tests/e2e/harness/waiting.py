"""Deadlines instead of sleeps, and threads whose errors are not lost."""

import math
import os
import pathlib
import threading
import time

SLOW = float(os.environ.get("FRAMED_SLOW", "1"))


def limit(seconds):
    """A deadline for something that takes far less on a healthy machine."""
    return seconds * SLOW


def pace(seconds):
    """A time that passes in any case, or that the daemon has to hold: longer where everything is slow, but not so much as a
    deadline, which costs nothing where it is met."""
    return seconds * math.sqrt(SLOW)


def wait_until(condition, what, seconds=15):
    """Polls until `condition()` is true and returns what it gave; `what` says what did not happen."""
    end = time.monotonic() + limit(seconds)
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() >= end:
            raise TimeoutError(f"not within {limit(seconds):g} s: {what() if callable(what) else what}")
        time.sleep(0.005)


def thread_states(*processes):
    """What the kernel says of each of their threads, but of this one. Nothing if one ended meanwhile."""
    tasks = [task for pid in processes for task in pathlib.Path(f"/proc/{pid}/task").iterdir()]
    try:
        return {(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks
                if int(task.name) != threading.get_native_id()}
    except OSError:
        return set()


class Background:
    """Runs a function on a thread; join() gives its result or raises its error."""

    def __init__(self, function, *arguments):
        self.function, self.arguments = function, arguments
        self.result = self.error = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()

    def _run(self):
        try:
            self.result = self.function(*self.arguments)
        except BaseException as error:  # handed over to whoever joins
            self.error = error

    @property
    def done(self):
        return not self.thread.is_alive()

    def join(self, seconds=30):
        self.thread.join(limit(seconds))
        if self.thread.is_alive():
            raise TimeoutError(f"{self.function.__name__} goes on after {limit(seconds):g} s")
        if self.error is not None:
            raise self.error
        return self.result
