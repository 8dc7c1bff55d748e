#!/usr/bin/env python3
"""Random operators, with random attributes and shapes, against others that compute the same.

usage: differential.py TOOLS [FIRST [COUNT [classic|dynamo|nodes ...]]]

Modules of PyTorch are exported by one of its exporters; quern's output, and the losses of three steps of training, must be
PyTorch's in double. Single nodes, of all types, must give what ONNX's reference evaluator gives (package onnx 1.13 or later).
Case number n is the same on every machine with the same versions of the packages. Prints a line for each case that is wrong, refused or
not exported, then counts. TOOLS: the folder of run_onnx. test_onnx_differential.py runs a few of them."""
import contextlib
import copy
import io
import logging
import os
import random
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

# the current exporter writes numbers of the program as floats
RATE, STEPS, OUTPUT_LIMIT, DYNAMO_LIMIT, LOSS_LIMIT = 0.05, 3, 1e-9, 1e-6, 1e-7


class Of(nn.Module):
    """f(x * weight, parameters ...): all of them train."""

    def __init__(self, f, shape, *parameters):
        super().__init__()
        self.f = f
        self.weight = nn.Parameter(torch.rand(shape[-1:] or (1,)) + 0.5)
        self.more = nn.ParameterList([nn.Parameter(p) for p in parameters])

    def forward(self, x):
        return self.f(x * self.weight, *self.more)


def size(r, low=1, high=5):
    return r.randint(low, high)


def shape_of(r, rank):
    return tuple(size(r, 2, 6) for _ in range(rank))


def any_shape(r):
    return shape_of(r, r.randint(1, 4))


def image(r, channels=None, least=5):
    return (size(r, 1, 3), channels or size(r, 1, 6), size(r, least, 11), size(r, least, 11))


def spatial(r, dims, channels, least=5):
    return (size(r, 1, 3), channels) + tuple(size(r, least, 9) for _ in range(dims))


# ---- modules: each gives a module and the shape of its input ----

def convolution(r):
    dims, groups = r.choice([1, 2, 2, 3]), r.choice([1, 1, 2, 3])
    inside, outside = groups * size(r, 1, 3), groups * size(r, 1, 3)
    kernel = tuple(size(r, 1, 3) for _ in range(dims))
    kind = [nn.Conv1d, nn.Conv2d, nn.Conv3d][dims - 1]
    pad = tuple(r.randint(0, 2) for _ in range(dims))
    return kind(inside, outside, kernel, tuple(size(r, 1, 3) for _ in range(dims)), pad,
                tuple(size(r, 1, 2) for _ in range(dims)), groups, r.random() < 0.7), spatial(r, dims, inside)


def transposed(r):
    dims, groups = r.choice([1, 2, 2, 3]), r.choice([1, 1, 2])
    inside, outside = groups * size(r, 1, 3), groups * size(r, 1, 3)
    stride = tuple(size(r, 1, 3) for _ in range(dims))
    dilation = tuple(size(r, 1, 2) for _ in range(dims))
    kind = [nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d][dims - 1]
    more = tuple(r.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation))
    return kind(inside, outside, tuple(size(r, 2, 3) for _ in range(dims)), stride, tuple(r.randint(0, 1) for _ in range(dims)), more,
                groups, r.random() < 0.7, dilation), spatial(r, dims, inside, 3)


