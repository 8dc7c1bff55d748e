#!/usr/bin/env python3
"""The classifier trained on automatic labels beside one trained on true labels: bench_label_final.py [SPLITS [SEED]].

As the benchmark of pictures in docs/labelling.md: six classes of Fashion-MNIST are known by 50 samples each, and a stream of
6000 has another one after every 1200. A labeller labels it; then MODEL (default lenet5) is trained on what it keeps, and on
the same samples with their true classes, and tested on the 10,000 test images. Without questions, found classes are matched
one to one with true ones so that most samples that are kept are right; with ten, `quern label ask` names them. Before both,
`quern label review` looks at all samples once more."""
import collections
import csv
import gzip
import itertools
import json
import os
import pathlib
import random
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile

os.environ.setdefault("QUERN_RUNS", "none")  # runs of a bench are not kept

QUERN = os.environ.get("QUERN", "build/release/quern")
MODEL = os.environ.get("MODEL", "lenet5")
EPOCHS = os.environ.get("EPOCHS", "15")
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
PIXELS, N_CLASSES, N_KNOWN, N_LABELLED, N_STREAM = 28 * 28, 10, 6, 50, 6000


def read(part):
    with gzip.open(FASHION / f"{part}-images-idx3-ubyte.gz") as images, gzip.open(FASHION / f"{part}-labels-idx1-ubyte.gz") as labels:
        pixels, classes = images.read()[16:], labels.read()[8:]
    return [(pixels[i * PIXELS:(i + 1) * PIXELS], c) for i, c in enumerate(classes)]


def write_array(path, kind, shape, data):
    header = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def write_set(folder, name, samples):
    """A data set of (pixels, class), by its specification."""
    x, y = folder / f"{name}.x.npy", folder / f"{name}.y.npy"
    write_array(x, "|u1", (len(samples), 28, 28, 1), b"".join(pixels for pixels, _ in samples))
    write_array(y, "<i4", (len(samples),), b"".join(struct.pack("<i", c) for _, c in samples))
    return f"npy:{x},{y}"


