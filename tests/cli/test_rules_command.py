"""Rules of algorithms through the command line: printed and read, mistakes by line, training by other ones,
and what a checkpoint keeps of them."""
import hashlib
import re
import unittest

import quern

# None: every convolution is a product.
NONE = "quern rules 1\n"


class Rules(quern.Case):
    def setUp(self):
        super().setUp()
        (self.folder / "none.rules").write_text(NONE)

    def train(self, name, *options, steps=2, status=0, threads=2):
        return self.run_quern("train", "squeezenet", "--data", "synthetic", "--batch", 4, "--steps", steps, "--no-test",
                              "--schedule", "constant", "--threads", threads, "--save", name, *options, status=status)

    def weights(self, name):
        return hashlib.sha256(quern.weights_of(self.folder / name)).hexdigest()

    def test_printed_table_is_a_file(self):
        printed = self.run_quern("rules").output
        (self.folder / "mine.rules").write_text(printed)
        self.assertEqual(self.run_quern("rules", "mine.rules").output, printed)
        self.assertTrue(printed.startswith("quern rules 1\n"))

    def test_mistakes(self):
        (self.folder / "bad.rules").write_text("quern rules 1\n\n* forward wino\n")
        says = ["bad.rules", "line 3", "wino"]
        self.fails(1, "rules", "bad.rules", says=says)
        self.fails(1, "train", "lenet5", "--data", "synthetic", "--rules", "bad.rules", says=says)
        self.fails(1, "train", "lenet5", "--data", "synthetic", "--rules", "missing", says=["missing"])

    def test_rules_are_an_input(self):
        """Other rules give other bits; the same ones the same, on any number of threads."""
        (self.folder / "same.rules").write_text(self.run_quern("rules").output)
        self.train("built-in")
        self.train("same", "--rules", "same.rules")
        self.train("none", "--rules", "none.rules")
        self.train("one", "--rules", "none.rules", threads=1)
        self.assertEqual(self.weights("built-in"), self.weights("same"))
        self.assertNotEqual(self.weights("built-in"), self.weights("none"))
        self.assertEqual(self.weights("one"), self.weights("none"))

    def test_a_checkpoint_keeps_them(self):
        self.train("whole", "--rules", "none.rules", steps=3)
        self.train("half", "--rules", "none.rules")
        (self.folder / "none.rules").unlink()
        self.train("end", "--resume", "half", steps=3)
        self.assertEqual(self.weights("end"), self.weights("whole"))
        self.assertEqual(quern.metadata_of(self.folder / "end")["rules"], NONE.strip())

    def test_other_rules_are_refused(self):
        self.train("start")
        resume = ("--resume", "start", "--rules", "none.rules")
        run = self.train("end", *resume, steps=3, status=2)
        self.assertTrue(re.search(r"--rules is [0-9a-f]{16}, but start was trained with built-in", run.errors), run)
        self.train("end", *resume, "--override", steps=3)


if __name__ == "__main__":
    unittest.main()
