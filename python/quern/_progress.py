"""How far a run is: a line that moves in a terminal, a bar in a notebook, a line an epoch elsewhere where
that is asked for. Nothing is shown of what takes less than half a second."""
from __future__ import annotations

import sys
import time
from typing import Any, Mapping, Optional

_FIRST_S, _EVERY_S = 0.5, 0.1


def _notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    from IPython import get_ipython  # type: ignore[import]
    shell = get_ipython()
    return shell is not None and hasattr(shell, "kernel")


def words(metrics: Mapping[str, float]) -> str:
    """Metrics in words: "loss 0.4120, accuracy 87.10 %"."""
    parts = []
    for name, value in metrics.items():
        is_part = name.endswith("accuracy") or name in ("exact_match", "f1")
        parts.append(f"{name.replace('_', ' ')} " + (f"{100 * value:.2f} %" if is_part else f"{value:.4f}"))
    return ", ".join(parts)


def duration(seconds: float) -> str:
    """"12 s", "3:05 min", "1:02 h"."""
    whole = int(seconds + 0.5)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60}:{whole % 60:02} min"
    return f"{whole // 3600}:{whole // 60 % 60:02} h"


class Progress:
    """Shown where verbose is None and there is a terminal or a notebook, or always where it is True."""

    def __init__(self, verbose: Optional[bool]) -> None:
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        is_notebook = _notebook()
        self.kind = ("none" if verbose is False else "notebook" if is_notebook else "terminal" if is_terminal
                     else "lines" if verbose else "none")
        self._begin = self._shown = time.monotonic()
        self._first_step: Optional[int] = None
        self._display: Any = None
        self._lines: list[str] = []
        self._moves = ""

    def _draw(self, text: str, part: float) -> None:
        self._shown = time.monotonic()
        self._moves = text
        if self.kind == "terminal":
            sys.stderr.write("\r\x1b[K" + text)
            sys.stderr.flush()
        elif self.kind == "notebook":
            self._show_html(part)

    def _show_html(self, part: float) -> None:
        from html import escape

        from IPython.display import HTML, display  # type: ignore[import]
        done = "".join(f"<div>{escape(line)}</div>" for line in self._lines)
        bar = (f'<div><progress value="{part:.4f}" max="1" style="width:20em;vertical-align:middle"></progress> '
               f"{escape(self._moves)}</div>") if self._moves else ""
        page = HTML(f'<div style="font-family:monospace;white-space:pre-wrap">{done}{bar}</div>')
        if self._display is None:
            self._display = display(page, display_id=True)
        else:
            self._display.update(page)

    def _is_due(self) -> bool:
        now = time.monotonic()
        return self.kind in ("terminal", "notebook") and now - self._begin > _FIRST_S and \
            now - self._shown > _EVERY_S

    def preparing(self, what: str, done: int, n: int) -> None:
        """Work before training: done of n."""
        if done < n and self._is_due():
            self._draw(f"{what}: {done:,} of {n:,}", done / max(n, 1))

    def step(self, step: int, total: int, loss: float) -> None:
        """A step of training is done."""
        if self._first_step is None:
            self._first_step, self._begin_steps = step - 1, time.monotonic()
        if not self._is_due():
            return
        seconds = time.monotonic() - self._begin_steps
        left = seconds / (step - self._first_step) * (total - step)
        self._draw(f"step {step:,} of {total:,}, loss {loss:.4f}, {duration(left)} left", step / max(total, 1))

    def line(self, text: str) -> None:
        """A line that stays."""
        if self.kind == "terminal":
            sys.stderr.write("\r\x1b[K" + text + "\n")
        elif self.kind == "lines":
            print(text, file=sys.stderr, flush=True)
        elif self.kind == "notebook":
            self._lines.append(text)
            self._show_html(0)

    def end(self) -> None:
        """Takes away what moves."""
        if self.kind == "terminal" and self._moves:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
        self._moves = ""
        if self.kind == "notebook" and self._display is not None:
            self._show_html(1)
