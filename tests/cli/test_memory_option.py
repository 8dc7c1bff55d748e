"""Training within a byte budget: the process keeps within it, the weights are those of a run without
one, what cannot work is refused with a budget that does, and a resumed run may have another budget.

The heavier models are in test_memory_option_heavy.py."""
import re
import struct
import unittest
import zipfile

import quern

OVERHEAD = 8 << 20  # bytes of code and libraries that may be resident beside the budget
STEPS = ("--no-test", "--seed", 3, "--json")
# Model, options, a budget that makes some of it run again; with QUERN_ALL the rest.
SMALL = (("lenet5", ("--batch", 256), None), ("mobilenet-v2", ("--batch", 8), "90M"),
         ("dqn", ("--net", "mlp", "--data", "cartpole", "--replay", 500, "--fill", 64), None),
         ("bert-tiny", ("--batch", 8), None))
if quern.ALL:
    SMALL += (("dcgan", ("--batch", 32), "40M"), ("char-cnn", ("--batch", 16), None),
              ("seq2seq", ("--batch", 4, "--hidden", 64), None))


class Memory(quern.Case):
    models = SMALL

    def train(self, name, *options, **more):
        data = () if "--data" in options or "--resume" in options else ("--data", "synthetic")
        return self.run_quern("train", name, *data, *options, *STEPS, **more)

    def least(self, name, *options):
        """The budget that a refusal names."""
        run = self.fails(1, "train", name, *(() if "--data" in options else ("--data", "synthetic")),
                         *options, *STEPS, "--steps", 2, "--memory", "64K",
                         says=("is too small: ", "lower --batch, or use --memory"))
        self.assertEqual(run.output, "")
        return re.search(r"--memory (\d+[KM])", run.errors).group(1)

    def check_inside(self, run, budget):
        done, plan = run.events[-1], run.of("plan")[0]
        self.assertEqual(done["memory_budget_bytes"], budget)
        self.assertLessEqual(done["peak_bytes"], budget)
        self.assertLessEqual(plan["predicted_peak_bytes"], budget)
        self.assertLess(done["peak_rss_bytes"], budget + OVERHEAD)
        self.assertGreaterEqual(plan["predicted_slowdown"], 1)
        # A batch in pieces may take longer without running anything again.
        if plan["micro_batch"] == 0:
            self.assertEqual(plan["operations_again"] > 0, plan["predicted_slowdown"] > 1)
        return plan

    def try_model(self, name, options, budget):
        usual = self.train(name, *options, "--steps", 3, "--save", "usual.safetensors")
        self.assertEqual(usual.of("plan"), [])
        least = self.least(name, *options)
        for size in (least, budget) if budget else (least,):
            run = self.train(name, *options, "--steps", 3, "--save", "within.safetensors",
                             "--memory", size)
            self.check_inside(run, bytes_of(size))
            self.assertEqual([e["loss"] for e in run.of("step")],
                             [e["loss"] for e in usual.of("step")])
            self.assertEqual(self.bytes_of("within.safetensors"),
                             self.bytes_of("usual.safetensors"))

    def test_models(self):
        for name, options, budget in self.models:
            with self.subTest(name):
                self.try_model(name, options, budget)


def bytes_of(size):
    return int(size[:-1]) << {"K": 10, "M": 20, "G": 30}[size[-1]]


