"""The model: a network with its weights, and what is done with it."""
from __future__ import annotations

import array
import contextlib
import ctypes
import filecmp
import json
import os
import pathlib
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from ctypes import c_int64, c_void_p
from typing import Any, Mapping, NoReturn, Optional, Sequence, Union

import numpy as np

from . import _arrays, _data, _library as c, _progress, _settings
from ._data import DataLike
from ._forward import Forward
from ._history import History, Plan
from ._meter import Handle
from ._settings import Setting
from ._task import FILE_OPTIONS, Interrupt, Network, Numerics, Pairs, Task

PathLike = Union[str, "os.PathLike[str]"]

_STEP, _EPOCH, _STOPPED, _TESTED, _WARNING = range(5)
_SPLITS = {"train": c.TRAIN, "test": c.TEST, "validation": c.VALIDATION, "all": c.ALL_SPLITS}
_TUNES = {"off": 0, "quick": 1, "full": 2}
# Of a checkpoint what its network is built by; the rest is of the run that made it.
_OF_NETWORK = ("shape", "set", "follow-links", "input", "classes", "head", "lora", "length", "target-length", "hidden", "net", "seed",
               "rules", "data",
               "prepared_inside", "module.fixed")
_BASE, _COLUMNS = "lora_base", "samples.columns"
# Of a checkpoint what an exported file says of the samples: what they are, and which were held out.
_OF_SAMPLES = ("preparation.elements", "held_out", "holdout", "validation", "seed", _COLUMNS, *_arrays.Seen.KEYS)
_FIXED = "module.fixed"  # patterns of what a module's training leaves as it is


class _Run:
    """A run of the training loop: what the library tells becomes the history and what is shown."""

    def __init__(self, task: Task, history: History, progress: _progress.Progress, interrupt: Interrupt,
                 callback: Optional[Callable[[dict[str, float]], Optional[bool]]]) -> None:
        self._task, self._history, self._progress = task, history, progress
        self._interrupt, self._callback = interrupt, callback
        self._losses: array.array[float] = history._losses
        self._sums: dict[str, float] = {}
        self._n = 0
        self._begin_ns = time.perf_counter_ns()
        self.failure: Optional[BaseException] = None
        self.was_ended = False  # by the caller's callback
        self.total = 0
        self.tell = c.TELL(self._tell)

    def _tell(self, _user: Any, told: Any) -> None:
        try:
            event = told[0]
            if event.kind == _STEP:
                self._note_step(event)
            elif event.kind == _EPOCH:
                self._note_epoch(event)
            elif event.kind == _STOPPED:
                self._history.stopped_early = True
            elif event.kind == _WARNING:
                c.tell(None, 1, event.message)
        except BaseException as failure:  # noqa: B902 - it goes on where fit was called
            self.failure = failure
            self._interrupt.is_asked = True

    def _note_step(self, event: Any) -> None:
        metrics = event.metrics[0]
        loss = metrics.list[0].value if metrics.n else float("nan")
        self._losses.append(loss)
        self._n += 1
        for i in range(metrics.n):
            metric = metrics.list[i]
            name = metric.name.decode()
            self._sums[name] = metric.value if metric.is_count else self._sums.get(name, 0.0) + metric.value
        self._progress.step(event.step, self.total, loss)

    def _note_epoch(self, event: Any) -> None:
        facts = self._task.facts()
        seconds = (time.perf_counter_ns() - self._begin_ns) * 1e-9
        n = max(self._n, 1)
        epoch: dict[str, float] = {"epoch": event.epoch, "step": event.step}
        epoch.update({name: value / n for name, value in self._sums.items()})
        for split, metrics in (("validation", event.validation), ("test", event.test)):
            if metrics:
                epoch.update({f"{split}_{name}": value for name, value in metrics[0].values().items()})
        epoch["seconds"] = seconds
        epoch["samples_per_second"] = self._n * facts.step_samples / seconds if seconds > 0 else 0.0
        self._history.epochs.append(epoch)
        shown = {k: v for k, v in epoch.items() if k not in ("epoch", "step", "seconds", "samples_per_second")}
        self._progress.line(f"epoch {event.epoch}, step {event.step:,}: {_progress.words(shown)}, "
                            f"{_progress.duration(seconds)}")
        self._sums, self._n = {}, 0
        if self._callback is not None and self._callback(dict(epoch)):
            self._interrupt.is_asked = True
            self.was_ended = True
        self._begin_ns = time.perf_counter_ns()


