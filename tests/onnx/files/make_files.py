#!/usr/bin/env python3
"""Makes the files of this folder anew, with what PyTorch makes of them: PyTorch's current exporter (dynamo) wrote them.

usage: make_files.py        (with torch 2.15.0, onnx and onnxscript from PyPI; writes beside itself)

NAME.onnx is the network, NAME.json its input, its output in inference by PyTorch, and the losses of three steps of plain SGD with
a rate of 0.05 on the mean of the output's squares, in double."""
import copy
import json
import os

import onnx
import torch
import torch.nn.functional as F
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))


class Norms(nn.Module):
    """Convolutions with batch norm, group norm and a squeeze, as many networks of images have them."""

    def __init__(self):
        super().__init__()
        self.a, self.n = nn.Conv2d(3, 8, 3, 2, 1, bias=False), nn.BatchNorm2d(8)
        self.b, self.g = nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.GroupNorm(4, 8)
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = F.silu(self.n(self.a(x)))
        x = x + F.gelu(self.g(self.b(x)), approximate="tanh")
        return self.head(x.mean((2, 3)))


class Words(nn.Module):
    """Attention by PyTorch's function, over words that share their table with a mask made of a triangle."""

    def __init__(self):
        super().__init__()
        self.table, self.places = nn.Embedding(20, 8), nn.Parameter(0.1 * torch.randn(6, 8))
        self.query, self.out, self.norm = nn.Linear(8, 24), nn.Linear(8, 8), nn.LayerNorm(8)
        self.head = nn.Linear(8, 3)

    def forward(self, x):
        x = self.table(x) + self.places
        q, k, v = self.query(self.norm(x)).reshape(-1, 6, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(-1, 6, 8))
        return self.head(torch.cumsum(x, 1)[:, -1])


class Signal(nn.Module):
    """Spectra over short times and of the whole, and batch norm without running statistics."""

    def __init__(self):
        super().__init__()
        self.register_buffer("window", torch.hann_window(16))
        self.a, self.n = nn.Conv1d(9, 6, 3), nn.BatchNorm1d(6, track_running_stats=False)
        self.head = nn.Linear(6 + 33, 5)

    def forward(self, x):
        power = torch.stft(x, 16, 8, window=self.window.to(x.dtype), center=False, return_complex=True).abs().square()
        whole = torch.view_as_real(torch.fft.rfft(x)).square().sum(-1)
        return self.head(torch.cat([F.relu(self.n(self.a(torch.log1p(power)))).mean(-1), torch.log1p(whole)], 1))


def leave_out_traces(path):
    """Where the code of each node lies on the machine that wrote the file."""
    model = onnx.load(path)
    for node in model.graph.node:
        kept = [pair for pair in node.metadata_props if "stack_trace" not in pair.key]
        del node.metadata_props[:]
        node.metadata_props.extend(kept)
    onnx.save(model, path)


def write(name, network, x):
    path = os.path.join(HERE, name)
    double, trained = copy.deepcopy(network).double(), copy.deepcopy(network).double().train()
    given = x.double() if x.is_floating_point() else x
    optimizer, losses = torch.optim.SGD(trained.parameters(), lr=0.05), []
    for _ in range(3):
        optimizer.zero_grad()
        loss = trained(given).square().mean()
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    torch.onnx.export(network.train(), (x,), path + ".onnx", dynamo=True, optimize=False, external_data=False, verbose=False,
                      input_names=["x"], output_names=["y"],
                      dynamic_shapes=({0: torch.export.Dim("batch", min=1, max=64)},))
    leave_out_traces(path + ".onnx")
    with open(path + ".json", "w", encoding="utf-8") as file:
        json.dump({"shape": list(x.shape), "input": given.flatten().tolist(), "losses": losses,
                   "output": double.eval()(given).flatten().tolist()}, file)


def main():
    torch.manual_seed(3)
    write("norms", Norms(), torch.randn(3, 3, 6, 6))
    write("words", Words(), torch.randint(0, 20, (3, 6)))
    write("signal", Signal(), torch.randn(3, 64))


if __name__ == "__main__":
    main()
