"""Frames that show what became of them, and Y4M written independently of the daemon."""

import numpy as np


def whole(number, size):
    """Frame `number`: its number in the first eight bytes, and bytes that belong to no other frame after it."""
    frame = np.random.Generator(np.random.PCG64(number)).integers(0, 256, size, dtype=np.uint8)
    frame[:8] = np.frombuffer(np.uint64(number).tobytes(), np.uint8)
    return frame


def numbered(count, size, first=0):
    return np.stack([whole(number, size) for number in range(first, first + count)])


def require_whole(data, size):
    """Splits received bytes into numbered frames, each intact; returns their numbers, which must rise."""
    assert len(data) % size == 0, f"{len(data)} bytes are {len(data) / size:.3f} frames"
    numbers = []
    for frame in np.frombuffer(data, np.uint8).reshape(-1, size):
        number = int(frame[:8].view(np.uint64)[0])
        assert number < 1 << 32, f"frame after {numbers[-1:]} is torn: it has number {number:#x}"
        np.testing.assert_array_equal(frame, whole(number, size), f"frame {number} is torn")
        numbers.append(number)
    assert numbers == sorted(set(numbers)), f"out of order: {numbers}"
    return numbers


def y4m_stream(frames, width, height, colour="mono", parameters=None, frame_parameters=""):
    """A whole Y4M stream; `parameters` overrides the header's words after YUV4MPEG2."""
    words = parameters or [f"W{width}", f"H{height}", "F30:1", "Ip", "A1:1", f"C{colour}"]
    header = " ".join(["YUV4MPEG2", *words]).encode() + b"\n"
    mark = b"FRAME" + frame_parameters.encode() + b"\n"
    return header + b"".join(mark + frame.tobytes() for frame in frames)


def read_y4m(data, size):
    """(header words, frames as an array of `size` bytes each) of a whole Y4M stream."""
    header, _, rest = data.partition(b"\n")
    words = header.decode("ascii").split(" ")
    assert words[0] == "YUV4MPEG2", header
    frames = []
    while rest:
        mark, _, rest = rest.partition(b"\n")
        assert mark == b"FRAME" or mark.startswith(b"FRAME "), mark
        assert len(rest) >= size, f"last frame has {len(rest)} of {size} bytes"
        frames.append(np.frombuffer(rest[:size], np.uint8))
        rest = rest[size:]
    return words[1:], np.array(frames)


def slow_stage(milliseconds):
    """A stage of test builds in which every frame spends that long on the device."""
    return {"fault": {"kind": "delay", "ms": milliseconds}}


def fault_stage(kind, at):
    """A stage of test builds that fails on frame `at`: illegal or hang."""
    return {"fault": {"kind": kind, "at": at}}