class Model:
    """A network with its weights: trained, measured, applied, saved.

        m = quern.Model("lenet5", classes=10)
        m.fit("fashion-mnist", epochs=3)
        m.evaluate("fashion-mnist")
        m.save("lenet5.safetensors")

    model: a model of the zoo (quern.models() names them), an ONNX file, or a checkpoint (a file with
    weights that quern or save() wrote, which says its model). classes: outputs; else those of the data,
    or the model's own. input: shape of a sample, (H, W, C) or (C). layout: how arrays of images lie, "nhwc" or
    "nchw"; None: "nhwc", and of an ONNX file as it declares. resize: arrays of images of another size are resized;
    otherwise they are refused. targets: "classes" or "numbers", for labels that do not tell.

    Of an ONNX file also, as the command's options, which checkpoints keep: shape, extents of inputs by name, where N is the
    batch, {"state": "2xNx64"}, and "none" says that there is none; set, values of inputs that decide branches or
    shapes, {"sr": 16000}; follow_links, data outside of the file may be links out of its folder.

    Everything that is computed is what the command quern computes for the same call, to the bit.
    Failures are quern.Error with the library's message. A model is used by one thread at a time, others
    wait; the interpreter is free while the library works, and Ctrl-C ends a run in good order.
    """

    def __init__(self, model: PathLike, *, classes: Optional[int] = None,
                 input: Union[str, int, Sequence[int], None] = None, layout: Optional[str] = None, resize: bool = False,
                 targets: Optional[str] = None, shape: Optional[Mapping[str, str]] = None,
                 set: Optional[Mapping[str, Any]] = None, follow_links: bool = False, **foreign: NoReturn) -> None:
        _settings.refuse_foreign("Model", foreign, ("classes", "input", "layout", "resize", "targets", "shape", "set",
                                                    "follow_links"))
        self._begin(layout, targets, resize)
        name = os.path.expanduser(os.fspath(model))
        is_file = name.endswith(".safetensors") or (os.path.isfile(name) and not name.endswith(".onnx"))
        if shape:
            self._pairs["shape"] = ",".join(f"{key}={_extents(extents)}" for key, extents in shape.items())
        if set:
            self._pairs["set"] = ",".join(f"{key}={_numbers(number)}" for key, number in set.items())
        if follow_links:
            self._pairs["follow-links"] = "yes"
        if is_file:
            self._begin_from(name)
        else:
            self._network = Network(name, None, self._pairs)
        given: dict[str, Setting] = {"classes": classes, "input": None if input is None else _settings.shape(input)}
        self._pairs.update({key: str(value) for key, value in given.items() if value is not None})
        if is_file:
            self._ensure()

    # ---- opening ----

    @classmethod
    def from_torch(cls, module: Any, example: Any, *, path: Optional[PathLike] = None,
                   targets: Optional[str] = None) -> "Model":
        """A model of a PyTorch module, with its weights, by way of ONNX. example: inputs as the module takes them, of
        any number of samples: a tensor, a tuple of tensors, or a dictionary by the names of forward's arguments.
        path: where the ONNX file is kept; else it goes with the model, and save() writes it beside the checkpoint.

        The module is not changed: a copy of it is exported in eval mode, by the current exporter where PyTorch has it
        (2.6, with onnxscript). Arrays are then given as the module takes them. What trains is what requires_grad says.
        The example is computed by both; UnsupportedError names the first layer that differs by more than 1e-4.

        A module of one input of real numbers and an output (N, outputs) is a classifier, or a regression; any other trains
        on arrays by name, see fit."""
        from . import _torch
        folder = _data.Folder() if path is None else None
        target = os.path.expanduser(os.fspath(path)) if path is not None else ""
        if folder is not None:
            target = os.path.join(folder.path, "model.onnx")
        trained = _torch.export(module, example, target)
        model = cls.__new__(cls)
        model._begin(None, targets, False)
        model._folder = folder
        model._open_file(target)
        model._is_fresh = False
        model._freeze_all_but(set(trained))
        return model

    def _begin(self, layout: Optional[str], targets: Optional[str], resize: bool) -> None:
        if layout not in ("nhwc", "nchw", None):
            raise ValueError(f"layout={layout!r}: it is nhwc or nchw")
        if targets not in ("classes", "numbers", None):
            raise ValueError(f"targets={targets!r}: they are classes or numbers")
        self._lock = threading.RLock()
        self._layout, self._resize, self._targets = layout, resize, targets
        self._task: Optional[Task] = None
        self._is_fresh = True
        self._pairs: dict[str, str] = {}
        self._folder: Optional[_data.Folder] = None  # of the network's file, where it has no other place

    def _open_file(self, path: str) -> None:
        """A network whose data are arrays: as a classifier or regression where it can be one, else by name."""
        try:
            self._network = Network(path, "classification", self._pairs)
        except c.UnsupportedError:
            self._network = Network(path, "arrays", self._pairs)

    def _freeze_all_but(self, trained: set[str]) -> None:
        """What trains is what the module trains: neither its buffers and constants nor what it holds fixed."""
        task = self._ensure()
        fixed = [t.name.decode() for t in task.tensors() if t.trainable and t.name.decode() not in trained]
        if fixed:
            self._pairs[_FIXED] = ",".join(_pattern(name) for name in fixed)
            task.settings.set(_FIXED, self._pairs[_FIXED])

    def _begin_from(self, path: str) -> None:
        kept = Pairs.of_checkpoint(path).items()
        if "model" not in kept:
            raise c.FormatError(f"{path} does not name its model; it was not written by quern")
        name = kept["model"]
        beside = pathlib.Path(path).parent / pathlib.Path(name).name
        if name.endswith(".onnx") and not os.path.isfile(name) and beside.is_file():
            name = str(beside)
        is_of_arrays = name.endswith(".onnx") and kept.get("data", "").startswith("npz:")
        self._network = Network(name, "arrays" if is_of_arrays else None, {**kept, **self._pairs})
        if self._network.hash and kept.get("model_hash", self._network.hash) != self._network.hash:
            raise c.FormatError(f"{path} was trained from another file than {name}, or that file has changed since")
        kept.pop("step", None)
        self._pairs, self._weights = {**kept, **self._pairs}, path

    stop_training: bool = False
    """A callback that sets it to True ends the run."""
    _weights: Optional[str] = None
    _named_as: Optional[str] = None  # the file that checkpoints name for a network of a temporary one
    _recording: Optional[_data.Recording] = None  # the files of arrays that are cut into windows
    _held: Optional[_data.NamedArrays] = None  # the files that a network's arrays by name are read from

    def _shape(self, pairs: Mapping[str, str]) -> tuple[int, ...]:
        text = pairs.get("input")
        return tuple(int(one) for one in text.split("x")) if text else self._network.input()

    def _classes(self, pairs: Mapping[str, str]) -> int:
        head = pairs.get("head", "").split(",")[0]
        text = head if head.isdigit() else pairs.get("classes")
        return int(text) if text else self._network.classes(self._shape(pairs))

    def _is_classifier(self) -> bool:
        return self._network.task == "classification"

    def _are_numbers(self, pairs: Mapping[str, str]) -> Optional[bool]:
        """Whether targets are numbers, by what was said or trained; None: neither."""
        if self._targets is not None:
            return self._targets == "numbers"
        if pairs.get("task", "auto") != "auto":
            return pairs["task"] == "regression"
        if "preparation.sample" in pairs:
            return pairs.get("preparation.n_classes") == "0"
        return False if "classes" in pairs or pairs.get("head", "").split(",")[0].isdigit() else None

    def _wanted(self, pairs: Mapping[str, str], trained: Mapping[str, str]) -> _arrays.Wanted:
        """What arrays have to be. pairs: of the network that takes them; trained: of what its weights were trained on."""
        shape = self._shape(pairs)
        numbers = self._are_numbers({**trained, **pairs} if "head" not in pairs else pairs)
        head = pairs.get("head", "").split(",")[0]
        is_known = head.isdigit() or "classes" in pairs or self._network.onnx is not None
        wanted = _arrays.Wanted(self._network.name, shape, "input" not in pairs, layout=self._layout,
                                is_resized=self._resize, are_numbers=numbers,
                                seen=_arrays.Seen.of_pairs(trained) if not self._is_fresh else None)
        if _COLUMNS in trained and not self._is_fresh:
            wanted.columns = json.loads(trained[_COLUMNS])
        if is_known and head != "data":
            wanted.classes = self._classes(pairs)
        places = self._network.places()
        if places:
            wanted.is_planes = bool(places[0].is_image)
            wanted.file = _declared(places[0], shape if "input" in pairs else None)
        return wanted

    def _no_data(self, pairs: dict[str, str]) -> _data.Source:
        n = self._classes(pairs)
        numbers = self._are_numbers({key: value for key, value in pairs.items() if key != "classes"})
        if numbers is None:  # a softmax of one number is 1 whatever it is
            numbers = self._network.onnx is not None and n == 1
        return _data.open_none(self._shape(pairs), n, n if numbers else 0)

    def _ensure(self) -> Task:
        """The task that holds the weights; one that can be looked at and predicts, where there was none."""
        if self._task is None:
            pairs = dict(self._pairs) if self._weights is not None else self._network.said(self._pairs)
            self._task = self._open_to_apply(pairs, None)
            if self._weights is not None:
                c.lib.qn_task_load(self._task.pointer, c.encode(self._weights), False)
                self._is_fresh = False
        return self._task

    def _open_to_apply(self, pairs: dict[str, str], threads: Optional[int]) -> Task:
        source = None
        if self._is_classifier():
            pairs.setdefault("classes", str(self._classes(pairs)))
            source = self._no_data(pairs)
        else:
            pairs.setdefault("data", _data.NO_ARRAYS if self._network.task == "arrays" else "synthetic")
        return Task(self._network, self._named(pairs), source, {"n_threads": threads or 0}, False)

    def _named(self, pairs: dict[str, str]) -> dict[str, str]:
        """Pairs with those that a checkpoint needs to be opened again."""
        pairs = {"format": "quern checkpoint 1", **pairs, "model": self._named_as or self._network.name}
        if self._network.hash:
            pairs["model_hash"] = self._network.hash
        if self._resize and (pairs.get("data") == "memory" or pairs.get("data", "").startswith("npy:")):
            pairs["resize"] = "yes"
        return pairs

    def _copy_to_apply(self, more: Mapping[str, str]) -> Task:
        """Another task with the same weights."""
        task = self._ensure()
        pairs = {**task.settings.items(), **more}
        other = Task(self._network, pairs, self._no_data(pairs) if self._is_classifier() else None,
                     {"n_threads": 0}, False)
        other.take_weights(task, False)
        return other

    # ---- data ----

    def _data_options(self, pairs: Mapping[str, str]) -> c.DataOptions:
        settings = Pairs(dict(pairs))  # which lives as long as it is read
        options = c.DataOptions(log=ctypes.pointer(c.log), seed=int(pairs.get("seed", "1")),
                                holdout=float(pairs.get("holdout", "0")),
                                validation=float(pairs.get("validation", "0")), n_classes=self._classes(pairs),
                                strict=pairs.get("strict") == "yes",
                                held_out=c.lib.qn_task_held_out(settings.pointer))
        options.sample = c.Shape.of(self._shape(pairs))
        return options

    def _open_data(self, data: Any, others: Mapping[int, Any], pairs: dict[str, str]) -> Optional[_data.Source]:
        """Data of a run. What has a name goes by it, into the pairs, and the task opens it itself."""
        if _data.is_named(data):
            if others:
                raise TypeError("validation and test data of their own go with arrays and iterables; of named data "
                                "say which part: validation=0.1, holdout=0.1")
            pairs["data"] = _data.specification(data)
            return None
        if self._takes_named_arrays(data):
            return self._open_named_arrays(data, others, pairs)
        if not self._is_classifier():
            raise c.UnsupportedError(f"{self._network.name} is of the task {self._network.task}, which takes its data "
                                     "from files: give their name")
        pairs["data"] = "memory"
        wanted = self._wanted(pairs, self._pairs)
        source = _data.open_samples({c.TRAIN: data, **others}, wanted, self._data_options(pairs))
        for key in _arrays.Seen.KEYS:
            pairs.pop(key, None)
        if source.seen is not None:
            pairs.update(source.seen.pairs())
        pairs.pop(_COLUMNS, None)
        if source.columns is not None:
            pairs[_COLUMNS] = json.dumps(source.columns)
        if wanted.file is not None and -1 in wanted.file:
            pairs["input"] = "x".join(map(str, source.c.sample))
        return source

    def _takes_named_arrays(self, data: Any) -> bool:
        """Whether data are arrays by name; a network of a file that has no weights in use yet becomes one of those."""
        if isinstance(data, Mapping) and self._network.task != "arrays" and self._network.onnx and self._is_fresh:
            self._network, self._task = Network(self._network.name, "arrays", self._pairs), None
        return self._network.task == "arrays"

    def _write_named_arrays(self, data: Any, beside: Any = None) -> _data.NamedArrays:
        with Forward(self._network.name, pairs=self._pairs) as forward:
            return _data.NamedArrays(data, beside, forward.names(), forward.outputs())

    def _open_named_arrays(self, data: Any, others: Mapping[int, Any], pairs: dict[str, str]) -> Optional[_data.Source]:
        if c.VALIDATION in others:
            raise c.UnsupportedError("validation samples of their own are for classifiers and regressions; of arrays by "
                                     "name say which part: validation=0.1")
        self._held = self._write_named_arrays(data, others.get(c.TEST))
        pairs["data"] = self._held.name
        return None

    # ---- training ----

    def fit(self, data: Optional[DataLike] = None, y: Any = None, *, x: Any = None,
            validation: Union[DataLike, float, None] = None, validation_data: Optional[DataLike] = None,
            test: Union[DataLike, bool, None] = None, epochs: Optional[int] = None, steps: Optional[int] = None,
            batch: Optional[int] = None, batch_size: Optional[int] = None, window: Optional[int] = None,
            stride: Optional[int] = None, group: Any = None, time: Any = None, window_label: Optional[str] = None,
            lr: Optional[float] = None,
            learning_rate: Optional[float] = None, optimizer: Optional[str] = None, seed: Optional[int] = None,
            memory: Union[str, int, None] = None, threads: Optional[int] = None,
            device: str = "auto", save: Optional[PathLike] = None, save_best: Optional[PathLike] = None,
            early_stop: Optional[int] = None, checkpoint_every: Optional[int] = None, override: bool = False,
            resume: Optional[PathLike] = None, micro_batch: Optional[int] = None, swap: Optional[PathLike] = None,
            tune: str = "off", meter: bool = True, verbose: Optional[bool] = None,
            callback: Optional[Callable[[dict[str, float]], Optional[bool]]] = None, callbacks: Sequence[Any] = (),
            **settings: Setting) -> History:
        """Trains, and returns what happened.

        data: see quern.DataLike; also as two arguments, fit(x, y). batch_size, learning_rate and validation_data are
        other names of batch, lr and validation. validation: other data of that kind, or the part of the training samples
        that is held out for it; test likewise, or False: no test. Training begins at the weights there
        are; what is not said is the model's recipe.

        window: rows are steps of time, and a sample is so many that follow each other, stride apart (None: window), of one
        group and without a gap in time; window_label: "majority", "last" or "same", how rows give a window its
        target. group: samples or windows of one person or machine are on one side of the split. group and time
        are names of columns, or of files of arrays; of arrays (x, y), x of rows (N, C), arrays with a value for each row.

        epochs, steps: how long; with both, the shorter. batch: samples of a batch. memory: a budget for
        everything the network needs, as "64M", kept by making values again; equal bits. threads: 0 or
        None: the processors there are; equal bits. device: "auto" or "cpu". save: checkpoint, written at
        the end, when stopped, and between; save_best: one of the best weights. early_stop: epochs
        without improvement until the run ends. checkpoint_every: steps between checkpoints.
        override: save and save_best may replace checkpoints of more steps than this run has, and files that are no
        checkpoints, which stay otherwise.
        resume: a checkpoint to go on from, with its settings. swap: a folder for values under a budget.
        tune: "off", "quick" or "full". meter: measure time and energy, for report(). verbose: None: show
        progress in terminals and notebooks, True: always, False: never. callback: is given the figures of
        every epoch; True ends the run. callbacks: several of those, and objects with on_train_begin(),
        on_epoch_begin(epoch), on_epoch_end(epoch, figures) or on_train_end(), any of them, epochs from 0; they end
        the run by stop_training = True, of their own or of the model.

        Ctrl-C ends the run after the step under way, saves it where save is given, and raises
        KeyboardInterrupt; the model then has the weights of that step.

        Errors: ArgumentError, FormatError (data), OutOfMemoryError (a budget that cannot work, with the
        least that can), NumericError (a loss that is no number: the model then has the weights that save
        wrote last, without those the ones of the step before, or, where they are no numbers, its first ones),
        FileError. TypeError and ValueError of settings that are none or out of range.
        """
        batch = _one_of("batch", batch, "batch_size", batch_size)
        lr = _one_of("lr", lr, "learning_rate", learning_rate)
        validation = _one_of("validation", validation, "validation_data", validation_data)
        data = _pair(_one_of("data", data, "x", x), y)
        if isinstance(y, str):
            validation, test = (_pair(one, y) if _arrays.is_frame(one) else one for one in (validation, test))
        callback = _Callbacks(self, callback, callbacks)
        with self._lock:
            for name in ("shape", "set", "follow_links", "requires_grad"):
                if settings.get(name) is not None:
                    raise TypeError(f"{name} says how an ONNX file is read: give it to Model(), not to fit()")
            given: dict[str, Setting] = {"epochs": epochs, "steps": steps, "batch": batch, "lr": lr,
                                         "optimizer": optimizer, "seed": seed, "early_stop": early_stop,
                                         "window": window, "stride": stride, "window_label": window_label, **settings}
            data = self._read_rows(data, given, group, time)
            engine = _engine(memory, threads, device, micro_batch, swap, tune)
            for file in (save, save_best):
                if file is not None:
                    self._keep_network_beside(file)
            pairs, others = self._pairs_of_run(given, validation, test, resume)
            self._name_base(pairs, resume)
            if data is None and "data" not in pairs:
                raise TypeError("fit needs data, or a checkpoint to resume whose data has a name")
            progress = _progress.Progress(verbose)
            c.show_preparing(progress.preparing)
            try:
                source = self._open_data(data if data is not None else pairs["data"], others, pairs)
                task = Task(self._network, self._named(pairs), source, engine, True, self._start(pairs, resume))
                self._fill(task, given, resume)
            except c.Error:
                if "source" in locals() and source is not None:
                    source.raise_own()
                raise
            finally:
                c.show_preparing(None)
                progress.end()
            files = _Files(save, save_best, checkpoint_every, test is False, override)
            return self._train(task, progress, files, meter, callback)

    def _read_rows(self, data: Any, given: dict[str, Setting], group: Any, time: Any) -> Any:
        """Data whose rows are steps of time or belong to groups: by its name, that of files where they are arrays."""
        names = {"group": group, "time": time}
        are_names = all(one is None or isinstance(one, (str, os.PathLike)) for one in names.values())
        if data is None or _data.is_named(data):
            if not are_names:
                raise c.ArgumentError("group and time are arrays beside arrays (x, y), and names of columns or files beside data "
                                      "by name")
            given.update({key: value for key, value in names.items() if value is not None})
            return data
        if all(one is None for one in (group, time, given["window"], given["stride"], given["window_label"])):
            return data
        if any(isinstance(one, (str, os.PathLike)) for one in names.values()):
            raise c.ArgumentError("group and time are names of columns or files beside data by name; beside arrays they are "
                                  "arrays, with a value for each row")
        pairs = {key: value for key, value in self._pairs.items() if key in _OF_NETWORK}
        self._recording = _data.Recording(data, group, time, self._wanted(pairs, self._pairs))
        given.update({key: value for key, value in self._recording.pairs.items() if key != "data"})
        return self._recording.pairs["data"]

    def _pairs_of_run(self, given: Mapping[str, Setting], validation: Any, test: Any,
                      resume: Optional[PathLike]) -> tuple[dict[str, str], dict[int, Any]]:
        texts = _settings.texts(given, self._network.task)
        others: dict[int, Any] = {}
        if isinstance(validation, (int, float)) and not isinstance(validation, bool):
            texts.update(_settings.texts({"validation": validation}, self._network.task))
        elif validation is not None:
            others[c.VALIDATION] = validation
        if test is not None and not isinstance(test, bool):
            others[c.TEST] = test
        if resume is not None:
            kept = Pairs.of_checkpoint(resume).items()
            if kept.get("model") != self._network.name and not self._network.hash:
                raise c.FormatError(f"{os.fspath(resume)} is of model {kept.get('model')}, not {self._network.name}")
            kept.pop("step", None)
            for name in FILE_OPTIONS:
                if kept.get(name) != self._pairs.get(name):
                    raise c.ArgumentError(f"{os.fspath(resume)} was trained with {name.replace('-', '_')}={kept.get(name)}, and this "
                                          f"model is read with {self._pairs.get(name)}")
            for one, other in (("epochs", "steps"), ("steps", "epochs")):
                if one in texts and other not in texts:
                    kept.pop(other, None)
            return {**kept, **texts}, others
        base = {key: value for key, value in self._pairs.items() if key in _OF_NETWORK and key != "data"}
        if "head" in texts:
            base.pop("classes", None)
        if _FIXED in base and "train-only" not in texts:
            texts["freeze"] = ",".join(part for part in (base[_FIXED], texts.get("freeze")) if part)
        return {**base, **texts}, others

    def _name_base(self, pairs: dict[str, str], resume: Optional[PathLike]) -> None:
        """Says where checkpoints have the weights that adapters stand beside: in the file that load names, in the network's
        own first weights, or, where neither has them, in the checkpoint."""
        if "lora" in pairs and "load" not in pairs and not self._is_fresh and resume is None:
            pairs[_BASE] = "inside"

    def _start(self, pairs: Mapping[str, str], resume: Optional[PathLike]) -> Optional[Pairs]:
        """What the weights that training begins with know of classes and columns by their names."""
        if resume is not None or "load" in pairs or self._is_fresh:
            return None
        known = self._ensure().settings.items()
        if "data" not in self._pairs:  # the weights are from elsewhere; the data is that of a network without samples
            known.pop("data", None)
        return Pairs(known)

    def _fill(self, task: Task, given: Mapping[str, Setting], resume: Optional[PathLike]) -> None:
        """Gives a new task its weights: a checkpoint's, those there are, or those it was made with."""
        if resume is not None:
            c.lib.qn_task_load(task.pointer, c.encode(resume), True)
        elif given.get("load") is not None:
            n_loaded, n_new, n_kept = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
            c.lib.qn_task_begin(task.pointer, ctypes.byref(n_loaded), ctypes.byref(n_new), ctypes.byref(n_kept))
        elif not self._is_fresh:
            before = self._ensure()
            if "lora" in before.settings.items() and "lora" not in task.settings.items():
                c.lib.qn_engine_merge_adapters(before.engine)
            task.take_weights(before, given.get("head") is not None)

    def _train(self, task: Task, progress: _progress.Progress, files: "_Files", metered: bool,
               callback: Optional[Callable[[dict[str, float]], Optional[bool]]]) -> History:
        facts = task.facts()
        if facts.total_steps < 1:
            raise c.ArgumentError("the length of training is not set; use steps=")
        history = History()
        self._task, self._is_fresh, self._weights = task, False, None
        if isinstance(callback, _Callbacks):
            callback.begin()
        history.first_step = int(c.lib.qn_engine_steps(task.engine))
        if metered:
            history._handle = Handle(f"{self._network.name}, batch {facts.batch}", task.engine.value, task,
                                     float(facts.step_samples))
        with Interrupt() as interrupt:
            run = _Run(task, history, progress, interrupt, callback)
            run.total = facts.total_steps
            try:
                self._run(task, run, history, files, interrupt)
            except c.Error as failure:
                self._leave_spoiled(task, files, isinstance(failure, c.NumericError))
                raise
            finally:
                self._pairs = task.settings.items()
        history.settings = dict(self._pairs)
        if isinstance(callback, _Callbacks):
            callback.end()
        return history

    def _leave_spoiled(self, task: Task, files: "_Files", has_diverged: bool) -> None:
        """Where a step has spoiled the weights, or may have made them useless: those that were saved are taken, which had
        a loss; without them, where they are no numbers, the first ones."""
        was_saved = files.save is not None and files.was_saved
        if not c.lib.qn_engine_is_sound(task.engine) or (has_diverged and was_saved):
            self._task = None
            self._weights = os.fspath(files.save) if files.save is not None and was_saved else None
            self._is_fresh = self._weights is None

    def _run(self, task: Task, run: _Run, history: History, files: "_Files", interrupt: Interrupt) -> None:
        training = c_void_p()
        meter = history._handle
        options = c.TrainingOptions(
            task=task.pointer, settings=task.settings.pointer, save=c.encode(files.save),
            save_best=c.encode(files.save_best), save_every=files.every, replaces_longer=files.override,
            patience=int(task.settings.items().get("early-stop", "0")), no_test=files.no_test,
            should_stop=interrupt.callback, tell=run.tell, meter=meter.pointer if meter else None)
        c.lib.qn_training_create(ctypes.byref(options), ctypes.byref(training))
        begin = time.perf_counter()
        try:
            c.lib.qn_training_run(training)
        except (KeyboardInterrupt, c.Error):
            if run.failure is not None:
                raise run.failure from None
            if task.source is not None:
                task.source.raise_own()
            if not run.was_ended:
                raise
        finally:
            history.seconds = time.perf_counter() - begin
            run._progress.end()
            state = c.lib.qn_training_get_state(training)
            files.was_saved = state.saved_step >= 0
            _note_best(history, state)
            c.lib.qn_training_destroy(training)
            if meter is not None:
                meter.stop()
                if not history._losses:
                    history._handle = None

    # ---- measuring and applying ----

    def evaluate(self, data: Optional[DataLike] = None, y: Any = None, *, split: Optional[str] = None,
                 group: Any = None, time: Any = None, **foreign: NoReturn) -> dict[str, float]:
        """Measures, and returns the metrics by name: "loss", "accuracy", …, and "samples", how many were
        measured. data: see quern.DataLike, prepared as in training, also as evaluate(x, y); None: what the model was
        trained on.
        split: "test", "train", "validation" or "all", of data by name; None: "test" of what the model was trained on, and
        all of other data. Arrays and iterables are measured whole. Classes and columns go by their names.
        group, time: see fit; of arrays of rows, which a network of windows takes as recordings.

        Errors: ArgumentError where the data has more classes than the network or other targets,
        FormatError where it has no samples of the split, columns that are missing, or classes that are unknown.
        """
        _settings.refuse_foreign("evaluate", foreign, ("data", "split", "group", "time"))
        data = _pair(data, y)
        if split is not None and split not in _SPLITS:
            raise ValueError(f"split={split!r}: it is test, train, validation or all")
        with self._lock, Interrupt() as interrupt:
            if data is not None and not _data.is_named(data) and self._takes_named_arrays(data):
                arrays = self._write_named_arrays(data)
                task = self._copy_to_apply({"data": arrays.name, "holdout": "0", "validation": "0"})
                return self._measure(task, "train", interrupt)
            task = self._ensure()
            if group is not None or time is not None or self._are_rows(data, task):
                return self._measure_recording(task, data, group, time, split, interrupt)
            if data is not None and not self._is_classifier():
                if not isinstance(data, (str, os.PathLike)):
                    raise c.UnsupportedError(f"{self._network.name} is of the task {self._network.task}, which takes "
                                             "its data from files: give their name")
                task = self._copy_to_apply({"data": _data.specification(data)})
                data = None
            if data is None:
                return self._measure(task, split or "test", interrupt)
            metrics, n = c.Metrics(), c_int64()
            is_own = (isinstance(data, (str, os.PathLike))
                      and _data.specification(data) == task.settings.items().get("data"))
            split = split or ("test" if is_own else "all")
            what = self._evaluate_on(task, data, split, interrupt, metrics, n)
            return _measured(metrics, n, what, split)

    def _are_rows(self, data: Any, task: Task) -> bool:
        """Whether data are arrays of rows, and the network takes windows of such."""
        return (isinstance(data, tuple) and len(data) == 2 and not _arrays.is_frame(data[0])
                and "window" in task.settings.items() and len(np.shape(data[0])) == 2)

    def _measure_recording(self, task: Task, data: Any, group: Any, time: Any, split: Optional[str],
                           interrupt: Interrupt) -> dict[str, float]:
        given: dict[str, Setting] = {name: task.settings.items().get(name.replace("_", "-"))
                                     for name in ("window", "stride", "window_label")}
        if data is None or not self._is_classifier():
            raise c.ArgumentError("group and time are of rows (x, y), or of data by name, that a classifier or regression measures")
        data = self._read_rows(data, given, group, time)
        pairs = {**task.settings.items(), "data": _data.specification(data)}
        for name in ("group", "time"):
            pairs.pop(name, None)
            if given.get(name) is not None:
                pairs[name] = os.fspath(given[name])  # type: ignore[arg-type]
        if split in (None, "all"):
            pairs.update(holdout="0", validation="0")
        other = Task(self._network, pairs, None, {"n_threads": 0}, False)
        other.take_weights(task, False)
        return self._measure(other, split or "all", interrupt)

    def _measure(self, task: Task, split: str, interrupt: Interrupt) -> dict[str, float]:
        """What a task measures on its own data."""
        metrics, n = c.Metrics(), c_int64()
        c.lib.qn_task_evaluate(task.pointer, _SPLITS[split], interrupt.callback, None, ctypes.byref(metrics),
                               ctypes.byref(n))
        return _measured(metrics, n, task.facts().data.decode(), split)

    def _evaluate_on(self, task: Task, data: Any, split: str, interrupt: Interrupt, metrics: c.Metrics,
                     n: c_int64) -> str:
        if _data.is_named(data):
            source, part = _data.open_of_task(task.pointer, _data.specification(data)), _SPLITS[split]
        else:
            source, part = _data.open_samples({c.TEST: data}, self._wanted_now(), c.DataOptions()), c.TEST
        try:
            c.lib.qn_task_evaluate_on(task.pointer, ctypes.byref(source.c), part, interrupt.callback, None,
                                      ctypes.byref(metrics), ctypes.byref(n))
        except c.Error:
            source.raise_own()
            raise
        return str(source.c.name.decode())

    def _wanted_now(self) -> _arrays.Wanted:
        """What the network as it stands takes."""
        settings = self._ensure().settings.items()
        wanted = self._wanted({**settings, **self._pairs}, self._pairs)
        wanted.names, wanted.knows_names = self.class_names, True
        if self._is_fresh and self._network.onnx:  # a file that was exported says what it was trained on
            wanted.seen = _arrays.Seen.of_pairs(settings)
            if _COLUMNS in settings:
                wanted.columns = json.loads(settings[_COLUMNS])
        return wanted

    def _outputs(self) -> int:
        return int(c.lib.qn_task_output_count(self._ensure().pointer))

    def predict(self, x: Any) -> Any:
        """What the network says of samples x, (N, H, W, C), (N, H, W) or (N, C) as in training, or as the file of the
        network declares them: an array (N, outputs) of probabilities, or of values where targets are numbers.

        Of a network that trains on arrays by name: x is a dictionary of its inputs, a tuple of them in its order, or the
        only one; the output as the network makes it, of several a dictionary.

        ArgumentError of samples of another shape; a Warning of floats that are not 0 to 1 where bytes were trained on."""
        with self._lock, Interrupt() as interrupt:
            if self._network.task == "arrays":
                return self._predict_named(x)
            task = self._ensure()
            n_outputs = self._outputs()
            if n_outputs == 0:
                raise c.UnsupportedError(f"{self._network.name} is of the task {self._network.task}; only classifiers "
                                         "and regressions predict: sample() shows what it has learned")
            wanted, x = self._wanted_now(), _arrays.as_frame(x)
            samples = _arrays.as_samples(_arrays.take_frame(x, wanted)[0] if _arrays.is_frame(x) else x)
            outputs = np.empty((len(samples), n_outputs), np.float32)
            if len(samples):
                source = _data.open_to_predict(samples, wanted)
                c.lib.qn_task_predict(task.pointer, ctypes.byref(source.c), c.TEST, interrupt.callback, None,
                                      outputs.ctypes.data)
            return outputs

    def _predict_named(self, x: Any) -> Any:
        task = self._copy_to_apply({"data": _data.NO_ARRAYS}) if self._has_adapters() else self._ensure()
        if self._has_adapters():
            c.lib.qn_engine_merge_adapters(task.engine)
        with Forward(self._network.name, pairs=self._pairs) as forward:
            given = [_arrays.to_array(one) for one in _data.inputs_in_order(x, forward.names())]
            made = forward.run_in_parts(given, {t.name: t for t in task.tensors()})
            names = forward.outputs()
        return made[0] if len(made) == 1 else dict(zip(names, made))

    def _has_adapters(self) -> bool:
        return "lora" in self._ensure().settings.items()

    def sample(self, prompt: Optional[str] = None, *, context: Optional[str] = None, count: int = 0, length: int = 0,
               temperature: float = 1.0, seed: int = 1, picture: Optional[PathLike] = None) -> list[str]:
        """What a model of text, images or control has learned, as lines of text: prompt gone on with, a
        sentence translated, a question answered (in context), a game played; images go to the PNG file
        picture. count, length: samples and characters; 0: as many as the task shows."""
        lines: list[str] = []
        with self._lock:
            put = c.PUT_LINE(lambda _user, line: lines.append(line.decode(errors="replace")))
            options = c.SampleOptions(prompt=None if prompt is None else prompt.encode(),
                                      context=None if context is None else context.encode(), count=count,
                                      length=length, temperature=temperature, seed=seed, picture=c.encode(picture),
                                      put=put)
            c.lib.qn_task_sample(self._ensure().pointer, ctypes.byref(options))
        return lines

    def parameters(self) -> "dict[str, np.ndarray[Any, Any]]":
        """Weights by name, running statistics too, as arrays that share the network's memory: what is
        written to them is what the network computes with, and training changes them. No copy is made;
        buffer protocol and DLPack are the arrays' own (torch.from_dlpack(array)). Filters are (K, R, S, C /
        groups), weights of linear layers (out, in). fit, with a new network in memory, leaves arrays of
        before as they are: ask again after it."""
        with self._lock:
            task = self._ensure()
            self._is_fresh = False
            if "lora" in task.settings.items():  # the caller may write to what adapters stand beside
                task.settings.set(_BASE, "inside")
            return task.arrays()

    # ---- looking ahead ----

    def plan(self, *, batch: Optional[int] = None, memory: Union[str, int, None] = None, threads: Optional[int] = None,
             micro_batch: Optional[int] = None, swap: Optional[PathLike] = None, **settings: Setting) -> Plan:
        """What training would take, before anything is trained: memory by kind, and what a budget costs.
        Arguments as those of fit. OutOfMemoryError of a budget that cannot work names the least that can."""
        with self._lock:
            pairs, _ = self._pairs_of_run({"batch": batch, **settings}, None, None, None)
            engine = _engine(memory, threads, "auto", micro_batch, swap, "off")
            engine["plan_only"] = True
            task = Task(self._network, self._named({**pairs, "data": "synthetic"}), None, engine, True)
            use = c.lib.qn_engine_get_memory(task.engine)
            budget = c.lib.qn_engine_get_budget(task.engine)
            text = c.lib.qn_engine_print_plan(task.engine, 0)
            figures = {"batch": task.facts().batch, "budget_bytes": budget.budget_bytes,
                       "peak_bytes": budget.peak_bytes or use.held_bytes + use.planned_bytes,
                       "parameter_bytes": use.parameter_bytes, "arena_bytes": use.arena_bytes,
                       "micro_batch": budget.micro_batch, "operations": budget.n_operations - budget.n_again,
                       "operations_again": budget.n_again, "swapped_bytes": budget.swapped_bytes,
                       "slowdown": max(budget.slowdown, 1.0)}
            return Plan(self._network.name, figures, dict(zip(Plan.KINDS, use.kind_bytes)),
                        text.decode() if text else "")

    # ---- files ----

    def save(self, path: PathLike, *, merge: bool = False) -> None:
        """Writes a checkpoint (safetensors): weights, settings, how samples are prepared, and after fit the
        optimiser's state; quern.Model(path), fit(resume=path) and the command take it. merge: of a model
        with adapters, the weights that they make; otherwise the adapters, and the weights beside which they
        stand unless load named their file. The file is written whole or not at all."""
        with self._lock:
            task = self._ensure()
            self._keep_network_beside(path)
            base = task.settings.items().get("load")
            if not merge and self._has_adapters() and base is not None and _BASE not in task.settings.items() \
                    and not os.path.isfile(base):
                raise c.FileError(f"{base}, which the adapters stand beside, is not there any more: the checkpoint could not be "
                                  "opened; save(..., merge=True) writes the weights with the adapters in them")
            pairs = Pairs({**task.settings.items(), "model": self._named_as or self._network.name})
            write = c.lib.qn_checkpoint_save_merged if merge else c.lib.qn_checkpoint_save
            write(task.engine, pairs.pointer, c.encode(path))

    def __getstate__(self) -> dict[str, Any]:
        """What pickle, copy.deepcopy and joblib keep: the checkpoint's bytes, and those of an ONNX file."""
        with self._lock:
            if self._weights is not None:
                self._ensure()
            state: dict[str, Any] = {"version": 1, "name": self._network.name, "task": self._network.task,
                                     "layout": self._layout, "resize": self._resize, "targets": self._targets,
                                     "pairs": dict(self._pairs), "fresh": self._is_fresh, "onnx": None, "weights": None}
            if self._network.onnx is not None:
                state["onnx"] = _bytes_of_network(self._network.name)
            if self._task is not None:
                pairs = Pairs({**self._task.settings.items(), _BASE: "inside"})
                with tempfile.TemporaryDirectory(prefix="quern-") as folder:
                    path = os.path.join(folder, "m.safetensors")
                    c.lib.qn_checkpoint_save(self._task.engine, pairs.pointer, c.encode(path))
                    state["weights"] = pathlib.Path(path).read_bytes()
            return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if state.get("version") != 1:
            raise c.FormatError("this model was pickled by another version of quern")
        self._begin(state["layout"], state["targets"], state["resize"])
        name = state["name"]
        if state["onnx"] is not None:
            self._folder = _data.Folder()
            name = os.path.join(self._folder.path, os.path.basename(name))
            pathlib.Path(name).write_bytes(state["onnx"])
        self._pairs = dict(state["pairs"])
        self._network = Network(name, state["task"] if state["onnx"] is not None else None, self._pairs)
        if state["weights"] is not None:
            with tempfile.TemporaryDirectory(prefix="quern-") as folder:
                path = os.path.join(folder, "m.safetensors")
                pathlib.Path(path).write_bytes(state["weights"])
                kept = Pairs.of_checkpoint(path).items()
                kept.pop("step", None)
                self._pairs, self._weights = {**kept, **self._pairs}, path
                self._ensure()
            self._weights = None
        self._is_fresh = bool(state["fresh"])

    def _keep_network_beside(self, path: PathLike) -> None:
        """Puts the file of a network that has no place yet beside a checkpoint, which then names it."""
        if self._folder is None or self._network.name == self._named_as:
            return
        checkpoint = os.path.expanduser(os.fspath(path))
        target = os.path.splitext(checkpoint)[0] + ".onnx"
        if os.path.exists(target) and not _is_same_file(target, self._network.name) and not _names(checkpoint, target):
            raise c.FileError(f"{target} exists, and the network of {checkpoint} would be kept there; move it, or give "
                              "Model.from_torch(..., path=FILE)")
        unfinished = f"{target}.quern-tmp"
        shutil.copyfile(self._network.name, unfinished)
        os.replace(unfinished, target)
        self._named_as = target

    def export(self, path: PathLike, *, with_preparation: bool = False, outside: bool = False,
               samples: Any = None) -> None:
        """Writes the network with its weights as ONNX, images as (N, C, H, W). Numbers go in as they are in the data,
        and amounts come out in their own units; with_preparation: it takes bytes as they are, too. outside: weights in
        a file beside, PATH.data.

        A network that was trained in int8 is written in int8. The scales of its activations follow from samples: arrays as
        predict takes them; None: the first 64 that it was trained on."""
        with self._lock:
            task = self._copy_to_apply({})
            c.lib.qn_engine_merge_adapters(task.engine)
            pairs = task.settings.items()
            options = c.OnnxExportOptions(model=self._network.pointer, engine=task.engine, is_outside=outside,
                                          source=self._network.onnx)
            kept = {key: pairs[key] for key in ("text.characters", "text.source_words", "text.target_words",
                                                "wordpiece.text", "wordpiece.source", "squad.unanswerable")
                    if key in pairs}
            preparation, sizes = c.Preparation(), task.facts().sizes
            if not self._is_classifier():
                options.sizes = ctypes.pointer(sizes)
            else:
                options.input, options.n_outputs = c.Shape.of(self._shape(pairs)), self._outputs()
                if "preparation.sample" in pairs:
                    kept["prepared"] = pairs.get("prepared", "")
                    kept |= {key: pairs[key] for key in _OF_SAMPLES if key in pairs}
                    c.lib.qn_metadata_get_preparation(task.settings.pointer, ctypes.byref(preparation))
                    options.preparation = ctypes.pointer(preparation)
                    options.with_preparation = with_preparation
            if with_preparation and not options.preparation:
                raise c.ArgumentError("with_preparation needs a network that was trained on images; only that knows "
                                      "mean and deviation")
            properties = Pairs(kept)
            options.properties = properties.pointer
            with Numerics(pairs.get("numerics")) as numerics:
                if not numerics.has_int8:
                    c.lib.qn_onnx_export(ctypes.byref(options), c.encode(path))
                    return
                with self._prepared(pairs, preparation, samples) as batch:
                    options.numerics, options.samples, options.n_samples = numerics.pointer, batch.x, batch.n_valid
                    c.lib.qn_onnx_export(ctypes.byref(options), c.encode(path))

    @contextlib.contextmanager
    def _prepared(self, pairs: Mapping[str, str], preparation: c.Preparation, samples: Any) -> Iterator[c.Batch]:
        """A batch of samples, prepared as in training: those given, or the first 64 of the training data."""
        if not self._is_classifier() or self._network.onnx is not None:
            raise c.UnsupportedError("int8 is exported of quern's own networks that classify")
        n = 64
        if samples is not None:
            array = _arrays.as_samples(samples)
            source, n = _data.open_samples({c.TRAIN: (array, None)}, self._wanted_now(), c.DataOptions()), len(array)
        elif self._task is not None and self._task.source is not None and self._task.source.n(c.TRAIN):
            source = self._task.source
        elif pairs.get("data", "memory") != "memory":
            source = _data.open_of_task(self._ensure().pointer, pairs["data"])
        else:
            raise c.ArgumentError("the scales of int8 follow from samples, and the training data are not here: give samples=x")
        loader, batch = c_void_p(), c.Batch()
        how = c.LoaderOptions(batch=n, seed=int(pairs.get("seed", "1")), pad_last=True, n_batches=1)
        c.lib.qn_loader_create(ctypes.byref(source.c), ctypes.byref(preparation), ctypes.byref(how), ctypes.byref(loader))
        try:
            c.lib.qn_loader_next(loader, ctypes.byref(batch))
            yield batch
        except c.Error:
            source.raise_own()
            raise
        finally:
            c.lib.qn_loader_destroy(loader)

    # ---- facts ----

    @property
    def name(self) -> str:
        """The model's name, or its ONNX file."""
        return self._network.name

    @property
    def task(self) -> str:
        """What it is for: "classification", "language", …"""
        return self._network.task

    @property
    def steps(self) -> int:
        """Steps that were trained since the weights began, or since fit began anew."""
        return 0 if self._task is None else int(c.lib.qn_engine_steps(self._task.engine))

    @property
    def class_names(self) -> Optional[list[str]]:
        """Names of the classes, where the data had some."""
        with self._lock:
            preparation = c.Preparation()
            task = self._ensure()
            if "preparation.sample" not in task.settings.items():
                return None
            c.lib.qn_metadata_get_preparation(task.settings.pointer, ctypes.byref(preparation))
            if not preparation.class_names:
                return None
            return [preparation.class_names[i].decode() for i in range(preparation.n_classes)]

    def __repr__(self) -> str:
        if self._task is None:
            return f"<quern.Model {self.name}, {self.task}>"
        n = sum(int(np.prod(tuple(t.shape))) for t in self._task.tensors() if t.trainable)
        return f"<quern.Model {self.name}, {self.task}, {n:,} parameters, {self.steps:,} steps>"


