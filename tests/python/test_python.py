"""The Python package, from its wheel in a fresh environment: the same bits as the command, data of every kind,
shared memory, errors, Ctrl-C, threads."""
import gc
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import warnings

import fresh
import numpy as np

COMMAND = os.environ["QUERN"]


def make_images(n=240, side=28, classes=4, seed=3):
    """Images with a bright column for each class."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    x = rng.integers(0, 120, (n, side, side, 1))
    x[np.arange(n), :, 6 * y] += 130
    return x.astype(np.uint8), y


def command(*words):
    """What the command prints."""
    return subprocess.run([COMMAND, *map(str, words)], check=True, text=True, stdout=subprocess.PIPE).stdout


def weights(path):
    """Parameters of a checkpoint by name, read without quern."""
    data = pathlib.Path(path).read_bytes()
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8:8 + size])
    return {name: data[8 + size + entry["data_offsets"][0]:8 + size + entry["data_offsets"][1]]
            for name, entry in header.items() if name != "__metadata__"}


class Case(unittest.TestCase):
    """A folder of its own."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.x, self.y = make_images()

    def trained(self, **more):
        model = quern.Model("lenet5", classes=4, input=(28, 28, 1)) if "name" not in more else None
        more = {"steps": 12, "batch": 16, "seed": 5, "threads": 1, "meter": False, **more}
        model.fit((self.x, self.y), **more)
        return model


class SameBits(Case):
    def test_as_command(self):
        np.save(self.folder / "x.npy", self.x)
        np.save(self.folder / "y.npy", self.y)
        data = f"npy:{self.folder}/x.npy,{self.folder}/y.npy"
        for how in ({}, {"memory": "3M"}, {"optimizer": "adam"}, {"validation": 0.25, "augment": "crop,flip"}):
            out = self.folder / "command.safetensors"
            words = [word for name, value in how.items() for word in (f"--{name}", value)]
            command("train", "lenet5", "--data", data, "--input", "28x28x1", "--steps", 12, "--batch", 16, "--seed", 5,
                    "--threads", 1, "--classes", 4, "--save", out, *words)
            model = self.trained(**how)
            model.save(self.folder / "python.safetensors")
            self.assertEqual(weights(out), weights(self.folder / "python.safetensors"), how)
            self.assertEqual({k: v.tobytes() for k, v in model.parameters().items()},
                             {k: v for k, v in weights(out).items() if not k.startswith("optimizer.")})
            told = json.loads(command("evaluate", "lenet5", "--weights", self.folder / "python.safetensors", "--data",
                                      data, "--split", "train", "--threads", 1, "--json"))
            mine = model.evaluate(data, split="train")
            self.assertEqual((told["loss"], told["accuracy"]),
                             (float(f"{mine['loss']:.9g}"), float(f"{mine['accuracy']:.9g}")))  # as JSON has them

    def test_named_data(self):
        out = self.folder / "m.safetensors"
        command("train", "mlp", "--data", "synthetic", "--epochs", 1, "--steps", 20, "--batch", 50, "--save", out)
        model = quern.Model("mlp")
        history = model.fit("synthetic", epochs=1, steps=20, batch=50, save=self.folder / "p.safetensors")
        self.assertEqual(weights(out), weights(self.folder / "p.safetensors"))
        self.assertEqual(len(history.losses), 20)

    def test_resume(self):
        save = self.folder / "half.safetensors"
        self.trained(steps=7, save=save, schedule_steps=12)
        model = quern.Model("lenet5", classes=4, input=(28, 28, 1))
        history = model.fit((self.x, self.y), resume=save, steps=12)
        self.assertEqual((history.first_step, history.step, model.steps), (7, 12, 12))
        whole = self.trained(schedule_steps=12)
        for name, array in whole.parameters().items():
            np.testing.assert_array_equal(array, model.parameters()[name])

    def test_trained_longer(self):
        """A file of more steps stays, and is replaced where that is said."""
        save = self.folder / "long.safetensors"
        self.trained(steps=9, save=save, save_best=self.folder / "best.safetensors", validation=0.2)
        whole = save.read_bytes()
        with self.assertRaisesRegex(quern.ArgumentError, "trained for 9 steps, and this run ends after 4.*override"):
            self.trained(steps=4, save=save)
        self.assertEqual(save.read_bytes(), whole)
        self.trained(steps=4, save=save, override=True)
        self.assertEqual(quern.Model(save).steps, 4)

    def test_other_file(self):
        """Data and files of others are no checkpoints, and stay."""
        rows = "a,b,label\n" + "".join(f"{i % 7},{i % 5},{'xy'[i % 2]}\n" for i in range(60))
        for name in ("save", "save_best"):
            data = self.folder / "rows.csv"
            data.write_text(rows)
            with self.assertRaisesRegex(quern.ArgumentError, f"{name}=.*rows.csv.*not a file of weights that quern wrote"):
                quern.Model("mlp").fit(f"csv:{data}", steps=1, validation=0.2, **{name: data})
            self.assertEqual(data.read_text(), rows)
        notes = self.folder / "notes.txt"
        notes.write_text("mine")
        self.trained(steps=1, save=notes, override=True)
        self.assertEqual(quern.Model(notes).steps, 1)

    def test_begins_at_its_weights(self):
        first = self.trained()
        first.save(self.folder / "a.safetensors")
        first.fit((self.x, self.y), steps=5, batch=16)
        again = quern.Model(self.folder / "a.safetensors")
        again.fit((self.x, self.y), steps=5, batch=16)
        for name, array in again.parameters().items():
            np.testing.assert_array_equal(array, first.parameters()[name])


