#!/usr/bin/python3
"""Compares DCGAN's training with PyTorch's from the same weights, images and noise.

In double: both losses of five steps, the whole gradient of the first, and all parameters and
running statistics after the fifth, to 1e-8 by norm. In float: the gradient's error against float64
is at most twice PyTorch's own."""

import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import networks  # noqa: E402 (found by the line before)

TOLERANCE = 1e-8
BATCH, NOISE, WIDTH, STEPS, RATE, MOMENTUM = 4, 100, 64, 5, 0.01, 0.9
SIZES = (BATCH, 0, 0, 0, 0, 0)
# The engine's names of the layers, in the order of the modules that have parameters.
LAYERS = {"generator": ("conv1", "norm1", "conv2", "norm2", "conv3", "norm3", "conv4"),
          "discriminator": ("conv1", "conv2", "norm2", "conv3", "norm3", "conv4")}


def generator():
    def up(inputs, outputs, stride, pad):
        return [nn.ConvTranspose2d(inputs, outputs, 4, stride, pad, bias=False),
                nn.BatchNorm2d(outputs), nn.ReLU()]
    return nn.Sequential(*up(NOISE, 4 * WIDTH, 1, 0), *up(4 * WIDTH, 2 * WIDTH, 2, 1),
                         *up(2 * WIDTH, WIDTH, 2, 1),
                         nn.ConvTranspose2d(WIDTH, 3, 4, 2, 1, bias=False), nn.Tanh())


def discriminator():
    def down(inputs, outputs):
        return nn.Conv2d(inputs, outputs, 4, 2, 1, bias=False)
    return nn.Sequential(down(3, WIDTH), nn.LeakyReLU(0.2),
                         down(WIDTH, 2 * WIDTH), nn.BatchNorm2d(2 * WIDTH), nn.LeakyReLU(0.2),
                         down(2 * WIDTH, 4 * WIDTH), nn.BatchNorm2d(4 * WIDTH), nn.LeakyReLU(0.2),
                         nn.Conv2d(4 * WIDTH, 1, 4, bias=False), nn.Flatten())


def collect(nets, of):
    """Name in the engine -> array in its layout, of what `of` takes from a parameter."""
    arrays = {}
    for part, net in nets.items():
        modules = [m for m in net if isinstance(m, (nn.Conv2d, nn.ConvTranspose2d, nn.BatchNorm2d))]
        for layer, module in zip(LAYERS[part], modules, strict=True):
            is_norm = isinstance(module, nn.BatchNorm2d)
            name = f"{part}.{layer}."
            weight = of(module.weight)
            arrays[name + ("scale" if is_norm else "weight")] = \
                weight if is_norm else weight.permute(0, 2, 3, 1)
            if is_norm:
                arrays[name + "shift"] = of(module.bias)
    return {name: array.detach().double().numpy().copy() for name, array in arrays.items()}


def statistics(nets):
    arrays = {}
    for part, net in nets.items():
        norms = [m for m in net if isinstance(m, nn.BatchNorm2d)]
        names = [layer for layer in LAYERS[part] if layer.startswith("norm")]
        for layer, module in zip(names, norms, strict=True):
            arrays[f"{part}.{layer}.running_mean"] = module.running_mean.double().numpy().copy()
            arrays[f"{part}.{layer}.running_variance"] = module.running_var.double().numpy().copy()
    return arrays


def torch_run(nets, real, noise):
    """The discriminator's loss and update, then the generator's: the reference's order."""
    make, judge = nets["generator"], nets["discriminator"]
    updates = {part: torch.optim.SGD(net.parameters(), RATE, MOMENTUM)
               for part, net in nets.items()}
    ones, zeros = torch.ones(BATCH, 1, dtype=real.dtype), torch.zeros(BATCH, 1, dtype=real.dtype)
    losses, gradients = [], {}
    for step in range(STEPS):
        updates["discriminator"].zero_grad()
        fake = make(noise)
        loss = F.binary_cross_entropy_with_logits(judge(real), ones) + \
            F.binary_cross_entropy_with_logits(judge(fake.detach()), zeros)
        loss.backward()
        if step == 0:
            gradients |= collect({"discriminator": judge}, lambda p: p.grad)
        updates["discriminator"].step()
        updates["generator"].zero_grad()
        taught = F.binary_cross_entropy_with_logits(judge(fake), ones)
        taught.backward()
        if step == 0:
            gradients |= collect({"generator": make}, lambda p: p.grad)
        updates["generator"].step()
        losses.append((loss.item(), taught.item()))
    return np.array(losses), gradients, collect(nets, lambda p: p), statistics(nets)


def prepare(seed, dtype):
    """Weights and a batch: float32 values, in the type asked for."""
    torch.manual_seed(seed)
    nets = {"generator": generator().to(dtype), "discriminator": discriminator().to(dtype)}
    real = torch.rand(BATCH, 3, 32, 32) * 2 - 1
    return nets, real.to(dtype), torch.randn(BATCH, NOISE, 1, 1).to(dtype)


def engine_run(nets, real, noise, dtype):
    inputs = {"real": real.permute(0, 2, 3, 1).double().numpy(),
              "noise": noise.flatten(1).double().numpy()}
    return networks.run_all("dcgan", SIZES, collect(nets, lambda p: p), inputs, dtype, RATE, STEPS,
                            phases=2)


def check_double():
    nets, real, noise = prepare(1, torch.float64)
    ours = engine_run(nets, real, noise, "f64")
    theirs = torch_run(nets, real, noise)
    errors = [float(np.abs(ours[0] - theirs[0]).max() / np.abs(theirs[0]).max())]
    errors += [networks.distance(a, b) for a, b in zip(ours[1:], theirs[1:], strict=True)]
    count = sum(array.size for array in theirs[2].values())
    print(f"{count} parameters; relative errors in double: losses {errors[0]:.2g}, "
          f"gradients {errors[1]:.2g}, parameters {errors[2]:.2g}, statistics {errors[3]:.2g}")
    return sum(not error <= TOLERANCE for error in errors)


def check_float():
    truth = torch_run(*prepare(2, torch.float64))[1]
    nets, real, noise = prepare(2, torch.float32)
    ours = networks.distance(engine_run(nets, real, noise, "f32")[1], truth)
    theirs = networks.distance(torch_run(nets, real, noise)[1], truth)
    print(f"gradient error in float: {ours:.2g}, PyTorch's {theirs:.2g}")
    return int(not ours <= 2 * theirs)


if __name__ == "__main__":
    torch.set_num_threads(1)
    sys.exit(1 if check_double() + check_float() else 0)
