"""Model.from_torch: the caller's module is not changed, quern computes what it computes, what trains is what
requires_grad says, and a module that would be computed otherwise is refused with the layer's name. Run by any Python
with PyTorch: by tests, Debian's; others by hand."""
import copy
import os
import pathlib
import pickle
import sys
import tempfile
import unittest
import warnings

import numpy as np
import torch

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(os.environ["QUERN_BUILD"]) / "python"))
import quern  # noqa: E402

nn = torch.nn


class TwoInputs(nn.Module):
    """Two inputs, one output, a buffer that scales."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.last = nn.Linear(4, 8), nn.Linear(3, 8), nn.Linear(8, 5)
        self.register_buffer("scale", torch.full((8,), 2.0))

    def forward(self, x, y, more=None):
        return self.last(torch.relu(self.a(x) * self.scale + self.b(y)))


class ByName(TwoInputs):
    """Inputs that are given by name alone."""

    def forward(self, x, *, y, more=None):
        return super().forward(x, y)


class TwoOutputs(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 3), nn.Linear(4, 2)

    def forward(self, x):
        return {"first": self.a(x), "second": torch.tanh(self.b(x))}


class Tokens(nn.Module):
    """A transformer over tokens with positions in a buffer."""

    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(20, 16)
        self.register_buffer("positions", torch.randn(10, 16))
        self.body = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
        self.last = nn.Linear(16, 20)

    def forward(self, tokens):
        return self.last(self.body(self.table(tokens) + self.positions))


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.last = nn.MultiheadAttention(16, 4, batch_first=True), nn.Linear(16, 3)

    def forward(self, x):
        return self.last(self.body(x, x, x, need_weights=False)[0].mean(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.last = nn.LSTM(6, 12, batch_first=True), nn.Linear(12, 3)

    def forward(self, x):
        return self.last(self.body(x)[0][:, -1])


class OtherInExport(nn.Module):
    """What some detectors do."""

    def forward(self, x):
        exporting = torch.onnx.is_in_onnx_export() or getattr(getattr(torch, "compiler", None), "is_exporting", bool)()
        return x + 1 if exporting else x


class Liar(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.middle, self.b = nn.Linear(4, 8), OtherInExport(), nn.Linear(8, 3)

    def forward(self, x):
        return self.b(self.middle(self.a(x)))


def convolution():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Dropout(0.5), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Linear(8 * 64, 5))


def shown(module):
    """A module in training whose running statistics are not the first ones."""
    module.train()
    module(torch.randn(8, 3, 16, 16))
    return module


def state(module):
    return {name: tensor.clone() for name, tensor in module.state_dict().items()}


def quietly(work):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        return work(), [str(one.message) for one in told if issubclass(one.category, quern.Warning)]


class Case(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)

    def same(self, module, example, most=1e-5):
        """The model, whose outputs for the example are the module's."""
        model, _ = quietly(lambda: quern.Model.from_torch(module, example))
        was = module.training
        module.eval()
        with torch.no_grad():
            wanted = module(**example) if isinstance(example, dict) else module(example)
        module.train(was)
        mine = model.predict(example)
        if not isinstance(wanted, dict):
            mine, wanted = {"": mine}, {"": wanted}
        for name, tensor in wanted.items():
            if model.task == "classification" and tensor.shape[1] > 1:
                tensor = torch.softmax(tensor, 1)
            np.testing.assert_allclose(mine[name], tensor.numpy(), atol=most)
        return model


class Untouched(Case):
    def test_caller(self):
        module = shown(convolution())
        module[1].eval()
        module[0].bias.requires_grad_(False)
        calls = []
        module[2].register_forward_hook(lambda *_: calls.append(1))
        before, flags = state(module), [part.training for part in module.modules()]
        random = torch.random.get_rng_state()
        quern.Model.from_torch(module, torch.randn(1, 3, 16, 16, generator=torch.Generator().manual_seed(1)))
        for name, tensor in module.state_dict().items():
            self.assertTrue(torch.equal(tensor, before[name]), name)
        self.assertEqual([part.training for part in module.modules()], flags)
        self.assertEqual([one.requires_grad for one in module.parameters()], [True, False] + [True] * 4)
        self.assertTrue(all(one.grad is None for one in module.parameters()))
        self.assertEqual(len(module[2]._forward_hooks), 1)
        self.assertLessEqual(len(calls), 1)
        self.assertTrue(torch.equal(torch.random.get_rng_state(), random))

    def test_inside_a_gradient(self):
        module = nn.Sequential(nn.utils.weight_norm(nn.Linear(4, 6)), nn.ReLU(), nn.Linear(6, 3)) if hasattr(
            nn.utils, "weight_norm") else nn.Linear(4, 3)
        example = torch.randn(3, 4, requires_grad=True)
        loss = module(example).sum()
        model, _ = quietly(lambda: quern.Model.from_torch(module, example))
        loss.backward()
        self.assertEqual(model.predict(example).shape, (3, 3))
        self.assertIsNotNone(example.grad)