class Data(Case):
    def losses(self, data, **more):
        layout = more.pop("layout", "nhwc")
        model = quern.Model("lenet5", classes=4, input=(28, 28, self.x.shape[3]), layout=layout)
        return list(model.fit(data, steps=6, batch=16, seed=2, meter=False, **more).losses)

    def test_kinds(self):
        x = (self.x / np.float32(255)).astype(np.float32)
        wanted = self.losses((x, self.y))
        for data in ((x.astype(np.float64), self.y.astype(np.uint8)), (x[..., 0], list(self.y)), list(zip(x, self.y)),
                     zip(x, self.y), ((x[i:i + 32], self.y[i:i + 32]) for i in range(0, 240, 32)),
                     (np.asfortranarray(x), self.y[:, None])):
            self.assertEqual(self.losses(data), wanted)

    def test_planes(self):
        self.x = np.repeat(self.x, 3, axis=3)
        wanted = self.losses((self.x, self.y))
        planes = np.ascontiguousarray(self.x.transpose(0, 3, 1, 2))
        self.assertEqual(self.losses((planes, self.y), layout="nchw"), wanted)
        self.assertEqual(self.losses(list(zip(planes, self.y)), layout="nchw"), wanted)

    def test_validation(self):
        history = quern.Model("mlp").fit((self.x, self.y), validation=list(zip(self.x[:20], self.y[:20])),
                                         test=(self.x[20:60], self.y[20:60]), epochs=2, batch=16)
        self.assertEqual([epoch["epoch"] for epoch in history.epochs], [1, 2])
        self.assertIn("validation_loss", history.epochs[0])
        self.assertIn("test_accuracy", history.epochs[-1])
        self.assertEqual(history.best["split"], "validation")

    def test_regression(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(400, 6)).astype(np.float32)
        y = x @ np.arange(12).reshape(6, 2) / 10
        model = quern.Model("mlp")
        model.fit((x, y), epochs=20, batch=20, lr=0.01)
        error = float(np.square(model.predict(x) - y).mean())
        self.assertLess(error, 0.1)
        model.save(self.folder / "r.safetensors")
        np.testing.assert_array_equal(quern.Model(self.folder / "r.safetensors").predict(x), model.predict(x))
        self.assertAlmostEqual(model.evaluate((x, y))["loss"], quern.Model(self.folder / "r.safetensors").evaluate(
            (x, y))["loss"], places=6)

    def test_folders(self):
        import struct
        import zlib
        for name, image in zip("abcd" * 60, self.x[:48]):
            place = self.folder / "photos" / name
            place.mkdir(parents=True, exist_ok=True)
            rows = b"".join(b"\0" + row.tobytes() for row in image[..., 0])
            chunks = ((b"IHDR", struct.pack(">IIBBBBB", 28, 28, 8, 0, 0, 0, 0)), (b"IDAT", zlib.compress(rows)),
                      (b"IEND", b""))
            (place / f"{len(list(place.iterdir()))}.png").write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
                struct.pack(">I", len(d)) + k + d + struct.pack(">I", zlib.crc32(k + d)) for k, d in chunks))
        model = quern.Model("lenet5")
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model.fit(self.folder / "photos", steps=4, batch=8)
        self.assertIn("fewer than 50 images", str([str(one.message) for one in told]))
        self.assertTrue(all(one.category is quern.Warning for one in told))
        self.assertEqual(model.class_names, list("abcd"))
        self.assertGreater(model.evaluate(self.folder / "photos")["samples"], 0)

    def test_language(self):
        text = self.folder / "some.txt"
        text.write_text("the quick brown fox jumps over the lazy dog. " * 200)
        model = quern.Model("char-lstm")
        history = model.fit(text, steps=3, batch=4, length=16, seed=1)
        self.assertEqual(history.step, 3)
        self.assertTrue("".join(model.sample("the ", length=20)))
        self.assertIn("bits_per_character", model.evaluate(text))
        with self.assertRaisesRegex(quern.UnsupportedError, "data from files"):
            model.fit((self.x, self.y))
        with self.assertRaisesRegex(quern.UnsupportedError, "only classifiers"):
            model.predict(self.x)


