"""Tuning through the command line: the same weights off, quick and full; what is found is kept and not measured
again; a damaged file is said and made anew; what is said, in words and as JSON."""
import hashlib
import unittest

import quern


class Tune(quern.Case):
    def train(self, tune, *options, name="weights"):
        return self.run_quern("train", "lenet5", "--data", "synthetic", "--batch", 8, "--steps", 2, "--no-test",
                              "--schedule", "constant", "--threads", 1, "--save", name, "--tune", tune, *options)

    def weights(self, name="weights"):
        return hashlib.sha256(quern.weights_of(self.folder / name)).hexdigest()

    def tuning(self, tune, *options):
        run = self.train(tune, "--json", *options)
        (event,) = run.of("tuning")
        return event, run

    def kept(self):
        return list((self.folder / "cache" / "quern").glob("tilings-*.txt"))

    def test_weights_and_cache(self):
        off = self.train("off", "--json")
        self.assertEqual(off.of("tuning"), [])
        self.assertEqual(self.kept(), [])
        wanted = self.weights()
        first, _ = self.tuning("full")
        self.assertEqual(self.weights(), wanted)
        if first["products"] == 0:
            self.skipTest("these kernels have one way")
        self.assertEqual((first["known"], first["left"]), (0, 0))
        self.assertEqual(first["measured"], first["products"])
        (path,) = self.kept()
        text = path.read_text()
        self.assertEqual(len(text.splitlines()), 3 + first["products"])
        second, _ = self.tuning("full")
        self.assertEqual((second["known"], second["measured"]), (first["products"], 0))
        self.assertEqual(path.read_text(), text)
        quick, _ = self.tuning("quick")
        self.assertEqual((quick["known"], quick["measured"]), (quick["products"], 0))
        self.assertEqual(self.weights(), wanted)
        self.damaged(path, text, wanted, first["products"])

    def damaged(self, path, text, wanted, products):
        path.write_text(text[:-4])
        event, run = self.tuning("full")
        self.assertTrue(event["cache_was_damaged"])
        self.assertIn("warning: cached tuning results cannot be read", run.errors)
        self.assertEqual((event["known"], event["measured"]), (0, products))
        self.assertEqual(self.weights(), wanted)
        event, run = self.tuning("full")
        self.assertFalse(event["cache_was_damaged"])
        self.assertEqual(event["measured"], 0)
        self.assertNotIn("warning", run.errors)

    def test_words(self):
        run = self.train("quick")
        self.assertRegex(run.output, r"\ntuning: \d+ products: \d+ known, \d+ measured in ")
        run = self.train("quick", "--memory", "4M")
        self.assertIn("\nplan: ", run.output)
        self.assertIn("\ntuning: ", run.output)
        run = self.run_quern("profile", "lenet5", "--data", "synthetic", "--batch", 8, "--steps", 2, "--threads", 1,
                             "--tune", "quick")
        self.assertIn("\ntuning: ", run.output)
        self.fails(2, "train", "lenet5", "--data", "synthetic", "--tune", "fast", says=["--tune", "off|quick|full"])


if __name__ == "__main__":
    unittest.main()