def pool(r):
    dims = r.choice([1, 2, 2, 3])
    kernel = tuple(size(r, 1, 4) for _ in range(dims))
    stride = tuple(size(r, 1, 3) for _ in range(dims))
    pad = tuple(r.randint(0, k // 2) for k in kernel)
    shape, ceil = spatial(r, dims, size(r, 1, 4)), r.random() < 0.5
    if r.random() < 0.5:
        return Of([nn.MaxPool1d, nn.MaxPool2d, nn.MaxPool3d][dims - 1](kernel, stride, pad, ceil_mode=ceil), shape), shape
    return Of([nn.AvgPool1d, nn.AvgPool2d, nn.AvgPool3d][dims - 1](kernel, stride, pad, ceil, r.random() < 0.5), shape), shape


def norm(r):
    channels = r.choice([2, 4, 6])
    shape = spatial(r, r.choice([0, 1, 2, 3]), channels, 2)
    shape = (shape[0] + 1,) + shape[1:]
    kinds = [nn.GroupNorm(2, channels), nn.LayerNorm(shape[1:]), nn.LayerNorm(shape[-1])]
    if len(shape) > 2:
        kinds += [[nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d][len(shape) - 3](channels),
                  [nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d][len(shape) - 3](channels, affine=True)]
    return r.choice(kinds), shape


ACTIVATIONS = [F.relu, F.relu6, F.elu, F.selu, F.celu, F.gelu, F.silu, F.mish, F.softplus, F.softsign, F.hardswish, F.hardsigmoid, F.hardtanh,
               F.logsigmoid, F.tanhshrink, torch.tanh, torch.sigmoid, torch.erf, torch.sin, torch.cos, torch.exp, torch.atan, torch.abs,
               torch.square, torch.neg, torch.sign, lambda x: F.leaky_relu(x, -0.3), lambda x: F.leaky_relu(x, 0.3),
               lambda x: F.hardshrink(x, 0.3), lambda x: F.softshrink(x, 0.2), lambda x: F.threshold(x, 0.1, 2.0),
               lambda x: torch.asin(x * 0.2), lambda x: torch.acos(x * 0.2), torch.asinh, lambda x: torch.atanh(x * 0.2),
               lambda x: torch.acosh(x.abs() + 1.5), torch.sinh, torch.cosh, lambda x: torch.tan(x * 0.3), lambda x: torch.log1p(x.abs()),
               torch.expm1, lambda x: torch.sqrt(x.abs() + 0.1), lambda x: torch.rsqrt(x.abs() + 0.5), lambda x: x.abs().pow(1.7),
               lambda x: torch.clamp(x, -0.4, 0.6), lambda x: torch.clamp(x, min=0.2), lambda x: torch.floor(x) * x,
               lambda x: torch.round(x * 3) * x, lambda x: torch.trunc(x * 2) + x, lambda x: torch.fmod(x, 0.7), lambda x: torch.remainder(x, 0.6),
               lambda x: torch.nan_to_num(x)]


def activation(r):
    shape, f = any_shape(r), r.choice(ACTIVATIONS)
    return Of(f, shape), shape


def binary(r):
    shape = any_shape(r)
    other = tuple(1 if r.random() < 0.4 else n for n in shape)[r.randint(0, len(shape) - 1):]
    f = r.choice([torch.add, torch.sub, torch.mul, lambda x, y: x / (y.abs() + 0.5), torch.minimum, torch.maximum,
                  lambda x, y: torch.where(x > y, x, y * 2), lambda x, y: (x.abs() + 0.1) ** y, lambda x, y: torch.atan2(x, y.abs() + 0.5),
                  lambda x, y: (x >= y).to(x.dtype) * x + y, lambda x, y: torch.lerp(x, y.expand_as(x), 0.3)])
    return Of(f, shape, torch.randn(other)), shape


def reduction(r):
    shape = any_shape(r)
    dims = tuple(sorted(r.sample(range(len(shape)), r.randint(1, len(shape)))))
    keep, dim = r.random() < 0.5, dims[0]
    f = r.choice([lambda x: x.sum(dims, keep), lambda x: x.mean(dims, keep), lambda x: x.amax(dims, keep), lambda x: x.amin(dims, keep),
                  lambda x: x.abs().add(0.1).prod(dim, keep), lambda x: torch.logsumexp(x, dims, keep), lambda x: x.norm(2, dim, keep),
                  lambda x: x.norm(1, dim, keep), lambda x: x.var(dims, unbiased=False, keepdim=keep), lambda x: x.std(dims, keepdim=keep)
                  if min(shape[d] for d in dims) > 1 else x, lambda x: x.softmax(dim), lambda x: x.log_softmax(dim), lambda x: x.cumsum(dim),
                  lambda x: F.normalize(x, dim=dim), lambda x: x.max(dim, keep)[0], lambda x: x.sort(dim)[0], lambda x: x.topk(2, dim)[0]])
    return Of(f, shape), shape


def product(r):
    n, m, k = size(r, 2), size(r, 2), size(r, 2)
    lead = shape_of(r, r.randint(0, 2))
    shape = lead + (n, k)
    kind = r.randint(0, 5)
    if kind == 0:
        return nn.Linear(k, m, r.random() < 0.5), shape
    if kind == 1:
        return Of(torch.matmul, shape, torch.randn(lead[r.randint(0, len(lead)):] + (k, m))), shape
    if kind == 2:
        return Of(torch.matmul, (k,), torch.randn(k, m)), (k,)
    if kind == 3:
        text = r.choice(["ij,jk->ik", "ij,kj->ki", "ij,ij->i", "ii->i", "ij,jj->ij", "ij,jk,kl->il", "ij->ji"])
        if text in ("ii->i",):
            return Of(lambda x: torch.einsum(text, x), (k, k)), (k, k)
        shapes = {"ij,jk->ik": [(k, m)], "ij,kj->ki": [(m, k)], "ij,ij->i": [(n, k)], "ij,jj->ij": [(k, k)], "ij,jk,kl->il": [(k, m), (m, n)],
                  "ij->ji": []}[text]
        return Of(lambda x, *y: torch.einsum(text, x, *y), (n, k), *[torch.randn(s) for s in shapes]), (n, k)
    if kind == 4:
        return Of(lambda x, b, c: torch.addmm(c, x, b, beta=0.5, alpha=2.0), (n, k), torch.randn(k, m), torch.randn(m)), (n, k)
    return Of(torch.bmm, (2, n, k), torch.randn(2, k, m)), (2, n, k)


def movement(r):
    shape = shape_of(r, r.randint(2, 4))
    dim = r.randrange(len(shape))
    order = r.sample(range(len(shape)), len(shape))
    step, begin = r.randint(1, 3), r.randint(0, 1)
    where = [slice(None)] * len(shape)
    where[dim] = slice(begin, None, step)
    where = tuple(where)
    table = [lambda x: x.permute(order), lambda x: x[where], lambda x: x.flip(dim), lambda x: x.roll(begin + 1, dim),
             lambda x: torch.cat([x, x[where]], dim), lambda x: torch.stack([x, -x], dim), lambda x: x.repeat([1] * dim + [2] + [1] * (len(shape) - dim - 1)),
             lambda x: x.repeat_interleave(2, dim), lambda x: x.reshape(-1, shape[-1]), lambda x: x.flatten(1), lambda x: x.unsqueeze(dim).squeeze(dim),
             lambda x: torch.cat(x.chunk(2, dim)[::-1], dim), lambda x: x.narrow(dim, 0, 2), lambda x: x.tril(begin), lambda x: x.triu(begin),
             lambda x: x.expand((2,) + shape), lambda x: x.transpose(0, dim), lambda x: x.unfold(dim, 2, 1), lambda x: x.diagonal(0, 0, 1),
             lambda x: torch.cat(x.unbind(dim)[:2], -1), lambda x: x.movedim(0, -1), lambda x: x.reshape(1, *shape).mean(0)]
    f = r.choice(table)
    return Of(f, shape), shape


def picking(r):
    shape = shape_of(r, r.randint(1, 3))
    dim = r.randrange(len(shape))
    n = size(r, 1, 4)
    rows = torch.tensor([r.randrange(shape[dim]) for _ in range(n)])
    like = list(shape)
    like[dim] = n
    at = torch.randint(0, shape[dim], like)
    updates = torch.randn(like)
    once = torch.argsort(torch.rand(shape), dim).narrow(dim, 0, min(n, shape[dim]))
    by_x = [lambda x: x.argsort(dim), lambda x: (x.abs() * 7).long() % shape[dim]]
    changing = r.choice(by_x)
    table = [lambda x: x.index_select(dim, rows), lambda x: x.gather(dim, at), lambda x: x.gather(dim, changing(x)),
             lambda x, u: x.scatter(dim, once, u.narrow(dim, 0, once.shape[dim])), lambda x, u: x.scatter_add(dim, at, u),
             lambda x, u: x.scatter(dim, x.argsort(dim).narrow(dim, 0, min(n, shape[dim])), u.narrow(dim, 0, min(n, shape[dim]))),
             lambda x, u: x.scatter_add(dim, changing(x), torch.ones_like(x) * u.mean()),
             lambda x, u: x.scatter_reduce(dim, at, u, "amax"), lambda x: x[rows % shape[0]], lambda x: torch.where(x > 0, x, x.mean()),
             lambda x: x.masked_fill(x > 0.3, -1.0), lambda x: x.index_add(dim, rows, x.index_select(dim, rows)),
             lambda x: F.embedding((x.abs() * 3).long() % 4, torch.eye(4, dtype=x.dtype)) * x.unsqueeze(-1),
             lambda x: x * F.one_hot((x.abs() * 5).long() % 3, 3).to(x.dtype).sum(-1), lambda x: x * x.argmax(dim, True).to(x.dtype),
             lambda x, u: x.index_put((rows % shape[0],), u.mean().expand(rows.shape[0], *shape[1:]))]
    f = r.choice(table)
    return Of(f, shape, *([updates] if f.__code__.co_argcount == 2 else [])), shape


def whole(r):
    """Whole numbers on the way: a mask or a factor that is worked out exactly. No operator //: the exporter of PyTorch 1.13 writes
    it as ONNX's division, which cuts towards 0."""
    shape = any_shape(r)
    c, d = r.randint(2, 9), r.choice([2, 3, 5, -3])
    kind = r.choice([torch.int64, torch.int32])
    table = [lambda i: torch.div(i, d, rounding_mode="floor"), lambda i: i % d, lambda i: i * c - torch.div(i, c, rounding_mode="floor"),
             lambda i: (i * 1000003) % 97, lambda i: torch.clamp(i, -2, 3),
             lambda i: (i > c - 4).to(kind) + (i == 1).to(kind), lambda i: i.abs() % c, lambda i: i.cumsum(0), lambda i: i.sum(-1, keepdim=True),
             lambda i: torch.div(i, d, rounding_mode="trunc"), lambda i: torch.where(i > 0, i, i * 2), lambda i: i.float().to(i.dtype),
             lambda i: torch.minimum(i, i.neg())]
    f = r.choice(table)
    return Of(lambda x: x * f((x.detach() * 10).to(kind)).to(x.dtype), shape), shape


def resampling(r):
    shape = image(r, None, 3)
    mode = r.choice(["nearest", "bilinear", "bicubic", "area"])
    corners = {} if mode in ("nearest", "area") else {"align_corners": r.random() < 0.5}
    target = {"size": (size(r, 2, 12), size(r, 2, 12))} if r.random() < 0.5 else {"scale_factor": r.choice([0.5, 1.5, 2.0, 3.0])}
    if mode == "area":
        target = {"size": (2, 3)}
        shape = (2, 3, 4, 6)
    border = tuple(r.randint(0, 2) for _ in range(4))
    table = [lambda x: F.interpolate(x, mode=mode, **target, **corners), lambda x: F.pad(x, border, "constant", 0.5),
             lambda x: F.pad(x, border, "reflect"), lambda x: F.pad(x, border, "replicate"), lambda x: F.pad(x, (1, -1, -1, 1)),
             lambda x: F.pixel_shuffle(x.repeat(1, 4, 1, 1), 2), lambda x: F.adaptive_avg_pool2d(x, 1), lambda x: F.adaptive_max_pool2d(x, 1),
             lambda x: F.unfold(x, 2, padding=1, stride=2), lambda x: F.local_response_norm(x, 3)]
    return Of(r.choice(table), shape), shape


def grids(r):
    shape = image(r, None, 3)
    mode, padding, aligned = r.choice(["bilinear", "nearest", "bicubic"]), r.choice(["zeros", "border", "reflection"]), r.random() < 0.5
    grid = torch.randn(shape[0], 3, 4, 2) * 0.9
    return Of(lambda x, g: F.grid_sample(x, g, mode, padding, aligned), shape, grid), shape


class Recurrent(nn.Module):
    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, x):
        return self.network(x)[0]


def recurrent(r):
    width, first = size(r, 1, 5), r.random() < 0.7
    network = r.choice([nn.RNN, nn.GRU, nn.LSTM])(width, size(r, 1, 5), r.choice([1, 1, 2]), bias=r.random() < 0.8, batch_first=first,
                                                  bidirectional=r.random() < 0.4)
    return Recurrent(network), (size(r, 1, 3), size(r, 1, 5), width)


def attending(r):
    heads, width = r.choice([1, 2]), 4
    shape = (2, size(r, 2, 5), heads * width)
    mask = torch.rand(shape[1], shape[1]) > 0.4
    mask[:, 0] = True
    causal, masked = r.random() < 0.3, r.random() < 0.4

    def f(x, w):
        q, k, v = [(x @ p).reshape(2, -1, heads, width).transpose(1, 2) for p in w]
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=None if causal or not masked else mask, is_causal=causal)
        return y.transpose(1, 2).reshape(x.shape)

    if r.random() < 0.3:
        class Self(nn.MultiheadAttention):
            def forward(self, x):
                return super().forward(x, x, x, need_weights=False)[0]
        return Self(heads * width, heads, batch_first=True), shape
    return Of(f, shape, torch.randn(3, heads * width, heads * width) * 0.4), shape


