"""What a detector gives becomes boxes: every layout, with answers built into the tensors, beside a decoding of its own."""

import numpy as np
import pytest

from harness import Background, Daemon, pipeline

f32 = np.float32


def through(place, tensor, stages, rows=None):
    """The result for one frame."""
    frame = tensor.astype(f32)
    entry = pipeline({"dtype": "float32", "shape": list(frame.shape)}, stages=stages)
    with Daemon(place, {"cam0": entry}) as daemon:
        with daemon.reader() as reader, daemon.producer() as producer:
            sending = Background(producer.send, frame.tobytes())
            result = reader.frames(1, rows or (100, 6), f32)[0]
            sending.join()
        daemon.account(came=1, emitted=1)
    return result


# -- a decoding of its own ------------------------------------------------------------------------------------------------


def overlap(a, b):
    width = min(a[2], b[2]) - max(a[0], b[0])
    height = min(a[3], b[3]) - max(a[1], b[1])
    common = max(width, 0) * max(height, 0)
    return common / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - common)


def suppress(corners, scores, classes, score=0.25, iou=0.45, most=100):
    """[most, 6] from corners, scores and classes of all candidates."""
    kept = []
    for i in sorted(np.flatnonzero(scores >= f32(score)), key=lambda i: (-scores[i], i)):
        if len(kept) < most and not any(classes[i] == classes[k] and overlap(corners[i], corners[k]) > iou for k in kept):
            kept.append(i)
    rows = np.zeros((most, 6))
    for row, i in zip(rows, kept):
        left, top, right, bottom = np.maximum(corners[i], 0)
        row[:] = left, top, right - left, bottom - top, scores[i], classes[i]
    return rows


def corners_of(boxes):
    """From centre, width and height."""
    return np.concatenate([boxes[:, :2] - boxes[:, 2:] / 2, boxes[:, :2] + boxes[:, 2:] / 2], axis=1)


def scene(candidates, classes, seed):
    """Boxes in eighths of a pixel, many on top of each other, with scores of which no two in one tensor are equal."""
    random = np.random.default_rng(seed)
    objects = random.integers(0, 8 * 600, (12, 4)) / 8
    boxes = objects[random.integers(0, 12, candidates)] + random.integers(-40, 40, (candidates, 4)) / 8
    boxes[:, 2:] = np.abs(boxes[:, 2:]) / 4 + 8
    scores = random.permutation(candidates * classes).reshape(candidates, classes) / (candidates * classes)
    return boxes, (scores**3).astype(f32)


def test_yolo8(place):
    boxes, scores = scene(8400, 80, 1)
    result = through(place, np.concatenate([boxes, scores], axis=1).T[None], [{"detect": {"layout": "yolo8"}}])
    expected = suppress(corners_of(boxes), scores.max(axis=1), scores.argmax(axis=1))
    assert np.count_nonzero(expected[:, 4]) > 50
    np.testing.assert_array_equal(result, expected.astype(f32))
