"""PyTorch modules as ONNX files. The caller's module is only read: a copy of it is exported in eval mode, and what the copy
makes of the example is compared with what quern makes of the file. Dropout layers (torch.nn.Dropout) stay in the file, so
that they drop in training; other kinds of dropout are left out, which is said.

Left out: hooks of the caller's, which see the example once. A module whose output they change is refused."""
from __future__ import annotations

import contextlib
import copy
import inspect
import logging
import os
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any, Optional

import numpy as np

from . import _library as c
from ._forward import Forward

Array = np.ndarray[Any, Any]

_MOST = 1e-4  # difference of outputs, relative to the largest where that is above 1
_FIRST_DYNAMO = (2, 6)


def _version(torch: Any) -> tuple[int, ...]:
    return tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2] if part.isdigit())


# ---- the copy ----


def _copy(module: Any, torch: Any) -> Any:
    """A copy of a module on the CPU in eval mode; what its attributes hold inside a gradient is copied by value."""
    module = getattr(module, "_orig_mod", module)  # of torch.compile
    memo: dict[int, Any] = {}
    for part in module.modules():
        for value in vars(part).values():
            if isinstance(value, torch.Tensor) and not value.is_leaf:
                memo[id(value)] = value.detach().clone()
    try:
        same = copy.deepcopy(module, memo)
    except Exception as problem:
        raise c.ArgumentError(f"the module cannot be copied ({problem}); its export would change it") from problem
    same = same.cpu().eval()
    if any(one.dtype in (torch.float16, torch.bfloat16) for one in same.parameters()):
        same = same.float()
    return same


def _drop_hooks(module: Any) -> bool:
    """Takes the caller's hooks off a copy, not those by which PyTorch makes weights; whether there were any."""
    had = False
    for part in module.modules():
        for kind in ("_forward_hooks", "_forward_pre_hooks", "_backward_hooks", "_backward_pre_hooks"):
            hooks = getattr(part, kind, None) or {}
            for key, hook in list(hooks.items()):
                if not (getattr(hook, "__module__", None) or type(hook).__module__).startswith("torch."):
                    del hooks[key]
                    had = True
    return had


def _switch_dropout(module: Any, torch: Any, on: bool) -> None:
    """Dropout layers drop in the export, or not."""
    for part in module.modules():
        if type(part) is torch.nn.Dropout:
            part.train(on and part.p > 0)


def _tell_of_norms(module: Any, torch: Any) -> None:
    """In eval mode these layers read statistics that they do not train by."""
    found = [name for name, part in module.named_modules()
             if isinstance(part, torch.nn.modules.instancenorm._InstanceNorm) and part.track_running_stats]
    if found:
        c.warn(f"{', '.join(found[:5])}{', ...' if len(found) > 5 else ''}: an instance norm with running statistics trains by its batch "
               "here, by each sample in PyTorch; give it track_running_stats=False")


def _tell_of_dropout(module: Any, torch: Any, kept: bool) -> None:
    lost = [name for name, part in module.named_modules()
            if isinstance(part, torch.nn.modules.dropout._DropoutNd) and part.p > 0 and
            (not kept or type(part) is not torch.nn.Dropout) or
            isinstance(getattr(part, "dropout", None), float) and part.dropout > 0]
    if lost:
        c.warn(f"dropout of {', '.join(lost[:5])}{', ...' if len(lost) > 5 else ''} is not in the network that trains: an "
               "export keeps torch.nn.Dropout alone")


# ---- inputs and outputs ----


def _put_in_order(module: Any) -> None:
    """Inputs of a copy that its forward takes by name alone may be given in order, too."""
    parameters = inspect.signature(module.forward).parameters.values()
    if not any(one.kind is one.KEYWORD_ONLY for one in parameters) or any(one.kind is one.VAR_POSITIONAL for one in parameters):
        return
    names = [one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
    given = [f"{one.name}={one.name}" if one.kind is one.KEYWORD_ONLY else one.name for one in parameters if one.kind is not one.VAR_KEYWORD]
    module.forward = eval(f"lambda {', '.join(names)}: inner({', '.join(given)})", {"inner": module.forward})


def _arguments(module: Any, example: Any, torch: Any) -> tuple[Any, ...]:
    """The example as positional arguments: a tensor, several, or a dictionary by the names of forward's."""
    if isinstance(example, dict):
        bound = inspect.signature(module.forward).bind(**example)
        bound.apply_defaults()
        taken = inspect.signature(module.forward).parameters.values()
        if any(one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL) for one in taken) and bound.kwargs:
            raise c.ArgumentError(f"forward takes {', '.join(bound.kwargs)} by names that it does not list; give the module a "
                                  "forward that lists its inputs")
        example = (*bound.args, *bound.kwargs.values())
    arguments = tuple(example) if isinstance(example, (tuple, list)) else (example,)

    def plain(one: Any) -> Any:
        if not isinstance(one, torch.Tensor):
            return one
        one = one.detach().cpu().clone()
        return one.float() if one.dtype in (torch.float16, torch.bfloat16) else one

    return tuple(_map(plain, one) for one in arguments)


