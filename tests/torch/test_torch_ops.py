#!/usr/bin/python3
"""Compares every sample of every operator, and of what is put together from several, with PyTorch
in float64: outputs and gradients must be equal to 1e-9 of their norm. An operator without a counterpart here fails the test.

The program dump_ops in the folder $QUERN_TOOLS writes the samples."""

import math
import json
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

from widen import widen

TOLERANCE = 1e-9

# Element types by their number in attributes (qn_dtype), and the ends of those of whole numbers.
TYPES = {"1": "f32", "2": "f64", "3": "i32", "4": "u8", "5": "u16", "6": "i8", "7": "i16"}
WHOLE = {"i32": (-2**31, 2**31 - 1), "u8": (0, 255), "u16": (0, 65535), "i8": (-128, 127),
         "i16": (-32768, 32767)}


def pair(text):
    return tuple(int(part) for part in text.split("x"))


def to_nchw(x):
    return x.permute(0, 3, 1, 2)


def to_nhwc(x):
    return x.permute(0, 2, 3, 1)


def activate(a, x):
    kind = a.get("activation", "none")
    return {
        "none": lambda: x,
        "relu": lambda: F.relu(x),
        "relu6": lambda: F.relu6(x),
        "leaky_relu": lambda: F.leaky_relu(x, float(a["slope"])),
        "tanh": lambda: torch.tanh(x),
        "sigmoid": lambda: torch.sigmoid(x),
    }[kind]()


def windowed(a, x, fill):
    """x as NCHW with its padding, and stride and dilation."""
    top, left, bottom, right = (int(p) for p in a["pad"].split(","))
    padded = F.pad(to_nchw(x), (left, right, top, bottom), value=fill)
    stride = [max(s, 1) for s in pair(a["stride"])]
    dilation = [max(d, 1) for d in pair(a["dilation"])]
    return padded, stride, dilation


# A counterpart takes the node's inputs, its attributes and the engine's outputs, and returns its
# own outputs; None is not compared.


def conv2d(inputs, a, _):
    x, filters, bias = inputs
    padded, stride, dilation = windowed(a, x, 0)
    y = F.conv2d(padded, to_nchw(filters), bias, stride, 0, dilation, int(a["groups"]))
    return [activate(a, to_nhwc(y))]


def conv2d_transpose(inputs, a, _):
    """PyTorch's takes one pad for both sides of an axis: none, and what ours cut away is cut here."""
    x, filters = inputs
    stride = [max(s, 1) for s in pair(a["stride"])]
    dilation = [max(d, 1) for d in pair(a["dilation"])]
    y = F.conv_transpose2d(to_nchw(x), to_nchw(filters), None, stride, 0, dilation=dilation)
    top, left, bottom, right = (int(p) for p in a["pad"].split(","))
    return [to_nhwc(y)[:, top:y.shape[2] - bottom, left:y.shape[3] - right]]


def binary_cross_entropy(inputs, a, _):
    x, target = inputs
    target = torch.full_like(x, float(a["target"])) if target is None else target
    return [F.binary_cross_entropy_with_logits(x, target, reduction="none")]


def linear(inputs, a, _):
    return [activate(a, F.linear(*inputs))]


def matmul(inputs, a, _):
    left, right = inputs
    left = left.transpose(-1, -2) if a["transpose_a"] == "1" else left
    right = right.transpose(-1, -2) if a["transpose_b"] == "1" else right
    return [left @ right]


def batch_norm(inputs, a, _):
    x, scale, shift = inputs
    flat = x.reshape(-1, x.shape[-1])
    y = F.batch_norm(flat, None, None, scale, shift, True, 0.1, float(a["epsilon"]))
    mean = flat.mean(0)
    inv_std = 1 / torch.sqrt(flat.var(0, unbiased=False) + float(a["epsilon"]))
    return [activate(a, y.reshape(x.shape)), mean, inv_std]


def batch_norm_running(inputs, a, _):
    """Through PyTorch's own update, with a batch that has the given mean and variance."""
    mean, inv_std, running_mean, running_variance = (x.detach().clone() for x in inputs)
    rows, epsilon = int(a["rows"]), float(a["epsilon"])
    spread = torch.linspace(-1, 1, rows, dtype=torch.float64)
    spread = spread / spread.std(unbiased=False)
    x = mean + spread[:, None] * torch.sqrt(1 / inv_std**2 - epsilon)
    F.batch_norm(x, running_mean, running_variance, None, None, True, float(a["momentum"]), epsilon)
    return [running_mean, running_variance]


def batch_norm_inference(inputs, a, _):
    x, scale, shift, mean, variance = inputs
    flat = x.reshape(-1, x.shape[-1])
    y = F.batch_norm(flat, mean.detach(), variance.detach(), scale, shift, False, 0, float(a["epsilon"]))
    return [activate(a, y.reshape(x.shape))]


def cross_entropy(inputs, a, _):
    logits, labels = inputs
    loss = F.cross_entropy(logits.flatten(0, -2), labels.long().flatten(), reduction="none",
                           ignore_index=-1, label_smoothing=float(a["smoothing"]))
    return [loss.reshape(labels.shape), F.softmax(logits, -1)]


def mean_valid(inputs, a, _):
    losses, labels = inputs
    return [losses[labels >= 0].mean()]


def reduce(inputs, a, _):
    x, axis = inputs[0], int(a["axis"])
    if a["reduction"] == "2":
        y = x.max(axis)
        return [y.values, y.indices.double()]
    return [x.sum(axis) if a["reduction"] == "0" else x.mean(axis)]