def losses(r):
    classes = size(r, 2, 5)
    shape = (3, classes) + (() if r.random() < 0.5 else (4,))
    target = torch.randint(0, classes, shape[:1] + shape[2:])
    target.view(-1)[0] = -100 if r.random() < 0.5 else 0
    weight, how = (torch.rand(classes).double() + 0.1 if r.random() < 0.5 else None), r.choice(["mean", "sum", "none"])
    other = torch.rand(shape).double()
    table = [lambda x: F.cross_entropy(x, target, weight, reduction=how), lambda x: F.nll_loss(x.log_softmax(1), target, weight, reduction=how),
             lambda x: F.mse_loss(x, other, reduction=how), lambda x: F.l1_loss(x, other, reduction=how),
             lambda x: F.binary_cross_entropy_with_logits(x, other, reduction=how), lambda x: F.smooth_l1_loss(x, other, reduction=how),
             lambda x: F.kl_div(x.log_softmax(1), other, reduction=how)]
    return Of(r.choice(table), shape), shape


def chain(r):
    """Several of them, one after the other, over images: layouts change on the way."""
    channels = r.choice([2, 4])
    shape = image(r, channels, 6)
    parts = []
    for _ in range(r.randint(2, 5)):
        parts.append(r.choice([
            lambda: nn.Conv2d(channels, channels, 3, padding=1), lambda: nn.BatchNorm2d(channels), nn.ReLU, nn.SiLU,
            lambda: nn.MaxPool2d(2, 1), lambda: nn.PReLU(channels), lambda: nn.GroupNorm(2, channels), lambda: Of(lambda x: x.transpose(2, 3), (1,)),
            lambda: Of(lambda x: x.mean((2, 3), True) * x, (1,)), lambda: Of(lambda x: torch.cat([x[:, :1], x[:, 1:]], 1), (1,)),
            lambda: Of(lambda x: x.softmax(1) + x.amax(-1, True), (1,)), lambda: nn.Upsample(scale_factor=2),
            lambda: Of(lambda x: x.flatten(2).transpose(1, 2).cumsum(1).transpose(1, 2).reshape(x.shape), (1,)),
            lambda: Of(lambda x: x + x.flip(1) * x.var(1, keepdim=True), (1,)), nn.Hardswish])())
    return nn.Sequential(*parts), shape


