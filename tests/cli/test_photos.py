#!/usr/bin/python3
"""Folders of pictures: what training chooses by their number, what it says of few and of bad ones, and that
every command takes them as they come."""
import random
import re
import signal
import unittest

import quern


class Photos(quern.Case):
    def make_photos(self, counts, name="photos"):
        """Grey pictures, of a brightness a class; counts: class -> how many."""
        draw = random.Random(3)
        for number, (kind, n) in enumerate(counts.items()):
            folder = self.folder / name / kind
            folder.mkdir(parents=True)
            for i in range(n):
                base = 30 + 60 * number
                quern.write_png(folder / f"{i:03}.png", 20, 16,
                                bytes(base + draw.randrange(25) for _ in range(320)))
        return f"images:{name}"


class Choices(Photos):
    def test_few(self):
        """Of 60 pictures some 45 train: a batch of 16 instead of 64, some hundred epochs, all of each."""
        data = self.make_photos({"dark": 20, "middle": 20, "light": 20})
        run = self.run_quern("train", "lenet5", "--data", data, "--steps", 6, "--save", "w.st")
        self.assertRegex(run.output, rf"{data}: 4\d training and 1\d test samples")
        self.assertIn("rate 0.0125, schedule cosine, batch 16, steps 1 to 6", run.output)
        self.assertNotIn("left out", run.output)
        self.assertIn("3 of 3 classes have fewer than 50 images to train on", run.errors)
        kept = quern.metadata_of(self.folder / "w.st")
        self.assertEqual((kept["batch"], kept["augment"]), ("16", "crop,flip"))
        self.assertEqual((kept["weight-decay"], kept["label-smoothing"]), ("0.005", "0.1"))
        self.assertIn("few images: weight decay 0.005 and label smoothing 0.1 reduce overfitting", run.errors)
        # What was chosen holds when the run goes on.
        self.run_quern("train", "lenet5", "--resume", "w.st", "--steps", 8, "--save", "w.st")
        self.assertEqual(quern.metadata_of(self.folder / "w.st")["batch"], "16")

    def test_length(self):
        data = self.make_photos({"dark": 20, "light": 20})
        process = self.start("train", "lenet5", "--data", data)
        for line in process.stdout:
            if found := re.search(r"steps 1 to (\d+)", line):
                break
        process.kill()
        process.communicate()
        self.assertGreaterEqual(int(found.group(1)), 2000)

    def test_given(self):
        """What is given is not chosen."""
        data = self.make_photos({"dark": 20, "light": 20})
        self.run_quern("train", "lenet5", "--data", data, "--epochs", 2, "--batch", 5, "--augment", "none",
                       "--lr", 0.01, "--holdout", 0.5, "--save", "w.st")
        kept = quern.metadata_of(self.folder / "w.st")
        self.assertEqual([kept[key] for key in ("epochs", "batch", "augment", "lr")], ["2", "5", "none", "0.01"])
        self.assertIn(int(kept["step"]), range(5, 12))

    def test_regularised(self):
        """Few images get weight decay and label smoothing, unless one of them is given; many do not."""
        few = self.make_photos({"dark": 160, "light": 160})
        many = self.make_photos({"dark": 340, "light": 340}, "many")
        for data, given, kept in ((few, (), ("0.004167", "0.1")), (many, (), ("0", "0")),
                                  (few, ("--weight-decay", 0.001), ("0.001", "0")),
                                  (few, ("--label-smoothing", 0), ("0", "0")),
                                  (few, ("--optimizer", "adam"), ("0", "0"))):
            with self.subTest(data=data, given=given):
                self.run_quern("train", "lenet5", "--data", data, "--steps", 1, "--no-test", "--save", "w.st", *given)
                found = quern.metadata_of(self.folder / "w.st")
                self.assertEqual((found["weight-decay"], found["label-smoothing"]), kept)

    def test_resumed_bits(self):
        """Batches that go on with the next epoch: a run in two parts ends in the same weights."""
        data = self.make_photos({"dark": 13, "light": 14})
        command = ("train", "lenet5", "--data", data, "--steps", 9, "--schedule-steps", 9, "--no-test")
        self.run_quern(*command, "--save", "whole.st")
        self.run_quern(*command[:5], 4, *command[6:], "--save", "part.st")
        self.run_quern("train", "lenet5", "--resume", "part.st", "--steps", 9, "--save", "part.st", "--no-test")
        self.assertEqual(quern.weights_of(self.folder / "whole.st"), quern.weights_of(self.folder / "part.st"))