def gather(inputs, a, _):
    x, indices = inputs
    return [x.gather(1, indices.long().clamp(0, x.shape[1] - 1)[:, None])[:, 0]]


def max_pool(inputs, a, outputs):
    padded, stride, dilation = windowed(a, inputs[0], -float("inf"))
    kernel = pair(a["kernel"])
    y, flat = F.max_pool2d(padded, kernel, stride, 0, dilation, return_indices=True)
    width, (_, p, q, _) = padded.shape[3], outputs[0].shape
    h, w = to_nhwc(flat) // width, to_nhwc(flat) % width
    r = (h - torch.arange(p)[:, None, None] * stride[0]) // dilation[0]
    s = (w - torch.arange(q)[:, None] * stride[1]) // dilation[1]
    return [to_nhwc(y), (r * kernel[1] + s).double()]


def average_pool(inputs, a, _):
    padded, stride, _ = windowed(a, inputs[0], 0)
    y = F.avg_pool2d(padded, pair(a["kernel"]), stride)
    if a["inside"] == "1":
        inside, _, _ = windowed(a, torch.ones_like(inputs[0]), 0)
        y = y / F.avg_pool2d(inside, pair(a["kernel"]), stride)
    return [to_nhwc(y)]


def dropout(inputs, a, outputs):
    """Which elements stay is the engine's choice; how many, nearly the rate's."""
    kept = (outputs[0] != 0).double()
    rate = float(a["rate"])
    assert abs(1 - kept.mean() - rate) < 0.2, "share of zeros"
    return [inputs[0] * kept / (1 - rate)]


def mix(x):
    """The finaliser of SplitMix64."""
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 % 2**64
    x = (x ^ x >> 27) * 0x94d049bb133111eb % 2**64
    return x ^ x >> 31


def uniforms(seed, name, step, count):
    """The engine's random numbers of a node: Philox 4x32 with 10 rounds, keyed by its name."""
    key = 0xcbf29ce484222325
    for byte in name.encode():
        key = (key ^ byte) * 0x100000001b3 % 2**64
    key = mix(mix((seed + 0x9e3779b97f4a7c15) % 2**64) ^ key)
    low, numbers = 2**32 - 1, []
    for block in range((count + 3) // 4):
        x = [block & low, block >> 32, step & low, step >> 32]
        keys = [key & low, key >> 32]
        for _ in range(10):
            p, q = 0xd2511f53 * x[0], 0xcd9e8d57 * x[2]
            x = [q >> 32 ^ x[1] ^ keys[0], q & low, p >> 32 ^ x[3] ^ keys[1], p & low]
            keys = [(keys[0] + 0x9e3779b9) & low, (keys[1] + 0xbb67ae85) & low]
        numbers += x
    return torch.tensor([(word >> 8) / 2**24 for word in numbers[:count]], dtype=torch.float64)


def attention(inputs, a, _):
    """By hand: keys from a sample's length on weigh nothing; dropout is the engine's by its seed,
    step and name, which dump_ops gives."""
    query, key, value, lengths = inputs
    scores = query @ key.transpose(-1, -2) * float(a["scale"])
    if lengths is None:
        seen = torch.ones_like(scores, dtype=torch.bool)
    else:
        seen = torch.arange(key.shape[2]) < lengths[:, None, None, None]
    seen = seen.expand(scores.shape)
    weights = torch.where(seen, scores.exp(), torch.zeros_like(scores))
    sums = weights.sum(-1, keepdim=True)
    is_empty = sums == 0
    sums = torch.where(is_empty, torch.ones_like(sums), sums)
    rate = float(a["rate"])
    kept = uniforms(3, "y", 5, scores.numel()).reshape(scores.shape) >= np.float32(rate)
    y = weights / sums * kept / (1 - rate) @ value
    return [y, sums.log()[..., 0]]


def slice_axis(inputs, a, _):
    begin, end = int(a["begin"]), int(a["end"])
    return [inputs[0].narrow(int(a["axis"]), begin, end - begin)]


def broadcast(inputs, a, outputs):
    return [(inputs[0] * float(a["factor"])).expand(outputs[0].shape)]


def layer_norm(inputs, a, _):
    x, epsilon = inputs[0], float(a["epsilon"])
    rows = x.reshape(-1, x.shape[-1])
    inv_std = 1 / torch.sqrt(rows.var(1, unbiased=False) + epsilon)
    return [F.layer_norm(x, x.shape[-1:], *inputs[1:], epsilon), rows.mean(1), inv_std]


def run_lstm(x, h, c, weights, lengths=None):
    """What torch.nn.LSTM computes, with tensors of our own as its weights: y, h and c."""
    states = [h[None], c[None]]
    if lengths is None:
        y, h, c = torch.lstm(x, states, weights, True, 1, 0, True, False, True)
        return y, h[0], c[0]
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, True, enforce_sorted=False)
    states = [s[:, packed.sorted_indices] for s in states]
    data, h, c = torch.lstm(packed.data, packed.batch_sizes, states, weights, True, 1, 0, True,
                            False)
    packed = packed._replace(data=data)
    y, _ = torch.nn.utils.rnn.pad_packed_sequence(packed, True, total_length=x.shape[1])
    return y, h[0, packed.unsorted_indices], c[0, packed.unsorted_indices]


