"""Operators that other runtimes were reported to compute wrongly: sums of bytes with zero points, divisions of negative integers, pads that
remove as much as they add, transposed convolutions with a pad below 0, and the largest of many."""
import os
import pathlib
import subprocess
import sys
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import quern  # noqa: E402

TOOL = os.path.abspath(os.path.join(os.environ.get("QUERN_TOOLS", "build/release/tests"), "run_onnx"))
node = helper.make_node


class Reports(quern.Case):
    def run_nodes(self, nodes, constants, x, type_=TensorProto.DOUBLE):
        graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", type_, list(x.shape))],
                                  [helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)],
                                  [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "net.onnx")
        x.astype(np.float64).tofile(self.folder / "in")
        done = subprocess.run([TOOL, "net.onnx", "f64", "0", "0", "in", "out", "x".join(map(str, x.shape))], cwd=self.folder,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return np.fromfile(self.folder / "out")

    def test_sums_of_bytes_do_not_saturate(self):
        left = np.array([[238, 115, 94], [245, 111, 102], [158, 225, 48]])
        right = np.array([[25, 36, 125], [42, -123, 76], [-81, -86, 35]], np.int8)
        found = self.run_nodes([node("Cast", ["x"], ["a"], to=TensorProto.UINT8), node("MatMulInteger", ["a", "w", "p", "q"], ["s"]),
                                node("Cast", ["s"], ["y"], to=TensorProto.DOUBLE)], {"w": right, "p": np.uint8([42]), "q": np.int8([-26])}, left)
        np.testing.assert_array_equal(found, ((left - 42) @ (right.astype(int) + 26)).ravel())

    def test_integer_division_cuts_towards_0(self):
        found = self.run_nodes([node("Div", ["x", "b"], ["q"]), node("Cast", ["q"], ["y"], to=TensorProto.DOUBLE)],
                               {"b": np.array([-3, 3, -2, 2])}, np.array([8, -8, 7, -7]), TensorProto.INT64)
        np.testing.assert_array_equal(found, [-2, -2, -3, -3])

    def test_pads_that_remove_all_that_was(self):
        x = np.arange(1.0, 17).reshape(1, 1, 4, 4)
        found = self.run_nodes([node("Pad", ["x", "pads"], ["y"])], {"pads": np.array([0, 0, 4, 1, 0, 0, -4, -1])}, x)
        np.testing.assert_array_equal(found, np.zeros(16))
        found = self.run_nodes([node("Pad", ["x", "pads"], ["y"])], {"pads": np.array([0, 0, 1, -1, 0, 0, -2, 2])}, x)
        np.testing.assert_array_equal(found, np.pad(x[:, :, :2, 1:], ((0, 0), (0, 0), (1, 0), (0, 2))).ravel())

    def test_transposed_convolution_with_a_pad_below_0(self):
        draw = np.random.default_rng(1)
        x, w = draw.normal(size=(1, 2, 3, 4)), draw.normal(size=(2, 3, 1, 3))
        found = self.run_nodes([node("ConvTranspose", ["x", "w"], ["y"], kernel_shape=[1, 3], pads=[0, 0, 0, -1], strides=[1, 2])], {"w": w}, x)
        wanted = np.zeros((1, 3, 3, 10))
        for column in range(4):
            for tap in range(3):
                wanted[..., 2 * column + tap] += np.einsum("nchq,ck->nkhq", x[..., column:column + 1], w[:, :, 0, tap])[..., 0]
        np.testing.assert_allclose(found, wanted.ravel(), atol=1e-12)

    def test_the_largest_of_many(self):
        x = np.random.default_rng(0).normal(size=(1, 1, 2, 4000)) * 100
        for output, wanted in (("v", -np.sort(-x)[..., :198]), ("i", np.argsort(-x, kind="stable")[..., :198])):
            found = self.run_nodes([node("TopK", ["x", "k"], ["v", "i"], axis=3), node("Cast", [output], ["y"], to=TensorProto.DOUBLE)],
                                   {"k": np.array([198])}, x)
            np.testing.assert_array_equal(found, wanted.ravel())


if __name__ == "__main__":
    unittest.main()
