"""The network of an ONNX file run forward on arrays as the file declares its inputs: any number of inputs and outputs of
any rank, in the file's layout. Weights are the file's, or those of an engine by their names."""
from __future__ import annotations

import ctypes
from ctypes import c_int32, c_void_p
from typing import Any, Mapping, Optional, Sequence

import numpy as np

from . import _arrays, _library as c
from ._task import Pairs

Array = np.ndarray[Any, Any]

_PART = 64  # samples that are computed together


def _as_input(x: Any, place: c.OnnxPlace) -> Array:
    """An array in the library's layout and type; ArgumentError of one that is not the input's."""
    name, dims = place.name.decode(), tuple(place.dims[:place.n_dims])
    array = _arrays.to_array(x)
    if array.dtype.kind not in "buif" or (place.dtype == c.I32 and array.dtype.kind == "f"):
        raise c.ArgumentError(f"input {name} takes {'whole ' if place.dtype == c.I32 else ''}numbers, not {array.dtype}")
    if array.ndim != len(dims) or any(want not in (-1, have) for want, have in zip(dims[1:], array.shape[1:])):
        raise c.ArgumentError(f"input {name} is {array.shape}; its file declares "
                              f"({', '.join('any' if one < 0 else str(one) for one in dims)})")
    if place.dtype == c.I32:
        if array.size and (array.min() < -2**31 or array.max() >= 2**31):
            raise c.ArgumentError(f"input {name} has numbers beyond 32 bits")
        return np.ascontiguousarray(array, np.int32)
    return np.ascontiguousarray(np.moveaxis(array, 1, -1) if place.is_image else array, np.float32)


class Forward:
    """A network of a file, opened to be run. keep_softmax: as the file has it, otherwise without one at the end."""

    def __init__(self, path: str, keep_softmax: bool = True, pairs: Optional[Mapping[str, str]] = None) -> None:
        self._network, self._engine = c_void_p(), c_void_p()
        options = c.OnnxOptions(log=ctypes.pointer(c.log), keep_softmax=keep_softmax)
        texts = Pairs(dict(pairs or {}))  # settings, some of which say how the file is read
        c.lib.qn_onnx_options_read(texts.pointer, ctypes.byref(options))
        c.lib.qn_onnx_open(ctypes.byref(options), c.encode(path), ctypes.byref(self._network))
        self.inputs: list[c.OnnxPlace] = [
            c.lib.qn_onnx_input(self._network, i).contents for i in range(c.lib.qn_onnx_input_count(self._network))]
        self._n_outputs: int = c.lib.qn_onnx_output_count(self._network)
        self._shapes: Optional[list[tuple[int, ...]]] = None

    def names(self) -> list[str]:
        """Names of the inputs, in the file's order."""
        return [place.name.decode() for place in self.inputs]

    def outputs(self) -> list[str]:
        """Names of the outputs."""
        return [self._place(i).name.decode() for i in range(self._n_outputs)]

    def _place(self, i: int) -> c.OnnxPlace:
        place: c.OnnxPlace = c.lib.qn_onnx_output(self._network, i).contents
        return place

    def _build(self, graph: int, arrays: Sequence[Array]) -> int:
        values = (c_int32 * (len(arrays) + 1))()
        for i, (array, place) in enumerate(zip(arrays, self.inputs)):
            declare = c.lib.qn_index_input if place.dtype == c.I32 else c.lib.qn_input
            values[i] = declare(graph, b"input.%d" % i, c.Shape.of(array.shape))
        outputs = (c_int32 * (self._n_outputs + 1))()
        c.lib.qn_onnx_build(self._network, graph, values, outputs)
        for i in range(self._n_outputs):
            c.lib.qn_result(graph, outputs[i])
        return -1

    def _plan(self, arrays: Sequence[Array], n_threads: int) -> None:
        """Makes the engine for inputs of these shapes."""
        def build(graph: int, _user: Any, _phase: int, _kept: Any) -> int:
            try:
                return self._build(graph, arrays)
            except c.Error:
                return -1  # the graph keeps the failure too

        self._close_engine()
        program = c.ProgramOptions(name=b"forward", build=c.BUILD(build))
        options = c.EngineOptions(n_threads=n_threads, log=ctypes.cast(ctypes.pointer(c.log), c_void_p))
        c.lib.qn_engine_create(ctypes.byref(options), ctypes.byref(program), 1, ctypes.byref(self._engine))
        self._shapes = [array.shape for array in arrays]

    def take_weights(self, tensors: Mapping[bytes, c.StoredTensor]) -> None:
        """Weights by name, for the runs on inputs of the last shapes."""
        for i in range(c.lib.qn_engine_tensor_count(self._engine)):
            mine = c.lib.qn_engine_tensor_at(self._engine, i)
            theirs = tensors.get(mine.name)
            if theirs is None or theirs.bytes != mine.bytes:
                continue
            ctypes.memmove(mine.data, theirs.data, mine.bytes)

    def run(self, given: Sequence[Any], weights: Optional[Mapping[bytes, c.StoredTensor]] = None,
            n_threads: int = 0) -> list[Array]:
        """Outputs for inputs, all in the file's layout and order."""
        if len(given) != len(self.inputs):
            raise c.ArgumentError(f"{len(given)} inputs were given; the network takes {', '.join(self.names())}")
        arrays = [_as_input(x, place) for x, place in zip(given, self.inputs)]
        if self._shapes != [array.shape for array in arrays]:
            self._plan(arrays, n_threads)
        if weights is not None:
            self.take_weights(weights)
        pointers = (c_void_p * (len(arrays) + 1))(*[array.ctypes.data for array in arrays])
        c.lib.qn_engine_run(self._engine, 0, pointers)
        return [self._result(i) for i in range(self._n_outputs)]

    def run_in_parts(self, given: Sequence[Array], weights: Optional[Mapping[bytes, c.StoredTensor]] = None) -> list[Array]:
        """As run, of many samples in parts of _PART, so that memory does not grow with them."""
        lengths = {len(x) for x in given if x.ndim}
        n = lengths.pop() if len(lengths) == 1 else 0
        part = 1 if any(place.batch_axis < 0 for place in self.inputs) else _PART
        if n <= part:
            return self.run(given, weights)
        parts = [self.run([x[i:i + part] for x in given], weights) for i in range(0, n, part)]
        if any(array.ndim == 0 or len(array) % part for array in parts[0]):
            return self.run(given, weights)  # an output over all samples, as a loss
        return [np.concatenate(each) for each in zip(*parts)]

    def _result(self, i: int) -> Array:
        place = self._place(i)
        shape = tuple(c.lib.qn_engine_result_shape(self._engine, 0, i))
        kind: Any = ctypes.c_int32 if place.dtype == c.I32 else ctypes.c_float
        count = int(np.prod(shape, dtype=np.int64))
        data = (kind * count).from_address(c.lib.qn_engine_result(self._engine, 0, i)) if count else ()
        array = np.array(data, np.int32 if place.dtype == c.I32 else np.float32).reshape(shape)
        return np.ascontiguousarray(np.moveaxis(array, -1, 1)) if place.is_image else array

    def _close_engine(self) -> None:
        if self._engine:
            c.lib.qn_engine_destroy(self._engine)
            self._engine = c_void_p()

    def close(self) -> None:
        """Gives the memory back."""
        self._close_engine()
        if self._network:
            c.lib.qn_onnx_close(self._network)
            self._network = c_void_p()

    def __enter__(self) -> "Forward":
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_network", None):
            self.close()
