"""Numerics through the command line: files and their mistakes, training in int8, and that the same bits come out
of any number of threads and after resuming."""
import json
import math
import platform
import random
import unittest

import quern


OTHERS = ("octo", "adaptive", "wageubn", "mls", "chunk-fp8", "bf16", "fp16", "sparse")


class Numerics(quern.Case):
    def train(self, name, *options, status=0):
        return self.run_quern("train", "lenet5", "--data", "synthetic", "--batch", 4, "--no-test",
                              "--schedule-steps", 4, "--save", name, *options, status=status)

    def test_options_without_effect(self):
        """What would change nothing is refused; what another layer needs is not."""
        small = ("--data", "synthetic", "--batch", 4, "--steps", 1, "--no-test", "--numerics", "niti")
        for option in (("--lr", 0.1), ("--momentum", 0.5), ("--clip-norm", 1), ("--schedule", "cosine"), ("--optimizer", "adam"),
                       ("--label-smoothing", 0.1)):
            self.fails(2, "train", "lenet-relu", *small, *option, says=[option[0], "changes nothing"])
        self.assertIn("without a rate", self.run_quern("train", "lenet-relu", *small).output)
        self.run_quern("train", "lenet-relu", *small[:-1], "bf16", "--lr", 0.1, "--label-smoothing", 0.1)
        self.fails(2, "train", "resnet18", *small, "--label-smoothing", 0.1, says=["changes nothing"])
        self.run_quern("train", "resnet18", *small, "--lr", 0.1)  # of batch normalisations
        self.run_quern("train", "lenet-relu", *small[:-2], "--lr", 0.1, "--accumulate", 2)

    def test_prediction(self):
        """What integers and short floats were trained to is what predict tells."""
        draw = random.Random(4)
        for kind in range(3):
            (self.folder / "bars" / str(kind)).mkdir(parents=True)
            for i in range(20):
                pixels = bytearray(draw.randrange(60) for _ in range(28 * 28))
                for x in range(28 * (4 + 8 * kind), 28 * (8 + 8 * kind)):
                    pixels[x] = 200 + draw.randrange(40)
                quern.write_png(self.folder / "bars" / str(kind) / f"{i:02}.png", 28, 28, bytes(pixels))
        for name in ("niti", "bf16", "chunk-fp8"):
            self.run_quern("train", "lenet-relu", "--data", "images:bars", "--steps", 60, "--no-test", "--numerics", name,
                           "--save", "w.st")
            said = [(self.run_quern("predict", "--weights", "w.st", f"bars/{kind}/{i:02}.png").output, kind)
                    for kind in range(3) for i in range(0, 20, 5)]
            right = sum(text.split(":")[1].split()[0] == str(kind) for text, kind in said)
            self.assertGreaterEqual(right, 10, said)

    def test_printed_is_a_file(self):
        printed = self.run_quern("numerics", "niti").output
        (self.folder / "mine.json").write_text(printed)
        self.assertEqual(self.run_quern("numerics", "mine.json").output, printed)
        self.assertEqual([line.split()[0] for line in self.run_quern("numerics").output.splitlines()[1:]],
                         ["niti", *OTHERS])

    def test_mistakes(self):
        niti = json.loads(self.run_quern("numerics", "niti").output)
        wrong = [({"weigth": {}}, "weigth"), ({"products": "i64"}, "products"), ({"name": "a b"}, "name"),
                 ({"gradient": {"type": "i8", "bits": 9}}, "bits"), ({"weight": {"type": "i9"}}, "type"),
                 ({"products": "f32"}, "optimiser"), ({"loss-factor": 2}, "loss-factor"),
                 ({"gradient": {"type": "i8", "drops": [0.5, 0.2]}}, "rising"), ({"shifts": "often"}, "shifts"),
                 ({"shifts": "adaptive", "products": "f32", "loss": "f32", "update": "optimiser",
                   "gradient": {"type": "i8"}}, "shifts"),
                 ({"period": 4}, "period"), ({"shifts": "fixed", "period": 0}, "period"),
                 ({"sums": {"chunk": 0}}, "chunk"), ({"sums": {}}, "sums"), ({"float-layers": "all"}, "float-layers"),
                 ({"float-layers": "first"}, "float-layers"), ({"compensation": {"spread": -1}}, "spread"),
                 ({"compensation": []}, "compensation"), ({"weight-update": {"limit": 1e99}}, "limit"),
                 ({"trained-layers": {}}, "trained-layers"),
                 ({"trained-layers": {"parts": {"a=b": 1}}}, "parts"), ({"trained-layers": {"parts": [1]}}, "parts"),
                 ({"trained-layers": {"parts": {"fc1": 2}}}, "parts"),
                 ({"trained-layers": {"parts": {"f" * 300: 1}}}, "shorter"),
                 ({"trained-layers": {"weights": 1, "channels": "best"}}, "channels"), ({"optimiser": {"name": "lion"}}, "adamw"),
                 ({"weight": {"type": "i8", "range": "fixed"}}, "top"), ({"weight": {"type": "i8", "clip": 0.9}}, "clip"),
                 ({"error": {"type": "i8", "fine-bits": 3}}, "fine-bits"),
                 ({"error": {"type": "i8", "widen-above": 0.1}}, "widen-above"),
                 ({"error": {"type": "i8", "unit": 3}}, "unit"), ({"gradient": {"type": "i8", "unit": 3}}, "unit"),
                 ({"error": {"type": "i8", "backward": {}}}, "backward"),
                 ({"activation": {"type": "f32", "scale": "group"}}, "scale"),
                 ({"normalisation": {"type": "i8", "drops": [0.5]}}, "drops")]
        for change, says in wrong:
            (self.folder / "bad.json").write_text(json.dumps({**niti, **change}))
            self.fails(1, "numerics", "bad.json", says=["bad.json", says])
        (self.folder / "bad.json").write_text("[" * 5000)
        self.fails(1, "numerics", "bad.json", says=["JSON"])
        self.fails(2, "train", "lenet5", "--data", "synthetic", "--numerics", "nity", says=["niti"])
        self.fails(1, "train", "lenet5", "--data", "synthetic", "--numerics", "niti", "--accumulate", 2,
                   says=["accumulated"])

    @quern.numbers
    def test_others(self):
        """Each trains, with the bits of one thread in three and after resuming, and what it trained can be tested; a
        batch of one, too."""
        for name in OTHERS:
            with self.subTest(name):
                for old in "whole", "half":
                    (self.folder / old).unlink(missing_ok=True)
                self.train("whole", "--numerics", name, "--steps", 4, "--threads", 1)
                self.train("half", "--numerics", name, "--steps", 2, "--threads", 3)
                self.run_quern("train", "lenet5", "--resume", "half", "--steps", 4, "--save", "half", "--no-test")
                self.assertEqual(quern.weights_of(self.folder / "whole"), quern.weights_of(self.folder / "half"))
                self.run_quern("evaluate", "--weights", "whole")
                self.run_quern("train", "lenet5", "--data", "synthetic", "--batch", 1, "--steps", 1, "--no-test",
                               "--numerics", name)

    @quern.numbers
    def test_norms_and_attention(self):
        """Operators without a type of their own are computed in f32."""
        for name in ("octo", "wageubn", "mls"):
            self.run_quern("train", "mobilenet-v2", "--data", "synthetic", "--batch", 2, "--steps", 1, "--no-test",
                           "--numerics", name)

    def test_optimizer_of_the_numerics(self):
        """The recipe's gives way to it, and it to the command line."""
        self.train("one", "--numerics", "wageubn", "--steps", 2)
        self.train("two", "--numerics", "wageubn", "--steps", 2, "--lr", 0.25, "--momentum", 0.9)
        self.train("three", "--numerics", "wageubn", "--steps", 2, "--lr", 0.05)
        self.assertEqual(self.bytes_of("one"), self.bytes_of("two"))
        self.assertNotEqual(self.bytes_of("one"), self.bytes_of("three"))

    def tensor(self, name, of):
        data = (self.folder / name).read_bytes()
        begin = 8 + int.from_bytes(data[:8], "little")
        header = json.loads(data[8:begin])[of]
        first, last = header["data_offsets"]
        return header["shape"], data[begin + first:begin + last]

    def changed(self, one, two, of):
        """Which input channels of a weight of bytes or floats differ."""
        (shape, a), (_, b) = self.tensor(one, of), self.tensor(two, of)
        size, channels = len(a) // math.prod(shape), shape[-1]
        return {i // size % channels for i in range(0, len(a), size) if a[i:i + size] != b[i:i + size]}

    def test_sparse(self):
        """Weights before the last layers stay."""
        self.train("one", "--numerics", "sparse", "--steps", 1)
        self.train("two", "--numerics", "sparse", "--steps", 3)
        self.assertEqual(self.changed("one", "two", "conv1.weight"), set())
        self.assertNotEqual(self.changed("one", "two", "fc2.weight"), set())

    @quern.numbers
    def test_parts(self):
        """Of a part of a weight, its channels change and no others, whole weights of the file's numerics too, as the option
        says and as a file does; with the bits of other threads, pieces of the batch, and after resuming."""
        niti = json.loads(self.run_quern("numerics", "niti").output)
        layers = {"weights": 1, "parts": {"conv2": 0.5, "fc1": 0.25}, "channels": "first"}
        (self.folder / "part.json").write_text(json.dumps({**niti, "trained-layers": layers}))
        update = "weights=1,conv2=0.5,fc1=0.25,channels=first"
        for name, *options in (("f32", "--update", update), ("niti", "--numerics", "part.json")):
            self.train(f"{name}-begin", *options, "--steps", 1, "--threads", 1)
            self.train(f"{name}-half", *options, "--steps", 2, "--threads", 3)
            self.train(f"{name}-whole", *options, "--steps", 4, "--threads", 1)
            self.run_quern("train", "lenet5", "--resume", f"{name}-half", "--steps", 4, "--save", f"{name}-half", "--no-test")
            self.assertEqual(quern.weights_of(self.folder / f"{name}-whole"), quern.weights_of(self.folder / f"{name}-half"))
            for weight, channels in (("conv1", 0), ("conv2", 3), ("conv3", 0), ("fc1", 30), ("fc2", 84)):
                changed = self.changed(f"{name}-begin", f"{name}-whole", f"{weight}.weight")
                self.assertTrue(changed <= set(range(channels)), weight)
                self.assertEqual(bool(changed), channels > 0, weight)
        self.train("option", "--numerics", "niti", "--update", update, "--steps", 4)
        self.assertEqual(quern.weights_of(self.folder / "niti-whole"), quern.weights_of(self.folder / "option"))
        self.train("pieces", "--update", update, "--steps", 4, "--micro-batch", 2)
        self.assertEqual(quern.weights_of(self.folder / "f32-whole"), quern.weights_of(self.folder / "pieces"))

    def test_wrong_updates(self):
        for status, model, update, says in ((2, "lenet5", "foo=0.5", "no layer"), (2, "lenet5", "weights", "weights=N"),
                                            (2, "lenet5", "weights=0", "nothing"), (2, "lenet5", "conv2=2", "at most 1"),
                                            (2, "lenet5", "weights=1,channels=best", "largest"), (1, "dcgan", "weights=1", "freeze")):
            self.fails(status, "train", model, "--data", "synthetic", "--steps", 1, "--update", update, says=[says])
        self.fails(1, "train", "lenet5", "--data", "synthetic", "--update", "conv2=0.5", "--accumulate", 2,
                   says=["accumulated"])

    @quern.numbers
    def test_same_bits(self):
        self.train("whole", "--numerics", "niti", "--steps", 4, "--threads", 1)
        self.train("half", "--numerics", "niti", "--steps", 2, "--threads", 3)
        self.run_quern("train", "lenet5", "--resume", "half", "--steps", 4, "--save", "half", "--no-test")
        self.assertEqual(quern.weights_of(self.folder / "whole"), quern.weights_of(self.folder / "half"))

    @quern.numbers
    def test_every_set_gives_the_bits(self):
        """A network that is all whole numbers: one instruction set and thread count has the weights of any other."""
        found = []
        sets = ("ref", "neon") if platform.machine() in ("aarch64", "arm64") else ("ref", "avx2", "avx512")
        for threads, isa in enumerate(sets, 1):
            self.environment["QUERN_ISA"] = isa
            self.run_quern("train", "lenet-relu", "--data", "synthetic", "--batch", 4, "--no-test", "--steps", 3,
                           "--schedule-steps", 4, "--numerics", "niti", "--threads", threads, "--save", isa)
            found.append(quern.weights_of(self.folder / isa))
        self.assertEqual(found, found[:1] * len(sets))

    @quern.numbers
    def test_adaptive_shifts(self):
        """What is kept of shifts is in the checkpoint: half and half again gives the bits of the whole. Exact shifts
        have no wrong one, and every product is counted once."""
        niti = json.loads(self.run_quern("numerics", "niti").output)
        (self.folder / "adaptive.json").write_text(json.dumps({**niti, "shifts": "adaptive"}))
        self.train("whole", "--numerics", "adaptive.json", "--steps", 8, "--threads", 1)
        self.train("half", "--numerics", "adaptive.json", "--steps", 5, "--threads", 2)
        self.run_quern("train", "lenet5", "--resume", "half", "--steps", 8, "--save", "half", "--no-test")
        self.assertEqual(quern.weights_of(self.folder / "whole"), quern.weights_of(self.folder / "half"))
        for numerics, is_exact in (("niti", True), ("adaptive.json", False)):
            lines = self.train("again", "--numerics", numerics, "--steps", 8, "--json").output.splitlines()
            done = json.loads(lines[-1])
            self.assertEqual(done["shifts"], 8 * 14)
            self.assertEqual(done["shifts"], done["shifts_kept"] + done["shifts_stored"] + done["shifts_twice"])
            self.assertGreater(done["shifts_kept"], 0)
            self.assertEqual(done["shifts_wrong"] == 0, is_exact)

    @quern.numbers
    def test_periods(self):
        """By fixed periods, shifts are computed in each such step and kept between; after resuming, too. The longest period
        of 8 is what adaptive shifts have anyway."""
        niti = json.loads(self.run_quern("numerics", "niti").output)
        for name, change in (("fixed", {"shifts": "fixed", "period": 3}), ("usual", {"shifts": "adaptive"}),
                             ("eight", {"shifts": "adaptive", "period": 8})):
            (self.folder / f"{name}.json").write_text(json.dumps({**niti, **change, "name": name}))
            done = json.loads(self.train(name, "--numerics", f"{name}.json", "--steps", 8, "--json").output.splitlines()[-1])
            if name == "fixed":
                self.assertEqual((done["shifts"], done["shifts_kept"]), (8 * 14, 5 * 14))
        self.assertEqual(quern.weights_of(self.folder / "usual"), quern.weights_of(self.folder / "eight"))
        self.train("half", "--numerics", "fixed.json", "--steps", 4)
        self.run_quern("train", "lenet5", "--resume", "half", "--steps", 8, "--save", "half", "--no-test")
        self.assertEqual(quern.weights_of(self.folder / "fixed"), quern.weights_of(self.folder / "half"))

    @quern.numbers
    def test_counts(self):
        """Each range that adapts is kept or measured in each step; products of niti are operations on whole numbers, and
        in f32 nothing is."""
        lines = self.train("adaptive", "--numerics", "adaptive", "--steps", 30, "--json").output.splitlines()
        done = json.loads(lines[-1])
        self.assertEqual(done["ranges"] % 30, 0)
        self.assertEqual(done["ranges"], done["ranges_kept"] + done["ranges_measured"])
        self.assertGreater(done["ranges_kept"], 0)
        self.assertNotIn("shifts", done)
        for name in ("niti", "f32"):
            printed = self.run_quern("profile", "lenet-relu", "--batch", 4, "--steps", 2, "--numerics", name, "--json")
            done = json.loads(printed.output.splitlines()[-1])
            self.assertNotIn("ranges", done)
            self.assertEqual("integer_operations_per_step" in done, name == "niti")
            if name == "niti":
                self.assertGreater(done["integer_operations_per_step"], 0.99 * done["operations_per_step"])

    def test_what_is_kept(self):
        for name, types in (("niti", {"I8", "I32"}), ("bf16", {"F32"})):
            self.train(name, "--numerics", name, "--steps", 1)
            data = (self.folder / name).read_bytes()
            header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
            self.assertEqual({t["dtype"] for n, t in header.items() if n != "__metadata__"}, types)
            self.run_quern("evaluate", "--weights", name)

    def test_batch_of_one(self):
        self.run_quern("train", "lenet5", "--data", "synthetic", "--batch", 1, "--steps", 2, "--no-test",
                       "--numerics", "niti")


if __name__ == "__main__":
    unittest.main()
