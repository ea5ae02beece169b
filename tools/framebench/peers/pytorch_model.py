#!/usr/bin/env python3
"""ResNet-18 in PyTorch at the highest rate: each stream has a CUDA graph with the model and the copies of pinned memory.

    pytorch_model.py [STREAMS [SECONDS]]      (default: 3 streams, 3 s)

Uses channels-last layout and TF32, which framed's model stage also tries. Prints frames per second, and the p50 of one frame
alone.
"""

import statistics
import sys
import time

import torch
from torch import nn


class Block(nn.Module):
    def __init__(self, inside, outside, stride):
        super().__init__()
        self.first = nn.Conv2d(inside, outside, 3, stride, 1)
        self.second = nn.Conv2d(outside, outside, 3, 1, 1)
        self.beside = nn.Conv2d(inside, outside, 1, stride) if stride != 1 or inside != outside else nn.Identity()

    def forward(self, x):
        return torch.relu(self.second(torch.relu(self.first(x))) + self.beside(x))


def resnet18():
    sides = [(64, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 1), (128, 256, 2), (256, 256, 1), (256, 512, 2), (512, 512, 1)]
    return nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3), nn.ReLU(), nn.MaxPool2d(3, 2, 1), *(Block(*each) for each in sides),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000))


class Slot:
    """A stream with its own graph: copy in, model, copy out."""

    def __init__(self, model):
        self.given, self.result = torch.zeros(1, 3, 224, 224).pin_memory(), torch.empty(1, 1000).pin_memory()
        self.stream, self.graph, self.done = torch.cuda.Stream(), torch.cuda.CUDAGraph(), torch.cuda.Event()
        self.frame = torch.empty(1, 3, 224, 224, device="cuda")
        with torch.cuda.stream(self.stream):
            for _ in range(5):
                self.run(model)
        self.stream.synchronize()
        with torch.cuda.graph(self.graph, stream=self.stream):
            self.run(model)

    def run(self, model):
        self.frame.copy_(self.given, non_blocking=True)
        self.result.copy_(model(self.frame.contiguous(memory_format=torch.channels_last)), non_blocking=True)

    def submit(self):
        with torch.cuda.stream(self.stream):
            self.graph.replay()
            self.done.record()

    def wait(self):
        while not self.done.query():
            pass


@torch.inference_mode()
def main():
    streams = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    seconds = float(sys.argv[2]) if len(sys.argv) > 2 else 3
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = torch.backends.cudnn.benchmark = True
    model = resnet18().eval().cuda().to(memory_format=torch.channels_last)
    slots = [Slot(model) for _ in range(streams)]
    for slot in slots:
        slot.submit()
    frames, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for slot in slots:
            slot.wait()
            slot.submit()
            frames += 1
    rate = frames / (time.perf_counter() - begin)
    torch.cuda.synchronize()
    alone = []
    for _ in range(500):
        begin = time.perf_counter()
        slots[0].submit()
        slots[0].wait()
        alone.append(time.perf_counter() - begin)
    print(f"PyTorch {torch.__version__}, {streams} streams: {rate:.0f} frames/s; alone p50 {statistics.median(alone) * 1e6:.1f} us")


main()
