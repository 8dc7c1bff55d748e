#!/usr/bin/env python3
"""Time of a training step by numerics beside f32: usage bench_numerics.py [NUMERICS [MODEL:BATCH...]].

NUMERICS may be KEY=VALUE: `niti` with that field, as shifts=adaptive. Each round measures a few steps by one and then by the other, so that other programs disturb both alike. A row has the
medians over the rounds, the ratio f32 / numerics of each round as median and range, and the memory of both."""
import json
import os
import statistics
import subprocess
import sys
import tempfile

QUERN = os.environ.get("QUERN", "build/release/quern")
ROUNDS = int(os.environ.get("ROUNDS", "5"))
MODELS = ("vgg11:64", "vgg16:64", "vgg19:64", "resnet18:64", "resnet34:64", "inception-v3:64")


def measure(model, batch, options):
    """Milliseconds of a step, and bytes of memory."""
    run = subprocess.run([QUERN, "profile", model, "--batch", batch, "--steps", "5", "--skip", "6", "--repeat", "1", "--json",
                          *options],
                         capture_output=True, text=True)
    if run.returncode:
        sys.exit(run.stderr)
    done = json.loads(run.stdout.splitlines()[-1])
    return done["median_step_ms"], done["peak_bytes"]


def file_with(field, value, folder):
    """A file of niti with another value of a field."""
    niti = json.loads(subprocess.run([QUERN, "numerics", "niti"], capture_output=True, text=True, check=True).stdout)
    name = os.path.join(folder, "numerics.json")
    with open(name, "w", encoding="utf-8") as file:
        json.dump({**niti, field: value}, file)
    return name


def main():
    numerics = sys.argv[1] if len(sys.argv) > 1 else "niti"
    with tempfile.TemporaryDirectory() as folder:
        given = file_with(*numerics.split("="), folder) if "=" in numerics else numerics
        compare(numerics, given)


def compare(numerics, given):
    print(f"{'model':12}{'batch':>6}{'f32 ms':>9}{numerics[-10:] + ' ms':>14}{'f32 / it':>10}{'range':>14}{'memory':>9}")
    for row in sys.argv[2:] or MODELS:
        model, batch = row.split(":")
        rounds = [(measure(model, batch, []), measure(model, batch, ["--numerics", given])) for _ in range(ROUNDS)]
        ratios = [float32[0] / other[0] for float32, other in rounds]
        times = [statistics.median(r[i][0] for r in rounds) for i in range(2)]
        print(f"{model:12}{batch:>6}{times[0]:9.2f}{times[1]:14.2f}{statistics.median(ratios):10.2f}"
              f"{min(ratios):8.2f}-{max(ratios):.2f}{rounds[0][1][1] / rounds[0][0][1]:9.2f}", flush=True)


if __name__ == "__main__":
    main()
