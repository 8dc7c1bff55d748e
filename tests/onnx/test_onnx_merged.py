"""What PyTorch's optimiser made one, or dropped, since it began alike: weights of ones, biases of zeros. The file still says which parameters
the module had, so they train apart, under their names, as in PyTorch; an export of what was trained has them, one of the file alone has not."""
import os
import pathlib
import subprocess
import sys
import unittest

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import quern  # noqa: E402

TOOLS = os.environ.get("QUERN_TOOLS", "build/release/tests")
RATE, STEPS = 0.05, 3
KEY, GRAPH, NODE = "pkg.torch.export.ExportedProgram.graph_signature", 16, 9
NAMES = ["a.weight", "a.bias", "n.scale", "m.scale", "n.bias", "m.bias"]


def with_pair(message, tag, key, value):
    """The message with a pair in a field that this package's schema may not have."""
    pair = onnx.StringStringEntryProto(key=key, value=value).SerializeToString()
    length, n = b"", len(pair)
    while n > 127:
        length, n = length + bytes([n & 127 | 128]), n >> 7
    head = tag << 3 | 2
    start = bytes([head]) if head < 128 else bytes([head & 127 | 128, head >> 7])
    message.ParseFromString(message.SerializeToString() + start + length + bytes([n]) + pair)


def node(kind, inputs, output, operands, **attributes):
    made = helper.make_node(kind, inputs, [output], **attributes)
    text = f"%{output} : [num_users=1] = call_function[target=torch.ops.aten.{kind}](args = ({', '.join('%' + o for o in operands)}), kwargs = {{}})"
    with_pair(made, NODE, "pkg.torch.onnx.fx_node", text)
    return made


class Merged(quern.Case):
    def file(self):
        """x a + (0), times ones, plus zeros, tanh, times ones, plus zeros."""
        weight = np.random.default_rng(1).normal(size=(3, 4)).astype(np.float32)
        ones, zeros = np.ones(3, np.float32), np.zeros(3, np.float32)
        nodes = [node("Gemm", ["x", "a.weight"], "g", ["x", "p_a_weight", "p_a_bias"], transB=1),
                 node("Mul", ["g", "n.scale"], "h", ["g", "p_n_scale"]), node("Add", ["h", "n.bias"], "i", ["h", "p_n_bias"]),
                 node("Tanh", ["i"], "t", ["i"]), node("Mul", ["t", "n.scale"], "u", ["t", "p_m_scale"]),
                 node("Add", ["n.bias", "u"], "y", ["u", "p_m_bias"])]
        graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
                                  [numpy_helper.from_array(v, k) for k, v in (("a.weight", weight), ("n.scale", ones), ("n.bias", zeros))])
        lines = "".join(f"p_{name.replace('.', '_')}: PARAMETER target='{name}'\n" for name in NAMES)
        with_pair(graph, GRAPH, KEY, f"\n# inputs\n{lines}x: USER_INPUT\n")
        made = helper.make_model(graph, producer_name="pytorch", opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
        path = self.folder / "merged.onnx"
        path.write_bytes(made.SerializeToString())
        return path, weight

    def test_it_trains_as_the_module(self):
        path, weight = self.file()
        x = np.random.default_rng(2).normal(size=(5, 4))
        values = [torch.tensor(np.float64(v), requires_grad=True) for v in (weight, np.zeros(3), np.ones(3), np.ones(3), np.zeros(3), np.zeros(3))]
        optimizer, losses = torch.optim.SGD(values, RATE), []
        for _ in range(STEPS):
            w, b, s, t, c, d = values
            optimizer.zero_grad()
            loss = (torch.tanh((torch.tensor(x) @ w.T + b) * s + c) * t + d).square().mean()
            losses.append(loss.item())
            loss.backward()
            optimizer.step()
        x.tofile(self.folder / "in")
        subprocess.run([os.path.join(TOOLS, "run_onnx"), path, "f64", str(STEPS), str(RATE), self.folder / "in", self.folder / "out", "5x4"], check=True)
        np.testing.assert_allclose(np.fromfile(self.folder / "out"), losses, rtol=1e-10)

    def test_it_comes_back(self):
        path, _ = self.file()
        report = self.run_quern("import", path).output
        for name in NAMES:
            self.assertIn(f"initializer {name} ", report)
        self.assertNotIn("missing", report)
        draw = np.random.default_rng(3)
        np.savez(self.folder / "d.npz", x=draw.normal(size=(16, 4)).astype(np.float32), y=draw.normal(size=(16, 3)).astype(np.float32))
        self.run_quern("train", path, "--data", "npz:d.npz", "--batch", "8", "--steps", "4", "--save", "t.st", "--no-test")
        self.run_quern("export", path, "--out", "same.onnx")
        before = onnx.load(path).graph
        same = onnx.load(self.folder / "same.onnx").graph
        self.assertEqual([same.node, same.initializer], [before.node, before.initializer])
        self.run_quern("export", path, "--weights", "t.st", "--out", "out.onnx")
        after = onnx.load(self.folder / "out.onnx").graph
        self.assertEqual([list(n.input) for n in after.node], [["x", "a.weight", "a.bias"], ["g", "n.scale"], ["h", "n.bias"], ["i"], ["t", "m.scale"], ["m.bias", "u"]])
        given = {t.name: numpy_helper.to_array(t) for t in after.initializer}
        self.assertEqual(sorted(given), sorted(NAMES))
        for one, other in (("n.scale", "m.scale"), ("n.bias", "m.bias")):
            self.assertTrue((given[one] != given[other]).any())
        onnx.checker.check_model(onnx.load(self.folder / "out.onnx"))


if __name__ == "__main__":
    unittest.main()
