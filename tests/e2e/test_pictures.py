"""Pictures: what goes through a pipeline, as JPEG files, at no cost for those who do not look."""

import json
import signal
import socket
import threading
import time

import numpy as np
import pytest

from harness import Daemon, pipeline

GRAY = {"pixels": "gray", "width": 64, "height": 48}
SIZE = 64 * 48


def size_of(file):
    """Width and height of a JPEG file: they stand in its frame header."""
    assert file[:3] == b"\xff\xd8\xff" and file[-2:] == b"\xff\xd9"
    at = 2
    while file[at + 1] not in (0xC0, 0xC1, 0xC2):
        at += 2 + int.from_bytes(file[at + 2:at + 4], "big")
    return int.from_bytes(file[at + 7:at + 9], "big"), int.from_bytes(file[at + 5:at + 7], "big")


def picture(daemon, path):
    status, body = daemon.request("GET", f"/v1/pipelines/{path}")
    return size_of(body) if status == 200 else (status, json.loads(body)["error"])


class Camera:
    """Sends a frame every now and then until it is left, and reads what comes back."""

    def __init__(self, daemon, name="cam0", size=SIZE):
        self.daemon, self.name, self.size = daemon, name, size
        self.over = threading.Event()

    def __enter__(self):
        self.reader = self.daemon.reader(self.name)
        self.producer = self.daemon.producer(self.name)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()
        return self

    def run(self):
        count = 0
        while not self.over.is_set():
            self.producer.send(np.full(self.size, count % 256, np.uint8).tobytes())
            self.reader.frames(1, self.size)
            count += 1
            time.sleep(0.005)

    def __exit__(self, kind, error, trace):
        self.over.set()
        self.thread.join()
        self.producer.close()
        self.reader.close()


def test_both_sides_of_a_pipeline_are_shown(place):
    stages = [{"resize": {"width": 32, "height": 24}}, {"resize": {"width": 64, "height": 48}}]
    with Daemon(place, {"cam0": pipeline(GRAY, stages=stages)}) as daemon, Camera(daemon):
        assert picture(daemon, "cam0/in.jpg") == (64, 48)
        assert picture(daemon, "cam0/out.jpg?width=16") == (16, 12)
        assert picture(daemon, "cam0/out.jpg?width=0") == (64, 48)


def test_viewers_share_a_frame_and_lose_none(place):
    with Daemon(place, {"cam0": pipeline(GRAY)}) as daemon:
        answers = []
        with Camera(daemon):
            viewers = [threading.Thread(target=lambda: answers.append(picture(daemon, "cam0/in.jpg"))) for _ in range(8)]
            for viewer in viewers:
                viewer.start()
            for viewer in viewers:
                viewer.join()
        assert answers == [(64, 48)] * 8
        view = daemon.wait_view("all settled", lambda view: view["frames"]["in_flight"] == 0)
        assert view["frames"]["in"] == view["frames"]["emitted"]


def test_what_cannot_be_shown_is_said(place):
    pipelines = {"cam0": pipeline(GRAY), "row": pipeline({"dtype": "uint8", "shape": [SIZE]})}
    with Daemon(place, pipelines) as daemon:
        assert daemon.request("GET", "/v1/pipelines/cam0/in.jpg") == (204, b"")  # which no browser complains of
        assert picture(daemon, "cam1/in.jpg") == (404, "there is no such pipeline, or no such producer of it")
        assert picture(daemon, "cam0/in.jpg?client=1") == (404, "there is no such pipeline, or no such producer of it")
        assert picture(daemon, "row/in.jpg") == (404, "its frames are no pictures: a tensor needs two dimensions of at least 2")


