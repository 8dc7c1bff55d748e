"""Learning day by day inside a Python program."""
from __future__ import annotations

import ctypes
import os
import time
from ctypes import c_int, c_int64, c_void_p
from typing import Any, Callable, Optional

import numpy as np

from . import _library as c

_TURNS = ("worked", "waits", "done")


class Learner:
    """A classifier of images that learns from a drip of samples while nobody uses the device, and never gets worse.

        learner = quern.Learner("learned", "mine.safetensors", when="idle,charging,cool")
        learner.offer(pixels, 3)
        learner.run(seconds=60)

    folder keeps samples, versions and the log at every moment; its model.safetensors is the version in use.
    model: the checkpoint to begin with; None: the folder's. inbox: a folder with CLASS/FILE to watch; old:
    likewise, of images as the model was made for. when, joules, minutes, power, watts: as of `quern learn start`.
    stop() is asked before every step whether somebody wants the device; log(text) gets every row of the log.
    """

    def __init__(self, folder: "str | os.PathLike[str]", model: "str | os.PathLike[str] | None" = None, *,
                 inbox: "str | os.PathLike[str] | None" = None, old: "str | os.PathLike[str] | None" = None,
                 when: str = "idle,charging,cool", keep: int = 0, batch: int = 0, seed: int = 0, fresh: int = 0,
                 memory: int = 200 << 20, disk: int = 500 << 20, threads: int = 0, joules: float = 0,
                 minutes: float = 0, power: float = 0, watts: float = 5,
                 stop: Optional[Callable[[], bool]] = None, log: Optional[Callable[[str], Any]] = None) -> None:
        self._pointer = c_void_p()
        self._stop = c.SHOULD_STOP(lambda _user: bool(stop and stop()))
        self._said = c.SAID(lambda _user, _second, text: log(text.decode(errors="replace")) if log else None)
        options = c.LearningOptions(
            folder=c.encode(folder), model=c.encode(model) if model is not None else None,
            inbox=c.encode(inbox) if inbox is not None else None, old=c.encode(old) if old is not None else None,
            n_kept=keep, batch=batch, seed=seed, n_fresh=fresh, memory_bytes=memory, disk_bytes=disk,
            n_threads=threads, when=when.encode(), day_joules=joules, day_minutes=minutes, watts=watts,
            power_watts=power, should_stop=self._stop, said=self._said)
        c.lib.qn_learning_open(ctypes.byref(options), ctypes.byref(self._pointer))

    def _open(self) -> c_void_p:
        if not self._pointer:
            raise RuntimeError("this learner was closed")
        return self._pointer

    @property
    def input(self) -> tuple[int, ...]:
        """Shape of a sample: height, width, channels."""
        return tuple(c.lib.qn_learning_input(self._open()))

    def offer(self, pixels: Any, label: int, name: str = "") -> None:
        """Hands a sample over: bytes of the shape `input`, before any scaling, and the number of its class. It is
        stored at once and learned from in a later turn."""
        array = np.ascontiguousarray(pixels)
        if array.dtype != np.uint8 or array.size != int(np.prod(self.input)):
            raise c.ArgumentError(f"a sample of shape {array.shape} and type {array.dtype}; bytes of {self.input} "
                                  "are needed")
        c.lib.qn_learning_offer(self._open(), array.ctypes.data, label, name.encode())

    def turn(self) -> tuple[str, float]:
        """One piece of work: takes some samples, or is one training step, or one judgement. Returns "worked",
        "waits" (rules, stop or a pause are in the way) or "done" (until new samples come), and the seconds to wait
        before the next."""
        turn, rest_ns = c_int(), c_int64()
        c.lib.qn_learning_turn(self._open(), ctypes.byref(turn), ctypes.byref(rest_ns))
        return _TURNS[turn.value], rest_ns.value * 1e-9

    def run(self, seconds: Optional[float] = None) -> int:
        """Turns for so long; None: until there is nothing to do, or it may not. Returns the version in use. Ctrl-C
        ends it between two steps; nothing is lost."""
        end = None if seconds is None else time.monotonic() + seconds
        while end is None or time.monotonic() < end:
            what, rest = self.turn()
            if end is None and what != "worked":
                break
            time.sleep(rest if end is None else max(0.0, min(rest, end - time.monotonic())))
        return self.version

    @property
    def version(self) -> int:
        """The version in use, from 0."""
        return int(c.lib.qn_learning_get_facts(self._open()).version)

    @property
    def taken(self) -> int:
        """Samples that were taken so far."""
        return int(c.lib.qn_learning_get_facts(self._open()).n_taken)

    def undo(self) -> int:
        """Goes back to the version before, which it returns."""
        c.lib.qn_learning_undo(self._open())
        return self.version

    def pause(self) -> None:
        """No steps from now on, also after a restart."""
        c.lib.qn_learning_set_paused(self._open(), True)

    def resume(self) -> None:
        """Ends a pause."""
        c.lib.qn_learning_set_paused(self._open(), False)

    def close(self) -> None:
        """Gives the folder back to other programs."""
        if self._pointer:
            c.lib.qn_learning_close(self._pointer)
            self._pointer = c_void_p()

    def __enter__(self) -> "Learner":
        return self

    def __exit__(self, *_raised: object) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_pointer", None):
            self.close()

    def __repr__(self) -> str:
        state = f"version {self.version}, {self.taken} samples taken" if self._pointer else "closed"
        return f"<quern.Learner: {state}>"
