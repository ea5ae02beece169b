"""Results as lines of JSON: each line is one result, whole, with the numbers that other readers get as a tensor."""

import json

import numpy as np
import pytest

from harness import Background, Daemon, numbered, pipeline, run_framed, y4m_stream

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
