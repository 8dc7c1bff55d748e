"""Any network of an ONNX file trains on arrays by name (npz): weights after some steps and what evaluate prints agree with
PyTorch in double, for every loss, several inputs and outputs, images, sequences, tokens, ignored labels and one-hot
classes. What import --check promises train accepts, and the other way round."""
import json
import os
import subprocess
import sys
import unittest

import numpy as np
import onnx
import torch
import torch.nn.functional as F
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "cli"))
import quern  # noqa: E402

N, BATCH, STEPS, RATE = 24, 8, 5, 0.1
REAL, WHOLE = TensorProto.FLOAT, TensorProto.INT64
node = helper.make_node


class Arrays(quern.Case):
    def setUp(self):
        super().setUp()
        self.random = np.random.default_rng(7)

    def reals(self, *shape):
        return self.random.standard_normal(shape).astype(np.float32)

    def network(self, nodes, inputs, outputs, weights, **constants):
        """A file net.onnx; self.weights as PyTorch's, in double."""
        values = {name: 0.3 * self.reals(*shape) for name, shape in weights.items()}
        graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info(*i) for i in inputs],
                                  [helper.make_tensor_value_info(*o) for o in outputs],
                                  [numpy_helper.from_array(np.asarray(v), n) for n, v in {**values, **constants}.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        onnx.checker.check_model(model)
        onnx.save(model, self.folder / "net.onnx")
        self.weights = {n: torch.tensor(v, dtype=torch.float64, requires_grad=True) for n, v in values.items()}

    def compare(self, loss_of, metrics, *more, packed=False, **arrays):
        """loss_of(weights, batch): PyTorch's, of tensors; metrics: what evaluate must say, from the last weights."""
        (np.savez_compressed if packed else np.savez)(self.folder / "data.npz", **arrays)
        tensors = {n: torch.tensor(a.astype(np.float64) if a.dtype.kind == "f" else a.astype(np.int64))
                   for n, a in arrays.items()}
        self.run_quern("train", "net.onnx", "--data", "npz:data.npz", "--batch", BATCH, "--steps", STEPS, "--lr", RATE,
                       "--optimizer", "sgd", "--momentum", 0, "--schedule", "constant", "--no-shuffle", "--save", "net.st", *more)
        optimizer = torch.optim.SGD(self.weights.values(), lr=RATE)
        for step in range(STEPS):
            at = step * BATCH % N
            optimizer.zero_grad()
            loss_of(self.weights, {n: t[at:at + BATCH] for n, t in tensors.items()}).backward()
            optimizer.step()
        self.run_quern("export", "net.onnx", "--weights", "net.st", "--out", "out.onnx")
        trained = {t.name: numpy_helper.to_array(t) for t in onnx.load(self.folder / "out.onnx").graph.initializer}
        for name, value in self.weights.items():
            np.testing.assert_allclose(trained[name], value.detach().numpy(), atol=2e-5, rtol=1e-4)
        run = self.run_quern("evaluate", "net.onnx", "--weights", "net.st", "--split", "train", "--batch", 7, "--json")
        result = json.loads(run.output)
        with torch.no_grad():
            wanted = metrics(self.weights, tensors)
            wanted["loss"] = loss_of(self.weights, tensors)
        for name, value in wanted.items():
            self.assertAlmostEqual(result[name], float(value), delta=2e-5 * (1 + abs(float(value))), msg=name)

    def test_several_inputs_and_outputs(self):
        self.network([node("Gemm", ["a", "w1", "b1"], ["h"], transB=1), node("Relu", ["h"], ["r"]), node("Gather", ["table", "k"], ["e"]),
                      node("ReduceMean", ["e"], ["m"], axes=[1], keepdims=0), node("Concat", ["r", "m"], ["c"], axis=1),
                      node("Gemm", ["c", "w2", "b2"], ["classes"], transB=1), node("Gemm", ["c", "w3"], ["z"], transB=1),
                      node("Sigmoid", ["z"], ["flags"]), node("Gemm", ["c", "w4"], ["value"], transB=1)],
                     [("a", REAL, ["N", 5]), ("k", WHOLE, ["N", "T"])],
                     [("classes", REAL, ["N", 4]), ("flags", REAL, ["N", 3]), ("value", REAL, ["N", 1])],
                     {"w1": (6, 5), "b1": (6,), "table": (9, 4), "w2": (4, 10), "b2": (4,), "w3": (3, 10), "w4": (1, 10)})

        def outputs(w, x):
            c = torch.cat([(x["a"] @ w["w1"].T + w["b1"]).relu(), w["table"][x["k"]].mean(1)], 1)
            return c @ w["w2"].T + w["b2"], c @ w["w3"].T, (c @ w["w4"].T)[:, 0]

        def loss(w, x):
            classes, flags, value = outputs(w, x)
            return (F.cross_entropy(classes, x["classes"]) + F.binary_cross_entropy_with_logits(flags, x["flags"].double())
                    + F.mse_loss(value, x["value"]))

        def metrics(w, x):
            classes, flags, value = outputs(w, x)
            right = torch.cat([(classes.argmax(1) == x["classes"]), ((flags > 0) == (x["flags"] > 0)).reshape(-1)])
            return {"accuracy": right.double().mean(), "mean_absolute_error": (value - x["value"]).abs().mean()}

        self.compare(loss, metrics, a=self.random.standard_normal((N, 5)), k=self.random.integers(0, 9, (N, 7)),
                     classes=self.random.integers(0, 4, N), flags=self.random.integers(0, 2, (N, 3)).astype(bool), value=self.reals(N))

    def test_segmentation_ignores_255(self):
        self.network([node("Conv", ["x", "w", "b"], ["h"], pads=[1, 1, 1, 1]), node("Relu", ["h"], ["r"]),
                      node("Conv", ["r", "v"], ["z"]), node("Softmax", ["z"], ["y"], axis=1)],
                     [("x", REAL, ["N", 2, "H", "W"])], [("y", REAL, ["N", 3, "H", "W"])], {"w": (6, 2, 3, 3), "b": (6,), "v": (3, 6, 1, 1)})
        labels = self.random.integers(0, 3, (N, 6, 8)).astype(np.uint8)
        labels[:, :2] = 255

        def logits(w, x):
            return F.conv2d(F.conv2d(x["x"], w["w"], w["b"], padding=1).relu(), w["v"])

        def metrics(w, x):
            here = x["mask"] != 255
            return {"accuracy": (logits(w, x).argmax(1) == x["mask"])[here].double().mean()}

        self.compare(lambda w, x: F.cross_entropy(logits(w, x), x["mask"], ignore_index=255), metrics, packed=True,
                     x=self.reals(N, 2, 6, 8), mask=labels)
        kinds = [n.op_type for n in onnx.load(self.folder / "out.onnx").graph.node]
        self.assertEqual(kinds, ["Conv", "Relu", "Conv", "Softmax"])

    def test_tokens_are_labelled(self):
        self.network([node("Gather", ["table", "t"], ["e"]), node("MatMul", ["e", "w"], ["y"])],
                     [("t", WHOLE, ["N", "T"])], [("y", REAL, ["N", "T", 5])], {"table": (11, 6), "w": (6, 5)})
        labels = self.random.integers(0, 5, (N, 9))
        labels[:, 6:] = -100

        def metrics(w, x):
            here = x["y"] >= 0
            return {"accuracy": ((w["table"][x["t"]] @ w["w"]).argmax(2) == x["y"])[here].double().mean()}

        self.compare(lambda w, x: F.cross_entropy((w["table"][x["t"]] @ w["w"]).transpose(1, 2), x["y"], ignore_index=-100), metrics,
                     t=self.random.integers(0, 11, (N, 9)), y=labels)

    def regression(self):
        self.network([node("Flatten", ["x"], ["f"]), node("Gemm", ["f", "w", "b"], ["y"], transB=1)],
                     [("x", REAL, ["N", 1, 4, 6])], [("y", REAL, ["N", 3])], {"w": (3, 24), "b": (3,)})
        return lambda w, x: x["x"].reshape(-1, 24) @ w["w"].T + w["b"]

    def test_losses_of_windows(self):
        losses = {"mse": F.mse_loss, "l1": F.l1_loss, "huber": F.smooth_l1_loss, "bce": F.binary_cross_entropy_with_logits}
        for name, function in losses.items():
            with self.subTest(name):
                y = self.regression()
                target = self.random.random((N, 3)).astype(np.float32) if name == "bce" else 2 * self.reals(N, 3)
                self.compare(lambda w, x: function(y(w, x), x["target"]),
                             lambda w, x: {} if name == "bce" else {"mean_absolute_error": (y(w, x) - x["target"]).abs().mean()},
                             "--loss", name, x=self.reals(N, 1, 4, 6), target=target)

    def test_sigmoid_with_classes(self):
        self.network([node("Gemm", ["x", "w", "b"], ["z"], transB=1), node("Sigmoid", ["z"], ["y"])],
                     [("x", REAL, ["N", 6])], [("y", REAL, ["N", 4])], {"w": (4, 6), "b": (4,)})

        def parts(w, x):
            return x["x"] @ w["w"].T + w["b"], F.one_hot(x["classes"], 4).double()

        self.compare(lambda w, x: F.binary_cross_entropy_with_logits(*parts(w, x)),
                     lambda w, x: {"accuracy": ((parts(w, x)[0] > 0) == (parts(w, x)[1] > 0)).double().mean()},
                     x=self.reals(N, 6), classes=self.random.integers(0, 4, N))

    def test_loss_in_the_file(self):
        self.network([node("Gemm", ["x", "w"], ["y"], transB=1), node("Sub", ["y", "t"], ["d"]), node("Mul", ["d", "d"], ["s"]),
                      node("ReduceMean", ["s"], ["loss"], keepdims=0)],
                     [("x", REAL, ["N", 6]), ("t", REAL, ["N", 2])], [("y", REAL, ["N", 2]), ("loss", REAL, [])], {"w": (2, 6)})
        # A loss over a batch is measured on whole batches: 21 of 24 samples by sevens.
        self.compare(lambda w, x: F.mse_loss(x["x"][:21] @ w["w"].T, x["t"][:21]), lambda w, x: {}, "--loss", "none",
                     x=self.reals(N, 6), t=self.reals(N, 2))

    def test_quantised_trains_straight_through(self):
        """Activations in bytes, weights in signed bytes with a scale for each output, as exports of quantisation-aware training."""
        self.network([node("QuantizeLinear", ["x", "sx", "zx"], ["xq"]), node("DequantizeLinear", ["xq", "sx", "zx"], ["xd"]),
                      node("QuantizeLinear", ["w", "sw", "zw"], ["wq"], axis=0), node("DequantizeLinear", ["wq", "sw", "zw"], ["wd"], axis=0),
                      node("Gemm", ["xd", "wd", "b"], ["y"], transB=1)],
                     [("x", REAL, ["N", 6])], [("y", REAL, ["N", 3])], {"w": (3, 6), "b": (3,)},
                     sx=np.float32(0.03125), zx=np.uint8(120), sw=np.float32([0.01, 0.004, 0.02]), zw=np.int8([0, 3, -2]))

        def quantise(x, scale, zero, least, most):
            u = x / scale
            q = (u + (u.round() - u).detach() + zero).clamp(least, most)
            return (q - zero) * scale

        def output(w, x):
            scale, zero = torch.tensor(np.float64(np.float32([0.01, 0.004, 0.02])))[:, None], torch.tensor([0, 3, -2])[:, None]
            return quantise(x["x"], 0.03125, 120, 0, 255) @ quantise(w["w"], scale, zero, -128, 127).T + w["b"]

        self.compare(lambda w, x: F.mse_loss(output(w, x), x["target"]), lambda w, x: {}, x=2 * self.reals(N, 6), target=self.reals(N, 3))
        self.assertIn("train       21 numbers", self.run_quern("import", "net.onnx").output)

    @quern.numbers
    def test_import_holds_the_weights_once(self):
        """64 MB of weights in the file: at most 32 MB besides."""
        w = np.zeros((1024, 1024), np.float32)
        names = [f"w{i}" for i in range(16)]
        nodes = [node("MatMul", [f"h{i}", name], [f"h{i + 1}"]) for i, name in enumerate(names)]
        graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("h0", REAL, ["N", 1024])],
                                  [helper.make_tensor_value_info("h16", REAL, ["N", 1024])], [numpy_helper.from_array(w, n) for n in names])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), self.folder / "large.onnx")
        measure = ("import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL); "
                   "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)")
        # of a small program, since a new process begins with the memory of the one that starts it
        used = subprocess.check_output([sys.executable, "-c", measure, quern.QUERN, "import", "large.onnx"], cwd=self.folder)
        self.assertLess(int(used), (64 + 32) * 1024)

    def test_shapes_are_said(self):
        """A linear layer over all of an open image works for one size alone."""
        self.network([node("Conv", ["x", "v"], ["h"], pads=[1, 1, 1, 1]), node("Flatten", ["h"], ["f"]), node("Gemm", ["f", "w"], ["y"], transB=1)],
                     [("x", REAL, ["N", 3, "H", "W"])], [("y", REAL, ["N", 5])], {"v": (2, 3, 3, 3), "w": (5, 2 * 12 * 10)})
        check = ("import", "net.onnx", "--check")
        guessed = self.run_quern(*check, status=1)
        self.assertIn("extent 2 of input x is open in the file, and was guessed: say it by --shape x=1x...", guessed.output)
        self.assertIn("task        classification", self.run_quern(*check, "--shape", "x=1x3x12x10").output)
        self.fails(2, *check, "--shape", "z=1x3x12x10", says=["no input is called z", "first input is x"])
        self.fails(2, *check, "--shape", "x=1x3x12", says=["has 4 extents"])
        self.fails(2, *check, "--shape", "x=1x4x12x10", says=["is 3 in the file, so it cannot be 4"])
        self.run_quern("train", "net.onnx", "--shape", "x=1x3x12x10", "--data", "synthetic", "--steps", "2", "--save", "net.st")
        self.run_quern("evaluate", "net.onnx", "--weights", "net.st")
        self.run_quern("export", "net.onnx", "--weights", "net.st", "--out", "out.onnx")
        before, after = (onnx.load(self.folder / name).graph.input[0] for name in ("net.onnx", "out.onnx"))
        self.assertEqual(before.SerializeToString(), after.SerializeToString())

    def test_mistakes_are_named(self):
        self.regression()
        train = ("train", "net.onnx", "--steps", "1", "--batch", "8", "--data", "npz:data.npz")

        def save(**arrays):
            np.savez(self.folder / "data.npz", **arrays)

        save(z=self.reals(N, 1, 4, 6))
        self.fails(1, *train, says=["no array x", "they have z"])
        save(x=self.reals(N, 1, 4, 6), y=self.reals(N - 1, 3))
        self.fails(1, *train, says=["array y has 23 samples", "x has 24"])
        save(x=self.reals(N, 1, 4, 6), y=self.reals(N, 5))
        self.fails(1, *train, says=["array y", "output y 8x3"])
        save(x=self.reals(N, 1, 4, 6), y=np.full(N, 3))
        self.fails(1, *train, says=["sample 0 is of class 3", "0 to 2"])
        save(x=self.reals(N, 1, 4, 6), y=np.full((N, 3), np.nan, np.float32))
        self.fails(1, *train, says=["array y", "nan"])
        save(x=self.reals(N, 1, 4, 6))
        self.fails(1, *train, says=["no target", "such as y"])
        save(x=self.reals(N, 1, 4, 6), p=self.reals(N), q=self.reals(N))
        self.fails(1, *train, says=["p and q", "such as y"])
        (self.folder / "data.npz").write_bytes(b"nothing")
        self.fails(1, *train, says=["data.npz", "numpy.savez"])
        self.fails(1, "train", "net.onnx", "--steps", "1", "--data", "npz:none.npz", says=["none.npz"])

    def test_parts_and_resuming(self):
        self.regression()
        np.savez(self.folder / "data.npz", x=self.reals(N, 1, 4, 6), y=self.reals(N, 3))
        np.savez(self.folder / "test.npz", x=self.reals(5, 1, 4, 6), y=self.reals(5, 3))
        train = ("train", "net.onnx", "--data", "npz:data.npz,test.npz", "--batch", "4", "--validation", "0.25", "--save")
        self.run_quern(*train, "whole.st", "--steps", "7")
        self.run_quern(*train, "part.st", "--steps", "3", "--schedule-steps", "7")
        self.run_quern("train", "--resume", "part.st", "--steps", "7", "--save", "part.st")
        self.assertEqual(quern.weights_of(self.folder / "whole.st"), quern.weights_of(self.folder / "part.st"))
        counts = [json.loads(self.run_quern("evaluate", "net.onnx", "--weights", "part.st", "--split", split, "--json").output)["samples"]
                  for split in ("train", "validation", "test")]
        # Which ones are held out is drawn by content, so that their number is about a quarter.
        self.assertEqual((counts[0] + counts[1], counts[2]), (N, 5))
        self.assertTrue(2 <= counts[1] <= 12, counts)

    def test_check_promises_what_train_accepts(self):
        self.regression()
        report = json.loads(self.run_quern("import", "net.onnx", "--json").output)
        fits = [t["task"] for t in report["tasks"] if t["fits"]]
        self.assertIn("arrays", fits)
        graph = helper.make_graph([node("ArgMax", ["x"], ["y"], axis=1)], "net", [helper.make_tensor_value_info("x", REAL, ["N", 3])],
                                  [helper.make_tensor_value_info("y", WHOLE, ["N", 1])])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), self.folder / "whole.onnx")
        report = json.loads(self.run_quern("import", "whole.onnx", "--json").output)
        self.assertEqual([t["task"] for t in report["tasks"] if t["fits"]], [])
        np.savez(self.folder / "data.npz", x=self.reals(N, 3), y=np.zeros(N))
        self.fails(1, "train", "whole.onnx", "--data", "npz:data.npz", says=["output of reals"])


if __name__ == "__main__":
    unittest.main()
