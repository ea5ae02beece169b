#!/usr/bin/env python3
"""Makes the model of the measurements: a ResNet-18 with 11.7 million random weights, 1x3x224x224 float32 to 1000 classes.

    resnet18.py FILE.onnx [--open]

With --open the first side is open instead of 1, so that batches are possible. Needs only Python, since it writes the ONNX file
field by field. Weights are scaled so that values stay moderate from layer to layer. They include normalisation, as in an
optimised model. Each run makes an identical file.
"""

import array
import random
import sys

FLOAT, INTS, INT = 1, 7, 2  # of elements and attributes, by ONNX's numbers


def varint(value):
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field, value):
    return varint(field << 3) + varint(value)


def part(field, data):
    data = data.encode() if isinstance(data, str) else data
    return varint(field << 3 | 2) + varint(len(data)) + data


class Graph:
    def __init__(self):
        self.nodes, self.weights = b"", []
        self.random = random.Random(18)

    def weight(self, shape, fan_in):
        """A name of new weights. They are uniform, and sums of `fan_in` products are as large as the input."""
        count = 1
        for side in shape:
            count *= side
        most = (6 / fan_in) ** 0.5
        values = array.array("f", [most * (2 * self.random.random() - 1) for _ in range(count)])
        name = f"w{len(self.weights)}"
        self.weights.append(part(5, b"".join(number(1, side) for side in shape) + number(2, FLOAT) + part(8, name) +
                                 part(9, values.tobytes())))
        return name

    def node(self, kind, *inputs, **attributes):
        output = f"t{len(self.nodes)}"
        body = b"".join(part(1, name) for name in inputs) + part(2, output) + part(4, kind)
        for name, value in attributes.items():
            several = isinstance(value, list)
            values = b"".join(number(8, each) for each in value) if several else number(3, value)
            body += part(5, part(1, name) + values + number(20, INTS if several else INT))
        self.nodes += part(1, body)
        return output

    def convolve(self, x, channels_in, channels_out, kernel, stride):
        fan_in = channels_in * kernel * kernel
        weights = self.weight((channels_out, channels_in, kernel, kernel), fan_in)
        bias = self.weight((channels_out,), 600)
        return self.node("Conv", x, weights, bias, kernel_shape=[kernel] * 2, strides=[stride] * 2, pads=[kernel // 2] * 4)

    def block(self, x, channels_in, channels_out, stride):
        way = self.node("Relu", self.convolve(x, channels_in, channels_out, 3, stride))
        way = self.convolve(way, channels_out, channels_out, 3, 1)
        short = x if channels_in == channels_out else self.convolve(x, channels_in, channels_out, 1, stride)
        return self.node("Relu", self.node("Add", way, short))


def value_info(name, shape):
    """A side given by name is open."""
    sides = b"".join(part(1, part(2, side) if isinstance(side, str) else number(1, side)) for side in shape)
    return part(1, name) + part(2, part(1, number(1, FLOAT) + part(2, sides)))


def resnet18(first_side):
    graph = Graph()
    x = graph.node("Relu", graph.convolve("image", 3, 64, 7, 2))
    x = graph.node("MaxPool", x, kernel_shape=[3, 3], strides=[2, 2], pads=[1] * 4)
    for channels_in, channels_out, stride in ((64, 64, 1), (64, 128, 2), (128, 256, 2), (256, 512, 2)):
        x = graph.block(x, channels_in, channels_out, stride)
        x = graph.block(x, channels_out, channels_out, 1)
    x = graph.node("Flatten", graph.node("GlobalAveragePool", x), axis=1)
    x = graph.node("Gemm", x, graph.weight((1000, 512), 512), graph.weight((1000,), 600), transB=1)
    body = graph.nodes + part(2, "resnet18") + b"".join(graph.weights)
    body += part(11, value_info("image", (first_side, 3, 224, 224))) + part(12, value_info(x, (first_side, 1000)))
    return number(1, 8) + part(7, body) + part(8, number(2, 17))


def main():
    if sys.argv[2:] not in ([], ["--open"]) or len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    with open(sys.argv[1], "wb") as file:
        file.write(resnet18("batch" if len(sys.argv) > 2 else 1))


if __name__ == "__main__":
    main()