def test_viewers_are_answered_when_the_pipeline_goes(place):
    with Daemon(place, {"cam0": pipeline(GRAY), "cam1": pipeline(GRAY)}) as daemon:
        answers = []
        viewer = threading.Thread(target=lambda: answers.append(picture(daemon, "cam1/in.jpg")))
        viewer.start()
        daemon.write({"cam0": pipeline(GRAY)})
        assert daemon.post("/v1/reload")
        viewer.join()
        assert answers[0][0] in (404, 503)


class Viewer:
    """Watches a live view."""

    def __init__(self, daemon, path="cam0/live?side=in"):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(30)
        self.socket.connect(str(daemon.socket))
        self.socket.sendall(f"GET /v1/pipelines/{path} HTTP/1.0\r\n\r\n".encode())
        self.file = self.socket.makefile("rb")

    def head(self):
        return b"".join(iter(self.file.readline, b"\r\n")).decode()

    def picture(self):
        assert self.file.readline() == b"--frame\r\n"
        length = next(int(line.split(":")[1]) for line in self.head().splitlines() if line.startswith("Content-Length"))
        file = self.file.read(length)
        assert self.file.readline() == b"\r\n"
        return file

    def close(self):
        self.file.close()
        self.socket.close()


def test_a_live_view_goes_on_while_it_is_watched(place):
    with Daemon(place, {"cam0": pipeline(GRAY)}) as daemon:
        viewer = Viewer(daemon)  # before there is a frame
        with Camera(daemon):
            assert "multipart/x-mixed-replace; boundary=frame" in viewer.head()
            begun = time.monotonic()
            pictures = [viewer.picture() for _ in range(6)]
            assert time.monotonic() - begun >= 0.9  # five a second
            assert all(size_of(each) == (64, 48) for each in pictures)
            assert len(set(pictures)) > 1
            narrow = Viewer(daemon, "cam0/live?width=16")
            narrow.head()
            assert size_of(narrow.picture()) == (16, 12)
            narrow.close()
        viewer.close()
        view = daemon.wait_view("all settled", lambda view: view["frames"]["in_flight"] == 0)
        assert view["frames"]["in"] == view["frames"]["emitted"]


def test_viewers_are_limited_and_none_that_does_not_read_costs_a_frame(place):
    with Daemon(place, {"cam0": pipeline(GRAY)}) as daemon, Camera(daemon):
        viewers = [Viewer(daemon) for _ in range(25)]
        for viewer in viewers:
            assert viewer.head().startswith("HTTP/1.1 200")
        late = Viewer(daemon)
        assert late.head().startswith("HTTP/1.1 503")
        assert b"25 viewers watch already" in late.file.read()
        late.close()
        before = daemon.view()["frames"]["emitted"]
        daemon.wait_view("frames still come", lambda view: view["frames"]["emitted"] > before + 50)
        assert picture(daemon, "cam0/in.jpg") == (64, 48)
        for viewer in viewers:
            viewer.close()
        for _ in range(600):
            again = Viewer(daemon)
            if again.head().startswith("HTTP/1.1 200"):
                break
            again.close()
            time.sleep(0.05)
        else:
            pytest.fail("viewers that left kept their places")
        again.picture()
        again.close()
        assert sum(daemon.view()["frames"]["dropped"].values()) == 0


def test_a_live_view_ends_with_its_pipeline_and_with_the_daemon(place):
    with Daemon(place, {"cam0": pipeline(GRAY), "cam1": pipeline(GRAY)}) as daemon:
        with Camera(daemon, "cam1"):
            viewer = Viewer(daemon, "cam1/live")
            viewer.head()
            viewer.picture()
        daemon.write({"cam0": pipeline(GRAY)})
        assert daemon.post("/v1/reload")
        viewer.file.read()  # to its end
        viewer.close()
        assert picture(daemon, "cam1/live") == (404, "there is no such pipeline, or no such producer of it")
        with Camera(daemon):
            last = Viewer(daemon)
            last.head()
            last.picture()
        daemon.signal(signal.SIGTERM)
        last.file.read()
        last.close()
        daemon.ends()
