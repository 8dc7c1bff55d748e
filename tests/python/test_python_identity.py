"""Classes and columns by name, and recordings in windows, in Python as by the command."""
import os
import pathlib
import sys
import tempfile
import unittest

import numpy as np

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(os.environ["QUERN_BUILD"]) / "python"))
import quern  # noqa: E402

AT = {"ant": (0, 4), "bee": (4, 0), "cat": (-4, 0), "dog": (0, -4)}


def write(path, classes, columns=("x", "y"), n=60, seed=1):
    draw = np.random.default_rng(seed)
    lines = [",".join((*columns, "label"))]
    for i in range(n * len(classes)):
        name = classes[i % len(classes)]
        place = dict(zip("xy", draw.normal(AT[name], 0.4)), z=draw.normal())
        lines.append(",".join((*(f"{place[column]:.4f}" for column in columns), name)))
    pathlib.Path(path).write_text("\n".join(lines) + "\n")


class Identity(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="quern-identity-")
        self.addCleanup(self.folder.cleanup)
        self.addCleanup(os.chdir, os.getcwd())
        os.environ["XDG_CACHE_HOME"] = self.folder.name
        os.chdir(self.folder.name)
        write("d.csv", ("ant", "bee", "cat"))
        write("turned.csv", ("cat", "bee"), ("y", "z", "x"), seed=2)
        write("again.csv", ("cat", "ant", "bee"), ("z", "y", "x"), seed=4)
        write("dog.csv", ("dog", "ant", "bee"), seed=3)
        self.model = quern.Model("mlp")
        self.model.fit("csv:d.csv", epochs=15, holdout=0.2, batch=16, verbose=False)
        self.model.save("m.safetensors")

    def check_turned(self, model):
        found = model.evaluate("csv:turned.csv")
        self.assertEqual(found["samples"], 120)  # all of data that is not its own
        self.assertGreater(found["accuracy"], 0.98)
        self.assertLess(model.evaluate("csv:d.csv")["samples"], 60)
        self.assertEqual(model.evaluate("csv:d.csv", split="all")["samples"], 180)

    def test_evaluates_by_name(self):
        self.check_turned(self.model)
        self.check_turned(quern.Model("m.safetensors"))
        with self.assertRaisesRegex(quern.FormatError, 'not trained for: dog.*head="data"'):
            self.model.evaluate("csv:dog.csv")
        pathlib.Path("one.csv").write_text("x,label\n1,ant\n2,bee\n")
        with self.assertRaisesRegex(quern.FormatError, "no column 'y'"):
            self.model.evaluate("csv:one.csv")

    def test_trains_on_by_name(self):
        for model in (self.model, quern.Model("m.safetensors")):
            history = model.fit("csv:again.csv", epochs=1, lr=1e-9, holdout=0.2, batch=16, verbose=False)
            self.assertGreater(history.epochs[-1]["test_accuracy"], 0.95)
            self.check_turned(quern.Model("m.safetensors"))
            with self.assertRaisesRegex(quern.FormatError, "not trained for: dog; without a sample: cat"):
                model.fit("csv:dog.csv", epochs=1, verbose=False)

    def test_head_grows(self):
        old = {name: array.copy() for name, array in self.model.parameters().items()}
        self.model.fit("csv:dog.csv", head="data", epochs=1, lr=1e-12, batch=16, verbose=False)
        new = self.model.parameters()
        grown = [name for name in old if old[name].shape != new[name].shape]
        self.assertEqual(len(grown), 2)
        for name in grown:
            self.assertEqual((len(old[name]), len(new[name])), (3, 4))
            np.testing.assert_allclose(new[name][:3], old[name], atol=1e-9)
        self.assertGreater(self.model.evaluate("csv:d.csv")["accuracy"], 0.95)

    def test_amounts_by_column(self):
        draw = np.random.default_rng(1)
        x, y = draw.normal(size=(2, 300))
        for name, columns in (("a", ("x", "y")), ("b", ("y", "x"))):
            rows = [",".join(f"{dict(x=x[i], y=y[i])[one]:.4f}" for one in columns) + f",{3 * x[i]:.3f}" for i in range(300)]
            pathlib.Path(name + ".csv").write_text("\n".join([",".join(columns) + ",sum", *rows]) + "\n")
        model = quern.Model("mlp")
        model.fit("csv:a.csv", epochs=30, batch=16, lr=0.01, verbose=False)
        right, turned = model.evaluate("csv:a.csv", split="all"), model.evaluate("csv:b.csv")
        self.assertLess(right["rmse"], 0.6)
        self.assertAlmostEqual(right["rmse"], turned["rmse"], places=4)
        history = model.fit("csv:b.csv", epochs=1, lr=1e-9, batch=300, verbose=False)
        self.assertLess(history.epochs[-1]["loss"], 0.1)


