#!/usr/bin/env python3
"""What placing a step on CPU and DSP by packets gains, and what each part of it does: a table of a step as it is
placed, and with one part left out at a time, in instruction packets that the DSP's process counts, and time and
energy by the model of docs/dsp.md. In the row "the largest sum in a pass of its own" the DSP's program is one that finds the maximum
that decides a shift by reading all stored sums again (hexagon/separate.c). Needs qemu-hexagon, clang-14 and lld.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile

from bench_dsp_steps import HERE, SOURCE, TARGET, find

MODELS = ["lenet5:64", "lenet-relu:16", "vgg-small:2"]
FEW = 1
HVX = ["-mhvx", "-mhvx-length=128b"]


def separate(folder):
    """The environment in which another program runs on the DSP: its products find their largest sums in a pass of their own."""
    objects = []
    for file in (*sorted(SOURCE.glob("*.c")), HERE / "hexagon" / "separate.c"):
        objects.append(folder / f"{file.stem}.o")
        renamed = ["-Dmake_sums=make_sums_in_passing"] if file.stem == "product" else []
        subprocess.run([*(flag for flag in TARGET if flag not in ("-static", "-fuse-ld=lld", "-nostdlib")), *HVX, *renamed, "-c", "-o",
                        objects[-1], file], check=True)
    subprocess.run([*TARGET, *HVX, "-o", folder / "separate", *objects], check=True)
    emulator = folder / "qemu-hexagon"
    emulator.write_text(f'#!/bin/sh\nexec {find("qemu-hexagon")} {folder / "separate"}\n')
    emulator.chmod(0o755)
    return dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")


def plan(quern, model, batch, device, *more, environment=None):
    """The event of a plan: ways with their costs, operations with their packets."""
    done = subprocess.run([quern, "plan", model, "--data", "synthetic", "--numerics", "niti", "--batch", batch, "--json", "--device",
                           device, *more], check=True, capture_output=True, text=True, env=environment)
    return next(event for event in map(json.loads, done.stdout.splitlines()) if event["event"] == "device")


def packets_of(found, places):
    return sum(node.get("packets", 0) for node in found["operations"] if node["on"] in places)


def way_of(found, name=None):
    return next(way for way in found["ways"] if (way["on"] == name if name else way["chosen"]))


def rows_of(quern, model, batch, environment):
    placed, few = (plan(quern, model, batch, f"hexagon:emulated{part}") for part in ("", f":{FEW}"))
    cheap = plan(quern, model, batch, "hexagon:emulated", "--prefer", "energy")
    both = {"cpu", "device"}
    yield "placed by time", packets_of(placed, {"device"}), way_of(placed)
    yield "placed by energy", packets_of(cheap, {"device"}), way_of(cheap)
    yield "without reuse: all works prepared anew", packets_of(few, {"device"}), way_of(few)
    yield "without placing: all that the DSP can do, on it", packets_of(placed, both), way_of(placed, "device")
    yield "the same without reuse", packets_of(few, both), way_of(few, "device")
    passes = plan(quern, model, batch, "hexagon:emulated", environment=environment)
    yield "placed, the largest sum in a pass of its own", packets_of(passes, {"device"}), way_of(passes)
    yield "all on it, the largest sum in a pass of its own", packets_of(passes, both), way_of(passes, "device")
    yield "without the DSP", 0, way_of(placed, "cpu")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL:BATCH", default=MODELS)
    parser.add_argument("--quern", default="build/release/quern")
    arguments = parser.parse_args()
    folder = tempfile.TemporaryDirectory()
    environment = separate(pathlib.Path(folder.name))
    print("| a step of | as | packets on the DSP | ms | mJ | copies |\n|---|---|---|---|---|---|")
    for text in arguments.models:
        model, _, batch = text.partition(":")
        for name, packets, way in rows_of(arguments.quern, model, batch, environment):
            print(f"| `{model}`, {batch} | {name} | {packets:,} | {way['ms']:.3f} | {way['joules'] * 1e3:.2f} | {way['copies']} |",
                  flush=True)


if __name__ == "__main__":
    main()
