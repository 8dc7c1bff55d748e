"""What comes back from training and planning: numbers, and how a notebook shows them."""
from __future__ import annotations

import array
import html
import os
from typing import Any, Mapping, Optional, Sequence

import numpy as np

from . import _library as c
from . import _progress
from ._meter import Handle, Report


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = "".join(f'<th style="text-align:right">{html.escape(one)}</th>' for one in head)
    body = "".join("<tr>" + "".join(f'<td style="text-align:right">{html.escape(one)}</td>' for one in row) + "</tr>"
                   for row in rows)
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def _smooth(values: "np.ndarray[Any, Any]", most: int) -> "np.ndarray[Any, Any]":
    """Means of stretches, at most so many."""
    if len(values) <= most:
        return values
    edges = np.linspace(0, len(values), most + 1).astype(int)
    return np.asarray(np.add.reduceat(values, edges[:-1]) / np.diff(edges))


def _picture(losses: "np.ndarray[Any, Any]") -> str:
    """The training loss over steps as an SVG."""
    width, height, left, top, bottom = 480, 180, 52, 12, 28
    points = _smooth(losses, 200)
    low, high = float(points.min()), float(points.max())
    span = (high - low) or 1.0
    line = " ".join(
        f"{left + (width - left - 8) * i / max(len(points) - 1, 1):.1f},"
        f"{top + (height - top - bottom) * (1 - (v - low) / span):.1f}" for i, v in enumerate(points))
    base = height - bottom
    return (f'<svg viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img" '
            f'aria-label="training loss over steps" font-family="sans-serif" font-size="11" fill="currentColor">'
            f'<path d="M{left} {top}V{base}H{width - 8}" fill="none" stroke="currentColor" stroke-opacity=".4"/>'
            f'<polyline points="{line}" fill="none" stroke="#2a78b8" stroke-width="1.5"/>'
            f'<text x="{left - 6}" y="{top + 8}" text-anchor="end">{high:.3g}</text>'
            f'<text x="{left - 6}" y="{base}" text-anchor="end">{low:.3g}</text>'
            f'<text x="{left}" y="{height - 10}">1</text>'
            f'<text x="{width - 8}" y="{height - 10}" text-anchor="end">{len(losses):,} steps</text>'
            f'<text x="{(left + width) / 2}" y="{height - 10}" text-anchor="middle">training loss</text></svg>')


class History:
    """What a run of fit did. A notebook shows it as a table and the curve of the loss.

    It holds the network's memory as it was trained in, as long as it lives, since report() reads it.
    """

    def __init__(self) -> None:
        self.epochs: list[dict[str, float]] = []
        """Of each epoch: epoch, step, loss and other metrics of training (their means over its steps),
        the same with test_ and validation_ before, seconds, samples_per_second."""
        self.seconds: float = 0.0
        """Time of the whole run, measuring and saving included."""
        self.first_step: int = 0
        """Steps that were done before this run: of a run that was resumed."""
        self.stopped_early: bool = False
        """Whether early_stop ended the run."""
        self.best: Optional[dict[str, Any]] = None
        """What was measured best: metric, value, step, split; None where it was not looked for."""
        self.settings: dict[str, str] = {}
        """The settings of the run, as a checkpoint keeps them."""
        self._losses = array.array("d")
        self._handle: Optional[Handle] = None

    @property
    def losses(self) -> "np.ndarray[Any, np.dtype[np.float64]]":
        """Training loss of every step of this run."""
        return np.array(self._losses, np.float64)

    @property
    def step(self) -> int:
        """Steps done, those before this run included."""
        return self.first_step + len(self._losses)

    def _measured(self, field: str) -> float:
        try:
            return float("nan") if self._handle is None else float(getattr(self._handle.summary(), field))
        except c.ArgumentError:  # too few steps
            return float("nan")

    @property
    def joules(self) -> float:
        """Energy of the steps, by the meter; nan where nothing measures or estimates it, of a run of three
        steps or fewer, and with meter=False."""
        return self._measured("energy_mj_per_step") * len(self._losses) * 1e-3

    @property
    def milliseconds_per_step(self) -> float:
        """Median time of a step, by the meter; nan of a run of three steps or fewer, and with meter=False."""
        return self._measured("median_step_ms")

    def report(self, path: "str | os.PathLike[str] | None" = None, format: Optional[str] = None) -> Optional[Report]:
        """Where time, bytes and energy of the run went, down to the single operation: HTML, JSON, CSV or a
        trace for Perfetto, by format or by the path's ending. Returns the page where it is HTML; without
        a path it is only returned. The run must have been metered, which is so unless meter=False."""
        if self._handle is None:
            raise RuntimeError("this run was not metered: fit(..., meter=True)")
        return self._handle.write(path, format)

    def plot(self, names: Optional[Sequence[str]] = None, *, ax: Any = None) -> Any:
        """Curves over epochs by matplotlib: those named, or all losses and accuracies, these against an axis at the right.
        Returns matplotlib's axes, of the losses where there are two. A run without epochs shows the loss of every step."""
        try:
            import matplotlib.pyplot as plt  # type: ignore[import]
        except ImportError:
            raise ImportError("plot() draws with matplotlib, which is not installed; losses and epochs hold the "
                              "numbers, and notebooks show a history as it is") from None
        if ax is None:
            ax = plt.figure(layout="constrained").add_subplot()
        known = [name for epoch in self.epochs[-1:] for name in epoch if name.endswith(("loss", "accuracy"))]
        wrong = [name for name in names or () if not any(name in epoch for epoch in self.epochs)]
        if wrong:
            raise ValueError(f"there is no {wrong[0]!r} in this history; there are {', '.join(known) or 'no epochs'}")
        if not self.epochs:
            ax.plot(np.arange(len(self._losses)) + self.first_step + 1, self.losses, label="loss")
            ax.set_xlabel("step")
            ax.set_ylabel("loss")
            return ax
        self._draw(ax, list(names) if names is not None else known)
        return ax

    def _draw(self, ax: Any, names: Sequence[str]) -> None:
        """Curves over epochs; accuracies beside others have an axis of their own."""
        parts = [name for name in names if name.endswith("accuracy")]
        right = ax.twinx() if parts and len(parts) < len(names) else ax
        for i, name in enumerate(names):
            there = [epoch for epoch in self.epochs if name in epoch]
            where, line = (right, "--") if name in parts else (ax, "-")
            where.plot([epoch["epoch"] for epoch in there], [epoch[name] for epoch in there], line, color=f"C{i}", marker=".",
                       label=name.replace("_", " "))
        ax.set_xlabel("epoch")
        ax.xaxis.get_major_locator().set_params(integer=True)
        ax.set_ylabel("accuracy" if right is ax and parts else "loss")
        if right is not ax:
            right.set_ylabel("accuracy")
        lines = [line for one in dict.fromkeys((ax, right)) for line in one.get_lines()]
        ax.legend(lines, [line.get_label() for line in lines])

    def __getstate__(self) -> dict[str, Any]:
        """Without what report() reads: the meter's memory stays where it is."""
        return {**self.__dict__, "_handle": None}

    def __repr__(self) -> str:
        last = {k: v for k, v in (self.epochs[-1] if self.epochs else {}).items()
                if k not in ("epoch", "step", "seconds", "samples_per_second")}
        return f"<quern.History: {len(self.epochs)} epochs, {self.step:,} steps" + \
            (f", {_progress.words(last)}>" if last else ">")

    def _repr_html_(self) -> str:
        head = list(self.epochs[-1]) if self.epochs else []
        rows = [[_cell(name, epoch.get(name)) for name in head] for epoch in self.epochs[-20:]]
        picture = _picture(self.losses) if len(self._losses) > 1 else ""
        return f"<div>{_table([n.replace('_', ' ') for n in head], rows)}{picture}</div>"


