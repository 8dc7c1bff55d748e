#!/usr/bin/python3
"""Converts weights under their published names with quern convert, and compares what networks make of
them with PyTorch: ResNet-18, MobileNetV2, EfficientNet-Lite0 and a small BERT to 1e-10 in double; --all takes every
model that quern has a map for, the others in float. Then halves, heads of their own, and what does
not fit."""

import argparse
import json
import os
import struct
import subprocess
import sys
import tempfile

import numpy as np
import torch

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "models"))
import published  # noqa: E402 (found by the line before)

QUERN = os.environ["QUERN"]
TYPES = {torch.float32: "F32", torch.float64: "F64", torch.float16: "F16", torch.bfloat16: "BF16",
         torch.int64: "I64"}
failures = []


def check(holds, what):
    print(f"{what}{'' if holds else ' FAILED'}", flush=True)
    if not holds:
        failures.append(what)


def write_safetensors(path, state):
    header, data, at = {"__metadata__": {"format": "pt"}}, [], 0
    for name, tensor in state.items():
        raw = tensor.contiguous()
        raw = raw.view(torch.int16) if raw.dtype == torch.bfloat16 else raw
        raw = raw.numpy().tobytes()
        header[name] = {"dtype": TYPES[tensor.dtype], "shape": list(tensor.shape),
                        "data_offsets": [at, at + len(raw)]}
        data.append(raw)
        at += len(raw)
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + b"".join(data))


