#!/usr/bin/python3
"""Compares training with class weights with PyTorch's CrossEntropyLoss(weight=..., reduction="mean"),
in double, dropout off: the losses of five steps and the gradient of the first, of LeNet-5."""

import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

import test_torch_models
from test_torch_models import reference

TOLERANCE = 1e-10
WEIGHTS = [0.5, 3, 0, 1, 2.25, 1e-3, 7, 1, 0.1, 20]


def torch_run(net, x, y, rate, steps):
    update = torch.optim.SGD(net.parameters(), rate, test_torch_models.MOMENTUM)
    losses, gradient = [], None
    for _ in range(steps):
        update.zero_grad()
        loss = F.cross_entropy(net(x), y, weight=torch.tensor(WEIGHTS).double(), reduction="mean")
        loss.backward()
        gradient = test_torch_models.engine_gradient(net) if gradient is None else gradient
        update.step()
        losses.append(loss.item())
    return np.array(losses), gradient


def main():
    torch.manual_seed(1)
    shape, count, steps, rate = (28, 28, 1), 16, 5, 0.01
    net = reference.build("lenet5", shape, 10, dropout=False).double()
    x, y = test_torch_models.make_batch(shape, 10, count)
    with tempfile.TemporaryDirectory() as folder:
        source, target = (os.path.join(folder, f) for f in ("in.bin", "out.bin"))
        test_torch_models.write_input(source, net, x, y)
        program = os.path.join(os.environ["QUERN_TOOLS"], "dump_model")
        subprocess.run([program, "lenet5", "28x28x1", "10", str(count), "f64", str(rate),
                        str(steps), source, target, ",".join(map(str, WEIGHTS))], check=True)
        result = np.fromfile(target)
    losses, gradient = torch_run(net, x, y, rate, steps)
    loss = np.max(np.abs(result[:steps] / losses - 1))
    distance = test_torch_models.distance(result[steps:], gradient)
    print(f"losses {loss:.1e}, gradient {distance:.1e}")
    return not (loss <= TOLERANCE and distance <= TOLERANCE)


if __name__ == "__main__":
    sys.exit(main())