class Sharing(Case):
    def test_parameters(self):
        model = self.trained()
        before = model.predict(self.x[:5])
        parameters = model.parameters()
        self.assertEqual(parameters["fc2.bias"].shape, (4,))
        parameters["fc2.bias"][2] += 100
        after = model.predict(self.x[:5])
        self.assertTrue((after.argmax(1) == 2).all() and (before != after).any())
        self.assertIs(parameters["fc2.bias"].flags.owndata, False)
        self.assertEqual(memoryview(parameters["fc2.bias"]).nbytes, 16)
        view = np.from_dlpack(parameters["fc2.bias"])
        parameters["fc2.bias"][0] = 7
        self.assertEqual(view[0], 7)

    def test_outlive_the_model(self):
        model = self.trained()
        array = model.parameters()["conv1.weight"]
        copy = array.copy()
        model.fit((self.x, self.y), steps=3, batch=16)
        del model
        gc.collect()
        np.testing.assert_array_equal(array, copy)

    def test_written_before_training(self):
        model = quern.Model("lenet5", classes=4, input=(28, 28, 1))
        for array in model.parameters().values():
            array[...] = 0
        model.fit((self.x, self.y), steps=1, batch=16, lr=1e-9, weight_decay=0)
        self.assertEqual(max(abs(a).max() for n, a in model.parameters().items() if n == "conv1.weight"), 0)

    def test_fresh_model_predicts(self):
        outputs = quern.Model("lenet5", classes=4, input=(28, 28, 1)).predict(self.x[:3])
        self.assertEqual(outputs.shape, (3, 4))
        np.testing.assert_allclose(outputs.sum(1), 1, atol=1e-5)


