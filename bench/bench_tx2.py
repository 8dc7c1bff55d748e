#!/usr/bin/python3
"""Trains the six models that could not be trained on an 8 GB Jetson TX2, and says what they need.

    bench/bench_tx2.py OUT [--steps 20] [--batch 4] [--models A,B] [--quern PROGRAM]

The models are those of Liu et al., "Performance Analysis and Characterization of Training Deep
Learning Models on Mobile Devices" (2019, arXiv 1906.04278), that could not start or crashed there.
Each is trained for some steps on synthetic data in a process of its own. OUT.md gets a table: the
process's largest resident memory beside the least that any trainer must hold, which is the
parameters and the optimiser's state (momentum); OUT.csv the same as numbers."""

import argparse
import csv
import json
import os
import subprocess
import sys

os.environ.setdefault("QUERN_RUNS", "none")  # runs of a bench are not kept

HERE = os.path.dirname(os.path.abspath(__file__))
LARGE = ("--input", "224x224x3", "--classes", "1000")
MODELS = {
    "vgg19": ("VGG19, 224x224", LARGE),
    "bert-base": ("BERT-base, sequence 128", ("--length", "128")),
    "resnet101": ("ResNet101, 224x224", LARGE),
    "resnet152": ("ResNet152, 224x224", LARGE),
    "densenet100": ("DenseNet100, 32x32", ()),
    "seq2seq": ("seq2seq, 30 + 30 words", ()),
}
FIELDS = ("model", "what", "batch", "steps", "first_loss", "last_loss", "median_step_ms",
          "peak_rss_bytes", "peak_bytes", "least_bytes", "parameters")


def train(options, name):
    """A row of the table."""
    what, extra = MODELS[name]
    command = [options.quern, "train", name, "--data", "synthetic", *extra, "--batch",
               str(options.batch), "--steps", str(options.steps), "--optimizer", "sgd", "--lr",
               "0.001", "--momentum", "0.9", "--schedule", "constant", "--no-test", "--json"]
    print(f"{what} ...", file=sys.stderr, flush=True)
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    events = [json.loads(line) for line in result.stdout.splitlines()]
    losses = [event["loss"] for event in events if event["event"] == "step"]
    done = events[-1]
    return dict(zip(FIELDS, (name, what, options.batch, len(losses), losses[0], losses[-1],
                             done["median_step_ms"], done["peak_rss_bytes"], done["peak_bytes"],
                             done["parameter_bytes"], done["parameters"])))


def write_table(path, rows):
    mib = 1 / (1 << 20)
    lines = ["| model | parameters | batch | steps | median step, s | peak resident, MiB "
             "| least, MiB |", "|---|---:|---:|---:|---:|---:|---:|"]
    for row in rows:
        lines.append(f"| {row['what']} | {row['parameters'] / 1e6:.1f} M | {row['batch']} "
                     f"| {row['steps']} | {row['median_step_ms'] / 1e3:.2f} "
                     f"| {row['peak_rss_bytes'] * mib:.0f} | {row['least_bytes'] * mib:.0f} |")
    with open(path + ".md", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    with open(path + ".csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows(rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="where OUT.md and OUT.csv go")
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--models", default=",".join(MODELS))
    parser.add_argument("--quern", default=os.path.join(HERE, "..", "build", "release", "quern"))
    options = parser.parse_args()
    rows = []
    for name in options.models.split(","):
        rows.append(train(options, name))
        write_table(options.out, rows)
    with open(options.out + ".md", encoding="utf-8") as file:
        print(file.read(), end="")


if __name__ == "__main__":
    main()