MODULES = [convolution, transposed, pool, norm, activation, binary, reduction, product, movement, picking, whole, resampling, grids, recurrent,
           attending, losses, chain]


OPEN = ("convolution", "transposed", "pool", "chain")  # whose batch may be left open


def module(number):
    r = random.Random(number)
    torch.manual_seed(number)
    make = r.choice(MODULES)
    network, shape = make(r)
    x = torch.randn(shape).double()
    return make.__name__, network.double().train(), x, r


# ---- one case ----

def numbers(path):
    return np.fromfile(path)


def difference(found, right):
    """The largest, as a share of the largest number; infinity where the numbers are not as many."""
    if found.size != right.size:
        return np.inf
    if found.size == 0:
        return 0.0
    found, right = found.ravel(), right.ravel()
    same = (found == right) | (np.isnan(found) & np.isnan(right))
    with np.errstate(invalid="ignore"):
        apart = np.abs(np.where(same, 0, found - right)).max()
    apart = np.inf if np.isnan(apart) else apart
    finite = np.abs(right[np.isfinite(right)])
    return float(apart / max(finite.max() if finite.size else 0.0, 1e-6))


def run(tools, path, x, steps):
    """quern's numbers, or None and what it said."""
    with tempfile.TemporaryDirectory() as folder:
        given, made = os.path.join(folder, "in"), os.path.join(folder, "out")
        x.astype(np.float64).tofile(given)
        done = subprocess.run([os.path.join(tools, "run_onnx"), path, "f64", str(steps), str(RATE), given, made, "x".join(map(str, x.shape))],
                              capture_output=True, text=True, errors="replace", timeout=120, check=False)
        said = done.stderr.strip().splitlines()
        if done.returncode < 0:
            raise RuntimeError(f"ended by signal {-done.returncode}: {said[-1:]}")
        return (numbers(made), "") if done.returncode == 0 else (None, said[-1][:230] if said else "failed")


