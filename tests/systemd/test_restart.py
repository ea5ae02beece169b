"""The service restarted and killed under load: what systemd keeps, and what it cannot."""

import hashlib
import os
import pathlib
import signal
import time

import numpy as np

from harness.clients import Producer, Reader
from harness.waiting import Background, wait_until
from service import message_ids, systemctl

RESTARTS = 100 if os.environ.get("FRAMED_SOAK") else 5
SIZE = 64 * 1024
FORMAT = {"dtype": "uint8", "shape": [SIZE]}


def pipeline(name, **sink):
    return {
        "source": {"socket": f"/run/framed/{name}.sock", "format": FORMAT},
        "slots": 3,
        "stages": [{"affine": {"scale": -1, "offset": 255}}],
        "sink": sink or {"socket": f"/run/framed/{name}.out.sock", "overload": "block"},
    }


def frames(count, first=0):
    random = np.random.Generator(np.random.PCG64(first))
    return random.integers(0, 256, (count, SIZE), dtype=np.uint8)


class Flow:
    """A producer and a reader on lasting connections, which carry blocks of frames until stop()."""

    BLOCK = 16

    def __init__(self, name):
        self.reader = Reader(f"/run/framed/{name}.out.sock")
        self.producer = Producer(f"/run/framed/{name}.sock")
        self.wanted, self.got = hashlib.sha256(), hashlib.sha256()
        self.blocks, self.stopped = 0, False
        self.thread = Background(self.run)

    def run(self):
        while not self.stopped:
            block = frames(self.BLOCK, self.blocks)
            sending = Background(self.producer.send, block.tobytes())
            self.wanted.update((255 - block).tobytes())
            self.got.update(self.reader.read(self.BLOCK * SIZE))
            sending.join()
            self.blocks += 1

    def stop(self):
        self.stopped = True
        self.thread.join()
        self.producer.close()
        self.reader.close()
        assert self.got.hexdigest() == self.wanted.hexdigest()
        return self.blocks * self.BLOCK


def test_restarts_under_load_lose_nothing(service):
    service.configure({"cam0": pipeline("cam0")})
    service.start()
    wait_until(lambda: pathlib.Path("/run/framed/cam0.sock").exists(), "the socket is there", 10)
    flow = Flow("cam0")
    for number in range(1, RESTARTS + 1):
        before = flow.blocks
        wait_until(lambda: flow.blocks > before, "frames flow", 20)
        systemctl("reset-failed", "framed.service")  # so many starts a minute are not for a person to make
        systemctl("restart", "framed.service")
        assert service.status()["handovers"]["restart"] == number
    count = flow.stop()
    wait_until(lambda: service.status()["pipelines"]["cam0"]["frames"]["in_flight"] == 0, "all frames have their fate", 20)
    taken = service.status()["pipelines"]["cam0"]["frames"]
    assert taken["in"] == taken["emitted"] == count, taken


def test_a_frame_of_which_only_a_part_has_come_is_kept(service):
    service.configure({"cam0": pipeline("cam0")})
    service.start()
    data = frames(1)
    with Reader("/run/framed/cam0.out.sock") as reader, Producer("/run/framed/cam0.sock") as producer:
        producer.send(data.tobytes()[:1000])
        wait_until(lambda: service.status()["pipelines"]["cam0"]["frames"]["in"] == 1, "it has begun", 10)
        systemctl("restart", "framed.service")
        producer.send(data.tobytes()[1000:])
        np.testing.assert_array_equal(reader.frames(1, (SIZE,)), 255 - data)


def test_whoever_is_replied_to_goes_on(service):
    service.configure({"cam0": pipeline("cam0", reply=True), "cam1": pipeline("cam1")})
    service.start()
    data = frames(4)
    with Producer("/run/framed/cam0.sock") as client, Reader("/run/framed/cam1.out.sock") as reader:
        client.send(data.tobytes()[:SIZE + 1000])
        assert client.read(SIZE) == (255 - data[0]).tobytes()
        wait_until(lambda: service.status()["pipelines"]["cam0"]["frames"]["in"] == 2, "the next one has begun", 10)
        systemctl("restart", "framed.service")
        client.send(data.tobytes()[SIZE + 1000:])
        assert client.read(3 * SIZE) == (255 - data[1:]).tobytes()
        with Producer("/run/framed/cam1.sock") as producer:
            producer.send(data.tobytes())
            np.testing.assert_array_equal(reader.frames(4, (SIZE,)), 255 - data)


def test_a_stop_is_an_end_for_clients(service):
    service.configure({"cam0": pipeline("cam0")})
    service.start()
    with Reader("/run/framed/cam0.out.sock") as reader, Producer("/run/framed/cam0.sock") as producer:
        producer.send(frames(4).tobytes())
        np.testing.assert_array_equal(reader.frames(4, (SIZE,)), 255 - frames(4))
        systemctl("stop", "framed.service")
        assert reader.rest() == b""
    service.start()
    assert service.status()["handovers"]["restart"] == 0
    assert service.status()["pipelines"]["cam0"]["frames"]["in"] == 0


