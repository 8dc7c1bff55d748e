#!/usr/bin/python3
"""Sorts generated images into the classes of the data that the generator learned from.

    bench/generated_classes.py WEIGHTS [--data fashion-mnist] [--count 500] [--least 8]

WEIGHTS is a checkpoint of dcgan. A classifier is trained on the data at the generator's size, then
names the class of each of so many generated images. Printed are the classifier's accuracy and the
images in each class. A class counts if it has at least a fifth of an even share;
the exit status is 1 if fewer than --least classes do."""

import argparse
import collections
import json
import math
import os
import struct
import subprocess
import sys
import tempfile
import zlib

os.environ.setdefault("QUERN_RUNS", "none")  # runs of a bench are not kept

SIDE, LINE, PREDICTED_AT_ONCE = 32, 2, 100


def run(*command):
    return subprocess.run([str(word) for word in command], check=True, capture_output=True,
                          text=True).stdout


def events(output, kind=None):
    lines = (json.loads(line) for line in output.splitlines())
    return [event for event in lines if kind is None or event.get("event") == kind]


def train_classifier(options, weights):
    output = run(options.quern, "train", options.classifier, "--data", options.data, "--input",
                 "32x32x3", "--epochs", options.epochs, "--save", weights, "--json")
    return events(output, "done")[-1]["test_accuracy"]


def read_chunks(path):
    with open(path, "rb") as file:
        file.read(8)
        while head := file.read(8):
            length, kind = struct.unpack(">I4s", head)
            yield kind, file.read(length)
            file.read(4)


def paeth(left, up, corner):
    guess = left + up - corner
    return min((left, up, corner), key=lambda value: abs(guess - value))


def read_rows(path):
    """The rows of a PNG of 8-bit colours, 3 bytes a pixel."""
    chunks = list(read_chunks(path))
    width = struct.unpack(">I", chunks[0][1][:4])[0]
    data = zlib.decompress(b"".join(part for kind, part in chunks if kind == b"IDAT"))
    rows, above = [], bytes(3 * width)
    for begin in range(0, len(data), 3 * width + 1):
        kind, row = data[begin], bytearray(data[begin + 1:begin + 3 * width + 1])
        for i, up in enumerate(above):
            left, corner = (row[i - 3], above[i - 3]) if i > 2 else (0, 0)
            add = (0, left, up, (left + up) // 2, paeth(left, up, corner))[kind]
            row[i] = (row[i] + add) % 256
        rows.append(row)
        above = row
    return rows


def write_png(path, rows):
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(
            ">I", zlib.crc32(kind + data))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n")
        file.write(chunk(b"IHDR", struct.pack(">IIBBBBB", len(rows[0]) // 3, len(rows), 8, 2, 0, 0,
                                              0)))
        file.write(chunk(b"IDAT", zlib.compress(b"".join(b"\0" + row for row in rows))))
        file.write(chunk(b"IEND", b""))


def generate(options, folder):
    """Files of one image each, cut from the grid."""
    grid = os.path.join(folder, "grid.png")
    run(options.quern, "sample", "dcgan", "--weights", options.weights, "--count", options.count,
        "--picture", grid)
    rows, columns, images = read_rows(grid), math.ceil(math.sqrt(options.count)), []
    for i in range(options.count):
        top, left = (place * (SIDE + LINE) for place in divmod(i, columns))
        images.append(os.path.join(folder, f"{i}.png"))
        write_png(images[-1], [row[3 * left:3 * (left + SIDE)] for row in rows[top:top + SIDE]])
    return images


def classify(options, weights, images):
    counts = collections.Counter()
    for first in range(0, len(images), PREDICTED_AT_ONCE):
        output = run(options.quern, "predict", options.classifier, "--weights", weights, "--json",
                     *images[first:first + PREDICTED_AT_ONCE])
        counts.update(event["classes"][0]["class"] for event in events(output))
    return counts


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("weights", help="checkpoint of dcgan")
    parser.add_argument("--data", default="fashion-mnist", help="what to train the classifier on")
    parser.add_argument("--classifier", default="lenet5", help="its model")
    parser.add_argument("--epochs", type=int, default=2, help="its passes over the data")
    parser.add_argument("--count", type=int, default=500, help="images to generate")
    parser.add_argument("--classes", type=int, default=10, help="classes of the data")
    parser.add_argument("--least", type=int, default=8, help="classes that must come up")
    parser.add_argument("--quern", default="build/release/quern", help="the program")
    return parser.parse_args()


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as folder:
        weights = os.path.join(folder, "classifier.safetensors")
        accuracy = train_classifier(options, weights)
        counts = classify(options, weights, generate(options, folder))
    print(f"{options.classifier} knows {100 * accuracy:.1f} % of the test images")
    for name, count in counts.most_common():
        print(f"{count:6d}  {name}")
    seen = sum(count >= options.count / options.classes / 5 for count in counts.values())
    print(f"{seen} of {options.classes} classes")
    return int(seen < options.least)


if __name__ == "__main__":
    sys.exit(main())