def pytorch(network, x):
    """The output, and the losses of three steps of plain SGD on the mean of its squares."""
    network, found = copy.deepcopy(network), []
    output = network(x).detach().clone()
    network = copy.deepcopy(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=RATE)
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = network(x).square().mean()
        found.append(loss.item())
        loss.backward()
        optimizer.step()
    return output.double().numpy(), np.array(found)


def export(name, network, x, path, exporter, r):
    """Before opset 16 scatters have no reduction: exporters leave it out."""
    batch = name in OPEN and r.random() < 0.4
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        if exporter == "dynamo":
            torch.onnx.export(network, (x,), path, dynamo=True, optimize=False, external_data=False, verbose=False, input_names=["x"],
                              output_names=["y"])
            return
        more = {"dynamo": False} if tuple(int(p) for p in torch.__version__.split("+")[0].split(".")[:2]) >= (2, 5) else {}
        torch.onnx.export(network, x, path, training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False, input_names=["x"],
                          output_names=["y"], opset_version=r.choice([16, 17] if name == "picking" else [14, 16, 17]), dynamic_axes={"x": {0: "n"}} if batch else None, **more)


def judge(tools, path, x, output, losses, limit):
    found, said = run(tools, path, x, 0)
    if found is None:
        return "refused", said
    apart = difference(found, output)
    if apart > limit:
        return "wrong", f"output {apart:.1e}"
    if losses is None or not np.isfinite(losses).all() or np.abs(losses).max() > 1e6:
        return "right", ""
    found, said = run(tools, path, x, STEPS)
    if found is None:
        return "refused", "training: " + said
    apart = difference(found, losses)
    return ("wrong", f"losses {apart:.1e}") if apart > LOSS_LIMIT else ("right", "")


def try_module(tools, number, exporter, folder):
    name, network, x, r = module(number)
    path = os.path.join(folder, "case.onnx")
    try:
        output, losses = pytorch(network, x)
    except Exception as error:  # what the generator draws may be impossible
        return name, "impossible", (str(error).splitlines() or [""])[0][:100]
    exported = copy.deepcopy(network)
    try:
        export(name, exported, x, path, exporter, r)
    except Exception as error:
        return name, "not exported", (str(error).splitlines() or [""])[0][:100]
    # in inference a batch norm has the statistics of the file, which the exporter's own run has moved
    has_statistics = any(isinstance(m, nn.modules.batchnorm._BatchNorm) for m in network.modules())
    if has_statistics:
        output = exported.eval()(x).detach().numpy()
    return (name, *judge(tools, path, x.numpy(), output, losses, DYNAMO_LIMIT if exporter == "dynamo" else OUTPUT_LIMIT))


# ---- single nodes ----