def _map(work: Any, value: Any) -> Any:
    """work of all leaves of tuples, lists and dictionaries."""
    if isinstance(value, dict):
        return type(value)({key: _map(work, one) for key, one in value.items()}) if type(value) is dict else \
            {key: _map(work, one) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        return tuple(_map(work, one) for one in value) if isinstance(value, tuple) else [_map(work, one) for one in value]
    return work(value)


def _tensors(value: Any, torch: Any, name: str = "") -> "list[tuple[str, Any]]":
    """All tensors of a structure, named by their places in it."""
    if isinstance(value, torch.Tensor):
        return [(name, value)]
    items: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, (tuple, list)) else ()
    return [found for key, one in items for found in _tensors(one, torch, f"{name}_{key}" if name else str(key))]


def _input_names(module: Any, arguments: tuple[Any, ...], torch: Any) -> list[str]:
    parameters = list(inspect.signature(module.forward).parameters.values())
    found: list[str] = []
    for i, one in enumerate(arguments):
        is_named = i < len(parameters) and parameters[i].kind is not inspect.Parameter.VAR_POSITIONAL
        found += [name for name, _ in _tensors(one, torch, parameters[i].name if is_named else f"input_{i}")]
    if not found:
        raise c.ArgumentError("the example holds no tensor")
    if len(found) == 1:
        return ["input"]
    taken = {name.split(".")[0] for name, _ in [*module.named_parameters(), *module.named_buffers()]}
    return [f"{name}_input" if name in taken else name for name in found]


def _output_names(outputs: Any, torch: Any, inputs: list[str]) -> list[str]:
    names = [name for name, _ in _tensors(outputs, torch)]
    if len(names) == 1:
        return ["output"]
    return [f"output_{name}" if name.isdigit() or name in inputs else name for name in names]


def _to_numpy(value: Any, torch: Any) -> list[Array]:
    return [tensor.detach().numpy() for _, tensor in _tensors(value, torch)]


def _run(module: Any, arguments: tuple[Any, ...], torch: Any) -> Any:
    """Outputs of a module for copies of the arguments."""
    with torch.no_grad():
        return module(*_map(lambda one: one.clone() if isinstance(one, torch.Tensor) else one, arguments))


# ---- exporting ----


