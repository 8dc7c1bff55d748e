"""What Python people expect of fit, evaluate and models: two arguments, names of other libraries, callbacks, pickle, tables
with names, and estimators that need no scikit-learn."""
import copy
import os
import pathlib
import pickle
import sys
import tempfile
import unittest
import warnings

import numpy as np

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(os.environ["QUERN_BUILD"]) / "python"))
sys.modules["sklearn"] = None  # here the package stands alone; test_python_estimators has scikit-learn's checks
import quern  # noqa: E402

N = 120
SHORT = {"epochs": 3, "batch": 20, "lr": 0.01, "meter": False, "threads": 1}


class Table:
    """As pandas and polars have them: columns by name."""

    def __init__(self, **columns):
        self._all = columns
        self.columns = list(columns)
        self.dtypes = [array.dtype for array in columns.values()]

    def __getitem__(self, which):
        if isinstance(which, list):
            return Table(**{name: self._all[name] for name in which})
        return self._all[which]

    def to_numpy(self):
        return np.stack(list(self._all.values()), axis=1)


class Recorder:
    """A callback with methods."""

    def __init__(self, most=99):
        self.told, self.most, self.stop_training = [], most, False

    def on_train_begin(self):
        self.told.append("begin")

    def on_epoch_end(self, epoch, figures):
        self.told.append((epoch, figures["epoch"]))
        self.stop_training = epoch + 1 == self.most

    def on_train_end(self):
        self.told.append("end")


class Case(unittest.TestCase):
    def setUp(self):
        rng = np.random.default_rng(0)
        self.x = rng.normal(size=(N, 3)).astype(np.float32)
        self.y = (self.x[:, 0] > 0).astype(np.int64)

    def trained(self, *data, **more):
        model = quern.Model("mlp")
        model.fit(*(data or (self.x, self.y)), **SHORT | more)
        return model


class Fit(Case):
    def test_overflow(self):
        """A finite sample whose loss is not finite ends fit with an error, and the model is as it was."""
        model = self.trained()
        wanted = model.predict(self.x)
        large = self.x.copy()
        large[7] = 3e38
        with self.assertRaisesRegex(quern.NumericError, "nothing was changed"):
            model.fit(large, self.y, **SHORT | {"batch": N})
        np.testing.assert_array_equal(model.predict(self.x), wanted)
        model.fit(self.x, self.y, **SHORT)

    def test_names(self):
        wanted = self.trained((self.x, self.y), validation=(self.x[:20], self.y[:20])).predict(self.x)
        more = {key: value for key, value in SHORT.items() if key not in ("batch", "lr")}
        for data, names in (((self.x, self.y), {}), ((), {"x": self.x, "y": self.y})):
            model = quern.Model("mlp")
            model.fit(*data, **names, batch_size=20, learning_rate=0.01, validation_data=(self.x[:20], self.y[:20]), **more)
            np.testing.assert_array_equal(model.predict(self.x), wanted)
            self.assertEqual(model.evaluate(self.x, self.y), model.evaluate((self.x, self.y)))

    def test_wrong_calls(self):
        model = self.trained()
        for call, words in ((lambda: self.trained(max_epochs=3), "epochs=N"), (lambda: self.trained(epocs=3), "mean epochs"),
                            (lambda: self.trained(n_jobs=3), "threads=N"), (lambda: self.trained(batchsize=3), "mean batch_size"),
                            (lambda: self.trained(batch_size=3), "the same"), (lambda: model.fit(y=self.y), "without samples"),
                            (lambda: model.fit("synthetic", self.y), "have their labels"),
                            (lambda: model.fit(self.x, "price"), "no table"),
                            (lambda: model.evaluate(self.x, self.y, batch_size=3), "has no argument"),
                            (lambda: quern.Model("mlp", num_classes=3), "classes=N"),
                            (lambda: self.trained(callbacks=print), "is a list"),
                            (lambda: self.trained(callbacks=[3]), "on_epoch_end")):
            with self.assertRaisesRegex(TypeError, words):
                call()

    def test_callbacks(self):
        seen, recorder = [], Recorder(2)
        self.trained(callback=lambda figures: seen.append(figures["epoch"]), callbacks=[recorder])
        self.assertEqual((seen, recorder.told), ([1, 2], ["begin", (0, 1), (1, 2), "end"]))
        model = quern.Model("mlp")

        def stop(_figures):
            model.stop_training = True

        self.assertEqual(len(model.fit(self.x, self.y, callbacks=[stop], **SHORT).epochs), 1)
        self.assertEqual(len(model.fit(self.x, self.y, **SHORT).epochs), 3)


