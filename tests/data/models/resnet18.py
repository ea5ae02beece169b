#!/usr/bin/env python3
"""Makes a ResNet-18 (11.7 M random parameters, BATCHx3x224x224 to BATCHx1000) for measurements; needs the package `onnx`.

resnet18.py OUT.onnx [BATCH]"""

import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


class Graph:
    def __init__(self):
        self.random, self.nodes, self.weights = np.random.default_rng(1), [], []

    def weight(self, array):
        self.weights.append(numpy_helper.from_array(array.astype(np.float32), f"w{len(self.weights)}"))
        return self.weights[-1].name

    def add(self, kind, *inputs, output=None, **attributes):
        output = output or f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [output], **attributes))
        return output

    def conv(self, x, channels, out, size, stride, relu=True):
        kernel = self.weight(self.random.normal(0, (2 / (channels * size * size)) ** 0.5, (out, channels, size, size)))
        bias = self.weight(self.random.normal(0, 0.01, out))
        y = self.add("Conv", x, kernel, bias, kernel_shape=[size] * 2, strides=[stride] * 2, pads=[size // 2] * 4)
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
    graph.add("Gemm", x, graph.weight(graph.random.normal(0, 0.05, (1000, 512))), graph.weight(np.zeros(1000)), output="logits",
              transB=1)
    whole = helper.make_graph(graph.nodes, "resnet18",
                              [helper.make_tensor_value_info("input", TensorProto.FLOAT, [batch, 3, 224, 224])],
                              [helper.make_tensor_value_info("logits", TensorProto.FLOAT, [batch, 1000])], graph.weights)
    return helper.make_model(whole, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    onnx.save(resnet18(int(sys.argv[2]) if len(sys.argv) > 2 else 1), sys.argv[1])
