"""Fine-tuning through the command line: freezing, a new head, rates, adapters and merging them."""
import hashlib
import json
import struct
import unittest

import quern


def tensors(path):
    """Names and bytes of what is in a safetensors file, and its text pairs."""
    data = path.read_bytes()
    length, = struct.unpack("<Q", data[:8])
    header = json.loads(data[8:8 + length])
    pairs = header.pop("__metadata__", {})
    return {name: data[8 + length + at["data_offsets"][0]:8 + length + at["data_offsets"][1]]
            for name, at in header.items()}, pairs


class FineTuning(quern.Case):
    def setUp(self):
        super().setUp()
        self.data = self.make_images()

    def train(self, *options, model="lenet5", steps=4, status=0):
        return self.run_quern("train", model, "--data", self.data, "--batch", 16, "--no-test",
                              "--steps", steps, "--json", *options, status=status)

    def read(self, name):
        return tensors(self.folder / name)

    def test_freeze(self):
        self.train("--save", "start.st", "--steps", 1)
        run = self.train("--load", "start.st", "--freeze", "conv1.*", "--freeze", "fc1.*",
                         "--save", "end.st")
        start, end = self.read("start.st")[0], self.read("end.st")[0]
        for name in start:
            if not name.startswith("optimizer."):
                is_frozen = name.startswith(("conv1.", "fc1."))
                self.assertEqual(start[name] == end[name], is_frozen, name)
        states = {name for name in end if name.startswith("optimizer.")}
        self.assertTrue(states and not any("conv1" in s or "fc1" in s for s in states), states)
        self.assertIn("start.st", run.errors)

    def test_mistakes(self):
        for options, says in ((("--freeze", "*"), "all"), (("--freeze", "conv9.weight"), "conv1"),
                              (("--train-only", "conf1.*"), "fits no parameter"),
                              (("--lr-for", "conv1.*"), "lr-for"),
                              (("--lora", "rank=0,layers=*"), "rank=N"),
                              (("--lora", "rank=4"), "layers"),
                              (("--lora", "rank=4,layers=nothing.*"), "nothing.*"),
                              (("--head", "0"), "1000000"), (("--head", "fc9=10"), "fc9"),
                              (("--head", "3"), "classes"),
                              (("--head", "10", "--classes", "12"), "different numbers")):
            self.fails(2, "train", "lenet5", "--data", self.data, *options, says=[says])
        self.fails(2, "train", "bert-tiny", "--data", "synthetic", "--head", 3, says=["classifier"])
        self.fails(1, "train", "lenet5", "--data", self.data, "--load", "missing.st",
                   says=["missing.st"])

    def test_head(self):
        """Weights of ten classes begin the training of 12, of which the last layer is new."""
        self.train("--save", "ten.st")
        self.fails(1, "train", "lenet5", "--data", self.data, "--load", "ten.st", "--classes", 12,
                   says=["--head"])
        run = self.train("--load", "ten.st", "--head", 12, "--train-only", "head", "--save", "new.st")
        ten, new = self.read("ten.st")[0], self.read("new.st")[0]
        self.assertIn("2 newly initialised", run.errors)
        self.assertEqual(ten["fc1.weight"], new["fc1.weight"])
        self.assertEqual(len(new["fc2.bias"]), 12 * 4)
        self.assertEqual(run.of("done")[0]["parameters"], 84 * 12 + 12)
        again = self.train("--load", "ten.st", "--head", "fc2", "--train-only", "head")
        self.assertEqual(again.of("done")[0]["parameters"], 84 * 10 + 10)

    def test_types(self):
        """Weights to begin with are also of 16 or 64 bits; a checkpoint to go on from is not."""
        self.train("--save", "start.st")
        found = {name: struct.unpack(f"<{len(data) // 4}f", data) for name, data in self.read("start.st")[0].items()
                 if not name.startswith("optimizer.")}
        for kind, letter in (("F16", "e"), ("F64", "d")):
            given = {name: struct.pack(f"<{len(values)}{letter}", *values) for name, values in found.items()}
            self.write(f"{kind}.st", kind, given)
            self.train("--load", f"{kind}.st", "--lr", 0, "--weight-decay", 0, "--steps", 1, "--save", "same.st")
            same = self.read("same.st")[0]
            for name, data in given.items():
                values = struct.unpack(f"<{len(found[name])}{letter}", data)
                self.assertEqual(same[name], struct.pack(f"<{len(values)}f", *values), (kind, name))
            self.fails(1, "evaluate", "lenet5", "--weights", f"{kind}.st", "--data", self.data, says=[kind, "F32"])
        self.write("I32.st", "I32", {name: bytes(4 * len(values)) for name, values in found.items()})
        self.fails(1, "train", "lenet5", "--data", self.data, "--load", "I32.st", says=["I32", "F32"])

    def write(self, name, kind, given):
        """A safetensors file with tensors of one type, in the shapes of start.st."""
        data = (self.folder / "start.st").read_bytes()
        length, = struct.unpack("<Q", data[:8])
        shapes = {key: at["shape"] for key, at in json.loads(data[8:8 + length]).items() if key in given}
        header, end = {}, 0
        for key in sorted(given):
            header[key] = {"dtype": kind, "shape": shapes[key], "data_offsets": [end, end + len(given[key])]}
            end += len(given[key])
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        (self.folder / name).write_bytes(struct.pack("<Q", len(text)) + text + b"".join(given[key] for key in sorted(given)))

    def test_rates(self):
        """A factor of 0 stands still; the usual rate as a number changes no bit."""
        self.train("--lr", 0.05, "--save", "a.st")
        self.train("--lr", 0.05, "--lr-for", "*=0.05", "--save", "b.st")
        self.train("--lr", 0.05, "--lr-for", "fc?.*=x0", "--lr-for", "fc2.*=x1", "--save", "c.st")
        self.train("--lr", 0, "--save", "start.st")
        a, b, c, start = (self.read(name + ".st")[0] for name in ("a", "b", "c", "start"))
        self.assertEqual(a["conv1.weight"], b["conv1.weight"])
        self.assertEqual(c["fc1.weight"], start["fc1.weight"])
        self.assertNotEqual(c["fc2.weight"], start["fc2.weight"])

    def test_adapter(self):
        lora = ("--lora", "layers=fc1,rank=2,alpha=8", "--train-only", "head")
        self.train("--save", "base.st")
        self.train("--load", "base.st", *lora, "--save", "adapter.st")
        held, pairs = self.read("adapter.st")
        pairs_of_adapter = pairs
        weights = {name for name in held if not name.startswith("optimizer.")}
        self.assertEqual(weights, {f"{layer}.lora_{side}.weight" for layer in ("fc1",)
                                   for side in "ab"} | {"fc2.weight", "fc2.bias"})
        self.assertEqual(pairs["lora"], "rank=2,alpha=8,layers=fc1")
        self.run_quern("merge", "lenet5", "--weights", "adapter.st", "--out", "merged.st")
        merged, pairs = self.read("merged.st")
        base = self.read("base.st")[0]
        self.assertEqual(set(merged), {n for n in base if not n.startswith("optimizer.")})
        self.assertNotIn("lora", pairs)
        self.assertEqual(merged["conv1.weight"], base["conv1.weight"])
        self.assertNotEqual(merged["fc1.weight"], base["fc1.weight"])
        losses = [self.run_quern("evaluate", "lenet5", "--weights", name, "--split", "train",
                                 "--json").of("evaluation")[0]["loss"]
                  for name in ("adapter.st", "merged.st")]
        self.assertAlmostEqual(*losses, places=5)
        self.fails(2, "merge", "lenet5", "--weights", "base.st", "--out", "x.st", says=["adapter"])
        for name in ("adapter", "merged"):
            self.run_quern("export", "lenet5", "--weights", name + ".st", "--out", name + ".onnx")
        self.assertEqual(*((self.folder / name).read_bytes()
                           for name in ("adapter.onnx", "merged.onnx")))
        self.assertEqual(len(pairs_of_adapter["base_hash"]), 16)
        self.assertNotIn("base_hash", pairs)
        self.train("--save", "other.st", "--seed", 9)
        kept = (self.folder / "base.st").read_bytes()
        (self.folder / "base.st").write_bytes((self.folder / "other.st").read_bytes())
        for command, more in (("evaluate", ()), ("merge", ("--out", "x.st")), ("export", ("--out", "x.onnx"))):
            self.fails(1, command, "lenet5", "--weights", "adapter.st", *more,
                       says=["other weights", "base.st"])
        (self.folder / "moved.st").write_bytes(kept)
        self.run_quern("merge", "lenet5", "--weights", "adapter.st", "--load", "moved.st", "--out", "again.st")
        self.assertEqual(merged, self.read("again.st")[0])
        (self.folder / "base.st").unlink()
        self.fails(1, "evaluate", "lenet5", "--weights", "adapter.st", says=["base.st"])

    def test_adapter_and_head(self):
        """A new head trains beside adapters; without weights to begin with the seed stands for them."""
        self.train("--head", 12, "--lora", "rank=2,layers=*", "--seed", 5, "--save", "adapter.st")
        held, _ = self.read("adapter.st")
        self.assertIn("optimizer.momentum.fc2.weight", held)
        self.assertNotIn("fc1.weight", held)
        self.run_quern("merge", "lenet5", "--weights", "adapter.st", "--out", "merged.st")
        for name in ("adapter", "merged"):
            self.run_quern("export", "lenet5", "--weights", name + ".st", "--out", name + ".onnx")
        self.assertEqual(*((self.folder / name).read_bytes()
                           for name in ("adapter.onnx", "merged.onnx")))

    def test_imported(self):
        """A network of a file is tuned like any other, and begins with its weights."""
        self.train("--save", "start.st")
        self.run_quern("export", "lenet5", "--weights", "start.st", "--out", "net.onnx")
        start = self.read("start.st")[0]
        self.fails(2, "train", "net.onnx", "--data", self.data, "--classes", 12, says=["--head 12"])
        self.train("--head", 12, "--freeze", "conv*", "--lr-for", "fc1.*=x0", "--save", "new.st",
                   model="net.onnx")
        new = self.read("new.st")[0]
        self.assertEqual(start["conv1.weight"], new["conv1.weight"])
        self.assertEqual(start["fc1.bias"], new["fc1.bias"])
        self.assertEqual(len(new["fc2.bias"]), 12 * 4)
        self.assertNotIn("optimizer.momentum.conv1.weight", new)
        self.train("--lora", "rank=2,layers=fc1", "--head", "fc2=11", "--save", "adapter.st",
                   model="net.onnx")
        self.run_quern("merge", "net.onnx", "--weights", "adapter.st", "--out", "merged.st")
        for name in ("adapter", "merged"):
            self.run_quern("export", "net.onnx", "--weights", name + ".st", "--out", name + ".onnx")
        self.assertEqual(*((self.folder / name).read_bytes()
                           for name in ("adapter.onnx", "merged.onnx")))
        losses = [self.run_quern("evaluate", "net.onnx", "--weights", name + ".st", "--split",
                                 "train", "--json").of("evaluation")[0]["loss"]
                  for name in ("adapter", "merged")]
        self.assertAlmostEqual(*losses, places=5)

    def test_outside_data(self):
        """What a file keeps outside of itself is part of what it is known by."""
        self.run_quern("export", "lenet5", "--out", "net.onnx", "--outside")
        self.train("--lora", "rank=2,layers=fc1", "--save", "adapter.st", model="net.onnx")
        self.run_quern("evaluate", "net.onnx", "--weights", "adapter.st", "--split", "train")
        path, = self.folder.glob("net.onnx.*.data")
        data = bytearray(path.read_bytes())
        data[-2] ^= 1
        path.write_bytes(data)
        self.fails(1, "evaluate", "net.onnx", "--weights", "adapter.st", "--split", "train",
                   says=["changed since"])

    def test_resume(self):
        """Eight steps at once and four twice: equal files, whatever the threads."""
        self.train("--save", "base.st")
        for name, options in (("lora", ("--lora", "rank=2,layers=fc*", "--load", "base.st")),
                              ("freeze", ("--freeze", "conv*", "--lr-for", "fc1.*=x0.1"))):
            options += ("--schedule-steps", 8)
            self.train(*options, "--save", "whole.st", "--threads", 2, steps=8)
            self.train(*options, "--save", "half.st", "--override", "--threads", 1)
            self.train("--resume", "half.st", "--save", "half.st", steps=8)
            whole, half = (self.read(f)[0] for f in ("whole.st", "half.st"))
            self.assertEqual({n: hashlib.sha256(b).digest() for n, b in whole.items()},
                             {n: hashlib.sha256(b).digest() for n, b in half.items()}, name)

    def plan(self, model, *options):
        """What a plan says of training."""
        run = self.run_quern("plan", model, "--batch", 8, "--json", *options)
        return json.loads(run.output)["programs"][0]

    def test_state_of_adapters(self):
        """At most 2 % of full training's."""
        state = self.plan("bert-base")["peak_state_bytes"]
        for layers in ("*.attention.*", "layer*"):
            part = self.plan("bert-base", "--lora", f"rank=8,layers={layers}")["peak_state_bytes"]
            self.assertGreater(part, 0)
            self.assertLess(50 * part, state)

    def test_other_models(self):
        """Heads and biases of networks of every kind, and adapters where they have such layers."""
        for model in ("mlp", "densenet40", "googlenet", "char-cnn", "char-lstm", "seq2seq", "dqn",
                      "bert-tiny"):
            whole = self.plan(model)["peak_state_bytes"]
            for options in (("--train-only", "head"), ("--train-only", "bias"),
                            ("--lora", "rank=2,layers=*")):
                part = self.plan(model, *options)
                self.assertLess(part["peak_state_bytes"], whole, (model, options))
        for model in ("char-lstm", "bert-tiny", "dqn"):
            self.run_quern("train", model, "--data", "synthetic", "--steps", 2, "--no-test",
                           "--no-samples", "--lora", "rank=2,layers=*", "--train-only", "bias")

    def test_plan(self):
        """Of a frozen part feature maps are not kept, and there is nothing else either."""
        def program(*options):
            return self.plan("mobilenet-v2", *options)
        whole, part = program(), program("--train-only", "head")
        self.assertLess(3 * part["peak_feature_bytes"], whole["peak_feature_bytes"])
        self.assertLess(2.5 * part["base_ms"], whole["base_ms"])
        self.assertLess(50 * part["peak_state_bytes"], whole["peak_state_bytes"])
        self.assertLess(part["nodes"], program("--train-only", "norm")["nodes"])
        self.assertLess(program("--train-only", "norm")["nodes"], whole["nodes"])


