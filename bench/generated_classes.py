#!/usr/bin/python3
"""Sorts generated images into the classes of the data that the generator learned from.

    bench/generated_classes.py WEIGHTS [--data fashion-mnist] [--count 500] [--least 8]

WEIGHTS is a checkpoint of dcgan. A classifier is trained on the data at the generator's size, then
names the class of so many generated images, each of a seed of its own. Printed are the classifier's
accuracy and the images in each class. A class counts if it has at least a fifth of an even share;
the exit status is 1 if fewer than --least classes do."""

import argparse
import collections
import json
import os
import subprocess
import sys
import tempfile

PREDICTED_AT_ONCE = 100


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


def generate(options, folder):
    images = []
    for seed in range(options.count):
        images.append(os.path.join(folder, f"{seed}.png"))
        run(options.quern, "sample", "dcgan", "--weights", options.weights, "--count", 1, "--seed",
            seed, "--picture", images[-1], "--threads", 1)
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
    parser.add_argument("--epochs", type=int, default=3, help="its passes over the data")
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