def test_whoever_connects_while_nobody_is_there_waits_for_the_next_process(service):
    service.configure({"cam0": pipeline("cam0")})
    service.start()
    for number in range(1, 4):
        os.kill(service.pid, signal.SIGKILL)
        with Reader("/run/framed/cam0.out.sock") as reader, Producer("/run/framed/cam0.sock") as producer:
            wait_until(lambda: service.show("SubState") == "running" and service.status(), "it runs again", 20)
            wait_until(lambda: service.status()["pipelines"]["cam0"]["readers"] == 1, "the reader is there", 10)
            producer.send(frames(3).tobytes())
            np.testing.assert_array_equal(reader.frames(3, (SIZE,)), 255 - frames(3))
        assert service.status()["handovers"]["crash"] == number
        wait_until(lambda: service.status()["pipelines"]["cam0"]["readers"] == 0, "they have left", 10)


def test_a_pipeline_that_takes_several_protocols_goes_on_too(service):
    entry = pipeline("cam0")
    entry["source"].update(protocol="auto", format={"pixels": "gray", "width": 256, "height": 256})
    service.configure({"cam0": entry})
    service.start()
    with Reader("/run/framed/cam0.out.sock") as reader, Producer("/run/framed/cam0.sock") as producer:
        header = b"YUV4MPEG2 W256 H256 F25:1 Cmono\n"
        producer.send(header + b"FRAME\n" + frames(1).tobytes())
        reader.read(SIZE)
        time.sleep(0.2)
        os.kill(service.pid, signal.SIGKILL)
        wait_until(lambda: service.show("SubState") == "running" and service.status(), "it runs again", 20)
        producer.send(b"FRAME\n" + frames(1).tobytes())
        reader.read(SIZE)
    assert "2 connections go on, 0 were closed" in service.wait_entry("RECOVERED", service.pid)["MESSAGE"]
    assert service.status()["handovers"]["connections_lost"] == 0


def test_a_file_that_a_killed_daemon_wrote_ends_with_a_whole_result(service):
    target = "/var/lib/framed/results"
    service.configure({"cam0": pipeline("cam0", file=target)})
    service.start()
    with Producer("/run/framed/cam0.sock") as producer:
        producer.send(frames(20).tobytes())
        wait_until(lambda: service.status()["pipelines"]["cam0"]["frames"]["emitted"] == 20, "they are written", 20)
    with open(target, "ab") as file:  # as if it had come as far as this
        file.write(b"torn")
    first = service.pid
    os.kill(first, signal.SIGKILL)
    wait_until(lambda: service.pid not in (0, first), "the next one is there", 20)
    service.wait_entry("CUT", service.pid)
    assert os.path.getsize(target) == 20 * SIZE
    np.testing.assert_array_equal(np.fromfile(target, np.uint8).reshape(-1, SIZE), 255 - frames(20))


def test_descriptors_do_not_pile_up_in_the_store(service):
    service.configure({"cam0": pipeline("cam0")})
    service.start()
    before = int(service.show("NFileDescriptorStore"))
    with Reader("/run/framed/cam0.out.sock"), Producer("/run/framed/cam0.sock"):
        for _ in range(3):
            systemctl("restart", "framed.service")
    wait_until(lambda: int(service.show("NFileDescriptorStore")) == before, "nothing is kept but what was", 10)
    assert message_ids()["LEFT"]


def test_an_upgrade_is_no_restart_for_systemd(service):
    service.configure({"cam0": pipeline("cam0")})
    service.start()
    pid, flow = service.pid, Flow("cam0")
    for number in range(1, 4):
        before = flow.blocks
        wait_until(lambda: flow.blocks > before, "frames flow", 20)
        os.kill(pid, signal.SIGUSR2)
        wait_until(lambda: service.status()["handovers"]["upgrade"] == number, "it has taken over", 20)
    flow.stop()
    assert service.pid == pid and service.show("NRestarts") == "0" and service.show("ActiveState") == "active"
    # systemd keeps the new image's descriptors for a crash, and an orderly restart works as before.
    systemctl("restart", "framed.service")
    assert service.status()["handovers"]["upgrade"] == 3 and service.status()["handovers"]["restart"] == 1
    os.kill(service.pid, signal.SIGKILL)
    service.wait_entry("RECOVERED")
    assert service.status()["handovers"]["crash"] == 1


def test_a_restart_puts_a_changed_file_in_force(service):
    service.configure({"cam0": pipeline("cam0")})
    service.start()
    with Reader("/run/framed/cam0.out.sock") as reader, Producer("/run/framed/cam0.sock") as producer:
        service.configure({"cam0": pipeline("cam0"), "cam1": pipeline("cam1")})
        systemctl("restart", "framed.service")
        wait_until(lambda: "cam1" in service.status()["pipelines"], "the new pipeline is there", 10)
        producer.send(frames(3).tobytes())
        np.testing.assert_array_equal(reader.frames(3, (SIZE,)), 255 - frames(3))
        service.configure({"cam0": pipeline("cam0")}, lanes=3)  # cannot change while connections stay
        systemctl("restart", "framed.service")
        assert reader.rest() == b""
    assert service.status()["lanes"] == 3 and list(service.status()["pipelines"]) == ["cam0"]
    assert "lanes" in service.wait_entry("NOT_HANDED_OVER", service.pid)["MESSAGE"]
