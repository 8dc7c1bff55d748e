#!/usr/bin/python3
"""What comes back as ONNX after training: adapters as the weights that they make, and, of a norm that is called twice with the
statistics of one, the statistics of each call, of whose batches they are. The file computes what quern predicts."""
import csv
import io
import pathlib
import sys
import unittest

import numpy as np
import onnx
from onnx import helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import quern  # noqa: E402

NORM = ["bn.weight", "bn.bias", "bn.running_mean", "bn.running_var"]
node = helper.make_node


class Returns(quern.Case):
    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(3)
        self.constants = {"a.weight": draw.normal(size=(4, 4)), "c.weight": draw.normal(size=(3, 4)), "c.bias": np.zeros(3),
                          **dict(zip(NORM, (np.ones(4), np.zeros(4), draw.normal(size=4), draw.uniform(0.5, 2, 4))))}
        self.x = draw.normal(size=(12, 4)).astype(np.float32)
        np.save(self.folder / "x.npy", self.x)
        np.save(self.folder / "y.npy", np.arange(12) % 3)

    def save(self, nodes, functions=()):
        read = {name for made in nodes for name in made.input}
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, ["n", 4])],
                                  [helper.make_tensor_value_info("y", 1, ["n", 3])],
                                  [numpy_helper.from_array(v.astype(np.float32), k) for k, v in self.constants.items() if k in read])
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15), helper.make_opsetid("own", 1)])
        made.ir_version = 8
        made.functions.extend(functions)
        onnx.save(made, self.folder / "net.onnx")

    def train(self, *options):
        """The nodes' inputs and the tensors of the file that comes back, and what quern predicts."""
        self.run_quern("train", "net.onnx", "--data", "npy:x.npy,y.npy", "--batch", 6, "--steps", 6, "--lr", "0.1", "--no-test",
                       "--save", "net.st", *options)
        self.run_quern("export", "net.onnx", "--weights", "net.st", "--out", "out.onnx")
        graph = onnx.load(self.folder / "out.onnx").graph
        rows = csv.DictReader(io.StringIO(self.run_quern("predict", "npy:x.npy", "--weights", "net.st", "--csv").output))
        return ({made.name: list(made.input) for made in graph.node}, {t.name: numpy_helper.to_array(t) for t in graph.initializer},
                np.array([[float(row[k]) for k in "012"] for row in rows]))

    def check(self, y, predicted):
        y = np.exp(y - y.max(1, keepdims=True))
        np.testing.assert_allclose(predicted, y / y.sum(1, keepdims=True), atol=1e-5)

    def test_adapters(self):
        self.save([node("Gemm", ["x", "a.weight"], ["p"], "a", transB=1), node("Relu", ["p"], ["q"], "r"),
                   node("Gemm", ["q", "c.weight", "c.bias"], ["y"], "c", transB=1)])
        _, tensors, predicted = self.train("--lora", "rank=2,layers=*")
        for name in ("a.weight", "c.weight"):
            self.assertEqual(np.linalg.matrix_rank(tensors[name] - self.constants[name].astype(np.float32), tol=1e-4), 2)
        np.testing.assert_array_equal(tensors["c.bias"], self.constants["c.bias"])
        self.check(np.maximum(self.x @ tensors["a.weight"].T, 0) @ tensors["c.weight"].T + tensors["c.bias"], predicted)

    def test_one_norm_called_twice(self):
        body = helper.make_function("own", "Norm", ["u", "s", "b", "m", "v"], ["o"],
                                    [node("BatchNormalization", ["u", "s", "b", "m", "v"], ["o"], epsilon=1e-5)], [helper.make_opsetid("", 15)])
        for functions, kind, domain in (((), "BatchNormalization", ""), ((body,), "Norm", "own")):
            self.save([node(kind, ["x", *NORM], ["p"], "one", domain=domain), node("Gemm", ["p", "a.weight"], ["q"], "a", transB=1),
                       node(kind, ["q", *NORM], ["s"], "two", domain=domain), node("Gemm", ["s", "c.weight"], ["y"], "c", transB=1)], functions)
            inputs, tensors, predicted = self.train("--override")
            self.assertEqual(inputs["one"][1:3], inputs["two"][1:3])
            self.assertFalse(set(inputs["one"][3:]) & set(inputs["two"][3:]))

            def norm(call, x):
                weight, bias, mean, variance = (tensors[name] for name in inputs[call][1:])
                return (x - mean) / np.sqrt(variance + 1e-5) * weight + bias

            self.check(norm("two", norm("one", self.x) @ tensors["a.weight"].T) @ tensors["c.weight"].T, predicted)


if __name__ == "__main__":
    unittest.main()
