"""Training, resuming, evaluating and predicting through the command line."""
import hashlib
import json
import os
import resource
import signal
import subprocess
import tempfile
import time
import unittest

import quern

DONE = ["event", "test_loss", "test_accuracy", "median_step_ms", "samples_per_second", "steps",
        "threads", "seed", "parameters", "peak_bytes", "parameter_bytes", "peak_rss_bytes"]
EPOCH = ["event", "epoch", "train_loss", "test_loss", "test_accuracy", "samples_per_second"]
STEP = ["event", "step", "loss", "accuracy"]


class Train(quern.Case):
    def setUp(self):
        super().setUp()
        self.data = self.make_images()

    def train(self, *options, model="lenet5", status=0):
        return self.run_quern("train", model, "--data", self.data, "--batch", 16, "--json",
                              *options, status=status)

    def losses(self, *options):
        return [event["loss"] for event in self.train(*options).of("step")]


class Output(Train):
    def test_json(self):
        run = self.train("--epochs", 3, "--holdout", 0.25, "--lr", 0.1, "--seed", 7, "--threads", 2)
        self.assertEqual([event["event"] for event in run.events],
                         ["data"] + (["step"] * 12 + ["epoch"]) * 3 + ["done"])
        for kind, fields in (("step", STEP), ("epoch", EPOCH), ("done", DONE)):
            for event in run.of(kind):
                self.assertEqual(list(event), fields)
        self.assertEqual([event["step"] for event in run.of("step")], list(range(1, 37)))
        self.assertEqual([event["epoch"] for event in run.of("epoch")], [1, 2, 3])
        done = run.of("done")[0]
        self.assertEqual((done["steps"], done["threads"], done["seed"]), (36, 2, 7))
        self.assertEqual(done["test_accuracy"], run.of("epoch")[-1]["test_accuracy"])
        self.assertLess(done["parameter_bytes"], done["peak_bytes"])
        self.assertLess(done["peak_bytes"], done["peak_rss_bytes"])
        self.assertGreater(done["median_step_ms"], 0)

    def test_no_test_set(self):
        run = self.train("--epochs", 1)
        self.assertIsNone(run.of("epoch")[0]["test_loss"])
        self.assertIsNone(run.of("done")[0]["test_accuracy"])

    def test_untested(self):
        run = self.train("--epochs", 1, "--holdout", 0.25, "--no-test")
        self.assertIsNone(run.of("done")[0]["test_accuracy"])

    @quern.numbers
    def test_learns(self):
        run = self.train("--epochs", 8, "--holdout", 0.25, "--lr", 0.1)
        self.assertGreater(run.of("done")[0]["test_accuracy"], 0.9)

    def test_plain_lines(self):
        run = self.run_quern("train", "lenet5", "--data", self.data, "--batch", 15, "--epochs", 2,
                             "--save", "w.safetensors")
        self.assertIn("epoch 1: train loss ", run.output)
        self.assertNotIn("of each epoch", run.output)  # 256 of them: the last one is in a batch with the next epoch's first
        self.assertIn("done: 35 steps", run.output)
        self.assertIn("saved to w.safetensors", run.output)
        self.assertNotIn("\r", run.output + run.errors)

    def test_closed_output(self):
        with open("/dev/full", "w") as full:
            process = subprocess.run([quern.QUERN, "models"], stdout=full, stderr=subprocess.PIPE)
        self.assertEqual(process.returncode, 1)


