#!/usr/bin/python3
"""Compares the zoo's training with PyTorch's from the same weights on the same batch, dropout off.

In double: loss, the whole gradient by norm, and the losses of five SGD steps, to 1e-8. In float:
the gradient's error against float64 is at most twice PyTorch's own. Without arguments the small
forms run; NAME... limits it to these models, --large takes the forms for ImageNet. The program
dump_model in the folder $QUERN_TOOLS does the engine's part."""

import argparse
import os
import subprocess
import sys
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "models"))
import reference  # noqa: E402 (found by the line before)

TOLERANCE = 1e-8
RATE, MOMENTUM, STEPS = 0.001, 0.9, 5
SMALL = ("mlp", "lenet5", "alexnet", "vgg11", "vgg16", "resnet18", "resnet50", "mobilenet-v1",
         "mobilenet-v2")


def make_batch(shape, classes, count):
    """Images (NCHW) of float32 values, in float64, and their classes."""
    h, w, c = shape
    return torch.randn(count, c, h, w).double(), torch.randint(classes, (count,))


def engine_gradient(net):
    """The gradient as one vector in the engine's order and layout, in float64."""
    parts = zip(reference.to_engine(net), net.parameters())
    return torch.cat([layout(p.grad).reshape(-1).double() for layout, p in parts]).numpy()


def torch_run(net, x, y, steps):
    """The loss of every step and the gradient of the first."""
    update = torch.optim.SGD(net.parameters(), RATE, MOMENTUM)
    losses, gradient = [], None
    for _ in range(steps):
        update.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        gradient = engine_gradient(net) if gradient is None else gradient
        update.step()
        losses.append(loss.item())
    return np.array(losses), gradient


def write_input(path, net, x, y):
    with open(path, "wb") as file, torch.no_grad():
        for layout, p in zip(reference.to_engine(net), net.parameters()):
            layout(p).contiguous().double().numpy().tofile(file)
        x.permute(0, 2, 3, 1).contiguous().numpy().tofile(file)
        y.double().numpy().tofile(file)


def engine_run(name, shape, classes, count, real, steps, folder):
    source, target = (os.path.join(folder, f) for f in ("in.bin", "out.bin"))
    program = os.path.join(os.environ["QUERN_TOOLS"], "dump_model")
    subprocess.run([program, name, "x".join(map(str, shape)), str(classes), str(count), real,
                    str(RATE), str(steps), source, target], check=True)
    result = np.fromfile(target)
    return result[:steps], result[steps:]


def distance(a, b):
    if a.shape != b.shape:
        return np.inf
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def compare(name, shape, classes, count, folder):
    """One model and form: whether all is well."""
    torch.manual_seed(1)
    start = time.monotonic()
    net = reference.build(name, shape, classes, dropout=False)
    x, y = make_batch(shape, classes, count)
    write_input(os.path.join(folder, "in.bin"), net, x, y)
    state = {key: value.clone() for key, value in net.state_dict().items()}
    _, float_gradient = torch_run(net, x.float(), y, 1)
    net.load_state_dict(state)
    losses, gradient = torch_run(net.double(), x, y, STEPS)
    del net, state
    our_losses, our_gradient = engine_run(name, shape, classes, count, "f64", STEPS, folder)
    double = distance(our_gradient, gradient)
    _, our_float = engine_run(name, shape, classes, count, "f32", 1, folder)
    errors = distance(our_float, gradient), distance(float_gradient, gradient)
    worst_loss = float(np.max(np.abs(our_losses / losses - 1)))
    is_well = double <= TOLERANCE and worst_loss <= TOLERANCE and errors[0] <= 2 * errors[1]
    print(f"{name} {'x'.join(map(str, shape))} batch {count}: losses {worst_loss:.1e}, gradient "
          f"{double:.1e}; in float {errors[0]:.2e}, PyTorch's {errors[1]:.2e}"
          f"{'' if is_well else ' FAILED'} ({time.monotonic() - start:.0f} s)", flush=True)
    return is_well


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--batch", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(2)
    failed = done = 0
    for name in options.names or SMALL:
        forms = reference.forms(name)
        if options.large and len(forms) == 1:
            continue
        shape, classes = forms[-1 if options.large else 0]
        with tempfile.TemporaryDirectory() as folder:
            failed += not compare(name, shape, classes, options.batch, folder)
        done += 1
    print(f"{done} models compared with PyTorch, {failed} failed")
    return 1 if failed or not done else 0


if __name__ == "__main__":
    sys.exit(main())
