"""quern: trains neural networks where the data is, inside a memory, energy and time budget.

    import quern
    m = quern.Model("lenet5", classes=10)
    h = m.fit((x, y), validation=(xv, yv), epochs=3, memory="64M")
    m.evaluate((xt, yt)); m.predict(x); m.save("m.safetensors"); m.export("m.onnx")

Model is the network with its weights, from the zoo (models() names it), an ONNX file, a checkpoint or a
PyTorch module; fit returns a History, plan a Plan, and Meter measures joules and milliseconds of any code.
Learner learns from a drip of samples while nobody uses the device.
Failures of the library are Error and what is derived from it. The guide is docs/python.md.
"""
from __future__ import annotations

from ._data import DataLike, Samples
from ._history import History, Plan
from ._learner import Learner
from ._library import (ArgumentError, DeviceError, Error, FileError, FormatError, NumericError, OutOfMemoryError,
                       UnsupportedError, Warning, lib as _lib)
from ._meter import Meter, Report
from ._model import Model

__all__ = ["ArgumentError", "DataLike", "DeviceError", "Error", "FileError", "FormatError", "History", "Learner", "Meter", "Model",
           "NumericError", "OutOfMemoryError", "Plan", "Report", "Samples", "UnsupportedError", "Warning", "models"]

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
