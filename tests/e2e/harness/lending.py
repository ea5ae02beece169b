"""Pipelines that lend results to consumers with shared memory, and frames whose results are known by their number."""

import random

from harness.daemon import pipeline

SIZE = 4096
GRAY = {"pixels": "gray", "width": 64, "height": 64}
INVERT = {"affine": {"scale": -1.0, "offset": 255.0}}
INVERTED = bytes(255 - n for n in range(256))


def lending(slots=3, overload="block", source=None, **keys):
    return pipeline(GRAY, stages=[INVERT], source={"protocol": "native", **(source or {})},
                    sink={"protocol": "native", "overload": overload}, slots=slots, **keys)


def frame_of(n):
    return random.Random(n).randbytes(SIZE)


def result_of(n):
    return frame_of(n).translate(INVERTED)


def send(producer, numbers):
    for n in numbers:
        producer.send_frame(frame_of(n), sequence=n)


def receive(consumer, n):
    slot, result = consumer.result()
    assert (result.sequence, result.payload) == (n, result_of(n)), f"result {result.sequence} is not {n} or not its bytes"
    return slot


def both_ends(daemon, name="cam0"):
    return daemon.path(name, "source"), daemon.path(name, "sink")
