"""The device fails once more while the next process image warms up: what was handed over lies there whole, and is taken up by the
image after that one.

The `fault` stage strikes a frame that warms up for each byte in the file that FRAMED_FAULT_WARM_UPS names.
"""

import os
import signal
import sys

import numpy as np
import pytest

from harness import BACKEND, Background, Client, Daemon, limit, numbered, pipeline, read_y4m, wait_until, y4m_stream
from harness import native
from harness.daemon import BINARY
from test_handover_storm import more, open_files
from test_keeper import Keeper, high

SIZE = 4096
FORMAT = {"dtype": "uint8", "shape": [SIZE]}
GRAY = {"pixels": "gray", "width": 64, "height": 64}
STRIKE = {"fault": {"kind": "illegal", "at": 5, "every": 0, "again": "no"}}
NEVER = {"fault": {"kind": "illegal", "at": 1 << 40, "every": 0}}


class Warm(Daemon):
    """A daemon whose next warm-ups can be made to fail."""

    def __init__(self, place, pipelines, faults="60/min", env=None, **keys):
        self.warm_ups = place / "warm-ups"
        self.warm_ups.write_bytes(b"")
        super().__init__(place, pipelines, gpu={"backend": BACKEND, "faults": faults},
                         env={"FRAMED_FAULT_WARM_UPS": str(self.warm_ups), **(env or {})}, **keys)

    def fail_warm_ups(self, count):
        self.warm_ups.write_bytes(bytes(count))

    def wait_faults(self, count):
        wait_until(lambda: self.status()["handovers"]["fault"] == count, lambda: f"{count} faults: {self.last.get('handovers')}\n{self.log}", 30)
        assert self.warm_ups.stat().st_size == 0 and "begins anew" not in self.log
        return self.last["handovers"]