def _extents(extents: Any) -> str:
    """As --shape has them."""
    return extents if isinstance(extents, str) else "x".join(map(str, extents))


def _numbers(number: Any) -> str:
    """As --set has them: a number, or those of a list."""
    flat = number.ravel().tolist() if hasattr(number, "ravel") else list(number) if isinstance(number, (list, tuple)) else [number]
    return number if isinstance(number, str) else "x".join(str(one).lower() if isinstance(one, bool) else repr(one) for one in flat)


def _declared(place: c.OnnxPlace, shape: Optional[tuple[int, ...]]) -> tuple[int, ...]:
    """A sample's extents as a file declares them, without the batch. shape: what is known of those left open."""
    dims = tuple(place.dims[1:place.n_dims])
    if shape is not None and len(shape) == len(dims):
        known = (shape[2], shape[0], shape[1]) if place.is_image and len(shape) == 3 else shape
        dims = tuple(have if have >= 0 else one for have, one in zip(dims, known))
    return dims


def _bytes_of_network(path: str) -> bytes:
    """An ONNX file as a pickle holds it, in one piece."""
    found = pathlib.Path(path).read_bytes()
    if list(pathlib.Path(path).parent.glob(pathlib.Path(path).name + ".*data")) and b"location" in found:
        raise c.UnsupportedError(f"{path} has its weights in a file beside; pickle needs them inside: "
                                 "export(path, outside=False)")
    return found


