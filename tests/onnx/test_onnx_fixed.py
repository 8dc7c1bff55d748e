#!/usr/bin/python3
"""A network that fits the batch of its file alone, since a reshape has that in its middle: it trains at that batch,
is evaluated and predicts whatever is asked for, and comes back with its signature."""
import csv
import io
import pathlib
import sys
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import quern  # noqa: E402

BATCH, TIME, WIDTH, CLASSES = 2, 5, 4, 3


def outputs_of(weight, x):
    made = np.moveaxis(x, 1, 0) @ weight
    return made.reshape(TIME, len(x), CLASSES, 2).mean((0, 3))


def softmax(y):
    y = np.exp(y - y.max(1, keepdims=True))
    return y / y.sum(1, keepdims=True)


class Fixed(quern.Case):
    def setUp(self):
        super().setUp()
        draw = np.random.default_rng(4)
        self.weight = draw.normal(size=(WIDTH, 2 * CLASSES)).astype(np.float32)
        constants = {"w.weight": self.weight, "shape": np.array([TIME, BATCH, CLASSES, 2])}
        nodes = [helper.make_node("Transpose", ["x"], ["t"], "turn", perm=[1, 0, 2]),
                 helper.make_node("MatMul", ["t", "w.weight"], ["m"], "w"),
                 helper.make_node("Reshape", ["m", "shape"], ["r"], "heads"),
                 helper.make_node("ReduceMean", ["r"], ["y"], "mean", axes=[0, 3], keepdims=0)]
        graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, [BATCH, TIME, WIDTH])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, [BATCH, CLASSES])],
                                  [numpy_helper.from_array(v, k) for k, v in constants.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), self.folder / "net.onnx")
        self.x = draw.normal(size=(11, TIME, WIDTH)).astype(np.float32)
        self.labels = outputs_of(draw.normal(size=self.weight.shape), self.x).argmax(1)
        np.save(self.folder / "x.npy", self.x)
        np.save(self.folder / "y.npy", np.r_[self.labels[:-3], [0, 1, 2]])
        self.data = "npy:x.npy,y.npy"

    def chances(self, *words):
        rows = list(csv.DictReader(io.StringIO(self.run_quern("predict", "npy:x.npy", "--csv", *words).output)))
        return np.array([[float(v) for k, v in row.items() if k in ("0", "1", "2")] for row in rows])

    def test_trains_and_comes_back(self):
        self.run_quern("train", "net.onnx", "--data", self.data, "--batch", BATCH, "--steps", 4, "--lr", "0.1", "--no-test",
                       "--save", "net.st")
        self.run_quern("export", "net.onnx", "--weights", "net.st", "--out", "out.onnx")
        model = onnx.load(self.folder / "out.onnx")
        self.assertEqual([d.dim_value for d in model.graph.input[0].type.tensor_type.shape.dim], [BATCH, TIME, WIDTH])
        (weight,) = [numpy_helper.to_array(t) for t in model.graph.initializer if t.name == "w.weight"]
        self.assertFalse(np.array_equal(weight, self.weight))
        report = self.run_quern("evaluate", "--weights", "net.st", "--data", self.data, "--split", "train", "--json").output
        self.assertIn('"loss"', report)
        found = self.chances("--weights", "net.st")
        np.testing.assert_allclose(found, softmax(outputs_of(weight, self.x)), atol=1e-5)

    def test_other_batches_are_refused(self):
        done = self.run_quern("train", "net.onnx", "--data", self.data, "--batch", 5, "--steps", 1, "--save", "no.st", status=1)
        self.assertIn("use batches as long as the file's", done.errors)


if __name__ == "__main__":
    unittest.main()