class Computes(Case):
    def test_modules(self):
        self.same(shown(convolution()), torch.randn(1, 3, 16, 16))
        self.same(nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), torch.randn(2, 1, 28, 28))
        self.same(nn.Sequential(nn.Flatten(), nn.Linear(60, 4)), torch.randn(2, 3, 4, 5))
        self.same(nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1)), torch.randn(3, 4))
        self.same(nn.Sequential(nn.Conv1d(3, 4, 3), nn.ReLU(), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4, 2)),
                  torch.randn(2, 3, 20))

    def test_attention(self):
        self.same(Attention(), torch.randn(2, 7, 16))
        self.assertEqual(self.same(Tokens(), torch.randint(0, 20, (2, 10))).task, "arrays")
        self.same(Recurrent(), torch.randn(1, 9, 6))

    def test_several_inputs(self):
        model = self.same(TwoInputs(), {"x": torch.randn(2, 4), "y": torch.randn(2, 3)})
        x, y = torch.randn(5, 4), torch.randn(5, 3)
        np.testing.assert_array_equal(model.predict((x, y)), model.predict({"x": x, "y": y}))
        many = torch.randn(150, 4), torch.randn(150, 3)  # more than are computed together
        whole = model.predict(many)
        np.testing.assert_array_equal(whole[140:], model.predict((many[0][140:], many[1][140:])))
        self.assertEqual(whole.shape, (150, 5))
        with self.assertRaisesRegex(quern.ArgumentError, "inputs are x, y"):
            model.predict({"x": x})
        with self.assertRaisesRegex(quern.ArgumentError, r"input y is \(5, 2\)"):
            model.predict((x, y[:, :2]))
        self.same(TwoOutputs(), torch.randn(2, 4))

    def test_by_name(self):
        self.same(ByName(), {"x": torch.randn(2, 4), "y": torch.randn(2, 3)})

    @unittest.skipIf(torch.__version__.startswith("1."), "its exporter has no instance norm with running statistics")
    def test_instance_norm(self):
        module = nn.Sequential(nn.Conv2d(3, 4, 3), nn.InstanceNorm2d(4, track_running_stats=True), nn.Flatten(), nn.Linear(144, 3))
        _, told = quietly(lambda: quern.Model.from_torch(module, torch.randn(2, 3, 8, 8)))
        self.assertTrue(any("trains by its batch" in one for one in told), told)

    def test_dropout(self):
        module = convolution()
        model = self.same(module, torch.randn(2, 3, 16, 16))
        data = (np.zeros((16, 3, 16, 16), np.float32), np.arange(16) % 5)
        one = [list(model.fit(data, steps=2, batch=16, lr=1e-9, seed=seed, meter=False).losses) for seed in (1, 2)]
        self.assertNotEqual(*one)  # they drop
        attention = Attention()
        attention.body.dropout = 0.5
        self.assertRegex(str(quietly(lambda: quern.Model.from_torch(attention, torch.randn(2, 7, 16)))[1]),
                         "dropout of body is not")

    def test_refused(self):
        with self.assertRaisesRegex(quern.UnsupportedError, r"first layer that differs is middle \(OtherInExport\)"):
            quern.Model.from_torch(Liar(), torch.randn(2, 4))
        module = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3))
        module[0].register_forward_hook(lambda _module, _given, made: made * 2)
        with self.assertRaisesRegex(quern.UnsupportedError, "hooks of the module"):
            quern.Model.from_torch(module, torch.randn(2, 4))

    def test_layout(self):
        module = nn.Sequential(nn.Flatten(), nn.Linear(60, 4))
        x = torch.randn(6, 3, 4, 5)
        model = self.same(module, x)
        with self.assertRaisesRegex(quern.ArgumentError, "samples are"):
            model.predict(x.permute(0, 2, 3, 1))
        with self.assertRaisesRegex(quern.ArgumentError, "samples are"):
            model.fit((torch.randn(6, 3, 8, 10), np.arange(6) % 4), steps=1)


