#!/usr/bin/env python3
"""Training with --cores auto beside every uniform width, one operation after another: the numbers of threads that there are.

    bench/bench_cores.py [--batch N] [--seconds S] [MODEL...]

Each cell is the median of three processes, all widths by turns; a line has samples a second by width, what auto gains over the
best width and over all threads, what was predicted of a step one by one (error against its rehearsal), and the bound: how much
faster than one by one a schedule could be if all cores were always busy. The last line has the geometric means."""
import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import tempfile

QUERN = pathlib.Path(__file__).parent.parent / "build" / "release" / "quern"
MODELS = ["squeezenet", "googlenet", "inception-v3", "xception", "mobilenet-v2", "densenet40", "resnet50", "char-lstm"]
ROUNDS = 3


def train(model, batch, steps, options):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([QUERN, "train", model, "--data", "synthetic", "--batch", str(batch), "--steps", str(steps),
                               "--no-test", "--json", *options], cwd=folder, capture_output=True, text=True, check=True)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    return {event["event"]: event for event in events}


def median_ms(run):
    return run["done"]["median_step_ms"]


def measure(model, batch, seconds):
    widths = range(1, len(os.sched_getaffinity(0)) + 1)
    ways = {width: ["--threads", str(width)] for width in widths} | {"auto": ["--cores", "auto"]}
    steps = max(60, min(2000, int(seconds * 1000 / median_ms(train(model, batch, 5, [])))))
    runs = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, options in ways.items():
            runs[way].append(train(model, batch, steps, options))
    ms = {way: statistics.median(map(median_ms, runs[way])) for way in ways}
    cores = [run.get("cores_compared", run["cores"]) for run in runs["auto"]]
    return ms, cores


def mean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=MODELS)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1)
    a = parser.parse_args()
    rows = []
    for model in a.models:
        ms, cores = measure(model, a.batch, a.seconds)
        best, most = min(v for k, v in ms.items() if k != "auto"), ms[max(k for k in ms if k != "auto")]
        error = statistics.median(abs(c["uncorrected_one_by_one_ms"] / c["rehearsed_one_by_one_ms"] - 1) for c in cores)
        bound = statistics.median(c["rehearsed_one_by_one_ms"] / c["bound_ms"] for c in cores)
        rows.append((best / ms["auto"], most / ms["auto"], error, bound))
        print(f"{model:14} {a.batch:3}", *(f"{k}: {v:8.3f} ms" for k, v in ms.items()),
              f"over best width {rows[-1][0]:.3f}, over one by one {rows[-1][1]:.3f}, bound {bound:.3f}, "
              f"predicted {100 * error:.1f} % off", flush=True)
    print(f"geometric means: over best width {mean(r[0] for r in rows):.3f}, over one by one {mean(r[1] for r in rows):.3f}, "
          f"bound {mean(r[3] for r in rows):.3f}; least over best width {min(r[0] for r in rows):.3f}; "
          f"prediction of one by one {100 * statistics.median(r[2] for r in rows):.1f} % off (median)")


if __name__ == "__main__":
    main()