class Bad(Photos):
    def test_skipped(self):
        data = self.make_photos({"dark": 20, "light": 20})
        (self.folder / "photos/empty").mkdir()
        (self.folder / "photos/dark/000.png").write_bytes(b"")
        (self.folder / "photos/light/cut.jpg").write_bytes(b"\xff\xd8\xff\xe0")
        run = self.run_quern("train", "lenet5", "--data", data, "--steps", 2)
        self.assertIn("photos/dark/000.png: empty file", run.errors)
        self.assertIn("photos/light/cut.jpg: ", run.errors)
        self.assertIn("2 of 41 images cannot be read and are skipped", run.errors)
        self.assertIn("photos/empty has no readable image and is not used as a class", run.errors)
        self.assertIn("2 outputs", run.output)
        self.fails(1, "train", "lenet5", "--data", data, "--steps", 2, "--strict",
                   says=["photos/dark/000.png: empty file", "2 of 41", "--strict"])


class Ways(Photos):
    """Short ways to say what is meant."""

    def setUp(self):
        super().setUp()
        self.data = self.make_photos({"dark": 9, "light": 9})
        self.run_quern("train", "lenet5", "--data", self.data, "--steps", 2, "--save", "w.st", "--no-test")

    def test_predict_folder(self):
        (self.folder / "photos/light/notes.txt").write_text("x")
        given = self.run_quern("predict", "lenet5", "photos/dark/000.png", "photos/light/001.png",
                               "--weights", "w.st").output.splitlines()
        lines = self.run_quern("predict", "photos", "--weights", "w.st").output.splitlines()
        self.assertEqual(len(lines), 18)
        self.assertEqual([lines[0], lines[10]], given)
        (self.folder / "photos/dark/000.png").write_bytes(b"broken")
        run = self.run_quern("predict", "photos", "--weights", "w.st", status=1)
        self.assertEqual(run.output.splitlines(), lines[1:])
        self.fails(2, "predict", "lenet", "--weights", "w.st", says=["did you mean lenet5"])

    def test_model_of_checkpoint(self):
        named = self.run_quern("evaluate", "lenet5", "--weights", "w.st", "--json").events[0]
        unnamed = self.run_quern("evaluate", "--weights", "w.st", "--json").events[0]
        self.assertEqual(named["loss"], unnamed["loss"])

    def test_resumed_without_model(self):
        self.run_quern("train", "--resume", "w.st", "--steps", 3, "--save", "w.st", "--no-test")
        self.assertEqual(quern.metadata_of(self.folder / "w.st")["step"], "3")
        self.fails(2, "train", "--data", "synthetic", says=["needs a MODEL"])

    def test_names_of_data(self):
        for given, taken in (("photos", "images:photos"), ("images:~/photos", None), ("~/photos", "images:")):
            with self.subTest(given):
                self.environment["HOME"] = str(self.folder)
                run = self.run_quern("train", "lenet5", "--data", given, "--steps", 1, "--no-test", "--save", "x.st")
                self.assertEqual("is taken as" in run.errors, taken is not None)
                self.assertIn(taken or "", run.errors)
                self.assertIn(quern.metadata_of(self.folder / "x.st")["data"],
                              ("images:photos", f"images:{self.folder}/photos"))

    def test_side(self):
        run = self.run_quern("train", "squeezenet", "--data", self.data, "--input", 40, "--steps", 1, "--no-test")
        self.assertIn("input 40x40x3", run.output)


class CtrlC(Photos):
    def test_status(self):
        process = self.start("train", "lenet5", "--data", "synthetic", "--epochs", 100000, "--save", "w.st",
                             "--json")
        while '"event":"step"' not in process.stdout.readline():
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        errors = process.communicate()[1]
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("resume with:", errors)


if __name__ == "__main__":
    unittest.main()