@contextlib.contextmanager
def _apart(torch: Any) -> Iterator[None]:
    """Nothing of the caller's changes: random numbers, warnings, loggers, and the way PyTorch runs transformers, which has
    no export."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "torch.export", "onnxscript", "onnx_ir")]
    levels = [one.level for one in loggers]
    mha = getattr(torch.backends, "mha", None)
    was_fast = mha.get_fastpath_enabled() if mha is not None else None
    try:
        for one in loggers:
            one.setLevel(logging.ERROR)
        if mha is not None:
            mha.set_fastpath_enabled(False)
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for one, level in zip(loggers, levels):
            one.setLevel(level)
        if mha is not None:
            mha.set_fastpath_enabled(was_fast)


def _has_current_exporter(torch: Any) -> bool:
    if _version(torch) < _FIRST_DYNAMO or "dynamo" not in inspect.signature(torch.onnx.export).parameters:
        return False
    try:
        import onnxscript  # type: ignore[import]  # noqa: F401
    except ImportError:
        return False
    return True


def _write_current(module: Any, arguments: tuple[Any, ...], path: str, names: tuple[list[str], list[str]],
                   torch: Any) -> None:
    """By torch.export: the batch is open where the module allows it."""
    n = _batch(arguments, torch)
    auto = torch.export.Dim.AUTO

    def dims(one: Any) -> Any:
        return {0: auto} if isinstance(one, torch.Tensor) and one.ndim and len(one) == n else None

    open_batch = tuple(_map(dims, one) for one in arguments)
    more: dict[str, Any] = {"optimize": False, "external_data": False, "verbose": False, "fallback": False,
                            "input_names": names[0], "output_names": names[1]}
    known = inspect.signature(torch.onnx.export).parameters
    more = {key: value for key, value in more.items() if key in known}
    failure: Optional[Exception] = None
    for shapes in (open_batch, None):
        try:
            torch.onnx.export(module, arguments, path, dynamo=True, dynamic_shapes=shapes, **more)
            return
        except Exception as problem:  # of any kind: the exporter's own
            failure = failure or problem
    first = str(failure).strip().splitlines()
    raise c.UnsupportedError(f"PyTorch cannot export the module: {first[0] if first else type(failure).__name__}") from failure


def _write_classic(module: Any, arguments: tuple[Any, ...], path: str, names: tuple[list[str], list[str]],
                   torch: Any) -> None:
    """By tracing, of releases without the other exporter."""
    n = _batch(arguments, torch)
    given = [tensor for one in arguments for _, tensor in _tensors(one, torch)]
    axes = {name: {0: "n"} for name, tensor in zip(names[0], given) if tensor.ndim and len(tensor) == n}
    axes.update({name: {0: "n"} for name in names[1]})
    known = inspect.signature(torch.onnx.export).parameters
    more: dict[str, Any] = {"dynamo": False} if "dynamo" in known else {}
    try:
        torch.onnx.export(module, arguments, path, opset_version=14, input_names=names[0], output_names=names[1],
                          training=torch.onnx.TrainingMode.PRESERVE, do_constant_folding=False, dynamic_axes=axes, **more)
    except Exception as problem:
        first = str(problem).strip().splitlines()
        hint = "" if _version(torch) < _FIRST_DYNAMO else "; with the package onnxscript, the current exporter is used"
        raise c.UnsupportedError(f"PyTorch cannot export the module: {first[0] if first else type(problem).__name__}"
                                 f"{hint}") from problem


def _batch(arguments: tuple[Any, ...], torch: Any) -> int:
    """Samples of the example: the extent of the first tensor's first axis."""
    tensors = [tensor for one in arguments for _, tensor in _tensors(one, torch)]
    return len(tensors[0]) if tensors and tensors[0].ndim else 0


def _grown(arguments: tuple[Any, ...], torch: Any, n: int) -> tuple[Any, ...]:
    """The example with n samples, its own again and again."""
    batch = _batch(arguments, torch)

    def grow(one: Any) -> Any:
        if not isinstance(one, torch.Tensor) or not one.ndim or len(one) != batch:
            return one
        return one[torch.arange(n) % batch].clone()

    return tuple(_map(grow, one) for one in arguments)


def _write(module: Any, arguments: tuple[Any, ...], path: str, names: tuple[list[str], list[str]], torch: Any) -> None:
    write = _write_current if _has_current_exporter(torch) else _write_classic
    # An exporter takes an extent of 1 for one that is always 1.
    write(module, _grown(arguments, torch, max(2, _batch(arguments, torch))), path, names, torch)


# ---- comparing ----


def _difference(mine: list[Array], theirs: list[Array]) -> float:
    """The largest difference of outputs, relative to the largest number where that is above 1."""
    worst = 0.0
    for a, b in zip(mine, theirs):
        if a.shape != b.shape:
            return float("inf")
        a, b = a.astype(np.float64), b.astype(np.float64)
        both = np.isfinite(a) & np.isfinite(b)
        if not np.array_equal(a[~both], b[~both], equal_nan=True):
            return float("inf")
        if both.any():
            worst = max(worst, float(np.abs(a - b)[both].max() / max(1.0, np.abs(b[both]).max())))
    return worst if len(mine) == len(theirs) else float("inf")


def _computed(forward: Forward, names: list[str], arguments: tuple[Any, ...], torch: Any) -> list[Array]:
    given = dict(zip(names, _to_numpy(arguments, torch)))
    return forward.run([given[name] for name in forward.names()])


