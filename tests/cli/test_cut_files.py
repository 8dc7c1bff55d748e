#!/usr/bin/python3
"""Files that are cut short, or written over, while a run has them mapped or open: an error that names the file, what was
trained until then is saved, and the resumed run goes on. What was read whole at the start may go."""
import os
import shlex
import re
import signal
import time
import unittest

import numpy as np

import language_files as made
import quern


class CutFiles(quern.Case):
    place = quern.IN_MEMORY

    def make_language(self):
        (self.folder / "t.txt").write_text("abc dab cab aebf dgaf " * 60)
        (self.folder / "m.gguf").write_bytes(made.gguf(made.LLAMA | made.TOKENIZER, made.tame_tensors()))
        return ["m.gguf", "--data", "text:t.txt", "--length", 24, "--batch", 3, "--lora", "rank=2", "--no-test"]

    def start_training(self, *words):
        """A run that has saved its first steps."""
        process = self.start("train", *words, "--threads", 1, "--steps", 10**9, "--schedule", "constant", "--save", "w",
                             "--checkpoint-every", 1)
        while not (self.folder / "w").exists():
            self.assertIsNone(process.poll(), process.returncode and process.communicate())
            time.sleep(0.01)
        return process

    def step(self):
        return int(quern.metadata_of(self.folder / "w")["step"])

    def broken(self, name, change, says, *words):
        """The file is changed while a run has it; it must say so, have saved, and go on when the file is whole again."""
        path = self.folder / name
        whole = path.read_bytes()
        process = self.start_training(*words)
        change(path)
        _, errors = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 1, errors)
        self.assertRegex(errors, says)
        step = self.step()
        self.assertRegex(errors, rf"w (still )?holds the checkpoint of step {step}\b")
        path.write_bytes(whole)
        command = re.search(r"^resume with: quern (.*)$", errors, re.M)[1]
        self.run_quern(*shlex.split(command), "--steps", step + 2)
        resumed = quern.weights_of(self.folder / "w")
        self.run_quern("train", *words, "--threads", 1, "--steps", step + 2, "--schedule", "constant", "--save", "whole")
        self.assertEqual(resumed, quern.weights_of(self.folder / "whole"), f"{name}: other numbers than those of a whole file")

    def goes_on(self, name, *words):
        """The run has read the file and needs it no more."""
        process = self.start_training(*words)
        path = self.folder / name
        whole = path.read_bytes()
        os.truncate(path, 10)
        time.sleep(0.2)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=300)
        self.assertIn("stopped after step", errors)
        path.write_bytes(whole)
        self.run_quern("train", *words, "--threads", 1, "--steps", self.step(), "--schedule", "constant", "--save", "whole")
        self.assertEqual(quern.weights_of(self.folder / "w"), quern.weights_of(self.folder / "whole"))

    def test_language_model(self):
        """Frozen weights lie in the file itself."""
        words = self.make_language()
        size = (self.folder / "m.gguf").stat().st_size
        self.broken("m.gguf", lambda path: os.truncate(path, size // 2), r"cannot read \S*m\.gguf any more", *words)

    def test_language_model_written_over(self):
        def write(path):
            with open(path, "r+b") as file:
                file.seek(-4000, os.SEEK_END)
                file.write(bytes(100))
        self.broken("m.gguf", write, r"m\.gguf was written to", *self.make_language())

    def test_drawing(self):
        """A text that is drawn from a file that is cut is none."""
        self.make_language()
        process = self.start("sample", "m.gguf", "--prompt", "abc", "--tokens", 100, "--count", 1000)
        process.stdout.read(40)
        os.truncate(self.folder / "m.gguf", 9000)
        _, errors = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(errors, "cannot read m.gguf any more|m.gguf was written to")

    def test_arrays(self):
        """A file of arrays that is read while it trains."""
        rng = np.random.default_rng(1)
        np.save(self.folder / "x.npy", rng.random((64, 8, 8, 1)).astype("<f4"))
        np.save(self.folder / "y.npy", np.arange(64, dtype="<i4") % 4)
        words = ["mlp", "--data", "npy:x.npy,y.npy", "--input", "8x8x1", "--batch", 16, "--no-test"]
        self.broken("x.npy", lambda path: os.truncate(path, 4000), r"cannot read .*x\.npy|x\.npy: ", *words)

    def test_network(self):
        """Weights outside of a network's file are read before the first step."""
        self.run_quern("export", "mlp", "--input", "8x8x1", "--outside", "--out", "n.onnx")
        (outside,) = self.folder.glob("n.onnx.*.data")
        rng = np.random.default_rng(1)
        np.save(self.folder / "x.npy", rng.random((64, 8, 8, 1)).astype("<f4"))
        np.save(self.folder / "y.npy", np.arange(64, dtype="<i4") % 4)
        words = ["n.onnx", "--data", "npy:x.npy,y.npy", "--batch", 16, "--no-test"]
        self.goes_on(outside.name, *words)

    def test_texts(self):
        (self.folder / "t.txt").write_text("abc dab cab aebf dgaf " * 200)
        self.goes_on("t.txt", "char-lstm", "--data", "text:t.txt", "--length", 8, "--batch", 4, "--hidden", 8, "--no-test")


if __name__ == "__main__":
    unittest.main()