class Proximal(FineTuning):
    PLAIN = ("--optimizer", "sgd", "--momentum", 0, "--schedule", "constant", "--lr", 0.05, "--warmup", 0)

    def floats(self, name):
        found, _ = self.read(name)
        return {key: struct.unpack(f"<{len(data) // 4}f", data) for key, data in found.items()
                if not key.startswith(("task.", "optimizer."))}

    def test_formula(self):
        """Two steps of plain descent: the second is pulled back by rate * mu of what the first one moved."""
        for name, steps, more in (("w1", 1, ()), ("w2", 2, ()), ("p1", 1, ("--proximal", 0.5)), ("p2", 2, ("--proximal", 0.5))):
            self.train(*self.PLAIN, "--schedule-steps", 2, *more, "--save", name, steps=steps)
        first, plain, once, pulled = (self.floats(name) for name in ("w1", "w2", "p1", "p2"))
        self.assertEqual(first, once)  # at the start there is nothing to pull
        data, _ = self.read("p2")
        at = struct.unpack(f"<{len(data['task.start']) // 4}f", data["task.start"])
        moved, n = 0, 0
        names = [f"{layer}.{kind}" for layer in ("conv1", "conv2", "conv3", "fc1", "fc2") for kind in ("weight", "bias")]
        self.assertEqual(set(names), set(first))
        for name in names:
            begin = at[n:n + len(first[name])]
            n += len(begin)
            for w0, w1, free, held in zip(begin, first[name], plain[name], pulled[name]):
                self.assertAlmostEqual(held, free - 0.05 * 0.5 * (w1 - w0), places=6)
                moved += abs(w1 - w0) > 1e-4
        self.assertEqual(n, len(at))
        self.assertGreater(moved, 100)

    def test_resumes(self):
        options = (*self.PLAIN, "--proximal", 2, "--schedule-steps", 6)
        self.train(*options, "--save", "whole", steps=6)
        self.train(*options, "--save", "part", steps=3)
        self.run_quern("train", "--resume", "part", "--steps", 6, "--no-test", "--save", "part")
        self.assertEqual(self.floats("whole"), self.floats("part"))
        self.train(*options, "--memory", "3M", "--save", "small", steps=6)
        self.assertEqual(self.floats("whole"), self.floats("small"))

    def test_numerics(self):
        run = self.train("--numerics", "niti", "--proximal", 1, model="lenet-relu", status=1)
        self.assertIn("leave --numerics out", run.errors)


if __name__ == "__main__":
    unittest.main()
