#!/usr/bin/python3
"""Compares fine-tuning with PyTorch's, in double: requires_grad and eval() there, patterns here. Where a part of a
weight trains, its gradient is masked there, as the publication's own code does it.

From the same weights on the same batch, dropout off: the gradients of all that trains, of the first
step, and the losses of three steps of SGD with momentum, to 1e-8. A norm whose scale does not train is
in eval() there. Adapters are modules of W x + alpha / rank * B A x there, with both matrices drawn, so
that neither gradient is zero."""

import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "models"))
import reference  # noqa: E402 (found by the line before)

BATCH, RATE, MOMENTUM, STEPS, TOLERANCE = 4, 0.01, 0.9, 3, 1e-8


class Adapted(nn.Module):
    """A linear layer or 1x1 convolution with an adapter beside it."""

    def __init__(self, base, rank, alpha):
        super().__init__()
        self.base, self.factor = base, alpha / rank
        shape = base.weight.shape
        self.a = nn.Parameter(torch.randn(rank, *shape[1:]) * 0.1)
        self.b = nn.Parameter(torch.randn(shape[0], rank, *shape[2:]) * 0.1)

    def forward(self, x):
        if isinstance(self.base, nn.Linear):
            beside = x @ self.a.T @ self.b.T
        else:
            beside = F.conv2d(F.conv2d(x, self.a, stride=self.base.stride), self.b)
        return self.base(x) + self.factor * beside


def adapt(module, wanted, rank, alpha):
    """Puts adapters beside the layers for which wanted(layer) is true."""
    for name, child in module.named_children():
        if wanted(child):
            setattr(module, name, Adapted(child, rank, alpha))
        else:
            adapt(child, wanted, rank, alpha)


def in_order(net):
    """Parameters in the engine's order, a layer's before its adapter's, each with its layout."""
    pairs = list(zip(net.parameters(), reference.to_engine(net)))
    layout = {id(p): layout for p, layout in pairs}
    ordered = []

    def visit(module):
        children = list(module.children())
        if isinstance(module, Adapted):
            children, own = [], [*module.base.parameters(recurse=False), module.a, module.b]
        else:
            own = list(module.parameters(recurse=False))
        ordered.extend(own)
        for child in children:
            visit(child)

    visit(net)
    return [(p, layout[id(p)]) for p in ordered]


def is_norm(module):
    return isinstance(module, nn.BatchNorm2d)


def is_pointwise(module):
    return isinstance(module, nn.Linear) or (
        isinstance(module, nn.Conv2d) and module.kernel_size == (1, 1) and module.groups == 1)


def set_norms(net):
    for module in net.modules():
        if is_norm(module) and not module.weight.requires_grad:
            module.eval()


def masks_of(net, parts, by):
    """{parameter: mask} of what is trained of weights, parts being of modules: of input channels, or of a depthwise
    convolution's."""
    masks = {}
    for module in net.modules():
        part = parts(net, module)
        if not part or part == 1:
            continue
        w = module.weight.detach()
        axis = 0 if w.dim() == 4 and w.shape[1] == 1 and w.shape[0] > 1 else 1
        image = getattr(module, "image", None)
        norms = reference_rows(w, image).square().flatten(1) if axis == 1 else w.square().flatten(1)
        counts = norms.sum(1)
        order = torch.argsort({"largest": -counts, "smallest": counts,
                               "first": torch.arange(len(counts))}[by], stable=True)
        chosen = torch.zeros(len(counts), dtype=torch.bool)
        chosen[order[:max(1, int(len(counts) * part))]] = True
        masks[module.weight] = (axis, chosen, image)
    return masks


def reference_rows(w, image):
    """A weight (K, C, ...) as (C, K, ...), with columns of a linear layer behind an image as the engine has them."""
    if image:
        w = w.reshape(-1, *image).permute(0, 2, 3, 1).flatten(1)
    return w.transpose(0, 1)


def mask(gradient, axis, chosen, image):
    if image:
        chosen = chosen.reshape(*image[1:], image[0]).permute(2, 0, 1).flatten()
    shape = [1] * gradient.dim()
    shape[axis] = -1
    return gradient * chosen.reshape(shape)


def train(net, x, y, rates, masks):
    """Losses, and the gradients of the first step, of what trains, in the engine's layout."""
    trained = [(p, layout) for p, layout in in_order(net) if p.requires_grad]
    update = torch.optim.SGD([{"params": [p], "lr": RATE * rates(p)} for p, _ in trained], RATE,
                             MOMENTUM)
    losses, gradient = [], None
    for _ in range(STEPS):
        update.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        if gradient is None:
            gradient = torch.cat([cut(layout(p.grad), masks.get(p)).reshape(-1) for p, layout in trained]).numpy()
        for p, masked in masks.items():
            p.grad = mask(p.grad, *masked)
        update.step()
        losses.append(loss.item())
    return np.array(losses), gradient


def cut(gradient, masked):
    """What is trained of a gradient in the engine's layout, whose last axis is the input's channels."""
    if not masked:
        return gradient
    axis, chosen, _image = masked
    return gradient[chosen] if axis == 0 else gradient[..., chosen]


