#!/usr/bin/python3
"""The commands of README and docs/ run as they are written: each line of a block that begins with `quern `, and
the index's table of tasks. Files and folders that a reader has are made small here; training is cut to a step.
What is about large networks is test_documents_large.py's."""
import os
import pathlib
import random
import re
import shlex
import shutil
import struct
import subprocess
import unittest

import language_files
import quern

SOURCE = pathlib.Path(os.environ.get("QUERN_SOURCE", pathlib.Path(__file__).parents[2]))
LARGE = ("resnet50", "resnet18", "bert-base", "mobilenet-v2", "plan.json")
# What needs the published weights of other programs: test_torch_convert, test_torch_bert and test_torch_state_dict
# make such.
ELSEWHERE = ("quern convert resnet50.safetensors", "quern predict resnet50", "quern train resnet50 --load",
             "quern train bert-base", "quern merge bert-base", "quern convert efficientnet_lite0",
             "quern train --data images:photos", "quern train --data images:DIR")
# What a reader puts in, and what stands for it here.
PLACEHOLDERS = [("images:DIR", "images:photos"), ("cifar10:DIR", "cifar10:cifar"), ("text:FILE", "text:book.txt"),
                ("pairs:SOURCE,TARGET", "pairs:forwards.txt,backwards.txt"),
                ("squad:FILE", "squad:questions.json"), ("--wordpiece FILE", "--wordpiece words.txt"),
                ("/data/tmp", "swap"), ("--seconds 60", "--seconds 1"), (" --wheel WHEEL", ""),
                ("bench --settings 40", "bench --settings 1"),
                ("csv:all.csv --settings 10", "csv:known.csv --settings 1")]


def commands_of(path):
    """The commands of a document, in order; lines that go on are joined."""
    text = path.read_text()
    blocks = re.findall(r"^```\n(.*?)^```", text, re.M | re.S)
    lines = [line for block in blocks for line in block.replace("\\\n", " ").splitlines()]
    if path.name == "index.md":
        lines += re.findall(r"`(quern train [^`]*--data [^`]*)`", text)
    # The first line of a table of rules is no command.
    return [re.sub(r"\s+# .*", "", line) for line in lines if line.startswith("quern ") and line != "quern rules 1"]


def documents():
    return [SOURCE / "README.md", *sorted((SOURCE / "docs").glob("*.md"))]


# Any program that leaves a trace of itself.
TRAINING = """
import json, time
event = {"ph": "X", "name": "work", "cat": "cpu_op", "ts": time.monotonic_ns() / 1000, "pid": 1, "tid": 1}
time.sleep(0.01)
event["dur"] = time.monotonic_ns() / 1000 - event["ts"]
json.dump({"traceEvents": [event]}, open("trace.json", "w"))
"""
EXPORT = """
import sys, torch
from torch import nn
net = nn.Sequential()
net.features = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                             nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
net.pool, net.flat = nn.AdaptiveAvgPool2d(1), nn.Flatten()
net.classifier = nn.Linear(16, 5)
torch.onnx.export(net.eval(), torch.zeros(1, 3, 32, 32), sys.argv[1], input_names=["x"],
                  dynamic_axes={"x": {0: "batch"}})
"""
ARRAYS = """
import numpy as np
for name in ("train.npz", "test.npz"):
    np.savez(name, x=np.random.default_rng(1).random((40, 3, 32, 32)), classes=np.arange(40) % 5)
"""


