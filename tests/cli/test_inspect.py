"""quern inspect: what is said of data before training."""
import unittest

import quern


class Inspect(quern.Case):
    def look(self, *arguments):
        return self.run_quern("inspect", *arguments, "--json").events[0]

    def test_arrays(self):
        data = self.make_images(40, classes=4)
        seen = self.look(data, "--holdout", "0.25")
        self.assertEqual(seen["training_samples"] + seen["test_samples"], 40)
        self.assertIn(seen["test_samples"], range(4, 17))
        self.assertEqual((seen["sample"], seen["sample_type"]), ("28x28x1", "bytes"))
        self.assertEqual(seen["target_kind"], "classes")
        told = self.run_quern("inspect", data, "--holdout", "0.25").output
        self.assertIn("target: 4 classes", told)
        self.assertRegex(told, r"split: \d+ to train on, \d+ to test, by a hash of each sample")

    def test_warnings(self):
        rows = ["a,b,n,label"] + [f"{i % 7 * 1.5},3,{i * i + 3 * i},{'rare' if i % 29 == 0 else 'often'}"
                                  for i in range(290)]
        rows += ["1,3,90000,rare", "1,3,90000,often"]
        (self.folder / "d.csv").write_text("\n".join(rows) + "\n")
        seen = self.look("d.csv")
        told = " | ".join(seen["warnings"])
        self.assertIn("1 of 3 columns never change (b)", told)
        self.assertIn("often has 26 times as many training samples as rare", told)
        self.assertIn("--class-weights balanced", told)
        self.assertIn("2 samples are equal to samples of another class", told)
        self.assertEqual(seen["commonest_class"], "often")
        self.assertAlmostEqual(seen["commonest_accuracy"], 281 / 292, 5)
        self.assertEqual([c["training"] for c in seen["classes"]], [281, 11])

    def test_counting(self):
        rows = ["a,n,label"] + [f"{i % 7 * 1.5},{i * 3},{i % 2}" for i in range(90)]
        (self.folder / "d.csv").write_text("\n".join(rows) + "\n")
        self.assertIn("count rows", " ".join(self.look("d.csv")["warnings"]))

    def test_before_training(self):
        rows = ["a,b,label"] + [f"{i},{i % 5},{'x' if i % 60 else 'y'}" for i in range(240)]
        (self.folder / "d.csv").write_text("\n".join(rows) + "\n")
        options = ["train", "mlp", "--data", "csv:d.csv", "--steps", "1", "--batch", "16"]
        run = self.run_quern(*options)
        self.assertIn("always answering x is right for 98.33 % of the training samples", run.output)
        self.assertIn("warning: 1 of 2 classes have fewer than 10", run.errors)
        self.assertIn("--class-weights balanced", run.errors)
        run = self.run_quern(*options, "--class-weights", "balanced")
        self.assertNotIn("--class-weights balanced", run.errors)
        run = self.run_quern(*options, "--json")
        self.assertEqual(len(run.of("data")), 1)
        self.assertEqual(run.of("data")[0]["constant_columns"], 0)

    def test_both_sides(self):
        """The same pictures in train and test are counted."""
        for part in ("train", "test"):
            for name, value in (("a", 10), ("b", 200)):
                folder = self.folder / "set" / part / name
                folder.mkdir(parents=True)
                for i in range(3):
                    shift = 4 * i if part == "train" or i < 2 else 90
                    quern.write_png(folder / f"{i}.png", 8, 8, bytes([value + shift // 2] * 64))
        seen = self.look("images:set", "--input", "8x8x1")
        self.assertEqual(seen["samples_on_both_sides"], 4)
        self.assertIn("4 of 6 test and validation samples are training samples, too",
                      " ".join(seen["warnings"]))

    def test_numbers(self):
        rows = ["a,price"] + [f"{i},{i * 10.5}" for i in range(101)]
        (self.folder / "d.csv").write_text("\n".join(rows) + "\n")
        seen = self.look("d.csv", "--task", "regression")
        self.assertEqual(seen["target_kind"], "numbers")
        self.assertAlmostEqual(seen["target_mean"], 525, 3)
        self.assertAlmostEqual(seen["mean_rmse"], 306.1, 0)

    def test_usage(self):
        self.fails(2, "inspect", says=["needs DATA"])
        self.fails(2, "inspect", "nothing", says=["neither a file or folder"])


if __name__ == "__main__":
    unittest.main()
