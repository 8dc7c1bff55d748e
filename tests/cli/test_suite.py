"""Every model of the zoo trains, resumes to the same bits, and is evaluated: classifiers on eight
images, the others on synthetic data.

The heavy ones run in test_suite_heavy.py."""
import json
import subprocess
import sys
import unittest

import quern

HEAVY = ("vgg16", "vgg19", "resnet34", "resnet50", "resnet101", "resnet152", "googlenet",
         "inception-v3", "xception", "densenet40", "densenet100", "seq2seq", "bert-base")
STEPS, HALF = 4, 2
# What makes a model small enough to be tried in passing.
SMALLER = {"seq2seq": ("--hidden", 64), "bert-base": ("--length", 16),
           "dqn": ("--net", "mlp", "--replay", 500, "--fill", 32)}
DATA = {"dqn": "cartpole"}  # synthetic data is no game that could be played
CONSTANT = ("--schedule", "constant", "--warmup", 0, "--lr", 0.0001, "--seed", 3)


def all_models():
    """Name -> task."""
    text = subprocess.run([quern.QUERN, "models", "--json"], check=True, capture_output=True,
                          text=True).stdout
    rows = map(json.loads, text.splitlines())
    return {row["model"]: row["task"] for row in rows}


class Suite(quern.Case):
    names = None  # of the models; None: all that are not heavy

    def train(self, name, *options):
        is_classifier = all_models()[name] == "classification"
        data = (self.make_images(n=8, side=32) if is_classifier
                else DATA.get(name, "synthetic"))
        return self.run_quern("train", name, "--data", data, "--batch", 2, *CONSTANT,
                              *SMALLER.get(name, ()), "--no-test", "--json", *options)

    def resume(self, name, *options):
        return self.run_quern("train", name, "--resume", "part.safetensors", "--no-test", "--json",
                              *options)

    def try_model(self, name):
        whole = self.train(name, "--steps", STEPS, "--save", "whole.safetensors", "--threads", 2)
        self.train(name, "--steps", HALF, "--save", "part.safetensors", "--threads", 1)
        rest = self.resume(name, "--steps", STEPS, "--save", "part.safetensors", "--threads", 1)
        self.assertEqual([event["loss"] for event in whole.of("step")][HALF:],
                         [event["loss"] for event in rest.of("step")])
        self.assertEqual(self.bytes_of("part.safetensors"), self.bytes_of("whole.safetensors"))
        split = ("--split", "train") if all_models()[name] == "classification" else ()
        result = self.run_quern("evaluate", name, "--weights", "whole.safetensors", "--batch", 2,
                                *split, "--json").events[-1]
        self.assertGreater(result["samples"], 0)

    def test_models(self):
        for name in self.names or [name for name in all_models() if name not in HEAVY]:
            with self.subTest(name):
                self.try_model(name)

    def test_all_are_tried(self):
        self.assertLessEqual(set(HEAVY), set(all_models()))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        Suite.names = sys.argv[1:]
        sys.argv[1:] = []
    unittest.main()
