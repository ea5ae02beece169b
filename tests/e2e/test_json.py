"""Results as lines of JSON: each line is one result, whole, with the numbers that other readers get as a tensor."""

import contextlib
import itertools
import json
import signal
import subprocess

import numpy as np
import pytest

from harness import (FRAMECTL, Background, Daemon, complete, environment, limit, numbered, pipeline, run_framed, whole,
                     y4m_stream)
from harness.native import PRODUCER, Native
from harness.store import leave, settle, start

WIDTH, HEIGHT = 64, 48
BYTES = WIDTH * HEIGHT
GRAY = {"pixels": "gray", "width": WIDTH, "height": HEIGHT}
MOTION = {"motion": {"output": "boxes", "cell": 8, "boxes": 4}}


def json_pipeline(*stages, sink=None, **keys):
    return pipeline(GRAY, stages=stages or ["stats"], sink={"protocol": "json", **(sink or {})}, **keys)


def lines_of(data):
    """Every line as a document; what stands behind the last newline is no line."""
    assert not data or data.endswith(b"\n"), f"the last line is torn: {data[-80:]}"
    return [json.loads(line) for line in data.decode().splitlines()]


def take(reader, count):
    """The next `count` lines of a connection."""
    lines = b""
    while lines.count(b"\n") < count:
        part = reader.socket.recv(1 << 16)
        assert part, f"the stream ended before {count} lines: {lines[-80:]}"
        lines += part
    return lines_of(lines)


def require_stats(document, frame):
    """What numpy finds in the frame."""
    stats = document["stats"]
    assert (stats["minimum"], stats["maximum"], stats["counted"]) == (frame.min(), frame.max(), 1)
    assert np.float32(stats["mean"]) == np.float32(frame.mean(dtype=np.float64))
    shares = np.bincount(frame.ravel(), minlength=256) / frame.size
    np.testing.assert_array_equal(np.float32(stats["histogram"]), shares.astype(np.float32))


def require_stream(documents, frames, first=0):
    assert [document["sequence"] for document in documents] == list(range(first, first + len(documents)))
    for document, frame in zip(documents, frames, strict=True):
        assert document["pipeline"] == "cam0"
        require_stats(document, frame)


def test_stats_are_those_of_numpy(place):
    frames = numbered(20, BYTES)
    with Daemon(place, {"cam0": json_pipeline()}) as daemon:
        with daemon.reader() as one, daemon.reader() as other, daemon.producer() as producer:
            producer.send(frames.tobytes())
            documents = take(one, 20)
            assert take(other, 20) == documents
        daemon.account(came=20, emitted=20)
    require_stream(documents, frames)
    times = [document["timestamp_ns"] for document in documents]
    assert times == sorted(times) and times[0] > 0