def _is_same_file(one: str, other: str) -> bool:
    return filecmp.cmp(one, other, shallow=False)


def _names(checkpoint: str, network: str) -> bool:
    """Whether a checkpoint is there, and of that network."""
    try:
        name = Pairs.of_checkpoint(checkpoint).items().get("model", "")
    except c.Error:
        return False
    return os.path.basename(name) == os.path.basename(network)


def _measured(metrics: c.Metrics, n: c_int64, what: str, split: str) -> dict[str, float]:
    if n.value == 0:
        raise c.FormatError(f"{what} has no {split} samples; use split=\"train\", or a part that is held out")
    return {**metrics.values(), "samples": float(n.value)}


def _pattern(name: str) -> str:
    """A pattern that a parameter's name fits; three names mean more than themselves."""
    return name[:-1] + "?" if name in ("bias", "norm", "head") else name


class _Callbacks:
    """What is called at the ends of epochs: functions of the figures, and objects by the names of their methods."""

    def __init__(self, model: "Model", one: Any, several: Sequence[Any]) -> None:
        if callable(several) or not isinstance(several, Sequence):
            raise TypeError("callbacks is a list; callback= takes one function")
        self._model = model
        self._all = [each for each in (one, *several) if each is not None]
        for each in self._all:
            if not callable(each) and not any(hasattr(each, name) for name in (
                    "on_train_begin", "on_epoch_begin", "on_epoch_end", "on_train_end")):
                raise TypeError(f"a callback of type {type(each).__name__}: it is a function of an epoch's figures, or has "
                                "on_epoch_end(epoch, figures)")
        self._epoch = 0

    def _call(self, name: str, *given: Any) -> None:
        for each in self._all:
            method = getattr(each, name, None)
            if method is not None:
                method(*given)

    def begin(self) -> None:
        """Before the first step."""
        self._model.stop_training = False
        self._call("on_train_begin")
        self._call("on_epoch_begin", self._epoch)

    def end(self) -> None:
        """After the last."""
        self._call("on_train_end")

    def __call__(self, figures: dict[str, float]) -> bool:
        stops = False
        for each in self._all:
            if hasattr(each, "on_epoch_end"):
                each.on_epoch_end(self._epoch, dict(figures))
            elif callable(each):
                stops = bool(each(dict(figures))) or stops
            stops = stops or getattr(each, "stop_training", False) is True
        self._epoch += 1
        stops = stops or self._model.stop_training
        if not stops:
            self._call("on_epoch_begin", self._epoch)
        return stops


