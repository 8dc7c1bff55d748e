"""What a user says of a file's inputs: values that decide branches and shapes (--set), which axis is the batch (--shape), and
links out of the model's folder (--follow-links). Checkpoints keep all of it, exports have the file's signature, and what
cannot be is refused. Weights after some steps agree with NumPy's gradients in double."""
import json
import os
import pathlib
import sys
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import quern  # noqa: E402

REAL, WHOLE = TensorProto.FLOAT, TensorProto.INT64
node, value = helper.make_node, helper.make_tensor_value_info
PLAIN = ("--optimizer", "sgd", "--momentum", 0, "--schedule", "constant", "--no-shuffle", "--lr", 0.1)


class Inputs(quern.Case):
    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(7)

    def reals(self, *shape):
        return self.random.standard_normal(shape).astype(np.float32)

    def write(self, nodes, inputs, outputs, weights, name="net.onnx", **how):
        graph = helper.make_graph(nodes, "net", [value(*i) for i in inputs], [value(*o) for o in outputs],
                                  [numpy_helper.from_array(np.asarray(v), n) for n, v in weights.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        onnx.checker.check_model(model)
        onnx.save(model, str(self.folder / name), **how)

    def exported(self, *more):
        """Weights of the checkpoint net.st by way of an export, which has the signature of the file."""
        self.run_quern("export", "net.onnx", "--weights", "net.st", "--out", "out.onnx", *more)
        old, new = onnx.load(self.folder / "net.onnx"), onnx.load(self.folder / "out.onnx")
        self.assertEqual(str(old.graph.input) + str(old.graph.output), str(new.graph.input) + str(new.graph.output))
        return {t.name: numpy_helper.to_array(t) for t in new.graph.initializer}

    def refused(self, words, *arguments):
        process = self.start(*arguments)
        output, errors = process.communicate(timeout=60)
        self.assertIn(process.returncode, (0, 1, 2) if arguments[0] == "import" else (1, 2), output + errors)
        self.assertIn(words, errors + output)

    # ---- values ----

    def branches(self):
        """x W1 for a rate of 16000, else x W2; the rate as a number."""
        self.weights = {"W1": self.reals(8, 3), "W2": self.reals(8, 3), "fast": np.int64(16000)}
        arms = [helper.make_graph([node("MatMul", ["x", w], [f"y{w}"])], w, [], [value(f"y{w}", REAL, None)]) for w in ("W1", "W2")]
        self.write([node("Equal", ["sr", "fast"], ["is_fast"]),
                    node("If", ["is_fast"], ["y"], then_branch=arms[0], else_branch=arms[1])],
                   [("x", REAL, ("N", 8)), ("sr", WHOLE, ())], [("y", REAL, ("N", 3))], self.weights)

    def test_value_decides_branch(self):
        self.branches()
        x, y = self.reals(12, 8), self.reals(12, 3)
        np.savez(self.folder / "d.npz", x=x, y=y)
        self.refused("--set sr=VALUE", "import", "net.onnx", "--check")
        report = json.loads(self.run_quern("import", "net.onnx", "--set", "sr=8000", "--json").output)
        self.assertEqual([i["name"] for i in report["inputs"]], ["x"])
        self.run_quern("train", "net.onnx", "--data", "npz:d.npz", "--set", "sr=16000", "--batch", 12, "--steps", 1,
                       "--save", "net.st", *PLAIN)
        new = self.exported()
        w = self.weights["W1"].astype(np.float64)
        gradient = x.T.astype(np.float64) @ (2 * (x.astype(np.float64) @ w - y) / y.size)
        np.testing.assert_allclose(new["W1"], w - 0.1 * gradient, atol=1e-6)
        np.testing.assert_array_equal(new["W2"], self.weights["W2"])
        # nobody repeats it: resume, evaluate
        self.run_quern("train", "net.onnx", "--resume", "net.st", "--override", "--steps", 2, "--save", "net.st")
        loss = json.loads(self.run_quern("evaluate", "net.onnx", "--weights", "net.st", "--split", "train", "--json")
                          .output.splitlines()[-1])["loss"]
        self.assertAlmostEqual(loss, float(np.mean((x @ self.exported()["W1"] - y) ** 2)), places=4)
        self.refused("--set is sr=8000, but net.st was trained with sr=16000", "train", "net.onnx", "--resume", "net.st", "--set", "sr=8000", "--steps", 3)
        # the other branch has its own weights
        other = json.loads(self.run_quern("evaluate", "net.onnx", "--set", "sr=8000", "--data", "npz:d.npz", "--split", "train",
                                          "--json").output.splitlines()[-1])["loss"]
        self.assertAlmostEqual(other, float(np.mean((x @ self.weights["W2"] - y) ** 2)), places=4)

    def test_values_of_all_types(self):
        """Shapes and numbers of other types; the network classifies with its other inputs set."""
        self.write([node("Reshape", ["x", "to"], ["r"]), node("Flatten", ["r"], ["f"]), node("MatMul", ["f", "W"], ["m"]),
                    node("Mul", ["m", "gain"], ["y0"]), node("Cast", ["on"], ["one"], to=REAL), node("Mul", ["y0", "one"], ["y"])],
                   [("x", REAL, ("N", 6)), ("to", WHOLE, (3,)), ("gain", REAL, (1,)), ("on", TensorProto.BOOL, ())],
                   [("y", REAL, ("N", 3))], {"W": self.reals(6, 3)})
        for values in ("to=-1x2x3,gain=0.5,on=true", "gain=-1.5e-1,to=-1x3x2,on=1"):
            self.run_quern("import", "net.onnx", "--check", "--set", values)
        report = json.loads(self.run_quern("import", "net.onnx", "--json", "--set", values).output)
        self.assertTrue([t for t in report["tasks"] if t["task"] == "classification" and t["fits"]])
        gain = [i for i in report["initializers"] if i["name"] == "gain"][0]
        self.assertEqual((gain["trains"], gain["sure"]), (False, True))
        for wrong, words in (("to=1x2", "takes 3 numbers"), ("to=axbx1", "no whole number"), ("gain=high", "no number"),
                             ("on=maybe", "true or false"), ("nobody=1", "no input is called nobody"), ("to", "NAME=16000"),
                             ("to=1x2x99999999999999999999", "no whole number"), ("gain=1,gain=2", "each input once"),
                             ("x=1x2", "some of them open")):
            self.refused(words, "import", "net.onnx", "--set", wrong)

    # ---- the batch ----

    def time_first(self, outputs):
        """(T, N, C): x W and its mean over T."""
        self.weights = {"W": self.reals(8, 3)}
        self.write([node("MatMul", ["x", "W"], ["steps"]), node("ReduceMean", ["steps"], ["mean"], axes=[0], keepdims=0)],
                   [("x", REAL, (5, "B", 8))], outputs, self.weights)

    def test_batch_is_second(self):
        self.time_first([("steps", REAL, (5, "B", 3)), ("mean", REAL, ("B", 3))])
        x, y, z = self.reals(12, 5, 8), self.reals(12, 5, 3), self.reals(12, 3)
        np.savez(self.folder / "d.npz", x=x, steps=y, mean=z)
        self.run_quern("train", "net.onnx", "--data", "npz:d.npz", "--shape", "x=5xNx8", "--batch", 6, "--steps", 2,
                       "--save", "net.st", *PLAIN)
        w = self.weights["W"].astype(np.float64)
        for at in (0, 6):
            a, b, c = (v[at:at + 6].astype(np.float64) for v in (x, y, z))
            first = 2 * (a @ w - b) / b.size
            second = np.repeat(2 * ((a @ w).mean(1) - c)[:, None] / c.size / 5, 5, 1)
            w = w - 0.1 * np.einsum("ntc,ntk->ck", a, first + second)
        np.testing.assert_allclose(self.exported()["W"], w, atol=1e-6)
        self.run_quern("evaluate", "net.onnx", "--weights", "net.st", "--batch", 5, "--split", "train")
        report = json.loads(self.run_quern("import", "net.onnx", "--shape", "x=5xNx8", "--json").output)
        self.assertEqual([p["batch_axis"] for p in report["inputs"] + report["outputs"]], [1, 1, 0])

    def test_no_batch(self):
        """One sample at a time: (T, C) to (T, K), and steps of two samples by --accumulate."""
        self.weights = {"W": self.reals(8, 3)}
        self.write([node("MatMul", ["x", "W"], ["y"])], [("x", REAL, ("T", 8))], [("y", REAL, ("T", 3))], self.weights)
        x, y = self.reals(6, 5, 8), self.reals(6, 5, 3)
        np.savez(self.folder / "d.npz", x=x, y=y)
        self.refused("--batch 1", "train", "net.onnx", "--data", "npz:d.npz", "--shape", "x=none:5x8", "--batch", 2, "--steps", 1)
        self.run_quern("train", "net.onnx", "--data", "npz:d.npz", "--shape", "x=none:5x8", "--batch", 1, "--accumulate", 2,
                       "--steps", 2, "--save", "net.st", *PLAIN)
        w = self.weights["W"].astype(np.float64)
        for at in (0, 2):
            a, b = x[at:at + 2].astype(np.float64), y[at:at + 2]
            w = w - 0.1 * np.einsum("ntc,ntk->ck", a, 2 * (a @ w - b) / b.size)
        np.testing.assert_allclose(self.exported()["W"], w, atol=1e-6)

    def test_no_batch_predicts(self):
        """A row of numbers as the file has it, (C), to (K), with the softmax at the end left out in training."""
        self.weights = {"W": self.reals(3, 4)}
        self.write([node("MatMul", ["x", "W"], ["z"]), node("Softmax", ["z"], ["y"], axis=0)],
                   [("x", REAL, (3,))], [("y", REAL, (4,))], self.weights)
        rows = self.reals(20, 3)
        lines = ["a,b,c,kind"] + [",".join(f"{v:.6g}" for v in r) + ",k" + str(i % 4) for i, r in enumerate(rows)]
        (self.folder / "d.csv").write_text("\n".join(lines) + "\n")
        done = self.run_quern("train", "net.onnx", "--data", "csv:d.csv", "--shape", "x=none", "--batch", 1, "--steps", 3,
                              "--holdout", 0.2, "--save", "net.st")
        self.assertIn("softmax", done.errors)
        (self.folder / "new.csv").write_text("\n".join(line.rsplit(",", 1)[0] for line in lines) + "\n")
        found = self.run_quern("predict", "net.onnx", "csv:new.csv", "--weights", "net.st", "--csv").output.splitlines()
        self.assertEqual(len(found), 21)

    def test_shapes_refused(self):
        self.time_first([("steps", REAL, (5, "B", 3))])
        for wrong, words in (("x=5xNxN", "3 extents"), ("x=Nx8", "3 extents"), ("x=6xNx8", "is 5 in the file"), ("x=none:N", "3 ext"),
                             ("x=nonesuch", "3 extents"), ("z=none", "no input is called z"), ("steps=5xNx4", "is 3 in the file")):
            self.refused(words, "import", "net.onnx", "--shape", wrong)
        self.refused("is of ONNX files", "train", "mlp", "--data", "synthetic", "--shape", "x=1x2", "--steps", 1, "--no-save")
        self.refused("is of ONNX files", "train", "mlp", "--data", "synthetic", "--set", "x=1", "--steps", 1, "--no-save")
        self.refused("is of ONNX files", "plan", "mlp", "--follow-links")

    # ---- links ----

    def test_links(self):
        """As Hugging Face's cache has it: names are links to blobs."""
        self.weights = {"W": self.reals(64, 8)}
        blobs, snapshot = self.folder / "blobs", self.folder / "snapshots"
        blobs.mkdir()
        snapshot.mkdir()
        self.write([node("MatMul", ["x", "W"], ["y"])], [("x", REAL, ("N", 64))], [("y", REAL, ("N", 8))], self.weights,
                   name="m.onnx", save_as_external_data=True, location="m.onnx_data", size_threshold=0)
        os.rename(self.folder / "m.onnx", blobs / "a1")
        os.rename(self.folder / "m.onnx_data", blobs / "b2")
        (snapshot / "m.onnx").symlink_to("../blobs/a1")
        (snapshot / "m.onnx_data").symlink_to("../blobs/b2")
        np.savez(self.folder / "d.npz", x=self.reals(4, 64), y=self.reals(4, 8))
        train = ("train", "snapshots/m.onnx", "--data", "npz:d.npz", "--steps", 1, "--batch", 4, "--save", "m.st")
        self.refused("--follow-links", *train)
        done = self.run_quern(*train, "--follow-links")
        self.assertIn("b2", done.errors)
        self.run_quern("evaluate", "snapshots/m.onnx", "--weights", "m.st", "--split", "train")
        self.run_quern("export", "snapshots/m.onnx", "--weights", "m.st", "--out", "out.onnx")
        self.refused("--follow-links", "evaluate", "snapshots/m.onnx", "--weights", "m.st", "--no-follow-links")
        for target in ("/dev/zero", "/proc/self/mem", "../blobs", "m.onnx_data", "missing"):
            (snapshot / "m.onnx_data").unlink()
            (snapshot / "m.onnx_data").symlink_to(target)
            self.refused("m.onnx", "import", "snapshots/m.onnx", "--check", "--follow-links")


if __name__ == "__main__":
    unittest.main()