def lstm(inputs, a, outputs):
    """With an identity as the input's weight: x is what the gates are given."""
    x, weight, h, c, lengths = inputs
    n, t, k = outputs[1].shape
    zeros = torch.zeros(4 * k, dtype=torch.float64)
    weights = [torch.eye(4 * k, dtype=torch.float64), weight, zeros, zeros]
    h, c = (torch.zeros(n, k, dtype=torch.float64) if s is None else s for s in (h, c))
    if lengths is not None:
        lengths = lengths.detach().long().clamp(1, t)
    y, h, c = run_lstm(x, h, c, weights, lengths)
    return [None, y, h, c, None]


def lstm_layer(inputs, a, outputs):
    """The whole layer; PyTorch's second bias is zero. Its result is y, or c after the last step."""
    x, weight_x, weight_h, bias, h, c = inputs
    y, _, c = run_lstm(x, h, c, [weight_x, weight_h, bias, torch.zeros_like(bias)])
    return [y if outputs[0].shape == y.shape else c]


def resample(inputs, a, outputs):
    """By interpolation, pad or indexing of PyTorch's own, whichever has the sample's numbers; the axis
    goes last."""
    x, axis, to = inputs[0].movedim(int(a["axis"]), -1), int(a["axis"]), int(a["to"])
    kind, border, n = int(a["interpolation"]), int(a["border"]), x.shape[-1]
    shift, step, scale, offset = (float(a[k]) for k in ("shift", "step", "scale", "offset"))
    places = (torch.arange(to, dtype=torch.float64) + shift) * step / scale + offset
    flat = x.reshape(1, -1, n)
    if kind == 4 and border == 1:
        aligned = shift == 0
        y = F.interpolate(flat, size=to, mode="linear", align_corners=aligned)
    elif kind == 5 and a["leaves_outs"] == "0":
        y = F.interpolate(flat[:, None], size=(x[..., 0].numel(), to), mode="bicubic")[:, 0]
    elif kind == 5:
        y = flat @ keys_weights(places, n, float(a["cubic"]))
    elif kind == 4:
        inside = (places >= 0) & (places <= n - 1)
        y = torch.where(inside, flat[..., places.long().clamp(0, n - 1)],
                        torch.tensor(float(a["value"]), dtype=torch.float64))
    elif border == 0 and step == 1:
        y = F.pad(flat, (int(-offset), to - n - int(-offset)), value=float(a["value"]))
    elif border == 2:
        y = F.pad(flat, (int(-offset), to - n - int(-offset)), mode="reflect")
    elif border == 3:
        y = flat[..., torch.arange(to) % n]
    else:
        rounded = [torch.ceil(places - 0.5), torch.floor(places + 0.5), places.floor(),
                   places.ceil()][kind]
        y = flat[..., rounded.long().clamp(0, n - 1)]
    return [y.reshape(*x.shape[:-1], to).movedim(-1, axis)]


def keys_weights(places, n, a):
    """(n, places): Keys' kernel of each distance, without what is outside, made to sum to one."""
    d = (torch.arange(n, dtype=torch.float64)[:, None] - places).abs()
    near = (a + 2) * d**3 - (a + 3) * d**2 + 1
    far = a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a
    w = torch.where(d <= 1, near, torch.where(d < 2, far, torch.zeros_like(d)))
    return w / w.sum(0)


def expand(inputs, a, outputs):
    return [inputs[0].expand(outputs[0].shape)]


RATE, MOMENTUM, DECAY, BETA1, BETA2, EPSILON, _, _, GRADIENT = range(9)


def with_gradient(w, gradient, factor, hyper):
    w = w.detach().clone().requires_grad_()
    w.grad = gradient.detach() * hyper[GRADIENT] * (1 if factor is None else factor.detach())
    return w


def sgd(inputs, a, _):
    hyper, factor, gradient, w, momentum = inputs
    hyper = hyper.tolist()
    w = with_gradient(w, gradient, factor, hyper)
    optimizer = torch.optim.SGD([w], hyper[RATE] * float(a["rate"]), 0 if momentum is None else hyper[MOMENTUM],
                                weight_decay=hyper[DECAY], nesterov=a["nesterov"] == "1")
    if momentum is not None:
        optimizer.state[w]["momentum_buffer"] = momentum.detach().clone()
    optimizer.step()
    return [w] if momentum is None else [w, optimizer.state[w]["momentum_buffer"]]


def adam(inputs, a, _):
    hyper, factor, gradient, w, m, v = inputs
    hyper = hyper.tolist()
    w = with_gradient(w, gradient, factor, hyper)
    kind = torch.optim.AdamW if a["decoupled"] == "1" else torch.optim.Adam
    optimizer = kind([w], hyper[RATE] * float(a["rate"]), (hyper[BETA1], hyper[BETA2]),
                     hyper[EPSILON], hyper[DECAY])
    state = optimizer.state[w]
    state["step"] = torch.tensor(2.0)
    state["exp_avg"], state["exp_avg_sq"] = m.detach().clone(), v.detach().clone()
    optimizer.step()
    return [w, state["exp_avg"], state["exp_avg_sq"]]


def conv1d(inputs, a, outputs):
    """Two zeros before; so many after as the result's length says."""
    x, filters, bias = inputs
    after = outputs[0].shape[1] + filters.shape[1] - 1 - x.shape[1] - 2
    padded = F.pad(x.transpose(1, 2), (2, after))
    return [F.conv1d(padded, filters.transpose(1, 2), bias).transpose(1, 2)]


def deconv2d(inputs, a, _):
    x, filters, bias = inputs
    return [to_nhwc(F.conv_transpose2d(to_nchw(x), to_nchw(filters), bias, 2, 1))]


def clip_factor(inputs, a, _):
    norm = torch.cat([x.flatten() for x in inputs[1:]]).norm() * inputs[0][GRADIENT]
    return [torch.clamp(float(a["limit"]) / norm, max=1)]