def _first_difference(module: Any, arguments: tuple[Any, ...], torch: Any) -> str:
    """The first layer whose output differs, by an export of all layers' outputs."""
    layers = [(name, part) for name, part in module.named_modules() if name and not any(part.children())]
    seen: list[tuple[str, Any]] = []

    class Probe(torch.nn.Module):  # type: ignore[misc]
        """The module with what its layers make as outputs."""

        def __init__(self) -> None:
            super().__init__()
            self.inner = module

        def forward(self, *given: Any) -> Any:
            """Outputs of the layers, in the order in which they were made."""
            seen.clear()
            self.inner(*given)
            return tuple(one.clone() for _, one in seen)

    hooks = [part.register_forward_hook(lambda _part, _given, made, name=name: seen.extend(
        (name, one) for _, one in _tensors(made, torch))) for name, part in layers]
    try:
        with tempfile.TemporaryDirectory(prefix="quern-") as folder:
            path = os.path.join(folder, "layers.onnx")
            probe = Probe().eval()
            theirs = _to_numpy(_run(probe, arguments, torch), torch)
            names = [name for name, _ in seen]
            tensors = [tensor for one in arguments for _, tensor in _tensors(one, torch)]
            inputs = [f"input_{i}" for i in range(len(tensors))]
            _write(probe, arguments, path, (inputs, [f"layer_{i}" for i in range(len(names))]), torch)
            with Forward(path) as forward:
                mine = _computed(forward, inputs, arguments, torch)
    except Exception as problem:  # the finding of a layer is only help
        return f"; the layer cannot be told ({problem})"
    finally:
        for hook in hooks:
            hook.remove()
    for name, a, b in zip(names, mine, theirs):
        if _difference([a], [b]) > _MOST:
            return f"; the first layer that differs is {name} ({type(dict(layers)[name]).__name__}), by " \
                   f"{_difference([a], [b]):.3g}"
    return f"; its layers agree: what differs is between them, in the forward of {type(module).__name__}"


def _cases(module: Any, arguments: tuple[Any, ...], forward: Forward, torch: Any) -> "list[tuple[Any, ...]]":
    """The example, and with one sample more where the file leaves the batch open and the module allows it."""
    batch = _batch(arguments, torch)
    place = forward.inputs[0]
    if place.n_dims < 1 or place.dims[0] >= 0:
        return [_grown(arguments, torch, max(2, batch))]  # as it was exported
    more = _grown(arguments, torch, batch + 1)
    try:
        _run(module, more, torch)
    except Exception:  # a module for one batch alone
        return [arguments]
    return [arguments, more]


def _check(module: Any, arguments: tuple[Any, ...], path: str, inputs: list[str], torch: Any) -> None:
    """Runs the example through module and file; raises where they differ."""
    with Forward(path) as forward:
        for case in _cases(module, arguments, forward, torch):
            worst = _difference(_computed(forward, inputs, case, torch), _to_numpy(_run(module, case, torch), torch))
            if worst > _MOST:
                raise c.UnsupportedError(f"quern computes something else than the module: outputs differ by {worst:.3g}" +
                                         _first_difference(module, case, torch))


# ---- what is called ----


def export(module: Any, example: Any, path: str) -> list[str]:
    """Writes a module as an ONNX file, and checks that quern computes the same. Returns the names of the module's
    parameters that train (requires_grad), under all names that they have."""
    import torch  # type: ignore[import]
    arguments = _arguments(module, example, torch)
    with _apart(torch):
        same = _copy(module, torch)
        if isinstance(example, dict):
            _put_in_order(same)
        outputs = _run(same, arguments, torch)
        wanted = _to_numpy(outputs, torch)
        if _drop_hooks(same) and _difference(_to_numpy(_run(same, arguments, torch), torch), wanted) > _MOST:
            raise c.UnsupportedError("hooks of the module change what it computes; an export has no hooks: put what they do "
                                     "into its forward")
        inputs = _input_names(same, arguments, torch)
        names = (inputs, _output_names(outputs, torch, inputs))
        _switch_dropout(same, torch, True)
        has_dropout = True
        try:
            _write(same, arguments, path, names, torch)
        except c.UnsupportedError:
            _switch_dropout(same, torch, False)
            has_dropout = False
            _write(same, arguments, path, names, torch)
        _switch_dropout(same, torch, False)
        _check(same, arguments, path, inputs, torch)
    _tell_of_dropout(same, torch, has_dropout)
    _tell_of_norms(same, torch)
    return [name for name, one in same.named_parameters(remove_duplicate=False) if one.requires_grad] \
        if _version(torch) >= (2, 0) else _all_names(same)


def _all_names(module: Any) -> list[str]:
    """named_parameters(remove_duplicate=False) of releases without it."""
    return [f"{prefix}.{name}" if prefix else name for prefix, part in module.named_modules(remove_duplicate=False)
            for name, one in part._parameters.items() if one is not None and one.requires_grad]