class Ways(Memory):
    models = ()

    def test_resume(self):
        data = self.make_images(n=64, side=32)
        begin = ("--data", data, "--batch", 16, "--schedule", "constant")
        self.train("mobilenet-v2", *begin, "--steps", 4, "--save", "whole.safetensors")
        self.train("mobilenet-v2", *begin, "--steps", 2, "--save", "part.safetensors", "--memory",
                   "120M")
        run = self.train("mobilenet-v2", "--resume", "part.safetensors", "--steps", 4, "--save",
                         "part.safetensors", "--memory", "70M")
        self.assertGreater(self.check_inside(run, 70 << 20)["operations_again"], 0)
        self.assertEqual(self.bytes_of("part.safetensors"), self.bytes_of("whole.safetensors"))

    def test_evaluation(self):
        """Tests are measured in smaller batches under a budget, to the same numbers."""
        data = self.make_images(n=96, side=28)
        options = ("--data", data, "--batch", 40, "--holdout", 0.4, "--epochs", 1, "--json")
        usual = self.run_quern("train", "lenet5", *options).events[-1]
        within = self.run_quern("train", "lenet5", *options, "--memory", "4M").events[-1]
        self.assertEqual(usual["test_loss"], within["test_loss"])
        self.assertEqual(usual["test_accuracy"], within["test_accuracy"])
        self.assertLessEqual(within["peak_bytes"], 4 << 20)
        self.run_quern("train", "lenet5", *options, "--no-test", "--save", "w.safetensors")
        evaluate = ("evaluate", "lenet5", "--weights", "w.safetensors", "--json")
        usual = self.run_quern(*evaluate).events[-1]
        within = self.run_quern(*evaluate, "--memory", "4M").events[-1]
        self.assertEqual(usual["loss"], within["loss"])
        self.fails(1, *evaluate, "--memory", "100K", says=("is too small: ", "or use --memory"))

    def test_reading(self):
        """Reading a text takes more than training on it: that is inside the budget too."""
        (self.folder / "long.txt").write_text("All work and no play. " * 400000)
        options = ("--data", "text:long.txt", "--batch", 4, "--length", 20, "--hidden", 16)
        budget = 1 << 20
        for _ in range(3):  # what is too large to be read within the budget is not read to say how large
            process = self.start("train", "char-lstm", *options, *STEPS, "--steps", 2, "--memory", budget)
            errors = process.communicate()[1]
            if process.returncode == 0:
                break
            self.assertIn("is too small: ", errors)
            least = bytes_of(re.search(r"--memory (\d+[KM])", errors).group(1))
            self.assertGreater(least, budget)
            budget = least
        self.assertGreater(budget, 8 << 20)
        run = self.train("char-lstm", *options, "--steps", 2, "--memory", budget)
        self.check_inside(run, budget)

    def test_arrays(self):
        """A mapped file of arrays three times the budget: what was read of it does not stay in memory."""
        self.run_quern("train", "mlp", "--data", "synthetic", "--steps", 1, "--no-test", "--input", "1x1x512", "--save", "w")
        self.run_quern("export", "mlp", "--weights", "w", "--out", "n.onnx")
        n = 20000
        arrays = {"input": ("<f4", (n, 1, 1, 512), b"".join(struct.pack("<f", i / n) + bytes(4 * 511) for i in range(n))),
                  "y": ("<i8", (n,), struct.pack(f"<{n}q", *(i % 10 for i in range(n))))}
        with zipfile.ZipFile(self.folder / "x.npz", "w", zipfile.ZIP_STORED) as file:
            for name, (kind, shape, content) in arrays.items():
                quern.write_npy(self.folder / "part", kind, shape, content)
                file.write(self.folder / "part", f"{name}.npy")
        for more in ((), ("--holdout", 0.2)):
            run = self.run_quern("train", "n.onnx", "--data", "npz:x.npz", "--batch", 16, "--steps", 20, *STEPS, *more, "--save", "a",
                                 "--override", "--memory", "14M")
            self.check_inside(run, 14 << 20)
            self.run_quern("train", "n.onnx", "--data", "npz:x.npz", "--batch", 16, "--steps", 20, *STEPS, *more, "--save", "b",
                           "--override")
            self.assertEqual(self.bytes_of("a"), self.bytes_of("b"))

    def test_words(self):
        options = ("train", "mobilenet-v2", "--data", "synthetic", "--batch", 8, "--steps", 1,
                   "--no-test")
        run = self.run_quern(*options, "--memory", "80M")
        self.assertRegex(run.output, r"\nplan: \d+\.?\d* MiB of 80 MiB; \d+ % of the operations run "
                                     r"again, about 1\.\d\d times the time\n")
        run = self.run_quern(*options, "--memory", "1.5gib")
        self.assertRegex(run.output, r"\nplan: \d+\.?\d* MiB of 1\.50 GiB; nothing runs again\n")
        for size in ("lots", "0", "-5M", "300X", "M", "1e40", ""):
            self.fails(2, *options, "--memory", size, says=("a size as 300M or 1.5G",))

    def test_measured(self):
        """Times are measured when asked for, used then and later, and change no bit."""
        options = ("mobilenet-v2", "--batch", 8, "--steps", 2)
        usual = self.train(*options, "--save", "a.safetensors")
        self.assertEqual(list(self.folder.glob("cache/quern/times-*")), [])
        measured = self.train(*options, "--save", "b.safetensors", "--memory", "80M", "--measure")
        later = self.train(*options, "--save", "c.safetensors", "--memory", "80M")
        for run in (measured, later):
            plan = self.check_inside(run, 80 << 20)
            self.assertIs(plan["slowdown_is_measured"], True)
            self.assertGreater(plan["operations_again"], 0)
            self.assertEqual([e["loss"] for e in run.of("step")],
                             [e["loss"] for e in usual.of("step")])
        self.assertEqual(measured.of("plan")[0]["predicted_slowdown"],
                         later.of("plan")[0]["predicted_slowdown"])
        for name in ("b", "c"):
            self.assertEqual(self.bytes_of(f"{name}.safetensors"), self.bytes_of("a.safetensors"))
        kept, = self.folder.glob("cache/quern/times-*")
        lines = kept.read_text().splitlines()
        self.assertEqual(lines[0], "quern operation times 1")
        self.assertGreater(len(lines), 400)
        others = self.train(*options, "--memory", "80M", "--threads", 1)
        self.assertIs(others.of("plan")[0]["slowdown_is_measured"], False)
        kept.write_text("what is this\n")
        run = self.train(*options, "--memory", "80M")
        self.assertIs(run.of("plan")[0]["slowdown_is_measured"], False)
        self.fails(2, "train", *options, "--data", "synthetic", "--measure",
                   says=("--measure needs --memory",))

    def test_profile(self):
        run = self.run_quern("profile", "lenet5", "--batch", 256, "--steps", 2, "--json",
                             "--memory", "64M")
        self.assertEqual(run.of("plan")[0]["memory_budget_bytes"], 64 << 20)


if __name__ == "__main__":
    unittest.main()