def function(inputs, a, _):
    x, p, q = inputs[0], float(a["a"]), float(a["b"])
    kinds = [lambda: torch.clamp(p * x + q, float(a["least"]), float(a["most"])),
             x.abs, x.sqrt, x.reciprocal, x.exp, x.log, x.erf,
             lambda: q * F.elu(x, p), lambda: F.softplus(x),
             lambda: x * torch.clamp(p * x + q, 0, 1), lambda: x ** p,
             x.sin, x.cos, x.atan, x.sign, x.floor, x.ceil, x.round]
    return [kinds[int(a["kind"])]()]


def combine(inputs, a, _):
    x, y = inputs
    kinds = [torch.add, torch.sub, torch.mul, torch.div, torch.pow, torch.minimum, torch.maximum,
             lambda x, y: torch.where(x > 0, x, x * y),
             lambda x, y: (x == y).double(), lambda x, y: (x < y).double()]
    return [kinds[int(a["kind"])](x, y)]


def wrap_index(inputs, a, _):
    n = int(a["n"])
    x = torch.where(inputs[0] < 0, inputs[0] + n, inputs[0])
    return [torch.where((x < 0) | (x >= n), torch.full_like(x, -2 ** 31), x)]


def row_numbers(inputs, a, _):
    row, inside = torch.zeros_like(inputs[0][:, 0]), torch.ones_like(inputs[0][:, 0], dtype=torch.bool)
    for extent, index in zip(pair(a["extents"]), inputs[0].unbind(1)):
        index = torch.where(index < 0, index + extent, index)
        inside &= (index >= 0) & (index < extent)
        row = row * extent + index
    row = row * int(a["stride"]) + (inputs[1] if len(inputs) > 1 else 0)
    return [torch.where(inside, row, torch.full_like(row, -2 ** 31))]


def scatter_add(inputs, a, _):
    rows = int(a["rows"])
    at = inputs[1].long().clamp(0, rows - 1)
    return [torch.zeros(rows, inputs[0].shape[1], dtype=inputs[0].dtype).index_add(0, at, inputs[0])]


def scatter_source(inputs, a, _):
    rows, nth = int(a["rows"]), int(a["nth"])
    at = inputs[0].long().clamp(0, rows - 1)
    found = [(at == row).nonzero().flatten() for row in range(rows)]
    return [torch.tensor([rows + int(f[nth]) if len(f) > max(nth, 0) else row for row, f in enumerate(found)], dtype=torch.float64)]


def cast(inputs, a, _):
    """What is cast in samples is small: only a fraction can be lost."""
    return [inputs[0].trunc() if TYPES[a["dtype"]] in WHOLE else inputs[0] * 1]


def choose(inputs, a, _):
    """Numbers from 1 on, the least first; what was chosen before stays."""
    w, before, axis, by = inputs[0], inputs[1], int(a["axis"]), int(a["by"])
    old, n_all = [int(c) for c in before], w.shape[axis]
    if all(low < high <= n_all for low, high in zip([0] + old, old)):
        return [before * 1]
    counts = w.transpose(0, axis).reshape(n_all, -1).square().sum(1)
    orders = [counts.neg(), counts, torch.arange(n_all, dtype=torch.float64)]
    order = torch.sort(orders[by], stable=True).indices[:len(old)]
    return [(order.sort().values + 1).to(before.dtype)]


def chosen(whole, channels, a):
    """Indices of the channels that samples choose by their size, as those in files are from before."""
    return choose([whole, channels], {"axis": a["axis"], "by": 0}, None)[0].long() - 1


def take(inputs, a, _):
    return [inputs[0].index_select(int(a["axis"]), chosen(*inputs, a))]


def put(inputs, a, _):
    part, channels, whole = inputs
    return [whole.index_copy(int(a["axis"]), chosen(whole, channels, a), part)]


def spread(numbers, a, x):
    """Numbers of an axis, so that they meet x; 0 where there are none."""
    axis = int(a["axis"])
    if not numbers or numbers[0] is None:
        return 0
    return numbers[0] if axis < 0 else numbers[0].reshape([-1] + [1] * (x.dim() - axis - 1))


def quantise(inputs, a, outputs):
    """Stochastic rounding is checked to be one of the two neighbours."""
    x = inputs[0] / spread(inputs[1:], a, inputs[0])
    ends = WHOLE[TYPES[a["dtype"]]]
    zero = spread(inputs[2:], a, x)
    if a["rounding"] == "0":
        y = x.round()
    elif a["rounding"] == "1":
        y = x.sign() * (x.abs() + 0.5).floor()
    else:
        y = outputs[0] - zero
        y = torch.where((y == x.floor().clamp(*ends)) | (y == x.ceil().clamp(*ends)), y, torch.nan)
    return [(y + zero).clamp(*ends)]


def scale_of(inputs, a, outputs):
    x, axis, bits = inputs[0], int(a["axis"]), int(a["bits"])
    lines = x.reshape(1, -1) if axis < 0 else x.transpose(0, axis).reshape(x.shape[axis], -1)
    least, most = lines.amin(1).clamp(max=0), lines.amax(1).clamp(min=0)
    size = torch.maximum(-least, most)
    found = {
        "0": lambda: [size.log2().ceil() - bits],
        "1": lambda: [size / (2**bits - 1)],
        "2": lambda: [(most - least) / 255, (least / ((least - most) / 255)).round()],
    }[a["kind"]]()
    return [y.reshape(output.shape) for y, output in zip(found, outputs)]


