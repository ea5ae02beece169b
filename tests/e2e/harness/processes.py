"""Functions run in processes of their own: as somebody else, side by side, or until they are killed."""

import multiprocessing
import os

from harness.waiting import limit

NOBODY = 65534
FORK = multiprocessing.get_context("fork")


class Forked:
    """Runs a function in a forked process; join() gives its result or raises what it raised, kill() ends it at once."""

    def __init__(self, function, *arguments):
        self.here, there = FORK.Pipe(duplex=False)
        self.process = FORK.Process(target=self._run, args=(there, function, arguments), daemon=True)
        self.process.start()
        there.close()

    @staticmethod
    def _run(there, function, arguments):
        try:
            there.send((function(*arguments), None))
        except BaseException as error:  # handed over to whoever joins
            there.send((None, error))

    @property
    def done(self):
        return not self.process.is_alive()

    def join(self, seconds=30):
        if not self.here.poll(limit(seconds)):
            raise TimeoutError(f"a process goes on after {limit(seconds):g} s")
        result, error = self.here.recv()
        self.process.join()
        if error is not None:
            raise error
        return result

    def kill(self):
        self.process.kill()
        self.process.join()


def _become_nobody(function, *arguments):
    os.setgroups([])
    os.setgid(NOBODY)
    os.setuid(NOBODY)
    return function(*arguments)


def as_nobody(function, *arguments):
    """What a function gives in a process of the user nobody; for root alone."""
    return Forked(_become_nobody, function, *arguments).join()