def _one_of(name: str, value: Any, other: str, also: Any) -> Any:
    """An argument that has two names."""
    if value is not None and also is not None:
        raise TypeError(f"{name} and {other} are the same; give one of them")
    return also if value is None else value


def _pair(data: Any, y: Any) -> Any:
    """Samples and labels in two arguments as the pair that they are in one."""
    if y is None:
        return data
    if data is None or _data.is_named(data):
        raise TypeError("labels without samples" if data is None else "data by name have their labels with them")
    if isinstance(y, str):
        data = _arrays.as_frame(data)
        if not _arrays.is_frame(data):
            raise TypeError(f"y={y!r} names a column, and the data are no table of pandas or polars")
        return _arrays.split_frame(data, y)
    return data, y


def _check_own(name: str, file: PathLike) -> None:
    """Data, or whatever else somebody made, is not replaced by a checkpoint."""
    if not os.path.isfile(file) or os.path.getsize(file) == 0:
        return
    try:
        kept = Pairs.of_checkpoint(file).items()
    except c.FormatError:
        kept = {}
    if "step" not in kept and not kept.get("format", "").startswith("quern "):
        raise c.ArgumentError(f"{name}={os.fspath(file)!r}: the file is there, and is not a file of weights that quern wrote; "
                              "choose another name, or override=True replaces it")


