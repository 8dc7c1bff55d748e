"""Language models through the command line: training on a text, resuming, measuring, drawing text,
and what is refused."""
import math
import unittest

import quern

SMALL = ("--length", 16, "--hidden", 24, "--batch", 4)


class Language(quern.Case):
    def setUp(self):
        super().setUp()
        words = ("the", "quick", "brown", "fox", "jumps", "over", "lazy", "dogs")
        text = " ".join(words[i * i % 13 % 8] for i in range(1200))
        (self.folder / "text.txt").write_text(text + "\n")

    def train(self, *options, model="char-cnn", status=0):
        return self.run_quern("train", model, "--data", "text:text.txt", "--json", *SMALL,
                              *options, status=status)


class Training(Language):
    def test_learns(self):
        for model in ("char-cnn", "char-lstm"):
            run = self.train("--epochs", 4, "--lr", 0.01, model=model)
            epochs, done = run.of("epoch"), run.of("done")[0]
            self.assertLess(epochs[-1]["test_loss"], 0.7 * epochs[0]["test_loss"])
            self.assertLess(done["test_bits_per_character"], 1.5)
            self.assertAlmostEqual(done["test_bits_per_character"],
                                   done["test_loss"] / math.log(2), places=6)

    def test_resume(self):
        """Streams' states and places go through checkpoints: the same bits as in one go, in the
        middle of an epoch and over its end, whatever the threads."""
        for extra in ((), ("--accumulate", 2)):
            self.train("--steps", 120, "--save", "whole.q", "--threads", 2, *extra)
            self.train("--steps", 37, "--schedule-steps", 120, "--save", "part.q", "--override", *extra)
            self.run_quern("train", "char-cnn", "--resume", "part.q", "--steps", 120, "--save",
                           "part.q", "--threads", 1)
            self.train("--steps", 120, "--schedule-steps", 120, "--save", "whole.q", "--threads",
                       2, *extra)
            self.assertEqual(self.bytes_of("whole.q"), self.bytes_of("part.q"))

    def test_evaluate(self):
        done = self.train("--steps", 30, "--save", "w.q").of("done")[0]
        run = self.run_quern("evaluate", "char-cnn", "--weights", "w.q", "--batch", 4, "--json")
        self.assertEqual(run.events[0]["loss"], done["test_loss"])
        # One row of the text: every character but the first is predicted once.
        one = self.run_quern("evaluate", "char-cnn", "--weights", "w.q", "--batch", 1, "--json")
        n = len((self.folder / "text.txt").read_text())
        self.assertEqual(one.events[0]["samples"], n - int(n * 0.95) - 1)
        train = self.run_quern("evaluate", "char-cnn", "--weights", "w.q", "--split", "train",
                               "--json")
        self.assertEqual(train.events[0]["samples"], int(n * 0.95) - 1)

    def test_synthetic(self):
        run = self.run_quern("train", "char-lstm", "--data", "synthetic", "--steps", 30,
                             "--hidden", 32, "--lr", 0.02, "--no-test", "--json")
        losses = [event["loss"] for event in run.of("step")]
        self.assertLess(losses[-1], 0.9 * losses[0])

    def test_vocabulary(self):
        run = self.run_quern("train", "char-lstm", "--data", "text:text.txt", *SMALL, "--steps", 1,
                             "--vocabulary", 10)
        self.assertIn("16 of 10 characters", run.output)


class Drawing(Language):
    def setUp(self):
        super().setUp()
        self.train("--steps", 40, "--lr", 0.02, "--save", "w.q")
        (self.folder / "text.txt").unlink()  # drawing needs the checkpoint alone

    def draw(self, *options, status=0):
        return self.run_quern("sample", "char-cnn", "--weights", "w.q", *options, status=status)

    def test_draws(self):
        first = self.draw("--prompt", "the quick", "--characters", 50).output
        self.assertTrue(first.startswith("the quick"))
        self.assertEqual(len(first), 9 + 50 + 1)
        self.assertEqual(first, self.draw("--prompt", "the quick", "--characters", 50, "--threads",
                                          1).output)
        self.assertNotEqual(first, self.draw("--prompt", "the quick", "--characters", 50, "--seed",
                                             2).output)
        cold = self.draw("--temperature", 0, "--count", 2, "--characters", 20).output
        self.assertEqual(*cold.rstrip("\n").split("\n\n"))

    def test_unknown_character(self):
        self.fails_sample = self.fails(1, "sample", "char-cnn", "--weights", "w.q", "--prompt",
                                       "the ümlaut", says=("'ü'", "U+00FC"))

    def test_no_data(self):
        self.fails(1, "evaluate", "char-cnn", "--weights", "w.q", says=("text.txt",))


class Refusals(Language):
    def test_bad_texts(self):
        (self.folder / "empty").write_text("")
        (self.folder / "short").write_text("a few characters")
        (self.folder / "binary").write_bytes(b"a\0b" * 100)
        self.fails(1, "train", "char-cnn", "--data", "text:empty", says=("empty", "no text"))
        self.fails(1, "train", "char-cnn", "--data", "text:short", says=("short", "--length"))
        self.fails(1, "train", "char-cnn", "--data", "text:binary", says=("zero byte",))
        self.fails(1, "train", "char-cnn", "--data", "text:none", says=("none",))
        self.fails(2, "train", "char-cnn", "--data", "csv:x", says=("text:FILE",))
        self.fails(2, "train", "char-cnn", "--data", "synthetic", "--classes", 3,
                   says=("classification",))

    def test_kept(self):
        """A text that is gone leaves the checkpoint as it is."""
        self.train("--steps", 5, "--save", "w.q")
        before = self.bytes_of("w.q")
        (self.folder / "text.txt").write_text("")
        self.fails(1, "train", "char-cnn", "--resume", "w.q", "--save", "w.q", "--steps", 9)
        self.assertEqual(before, self.bytes_of("w.q"))


if __name__ == "__main__":
    unittest.main()
