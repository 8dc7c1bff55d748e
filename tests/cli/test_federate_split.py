#!/usr/bin/python3
"""quern split: two programs train one network, one of them is killed, both go on, and their halves are one network."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import numpy as np

QUERN = os.environ["QUERN"]
COMMON = ["--model", "mlp", "--data", "npy:x.npy,y.npy", "--holdout", "0.25", "--batch", "8", "--lr", "0.1", "--seed", "3"]


class Split(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-split-"))
        self.addCleanup(shutil.rmtree, self.folder)
        draw = np.random.default_rng(2)
        y = (np.arange(240) % 3).astype(np.int32)
        x = draw.integers(0, 100, (240, 12, 12, 1)).astype(np.uint8)
        x[np.arange(240), y * 4] += 120
        np.save(self.folder / "x.npy", x)
        np.save(self.folder / "y.npy", y)

    def run_split(self, *words, status=0):
        done = subprocess.run([QUERN, "split", *words], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def serve(self, name):
        peer = subprocess.Popen([QUERN, "split", "serve", "--listen", "0", "--save", name, "--threads", "1"], cwd=self.folder,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(peer.stdout.close)
        self.addCleanup(peer.wait)
        self.addCleanup(peer.kill)
        return peer, "localhost:" + re.search(r"port (\d+)", peer.stdout.readline())[1]

    def weights(self, front, back):
        self.run_split("join", front, back, "--out", "whole.st")
        done = subprocess.run([QUERN, "evaluate", "--weights", "whole.st", "--data", "npy:x.npy,y.npy", "--holdout", "0.25"],
                              cwd=self.folder, check=True, capture_output=True, text=True)
        return (self.folder / "whole.st").read_bytes(), float(re.search(r"accuracy ([\d.]+) %", done.stdout)[1])

    def test_kill(self):
        _, place = self.serve("back.st")
        out = self.run_split("train", "--peer", place, "--cut", "fc1", *COMMON, "--epochs", "4", "--save", "front.st")
        self.assertEqual(out.count("epoch"), 4)
        whole, accuracy = self.weights("front.st", "back.st")
        self.assertGreater(accuracy, 80)
        peer, place = self.serve("b.st")
        self.run_split("train", "--peer", place, "--cut", "fc1", *COMMON, "--epochs", "2", "--save", "f.st")
        shutil.copy(self.folder / "f.st", self.folder / "f2.st")  # the device knows nothing of the third
        self.run_split("train", "--peer", place, "--cut", "fc1", *COMMON, "--epochs", "3", "--save", "f.st", "--resume", "f.st")
        peer.kill()
        _, place = self.serve("b.st")
        self.run_split("train", "--peer", place, "--cut", "fc1", *COMMON, "--epochs", "4", "--save", "f2.st", "--resume", "f2.st")
        self.assertEqual(self.weights("f2.st", "b.st")[0], whole)

    def test_refused(self):
        self.assertIn("--peer", self.run_split("train", "--cut", "fc1", *COMMON, status=2))
        self.assertIn("connect", self.run_split("train", "--peer", "localhost:1", "--cut", "fc1", *COMMON, status=1))
        self.assertIn("in numbers", self.run_split("train", "--peer", "peer:7000", "--cut", "fc1", *COMMON, status=2))
        self.assertIn("not ADDRESS:PORT", self.run_split("serve", "--listen", "x", status=2))
        _, place = self.serve("b.st")
        self.assertIn("cannot be cut", self.run_split("train", "--peer", place, "--cut", "fc9", *COMMON, status=2))
        self.assertIn("not an action", self.run_split("merge", status=2))
        self.assertIn("no device", self.run_split("cuts", "--device", "nokia", status=2))
        self.assertIn("FRONT BACK", self.run_split("join", "a", status=2))


if __name__ == "__main__":
    unittest.main()
