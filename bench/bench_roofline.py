#!/usr/bin/python3
"""Where the time of a training step goes, beside the least that this machine would allow.

    bench/bench_roofline.py OUT [--models A,B] [--batch 16] [--quern PROGRAM]

Measures what the machine can do at most (quern devices --calibrate), profiles each model, and
holds every operation against the larger of its FLOPs (of the direct sums, also where Winograd's take
fewer) over the peak and its bytes over the memory's bandwidth, both of all cores. What lies in a
cache can be faster than that. Times are medians. OUT.md gets a line for each model, with its share of the peak, and the
ten slowest operations of each; OUT.csv all operations. Good only from a machine that is otherwise
idle: the load is noted."""

import argparse
import csv
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SUITE = ("lenet5", "alexnet", "vgg11", "vgg16", "resnet18", "resnet50", "squeezenet", "mobilenet-v1",
         "mobilenet-v2", "googlenet", "xception", "densenet40", "dcgan", "dqn", "char-lstm")
FIELDS = ("model", "batch", "name", "type", "ms", "share", "mflop", "mb", "gflops", "gb_per_s",
          "least_ms", "of_least")
N_SLOWEST, STEP_SECONDS, LEAST_STEPS, MOST_STEPS = 10, 5.0, 6, 200


def last_object(command):
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return json.loads(result.stdout.splitlines()[-1])


def machine(options):
    """FLOP/s in float and bytes a second of memory, of all cores."""
    found = last_object([options.quern, "devices", "--calibrate", "--json"])
    flops = sum(p["all_flops"] for p in found["peaks"] if p["dtype"] == "f32")
    return flops, found["levels"][-1]["all_bandwidth"]


def profile(options, model, steps):
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "operations.csv")
        done = last_object([options.quern, "profile", model, "--batch", str(options.batch),
                            "--steps", str(steps), "--csv", path, "--json"])
        with open(path, encoding="utf-8", newline="") as file:
            return done, list(csv.DictReader(file))


def operations(options, model, peaks):
    """What the model's profile says of the whole step, and a row for each operation."""
    done, _ = profile(options, model, LEAST_STEPS)
    steps = int(STEP_SECONDS * 1e3 / done["median_step_ms"])
    steps = min(max(steps, LEAST_STEPS), MOST_STEPS)
    done, found = profile(options, model, steps)
    rows = []
    for one in found:
        ms = float(one["p50_us"]) * 1e-3 * int(one["calls"]) / done["steps"]
        flops, n_bytes = (float(one[k]) / done["steps"] for k in ("flops", "bytes"))
        least = 1e3 * max(flops / peaks[0], n_bytes / peaks[1])
        rows.append({"model": model, "batch": options.batch, "name": one["name"],
                     "type": one["type"], "ms": ms, "share": ms / done["median_step_ms"],
                     "mflop": flops / 1e6, "mb": n_bytes / 1e6,
                     "gflops": flops / ms / 1e6 if ms else 0,
                     "gb_per_s": n_bytes / ms / 1e6 if ms else 0, "least_ms": least,
                     "of_least": least / ms if ms else 0})
    rows.sort(key=lambda row: -row["ms"])
    return done, rows


def summary_line(done, rows, peaks):
    flops, least = sum(r["mflop"] for r in rows) * 1e6, sum(r["least_ms"] for r in rows)
    step = done["median_step_ms"]
    memory = sum(r["least_ms"] for r in rows if r["mb"] / peaks[1] > r["mflop"] / peaks[0])
    return (f"| {done['model']} | {step:.2f} | {flops / 1e9:.2f} | "
            f"{100 * flops / peaks[0] / step * 1e3:.0f} % | {least:.2f} | {100 * least / step:.0f} % | "
            f"{100 * memory / least:.0f} % |")


def slowest_table(rows):
    lines = ["| operation | type | ms | of the step | MFLOP | MB | GFLOP/s | GB/s | least ms |",
             "|---|---|---:|---:|---:|---:|---:|---:|---:|"]
    for r in rows[:N_SLOWEST]:
        lines.append(f"| {r['name']} | {r['type']} | {r['ms']:.3f} | {100 * r['share']:.1f} % | "
                     f"{r['mflop']:.1f} | {r['mb']:.1f} | {r['gflops']:.0f} | {r['gb_per_s']:.1f} | "
                     f"{r['least_ms']:.3f} |")
    return lines


def write_results(options, peaks, lines, tables, rows):
    head = [f"Peak {peaks[0] / 1e9:.0f} GFLOP/s, memory {peaks[1] / 1e9:.1f} GB/s, batch "
            f"{options.batch}, load average {os.getloadavg()[0]:.1f}.", "",
            "| model | ms a step | GFLOP | of the peak | least ms | of the step | of it memory |",
            "|---|---:|---:|---:|---:|---:|---:|"]
    with open(options.out + ".md", "w", encoding="utf-8") as file:
        file.write("\n".join(head + lines + tables) + "\n")
    with open(options.out + ".csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        writer.writeheader()
        writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()}
                         for row in rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="where OUT.md and OUT.csv go")
    parser.add_argument("--models", default=",".join(SUITE))
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--quern", default=os.path.join(HERE, "..", "build", "release", "quern"))
    options = parser.parse_args()
    peaks = machine(options)
    lines, tables, all_rows = [], [], []
    for model in options.models.split(","):
        print(f"{model} ...", file=sys.stderr, flush=True)
        done, rows = operations(options, model, peaks)
        lines.append(summary_line(done, rows, peaks))
        tables += ["", f"### {model}", "", *slowest_table(rows)]
        all_rows += rows
        write_results(options, peaks, lines, tables, all_rows)


if __name__ == "__main__":
    main()
