"""Arrays against the model that takes them: a shape that is not the model's, a scale that is not the training data's
and labels that can be read in two ways are refused or warned of; nothing is resized or transposed unasked."""
import os
import pathlib
import sys
import tempfile
import unittest
import warnings

import numpy as np

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(os.environ["QUERN_BUILD"]) / "python"))
import quern  # noqa: E402

N, CLASSES = 80, 4
SHORT = {"steps": 3, "batch": 16, "lr": 1e-3, "meter": False, "threads": 1}


def make_images(side=28):
    """Images with a bright column for each class."""
    rng = np.random.default_rng(3)
    y = np.arange(N) % CLASSES
    x = rng.integers(0, 120, (N, side, side, 1))
    x[np.arange(N), :, 6 * y] += 130
    return x.astype(np.uint8), y


def quietly(work):
    """What work returns, and the warnings of it."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        return work(), [str(one.message) for one in told]


class Files(unittest.TestCase):
    def test_how_a_file_is_read(self):
        """A branch by the value of an input, and the batch as the second axis; the checkpoint keeps both."""
        import onnx
        from onnx import TensorProto, helper, numpy_helper
        weights = {w: np.random.default_rng(i).standard_normal((8, 3)).astype(np.float32) for i, w in enumerate(("W1", "W2"))}
        arms = [helper.make_graph([helper.make_node("MatMul", ["x", w], [f"y{w}"])], w, [],
                                  [helper.make_tensor_value_info(f"y{w}", TensorProto.FLOAT, None)]) for w in weights]
        graph = helper.make_graph(
            [helper.make_node("Equal", ["sr", "fast"], ["is"]),
             helper.make_node("If", ["is"], ["y"], then_branch=arms[0], else_branch=arms[1])], "net",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, (5, "B", 8)), helper.make_tensor_value_info("sr", TensorProto.INT64, ())],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, (5, "B", 3))],
            [numpy_helper.from_array(np.asarray(v), n) for n, v in {**weights, "fast": np.int64(16000)}.items()])
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
        model.ir_version = 8
        x = np.random.default_rng(3).standard_normal((12, 5, 8)).astype(np.float32)
        with tempfile.TemporaryDirectory() as folder:
            onnx.save(model, f"{folder}/net.onnx")
            m = quern.Model(f"{folder}/net.onnx", set={"sr": 16000}, shape={"x": (5, "N", 8)})
            np.testing.assert_allclose(m.predict({"x": x}), x @ weights["W1"], atol=1e-5)
            m.fit({"x": x, "y": x @ weights["W2"]}, steps=3, batch=4, lr=0.01, meter=False)
            m.save(f"{folder}/net.st")
            again = quern.Model(f"{folder}/net.st")
            np.testing.assert_array_equal(again.predict({"x": x}), m.predict({"x": x}))
            self.assertFalse(np.allclose(m.predict({"x": x}), x @ weights["W1"], atol=1e-5))
            slow = quern.Model(f"{folder}/net.onnx", set={"sr": np.int64(8000)}, shape={"x": "5xNx8"})
            np.testing.assert_allclose(slow.predict({"x": x}), x @ weights["W2"], atol=1e-5)
            with self.assertRaises(TypeError):
                m.fit({"x": x, "y": x @ weights["W2"]}, set={"sr": 8000}, steps=3, batch=4, lr=0.01, meter=False)
        with self.assertRaises(quern.ArgumentError):
            quern.Model("mlp", set={"sr": 1})


class Case(unittest.TestCase):
    def setUp(self):
        self.x, self.y = make_images()

    def model(self, **more):
        return quern.Model("lenet5", **more)

    def refuses(self, words, work):
        with self.assertRaisesRegex(quern.ArgumentError, words):
            work()


class Shapes(Case):
    def test_other_sizes_are_refused(self):
        model = self.model(classes=CLASSES)
        colour = np.repeat(self.x, 3, axis=3)
        self.refuses(r"\(28, 28, 3\); lenet5 takes \(28, 28, 1\).*input=\(28, 28, 3\)",
                     lambda: model.fit((colour, self.y), **SHORT))
        model.fit((self.x, self.y), **SHORT)
        for wrong in (self.x[:, :20], colour, self.x[:, :, :, 0].reshape(N, 1, 28, 28), self.x.reshape(N, -1)[:, :100]):
            self.refuses("samples are", lambda x=wrong: model.predict(x))
            self.refuses("samples are", lambda x=wrong: model.evaluate((x, self.y)))
        for same in (self.x[..., 0], self.x.reshape(N, -1)):
            np.testing.assert_array_equal(model.predict(same), model.predict(self.x))

    def test_resized_where_asked(self):
        model = self.model(classes=CLASSES, resize=True)
        model.fit((self.x, self.y), **SHORT)
        self.assertEqual(model.predict(self.x[:, :20]).shape, (N, CLASSES))

    def test_rows(self):
        rows = np.random.default_rng(0).normal(size=(N, 6))
        model = quern.Model("mlp")
        model.fit((rows, self.y), **SHORT)
        self.refuses(r"\(5,\); mlp takes \(6,\)", lambda: model.predict(rows[:, :5]))
        self.refuses("samples are", lambda: model.fit((rows, self.y), validation=(rows[:, :5], self.y), **SHORT))

    def test_series(self):
        """(N, T, F) for a network of (T, 1, F): the class is in the order of the three columns."""
        y = np.arange(N) % 3
        x = np.random.default_rng(0).normal(size=(N, 16, 3)).astype(np.float32)
        x[np.arange(N), :, y] += 1
        model = quern.Model("mlp", input=(16, 1, 3))
        model.fit((x, y), epochs=8, batch=16, lr=0.01, meter=False)
        np.testing.assert_array_equal(model.predict(x), model.predict(x[:, :, None]))
        self.assertGreater(model.evaluate((x, y))["accuracy"], 0.95)
        self.refuses("samples are", lambda: model.predict(x.transpose(0, 2, 1)))

    def test_kinds(self):
        model = self.model(classes=CLASSES)
        for wrong in (self.x.astype(complex), self.x.astype(object), self.x.astype(str), self.x[:, 0, 0, 0]):
            self.refuses("samples of shape", lambda x=wrong: model.predict(x))

    def test_samples_or_batches(self):
        """Ten rows of pixels and ten columns of a label are a sample, not ten samples."""
        x, y = np.random.default_rng(0).normal(size=(40, 10, 12, 1)).astype(np.float32), np.arange(40) % 10
        wanted = self.fitted(list(zip(x, y)))
        self.assertEqual(self.fitted(iter(zip(x, np.eye(10)[y]))), wanted)
        self.assertEqual(self.fitted(iter([(x[:20], y[:20]), (x[20:], y[20:])])), wanted)

    @staticmethod
    def fitted(data):
        model = quern.Model("mlp", classes=10, input=(10, 12, 1))
        return list(model.fit(data, **SHORT).losses)


class Scales(Case):
    def test_floats_after_bytes(self):
        def trained():
            model = self.model(classes=CLASSES)
            model.fit((self.x, self.y), **SHORT)
            return model

        model = trained()
        wanted = model.predict(self.x)
        same, told = quietly(lambda: model.predict(self.x / np.float32(255)))
        self.assertEqual(told, [])
        np.testing.assert_allclose(same, wanted, atol=1e-6)
        for wrong in (self.x.astype(np.float32), self.x.astype(np.int64), (self.x / 255.0 - 0.5) / 0.2):
            for work in (lambda x=wrong: model.predict(x), lambda x=wrong: model.evaluate((x, self.y)),
                         lambda x=wrong: model.fit((x, self.y), **SHORT | {"lr": 1e-9})):
                _, told = quietly(work)
                self.assertRegex(str(told), "trained on bytes")
            model = trained()

    def test_bytes_after_floats(self):
        with tempfile.TemporaryDirectory() as folder:
            for scale, is_right in ((1, False), (255, True)):
                model = self.model(classes=CLASSES)
                model.fit((self.x / np.float32(scale), self.y), **SHORT)
                model.save(f"{folder}/m.safetensors")
                for one in (model, quern.Model(f"{folder}/m.safetensors")):
                    if is_right:
                        np.testing.assert_allclose(one.predict(self.x), one.predict(self.x / np.float32(255)), atol=1e-6)
                    else:
                        self.refuses("trained on floats from 0 to 2", lambda m=one: m.predict(self.x))


class Labels(Case):
    def losses(self, y, **more):
        return list(self.model(**more).fit((self.x, y), **SHORT).losses)

    def test_classes(self):
        wanted = self.losses(self.y, classes=CLASSES)
        hot = np.eye(CLASSES)[self.y]
        for same in (self.y.astype(float), self.y.astype(np.float32)[:, None], self.y.astype(np.uint8), hot,
                     hot.astype(int), hot.astype(bool)):
            self.assertEqual(self.losses(same, classes=CLASSES), wanted)
        self.assertEqual(self.losses(hot, targets="classes"), wanted)
        self.assertEqual(self.losses(hot.astype(int)), wanted)
        items = [(x, float(y)) for x, y in zip(self.x, self.y)]
        self.assertEqual(list(self.model(classes=CLASSES).fit(items, **SHORT).losses), wanted)
        self.assertEqual(list(self.model(classes=CLASSES).fit(list(zip(self.x, hot)), **SHORT).losses), wanted)

    def test_unclear(self):
        items = [(x, float(y)) for x, y in zip(self.x, self.y)]
        for data in ((self.x, self.y.astype(float)), (self.x, self.y[:, None] * 1.0), items, iter(items)):
            self.refuses("classes or numbers", lambda d=data: self.model().fit(d, **SHORT))
        hot = np.eye(CLASSES)[self.y]
        self.refuses("classes or numbers", lambda: self.model().fit((self.x, hot), **SHORT))
        hot[:, 0] = 1
        self.refuses("classes or numbers", lambda: self.model().fit((self.x, hot), **SHORT))
        self.refuses("one of which is 1|of which one is 1", lambda: self.losses(hot, classes=CLASSES))
        self.refuses("whole numbers", lambda: self.losses(self.y + 0.5, classes=CLASSES))
        self.refuses("5 classes", lambda: self.losses(np.eye(5)[self.y], classes=CLASSES))
        self.refuses("QuernClassifier", lambda: self.losses(np.array([None, *map(str, self.y[1:])], object)))

    def test_numbers(self):
        wanted = self.losses(self.y * 1.0, targets="numbers")
        self.assertEqual(self.losses(self.y, targets="numbers"), wanted)
        self.assertEqual(list(self.model().fit((self.x, self.y), task="regression", **SHORT).losses), wanted)
        model = self.model()
        model.fit((self.x, self.y + 0.5), **SHORT)
        self.assertEqual(model.predict(self.x).shape, (N, 1))
        self.assertNotIn("accuracy", model.evaluate((self.x, self.y * 1.0)))
        self.assertNotIn("accuracy", model.evaluate((self.x, self.y)))
        self.refuses("2 numbers", lambda: model.evaluate((self.x, np.stack([self.y, self.y], 1) + 0.5)))

    def test_trained_classes(self):
        model = self.model()
        model.fit((self.x, self.y), **SHORT)
        self.assertEqual(model.evaluate((self.x, self.y * 1.0)), model.evaluate((self.x, self.y)))
        self.refuses("whole numbers", lambda: model.evaluate((self.x, self.y + 0.5)))


if __name__ == "__main__":
    unittest.main()
