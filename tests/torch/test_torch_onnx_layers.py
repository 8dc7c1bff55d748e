#!/usr/bin/python3
"""Layers that PyTorch exports to ONNX, read back and run in double: outputs, and gradients of every parameter
and input of the mean square of the outputs, against PyTorch's own autograd in float64, equal to 1e-9 of their
norm. Exported for training, so that parameters keep their names and are put in order by nodes of the file.

The program onnx_gradients in the folder $QUERN_TOOLS builds and runs the files."""

import os
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import onnx.numpy_helper
import torch
import torch.nn.functional as F
from torch import nn

TOLERANCE = 1e-9


class Recurrent(nn.Module):
    """All outputs of a recurrent layer, with a state before."""

    def __init__(self, layer, batch=3):
        super().__init__()
        self.layer = layer
        directions = 2 if layer.bidirectional else 1
        shape = (layer.num_layers * directions, batch, layer.hidden_size)
        self.h, self.c = (nn.Parameter(torch.randn(shape)) for _ in range(2))

    def forward(self, x):
        if isinstance(self.layer, nn.LSTM):
            y, (h, c) = self.layer(x, (self.h, self.c))
            return y, h, c
        return self.layer(x, self.h)


class Function(nn.Module):
    """A function with a weight before it, so that something is trained."""

    def __init__(self, function, shape):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(shape))
        self.function = function

    def forward(self, x):
        return self.function(torch.tanh(x * self.weight))


def recurrent(kind, **settings):
    return Recurrent(kind(5, 4, **settings)), (7, 3, 5)


IMAGE, ROWS = (2, 8, 5, 6), (3, 4, 10)


def moved(function, shape=IMAGE):
    return Function(function, shape), shape


def resize(**settings):
    return moved(lambda x: F.interpolate(x, **settings))


def decode(x):
    """A convolution between changes of size: channels last and back."""
    return F.avg_pool2d(F.interpolate(F.conv2d(x, torch.ones(4, 8, 3, 3, dtype=x.dtype) / 9),
                                      scale_factor=2.0, mode="nearest"), 2)


CASES = {
    "lstm": lambda: recurrent(nn.LSTM),
    "lstm, two layers, both directions": lambda: recurrent(nn.LSTM, num_layers=2, bidirectional=True),
    "gru": lambda: recurrent(nn.GRU),
    "gru, two layers, both directions": lambda: recurrent(nn.GRU, num_layers=2, bidirectional=True),
    "gru without bias": lambda: recurrent(nn.GRU, bias=False),
    "rnn": lambda: recurrent(nn.RNN, bidirectional=True),
    "rnn of relu": lambda: recurrent(nn.RNN, nonlinearity="relu"),
    "nearest, larger": lambda: resize(scale_factor=2.0, mode="nearest"),
    "nearest, smaller": lambda: resize(size=(3, 4), mode="nearest"),
    "linear, larger": lambda: resize(size=(11, 9), mode="bilinear", align_corners=False),
    "linear, corners": lambda: resize(size=(9, 11), mode="bilinear", align_corners=True),
    "cubic": lambda: resize(size=(9, 11), mode="bicubic", align_corners=False),
    "a convolution between": lambda: moved(decode),
    "pad": lambda: moved(lambda x: F.pad(x, (1, 2, 3, 0), value=0.25)),
    "crop": lambda: moved(lambda x: F.pad(x, (-1, -2, 0, -1))),
    "reflection": lambda: moved(lambda x: F.pad(x, (1, 2, 3, 0), mode="reflect")),
    "edge": lambda: moved(lambda x: F.pad(x, (1, 2, 3, 0), mode="replicate")),
    "slices": lambda: moved(lambda x: x[:, 1:7:2, 1:, ::3]),
    "pixel shuffle": lambda: moved(lambda x: F.pixel_shuffle(x, 2)),
    "channel shuffle": lambda: moved(
        lambda x: x.reshape(2, 4, 2, 5, 6).transpose(1, 2).reshape(2, 8, 5, 6)),
    "expand": lambda: moved(lambda x: x[:, :, None].expand(3, 4, 5, 10) * 1.5, ROWS),
    "tile": lambda: moved(lambda x: x.repeat(2, 1, 3), ROWS),
    "split and join": lambda: moved(
        lambda x: torch.cat([part * part for part in x.split((2, 5, 3), 2)][::-1], 2), ROWS),
    "shapes": lambda: moved(lambda x: x.view(x.shape[0], -1).unsqueeze(1).squeeze(1).t(), ROWS),
    "permute": lambda: moved(lambda x: x.permute(0, 2, 3, 1).flatten(1)),
}


def run_engine(model, x, folder):
    """Names and arrays of what the engine makes of the exported model."""
    path = os.path.join(folder, "model.onnx")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(model, x, path, opset_version=14, training=torch.onnx.TrainingMode.TRAINING,
                          do_constant_folding=False)
    with open(os.path.join(folder, "input_0.pb"), "wb") as file:
        file.write(onnx.numpy_helper.from_array(x.detach().numpy()).SerializeToString())
    program = os.path.join(os.environ["QUERN_TOOLS"], "onnx_gradients")
    text = subprocess.run([program, path, folder], check=True, stdout=subprocess.PIPE,
                          text=True).stdout
    numbers = np.fromfile(os.path.join(folder, "numbers.bin"))
    rows = []
    for line in text.splitlines():
        name, *extents = line.split(" ")
        shape = [int(extent) for extent in extents]
        count = int(np.prod(shape, dtype=np.int64))
        rows.append((name, numbers[:count].reshape(shape)))
        numbers = numbers[count:]
    assert numbers.size == 0
    return rows


def difference(ours, theirs):
    assert ours.shape == theirs.shape, (ours.shape, theirs.shape)
    return float(np.linalg.norm(ours - theirs) / max(float(np.linalg.norm(theirs)), 1e-12))


def check(name, folder):
    """Number of failures; every parameter must have been compared."""
    model, shape = CASES[name]()
    x = torch.randn(shape, requires_grad=True)
    outputs = model(x)
    outputs = [outputs] if torch.is_tensor(outputs) else list(outputs)
    sum((y * y).mean() for y in outputs).backward()
    rows = run_engine(model, x, folder)
    wanted = {n: p.grad for n, p in model.named_parameters() if p.grad is not None}
    wanted["input.0"] = x.grad
    worst = max(difference(ours, y.detach().numpy())
                for (_, ours), y in zip(rows[:len(outputs)], outputs))
    gradients = dict(rows[len(outputs):])
    assert set(wanted) <= set(gradients), (name, sorted(set(wanted) - set(gradients)))
    worst = max([worst] + [difference(gradients[n], g.numpy()) for n, g in wanted.items()])
    print(f"{name}: {len(outputs)} outputs, {len(wanted)} gradients, largest difference {worst:.2g}")
    return worst > TOLERANCE


def main():
    torch.manual_seed(5)
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    failed = []
    for name in CASES:
        with tempfile.TemporaryDirectory() as folder:
            try:
                if check(name, folder):
                    failed.append(name)
            except (AssertionError, subprocess.CalledProcessError) as error:
                print(f"{name}: {error}")
                failed.append(name)
    print(f"{len(CASES)} layers, failed: {failed if failed else 'none'}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
