"""Kills of the service, with clients that do not use libframed: what must survive, and what must never happen."""

import os
import signal
import time

import numpy as np
import pytest

from harness.clients import Producer, Reader
from harness.waiting import Background, wait_until
from service import systemctl
from test_restart import frames, pipeline
from test_resume import GRAY, INVERT, finish
from test_resume import start as start_client

KILLS = 200 if os.environ.get("FRAMED_SOAK") else 5
MOST_GAP = 1.0  # seconds; checked only in the long run


def kill(service):
    """Returns once the next process serves."""
    before = service.status()["handovers"]["crash"]
    systemctl("reset-failed", "framed.service")  # so many starts a minute are not for a person to make
    os.kill(service.pid, signal.SIGKILL)
    wait_until(lambda: served(service) > before, "it serves again", 20)


def came_and_went(service):
    frames = service.status()["pipelines"]["cam0"]["frames"]
    return frames["in"], frames["emitted"]


def served(service):
    try:
        return service.status()["handovers"]["crash"]
    except (OSError, AssertionError):
        return -1


def test_connections_that_stand_still_go_on_where_they_were(service):
    size = 64 * 1024
    data = frames(20)
    service.configure({"cam0": pipeline("cam0")})
    service.start()
    with Reader("/run/framed/cam0.out.sock") as reader, Producer("/run/framed/cam0.sock") as producer:
        sent = 0
        for number in range(1, 6):
            producer.send(data.tobytes()[sent:sent + 3 * size + 1000 * number])
            sent += 3 * size + 1000 * number
            whole = sent // size
            np.testing.assert_array_equal(reader.frames(whole - (number - 1) * 3, (size,)), 255 - data[(number - 1) * 3:whole])
            producer.wait_read()
            wait_until(lambda: came_and_went(service) == (whole + 1, whole), "a part waits, and all else has gone")
            kill(service)
        handovers = service.status()["handovers"]
        assert handovers["crash"] == 5 and handovers["connections_lost"] == 0, handovers
        taken = service.status()["pipelines"]["cam0"]["frames"]
        assert taken["in"] == 16 and taken["emitted"] == 15, taken


def kill_twice(service):
    """Kills the next process, too. Returns whether that was before it had taken over, which leaves no trace."""
    systemctl("reset-failed", "framed.service")
    first, crashes = service.pid, served(service)
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: service.pid not in (0, first), "the next one is there", 20)
    second = service.pid
    os.kill(second, signal.SIGKILL)
    wait_until(lambda: service.pid not in (0, second) and served(service) > crashes, "it serves again", 20)
    return served(service) == crashes + 1


def test_a_kill_during_the_start_after_a_kill_costs_nothing(service):
    size, early = 64 * 1024, 0
    data = frames(2)
    service.configure({"cam0": pipeline("cam0")})
    service.drop_in("[Service]\nCPUQuota=10%\n")  # so that a start takes a while
    service.start()
    for turn in range(40):
        if turn >= 8 and early > 0:
            break
        lost = service.status()["handovers"]["connections_lost"]
        with Reader("/run/framed/cam0.out.sock") as reader, Producer("/run/framed/cam0.sock") as producer:
            producer.send(data.tobytes()[:size + 1000])
            np.testing.assert_array_equal(reader.frames(1, (size,)), 255 - data[:1])
            wait_until(lambda: service.status()["pipelines"]["cam0"]["frames"]["in_flight"] == 1, "a part waits", 10)
            if kill_twice(service):
                early += 1
                producer.send(data.tobytes()[size + 1000:])
                np.testing.assert_array_equal(reader.frames(1, (size,)), 255 - data[1:])
                assert service.status()["handovers"]["connections_lost"] == lost
    assert early > 0


def test_results_that_nobody_took_yet_are_still_there(service):
    size = 64 * 1024
    data = frames(3)
    service.configure({"cam0": pipeline("cam0")})
    service.start()
    with Producer("/run/framed/cam0.sock") as producer:
        producer.send(data.tobytes())
        producer.wait_read()
        wait_until(lambda: came_and_went(service) == (3, 0), "they came")
        wait_until(lambda: service.status()["pipelines"]["cam0"]["waiting"] == "reader", "they wait")
        kill(service)
        with Reader("/run/framed/cam0.out.sock") as reader:
            np.testing.assert_array_equal(reader.frames(3, (size,)), 255 - data)
            producer.send(data.tobytes())
            np.testing.assert_array_equal(reader.frames(3, (size,)), 255 - data)


def test_a_file_goes_on_without_a_gap(service):
    size = 64 * 1024
    data = frames(30)
    target = "/var/lib/framed/goes-on"
    service.configure({"cam0": pipeline("cam0", file=target)})
    service.start()
    with Producer("/run/framed/cam0.sock") as producer:
        for number in range(1, 4):
            producer.send(data.tobytes()[(number - 1) * 10 * size:number * 10 * size])
            wait_until(lambda: service.status()["pipelines"]["cam0"]["frames"]["emitted"] == 10 * number, "they are written", 20)
            kill(service)
            assert os.path.getsize(target) == number * 10 * size
        assert service.status()["handovers"]["connections_lost"] == 0
    np.testing.assert_array_equal(np.fromfile(target, np.uint8).reshape(-1, size), 255 - data)


# -- under load ---------------------------------------------------------------------------------------------------------


def numbered(number, size):
    """A frame that says which it is, in each of its bytes but for the first eight."""
    frame = np.full(size, number % 251, np.uint8)
    frame[:8] = np.frombuffer(number.to_bytes(8, "little"), np.uint8)
    return frame