def test_motion_says_where(place):
    """A square that jumps over a still picture."""
    still = np.zeros((HEIGHT, WIDTH), np.uint8)
    moved = still.copy()
    moved[16:24, 8:32] = 200
    with Daemon(place, {"cam0": json_pipeline(MOTION)}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(still.tobytes() + moved.tobytes())
            first, second = take(reader, 2)
        daemon.account(came=2, emitted=2)
    assert first["motion"] == {"groups": 0, "changed": 0, "boxes": []}
    assert second["motion"] == {"groups": 1, "changed": 0.0625,
                                "boxes": [{"x": 8, "y": 16, "width": 24, "height": 8, "pixels": 192}]}


# -- numbers of frames -------------------------------------------------------------------------------------------------


def test_each_producer_of_y4m_counts_from_0(place):
    frames = numbered(3, BYTES)
    with Daemon(place, {"cam0": json_pipeline(source={"protocol": "y4m"})}) as daemon:
        with daemon.reader() as reader:
            for _ in range(2):
                with daemon.producer() as producer:
                    producer.send(y4m_stream(frames, WIDTH, HEIGHT))
                    require_stream(take(reader, 3), frames)
        daemon.account(came=6, emitted=6)


def test_a_native_producer_numbers_its_frames_itself(place):
    frames = numbered(2, BYTES)
    with Daemon(place, {"cam0": json_pipeline(source={"protocol": "native"})}) as daemon:
        with daemon.reader() as reader, Native(daemon.path("cam0", "source"), PRODUCER) as producer:
            producer.send_frame(frames[0].tobytes(), sequence=2**64 - 1, timestamp=1)
            producer.send_frame(frames[1].tobytes(), sequence=7)
            first, second = take(reader, 2)
    assert (first["sequence"], first["timestamp_ns"], second["sequence"]) == (2**64 - 1, 1, 7)
    assert second["timestamp_ns"] > 1
    require_stats(first, frames[0])


# -- readers -----------------------------------------------------------------------------------------------------------


def test_a_stalled_reader_misses_whole_lines_and_delays_nobody(place):
    received = bytearray()

    def collect(reader):
        while part := reader.socket.recv(1 << 20):
            received.extend(part)
    with Daemon(place, {"cam0": json_pipeline(sink={"overload": "drop"})}) as daemon:
        with daemon.reader() as fast, daemon.reader() as stalled, daemon.producer() as producer:
            for number in itertools.count():
                producer.send(whole(number, BYTES).tobytes())
                require_stream(take(fast, 1), [whole(number, BYTES)], number)
                if number % 20 == 0 and daemon.view()["missed"] > 0:
                    break
            catching_up = Background(collect, stalled)
            for number in range(number + 1, number + 100):
                producer.send(whole(number, BYTES).tobytes())
                require_stream(take(fast, 1), [whole(number, BYTES)], number)
            daemon.finish()
            catching_up.join()
    documents = lines_of(bytes(received))
    assert len(documents) < number
    numbers = [document["sequence"] for document in documents]
    assert numbers == sorted(set(numbers)), numbers
    for document in documents:
        require_stats(document, whole(document["sequence"], BYTES))


@pytest.mark.parametrize("source", ["raw", "y4m"])
def test_a_client_gets_its_replies_as_lines(place, source):
    frames = numbered(50, BYTES)
    entry = json_pipeline(source={"protocol": source, "clients": 2}, sink={"reply": True})
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.producer() as one, daemon.producer() as other:
            for client in (one, other):
                data = y4m_stream(frames, WIDTH, HEIGHT) if source == "y4m" else frames.tobytes()
                sending = Background(client.send, data)
                require_stream(take(client, 50), frames)
                sending.join()
        daemon.account(came=100, emitted=100)


def test_pull_ends_after_so_many_lines(place):
    with Daemon(place, {"cam0": json_pipeline()}) as daemon:
        with subprocess.Popen([FRAMECTL, "-s", daemon.socket, "pull", "--frames", "7", "cam0"], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, env=environment()) as pull:
            daemon.wait_view("it reads", lambda view: view["readers"] == 1)
            with daemon.producer() as producer:
                producer.send(numbered(7, BYTES).tobytes())
                got, said = pull.communicate(timeout=limit(20))
                assert pull.returncode == 0 and b", 7 frames\n" in said, said
                require_stream(lines_of(got), numbered(7, BYTES))


# -- files -------------------------------------------------------------------------------------------------------------


def to_file(place):
    return {"cam0": json_pipeline(sink={"file": str(place / "out")})}


def test_a_file_goes_on_behind_its_last_line(place):
    frames = numbered(4, BYTES)
    for _ in range(2):
        with Daemon(place, to_file(place)) as daemon:
            with daemon.producer() as producer:
                producer.send(frames.tobytes())
            daemon.account(came=4, emitted=4)
    documents = lines_of((place / "out").read_bytes())
    require_stream(documents[:4], frames)
    require_stream(documents[4:], frames)


def check(place, entries):
    file = place / "checked.yaml"
    file.write_text(json.dumps(complete(place, entries)))
    return run_framed("-c", file)


@pytest.mark.parametrize("content", [b"torn", b"{}\ntorn", b"{}\n" + b" " * 9000 + b"torn"])
def test_a_file_that_ends_within_a_line_is_not_continued(place, content):
    (place / "out").write_bytes(content)
    torn = len(content) - content.rfind(b"\n") - 1
    with Daemon(place, to_file(place)) as daemon:
        daemon.wait_view("it waits", lambda view: view["state"] == "waiting")
        assert f"{torn} bytes after the last whole one" in daemon.log, daemon.log
    assert (place / "out").read_bytes() == content


# -- what is not text -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stages, given", [
    ([{"affine": {"scale": 2}}], "gray 64x48"),
    ([{"normalize": {}}], "float32[1,48,64]"),
    ([{"motion": {}}], "gray 64x48"),
    (["stats", {"affine": {"scale": 2}}], "float32[260]"),
])
def test_results_without_a_meaning_are_refused(place, stages, given):
    done = check(place, {"cam0": json_pipeline(*stages)})
    assert done.returncode == 78 and f"which json cannot write: the last stage gives {given}" in done.stderr, done.stderr
    assert "end the stages with one such as stats, " in done.stderr and "checked.yaml:" in done.stderr, done.stderr


@pytest.mark.parametrize("source", ["native", "auto"])
def test_replies_to_native_clients_are_not_text(place, source):
    done = check(place, {"cam0": json_pipeline(source={"protocol": source}, sink={"reply": True})})
    assert done.returncode == 78 and "get their replies so, not as json" in done.stderr, done.stderr


def test_no_source_takes_json(place):
    done = check(place, {"cam0": pipeline(GRAY, source={"protocol": "json"})})
    assert done.returncode == 78 and "one of: raw, y4m, native, auto" in done.stderr, done.stderr


# -- over the end of a process, or of a pipeline ------------------------------------------------------------------------