def draw(r, shape, kind):
    n = int(np.prod(shape))
    if kind == "bool":
        values = [r.random() < 0.5 for _ in range(n)]
    elif kind.startswith("float"):
        values = [r.choice([r.uniform(-3, 3), float(r.randint(-3, 3))]) for _ in range(n)]
    elif kind.startswith("u"):
        values = [r.randint(0, 2 ** int(kind[4:]) - 1 if r.random() < 0.2 and int(kind[4:]) <= 16 else 9) for _ in range(n)]
    else:
        bits = int(kind[3:])
        values = [r.randint(-2 ** (bits - 1), 2 ** (bits - 1) - 1) if r.random() < 0.15 else r.randint(-9, 9) for _ in range(n)]
    return np.array(values, dtype=kind).reshape(shape)


REAL, WHOLE = ["float32", "float64"], ["int64", "int32", "int8", "uint8", "int16"]
UNARY = {"Abs": REAL + WHOLE, "Neg": REAL + ["int64", "int32"], "Sign": REAL + WHOLE, "Floor": REAL, "Ceil": REAL, "Round": REAL, "Relu": REAL + ["int64", "int32", "int8"], "Exp": REAL,
         "Not": ["bool"], "Sigmoid": REAL, "Tanh": REAL, "Erf": REAL, "Softplus": REAL, "Sin": REAL, "Atan": REAL, "IsNaN": REAL, "HardSwish": REAL,
         "Elu": REAL, "Selu": REAL, "LeakyRelu": REAL, "HardSigmoid": REAL, "ThresholdedRelu": REAL, "Celu": ["float32"], "Mish": REAL, "Identity": REAL + WHOLE}
PAIRS = {"Add": REAL + WHOLE, "Sub": REAL + WHOLE, "Mul": REAL + WHOLE, "Div": REAL, "Min": REAL + WHOLE, "Max": REAL + WHOLE, "Mod": WHOLE,
         "Equal": REAL + WHOLE, "Less": REAL + WHOLE, "Greater": REAL + WHOLE, "LessOrEqual": REAL + WHOLE, "And": ["bool"], "Or": ["bool"], "Xor": ["bool"],
         "BitwiseAnd": WHOLE, "BitwiseOr": WHOLE, "BitwiseXor": WHOLE}
REDUCTIONS = {"ReduceSum": REAL + ["int64", "int32"], "ReduceMean": REAL, "ReduceMax": REAL + ["int64", "int32", "int8"], "ReduceMin": REAL + ["int64", "int32"],
              "ReduceProd": REAL + ["int64"], "ReduceL1": REAL, "ReduceL2": REAL, "ReduceSumSquare": REAL, "ReduceLogSumExp": REAL}


def array_case(r, shape, axis, dtype):
    """Of whole arrays: the largest, one-hot rows, products, what is put and taken by tuples."""
    kind = r.choice(["TopK", "OneHot", "MatMul", "GatherND", "ScatterND", "ReverseSequence", "MatMulInteger", "BitShift"])
    x = draw(r, shape, dtype)
    if kind == "TopK":
        return kind, {"axis": axis, "largest": r.randint(0, 1)}, [x, np.array([r.randint(1, shape[axis])], np.int64)], 2
    if kind == "OneHot":
        depth = r.randint(2, 5)
        at = np.array([r.randint(-depth, depth - 1) for _ in range(int(np.prod(shape)))], r.choice(["int64", "int32"])).reshape(shape)
        return kind, {"axis": r.randint(-len(shape) - 1, len(shape))}, [at, np.array([depth], np.int64), draw(r, (2,), dtype)], 6
    if kind == "MatMul":
        lead, m, k, n = shape_of(r, r.randint(0, 2)), size(r), size(r), size(r)
        return kind, {}, [draw(r, lead + (m, k), dtype), draw(r, lead[r.randint(0, len(lead)):] + (k, n), dtype)], r.choice([0, 2])
    if kind == "MatMulInteger":
        m, k, n = size(r), size(r), size(r)
        a, b = r.choice(["int8", "uint8"]), r.choice(["int8", "uint8"])
        return kind, {}, [draw(r, (m, k), a), draw(r, (k, n), b), draw(r, (), a), draw(r, (), b)], r.choice([14, 12])
    if kind == "BitShift":
        unsigned = r.choice(["uint8", "uint16", "uint32"])
        return kind, {"direction": r.choice(["LEFT", "RIGHT"])}, [draw(r, shape, unsigned), draw(r, shape[-1:], unsigned) % 9], 0
    if kind == "ReverseSequence":
        lengths = np.array([r.randint(1, 4) for _ in range(3)], np.int64)
        return kind, {"batch_axis": 1, "time_axis": 0}, [draw(r, (4, 3) + shape[:2], dtype), lengths], 2
    k = r.randint(1, len(shape))
    tuples = np.array(r.sample(list(np.ndindex(*shape[:k])), 2), np.int64)
    tuples = tuples - np.array(shape[:k]) * (np.array([[r.randint(0, 1) for _ in range(k)] for _ in range(2)]))
    if kind == "GatherND":
        return kind, {}, [x, tuples], r.choice([0, 2])
    return kind, {"reduction": r.choice(["none", "add", "mul", "max", "min"])}, [x, tuples, draw(r, (2,) + shape[k:], dtype)], r.choice([0, 2])


