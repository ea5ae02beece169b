#!/usr/bin/env python3
"""Makes a ResNet-18 (11.7 M random parameters, BATCHx3x224x224 to BATCHx1000) for measurements, on any machine with Python:
writes the fields of an ONNX file itself.

resnet18.py OUT.onnx [BATCH]"""

import array
import random
import sys


def number(value):
    """A varint of Protocol Buffers."""
    data = bytearray()
    while value > 0x7F:
        data.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(data + bytes([value]))


def field(index, value):
    """A field with a number, a text, or bytes."""
    if isinstance(value, int):
        return number(index << 3) + number(value)
    data = value.encode() if isinstance(value, str) else value
    return number(index << 3 | 2) + number(len(data)) + data


def tensor_type(name, shape):
    sides = b"".join(field(1, field(1, side)) for side in shape)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, sides)))


class Graph:
    INT, INTS = 2, 7  # types of attributes

    def __init__(self):
        self.random, self.nodes, self.weights = random.Random(1), [], []

    def weight(self, deviation, *shape):
        count = 1
        for side in shape:
            count *= side
        width, uniform = deviation * 12 ** 0.5, self.random.random
        values = array.array("f", ((uniform() - 0.5) * width for _ in range(count)))
        name = f"w{len(self.weights)}"
        self.weights.append(b"".join(field(1, side) for side in shape) + field(2, 1) + field(8, name) + field(9, values.tobytes()))
        return name

    def add(self, kind, *inputs, output=None, **attributes):
        output = output or f"t{len(self.nodes)}"
        node = b"".join(field(1, name) for name in inputs) + field(2, output) + field(4, kind)
        for name, value in attributes.items():
            if isinstance(value, int):
                node += field(5, field(1, name) + field(3, value) + field(20, self.INT))
            else:
                node += field(5, field(1, name) + b"".join(field(8, item) for item in value) + field(20, self.INTS))
        self.nodes.append(node)
        return output

    def conv(self, x, channels, out, size, stride, relu=True):
        kernel = self.weight((2 / (channels * size * size)) ** 0.5, out, channels, size, size)
        y = self.add("Conv", x, kernel, self.weight(0.01, out), kernel_shape=[size] * 2, strides=[stride] * 2, pads=[size // 2] * 4)
        return self.add("Relu", y) if relu else y

    def block(self, x, channels, out, stride):
        y = self.conv(self.conv(x, channels, out, 3, stride), out, out, 3, 1, relu=False)
        short = x if (channels, stride) == (out, 1) else self.conv(x, channels, out, 1, stride, relu=False)
        return self.add("Relu", self.add("Add", y, short))


def resnet18(batch):
    graph = Graph()
    x = graph.add("MaxPool", graph.conv("input", 3, 64, 7, 2), kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    channels = 64
    for out, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        x = graph.block(graph.block(x, channels, out, stride), out, out, 1)
        channels = out
    x = graph.add("Flatten", graph.add("GlobalAveragePool", x))
    graph.add("Gemm", x, graph.weight(0.05, 1000, 512), graph.weight(0.01, 1000), output="logits", transB=1)
    whole = b"".join(field(1, node) for node in graph.nodes) + field(2, "resnet18")
    whole += b"".join(field(5, weight) for weight in graph.weights)
    whole += field(11, tensor_type("input", (batch, 3, 224, 224))) + field(12, tensor_type("logits", (batch, 1000)))
    return field(1, 8) + field(7, whole) + field(8, field(1, "") + field(2, 17))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    with open(sys.argv[1], "wb") as file:
        file.write(resnet18(int(sys.argv[2]) if len(sys.argv) > 2 else 1))