CELL, SQUARES = 8, 256
LONG, HIGH = 2 * SQUARES * CELL, 5 * CELL
CHANGED = {"motion": {"output": "boxes", "cell": CELL, "boxes": SQUARES, "rate": 1}}
BOXES = [{"x": x, "y": HIGH - CELL, "width": CELL, "height": CELL, "pixels": CELL * CELL} for x in range(0, LONG, 2 * CELL)]


def busy_pipeline(**keys):
    """Its lines are long, and many of them wait at once."""
    return pipeline({"pixels": "gray", "width": LONG, "height": HIGH}, stages=[CHANGED], slots=16, **keys)


def busy_frames(count):
    """Squares that do not touch come and go."""
    squares = np.zeros((HIGH, LONG), np.uint8)
    for box in BOXES:
        squares[box["y"]:, box["x"]:box["x"] + CELL] = 255
    return count // 2 * (bytes(HIGH * LONG) + squares.tobytes())


def require_busy(documents, count, processes):
    """In each process the first frame has nothing before it from which it could differ."""
    assert [document["sequence"] for document in documents] == list(range(count))
    still = [document for document in documents if document["motion"] == {"groups": 0, "changed": 0, "boxes": []}]
    busy = [document for document in documents if document["motion"] == {"groups": SQUARES, "changed": 0.1, "boxes": BOXES}]
    assert len(still) <= processes and len(busy) + len(still) == count


class Halfway:
    """A reader that has taken a part of what there was for it, so that results wait in the daemon behind it."""

    def __init__(self, daemon, reader):
        self.daemon, self.reader, self.got = daemon, reader, b""

    def step(self):
        self.wait()
        self.got += self.reader.read(120001)
        self.wait()

    def wait(self):
        self.daemon.wait_view("it waits for its reader", lambda view: view["waiting"] == "reader")
        settle(self.daemon)

    def documents(self, count):
        while self.got.count(b"\n") < count:
            part = self.reader.socket.recv(1 << 16)
            assert part, f"the stream ended after {self.got[-80:]}"
            self.got += part
        return lines_of(self.got)


def test_an_upgrade_goes_unseen(place):
    with Daemon(place, {"cam0": busy_pipeline(sink={"protocol": "json"})}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            sending, halfway = Background(producer.send, busy_frames(60)), Halfway(daemon, reader)
            for number in range(1, 3):
                halfway.step()
                daemon.signal(signal.SIGUSR2)
                daemon.wait_view("it is another process", lambda _: daemon.last["handovers"]["upgrade"] == number)
            require_busy(halfway.documents(60), 60, 3)
            sending.join()
        daemon.account(came=60, emitted=60)


@pytest.mark.parametrize("reply", [False, True])
@pytest.mark.parametrize("orderly", [False, True])
@pytest.mark.parametrize("lanes", [1, 2])
def test_no_line_is_lost_with_a_process(place, store, lanes, orderly, reply):
    """Killed or told to end, the daemon is followed by one that makes the same lines."""
    entry = busy_pipeline(sink={"protocol": "json", **({"reply": True} if reply else {})})
    with start(place, store, {"cam0": entry}, lanes=lanes, drain_timeout="50ms") as daemon:
        with daemon.producer() as producer, (contextlib.nullcontext(producer) if reply else daemon.reader()) as reader:
            sending, halfway = Background(producer.send, busy_frames(60)), Halfway(daemon, reader)
            for _ in range(2):
                halfway.step()
                leave(store, daemon, orderly)
                store.start(daemon)
                daemon.wait_ready()
            require_busy(halfway.documents(60), 60, 3)
            sending.join()
        daemon.account(came=60, emitted=60)
        assert daemon.status()["handovers"]["connections_lost"] == 0


def test_a_file_of_lines_goes_on_after_kills(place, store):
    frames = numbered(400, BYTES)
    (place / "in").write_bytes(frames.tobytes())
    entry = json_pipeline(source={"file": str(place / "in"), "rate": 400}, sink={"file": str(place / "out")})
    with start(place, store, {"cam0": entry, "other": pipeline(GRAY)}) as daemon:
        for number in range(1, 5):
            daemon.wait_view("it is written", lambda view: view["frames"]["emitted"] > 60 * number)
            store.kill(daemon)
        daemon.account(came=400, emitted=400)
    require_stream(lines_of((place / "out").read_bytes()), frames)


def test_lines_end_whole_where_a_reload_changes_what_they_say(place):
    frames = numbered(10, BYTES)
    with Daemon(place, {"cam0": json_pipeline()}) as daemon:
        with daemon.reader() as reader:
            with daemon.producer() as producer:
                producer.send(frames.tobytes())
                require_stream(take(reader, 10), frames)
            daemon.account(came=10, emitted=10)
            daemon.write({"cam0": json_pipeline(MOTION)})
            daemon.command("/v1/reload")
            assert reader.rest() == b""
        with daemon.reader() as reader, daemon.producer() as producer:
            producer.send(frames.tobytes())
            assert all("motion" in document for document in take(reader, 10))
