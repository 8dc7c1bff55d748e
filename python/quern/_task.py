"""Handles of the library's objects: a network, a task with its engine, and its tensors as arrays. Each
closes what it holds when nobody needs it any more, in the right order."""
from __future__ import annotations

import ctypes
import signal
import threading
from collections.abc import Iterator
from ctypes import c_void_p
from typing import Any, Mapping, Optional

import numpy as np

from . import _library as c
from ._data import Source

_DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 4: "|u1", 5: "<u2", 6: "|i1", 7: "<i2", 8: "<f2"}


FILE_OPTIONS = ("shape", "set", "follow-links")
"""Settings that say how an ONNX file is read, beside lists of what trains."""


class Network:
    """A model of the zoo by name, or of an ONNX file."""

    def __init__(self, name: str, task: Optional[str] = None, pairs: Optional[Mapping[str, str]] = None) -> None:
        """pairs: settings, some of which say how an ONNX file is read."""
        self._onnx = c_void_p()
        self.hash: Optional[str] = None
        if name.endswith(".onnx"):
            self._open(name, task, Pairs(dict(pairs or {})))
        else:
            self.pointer = c.lib.qn_model_find(name.encode())
            if not self.pointer:
                raise c.ArgumentError(c.message_of_thread())
            refused = [key for key in FILE_OPTIONS if key in (pairs or {})]
            if refused:
                raise c.ArgumentError(f"{refused[0].replace('-', '_')} is of ONNX files, and {name} is a built-in model")
        self.c = self.pointer.contents
        self.name: str = self.c.name.decode()
        self.task: str = c.lib.qn_task_of(self.pointer).decode()

    def _open(self, path: str, task: Optional[str], pairs: "Pairs") -> None:
        options = c.OnnxOptions(log=ctypes.pointer(c.log))
        c.lib.qn_onnx_options_read(pairs.pointer, ctypes.byref(options))
        digits = (ctypes.c_char * 17)()
        c.lib.qn_onnx_open(ctypes.byref(options), c.encode(path), ctypes.byref(self._onnx))
        c.lib.qn_onnx_hash(self._onnx, digits)
        self.hash = digits.value.decode()
        self.pointer = ctypes.POINTER(c.ModelHead)()
        c.lib.qn_onnx_model_for(self._onnx, task.encode() if task else None, ctypes.byref(self.pointer))

    @property
    def onnx(self) -> Optional[c_void_p]:
        """The network of an ONNX file."""
        return self._onnx if self._onnx else None

    def said(self, pairs: Mapping[str, str]) -> dict[str, str]:
        """Pairs with what the file of a network says of itself, where it was exported with weights."""
        if not self._onnx or self.task != "classification":
            return dict(pairs)
        all_pairs = Pairs(dict(pairs))
        c.lib.qn_task_read_network(self._onnx, False, all_pairs.pointer)
        return all_pairs.items()

    def places(self) -> "list[c.OnnxPlace]":
        """Inputs as the ONNX file declares them; of a network of the zoo none."""
        if not self._onnx:
            return []
        return [c.lib.qn_onnx_input(self._onnx, i).contents for i in range(c.lib.qn_onnx_input_count(self._onnx))]

    def input(self) -> tuple[int, ...]:
        """Shape of a sample: (H, W, C) or (C)."""
        return tuple(self.c.input)

    def classes(self, shape: tuple[int, ...]) -> int:
        """Outputs where nothing says otherwise."""
        return int(c.lib.qn_model_classes(self.pointer, c.Shape.of(shape)))

    def __del__(self) -> None:
        if self._onnx:
            c.lib.qn_onnx_close(self._onnx)
            self._onnx = c_void_p()


class Pairs:
    """Text pairs of the library's, as checkpoints keep them."""

    def __init__(self, pairs: dict[str, str] | None = None) -> None:
        self.pointer = c_void_p()
        if pairs is not None:
            c.lib.qn_metadata_create(None, ctypes.byref(self.pointer))
            for key, value in pairs.items():
                self.set(key, value)

    @classmethod
    def of_checkpoint(cls, path: Any) -> "Pairs":
        """Those of a file."""
        pairs = cls()
        c.lib.qn_checkpoint_read(None, c.encode(path), ctypes.byref(pairs.pointer))
        return pairs

    def set(self, key: str, value: str) -> None:
        """Adds a pair, or gives one another value."""
        c.lib.qn_metadata_set(self.pointer, key.encode(), value.encode())

    def items(self) -> dict[str, str]:
        """All of them."""
        key, value = ctypes.c_char_p(), ctypes.c_char_p()
        found = {}
        for i in range(c.lib.qn_metadata_count(self.pointer)):
            c.lib.qn_metadata_at(self.pointer, i, ctypes.byref(key), ctypes.byref(value))
            found[(key.value or b"").decode()] = (value.value or b"").decode()
        return found

    def __del__(self) -> None:
        if self.pointer:
            c.lib.qn_metadata_destroy(self.pointer)
            self.pointer = c_void_p()


class Numerics:
    """A description of types and scales, by its name or as JSON; None: floats."""

    def __init__(self, text: Optional[str]) -> None:
        self.pointer = c_void_p()
        self.has_int8 = False
        if text not in (None, "f32"):
            c.lib.qn_numerics_create(None, str(text).encode(), ctypes.byref(self.pointer))
            self.has_int8 = c.lib.qn_numerics_has(self.pointer, c.I8)

    def __enter__(self) -> "Numerics":
        return self

    def __exit__(self, *_raised: object) -> None:
        if self.pointer:
            c.lib.qn_numerics_destroy(self.pointer)
            self.pointer = c_void_p()


