#!/usr/bin/python3
"""Compares training with PyTorch's, time and memory of both measured in one interleaved run.

    bench/bench_steps.py OUT [--newest VENV] [--models A,B] [--batches 4,16] [--quick] [--minutes N]
                         [--quern PROGRAM]

Every cell, a model at a batch size, runs in fresh processes in turn: quern, and PyTorch in its
settings. Debian's has three: as packaged; tuned (OpenBLAS with OpenMP, AVX-512 kernels where the
processor has them, memory kept between steps); tuned with channels last, for models of images. The
newest wheel of PyPI, with --newest, has four: eager and compiled, each also with channels last; VENV
is a scratch environment, made where it is not there yet. A process reports its median step (forward,
loss, backward, and SGD with momentum) and its largest resident memory. Data is random, the same in
kind for all. A step of seconds is repeated a few times only; cells that would hold more than --memory
GiB are left out, by an estimate from smaller batches, and so are settings that fail.

OUT.csv gets a line for each process; a run that was stopped, or ended by --minutes, goes on from
there. OUT.md gets the table, OUT-time.svg and OUT-memory.svg draw it. PyTorch's time is that of its
fastest process in any setting of a version, since some models settle at one of two speeds for a whole
process; quern's is the median of its processes. Memory is that of PyTorch's smallest setting, with
the libraries that each side loads. A ratio above 1 means that quern is faster, or smaller. The load
that the machine had from others is noted in each line: a table is good only from a machine that is
otherwise idle."""

import argparse
import csv
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "torch", "models"))
sys.path.insert(0, HERE)
import dots  # noqa: E402 (found by the line before)

SETTINGS = {"packaged": "1.13", "tuned": "1.13", "channels-last": "1.13", "eager": "newest",
            "eager-cl": "newest", "compiled": "newest", "compiled-cl": "newest"}  # and whose they are
CHANNELS_LAST = ("channels-last", "eager-cl", "compiled-cl")
FIELDS = ("model", "batch", "threads", "program", "process", "median_ms", "steps", "peak_bytes",
          "load")
CLASSES, N_SAMPLES, N_WARM = 10, 256, 3


def cpu_has(flag):
    with open("/proc/cpuinfo", encoding="ascii") as file:
        return any(flag in line.split() for line in file if line.startswith("flags"))


def environment(setting, threads):
    result = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
    if setting == "packaged" or SETTINGS[setting] == "newest":
        return result
    result |= {"LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu/openblas-openmp",
               "MALLOC_MMAP_THRESHOLD_": str(8 << 30), "MALLOC_TRIM_THRESHOLD_": str(16 << 30),
               "MALLOC_TOP_PAD_": str(64 << 20)}
    if cpu_has("avx512f"):
        result["ATEN_CPU_CAPABILITY"] = "avx512"
    return result


# ---- one process each ----


