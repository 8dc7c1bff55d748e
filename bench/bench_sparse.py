#!/usr/bin/env python3
"""What the sparse update saves, and what it costs: usage bench_sparse.py [memory|accuracy FOLDER FIRST SECOND].

memory: for each of ROWS the planned memory of a training step and its measured time, in f32. accuracy: lenet-relu is trained on
the pictures FIRST (--data) and then, with a new head, on SECOND, by each of UPDATES for SEEDS (default 1,2,3): mean test accuracy;
runs are kept in FOLDER. QUERN is the program, THREADS 1 unless said."""
import json
import os
import pathlib
import statistics
import subprocess
import sys

os.environ.setdefault("QUERN_RUNS", "none")  # runs of a bench are not kept

QUERN = os.environ.get("QUERN", "build/release/quern")
THREADS = os.environ.get("THREADS", "1")
SEEDS = os.environ.get("SEEDS", "1,2,3").split(",")
POINTWISE = "stage7.block1.*=1,stage6.*.expand.conv=0.25,stage5.*.expand.conv=0.25"
ROWS = [("mobilenet-v2", 16, update) for update in ("", "weights=12,biases=12", "weights=1", "weights=1,biases=22",
                                                    f"weights=1,biases=22,{POINTWISE}")]
ROWS += [("vgg11", 16, update) for update in ("", "weights=3", "weights=1,biases=4,stage5.*=0.25",
                                              "weights=1,biases=6,stage5.*=0.25,stage4.*=0.125")]
UPDATES = ["", "weights=1", "weights=1,biases=4", "weights=1,biases=4,fc1=0.1", "weights=1,biases=4,conv2=0.5,fc1=0.1",
           "weights=1,biases=4,conv2=0.5,fc1=0.1,channels=smallest", "weights=1,biases=4,conv2=0.5,fc1=0.1,channels=first",
           "weights=2"]


def events(*arguments):
    done = subprocess.run([QUERN, *map(str, arguments), "--json"], check=True, capture_output=True, text=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def memory():
    print("| a step of | `--update` | all memory | feature maps | gradients | state | ms |\n|---|---|---:|---:|---:|---:|---:|")
    for model, batch, update in ROWS:
        how = [model, "--data", "synthetic", "--batch", batch, "--threads", THREADS, *(["--update", update] if update else [])]
        plan = events("plan", *how)[0]
        step = next(p for p in plan["programs"] if p["training"])
        timed = events("profile", *how, "--steps", 5, "--no-meter")[-1]
        kinds = (f"{step[f'peak_{kind}_bytes'] / 1e6:.2f}" for kind in ("feature", "gradient", "state"))
        print(f"| `{model}`, {batch} | {f'`{update}`' if update else 'all'} | {plan['peak_bytes'] / 1e6:.1f} | "
              f"{' | '.join(kinds)} | {timed['median_step_ms']:.1f} |", flush=True)


def run(*arguments):
    subprocess.run([QUERN, *map(str, arguments), "--threads", THREADS], check=True, capture_output=True)


def accuracy(folder, first, second):
    folder = pathlib.Path(folder)
    folder.mkdir(exist_ok=True)
    for update in UPDATES:
        found = []
        for seed in SEEDS:
            begin, kept = folder / f"begin-{seed}", folder / f"{update or 'all'}-{seed}.json".replace("*", "_")
            if not begin.exists():
                run("train", "lenet-relu", "--data", first, "--seed", seed, "--epochs", 10, "--no-test", "--save", begin)
            if not kept.exists():
                lines = events("train", "lenet-relu", "--data", second, "--load", begin, "--head", "data", "--seed", seed,
                               "--epochs", 4, "--threads", THREADS, *(["--update", update] if update else []))
                kept.write_text(json.dumps([line["test_accuracy"] for line in lines if line["event"] == "epoch"]))
            found.append(100 * json.loads(kept.read_text())[-1])
        print(f"{update or 'all':60}" + "".join(f"{x:8.2f}" for x in found) + f"   mean {statistics.mean(found):6.2f}", flush=True)


if __name__ == "__main__":
    accuracy(*sys.argv[2:]) if sys.argv[1:2] == ["accuracy"] else memory()