class Trains(Case):
    def test_what_requires_grad_says(self):
        module = TwoInputs()
        module.a.weight.requires_grad_(False)
        model, _ = quietly(lambda: quern.Model.from_torch(module, (torch.randn(2, 4), torch.randn(2, 3))))
        rng = np.random.default_rng(0)
        data = {"x": rng.normal(size=(16, 4)), "y": rng.normal(size=(16, 3)), "output": np.arange(16) % 5}
        with tempfile.TemporaryDirectory() as folder:
            for again in (False, True):
                before = {name: array.copy() for name, array in model.parameters().items()}
                model.fit(data, steps=2, batch=16, lr=0.1, meter=False)
                moved = {name for name, array in model.parameters().items() if not np.array_equal(array, before[name])}
                self.assertEqual(moved, {"a.bias", "b.weight", "b.bias", "last.weight", "last.bias"})
                if not again:
                    model.save(f"{folder}/m.safetensors")
                    model = quern.Model(f"{folder}/m.safetensors")

    def test_as_pytorch(self):
        module = TwoInputs()
        theirs = copy.deepcopy(module)
        x, y, z = torch.randn(16, 4), torch.randn(16, 3), torch.arange(16) % 5
        model, _ = quietly(lambda: quern.Model.from_torch(module, (x[:1], y[:1])))
        optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1, momentum=0.9)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(theirs(x, y), z)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        history = model.fit(((x, y), z), steps=3, batch=16, lr=0.1, momentum=0.9, optimizer="sgd", schedule="constant",
                            weight_decay=0, meter=False)
        np.testing.assert_allclose(history.losses, losses, atol=1e-6)
        with torch.no_grad():
            np.testing.assert_allclose(model.predict((x, y)), theirs(x, y).numpy(), atol=1e-5)
        self.assertAlmostEqual(model.evaluate(((x, y), z))["loss"], nn.functional.cross_entropy(theirs(x, y), z).item(), 5)

    def test_regression(self):
        module = nn.Linear(4, 1)
        x = torch.randn(32, 4)
        model = self.same(module, x)
        model.fit((x, x.sum(1) + 0.25), epochs=30, batch=8, lr=0.05, meter=False)
        self.assertLess(model.evaluate((x, x.sum(1) + 0.25))["loss"], 0.05)
        with self.assertRaisesRegex(quern.ArgumentError, "has one output"):
            quern.Model.from_torch(module, x).fit((x, np.arange(32) % 2), steps=1)


class Files(Case):
    def test_pickled(self):
        model, _ = quietly(lambda: quern.Model.from_torch(TwoInputs(), (torch.randn(2, 4), torch.randn(2, 3))))
        given = (torch.randn(5, 4), torch.randn(5, 3))
        wanted, kept = model.predict(given), pickle.dumps(model)
        del model
        again = pickle.loads(kept)
        np.testing.assert_array_equal(again.predict(given), wanted)
        fixed = again.parameters()["scale"].copy()
        again.fit((given, np.arange(5)), steps=2, batch=5, lr=0.1, meter=False)
        np.testing.assert_array_equal(again.parameters()["scale"], fixed)
        self.assertTrue((again.predict(given) != wanted).any())

    def test_saved(self):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            x = torch.randn(8, 3, 16, 16)
            model = quern.Model.from_torch(convolution(), x)
            model.save(place / "a.safetensors")
            model.fit((x, np.arange(8) % 5), steps=1, batch=8, save=place / "b.safetensors")
            wanted = model.predict(x)
            del model
            np.testing.assert_array_equal(quern.Model(place / "b.safetensors").predict(x), wanted)
            self.assertEqual({one.name for one in place.iterdir()}, {"a.safetensors", "a.onnx", "b.safetensors", "b.onnx"})
            (place / "c.onnx").write_bytes(b"mine")
            other = quern.Model.from_torch(convolution(), x)
            with self.assertRaisesRegex(quern.FileError, "c.onnx exists"):
                other.save(place / "c.safetensors")
            other.save(place / "a.safetensors")
            np.testing.assert_array_equal(quern.Model(place / "a.safetensors").predict(x), other.predict(x))


if __name__ == "__main__":
    unittest.main()
