"""Products of integers, as dynamic quantisation writes them: exact sums, and three steps of training through the rounding
(straight through) against PyTorch in double."""
import os
import pathlib
import subprocess
import sys
import unittest

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import quern  # noqa: E402

TOOL = os.path.abspath(os.path.join(os.environ.get("QUERN_TOOLS", "build/release/tests"), "run_onnx"))
RATE, STEPS = 0.05, 3
node = helper.make_node


class Quantised(quern.Case):
    def save(self, nodes, constants, x, to=TensorProto.DOUBLE, given=TensorProto.DOUBLE):
        graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", given, list(x.shape))],
                                  [helper.make_tensor_value_info("y", to, None)],
                                  [numpy_helper.from_array(np.asarray(v), k) for k, v in constants.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), self.folder / "net.onnx")

    def run_it(self, x, real="f64", steps=0):
        x.astype(np.float64).tofile(self.folder / "in")
        done = subprocess.run([TOOL, "net.onnx", real, str(steps), str(RATE), "in", "out", "x".join(map(str, x.shape))], cwd=self.folder,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return np.fromfile(self.folder / "out")

    def test_sums_are_exact(self):
        """Beyond what a float holds, with zero points for all and for each row or column, as integers and cast."""
        draw = np.random.default_rng(5)
        for k in (40, 700, 3000):
            x, w = draw.integers(0, 256, (3, k)), draw.integers(-128, 128, (k, 4)).astype(np.int8)
            points = {"w": w, "a": np.uint8(3), "b": np.array([1, -2, 3, 127], np.int8)}
            right = (x - 3) @ (w.astype(np.int64) - points["b"])
            product = [node("Cast", ["x"], ["i"], to=TensorProto.UINT8), node("MatMulInteger", ["i", "w", "a", "b"], ["p"])]
            self.save([*product, node("Cast", ["p"], ["y"], to=TensorProto.FLOAT)], points, x, TensorProto.FLOAT)
            np.testing.assert_array_equal(self.run_it(x, "f32"), right.astype(np.float32).ravel())
            minus = np.int32(right[0, 0])
            self.save([*product, node("Sub", ["p", "m"], ["d"]), node("Cast", ["d"], ["y"], to=TensorProto.FLOAT)], {**points, "m": minus}, x,
                      TensorProto.FLOAT)
            np.testing.assert_array_equal(self.run_it(x, "f32"), (right - minus).astype(np.float32).ravel())

    def test_rows_have_zero_points(self):
        x = np.arange(12).reshape(3, 4)
        points = {"w": np.arange(8, dtype=np.uint8).reshape(4, 2), "a": np.array([1, 2, 3], np.uint8)}
        self.save([node("Cast", ["x"], ["i"], to=TensorProto.UINT8), node("MatMulInteger", ["i", "w", "a"], ["p"]),
                   node("Cast", ["p"], ["y"], to=TensorProto.DOUBLE)], points, x)
        np.testing.assert_array_equal(self.run_it(x), ((x - points["a"][:, None].astype(int)) @ points["w"].astype(int)).ravel())

    def test_convolutions(self):
        draw = np.random.default_rng(6)
        x, w = draw.integers(0, 256, (2, 64, 5, 6)), draw.integers(0, 256, (4, 32, 3, 3)).astype(np.uint8)
        points = {"w": w, "a": np.uint8(7), "b": np.array([9, 0, 250, 3], np.uint8)}
        right = F.conv2d(torch.tensor(x - 7.0), torch.tensor(w.astype(float) - points["b"].reshape(4, 1, 1, 1)), None, (1, 2), (1, 0), 1, 2).numpy()
        nodes = [node("Cast", ["x"], ["i"], to=TensorProto.UINT8),
                 node("ConvInteger", ["i", "w", "a", "b"], ["p"], pads=[1, 0, 1, 0], strides=[1, 2], group=2)]
        for tail, minus in (([node("Cast", ["p"], ["y"], to=TensorProto.FLOAT)], 0),
                            ([node("Sub", ["p", "m"], ["d"]), node("Cast", ["d"], ["y"], to=TensorProto.FLOAT)], 5)):
            self.save([*nodes, *tail], {**points, "m": np.int32(5)}, x, TensorProto.FLOAT)
            np.testing.assert_array_equal(self.run_it(x, "f32"), (right - minus).astype(np.float32).ravel())

    def test_training_goes_straight_through(self):
        """A layer that trains before bytes that are multiplied: x * v, quantised, by a fixed weight of bytes, plus a bias."""
        draw = np.random.default_rng(7)
        x, v, bias = draw.normal(size=(5, 6)), draw.normal(size=(6,)), draw.normal(size=(3,))
        w, scale = draw.integers(-128, 128, (6, 3)).astype(np.int8), 0.01
        nodes = [node("Mul", ["x", "v.weight"], ["h"]), node("Cast", ["h"], ["f"], to=TensorProto.FLOAT),
                 node("DynamicQuantizeLinear", ["f"], ["q", "s", "z"]), node("MatMulInteger", ["q", "w_quantized", "z", "w_zero_point"], ["p"]),
                 node("Cast", ["p"], ["r"], to=TensorProto.FLOAT), node("Mul", ["s", "w_scale"], ["both"]), node("Mul", ["r", "both"], ["o"]),
                 node("Add", ["o", "c.bias"], ["y"])]
        self.save(nodes, {"v.weight": v.astype(np.float32), "w_quantized": w, "w_zero_point": np.int8(2), "w_scale": np.float32(scale),
                          "c.bias": bias.astype(np.float32)}, x, TensorProto.FLOAT)
        found = self.run_it(x, steps=STEPS)
        v, bias = (torch.tensor(t.astype(np.float32)).double().requires_grad_() for t in (v, bias))
        w, losses = torch.tensor((w.astype(float) - 2) * float(np.float32(scale))), []
        for _ in range(STEPS):
            h = torch.tensor(x) * v
            low, high = min(h.min().item(), 0), max(h.max().item(), 0)
            step = (high - low) / 255
            point = np.clip(np.round(-low / step), 0, 255)
            rounded = (torch.clamp(torch.round(h / step) + point, 0, 255) - point) * step
            loss = ((h + (rounded - h).detach()) @ w + bias).square().mean()
            losses.append(loss.item())
            gradients = torch.autograd.grad(loss, (v, bias))
            v, bias = ((p - RATE * g).detach().requires_grad_() for p, g in zip((v, bias), gradients))
        np.testing.assert_allclose(found, losses, rtol=1e-6)
        said = self.run_quern("import", "net.onnx").output
        self.assertIn("initializer w_scale scalar float  fixed: the scale of a quantised tensor", said)


    def train_in_torch(self, x, v, bias, quantised):
        """Losses of a factor before quantised numbers and a bias behind them."""
        losses = []
        v, bias = (torch.tensor(t.astype(np.float32)).double().requires_grad_() for t in (v, bias))
        for _ in range(STEPS):
            loss = (quantised(torch.tensor(x) * v) + bias).square().mean()
            losses.append(loss.item())
            v, bias = ((p - RATE * g).detach().requires_grad_() for p, g in zip((v, bias), torch.autograd.grad(loss, (v, bias))))
        return losses

    def check_through(self, nodes, constants, x, v, bias, quantised):
        nodes = [node("Mul", ["x", "v.weight"], ["h"]), node("Cast", ["h"], ["f"], to=TensorProto.FLOAT), *nodes,
                 node("Add", ["o", "c.bias"], ["y"])]
        self.save(nodes, {"v.weight": v.astype(np.float32), "c.bias": bias.astype(np.float32), **constants}, x, TensorProto.FLOAT)
        losses = self.train_in_torch(x, v, bias, quantised)
        np.testing.assert_allclose(self.run_it(x, steps=STEPS), losses, rtol=1e-6)
        self.assertLess(losses[-1], losses[0])

    def test_quantised_products_go_straight_through(self):
        """Some numbers are beyond the range of the bytes: no gradient flows through them."""
        draw = np.random.default_rng(8)
        s, t, u = (np.float32(f) for f in (0.02, 0.01, 0.05))
        x, v, bias = 2 * draw.normal(size=(5, 6)), draw.uniform(0.5, 1.5, 6), draw.normal(size=(3,))
        w = draw.integers(-100, 100, (6, 3)).astype(np.int8)
        factor = (torch.tensor(w.astype(float)) - 3) * float(t)
        constants = {"s": s, "z": np.uint8(120), "w_quantized": w, "t": t, "wz": np.int8(3), "u": u, "uz": np.uint8(130)}
        through = [node("QuantizeLinear", ["f", "s", "z"], ["q"]),
                   node("QLinearMatMul", ["q", "s", "z", "w_quantized", "t", "wz", "u", "uz"], ["p"]),
                   node("DequantizeLinear", ["p", "u", "uz"], ["o"])]
        self.check_through(through, constants, x, v, bias,
                           lambda h: rounded(rounded(h, s, 120) @ factor, u, 130))
        self.assertTrue((np.abs(x * v / s) > 136).any())

    def test_quantised_convolutions_go_straight_through(self):
        draw = np.random.default_rng(9)
        s, t, u = np.float32(0.02), np.float32([0.01, 0.02, 0.015]), np.float32(0.07)
        x, v, bias = draw.normal(size=(2, 4, 5, 5)), draw.uniform(0.5, 1.5, (4, 1, 1)), draw.normal(size=(3, 1, 1))
        w = draw.integers(-100, 100, (3, 4, 3, 3)).astype(np.int8)
        whole = draw.integers(-500, 500, 3).astype(np.int32)
        factor = torch.tensor(w.astype(float) * t.astype(float).reshape(3, 1, 1, 1))
        beside = torch.tensor(whole * (float(s) * t.astype(float))).reshape(3, 1, 1)
        constants = {"s": s, "z": np.uint8(120), "w_quantized": w, "t": t, "wz": np.zeros(3, np.int8), "u": u, "uz": np.uint8(130), "b_quantized": whole}
        through = [node("QuantizeLinear", ["f", "s", "z"], ["q"]),
                   node("QLinearConv", ["q", "s", "z", "w_quantized", "t", "wz", "u", "uz", "b_quantized"], ["p"], pads=[1, 1, 1, 1]),
                   node("DequantizeLinear", ["p", "u", "uz"], ["o"])]
        self.check_through(through, constants, x, v, bias,
                           lambda h: rounded(F.conv2d(rounded(h, s, 120), factor, None, 1, 1) + beside, u, 130))

    def test_integer_convolutions_go_straight_through(self):
        draw = np.random.default_rng(10)
        s, t = np.float32(0.02), np.float32(0.01)
        x, v, bias = draw.normal(size=(2, 4, 5, 5)), draw.uniform(0.5, 1.5, (4, 1, 1)), draw.normal(size=(3, 1, 1))
        w = draw.integers(0, 255, (3, 4, 3, 3)).astype(np.uint8)
        factor = (torch.tensor(w.astype(float)) - 128) * float(t)
        constants = {"s": s, "z": np.uint8(120), "w_quantized": w, "wz": np.uint8(128), "both": np.float32(s * t)}
        through = [node("QuantizeLinear", ["f", "s", "z"], ["q"]),
                   node("ConvInteger", ["q", "w_quantized", "z", "wz"], ["p"], strides=[2, 1], pads=[1, 0, 1, 0]),
                   node("Cast", ["p"], ["r"], to=TensorProto.FLOAT), node("Mul", ["r", "both"], ["o"])]
        self.check_through(through, constants, x, v, bias, lambda h: F.conv2d(rounded(h, s, 120), factor, None, (2, 1), (1, 0)))


def rounded(h, scale, zero):
    """h in steps of a scale, as bytes hold it, with the slope of h within their range."""
    step = h / float(scale)
    whole = step + (torch.round(step) - step).detach() + zero
    return (torch.clamp(whole, 0, 255) - zero) * float(scale)


if __name__ == "__main__":
    unittest.main()
