"""Operators of which the data of ONNX's package have no tests, or no gradients: regions of images, sizes with antialias, boxes that are
chosen at import, weights of four bits, an LSTM of bytes, and tensors without elements. PyTorch computes the same in double: the output, and
the losses of three steps of training."""
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

import numpy as np
import onnx
import torch
from onnx import TensorProto, helper, numpy_helper
from torch.nn import functional

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import quern  # noqa: E402

TOOLS = os.environ.get("QUERN_TOOLS", "build/release/tests")
RATE, STEPS = 0.05, 3
UINT4, INT4 = 21, 22


def node(kind, inputs, outputs, domain="", **attributes):
    return helper.make_node(kind, inputs.split(","), outputs.split(","), domain=domain, **attributes)


def model(nodes, x, given, opset=21):
    """given: arrays, or tensors of types that NumPy has not, by name."""
    tensors = [numpy_helper.from_array(v, k) if isinstance(v, np.ndarray) else v for k, v in given.items()]
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.DOUBLE, x.shape)],
                              [helper.make_tensor_value_info("y", TensorProto.DOUBLE, None)], tensors)
    domains = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    made = helper.make_model(graph, opset_imports=domains)
    made.ir_version = 8
    return made


def four_bits(name, values, is_signed, as_list=False):
    made = TensorProto(name=name, dims=values.shape, data_type=INT4 if is_signed else UINT4)
    flat = values.ravel().astype(np.int64) & 15
    packed = (np.append(flat, 0)[:len(flat) + len(flat) % 2].reshape(-1, 2) * [1, 16]).sum(1)
    if as_list:
        made.int32_data.extend(packed.tolist())
    else:
        made.raw_data = packed.astype(np.uint8).tobytes()
    return made


def roi_align(x, rois, which, cells, scale, ratio, is_half, is_most):
    """One region, cell and sample after the other."""
    _, channels, height, width = x.shape
    found = []
    for roi, sample in zip(rois, which):
        left, top, right, bottom = (roi * scale - (0.5 if is_half else 0)).unbind()
        sizes = [bottom - top, right - left]
        if not is_half:
            sizes = [size.clamp(min=1) for size in sizes]
        counts = [ratio or max(math.ceil(size.item() / n), 0) for size, n in zip(sizes, cells)]
        for row in range(cells[0]):
            for column in range(cells[1]):
                parts = []
                for i in range(counts[0]):
                    for j in range(counts[1]):
                        at_y = top + (row + (i + 0.5) / counts[0]) * sizes[0] / cells[0]
                        at_x = left + (column + (j + 0.5) / counts[1]) * sizes[1] / cells[1]
                        parts.append(sampled(x[sample], at_y, at_x, height, width, is_most))
                none = torch.zeros(channels, dtype=x.dtype)
                found.append(none if not parts else torch.stack(parts).amax(0) if is_most else torch.stack(parts).mean(0))
    return torch.stack(found).reshape(len(rois), *cells, channels).permute(0, 3, 1, 2)


def sampled(image, at_y, at_x, height, width, is_most):
    if not (-1 <= at_y.item() <= height and -1 <= at_x.item() <= width):
        return torch.zeros(image.shape[0], dtype=image.dtype)
    at_y, at_x = at_y.clamp(0, height - 1), at_x.clamp(0, width - 1)
    y, x = int(at_y.item()), int(at_x.item())
    b, a = at_y - y, at_x - x
    y1, x1 = min(y + 1, height - 1), min(x + 1, width - 1)
    corners = torch.stack([image[:, y, x] * (1 - b) * (1 - a), image[:, y, x1] * (1 - b) * a, image[:, y1, x] * b * (1 - a),
                           image[:, y1, x1] * b * a])
    return corners.amax(0) if is_most else corners.sum(0)


def bytes_of(x):
    """x in 256 steps of its range, 0 among them; its gradient passes by."""
    least, most = min(x.min().item(), 0), max(x.max().item(), 0)
    scale = (most - least) / 255 or 1
    zero = round(-least / scale)
    return x + (((x / scale).round() + zero).clamp(0, 255).sub(zero) * scale - x).detach()


