#!/usr/bin/env python3
"""How rules that keep shifts do beside computing each: usage bench_shifts.py FOLDER.

Trains MODEL (default lenet-relu) by niti for EPOCHS (default 3) on DATA (default fashion-mnist) with each of RULES and each of
SEEDS (default 1,2,3), keeps each run in FOLDER, so that a second call trains only what is missing, and prints a table: test
accuracy and points lost against exact shifts, the share of maxima that were not needed (a kept shift was taken), and of shifts
that were not those of an exact step. QUERN is the program, THREADS 1 unless said."""
import json
import os
import pathlib
import statistics
import subprocess
import sys

os.environ.setdefault("QUERN_RUNS", "none")  # runs of a bench are not kept

QUERN = os.environ.get("QUERN", "build/release/quern")
MODEL, EPOCHS = os.environ.get("MODEL", "lenet-relu"), os.environ.get("EPOCHS", "3")
DATA, SEEDS = os.environ.get("DATA", "fashion-mnist"), os.environ.get("SEEDS", "1,2,3").split(",")
RULES = [("exact", None), ("adaptive", 8), ("fixed", 8), ("fixed", 32), ("adaptive", 64), ("fixed", 2), ("adaptive", 1), ("fixed", 128)]


def name_of(rule, period):
    return rule + (f"-{period}" if period else "")


def train(folder, rule, period, seed):
    name = name_of(rule, period)
    kept = folder / f"{MODEL}-{EPOCHS}-{name}-{seed}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    numerics = json.loads(subprocess.run([QUERN, "numerics", "niti"], check=True, capture_output=True).stdout)
    numerics.update({"name": name, "shifts": rule}, **({"period": period} if period else {}))
    file = folder / f"{name}.json"
    file.write_text(json.dumps(numerics))
    run = subprocess.run([QUERN, "train", MODEL, "--data", DATA, "--epochs", EPOCHS, "--seed", seed, "--numerics", str(file),
                          "--threads", os.environ.get("THREADS", "1"), "--json"], check=True, capture_output=True, text=True)
    lines = [json.loads(line) for line in run.stdout.splitlines()]
    done = next(line for line in lines if line["event"] == "done")
    tests = [line["test_accuracy"] for line in lines if line["event"] == "epoch"]
    found = {"tests": tests, **{key: done[key] for key in done if key.startswith("shifts")}}
    kept.write_text(json.dumps(found))
    return found


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    base = None
    print("| shifts | longest period | accuracy | lost | maxima avoided | wrong shifts |\n|---|---:|---:|---:|---:|---:|")
    for rule, period in RULES:
        runs = [train(folder, rule, period, seed) for seed in SEEDS]
        accuracy = statistics.mean(100 * run["tests"][-1] for run in runs)
        base = accuracy if base is None else base
        part = {key: 100 * sum(run[key] for run in runs) / sum(run["shifts"] for run in runs)
                for key in ("shifts_kept", "shifts_wrong")}
        print(f"| `{rule}` | {period or ''} | {accuracy:.2f} | {base - accuracy:.2f} | {part['shifts_kept']:.1f} % | "
              f"{part['shifts_wrong']:.1f} % |", flush=True)


if __name__ == "__main__":
    main()