class SameBits(Train):
    def digest(self, model, data, threads):
        self.run_quern("train", model, "--data", data, "--steps", 20, "--batch", 8, "--threads",
                       threads, "--save", "bits.safetensors", "--augment", "crop,flip")
        return hashlib.sha256(self.bytes_of("bits.safetensors")).hexdigest()

    def test_threads_lenet5(self):
        self.assertEqual(len({self.digest("lenet5", self.data, n) for n in (1, 2, 3, 4)}), 1)

    @quern.numbers
    def test_threads_mobilenet(self):
        data = self.make_images(n=64, side=32, channels=3, name="rgb")
        self.assertEqual(len({self.digest("mobilenet-v2", data, n) for n in (1, 2, 3, 4)}), 1)

    def test_seed(self):
        self.assertEqual(self.losses("--steps", 5), self.losses("--steps", 5))
        self.assertNotEqual(self.losses("--steps", 5), self.losses("--steps", 5, "--seed", 2))

    def test_resume(self):
        """In parts, with other threads: the file of a run without a break."""
        for options in (["--optimizer", "adam"], ["--accumulate", 3, "--lr", 0.05],
                        ["--clip-norm", 1, "--schedule", "step", "--warmup", 4]):
            options += ["--epochs", 2]
            self.train(*options, "--save", "whole.safetensors", "--override")
            with self.subTest(options):
                self.interrupted_at(3, options)
                self.run_quern("train", "lenet5", "--resume", "part.safetensors", "--save",
                               "part.safetensors", "--threads", 1)
                self.assertEqual(self.bytes_of("part.safetensors"),
                                 self.bytes_of("whole.safetensors"))

    def interrupted_at(self, step, options):
        """Stops a run by kill -9 once the checkpoint of a step is there; once more, where the machine
        let the run end before this test."""
        for _ in range(20):
            process = self.start("train", "lenet5", "--data", self.data, "--batch", 16, "--json",
                                 *options, "--save", "part.safetensors", "--override", "--checkpoint-every", step)
            for line in process.stdout:
                event = json.loads(line)
                if event["event"] == "step" and event["step"] > step:
                    break
            process.kill()
            process.communicate()
            if process.returncode == -signal.SIGKILL:
                break
        self.assertLess(int(quern.metadata_of(self.folder / "part.safetensors")["step"]), 32)


class Settings(Train):
    def saved(self, *options):
        self.train("--steps", 4, "--save", "w.safetensors", *options)
        return quern.metadata_of(self.folder / "w.safetensors")

    def test_kept(self):
        pairs = self.saved("--lr", "1e-1", "--no-shuffle", "--augment", "flip,crop")
        self.assertEqual(pairs["lr"], "0.1")
        self.assertEqual(pairs["shuffle"], "no")
        self.assertEqual(pairs["augment"], "crop,flip")
        self.assertEqual(pairs["steps"], "4")
        self.assertEqual(pairs["step"], "4")
        self.assertEqual(pairs["model"], "lenet5")
        self.assertNotIn("epochs", pairs)
        self.assertNotIn("threads", pairs)

    def test_other_optimizer(self):
        pairs = self.saved("--optimizer", "adamw")
        self.assertEqual((pairs["lr"], pairs["weight-decay"]), ("0.001", "0.01"))

    def test_other_task(self):
        self.fails(2, "train", "lenet5", "--data", self.data, "--picture", "x.png",
                   says=["--picture", "generation", "lenet5", "classification"])

    def test_conflict(self):
        self.saved("--lr", "0.02")
        resume = ["train", "lenet5", "--resume", "w.safetensors", "--steps", 6]
        self.fails(2, *resume, "--lr", "0.04", says=["--lr is 0.04", "with 0.02", "--override"])
        self.fails(2, *resume, "--data", "synthetic", says=["synthetic", self.data])
        self.fails(2, *resume, "--no-shuffle", says=["--shuffle is no", "with yes"])
        self.run_quern(*resume, "--lr", "2e-2", "--data", self.data)
        self.run_quern(*resume, "--lr", "0.04", "--override", "--save", "v.safetensors")
        self.assertEqual(quern.metadata_of(self.folder / "v.safetensors")["lr"], "0.04")
        self.run_quern(*resume, "--optimizer", "adam", "--override")

    def test_missing(self):
        self.fails(1, "train", "lenet5", "--resume", "none.safetensors", says=["none.safetensors"])

    def test_longer(self):
        """A finished run is trained on, its schedule stretched."""
        self.train("--epochs", 1, "--save", "w.safetensors")
        run = self.run_quern("train", "lenet5", "--resume", "w.safetensors", "--json", "--epochs",
                             2, "--save", "w.safetensors")
        self.assertEqual([event["step"] for event in run.of("step")], list(range(17, 33)))
        self.assertEqual([event["epoch"] for event in run.of("epoch")], [2])
        losses = [event["loss"] for event in run.of("step")]
        self.assertNotEqual(losses[0], losses[-1])
        again = self.run_quern("train", "lenet5", "--resume", "w.safetensors", "--json")
        self.assertEqual([event["event"] for event in again.events], ["done"])
        self.assertIn("already", again.errors)

    def test_both_lengths(self):
        self.assertEqual(len(self.losses("--epochs", 1, "--steps", 5)), 5)
        self.assertEqual(len(self.losses("--epochs", 1, "--steps", 50)), 16)

    def test_order(self):
        data = "npy:s.npy,s-y.npy"
        quern.write_npy(self.folder / "s.npy", "<f4", (4, 28, 28, 1), bytes(4 * 28 * 28 * 4))
        quern.write_npy(self.folder / "s-y.npy", "<i4", (4,), b"".join(
            i.to_bytes(4, "little") for i in range(4)))
        run = self.run_quern("train", "lenet5", "--data", data, "--batch", 4, "--steps", 3,
                             "--no-shuffle", "--json")
        self.assertEqual(len(run.of("step")), 3)
        self.assertEqual(self.losses("--steps", 1, "--no-shuffle"),
                         self.losses("--steps", 1, "--no-shuffle"))
        self.assertNotEqual(self.losses("--steps", 1, "--no-shuffle"), self.losses("--steps", 1))

    def test_accumulate(self):
        """Two batches of 8 are one of 16, but for rounding."""
        small = self.run_quern("train", "lenet5", "--data", self.data, "--batch", 8,
                               "--accumulate", 2, "--steps", 6, "--no-shuffle", "--json")
        large = self.losses("--steps", 6, "--no-shuffle")
        for step, loss in zip(small.of("step"), large):
            self.assertAlmostEqual(step["loss"], loss, places=4)


