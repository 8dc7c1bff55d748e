"""Translation through the command line: training on parallel text, resuming, measuring, translating,
and what is refused."""
import random
import unittest

import quern

SMALL = ("--length", 7, "--hidden", 24, "--batch", 16)


class Translation(quern.Case):
    def setUp(self):
        super().setUp()
        generator = random.Random(1)
        with open(self.folder / "fw", "w") as source, open(self.folder / "bw", "w") as target:
            for _ in range(600):
                words = generator.choices("abcdefgh", k=generator.randint(1, 6))
                print(*words, file=source)
                print(*(word.upper() for word in reversed(words)), file=target)

    def train(self, *options, status=0):
        return self.run_quern("train", "seq2seq", "--data", "pairs:fw,bw", "--json", *SMALL,
                              *options, status=status)


class Training(Translation):
    def test_learns(self):
        done = self.train("--epochs", 12, "--lr", 0.01, "--save", "w.q").of("done")[0]
        self.assertGreater(done["test_exact"], 0.8)
        self.assertGreater(done["test_word_accuracy"], 0.9)
        self.assertGreater(done["test_bleu"], 0.8)
        # Batches of another size measure the same.
        run = self.run_quern("evaluate", "seq2seq", "--weights", "w.q", "--batch", 7, "--json")
        self.assertEqual(run.events[0]["exact"], done["test_exact"])
        self.assertEqual(run.events[0]["bleu"], done["test_bleu"])
        self.assertAlmostEqual(run.events[0]["loss"], done["test_loss"], places=4)
        self.assertEqual(run.events[0]["samples"], 30)
        shown = self.run_quern("sample", "seq2seq", "--weights", "w.q", "--count", 2).output
        self.assertEqual([line.split(":")[0] for line in shown.splitlines()],
                         ["source", "target", "output"] * 2)
        # Without the data: a prompt is translated.
        (self.folder / "fw").unlink()
        lines = self.run_quern("sample", "seq2seq", "--weights", "w.q", "--prompt",
                               "a b c").output.splitlines()
        self.assertEqual(lines, ["source: a b c", "output: C B A"])
        self.fails(1, "sample", "seq2seq", "--weights", "w.q", "--prompt", "a zebra c",
                   says=("'zebra'", "8 that were learned"))
        self.fails(1, "sample", "seq2seq", "--weights", "w.q", "--prompt", " ", says=("no words",))
        self.fails(1, "sample", "seq2seq", "--weights", "w.q", "--prompt", "a " * 8, says=("7",))
        self.fails(1, "sample", "seq2seq", "--weights", "w.q", says=("fw",))

    def test_resume(self):
        """The same bits as in one go, over buckets and epochs, whatever the threads."""
        for extra in ((), ("--accumulate", 2)):
            self.train("--steps", 60, "--schedule-steps", 60, "--save", "whole.q", "--threads", 2,
                       *extra)
            self.train("--steps", 23, "--schedule-steps", 60, "--save", "part.q", "--override", *extra)
            self.run_quern("train", "seq2seq", "--resume", "part.q", "--steps", 60, "--save",
                           "part.q", "--threads", 1)
            self.assertEqual(self.bytes_of("whole.q"), self.bytes_of("part.q"))

    def test_vocabulary(self):
        run = self.run_quern("train", "seq2seq", "--data", "pairs:fw,bw", *SMALL, "--steps", 2,
                             "--vocabulary", 7)
        self.assertIn("7 of 7 words, 7 outputs", run.output)
        run = self.run_quern("train", "seq2seq", "--data", "pairs:fw,bw", *SMALL, "--steps", 2,
                             "--min-count", 1000)
        self.assertIn("7 of 3 words", run.output)

    def test_synthetic(self):
        run = self.run_quern("train", "seq2seq", "--data", "synthetic", *SMALL, "--steps", 60,
                             "--vocabulary", 40, "--lr", 0.01, "--no-test", "--json")
        losses = [event["loss"] for event in run.of("step")]
        self.assertLess(losses[-1], 0.9 * losses[0])


class Refusals(Translation):
    def test_bad_pairs(self):
        (self.folder / "short").write_text("a\nb\n")
        (self.folder / "empty").write_text("")
        (self.folder / "latin").write_bytes(b"a\n\xe9\n")
        self.fails(1, "train", "seq2seq", "--data", "pairs:fw,short",
                   says=("fw has 600 lines", "short has 2"))
        self.fails(1, "train", "seq2seq", "--data", "pairs:empty,empty", says=("0 pairs",))
        self.fails(1, "train", "seq2seq", "--data", "pairs:latin,short", says=("line 2",))
        self.fails(1, "train", "seq2seq", "--data", "pairs:fw,none", says=("none",))
        self.fails(2, "train", "seq2seq", "--data", "pairs:fw", says=("pairs:SOURCE,TARGET",))
        self.fails(2, "train", "seq2seq", "--data", "text:fw", says=("pairs:SOURCE,TARGET",))

    def test_kept(self):
        """Data that is broken now leaves the checkpoint as it is."""
        self.train("--steps", 3, "--save", "w.q")
        before = self.bytes_of("w.q")
        (self.folder / "bw").write_text("A\n")
        self.fails(1, "train", "seq2seq", "--resume", "w.q", "--save", "w.q", "--steps", 9,
                   says=("600 lines",))
        self.assertEqual(before, self.bytes_of("w.q"))


if __name__ == "__main__":
    unittest.main()
