"""Joules and milliseconds of Python code, and of training, by the library's meter."""
from __future__ import annotations

import ctypes
import html
import os
import pathlib
import tempfile
import time
from ctypes import c_void_p
from typing import Any, Optional

from . import _library as c

_FORMATS = {"csv": 0, "trace": 1, "html": 2, "json": 3}


class Report:
    """A page of the meter; a notebook shows it."""

    def __init__(self, page: str) -> None:
        self.html: str = page
        """The whole page, which needs nothing else."""

    def save(self, path: "str | os.PathLike[str]") -> None:
        """Writes the page to a file."""
        pathlib.Path(path).expanduser().write_text(self.html)

    def __repr__(self) -> str:
        return f"<quern.Report of {len(self.html):,} bytes; save(path) writes it>"

    def _repr_html_(self) -> str:
        return (f'<iframe srcdoc="{html.escape(self.html, quote=True)}" '
                'style="width:100%;height:40em;border:1px solid #ccc"></iframe>')


class Handle:
    """A meter of the library, stopped and destroyed with this. kept: what it measures."""

    def __init__(self, title: str, engine: Optional[int], kept: Any, samples_per_step: float = 0,
                 skip_steps: int = -1) -> None:
        self.kept = kept
        self.pointer = c_void_p()
        options = c.MeterOptions(engine=engine, title=title.encode(), log=ctypes.pointer(c.log),
                                 samples_per_step=samples_per_step, skip_steps=skip_steps)
        c.lib.qn_meter_start(ctypes.byref(options), ctypes.byref(self.pointer))

    def stop(self) -> None:
        """Ends measuring."""
        c.lib.qn_meter_stop(self.pointer)

    def summary(self) -> c.MeterSummary:
        """The figures, after stop; fails where no step was measured."""
        summary = c.MeterSummary()
        c.lib.qn_meter_report(self.pointer, ctypes.byref(summary))
        return summary

    def write(self, path: "str | os.PathLike[str] | None", kind: Optional[str]) -> Optional[Report]:
        """Writes a report, by the file's ending where no kind is said; the page itself is returned."""
        ending = pathlib.Path(path).suffix[1:] if path is not None else "html"
        kind = kind or ending
        if kind not in _FORMATS:
            raise ValueError(f"a report is {', '.join(_FORMATS)}, not {kind!r}; say which with format=")
        if path is not None:
            c.lib.qn_meter_write(self.pointer, _FORMATS[kind], c.encode(path))
        return self.page() if kind == "html" else None

    def page(self) -> Report:
        """The page."""
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder) / "report.html"
            c.lib.qn_meter_write(self.pointer, _FORMATS["html"], c.encode(target))
            return Report(target.read_text())

    def __del__(self) -> None:
        if self.pointer:
            c.lib.qn_meter_destroy(self.pointer)
            self.pointer = c_void_p()


class Meter:
    """Measures the time and the energy of Python code.

        with quern.Meter() as meter:
            work()
        print(meter.joules, meter.milliseconds)

    Energy is that of the whole device, or of what of it has a sensor (RAPL, a Jetson's rails, a
    battery), and where there is none an estimate, of which is_estimated says so; `quern devices` on
    the command line lists what there is. mark() in between tells steps apart in the report.
    """

    def __init__(self, title: str = "Python code") -> None:
        self._title = title
        self._handle: Optional[Handle] = None
        self._summary: Optional[c.MeterSummary] = None
        self._begin = self._end = 0

    def __enter__(self) -> "Meter":
        self._summary = None
        self._handle = Handle(self._title, None, None, skip_steps=0)
        self._begin = time.perf_counter_ns()
        return self

    def __exit__(self, *_raised: object) -> None:
        assert self._handle is not None
        self.mark()
        self._end = time.perf_counter_ns()
        self._handle.stop()
        self._summary = self._handle.summary()

    def mark(self) -> None:
        """Ends a step; the next begins."""
        if self._handle is not None:
            c.lib.qn_meter_mark(self._handle.pointer)

    def _measured(self) -> c.MeterSummary:
        if self._summary is None:
            raise RuntimeError("nothing was measured yet: use it as `with quern.Meter() as meter:` and read it "
                               "after the block")
        return self._summary

    @property
    def milliseconds(self) -> float:
        """Wall time of the block."""
        self._measured()
        return (self._end - self._begin) * 1e-6

    @property
    def joules(self) -> float:
        """Energy of the block; nan where nothing measures or estimates it."""
        summary = self._measured()
        return float(summary.energy_mj_per_step * summary.steps * 1e-3)

    @property
    def watts(self) -> float:
        """Mean power of the block."""
        return self.joules / (self.milliseconds * 1e-3)

    @property
    def is_estimated(self) -> bool:
        """Whether the energy comes from a model of the processor, not from a sensor."""
        return bool(self._measured().energy_is_estimated)

    @property
    def steps(self) -> int:
        """Stretches that mark() and the end of the block have told apart."""
        return int(self._measured().steps)

    def report(self, path: "str | os.PathLike[str] | None" = None, format: Optional[str] = None) -> Optional[Report]:
        """Writes what was measured to a file: HTML, JSON, CSV or a trace for Perfetto, by format or by the
        path's ending. Returns the page where it is HTML; without a path it is only returned."""
        self._measured()
        assert self._handle is not None
        return self._handle.write(path, format)

    def __repr__(self) -> str:
        if self._summary is None:
            return "<quern.Meter, nothing measured yet>"
        about = "about " if self.is_estimated else ""
        return f"<quern.Meter: {self.milliseconds:.1f} ms, {about}{self.joules:.3f} J>"

    def _repr_html_(self) -> str:
        return f"<code>{html.escape(repr(self))}</code>"
