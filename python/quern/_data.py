"""Data of every kind as the library's data sets: names and files by the library itself, arrays as they
lie in memory, anything with a length and an index by a function that the loader calls, and any other
iterable read into memory once."""
from __future__ import annotations

import ctypes
import dataclasses
import os
import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from typing import Any, Optional, Protocol, Tuple, Union

import numpy as np

from . import _arrays, _library as c
from ._arrays import Wanted

SPLITS = ("train", "test", "validation")


class Samples(Protocol):
    """Samples that are made when they are needed: anything with a length whose item i is the pair of
    sample i and its label, like a list of pairs or a torch Dataset. Item i is always the same."""

    def __len__(self) -> int:
        """Number of samples."""

    def __getitem__(self, index: int) -> Tuple[Any, Any]:
        """Sample and label."""


DataLike = Union[str, "os.PathLike[str]", Tuple[Any, Any], Samples, Iterable[Tuple[Any, Any]]]
"""What fit and evaluate take as data:

- a name, folder or file as the command's --data takes it: "fashion-mnist", "photos/", "npy:X.npy,Y.npy";
- a pair of arrays (x, y): x is (N, H, W, C), (N, H, W) or (N, C), of bytes or floats, and of a network of a
  file what that declares, as (N, C, H, W); y whole numbers for classes (N) or floats for numeric targets (N)
  or (N, T). uint8 and float32 are used where they lie;
- a table of pandas or polars for x, whose columns are numbers and are matched by name from then on; or a whole
  table, with the name of its target for y: fit(table, "price");
- anything with a length and an index, whose items are pairs of a sample and its label;
- any other iterable of such pairs, or of batches of them, which is read into memory once;
- of a network with several inputs or other outputs than (N, C): a dictionary of arrays by the names of its
  inputs and outputs, or a pair of inputs and targets.
"""


class Folder:
    """A folder of files that go with an object."""

    def __init__(self) -> None:
        self.path: str = tempfile.mkdtemp(prefix="quern-")
        self._remove = weakref.finalize(self, shutil.rmtree, self.path, ignore_errors=True)


def is_named(data: Any) -> bool:
    """Whether data is a name or a path."""
    return isinstance(data, (str, os.PathLike))


def specification(data: str | os.PathLike[str]) -> str:
    """The name of data as the library takes it: a bare path gets its kind."""
    text = os.path.expanduser(os.fspath(data))
    kind = None
    if ":" not in text and (os.path.isdir(text) or os.path.isfile(text)):
        kind = c.lib.qn_data_kind_of(os.fsencode(text))
    return f"{kind.decode()}:{text}" if kind else text


# ---- arrays by name ----

NO_ARRAYS = "npz:(memory)"  # data of a network on arrays by name that is only to predict


def inputs_in_order(x: Any, names: "list[str]") -> "list[Any]":
    """Inputs by name, in order or alone, as a list in the network's order."""
    if isinstance(x, Mapping):
        wrong = set(names) ^ set(x)
        if wrong:
            raise c.ArgumentError(f"the inputs are {', '.join(names)}; {', '.join(sorted(map(str, wrong)))} "
                                  f"{'is' if len(wrong) == 1 else 'are'} missing or none of them")
        return [x[name] for name in names]
    given = list(x) if isinstance(x, tuple) else [x]
    if len(given) != len(names):
        raise c.ArgumentError(f"{len(given)} inputs were given; the network takes {', '.join(names)}")
    return given


class NamedArrays:
    """Files (npz) of arrays by name, as a network of any inputs and outputs trains on, as long as this lives. data: all
    arrays by name, or a pair of inputs and targets, each by name, in order or alone."""

    def __init__(self, data: Any, test: Any, inputs: "list[str]", outputs: "list[str]") -> None:
        self._folder = Folder()
        self.name = "npz:" + self._write("train", data, inputs, outputs)
        if test is not None:
            self.name += "," + self._write("test", test, inputs, outputs)

    def _write(self, part: str, data: Any, inputs: "list[str]", outputs: "list[str]") -> str:
        if isinstance(data, tuple) and len(data) == 2:
            x, y = data
            given = dict(zip(inputs, inputs_in_order(x, inputs)))
            targets = y if isinstance(y, Mapping) else dict(zip(outputs, y if isinstance(y, tuple) else (y,)))
            data = {**given, **targets}
        if not isinstance(data, Mapping):
            raise c.ArgumentError(f"data of type {type(data).__name__}: a network of these inputs takes arrays by name, "
                                  f"{{{', '.join(inputs)}, {outputs[0]}: ...}}, or a pair of inputs and targets")
        arrays = {str(name): _arrays.to_array(array) for name, array in data.items()}
        for name, array in arrays.items():
            if array.dtype.kind not in "buif":
                raise c.ArgumentError(f"array {name} is of type {array.dtype}: numbers are needed")
            kind = np.int32 if array.dtype.kind == "b" else np.float32 if array.dtype.kind == "f" else array.dtype
            arrays[name] = np.ascontiguousarray(array, kind)
        path = os.path.join(self._folder.path, part + ".npz")
        np.savez(path, **arrays)
        return path


