"""Settings of a run: what quern train takes as options, by the same names with underscores. The list
(settings.jsonl) is printed by the command when the package is built, so it is never another one."""
from __future__ import annotations

import difflib
import json
import math
import os
import pathlib
import re
from collections.abc import Iterable
from typing import Any, Mapping, Union

Setting = Union[str, int, float, bool, os.PathLike, None]

_PATH = pathlib.Path(__file__).with_name("settings.jsonl")
ROWS: dict[str, dict[str, Any]] = {
    row["name"].replace("-", "_"): row for row in map(json.loads, _PATH.read_text().splitlines())}

_LETTERS = "KMGT"


def size(value: str | int | float, name: str = "memory") -> int:
    """Bytes of a size as 300M or 1.5G (units of 1024), or of a number of bytes."""
    if isinstance(value, str):
        found = re.fullmatch(r"(\d+(?:\.\d*)?)([KMGT]?)(?:i?B)?", value.strip(), re.I)
        if found:
            power = _LETTERS.find(found.group(2).upper()) + 1 if found.group(2) else 0
            value = float(found.group(1)) * 1024 ** power
    if isinstance(value, str) or not value >= 1:
        raise ValueError(f"{name}={value!r}: it must be a size as 300M or 1.5G, or a number of bytes")
    return int(value)


def _number(row: Mapping[str, Any], name: str, value: Any) -> str:
    is_count = row["kind"] == "count"
    try:
        number: float = int(value) if is_count and not isinstance(value, float) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not row["least"] <= number <= row["most"] or (is_count and number != int(number)):
        what = "a whole number" if is_count else "a number"
        end = f" to {row['most']:g}" if row["most"] < 1e15 else ""
        raise ValueError(f"{name}={value!r}: it must be {what} from {row['least']:g}{end}")
    return str(int(number)) if is_count else repr(number)


def _choice(row: Mapping[str, Any], name: str, value: Any) -> str:
    if value not in row["argument"].split("|"):
        raise ValueError(f"{name}={value!r}: it must be one of {row['argument'].replace('|', ', ')}")
    return str(value)


def _list(row: Mapping[str, Any], name: str, value: Any) -> str:
    known = row["argument"].split(",")
    wanted = value.split(",") if isinstance(value, str) else list(value)
    if wanted in (["none"], []):
        return "none"
    if any(one not in known for one in wanted):
        raise ValueError(f"{name}={value!r}: there is {', '.join(known)} and none")
    return ",".join(one for one in known if one in wanted)


def shape(value: Any, name: str = "input") -> str:
    """A shape as 28x28x1 from that, from a tuple, or from the side of square colour images."""
    if isinstance(value, int):
        value = (value, value, 3)
    text = value if isinstance(value, str) else "x".join(str(int(extent)) for extent in value)
    if re.fullmatch(r"\d+", text) and isinstance(value, str):
        text = f"{text}x{text}x3"
    if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*)*", text):
        raise ValueError(f"{name}={value!r}: it must be a shape as 32x32x3, or a side as 224")
    return text


def _head(name: str, value: Any) -> str:
    text = str(value)
    found = re.fullmatch(r"(?:([^,=]+)=)?(\d+|data)", text) or re.fullmatch(r"()(\d+|data),(.+)", text)
    if found:
        layer = found.group(1) or (found.group(3) if found.re.groups > 2 else "")
        return found.group(2) + ("," + layer if layer else "")
    if not text or "=" in text:
        raise ValueError(f"{name}={value!r}: it must be N, NAME or NAME=N")
    return "data," + text


def _lora(name: str, value: Any) -> str:
    parts: dict[str, Any] = dict(value) if isinstance(value, Mapping) else {}
    if not isinstance(value, Mapping):
        for found in re.finditer(r"(rank|alpha)=([^,]+)|(layers)=((?:(?!,(?:rank|alpha)=).)+)", str(value)):
            parts[found.group(1) or found.group(3)] = found.group(2) or found.group(4)
    try:
        rank, alpha = int(parts["rank"]), float(parts.get("alpha") or parts["rank"])
    except (KeyError, ValueError):
        rank = 0
    if rank < 1 or not parts.get("layers"):
        raise ValueError(f"{name}={value!r}: it must be rank=N,layers=PATTERN, with alpha=X or without")
    return f"rank={rank},alpha={alpha!r},layers={parts['layers']}"


def _rules(value: Any) -> str:
    return "built-in" if value == "built-in" else pathlib.Path(value).expanduser().read_text()


def _text_of(name: str, value: Any) -> str:
    row = ROWS[name]
    kind = row["kind"]
    if kind in ("count", "number"):
        return _number(row, name, value)
    if kind == "flag":
        return "yes" if value in (True, "yes") else "no"
    if kind == "choice":
        return _choice(row, name, value)
    if kind == "list":
        return _list(row, name, value)
    if kind == "shape":
        return shape(value, name)
    if kind == "head":
        return _head(name, value)
    if kind == "lora":
        return _lora(name, value)
    if kind == "rules":
        return _rules(value)
    if kind == "numerics" and str(value).endswith(".json"):
        return pathlib.Path(value).expanduser().read_text()
    if kind == "parts" and not isinstance(value, str):
        return ",".join(value)
    return str(os.fspath(value)) if isinstance(value, os.PathLike) else str(value)


