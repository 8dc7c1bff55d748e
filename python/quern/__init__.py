"""quern: trains neural networks where the data is, inside a memory, energy and time budget.

    import quern
    m = quern.Model("lenet5", classes=10)
    h = m.fit((x, y), validation=(xv, yv), epochs=3, memory="64M")
    m.evaluate((xt, yt)); m.predict(x); m.save("m.safetensors"); m.export("m.onnx")

Model is the network with its weights, from the zoo (models() names it), an ONNX file, a checkpoint or a
PyTorch module; fit returns a History, plan a Plan, and Meter measures joules and milliseconds of any code.
Learner learns from a drip of samples while nobody uses the device. QuernClassifier and QuernRegressor are models as
scikit-learn has them.
Failures of the library are Error and what is derived from it. The guide is docs/python.md.
"""
from __future__ import annotations

import typing

from ._data import DataLike, Samples
from ._history import History, Plan
from ._learner import Learner
from ._library import (ArgumentError, DeviceError, Error, FileError, FormatError, NumericError, OutOfMemoryError,
                       UnsupportedError, Warning, lib as _lib)
from ._meter import Meter, Report
from ._model import Model

if typing.TYPE_CHECKING:
    from ._estimators import QuernClassifier, QuernRegressor

__all__ = ["ArgumentError", "DataLike", "DeviceError", "Error", "FileError", "FormatError", "History", "Learner", "Meter", "Model",
           "NumericError", "OutOfMemoryError", "Plan", "QuernClassifier", "QuernRegressor",
           "Report", "Samples", "UnsupportedError", "Warning", "models"]

_LATER = ("QuernClassifier", "QuernRegressor")  # opened when they are asked for: they open scikit-learn


def __getattr__(name: str) -> typing.Any:
    if name not in _LATER:
        raise AttributeError(f"module 'quern' has no attribute {name!r}")
    from . import _estimators
    for each in _LATER:
        globals()[each] = getattr(_estimators, each)
        globals()[each].__module__ = __name__
    return globals()[name]


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


for _name in __all__:
    if isinstance(globals().get(_name), type):
        globals()[_name].__module__ = __name__  # as users know them

__version__: str = _lib.qn_version().decode()


def models() -> list[str]:
    """Names of the models of the zoo, in its order."""
    names: list[str] = []
    i = 0
    while True:
        found = _lib.qn_model_at(i)
        if not found:
            return names
        names.append(found.contents.name.decode())
        i += 1
