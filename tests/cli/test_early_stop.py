"""Validation, early stopping, the best weights and class weights through the command line."""
import json
import random
import resource
import signal
import unittest

import quern


class EarlyStop(quern.Case):
    def setUp(self):
        super().setUp()
        self.data = self.make_noise()

    def make_noise(self, n=160, classes=4):
        """Images with a weak sign of their class and some wrong labels: soon learned by heart, so
        that the validation loss has its least value early. Classes are not equally frequent."""
        draw = random.Random(5)
        labels = [draw.choice([0, 0, 0, 1, 1, 2, 3]) for _ in range(n)]
        rows = []
        for i, label in enumerate(labels):
            row = bytearray(draw.randrange(256) for _ in range(64))
            for j in range(label * 16, label * 16 + 16):
                row[j] = min(255, row[j] + 60)
            rows.append(bytes(row))
            if draw.random() < 0.2:
                labels[i] = draw.randrange(classes)
        quern.write_npy(self.folder / "x.npy", "|u1", (n, 64), b"".join(rows))
        quern.write_npy(self.folder / "x-y.npy", "|u1", (n,), bytes(labels))
        self.labels = labels
        return "npy:x.npy,x-y.npy"

    def train(self, *options, status=0, begin=True):
        data = ("--data", self.data, "--batch", 8, "--lr", 0.1) if begin else ()
        return self.run_quern("train", "mlp", *data, "--json", *options, status=status)

    def evaluate(self, weights, split):
        return self.run_quern("evaluate", "mlp", "--weights", weights, "--split", split,
                              "--json").events[0]

    def test_stops(self):
        run = self.train("--epochs", 60, "--validation", 0.25, "--holdout", 0.2, "--early-stop", 3,
                         "--save", "last.st", "--save-best", "best.st")
        epochs, done = run.of("epoch"), run.of("done")[0]
        self.assertLess(len(epochs), 60)
        losses = [event["validation_loss"] for event in epochs]
        best = min(range(len(losses)), key=losses.__getitem__)
        self.assertEqual(len(losses), best + 1 + 3)
        self.assertTrue(all(event["test_loss"] is None for event in epochs[:-1]))
        self.assertIsNotNone(epochs[-1]["test_loss"])
        stop = run.of("early_stop")[0]
        self.assertEqual((stop["epoch"], stop["epochs_without_better"]), (best + 4, 3))
        self.assertEqual(stop["best_metric"], "validation_loss")
        self.assertTrue(done["stopped_early"])
        per_epoch = stop["step"] // stop["epoch"]
        self.assertEqual(done["best_step"], per_epoch * (best + 1))
        # The file holds the weights that measured so, of that step.
        self.assertEqual(quern.metadata_of(self.folder / "best.st")["step"],
                         str(done["best_step"]))
        self.assertAlmostEqual(self.evaluate("best.st", "validation")["loss"], losses[best],
                               places=7)
        self.assertAlmostEqual(self.evaluate("last.st", "validation")["loss"], losses[-1], places=7)
        counts = [self.evaluate("last.st", split)["samples"] for split in ("train", "validation", "test")]
        self.assertEqual(sum(counts), 160)
        for count, wanted in zip(counts, (96, 32, 32)):
            self.assertLess(abs(count - wanted), 20)
        # Its patience is over: a resumed run only says so, one of more patience goes on.
        run = self.run_quern("train", "mlp", "--resume", "last.st")
        self.assertIn("stopped early after epoch", run.output)
        run = self.train("--resume", "last.st", "--early-stop", 5, begin=False)
        self.assertEqual(len(run.of("epoch")), 2)
        self.assertTrue(run.of("done")[0]["stopped_early"])

    def test_resume(self):
        """A run in two parts ends as one in one piece: same stop, same best, same bytes."""
        options = ("--validation", 0.25, "--early-stop", 4, "--schedule", "constant")
        whole = self.train("--epochs", 40, *options, "--save", "a.st", "--save-best", "a-best.st")
        stop = whole.of("early_stop")[0]
        cut = stop["step"] - stop["step"] // stop["epoch"] - 3
        self.train("--steps", cut, *options, "--save", "b.st", "--save-best", "b-best.st",
                   "--no-test")
        # The end within an epoch was measured too; what is kept is the pair of the last epoch.
        parts = self.train("--resume", "b.st", "--epochs", 40, "--save", "b.st", "--save-best",
                           "b-best.st", begin=False)
        self.assertEqual(parts.of("done")[0]["best_step"], whole.of("done")[0]["best_step"])
        self.assertEqual(self.tensors("a-best.st"), self.tensors("b-best.st"))

    def tensors(self, name):
        data = self.bytes_of(name)
        length = int.from_bytes(data[:8], "little")
        header = json.loads(data[8:8 + length])
        header.pop("__metadata__")
        return header, data[8 + length:]

    def test_test_set(self):
        """Without validation samples the test counts; without both it is refused before training."""
        run = self.train("--epochs", 30, "--holdout", 0.25, "--early-stop", 2)
        self.assertEqual(run.of("early_stop")[0]["best_metric"], "test_loss")
        for options in (("--early-stop", 2), ("--save-best", "b.st"),
                        ("--holdout", 0.2, "--no-test", "--early-stop", 1)):
            self.fails(2, "train", "mlp", "--data", self.data, "--batch", 8, "--epochs", 1,
                       *options, says=["--validation"])
        self.fails(2, "train", "mlp", "--data", self.data, "--holdout", 0.2, "--save", "a",
                   "--save-best", "a", says=["they need two"])

    def test_unwritable(self):
        """Best weights that cannot be kept are told of, and the run fails at its end."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 12, 1 << 12))
        run = self.run_quern("train", "mlp", "--data", self.data, "--batch", 8, "--epochs", 2,
                             "--validation", 0.2, "--save-best", "b.st", "--no-save", status=1,
                             preexec_fn=limit, restore_signals=False)
        self.assertIn("warning: the best weights so far", run.errors)
        self.assertIn("could not be saved", run.errors)
        self.assertEqual(list(self.folder.glob("b.st*")), [])

    def test_lines(self):
        run = self.run_quern("train", "mlp", "--data", self.data, "--batch", 8, "--lr", 0.1,
                             "--epochs", 60, "--validation", 0.25, "--early-stop", 2,
                             "--save-best", "b.st")
        self.assertRegex(run.output, r"1[12]\d training, [34]\d validation and 0 test samples")
        self.assertRegex(run.output, r"epoch 1: train loss [\d.]+, validation loss [\d.]+, "
                                     r"validation accuracy [\d.]+ %")
        self.assertRegex(run.output, r"stopped early after epoch \d+, step \d+: the validation "
                                     r"loss was no better in 2 epochs; best [\d.]+, at step \d+")
        self.assertRegex(run.output, r"best: step \d+, validation loss [\d.]+, saved to b.st")

    def test_seed(self):
        """The split depends on the seed and on nothing else."""
        def loss(*options):
            return self.train("--epochs", 1, "--validation", 0.25, *options
                              ).of("epoch")[0]["validation_loss"]
        self.assertEqual(loss("--seed", 3, "--threads", 1), loss("--seed", 3, "--threads", 2))
        self.assertNotEqual(loss("--seed", 3), loss("--seed", 4))

    def test_class_weights(self):
        """Balanced weights are those of the counts, are kept, and change the loss as a list of the
        same numbers does."""
        options = ("--epochs", 2, "--save", "w.st")
        plain = self.train(*options).of("step")
        balanced = self.train(*options, "--class-weights", "balanced").of("step")
        kept = quern.metadata_of(self.folder / "w.st")["class_weights"]
        counts = [self.labels.count(i) for i in range(4)]
        wanted = [len(self.labels) / (4 * n) for n in counts]
        for ours, theirs in zip(map(float, kept.split(",")), wanted, strict=True):
            self.assertAlmostEqual(ours, theirs, places=12)
        listed = self.train(*options, "--class-weights", kept).of("step")
        self.assertEqual(balanced, listed)
        self.assertNotEqual(plain, listed)
        whole = self.train(*options, "--class-weights", kept, "--micro-batch", 2).of("step")
        self.assertEqual(whole, listed)
        self.fails(2, "train", "mlp", "--data", self.data, "--class-weights", "1,2", says=["4"])
        (self.folder / "w.csv").write_text("0,1\n1,2\n2,1\n")
        self.fails(1, "train", "mlp", "--data", self.data, "--class-weights", "w.csv",
                   says=["w.csv: class 3 of 4 has no weight"])


if __name__ == "__main__":
    unittest.main()
