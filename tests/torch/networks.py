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


def describe(model, sizes):
    """The trainable parameters and the inputs as two dicts, name -> shape, in the engine's order."""
    text = subprocess.run(_command(model, sizes, "list"), check=True, capture_output=True,
                          text=True).stdout
    rows = [line.split() for line in text.splitlines()]
    return tuple({row[1]: tuple(map(int, row[2:])) for row in rows if row[0] == kind}
                 for kind in ("parameter", "input"))


def run(model, sizes, parameters, inputs, real, rate, steps, phases=1):
    """Trains for some steps. parameters and inputs: dicts name -> array in the engine's layout.

    Returns the losses (steps, phases) and the gradients of the first step as a dict name -> array."""
    shapes, input_shapes = describe(model, sizes)
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
    gradients = {}
    for name, shape in shapes.items():
        count = int(np.prod(shape))
        gradients[name], rest = rest[:count].reshape(shape), rest[count:]
    assert len(rest) == 0
    return losses, gradients


def distance(ours, theirs):
    """Of two dicts of arrays, by the norm of all together."""
    assert set(ours) == set(theirs), set(ours) ^ set(theirs)
    square = sum(np.sum((ours[name] - theirs[name]) ** 2) for name in theirs)
    return np.sqrt(square / sum(np.sum(np.square(array)) for array in theirs.values()))
