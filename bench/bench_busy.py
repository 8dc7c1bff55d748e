#!/usr/bin/env python3
"""Training while busy programs come and go: --cores auto beside every number of threads, one operation after another.

    bench/bench_busy.py [--batch N] [--seconds S] [MODEL...]

A run of each way has three phases of S seconds: alone, beside two programs that never rest, alone again. A line has the median step of
each phase by way, without its first steps; then how much longer steps of auto took than those of the best fixed way of that phase, the
steps until four of five were within 10 % of its median of the phase, and whether the weights of all ways are the same bits."""
import argparse
import hashlib
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("QUERN_RUNS", "none")  # runs of a bench are not kept

QUERN = pathlib.Path(__file__).parent.parent / "build" / "release" / "quern"
PHASES, HOGS, FIRST, WINDOW = 3, 2, 5, 5


class Hogs:
    """Programs that never rest."""

    def __init__(self):
        self.programs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(HOGS)]

    def end(self):
        for program in self.programs:
            program.kill()
            program.wait()


def read_steps(lines, seconds):
    """Milliseconds of steps by phase; hogs come with the second and go with the third."""
    phases, hogs, last, begin = [[] for _ in range(PHASES)], None, None, None
    for line in lines:
        now = time.monotonic()
        if json.loads(line)["event"] != "step":
            continue
        begin = begin or now
        phase = min(PHASES - 1, int((now - begin) / seconds))
        if phase == 1 and not hogs:
            hogs = Hogs()
        if phase == 2 and hogs:
            hogs.end()
            hogs = None
        if last:
            phases[phase].append(1000 * (now - last))
        last = now
    return phases


def train(model, batch, steps, seconds, options):
    with tempfile.TemporaryDirectory() as folder:
        command = [QUERN, "train", model, "--data", "synthetic", "--batch", str(batch), "--steps", str(steps), "--no-test", "--json",
                   "--save", "w", *options]
        with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True,
                              env=dict(os.environ, XDG_CACHE_HOME=folder)) as run:
            phases = read_steps(run.stdout, seconds)
        return phases, hashlib.sha256((pathlib.Path(folder) / "w").read_bytes()).hexdigest()


def count_until_settled(steps, median):
    for i in range(len(steps) - WINDOW):
        if sum(abs(ms / median - 1) < 0.1 for ms in steps[i:i + WINDOW]) >= WINDOW - 1:
            return i
    return len(steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=["googlenet", "char-lstm"])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=4)
    a = parser.parse_args()
    widths = range(1, len(os.sched_getaffinity(0)) + 1)
    ways = {"auto": ["--cores", "auto"]} | {str(width): ["--threads", str(width)] for width in reversed(widths)}
    for model in a.models:
        few, _ = train(model, a.batch, 20, 1e9, [])
        steps = int(2.2 * a.seconds * 1000 / statistics.median(few[0]))
        runs = {way: train(model, a.batch, steps, a.seconds, options) for way, options in ways.items()}
        bits = len({digest for _, digest in runs.values()}) == 1
        for phase in range(PHASES):
            ms = {way: statistics.median(phases[phase][FIRST:]) for way, (phases, _) in runs.items()
                  if len(phases[phase]) > 2 * FIRST}
            best = min((v for k, v in ms.items() if k != "auto"), default=float("nan"))
            auto = ms.get("auto", float("nan"))
            print(f"{model:14} {a.batch:3} {('alone', 'busy', 'alone again')[phase]:12}", *(f"{k}: {v:8.3f} ms" for k, v in ms.items()),
                  f"auto over the best {auto / best:.3f}, settled after {count_until_settled(runs['auto'][0][phase], auto)} steps, "
                  f"{'same bits' if bits else 'OTHER BITS'}", flush=True)


if __name__ == "__main__":
    main()