def measure_torch(name, batch, threads, setting, seconds):
    """Runs in a process of its own; prints one JSON object."""
    import steps
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    step = steps.make(name, batch, steps.Way(setting in CHANNELS_LAST, setting.startswith("compiled")))
    times, start = [], None
    while (len(times) < N_WARM + 3 or (time.monotonic() - start < seconds and len(times) < 500)):
        if len(times) == N_WARM:
            start = time.monotonic()
        before = time.perf_counter()
        step()
        times.append((time.perf_counter() - before) * 1e3)
    print(json.dumps({"median_ms": statistics.median(times[N_WARM:]),
                      "steps": len(times) - N_WARM,
                      "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))


def run_torch(options, cell, setting):
    """What a process of PyTorch says, or None where it fails."""
    name, batch, threads = cell
    python = options.python_of_newest if SETTINGS[setting] == "newest" else sys.executable
    command = [python, os.path.abspath(__file__), "--torch", name, str(batch), str(threads), setting,
               str(options.seconds)]
    result = subprocess.run(command, env=environment(setting, threads), check=False,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if result.returncode == 0:
        return json.loads(result.stdout.splitlines()[-1])
    why = (result.stderr.strip().splitlines() or [f"status {result.returncode}"])[-1]
    print(f"{name} batch {batch}: {setting} left out: {why[:200]}", file=sys.stderr, flush=True)
    return None


def run_quern(options, cell, expected_ms, folder):
    """Classifiers read samples from memory, as many as a batch divides, so that the process does
    nothing but train; other models make theirs. expected_ms: to choose the number of steps by."""
    import steps

    name, batch, threads = cell
    n_steps = N_WARM + max(3, min(500, int(options.seconds * 1e3 / expected_ms)))
    data = ["--data", "synthetic"]
    if steps.is_classifier(name):
        x, y = (os.path.join(folder, f"{name}-{part}.npy") for part in "xy")
        data = ["--data", f"npy:{x},{y}", "--classes", str(CLASSES)]
    command = [options.quern, "train", name, *data, *steps.QUERN_OPTIONS.get(name, ()), "--steps",
               str(n_steps), "--batch", str(batch), "--threads", str(threads), "--optimizer", "sgd",
               "--lr", "0.001", "--momentum", "0.9", "--weight-decay", "0", "--schedule",
               "constant", "--no-test", "--json"]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    done = json.loads(result.stdout.splitlines()[-1])
    return {"median_ms": done["median_step_ms"], "steps": n_steps - N_WARM,
            "peak_bytes": done["peak_rss_bytes"]}


def write_samples(name, folder):
    import numpy as np
    import reference
    import steps

    if not steps.is_classifier(name):
        return
    random = np.random.default_rng(1)
    shape, _ = reference.forms(name)[0]
    np.save(os.path.join(folder, f"{name}-x.npy"),
            random.standard_normal((N_SAMPLES, *shape), dtype=np.float32))
    np.save(os.path.join(folder, f"{name}-y.npy"),
            (np.arange(N_SAMPLES) % CLASSES).astype(np.int32))


# ---- the run ----


def key(row):
    return row["model"], int(row["batch"]), int(row["threads"]), row["program"], int(row["process"])


def read_rows(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="ascii", newline="") as file:
        return list(csv.DictReader(file))


def append_row(path, row):
    with open(path, "a", encoding="ascii", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if file.tell() == 0:
            writer.writeheader()
        writer.writerow(row)


def programs(options, name):
    """Whom to measure: channels last is of images only."""
    import steps

    wanted = [setting for setting, version in SETTINGS.items()
              if (version == "1.13" or options.newest) and
              (setting not in CHANNELS_LAST or steps.has_images(name))]
    return (*wanted, "quern")


def is_too_large(options, rows, cell):
    """Whether PyTorch would hold more memory than is allowed, going by half the batch."""
    half = [int(row["peak_bytes"]) for row in rows
            if row["model"] == cell[0] and int(row["batch"]) * 2 >= cell[1]]
    return bool(half) and 2 * max(half) > options.memory * (1 << 30)


def run_cell(options, cell, rows, folder):
    """Fills in what rows lacks of a cell, in turn."""
    known, left_out = {key(row) for row in rows}, set()
    for process in range(options.processes):
        for program in programs(options, cell[0]):
            if (*cell, program, process) in known or program in left_out:
                continue
            if program == "quern":
                expected = min(float(r["median_ms"]) for r in rows if key(r)[:3] == cell)
                found = run_quern(options, cell, expected, folder)
            else:
                found = run_torch(options, cell, program)
            if found is None:
                left_out.add(program)
                continue
            row = dict(zip(FIELDS, (*cell, program, process, f"{found['median_ms']:.3f}",
                                    found["steps"], found["peak_bytes"],
                                    f"{os.getloadavg()[0]:.1f}")))
            rows.append(row)
            append_row(options.out + ".csv", row)
            print(f"{cell[0]} batch {cell[1]}: {program} {row['median_ms']} ms", file=sys.stderr,
                  flush=True)


def summarise(options, rows, cell):
    """quern's time, each setting's fastest process, the ratio by version, memory of quern and of
    PyTorch; null while parts are missing."""
    times, peaks = {}, {}
    for row in rows:
        if key(row)[:3] == cell:
            times.setdefault(row["program"], []).append(float(row["median_ms"]))
            peaks.setdefault(row["program"], []).append(int(row["peak_bytes"]))
    peers = {setting: min(times[setting]) for setting in programs(options, cell[0])[:-1] if setting in times}
    wanted = {SETTINGS[setting] for setting in programs(options, cell[0])[:-1]}
    if "quern" not in times or {SETTINGS[setting] for setting in peers} != wanted:
        return None
    ours = statistics.median(times["quern"])
    ratios = {version: min(ms for setting, ms in peers.items() if SETTINGS[setting] == version) / ours
              for version in sorted(wanted)}
    return ours, peers, ratios, min(peaks["quern"]), min(min(peaks[setting]) for setting in peers)


def mean_ratio(ratios):
    return statistics.geometric_mean(ratios) if ratios else float("nan")


def versions(options):
    import torch

    if not options.newest:
        return f"PyTorch {torch.__version__} (1.13)"
    code = "import torch; print(torch.__version__)"
    newest = subprocess.run([options.python_of_newest, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    return f"PyTorch {torch.__version__} (1.13) and {newest.stdout.strip()} (newest)"


def describe(options, rows):
    with open("/proc/cpuinfo", encoding="ascii") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    loads = [float(row["load"]) for row in rows] or [0]
    is_quiet = max(loads) <= options.threads + 1
    return (f"{options.threads} threads on {names[0] if names else platform.machine()}, "
            f"{versions(options)}, {time.strftime('%Y-%m-%d')}; {options.processes} process"
            f"{'es' if options.processes > 1 else ''} of {options.seconds:g} s a cell; load "
            f"average {min(loads):.1f} to {max(loads):.1f}."
            f"{'' if is_quiet else ' **Others used the machine: not to be relied on.**'}")


def write_results(options, rows, cells):
    found = {cell: summary for cell in cells if (summary := summarise(options, rows, cell))}
    shown = [setting for setting, version in SETTINGS.items() if version == "1.13" or options.newest]
    versions_shown = sorted({SETTINGS[setting] for setting in shown})
    memory = [summary[4] / summary[3] for summary in found.values()]
    means = [f"{version} {mean_ratio([summary[2][version] for summary in found.values()]):.2f}"
             for version in versions_shown]
    lines = ["Milliseconds of a training step, and the process's largest resident memory in MiB; "
             + describe(options, rows), "",
             f"Geometric mean of the ratios: time beside {', beside '.join(means)}; memory "
             f"{mean_ratio(memory):.2f}.", "",
             f"| model | batch | quern | {' | '.join(shown)} | "
             f"{' | '.join('ratio, ' + version for version in versions_shown)} | quern, MiB | PyTorch, MiB | ratio |",
             "|---|" + "---:|" * (5 + len(shown) + len(versions_shown))]
    mib = 1 / (1 << 20)
    for cell, (ours, peers, ratios, our_peak, their_peak) in found.items():
        lines.append(f"| {cell[0]} | {cell[1]} | {ours:.2f} | "
                     f"{' | '.join(f'{peers[s]:.2f}' if s in peers else '' for s in shown)} | "
                     f"{' | '.join(f'{ratios[version]:.2f}' for version in versions_shown)} | "
                     f"{our_peak * mib:.0f} | {their_peak * mib:.0f} | {their_peak / our_peak:.2f} |")
    with open(options.out + ".md", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    draw(options, found, [min(summary[2].values()) for summary in found.values()], memory)


def draw(options, found, times, memory):
    for what, values in (("time", times), ("memory", memory)):
        ratios = {}
        for cell, value in zip(found, values):
            ratios.setdefault(cell[0], {})[cell[1]] = value
        subtitle = ("step time of PyTorch's fastest setting / quern's" if what == "time"
                    else "resident memory of PyTorch's smallest setting / quern's")
        dots.draw(f"quern beside PyTorch: {what}", f"{subtitle}; right of 1 quern is ahead", ratios,
                  f"{options.out}-{what}.svg")


def make_newest(folder):
    """The interpreter of a scratch environment with PyPI's newest PyTorch."""
    found = os.path.join(folder, "bin", "python")
    if not os.path.exists(found):
        subprocess.run([sys.executable, "-m", "venv", folder], check=True)
        subprocess.run([found, "-m", "pip", "install", "--quiet", "torch", "numpy"], check=True)
    return found


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="where OUT.csv, OUT.md and the pictures go")
    parser.add_argument("--newest", metavar="VENV", help="also the newest PyTorch of PyPI, from there")
    parser.add_argument("--models", default="", help="all of the zoo unless said")
    parser.add_argument("--batches", default="4,16,32,64")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--processes", type=int, default=2, help="of each program")
    parser.add_argument("--seconds", type=float, default=2, help="measured in each process")
    parser.add_argument("--memory", type=float, default=16, help="GiB that PyTorch may hold")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no cell after so many")
    parser.add_argument("--quick", action="store_true", help="half a second, one process of each")
    parser.add_argument("--quern", default=os.path.join(HERE, "..", "build", "release", "quern"))
    options = parser.parse_args()
    if options.quick:
        options.processes, options.seconds = 1, 0.5
    options.python_of_newest = make_newest(options.newest) if options.newest else None
    return options


def main():
    if len(sys.argv) == 7 and sys.argv[1] == "--torch":
        name, batch, threads, setting, seconds = sys.argv[2:]
        measure_torch(name, int(batch), int(threads), setting, float(seconds))
        return
    import steps

    options, begun = parse(), time.monotonic()
    names = options.models.split(",") if options.models else steps.ALL
    cells = [(name, int(batch), options.threads) for name in names
             for batch in options.batches.split(",")]
    rows = read_rows(options.out + ".csv")
    if os.getloadavg()[0] > options.threads + 1:
        print(f"bench_steps: the load average is {os.getloadavg()[0]:.1f}: others use the machine, "
              "and the times will not be good", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            write_samples(name, folder)
        for cell in cells:
            if is_too_large(options, rows, cell):
                print(f"{cell[0]} batch {cell[1]}: left out, too much memory", file=sys.stderr)
                continue
            if time.monotonic() - begun > 60 * options.minutes:
                print(f"bench_steps: {options.minutes:g} minutes are over; the same command goes on", file=sys.stderr)
                break
            run_cell(options, cell, rows, folder)
            write_results(options, rows, cells)


if __name__ == "__main__":
    main()