class Files(Case):
    def test_onnx(self):
        model = self.trained()
        model.export(self.folder / "m.onnx")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            back = quern.Model(self.folder / "m.onnx")
        planes = self.x.transpose(0, 3, 1, 2)
        self.assertEqual(back.evaluate((planes.astype(np.float32), self.y))["samples"], 240)
        back.fit((planes, self.y), steps=2, batch=16, save=self.folder / "b.safetensors")
        again = quern.Model(self.folder / "b.safetensors")
        np.testing.assert_array_equal(again.predict(planes), back.predict(planes))
        asked = quern.Model(self.folder / "b.safetensors", layout="nhwc")
        np.testing.assert_array_equal(asked.predict(self.x), back.predict(planes))

    def test_int8(self):
        """A network that was trained in int8 is exported in int8, as by the command."""
        np.save(self.folder / "x.npy", self.x)
        np.save(self.folder / "y.npy", self.y)
        named = f"npy:{self.folder}/x.npy,{self.folder}/y.npy"
        model = quern.Model("lenet5", classes=4, input=(28, 28, 1))
        model.fit(named, steps=4, batch=16, numerics="niti", meter=False)
        model.save(self.folder / "i.safetensors")
        command("export", "lenet5", "--weights", self.folder / "i.safetensors", "--out", self.folder / "c.onnx")
        model.export(self.folder / "p.onnx")
        self.assertEqual((self.folder / "p.onnx").read_bytes(), (self.folder / "c.onnx").read_bytes())
        self.assertIn(b"QuantizeLinear", (self.folder / "p.onnx").read_bytes())
        model.fit((self.x, self.y), steps=4, batch=16, numerics="niti", meter=False)
        model.export(self.folder / "own.onnx")
        model.export(self.folder / "given.onnx", samples=self.x[:64])
        self.assertEqual((self.folder / "own.onnx").read_bytes(), (self.folder / "given.onnx").read_bytes())
        model.save(self.folder / "i.safetensors")
        with self.assertRaisesRegex(quern.ArgumentError, "give samples=x"):
            quern.Model(self.folder / "i.safetensors").export(self.folder / "p.onnx")

    def test_int8_elsewhere(self):
        """Others compute of an int8 file what quern computes: ONNX Runtime where it is installed, else PyTorch, one node after the other. Every
        node has a name of its own, as ONNX Runtime demands."""
        try:
            import onnx
            import torch  # noqa: F401
        except ImportError as missing:
            self.skipTest(f"{missing.name} is not installed")
        sys.path.insert(0, str(fresh.SOURCE / "tests/onnx"))
        import exported
        model = quern.Model("lenet5", classes=4, input=(28, 28, 1))
        model.fit((self.x, self.y), steps=30, batch=16, lr=0.05, numerics="octo", meter=False)
        path = self.folder / "i.onnx"
        model.export(path, samples=self.x[:64])
        file = onnx.load(path)
        names = [node.name for node in file.graph.node]
        self.assertEqual(len(names), len(set(names)))
        self.assertIn("QuantizeLinear", [node.op_type for node in file.graph.node])
        kept = {p.key: p.value for p in file.metadata_props}
        mean, deviation = (json.loads(kept.get(f"quern.preparation.{key}", other))[0] for key, other in (("mean", "[0]"), ("std_dev", "[1]")))
        x = ((self.x.astype(np.float32) / 255 - mean) / deviation).transpose(0, 3, 1, 2).astype(np.float32)
        try:
            import onnxruntime
            found = onnxruntime.InferenceSession(str(path)).run(None, {file.graph.input[0].name: x})[0]
        except ImportError:
            found = exported.run(str(path), x)[0]
        self.assertGreater((found.argmax(1) == model.predict(self.x).argmax(1)).mean(), 0.97)

    def test_adapters_and_their_base(self):
        """Saved with adapters: the file holds the base, or names one that is there, or is refused."""
        lora = {"lora": "rank=2,layers=fc*", "steps": 3, "batch": 16, "lr": 0.1, "meter": False}
        base, place = self.folder / "base.safetensors", self.folder / "a.safetensors"
        model = self.trained(save=base)
        model.fit((self.x, self.y), **lora)
        wanted = model.predict(self.x)
        for again in range(3):  # of training in memory, of a file, and of that once more
            model.save(place)
            model = quern.Model(place)
            np.testing.assert_array_equal(model.predict(self.x), wanted)
            if again == 1:
                model.fit((self.x, self.y), **lora)
                wanted = model.predict(self.x)
        fresh_model = quern.Model("lenet5", classes=4, input=(28, 28, 1))
        fresh_model.fit((self.x, self.y), **lora)
        fresh_model.save(place)
        np.testing.assert_array_equal(quern.Model(place).predict(self.x), fresh_model.predict(self.x))
        small = place.stat().st_size
        named = quern.Model("lenet5", classes=4, input=(28, 28, 1))
        named.fit((self.x, self.y), load=base, **lora)
        named.save(place)
        self.assertLess(abs(place.stat().st_size - small), 1000)
        np.testing.assert_array_equal(quern.Model(place).predict(self.x), named.predict(self.x))
        base.unlink()
        with self.assertRaisesRegex(quern.FileError, "is not there any more"):
            named.save(place)
        named.parameters()["conv1.bias"][0] += 1
        named.save(place)
        np.testing.assert_array_equal(quern.Model(place).predict(self.x), named.predict(self.x))

    def test_head_and_adapters(self):
        self.trained(save=self.folder / "m.safetensors")
        model = quern.Model(self.folder / "m.safetensors")
        other = model.fit((self.x, self.y % 2), head=2, train_only="head", steps=4, batch=16)
        self.assertEqual(model.predict(self.x).shape, (240, 2))
        self.assertEqual(other.settings["head"], "2")
        model = quern.Model(self.folder / "m.safetensors")
        base = {name: array.copy() for name, array in model.parameters().items()}
        model.fit((self.x, self.y), lora={"rank": 2, "layers": "fc*"}, steps=4, batch=16)
        np.testing.assert_array_equal(base["fc1.weight"], model.parameters()["fc1.weight"])
        wanted = model.predict(self.x)
        model.save(self.folder / "merged.safetensors", merge=True)
        np.testing.assert_allclose(quern.Model(self.folder / "merged.safetensors").predict(self.x), wanted, atol=1e-5)

    def test_report(self):
        history = self.trained_with_meter()
        page = history.report(self.folder / "r.html")
        self.assertIn("<html", (self.folder / "r.html").read_text()[:400].lower())
        self.assertIn("srcdoc", page._repr_html_())
        history.report(self.folder / "r.json")
        json.loads((self.folder / "r.json").read_text())
        self.assertGreater(history.milliseconds_per_step, 0)
        self.assertIn("<svg", history._repr_html_())
        with self.assertRaisesRegex(ValueError, "format="):
            history.report(self.folder / "r.txt")

    def trained_with_meter(self):
        return quern.Model("lenet5", classes=4, input=(28, 28, 1)).fit((self.x, self.y), steps=12, batch=16)

    def test_meter(self):
        with quern.Meter() as meter:
            for _ in range(3):
                time.sleep(0.03)
                meter.mark()
        self.assertGreaterEqual(meter.milliseconds, 90)
        self.assertEqual(meter.steps, 4)
        self.assertIn("ms", repr(meter))
        with self.assertRaises(RuntimeError):
            quern.Meter().joules

    def test_plan(self):
        model = quern.Model("lenet5", classes=10)
        plan = model.plan(batch=64, memory="3M")
        words = ("plan", "lenet5", "--batch", 64, "--memory", "3M", "--json")
        told = [json.loads(line) for line in command(*words).splitlines()]
        self.assertEqual(plan.arena_bytes, next(t["arena_bytes"] for t in told if "arena_bytes" in t))
        self.assertLessEqual(plan.peak_bytes, 3 << 20)
        self.assertIn("<table", plan._repr_html_())
        with self.assertRaisesRegex(quern.OutOfMemoryError, "use memory=."):
            model.plan(batch=64, memory="300K")


