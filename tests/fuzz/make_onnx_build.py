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

def several(inputs, nodes, given=(), opset=13):
    """A model of inputs, (name, type, shape) each."""
    tensors = [numpy_helper.from_array(np.array(value), name) for name, value in dict(given).items()]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info(*i) for i in inputs],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, None)
                               for name in nodes[-1].output], initializer=tensors)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])


def attention(lengths=False, dropout=False, keys=(2, 2, 3, 4), divides=False):
    """Attention of heads as recognise_layers.c knows it."""
    scores = [node("Transpose", "k", outputs=["t"], perm=[0, 1, 3, 2]), node("MatMul", "q", "t", outputs=["p"]),
              node("Div" if divides else "Mul", "p", "scale", outputs=["s"])]
    mask = [node("Cast", "n", outputs=["whole"], to=7), node("Unsqueeze", "whole", "axes", outputs=["ends"]),
            node("Range", "zero", "most", "one", outputs=["places"]), node("Less", "places", "ends", outputs=["within"]),
            node("Where", "within", "s", "least", outputs=["m"])] if lengths else []
    rest = [node("Softmax", "m" if lengths else "s", outputs=["w"], axis=-1)]
    rest += [node("Dropout", "w", "ratio", outputs=["d"])] if dropout else []
    rest += [node("MatMul", "d" if dropout else "w", "v")]
    given = {"scale": np.float32(0.5)}
    if lengths:
        given.update({"axes": whole(1, 2, 3), "zero": np.array(0, dtype=np.int64), "most": np.array(3, dtype=np.int64),
                      "one": np.array(1, dtype=np.int64), "least": np.float32(-1e30)})
    if dropout:
        given["ratio"] = np.float32(0.1)
    inputs = [("q", TensorProto.FLOAT, (2, 2, 3, 4)), ("k", TensorProto.FLOAT, keys), ("v", TensorProto.FLOAT, keys)]
    return several(inputs + ([("n", TensorProto.INT32, (2,))] if lengths else []), scores + mask + rest, given)


def exported_lstm():
    """A layer whose gates are split and joined, as this exporter writes it."""
    nodes = []
    for name, zeros in (("w", False), ("r", False), ("b", True)):
        parts = [f"{name}_{gate}" for gate in "ifgo"]
        nodes.append(node("Split", name, outputs=parts, axis=0))
        joined = [parts[i] for i in (0, 3, 1, 2)]
        if zeros:
            nodes.append(node("ConstantOfShape", "size", outputs=["zeros"]))
            joined.append("zeros")
        nodes.append(node("Concat", *joined, outputs=[f"{name}_joined"], axis=0))
        nodes.append(node("Unsqueeze", f"{name}_joined", "front", outputs=[f"{name}_all"]))
    nodes.append(node("LSTM", "x", "w_all", "r_all", "b_all", outputs=["y"], hidden_size=4))
    return model(nodes, ROWS, {"w": reals(16, 8), "r": reals(16, 4), "b": reals(16), "size": whole(16), "front": whole(0)})


def places():
    """Rows and places of images that are known only when it runs."""
    x, index = ("x", TensorProto.FLOAT, (2, 3, 4)), TensorProto.INT64
    image = ("x", TensorProto.FLOAT, IMAGE)
    made = {
        "gather_elements_changing": several([x, ("i", index, (2, 2, 4))], [node("GatherElements", "x", "i", axis=1)]),
        "gather_nd_changing": several([x, ("i", index, (2, 3, 1))], [node("GatherND", "x", "i", batch_dims=1)]),
        "affine_grid": model([node("AffineGrid", "x", "size", align_corners=1)], (2, 2, 3), {"size": whole(2, 3, 4, 5)}, opset=20),
        "roi_align": several([image, ("r", TensorProto.FLOAT, (3, 4)), ("i", index, (3,))],
                             [node("RoiAlign", "x", "r", "i", output_height=2, output_width=3, sampling_ratio=2)], opset=16),
        "roi_align_max": several([image, ("r", TensorProto.FLOAT, (3, 4)), ("i", index, (3,))], [
            node("RoiAlign", "x", "r", "i", output_height=2, output_width=2, sampling_ratio=1, mode="max",
                 coordinate_transformation_mode="output_half_pixel")], opset=16),
    }
    for how in ("none", "add", "mul", "max"):
        made[f"scatter_elements_{how}"] = several(
            [x, ("i", index, (2, 2, 4)), ("u", TensorProto.FLOAT, (2, 2, 4))],
            [node("ScatterElements", "x", "i", "u", axis=1, reduction=how)], opset=18)
        made[f"scatter_nd_{how}"] = several([x, ("i", index, (3, 2)), ("u", TensorProto.FLOAT, (3, 4))],
                                            [node("ScatterND", "x", "i", "u", reduction=how)], opset=18)
    for mode, padding in (("bilinear", "zeros"), ("nearest", "border"), ("bicubic", "reflection"), ("nearest", "zeros")):
        made[f"grid_{mode}_{padding}"] = several([image, ("g", TensorProto.FLOAT, (2, 3, 2, 2))], [
            node("GridSample", "x", "g", mode=mode, padding_mode=padding)], opset=16)
    return made