# ---- recordings ----


def _of_rows(name: str, values: Any, n: int) -> "np.ndarray[Any, Any]":
    """A group or time of each row, as numbers: texts by their order, dates in seconds."""
    array = np.asarray(values)
    if array.shape != (n,):
        raise c.ArgumentError(f"{name} is {array.shape}: it has a value for each of the {n} rows")
    if array.dtype.kind in "mM":
        return array.astype("datetime64[ns]" if array.dtype.kind == "M" else "timedelta64[ns]").astype(np.int64) / 1e9
    if name == "group" and array.dtype.kind not in "bui":
        codes: "np.ndarray[Any, Any]" = np.unique(array.astype(str), return_inverse=True)[1]
        return codes.astype(np.int64)
    if array.dtype.kind not in "buif":
        raise c.ArgumentError(f"{name} is of type {array.dtype}: numbers or dates are needed")
    return array


class Recording:
    """Files (npy) of arrays whose rows are steps of time, or belong to groups, as the library cuts and divides them, as long
    as this lives. pairs: the settings that name them."""

    def __init__(self, data: Any, group: Any, time: Any, wanted: Wanted) -> None:
        if not _is_pair_of_arrays(data) or _arrays.is_frame(data[0]):
            raise c.ArgumentError("window, stride, group and time are of arrays (x, y), or of data by name: save a table as CSV "
                                  "and give its name")
        self._folder = Folder()
        x = _arrays.to_array(data[0])
        if x.dtype.kind not in "buif":
            raise c.ArgumentError(f"the rows are of type {x.dtype}: numbers are needed")
        labels = _arrays.as_labels(_arrays.to_array(data[1]), len(x), wanted)
        y = labels.array if labels.names is None else np.array(labels.names)[labels.array]  # texts name classes in files, too
        self.pairs: dict[str, str] = {"data": f"npy:{self._write('x', x)},{self._write('y', y)}"}
        for name, values in (("group", group), ("time", time)):
            if values is not None:
                self.pairs[name] = self._write(name, _of_rows(name, values, len(x)))

    def _write(self, name: str, array: "np.ndarray[Any, Any]") -> str:
        path = os.path.join(self._folder.path, name + ".npy")
        np.save(path, np.ascontiguousarray(array), allow_pickle=False)
        return path


# ---- iterables ----


def _is_pair_of_arrays(data: Any) -> bool:
    return isinstance(data, tuple) and len(data) == 2


def _is_indexed(data: Any) -> bool:
    return not _arrays.is_frame(data) and hasattr(data, "__len__") and hasattr(data, "__getitem__")


def _one(item: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    try:
        x, y = item
    except (TypeError, ValueError):
        raise c.ArgumentError(f"an item of the data is {type(item).__name__}, not a pair of sample and "
                              "label") from None
    return _arrays.to_array(x), _arrays.to_array(y)


def _is_batch(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any], wanted: Wanted) -> bool:
    """Whether an item is a batch: its labels have an axis as long as its samples' first, and it has no sample's axes."""
    rank = len(wanted.sample if wanted.file is None else wanted.file)
    is_sample = x.ndim == rank and (y.ndim != 1 or wanted.classes == len(y))
    return y.ndim > 0 and x.ndim > 0 and len(x) == len(y) and not is_sample


