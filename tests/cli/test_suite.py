"""Every model of the zoo trains, resumes to the same bits, and is evaluated: classifiers on eight
images of their own size, the others on synthetic data.

The heavy ones run in test_suite_heavy.py."""
import json
import subprocess
import sys
import unittest

import quern

HEAVY = ("vgg16", "vgg19", "resnet34", "resnet50", "resnet101", "resnet152", "googlenet",
         "inception-v3", "xception", "densenet40", "densenet100", "efficientnet-lite1",
         "efficientnet-lite2", "seq2seq", "bert-base")
STEPS, HALF = 4, 2
# What makes a model small enough to be tried in passing.
SMALLER = {"seq2seq": ("--hidden", 64), "bert-base": ("--length", 16),
           "dqn": ("--net", "mlp", "--replay", 500, "--fill", 32)}
DATA = {"dqn": "cartpole"}  # synthetic data is no game that could be played
CONSTANT = ("--schedule", "constant", "--warmup", 0, "--lr", 0.0001, "--seed", 3)


def all_models():
    """Name -> (task, input)."""
    text = subprocess.run([quern.QUERN, "models", "--json"], check=True, capture_output=True,
                          text=True).stdout
    rows = map(json.loads, text.splitlines())
    return {row["model"]: (row["task"], row["input"]) for row in rows}


class Suite(quern.Case):
    names = None  # of the models; None: all that are not heavy

    def data_of(self, name):
        """Images of the size that the model takes; arrays are never resized unasked."""
        task, shape = all_models()[name]
        if task != "classification":
            return DATA.get(name, "synthetic")
        side, _, channels = map(int, shape.split("x"))
        return self.make_images(n=8, side=side, channels=channels, name=f"x{shape}")

    def train(self, name, *options):
        return self.run_quern("train", name, "--data", self.data_of(name), "--batch", 2, *CONSTANT,
                              *SMALLER.get(name, ()), "--no-test", "--json", *options)

    def try_model(self, name):
        whole_file, part_file = f"{name}.whole", f"{name}.part"
        whole = self.train(name, "--steps", STEPS, "--save", whole_file, "--threads", 2)
        self.train(name, "--steps", HALF, "--save", part_file, "--threads", 1)
        rest = self.run_quern("train", name, "--resume", part_file, "--no-test", "--json",
                              "--steps", STEPS, "--save", part_file, "--threads", 1)
        self.assertEqual([event["loss"] for event in whole.of("step")][HALF:],
                         [event["loss"] for event in rest.of("step")])
        self.assertEqual(self.bytes_of(part_file), self.bytes_of(whole_file))
        split = ("--split", "train") if all_models()[name][0] == "classification" else ()
        result = self.run_quern("evaluate", name, "--weights", whole_file, "--batch", 2,
                                *split, "--json").events[-1]
        self.assertGreater(result["samples"], 0)
        for file in (whole_file, part_file):  # the heavy ones together fill a small disk
            (self.folder / file).unlink()

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
