"""Integers of ONNX files are exact: products of 64 bits, types that wrap, indices, masks, and what moves them. Expected numbers are
NumPy's, which computes in the same types."""
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
CASES = pathlib.Path(__file__).parent / "cases"
INTEGERS = {TensorProto.INT64: np.int64, TensorProto.INT32: np.int32, TensorProto.INT16: np.int16, TensorProto.INT8: np.int8,
            TensorProto.UINT32: np.uint32, TensorProto.UINT16: np.uint16, TensorProto.UINT8: np.uint8}
node = helper.make_node


class Network(quern.Case):
    def compute(self, path, x, status=0):
        np.asarray(x, np.float64).tofile(self.folder / "in")
        done = subprocess.run([TOOL, path, "f64", "0", "0", "in", "out", "x".join(map(str, np.shape(x)))], cwd=self.folder,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode != 0, status != 0, done.stderr)
        return np.fromfile(self.folder / "out") if status == 0 else done.stderr


class Integers(Network):
    def network(self, nodes, constants, x, to=TensorProto.DOUBLE, opset=18):
        """Nodes from x, of int64, to y."""
        graph = helper.make_graph(
            nodes, "net", [helper.make_tensor_value_info("x", TensorProto.INT64, list(np.shape(x)))],
            [helper.make_tensor_value_info("y", to, None)],
            [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
        path = self.folder / "net.onnx"
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)]), path)
        return path

    def check(self, nodes, constants, x, wanted):
        found = self.compute(self.network(nodes, constants, x), x)
        np.testing.assert_array_equal(found, np.asarray(wanted, np.float64).ravel(), str(nodes))

    def test_cases(self):
        for name, x, wanted in (("int64_product_overflow", None, (640, 640, 15)), ("int_gemm_exact", None, (1,)),
                                ("uint8_wrap", None, None)):
            path = CASES / f"{name}.onnx"
            model = onnx.load(path)
            shape = [d.dim_value or 1 for d in model.graph.input[0].type.tensor_type.shape.dim]
            constants = {t.name: int(numpy_helper.to_array(t)) for t in model.graph.initializer}
            x = np.arange(1, 1 + int(np.prod(shape))).reshape(shape) * (100003 if name.startswith("int64") else 1)
            if name == "uint8_wrap":
                wanted = (x.astype(np.uint8) + np.uint8(constants["k"])).astype(np.float64)
            elif name == "int_gemm_exact":
                wanted = x * constants["k"] - constants["k2"]
            else:
                wanted = [i * constants["k"] % 2**64 for i in x.ravel().tolist()]
                wanted = [(i - 2**64 if i >= 2**63 else i) % constants["q"] for i in wanted]
            np.testing.assert_array_equal(self.compute(path, x), np.asarray(wanted, np.float64).ravel(), name)

    def test_types_wrap(self):
        x = np.arange(-300, 300, 7).reshape(2, -1)
        for type_, numpy_type in INTEGERS.items():
            a = x.astype(numpy_type)
            k = np.array(np.iinfo(numpy_type).max // 2, numpy_type)
            cast = [node("Cast", ["x"], ["a"], to=type_)]
            for operator, wanted in (("Add", a + k), ("Sub", a - k), ("Mul", a * k), ("Min", np.minimum(a, k)),
                                     ("Max", np.maximum(a, k)), ("BitwiseXor", a ^ k)):
                nodes = [*cast, node(operator, ["a", "k"], ["b"]), node("Cast", ["b"], ["y"], to=TensorProto.DOUBLE)]
                self.check(nodes, {"k": k}, x, wanted)

    def test_division(self):
        x = np.array([-7, -6, 6, 7, 0, 2**31 - 1])
        for operator, more, wanted in (("Div", {}, [int(i / 3) for i in x.tolist()]), ("Mod", {}, x % 3),
                                       ("Mod", {"fmod": 1}, np.fmod(x, 3)), ("Pow", {}, x**3)):
            self.check([node(operator, ["x", "k"], ["b"], **more), node("Cast", ["b"], ["y"], to=TensorProto.DOUBLE)],
                       {"k": np.int64(3)}, x, wanted)

    def test_beyond_floats(self):
        """Sums, places and masks of numbers that neighbour each other far above 2^53."""
        x, k = np.array([[3, 1, 2], [1, 3, 2]]), np.int64(2**61)
        large = [node("Add", ["x", "k"], ["a"])]
        tail = [node("Sub", ["b", "k"], ["c"]), node("Cast", ["c"], ["y"], to=TensorProto.DOUBLE)]
        axis = np.array([1])
        for nodes, wanted in (
                ([node("ReduceMax", ["a", "axis"], ["b"])], [3, 3]), ([node("ReduceMin", ["a"], ["b"], axes=[1])], None),
                ([node("Clip", ["a", "least"], ["b"])], np.maximum(x, 2)),
                ([node("Gather", ["a", "axis"], ["b"], axis=1)], [1, 3]), ([node("Transpose", ["a"], ["b"])], x.T),
                ([node("Concat", ["a", "a"], ["b"], axis=0)], [x, x]), ([node("Slice", ["a", "axis", "two", "axis"], ["b"])], [1, 3])):
            if wanted is not None:
                self.check([*large, *nodes, *tail], {"k": k, "axis": axis, "two": np.array([2]), "least": k + 2}, x, wanted)
        to_double = node("Cast", ["b"], ["y"], to=TensorProto.DOUBLE)
        self.check([*large, node("ArgMax", ["a"], ["b"], axis=1), to_double], {"k": k}, x, [0, 1])
        self.check([*large, node("Equal", ["a", "three"], ["b"]), to_double], {"k": k, "three": k + 3}, x, x == 3)
        self.check([*large, node("Less", ["a", "three"], ["m"]), node("Where", ["m", "x", "k"], ["b"]), to_double],
                   {"k": k, "three": k + 2}, x, np.where(x < 2, x, k))
        self.check([node("CumSum", ["x", "one"], ["b"]), to_double], {"one": np.int64(1)}, x, np.cumsum(x, 1))

    def test_arrays(self):
        """The largest, one-hot rows, products and sums by indices of numbers that neighbour each other far above 2^53."""
        x, k = np.array([[3, 1, 2, -5], [1, 3, 2, 3]]), 2**61
        large = [node("Add", ["x", "k"], ["a"])]
        less = [node("Sub", ["b", "k"], ["c"]), node("Cast", ["c"], ["y"], to=TensorProto.DOUBLE)]
        to_double = node("Cast", ["b"], ["y"], to=TensorProto.DOUBLE)
        two = {"k": np.int64(k), "two": np.array([2])}
        self.check([*large, node("TopK", ["a", "two"], ["b", "i"], axis=1), *less], two, x, [[3, 2], [3, 3]])
        self.check([*large, node("TopK", ["a", "two"], ["i", "b"], axis=1), to_double], two, x, [[0, 2], [1, 3]])
        self.check([*large, node("TopK", ["a", "two"], ["b", "i"], axis=1, largest=0), *less], two, x, [[-5, 1], [1, 2]])
        self.check([*large, node("TopK", ["a", "two"], ["b", "i"], axis=0), *less], two, x, [[3, 3, 2, 3], [1, 1, 2, -5]])
        for by, wanted in ((1, x >> 1), (64, x >> 63), (-1, x >> 63)):  # to the right: signs fill what comes free
            self.check([node("BitShift", ["x", "by"], ["b"], direction="RIGHT"), to_double], {"by": np.int64(by)}, x, wanted)
        self.check([node("Relu", ["x"], ["b"]), to_double], {}, x, np.maximum(x, 0))
        values = {"depth": np.int64(4), "values": np.array([k, k + 1]), "k": np.int64(k)}
        self.check([node("OneHot", ["x", "depth", "values"], ["b"]), *less], values, x[:, :3], np.eye(4)[x[:, :3]])
        w = np.array([[1, 2], [2**40, -1], [0, 5], [7, 1]])
        wanted = [[(sum((i + k) * j for i, j in zip(row, column)) + 2**63) % 2**64 - 2**63 for column in w.T.tolist()] for row in x.tolist()]
        product = {"k": np.int64(k), "w": w}
        self.check([*large, node("MatMul", ["a", "w"], ["b"]), node("Mod", ["b", "m"], ["r"]), node("Cast", ["r"], ["y"], to=TensorProto.DOUBLE)],
                   {**product, "m": np.int64(1000003)}, x, np.array(wanted) % 1000003)
        self.check([node("Gemm", ["x", "t", "k"], ["b"], transB=1), *less], {"k": np.int64(k), "t": w.T}, x, x @ w)
        self.check([node("ReduceL1", ["x", "one"], ["b"], keepdims=0), to_double], {"one": np.array([1])}, x, np.abs(x).sum(1))
        self.check([node("ReduceSumSquare", ["x", "one"], ["b"], keepdims=0), to_double], {"one": np.array([1])}, x, (x * x).sum(1))

    def test_combined_by_indices(self):
        x, k = np.array([4, -2, 9]), 2**61
        data, at = np.array([k + 1, k + 2, k + 3]), np.array([0, 2, 0])
        table = {"data": data, "at": at, "k": np.int64(k), "three": np.array([3])}
        for how, wanted in (("add", [14, 2, 1]), ("max", [9, 2, 3]), ("min", [1, 2, -2])):
            updates = [node("Add", ["x", "k"], ["u"])] if how != "add" else [node("Identity", ["x"], ["u"])]
            tail = [node("Sub", ["b", "k"], ["c"]), node("Cast", ["c"], ["y"], to=TensorProto.DOUBLE)]
            self.check([*updates, node("ScatterElements", ["data", "at", "u"], ["b"], reduction=how), *tail], table, x, wanted)
            changing = [node("Mod", ["x", "three"], ["m"])]  # 1, 1, 0
            wanted = {"add": [10, 4, 3], "max": [9, 4, 3], "min": [1, -2, 3]}[how]
            self.check([*updates, *changing, node("ScatterElements", ["data", "m", "u"], ["b"], reduction=how), *tail], table, x, wanted)

    def test_known_are_moved_exactly(self):
        """What is known at import, too, keeps all its bits."""
        table = np.array([[2**60 + 1, 2**60 + 2], [-7, 2**60 + 3]])
        for nodes, wanted in (([node("Pad", ["table", "pads", "k"], ["a"])], np.pad(table, ((0, 1), (1, 0)), constant_values=2**60)),
                              ([node("Tile", ["table", "two"], ["a"])], np.tile(table, (2, 1))),
                              ([node("Trilu", ["table"], ["a"])], np.triu(table)),
                              ([node("ScatterElements", ["table", "zero", "one"], ["a"])], np.array([[5, 2**60 + 2], [-7, 2**60 + 3]])),
                              ([node("Resize", ["table", "", "scales"], ["a"], mode="nearest")], table.repeat(2, 0))):
            nodes += [node("Sub", ["a", "k"], ["b"]), node("Add", ["b", "x"], ["c"]), node("Cast", ["c"], ["y"], to=TensorProto.DOUBLE)]
            constants = {"table": table, "pads": np.array([0, 1, 1, 0]), "k": np.int64(2**60), "two": np.array([2, 1]),
                         "zero": np.array([[0]]), "one": np.array([[5]]), "scales": np.float32([2, 1])}
            self.check(nodes, constants, np.array([5]), wanted - 2**60 + 5)

    def test_moved_by_indices(self):
        """Indices that are known only when it runs, of a table that floats do not hold; a wrong one is no element."""
        table = np.array([2**60 + 1, 2**60 + 2, 2**60 + 3])
        nodes = [node("Gather", ["table", "x"], ["a"]), node("Sub", ["a", "k"], ["b"]),
                 node("Cast", ["b"], ["y"], to=TensorProto.DOUBLE)]
        self.check(nodes, {"table": table, "k": np.int64(2**60)}, np.array([2, -3, 1]), [3, 1, 2])
        with_reals = [node("Mul", ["x", "k"], ["i"]), node("Gather", ["reals", "i"], ["y"])]
        x = np.array([0, 1])
        path = self.network(with_reals, {"k": np.int64(2**32), "reals": np.array([5.0, 6.0])}, x)
        found = self.compute(path, x)  # 2^32 is no index of 2: it does not wrap to 0
        self.assertEqual(found[0], 5)
        self.assertTrue(np.isnan(found[1]))

    def test_refused(self):
        x = np.ones((1, 1, 2, 2), np.int64)
        path = self.network([node("ReduceL2", ["x"], ["y"])], {}, x, TensorProto.INT64)
        self.assertIn("node y (ReduceL2): y: it is not computed exactly with integers here", self.compute(path, x, 1))
        path = self.network([node("Resize", ["x", "", "s"], ["y"], mode="linear")], {"s": np.float32([1, 1, 2, 2])}, x, TensorProto.INT64)
        self.assertIn("node y (Resize): it works integers out between others", self.compute(path, x, 1))
        path = self.network([node("Add", ["x", "x"], ["y"])], {}, x, TensorProto.INT64)
        self.assertIn("output y has integers of 64 bits", self.compute(path, x, 1))

    def test_casts_round(self):
        x = np.array([2049, 4097, 257, 131071])
        for type_, wanted in ((TensorProto.FLOAT16, [2048, 4096, 257, np.inf]), (TensorProto.BFLOAT16, [2048, 4096, 256, 131072])):
            self.check([node("Cast", ["x"], ["a"], to=TensorProto.DOUBLE), node("Cast", ["a"], ["b"], to=type_),
                        node("Cast", ["b"], ["y"], to=TensorProto.DOUBLE)], {}, x, wanted)


class Shapes(Network):
    """What is wrong with a file is said when it is imported."""

    def refuse(self, nodes, constants, says):
        graph = helper.make_graph(
            nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 2, 4, 4])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(v, k) for k, v in constants.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]), self.folder / "net.onnx")
        self.assertIn(says, self.run_quern("import", "net.onnx", "--check", status=1).output)

    def test_wrong_files(self):
        flat = [node("Flatten", ["x"], ["f"]), node("Gemm", ["f", "w"], ["g"])]
        weight = {"w": np.ones((32, 3), np.float32)}
        self.refuse([node("Reshape", ["x", "s"], ["y"])], {"s": np.array([-1, -1])}, "cannot become")
        self.refuse([node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3])], {"w": np.ones((2, 2, 1, 1), np.float32)},
                    "kernel_shape says 3 where its filter has 1")
        self.refuse([*flat, node("Softmax", ["g"], ["y"], axis=2**40)], weight, "it has an axis 1099511627776")

    def test_transposed_convolution(self):
        """auto_pad with an output that is larger or smaller than what the filter covers."""
        path = CASES / "wrong_ConvT_outshape_lower.onnx"
        model = onnx.load(path)
        w = numpy_helper.to_array(model.graph.initializer[0]).astype(np.float64)
        attributes = {a.name: helper.get_attribute_value(a) for a in model.graph.node[0].attribute}
        shape = [d.dim_value or 2 for d in model.graph.input[0].type.tensor_type.shape.dim]
        x = np.random.default_rng(3).normal(size=shape)
        stride, extents = attributes["strides"], attributes["output_shape"]
        full = [(shape[2 + i] - 1) * stride[i] + w.shape[2 + i] for i in range(2)]
        before = [t - t // 2 for t in (full[i] - extents[i] for i in range(2))]
        wanted = np.zeros((shape[0], w.shape[1], *extents))
        for r, s in np.ndindex(*w.shape[2:]):
            for p, q in np.ndindex(*shape[2:]):
                at = (p * stride[0] + r - before[0], q * stride[1] + s - before[1])
                if all(0 <= at[i] < extents[i] for i in range(2)):
                    wanted[:, :, at[0], at[1]] += x[:, :, p, q] @ w[:, :, r, s]
        np.testing.assert_allclose(self.compute(path, x), wanted.ravel(), atol=1e-12)


if __name__ == "__main__":
    unittest.main()