def newer():
    """Operators of later opsets and losses."""
    real, index = TensorProto.FLOAT, TensorProto.INT64
    heads = [(name, real, (2, n, t, 4)) for name, n, t in (("q", 4, 3), ("k", 2, 5), ("v", 2, 5))]
    packed = [(name, real, (2, t, n)) for name, t, n in (("q", 3, 16), ("k", 5, 8), ("v", 5, 8))]
    past = [(name, real, (2, 2, 2, 4)) for name in ("pk", "pv")]
    scores = [("x", real, (3, 5, 2)), ("t", index, (3, 2))]
    cache = {"c": reals(7, 2), "s": reals(7, 2)}
    made = {
        "attention_new": several(packed, [node("Attention", "q", "k", "v", q_num_heads=4, kv_num_heads=2, is_causal=1)], opset=24),
        "attention_mask": several(heads + [("m", real, (3, 4))], [
            node("Attention", "q", "k", "v", "m", softcap=2.0, outputs=["y", "", "", "z"], qk_matmul_output_mode=2)], opset=25),
        "attention_truths": several(heads + [("m", TensorProto.BOOL, (2, 1, 3, 7))] + past, [
            node("Attention", "q", "k", "v", "m", "pk", "pv", outputs=["y", "a", "b"], left_window_size=1)], opset=25),
        "attention_ends": several(heads + [("n", index, (2,))], [
            node("Attention", "q", "k", "v", "", "", "", "n", is_causal=1, left_window_size=2)], opset=25),
        "rotary": several([("x", real, (2, 3, 5, 6)), ("p", index, (2, 5))],
                          [node("RotaryEmbedding", "x", "c", "s", "p", rotary_embedding_dim=4)], cache, opset=23),
        "rotary_interleaved": several([("x", real, (2, 5, 8))], [
            node("RotaryEmbedding", "x", "c", "s", interleaved=1, num_heads=2)], {"c": reals(2, 5, 2), "s": reals(2, 5, 2)}, opset=23),
        "likelihood": several(scores, [node("NegativeLogLikelihoodLoss", "x", "t", "w", ignore_index=2)], {"w": reals(5)}),
        "cross_entropy": several(scores, [node("SoftmaxCrossEntropyLoss", "x", "t", outputs=["y", "z"], reduction="none")]),
        "cross_entropy_sum": several(scores, [node("SoftmaxCrossEntropyLoss", "x", "t", ignore_index=-1, reduction="sum")]),
        "reverse": several([("x", real, (4, 3, 2)), ("n", index, (3,))], [node("ReverseSequence", "x", "n")]),
        "center": single("CenterCropPad", opset=18, given={"s": whole(3, 9)}, axes=[-1, 2]),
        "col2im": single("Col2Im", (1, 8, 9), opset=18, given={"s": whole(4, 4), "b": whole(2, 2)}),
        "mean_variance": single("MeanVarianceNormalization"), "det": single("Det", (2, 3, 3)), "hardmax": single("Hardmax", axis=1),
        "hardmax_old": single("Hardmax", opset=11), "slope_below": single("LeakyRelu", alpha=-0.5), "swish": single("Swish", opset=24),
        "compress": single("Compress", given={"c": np.array([True, False, True])}, axis=1),
        "compress_flat": single("Compress", given={"c": np.array([True, False, True])}),
        "pool_beyond": single("AveragePool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 0, 0], ceil_mode=1, count_include_pad=1),
    }
    made.update({f"arc_{kind}": single(kind) for kind in ("Asin", "Acos", "Asinh", "Acosh", "Atanh")})
    return made


def listed():
    """Sequences, scans, and products of quantised numbers."""
    real, byte = TensorProto.FLOAT, np.uint8
    two = [node("SequenceConstruct", "x", "x", outputs=["s"])]
    value = helper.make_tensor_value_info
    body = helper.make_graph([node("Add", "a", "b", outputs=["c"]), node("Identity", "c", outputs=["d"])], "body",
                             [value("a", real, (2, 8)), value("b", real, (2, 8))], [value("c", real, None), value("d", real, None)])
    scales = {"xs": np.float32(0.1), "xz": byte(3), "w": np.arange(24, dtype=np.int8).reshape(3, 8), "ws": np.float32(0.2),
              "wz": np.int8(0), "ys": np.float32(0.5), "yz": byte(9)}
    filters = {**scales, "w": np.arange(108, dtype=np.int8).reshape(3, 4, 3, 3), "ws": np.float32([0.1, 0.2, 0.3]), "wz": np.int8([0, 0, 0]),
               "b": np.arange(3, dtype=np.int32)}
    rows = {**scales, "w": np.arange(24, dtype=np.int8).reshape(8, 3)}
    quantised = node("QuantizeLinear", "x", "xs", "xz", outputs=["q"])
    return {
        "sequence_new_axis": model(two + [node("ConcatFromSequence", "s", axis=1, new_axis=1)], ROWS),
        "sequence_concat": model(two + [node("SequenceInsert", "s", "x", "p", outputs=["t"]), node("SequenceErase", "t", "p", outputs=["u"]),
                                        node("ConcatFromSequence", "u", axis=-1)], ROWS, {"p": np.array(-1, np.int64)}),
        "sequence_length": model([node("SequenceEmpty", outputs=["s"]), node("SequenceInsert", "s", "x", outputs=["t"]),
                                  node("SequenceLength", "t")], ROWS),
        "sequence_drop": model([node("SplitToSequence", "x", outputs=["s"], keepdims=0, axis=1), node("SequenceAt", "s", "p")], ROWS,
                               {"p": np.array(1, np.int64)}),
        "scan": model([node("Scan", "z", "x", outputs=["e", "y"], num_scan_inputs=1, body=body, scan_output_directions=[1],
                            scan_output_axes=[1])], ROWS, {"z": reals(2, 8)}),
        "qlinear_matmul": model([quantised, node("QLinearMatMul", "q", "xs", "xz", "w", "ws", "wz", "ys", "yz")], (3, 8), rows),
        "qlinear_conv": model([quantised, node("QLinearConv", "q", "xs", "xz", "w", "ws", "wz", "ys", "yz", "b", pads=[1, 1, 1, 1])], IMAGE, filters),
    }


def more_layers():
    """Layers and their settings that the models above leave out."""
    made = {
        "attention_plain": attention(), "attention_lengths": attention(True, True),
        "attention_apart": attention(keys=(2, 2, 5, 4), divides=True), "exported_lstm": exported_lstm(),
        "norm_axes": single("LayerNormalization", ROWS, opset=17, given={"w": reals(2, 8), "b": reals(2, 8)}, axis=1,
                            outputs=["y", "m", "d"]),
        "norm_no_bias": single("LayerNormalization", ROWS, opset=17, given={"w": reals(8)}),
        "dropout_ratio": single("Dropout", given={"r": np.float32(0.25)}),
        "dropout_zero": single("Dropout", given={"r": np.float32(0)}),
        "up_same": single("ConvTranspose", given={"w": reals(4, 3, 3, 3)}, strides=[2, 2], auto_pad="SAME_UPPER"),
        "up_shape": single("ConvTranspose", given={"w": reals(4, 3, 3, 3)}, strides=[2, 2], output_shape=[13, 12],
                           auto_pad="SAME_LOWER"),
        "up_groups": single("ConvTranspose", given={"w": reals(4, 2, 3, 3), "b": reals(4)}, group=2),
        "up_beyond": single("ConvTranspose", given={"w": reals(4, 3, 2, 2)}, strides=[3, 3], output_padding=[2, 2]),
        "up_1d": single("ConvTranspose", (2, 4, 9), given={"w": reals(4, 3, 3)}, strides=[2]),
        "pool_1d": single("MaxPool", (2, 4, 9), kernel_shape=[3], strides=[2]),
        "pool_even": single("AveragePool", kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
        "matmul_plain": single("MatMul", (3, 8), given={"w": reals(8, 5)}),
        "matmul_vector": single("MatMul", ROWS, given={"w": reals(8)}),
        "matmul_left_vector": model([node("MatMul", "w", "x")], ROWS, {"w": reals(2)}),
        "matmul_vectors": model([node("MatMul", "w", "x")], (8,), {"w": reals(8)}),
        "gemm_alone": model([node("Gemm", "x", "w")], (3, 8), {"w": reals(8, 5)}),
        "bias_first": model([node("Add", "w", "x")], ROWS, {"w": reals(8)}),
        "power": single("Pow", given={"p": np.float32(2)}), "root": single("Pow", given={"p": np.float32(0.5)}),
        "cube": single("Pow", given={"p": np.float32(3)}), "power_of": model([node("Pow", "p", "x")], IMAGE,
                                                                             {"p": np.float32(2)}),
        "minus": single("Sub", given={"p": np.float32(2)}), "minus_from": model([node("Sub", "p", "x")], IMAGE,
                                                                                {"p": np.float32(2)}),
        "least": single("Min", given={"p": np.float32(2)}), "most": single("Max", given={"p": np.float32(2)}),
        "over": single("Div", given={"p": np.float32(2)}), "times": single("Mul", given={"p": np.float32(2)}),
        "plus": single("Add", given={"p": np.float32(2)}), "over_nothing": single("Div", given={"p": np.float32(0)}),
        "sum_one": model([node("Sum", "x")], IMAGE), "mean_three": model([node("Mean", "x", "x", "x")], IMAGE),
        "max_three": model([node("Max", "x", "w", "v")], IMAGE, {"w": reals(6), "v": reals(*IMAGE)}),
        "ranks": model([node("Max", "x", "w", "v")], (6,), {"w": reals(6), "v": reals(*IMAGE)}),
        "clip_none": single("Clip", opset=11), "clip_six": single("Clip", opset=9, min=0.0, max=6.0),
        "clip_zero": single("Clip", opset=9, min=0.0), "clip_one": single("Clip", opset=9, min=0.0, max=1.0),
        "clip_value": several([("x", TensorProto.FLOAT, ROWS), ("a", TensorProto.FLOAT, ())],
                              [node("Clip", "x", "a")]),
        "clip_values": several([("x", TensorProto.FLOAT, ROWS), ("a", TensorProto.FLOAT, ()),
                                ("b", TensorProto.FLOAT, ())], [node("Clip", "x", "a", "b")]),
        "leaky_zero": single("LeakyRelu", alpha=0.0), "leaky_below": single("LeakyRelu", alpha=-0.5),
        "cast_bool": model([node("Cast", "x", outputs=["b"], to=9), node("Where", "b", "x", "w")], ROWS, {"w": reals(8)}),
        "cast_whole": model([node("Cast", "x", outputs=["b"], to=6), node("Cast", "b", to=1)], ROWS),
        "cast_real": single("Cast", to=10), "cast_text": single("Cast", to=8),
        "cast_words": model([node("Cast", "x", to=1)], (2, 3), kind=TensorProto.INT64),
        "slice_whole": single("Slice", given={"a": whole(0), "b": whole(99), "c": whole(1)}),
        "pad_none": single("Pad", given={"p": whole(0, 0, 0, 0, 0, 0, 0, 0)}),
        "pad_edge": single("Pad", given={"p": whole(0, 0, 1, 1, 0, 0, 1, 1)}, mode="edge"),
        "pad_wrap": single("Pad", given={"p": whole(0, 0, 1, 1, 0, 0, 1, 1)}, mode="wrap"),
        "pad_value": several([("x", TensorProto.FLOAT, IMAGE), ("v", TensorProto.FLOAT, ())],
                             [node("Pad", "x", "p", "v")], {"p": whole(0, 0, 1, 1, 0, 0, 1, 1)}),
        "expand_same": single("Expand", ROWS, given={"s": whole(3, 2, 8)}),
        "expand_batch": model([node("Expand", "w", "s", outputs=["e"]), node("Concat", "e", "x", axis=1)], (2, 3),
                              {"w": reals(1, 3), "s": whole(2, 3)}),
        "expand_ones": model([node("Expand", "w", "s", outputs=["e"]), node("Concat", "e", "x", axis=1)], (2, 3),
                             {"w": np.ones((2, 1), dtype=np.float32), "s": whole(2, 3)}),
        "rows_batch": model([node("Relu", "w", outputs=["u"]), node("Expand", "u", "s", outputs=["e"]),
                             node("Concat", "e", "x", axis=1)], (2, 3), {"w": reals(1, 3), "s": whole(2, 3)}),
        "rows_image": model([node("Relu", "w", outputs=["u"]), node("Expand", "u", "s", outputs=["e"]),
                             node("Concat", "e", "x", axis=1)], IMAGE, {"w": reals(1, 4, 6, 6), "s": whole(2, 4, 6, 6)}),
        "resize_same": single("Resize", given={"r": reals(0), "s": np.float32([1, 1, 1, 1])}),
        "resize_crop": single("Resize", given={"r": np.float32([0, 0, .1, .2, 1, 1, .8, .9]), "s": np.float32([1, 1, 2, 2])},
                              mode="linear", coordinate_transformation_mode="tf_crop_and_resize"),
        "resize_ceil": single("Resize", given={"r": reals(0), "s": np.float32([1, 1, 2, 2])}, nearest_mode="ceil",
                              coordinate_transformation_mode="tf_half_pixel_for_nn"),
        "resize_pytorch": model([node("Resize", "x", "", "", "s", mode="linear",
                                      coordinate_transformation_mode="pytorch_half_pixel")], IMAGE, {"s": whole(2, 4, 1, 5)}),
        "resize_old": single("Resize", opset=10, given={"s": np.float32([1, 1, 2, 2])}),
        "upsample_attribute": single("Upsample", opset=7, scales=[1.0, 1.0, 2.0, 2.0], mode="nearest"),
        "gather_run": several([("x", TensorProto.FLOAT, ROWS), ("i", TensorProto.INT64, (2,))],
                              [node("Gather", "x", "i", axis=1)]),
        "gather_many": single("Gather", given={"i": whole(2, 0, 1, 1).reshape(2, 2)}, axis=1),
        "gather_reals": several([("x", TensorProto.FLOAT, (2, 3)), ("t", TensorProto.FLOAT, (2, 3))],
                                [node("Gather", "w", "x"),], {"w": reals(7, 4)}),
        "swap": single("Transpose", perm=[1, 0, 2, 3]), "reversed": single("Transpose", (2, 3)),
        "transposed_weight": model([node("Transpose", "w", outputs=["t"], perm=[1, 0]), node("MatMul", "x", "t")],
                                   (3, 8), {"w": reals(5, 8)}),
        "reshape_zero": single("Reshape", given={"s": whole(0, -1)}),
        "concat_batch": model([node("Concat", "w", "x", axis=0)], IMAGE, {"w": reals(1, 4, 6, 6)}),
        "squeeze_all": single("Squeeze", (2, 1, 3, 1)), "split_equal": single("Split", outputs=["y", "z"], axis=1),
        "unsqueeze": single("Unsqueeze", ROWS, given={"a": whole(0, -1)}),
    }
    return made


def known_at_import():
    """Arithmetic of what is known at import, in every type, read as a shape, a bound, or a number."""
    made = {}
    types = ["float64", "float16", "int32", "int16", "int8", "uint8", "uint16", "uint32", "uint64", "bool"]
    for name in types:
        w = np.array([[0, 1, 2], [3, 4, 250]]).astype(name)
        made[f"type_{name}"] = model([node("Cast", "w", outputs=["f"], to=1), node("Add", "x", "f")], (2, 3), {"w": w})
        made[f"weight_{name}"] = model([node("MatMul", "x", "w")], (2, 2), {"w": w})
        to = helper.np_dtype_to_tensor_dtype(np.dtype(name)) if hasattr(helper, "np_dtype_to_tensor_dtype") else \
            numpy_helper.from_array(w).data_type
        reals_of_all = numpy_helper.from_array(np.float32([[-1, 300, 70000], [1e10, -1e30, .5]]), "t")
        made[f"to_{name}"] = model([node("Constant", outputs=["w"], value=reals_of_all),
                                    node("Cast", "w", outputs=["c"], to=to), node("Cast", "c", outputs=["f"], to=1),
                                    node("Add", "x", "f")], (2, 3))
    for kind in ("Add Sub Mul Div Pow Max Min Sum Equal Greater GreaterOrEqual Less LessOrEqual").split():
        made[f"known_{kind}"] = model([node(kind, "a", "b", outputs=["c"]), node("Cast", "c", outputs=["f"], to=1),
                                       node("Add", "x", "f")], (2, 3), {"a": whole(1, 2, 3), "b": whole(3)})
    for kind in "Floor Ceil Round Neg Abs Sqrt Not Relu Exp".split():
        made[f"known_{kind}"] = model([node(kind, "a", outputs=["c"]), node("Add", "x", "c")], (2, 3),
                                      {"a": np.float32([1.5, 2.5, 0.5])})
    whole_zero, kinds = np.array(0, dtype=np.int64), {"value_float": 1.5, "value_int": 2, "value_floats": [1.5, 2.5, 3.5],
                                                      "value_ints": [1, 2, 3]}
    for kind, value in kinds.items():
        made[f"constant_{kind}"] = model([node("Constant", outputs=["c"], **{kind: value}),
                                          node("Cast", "c", outputs=["f"], to=1), node("Add", "x", "f")], (2, 3))
    tensor = numpy_helper.from_array(np.float32([1, 2, 3]), "t")
    made.update({
        "constant_value": model([node("Constant", outputs=["c"], value=tensor), node("Add", "x", "c")], (2, 3)),
        "constant_none": model([node("Constant", outputs=["c"]), node("Add", "x", "c")], (2, 3)),
        "known_where": model([node("Where", "t", "a", "b", outputs=["c"]), node("Add", "x", "c")], (2, 3),
                             {"t": np.array([True, False, True]), "a": reals(3), "b": reals(3)}),
        "known_apart": model([node("Add", "a", "b", outputs=["c"]), node("Add", "x", "c")], (2, 3),
                             {"a": whole(1, 2), "b": whole(1, 2, 3)}),
        "known_slice": model([node("Slice", "a", "s", "e", outputs=["c"]), node("Add", "x", "c")], (2, 3),
                             {"a": reals(5), "s": whole(1), "e": whole(4)}),
        "known_steps": model([node("Slice", "a", "s", "e", "z", "p", outputs=["c"]), node("Reshape", "x", "c")], (2, 3),
                             {"a": whole(3, 9, 2), "s": whole(2), "e": whole(-9), "z": whole(0), "p": whole(-2)}),
        "known_gather": model([node("Gather", "a", "i", outputs=["c"]), node("Add", "x", "c")], (2, 3),
                              {"a": reals(2, 3), "i": np.array(1, dtype=np.int64)}),
        "known_gather_whole": model([node("Shape", "x", outputs=["s"]), node("Gather", "s", "i", outputs=["c"]),
                                     node("Reshape", "x", "c")], (2, 3), {"i": whole(1, 0)}),
        "known_expand": model([node("Expand", "a", "s", outputs=["c"]), node("Add", "x", "c")], (2, 3),
                              {"a": whole(1).astype(np.float32), "s": whole(2, 3)}),
        "known_concat": model([node("Concat", "a", "b", outputs=["c"], axis=0), node("Add", "x", "c")], (2, 3),
                              {"a": reals(2), "b": reals(1)}),
        "known_split": model([node("Split", "a", outputs=["c", "d"], axis=0), node("Add", "x", "c", outputs=["e"]),
                              node("Add", "e", "d")], (2, 3), {"a": reals(6)}),
        "known_transpose": model([node("Transpose", "a", outputs=["c"]), node("Add", "x", "c")], (2, 3), {"a": reals(3, 2)}),
        "known_shape": model([node("Transpose", "a", outputs=["c"]), node("Cast", "c", outputs=["f"], to=1),
                              node("Add", "x", "f")], (2, 3), {"a": whole(1, 2, 3, 4, 5, 6).reshape(3, 2)}),
        "known_squeeze": model([node("Squeeze", "a", "z", outputs=["c"]), node("Unsqueeze", "c", "z", outputs=["d"]),
                                node("Reshape", "d", "t", outputs=["e"]), node("Add", "x", "e")], (2, 3),
                               {"a": reals(1, 3), "z": whole(0), "t": whole(3)}),
        "fill_whole": model([node("Shape", "x", outputs=["s"]),
                             node("ConstantOfShape", "s", outputs=["c"],
                                  value=numpy_helper.from_array(whole(2), "v")),
                             node("Cast", "c", outputs=["f"], to=1), node("Add", "x", "f")], ROWS),
        "fill_real": model([node("Shape", "x", outputs=["s"]),
                            node("ConstantOfShape", "s", outputs=["c"],
                                 value=numpy_helper.from_array(np.float32([2]), "v")), node("Add", "x", "c")], ROWS),
        "fill_two": model([node("Shape", "x", outputs=["s"]),
                           node("ConstantOfShape", "s", outputs=["c"], value=tensor), node("Add", "x", "c")], ROWS),
        "range_real": model([node("Range", "a", "b", "d", outputs=["r"]), node("Add", "x", "r")], (2, 3),
                            {"a": np.float32(0), "b": np.float32(1.5), "d": np.float32(0.5)}),
        "range_endless": model([node("Range", "a", "b", "d", outputs=["r"]), node("Add", "x", "r")], (2, 3),
                               {"a": np.float32(0), "b": np.float32(1e12), "d": np.float32(0.5)}),
        "output_known": model([node("Add", "a", "b")], (2, 3), {"a": reals(3), "b": whole_zero.astype(np.float32)}),
        "output_whole": model([node("Add", "a", "b")], (2, 3), {"a": whole(1, 2, 3), "b": whole(1)}),
    })
    return made


def refused():
    """What each translator refuses, one reason a model."""
    one = np.array(0, dtype=np.int64)
    return {
        "no_index": single("Gather", given={"i": whole(9)}, axis=1), "no_whole": single("Gather", given={"i": reals(2)}),
        "no_rank": single("Gather", (2, 2, 2, 2, 2), given={"i": whole(*range(1)).reshape(1, 1, 1, 1, 1, 1)}),
        "no_kernel": single("MaxPool", kernel_shape=[0, 2]), "no_axes": single("MaxPool", kernel_shape=[2]),
        "no_pads": single("MaxPool", kernel_shape=[2, 2], pads=[1, 1]),
        "no_crop": single("MaxPool", kernel_shape=[2, 2], pads=[-1, 0, 0, 0]),
        "no_stride": single("MaxPool", kernel_shape=[2, 2], strides=[-1, 1]),
        "no_indices": single("MaxPool", kernel_shape=[2, 2], outputs=["i", "y"]),
        "no_count": single("AveragePool", kernel_shape=[4, 4], strides=[3, 3], ceil_mode=1, count_include_pad=1),
        "no_filter": single("Conv", given={"w": reals(4, 4, 3)}), "no_group": single("Conv", given={"w": reals(4, 4, 3, 3)}, group=0),
        "no_groups": single("ConvTranspose", given={"w": reals(4, 4, 3, 3)}, group=3),
        "no_output": single("ConvTranspose", given={"w": reals(4, 3, 2, 2)}, output_padding=[99999999, 0]),
        "no_matrix": single("Gemm", given={"w": reals(3, 2)}), "no_scalar": single("MatMul", (), given={"w": reals(3)}),
        "no_axis": single("LayerNormalization", ROWS, opset=17, given={"w": reals(8)}, axis=7),
        "no_ratio": several([("x", TensorProto.FLOAT, ROWS), ("r", TensorProto.FLOAT, ())], [node("Dropout", "x", "r")]),
        "no_mask": single("Dropout", outputs=["y", "m"], given={}), "no_spatial": single("BatchNormalization", opset=7,
                                                                                     given={n: reals(4) for n in "abcd"}, spatial=0),
        "no_scale": model([node("BatchNormalization", "x", "a", "", "a", "a")], IMAGE, {"a": reals(4)}),
        "no_step": single("Slice", given={"a": whole(0), "b": whole(2), "c": whole(1), "d": whole(0)}),
        "no_elements": single("Slice", given={"a": whole(2), "b": whole(2), "c": whole(1)}),
        "no_lists": single("Slice", given={"a": whole(2), "b": whole(2, 3)}),
        "no_repeats": single("Tile", ROWS, given={"n": whole(2, 1)}), "no_repeat": single("Tile", ROWS, given={"n": whole(2, 1, 0)}),
        "no_fit": single("Expand", ROWS, given={"s": whole(3, 5, 8)}), "no_pad": single("Pad", given={"p": whole(1, 1)}),
        "no_mode": single("Pad", given={"p": whole(0, 0, 0, 0, 0, 0, 0, 1)}, mode="odd"),
        "no_sizes": single("Resize", given={"r": reals(0), "s": np.float32([1, 1])}),
        "no_extent": single("Resize", given={"r": reals(0), "s": np.float32([1, 1, 0, 1])}),
        "no_region": single("Resize", given={"r": reals(3), "s": np.float32([1, 1, 2, 2])},
                            coordinate_transformation_mode="tf_crop_and_resize"),
        "no_nearest": single("Resize", given={"r": reals(0), "s": np.float32([1, 1, 2, 2])}, nearest_mode="odd"),
        "no_places": single("Resize", given={"r": reals(0), "s": np.float32([1, 1, 2, 2])},
                            coordinate_transformation_mode="odd"),
        "no_reshape": single("Reshape", given={"s": whole(*[1] * 9)}), "no_flatten": single("Flatten", axis=9),
        "no_twice": single("Squeeze", (2, 1, 3, 1), given={"a": whole(1, 1)}),
        "no_room": single("Unsqueeze", ROWS, given={"a": whole(*range(7))}),
        "no_perm": single("Transpose", perm=[0, 1, 2, 7]), "no_parts": single("Split", opset=11, outputs=["y", "z"], axis=1, split=[9, 9]),
        "no_equal": single("Split", outputs=["y", "z", "u"], axis=1),
        "no_split": single("Split", outputs=["y", "z"], given={"s": whole(-1, 5)}, axis=1),
        "no_bounds": several([("x", TensorProto.FLOAT, (2, 3)), ("n", TensorProto.INT64, ())],
                             [node("Range", "a", "n", "b", outputs=["r"]), node("Add", "x", "r")], {"a": one, "b": one + 1}),
        "no_domain": model([helper.make_node("Relu", ["x"], ["y"], domain="com.example")], IMAGE),
        "no_operator": single("Bernoulli", opset=15), "no_input": model([node("Conv", "x", "")], IMAGE),
        "no_outputs": model([node("Relu", "x", outputs=[""]), node("Relu", "x")], IMAGE),
        "no_rounding": single("Floor"), "no_value": model([node("Dropout", "x", outputs=["", "m"]), node("Relu", "m")], IMAGE),
        "no_big": model([node("Expand", "a", "s", outputs=["c"]), node("Add", "x", "c")], (2, 3),
                        {"a": reals(1), "s": whole(99999, 99999)}),
        "no_list": several([("x", TensorProto.FLOAT, (2, 3)), ("s", TensorProto.INT64, (2,))], [node("Expand", "x", "s")]),
        "no_numbers": single("Reshape", given={"s": whole(*[1] * 5000)}),
        "no_axes_at_all": single("Expand", given={"s": whole(*[1] * 9)}),
        "no_negative": single("Expand", given={"s": whole(2, -4, 6, 6)}),
        "no_product": single("Expand", given={"s": whole(1 << 40, 1 << 40, 6, 6)}),
        "no_block": single("DepthToSpace", blocksize=3), "no_layer": single("Relu", (2, 3), given={}, outputs=["y", "z"]),
    }


def branch(kind):
    return helper.make_graph([node(kind, "x", outputs=["made"])], kind, [],
                             [helper.make_tensor_value_info("made", TensorProto.FLOAT, None)])


def body():
    """A run of a loop over what it carries."""
    places = [helper.make_tensor_value_info("number", TensorProto.INT64, []),
              helper.make_tensor_value_info("on", TensorProto.BOOL, []),
              helper.make_tensor_value_info("carried", TensorProto.FLOAT, None)]
    nodes = [node("Identity", "on", outputs=["still"]), node("Relu", "carried", outputs=["next"])]
    return helper.make_graph(nodes, "body", places, [helper.make_tensor_value_info("still", TensorProto.BOOL, []),
                                                     helper.make_tensor_value_info("next", TensorProto.FLOAT, None)])


def known(kind, value, *names, given=(), opset=18, n_outputs=1, which=0, **attributes):
    """An operator of a constant, added to x."""
    outputs = [f"c{i}" for i in range(n_outputs)]
    return model([node("Constant", outputs=["a"], value=numpy_helper.from_array(np.array(value), "t")),
                  node(kind, "a", *names, outputs=outputs, **attributes), node("Cast", outputs[which], outputs=["f"], to=1),
                  node("Add", "x", "f")], (2, 3), given, opset)


def listing_body():
    """A run of a loop that lists what it carries, too."""
    places = [helper.make_tensor_value_info("number", TensorProto.INT64, []),
              helper.make_tensor_value_info("on", TensorProto.BOOL, []),
              helper.make_tensor_value_info("carried", TensorProto.FLOAT, None)]
    nodes = [node("Identity", "on", outputs=["still"]), node("Relu", "carried", outputs=["next"]),
             node("Neg", "carried", outputs=["row"])]
    return helper.make_graph(nodes, "body", places,
                             [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in
                              (("still", TensorProto.BOOL, []), ("next", TensorProto.FLOAT, None),
                               ("row", TensorProto.FLOAT, None))])


def chosen_at_import():
    """What picks, puts, ranks and sums of constants, or by indices that only the run knows."""
    reals_6, whole_6 = reals(2, 3), np.array([[3, 1, 2], [0, 5, 4]], dtype=np.int64)
    one, three = np.array(1, dtype=np.int64), np.array(3, dtype=np.int64)
    running = [("x", TensorProto.FLOAT, (2, 3)), ("i", TensorProto.INT64, (2, 2))]
    made = {
        "pick_elements_run": several(running, [node("GatherElements", "x", "i", axis=1)], opset=18),
        "pick_tuples_run": several(running, [node("GatherND", "x", "i")], opset=18),
        "pick_elements_real": known("GatherElements", reals_6, "i", given={"i": whole_6 % 2}, axis=0),
        "pick_elements_whole": known("GatherElements", whole_6, "i", given={"i": whole_6 % 3}, axis=1),
        "pick_elements_none": known("GatherElements", whole_6, "i", given={"i": whole_6 + 9}, axis=1),
        "pick_tuples": known("GatherND", reals_6, "i", given={"i": whole(0, 1).reshape(1, 2)}),
        "pick_tuples_batch": known("GatherND", reals_6, "i", given={"i": whole(0, 1).reshape(2, 1)}, batch_dims=1),
        "eye": model([node("EyeLike", "x", outputs=["e"]), node("Add", "x", "e")], (3, 3)),
        "eye_above": model([node("EyeLike", "x", outputs=["e"], k=1, dtype=1), node("Add", "x", "e")], (2, 3)),
        "non_zero": known("NonZero", whole_6, given={}), "non_zero_run": single("NonZero", opset=13),
        "trilu": known("Trilu", reals_6), "trilu_k": known("Trilu", whole_6, "k", given={"k": one}, upper=0),
        "arg_run": single("ArgMax", ROWS, axis=1, keepdims=0), "loop_lists": model(
            [node("Loop", "three", "", "x", outputs=["last", "y"], body=listing_body())], (2, 3), {"three": three}),
        "loop_once": model([node("Loop", "one", "", "x", outputs=["last", "y"], body=listing_body())], (2, 3), {"one": one}),
        "branch_run": several([("x", TensorProto.FLOAT, ROWS), ("c", TensorProto.BOOL, ())],
                              [node("If", "c", then_branch=branch("Neg"), else_branch=branch("Abs"))]),
        "bernoulli": model([node("Constant", outputs=["p"], value=numpy_helper.from_array(np.full((2, 3), .25, np.float32), "t")),
                            node("Bernoulli", "p", outputs=["b"]), node("Add", "x", "b")], (2, 3), opset=15),
        "uniform": model([node("RandomUniform", outputs=["r"], shape=[2, 3]), node("Add", "x", "r")], (2, 3)),
        "uniform_like": model([node("RandomUniformLike", "x", outputs=["r"]), node("Add", "x", "r")], (2, 3)),
        "mod_whole": model([node("Cast", "x", outputs=["i"], to=7), node("Mod", "i", "w", outputs=["m"]),
                            node("Cast", "m", to=1)], (2, 3), {"w": whole(2)}),
    }
    for how in ("none", "add", "mul", "min", "max"):
        made[f"put_{how}"] = known("ScatterElements", whole_6, "i", "u", given={"i": whole_6[:, :2] % 3, "u": whole_6[:, 1:]},
                                   axis=1, reduction=how)
        made[f"put_rows_{how}"] = known("ScatterND", whole_6, "i", "u", given={"i": whole(1, 0).reshape(2, 1), "u": whole_6},
                                        reduction=how)
        made[f"put_run_{how}"] = single("ScatterElements", (2, 3), opset=18, axis=1, reduction=how,
                                        given={"i": whole_6[:, :2] % 3, "u": reals(2, 2)})
    made["put_odd"] = known("ScatterND", whole_6, "i", "u", given={"i": whole(1, 0).reshape(2, 1), "u": whole_6}, reduction="odd")
    made["put_few"] = known("ScatterND", whole_6, "i", "u", given={"i": whole(1, 0).reshape(2, 1), "u": whole(1)})
    made["put_beyond"] = known("ScatterND", whole_6, "i", "u", given={"i": whole(1, 7).reshape(2, 1), "u": whole_6})
    made["pick_ranks"] = known("GatherElements", whole_6, "i", given={"i": whole(1)})
    made["pick_wide"] = known("GatherElements", whole_6, "i", given={"i": np.zeros((5, 3), dtype=np.int64)}, axis=1)
    for largest in (0, 1):
        made[f"rank_{largest}"] = known("TopK", whole_6, "k", given={"k": whole(2)}, n_outputs=2, which=1, largest=largest, axis=0)
        made[f"sums_{largest}"] = known("CumSum", reals_6, "k", given={"k": one}, exclusive=largest, reverse=1 - largest)
        made[f"mod_{largest}"] = known("Mod", whole_6, "k", given={"k": whole(-2)}, fmod=largest)
        made[f"last_{largest}"] = known("ArgMax", whole_6, axis=0, select_last_index=largest)
        made[f"least_{largest}"] = known("ArgMin", reals_6, axis=1, keepdims=largest)
    equations = {"implied": "ij,jk", "dots": "...j,jk->...k", "dots_implied": "...j,jk", "summed": "ij,jk->k", "turned": "ij,jk->ki",
                 "outer": "ij,kl->ijkl", "batched": "ij,ji->i", "all": "ij,ji->", "diagonal": "ii,ij->j", "spaces": " i j , j k -> i k "}
    for name, equation in equations.items():
        made[f"einsum_{name}"] = single("Einsum", (3, 3), given={"w": reals(3, 3)}, equation=equation)
    made["einsum_sum"] = single("Einsum", ROWS, equation="nth->t")
    return made


def packed(name, shape, kind, raw):
    """A tensor of four bits, whose types this package has not."""
    return TensorProto(name=name, dims=shape, data_type=kind, raw_data=raw)


def bits(nodes, tensors, given, opset=21):
    """A model with tensors beside the arrays."""
    made = model(nodes, ROWS, given, opset)
    made.graph.initializer.extend(tensors)
    return made


def regions():
    """Regions, sizes with antialias, four bits, no elements, and an LSTM of bytes."""
    rois, which = reals(2, 4) * 3, whole(0, 1)
    boxes = np.float32([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, 9, 1, 10]]])
    of_bytes = {n: reals(1, 16) for n in ("b1", "b2")}
    lstm = node("DynamicQuantizeLSTM", "x", "w", "r", "", "", "", "", "", "ws", "wz", "rs", "rz", outputs=["y", "h", "c"], hidden_size=4)
    lstm.domain = "com.microsoft"
    quantised = model([lstm], ROWS, {"w": np.ones((1, 8, 16), np.int8), "r": np.ones((1, 4, 16), np.int8), "ws": of_bytes["b1"], "rs": of_bytes["b2"],
                                     "wz": np.zeros((1, 16), np.int8), "rz": np.zeros((1, 16), np.int8)})
    quantised.opset_import.append(helper.make_opsetid("com.microsoft", 1))
    slices = {"z": whole(0), "o": whole(1)}
    empty = node("Slice", "x", "z", "z", "o", outputs=["e"])
    return {
        "regions_adaptive": single("RoiAlign", opset=16, given={"rois": rois, "which": which}, output_height=2, output_width=3),
        "regions_most": single("RoiAlign", opset=12, given={"rois": rois, "which": which}, mode="max"),
        "boxes_chosen": model([node("NonMaxSuppression", "b", "s", "m", "i", "l", outputs=["n"]), node("Cast", "n", outputs=["f"], to=1), node("Gather", "x", "o"),
                               ], ROWS, {"b": boxes, "s": boxes[:, :1, :3], "m": whole(2), "i": np.float32([0.5]), "l": np.float32([0]), "o": whole(0)}),
        "resize_smooth": model([node("Resize", "x", "", "", "s", mode="cubic", antialias=1, exclude_outside=1)], IMAGE, {"s": whole(2, 4, 3, 4)}, 18),
        "resize_aspect": model([node("Resize", "x", "", "", "s", mode="linear", keep_aspect_ratio_policy="not_larger", axes=[2, 3])], IMAGE,
                               {"s": whole(3, 9)}, 18),
        "resize_symmetric": model([node("Resize", "x", "", "s", mode="linear", coordinate_transformation_mode="half_pixel_symmetric")], IMAGE,
                                  {"s": np.float32([1, 1, 0.6, 0.7])}, 19),
        "four_bits": bits([node("DequantizeLinear", "q", "s", outputs=["d"], axis=0, block_size=3), node("MatMul", "x", "d")],
                          [packed("q", [8, 3], 22, b"123456789012")], {"s": reals(3, 3)}),
        "four_bits_zero": bits([node("DequantizeLinear", "q", "s", "z", outputs=["d"], axis=1), node("MatMul", "x", "d")],
                               [packed("q", [8, 3], 21, b"123456789012"), packed("z", [3], 21, b"12")], {"s": reals(3)}),
        "four_bits_short": bits([node("DequantizeLinear", "q", "s", outputs=["d"])], [packed("q", [8, 3], 22, b"1234")], {"s": np.float32(1)}),
        "lstm_bytes": quantised,
        "empty_concat": model([empty, node("Relu", "e", outputs=["r"]), node("Concat", "r", "x", axis=1)], ROWS, slices),
        "empty_sum": model([empty, node("Less", "e", "e", outputs=["t"]), node("Where", "t", "e", "e", outputs=["w"]),
                            node("ReduceMax", "w", outputs=["m"], axes=[1], keepdims=1), node("Add", "x", "m")], ROWS, slices),
        "empty_product": model([empty, node("Transpose", "e", outputs=["t"], perm=[0, 2, 1]), node("MatMul", "t", "e", outputs=["p"]), node("MatMul", "x", "p")],
                               ROWS, slices),
        "empty_split": model([node("Split", "x", "n", outputs=["e", "f"], axis=1), node("Cast", "e", outputs=["c"], to=7), node("Shape", "c", outputs=["s"]),
                              node("Expand", "f", "s", outputs=["g"]), node("Concat", "g", "f", axis=1)], ROWS, {"n": whole(0, 2)}),
        "top_none": model([node("TopK", "x", "k", outputs=["e", "i"]), node("ReduceSum", "e", "a")], ROWS, {"k": whole(0), "a": whole(-1)}),
    }