class Learning(Case):
    def test_learner(self):
        """Samples wait in the folder, are learned from while nobody wants the device, and versions can be undone."""
        model = quern.Model("lenet5", classes=4, input=(28, 28, 1))
        model.fit((self.x, self.y), steps=1, batch=8, meter=False)
        model.save(self.folder / "m.safetensors")
        log, wanted = [], [True]
        options = {"when": "cool:95", "keep": 200, "stop": lambda: wanted[0], "log": log.append}
        with quern.Learner(self.folder / "d", self.folder / "m.safetensors", **options) as learner:
            self.assertEqual(learner.input, (28, 28, 1))
            for i in range(200):
                learner.offer(np.asarray(self.x[i], dtype=np.uint8), int(self.y[i]))
            self.assertEqual(learner.turn()[0], "waits")
            self.assertEqual(learner.taken, 0)
        with quern.Learner(self.folder / "d", **options) as learner:
            wanted[0] = False
            version = learner.run()
            self.assertEqual(learner.taken, 200)
            self.assertGreaterEqual(version, 1)
            self.assertEqual(learner.undo(), version - 1)
            self.assertTrue(any("learns from 200 new samples" in line for line in log), log)
            with self.assertRaisesRegex(quern.ArgumentError, "bytes of"):
                learner.offer(np.zeros((3, 3), np.uint8), 0)
            with self.assertRaisesRegex(quern.FileError, "another"):
                quern.Learner(self.folder / "d")
            self.assertIn("version", repr(learner))
        with self.assertRaisesRegex(RuntimeError, "closed"):
            learner.turn()


