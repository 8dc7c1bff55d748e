"""Arrays against the model that takes them: the shape of samples, their type and scale, and what labels mean. An array
that could be read in two ways is refused, with what decides it; nothing is resized or transposed unasked.

The library's sample is (H, W, C) or (C). A network of an ONNX file takes what the file declares, whose images and
sequences have their channels first."""
from __future__ import annotations

import dataclasses
from typing import Any, Mapping, Optional

import numpy as np

from . import _library as c

Array = np.ndarray[Any, Any]

_PROBED = 1024  # samples whose range is looked at
_MARGIN = 0.5   # beyond 0 to 1, of floats that go where bytes went


def _words(shape: tuple[int, ...]) -> str:
    return "(" + ", ".join("any" if one < 0 else str(one) for one in shape) + ("," if len(shape) == 1 else "") + ")"


# ---- what a model takes ----


@dataclasses.dataclass
class Seen:
    """The samples that a network was trained on: their type, and their range where it was looked at."""

    dtype: str
    least: float = 0.0
    most: float = 1.0

    KEYS = ("samples.dtype", "samples.least", "samples.most")

    @classmethod
    def of(cls, x: Array) -> "Seen":
        """That of samples as as_samples gives them, from at most _PROBED of them."""
        probe = x[::max(1, len(x) // _PROBED)]
        if x.dtype == np.uint8 or not probe.size:
            return cls(str(x.dtype))
        return cls(str(x.dtype), float(probe.min()), float(probe.max()))

    def pairs(self) -> dict[str, str]:
        """As checkpoints keep it."""
        return dict(zip(self.KEYS, (self.dtype, repr(self.least), repr(self.most))))

    @classmethod
    def of_pairs(cls, pairs: Mapping[str, str]) -> Optional["Seen"]:
        """What a checkpoint says, or what follows from how its samples are prepared: pictures with a mean are
        bytes. None: nothing."""
        if cls.KEYS[0] in pairs:
            return cls(pairs[cls.KEYS[0]], *(float(pairs.get(key, "nan")) for key in cls.KEYS[1:]))
        is_picture = pairs.get("preparation.sample", "").count("x") == 2
        return cls("uint8") if is_picture and pairs.get("preparation.mean") else None


@dataclasses.dataclass
class Wanted:
    """What a model takes. sample: the shape of one, as the library has it. takes_rows: the network is not made yet, and
    rows of any length decide what it is. file: a sample's extents as an ONNX file declares them, -1 those that it leaves
    open; None: there is no file. is_planes: there the channels come first. layout: how arrays lie, where the caller said
    so. classes: how many outputs, 0: not known. are_numbers: whether targets are numbers, None: not known. columns: names
    of the columns that were trained on, where those had some; names: of the classes, in the order of the outputs, where labels
    are matched to them."""

    model: str
    sample: tuple[int, ...]
    takes_rows: bool = False
    file: Optional[tuple[int, ...]] = None
    is_planes: bool = False
    layout: Optional[str] = None
    is_resized: bool = False
    classes: int = 0
    are_numbers: Optional[bool] = None
    columns: Optional[list[str]] = None
    seen: Optional[Seen] = None
    names: Optional[list[str]] = None
    knows_names: bool = False


# ---- samples ----


def to_array(x: Any) -> Array:
    """x as numpy has it; tensors that take part in a gradient are taken by their values, and numbers that pandas keeps as
    objects as numbers."""
    if hasattr(x, "detach") and hasattr(x, "numpy"):
        x = x.detach().cpu()
    array = np.asarray(x)
    if array.dtype == object and array.ndim == 1 and len(array):
        plain = np.asarray(array.tolist())
        array = plain if plain.dtype.kind in "buif" and plain.shape == array.shape else array
    return array


def is_frame(x: Any) -> bool:
    """Whether x is a table with names, of pandas or polars."""
    return hasattr(x, "columns") and hasattr(x, "dtypes") and hasattr(x, "to_numpy") and getattr(x, "ndim", 2) == 2


class Columns:
    """A dictionary of columns as a table with names."""

    ndim = 2

    def __init__(self, columns: Mapping[Any, Any]) -> None:
        self._of = {name: to_array(column) for name, column in columns.items()}
        lengths = {array.shape for array in self._of.values()}
        if len(lengths) != 1 or len(next(iter(lengths))) != 1:
            raise c.ArgumentError("a dictionary of samples is of columns, arrays (N) of one length: " + ", ".join(
                f"{name} is {_words(array.shape)}" for name, array in self._of.items()))
        self.columns = list(self._of)
        self.dtypes = [array.dtype for array in self._of.values()]

    def __getitem__(self, name: Any) -> Any:
        return Columns({one: self._of[one] for one in name}) if isinstance(name, list) else self._of[name]

    def to_numpy(self) -> Array:
        """The rows."""
        return np.stack(list(self._of.values()), axis=1)

    @property
    def shape(self) -> tuple[int, ...]:
        """Rows and columns."""
        return (len(self._of[self.columns[0]]), len(self.columns))


def as_frame(x: Any) -> Any:
    """A dictionary as a table, anything else as it is."""
    return Columns(x) if isinstance(x, Mapping) and x else x


def split_frame(frame: Any, target: str) -> tuple[Any, Any]:
    """A table without a column, and that column."""
    names = list(frame.columns)
    if target not in names:
        raise c.ArgumentError(f"the table has no column {target!r}; it has {', '.join(map(str, names))}")
    return frame[[name for name in names if name != target]], frame[target]


def take_frame(frame: Any, wanted: Wanted) -> tuple[Array, list[str]]:
    """Columns of a table as rows of numbers, in the order of those that were trained on, and their names."""
    names = [str(name) for name in frame.columns]
    if len(set(names)) < len(names):
        raise c.ArgumentError("the table has two columns of one name")
    by_name = dict(zip(names, frame.columns))
    if wanted.columns is not None:
        missing = [name for name in wanted.columns if name not in by_name]
        if missing:
            raise c.ArgumentError(f"the table lacks {', '.join(missing)}, which {wanted.model} was trained on")
        extra = [name for name in names if name not in wanted.columns]
        if extra:
            c.warn(f"columns that were not trained on are left out: {', '.join(extra)}")
        names = wanted.columns
    arrays = [to_array(frame[by_name[name]]) for name in names]
    texts = [name for name, array in zip(names, arrays) if array.dtype.kind not in "buif"]
    if texts:
        raise c.ArgumentError(f"columns {', '.join(texts)} are not of numbers: encode them (pandas.get_dummies), or train on "
                              "the file by its name, \"csv:FILE\"")
    return np.stack([np.asarray(array, np.float32) for array in arrays], axis=1), names


def as_samples(x: Any) -> Array:
    """x as uint8 or float32 without gaps; as it is where it is so."""
    array = to_array(x)
    if array.dtype.kind not in "buif" or array.ndim < 2:
        raise c.ArgumentError(f"samples of shape {array.shape} and type {array.dtype}: they are numbers, with an axis "
                              "for the samples first, as (N, H, W, C) or (N, C)")
    return np.ascontiguousarray(array, np.uint8 if array.dtype == np.uint8 else np.float32)


def _fits(inner: tuple[int, ...], declared: tuple[int, ...]) -> bool:
    return len(inner) == len(declared) and all(want in (-1, have) for have, want in zip(inner, declared))


def _with_channel(inner: tuple[int, ...], rank: int, channel: int) -> tuple[int, ...]:
    """Grey images (H, W) get the axis of their one channel."""
    if len(inner) != rank - 1 or rank != 3:
        return inner
    return inner[:channel] + (1,) + inner[channel:]


def _place_of_file(x: Array, wanted: Wanted) -> tuple[Array, tuple[int, ...], bool]:
    """See place; of a network of a file."""
    file = wanted.file or ()
    is_last = wanted.layout == "nhwc" and len(file) == 3  # the caller's images have their channels last
    declared = file[1:] + file[:1] if is_last else file
    inner = _with_channel(x.shape[1:], len(file), 2 if is_last else 0)
    if not _fits(inner, declared):
        raise c.ArgumentError(f"samples are {_words(x.shape[1:])}; {wanted.model} takes {_words(declared)}" +
                              _how_to(x.shape[1:], wanted, declared))
    x = x.reshape(len(x), *inner)
    if is_last and not wanted.is_planes:
        x = np.ascontiguousarray(x.transpose(0, 3, 1, 2))
    elif wanted.is_planes and not is_last:
        if len(inner) == 3:
            return x, (inner[1], inner[2], inner[0]), True
        x = np.ascontiguousarray(np.moveaxis(x, 1, -1))
    dims = x.shape[1:]
    if len(dims) not in (1, 3):  # the library's samples are rows or images; elements lie in the same order
        dims = (dims[0], int(np.prod(dims[1:])), 1)
    return x.reshape(len(x), *dims), dims, False


def _how_to(inner: tuple[int, ...], wanted: Wanted, declared: tuple[int, ...]) -> str:
    """What can be done about samples of another shape."""
    moved = (inner[-1:] + inner[:-1], inner[1:] + inner[:1]) if len(inner) == 3 else ()
    if any(_fits(one, declared) for one in moved):
        other = "nhwc" if _fits(moved[0], declared) else "nchw"
        return f'. They would fit with their channels moved: Model(..., layout="{other}") says that they lie so'
    if wanted.file is not None:
        return ": that is what its file declares"
    if len(inner) == 1 or len(declared) != 3:
        return f"; Model(..., input={inner}) makes a network for them" if wanted.takes_rows else ""
    if not wanted.takes_rows:
        return "; Model(..., resize=True) resizes images"
    image = inner if len(inner) == 3 else (*inner, 1)
    return f"; Model(..., input={image}) makes a network for them, and Model(..., resize=True) resizes images"


def _without_ones(dims: tuple[int, ...]) -> list[int]:
    return [one for one in dims if one != 1]


def _place_of_zoo(x: Array, wanted: Wanted) -> tuple[Array, tuple[int, ...], bool]:
    """See place; of a network that quern builds."""
    inner = x.shape[1:]
    is_planes = wanted.layout == "nchw"
    image = _with_channel(inner, 3, 0 if is_planes else 2)
    if len(inner) not in (1, 2, 3):
        raise c.ArgumentError(f"samples are {_words(inner)}; {wanted.model} takes (H, W, C), (H, W) or (C)")
    dims = (image[1], image[2], image[0]) if is_planes and len(image) == 3 else image
    want = wanted.sample
    if len(inner) == 2 and not is_planes and len(want) == 3 and _without_ones(inner) == _without_ones(want):
        image = dims = want  # series (T, F) as (T, 1, F): extents of 1 change no order
    if dims == want or (wanted.takes_rows and len(dims) == 1):
        pass
    elif len(dims) == 1 and len(want) == 3 and want[2] == 1 and dims[0] == want[0] * want[1]:
        pass  # pixels of grey images in a row: their order is the same
    elif not (wanted.is_resized and len(dims) == len(want) == 3):
        told = (want[2], want[0], want[1]) if is_planes and len(want) == 3 else want
        raise c.ArgumentError(f"samples are {_words(inner)}; {wanted.model} takes {_words(told)}" +
                              _how_to(inner, wanted, told))
    return x.reshape(len(x), *image), dims, is_planes and len(image) == 3


def place(x: Array, wanted: Wanted) -> tuple[Array, tuple[int, ...], bool]:
    """Samples as the library takes them: the array, the shape of one of them as (H, W, C) or (C), and whether the
    channels come first in the array. ArgumentError of a shape that is not the model's."""
    return _place_of_zoo(x, wanted) if wanted.file is None else _place_of_file(x, wanted)


def check_scale(x: Array, seen: Optional[Seen]) -> None:
    """Refuses bytes for a network that was trained on floats of another scale; warns of floats that are not 0 to 1
    for one that was trained on bytes. x: as as_samples gives it."""
    if seen is None:
        return
    now = Seen.of(x)
    if now.dtype == "uint8" and seen.dtype != "uint8":
        if seen.most > 1 + _MARGIN or seen.least < -_MARGIN:
            raise c.ArgumentError(f"samples are bytes, which are taken as 0 to 1; the network was trained on floats from "
                                  f"{seen.least:g} to {seen.most:g}: give x.astype(numpy.float32), scaled as then")
    elif now.dtype != "uint8" and seen.dtype == "uint8":
        if now.most > 1 + _MARGIN or now.least < -_MARGIN:
            c.warn(f"samples are floats from {now.least:g} to {now.most:g}; the network was trained on bytes, which it "
                   "takes as 0 to 1 and normalises itself: give uint8, or floats from 0 to 1")


# ---- labels ----


@dataclasses.dataclass
class Labels:
    """Labels as the library takes them: int32 classes (N), or float32 targets (N, T). n_classes: where they say it
    themselves, else 0. names: of the classes, where the labels were texts."""

    array: Array
    n_classes: int = 0
    names: Optional[list[str]] = None


def _classes(whole: Array, n_classes: int = 0) -> Labels:
    wide = whole.astype(np.int64)
    if wide.size and (wide.min() < -2**31 or wide.max() >= 2**31):
        raise c.ArgumentError("labels beyond 32 bits")
    return Labels(np.ascontiguousarray(wide, np.int32), n_classes)


def _numbers(y: Array, wanted: Wanted) -> Labels:
    columns = y.reshape(len(y), -1)
    if wanted.classes and columns.shape[1] != wanted.classes:
        raise c.ArgumentError(f"targets of {columns.shape[1]} numbers for each sample; {wanted.model} has "
                              f"{wanted.classes} outputs")
    return Labels(np.ascontiguousarray(columns, np.float32))


def _unclear(y: Array, wanted: Wanted) -> c.ArgumentError:
    """Whole numbers (N) that can be classes and amounts."""
    if wanted.classes == 1:
        return c.ArgumentError(f"labels are 0 and 1, and {wanted.model} has one output: classes need an output each; "
                               'Model(..., targets="numbers") trains the output towards 0 and 1 by squared error')
    return c.ArgumentError(f"labels are floats, and all whole, as {y[0]:g}: classes or numbers? Give them as integers, or "
                           'Model(..., classes=N), for classes; Model(..., targets="numbers") for numbers')


def _labels_in_row(y: Array, wanted: Wanted) -> Labels:
    """Labels (N)."""
    if wanted.are_numbers is False or wanted.classes > 1:
        if _is_whole(y):
            return _classes(y)
        if wanted.are_numbers is False:
            raise c.ArgumentError(f"labels are floats such as {y[y != np.floor(y)][0]:g}, and {wanted.model} has classes, "
                                  'which are whole numbers; Model(..., targets="numbers") is for numbers')
        return _numbers(y, wanted)
    if wanted.classes == 1:
        if _is_truths(y):
            raise _unclear(y, wanted)
        return _numbers(y, wanted)
    if y.dtype.kind in "iub":
        return _classes(y)
    if _is_whole(y):
        raise _unclear(y, wanted)
    return _numbers(y, wanted)


def _is_whole(y: Array) -> bool:
    return y.dtype.kind in "iub" or bool(np.isfinite(y).all() and (y == np.floor(y)).all())


def _is_truths(y: Array) -> bool:
    return bool(((y == 0) | (y == 1)).all())


def _labels_in_columns(y: Array, wanted: Wanted) -> Labels:
    """Labels (N, T), T more than 1."""
    is_one_hot = _is_truths(y) and bool((y.sum(1) == 1).all())
    width = y.shape[1]
    may_be_classes = wanted.are_numbers is False or (wanted.classes > 0 and wanted.are_numbers is None)
    if is_one_hot and (may_be_classes or y.dtype.kind in "iub"):
        if wanted.classes not in (0, width):
            raise c.ArgumentError(f"labels of {width} columns, one of them 1: that is {width} classes, and {wanted.model} "
                                  f"has {wanted.classes}")
        return _classes(y.argmax(1), width)
    if wanted.are_numbers is False or y.dtype.kind in "iub":
        raise c.ArgumentError(f"labels of shape {y.shape}: classes are whole numbers (N), or columns of which one is 1 "
                              '(one-hot); Model(..., targets="numbers") takes them as numbers')
    if _is_truths(y):
        raise c.ArgumentError(f"labels of {width} columns of 0 and 1: classes or numbers? Model(..., classes={width}) takes "
                              'columns of which one is 1 as classes, Model(..., targets="numbers") takes all as numbers')
    return _numbers(y, wanted)


def _texts(y: Array) -> Optional[list[str]]:
    """Labels (N) that are texts, else None."""
    if y.size == 0 or y.size != len(y) or y.dtype.kind not in "USO":
        return None
    texts = [one.decode("utf-8") if isinstance(one, bytes) else one for one in y.reshape(len(y)).tolist()]
    return [str(one) for one in texts] if all(isinstance(one, str) for one in texts) else None


def _named(texts: list[str], wanted: Wanted) -> Labels:
    """Names of classes: the network's where it is asked about them, else in the order of their characters."""
    if wanted.are_numbers:
        raise c.ArgumentError(f"labels are texts such as {texts[0]!r}, and {wanted.model} gives numbers")
    names = sorted(set(texts))
    if wanted.knows_names:
        if wanted.names is None:
            raise c.ArgumentError(f"labels are texts such as {texts[0]!r}, and {wanted.model} knows its classes by number")
        unknown = [name for name in names if name not in wanted.names]
        if unknown:
            raise c.ArgumentError(f"classes that {wanted.model} was not trained for: {', '.join(unknown)}; it knows "
                                  f"{', '.join(wanted.names)}")
        names = wanted.names
    places = {name: i for i, name in enumerate(names)}
    return Labels(np.array([places[text] for text in texts], np.int32), len(names), names)


def join_names(parts: "list[Labels]") -> None:
    """Gives labels of several splits the same names: all that any of them has."""
    known = [part for part in parts if part.array.size]
    if all(part.names is None for part in known):
        return
    if any(part.names is None for part in known):
        raise c.ArgumentError("labels are texts in some splits, and numbers in others")
    names = sorted({name for part in known for name in part.names or ()})
    if all(part.names == names for part in known):
        return
    for part in known:
        places = np.array([names.index(name) for name in part.names or ()], np.int32)
        part.array, part.names, part.n_classes = places[part.array], names, len(names)


def as_labels(y: Any, n: int, wanted: Wanted) -> Labels:
    """Labels of n samples. Texts are names of classes. Whole numbers as floats are classes where the number of classes is known, numbers where
    those are; otherwise they are refused: both would be a guess. So are columns of which one is 1 (one-hot)."""
    array = to_array(y)
    if array.ndim == 0 or len(array) != n:
        raise c.ArgumentError(f"labels of shape {array.shape} for {n} samples")
    texts = _texts(array)
    if texts is not None:
        return _named(texts, wanted)
    if array.dtype.kind not in "buif":
        raise c.ArgumentError(f"labels of type {array.dtype}: texts or whole numbers for classes, floats for targets; "
                              "quern.QuernClassifier takes labels of any kind")
    if wanted.are_numbers:
        return _numbers(array, wanted)
    if n == 0 or array.size == n:
        return _labels_in_row(array.reshape(n), wanted)
    return _labels_in_columns(array.reshape(n, -1), wanted)