def volumes():
    """Windows over three axes, powers and roots of pools, spectra, and what numbers of small types are known."""
    volume, images = (2, 4, 3, 6, 6), (2, 4, 6, 6)
    long = np.array(8, dtype=np.int64)
    made = {
        "volume_conv": single("Conv", volume, given={"w": reals(6, 4, 2, 3, 3), "b": reals(6)}),
        "volume_conv_groups": single("Conv", volume, given={"w": reals(4, 2, 3, 3, 3)}, group=2, pads=[1] * 6, strides=[2, 1, 1]),
        "volume_turned": single("ConvTranspose", volume, given={"w": reals(4, 2, 2, 2, 2), "b": reals(2)}, strides=[2, 2, 2]),
        "volume_turned_groups": single("ConvTranspose", volume, given={"w": reals(4, 1, 2, 2, 2)}, group=2, output_padding=[0, 0, 0]),
        "turned_groups": single("ConvTranspose", images, given={"w": reals(4, 1, 3, 3)}, group=2, strides=[2, 2]),
        "volume_mean": single("AveragePool", volume, kernel_shape=[2, 2, 2], strides=[1, 2, 2], count_include_pad=1),
        "volume_largest": single("MaxPool", volume, kernel_shape=[2, 2, 2]),
        "volume_norm": single("BatchNormalization", volume, given={n: reals(4) + 2 for n in "sbmv"}),
        "norm_computed": single("BatchNormalization", images, opset=14, given={n: reals(4) + 2 for n in "sbmv"}, training_mode=1),
        "norm_run": several([("x", TensorProto.FLOAT, images), ("m", TensorProto.FLOAT, (4,)), ("v", TensorProto.FLOAT, (4,))],
                            [node("BatchNormalization", "x", "s", "b", "m", "v")], {"s": reals(4), "b": reals(4)}, opset=15),
        "hot": model([node("Cast", "x", outputs=["i"], to=7), node("OneHot", "i", "n", "v", axis=-1)], (2, 3),
                     {"n": whole(5), "v": np.float32([0, 1])}),
        "hot_known": known("OneHot", whole(1, 0, 4), "n", "v", given={"n": whole(3), "v": np.float32([0, 1])}, axis=0),
        "ranks": single("TopK", (2, 40), given={"k": whole(30)}, outputs=("y", "i"), axis=1),
        "ranks_least": single("TopK", (2, 40), given={"k": whole(30)}, outputs=("y", "i"), axis=0, largest=0),
        "ranks_old": single("TopK", (2, 4), opset=9, outputs=("y", "i"), k=2), "hard": single("Hardmax", (2, 4), axis=1),
        "stft": single("STFT", (2, 64, 1), opset=17, given={"s": np.array(4, dtype=np.int64), "w": reals(8) + 1}),
        "stft_plain": model([node("STFT", "x", "s", "", "l", onesided=1)], (2, 64, 1),
                            {"s": np.array(4, dtype=np.int64), "l": long}, opset=17),
        "dft": single("DFT", (2, 16, 1), opset=17, axis=1), "dft_twenty": model(
            [node("DFT", "x", "", "a", onesided=1)], (2, 16, 1), {"a": np.array(1, dtype=np.int64)}, opset=20),
        "dft_back": single("DFT", (2, 16, 2), opset=17, given={"l": long}, axis=1, inverse=1),
        "mel": model([node("Constant", outputs=["a"], value=numpy_helper.from_array(np.array(3, dtype=np.int64), "t")),
                      node("MelWeightMatrix", "a", "d", "r", "f", "t", outputs=["m"]), node("MatMul", "x", "m")], (2, 5),
                     {"d": long, "r": np.array(8000, dtype=np.int64), "f": np.float32(0), "t": np.float32(4000)}, opset=17),
        "integers_product": several([("x", TensorProto.UINT8, (2, 3))], [node("MatMulInteger", "x", "w", "p", "q", outputs=["i"]),
                                                                        node("Cast", "i", to=1)],
                                    {"w": np.int8([[1, -2], [3, 4], [5, -6]]), "p": np.uint8(3), "q": np.int8([0, 1])}),
        "integers_conv": several([("x", TensorProto.UINT8, images)], [node("ConvInteger", "x", "w", "p", outputs=["i"]),
                                                                     node("Cast", "i", to=1)],
                                 {"w": np.int8(np.arange(72).reshape(2, 4, 3, 3) - 36), "p": np.uint8(128)}),
        "mod_known_reals": known("Mod", np.float32([5.5, -5.5, 3]), "k", given={"k": np.float32([2])}, fmod=1),
        "mod_run": single("Mod", (2, 3), given={"k": np.float32([2])}, fmod=1),
    }
    scales = {"s": np.float32(.05), "z": np.uint8(128), "t": np.float32([.1, .2]), "o": np.int8([0, 0])}
    made["quantised_product"] = model([node("QuantizeLinear", "x", "s", "z", outputs=["a"]),
                                       node("QLinearMatMul", "a", "s", "z", "w", "t", "o", "s", "z", outputs=["b"]),
                                       node("DequantizeLinear", "b", "s", "z")], (2, 3),
                                      {**scales, "w": np.int8([[1, -2], [3, 4], [5, -6]])})
    made["quantised_conv"] = model([node("QuantizeLinear", "x", "s", "z", outputs=["a"]),
                                    node("QLinearConv", "a", "s", "z", "w", "t", "o", "s", "z", "b", outputs=["c"]),
                                    node("DequantizeLinear", "c", "s", "z")], images,
                                   {**scales, "w": np.int8(np.arange(72).reshape(2, 4, 3, 3) - 36), "b": np.int32([5, -7])})
    made["quantised_channels"] = model([node("DequantizeLinear", "w", "t", "o", outputs=["f"], axis=1), node("MatMul", "x", "f")],
                                       (2, 3), {**scales, "w": np.int8([[1, -2], [3, 4], [5, -6]])})
    made["quantised_blocks"] = model([node("DequantizeLinear", "w", "t", outputs=["f"], axis=0, block_size=2),
                                      node("MatMul", "x", "f")], (2, 4), {"t": np.float32([[.1, .2], [.3, .4]]),
                                                                          "w": np.int8(np.arange(8).reshape(4, 2))}, opset=21)
    made["quantised_while_running"] = model([node("DynamicQuantizeLinear", "x", outputs=["a", "b", "c"]),
                                             node("DequantizeLinear", "a", "b", "c")], (2, 3))
    for kind, settings in (("LpPool", {"kernel_shape": [2, 2]}), ("GlobalLpPool", {})):
        for p in (1, 2, 3):
            made[f"{kind}_{p}"] = single(kind, images, opset=18, p=p, **settings)
        made[f"{kind}_volume"] = single(kind, volume, opset=18, **({"kernel_shape": [2, 2, 2]} if settings else {}))
    for kind in ("HannWindow", "HammingWindow", "BlackmanWindow"):
        for periodic in (0, 1):
            made[f"{kind}_{periodic}"] = model([node(kind, "n", outputs=["w"], periodic=periodic), node("Mul", "x", "w")], (2, 8),
                                               {"n": long}, opset=17)
    for how in ("none", "add", "mul", "min", "max"):
        i = whole(1, 0).reshape(2, 1)
        made[f"rows_run_{how}"] = single("ScatterND", (2, 3), opset=18, given={"i": i, "u": reals(2, 3)}, reduction=how)
        made[f"rows_both_{how}"] = several([("x", TensorProto.FLOAT, (2, 3)), ("i", TensorProto.INT64, (2, 1)),
                                            ("u", TensorProto.FLOAT, (2, 3))], [node("ScatterND", "x", "i", "u", reduction=how)], opset=18)
        made[f"elements_both_{how}"] = several([("x", TensorProto.FLOAT, (2, 3)), ("i", TensorProto.INT64, (2, 2)), ("u", TensorProto.FLOAT, (2, 2))],
                                               [node("ScatterElements", "x", "i", "u", axis=1, reduction=how)], opset=18)
    return made


