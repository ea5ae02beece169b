"""Processes that share the tests of a run: one collects them, and copies of it each take the next that none has begun."""

import multiprocessing
from multiprocessing.connection import wait

from _pytest.runner import runtestprotocol


def run(session, number):
    """Runs the tests in that many copies of this process, and reports in this one. What a copy dies of fails the run."""
    fork = multiprocessing.get_context("fork")
    begun, copies, hook = fork.Value("i", 0), {}, session.config.hook
    for _ in range(number):
        here, there = fork.Pipe(duplex=False)
        copies[here] = fork.Process(target=take_tests, args=(session, begun, there))
        copies[here].start()
        there.close()  # or its end would not show
    died = []
    while copies:
        for pipe in wait(list(copies)):
            try:
                hook.pytest_runtest_logreport(report=hook.pytest_report_from_serializable(config=session.config, data=pipe.recv()))
            except EOFError:
                copies[pipe].join()
                died += [copies[pipe].exitcode] if copies[pipe].exitcode else []
                del copies[pipe]
    if died:
        raise RuntimeError(f"of the processes that ran tests some died, with {died}")


def take_tests(session, begun, pipe):
    def take():
        with begun.get_lock():
            begun.value += 1
            return session.items[begun.value - 1] if begun.value <= len(session.items) else None
    item = take()
    while item:
        following = take()  # what both share stays set up
        for report in runtestprotocol(item, nextitem=following, log=False):
            pipe.send(session.config.hook.pytest_report_to_serializable(config=session.config, report=report))
        item = following
