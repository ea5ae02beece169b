#!/usr/bin/env python3
"""Makes the small models that the tests use, in the folder of this script; needs the package `onnx`. What one computes stands
beside it, so that no test needs a runtime of its own to know the answer."""

import pathlib

import numpy as np
import onnx
from onnx import TensorProto as T
from onnx import helper, numpy_helper

HERE = pathlib.Path(__file__).parent


def tensor(name, dtype, shape):
    return helper.make_tensor_value_info(name, dtype, shape)


def constant(name, *values, shape=None, dtype=np.float32):
    array = np.array(values, dtype)
    return numpy_helper.from_array(array.reshape(shape) if shape else array, name)


def save(name, nodes, inputs, outputs, weights=(), opset=17, ir=8, domains=(), **how):
    graph = helper.make_graph([helper.make_node(*node[:3], **(node[3] if len(node) > 3 else {})) for node in nodes], name,
                              inputs, outputs, list(weights))
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)],
                              ir_version=ir)
    onnx.save(model, HERE / f"{name}.onnx", **how)


# y = 2 x + 1
LINE = [("Mul", ["x", "two"], ["double"]), ("Add", ["double", "one"], ["y"])]
WEIGHTS = [constant("two", 2), constant("one", 1)]
save("line", LINE, [tensor("x", T.FLOAT, [1, 3, 4, 5])], [tensor("y", T.FLOAT, [1, 3, 4, 5])], WEIGHTS)
save("open", LINE, [tensor("x", T.FLOAT, ["batch", 3, "height", None])], [tensor("y", T.FLOAT, None)], WEIGHTS)
save("pictures", LINE, [tensor("x", T.FLOAT, ["batch", 3, 4, 5])], [tensor("y", T.FLOAT, ["batch", 3, 4, 5])], WEIGHTS)
save("old", LINE, [tensor("x", T.FLOAT, [4]), tensor("two", T.FLOAT, [1]), tensor("one", T.FLOAT, [1])],
     [tensor("y", T.FLOAT, [4])], WEIGHTS, opset=7, ir=3)  # weights are among the inputs
save("wide", [("Identity", ["x"], ["y"])], [tensor("x", T.FLOAT, [1, 1, 2, 3, 4, 5])], [tensor("y", T.FLOAT, [1, 1, 2, 3, 4, 5])])
save("deep", [("Identity", ["x"], ["y"])], [tensor("x", T.FLOAT, [2, 2, 2, 2, 2])], [tensor("y", T.FLOAT, [2, 2, 2, 2, 2])])
# each type that frames have: y = x
for type_, dtype in (("uint8", T.UINT8), ("float16", T.FLOAT16), ("int32", T.INT32), ("int64", T.INT64), ("float64", T.DOUBLE)):
    save(type_, [("Identity", ["x"], ["y"])], [tensor("x", dtype, [1, 6])], [tensor("y", dtype, [1, 6])])
# an image as it lies in memory: y = 255 - x
save("pixels", [("Sub", ["most", "x"], ["y"])], [tensor("x", T.UINT8, [1, 4, 6, 3])], [tensor("y", T.UINT8, [1, 4, 6, 3])],
     [constant("most", 255, dtype=np.uint8)])
# two outputs: the sum of all elements, and the halves of each
save("several", [("ReduceSum", ["x"], ["sum"], {"keepdims": 0}), ("Mul", ["x", "half"], ["halves"])],
     [tensor("x", T.FLOAT, [2, 3])], [tensor("sum", T.FLOAT, []), tensor("halves", T.FLOAT, [2, 3])], [constant("half", 0.5)])
(HERE / "beside.bin").unlink(missing_ok=True)  # which would be appended to
save("beside", [("Add", ["x", "ramp"], ["y"])], [tensor("x", T.FLOAT, [1, 64])], [tensor("y", T.FLOAT, [1, 64])],
     [constant("ramp", *range(64), shape=(1, 64))], save_as_external_data=True, location="beside.bin", size_threshold=0)
# y = table[x], which fails where x is no index
save("lookup", [("Gather", ["table", "x"], ["y"])], [tensor("x", T.INT64, [4])], [tensor("y", T.FLOAT, [4])],
     [constant("table", *range(8))])
# the same, of any number of rows, and of three
save("lookups", [("Gather", ["table", "x"], ["y"])], [tensor("x", T.INT64, ["batch", 4])], [tensor("y", T.FLOAT, ["batch", 4])],
     [constant("table", *range(8))])
save("three", LINE, [tensor("x", T.FLOAT, [3, 4])], [tensor("y", T.FLOAT, [3, 4])], WEIGHTS)
# of any number of rows: their halves, and each row's sum; and one sum of all rows
save("rows", [("ReduceSum", ["x", "second"], ["sum"], {"keepdims": 0}), ("Mul", ["x", "half"], ["halves"])],
     [tensor("x", T.FLOAT, ["batch", 6])], [tensor("sum", T.FLOAT, ["batch"]), tensor("halves", T.FLOAT, ["batch", 6])],
     [constant("half", 0.5), constant("second", 1, dtype=np.int64)])