def _gather(items: Iterable[Any], wanted: Wanted) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Items of an iterable, samples or batches of them, as two arrays."""
    xs: list[np.ndarray[Any, Any]] = []
    ys: list[np.ndarray[Any, Any]] = []
    for item in items:
        x, y = _one(item)
        is_batch = _is_batch(x, y, wanted)
        xs.append(x if is_batch else x[None])
        ys.append(y if is_batch else y[None])
    if not xs:
        raise c.ArgumentError("the data holds no samples; an iterator that was read before is at its end")
    return np.concatenate(xs), np.concatenate(ys)


# ---- sources ----


class Part:
    """The samples of a split: arrays, or items that are asked for one by one."""

    def __init__(self, data: Any, wanted: Wanted) -> None:
        self.items: Optional[Samples] = None
        if _is_pair_of_arrays(data):
            x, y = data
        elif _is_indexed(data) and len(data) and _one(data[0])[1].dtype.kind in "US":
            x, y = _gather((data[i] for i in range(len(data))), wanted)  # names have to be known first
        elif _is_indexed(data):
            self.items = data
            x, y = (part[None] for part in _one(data[0])) if len(data) else (None, None)
        elif isinstance(data, Iterable):
            x, y = _gather(data, wanted)
        else:
            raise c.ArgumentError(f"data of type {type(data).__name__}: it is a name, a pair of arrays, or an "
                                  "iterable of pairs")
        if x is None:
            raise c.ArgumentError("the data holds no samples")
        self.columns: Optional[list[str]] = None
        x = _arrays.as_frame(x)
        if _arrays.is_frame(x):
            x, self.columns = _arrays.take_frame(x, wanted)
        self.given = np.shape(x)[1:]  # of a sample, as the caller has it
        self.x, self.shape, self.is_planes = _arrays.place(_arrays.as_samples(x), wanted)
        _arrays.check_scale(self.x, wanted.seen)
        self.n = len(self.items) if self.items is not None else len(self.x)
        self.labels: Optional[_arrays.Labels] = None
        if self.items is not None:
            y = self._labels_to_decide(y, wanted)
        if y is not None:
            self.labels = _arrays.as_labels(y, len(y) if self.items is not None else len(self.x), wanted)

    @property
    def y(self) -> Optional[np.ndarray[Any, Any]]:
        """Labels as the library takes them."""
        return None if self.labels is None else self.labels.array

    @property
    def n_classes(self) -> int:
        """Where the labels say it, else 0."""
        return 0 if self.labels is None else self.labels.n_classes

    def _labels_to_decide(self, first: Any, wanted: Wanted) -> Any:
        """Labels of the first items, as many as it takes to see whether floats are classes: up to one that is not
        whole."""
        if first.dtype.kind != "f" or wanted.are_numbers is not None or wanted.classes or first.size != 1:
            return first
        assert self.items is not None
        seen = [first[0]]
        for i in range(1, self.n):
            if seen[-1] != np.floor(seen[-1]):
                break
            seen.append(_arrays.to_array(self.items[i][1]))
        return np.stack(seen)

    def targets(self) -> int:
        """Numeric targets of a sample; 0: classes."""
        return self.y.shape[1] if self.y is not None and self.y.dtype == np.float32 else 0

    def classes(self) -> int:
        """One more than the largest class, or as many as the labels have columns. Items are asked for all of theirs."""
        if self.n_classes or self.y is None or not self.y.size:
            return self.n_classes or 1
        if self.items is not None:
            return 1 + max(int(self.items[i][1]) for i in range(self.n))
        return 1 + int(self.y.max())


class Source:
    """A data set of the library, open until it is closed or nobody holds it. kept: what its memory
    belongs to. An exception of the caller's own code, raised in a read, is kept for raise_own."""

    def __init__(self) -> None:
        self.c = c.DataSource()
        self.kept: list[Any] = []
        self.failure: Optional[BaseException] = None
        self.seen: Optional[_arrays.Seen] = None  # type and range of arrays
        self.columns: Optional[list[str]] = None  # of a table
        self._is_open = False

    def close(self) -> None:
        """Closes it; nothing may use it any more."""
        if self._is_open:
            self._is_open = False
            c.lib.qn_data_close(ctypes.byref(self.c))

    def __del__(self) -> None:
        self.close()

    def raise_own(self) -> None:
        """Raises what the caller's own samples raised, if they did."""
        if self.failure is not None:
            failure, self.failure = self.failure, None
            raise failure

    def n(self, split: int) -> int:
        """Samples of a split."""
        return int(self.c.n_samples[split])

    def opened(self) -> "Source":
        """Says that the library has opened it."""
        self._is_open = True
        return self


def open_named(name: str, options: c.DataOptions) -> Source:
    """Data by its name."""
    source = Source()
    c.lib.qn_data_open(os.fsencode(name), ctypes.byref(options), ctypes.byref(source.c))
    return source.opened()


def open_of_task(task: ctypes.c_void_p, name: str) -> Source:
    """Data by its name, as the task's own are opened: columns by name, recordings in windows."""
    source = Source()
    c.lib.qn_task_open_data(task, os.fsencode(name), ctypes.byref(source.c))
    return source.opened()