def draw(train, seed):
    """Known samples and a stream; classes are numbered as they appear."""
    rng = random.Random(seed)
    number = dict(zip(rng.sample(range(N_CLASSES), N_CLASSES), range(N_CLASSES)))
    of_class = collections.defaultdict(list)
    for pixels, c in rng.sample(train, len(train)):
        of_class[number[c]].append((pixels, number[c]))
    known = [of_class[c].pop() for c in range(N_KNOWN) for _ in range(N_LABELLED)]
    stream = [of_class[rng.randrange(N_KNOWN + i * (N_CLASSES - N_KNOWN + 1) // N_STREAM)].pop() for i in range(N_STREAM)]
    return number, known, stream


def run(*words, **how):
    done = subprocess.run([QUERN, *map(str, words)], capture_output=True, text=True, **how)
    if done.returncode:
        sys.exit(f"{words}: {done.stderr}")
    return done.stdout


def match(labels, truth):
    """The class of each found one, so that most samples are right; None: it has none."""
    found = sorted({label for label in labels if label.startswith("new-")})
    count = collections.Counter(zip(labels, truth))
    classes = list(range(N_KNOWN, N_CLASSES))
    places = found + [None] * len(classes)
    best = max(itertools.permutations(places, len(classes)),
               key=lambda way: sum(count[label, c] for label, c in zip(way, classes) if label))
    return {label: str(c) for label, c in zip(best, classes) if label}


def read_kept(labeller, class_of):
    """Labels of the samples of the stream that a labeller keeps, and their true classes by their pixels."""
    raw = labeller.read_bytes()
    begin = 8 + struct.unpack("<Q", raw[:8])[0]
    told = json.loads(raw[8:begin])

    def tensor(name):
        first, last = told[name]["data_offsets"]
        return raw[begin + first:begin + last]

    classes, pixels = tensor("samples.class"), tensor("samples.x")
    numbers = struct.unpack(f"<{len(classes) // 4}i", classes)
    labels = [told["__metadata__"][f"name.{number:05d}"] for number in numbers]
    truth = [class_of[pixels[i * PIXELS:(i + 1) * PIXELS]] for i in range(len(labels))]
    return labels[N_KNOWN * N_LABELLED:], truth[N_KNOWN * N_LABELLED:]


def rename(labeller, names):
    have = {json.loads(line).get("name") for line in run("label", "show", labeller, "--json").splitlines()}
    for old, new in names.items():
        if old in have:
            run("label", "name", labeller, f"{old}={new}")


def read_classes(weights):
    """Names of a checkpoint's classes."""
    with open(weights, "rb") as file:
        told = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))["__metadata__"]
    names = json.loads(told.get("preparation.class_names") or "[]")
    return names or [str(c) for c in range(int(told["classes"]))]


def test(folder, data, tests, seed):
    """Per cent right of the test images, of which those of classes that the training set lacks are wrong. An empty image of the
    last class tells how many there are."""
    weights = folder / "weights"
    run("train", MODEL, "--data", data, "--epochs", EPOCHS, "--no-test", "--seed", seed, "--threads", 1, "--save", weights,
        "--json")
    names = read_classes(weights)
    place = {int(name): i for i, name in enumerate(names) if name.isdigit()}
    there = [(pixels, place[c]) for pixels, c in tests if c in place] + [(bytes(PIXELS), len(names) - 1)]
    done = json.loads(run("evaluate", "--weights", weights, "--data", write_set(folder, "test", there), "--split", "train",
                          "--threads", 1, "--json").splitlines()[-1])
    return 100 * done["accuracy"] * len(there) / len(tests)


def try_split(train, tests, seed, folder):
    number, known, stream = draw(train, seed)
    tests = [(pixels, number[c]) for pixels, c in tests]
    truth = [c for _, c in stream]
    labeller, asked, labels = folder / "l.qnl", folder / "asked.qnl", folder / "labels.csv"
    data = write_set(folder, "stream", stream)
    run("label", "init", "--known", write_set(folder, "known", known), "--out", labeller, "--seed", seed, "--threads", 1)
    run("label", "stream", labeller, "--data", data, "--out", labels)
    with open(labels, encoding="utf-8") as file:
        said = [row["label"] for row in csv.DictReader(file)]
    matched = match(said, truth)
    run("label", "review", labeller)
    shutil.copy(labeller, asked)
    rename(labeller, match(*read_kept(labeller, dict(known + stream))))
    right = 100 * sum(matched.get(label, label) == str(c) for label, c in zip(said, truth)) / len(truth)
    questions = [json.loads(line) for line in run("label", "ask", asked, 10, "--json").splitlines()]
    questions = [q for q in questions if q.get("event") == "question"]
    run("label", "ask", asked, 10, "--answers", input="".join(f"{truth[q['sample'] - 1]}\n" for q in questions))
    results = [test(folder, f"labelled:{file}", tests, seed) for file in (labeller, asked)]
    true = test(folder, write_set(folder, "true", known + stream), tests, seed)
    print(f"seed {seed}: labels right {right:.1f}; trained on true labels {true:.1f}, on automatic ones {results[0]:.1f}, with "
          f"{len(questions)} answers {results[1]:.1f}", flush=True)
    return [right, true, *results, true - results[0], true - results[1]]


def main():
    n = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    first = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    train, tests = read("train"), read("t10k")
    rows = []
    for seed in range(first, first + n):
        with tempfile.TemporaryDirectory() as folder:
            rows.append(try_split(train, tests, seed, pathlib.Path(folder)))
    print("labels right, by true labels, by automatic ones, with answers, less, less with answers:")
    print("  ".join(f"{statistics.mean(column):.2f}" for column in zip(*rows)))


if __name__ == "__main__":
    main()
