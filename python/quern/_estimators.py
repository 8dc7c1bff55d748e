"""Models as scikit-learn has them: QuernClassifier and QuernRegressor, with its parameters, pipelines, searches and checks.
Columns of numbers are scaled by their training samples' mean and deviation, and so are a regression's targets, which come
back in their units. scikit-learn is used where it is installed; without it, fit and predict work on arrays."""
from __future__ import annotations

import inspect
from typing import Any, Mapping, Optional

import numpy as np

from . import _arrays, _library as c
from ._model import Model

try:
    import sklearn  # type: ignore[import]
    from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin  # type: ignore[import]
    from sklearn.exceptions import NotFittedError  # type: ignore[import]
    from sklearn.utils import check_random_state  # type: ignore[import]
    from sklearn.utils.multiclass import check_classification_targets  # type: ignore[import]
    _HAS_SKLEARN = True
except ImportError:
    _HAS_SKLEARN = False

    class BaseEstimator:  # type: ignore[no-redef]
        """Parameters by name, as scikit-learn's estimators have them."""

        def get_params(self, deep: bool = True) -> dict[str, Any]:
            """The parameters it was made with."""
            return {name: getattr(self, name) for name in inspect.signature(type(self)).parameters}

        def set_params(self, **params: Any) -> Any:
            """Other values of parameters."""
            for name, value in params.items():
                if name not in self.get_params():
                    raise ValueError(f"there is no parameter {name!r}")
                setattr(self, name, value)
            return self

    class ClassifierMixin:  # type: ignore[no-redef]
        """Nothing without scikit-learn."""

    class RegressorMixin:  # type: ignore[no-redef]
        """Nothing without scikit-learn."""

    class NotFittedError(ValueError, AttributeError):  # type: ignore[no-redef]
        """Asked to predict before it was trained."""

Array = np.ndarray[Any, Any]


def _checked_pair(estimator: Any, x: Any, y: Any, **more: Any) -> Any:
    """Samples and labels to train on, checked."""
    if y is None:
        raise ValueError(f"{type(estimator).__name__} requires y to be passed, but the target y is None")
    return _checked(estimator, x, y, **more)


def _checked(estimator: Any, x: Any, y: Any = None, **more: Any) -> Any:
    """Samples, and labels where they are given, as scikit-learn checks them."""
    if not _HAS_SKLEARN:
        x = _arrays.to_array(x)
        return x if y is None else (x, _arrays.to_array(y))
    how = {"dtype": "numeric", "allow_nd": True, **more}
    given = (x,) if y is None else (x, y)
    if y is None:
        how["reset"] = False
    try:
        from sklearn.utils.validation import validate_data  # type: ignore[import]
    except ImportError:  # before 1.6
        return estimator._validate_data(*given, **how)
    return validate_data(estimator, *given, **how)