class Operators(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.folder = pathlib.Path(room.name)
        self.draw = np.random.default_rng(5)

    def run_quern(self, made, x, steps):
        (self.folder / "f.onnx").write_bytes(made.SerializeToString())
        x.tofile(self.folder / "in")
        return subprocess.run([os.path.join(TOOLS, "run_onnx"), self.folder / "f.onnx", "f64", str(steps), str(RATE), self.folder / "in",
                               self.folder / "out", "x".join(map(str, x.shape))], check=False, capture_output=True, text=True)

    def check(self, made, x, compute, weights, limit=1e-9):
        """Outputs and losses are those of compute(x, *weights)."""
        done = self.run_quern(made, x, 0)
        self.assertEqual(done.returncode, 0, done.stderr)
        weights = [torch.tensor(np.float64(w), requires_grad=True) for w in weights]
        given, optimizer = torch.tensor(x), torch.optim.SGD(weights, RATE)
        right = compute(given, *weights)
        np.testing.assert_allclose(np.fromfile(self.folder / "out"), right.detach().numpy().ravel(), rtol=0, atol=limit)
        losses = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = compute(given, *weights).square().mean()
            losses.append(loss.item())
            loss.backward()
            optimizer.step()
        done = self.run_quern(made, x, STEPS)
        self.assertEqual(done.returncode, 0, done.stderr)
        np.testing.assert_allclose(np.fromfile(self.folder / "out"), losses, rtol=max(limit, 1e-8))
        self.assertNotEqual(losses[0], losses[-1])

    def test_regions(self):
        x, which = self.draw.normal(size=(2, 3, 7, 9)), np.array([0, 1, 1, 0])
        everywhere = np.array([[1, 1, 6, 7.2], [0, 0, 10, 8.5], [2.2, 3.1, 2.9, 4.4], [-1, -2, 5, 4]])
        for mode, place, ratio in (("avg", "half_pixel", 0), ("avg", "output_half_pixel", 0), ("avg", "half_pixel", 2), ("max", "half_pixel", 0)):
            rois = everywhere if mode == "avg" else everywhere[:3]  # of equal samples any may be the largest
            made = model([node("Mul", "x,a.weight", "h"), node("Mul", "rois.weight,b.weight", "r"),
                          node("RoiAlign", "h,r,which", "y", mode=mode, coordinate_transformation_mode=place, sampling_ratio=ratio,
                               output_height=2, output_width=3, spatial_scale=0.75)], x,
                         {"a.weight": np.ones(1), "b.weight": np.ones(1), "rois.weight": rois, "which": which[:len(rois)]}, 16)

            def compute(x, a, b, r, mode=mode, place=place, ratio=ratio):
                return roi_align(x * a, r * b, which, (2, 3), 0.75, ratio, place == "half_pixel", mode == "max")
            self.check(made, x, compute, [np.ones(1), np.ones(1), rois])

    def test_a_region_larger_than_its_image_stops(self):
        x = self.draw.normal(size=(1, 1, 4, 4))
        made = model([node("Mul", "boxes,b.weight", "r"), node("RoiAlign", "x,r,which", "y")], x,
                     {"b.weight": np.ones(1), "boxes": np.array([[0, 0, 50.0, 3]]), "which": np.array([0])}, 16)
        self.run_quern(made, x, 0)
        self.assertTrue(np.isnan(np.fromfile(self.folder / "out")).all())

    def test_antialias(self):
        x = self.draw.normal(size=(2, 3, 11, 9))
        for mode, kind, more in (("linear", "bilinear", {}), ("cubic", "bicubic", {"cubic_coeff_a": -0.5})):
            for size in ((5, 4), (3, 18)):
                made = model([node("Mul", "x,a.weight", "h"),
                              node("Resize", "h,,,size", "y", mode=mode, antialias=1, exclude_outside=1, axes=[2, 3], **more)], x,
                             {"a.weight": np.ones(1), "size": np.array(size)}, 18)
                self.check(made, x, lambda x, a, size=size, kind=kind: functional.interpolate(x * a, size=size, mode=kind, antialias=True),
                           [np.ones(1)])

    def test_sizes(self):
        """Sizes that keep the ratio, whose one scale says where samples are taken, and places around the middle."""
        def along(rows, n, scale):
            whole = rows.shape[-1]
            places = ((torch.arange(n, dtype=rows.dtype) + 0.5) / scale - 0.5).clamp(0, whole - 1)
            left = places.floor().long().clamp(max=whole - 2)
            return rows[..., left] * (1 - (places - left)) + rows[..., left + 1] * (places - left)

        x = self.draw.normal(size=(1, 2, 8, 6))
        for policy, size, scale in (("not_larger", (4, 3), 0.5), ("not_smaller", (5, 4), 0.625)):
            made = model([node("Mul", "x,a.weight", "h"), node("Resize", "h,,,size", "y", mode="linear", keep_aspect_ratio_policy=policy,
                                                               axes=[3, 2])], x, {"a.weight": np.ones(1), "size": np.array([3, 5])}, 18)
            self.check(made, x, lambda x, a, size=size, scale=scale: along(
                along((x * a).transpose(2, 3), size[0], scale).transpose(2, 3), size[1], scale), [np.ones(1)])
        made = model([node("Resize", "x,,scales", "y", mode="linear", coordinate_transformation_mode="half_pixel_symmetric")],
                     x[0, 0], {"scales": np.array([1, 0.6], np.float32)}, 19)
        self.run_quern(made, x[0, 0], 0)
        places = 3 * (1 - 3 / 3.6) + (np.arange(3) + 0.5) / 0.6 - 0.5
        right = [np.interp(places, np.arange(6), row) for row in x[0, 0]]
        np.testing.assert_allclose(np.fromfile(self.folder / "out"), np.ravel(right), atol=1e-6)

    def test_boxes_chosen_at_import(self):
        boxes = np.array([[[0, 0, 1, 1], [0, 0.1, 1, 1.1], [0, -0.1, 1, 0.9], [0, 10, 1, 11], [1, 11.1, 0, 10.1], [0, 100, 1, 101]]], np.float32)
        scores = np.array([[[0.9, 0.75, 0.6, 0.95, 0.5, 0.3], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6]]], np.float32)
        made = model([node("NonMaxSuppression", "boxes,scores,most,overlap,least", "chosen"), node("Cast", "chosen", "reals", to=TensorProto.DOUBLE),
                      node("Mul", "reals,x", "y")], np.ones(1),
                     {"boxes": boxes, "scores": scores, "most": np.array([2]), "overlap": np.array([0.5], np.float32),
                      "least": np.array([0.35], np.float32)}, 11)
        self.assertEqual(self.run_quern(made, np.ones(1), 0).returncode, 0)
        np.testing.assert_array_equal(np.fromfile(self.folder / "out").reshape(-1, 3), [[0, 0, 3], [0, 0, 0], [0, 1, 5], [0, 1, 4]])
        made = model([node("NonMaxSuppression", "x,scores,most", "y")], np.float64(boxes), {"scores": scores, "most": np.array([2])}, 11)
        self.assertIn("how many boxes it chooses follows from the data", self.run_quern(made, np.float64(boxes), 0).stderr)

    def test_four_bits(self):
        x = self.draw.normal(size=(3, 6))
        for is_signed, as_list, block in ((True, False, 0), (False, True, 0), (True, False, 4), (False, False, 2)):
            least = -8 if is_signed else 0
            weight = self.draw.integers(least, least + 16, (6, 5))
            shape = (5,) if not block else (-(-6 // block), 5)
            scale, zero = self.draw.uniform(0.1, 0.3, shape), self.draw.integers(least, least + 16, shape)
            more = {"axis": 0, "block_size": block} if block else {"axis": 1}
            made = model([node("Mul", "x,a.weight", "h"), node("DequantizeLinear", "w,s,z", "d", **more), node("MatMul", "h,d", "y")], x,
                         {"a.weight": np.ones(6), "w": four_bits("w", weight, is_signed, as_list), "s": scale,
                          "z": four_bits("z", zero, is_signed, as_list)})
            each = (scale, zero) if not block else [np.repeat(v, block, 0)[:6] for v in (scale, zero)]
            full = torch.tensor((weight - each[1]) * each[0])
            self.check(made, x, lambda x, a, full=full: (x * a) @ full, [np.ones(6)])

    def test_four_bits_return(self):
        """An export has them as the file had: two a byte."""
        kept = four_bits("w", self.draw.integers(-8, 8, (3, 5)), True)
        tensors = [kept, numpy_helper.from_array(np.float32(0.1).reshape(()), "s"),
                   numpy_helper.from_array(np.float32(self.draw.normal(size=(5, 2))), "fc.weight")]
        values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", width]) for name, width in (("x", 3), ("y", 2))]
        graph = helper.make_graph([node("DequantizeLinear", "w,s", "d"), node("MatMul", "x,d", "h"), node("MatMul", "h,fc.weight", "y")],
                                  "g", values[:1], values[1:], tensors)
        made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=8)
        (self.folder / "m.onnx").write_bytes(made.SerializeToString())
        np.savez(self.folder / "t.npz", x=np.float32(self.draw.normal(size=(8, 3))), classes=np.arange(8) % 2)
        for words in (("train", "m.onnx", "--data", "npz:t.npz", "--steps", "1", "--save", "w.st"),
                      ("export", "m.onnx", "--weights", "w.st", "--out", "o.onnx"), ("import", "o.onnx")):
            subprocess.run([quern.QUERN, *words], cwd=self.folder, check=True, capture_output=True)
        written = onnx.load(self.folder / "o.onnx")
        self.assertEqual([t.raw_data for t in written.graph.initializer if t.name == "w"], [kept.raw_data])

    def test_rounding_to_four_bits(self):
        x = np.linspace(-1.3, 1.3, 14).reshape(7, 2)
        made = model([node("QuantizeLinear", "x,s,z", "q"), node("DequantizeLinear", "q,s,z", "y")], x,
                     {"s": np.array(0.125), "z": four_bits("z", np.array(1), True)})
        self.run_quern(made, x, 0)
        np.testing.assert_allclose(np.fromfile(self.folder / "out"), (np.clip(np.rint(x / 0.125) + 1, -8, 7) - 1).ravel() * 0.125)

    def test_bad_four_bits(self):
        x = np.ones((2, 3))
        weight = four_bits("w", np.ones((3, 5), int), True)
        weight.raw_data = weight.raw_data[:-1]
        made = model([node("DequantizeLinear", "w,s", "d"), node("MatMul", "x,d", "y")], x, {"w": weight, "s": np.array(1.0)})
        self.assertIn("7 bytes, while type and extents say 8", self.run_quern(made, x, 0).stderr)
        made = model([node("DequantizeLinear", "w,s", "d", axis=0, block_size=2), node("MatMul", "x,d", "y")], x,
                     {"w": four_bits("w", np.ones((3, 5), int), True), "s": np.ones((3, 5))})
        self.assertIn("not one number for each block of 2 along axis 0", self.run_quern(made, x, 0).stderr)

    def test_lstm_of_bytes(self):
        """ONNX Runtime's DynamicQuantizeLSTM, with a scale for each gate's unit."""
        x, units = self.draw.normal(size=(4, 2, 5)), 3
        w, r = (self.draw.integers(-127, 128, (1, n, 4 * units)).astype(np.int8) for n in (5, units))
        scales = [self.draw.uniform(0.002, 0.005, (1, 4 * units)) for _ in range(2)]
        zeros, bias = [np.zeros((1, 4 * units), np.int8)] * 2, self.draw.normal(size=(1, 8 * units))
        made = model([node("Mul", "x,a.weight", "h"),
                      node("DynamicQuantizeLSTM", "h,w,r,b,,,,,ws,wz,rs,rz", "s", "com.microsoft", hidden_size=units), node("Squeeze", "s,one", "y")], x,
                     {"a.weight": np.ones(5), "w": w, "r": r, "b": bias, "ws": scales[0], "wz": zeros[0], "rs": scales[1], "rz": zeros[1],
                      "one": np.array([1])})

        def compute(x, a, b):
            of_x, of_h = (torch.tensor(np.float64(q[0]) * s[0]) for q, s in zip((w, r), scales))
            h = c = torch.zeros(2, units, dtype=torch.double)
            steps, sent = [], bytes_of(x * a) @ of_x
            for t in range(4):
                i, o, f, g = (sent[t] + bytes_of(h) @ of_h + b[0, :4 * units] + b[0, 4 * units:]).chunk(4, 1)
                c = f.sigmoid() * c + i.sigmoid() * g.tanh()
                h = o.sigmoid() * c.tanh()
                steps.append(h)
            return torch.stack(steps)
        self.check(made, x, compute, [np.ones(5), bias])

    def test_no_elements(self):
        x = self.draw.normal(size=(3, 4))
        from_to = {"a.weight": np.ones(4), "zero": np.array([0]), "first": np.array([1]), "none": np.zeros(0, np.int64), "shape": np.array([0, 1])}
        start = [node("Mul", "x,a.weight", "h"), node("Slice", "h,zero,zero,first", "e")]  # (3, 0)
        nothing = {"Concat": [node("Relu", "e", "r"), node("Concat", "r,h,e", "y", axis=1)],
                   "Gather": [node("Gather", "h,none", "g"), node("Add", "g,a.weight", "s"), node("Concat", "s,h", "y", axis=0)],
                   "Expand": [node("Mul", "e,e", "m"), node("ReduceSum", "m,first", "s"), node("Add", "h,s", "y")],
                   "MatMul": [node("Transpose", "e", "t"), node("MatMul", "e,t", "p"), node("MatMul", "p,h", "q"), node("Add", "h,q", "y")]}
        for kind, nodes in nothing.items():
            with self.subTest(kind):
                self.check(model(start + nodes, x, from_to), x, lambda x, a: x * a, [np.ones(4)])
        for kind, right in (("ReduceSum", 0), ("ReduceProd", 1), ("ReduceMax", -math.inf), ("ReduceMin", math.inf), ("ReduceLogSumExp", -math.inf)):
            self.run_quern(model([node("Slice", "x,zero,zero,first", "e"), node(kind, "e,first", "s"), node("Identity", "s", "y")], x, from_to), x, 0)
            np.testing.assert_array_equal(np.fromfile(self.folder / "out"), [right] * 3)
        done = self.run_quern(model([node("Slice", "x,zero,zero,first", "y")], x, from_to), x, 0)
        self.assertEqual(done.returncode, 1, "an output without elements is refused")


if __name__ == "__main__":
    unittest.main()