class Errors(Case):
    def test_messages(self):
        model = quern.Model("lenet5", classes=4)
        wild = np.random.default_rng(0).normal(size=(64, 9)) * 1e6, self.y[:64]
        for call, kind, words in (
                (lambda: quern.Model("lenet"), quern.ArgumentError, "lenet5"),
                (lambda: quern.Model("none.onnx"), quern.FileError, "none.onnx"),
                (lambda: quern.Model("none.safetensors"), quern.FileError, "none.safetensors"),
                (lambda: model.fit("fashion"), quern.ArgumentError, "fashion-mnist, idx:DIR"),
                (lambda: model.fit((self.x, self.y + 1)), quern.ArgumentError, "5 classes, but the model is to have 4"),
                (lambda: model.fit((self.x, self.y - 1)), quern.FormatError, "label -1 in row 0"),
                (lambda: model.fit((self.x, self.y[:9])), quern.ArgumentError, "for 240 samples"),
                (lambda: model.fit(iter(())), quern.ArgumentError, "no samples"),
                (lambda: model.fit(7), quern.ArgumentError, "iterable"),
                (lambda: model.fit([self.x, self.y, self.y]), quern.ArgumentError, "not a pair"),
                (lambda: model.fit((self.x, self.y), epoch=3), TypeError, "did you mean epochs"),
                (lambda: model.fit((self.x, self.y), lr=-1), ValueError, "lr=-1"),
                (lambda: model.fit((self.x, self.y), length=9), TypeError, "only for tasks of"),
                (lambda: model.fit((self.x, self.y), memory="much"), ValueError, "300M"),
                (lambda: model.fit((self.x, self.y), memory=1000), quern.OutOfMemoryError, "budget"),
                (lambda: model.fit((self.x, self.y), device="tpu"), quern.UnsupportedError, "auto or cpu"),
                (lambda: model.fit((self.x, self.y), steps=3, save="/none/x"), quern.FileError, "/none"),
                (lambda: quern.Model("mlp").fit(wild, lr=1e6, steps=9, batch=16), quern.NumericError, "step [23]"),
                (lambda: model.fit(), TypeError, "needs data"),
                (lambda: model.evaluate(), quern.FormatError, "no test samples"),
                (lambda: model.evaluate((self.x, self.y * 3)), quern.ArgumentError, "classes"),
                (lambda: model.predict(np.zeros(3)), quern.ArgumentError, "shape")):
            with self.assertRaisesRegex(kind, words):
                call()
        self.assertTrue(issubclass(quern.OutOfMemoryError, MemoryError) and issubclass(quern.FileError, OSError))
        self.assertTrue(np.isfinite(model.predict(self.x)).all())
        self.assertGreater(model.fit((self.x, self.y), steps=2, batch=16).step, 0)

    def test_spoiled_weights(self):
        model, save = quern.Model("mlp", classes=4, input=(9,)), self.folder / "s.safetensors"
        x = np.random.default_rng(0).normal(size=(240, 9)).astype(np.float32)
        with self.assertRaises(quern.NumericError):
            quern.Model("mlp", classes=4, input=(9,)).fit((x * np.float32(1e6), self.y), lr=1e6, steps=9, batch=16)
        x[200:] = 1e30
        with self.assertRaises(quern.NumericError):
            model.fit((x, self.y), steps=15, batch=16, shuffle=False, schedule="constant", save=save,
                      checkpoint_every=2)
        outputs = model.predict(x[:200])
        np.testing.assert_array_equal(outputs, quern.Model(save).predict(x[:200]))
        wanted = quern.Model("mlp", classes=4, input=(9,))  # the step that failed has changed nothing
        wanted.fit((x, self.y), steps=12, batch=16, shuffle=False, schedule="constant")
        np.testing.assert_array_equal(outputs, wanted.predict(x[:200]))

    def test_of_own_code(self):
        class Broken(list):
            def __getitem__(self, index):
                if index == 17:
                    raise KeyError("mine")
                return super().__getitem__(index)

        data = Broken(zip(self.x, self.y))
        with self.assertRaisesRegex(KeyError, "mine"):
            quern.Model("mlp", classes=4).fit(data, epochs=1, batch=16)
        with self.assertRaisesRegex(ZeroDivisionError, "zero"):
            quern.Model("mlp", classes=4).fit((self.x, self.y), epochs=3, batch=16, callback=lambda epoch: 1 / 0)
        odd = list(zip(self.x, self.y))
        odd[3] = (self.x[3][:5], 1)
        with self.assertRaisesRegex(quern.ArgumentError, "sample 3 is"):
            quern.Model("mlp", classes=4).fit(odd, epochs=1, batch=16)

    def test_callback_ends(self):
        history = quern.Model("mlp").fit((self.x, self.y), epochs=9, batch=16, callback=lambda e: e["epoch"] == 2)
        self.assertEqual(len(history.epochs), 2)


