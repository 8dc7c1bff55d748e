#!/usr/bin/python3
"""quern train --start: a head that is fitted to the features of photos. The trained weights are a stand-in, a network of
which one step was trained."""
import random
import shutil
import unittest

import quern


class Start(quern.Case):
    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        self.environment.update(XDG_DATA_HOME=str(self.data), XDG_DATA_DIRS=str(self.folder / "system"))

    def make_photos(self, name="photos", kinds=("bright", "dark"), n=10, seed=1):
        draw = random.Random(seed)
        for number, kind in enumerate(kinds):
            (self.folder / name / kind).mkdir(parents=True, exist_ok=True)
            for i in range(n):
                base = 190 - 150 * number // max(1, len(kinds) - 1)
                quern.write_png(self.folder / name / kind / f"{seed}-{i:03}.png", 40, 30,
                                bytes(base + draw.randrange(60) for _ in range(1200)))
        return f"images:{name}"

    def make_start(self):
        """A published network's form, of 128 pixels a side."""
        self.make_photos("other", ("one", "two"), 4)
        place = self.data / "quern" / "pretrained"
        place.mkdir(parents=True)
        self.run_quern("train", "efficientnet-lite0", "--data", "images:other", "--input", "128", "--steps", 1, "--batch", 4,
                       "--no-test", "--save", place / "body.safetensors")

    def fit(self, data, save, *options):
        run = self.run_quern("train", "--data", data, "--save", save, "--json", *options)
        head, = run.of("head")
        return run, head

    def test_start(self):
        """Without a MODEL: fitted, judged, kept, the same bits whatever the budget; every command takes the checkpoint."""
        self.make_start()
        data = self.make_photos()
        run, head = self.fit(data, "a.st")
        n = head["pictures_computed"]
        self.assertGreater(n, 0)
        self.assertEqual((head["start"], n, head["folds"]), ("body", n, 5))
        kept = quern.metadata_of(self.folder / "a.st")
        self.assertEqual((kept["model"], kept["input"], kept["start"]), ("efficientnet-lite0", "128x128x3", "body"))
        _, again = self.fit(data, "b.st", "--threads", 1, "--memory", "200M")
        self.assertEqual(again["pictures_computed"], 0)
        self.assertEqual(self.bytes_of("a.st"), self.bytes_of("b.st"))
        self.run_quern("cache", "clear")
        _, third = self.fit(data, "c.st", "--threads", 1, "--memory", "200M")
        self.assertEqual(third["pictures_computed"], n)
        self.assertEqual(self.bytes_of("a.st"), self.bytes_of("c.st"))
        # A budget that has room for one picture at a time: its bits are those of a batch.
        self.run_quern("cache", "clear")
        run, small = self.fit(data, "s.st", "--memory", "20M")
        self.assertEqual(small["pictures_computed"], n)
        self.assertLess(run.of("done")[0]["peak_bytes"], 20 << 20)
        self.assertEqual(quern.weights_of(self.folder / "a.st"), quern.weights_of(self.folder / "s.st"))
        self.assertLess(int(quern.metadata_of(self.folder / "s.st")["batch"]), 8)
        # A damaged file of features is made again.
        file, = (self.folder / "cache" / "quern").glob("features-*")
        for at in (3, 40, 60, file.stat().st_size - 5):
            content = bytearray(file.read_bytes())
            content[at] ^= 64
            file.write_bytes(content)
            _, damaged = self.fit(data, "d.st")
            self.assertGreater(damaged["pictures_computed"], 0)
            self.assertEqual(self.bytes_of("a.st"), self.bytes_of("d.st"))
        self.assertIn("features of pictures", self.run_quern("cache").output)
        # What the checkpoint is good for.
        event = self.run_quern("evaluate", "--weights", "a.st", "--json").of("evaluation")[0]
        self.assertEqual(event["accuracy"], 1)
        self.assertTrue(0 <= event["calibration_error"] < 0.5, event)
        line = self.run_quern("predict", "--weights", "a.st", "photos/dark/1-000.png", "--json").events[0]
        self.assertEqual(line["classes"][0]["class"], "dark")
        self.assertIn("unsure", line)
        run = self.run_quern("train", "--resume", "a.st", "--save", "a.st")
        self.assertIn("a.st has 1 of 1 steps already", run.errors)
        self.assertEqual(self.bytes_of("a.st"), self.bytes_of("b.st"))
        self.run_quern("train", "--resume", "a.st", "--steps", 2, "--no-test", "--save", "e.st")
        self.assertEqual(quern.metadata_of(self.folder / "e.st")["step"], "2")

    def test_unsure(self):
        """Answers that nothing distinguishes are unsure; labels that mean nothing leave none that is sure."""
        self.make_start()
        data = self.make_photos(kinds=("one", "two"), n=8)
        for seed, kind in ((5, "one"), (5, "two")):  # each picture in both classes, noisier than the data
            shutil.copy(self.folder / "photos" / kind / "1-000.png", self.folder / "photos" / "one" / f"x{seed}{kind}.png")
            shutil.copy(self.folder / "photos" / kind / "1-000.png", self.folder / "photos" / "two" / f"x{seed}{kind}.png")
        _, head = self.fit(data, "a.st", "--no-test")
        self.assertLess(head["accuracy"], 1)
        self.assertGreater(head["unsure_below"], 0.5)
        self.make_photos("new", ("grey", "x", "y"), 2, seed=4)
        lines = self.run_quern("predict", "--weights", "a.st", "new", "--json").events
        for line in lines:
            self.assertEqual(line["unsure"], line["classes"][0]["probability"] < head["unsure_below"])
            self.assertTrue(line["unsure"] or not line["unknown"])

    def test_refused(self):
        """Options that mean nothing beside a start, names that are not there, pictures that are too small."""
        data = self.make_photos(n=4)
        self.fails(2, "train", "--data", data, "--start", "body", says=["no trained weights body in ", "there are: none"])
        self.fails(2, "train", "lenet5", "--data", "synthetic", "--start", "auto", says=["--start auto is for photos"])
        run = self.run_quern("train", "--data", data, "--steps", 1, "--no-test", "--no-save")
        self.assertIn("start: random weights of squeezenet; ", run.errors)
        self.assertIn("script/pretrained fetches some", run.errors)
        self.make_start()
        run = self.run_quern("train", "--data", data, "--start", "none", "--steps", 1, "--no-test", "--no-save")
        self.assertIn("squeezenet: ", run.output)
        for option in (["--epochs", 3], ["--lr", 0.1], ["--load", "x"], ["--freeze", "fc"]):
            self.fails(2, "train", "--data", data, *option, says=[f"{option[0]} changes nothing with a start"])
        self.fails(2, "train", "--data", data, "--input", 96, says=["a start takes colour pictures of 128 to 260"])
        self.fails(2, "train", "lenet5", "--data", data, "--start", "body", says=["is of efficientnet-lite0, not of lenet5"])


if __name__ == "__main__":
    unittest.main()