# Keywords of other libraries, and what they are called here.
FOREIGN: dict[str, str] = {
    **dict.fromkeys(("max_epochs", "num_epochs", "n_epochs", "nb_epoch", "num_train_epochs", "max_iter"), "epochs=N"),
    **dict.fromkeys(("max_steps", "num_steps", "steps_per_epoch", "limit_train_batches"), "steps=N, of the whole run"),
    **dict.fromkeys(("bs", "train_batch_size", "per_device_train_batch_size"), "batch=N"),
    **dict.fromkeys(("learning_rate_init", "eta", "base_lr"), "lr=X"),
    **dict.fromkeys(("optim", "solver"), 'optimizer="sgd" or "adam"'),
    **dict.fromkeys(("decay", "wd", "l2", "alpha", "reg_lambda"), "weight_decay=X"),
    **dict.fromkeys(("lr_scheduler", "scheduler"), 'schedule="constant", "step" or "cosine"'),
    **dict.fromkeys(("gradient_clip_val", "clipnorm", "max_grad_norm", "clip_grad_norm", "global_clipnorm"), "clip_norm=X"),
    **dict.fromkeys(("accumulate_grad_batches", "gradient_accumulation_steps"), "accumulate=N"),
    **dict.fromkeys(("patience", "early_stopping", "n_iter_no_change", "early_stopping_rounds"), "early_stop=N, in epochs"),
    **dict.fromkeys(("validation_split", "validation_fraction", "val_split"), "validation=0.1"),
    **dict.fromkeys(("eval_set", "eval_data", "val_data", "val_dataloaders", "eval_dataset", "valid_data"),
                    "validation=(x, y)"),
    **dict.fromkeys(("test_data", "test_size", "test_split"), "test=(x, y), or holdout=0.1 of named data"),
    **dict.fromkeys(("train_data", "train_dataset", "train_dataloaders", "datamodule", "dataset"), "data, the first argument"),
    **dict.fromkeys(("random_state", "random_seed", "rng"), "seed=N"),
    **dict.fromkeys(("n_jobs", "num_workers", "workers", "num_threads", "n_threads"), "threads=N"),
    **dict.fromkeys(("accelerator", "gpu", "gpus", "cuda"), 'device="auto"'),
    **dict.fromkeys(("precision", "dtype", "mixed_precision", "amp", "fp16", "bf16"), 'numerics="bf16" or "fp16"'),
    **dict.fromkeys(("class_weight", "scale_pos_weight"), 'class_weights="balanced", or a list'),
    **dict.fromkeys(("ckpt_path", "resume_from_checkpoint", "initial_epoch"), "resume=FILE"),
    **dict.fromkeys(("checkpoint_path", "default_root_dir", "output_dir", "save_dir"), "save=FILE"),
    **dict.fromkeys(("checkpoint", "init_from", "pretrained_weights"), "load=FILE"),
    **dict.fromkeys(("num_classes", "n_classes", "num_labels", "n_outputs"), "classes=N, of quern.Model"),
    **dict.fromkeys(("input_shape", "input_size", "in_shape", "img_size"), "input=(H, W, C), of quern.Model"),
    **dict.fromkeys(("data_format", "channels_first"), 'layout="nchw", of quern.Model'),
    **dict.fromkeys(("objective", "task_type"), 'targets="classes" or "numbers", of quern.Model'),
    "criterion": 'loss=..., of networks on arrays by name; classes train by cross entropy, numbers by squared error',
    "metrics": "nothing: loss and accuracy are always measured",
    "sample_weight": "nothing: samples count alike; class_weights= weighs classes",
    "pretrained": "load=FILE, of fit", "weights": "load=FILE, of fit, or the file in place of the model's name",
    "shuffle_buffer": "shuffle=True", "progress": "verbose=True", "verbosity": "verbose=True", "silent": "verbose=False",
    "log_dir": "report() of the history", "logger": "callbacks=[...]", "callbacks_list": "callbacks=[...]",
}


def hint(name: str, known: Iterable[str]) -> str:
    """What a keyword that there is not may have meant, as the end of a sentence."""
    if name in FOREIGN:
        return f"; here it is {FOREIGN[name]}"
    near = difflib.get_close_matches(name, list(known), 1)
    return f"; did you mean {near[0]}?" if near else ""


def refuse_foreign(where: str, foreign: Mapping[str, Any], known: Iterable[str]) -> None:
    """TypeError of the first keyword that a function does not have, with what it is called here."""
    for name in foreign:
        raise TypeError(f"{where} has no argument {name!r}{hint(name, known)}")


def texts(given: Mapping[str, Setting], task: str) -> dict[str, str]:
    """Settings as the library keeps them: names with dashes, values as text. None is not given.
    TypeError of a name that is none, or of another task; ValueError of a value out of range."""
    found: dict[str, str] = {}
    for name, value in given.items():
        if value is None:
            continue
        if name not in ROWS:
            raise TypeError(f"there is no setting {name!r}" + hint(name, [*ROWS, "batch_size", "learning_rate",
                                                                           "validation_data", "callbacks"]))
        of = ROWS[name].get("of")
        if of and task not in of.split():
            raise TypeError(f"{name} is only for tasks of: {of}; the task of this model is {task}")
        found[ROWS[name]["name"]] = _text_of(name, value)
    return found


def describe() -> str:
    """The list for help(), a line or two for each setting."""
    lines = []
    for name, row in ROWS.items():
        usual = row.get("default")
        of = f" [{row['of']}]" if row.get("of") else ""
        lines.append(f"    {name}: {row['help']}" + (f" (default: {usual})" if usual else "") + of)
    return "\n".join(lines)