def _cell(name: str, value: Optional[float]) -> str:
    if value is None:
        return ""
    if name in ("epoch", "step"):
        return f"{int(value):,}"
    if name.endswith("accuracy"):
        return f"{100 * value:.2f} %"
    return f"{value:,.0f}" if name == "samples_per_second" else f"{value:.4g}"


def _bytes(n: int) -> str:
    value, unit = float(n), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if value < 1000 or unit == "TiB":
            break
        value /= 1024
    return f"{value:.0f} {unit}" if unit == "bytes" or value >= 99.95 else f"{value:.3g} {unit}"


class Plan:
    """What training would take, before anything is trained. A notebook shows it as a table."""

    KINDS = ("input", "label", "parameter", "gradient", "state", "feature map", "workspace")

    def __init__(self, model: str, figures: Mapping[str, Any], kinds: Mapping[str, int], text: str) -> None:
        self.model: str = model
        """The model's name."""
        self.batch: int = figures["batch"]
        """Samples of a batch."""
        self.budget_bytes: int = figures["budget_bytes"]
        """The memory budget; 0: none."""
        self.peak_bytes: int = figures["peak_bytes"]
        """All memory that the network would hold in training, with a budget also what is beside it."""
        self.parameter_bytes: int = figures["parameter_bytes"]
        """Parameters and optimiser state."""
        self.arena_bytes: int = figures["arena_bytes"]
        """Values of a step, packed by their lifetimes."""
        self.micro_batch: int = figures["micro_batch"]
        """Samples that are worked on at a time; 0: the whole batch."""
        self.operations: int = figures["operations"]
        """Operations of a step, those that run again not counted; 0: without a budget it is not known."""
        self.operations_again: int = figures["operations_again"]
        """Of them those that run a second time, so that less memory is needed."""
        self.swapped_bytes: int = figures["swapped_bytes"]
        """Bytes that go to a file and come back in a step."""
        self.slowdown: float = figures["slowdown"]
        """Estimated time of a step over that without a budget, at least 1."""
        self.kind_bytes: dict[str, int] = dict(kinds)
        """Bytes at the peak by kind of value: input, label, parameter, gradient, state, feature map,
        workspace."""
        self.text: str = text
        """The steps of the plan, a line each."""

    def _rows(self) -> list[tuple[str, str]]:
        rows = [("peak memory", _bytes(self.peak_bytes))]
        if self.budget_bytes:
            rows.append(("budget", _bytes(self.budget_bytes)))
        rows += [("parameters and optimiser state", _bytes(self.parameter_bytes)),
                 ("values of a step", _bytes(self.arena_bytes))]
        rows += [(f"at the peak: {kind}s", _bytes(n)) for kind, n in self.kind_bytes.items() if n]
        if self.micro_batch:
            rows.append(("samples at a time", str(self.micro_batch)))
        if self.swapped_bytes:
            rows.append(("swapped in a step", _bytes(self.swapped_bytes)))
        if self.operations_again:
            rows.append(("operations that run again", f"{self.operations_again} of {self.operations}"))
        if self.slowdown > 1:
            rows.append(("time of a step", f"{self.slowdown:.2f} times"))
        return rows

    def __repr__(self) -> str:
        return f"<quern.Plan: {self.model}, batch {self.batch}, " + \
            ", ".join(f"{name} {value}" for name, value in self._rows()) + ">"

    def _repr_html_(self) -> str:
        return _table([f"{self.model}, batch {self.batch}", ""], self._rows())