save("sum", [("ReduceSum", ["x"], ["y"])], [tensor("x", T.FLOAT, ["batch", 6])], [tensor("y", T.FLOAT, [1, 1])])
# what is refused
save("unknown", [("Froobnicate", ["x"], ["y"])], [tensor("x", T.FLOAT, [4])], [tensor("y", T.FLOAT, [4])])
save("too-new", [("Relu", ["x"], ["y"])], [tensor("x", T.FLOAT, [4])], [tensor("y", T.FLOAT, [4])], opset=99)
save("stranger", [("Twist", ["x"], ["y"], {"domain": "com.example"})], [tensor("x", T.FLOAT, [4])], [tensor("y", T.FLOAT, [4])],
     domains=["com.example"])
save("later", [("Gelu", ["x"], ["y"])], [tensor("x", T.FLOAT, [4])], [tensor("y", T.FLOAT, [4])])  # opset 20 has it
save("too-new-file", [("Relu", ["x"], ["y"])], [tensor("x", T.FLOAT, [4])], [tensor("y", T.FLOAT, [4])], ir=99)
save("off-gpu", [("Tan", ["x"], ["z"]), ("Mean", ["x", "z"], ["y"])], [tensor("x", T.FLOAT, [4])], [tensor("y", T.FLOAT, [4])])
save("half", [("Identity", ["x"], ["y"])], [tensor("x", T.FLOAT16, [1, 3, 4, 5])], [tensor("y", T.FLOAT16, [1, 3, 4, 5])])
save("two-inputs", [("Add", ["x", "z"], ["y"])], [tensor("x", T.FLOAT, [4]), tensor("z", T.FLOAT, [4])], [tensor("y", T.FLOAT, [4])])
# takes milliseconds on a processor: y = erf(erf(... x))
SLOW = ["x", *(f"y{i}" for i in range(59)), "y"]
save("slow", [("Erf", [one], [next_]) for one, next_ in zip(SLOW, SLOW[1:])], [tensor("x", T.FLOAT, [1, 65536])],
     [tensor("y", T.FLOAT, [1, 65536])])
# what a detector would give, built into a picture of 32x32: the first pixels in order are y, scaled and moved by column or row
for name, shape, scale, offset in (
        ("yolo8", [1, 8, 128], [1 / 8] * 4 + [1 / 256] * 4, [0] * 8), ("yolo5", [1, 128, 8], [1 / 8] * 4 + [1 / 256] * 4, [0] * 8),
        ("yolox", [1, 21, 8], [1 / 64] * 4 + [1 / 256] * 4, [-2] * 4 + [0] * 4), ("end2end", [1, 128, 6], [1 / 8] * 4 + [1 / 256, 1], [0] * 6),
        ("detr", [1, 128, 8], [1 / 256] * 4 + [1 / 16] * 4, [0] * 4 + [-8] * 4)):
    along = (1, -1, 1) if name == "yolo8" else (1, 1, -1)
    save(f"layout-{name}", [("Reshape", ["x", "flat"], ["all"]), ("Slice", ["all", "from", "to"], ["first"]),
                            ("Reshape", ["first", "shape"], ["values"]), ("Mul", ["values", "scale"], ["scaled"]),
                            ("Add", ["scaled", "offset"], ["y"])], [tensor("x", T.FLOAT, [1, 1, 32, 32])], [tensor("y", T.FLOAT, shape)],
         [constant("flat", -1, shape=(1,), dtype=np.int64), constant("from", 0, shape=(1,), dtype=np.int64),
          constant("to", int(np.prod(shape)), shape=(1,), dtype=np.int64), constant("shape", *shape, dtype=np.int64),
          constant("scale", *scale, shape=along), constant("offset", *offset, shape=along)])
# a detector of layout yolox that gives one box for whatever picture: 40x24 pixels in the middle of its input, score 0.75
save("corner", [("ReduceMax", ["x"], ["most"], {"axes": [1, 2, 3], "keepdims": 0}), ("Mul", ["most", "none"], ["zero"]),
                ("Add", ["row", "zero"], ["first"]), ("Pad", ["first", "pads"], ["y"])], [tensor("x", T.FLOAT, [1, 3, 416, 416])],
     [tensor("y", T.FLOAT, [1, 3549, 6])],
     [constant("none", 0), constant("row", 26, 26, np.log(5), np.log(3), 1, 0.75, shape=(1, 1, 6)),
      constant("pads", 0, 0, 0, 0, 3548, 0, dtype=np.int64)])