class Documents(quern.Case):
    large = False

    def setUp(self):
        super().setUp()
        draw = random.Random(1)
        for number, kind in enumerate(("cat", "dog", "bird")):
            (self.folder / "photos" / kind).mkdir(parents=True)
            for i in range(30):
                quern.write_png(self.folder / "photos" / kind / f"{i}.png", 28, 28,
                                bytes(70 * number + draw.randrange(60) for _ in range(784)))
        for name in ("shirt.png", "photo.jpg", "cat.jpg"):
            shutil.copy(self.folder / "photos/cat/0.png", self.folder / name)
        (self.folder / "cifar").mkdir()
        for name in [f"data_batch_{i}.bin" for i in range(1, 6)] + ["test_batch.bin"]:
            records = [bytes([i % 10]) + draw.randbytes(3072) for i in range(60)]
            (self.folder / "cifar" / name).write_bytes(b"".join(records))
        self.make_texts()
        self.make_rows()
        (self.folder / "model.gguf").write_bytes(language_files.gguf(
            language_files.LLAMA | language_files.TOKENIZER, language_files.tame_tensors()))
        for name in ("notes.txt", "held.txt"):
            (self.folder / name).write_text("abc dab cab aebf dgaf " * 60)
        (self.folder / "swap").mkdir()
        (self.folder / "budget").write_text("none\n")
        (self.folder / "Makefile").write_text("all:\n\ttrue\n")
        (self.folder / "train.py").write_text(TRAINING)
        (self.folder / "usage.csv").write_text("second,in_use,charging,celsius\n0,0,1,25\n30000,1,0,31\n")
        (self.folder / "buffers.csv").write_text("id,lower,upper,size\n1,0,3,1000\n2,1,4,3000\n")

    def make_texts(self):
        draw = random.Random(2)
        words = ["".join(draw.choice("abcdefgh") for _ in range(4)) for _ in range(50)]
        lines = [" ".join(draw.choice(words) for _ in range(6)) for _ in range(800)]
        (self.folder / "book.txt").write_text("\n".join(lines * 4))
        (self.folder / "forwards.txt").write_text("\n".join(lines) + "\n")
        (self.folder / "backwards.txt").write_text("\n".join(line[::-1] for line in lines) + "\n")
        for name in ("questions.json", "words.txt"):
            shutil.copy(SOURCE / "tests/questions" / name, self.folder / name)

    def make_rows(self):
        """Four clusters, of which the first two are known."""
        draw = random.Random(3)
        centres = [[draw.random() for _ in range(5)] for _ in range(4)]

        def row(i):
            return ",".join(f"{x + draw.gauss(0, 0.03):.5f}" for x in centres[i])
        known = [f"{row(i % 2)},{('shoe', 'shirt')[i % 2]}\n" for i in range(400)]
        (self.folder / "known.csv").write_text("a,b,c,d,e,label\n" + "".join(known))
        new = [row(i % 4 if i > 600 else i % 2) + "\n" for i in range(4000)]
        (self.folder / "new.csv").write_text("a,b,c,d,e\n" + "".join(new))

    def model(self):
        """model.onnx, as PyTorch writes it unless told otherwise: batch norms are folded, names lost."""
        subprocess.run(["/usr/bin/python3", "-c", EXPORT, self.folder / "model.onnx"], check=True,
                       capture_output=True)
        subprocess.run(["/usr/bin/python3", "-c", ARRAYS], check=True, cwd=self.folder)

    @staticmethod
    def shortened(words):
        """Of a run the first step."""
        if words[0] == "train":
            words = [*words, "--steps", "1", "--no-test", "--no-samples"]
        if words[0] == "learn" and "--data" in words:
            words = [*words, "--days", "1", "--start", "512", "--keep", "64", "--test", "64"]
        if words[0] == "federate":
            n = int(words[words.index("--rounds") + 1]) if "--resume" in words else 1
            words = [*words, "--rounds", str(min(n, 2)), "--per-round", "2"]
        return [*words, "--steps", "1"] if words[0] == "profile" and "--steps" not in words else words

    def check(self, command):
        for placeholder, here in PLACEHOLDERS:
            command = command.replace(placeholder, here)
        words, target = shlex.split(command)[1:], None
        if ">" in words:
            words, target = words[:words.index(">")], words[words.index(">") + 1]
        process = self.start(*self.shortened(words), stdin=subprocess.DEVNULL)
        output, errors = process.communicate()
        if target:
            (self.folder / target).write_text(output)
        self.assertEqual(process.returncode, 0, f"{command}\n{output}{errors}")
        self.assertNotIn("nan %", output, command)

    def test_commands(self):
        n_run = 0
        missing_dsp = quern.missing_dsp()
        self.model()
        # Stands for the fit to published weights, which is left out here.
        self.run_quern("train", "squeezenet", "--data", "images:photos", "--steps", 1, "--no-test",
                       "--save", "photos.safetensors")
        for path in documents():
            for command in commands_of(path):
                is_large = any(f" {name} " in f"{command} " for name in LARGE)
                if is_large != self.large or command.startswith(ELSEWHERE):
                    continue
                with self.subTest(document=path.name, command=command):
                    if missing_dsp and "hexagon:emulated" in command:
                        self.skipTest(missing_dsp)
                    self.check(command)
                    n_run += 1
        self.assertGreater(n_run, 8)


class Facts(unittest.TestCase):
    def test_floors(self):
        """The folders of architecture.md are those of the lint check, in the same order."""
        style = (SOURCE / "tests/lint/style.py").read_text()
        floors = re.search(r"FLOORS = (\[.*?\])", style, re.S).group(1)
        table = re.findall(r"^\| `(\w+)`", (SOURCE / "docs/architecture.md").read_text(), re.M)
        self.assertEqual(table, [name for name in re.findall(r'"(\w+)"', floors)
                                 if (SOURCE / "src" / name).is_dir()])

    def test_examples(self):
        n = len([path for path in (SOURCE / "examples").iterdir() if path.suffix in (".c", ".cpp", ".py")])
        self.assertIn(f"with all {n} examples", (SOURCE / "CONTRIBUTING.md").read_text())


if __name__ == "__main__":
    unittest.main()