class _Files:
    """What a run writes, and whether it tests."""

    def __init__(self, save: Optional[PathLike], save_best: Optional[PathLike], every: Optional[int],
                 no_test: bool, override: bool) -> None:
        if every is not None and save is None:
            raise TypeError("checkpoint_every needs save=")
        if save is not None and save_best is not None and os.fspath(save) == os.fspath(save_best):
            raise ValueError("save and save_best need two files")
        for name, file in (("save", save), ("save_best", save_best)):
            if file is not None and not override:
                _check_own(name, file)
        self.save, self.save_best, self.no_test = save, save_best, no_test
        self.was_saved, self.override = False, override
        self.every = 0 if every is None else every if every > 0 else -1


def _engine(memory: Union[str, int, None], threads: Optional[int], device: str, micro_batch: Optional[int],
            swap: Optional[PathLike], tune: str) -> dict[str, Any]:
    """Options of the engine."""
    if device not in ("auto", "cpu"):
        raise c.UnsupportedError(f"device={device!r}: this build runs on the processor; use auto or cpu")
    if tune not in _TUNES:
        raise ValueError(f"tune={tune!r}: it is off, quick or full")
    if threads is not None and not 0 <= threads <= 256:
        raise ValueError(f"threads={threads}: it must be a whole number from 0 to 256")
    return {"memory_budget_bytes": 0 if memory is None else _settings.size(memory), "n_threads": threads or 0,
            "micro_batch": micro_batch or 0, "swap_folder": c.encode(swap), "tune": _TUNES[tune]}


def _note_best(history: History, state: c.TrainingState) -> None:
    if state.has_best and state.best.step >= 0:
        history.best = {"metric": state.best.metric.decode(), "value": state.best.value, "step": state.best.step,
                        "split": _data.SPLITS[state.best.split]}


if Model.fit.__doc__:
    Model.fit.__doc__ += "\n        Settings, as `quern train` has them:\n\n    " + \
        _settings.describe().replace("\n", "\n    ") + "\n        "
