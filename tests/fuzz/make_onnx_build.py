#!/usr/bin/python3
"""Makes the corpus of fuzz_onnx_build anew: small models that together use every operator that is translated.

usage: make_onnx_build.py FOLDER
"""
import os
import sys

import numpy as np
from onnx import TensorProto, helper, numpy_helper

IMAGE, ROWS = (2, 4, 6, 6), (3, 2, 8)


def model(nodes, shape, given=(), opset=13, kind=TensorProto.FLOAT):
    """A model of "x" of a shape, nodes, and tensors given by name; the last node's outputs are its own."""
    tensors = [numpy_helper.from_array(np.array(value), name) for name, value in dict(given).items()]
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
               for name in nodes[-1].output]
    x = helper.make_tensor_value_info("x", kind, shape)
    graph = helper.make_graph(nodes, "g", [x], outputs, initializer=tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def node(kind, *names, outputs=("y",), **attributes):
    return helper.make_node(kind, list(names), list(outputs), **attributes)


def reals(*shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def whole(*numbers):
    return np.array(numbers, dtype=np.int64)


def recurrent(kind, gates, directions, **settings):
    given = {"w": reals(directions, gates * 4, 8), "r": reals(directions, gates * 4, 4),
             "b": reals(directions, gates * 8)}
    outputs = ["y", "h", "c"][:3 if kind == "LSTM" else 2]
    return model([node(kind, "x", "w", "r", "b", outputs=outputs, hidden_size=4, **settings)], ROWS, given)


def shape_arithmetic():
    """view(x.shape[0], -1), as exporters write it."""
    return model([node("Shape", "x", outputs=["s"]), node("Gather", "s", "zero", outputs=["n"], axis=0),
                  node("Unsqueeze", "n", "axes", outputs=["u"]),
                  node("Concat", "u", "rest", outputs=["to"], axis=0),
                  node("Reshape", "x", "to")], IMAGE,
                 {"zero": np.array(0, dtype=np.int64), "axes": whole(0), "rest": whole(-1)})


def single(kind, shape=IMAGE, opset=13, given=(), outputs=("y",), **attributes):
    return model([node(kind, "x", *dict(given), outputs=outputs, **attributes)], shape, given, opset)


def main():
    files = {
        "shape_arithmetic": shape_arithmetic(),
        "slice": single("Slice", given={"a": whole(1, -1), "b": whole(3, -99), "c": whole(1, 3),
                                        "d": whole(1, -2)}),
        "slice_old": single("Slice", opset=9, starts=[1, 0], ends=[3, 99], axes=[2, 3]),
        "pad": single("Pad", given={"p": whole(0, 1, 2, 0, 0, 0, 1, -1), "v": np.float32(0.5)}),
        "pad_old": single("Pad", opset=10, pads=[0, 0, 1, 1, 0, 0, 2, 0], mode="reflect"),
        "resize": single("Resize", given={"r": reals(0), "s": np.float32([1, 1, 2, 0.5])}, mode="linear",
                         coordinate_transformation_mode="align_corners"),
        "resize_sizes": model([node("Resize", "x", "", "", "s", mode="cubic", exclude_outside=1)],
                              IMAGE, {"s": whole(2, 4, 9, 5)}),
        "upsample": single("Upsample", opset=9, given={"s": np.float32([1, 1, 2, 2])}),
        "expand": single("Expand", (2, 1, 4), given={"s": whole(3, 1, 5, 1)}),
        "tile": single("Tile", ROWS, given={"n": whole(2, 1, 3)}),
        "transpose": single("Transpose", perm=[0, 2, 3, 1]),
        "concat": model([node("Relu", "x", outputs=["a"]), node("Concat", "a", "x", "w", axis=1)], IMAGE,
                        {"w": reals(*IMAGE)}),
        "split": single("Split", given={"s": whole(1, 3)}, outputs=["y", "z"], axis=1),
        "split_old": single("Split", opset=11, outputs=["y", "z"], axis=-1, split=[2, 4]),
        "flatten": single("Flatten", axis=2),
        "squeeze": single("Squeeze", (2, 1, 3, 1), given={"a": whole(1, -1)}),
        "unsqueeze_old": single("Unsqueeze", ROWS, opset=11, axes=[0, 2]),
        "depth": single("DepthToSpace", blocksize=2, mode="CRD"),
        "space": single("SpaceToDepth", blocksize=3),
        "fill": model([node("Shape", "x", outputs=["s"]), node("ConstantOfShape", "s", outputs=["c"]),
                       node("Add", "x", "c")], ROWS),
        "range": model([node("Size", "x", outputs=["n"]), node("Range", "a", "n", "b", outputs=["r"]),
                        node("Cast", "r", outputs=["f"], to=1), node("Reshape", "f", "s", outputs=["g"]),
                        node("Mul", "x", "g")], ROWS,
                       {"a": np.array(0, dtype=np.int64), "b": np.array(1, dtype=np.int64), "s": whole(3, 2, 8)}),
        "lstm": recurrent("LSTM", 4, 2, direction="bidirectional"),
        "gru": recurrent("GRU", 3, 1, linear_before_reset=1, direction="reverse"),
        "rnn": recurrent("RNN", 1, 1, activations=["Relu"]),
        "batch_first": recurrent("GRU", 3, 2, layout=1, direction="bidirectional"),
        "conv": model([node("Conv", "x", "w", "b", outputs=["c"], pads=[1, 1, 1, 1]),
                       node("BatchNormalization", "c", "b", "b", "b", "b", outputs=["n"]),
                       node("Relu", "n", outputs=["r"]), node("MaxPool", "r", outputs=["p"], kernel_shape=[2, 2],
                                                               strides=[2, 2]),
                       node("GlobalAveragePool", "p", outputs=["q"]), node("Flatten", "q", outputs=["f"]),
                       node("Gemm", "f", "v", "b", transB=1)], IMAGE,
                      {"w": reals(4, 4, 3, 3), "b": reals(4), "v": reals(4, 4)}),
        "up": single("ConvTranspose", given={"w": reals(4, 3, 2, 2)}, strides=[2, 2]),
        "attention": model([node("MatMul", "x", "w", outputs=["q"]), node("Softmax", "q", outputs=["s"], axis=-1),
                            node("ReduceMean", "s", outputs=["m"], axes=[1], keepdims=0),
                            node("Erf", "m", outputs=["e"]), node("Where", "t", "e", "m")], ROWS,
                           {"w": reals(8, 5), "t": np.array([True, False, True, True, False])}),
        "words": model([node("Gather", "w", "x")], (2, 3), {"w": reals(7, 4)}, kind=TensorProto.INT64),
        "norm": single("LayerNormalization", ROWS, opset=17, given={"w": reals(8), "b": reals(8)}),
    }
    for name, made in files.items():
        with open(os.path.join(sys.argv[1], name), "wb") as file:
            file.write(made.SerializeToString())


if __name__ == "__main__":
    main()
