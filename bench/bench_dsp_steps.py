#!/usr/bin/env python3
"""Training steps on the emulated Hexagon DSP, in instruction packets: vectors against scalar code.

Counts, with the plug-in hexagon/count.c, what the DSP's process executes in runs of one and two steps; the difference
is a step. The scalar code (hexagon/scalar.c) takes the place of the program in the library; both runs of a model must
leave the same weights. The bound is two multiplications of vectors (128 products each) a packet. Needs
clang-14, lld, qemu-user and a C compiler. Counts are no times.

--same N: instead, trains each model for N steps on Fashion-MNIST on the CPU and on the DSP, and requires the same weights.
"""

import argparse
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

os.environ.setdefault("QUERN_RUNS", "none")  # runs of a bench are not kept

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parent / "src" / "device" / "hexagon" / "dsp"
TARGET = ["clang-14", "--target=hexagon-unknown-linux-musl", "-mcpu=hexagonv66", "-O2", "-ffreestanding", "-fno-builtin",
          "-nostdlib", "-static", "-fuse-ld=lld", f"-I{HERE.parent / 'src'}", f"-I{SOURCE}"]
MODELS = ["lenet5:64", "lenet-relu:64", "vgg-small:2"]


def find(name):
    for folder in os.environ["PATH"].split(":"):
        if (pathlib.Path(folder) / name).exists():
            return pathlib.Path(folder) / name
    sys.exit(f"bench_dsp_steps: {name} is not installed")


def wrap(folder, plugin, program):
    """A qemu-hexagon that counts, and runs a program in the place of the one that it is given."""
    folder.mkdir()
    file = folder / "qemu-hexagon"
    file.write_text(f'#!/bin/sh\nexec {find("qemu-hexagon")} -plugin {plugin} {program or chr(34) + "$1" + chr(34)}\n')
    file.chmod(0o755)
    return f"{folder}:{os.environ['PATH']}"


def train(quern, path, model, batch, n_steps, file):
    """The packets of a run."""
    done = subprocess.run([quern, "train", model, "--data", "synthetic", "--numerics", "niti", "--batch", str(batch), "--steps",
                           str(n_steps), "--no-test", "--device", "hexagon:emulated/all", "--save", file],
                          check=True, capture_output=True, text=True, env=dict(os.environ, PATH=path))
    return sum(int(count) for count in re.findall(r"packets (\d+)", done.stderr))


def weights_of(file):
    """A checkpoint without its counts of stored sums."""
    data = file.read_bytes()
    length = int.from_bytes(data[:8], "little")
    entries = json.loads(data[8:8 + length])
    return {name: data[8 + length + entry["data_offsets"][0]:8 + length + entry["data_offsets"][1]]
            for name, entry in entries.items() if name != "__metadata__" and not name.endswith("kept_shift")}


def products(quern, model, batch):
    done = subprocess.run([quern, "profile", model, "--data", "synthetic", "--numerics", "niti", "--batch", str(batch), "--steps",
                           "1", "--skip", "0", "--json"], check=True, capture_output=True, text=True)
    event = next(e for e in map(json.loads, done.stdout.splitlines()) if e["event"] == "done")
    return event["integer_operations_per_step"] / 2


def measure(quern, folder, paths, model, batch):
    steps, weights = {}, {}
    for name, path in paths.items():
        file = folder / f"{model}.{name}"
        counts = [train(quern, path, model, batch, n, file) for n in (1, 2)]
        steps[name], weights[name] = counts[1] - counts[0], weights_of(file)
    if len({json.dumps({k: v.hex() for k, v in w.items()}, sort_keys=True) for w in weights.values()}) > 1:
        sys.exit(f"bench_dsp_steps: {model} has other weights by vectors")
    return steps


def require_same(quern, folder, model, batch, n_steps, shape):
    weights = []
    for device in ("cpu", "hexagon:emulated/all"):
        file = folder / "weights"
        subprocess.run([quern, "train", model, "--data", "fashion-mnist", "--input", shape, "--numerics", "niti", "--batch", batch,
                        "--steps", str(n_steps), "--no-test", "--device", device, "--save", file], check=True, capture_output=True)
        weights.append(weights_of(file))
    if weights[0] != weights[1]:
        sys.exit(f"bench_dsp_steps: {model} has other weights after {n_steps} steps on the DSP")
    print(f"{model}, batch {batch}: the same {len(weights[0])} tensors after {n_steps} steps on both", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL:BATCH", default=MODELS)
    parser.add_argument("--quern", default="build/release/quern")
    parser.add_argument("--vectors-only", action="store_true", help="leave the scalar runs out")
    parser.add_argument("--same", type=int, metavar="N")
    parser.add_argument("--input", default="28x28x1", help="of --same")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        if arguments.same:
            for text in arguments.models:
                require_same(arguments.quern, pathlib.Path(name), *text.split(":"), arguments.same, arguments.input)
            return
        folder = pathlib.Path(name)
        plugin, scalar = folder / "count.so", folder / "scalar"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", plugin, HERE / "hexagon" / "count.c"], check=True)
        subprocess.run([*TARGET, "-o", scalar, HERE / "hexagon" / "scalar.c", SOURCE / "main.c"], check=True)
        paths = {"HVX": wrap(folder / "vectors", plugin, None)}
        if not arguments.vectors_only:
            paths["scalar"] = wrap(folder / "plain", plugin, scalar)
        print("| a step of | batch | scalar | HVX | scalar / HVX | HVX / bound |\n|---|---|---|---|---|---|")
        for text in arguments.models:
            model, _, batch = text.partition(":")
            steps = measure(arguments.quern, folder, paths, model, int(batch))
            bound = products(arguments.quern, model, int(batch)) / 256
            plain = steps.get("scalar")
            print(f"| `{model}` | {batch} | {plain or 0:,} | {steps['HVX']:,} | {(plain or 0) / steps['HVX']:.0f} | "
                  f"{steps['HVX'] / bound:.2f} |", flush=True)


if __name__ == "__main__":
    main()