def node_case(r):
    """Operator, attributes, inputs; names of those that are constants of the file."""
    shape = shape_of(r, r.randint(1, 4))
    rank = len(shape)
    axis = r.randint(-rank, rank - 1)
    group = r.randint(0, 12)
    if group == 0:
        kind = r.choice(sorted(UNARY))
        more = {"alpha": r.uniform(-1, 2)} if kind in ("Elu", "LeakyRelu") else {}
        return kind, more, [draw(r, shape, r.choice(UNARY[kind]))], 0
    if group <= 2:
        kind = r.choice(sorted(PAIRS))
        dtype = r.choice(PAIRS[kind])
        b = draw(r, tuple(1 if r.random() < 0.3 else n for n in shape)[r.randint(0, rank - 1):], dtype)
        b = np.where(b == 0, np.ones_like(b), b) if kind in ("Mod", "Div") else b
        return kind, {}, [draw(r, shape, dtype), b], r.choice([0, 2])
    if group == 3:
        kind = r.choice(sorted(REDUCTIONS))
        axes = np.array(sorted(r.sample(range(rank), r.randint(1, rank))), np.int64)
        return kind, {"keepdims": r.randint(0, 1)}, [draw(r, shape, r.choice(REDUCTIONS[kind])), axes], 2
    dtype = r.choice(REAL + WHOLE)
    x = draw(r, shape, dtype)
    if group == 4:
        at = np.array([r.randint(-shape[axis], shape[axis] - 1) for _ in range(r.randint(1, 4))], np.int64)
        return "Gather", {"axis": axis}, [x, at], r.choice([0, 2])
    if group == 5:
        kind = r.choice(["GatherElements", "ScatterElements"])
        like = list(shape)
        like[axis] = min(2, shape[axis])
        at = np.stack(
            [np.array(r.sample(range(shape[axis]), like[axis])) for _ in range(int(np.prod(like)) // like[axis])])
        at = np.moveaxis(at.reshape([n for i, n in enumerate(like) if i != axis % rank] + [like[axis]]), -1, axis).astype(np.int64)
        if kind == "GatherElements":
            return kind, {"axis": axis}, [x, at], r.choice([0, 2])
        how = r.choice(["none", "add", "mul", "max", "min"])
        return kind, {"axis": axis, "reduction": how}, [x, at, draw(r, tuple(like), dtype)], r.choice([0, 2])
    if group == 6:
        starts = [r.randint(-n - 1, n) for n in shape]
        ends = [r.choice([r.randint(-n - 1, n + 1), 2 ** 62, -2 ** 62]) for n in shape]
        steps = [r.choice([1, 1, 2, -1, -2]) for _ in shape]
        return "Slice", {}, [x] + [np.array(v, np.int64) for v in (starts, ends, range(rank), steps)], 30
    if group == 7:
        pads = np.array([r.randint(0, 2) for _ in range(2 * rank)], np.int64)
        return "Pad", {"mode": r.choice(["constant", "edge", "reflect"])}, [x, pads, draw(r, (), dtype)], 6
    if group == 8:
        kind = r.choice(["CumSum", "ArgMax", "ArgMin", "TopK", "Trilu", "Transpose"])
        if kind == "CumSum":
            return kind, {"exclusive": r.randint(0, 1), "reverse": r.randint(0, 1)}, [draw(r, shape, r.choice(REAL + ["int64", "int32"])), np.array(axis, np.int64)], 2
        if kind == "TopK":
            return kind, {"axis": axis, "largest": r.randint(0, 1)}, [draw(r, shape, r.choice(REAL)), np.array([1], np.int64)], 2
        if kind == "Trilu":
            return kind, {"upper": r.randint(0, 1)}, [draw(r, shape_of(r, 3), r.choice(REAL + ["int64"])), np.array(r.randint(-2, 2), np.int64)], 2
        if kind == "Transpose":
            return kind, {"perm": r.sample(range(rank), rank)}, [x], 0
        return kind, {"axis": axis, "keepdims": r.randint(0, 1), "select_last_index": r.randint(0, 1)}, [draw(r, shape, r.choice(REAL + ["int64", "int32"]))], 0
    if group == 9:
        to = r.choice(["float32", "float64", "int64", "int32", "int8", "uint8", "bool", "float16", "int16"])
        import onnx
        source = draw(r, shape, dtype)
        if dtype.startswith("float") and to == "uint8":
            source = np.abs(source)
        return "Cast", {"to": onnx.helper.np_dtype_to_tensor_dtype(np.dtype(to))}, [source], 0
    if group >= 11:
        return array_case(r, shape, axis, r.choice(WHOLE + ["float64"]))
    kind = r.choice(["Softmax", "LogSoftmax", "Hardmax", "Where", "Clip", "Expand", "Tile"])
    if kind == "Where":
        return kind, {}, [draw(r, shape, "bool"), x, draw(r, shape[-1:], dtype)], r.choice([0, 4])
    if kind == "Clip":
        bounds = np.sort(draw(r, (2,), dtype))
        return kind, {}, [x, bounds[0].reshape(()), bounds[1].reshape(())], 6
    if kind == "Expand":
        return kind, {}, [draw(r, (1,) + shape[1:], dtype), np.array(shape, np.int64)], 2
    if kind == "Tile":
        return kind, {}, [x, np.array([r.randint(1, 2) for _ in shape], np.int64)], 2
    return kind, {"axis": axis}, [draw(r, shape, r.choice(REAL))], 0


def try_node(tools, number, folder):
    """The node's inputs are cast from one real input, where they are no constants, and its output to double: what is exact stays so."""
    import onnx
    from onnx import helper, numpy_helper
    from onnx.reference import ReferenceEvaluator
    r = random.Random(number)
    kind, attributes, inputs, constant = node_case(r)
    given, nodes, at = [], [], 0
    names = []
    flat = np.concatenate([v.astype(np.float64).ravel() for i, v in enumerate(inputs) if not constant >> i & 1] + [np.zeros(1)])
    for i, value in enumerate(inputs):
        names.append(f"i{i}")
        # numbers beyond what a double tells apart are constants, too
        if constant >> i & 1 or (value.dtype.kind in "iu" and np.abs(value.astype(object)).max(initial=0) > 2 ** 53):
            given.append(numpy_helper.from_array(value, names[-1]))
            at += 0 if constant >> i & 1 else value.size
            continue
        n = value.size
        given += [numpy_helper.from_array(np.array([v], np.int64), f"{names[-1]}.{k}") for k, v in (("b", at), ("e", at + n))]
        given.append(numpy_helper.from_array(np.array(value.shape, np.int64), f"{names[-1]}.s"))
        nodes += [helper.make_node("Slice", ["x", f"i{i}.b", f"i{i}.e"], [f"i{i}.p"]), helper.make_node("Reshape", [f"i{i}.p", f"i{i}.s"], [f"i{i}.r"]),
                  helper.make_node("Cast", [f"i{i}.r"], [names[-1]], to=helper.np_dtype_to_tensor_dtype(value.dtype))]
        at += n
    nodes += [helper.make_node(kind, names, ["n"] if kind != "TopK" else ["n", "places"], **attributes),
              helper.make_node("Cast", ["n"], ["y"], to=onnx.TensorProto.DOUBLE)]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", onnx.TensorProto.DOUBLE, flat.shape)],
                              [helper.make_tensor_value_info("y", onnx.TensorProto.DOUBLE, None)], given)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    title = f"{kind} {inputs[0].dtype} {attributes}"
    path = os.path.join(folder, "case.onnx")
    onnx.save(made, path)
    try:
        with np.errstate(all="ignore"):
            right = ReferenceEvaluator(made).run(None, {"x": flat})[0]
    except Exception as error:
        return title, "impossible", (str(error).splitlines() or [""])[0][:100]
    if right.size == 0:
        return title, "impossible", "no elements"
    found, said = run(tools, path, flat, 0)
    if found is None:
        return title, "refused", said
    apart = difference(found, right)
    # what the file computes in float, the evaluator does, too
    rounds = inputs[0].dtype == np.float32 or kind in ("Erf", "HardSwish", "Selu", "Elu", "HardSigmoid", "LeakyRelu", "Celu", "ThresholdedRelu")
    limit = 3e-6 if rounds or kind == "Cast" and "float" in str(inputs[0].dtype) else OUTPUT_LIMIT
    return (title, "wrong", f"output {apart:.1e}") if apart > limit else (title, "right", "")


def main():
    tools, first, count = sys.argv[1], int((sys.argv[2:] or [0])[0]), int((sys.argv[3:] or [100])[0])
    kinds = sys.argv[4:] or ["classic", "dynamo", "nodes"]
    torch.set_num_threads(1)
    logging.disable(logging.WARNING)
    counts, keep = {}, os.environ.get("KEEP")
    with tempfile.TemporaryDirectory() as folder:
        for number in range(first, first + count):
            for kind in kinds:
                try:
                    name, verdict, said = try_node(tools, number, folder) if kind == "nodes" else try_module(tools, number, kind, folder)
                except (RuntimeError, subprocess.TimeoutExpired) as error:
                    name, verdict, said = "", "crashed", str(error)[:200]
                counts[kind, verdict] = counts.get((kind, verdict), 0) + 1
                if verdict not in ("right", "impossible"):
                    print(f"{number} {kind} {name}: {verdict}: {said}", flush=True)
                    if keep and verdict in ("wrong", "crashed"):
                        os.replace(os.path.join(folder, "case.onnx"), os.path.join(keep, f"{number}-{kind}.onnx"))
    for (kind, verdict), n in sorted(counts.items()):
        print(f"{kind:<8} {verdict:<13} {n}")


if __name__ == "__main__":
    main()