class Camera:
    """Sends numbered frames as fast as they are taken, and connects again when it is cut off."""

    def __init__(self, size):
        self.size, self.sent, self.connections, self.stopped = size, 0, 0, False
        self.thread = Background(self.run)

    def run(self):
        while not self.stopped:
            self.connections += 1
            try:
                with Producer("/run/framed/cam0.sock") as producer:
                    while not self.stopped:
                        frame = numbered(self.sent, self.size)
                        self.sent += 1
                        producer.send(frame.tobytes())
            except OSError:
                pass


class Viewer:
    """Takes results and looks at every byte of every whole one. On one connection none comes twice; what a connection that was
    cut off had taken of the last ones is not known, and so the next one gets them again."""

    def __init__(self, size):
        self.size, self.got, self.connections, self.stopped = size, 0, 0, False
        self.last, self.highest, self.again = -1, -1, 0
        self.bad = ""
        self.thread = Background(self.run)

    def run(self):
        while not self.stopped and not self.bad:
            self.connections += 1
            self.last = -1
            try:
                with Reader("/run/framed/cam0.out.sock") as reader:
                    while not self.stopped and not self.bad:
                        self.look(reader.read(self.size))
            except (OSError, EOFError):
                pass

    def look(self, data):
        frame = 255 - np.frombuffer(data, np.uint8)
        number = int.from_bytes(frame[:8].tobytes(), "little")
        if not np.array_equal(frame, numbered(number, self.size)):
            self.bad = f"shifted after {self.last}: {frame[:16]}"
        if number <= self.last:
            self.bad = f"{number} after {self.last}"
        self.again += number <= self.highest
        self.last, self.highest = number, max(number, self.highest)
        self.got += 1


class Load:
    """A camera and a viewer, which end with the test."""

    def __init__(self, size):
        self.viewer, self.camera = Viewer(size), Camera(size)

    def __enter__(self):
        return self

    def __exit__(self, kind, *error):
        self.camera.stopped = self.viewer.stopped = True
        systemctl("stop", "framed.service")
        self.camera.thread.join()
        self.viewer.thread.join()


@pytest.mark.parametrize("size", [4096, 64 * 1024, 4 * 1024 * 1024])
def test_no_frame_is_ever_shifted_under_load(service, size):
    entry = pipeline("cam0")
    entry["source"]["format"] = {"dtype": "uint8", "shape": [size]}
    service.configure({"cam0": entry})
    service.start()
    wait_until(lambda: os.path.exists("/run/framed/cam0.sock"), "the socket is there", 10)
    gaps = []
    with Load(size) as load:
        viewer, camera = load.viewer, load.camera
        for number in range(KILLS):
            before = viewer.got
            wait_until(lambda: viewer.got > before + 2 or viewer.bad, "frames flow", 30)
            assert not viewer.bad, viewer.bad
            time.sleep(0.001 * (number * 37 % 50))
            kill(service)
            gaps.append(service.status()["handovers"]["last"]["gap_ms"] / 1e3)
        handovers = service.status()["handovers"]
        camera.stopped = True
        camera.thread.join()
        wait_until(lambda: service.status()["pipelines"]["cam0"]["frames"]["in_flight"] == 0, "all have their fate", 20)
    assert not viewer.bad, viewer.bad
    gaps.sort()
    print(f"\n{KILLS} kills, frames of {size} bytes: {camera.sent} sent, {viewer.got} results, {camera.connections} and "
          f"{viewer.connections} connections, {viewer.again} results taken again; gap {gaps[len(gaps) // 2]:.3f} s median, "
          f"{gaps[len(gaps) * 99 // 100]:.3f} s p99")
    assert handovers["crash"] == KILLS
    assert handovers["connections_lost"] <= camera.connections + viewer.connections
    if KILLS >= 200:
        assert gaps[KILLS * 99 // 100] <= MOST_GAP


@pytest.mark.parametrize("transport", ["stream", "shared"])
@pytest.mark.parametrize("replies", [True, False])
def test_users_of_libframed_see_a_pause_under_load(service, replies, transport):
    """They come back by themselves, and know what to send again."""
    sink = {"reply": True} if replies else {"socket": "/run/framed/cam0.out.sock", "overload": "block"}
    service.configure({"cam0": {"source": {"socket": "/run/framed/cam0.sock", "format": GRAY, "protocol": "native"}, "slots": 3,
                                "stages": [INVERT], "sink": {**sink, "protocol": "native"}}})
    service.start()
    if replies:
        clients = [start_client("/run/framed/cam0.sock", "both", transport, "sleep")]
    else:
        consumer = start_client("/run/framed/cam0.out.sock", "consumer", "stream", "sleep")
        wait_until(lambda: service.status()["pipelines"]["cam0"]["readers"] == 1, "the consumer is there", 20)
        clients = [start_client("/run/framed/cam0.sock", "producer", transport, "sleep"), consumer]
    for number in range(KILLS):
        wait_until(lambda: service.status()["pipelines"]["cam0"]["frames"]["emitted"] > number * 37 % 200, "frames flow", 30)
        kill(service)
    clients[0].terminate()
    answers = [finish(client) for client in clients]
    print(f"\n{KILLS} kills, {transport}: {answers[0]['sent']} sent, {answers[-1]['results']} results")
    for answer in answers:
        assert answer["status"] == 0 and "code 0: " in answer["said"], answer["said"]
        assert (answer["wrong"], answer["out_of_order"], answer["dropped"]) == (0, 0, 0), answer["said"]
    assert answers[-1]["results"] == answers[0]["sent"] > 0
