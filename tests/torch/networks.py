"""Runs networks of the zoo that are no classifiers, for comparison with PyTorch.

The program dump_network in the folder $QUERN_TOOLS does the engine's part."""

import os
import subprocess
import tempfile

import numpy as np


def _command(model, sizes, *rest):
    """sizes: batch, length, target_length, n_inputs, n_outputs, variant; 0: the published one's."""
    program = os.path.join(os.environ["QUERN_TOOLS"], "dump_network")
    return [program, model, ",".join(map(str, sizes)), *map(str, rest)]


def _describe(model, sizes):
    """Three dicts, name -> shape, in the engine's order: trainable parameters, statistics, inputs."""
    text = subprocess.run(_command(model, sizes, "list"), check=True, capture_output=True,
                          text=True).stdout
    rows = [line.split() for line in text.splitlines()]
    return tuple({row[1]: tuple(map(int, row[2:])) for row in rows if row[0] == kind}
                 for kind in ("parameter", "statistic", "input"))


def describe(model, sizes):
    """The trainable parameters and the inputs as two dicts, name -> shape, in the engine's order."""
    parameters, _, inputs = _describe(model, sizes)
    return parameters, inputs


def _split(numbers, shapes):
    """The arrays of so many shapes, and the numbers after them."""
    arrays = {}
    for name, shape in shapes.items():
        count = int(np.prod(shape))
        arrays[name], numbers = numbers[:count].reshape(shape), numbers[count:]
    return arrays, numbers


def run_all(model, sizes, parameters, inputs, real, rate, steps, phases=1):
    """Trains for some steps. parameters and inputs: dicts name -> array in the engine's layout.

    Returns the losses (steps, phases) and, as dicts name -> array, the gradients of the first step,
    the parameters at the end, and the statistics (of batch norm) at the end."""
    shapes, statistic_shapes, input_shapes = _describe(model, sizes)
    with tempfile.TemporaryDirectory() as folder:
        source, target = (os.path.join(folder, name) for name in ("in.bin", "out.bin"))
        with open(source, "wb") as file:
            for given, wanted in ((parameters, shapes), (inputs, input_shapes)):
                assert set(given) == set(wanted), set(given) ^ set(wanted)
                for name, shape in wanted.items():
                    array = np.ascontiguousarray(given[name], dtype=np.float64)
                    assert array.shape == shape, (name, array.shape, shape)
                    array.tofile(file)
        subprocess.run(_command(model, sizes, real, rate, steps, source, target), check=True)
        result = np.fromfile(target)
    losses, rest = result[:steps * phases].reshape(steps, phases), result[steps * phases:]
    gradients, rest = _split(rest, shapes)
    updated, rest = _split(rest, shapes)
    statistics, rest = _split(rest, statistic_shapes)
    assert len(rest) == 0
    return losses, gradients, updated, statistics


def run(model, sizes, parameters, inputs, real, rate, steps, phases=1):
    """The losses and the gradients of run_all."""
    return run_all(model, sizes, parameters, inputs, real, rate, steps, phases)[:2]


def distance(ours, theirs):
    """Of two dicts of arrays, by the norm of all together."""
    assert set(ours) == set(theirs), set(ours) ^ set(theirs)
    square = sum(np.sum((ours[name] - theirs[name]) ** 2) for name in theirs)
    return np.sqrt(square / sum(np.sum(np.square(array)) for array in theirs.values()))