class _Quern(BaseEstimator):  # type: ignore[misc]
    """What classifier and regressor have in common."""

    def __init__(self, model: str = "mlp", *, epochs: int = 40, batch_size: int = 32, learning_rate: float = 0.003,
                 optimizer: str = "adam", validation: Optional[float] = None, early_stop: Optional[int] = None,
                 random_state: Any = None, n_jobs: Optional[int] = None, verbose: bool = False,
                 settings: Optional[Mapping[str, Any]] = None) -> None:
        self.model = model
        """A model of the zoo, or an ONNX file."""
        self.epochs = epochs
        """Passes over the samples."""
        self.batch_size = batch_size
        """Samples of a batch; of fewer samples all of them."""
        self.learning_rate = learning_rate
        """The optimizer's rate."""
        self.optimizer = optimizer
        """ "sgd" or "adam"."""
        self.validation = validation
        """The part of the samples that is held out to stop by, with early_stop."""
        self.early_stop = early_stop
        """Epochs without improvement until the run ends."""
        self.random_state = random_state
        """A seed, or scikit-learn's kinds of them; None: always the same."""
        self.n_jobs = n_jobs
        """Threads; None: the processors there are. Results do not depend on it."""
        self.verbose = verbose
        """Whether progress is shown."""
        self.settings = settings
        """Further settings of quern.Model.fit, by name."""

    def _more_tags(self) -> dict[str, Any]:  # before scikit-learn 1.6
        return {"allow_nan": False, "multioutput": isinstance(self, RegressorMixin)}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = isinstance(self, RegressorMixin)
        return tags

    def _seed(self) -> int:
        state = self.random_state
        if state is None or isinstance(state, (int, np.integer)):
            return 1 if state is None else int(state)
        return int((check_random_state(state) if _HAS_SKLEARN else state).randint(2**31 - 1))

    def _prepare(self, x: Array) -> Array:
        """Rows scaled by the training samples, as float32; images as they are."""
        if x.ndim != 2:
            return x
        scaled = (x.astype(np.float64) - self._mean) / self._deviation
        return np.ascontiguousarray(scaled, np.float32)

    def _train(self, x: Array, y: Array, **how: Any) -> None:
        if x.ndim == 2:
            wide = x.astype(np.float64)
            self._mean, self._deviation = _statistics(wide)
            self.n_features_in_ = x.shape[1]
        network = Model(self.model, **how) if x.ndim == 2 or self.model.endswith(".onnx") else Model(
            self.model, input=x.shape[1:] if x.ndim == 4 else (*x.shape[1:], 1), **how)
        more: dict[str, Any] = {"meter": False, **(self.settings or {})}
        self.history_ = network.fit(
            self._prepare(x), y, epochs=self.epochs, batch=min(self.batch_size, len(x)), lr=self.learning_rate,
            optimizer=self.optimizer, validation=self.validation, early_stop=self.early_stop, seed=self._seed(),
            threads=self.n_jobs if self.n_jobs is not None and self.n_jobs > 0 else None, verbose=self.verbose,
            **more)
        self.model_ = network

    def _network_predicts(self, x: Any) -> Array:
        if not hasattr(self, "model_"):
            raise NotFittedError(f"this {type(self).__name__} was not trained yet: call fit before predict")
        return np.asarray(self.model_.predict(self._prepare(_checked(self, x))), np.float64)


def _statistics(wide: Array) -> tuple[Array, Array]:
    """Mean and deviation of columns, 1 where a column does not change."""
    deviation = wide.std(axis=0)
    mean = wide.mean(axis=0)
    return mean, np.where(deviation > 1e-12 * np.maximum(1, np.abs(mean)), deviation, 1.0)


class QuernClassifier(ClassifierMixin, _Quern):  # type: ignore[misc]
    """A classifier as scikit-learn has them: labels of any kind, pipelines, searches, pickle.

        from sklearn.model_selection import cross_val_score
        cross_val_score(quern.QuernClassifier("mlp", epochs=20), X, y)

    X: columns of numbers, or images (N, H, W, C) for a model of those. After fit: classes_, n_features_in_, model_ (the
    quern.Model), history_ (the quern.History)."""

    def fit(self, X: Any, y: Any) -> "QuernClassifier":
        """Trains anew on samples and their labels."""
        X, y = _checked_pair(self, X, y)
        if _HAS_SKLEARN:
            check_classification_targets(y)
        self.classes_, numbers = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise c.ArgumentError(f"the labels have one class alone, {self.classes_[0]!r}: there is nothing to tell apart")
        self._train(X, numbers.reshape(-1).astype(np.int32), classes=len(self.classes_))
        return self

    def predict_proba(self, X: Any) -> Array:
        """Probabilities (N, classes), in the order of classes_."""
        found = self._network_predicts(X)
        return np.asarray(found / found.sum(axis=1, keepdims=True))

    def predict(self, X: Any) -> Array:
        """The likeliest class of each sample."""
        found = self.predict_proba(X)
        return np.asarray(self.classes_[found.argmax(axis=1)])


class QuernRegressor(RegressorMixin, _Quern):  # type: ignore[misc]
    """A regression as scikit-learn has them, of one or several targets, which are scaled inside and come back in their
    units. After fit: n_features_in_, model_ (the quern.Model, of scaled numbers), history_ (the quern.History)."""

    def fit(self, X: Any, y: Any) -> "QuernRegressor":
        """Trains anew on samples and their targets, (N) or (N, T)."""
        X, y = _checked_pair(self, X, y, **({"multi_output": True, "y_numeric": True} if _HAS_SKLEARN else {}))
        y = np.asarray(y, np.float64)
        self._is_flat = y.ndim == 1
        targets = y.reshape(len(y), -1)
        self._target_mean, self._target_deviation = _statistics(targets)
        self._train(X, (targets - self._target_mean) / self._target_deviation, targets="numbers")
        return self

    def predict(self, X: Any) -> Array:
        """The targets of each sample."""
        found = self._network_predicts(X) * self._target_deviation + self._target_mean
        return found.reshape(-1) if self._is_flat else found
