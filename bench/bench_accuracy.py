#!/usr/bin/env python3
"""Accuracy of numerics beside f32 on real pictures: usage bench_accuracy.py FOLDER [NUMERICS...].

Trains each of MODELS (default lenet5:3,lenet-relu:3, a name and its epochs, and :DATA if it is not fashion-mnist) with f32 and each of the numerics (names or
files) for each of SEEDS (default 1,2,3), keeps every run's tests in FOLDER, so that a second call trains only what is
missing, and prints test accuracies, their mean and the loss against f32 in points. DRAW=FILE.svg draws test accuracy by
epoch, the mean over seeds; THREADS is 1 unless said; EXTRA has further options of quern train."""
import json
import os
import pathlib
import statistics
import subprocess
import sys

os.environ.setdefault("QUERN_RUNS", "none")  # runs of a bench are not kept

QUERN = os.environ.get("QUERN", "build/release/quern")
MODELS = os.environ.get("MODELS", "lenet5:3,lenet-relu:3").split(",")
SEEDS = os.environ.get("SEEDS", "1,2,3").split(",")
COLOURS = ("#222222", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c564b", "#7f7f7f", "#bcbd22")


def train(folder, model, epochs, data, numerics, seed):
    """Test accuracy after each epoch; None: it did not train to the end."""
    place = "" if data == "fashion-mnist" else pathlib.Path(data).name + "-"
    kept = folder / f"{place}{model}-{epochs}-{pathlib.Path(numerics).stem}-{seed}.json"
    if kept.exists():
        return json.loads(kept.read_text())
    run = subprocess.run([QUERN, "train", model, "--data", data, "--epochs", epochs, "--seed", seed, "--threads",
                          os.environ.get("THREADS", "1"), "--json", "--numerics", numerics,
                          *os.environ.get("EXTRA", "").split()], capture_output=True, text=True)
    if run.returncode:
        print(run.stderr.splitlines()[-1], file=sys.stderr)
        return None
    lines = (json.loads(line) for line in run.stdout.splitlines())
    tests = [line["test_accuracy"] for line in lines if line["event"] == "epoch"]
    kept.write_text(json.dumps(tests))
    return tests


def draw(path, curves):
    """Curves: {model: {numerics: mean accuracy by epoch}}, each model in a frame of its own."""
    wide, high, left, top = 340, 250, 46, 34
    parts = []
    for place, (model, rows) in enumerate(curves.items()):
        x0, n = left + place * (wide + 60), max(len(row) for row in rows.values())
        least = min(min(row) for row in rows.values())
        least, most = int(least * 20) / 20, int(max(max(row) for row in rows.values()) * 50 + 1) / 50

        def at(epoch, accuracy):
            return x0 + wide * epoch / max(n - 1, 1), top + high * (most - accuracy) / (most - least)
        parts.append(f'<text x="{x0}" y="{top - 12}" font-weight="bold">{model}</text>')
        for tick in range(5):
            accuracy = least + (most - least) * tick / 4
            y = at(0, accuracy)[1]
            parts.append(f'<path d="M{x0} {y:.1f}h{wide}" stroke="#ddd"/><text x="{x0 - 6}" y="{y + 4:.1f}" '
                         f'text-anchor="end">{100 * accuracy:.1f}</text>')
        for epoch in range(n):
            parts.append(f'<text x="{at(epoch, least)[0]:.1f}" y="{top + high + 16}" text-anchor="middle">{epoch + 1}</text>')
        for i, (name, row) in enumerate(rows.items()):
            points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(e, a) for e, a in enumerate(row)))
            parts.append(f'<polyline points="{points}" fill="none" stroke="{COLOURS[i % len(COLOURS)]}" stroke-width="2"/>'
                         f'<text x="{x0 + wide - 4}" y="{top + high - 8 - 14 * (len(rows) - 1 - i)}" text-anchor="end" '
                         f'fill="{COLOURS[i % len(COLOURS)]}">{name}</text>')
    width = left + len(curves) * (wide + 60)
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {top + high + 40}" font-family="sans-serif" '
                    f'font-size="12"><title>Test accuracy in % by epoch</title>'
                    f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}</svg>\n')


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    curves = {}
    for model, epochs, *rest in (row.split(":", 2) for row in MODELS):
        data = rest[0] if rest else "fashion-mnist"
        title = model if not rest else f"{model}, {pathlib.Path(data).name}"
        base = None
        for numerics in ["f32", *sys.argv[2:]]:
            runs = [run for run in (train(folder, model, epochs, data, numerics, seed) for seed in SEEDS) if run]
            if not runs:
                continue
            last, name = [100 * run[-1] for run in runs], pathlib.Path(numerics).stem
            mean = statistics.mean(last)
            base = mean if base is None else base
            curves.setdefault(title, {})[name] = [statistics.mean(epoch) for epoch in zip(*runs)]
            print(f"{title:22}{name:16}" + "".join(f"{x:8.2f}" for x in last) + f"   mean {mean:6.2f}   loss {base - mean:5.2f}",
                  flush=True)
    if os.environ.get("DRAW"):
        draw(pathlib.Path(os.environ["DRAW"]), curves)


if __name__ == "__main__":
    main()
