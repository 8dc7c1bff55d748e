#!/usr/bin/python3
"""Compares the Q networks' training with PyTorch's from the same weights, states and targets.

In double: the losses of five steps and the whole gradient of the first, to 1e-8 by norm. In float:
the gradient's error against float64 is at most twice PyTorch's own on each of three batches, or, where
a number beside 0 comes out on the other side of a ReLU, on most of them."""

import os
import sys

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import networks  # noqa: E402 (found by the line before)

TOLERANCE = 1e-8
BATCH, STEPS, BATCHES, RATE, MOMENTUM = 4, 5, 3, 0.01, 0.9


def frames(actions=18):
    """The network of Mnih et al. 2015 on four frames of 84x84."""
    return nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
                         nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(),
                         nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, actions))


def numbers():
    return nn.Sequential(nn.Linear(4, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(),
                         nn.Linear(128, 2))


def named(net, of):
    """Name in the engine -> array in its layout: channels last, also where a map is flattened."""
    arrays, n_of = {}, {"conv": 0, "fc": 0}
    for module in net:
        if not isinstance(module, (nn.Conv2d, nn.Linear)):
            continue
        kind = "conv" if isinstance(module, nn.Conv2d) else "fc"
        n_of[kind] += 1
        weight = of(module.weight)
        if kind == "conv":
            weight = weight.permute(0, 2, 3, 1)
        elif weight.shape[1] == 3136:
            weight = weight.reshape(-1, 64, 7, 7).permute(0, 2, 3, 1).reshape(-1, 3136)
        arrays[f"{kind}{n_of[kind]}.weight"] = weight
        arrays[f"{kind}{n_of[kind]}.bias"] = of(module.bias)
    return {name: array.detach().double().numpy().copy() for name, array in arrays.items()}


def torch_run(net, state, action, target, steps):
    update = torch.optim.SGD(net.parameters(), RATE, MOMENTUM)
    losses, gradient = [], None
    for _ in range(steps):
        update.zero_grad()
        loss = F.smooth_l1_loss(net(state).gather(1, action[:, None])[:, 0], target)
        loss.backward()
        gradient = gradient or named(net, lambda p: p.grad)
        update.step()
        losses.append(loss.item())
    return np.array(losses), gradient


def make_batch(is_frames, actions):
    state = torch.rand(BATCH, 4, 84, 84) if is_frames else torch.randn(BATCH, 4)
    return state.double(), torch.randint(actions, (BATCH,)), 2 * torch.randn(BATCH).double()


def compare(make, is_frames, actions):
    sizes = (BATCH, 0, 0, 0, actions, 0 if is_frames else 1)
    worst, n_within = 0.0, 0
    for _ in range(BATCHES):
        net = make().double()
        weights = {name: tensor.clone() for name, tensor in net.state_dict().items()}
        state, action, target = make_batch(is_frames, actions)
        parameters = named(net, lambda p: p)
        inputs = {"state": state.permute(0, 2, 3, 1).numpy() if is_frames else state.numpy(),
                  "action": action.numpy(), "target": target.numpy()}
        losses, gradient = torch_run(net, state, action, target, STEPS)
        ours, our_gradient = networks.run("dqn", sizes, parameters, inputs, "f64", RATE, STEPS)
        worst = max(worst, np.max(np.abs(ours[:, 0] / losses - 1)),
                    networks.distance(our_gradient, gradient))
        net.load_state_dict(weights)
        _, theirs = torch_run(net.float(), state.float(), action, target.float(), 1)
        _, in_float = networks.run("dqn", sizes, parameters, inputs, "f32", RATE, 1)
        n_within += networks.distance(in_float, gradient) <= \
            2 * networks.distance(theirs, gradient)
    print(f"{'frames' if is_frames else 'numbers'}: in double {worst:.1e}, in float at most twice "
          f"PyTorch's error on {n_within} of {BATCHES} batches")
    return worst <= TOLERANCE and n_within > BATCHES // 2


def main():
    torch.manual_seed(1)
    torch.set_num_threads(2)
    is_well = [compare(frames, True, 18), compare(numbers, False, 2)]
    return 0 if all(is_well) else 1


if __name__ == "__main__":
    sys.exit(main())