class Tuning(unittest.TestCase):
    def compare(self, name, choose, *tuning, change=None, rates=lambda p: 1, parts=lambda net, module: None,
                by="largest"):
        """choose(module, kind): whether a module's parameter trains; change(net): adapters; parts(net, module): the
        part of its weight that does."""
        torch.manual_seed(1)
        shape = reference.forms(name)[0][0]
        net = reference.build(name, shape, 10, dropout=False).double()
        if change:
            change(net)
            net.double()
        for module in net.modules():
            for kind, parameter in module.named_parameters(recurse=False):
                parameter.requires_grad_(bool(choose(net, module, kind)))
        set_norms(net)
        x = torch.randn(BATCH, shape[2], *shape[:2]).double()
        y = torch.randint(10, (BATCH,))
        with tempfile.TemporaryDirectory() as folder:
            source, target = (os.path.join(folder, f) for f in ("in.bin", "out.bin"))
            with open(source, "wb") as file, torch.no_grad():
                for parameter, layout in in_order(net):
                    layout(parameter).contiguous().numpy().tofile(file)
                x.permute(0, 2, 3, 1).contiguous().numpy().tofile(file)
                y.double().numpy().tofile(file)
            subprocess.run([os.path.join(os.environ["QUERN_TOOLS"], "dump_model"), name,
                            "x".join(map(str, shape)), "10", str(BATCH), "f64", str(RATE),
                            str(STEPS), source, target, *tuning], check=True)
            ours = np.fromfile(target)
        losses, gradient = train(net, x, y, rates, masks_of(net, parts, by))
        self.assertEqual(len(ours), STEPS + len(gradient))
        error = np.linalg.norm(ours[STEPS:] - gradient) / np.linalg.norm(gradient)
        self.assertLess(error, TOLERANCE)
        self.assertLess(np.max(np.abs(ours[:STEPS] / losses - 1)), TOLERANCE)
        print(f"{name} {' '.join(tuning)}: gradient of {len(gradient)} numbers {error:.1e}")

    def test_head(self):
        for name in ("lenet5", "squeezenet"):
            last = {}
            self.compare(name, lambda net, module, _kind: module is last.setdefault(
                id(net), [m for m in net.modules() if isinstance(m, (nn.Linear, nn.Conv2d))][-1]),
                "only=head")

    def test_norms(self):
        self.compare("mobilenet-v2", lambda _net, module, _kind: is_norm(module), "only=norm")

    def test_biases(self):
        """Shifts train while scales do not: the norms use their running statistics."""
        for name in ("mobilenet-v2", "lenet5"):
            self.compare(name, lambda _net, _module, kind: kind == "bias", "only=bias")

    def test_weights_alone(self):
        """Convolutions stay as they are between norms that train."""
        self.compare("mobilenet-v1", lambda _net, module, _kind: not isinstance(module, nn.Conv2d),
                     "freeze=*conv.weight")

    def test_front(self):
        first = {}

        def behind(net, module, _kind):
            front = first.setdefault(id(net), list(net.modules()))
            norm = next(i for i, m in enumerate(front) if is_norm(m))
            return next(i for i, m in enumerate(front) if m is module) > norm

        self.compare("mobilenet-v2", behind, "freeze=stem.*")

    def test_rates(self):
        sizes = {}

        def keep(net, _module, _kind):
            sizes.update((id(p), 0.25 if p.dim() == 4 else 1) for p in net.parameters())
            return True

        self.compare("lenet5", keep, "rates=conv?.weight=x0.25", rates=lambda p: sizes[id(p)])

    def sparse(self, name, update, weights, biases, parts, by="largest"):
        """Layers by their place from the last on, norms with the layer before them: 0 is the last."""
        found = {}

        def places(net):
            if id(net) not in found:
                place, found[id(net)] = -1, {}
                for module in reversed(list(net.modules())):
                    is_layer = isinstance(module, (nn.Linear, nn.Conv2d))
                    place += is_layer
                    found[id(net)][module] = place if is_layer else place + 1
            return found[id(net)]

        def choose(net, module, kind):
            place = places(net)[module]
            if is_norm(module) or kind == "bias":
                return place < biases
            return place < weights or place in parts

        self.compare(name, choose, f"update={update}", by=by,
                     parts=lambda net, module: parts.get(places(net)[module])
                     if isinstance(module, (nn.Linear, nn.Conv2d)) else None)

    def test_sparse_update(self):
        self.sparse("lenet5", "weights=1", 1, 1, {})
        self.sparse("lenet5", "weights=1,biases=3,conv2=0.5", 1, 3, {3: 0.5})
        self.sparse("lenet-relu", "conv2=0.3,fc1=0.1,channels=smallest", 0, 3, {1: 0.1, 2: 0.3}, "smallest")
        self.sparse("mobilenet-v2", "biases=9,#49-50=0.25,#51=1,channels=first", 0, 9, {2: 1, 3: 0.25, 4: 0.25}, "first")

    def test_adapters(self):
        for name in ("mlp", "mobilenet-v2"):
            self.compare(name, lambda _net, module, _kind: isinstance(module, Adapted),
                         "rank=3", "alpha=6", "layers=*",
                         change=lambda net: adapt(net, is_pointwise, 3, 6.0))


if __name__ == "__main__":
    unittest.main()
