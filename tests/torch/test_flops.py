#!/usr/bin/python3
"""Counts the multiply-adds of training steps independently of the engine and compares.

The other count comes from PyTorch: a mode in its dispatcher sees the shapes of every product that
its forward and backward passes do, and counts two operations for a multiply-add. Convolutions
and products of matrices must agree one by one, forward and backward. Where an operator of the
engine does more than products (the gates of an LSTM, softmax within attention), its count must
be that of its products and at most 5 % more.

The program dump_operations in the folder $QUERN_TOOLS tells the engine's counts."""

import math
import os
import subprocess
import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "models"))
import reference  # noqa: E402 (found by the line before)

BATCH, CLASSES = 2, 10
IMAGE_MODELS = ("mlp", "lenet5", "alexnet", "vgg11", "resnet18", "resnet50", "squeezenet",
                "mobilenet-v1", "mobilenet-v2", "googlenet", "xception", "densenet40")
PRODUCTS = ("conv2d", "linear", "matmul")


class Counter(TorchDispatchMode):
    """counts: FLOPs of each product that was done while it was on."""

    def __init__(self):
        super().__init__()
        self.counts = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        name = func.overloadpacket.__name__
        if name == "convolution":
            filters = args[1]
            self.counts.append(2 * result.numel() * filters.numel() // filters.shape[0])
        elif name == "convolution_backward":
            gradient, _, filters = args[:3]
            each = 2 * gradient.numel() * filters.numel() // filters.shape[0]
            self.counts += [each] * sum(args[-1][:2])
        elif name in ("mm", "bmm"):
            self.counts.append(2 * result.numel() * args[0].shape[-1])
        elif name in ("addmm", "baddbmm"):
            self.counts.append(2 * result.numel() * args[1].shape[-1])
        return result


def torch_counts(forward):
    """FLOPs of the products of a forward pass, and of the backward pass from what it returns."""
    with Counter() as ahead:
        loss = forward()
    with Counter() as back:
        loss.backward()
    return ahead.counts, back.counts


def engine_operations(model, **settings):
    """(type, pass, FLOPs) of each operation of a training step."""
    program = os.path.join(os.environ["QUERN_TOOLS"], "dump_operations")
    pairs = [f"{name}={value}" for name, value in settings.items()]
    text = subprocess.run([program, model, *pairs], check=True, capture_output=True,
                          text=True).stdout
    rows = [line.split() for line in text.splitlines()]
    return [(row[0], row[2], int(row[3])) for row in rows]


def pick(operations, kinds, part):
    """Sorted FLOPs of the operations of these kinds, and their gradients, in a pass."""
    return sorted(flops for kind, where, flops in operations
                  if where == part and kind.split("_backward")[0] in kinds)


def check_image_model(name):
    shape = reference.SMALL_SHAPES.get(name, (32, 32, 3))
    net = reference.build(name, shape, CLASSES)
    x = torch.randn(BATCH, shape[2], shape[0], shape[1])
    y = torch.randint(CLASSES, (BATCH,))
    ahead, back = torch_counts(lambda: F.cross_entropy(net(x), y))
    operations = engine_operations(name, batch=BATCH, input="x".join(map(str, shape)))
    assert pick(operations, PRODUCTS, "forward") == sorted(ahead), name
    assert pick(operations, PRODUCTS, "backward") == sorted(back), name
    print(f"{name}: {len(ahead)} + {len(back)} products, {sum(ahead) + sum(back)} FLOPs")


def is_little_more(engine, products):
    return products <= engine <= 1.05 * products


def check_char_lstm(length=20, hidden=256, characters=96):
    """Both layers' products, and the last layer's one by one."""
    operations = engine_operations("char-lstm", batch=BATCH, length=length)
    lstm = nn.LSTM(hidden, hidden, 2, batch_first=True)
    x = torch.randn(BATCH, length, hidden, requires_grad=True)
    state = [torch.zeros(2, BATCH, hidden, requires_grad=True) for _ in range(2)]
    ahead, back = torch_counts(lambda: lstm(x, state)[0].sum())
    last = 2 * BATCH * length * hidden * characters
    linear = pick(operations, ("linear",), "forward")
    assert last in linear, (last, linear)
    assert is_little_more(sum(pick(operations, ("lstm", "linear"), "forward")) - last, sum(ahead))
    assert is_little_more(sum(pick(operations, ("lstm", "linear"), "backward")) - 2 * last,
                          sum(back))
    print(f"char-lstm: {sum(ahead)} + {sum(back)} FLOPs")


def check_bert(length=32, hidden=128, heads=2, layers=2, inner=512):
    """Forward; backward, the engine does attention's scores once more and does not keep them."""
    operations = engine_operations("bert-tiny", batch=BATCH, length=length)
    x = torch.randn(BATCH * length, hidden)

    def layer():
        split = nn.Linear(hidden, 3 * hidden)(x).view(BATCH, length, 3, heads, hidden // heads)
        query, key, value = split.permute(2, 0, 3, 1, 4).unbind(0)
        weights = (query @ key.transpose(-1, -2) / math.sqrt(hidden // heads)).softmax(-1)
        y = nn.Linear(hidden, hidden)((weights @ value).transpose(1, 2).reshape(x.shape))
        return nn.Linear(inner, hidden)(F.gelu(nn.Linear(hidden, inner)(y))).sum()

    ahead, _ = torch_counts(layer)
    products = [count for count in ahead if count != 2 * BATCH * length * length * hidden]
    attention = [count for count in ahead if count == 2 * BATCH * length * length * hidden]
    assert len(products) == 4 and len(attention) == 2
    answers = 2 * BATCH * length * hidden * 2  # where an answer begins and ends
    assert pick(operations, PRODUCTS, "forward") == sorted(products * layers + [answers])
    assert is_little_more(sum(pick(operations, ("attention",), "forward")),
                          sum(attention) * layers)
    print(f"bert-tiny: {sum(ahead)} FLOPs in each of {layers} layers")


def main():
    torch.manual_seed(1)
    for name in IMAGE_MODELS:
        check_image_model(name)
    check_char_lstm()
    check_bert()


if __name__ == "__main__":
    main()