def whole_inputs():
    """Operators of integers, and of known reals, by the rules that keep them exact."""
    made, one, reals_6 = {}, np.array(1, dtype=np.int64), reals(2, 3)
    for kind, number in (("i64", TensorProto.INT64), ("u8", TensorProto.UINT8)):
        dtype = {"i64": np.int64, "u8": np.uint8}[kind]
        running, w = [("x", number, (2, 3)), ("z", number, (2, 3))], np.arange(6).reshape(2, 3).astype(dtype)

        def add(name, nodes, given=(), opset=18, inputs=tuple(running), kind=kind):
            made[f"{kind}_{name}"] = several(list(inputs), [*nodes, node("Cast", "r", outputs=["y"], to=1)], given, opset)

        def of(operator, *names, outputs=("r",), given=(), opset=18, kind=kind, add=add, **settings):
            name = f"{operator}_{len(made)}"
            add(name, [node(operator, *names, outputs=outputs, **settings)], given, opset)

        for operator in "Add Sub Mul Div Mod Max Min Pow BitwiseAnd BitwiseOr BitwiseXor".split():
            of(operator, "x", "z")
            of(operator, "x", "w", given={"w": w})
        for operator in "Abs Neg Sign Relu BitwiseNot".split():
            of(operator, "x")
        for operator in "ReduceSum ReduceMax ReduceMin ReduceProd".split():
            of(operator, "x", opset=13, keepdims=0)
        of("BitShift", "x", "z", direction="LEFT")
        of("BitShift", "x", "w", given={"w": w}, direction="RIGHT")
        of("TopK", "x", "k", outputs=("r", "p"), given={"k": whole(2)}, axis=1)
        of("TopK", "x", "k", outputs=("r", "p"), given={"k": whole(1)}, axis=0, largest=0)
        of("ArgMax", "x", axis=1)
        of("CumSum", "x", "k", given={"k": one})
        of("OneHot", "x", "n", "v", given={"n": whole(4), "v": np.array([0, 1], dtype=dtype)})
        of("MatMul", "x", "w", given={"w": w.T.copy()})
        of("MatMul", "x", "w", given={"w": np.arange(3).astype(dtype)})
        of("MatMul", "x", "w", given={"w": np.arange(24).reshape(4, 3, 2).astype(dtype)})
        of("Gemm", "x", "w", given={"w": w}, transB=1)
        of("Where", "c", "x", "z", given={"c": np.array([[True, False, True]])})
        of("Clip", "x", "a", "b", given={"a": np.array(1, dtype=dtype), "b": np.array(3, dtype=dtype)})
        of("Clip", "x", "", "b", given={"b": np.array(3, dtype=dtype)})
        of("Concat", "x", "z", "w", given={"w": w}, axis=0)
        of("Gather", "x", "i", given={"i": whole(1, 0)}, axis=1)
        of("Slice", "x", "a", "b", "k", given={"a": whole(2), "b": whole(0), "k": whole(1)})
        of("Pad", "x", "p", given={"p": whole(0, 1, 1, 0)})
        of("Pad", "x", "p", given={"p": whole(0, 1, 1, 0)}, mode="reflect")
        of("Transpose", "x")
        of("Tile", "x", "n", given={"n": whole(2, 2)})
        of("Expand", "x", "n", given={"n": whole(4, 2, 3)})
        of("Reshape", "x", "n", given={"n": whole(3, -1)})
        of("GatherElements", "x", "i", given={"i": whole(0, 2, 1, 1).reshape(2, 2)}, axis=1)
        of("ReverseSequence", "x", "n", given={"n": whole(2, 3)}, batch_axis=0, time_axis=1)
        for how in ("none", "add", "mul", "min", "max"):
            of("ScatterElements", "x", "i", "z", given={"i": whole(0, 2, 1, 1, 0, 2).reshape(2, 3)}, axis=1, reduction=how)
            of("ScatterND", "x", "i", "z", given={"i": whole(1, 0).reshape(2, 1)}, reduction=how)
        add("equal", [node("Equal", "x", "z", outputs=["r"])])
        add("less", [node("Less", "x", "z", outputs=["r"])])
        add("to_small", [node("Cast", "x", outputs=["r"], to=3)])
    i = np.array([[0, 2], [1, 0]], dtype=np.int64)
    for how in ("none", "add", "mul", "min", "max"):
        made[f"reals_put_{how}"] = known("ScatterElements", reals_6, "i", "u", given={"i": i, "u": reals(2, 2)}, axis=1, reduction=how)
    made["reals_rank"] = known("TopK", reals_6, "k", given={"k": whole(2)}, n_outputs=2)
    made["reals_rank_least"] = known("TopK", reals_6, "k", given={"k": whole(1)}, n_outputs=2, largest=0, axis=0)
    types = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "float32"]
    for operator, name in [("Mul", name) for name in types] + [(operator, "float32") for operator in "Add Sub Div Max Min Mod Pow Where".split()]:
        values = [np.array(v).astype(name) for v in ([[100, 3, 50]], [[7], [2]])]
        values = [np.array([[True, False, True]]), *values] if operator == "Where" else values
        names = [f"c{i}" for i in range(len(values))]
        constants = [node("Constant", outputs=[n], value=numpy_helper.from_array(v, "t")) for n, v in zip(names, values)]
        made[f"both_{operator}_{name}"] = model([*constants, node(operator, *names, outputs=["r"], **({"fmod": 1} if operator == "Mod" else {})),
                                                 node("Cast", "r", outputs=["f"], to=1), node("Add", "x", "f")], (2, 3), opset=18)
    made["reals_where"] = known("Where", np.array([[True, False, True]]), "a1", "b", given={"a1": reals_6, "b": np.float32([5])})
    made["reals_mod"] = known("Mod", reals_6, "k", given={"k": np.float32([.3])})
    made["reals_clip"] = known("Clip", reals_6, "p", given={"p": np.float32(0)})
    made["ranks_many"] = single("TopK", (2, 200), given={"k": whole(150)}, outputs=("y", "i"), axis=1)
    made["ranks_many_least"] = single("TopK", (2, 200), given={"k": whole(150)}, outputs=("y", "i"), axis=1, largest=0)
    return made


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
    # Each in a model of its own: one that is refused hides none.
    for kind in ("Abs Ceil Elu Erf Exp Floor Gelu HardSigmoid HardSwish Identity LeakyRelu Log LogSoftmax Neg Not "
                 "Reciprocal Relu Round Selu Sigmoid Softmax Softplus Sqrt Tanh Dropout GlobalAveragePool "
                 "GlobalMaxPool Clip Sin Cos Tan Atan Sign Softsign Celu ThresholdedRelu Mish Shrink Sinh Cosh IsNaN IsInf "
                 "RandomUniformLike LpNormalization Trilu ArgMax").split():
        files[f"one_{kind}"] = single(kind)
    for kind in ("Add Sub Mul Div Pow Max Min Sum Mean Equal Greater GreaterOrEqual Less LessOrEqual PRelu And Or "
                 "Xor").split():
        files[f"two_{kind}"] = single(kind, given={"w": reals(6)})
    for kind in ("L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare").split():
        files[f"reduce_{kind}"] = (single("ReduceSum", given={"a": whole(1, -1)}, keepdims=0) if kind == "Sum"
                                   else single(f"Reduce{kind}", axes=[1, 2], keepdims=1))
    files.update({
        "clip": single("Clip", given={"a": np.float32(-0.5), "b": np.float32(0.5)}),
        "gemm": model([node("Flatten", "x", outputs=["f"]), node("Gemm", "f", "w", "b", alpha=0.5, beta=2.0)],
                      IMAGE, {"w": reals(144, 3), "b": reals(1, 3)}),
        "gemm_rest": model([node("Flatten", "x", outputs=["f"]),
                            node("Gemm", "f", "w", "c", transA=1, transB=1, beta=0.5)], IMAGE,
                           {"w": reals(3, 2), "c": reals(144, 1)}),
        "gemm_values": model([node("Flatten", "x", outputs=["f"]), node("Relu", "f", outputs=["r"]),
                              node("Gemm", "f", "r", transB=1)], IMAGE),
        "product": model([node("Transpose", "x", outputs=["t"], perm=[0, 2, 1]),
                          node("MatMul", "x", "t", outputs=["p"]), node("Softmax", "p", outputs=["s"], axis=-1),
                          node("MatMul", "s", "x")], ROWS),
        "product_left": model([node("MatMul", "w", "x")], ROWS, {"w": reals(4, 2)}),
        "product_spread": model([node("MatMul", "x", "w")], (2, 3, 4, 5), {"w": reals(3, 5, 6)}),
        "matmul": single("MatMul", ROWS, given={"w": reals(8, 5)}),
        "batch_norm": single("BatchNormalization", given={n: reals(4) ** 2 + 1 for n in "abcd"}),
        "pool": single("MaxPool", kernel_shape=[3, 3], strides=[2, 2], ceil_mode=1, pads=[1, 1, 1, 1]),
        "mean_pool": single("AveragePool", kernel_shape=[2, 3], auto_pad="SAME_UPPER", count_include_pad=1),
        "valid_pool": single("AveragePool", kernel_shape=[2, 2], auto_pad="VALID"),
        "lower_pool": single("MaxPool", kernel_shape=[2, 2], auto_pad="SAME_LOWER", dilations=[1, 1]),
        "grouped": single("Conv", given={"w": reals(4, 2, 3, 3), "b": reals(4)}, group=2, auto_pad="SAME_UPPER"),
        "conv_1d": single("Conv", (2, 4, 9), given={"w": reals(3, 4, 3)}, pads=[2, 0]),
        "up_pads": single("ConvTranspose", given={"w": reals(4, 3, 3, 3), "b": reals(3)}, strides=[2, 2],
                          pads=[1, 1, 1, 1], output_padding=[1, 1]),
        "gather": single("Gather", given={"i": whole(2, 0)}, axis=1),
        "gather_one": single("Gather", given={"i": np.array(1, dtype=np.int64)}, axis=-1),
        "constants": model([node("Shape", "x", outputs=["s"]), node("Cast", "s", outputs=["f"], to=1),
                            node("Sqrt", "f", outputs=["r"]), node("ReduceProd", "r", outputs=["p"], axes=[0]),
                            node("Mul", "x", "p")], ROWS),
    })
    files.update({
        "mod": single("Mod", given={"w": reals(6)}, fmod=1),
        "lrn": single("LRN", size=3),
        "instance_norm": single("InstanceNormalization", given={"a": reals(4), "b": reals(4)}),
        "group_norm": single("GroupNormalization", opset=21, given={"a": reals(4), "b": reals(4)}, num_groups=2),
        "rms_norm": single("RMSNormalization", ROWS, opset=23, given={"w": reals(8)}),
        "cumulative": single("CumSum", ROWS, given={"a": np.array(1, dtype=np.int64)}, exclusive=1),
        "top_k": single("TopK", ROWS, given={"k": whole(3)}, outputs=["y", "z"]),
        "one_hot": model([node("OneHot", "x", "d", "v")], (2, 3), {"d": np.array(5, dtype=np.int64),
                                                                   "v": np.float32([0, 1])}, kind=TensorProto.INT64),
        "gather_elements": single("GatherElements", ROWS, given={"i": whole(*range(6)).reshape(3, 2, 1) % 2}, axis=1),
        "gather_nd": single("GatherND", ROWS, given={"i": whole(0, 1, 2, -1).reshape(2, 2)}),
        "scatter_nd": single("ScatterND", ROWS, given={"i": whole(0, 2).reshape(2, 1), "u": reals(2, 2, 8)}),
        "scatter_sums": single("ScatterElements", ROWS, opset=16, axis=1, reduction="add",
                               given={"i": whole(0, 0).reshape(1, 2, 1), "u": reals(1, 2, 1)}),
        "einsum": single("Einsum", ROWS, given={"w": reals(8, 5)}, equation="nth,hk->ntk"),
        "split_into": single("Split", opset=18, outputs=["y", "z"], num_outputs=2, axis=1),
        "pad_axes": single("Pad", opset=18, given={"p": whole(1, 2), "v": np.float32(0), "a": whole(-1)}),
        "branch": model([node("Shape", "x", outputs=["s"]), node("Size", "s", outputs=["n"]),
                         node("Equal", "n", "three", outputs=["c"]),
                         node("If", "c", then_branch=branch("Neg"), else_branch=branch("Abs"))], ROWS,
                        {"three": np.array(3, dtype=np.int64)}),
        "loop": model([node("Loop", "three", "", "x", outputs=["y"], body=body())], ROWS,
                      {"three": np.array(3, dtype=np.int64)}),
    })
    files.update(more_layers())
    files.update(places())
    files.update(newer())
    files.update(listed())
    files.update(known_at_import())
    files.update(refused())
    files.update(chosen_at_import())
    files.update(regions())
    files.update(volumes())
    files.update(whole_inputs())
    for name, made in files.items():
        with open(os.path.join(sys.argv[1], name), "wb") as file:
            file.write(made.SerializeToString())


if __name__ == "__main__":
    main()
