#!/usr/bin/python3
"""Compares BERT's training with PyTorch's from the same weights on the same batch, in double, dropout
off: loss, whole gradient and five steps to 1e-8, and the number of parameters.

Without arguments bert-tiny runs, also on sequences with padding; --base takes bert-base, one short
sequence of it. Float is compared as in test_torch_models.py: the gradient's error against float64
is at most twice PyTorch's own."""

import argparse
import math
import os
import sys
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

import networks

TOLERANCE = 1e-8
RATE, MOMENTUM, STEPS = 0.01, 0.9, 5


class Layer(nn.Module):
    """Self-attention and two linear layers, each with layer norm after its sum."""

    def __init__(self, hidden, heads, wide, dropout):
        super().__init__()
        self.heads = heads
        self.qkv, self.context = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.attention_norm = nn.LayerNorm(hidden, eps=1e-12)
        self.wide, self.output = nn.Linear(hidden, wide), nn.Linear(wide, hidden)
        self.output_norm = nn.LayerNorm(hidden, eps=1e-12)
        self.drop = nn.Dropout(dropout)

    def forward(self, x, mask):
        n, length, hidden = x.shape
        query, key, value = (part.view(n, length, self.heads, -1).transpose(1, 2)
                             for part in self.qkv(x).split(hidden, 2))
        scores = query @ key.transpose(2, 3) / math.sqrt(hidden // self.heads)
        if mask is not None:
            scores = scores.masked_fill(~mask[:, None, None, :], -math.inf)
        weights = self.drop(F.softmax(scores, -1))
        y = (weights @ value).transpose(1, 2).reshape(x.shape)
        x = self.attention_norm(x + self.drop(self.context(y)))
        return self.output_norm(x + self.drop(self.output(F.gelu(self.wide(x)))))


class Bert(nn.Module):
    """The encoder with a head for spans: logits (N, T, 2)."""

    def __init__(self, vocabulary, hidden, layers, heads, wide, dropout=0):
        super().__init__()
        self.tokens = nn.Embedding(vocabulary, hidden)
        self.positions, self.types = nn.Embedding(512, hidden), nn.Embedding(2, hidden)
        self.norm = nn.LayerNorm(hidden, eps=1e-12)
        self.layers = nn.ModuleList(Layer(hidden, heads, wide, dropout) for _ in range(layers))
        self.span = nn.Linear(hidden, 2)
        self.drop = nn.Dropout(dropout)

    def forward(self, tokens, types, lengths):
        mask = None
        if lengths is not None:
            mask = torch.arange(tokens.shape[1])[None] < lengths[:, None]
        x = self.tokens(tokens) + self.positions.weight[:tokens.shape[1]] + self.types(types)
        x = self.drop(self.norm(x))
        for layer in self.layers:
            x = layer(x, mask)
        return self.span(x)


def engine_name(name):
    """The engine's name of a parameter of Bert."""
    parts = name.split(".")
    kind = {"weight": "scale", "bias": "shift"}[parts[-1]] if "norm" in name else parts[-1]
    if parts[0] != "layers":
        return f"{parts[0]}.{kind}"
    inside = {"qkv": "attention.qkv", "context": "attention.output", "wide": "feed_forward.wide",
              "output": "feed_forward.output"}.get(parts[2], parts[2])
    return f"layer{int(parts[1]) + 1}.{inside}.{kind}"


def arrays(net, of):
    return {engine_name(name): of(p).detach().double().numpy().copy()
            for name, p in net.named_parameters()}


def torch_run(net, inputs, steps):
    """The loss of every step and the gradients of the first."""
    start, end = inputs["start.label"], inputs["end.label"]
    update = torch.optim.SGD(net.parameters(), RATE, MOMENTUM)
    losses, gradients = [], None
    for _ in range(steps):
        update.zero_grad()
        logits = net(inputs["token_numbers"], inputs["type_numbers"], inputs.get("lengths"))
        loss = (F.cross_entropy(logits[..., 0], start) + F.cross_entropy(logits[..., 1], end)) / 2
        loss.backward()
        gradients = arrays(net, lambda p: p.grad) if gradients is None else gradients
        update.step()
        losses.append(loss.item())
    return np.array(losses)[:, None], gradients


def make_inputs(vocabulary, batch, length, padded):
    inputs = {"token_numbers": torch.randint(vocabulary, (batch, length)),
              "type_numbers": (torch.arange(length) >= length // 2).long().repeat(batch, 1),
              "start.label": torch.randint(length, (batch,)),
              "end.label": torch.randint(length, (batch,))}
    if padded:
        inputs["lengths"] = torch.randint(length // 2, length, (batch,))
        inputs["start.label"] = inputs["start.label"] % inputs["lengths"]
        inputs["end.label"] = inputs["end.label"] % inputs["lengths"]
    return inputs


def compare(model, extents, n_parameters, batch, length, padded):
    """Whether one form holds."""
    torch.manual_seed(3)
    begin = time.monotonic()
    net = Bert(*extents)
    state = {name: value.clone() for name, value in net.state_dict().items()}
    inputs = make_inputs(extents[0], batch, length, padded)
    given = {name: value.numpy() for name, value in inputs.items()}
    weights, sizes = arrays(net, lambda p: p), (batch, length, 0, 0, 0, int(padded))
    counted = sum(int(np.prod(s)) for s in networks.describe(model, sizes)[0].values())
    losses, truth = torch_run(net.double(), inputs, STEPS)
    ours, gradients = networks.run(model, sizes, weights, given, "f64", RATE, STEPS)
    loss, double = np.max(np.abs(ours / losses - 1)), networks.distance(gradients, truth)
    net.float().load_state_dict(state)
    _, theirs = torch_run(net, inputs, 1)
    _, single = networks.run(model, sizes, weights, given, "f32", RATE, 1)
    errors = [networks.distance(g, truth) for g in (single, theirs)]
    is_well = (loss <= TOLERANCE and double <= TOLERANCE and errors[0] <= 2 * errors[1]
               and counted == n_parameters)
    print(f"{model} batch {batch} length {length}{' padded' if padded else ''}: losses {loss:.1e}, "
          f"gradient {double:.1e}; in float {errors[0]:.2e}, PyTorch's {errors[1]:.2e}; {counted} "
          f"parameters{'' if is_well else ' FAILED'} ({time.monotonic() - begin:.0f} s)",
          flush=True)
    return is_well


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--base", action="store_true")
    options = parser.parse_args(arguments)
    torch.set_num_threads(2)
    if options.base:
        forms = [("bert-base", (30522, 768, 12, 12, 3072), 108893186, 1, 16, False)]
    else:
        tiny = ("bert-tiny", (8192, 128, 2, 2, 512), 1511426)
        forms = [(*tiny, 3, 64, False), (*tiny, 4, 24, True)]
    failed = sum(not compare(*form) for form in forms)
    print(f"{len(forms)} forms compared with PyTorch, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