def integer_cross_entropy(inputs, a, outputs):
    """Written again with Python's own whole numbers. What chance decides must be one of the two neighbours."""
    logits, exponent = inputs[0], int(inputs[1])
    labels = inputs[2].reshape(-1).tolist()
    result = outputs[0].clone().reshape(len(labels), -1)
    cut = lambda x, y: abs(x) // y * (1 if x >= 0 else -1)  # noqa: E731
    exponent = min(max(exponent, -24), 30)
    for row, (numbers, label) in enumerate(zip(logits.reshape(len(labels), -1).tolist(), labels)):
        numbers, label = [int(x) for x in numbers], int(label)
        if exponent > -7:
            s = [cut(x * 47274, 2**15) for x in numbers]
            s = [x * 2**exponent if exponent >= 0 else cut(x, 2**-exponent) for x in s]
            p = [2 ** max(x - (max(s) - 10), 0) - 1 for x in s]
        else:
            p = [2 ** (1 - 2 * exponent) + x * 2 ** (1 - exponent) + x * x for x in numbers]
        g = [x * 2**11 // sum(p) for x in p]
        if 0 <= label < len(g):
            g[label] -= sum(g)
        else:
            g = [0] * len(g)
        for i, x in enumerate(g):
            ends = [max(min(e, 127), -127) for e in (math.floor(x / 16), math.ceil(x / 16))]
            result[row, i] = result[row, i] if int(result[row, i]) in ends else math.nan
    return [result.reshape(outputs[0].shape)]


def rescaled(product):
    """Sums of whole numbers, and the division by a power of two that leaves so many bits: Python's own whole numbers
    round it. What is kept says how, and is not compared."""
    def counterpart(inputs, a, outputs):
        sums = product(inputs, a).round()
        most, bits = int(sums.abs().max()), int(a["bits"])
        shift = max((most - 1).bit_length() - bits, 0) if most else 0
        y = [round_shift(int(x), shift, a["rounding"] == "3") for x in sums.reshape(-1)]
        return [torch.tensor(y, dtype=torch.float64).reshape(outputs[0].shape),
                torch.tensor(float(shift), dtype=torch.float64), None]
    return counterpart


def mantissas(x, a, ours, exponent):
    """Mantissas and exponent of x: the bits that there are are used, and no number is further than half a step (and what
    floats lose) from it."""
    step, most = 2.0 ** float(exponent), 2 ** int(a["bits"])
    is_full = most // 2 <= float(ours.abs().max()) < most or not x.any()
    is_near = (ours * step - x).abs() <= 0.502 * step
    return [torch.where(is_near, ours, torch.nan), exponent if is_full else exponent * torch.nan]


def whole_norm(inputs, a, outputs):
    x, scale, shift = inputs[0] * 2.0 ** (inputs[1] if inputs[1] is not None else 0), inputs[2], inputs[3]
    lines = x.reshape(-1, x.shape[-1])
    mean, inv_std = lines.mean(0), (lines.var(0, unbiased=False) + float(a["epsilon"])).rsqrt()
    return [*mantissas((x - mean) * inv_std * scale + shift, a, *outputs[:2]), mean, inv_std]


def whole_norm_backward(inputs, a, outputs):
    x, dy = (inputs[i] * 2.0 ** (inputs[i + 1] if inputs[i + 1] is not None else 0) for i in (0, 2))
    scale, mean, inv_std = inputs[4:]
    normal = (x - mean) * inv_std
    sums = [(dy * normal).reshape(-1, x.shape[-1]).sum(0), dy.reshape(-1, x.shape[-1]).sum(0)]
    n = x.numel() // x.shape[-1]
    return [*mantissas((dy - sums[1] / n - normal * sums[0] / n) * inv_std * scale, a, *outputs[:2]), *sums]


def to_grid(x, a, ours):
    """x as numbers of a format; what chance rounds must be one of the two neighbours."""
    fraction, exponents, fine = int(a["fraction_bits"]), int(a["exponent_bits"]), int(a["fine_bits"])
    limit = float(a["limit"]) or math.inf
    if exponents:
        top = int(a["top_exponent"])
        size = torch.frexp(x).exponent.double() - 1
        step = 2.0 ** (size.clamp(min=top - 2**exponents + 2) - fraction)
        limit = (2 - 2.0**-fraction) * 2.0**top
    elif fine:
        step = torch.where(x.abs() < 2**fine, 1.0, 2.0**fine)
    else:
        step = torch.full_like(x, 2.0**-fraction)
    if a["rounding"] == "2":
        ends = [((x / step).floor() * step).clamp(-limit, limit), ((x / step).ceil() * step).clamp(-limit, limit)]
        return torch.where((ours == ends[0]) | (ours == ends[1]), ours, torch.nan)
    whole = (x / step).round() if a["rounding"] == "0" else x.sign() * ((x / step).abs() + 0.5).floor()
    return (whole * step).clamp(-limit, limit)


def round_numbers(inputs, a, outputs):
    x, axes, group = inputs[0].detach(), int(a["group_axes"]), 1
    if len(inputs) > 1 and inputs[1] is not None:
        x = x / inputs[1].detach().reshape([-1] + [1] * (x.dim() - 1))
    if axes:
        others = [axis for axis in range(x.dim()) if not axes >> axis & 1]
        most = x.abs().amax(others, keepdim=True)
        power = 2.0 ** most.log2().floor()
        group = torch.where(most == power, power, torch.where(most <= 1.5 * power, 1.5 * power, 2 * power))
        group = torch.where(most > 0, group, 1.0)
    y = to_grid(x / group, a, outputs[0] / group) * group
    return [y.trunc() if TYPES.get(a["dtype"]) in WHOLE else y]


def adapt(inputs, a, _):
    """Width and exponent stay while steps are left and numbers fit; else they follow what is lost."""
    x, kept = inputs[0].detach(), inputs[1].detach().tolist()
    bits, exponent, mean, left, steps, measured = int(kept[0]), int(kept[1]), *kept[2:]
    whole = lambda: (x / 2.0**exponent).round().clamp(1 - 2.0**bits, 2.0**bits - 1)  # noqa: E731
    is_first, size = steps <= 0, float(x.abs().sum())
    bits = int(a["least_bits"]) if is_first else bits
    if is_first or left <= 0:
        while True:
            exponent = math.ceil(math.log2(float(x.abs().max()) / (2.0**bits - 1)))
            loss = math.log2(abs(size - float(whole().abs().sum()) * 2.0**exponent) / size + 1)
            if loss <= float(a["most_loss"]) or bits + 8 > 15:
                break
            bits, mean = bits + 8, mean - 8
        moving = float(a["moving"])
        mean = exponent if is_first else moving * exponent + (1 - moving) * mean
        rate = max(moving * abs(exponent - mean), 100 * loss**2)
        steady = round(0.1 / rate - 2) if rate > 0 else int(a["longest"])
        left = 1 if steps < int(a["first_steps"]) else min(max(steady, 1), int(a["longest"]))
        measured += 1
    most, limit = float(x.abs().max()) / 2.0**exponent, 2.0**bits - 1
    left = 0 if most > limit + 0.5 or 0 < most < limit / 4 else left - 1
    return [whole(), torch.tensor(float(exponent), dtype=torch.float64),
            torch.tensor([bits, exponent, mean, left, steps + 1, measured], dtype=torch.float64)]


def chunked(product):
    """Sums that are rounded as they grow have the bits of their format, and are off by at most half a unit of the
    largest partial sum for each product and chunk."""
    def counterpart(inputs, a, outputs):
        inputs = [x.detach() for x in inputs]
        bits, y = int(a["fraction_bits"]), outputs[0]
        digits = torch.frexp(y).mantissa * 2.0 ** (bits + 1)
        sizes = product([x.abs() for x in inputs], a)
        n = product([torch.ones_like(x) for x in inputs], a)
        bound = sizes * (2 * n + 2) * 2.0 ** -(bits + 1)
        is_right = (digits == digits.round()) & ((y - product(inputs, a)).abs() <= bound)
        return [torch.where(is_right, y, torch.nan)]
    return counterpart


def round_shift(x, shift, is_pseudo):
    cut, rest = divmod(abs(x), 2**shift)
    if is_pseudo:
        high, low = divmod(rest, 2**(shift // 2))
        cut += high > low * 2**(shift % 2)
    else:
        cut += 2 * rest >= 2**shift and shift > 0
    return min(cut, 127) * (-1 if x < 0 else 1)


def conv2d_gradient(inputs, a, which):
    """PyTorch's own gradient of the convolution, of zeros and the other operand."""
    (n, h, w, c), (k, r, s), (p, q) = pair(a["x"]), pair(a["filter"]), pair(a["output"])
    stride, dilation, groups = pair(a["stride"]), pair(a["dilation"]), int(a["groups"])
    top, left = (int(pad) for pad in a["pad"].split(","))
    x = inputs[0] if which else torch.zeros(n, h, w, c, dtype=torch.float64)
    filters = torch.zeros(k, r, s, c // groups, dtype=torch.float64) if which else inputs[1]
    x, filters = x.detach().requires_grad_(), filters.detach().requires_grad_()
    below = (p - 1) * stride[0] + (r - 1) * dilation[0] + 1 - h - top
    right = (q - 1) * stride[1] + (s - 1) * dilation[1] + 1 - w - left
    padded = F.pad(to_nchw(x), (left, max(right, 0), top, max(below, 0)))
    y = F.conv2d(padded, to_nchw(filters), None, stride, 0, dilation, groups)[:, :, :p, :q]
    return torch.autograd.grad(y, (x, filters)[which], to_nchw(inputs[which].detach()))[0]


# The counterparts, by the operators' names.
def frozen(x, a):
    return torch.from_numpy(widen(int(a["blocks"]), x.detach().numpy().astype(np.uint8))).double()


def frozen_linear(x, a, _):
    return [F.linear(x[0], frozen(x[1], a), *x[2:])]


def frozen_embedding(x, a, _):
    return [F.embedding(x[1].long().clamp(0, len(x[0]) - 1), frozen(x[0], a))]


def rms_norm(x, a, _):
    y = x[0] / torch.sqrt((x[0] * x[0]).mean(-1, keepdim=True) + float(a["epsilon"]))
    return [y * (x[1] + float(a["offset"])) if len(x) > 1 and x[1] is not None else y]


def rotary(inputs, a, _):
    x, cosines, sines = inputs[:3]
    n, t, half = x.shape[0], x.shape[1], cosines.shape[1]
    positions = torch.arange(t).expand(n, t)
    if len(inputs) > 3 and inputs[3] is not None:
        positions = inputs[3].long().clamp(0, len(cosines) - 1)
    turned, rest = x[..., :2 * half], x[..., 2 * half:]
    pairs = turned.unflatten(-1, (half, 2) if a["neighbours"] == "1" else (2, half))
    axis = -1 if a["neighbours"] == "1" else -2
    number = torch.complex(*pairs.unbind(axis))
    angle = torch.complex(cosines, sines * (-1 if a["backwards"] == "1" else 1))
    number = number * angle[positions][:, :, None]
    turned = torch.stack([number.real, number.imag], axis).flatten(-2)
    return [torch.cat([turned, rest], -1)]


def gated(x, a, _):
    y = F.silu(x[0]) if a["kind"] == "0" else F.gelu(x[0], approximate="tanh")
    return [y * x[1] if len(x) > 1 and x[1] is not None else y]


def causal_attention(inputs, a, _):
    """Position t looks at keys max(first, last - window + 1) to last; one without keys makes 0."""
    query, key, value = (x.transpose(1, 2) for x in inputs[:3])
    first, last = [*inputs[3:], None, None][:2]
    n, t, u = len(query), query.shape[2], key.shape[2]
    cap, window = float(a["soft_cap"]), int(a["window"])
    last = torch.arange(u - t, u).expand(n, t) if last is None else last.long()
    last = last.clamp(max=u - 1)
    first = torch.zeros(n, t) if first is None else first
    if window:
        first = torch.maximum(first, last - window + 1)
    keys = torch.arange(u)
    seen = ((keys >= first[..., None]) & (keys <= last[..., None]))[:, None]
    group = query.shape[1] // key.shape[1]
    key, value = key.repeat_interleave(group, 1), value.repeat_interleave(group, 1)
    scores = float(a["scale"]) * query @ key.transpose(2, 3)
    scores = cap * torch.tanh(scores / cap) if cap else scores
    none = ~seen.any(-1, keepdim=True)
    scores = scores.masked_fill(~seen & ~none, -math.inf)
    sums = scores.logsumexp(-1, keepdim=True).masked_fill(none, 0)
    y = (torch.softmax(scores, -1).masked_fill(none, 0) @ value).transpose(1, 2)
    return [y, sums[..., 0].transpose(1, 2)]


def sliced_cross_entropy(x, a, _):
    logits, cap = F.linear(x[0], frozen(x[1], a)), float(a["soft_cap"])
    logits = cap * torch.tanh(logits / cap) if cap else logits
    labels = x[2].long()
    losses = F.cross_entropy(logits, labels.clamp(min=-1), ignore_index=-1, reduction="none")
    slopes = torch.autograd.grad(losses.sum(), x[0], retain_graph=True)[0]
    return [losses, slopes]


OPERATORS = {
    "sliced_cross_entropy": sliced_cross_entropy,
    "causal_attention": causal_attention,
    "rms_norm": rms_norm,
    "rotary": rotary,
    "gated": gated,
    "frozen_linear": frozen_linear,
    "frozen_embedding": frozen_embedding,
    "round": round_numbers,
    "settle": round_numbers,
    "adapt": adapt,
    "chunked_linear": chunked(lambda x, a: activate(a, x[0] @ x[1].T)),
    "chunked_linear_backward_data": chunked(lambda x, a: x[0] @ x[1]),
    "chunked_linear_backward_weight": chunked(lambda x, a: x[1].T @ x[0]),
    "chunked_conv2d": chunked(lambda x, a: conv2d([*x[:2], None], a, None)[0]),
    "chunked_conv2d_backward_data": chunked(lambda x, a: conv2d_gradient(x, a, 0)),
    "chunked_conv2d_backward_filter": chunked(lambda x, a: conv2d_gradient(x, a, 1)),
    "rescaled_linear": rescaled(lambda x, a: activate(a, x[0] @ x[1].T)),
    "rescaled_linear_backward_data": rescaled(lambda x, a: x[0] @ x[1]),
    "rescaled_linear_backward_weight": rescaled(lambda x, a: x[1].T @ x[0]),
    "rescaled_conv2d": rescaled(lambda x, a: conv2d([*x[:2], None], a, None)[0]),
    "rescaled_conv2d_backward_data": rescaled(lambda x, a: conv2d_gradient(x, a, 0)),
    "rescaled_conv2d_backward_filter": rescaled(lambda x, a: conv2d_gradient(x, a, 1)),
    "keep": lambda x, a, _: [x[0]],
    "conv2d": conv2d,
    "conv2d_transpose": conv2d_transpose,
    "binary_cross_entropy": binary_cross_entropy,
    "linear": linear,
    "matmul": matmul,
    "attention": attention,
    "bias": lambda x, a, _: [x[0] + x[1]],
    "batch_norm": batch_norm,
    "batch_norm_running": batch_norm_running,
    "whole_norm": whole_norm,
    "whole_norm_backward": whole_norm_backward,
    "batch_norm_inference": batch_norm_inference,
    "relu": lambda x, a, _: [F.relu(x[0])],
    "relu6": lambda x, a, _: [F.relu6(x[0])],
    "leaky_relu": lambda x, a, _: [F.leaky_relu(x[0], float(a["slope"]))],
    "tanh": lambda x, a, _: [torch.tanh(x[0])],
    "sigmoid": lambda x, a, _: [torch.sigmoid(x[0])],
    "softmax": lambda x, a, _: [F.softmax(x[0], -1)],
    "softmax_cross_entropy": cross_entropy,
    "squared_error": lambda x, a, _: [F.mse_loss(x[0], x[1], reduction="none").mean(-1)],
    "smooth_l1": lambda x, a, _: [F.smooth_l1_loss(x[0], x[1], reduction="none")],
    "mean_valid": mean_valid,
    "reduce": reduce,
    "gather": gather,
    "mean": lambda x, a, _: [x[0].mean()],
    "broadcast": broadcast,
    "choose": choose,
    "take": take,
    "put": put,
    "constant": lambda x, a, _: [torch.tensor(float(a["value"]), dtype=torch.float64)],
    "max_pool": max_pool,
    "average_pool": average_pool,
    "global_average_pool": lambda x, a, _: [F.adaptive_avg_pool2d(to_nchw(x[0]), 1).flatten(1)],
    "dropout": dropout,
    "add": lambda x, a, _: [activate(a, x[0] + x[1])],
    "multiply": lambda x, a, _: [x[0] * x[1]],
    "concat": lambda x, a, _: [torch.cat(x, int(a["axis"]))],
    "join": lambda x, a, _: [torch.cat([x[1][:int(a["first"])], x[0], x[1][int(a["first"]) + len(x[0]):]])],
    "slice": slice_axis,
    "resample": resample,
    "expand": expand,
    "reshape": lambda x, a, y: [x[0].reshape(y[0].shape)],
    "transpose": lambda x, a, _: [x[0].permute(pair(a["order"]))],
    "embedding": lambda x, a, _: [F.embedding(x[1].long().clamp(0, len(x[0]) - 1), x[0])],
    "layer_norm": layer_norm,
    "gelu": lambda x, a, _: [F.gelu(x[0])],
    "lstm": lstm,
    "lstm_layer": lstm_layer,
    "scale": lambda x, a, _: [x[0] * float(a["factor"])],
    "stop_gradient": lambda x, a, _: [x[0].detach()],
    "clip_factor": clip_factor,
    "function": function,
    "combine": combine,
    "where": lambda x, a, _: [torch.where(x[0] != 0, x[1], x[2])],
    "cast": cast,
    "add_exponents": lambda x, a, _: [sum(x)],
    "integer_cross_entropy": integer_cross_entropy,
    "integer_step": lambda x, a, _: [(x[1] - x[0]).clamp(-127, 127)],
    "quantise": quantise,
    "dequantise": lambda x, a, _: [(x[0] - spread(x[2:], a, x[0])) * spread(x[1:], a, x[0])],
    "scale_of": scale_of,
    "wrap_index": wrap_index,
    "row_numbers": row_numbers,
    "scatter_add": scatter_add,
    "scatter_source": scatter_source,
    "conv1d": conv1d,
    "deconv2d": deconv2d,
    "add_rows": lambda x, a, _: [x[0] + x[1]],
    "accumulate": lambda x, a, _: [x[0] + x[1]],
    "sgd": sgd,
    "adam": adam,
}


def read_tensor(data, record):
    if record is None:
        return None
    count = int(np.prod(record["shape"], dtype=np.int64))
    part = data[record["offset"]:record["offset"] + count]
    return torch.from_numpy(part.reshape(record["shape"]).copy())


def read_inputs(data, records):
    """One tensor a value, so that one read twice gets the sum of both gradients."""
    by_id = {r["id"]: read_tensor(data, r).requires_grad_() for r in records if r}
    return [by_id[r["id"]] if r else None for r in records]


def compare(what, ours, theirs):
    """Number of failures: 0 or 1."""
    if ours.shape != theirs.shape:
        print(f"{what}: shape {tuple(ours.shape)}, PyTorch's {tuple(theirs.shape)}")
        return 1
    error = float((ours - theirs).norm() / max(float(theirs.norm()), 1e-300))
    if error <= TOLERANCE or torch.equal(ours, theirs):
        return 0
    print(f"{what}: relative error {error:.3g}")
    return 1


def check(data, record):
    """Compares one sample: number of comparisons, of failures."""
    name = f"{record['op']}, sample {record['variant']}"
    attributes = dict(field.split("=", 1) for field in record["attributes"].split())
    inputs = read_inputs(data, record["inputs"])
    outputs = [read_tensor(data, r) for r in record["outputs"]]
    theirs = OPERATORS[record["op"]](inputs, attributes, outputs)
    done = failed = 0
    for i, output in enumerate(outputs):
        if theirs[i] is None:
            continue
        failed += compare(f"{name}, output {i}", output, theirs[i].detach())
        done += 1
    if "gradients" not in record:
        return done, failed
    weights = read_tensor(data, record["weights"][0])
    if theirs[record["output"]].requires_grad:
        (theirs[record["output"]] * weights).mean().backward()
    for i, gradient in enumerate(record["gradients"]):
        if gradient is not None:
            failed += compare(f"{name}, gradient {i}", read_tensor(data, gradient), inputs[i].grad)
            done += 1
    return done, failed


# Whole numbers, which PyTorch computes otherwise: tests/onnx/test_onnx_integers.py compares them with NumPy.
ELSEWHERE = {"integer", "integer_matmul", "integer_reduce", "pick", "ranked_places"}


def main():
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([os.path.join(os.environ["QUERN_TOOLS"], "dump_ops"), folder], check=True)
        data = np.fromfile(os.path.join(folder, "ops.bin"), dtype=np.float64)
        with open(os.path.join(folder, "ops.jsonl"), encoding="utf-8") as file:
            records = [json.loads(line) for line in file]
    done = failed = 0
    for record in records:
        if record["op"] in ELSEWHERE:
            continue
        if record["op"] not in OPERATORS:
            print(f"{record['op']}: no counterpart in PyTorch is known here")
            failed += 1
            continue
        n, n_failed = check(data, record)
        done, failed = done + n, failed + n_failed
    print(f"{len(records)} samples, {done} comparisons with PyTorch, {failed} failed")
    return 1 if failed or not records else 0


if __name__ == "__main__":
    sys.exit(main())