class Trouble(Train):
    def test_interrupt(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with open(self.folder / "out", "w+") as out:
                process = self.start("train", "lenet5", "--data", self.data, "--batch", 16,
                                     "--epochs", 10000, "--save", "w.safetensors", "--override", "--json",
                                     stdout=out)
                while b'"step"' not in self.bytes_of("out"):
                    time.sleep(0.01)
                process.send_signal(number)
                errors = process.communicate(timeout=600)[1]
            self.assertEqual(process.returncode, 130 if number == signal.SIGINT else 1)
            command = errors[errors.index("resume with: quern ") + len("resume with: quern "):]
            step = int(quern.metadata_of(self.folder / "w.safetensors")["step"])
            lines = [json.loads(line) for line in self.bytes_of("out").splitlines()]
            self.assertEqual(max(line["step"] for line in lines if "step" in line), step)
            self.assertNotIn("done", [line["event"] for line in lines])
            run = self.run_quern(*command.split(), "--steps", step + 2)
            self.assertEqual([event["step"] for event in run.of("step")], [step + 1, step + 2])

    def test_interrupt_without_save(self):
        process = self.start("train", "lenet5", "--data", self.data, "--epochs", 10000, "--no-save", "--json")
        process.stdout.readline()  # of the data
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        self.assertIn("--no-save", process.communicate(timeout=600)[1])
        self.assertEqual(process.returncode, 130)

    def test_not_finite(self):
        self.train("--steps", 3, "--save", "w.safetensors")
        before = self.bytes_of("w.safetensors")
        run = self.run_quern("train", "mlp", "--data", self.data, "--batch", 16, "--lr", 1e6,
                             "--steps", 100, "--momentum", 0, status=1)
        self.assertRegex(run.errors, r"step \d+: .*loss")
        self.run_quern("train", "lenet5", "--resume", "w.safetensors", "--save", "w.safetensors",
                       "--steps", 6, status=0)
        self.assertNotEqual(self.bytes_of("w.safetensors"), before)

    def test_not_finite_keeps_checkpoint(self):
        self.run_quern("train", "mlp", "--data", self.data, "--batch", 16, "--steps", 3, "--save",
                       "w.safetensors")
        before = self.bytes_of("w.safetensors")
        run = self.run_quern("train", "mlp", "--resume", "w.safetensors", "--save",
                             "w.safetensors", "--lr", 1e6, "--override", "--steps", 100, status=1)
        self.assertIn("w.safetensors still holds the checkpoint of step 3", run.errors)
        self.assertEqual(self.bytes_of("w.safetensors"), before)

    def test_not_finite_every_step(self):
        """A checkpoint after every step, and still the last one is of use."""
        run = self.run_quern("train", "mlp", "--data", self.data, "--batch", 16, "--lr", 1e5,
                             "--momentum", 0, "--warmup", 30, "--steps", 100, "--save",
                             "w.safetensors", "--checkpoint-every", 1, status=1)
        step = quern.metadata_of(self.folder / "w.safetensors")["step"]
        self.assertIn(f"still holds the checkpoint of step {step}", run.errors)
        result = self.run_quern("evaluate", "mlp", "--weights", "w.safetensors", "--split",
                                "train", "--json").events[0]
        self.assertIsNotNone(result["loss"])

    def test_full_disk(self):
        """A limit on file sizes stands for the full disk."""
        self.train("--steps", 3, "--save", "w.safetensors")
        before = self.bytes_of("w.safetensors")

        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))
        run = self.run_quern("train", "lenet5", "--resume", "w.safetensors", "--save",
                             "w.safetensors", "--steps", 8, "--checkpoint-every", 2, "--json",
                             status=1, preexec_fn=limit, restore_signals=False)
        self.assertIn("no checkpoint at step 4", run.errors)
        self.assertIn("trained, but not saved", run.errors)
        self.assertEqual(len(run.of("done")), 1)
        self.assertEqual(self.bytes_of("w.safetensors"), before)
        self.assertEqual([path.name for path in self.folder.glob("*.tmp*")], [])

    def test_full_file_system(self):
        """The same on a real file system that is full, where one may be mounted."""
        folder = tempfile.mkdtemp(prefix="quern-full-")
        self.addCleanup(os.rmdir, folder)
        self.mount("-t", "tmpfs", "-o", "size=700k", "tmpfs", folder)
        path = os.path.join(folder, "w.safetensors")
        self.train("--steps", 3, "--save", path)
        with open(path, "rb") as file:
            before = file.read()
        run = self.run_quern("train", "lenet5", "--resume", path, "--save", path, "--steps", 6,
                             status=1)
        self.assertIn("No space left", run.errors)
        with open(path, "rb") as file:
            self.assertEqual(file.read(), before)
        self.assertEqual(os.listdir(folder), ["w.safetensors"])

    def test_data(self):
        whole = self.run_quern("train", "lenet5", "--data", self.data, "--batch", 1000, "--steps", 1)
        self.assertIn("a batch of 1000 is larger than the data: a batch is all 256 training samples", whole.errors)
        self.fails(1, "train", "lenet5", "--data", "npy:none.npy,x-y.npy", says=["none.npy"])
        self.fails(2, "train", "lenet5", "--data", self.data, "--classes", 5, says=["10", "5"])
        self.fails(1, "train", "lenet5", "--data", self.data, "--save", "no/such/w",
                   says=["no/such"])

    def test_other_model(self):
        self.train("--steps", 2, "--save", "w.safetensors")
        for command in (["evaluate", "mlp", "--weights", "w.safetensors"],
                        ["train", "mlp", "--resume", "w.safetensors", "--steps", 9, "--override"]):
            self.fails(1, *command, says=["of model lenet5, not mlp", "tensor "])

    def test_cut_checkpoint(self):
        self.train("--steps", 2, "--save", "w.safetensors")
        whole = self.bytes_of("w.safetensors")
        for n in (0, 7, 100, 3000, len(whole) - 1):
            (self.folder / "w.safetensors").write_bytes(whole[:n])
            self.fails(1, "evaluate", "lenet5", "--weights", "w.safetensors",
                       says=["w.safetensors", "not a valid safetensors file"])