class Pickles(Case):
    def test_same(self):
        for model in (self.trained(), self.trained(lora="rank=2,layers=*")):
            for again in (pickle.loads(pickle.dumps(model)), copy.deepcopy(model)):
                wanted = model.predict(self.x)
                np.testing.assert_array_equal(again.predict(self.x), wanted)
                self.assertEqual(again.evaluate(self.x, self.y), model.evaluate(self.x, self.y))
                again.fit(self.x, self.y, **SHORT)
                self.assertTrue((again.predict(self.x) != wanted).any())
                np.testing.assert_array_equal(model.predict(self.x), wanted)

    def test_fresh_and_files(self):
        first = pickle.loads(pickle.dumps(quern.Model("mlp", classes=2, input=(3,))))
        first.fit(self.x, self.y, **SHORT)
        np.testing.assert_array_equal(first.predict(self.x), quern_fit(self.x, self.y).predict(self.x))
        with tempfile.TemporaryDirectory() as folder:
            self.trained().export(f"{folder}/m.onnx")
            model = quern.Model(f"{folder}/m.onnx")
            model.fit(self.x, self.y, **SHORT)
            kept = pickle.dumps(model)
            wanted = model.predict(self.x)
        again = pickle.loads(kept)  # the file is gone
        np.testing.assert_array_equal(again.predict(self.x), wanted)
        with tempfile.TemporaryDirectory() as folder:
            again.save(f"{folder}/a.safetensors")
            np.testing.assert_array_equal(quern.Model(f"{folder}/a.safetensors").predict(self.x), wanted)

    def test_history(self):
        history = quern.Model("mlp").fit(self.x, self.y, **SHORT | {"meter": True})
        again = pickle.loads(pickle.dumps(history))
        self.assertEqual((again.epochs, list(again.losses)), (history.epochs, list(history.losses)))


def quern_fit(x, y):
    model = quern.Model("mlp", classes=2, input=(3,))
    model.fit(x, y, **SHORT)
    return model


class Tables(Case):
    def table(self, **more):
        return Table(a=self.x[:, 0], b=self.x[:, 1].astype(np.float64), c=self.x[:, 2] > 0, **more)

    def test_by_name(self):
        model = self.trained(self.table(), self.y)
        wanted = model.predict(self.table())
        np.testing.assert_array_equal(model.predict(self.table()[["c", "a", "b"]]), wanted)
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(model)).predict(self.table()[["b", "c", "a"]]), wanted)
        with self.assertRaisesRegex(quern.ArgumentError, "lacks c"):
            model.predict(self.table()[["a", "b"]])
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            np.testing.assert_array_equal(model.predict(self.table(d=self.y)), wanted)
        self.assertRegex(str(told[0].message), "left out: d")

    def test_target_column(self):
        whole = self.table(t=self.y)
        model = self.trained(whole, "t", validation=whole)
        np.testing.assert_array_equal(model.predict(self.table()), self.trained(self.table(), self.y).predict(self.table()))
        self.assertEqual(model.evaluate(whole, "t"), model.evaluate(self.table(), self.y))
        with self.assertRaisesRegex(quern.ArgumentError, "no column 'z'"):
            self.trained(whole, "z")
        with self.assertRaisesRegex(quern.ArgumentError, "columns d are not of numbers"):
            self.trained(self.table(d=np.array(["x"] * N)), self.y)


class Estimators(Case):
    def test_alone(self):
        names = np.array(["no", "yes"])[self.y]
        one = quern.QuernClassifier(epochs=10, random_state=3)
        with self.assertRaisesRegex(ValueError, "not trained"):
            one.predict(self.x)
        self.assertIs(one.fit(self.x, names), one)
        self.assertGreater((one.predict(self.x) == names).mean(), 0.9)
        self.assertEqual(list(one.classes_), ["no", "yes"])
        np.testing.assert_allclose(one.predict_proba(self.x).sum(1), 1)
        again = quern.QuernClassifier(**one.get_params()).fit(self.x, names)
        np.testing.assert_array_equal(again.predict_proba(self.x), one.predict_proba(self.x))
        np.testing.assert_array_equal(pickle.loads(pickle.dumps(one)).predict(self.x), one.predict(self.x))
        with self.assertRaisesRegex(ValueError, "one class"):
            one.fit(self.x, names[:1].repeat(N))

    def test_regression(self):
        targets = 1e6 + 2e5 * self.x[:, :2]
        one = quern.QuernRegressor().fit(self.x, targets)
        self.assertLess(np.abs(one.predict(self.x) - targets).mean(), 5e4)
        flat = quern.QuernRegressor().fit(self.x, targets[:, 0]).predict(self.x)
        self.assertEqual(flat.shape, (N,))
        self.assertLess(np.abs(flat - targets[:, 0]).mean(), 5e4)


if __name__ == "__main__":
    unittest.main()
