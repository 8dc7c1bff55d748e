"""Generating images through the command line: training, resuming, evaluating, pictures."""
import hashlib
import struct
import unittest

import quern

STEP = ["event", "step", "loss", "generator_loss", "real_judged_real", "fake_judged_real"]


def size_of(path):
    """Width, height and colour type of a PNG."""
    data = path.read_bytes()
    assert data[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", data[16:24]) + (data[25],)


class Generation(quern.Case):
    def train(self, *options, data="synthetic", status=0):
        return self.run_quern("train", "dcgan", "--data", data, "--batch", 4, "--json", *options,
                              status=status)

    def digest(self, name):
        return hashlib.sha256(self.bytes_of(name)).hexdigest()

    def test_steps(self):
        run = self.train("--steps", 3, "--no-test")
        for event in run.of("step"):
            self.assertEqual(list(event), STEP)
            self.assertTrue(0 < event["real_judged_real"] < 1 and 0 < event["fake_judged_real"] < 1)
        self.assertEqual(len(run.of("step")), 3)

    def test_threads_and_resume(self):
        self.train("--steps", 6, "--no-test", "--threads", 1, "--save", "whole")
        self.train("--steps", 2, "--no-test", "--threads", 2, "--save", "part")
        self.train("--resume", "part", "--steps", 6, "--no-test", "--threads", 3, "--save", "part")
        self.assertEqual(self.digest("whole"), self.digest("part"))

    def test_pictures_change_nothing(self):
        self.train("--steps", 3, "--no-test", "--save", "plain")
        self.train("--steps", 3, "--save", "seen", "--picture", "p.png", "--picture-every", 1)
        self.assertEqual(self.digest("plain"), self.digest("seen"))
        self.assertEqual(size_of(self.folder / "p.png"), (8 * 34 - 2, 8 * 34 - 2, 2))

    def test_grey_images_of_any_size(self):
        data = self.make_images(n=40)
        self.fails(2, "train", "dcgan", "--data", data, says=["28x28x1, and the network takes 32x32x3", "--resize"])
        run = self.train("--resize", "--epochs", 1, "--holdout", 0.25, "--save", "w", data=data)
        self.assertIn(len(run.of("step")), range(6, 9))
        tested = self.run_quern("evaluate", "dcgan", "--weights", "w", "--json").of("evaluation")[0]
        self.assertLess(abs(tested["samples"] - 10), 6)
        for name in STEP[2:]:
            self.assertAlmostEqual(tested[name], run.of("epoch")[0]["test_" + name], places=6)
        self.run_quern("evaluate", "dcgan", "--weights", "w", "--split", "train")

    def test_samples(self):
        data = self.make_images(n=8)
        self.train("--resize", "--steps", 1, "--save", "w", data=data)
        for name in ("x.npy", "x-y.npy"):
            (self.folder / name).unlink()
        self.run_quern("sample", "dcgan", "--weights", "w", "--picture", "a.png", "--count", 6)
        self.assertEqual(size_of(self.folder / "a.png"), (3 * 34 - 2, 2 * 34 - 2, 2))
        self.run_quern("sample", "dcgan", "--weights", "w", "--picture", "b.png", "--count", 6)
        self.assertEqual(self.bytes_of("a.png"), self.bytes_of("b.png"))
        self.run_quern("sample", "dcgan", "--weights", "w", "--picture", "b.png", "--count", 6,
                       "--seed", 2)
        self.assertNotEqual(self.bytes_of("a.png"), self.bytes_of("b.png"))

    def test_refusals(self):
        self.fails(1, "train", "dcgan", "--data", "synthetic", "--steps", 1, "--batch", 4,
                   "--accumulate", 2, says=["several updates cannot accumulate"])
        (self.folder / "rows.csv").write_text("a,b,label\n1,2,x\n3,4,y\n")
        self.fails(1, "train", "dcgan", "--data", "csv:rows.csv", says=["needs images"])
        run = self.run_quern("train", "dcgan", "--data", self.make_images(n=8), "--resize", "--batch", 9, "--epochs", 2)
        self.assertIn("a batch of 9 is larger than the data: a batch is all 8 training samples", run.errors)
        self.assertIn("done: 2 steps", run.output)
        self.fails(1, "train", "dcgan", "--data", "synthetic", "--picture", "no/p.png",
                   says=["--picture", "no folder no"])
        self.fails(2, "train", "dcgan", "--data", "synthetic", "--picture-every", 1,
                   says=["--picture FILE"])
        self.train("--steps", 1, "--no-test", "--save", "w")
        self.fails(1, "sample", "dcgan", "--weights", "w", says=["--picture FILE"])
        self.fails(1, "sample", "dcgan", "--weights", "w", "--picture", "p.png", "--count", 10001,
                   says=["10000 is the most"])


if __name__ == "__main__":
    unittest.main()