class Use(Train):
    """evaluate and predict."""

    def test_evaluate(self):
        run = self.train("--epochs", 4, "--holdout", 0.25, "--lr", 0.1, "--save", "w.safetensors")
        for options in ([], ["--batch", 7], ["--threads", 1], ["--data", self.data]):
            result = self.run_quern("evaluate", "lenet5", "--weights", "w.safetensors", "--json",
                                    *options).events[0]
            self.assertLess(abs(result["samples"] - 64), 20)
            self.assertEqual(result["accuracy"], run.of("done")[0]["test_accuracy"])
            self.assertAlmostEqual(result["loss"], run.of("epoch")[-1]["test_loss"], places=5)
        result = self.run_quern("evaluate", "lenet5", "--weights", "w.safetensors", "--split",
                                "train", "--json").events[0]
        self.assertLess(abs(result["samples"] - 192), 20)
        output = self.run_quern("evaluate", "lenet5", "--weights", "w.safetensors").output
        self.assertRegex(output, r"accuracy [0-9.]+ %, loss [0-9.]+, \d+ of 256 samples")

    def test_no_test_samples(self):
        self.train("--steps", 2, "--save", "w.safetensors")
        self.fails(1, "evaluate", "lenet5", "--weights", "w.safetensors", says=["--split train"])

    def test_predict(self):
        self.train("--steps", 40, "--lr", 0.1, "--save", "w.safetensors")
        first = self.bytes_of("x.npy")[-256 * 784:][:784]
        quern.write_png(self.folder / "first.png", 28, 28, first)
        run = self.run_quern("predict", "lenet5", "--weights", "w.safetensors", "first.png",
                             "--top", 10, "--json")
        classes = run.events[0]["classes"]
        self.assertEqual(run.events[0]["image"], "first.png")
        self.assertEqual(classes[0]["class"], "0")
        self.assertAlmostEqual(sum(entry["probability"] for entry in classes), 1, places=4)
        self.assertEqual(len(classes), 10)
        output = self.run_quern("predict", "lenet5", "--weights", "w.safetensors",
                                "first.png").output
        self.assertRegex(output, r"^first\.png: 0 [0-9.]+ %, \d ")
        run = self.run_quern("predict", "lenet5", "--weights", "w.safetensors", "none.png",
                             "first.png", status=1)
        self.assertIn("none.png", run.errors)
        self.assertIn("first.png: 0", run.output)

    def test_rows(self):
        """Rows of numbers feed the multilayer perceptron; words are their classes."""
        lines = ["a,b,kind"] + [f"{i % 7},{i % 2 * 5},{'even' if i % 2 == 0 else 'odd'}"
                                for i in range(80)]
        (self.folder / "rows.csv").write_text("\n".join(lines) + "\n")
        run = self.run_quern("train", "mlp", "--data", "csv:rows.csv", "--epochs", 20, "--batch", 8,
                             "--holdout", 0.2, "--json", "--save", "w.safetensors")
        self.assertEqual(run.of("done")[0]["test_accuracy"], 1)
        self.assertEqual(quern.metadata_of(self.folder / "w.safetensors")["input"], "2")
        self.fails(1, "predict", "mlp", "--weights", "w.safetensors", "x.png", says=["rows"])

    def test_targets(self):
        """float32 targets are fitted, not classified."""
        import array
        values = array.array("f", [i / 64 for i in range(64)])
        quern.write_npy(self.folder / "t.npy", "<f4", (64, 1), values.tobytes())
        quern.write_npy(self.folder / "t-y.npy", "<f4", (64, 1), values.tobytes())
        run = self.run_quern("train", "mlp", "--data", "npy:t.npy,t-y.npy", "--epochs", 30,
                             "--batch", 8, "--json", "--save", "w.safetensors", "--holdout", 0.25)
        self.assertNotIn("test_accuracy", run.of("done")[0])
        self.assertLess(run.of("epoch")[-1]["test_loss"], 0.01)
        result = self.run_quern("evaluate", "mlp", "--weights", "w.safetensors", "--json").events[0]
        self.assertNotIn("accuracy", result)

    def test_three_channels(self):
        """Grey images feed a network of three channels, in its size."""
        run = self.run_quern("train", "mobilenet-v1", "--data", self.data, "--resize", "--steps", 2, "--batch",
                             4, "--json", "--save", "w.safetensors")
        self.assertEqual(len(run.of("step")), 2)
        self.assertEqual(quern.metadata_of(self.folder / "w.safetensors")["input"], "32x32x3")


if __name__ == "__main__":
    unittest.main()