def read_safetensors(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        data = file.read()
    header.pop("__metadata__")
    kinds = {"F32": np.float32, "F64": np.float64}
    return {name: np.frombuffer(data[slice(*t["data_offsets"])], kinds[t["dtype"]]
                                ).reshape(t["shape"]) for name, t in header.items()}


def convert(*arguments, status=0):
    run = subprocess.run([QUERN, "convert", *map(str, arguments)], capture_output=True, text=True)
    if run.returncode != status:
        check(False, f"convert {arguments}: {run.returncode}: {run.stderr}")
    return run


def outputs(model, sizes, real, weights, inputs, folder):
    source, target = (os.path.join(folder, name) for name in ("in.bin", "out.bin"))
    with open(source, "wb") as file:
        for array in inputs:
            np.ascontiguousarray(array, np.float64).tofile(file)
    program = os.path.join(os.environ["QUERN_TOOLS"], "dump_outputs")
    subprocess.run([program, model, sizes, real, weights, source, target], check=True)
    return np.fromfile(target)


def randomize(net):
    """Running statistics and scales that tell apart what is mixed up."""
    with torch.no_grad():
        for name, value in net.state_dict().items():
            if name.endswith("running_mean"):
                value.normal_(0, 0.1)
            elif name.endswith("running_var"):
                value.uniform_(0.5, 1.5)
            elif value.dim() == 1 and value.is_floating_point():
                value.add_(torch.randn_like(value) * 0.05)
            elif value.dim() == 4:  # that signals do not fade
                value.normal_(0, (2 / value[0].numel()) ** 0.5)
    return net.eval()


def compare_classifier(model, folder, real="f64", batch=2):
    torch.manual_seed(len(model))
    side = published.SIDES.get(model, 224)
    net = randomize(published.CLASSIFIERS[model]())
    net = net.double() if real == "f64" else net
    path, mine = (os.path.join(folder, name) for name in ("theirs.st", "mine.st"))
    write_safetensors(path, net.state_dict())
    run = convert(path, "--model", model, "--out", mine, "--real", real, "--json")
    told = json.loads(run.stdout)
    x = torch.randn(batch, 3, side, side).to(next(net.parameters()).dtype)
    with torch.no_grad():
        theirs = net(x).numpy()
    ours = outputs(model, f"{side}x{side}x3,{batch},1000", real, mine,
                   [x.permute(0, 2, 3, 1).numpy()], folder).reshape(batch, 1000)
    error = np.max(np.abs(ours - theirs)) / np.max(np.abs(theirs))
    is_counted = told["parameters"] == published.PARAMETERS[model]
    check(error <= (1e-10 if real == "f64" else 1e-4) and is_counted,
          f"{model} {real}: outputs differ by {error:.1e}, {told['parameters']} parameters")
    return mine


def compare_bert(folder):
    torch.manual_seed(1)
    vocabulary, length, batch = 1000, 24, 3
    net = randomize(published.Bert(vocabulary, 128, 2, 2, 512).double())
    path, mine = (os.path.join(folder, name) for name in ("theirs.st", "mine.st"))
    write_safetensors(path, net.state_dict())
    convert(path, "--model", "bert-tiny", "--vocabulary", vocabulary, "--out", mine, "--real",
            "f64")
    tokens = torch.randint(vocabulary, (batch, length))
    types = (torch.arange(length) >= 9).long().repeat(batch, 1)
    with torch.no_grad():
        theirs = net(tokens, types).permute(2, 0, 1).numpy()
    zeros = np.zeros(batch)
    result = outputs("bert-tiny", f"{batch},{length},{vocabulary},0", "f64", mine,
                     [tokens.numpy(), types.numpy(), zeros, zeros], folder)
    error = np.max(np.abs(result[1:].reshape(2, batch, length) - theirs)) / np.max(np.abs(theirs))
    check(error <= 1e-10, f"bert-tiny f64: logits differ by {error:.1e}")
    check_bert_names(net, mine, folder)


def check_bert_names(net, mine, folder):
    """Pretrained weights as they are published: older names, other heads, no head for spans."""
    state = {}
    for name, value in net.state_dict().items():
        if not name.startswith("qa_outputs"):
            name = name.replace("LayerNorm.weight", "LayerNorm.gamma")
            state[name.replace("LayerNorm.bias", "LayerNorm.beta")] = value
    state["cls.predictions.bias"] = torch.zeros(1000)
    state["bert.pooler.dense.weight"] = torch.zeros(128, 128)
    path, other = (os.path.join(folder, name) for name in ("older.st", "other.st"))
    write_safetensors(path, state)
    options = ("--model", "bert-tiny", "--vocabulary", 1000, "--out", other, "--real", "f64")
    run = convert(path, *options, status=1)
    check("span.weight (2x128) of the model: no tensor of the file goes to it" in run.stderr
          and not os.path.exists(other), "a missing head is named, and nothing is written")
    convert(path, *options, "--partial")
    a, b = read_safetensors(mine), read_safetensors(other)
    check(all(np.array_equal(a[name], b[name]) for name in a if not name.startswith("span")),
          "older names give the same weights")
    check(not np.array_equal(a["span.weight"], b["span.weight"]), "a new head is a new one")


def check_types(folder):
    """Halves are widened exactly; the same numbers come out as those of floats."""
    torch.manual_seed(2)
    net = randomize(published.MobileNetV2())
    path, mine = (os.path.join(folder, name) for name in ("half.st", "half-mine.st"))
    for kind in (torch.float16, torch.bfloat16, torch.float64):
        state = {name: value.to(kind) if value.is_floating_point() else value
                 for name, value in net.state_dict().items()}
        state["features.1.conv.1.weight"].view(-1)[:2] = torch.tensor([6e-8, -0.0]).to(kind)
        write_safetensors(path, state)
        convert(path, "--model", "mobilenet-v2", "--out", mine)
        found = read_safetensors(mine)
        narrow = state["features.1.conv.1.weight"].float().numpy().reshape(16, 1, 1, 32)
        wide = state["features.18.0.weight"].float().permute(0, 2, 3, 1).numpy()
        deep = state["features.2.conv.1.0.weight"].float().permute(0, 2, 3, 1).numpy()
        check(np.array_equal(found["stage1.block1.project.conv.weight"], narrow)
              and np.array_equal(found["head.conv.weight"], wide)
              and np.array_equal(found["stage2.block1.depthwise.conv.weight"], deep),
              f"{TYPES[kind]} as float")


def check_misfits(folder):
    """What does not fit is named on both sides, and nothing is written."""
    net = published.CLASSIFIERS["resnet18"]()
    state = dict(net.state_dict())
    state["layer1.0.extra.weight"] = torch.zeros(3)
    state["surplus"] = torch.zeros(2, 2)
    del state["bn1.bias"]
    state["fc.bias"] = torch.zeros(10)
    path, mine = (os.path.join(folder, name) for name in ("bad.st", "bad-mine.st"))
    write_safetensors(path, state)
    run = convert(path, "--model", "resnet18", "--out", mine, status=1)
    for text in ("layer1.0.extra.weight (3) of the file becomes stage1.block1.extra.weight, which "
                 "the model does not have",
                 "surplus (2x2) of the file: no row of the map matches it",
                 "stem.norm.shift (64) of the model: no tensor of the file goes to it",
                 "fc.bias (10) of the file does not fit fc.bias (1000)",
                 "4 tensors do not fit the model"):
        check(text in run.stderr, text)
    check(not os.path.exists(mine), "nothing is written")


def check_own_map(folder):
    """A map of one's own: swapped, as they are, parts, sums, left out."""
    torch.manual_seed(3)
    state = {"a/w": torch.randn(784, 256), "a/b": torch.randn(128), "a/c": torch.randn(128),
             "b/w": torch.randn(128, 256), "b/b1": torch.randn(128), "b/b2": torch.randn(128),
             "c/w": torch.randn(128, 10), "c/b": torch.randn(10), "step": torch.tensor(7)}
    path, mine, table = (os.path.join(folder, name) for name in ("o.st", "o-mine.st", "o.csv"))
    write_safetensors(path, state)
    with open(table, "w", encoding="utf-8") as file:
        file.write("from,to,layout\n# mine\na/w,fc1.weight,swap\na/b,fc1.bias,0/2\n"
                   "a/c,fc1.bias,1/2\nb/w,fc2.weight\nb/b*,fc2.bias,add\nc/w,fc3.weight,swap\n"
                   "c/b,fc3.bias\nstep,\n")
    run = convert(path, "--model", "mlp", "--map", table, "--out", mine)
    found = read_safetensors(mine)
    check(np.array_equal(found["fc1.weight"], state["a/w"].T)
          and np.array_equal(found["fc1.bias"], torch.cat([state["a/b"], state["a/c"]]))
          and np.allclose(found["fc2.bias"], state["b/b1"] + state["b/b2"], 1e-6)
          and np.array_equal(found["fc3.weight"], state["c/w"].T) and "1 left out" in run.stdout,
          "a map of one's own")
    with open(table, "a", encoding="utf-8") as file:
        file.write("x,y,z\n")
    run = convert(path, "--model", "mlp", "--map", table, status=1)
    check("o.csv:11: layout is" in run.stderr, "a bad row is named")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(2)
    with tempfile.TemporaryDirectory() as folder:
        if options.all:
            for model in published.CLASSIFIERS:
                compare_classifier(model, folder, "f32", 1)
            return bool(failures)
        for model in ("resnet18", "mobilenet-v2", "efficientnet-lite0"):
            compare_classifier(model, folder)
        compare_bert(folder)
        check_types(folder)
        check_misfits(folder)
        check_own_map(folder)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
