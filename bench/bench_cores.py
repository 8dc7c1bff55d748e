#!/usr/bin/env python3
"""Training with --cores auto beside every uniform width, one operation after another: the numbers of threads that there are.

    bench/bench_cores.py [--batch N] [--seconds S] [MODEL...]
    bench/bench_cores.py --turns [--batch N] [MODEL...]

Each cell is the median of three processes, all widths by turns; a line has samples a second by width, what auto gains over the
best width and over all threads, what was predicted of a step one by one (error against its rehearsal), and the bound: how much
faster than one by one a schedule could be if all cores were always busy. The last line has the geometric means.

--turns takes a process for each cell: the widths and the schedule take turns in its first steps, and the times are medians of eight
windows each (a window is a step, or 2 ms of steps). What is kept is chosen by the same windows, so a way that is kept by chance looks
better than it is; the median of all steps is given beside them. The last number is what other programs used of a processor."""
import argparse
import json
import math
import os
import pathlib
import resource
import statistics
import subprocess
import tempfile
import time
from statistics import geometric_mean as mean

os.environ.setdefault("QUERN_RUNS", "none")  # runs of a bench are not kept

QUERN = pathlib.Path(__file__).parent.parent / "build" / "release" / "quern"
MODELS = ["squeezenet", "googlenet", "inception-v3", "xception", "mobilenet-v2", "densenet40", "resnet50", "char-lstm"]
ROUNDS = 3


def train(model, batch, steps, options):
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([QUERN, "train", model, "--data", "synthetic", "--batch", str(batch), "--steps", str(steps),
                               "--no-test", "--json", *options], cwd=folder, capture_output=True, text=True, check=True)
    events = [json.loads(line) for line in done.stdout.splitlines()]
    return {event["event"]: event for event in events}


def median_ms(run):
    return run["done"]["median_step_ms"]


def measure(model, batch, seconds):
    widths = range(1, len(os.sched_getaffinity(0)) + 1)
    ways = {width: ["--threads", str(width)] for width in widths} | {"auto": ["--cores", "auto"]}
    steps = max(60, min(2000, int(seconds * 1000 / median_ms(train(model, batch, 5, [])))))
    runs = {way: [] for way in ways}
    for _ in range(ROUNDS):
        for way, options in ways.items():
            runs[way].append(train(model, batch, steps, options))
    ms = {way: statistics.median(map(median_ms, runs[way])) for way in ways}
    cores = [run.get("cores_compared", run["cores"]) for run in runs["auto"]]
    return ms, cores


def busy_seconds():
    """Processor seconds of the machine so far, and of the processes that this one started."""
    ticks = [int(word) for word in pathlib.Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    own = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (sum(ticks) - ticks[3] - ticks[4]) / os.sysconf("SC_CLK_TCK"), own.ru_utime + own.ru_stime


def others_share(begin, end, seconds):
    """Of a processor that others used meanwhile."""
    return max(0, (end[0] - begin[0]) - (end[1] - begin[1])) / seconds


def measure_turns(model, batch):
    """Milliseconds by way, of what was kept, and of the steps behind the trial."""
    few = train(model, batch, 5, [])
    steps = 40 if median_ms(few) > 30 else max(100, min(4000, int(2000 / median_ms(few))))
    with tempfile.TemporaryDirectory() as cache:
        os.environ["XDG_CACHE_HOME"] = cache
        begin, begin_s = busy_seconds(), time.monotonic()
        run = train(model, batch, steps, ["--cores", "auto"])
        others = others_share(begin, busy_seconds(), time.monotonic() - begin_s)
    cores = run.get("cores_compared", run["cores"])
    ms = {"auto" if way["side_by_side"] else way["threads"]: way["ms"] for way in cores["ways"]}
    kept = ms["auto"] if cores["side_by_side"] and "auto" in ms else ms[cores["threads_used"]]
    return ms, kept, median_ms(run), cores, others


def print_turns(models, batch):
    rows = []
    for model in models:
        ms, kept, later, c, others = measure_turns(model, batch)
        widths = {k: v for k, v in ms.items() if k != "auto"}
        best, most = min(widths.values()), widths[max(widths)]
        predicted = c["predicted_ms"] / c["rehearsed_ms"] - 1 if c["rehearsed_ms"] else math.nan
        one = c["uncorrected_one_by_one_ms"] / c["rehearsed_one_by_one_ms"] - 1
        rows.append((best / kept, most / kept, abs(predicted), abs(one)))
        print(f"{model:14} {batch:3}", *(f"{'side by side' if k == 'auto' else k}: {v:8.3f}" for k, v in ms.items()),
              f"kept {kept:8.3f}, median of all steps {later:8.3f} ms; over best width {best / kept:.3f}, over one by one {most / kept:.3f}; "
              f"schedule predicted {100 * predicted:+.1f} %, one by one {100 * one:+.1f} %, shapes {100 * c['median_error']:.1f} and "
              f"{100 * c['nine_tenths_error']:.0f} %; {c['profiled_steps']} steps, {c['measuring_ms']:.0f} + {c['planning_ms']:.0f} ms; "
              f"arena {c['arena_bytes'] / c['usual_arena_bytes']:.2f}; others {100 * others:.0f} %", flush=True)
    print(f"geometric means: over best width {mean(r[0] for r in rows):.3f}, over one by one {mean(r[1] for r in rows):.3f}; least "
          f"{min(r[0] for r in rows):.3f}; schedules {100 * statistics.median(r[2] for r in rows):.1f} % off, one by one "
          f"{100 * statistics.median(r[3] for r in rows):.1f} (medians)")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=MODELS)
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=1)
    parser.add_argument("--turns", action="store_true")
    a = parser.parse_args()
    if a.turns:
        print_turns(a.models, a.batch)
        return
    rows = []
    for model in a.models:
        ms, cores = measure(model, a.batch, a.seconds)
        best, most = min(v for k, v in ms.items() if k != "auto"), ms[max(k for k in ms if k != "auto")]
        error = statistics.median(abs(c["uncorrected_one_by_one_ms"] / c["rehearsed_one_by_one_ms"] - 1) for c in cores)
        bound = statistics.median(c["rehearsed_one_by_one_ms"] / c["bound_ms"] for c in cores)
        rows.append((best / ms["auto"], most / ms["auto"], error, bound))
        print(f"{model:14} {a.batch:3}", *(f"{k}: {v:8.3f} ms" for k, v in ms.items()),
              f"over best width {rows[-1][0]:.3f}, over one by one {rows[-1][1]:.3f}, bound {bound:.3f}, "
              f"predicted {100 * error:.1f} % off", flush=True)
    print(f"geometric means: over best width {mean(r[0] for r in rows):.3f}, over one by one {mean(r[1] for r in rows):.3f}, "
          f"bound {mean(r[3] for r in rows):.3f}; least over best width {min(r[0] for r in rows):.3f}; "
          f"prediction of one by one {100 * statistics.median(r[2] for r in rows):.1f} % off (median)")


if __name__ == "__main__":
    main()
