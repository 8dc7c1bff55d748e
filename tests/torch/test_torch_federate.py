#!/usr/bin/python3
"""Compares rounds of federated training with the same in PyTorch, in double: every client takes part, holds the samples
of one class, and takes steps on all of them at once, so that neither the choice of clients nor the order of samples
matters. Weights after two rounds of each rule of the server agree to 1e-5 of what changed; with the largest changes
alone, rounded to bytes, to 1e-3; with personal layers and with clipped updates they do too, and the noise of privacy
is what is left then."""
import json
import math
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
    state["m"] = 0.9 * m + (1 if rule == "momentum" else 0.1) * change
    if rule == "momentum":
        return state["m"]
    square = change ** 2
    state["v"] = 0.99 * v + 0.01 * square if rule == "adam" else v - 0.01 * square * torch.sign(v - square)
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
                       "--per-round", CLASSES, "--partition", "shards:1", "--batch", EACH, "--local-epochs", STEPS,
                       "--rounds", rounds, "--save", "w", *more)
        return weights(self.folder / "w")

    def check(self, rule, momentum=0.0, proximal=0.0, more=(), send=lambda client, change: change, personal=(),
              tolerance=TOLERANCE):
        """Compares two rounds; send: what the server takes a client's change for; personal: names of tensors that stay
        with the client. Returns what differs, as one array."""
        begin, (mean, deviation) = self.simulate(1, "--lr", 0)
        ours, _ = self.simulate(ROUNDS, "--lr", RATE, "--server", rule, "--momentum", momentum, "--proximal", proximal,
                                *more)
        x = torch.from_numpy((self.x.reshape(len(self.x), -1) / 255 - mean) / deviation)
        y = torch.from_numpy(self.y)
        server, states = dict(begin), {name: {} for name in begin}
        kept = [{name: begin[name] for name in personal} for _ in range(CLASSES)]
        for _ in range(ROUNDS):
            sent = []
            for c in range(CLASSES):
                change = train({**server, **kept[c]}, x[y == c], y[y == c], momentum, proximal)
                kept[c] = {name: kept[c][name] + change.pop(name) for name in personal}
                sent.append(send(c, change))
            for name in sent[0]:
                change = sum(client[name] for client in sent) / CLASSES
                server[name] = server[name] + change_server(rule, states[name], change)
        for name in sorted(set(server) - set(personal)):
            error = (ours[name] - server[name]).norm() / (server[name] - begin[name]).norm()
            self.assertLess(error, tolerance, name)
        for name in personal:
            self.assertTrue(torch.equal(ours[name], begin[name]), name)
        return torch.cat([(ours[name] - server[name]).flatten() for name in server])

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

    def test_server_yogi(self):
        self.check("yogi")

    def test_personal(self):
        self.check("average", momentum=0.9, more=("--personal", "fc3.*"), personal=("fc3.weight", "fc3.bias"))

    def test_top(self):
        share, rests = 0.1, [0] * CLASSES

        def send(client, change):
            flat = torch.cat([t.flatten() for t in change.values()]) + rests[client]
            least = flat.abs().sort(descending=True).values[math.ceil(share * len(flat)) - 1]
            step = 2.0 ** math.ceil(math.log2(flat.abs().max() / 127))
            decoded = torch.where(flat.abs() >= least, (flat / step).round() * step, torch.zeros_like(flat))
            rests[client] = flat - decoded
            parts = decoded.split([t.numel() for t in change.values()])
            return {name: part.reshape(t.shape) for (name, t), part in zip(change.items(), parts)}

        self.check("average", more=("--updates", f"top:{share}"), send=send, tolerance=1e-3)

    def test_private(self):
        clip, noise = 0.05, 0.001

        def send(client, change):
            norm = math.sqrt(sum(float((t ** 2).sum()) for t in change.values()))
            self.assertGreater(norm, clip)
            return {name: t * (clip / norm) for name, t in change.items()}

        left = self.check("average", more=("--dp-clip", clip, "--dp-noise", noise), send=send, tolerance=0.5)
        expected = math.sqrt(ROUNDS) * clip * noise / CLASSES
        self.assertAlmostEqual(float(left.std()) / expected, 1, delta=0.02)
        self.assertAlmostEqual(float((left ** 4).mean()) / expected ** 4, 3, delta=0.3)  # as of a normal law
        done = self.run_quern("federate", "simulate", "--model", "mlp", "--data", "idx:.", "--clients", CLASSES,
                                "--per-round", 2, "--rounds", 3, "--dp-clip", 1, "--dp-delta", 0.01, "--json")
        rounds = done.of("round")
        self.assertEqual([(r["delta"], r["privacy_of"]) for r in rounds], [(0.01, "clients")] * 3)
        self.fails(2, "federate", "simulate", "--data", "idx:.", "--dp-clip", 0, says=("dp-clip",))
        self.assertTrue(0 < rounds[0]["epsilon"] < rounds[1]["epsilon"] < rounds[2]["epsilon"])


if __name__ == "__main__":
    unittest.main()
