#!/usr/bin/env python3
"""Two unequal processors at once: the CPU's kernels on one core beside another processor on the other core, which is a
core slowed by a known factor (--device slowed:PERCENT) or PoCL held to one core (--device auto). A table of a step on
each alone, on both, and of what the chosen way reaches of the sum of both throughputs. Each step is the shortest of
up to five. Needs two idle cores.
"""

import argparse
import json
import os
import subprocess

MODELS = ["vgg11:16", "resnet18:16", "googlenet:16"]
WAYS = ["cpu", "device", "both", "pieces"]


def measure(quern, model, batch, device):
    """The event of a plan that says what was measured, and what was chosen."""
    environment = dict(os.environ, POCL_MAX_PTHREAD_COUNT="1")
    done = subprocess.run([quern, "plan", model, "--data", "synthetic", "--batch", batch, "--threads", "1", "--device", device,
                           "--json"], check=True, capture_output=True, text=True, env=environment)
    return next(event for event in map(json.loads, done.stdout.splitlines()) if event["event"] == "device")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL:BATCH", default=MODELS)
    parser.add_argument("--quern", default="build/release/quern")
    parser.add_argument("--devices", default="slowed:100,slowed:200,auto", help="comma-separated")
    arguments = parser.parse_args()
    print("| model, batch | beside the CPU | CPU, ms | alone, ms | both, ms | in pieces, ms | chosen | of the sum |")
    print("|---|---|---|---|---|---|---|---|")
    for text in arguments.models:
        model, _, batch = text.partition(":")
        for device in arguments.devices.split(","):
            found = measure(arguments.quern, model, batch, device)
            ways = {way["on"]: way for way in found["ways"]}
            times = [f"{ways[on]['ms']:.1f}" if ways[on]["measured"] else "-" for on in WAYS]
            chosen = next(on for on in WAYS if ways[on]["chosen"])
            share = (1 / ways[chosen]["ms"]) / (1 / ways["cpu"]["ms"] + 1 / ways["device"]["ms"])
            print(f"| {model}, {batch} | {device} | {' | '.join(times)} | {chosen} | {share:.2f} |", flush=True)


if __name__ == "__main__":
    main()
