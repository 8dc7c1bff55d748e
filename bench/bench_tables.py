#!/usr/bin/python3
"""Thirteen tables made by rule, as people have them: what quern understands of each, and its accuracy beside scikit-learn's
(PyPI) on the same rows: bench_tables.py OUT [TABLE...]. QUERN is the command. quern gets the CSV files and its default mlp with
the options of the table; scikit-learn gets the same columns prepared as its guide says: medians and a mark for missing values,
one-hot categories, numbers with mean 0 and deviation 1."""
import csv
import json
import math
import os
import pathlib
import random
import subprocess
import sys

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.multioutput import MultiOutputClassifier, MultiOutputRegressor
from sklearn.neural_network import MLPClassifier, MLPRegressor

QUERN = os.environ.get("QUERN", "build/release/quern")
N = 2000
COLOURS = "red green blue white black".split()


class Table:
    """Rows of text as the file has them; features and targets as scikit-learn takes them."""

    def __init__(self, header, rows, features, targets, separator=",", options=(), task="class", groups=None):
        self.header, self.rows, self.features, self.targets = header, rows, features, targets
        self.groups = groups  # of the rows: each is in one part
        self.separator, self.options, self.task = separator, list(options), task

    def write(self, path, part):
        with open(path, "w", encoding="utf-8", newline="") as file:
            out = csv.writer(file, delimiter=self.separator, lineterminator="\n")
            if self.header:
                out.writerow(self.header)
            out.writerows(self.rows[i] for i in part)


def numbers(draw, n=N, width=4):
    return [[draw.gauss(0, 1) for _ in range(width)] for _ in range(n)]


def bent(row, noise, draw):
    """A class that no straight line gives."""
    return int(row[0] * row[1] + 0.5 * row[2] + noise * draw.gauss(0, 1) > 0)


def text(row, decimals=3, comma=False):
    shown = [f"{x:.{decimals}f}" for x in row]
    return [x.replace(".", ",") for x in shown] if comma else shown


def one_hot(value, values):
    return [float(value == v) for v in values]


def headerless(draw):
    x = numbers(draw)
    y = [bent(row, 0.3, draw) for row in x]
    return Table(None, [text(r) + [str(c)] for r, c in zip(x, y)], x, y)


def semicolons(draw):
    x = numbers(draw)
    y = [bent(row, 0.3, draw) for row in x]
    return Table(["a", "b", "c", "d", "klasse"], [text(r, comma=True) + [["nein", "ja"][c]] for r, c in zip(x, y)], x, y,
                 separator=";")


def quoted_commas(draw):
    x = numbers(draw)
    y = [bent(row, 0.3, draw) for row in x]
    names = ["yes, sure", 'no "never"']
    return Table(["a, first", "b", "c", "d", "answer"], [text(r) + [names[c]] for r, c in zip(x, y)], x, y)


def missing(draw):
    x = numbers(draw)
    y = [bent(row, 0.3, draw) for row in x]
    gone = [[draw.random() < 0.15 for _ in row] for row in x]
    rows = [[draw.choice(["", "NA", "?"]) if g else t for t, g in zip(text(r), gs)] + [str(c)] for r, gs, c in zip(x, gone, y)]
    features = [[0.0 if g else v for v, g in zip(r, gs)] + [float(g) for g in gs] for r, gs in zip(x, gone)]
    return Table(["a", "b", "c", "d", "label"], rows, features, y)


def categories(draw):
    cities = [f"city{i}" for i in range(200)]
    worth = {c: draw.gauss(0, 1) for c in cities}
    rows, features, y = [], [], []
    for row in numbers(draw, width=2):
        colour, city = draw.choice(COLOURS), draw.choice(cities)
        label = int(row[0] * (1 if colour in ("red", "blue") else -1) + 0.7 * worth[city] + 0.2 * draw.gauss(0, 1) > 0)
        rows.append([colour, city, *text(row), ["small", "big"][label]])
        features.append([*one_hot(colour, COLOURS), *one_hot(city, cities), *row])
        y.append(label)
    return Table(["colour", "city", "a", "b", "size"], rows, features, y)


