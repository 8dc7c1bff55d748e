#!/usr/bin/env python3
"""Exports the trial's architectures by PyTorch's exporters, with what ONNX Runtime makes of the files.

usage: export.py FOLDER [eval|train|LIBRARY ...]

Writes FOLDER/LIBRARY-NAME.EXPORTER.MODE.onnx, .in.npy (its input), .out.npy (of eval: ONNX Runtime's output), .losses.npy (of
train: PyTorch's losses in double), and
a line of JSON for each to FOLDER/exports. One that is there already is passed over. Each architecture has a process of
its own and SECONDS."""
import copy
import itertools
import json
import os
import signal
import sys
import traceback
import warnings

import numpy as np
import torch

import architectures

os.environ.setdefault("QUERN_RUNS", "none")  # runs of a bench are not kept

warnings.filterwarnings("ignore")


def export(network, x, path, exporter, is_training):
    network.train(is_training)
    is_dynamo = exporter == "dynamo"
    if exporter == "default":
        torch.onnx.export(network.eval(), (x,), path)
        return
    mode = torch.onnx.TrainingMode.TRAINING if is_training else torch.onnx.TrainingMode.EVAL
    if is_dynamo:
        batch = torch.export.Dim("batch", min=1, max=1024)
        try:
            torch.onnx.export(network, (x,), path, dynamo=True, optimize=not is_training, external_data=False, verbose=False,
                              input_names=["x"], output_names=["y"], dynamic_shapes=({0: batch},))
        except Exception:  # the batch is in its shapes as a number
            torch.onnx.export(network, (x,), path, dynamo=True, optimize=not is_training, external_data=False, verbose=False,
                              input_names=["x"], output_names=["y"])
        return
    torch.onnx.export(network, (x,), path, dynamo=False, training=mode, do_constant_folding=not is_training,
                      input_names=["x"], output_names=["y"], opset_version=17,
                      dynamic_axes=None if getattr(network, "has_one_batch", False) else {"x": {0: "batch"}})


def without_chance(network):
    """The network with all that it leaves to chance switched off."""
    for module in network.modules():
        for name in ("p", "drop_prob", "drop_rate", "dropout", "attention_dropout", "proba"):
            if isinstance(getattr(module, name, None), float):
                setattr(module, name, 0.0)
        if isinstance(module, torch.nn.MultiheadAttention):
            module.dropout = 0.0
    return network


def losses_of(network, x, is_training):
    """Of STEPS steps of plain SGD on the mean of the outputs' squares, in double."""
    network = copy.deepcopy(network).double().train(is_training)
    x = x.double() if x.is_floating_point() else x
    optimizer, losses = torch.optim.SGD(network.parameters(), lr=RATE), []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = network(x).square().mean()
        losses.append(loss.item())
        loss.backward()
        optimizer.step()
    return np.array(losses)


def run(path, x):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.log_severity_level, options.intra_op_num_threads = 4, 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: x})[0]


def try_one(folder, library, name, network, x, exporter, mode):
    base = os.path.join(folder, f"{library}-{name}.{exporter}.{mode}")
    result = {"library": library, "name": name, "exporter": exporter, "mode": mode, "file": base + ".onnx"}
    try:
        if mode == "train":
            network = without_chance(copy.deepcopy(network))
            np.save(base + ".losses.npy", losses_of(network, x, exporter != "default"))
        export(network, x, base + ".onnx", exporter, mode == "train")
        np.save(base + ".in.npy", x.numpy())
        if mode == "eval":
            np.save(base + ".out.npy", run(base + ".onnx", x.numpy()))
    except Exception as error:
        result["exporting"] = (f"{type(error).__name__}: {error}".splitlines() or [""])[0][:200]
    return result


SECONDS, STEPS, RATE = 300, 3, 0.05


def try_all(folder, library, place, modes, lines):
    try:
        name, network, x = architectures.make_from(library, place)
    except LookupError as error:
        print(json.dumps({"library": library, "place": place, "making": str(error)}), file=lines, flush=True)
        return
    for mode in modes:
        exporters = ("classic", "dynamo") if library not in architectures.FOURTH else ("default",) if mode == "eval" else ("default", "dynamo")
        for exporter in exporters:
            result = try_one(folder, library, name, network, x, exporter, mode)
            print(json.dumps({**result, "place": place}), file=lines, flush=True)


def in_process(folder, library, place, modes, lines):
    """What try_all does, in a process whose death or delay is its own."""
    child = os.fork()
    if child == 0:
        signal.alarm(SECONDS)
        with open(os.path.join(folder, "noise"), "a") as noise:
            os.dup2(noise.fileno(), 1)
            os.dup2(noise.fileno(), 2)
            try:
                try_all(folder, library, place, modes, lines)
            except BaseException:
                traceback.print_exc()
                os._exit(1)
        os._exit(0)
    status = os.waitpid(child, 0)[1]
    if status != 0:
        print(json.dumps({"library": library, "place": place, "making": f"its process ended with {status}"}), file=lines,
              flush=True)


def in_turn(places):
    """One of each library after the other, so that what is done by any moment is of all."""
    lists = {}
    for library, place in places:
        lists.setdefault(library, []).append((library, place))
    return [one for row in itertools.zip_longest(*lists.values()) for one in row if one]


def main():
    folder = sys.argv[1]
    modes = [a for a in sys.argv[2:] if a in ("eval", "train")] or ["eval"]
    libraries = [a for a in sys.argv[2:] if a not in ("eval", "train")] or list(architectures.EVERY)
    torch.set_num_threads(1)
    import timm  # noqa: F401  before the processes part
    import torchvision  # noqa: F401
    import transformers  # noqa: F401
    import onnxscript  # noqa: F401
    import onnxruntime  # noqa: F401
    path = os.path.join(folder, "exports")
    done = set()
    if os.path.exists(path):
        done = {(line["library"], line["place"]) for line in map(json.loads, open(path))}
    with open(path, "a") as lines:
        for library, place in in_turn(architectures.chosen()):
            if library in libraries and (library, place) not in done:
                in_process(folder, library, place, modes, lines)


if __name__ == "__main__":
    main()