class _Memory:
    """What an array over a tensor belongs to: it keeps the task."""

    def __init__(self, task: "Task", tensor: c.StoredTensor) -> None:
        self.task = task
        self.__array_interface__ = {"version": 3, "typestr": _DTYPES[tensor.dtype],
                                    "shape": tuple(tensor.shape), "data": (tensor.data, False)}


def _keep_first(grown: "np.ndarray[Any, Any]", old: "np.ndarray[Any, Any]", name: bytes) -> None:
    """A part of a head that grows begins with the old one, which is shorter along one axis."""
    if grown.ndim != old.ndim or sum(n != m for n, m in zip(grown.shape, old.shape)) > 1 or any(
            n < m for n, m in zip(grown.shape, old.shape)):
        raise c.ArgumentError(f"{name.decode()} cannot grow from {old.shape} to {grown.shape}; head=N begins the last layer anew")
    grown[tuple(slice(n) for n in old.shape)] = old


class Task:
    """A task of the library with its engine, settings and data."""

    def __init__(self, network: Network, pairs: dict[str, str], source: Optional[Source],
                 engine: dict[str, Any], training: bool, start: Optional[Pairs] = None) -> None:
        """start: of weights that it will be given, by whose names classes and columns go."""
        self.network, self.source, self.training = network, source, training
        self.settings = Pairs(pairs)
        self.pointer = c_void_p()
        options = c.TaskOptions(model=network.pointer, settings=self.settings.pointer, training=training,
                                log=ctypes.pointer(c.log),
                                source=ctypes.pointer(source.c) if source else None,
                                start=start.pointer if start else None)
        options.engine = c.EngineOptions(**engine)
        c.lib.qn_task_open(ctypes.byref(options), ctypes.byref(self.pointer))

    @property
    def engine(self) -> c_void_p:
        """Its engine."""
        return c_void_p(c.lib.qn_task_engine(self.pointer))

    def facts(self) -> c.TaskFacts:
        """What there is to say of it."""
        facts: c.TaskFacts = c.lib.qn_task_get_facts(self.pointer)
        return facts

    def tensors(self) -> Iterator[c.StoredTensor]:
        """Parameters, without state."""
        for i in range(c.lib.qn_engine_tensor_count(self.engine)):
            tensor = c.lib.qn_engine_tensor_at(self.engine, i)
            if not tensor.is_state and not tensor.name.startswith(b"task."):
                yield tensor

    def arrays(self) -> "dict[str, np.ndarray[Any, Any]]":
        """Parameters as arrays over their memory."""
        return {t.name.decode(): np.asarray(_Memory(self, t)) for t in self.tensors()}

    def take_weights(self, other: "Task", has_new_head: bool) -> None:
        """Fills its parameters with those of another. Adapters and a head that are new begin anew, but for the outputs of
        classes that the other knows."""
        theirs = {t.name: t for t in other.tensors()}
        n_kept = c.lib.qn_task_kept_outputs(self.pointer)
        fitting = []
        for tensor in self.tensors():
            found = theirs.get(tensor.name)
            if tensor.is_head and has_new_head and n_kept > 0 and found is not None:
                _keep_first(np.asarray(_Memory(self, tensor)), np.asarray(_Memory(other, found)), tensor.name)
            if tensor.is_head and has_new_head or found is None and b".lora_" in tensor.name:
                continue
            if found is None or found.bytes != tensor.bytes:
                had = "x".join(map(str, found.shape)) if found is not None else "none"
                raise c.ArgumentError(
                    f"{tensor.name.decode()} is to be {'x'.join(map(str, tensor.shape))}, but the weights so far "
                    f"have {had}: the data has another input or other classes; begin a new Model, or a new "
                    'head with head="data"')
            fitting.append((tensor, found))
        for tensor, found in fitting:
            ctypes.memmove(tensor.data, found.data, tensor.bytes)

    def __del__(self) -> None:
        if self.pointer:
            c.lib.qn_task_close(self.pointer)
            self.pointer = c_void_p()


class Interrupt:
    """While work of the library runs, Ctrl-C asks it to stop in good order; KeyboardInterrupt is raised
    when it has. A second Ctrl-C is Python's again."""

    def __init__(self) -> None:
        self.is_asked = False
        self._is_pressed = False
        self.callback = c.SHOULD_STOP(self._should_stop)
        self._before: Any = None

    def _should_stop(self, _user: Any) -> bool:
        return self.is_asked

    def _note(self, _signal: int, _frame: Any) -> None:
        self.is_asked = self._is_pressed = True
        signal.signal(signal.SIGINT, self._before)

    def __enter__(self) -> "Interrupt":
        is_usual = threading.current_thread() is threading.main_thread() and \
            signal.getsignal(signal.SIGINT) not in (signal.SIG_IGN, None)
        if is_usual:
            self._before = signal.signal(signal.SIGINT, self._note)
        return self

    def __exit__(self, *raised: object) -> None:
        if self._before is not None:
            signal.signal(signal.SIGINT, self._before)
            self._before = None
        if self._is_pressed and raised[0] is None:  # the work was done before it looked
            raise KeyboardInterrupt
