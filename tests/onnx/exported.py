"""Exported networks: made by the tool export_model, read by the onnx package, and run by PyTorch, one node of
ONNX after the other as its specification says."""
import os
import subprocess

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch.nn import functional

CLASSIFIERS = """mlp lenet5 lenet-relu vgg-small alexnet vgg11 vgg16 vgg19 resnet18 resnet34 resnet50 resnet101 resnet152 squeezenet
mobilenet-v1 mobilenet-v2 googlenet inception-v3 xception densenet40 densenet100""".split()
BATCH = 3


def export(name, folder, steps=2, *more):
    """Trains a model for some steps, exports it; gives the file's path, a batch (N, C, H, W) and quern's
    outputs for it."""
    tool = os.path.join(os.environ["QUERN_TOOLS"], "export_model")
    subprocess.run([tool, name, str(BATCH), str(steps), folder, *more], check=True)
    path = os.path.join(folder, name)
    x, y = (np.fromfile(f"{path}.{end}", dtype=np.float32) for end in "xy")
    model = onnx.load(path + ".onnx", load_external_data=False)
    dims = [d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim]
    return path + ".onnx", x.reshape([BATCH] + dims[1:]), y.reshape(BATCH, -1)


def export_network(name, folder):
    """Exports a network that is not a classifier; gives the file's path, its inputs by name, and quern's outputs."""
    tool = os.path.join(os.environ["QUERN_TOOLS"], "export_network")
    subprocess.run([tool, name, str(BATCH), folder], check=True)
    path = os.path.join(folder, name)
    graph = onnx.load(path + ".onnx").graph

    def read(place, end):
        tensor = place.type.tensor_type
        dtype = np.int32 if tensor.elem_type == onnx.TensorProto.INT32 else np.float32
        return np.fromfile(f"{path}.{end}", dtype=dtype).reshape(
            [BATCH] + [d.dim_value or -1 for d in tensor.shape.dim][1:])
    return (path + ".onnx", {p.name: read(p, f"in.{i}") for i, p in enumerate(graph.input)},
            [read(p, f"out.{i}") for i, p in enumerate(graph.output)])


def _padded(x, pads, value=0.0):
    top, left, bottom, right = pads
    return functional.pad(x, (left, right, top, bottom), value=value)


def _convolve(a, x, w, b=None):
    return functional.conv2d(_padded(x, a["pads"]), w, b, a["strides"], 0, a.get("dilations", 1),
                             a.get("group", 1))


def _convolve_back(a, x, w, b=None):
    assert a["pads"][:2] == a["pads"][2:]
    return functional.conv_transpose2d(x, w, b, a["strides"], a["pads"][:2])


def _slice(a, x, begin, end, axes):
    return x[tuple(slice(int(begin), int(end)) if i == int(axes) else slice(None) for i in range(x.dim()))]


def _layer_norm(a, x, scale, shift):
    return functional.layer_norm(x, x.shape[-1:], scale, shift, a["epsilon"])


def _norm(a, x, scale, shift, mean, variance):
    return functional.batch_norm(x, mean, variance, scale, shift, False, 0, a["epsilon"])


def _reshape(a, x, shape):
    return x.reshape([x.shape[i] if n == 0 else n for i, n in enumerate(shape.tolist())])


DTYPES = {onnx.TensorProto.FLOAT: torch.float32, onnx.TensorProto.INT32: torch.int32,
          onnx.TensorProto.INT64: torch.int64}

def _along(a, x, values):
    """One for all, or one for each index of an axis."""
    return values if values.dim() == 0 else values.reshape([-1 if i == a["axis"] else 1 for i in range(x.dim())])


def _quantise(a, x, scale, zero):
    return ((x / _along(a, x, scale)).round() + _along(a, x, zero)).clamp(-128, 127).to(torch.int8)


def _dequantise(a, x, scale, zero):
    return (x.float() - _along(a, x, zero).float()) * _along(a, x, scale)


OPERATORS = {
    "Add": lambda a, x, y: x + y,
    "AveragePool": lambda a, x: functional.avg_pool2d(_padded(x, a["pads"]), a["kernel_shape"],
                                                      a["strides"]),
    "BatchNormalization": _norm,
    "Cast": lambda a, x: x.to(DTYPES[a["to"]]),
    "Clip": lambda a, x, low, high: x.clamp(float(low), float(high)),
    "Concat": lambda a, *parts: torch.cat(parts, a["axis"]),
    "Conv": _convolve,
    "ConvTranspose": _convolve_back,
    "DequantizeLinear": _dequantise,
    "Div": lambda a, x, y: x / y,
    "Dropout": lambda a, x, ratio: x,
    "Erf": lambda a, x: x.erf(),
    "Flatten": lambda a, x: x.flatten(1),
    "Gather": lambda a, table, rows: table[rows.long()],
    "Gemm": lambda a, x, w, b=0: x @ w.T + b,
    "GlobalAveragePool": lambda a, x: x.mean((2, 3), keepdim=True),
    "LayerNormalization": _layer_norm,
    "Less": lambda a, x, y: x < y,
    "LeakyRelu": lambda a, x: functional.leaky_relu(x, a["alpha"]),
    "MatMul": lambda a, x, y: x @ y,
    "MaxPool": lambda a, x: functional.max_pool2d(_padded(x, a["pads"], float("-inf")),
                                                  a["kernel_shape"], a["strides"]),
    "Mul": lambda a, x, y: x * y,
    "QuantizeLinear": _quantise,
    "Range": lambda a, *bounds: torch.arange(*(int(x) for x in bounds)),
    "Relu": lambda a, x: x.relu(),
    "Reshape": _reshape,
    "Shape": lambda a, x: torch.tensor(x.shape[a.get("start", 0):a.get("end", x.dim())]),
    "Slice": _slice,
    "Softmax": lambda a, x: x.softmax(a["axis"]),
    "Tanh": lambda a, x: x.tanh(),
    "Transpose": lambda a, x: x.permute(a["perm"]),
    "Unsqueeze": lambda a, x, axes: x[(..., *[None] * len(axes))],
    "Where": lambda a, is_so, x, y: torch.where(is_so, x, y),
}


def run(path, *inputs):
    """The outputs of a file's network."""
    graph = onnx.load(path).graph
    values = {t.name: torch.from_numpy(numpy_helper.to_array(t).copy()) for t in graph.initializer}
    values.update((p.name, torch.from_numpy(x)) for p, x in zip(graph.input, inputs))
    for node in graph.node:
        attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
        values[node.output[0]] = OPERATORS[node.op_type](attributes, *[values[n] for n in node.input])
    return [values[p.name].detach().numpy() for p in graph.output]
