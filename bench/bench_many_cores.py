#!/usr/bin/env python3
"""Schedules for a machine of many cores, simulated, beside one operation after another on all cores: quern plan --machine.

    bench/bench_many_cores.py [--machine FILE] [--batch N] [MODEL...]

Without --machine: 16 cores of 90 GFLOP/s and 10 GB/s each, 60 GB/s together, 0.5 MB of an operation in caches (half of an L2 of
1 MB). A row has the speedups of each at its best width, of the best uniform width and of quern over one by one, the bound, and the
milliseconds of planning; the last row the geometric means. Times are by the roofline, and no time of this machine is in them but the
last column."""
import argparse
import json
import pathlib
import subprocess
import tempfile
from statistics import geometric_mean as mean

QUERN = pathlib.Path(__file__).parent.parent / "build" / "release" / "quern"
MACHINE = "cores core 16 90 10 4\nmemory 60\ncache 0.5\nidle 4\noverhead 500 300 1000\n"
MODELS = ["googlenet", "inception-v3", "xception", "resnet50", "densenet40", "mobilenet-v2", "squeezenet", "vgg16", "char-lstm", "seq2seq"]


def plan(model, batch, machine):
    done = subprocess.run([QUERN, "plan", model, "--batch", str(batch), "--machine", machine, "--json"], capture_output=True, text=True,
                          check=True)
    (event,) = [e for e in map(json.loads, done.stdout.splitlines()) if e["event"] == "cores"]
    return event


def find(event, words):
    return next(row["ms"] for row in event["schedules"] if row["name"].startswith(words))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=MODELS)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--machine")
    a = parser.parse_args()
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        machine = a.machine or pathlib.Path(folder) / "machine.txt"
        if not a.machine:
            machine.write_text(MACHINE)
        for model in a.models:
            event = plan(model, a.batch, machine)
            one = find(event, "one by one")
            least = max(event["longest_way_ms"], event["all_busy_ms"], event["memory_ms"])
            rows.append([one / find(event, words) for words in ("each at its best", "best uniform", "quern, for time")] + [one / least])
            print(f"| {model} |", *(f"{value:.2f} |" for value in rows[-1]), f"{event['planning_ms']:.0f} |", flush=True)
    print("| geometric mean |", *(f"{mean(column):.2f} |" for column in zip(*rows)))


if __name__ == "__main__":
    main()