def _make_read(source: Source, parts: dict[int, Part], wanted: Wanted) -> Any:
    """A read of the library's that asks Python's items. It runs on the loader's thread."""
    first = next(iter(parts.values()))
    x_bytes, dtype = first.x[0].nbytes, first.x.dtype
    as_first = dataclasses.replace(wanted, are_numbers=first.targets() > 0, classes=first.n_classes or wanted.classes)

    def read(_user: Any, split: int, index: int, x: Any, y: Any) -> int:
        try:
            part = parts[split]
            if part.items is not None:
                got_x, got_y = _one(part.items[index])
                if got_x.shape != first.given:
                    raise c.ArgumentError(f"sample {index} is {got_x.shape}; the first was {first.given}")
                sample, _, is_planes = _arrays.place(_arrays.as_samples(got_x[None]), wanted)
                label = _arrays.as_labels(got_y[None], 1, as_first).array
            else:
                sample, is_planes = part.x[index:index + 1], part.is_planes
                label = part.y[index:index + 1] if part.y is not None else np.zeros(1, np.int32)
            if is_planes:
                sample = np.ascontiguousarray(sample.transpose(0, 2, 3, 1))
            if sample.nbytes != x_bytes or sample.dtype != dtype:
                raise c.ArgumentError(f"sample {index} is {sample.shape[1:]} of {sample.dtype}; the first was "
                                      f"{first.shape} of {dtype}")
            ctypes.memmove(x, sample.ctypes.data, sample.nbytes)
            ctypes.memmove(y, label.ctypes.data, label.nbytes)
        except BaseException as failure:  # noqa: B902 - it goes on where the library was called
            source.failure = failure
            return 1
        return 0

    return c.READ(read)


def _check_alike(parts: dict[int, Part]) -> None:
    first = next(iter(parts.values()))
    for split, part in parts.items():
        if part.columns != first.columns:
            raise c.ArgumentError(f"{SPLITS[split]} samples have other columns than the others: {part.columns} and "
                                  f"{first.columns}")
        if part.shape != first.shape or part.x.dtype != first.x.dtype or part.targets() != first.targets():
            raise c.ArgumentError(f"{SPLITS[split]} samples are {part.shape} of {part.x.dtype}, the others "
                                  f"{first.shape} of {first.x.dtype}; they must be alike")


def open_samples(data: dict[int, Any], wanted: Wanted, options: c.DataOptions) -> Source:
    """Arrays, items or iterables by split, as a model wants them."""
    parts = {split: Part(one, wanted) for split, one in data.items()}
    source = Source()
    _arrays.join_names([part.labels for part in parts.values() if part.labels is not None])
    _check_alike(parts)
    first = next(iter(parts.values()))
    by_items = any(part.items is not None for part in parts.values())
    targets = first.targets()
    given = c.Samples(sample=c.Shape.of(first.shape), dtype=c.U8 if first.x.dtype == np.uint8 else c.F32,
                      n_targets=targets, is_nchw=first.is_planes and not by_items)
    if not targets:
        given.n_classes = max(part.n_classes for part in parts.values())
    if by_items:
        given.n_classes = 0 if targets else wanted.classes or max(part.classes() for part in parts.values())
        given.read = _make_read(source, parts, wanted)
    for split, part in parts.items():
        given.n[split] = part.n
        given.x[split] = part.x.ctypes.data
        given.y[split] = part.y.ctypes.data if part.y is not None else None
    source.kept = [parts, given]
    source.seen, source.columns = _arrays.Seen.of(first.x), first.columns
    try:
        c.lib.qn_data_open_samples(ctypes.byref(given), ctypes.byref(options), ctypes.byref(source.c))
    except c.Error:
        source.raise_own()
        raise
    _name_classes(source, first.labels.names if first.labels is not None else None)
    return source.opened()


def _name_classes(source: Source, names: Optional[list[str]]) -> None:
    """Tells the library what the classes of samples are called, by which it matches them."""
    if names is None:
        return
    texts = (ctypes.c_char_p * len(names))(*(name.encode() for name in names))
    source.kept.append(texts)
    source.c.preparation.class_names = ctypes.cast(texts, ctypes.POINTER(ctypes.c_char_p))
    source.c.preparation.n_classes = len(names)


def open_none(shape: tuple[int, ...], classes: int, targets: int) -> Source:
    """Data of a shape without samples, for a network that is to be looked at or to predict."""
    source = Source()
    given = c.Samples(sample=c.Shape.of(shape), dtype=c.F32, n_classes=0 if targets else classes,
                      n_targets=targets)
    options = c.DataOptions()
    c.lib.qn_data_open_samples(ctypes.byref(given), ctypes.byref(options), ctypes.byref(source.c))
    return source.opened()


def open_to_predict(x: Any, wanted: Wanted) -> Source:
    """Samples alone, as test samples."""
    return open_samples({c.TEST: (x, None)}, wanted, c.DataOptions())
