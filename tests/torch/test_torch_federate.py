#!/usr/bin/python3
"""Compares rounds of federated training with the same in PyTorch, in double: every client takes part, holds the samples
of one class, and takes steps on all of them at once, so that neither the choice of clients nor the order of samples
matters. Weights after two rounds of each rule of the server agree to 1e-5 of what changed."""
import json
import os
import struct
import sys
import unittest

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import quern  # noqa: E402 (found by the line before)

CLASSES, EACH, ROUNDS, STEPS = 5, 12, 2, 3
RATE, TOLERANCE = 0.1, 1e-5


def weights(path):
    """Parameters of a checkpoint, and what images become: (x - mean) / deviation."""
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        header, data = json.loads(file.read(length)), file.read()
    pairs = header.pop("__metadata__")
    found = {}
    for name, entry in header.items():
        if name.startswith("fc"):
            part = np.frombuffer(data[slice(*entry["data_offsets"])], np.float32)
            found[name] = torch.from_numpy(part.astype(np.float64)).reshape(entry["shape"])
    return found, [json.loads(pairs["preparation." + key])[0] for key in ("mean", "std_dev")]


def logits(w, x):
    for layer in ("fc1", "fc2"):
        x = F.relu(F.linear(x, w[layer + ".weight"], w[layer + ".bias"]))
    return F.linear(x, w["fc3.weight"], w["fc3.bias"])


def train(server, x, y, momentum, proximal):
    """A client's change."""
    w = {name: t.clone().requires_grad_() for name, t in server.items()}
    moving = {name: torch.zeros_like(t) for name, t in server.items()}
    for _ in range(STEPS):
        gradients = torch.autograd.grad(F.cross_entropy(logits(w, x), y), list(w.values()))
        for name, gradient in zip(w, gradients):
            moving[name] = momentum * moving[name] + gradient
            step = RATE * moving[name] + RATE * proximal * (w[name].detach() - server[name])
            w[name] = (w[name].detach() - step).requires_grad_()
    return {name: w[name].detach() - server[name] for name in w}


def change_server(rule, state, change):
    """The server's step, of rates 1 and, with Adam, 0.01."""
    m, v = state.get("m", 0), state.get("v", 0)
    if rule == "average":
        return change
    state["m"] = 0.9 * m + (0.1 if rule == "adam" else 1) * change
    if rule == "momentum":
        return state["m"]
    state["v"] = 0.99 * v + 0.01 * change ** 2
    return 0.01 * state["m"] / (state["v"].sqrt() + 1e-3)


def write_idx(path, array):
    with open(path, "wb") as file:
        file.write(struct.pack(f">HBB{array.ndim}I", 0, 8, array.ndim, *array.shape) + array.tobytes())


class Federate(quern.Case):
    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(3)
        self.y = np.arange(CLASSES * EACH) % CLASSES
        self.x = draw.integers(0, 150, size=(len(self.y), 28, 28))
        self.x[np.arange(len(self.x)), self.y * 5] += 100
        for name in ("train", "t10k"):
            write_idx(self.folder / f"{name}-images-idx3-ubyte", self.x.astype(np.uint8))
            write_idx(self.folder / f"{name}-labels-idx1-ubyte", self.y.astype(np.uint8))

    def simulate(self, rounds, *more):
        self.run_quern("federate", "simulate", "--model", "mlp", "--data", "idx:.", "--clients", CLASSES,
                       "--per-round", CLASSES, "--partition", "classes:1", "--batch", EACH, "--local-epochs", STEPS,
                       "--rounds", rounds, "--save", "w", *more)
        return weights(self.folder / "w")

    def check(self, rule, momentum=0.0, proximal=0.0):
        begin, (mean, deviation) = self.simulate(1, "--lr", 0)
        ours, _ = self.simulate(ROUNDS, "--lr", RATE, "--server", rule, "--momentum", momentum, "--proximal", proximal)
        x = torch.from_numpy((self.x.reshape(len(self.x), -1) / 255 - mean) / deviation)
        y = torch.from_numpy(self.y)
        server, states = dict(begin), {name: {} for name in begin}
        for _ in range(ROUNDS):
            changes = [train(server, x[y == c], y[y == c], momentum, proximal) for c in range(CLASSES)]
            for name in server:
                change = sum(client[name] for client in changes) / CLASSES
                server[name] = server[name] + change_server(rule, states[name], change)
        for name, theirs in server.items():
            error = (ours[name] - theirs).norm() / (theirs - begin[name]).norm()
            self.assertLess(error, TOLERANCE, name)

    def test_average(self):
        self.check("average")

    def test_local_momentum(self):
        self.check("average", momentum=0.9)

    def test_proximal(self):
        self.check("average", proximal=2.0)

    def test_server_momentum(self):
        self.check("momentum")

    def test_server_adam(self):
        self.check("adam")


if __name__ == "__main__":
    unittest.main()