class Recordings(unittest.TestCase):
    def setUp(self):
        draw = np.random.default_rng(1)
        self.who = np.repeat(np.arange(20), 60)
        self.labels = self.who % 2
        self.rows = draw.normal(size=(1200, 2)).astype(np.float32)
        self.rows[:, 0] += 2 * np.sin(np.arange(1200) / (1.5 + 3 * self.labels))
        self.how = {"window": 16, "stride": 8, "holdout": 0.3, "epochs": 10, "batch": 16, "verbose": False}

    def test_arrays_as_files(self):
        with tempfile.TemporaryDirectory(prefix="quern-identity-") as folder:
            for name, array in (("x", self.rows), ("y", self.labels.astype(np.int32)), ("g", self.who)):
                np.save(f"{folder}/{name}.npy", array)
            named, given = quern.Model("mlp"), quern.Model("mlp")
            a = named.fit(f"npy:{folder}/x.npy,{folder}/y.npy", group=f"{folder}/g.npy", **self.how)
            b = given.fit(self.rows, self.labels, group=self.who, **self.how)
            self.assertEqual(a.epochs[-1]["test_loss"], b.epochs[-1]["test_loss"])
            self.assertEqual(list(a.losses), list(b.losses))
            text = quern.Model("mlp").fit(self.rows, self.labels, group=[f"p{one:02}" for one in self.who], **self.how)
            self.assertEqual(list(a.losses), list(text.losses))  # p00, p01, ... are 0, 1, ...
        # windows of 16 by 8 in 60 rows: 6 a group; without groups more, some of rows of two
        self.assertEqual(given.evaluate(self.rows, self.labels, group=self.who)["samples"], 120)
        self.assertGreater(given.evaluate(self.rows, self.labels)["samples"], 120)
        self.assertGreater(given.evaluate(self.rows, self.labels, group=self.who)["accuracy"], 0.8)
        self.assertEqual(given.predict(np.zeros((3, 16, 1, 2), np.float32)).shape, (3, 2))

    def test_gaps_of_dates(self):
        seconds = np.arange(1200.0)
        seconds[630:] += 1000
        dates = np.datetime64("2024-01-01", "ms") + (seconds * 1000).astype("timedelta64[ms]")
        for time in (seconds, dates):
            model = quern.Model("mlp")
            model.fit(self.rows, self.labels, time=time, **self.how)
            halves = [model.evaluate(self.rows[half], self.labels[half])["samples"] for half in (slice(630), slice(630, None))]
            self.assertEqual(model.evaluate(self.rows, self.labels, time=time)["samples"], sum(halves))
            self.assertGreater(model.evaluate(self.rows, self.labels)["samples"], sum(halves))

    def test_refused(self):
        fit = quern.Model("mlp").fit
        for says, arguments in (("a value for each of the 1200 rows", {"group": self.who[1:], "window": 16}),
                                ("beside arrays they are arrays", {"group": "who", "window": 16})):
            with self.assertRaisesRegex(quern.ArgumentError, says):
                fit(self.rows, self.labels, epochs=1, **arguments)
        with self.assertRaisesRegex(quern.ArgumentError, "beside arrays"):
            fit("csv:nowhere.csv", group=self.who, epochs=1)
        with self.assertRaisesRegex(quern.ArgumentError, "save a table as CSV|are of arrays"):
            fit([(self.rows[0], 1)], window=16, epochs=1)
        with self.assertRaises(ValueError):
            fit(self.rows, self.labels, window=-1, epochs=1)


