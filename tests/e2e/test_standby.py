"""A worker that stands by takes the place of one that ends, and another one stands by after that."""

import os
import pathlib
import signal

import pytest

from harness import BACKEND, Daemon, numbered, pipeline, wait_until

pytestmark = pytest.mark.skipif(BACKEND != "cpu", reason="counts the workers of the CPU backend")

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def workers(daemon):
    """The oldest first."""
    tasks = pathlib.Path(f"/proc/{daemon.process.pid}/task").iterdir()
    found = []
    for task in tasks:
        try:
            found += [int(child) for child in (task / "children").read_text().split()]
        except OSError:
            pass  # a set-up thread that has ended
    return sorted(found)


def wait_for_two(daemon):
    return wait_until(lambda: len(workers(daemon)) == 2 and workers(daemon), "one serves, and one stands by")


def pass_frames(producer, reader, first):
    producer.send(numbered(5, SIZE, first=first).tobytes())
    assert reader.read(5 * SIZE) == numbered(5, SIZE, first=first).tobytes()


@pytest.mark.parametrize("standby", ["warm", "bare"])
def test_it_takes_over_again_and_again(place, standby):
    entry = pipeline(FORMAT, stages=["affine"])
    with Daemon(place, {"cam0": entry}, gpu={"backend": BACKEND, "standby": standby}) as daemon:
        with daemon.producer() as producer, daemon.reader() as reader:
            for round in range(3):
                pass_frames(producer, reader, 10 * round)
                serves, stands_by = wait_for_two(daemon)
                os.kill(serves, signal.SIGKILL)
                wait_until(lambda: daemon.log.count("device 0 has another worker") == round + 1, "it is replaced")
                assert stands_by in workers(daemon) and serves not in workers(daemon)
                pass_frames(producer, reader, 10 * round + 5)


def test_its_own_end_costs_nothing(place):
    with Daemon(place, {"cam0": pipeline(FORMAT)}, gpu={"backend": BACKEND, "standby": "warm"}) as daemon:
        with daemon.producer() as producer, daemon.reader() as reader:
            serves, stands_by = wait_for_two(daemon)
            os.kill(stands_by, signal.SIGKILL)
            wait_until(lambda: stands_by not in workers(daemon), "it has ended")
            wait_for_two(daemon)
            os.kill(serves, signal.SIGKILL)
            pass_frames(producer, reader, 0)
            assert daemon.status()["handovers"]["fault"] == 1


def test_a_reload_takes_it_and_gives_it(place):
    entries = {"cam0": pipeline(FORMAT)}
    with Daemon(place, entries, gpu={"backend": BACKEND}) as daemon:
        [serves] = workers(daemon)
        daemon.write(entries, gpu={"backend": BACKEND, "standby": "bare"})
        daemon.command("/v1/reload")
        wait_for_two(daemon)
        daemon.write(entries, gpu={"backend": BACKEND, "standby": "off"})
        daemon.command("/v1/reload")
        wait_until(lambda: workers(daemon) == [serves], "it has gone")
