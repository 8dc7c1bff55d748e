"""QuernClassifier and QuernRegressor pass scikit-learn's checks, work in its pipelines, searches and copies, and give
probabilities in the order of its classes."""
import os
import pathlib
import pickle
import sys
import unittest
import warnings

import numpy as np
import sklearn
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(os.environ["QUERN_BUILD"]) / "python"))
import quern  # noqa: E402


def checks(estimator):
    """(name, failure or None) of scikit-learn's checks, by what the release has."""
    try:
        found = check_estimator(estimator, on_fail=None, on_skip=None)
        return [(one["check_name"], one["exception"] if one["status"] == "failed" else None) for one in found]
    except TypeError:  # before 1.6
        told = []
        for one, check in check_estimator(estimator, generate_only=True):
            try:
                check(one)
                told.append((check.func.__name__, None))
            except unittest.SkipTest:
                pass
            except Exception as failure:  # noqa: B902 - of any check
                told.append((check.func.__name__, failure))
        return told


class Estimators(unittest.TestCase):
    def test_checks(self):
        for estimator in (quern.QuernClassifier(), quern.QuernRegressor()):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                told = checks(estimator)
            self.assertGreater(len(told), 35)
            self.assertEqual([one for one in told if one[1] is not None], [], sklearn.__version__)

    def test_used(self):
        rng = np.random.default_rng(0)
        x = rng.normal(size=(200, 4))
        y = np.array(["left", "right"])[(x[:, 0] + x[:, 1] > 0).astype(int)]
        one = quern.QuernClassifier(epochs=15, random_state=1)
        self.assertGreater(cross_val_score(one, x, y, cv=3).mean(), 0.9)
        search = GridSearchCV(make_pipeline(StandardScaler(), clone(one)), {"quernclassifier__learning_rate": [1e-6, 0.01]},
                              cv=2).fit(x, y)
        self.assertEqual(search.best_params_["quernclassifier__learning_rate"], 0.01)
        again = pickle.loads(pickle.dumps(search))
        np.testing.assert_array_equal(again.predict_proba(x), search.predict_proba(x))
        self.assertEqual(list(search.classes_), ["left", "right"])
        target = 3e5 + 1e5 * x[:, 0]
        self.assertGreater(cross_val_score(quern.QuernRegressor(), x, target, cv=3).mean(), 0.95)  # R2


if __name__ == "__main__":
    unittest.main()