class Labels(unittest.TestCase):
    """Labels that are texts name classes, and columns of a dictionary have names, as those of a file."""

    def samples(self, *names, seed=1):
        draw = np.random.default_rng(seed)
        labels = np.array(names * 50)
        return np.float32([draw.normal(AT[name], 0.4) for name in labels]), labels

    def test_names(self):
        x, y = self.samples("cat", "ant", "bee")
        model, how = quern.Model("mlp"), {"epochs": 15, "batch": 16, "seed": 1}
        model.fit(x, y, **how)
        self.assertEqual(model.class_names, ["ant", "bee", "cat"])
        self.assertEqual(model.predict(np.float32([AT["bee"], AT["cat"], AT["ant"]])).argmax(1).tolist(), [1, 2, 0])
        self.assertGreater(model.evaluate(*self.samples("cat", "bee"))["accuracy"], 0.98)
        more = self.samples("dog", "cat", "ant")
        with self.assertRaisesRegex(quern.ArgumentError, "not trained for: dog; it knows ant, bee, cat"):
            model.evaluate(*more)
        with self.assertRaisesRegex(quern.FormatError, "not trained for: dog"):
            model.fit(*more, epochs=1)
        model.fit(*self.samples("cat", "bee"), epochs=1, batch=16, lr=0.0)
        self.assertGreater(model.evaluate(x, list(y))["accuracy"], 0.98)
        model.fit(*more, head="data", **how)
        self.assertEqual(model.class_names, ["ant", "bee", "cat", "dog"])
        self.assertGreater(model.evaluate(*more)["accuracy"], 0.98)

    def test_refused(self):
        x, y = self.samples("ant", "bee")
        for says, made in (("gives numbers", {"targets": "numbers"}),):
            with self.assertRaisesRegex(quern.ArgumentError, says):
                quern.Model("mlp", **made).fit(x, y, epochs=1)
        numbers = quern.Model("mlp")
        numbers.fit(x, np.arange(100) % 2, epochs=1)
        with self.assertRaisesRegex(quern.ArgumentError, "by number"):
            numbers.evaluate(x, y)
        with self.assertRaisesRegex(quern.ArgumentError, "in some splits"):
            quern.Model("mlp").fit(x, y, validation=(x, np.arange(100) % 2), epochs=1)

    def test_dictionary(self):
        x, y = self.samples("ant", "bee")
        model = quern.Model("mlp")
        model.fit({"a": x[:, 0], "b": x[:, 1], "kind": y}, "kind", epochs=15, batch=16, seed=1)
        self.assertGreater(model.evaluate({"b": x[:, 1], "a": x[:, 0]}, y)["accuracy"], 0.98)
        self.assertGreater((model.predict({"b": x[:, 1], "a": x[:, 0]}).argmax(1) == (y == "bee")).mean(), 0.98)
        with self.assertRaisesRegex(quern.ArgumentError, "of one length"):
            model.predict({"a": x[:, 0], "b": x[:5, 1]})


class Files(unittest.TestCase):
    """What an exported file says is known to a model of it."""

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="quern-identity-")
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "m.onnx")

    def test_amounts(self):
        draw = np.random.default_rng(1)
        x = draw.normal(size=(100, 3)).astype(np.float32)
        y = np.stack((x @ (3e4, 1e4, 1e3) + 5e5, x @ (1, 2, 3)), axis=1).astype(np.float32)
        model = quern.Model("mlp")
        model.fit(x, y, epochs=5, seed=1)
        model.export(self.path)
        again = quern.Model(self.path)
        np.testing.assert_array_equal(again.predict(x), model.predict(x))
        self.assertEqual(again.evaluate(x, y)["rmse"], model.evaluate(x, y)["rmse"])
        again.fit(x[:50], y[:50], epochs=1, lr=0.0)
        np.testing.assert_array_equal(again.predict(x), model.predict(x))

    def test_pictures(self):
        x = np.random.default_rng(2).integers(0, 90, (40, 28, 28, 1), np.uint8)
        y = np.arange(40) % 2
        x[y == 1] += 60
        model = quern.Model("lenet5", classes=2)
        model.fit(x, y, epochs=1, batch=8, seed=1)
        planes = x.transpose(0, 3, 1, 2)
        for inside in (False, True):
            model.export(self.path, with_preparation=inside)
            again = quern.Model(self.path)
            np.testing.assert_allclose(again.predict(planes), model.predict(x), atol=1e-6)
            again.fit(planes[:10], y[:10], epochs=1, lr=0.0)
            np.testing.assert_allclose(again.predict(planes), model.predict(x), atol=1e-6)

    def test_classes(self):
        data = os.path.join(self.folder.name, "d.csv")
        write(data, ("ant", "bee", "cat"))
        model = quern.Model("mlp")
        model.fit(f"csv:{data}", epochs=20, batch=16, seed=1)
        model.export(self.path)
        write(data, ("cat", "bee"), ("y", "x"), seed=2)
        self.assertGreater(quern.Model(self.path).evaluate(f"csv:{data}")["accuracy"], 0.95)


if __name__ == "__main__":
    unittest.main()