@pytest.mark.parametrize("times", [1, 3])
def test_nobody_notices_but_by_a_pause(place, times):
    with Warm(place, {"cam0": pipeline(FORMAT, slots=3, stages=[STRIKE])}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            daemon.wait_view("both are there", lambda view: view["sessions"] == 1)
            process, files = daemon.process.pid, open_files(daemon)
            daemon.fail_warm_ups(times)
            sending = Background(producer.send, numbered(200, SIZE).tobytes())
            np.testing.assert_array_equal(reader.frames(200, SIZE), numbered(200, SIZE))
            sending.join()
            handovers = daemon.wait_faults(1 + times)
            assert handovers["last"]["cause"] == "fault" and "illegal" in handovers["last"]["text"], handovers
            assert handovers["last"]["gap_ms"] == handovers["longest_ms"] > 0
            assert daemon.log.count("the worker of device 0 failed") == 1 + times and daemon.log.count("has another worker") == 1
            wait_until(lambda: not more(files, open_files(daemon)), lambda: f"nothing leaks: {more(files, open_files(daemon))}")
            assert daemon.process.pid == process
        daemon.account(came=200, emitted=200)


def test_it_may_be_the_second_pipeline(place):
    """The first one is ready by then, with all that it was given."""
    entries = {"cam0": pipeline(FORMAT, slots=2), "cam1": pipeline(FORMAT, slots=2, stages=[STRIKE]), "cam2": pipeline(FORMAT)}
    with Warm(place, entries) as daemon:
        clients = {name: (daemon.reader(name), daemon.producer(name)) for name in entries}
        for first in (0, 10):
            daemon.fail_warm_ups(1 if first == 0 else 0)
            for name, (reader, producer) in clients.items():
                producer.send(numbered(10, SIZE, first=first).tobytes()[:-7])
            for name, (reader, producer) in clients.items():
                np.testing.assert_array_equal(reader.frames(9, SIZE), numbered(9, SIZE, first=first))
                producer.send(numbered(1, SIZE, first=first + 9).tobytes()[-7:])
                np.testing.assert_array_equal(reader.frames(1, SIZE), numbered(1, SIZE, first=first + 9))
        daemon.wait_faults(2)
        for name, (reader, producer) in clients.items():
            producer.close()
            reader.close()
            daemon.account(name, came=20, emitted=20)
        assert all(os.path.exists(daemon.path(name, end)) for name in entries for end in ("source", "sink"))


def test_an_upgrade_goes_on_over_it(place):
    with Warm(place, {"cam0": pipeline(FORMAT, slots=3, stages=[NEVER])}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(10, SIZE).tobytes())
            daemon.fail_warm_ups(2)
            daemon.signal(signal.SIGUSR2)
            daemon.wait_log("everything goes on after")
            handovers = daemon.wait_faults(2)
            assert handovers["upgrade"] == 1, handovers
            producer.send(numbered(10, SIZE, first=10).tobytes())
            np.testing.assert_array_equal(reader.frames(20, SIZE), numbered(20, SIZE))
        daemon.account(came=20, emitted=20)


def test_all_kinds_of_roads_are_taken_up(place):
    """Memory that clients share, a file that is written, a header that was read, and a reader of messages."""
    (place / "in").write_bytes(numbered(300, SIZE).tobytes())
    delay = {"fault": {"kind": "delay", "ms": 1}}
    entries = {
        "shared": pipeline(FORMAT, source={"protocol": "native"}, sink={"reply": True}, slots=3, stages=[NEVER]),
        "file": pipeline(FORMAT, source={"file": str(place / "in")}, sink={"file": str(place / "out")}, slots=3, stages=[delay]),
        "video": pipeline(GRAY, source={"protocol": "y4m"}, sink={"protocol": "y4m"}),
        "message": pipeline(FORMAT, source={"protocol": "native"}, sink={"protocol": "native"}),
        "reply": pipeline(FORMAT, sink={"reply": True}),
    }
    with Warm(place, entries, lanes=2) as daemon:
        video, messages = daemon.reader("video"), native.Native(daemon.path("message", "sink"), native.CONSUMER)
        daemon.wait_view("the reader is attached", lambda view: view["readers"] == 1, "message")
        producer, sender = daemon.producer("video"), native.Native(daemon.path("message", "source"), native.PRODUCER)
        stream = y4m_stream(numbered(20, SIZE), 64, 64)
        shared, asker = native.Shared(daemon.path("shared", "source")), Client(daemon.path("reply", "source"))
        shared.submit(0, numbered(1, SIZE).tobytes(), sequence=0)
        wait_until(lambda: shared.word(4096) > 0, "the first completion")
        producer.send(stream[:5000])
        sender.send_frame(numbered(1, SIZE).tobytes())
        asker.send(numbered(1, SIZE).tobytes())
        daemon.fail_warm_ups(2)
        daemon.signal(signal.SIGUSR2)
        daemon.wait_log("everything goes on after")
        daemon.wait_faults(2)
        shared.submit(1, numbered(1, SIZE, first=1).tobytes(), sequence=1)
        for number in range(2):
            slot, fate, result = shared.completion()
            assert (fate, result.sequence, shared.payload(slot)) == (0, number, numbered(1, SIZE, first=number).tobytes())
            shared.take()
        producer.send(stream[5000:])
        producer.close()
        data = video.read(len(b"YUV4MPEG2 ")) + video.read(1)
        while data[-1:] != b"\n":
            data += video.read(1)
        data += video.read(20 * (SIZE + 6))
        np.testing.assert_array_equal(read_y4m(data, SIZE)[1], numbered(20, SIZE))
        kind, body = messages.message()
        assert kind == native.RESULT and body[80:] == numbered(1, SIZE).tobytes()
        asker.send(numbered(1, SIZE, first=1).tobytes())
        assert asker.read(2 * SIZE) == numbered(2, SIZE).tobytes()
        daemon.account("file", came=300, emitted=300)
        for client in (video, messages, producer, sender, shared, asker):
            client.close()
    assert (place / "out").read_bytes() == numbered(300, SIZE).tobytes()


def test_a_device_that_fails_too_often_is_tried_after_pauses(place):
    with Warm(place, {"cam0": pipeline(FORMAT, slots=3, stages=[STRIKE])}, faults="3/min") as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            daemon.fail_warm_ups(3)
            producer.send(numbered(6, SIZE).tobytes())
            np.testing.assert_array_equal(reader.frames(6, SIZE), numbered(6, SIZE))
        assert daemon.log.count("one more takes its place") == 2, daemon.log
        assert daemon.log.count("another one is started in 1 s, since that was more than 3 times in a minute") == 1, daemon.log
        daemon.account(came=6, emitted=6)


def test_a_stop_meanwhile_finishes_what_is_in_flight(place):
    """It reaches an image that comes to nothing, and is for the next one to obey."""
    delay = {"fault": {"kind": "delay", "ms": 60}}
    with Warm(place, {"cam0": pipeline(FORMAT, slots=4, stages=[delay, NEVER])}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(40, SIZE).tobytes())  # for more than a second
            daemon.wait_view("frames are in flight", lambda view: view["frames"]["in_flight"] >= 4)
            daemon.fail_warm_ups(8)
            daemon.signal(signal.SIGUSR2)
            daemon.wait_log("the worker of device 0 failed")
            daemon.signal(signal.SIGTERM)
            data = reader.rest()
        daemon.ends(0)
        account = daemon.final_account()
        assert account["in"] == account["emitted"] == len(data) // SIZE >= 4, account


def test_a_reload_asked_for_meanwhile_is_done(place):
    """The same: the file has changed since the image that hears of it began."""
    delay = {"fault": {"kind": "delay", "ms": 30}}
    entries = {"cam0": pipeline(FORMAT, slots=4, stages=[delay, NEVER])}
    with Warm(place, entries) as daemon:
        daemon.fail_warm_ups(16)
        daemon.signal(signal.SIGUSR2)
        daemon.wait_log("the worker of device 0 failed")
        daemon.write({**entries, "cam1": pipeline(FORMAT)}, gpu=daemon.config["gpu"])
        daemon.signal(signal.SIGHUP)
        daemon.wait_log("configuration reloaded")
        assert "begins anew" not in daemon.log
        with daemon.reader("cam1") as reader, daemon.producer("cam1") as producer:
            producer.send(numbered(1, SIZE).tobytes())
            np.testing.assert_array_equal(reader.frames(1, SIZE), numbered(1, SIZE))


class Store(Keeper):
    """A service manager that also has what it keeps, for the process after this one."""

    def __init__(self, place):
        self.held = {}
        super().__init__(place, room=100)

    def hear(self, said, descriptors):
        name = said.get("FDNAME")
        if "FDSTORE" in said or "FDSTOREREMOVE" in said:
            before = self.held.pop(name, None)
            if before is not None:
                os.close(before)
        if "FDSTORE" in said:
            self.held[name] = high(os.dup(descriptors[0]))
        super().hear(said, descriptors)

    def take(self):
        held, self.held = self.held, {}
        return held

    @staticmethod
    def activate(place, held):
        """A program that is the daemon, and is passed these descriptors."""
        program = place / "activated"
        program.write_text(f"#!{sys.executable}\nimport os, sys\nfor number, fd in enumerate({list(held.values())}, 3):\n"
                           "    os.dup2(fd, number)\n    os.close(fd)\n"
                           f"os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='{len(held)}', LISTEN_FDNAMES='{':'.join(held)}')\n"
                           f"os.execv('{BINARY}', ['{BINARY}', *sys.argv[1:]])\n")
        program.chmod(0o755)
        return program


@pytest.mark.parametrize("times", [2, 4])
def test_what_a_service_manager_kept_is_taken_up_again_as_well(place, times):
    entries = {"cam0": pipeline(FORMAT, slots=3, stages=[NEVER])}
    with Store(place) as store, Warm(place, entries, env=store.environment) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(numbered(11, SIZE).tobytes()[:-100])
            np.testing.assert_array_equal(reader.frames(10, SIZE), numbered(10, SIZE))
            daemon.wait_view("the rest has begun", lambda view: view["frames"]["in"] == 11)
            daemon.signal(signal.SIGTERM)
            assert daemon.process.wait(limit(20)) == 0
            held = store.take()
            assert any(name.startswith("framed-image-") for name in held), held
            daemon.fail_warm_ups(times)
            daemon.binary, daemon.options["pass_fds"] = store.activate(place, held), held.values()
            daemon.start()
            for fd in held.values():
                os.close(fd)
            daemon.wait_ready()
            handovers = daemon.wait_faults(times)
            assert (handovers["restart"], daemon.log.count("everything goes on after")) == (1, 1), handovers
            producer.send(numbered(11, SIZE).tobytes()[-100:])
            producer.send(numbered(9, SIZE, first=11).tobytes())
            np.testing.assert_array_equal(reader.frames(10, SIZE), numbered(10, SIZE, first=10))
            daemon.account(came=20, emitted=20)
        daemon.leaves_sockets = True