def dates(draw):
    rows, features, y = [], [], []
    for row in numbers(draw, width=2):
        day = draw.randrange(4 * 365)
        date = np.datetime64("2020-01-01") + day
        label = int(math.sin(2 * math.pi * day / 365.2425) + 0.5 * row[0] + 0.2 * draw.gauss(0, 1) > 0)
        rows.append([str(date), *text(row), str(label)])
        turns = [(day + 3) / 7, day / 365.2425]
        features.append([day / 400 - 2, *row, *(f(2 * math.pi * t) for t in turns for f in (math.sin, math.cos))])
        y.append(label)
    return Table(["date", "a", "b", "label"], rows, features, y)


def index(draw):
    x = numbers(draw)
    y = [bent(row, 0.3, draw) for row in x]
    return Table(["", "a", "b", "c", "d", "label"], [[str(i), *text(r), str(c)] for i, (r, c) in enumerate(zip(x, y))], x, y)


def duplicates(draw):
    x = numbers(draw, N // 2)
    x = x + [draw.choice(x) for _ in range(N - len(x))]
    y = [int(row[0] * row[1] + 0.5 * row[2] > 0) for row in x]
    return Table(["a", "b", "c", "d", "label"], [text(r) + [str(c)] for r, c in zip(x, y)], x, y)


def rare(draw):
    """One of a class for a thousand of the other."""
    n = 10 * N
    x = numbers(draw, n)
    y = [int(i % 1000 == 0) for i in range(n)]
    x = [[v + 3 * c for v in r] for r, c in zip(x, y)]
    return Table(["a", "b", "c", "d", "fraud"], [text(r) + [["no", "yes"][c]] for r, c in zip(x, y)], x, y)


def prices(draw):
    rows, features, y = [], [], []
    for row in numbers(draw, width=3):
        price = int(420000 + 90000 * row[0] + 60000 * row[1] * row[2] + 10000 * draw.gauss(0, 1))
        rows.append([*text(row), str(price)])
        features.append(row)
        y.append([price])
    return Table(["a", "b", "c", "price"], rows, features, y, options=["--task", "regression"], task="amount")


def three_targets(draw):
    rows, features, y = [], [], []
    for row in numbers(draw, width=3):
        targets = [1.7 + 0.1 * row[0], 70000 + 9000 * row[1] * row[2], 40 + 5 * row[0] - 5 * row[1]]
        rows.append([*text(row), *(f"{t:.4f}" for t in targets)])
        features.append(row)
        y.append(targets)
    return Table(["a", "b", "c", "height", "weight", "age"], rows, features, y, options=["--target", "height,weight,age"],
                 task="amount")


def two_labels(draw):
    """A row is hot, loud, both or neither."""
    x = numbers(draw, width=3)
    y = [[int(r[0] + 0.5 * r[1] + 0.2 * draw.gauss(0, 1) > 0), int(r[1] * r[2] + 0.2 * draw.gauss(0, 1) > 0)] for r in x]
    return Table(["a", "b", "c", "hot", "loud"], [text(r) + [str(v) for v in t] for r, t in zip(x, y)], x, y,
                 options=["--target", "hot,loud"], task="labels")


def groups(draw):
    """Fifty rows of each person, whose numbers are shifted by their own; test rows are of other people."""
    rows, features, y = [], [], []
    shift = [draw.gauss(0, 0.5) for _ in range(N // 50)]
    for i, row in enumerate(numbers(draw)):
        label = bent(row, 0.3, draw)
        row = [v + shift[i // 50] for v in row]
        rows.append([f"person{i // 50}", *text(row), str(label)])
        features.append(row)
        y.append(label)
    return Table(["person", "a", "b", "c", "d", "label"], rows, features, y, options=["--group", "person"],
                 groups=[i // 50 for i in range(N)])


TABLES = [headerless, semicolons, quoted_commas, missing, categories, dates, index, duplicates, rare, prices, three_targets,
          two_labels, groups]


def split(table, draw):
    """Rows to train on and to test on: three quarters of them, or of their groups."""
    group = table.groups or list(range(len(table.rows)))
    order = sorted(set(group))
    draw.shuffle(order)
    trained = set(order[:len(order) * 3 // 4])
    return [i for i, g in enumerate(group) if g in trained], [i for i, g in enumerate(group) if g not in trained]


def r2(wanted, got):
    return float(np.mean(1 - np.mean((wanted - got) ** 2, 0) / np.var(wanted, 0)))


def rivals(table, train, test):
    x, y = np.array(table.features), np.array(table.targets)
    mean, deviation = x[train].mean(0), x[train].std(0) + 1e-9
    x = (x - mean) / deviation
    if table.task == "class":
        models = [HistGradientBoostingClassifier(random_state=1), MLPClassifier(max_iter=500, random_state=1)]
        return [100 * float(np.mean(m.fit(x[train], y[train]).predict(x[test]) == y[test])) for m in models]
    if table.task == "labels":
        models = [MultiOutputClassifier(HistGradientBoostingClassifier(random_state=1)), MLPClassifier(max_iter=500, random_state=1)]
        return [100 * float(np.mean(m.fit(x[train], y[train]).predict(x[test]) == y[test])) for m in models]
    centre, scale = y[train].mean(0), y[train].std(0)
    scaled = (y - centre) / scale
    models = [MultiOutputRegressor(HistGradientBoostingRegressor(random_state=1)), MLPRegressor(max_iter=500, random_state=1)]
    return [100 * r2(scaled[test], m.fit(x[train], scaled[train] if scaled.shape[1] > 1 or i == 0 else scaled[train, 0])
                     .predict(x[test]).reshape(len(test), -1)) for i, m in enumerate(models)]


METRICS = {"class": "accuracy", "amount": "r2", "labels": "label_accuracy"}


def quern(*arguments):
    done = subprocess.run([QUERN, *map(str, arguments)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{arguments}: {done.stderr}")
    return done


def ours(table, folder, train, test):
    table.write(folder / "train.csv", train)
    table.write(folder / "test.csv", test)
    weights = folder / "w.safetensors"
    quern("train", "mlp", "--data", f"csv:{folder / 'train.csv'}", "--save", weights, "--epochs", 60, "--json", *table.options)
    judged = quern("evaluate", "--weights", weights, "--data", f"csv:{folder / 'test.csv'}", "--split", "train",
                   "--json")
    result = json.loads([line for line in judged.stdout.splitlines() if line.startswith("{")][-1])
    return 100 * result[METRICS[table.task]], result["samples"]


def understood(table, folder):
    """What quern inspect says of the columns, and of what it left out."""
    shown = quern("inspect", f"csv:{folder / 'train.csv'}", *table.options).stdout
    return "; ".join(line for line in shown.splitlines() if line.startswith(("table", "columns", "left out", "target")))


def main(out, names):
    out = pathlib.Path(out)
    print("| table | quern mlp | sklearn MLP | sklearn boosting | inspect |\n|---|---|---|---|---|")
    for make in TABLES:
        if names and make.__name__ not in names:
            continue
        draw = random.Random(make.__name__)
        table = make(draw)
        train, test = split(table, draw)
        folder = out / make.__name__
        folder.mkdir(parents=True, exist_ok=True)
        mine, n = ours(table, folder, train, test)
        boosting, network = rivals(table, train, test)
        print(f"| {make.__name__} ({n} rows judged{', R2' if table.task == 'amount' else ''}) | {mine:.1f} | {network:.1f} | "
              f"{boosting:.1f} | {understood(table, folder)} |", flush=True)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
