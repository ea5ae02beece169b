#!/usr/bin/env python3
"""Frames through a GPU as a careful PyTorch program does it: sockets in and out, two pinned buffers, two streams.

    pytorch_frames.py [--device cuda] IN OUT [FLOATS]

Listens on the Unix sockets IN and OUT, accepts one producer and one reader, and returns 2 * x + 1 for each frame of FLOATS
floats. While one frame is on its stream, the next is read into the other buffer. Runs until its producer disconnects.
"""

import argparse
import socket

import torch


class Slot:
    """A pinned buffer in each direction, and the stream that uses both."""

    def __init__(self, floats, device):
        pinned = device == "cuda"
        self.input = torch.empty(floats, dtype=torch.float32, pin_memory=pinned)
        self.output = torch.empty(floats, dtype=torch.float32, pin_memory=pinned)
        self.device = device
        self.stream = torch.cuda.Stream() if pinned else None
        self.done = torch.cuda.Event() if pinned else None
        self.busy = False

    def start(self):
        self.busy = True
        if self.stream is None:
            torch.add(1.0, self.input, alpha=2.0, out=self.output)
            return
        with torch.cuda.stream(self.stream):
            frame = self.input.to(self.device, non_blocking=True)
            frame = frame * 2.0 + 1.0
            self.output.copy_(frame, non_blocking=True)
            self.done.record(self.stream)

    def finish(self):
        """The bytes of the result, after the stream has finished."""
        if self.done is not None:
            self.done.synchronize()
        self.busy = False
        return memoryview(self.output.numpy()).cast("B")


def receive(connection, buffer):
    """Reads a frame. False if it is incomplete."""
    view = memoryview(buffer.numpy()).cast("B")
    while view:
        count = connection.recv_into(view)
        if count == 0:
            return False
        view = view[count:]
    return True


def listen(path):
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen(1)
    return listener


def run(producer, reader, slots):
    turn = 0
    while receive(producer, slots[turn].input):
        slots[turn].start()
        turn = (turn + 1) % len(slots)
        if slots[turn].busy:
            reader.sendall(slots[turn].finish())
    for _ in slots:
        if slots[turn].busy:
            reader.sendall(slots[turn].finish())
        turn = (turn + 1) % len(slots)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("input")
    parser.add_argument("output")
    parser.add_argument("floats", nargs="?", type=int, default=1 << 20)
    arguments = parser.parse_args()
    slots = [Slot(arguments.floats, arguments.device) for _ in range(2)]
    for slot in slots:  # loads kernels and allocates device memory before the first frame
        slot.start()
        slot.finish()
    output, source = listen(arguments.output), listen(arguments.input)
    reader, producer = output.accept()[0], source.accept()[0]
    try:
        run(producer, reader, slots)
    except BrokenPipeError:
        pass  # the reader closed the connection


if __name__ == "__main__":
    main()