class Running(Case):
    def test_interrupt(self):
        program = (
            "import numpy as np, quern, sys\n"
            "x = np.zeros((4000, 28, 28, 1), np.uint8); y = np.arange(4000) % 10\n"
            "m = quern.Model('lenet5')\n"
            "try:\n"
            "    m.fit((x, y), epochs=10000, batch=64, threads=1, save='s.safetensors', callback=lambda e: "
            "print('epoch', flush=True))\n"
            "except KeyboardInterrupt as stop:\n"
            "    print('stopped', m.steps, stop, flush=True)\n"
            "    assert m.predict(x[:3]).shape == (3, 10)\n"
            "    m.fit((x, y), steps=2, batch=64)\n"
            "    print('went on', flush=True)\n")
        process = subprocess.Popen([sys.executable, "-c", program], cwd=self.folder, stdout=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "epoch\n")
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 0)
        self.assertRegex(out, r"stopped [1-9]\d* stopped after step [\s\S]*went on")
        self.assertIn("lenet5", command("evaluate", "--weights", self.folder / "s.safetensors", "--data", "synthetic"))

    def test_interpreter_is_free(self):
        """Another thread's Python runs while a fit does, many times in each of its epochs."""
        model, seen = quern.Model("lenet5", classes=4), []
        done = threading.Event()

        def watch():
            while not done.wait(0.001):
                seen.append(model_steps())

        def model_steps():
            return len(seen)

        thread = threading.Thread(target=watch)
        thread.start()
        model.fit((self.x, self.y), epochs=20, batch=16, verbose=False, threads=1)
        done.set()
        thread.join()
        self.assertGreater(len(seen), 10)

    def test_threads_of_models(self):
        wanted = self.trained().predict(self.x)
        found = [None] * 3

        def work(i):
            found[i] = self.trained().predict(self.x)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for one in found:
            np.testing.assert_array_equal(one, wanted)

    def test_one_model_of_many_threads(self):
        model = self.trained()
        wanted, wrong = model.predict(self.x), []

        def work():
            for _ in range(20):
                if not (model.predict(self.x) == wanted).all():
                    wrong.append(1)

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])

    def test_predicting_beside_a_fit(self):
        """Another thread's predictions are of the weights before, between or after fits, never of a part of one."""
        model, wrong, done = self.trained(), [], threading.Event()

        def work():
            while not done.is_set():
                try:
                    if abs(model.predict(self.x).sum(1) - 1).max() > 1e-5:
                        wrong.append("no chances")
                except quern.Error as error:
                    wrong.append(str(error))

        thread = threading.Thread(target=work)
        thread.start()
        for _ in range(3):
            model.fit((self.x, self.y), steps=4, batch=16, seed=5, threads=1, meter=False)
        done.set()
        thread.join()
        self.assertEqual(wrong, [])
        alone = self.trained()
        for _ in range(3):
            alone.fit((self.x, self.y), steps=4, batch=16, seed=5, threads=1, meter=False)
        np.testing.assert_array_equal(model.predict(self.x), alone.predict(self.x))

    def test_verbose(self):
        program = ("import numpy as np, quern\nx = np.zeros((64, 28, 28, 1), np.uint8); y = np.arange(64) % 4\n"
                   "quern.Model('mlp').fit((x, y), epochs=2, batch=16{})\n")
        for more, lines in ((", verbose=True", 2), ("", 0), (", verbose=False", 0)):
            told = subprocess.run([sys.executable, "-c", program.format(more)], check=True, text=True,
                                  stderr=subprocess.PIPE).stderr
            self.assertEqual(sum(line.startswith("epoch ") for line in told.splitlines()), lines, told)
            self.assertEqual(len(told.splitlines()), lines, told)

    def test_terminal(self):
        import pty
        program = ("import numpy as np, quern\nx = np.zeros((3000, 28, 28, 1), np.uint8); y = np.arange(3000) % 4\n"
                   "quern.Model('lenet5').fit((x, y), epochs=8, batch=64, threads=1)\n")
        try:
            pid, terminal = pty.fork()
        except OSError as error:
            self.skipTest(f"no terminal can be made here: {error.strerror}")
        if pid == 0:
            os.execv(sys.executable, [sys.executable, "-c", program])
        told = b""
        while True:
            try:
                part = os.read(terminal, 4096)
            except OSError:
                break
            if not part:
                break
            told += part
        self.assertEqual(os.waitpid(pid, 0)[1], 0, told)
        self.assertEqual(told.count(b"epoch "), 8)
        self.assertIn(b"\r\x1b[Kstep ", told)


def main():
    global quern
    import quern
    assert os.environ["QUERN_FRESH"] in quern.__file__, quern.__file__
    assert quern.__version__ in command("version")
    unittest.main()


if __name__ == "__main__":
    fresh.enter(main)
