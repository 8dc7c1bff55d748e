#!/usr/bin/python3
"""Compares training with PyTorch's, time and memory of both measured in one interleaved run.

    bench/bench_steps.py OUT [--newest VENV] [--models A,B | --cells A:4,B:16] [--batches 4,16]
                         [--settings A,B] [--isa avx2] [--quick] [--minutes N] [--quern PROGRAM]
                         [--alone COMMAND]

Every cell, a model at a batch size, is measured in turn: PyTorch in its settings, each a process that
is ready before the first turn, and a fresh process of quern a turn. Debian's PyTorch has three: as
packaged; tuned (OpenBLAS with OpenMP, AVX-512 kernels where the processor has them, memory kept
between steps); tuned with channels last, for models of images. The newest wheel of PyPI, with
--newest, has four: eager and compiled, each also with channels last; VENV is a scratch environment,
made where it is not there yet. A turn reports the median step (forward, loss, backward, and SGD with
momentum) and the process's largest resident memory. Data is random, the same in kind for all. A step
of seconds is repeated a few times only; cells that would hold more than --memory GiB are left out, by
an estimate from smaller batches, and so are settings that fail or are not ready in time. --isa limits
the instruction set of all; --group prepares several cells before the first turn.

OUT.csv gets a line for each turn of each; a run that was stopped, or ended by --minutes, goes on from
there. OUT.md gets the table, OUT-time.svg and OUT-memory.svg draw it. Times are those of the fastest
turn, PyTorch's in any setting of a version. Memory is that of PyTorch's smallest setting, with
the libraries that each side loads. A ratio above 1 means that quern is faster, or smaller. The load
that the machine had from others is noted in each line: a table is good only from a machine that is
otherwise idle. Where it is not, --alone COMMAND keeps others away during turns: it prints a line once
they are, and the machine is theirs again when it ends, or is ended."""

import argparse
import csv
import functools
import json
import os
import platform
import resource
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "torch", "models"))
sys.path.insert(0, HERE)
import dots  # noqa: E402 (found by the line before)

os.environ.setdefault("QUERN_RUNS", "none")  # runs of a bench are not kept

SETTINGS = {"packaged": "1.13", "tuned": "1.13", "channels-last": "1.13", "eager": "newest",
            "eager-cl": "newest", "compiled": "newest", "compiled-cl": "newest"}  # and whose they are
CHANNELS_LAST = ("channels-last", "eager-cl", "compiled-cl")
FIELDS = ("model", "batch", "threads", "program", "process", "median_ms", "steps", "peak_bytes",
          "load")
CLASSES, N_SAMPLES, N_WARM = 10, 256, 2
N_UNTIMED = 3  # quern's first steps, which its median leaves out
SLOW_MS = 1000  # a step that is repeated least


def cpu_has(flag):
    with open("/proc/cpuinfo", encoding="ascii") as file:
        return any(flag in line.split() for line in file if line.startswith("flags"))


def environment(options, setting):
    """Of a setting of PyTorch. A limit of the instruction set is told to each of its libraries."""
    isa = options.isa or ("avx512" if cpu_has("avx512f") else "")
    result = dict(os.environ, OMP_NUM_THREADS=str(options.threads), OPENBLAS_NUM_THREADS=str(options.threads))
    if options.isa == "avx2":
        result |= {"ATEN_CPU_CAPABILITY": "avx2", "ONEDNN_MAX_CPU_ISA": "AVX2", "DNNL_MAX_CPU_ISA": "AVX2",
                   "MKL_ENABLE_INSTRUCTIONS": "AVX2", "OPENBLAS_CORETYPE": "Haswell"}
    if setting == "packaged" or SETTINGS[setting] == "newest":
        return result
    result |= {"LD_LIBRARY_PATH": "/usr/lib/x86_64-linux-gnu/openblas-openmp",
               "MALLOC_MMAP_THRESHOLD_": str(8 << 30), "MALLOC_TRIM_THRESHOLD_": str(16 << 30),
               "MALLOC_TOP_PAD_": str(64 << 20)}
    if isa == "avx512":
        result["ATEN_CPU_CAPABILITY"] = isa
    return result


# ---- one process each ----


def measure_torch(name, batch, threads, setting):
    """Runs in a process of its own: says that it is ready, then answers every line on its input, the
    seconds to measure, with one JSON object."""
    import steps
    import torch

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    step = steps.make(name, batch, steps.Way(setting in CHANNELS_LAST, setting.startswith("compiled")))
    for _ in range(N_WARM):
        step()
    print("ready", flush=True)
    for line in sys.stdin:
        times, start, seconds = [], time.monotonic(), float(line)
        while not times or (len(times) < 500 and (time.monotonic() - start < seconds or
                                                  len(times) < (3 if times[-1] < SLOW_MS else 1))):
            before = time.perf_counter()
            step()
            times.append((time.perf_counter() - before) * 1e3)
        print(json.dumps({"median_ms": statistics.median(times), "steps": len(times), "peak_bytes":
                          resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}), flush=True)


class Peer:
    """A process of PyTorch; None from its methods: it failed."""

    def __init__(self, options, cell, setting):
        name, batch, threads = cell
        python = options.python_of_newest if SETTINGS[setting] == "newest" else sys.executable
        self.what, self.wait = f"{name} batch {batch}: {setting}", options.wait
        self.errors = tempfile.TemporaryFile("w+")
        self.process = subprocess.Popen([python, os.path.abspath(__file__), "--torch", name, str(batch), str(threads),
                                         setting], env=environment(options, setting), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=self.errors, text=True)

    def is_ready(self):
        ready, _, _ = select.select([self.process.stdout], [], [], self.wait)
        if ready and self.process.stdout.readline() == "ready\n":
            return True
        why = f"not ready after {self.wait:g} s"
        if ready:
            self.errors.seek(0)
            why = (self.errors.read().strip().splitlines() or ["failed"])[-1][:200]
        print(f"{self.what} left out: {why}", file=sys.stderr, flush=True)
        self.close()
        return False

    def measure(self, seconds):
        self.process.stdin.write(f"{seconds}\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        return json.loads(line) if line else None

    def close(self):
        self.process.kill()
        self.process.wait()
        self.errors.close()


class Alone:
    """Holds the machine by a command that was given for it, or does nothing."""

    def __init__(self, command):
        self.command, self.process = command, None

    def is_held(self):
        return not self.command or (self.process is not None and self.process.poll() is None)

    def hold(self):
        while not self.is_held():
            self.process = subprocess.Popen(self.command, shell=True, stdout=subprocess.PIPE, text=True,
                                            start_new_session=True)
            if not self.process.stdout.readline():
                self.process.wait()

    def release(self):
        if self.process is not None and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            self.process.wait()
        self.process = None


def run_quern(options, cell, expected_ms, folder):
    """Classifiers read samples from memory, as many as a batch divides, so that the process does
    nothing but train; other models make theirs. expected_ms: to choose the number of steps by."""
    import steps

    name, batch, threads = cell
    n_least = 3 if expected_ms < SLOW_MS else 1
    n_steps = N_UNTIMED + max(n_least, min(500, int(options.seconds * 1e3 / expected_ms)))
    data = ["--data", "synthetic"]
    if steps.is_classifier(name):
        x, y = (os.path.join(folder, f"{name}-{part}.npy") for part in "xy")
        data = ["--data", f"npy:{x},{y}", "--classes", str(CLASSES)]
    command = [options.quern, "train", name, *data, *steps.QUERN_OPTIONS.get(name, ()), "--steps",
               str(n_steps), "--batch", str(batch), "--threads", str(threads), "--optimizer", "sgd",
               "--lr", "0.001", "--momentum", "0.9", "--weight-decay", "0", "--schedule",
               "constant", "--no-test", "--json"]
    limited = dict(os.environ, QUERN_ISA=options.isa) if options.isa else None
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=limited)
    done = json.loads(result.stdout.splitlines()[-1])
    return {"median_ms": done["median_step_ms"], "steps": n_steps - N_UNTIMED,
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

    return [setting for setting in options.settings if setting not in CHANNELS_LAST or steps.has_images(name)]


def is_too_large(options, rows, cell):
    """Whether PyTorch would hold more memory than is allowed, going by half the batch."""
    half = [int(row["peak_bytes"]) for row in rows
            if row["model"] == cell[0] and int(row["batch"]) * 2 >= cell[1]]
    if not half or 2 * max(half) <= options.memory * (1 << 30):
        return False
    print(f"{cell[0]} batch {cell[1]}: left out, too much memory", file=sys.stderr)
    return True


def take_turn(options, cell, program, peers, expected_ms, folder):
    """What a program measured in a turn that was its own from begin to end."""
    while True:
        options.alone.hold()
        if program == "quern":
            found = run_quern(options, cell, expected_ms, folder)
        else:
            found = peers[program].measure(options.seconds)
        if options.alone.is_held():
            return found


def missing(options, cell, rows):
    """(turn, program) of what rows lacks of a cell."""
    known = {key(row) for row in rows}
    return [(turn, program) for turn in range(options.turns) for program in (*programs(options, cell[0]), "quern")
            if (*cell, program, turn) not in known]


def prepare(options, cell, rows):
    """The processes of PyTorch that a cell still wants, by setting."""
    settings = dict.fromkeys(program for _, program in missing(options, cell, rows) if program != "quern")
    peers = {setting: Peer(options, cell, setting) for setting in settings}
    return {setting: peer for setting, peer in peers.items() if peer.is_ready()}


def run_cell(options, cell, rows, peers, folder):
    """Fills in what rows lacks of a cell, in turn."""
    for turn, program in missing(options, cell, rows):
        if program != "quern" and program not in peers:
            continue
        expected = min([float(r["median_ms"]) for r in rows if key(r)[:3] == cell] or [SLOW_MS])
        found = take_turn(options, cell, program, peers, expected, folder)
        if found is None:
            peers.pop(program).close()
            continue
        row = dict(zip(FIELDS, (*cell, program, turn, f"{found['median_ms']:.3f}", found["steps"],
                                found["peak_bytes"], f"{os.getloadavg()[0]:.1f}")))
        rows.append(row)
        append_row(options.out + ".csv", row)
        print(f"{cell[0]} batch {cell[1]}: {program} {row['median_ms']} ms", file=sys.stderr, flush=True)


def run_group(options, cells, rows, folder):
    """Cells that are prepared together, so that the machine is held once for all."""
    prepared = [(cell, prepare(options, cell, rows)) for cell in cells]
    for cell, peers in prepared:
        run_cell(options, cell, rows, peers, folder)
    options.alone.release()
    for _, peers in prepared:
        for peer in peers.values():
            peer.close()


def summarise(options, rows, cell):
    """The fastest times of quern and of each setting, the ratio by version, memory of quern and of
    PyTorch; None while parts are missing."""
    times, peaks = {}, {}
    for row in rows:
        if key(row)[:3] == cell:
            times.setdefault(row["program"], []).append(float(row["median_ms"]))
            peaks.setdefault(row["program"], []).append(int(row["peak_bytes"]))
    peers = {setting: min(times[setting]) for setting in programs(options, cell[0]) if setting in times}
    wanted = {SETTINGS[setting] for setting in programs(options, cell[0])}
    if "quern" not in times or {SETTINGS[setting] for setting in peers} != wanted:
        return None
    ours = min(times["quern"])
    ratios = {version: min(ms for setting, ms in peers.items() if SETTINGS[setting] == version) / ours
              for version in sorted(wanted)}
    return ours, peers, ratios, min(peaks["quern"]), min(min(peaks[setting]) for setting in peers)


def mean_ratio(ratios):
    return statistics.geometric_mean(ratios) if ratios else float("nan")


@functools.cache
def versions(python_of_newest):
    import torch

    if not python_of_newest:
        return f"PyTorch {torch.__version__} (1.13)"
    code = "import torch; print(torch.__version__)"
    newest = subprocess.run([python_of_newest, "-c", code], check=True, stdout=subprocess.PIPE, text=True)
    return f"PyTorch {torch.__version__} (1.13) and {newest.stdout.strip()} (newest)"


def describe(options, rows):
    with open("/proc/cpuinfo", encoding="ascii") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    loads = [float(row["load"]) for row in rows] or [0]
    is_quiet = max(loads) <= options.threads + 1
    return (f"{options.threads} threads on {names[0] if names else platform.machine()}, "
            f"{'limited to ' + options.isa + ', ' if options.isa else ''}"
            f"{versions(options.python_of_newest)}, {time.strftime('%Y-%m-%d')}; {options.turns} turn"
            f"{'s' if options.turns > 1 else ''} of {options.seconds:g} s a cell; load "
            f"average {min(loads):.1f} to {max(loads):.1f}."
            f"{'' if is_quiet else ' **Others used the machine: not to be relied on.**'}")


def write_results(options, rows, cells):
    found = {cell: summary for cell in cells if (summary := summarise(options, rows, cell))}
    if not found:
        return
    shown = options.settings
    versions_shown = sorted({SETTINGS[setting] for setting in shown})
    memory = [summary[4] / summary[3] for summary in found.values()]
    of_versions = {version: [summary[2][version] for summary in found.values() if version in summary[2]]
                   for version in versions_shown}
    means = [f"{version} {mean_ratio(ratios):.2f}" for version, ratios in of_versions.items()]
    lines = ["Milliseconds of a training step, and the process's largest resident memory in MiB; "
             + describe(options, rows), "",
             f"Geometric mean of the ratios: time beside {', beside '.join(means)}, beside the fastest of all "
             f"{mean_ratio([min(summary[2].values()) for summary in found.values()]):.2f}; memory "
             f"{mean_ratio(memory):.2f}.", "",
             f"| model | batch | quern | {' | '.join(shown)} | "
             f"{' | '.join('ratio, ' + version for version in versions_shown)} | quern, MiB | PyTorch, MiB | ratio |",
             "|---|" + "---:|" * (5 + len(shown) + len(versions_shown))]
    mib = 1 / (1 << 20)
    for cell, (ours, peers, ratios, our_peak, their_peak) in found.items():
        lines.append(f"| {cell[0]} | {cell[1]} | {ours:.2f} | "
                     f"{' | '.join(f'{peers[s]:.2f}' if s in peers else '' for s in shown)} | "
                     f"{' | '.join(f'{ratios[v]:.2f}' if v in ratios else '' for v in versions_shown)} | "
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
    parser.add_argument("--settings", default="", help="of PyTorch; all unless said")
    parser.add_argument("--models", default="", help="all of the zoo unless said")
    parser.add_argument("--batches", default="4,16,32,64")
    parser.add_argument("--cells", default="", help="instead of both: MODEL:BATCH,...")
    parser.add_argument("--isa", choices=("avx2",), help="limits quern and PyTorch")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=2, help="of each program")
    parser.add_argument("--seconds", type=float, default=2, help="measured in each turn")
    parser.add_argument("--wait", type=float, default=600, help="seconds until a setting is ready, or left out")
    parser.add_argument("--memory", type=float, default=16, help="GiB that PyTorch may hold")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="begin no cell after so many")
    parser.add_argument("--quick", action="store_true", help="half a second, one turn of each")
    parser.add_argument("--group", type=int, default=1, help="cells that are prepared together")
    parser.add_argument("--alone", metavar="COMMAND", help="keeps others off the machine")
    parser.add_argument("--quern", default=os.path.join(HERE, "..", "build", "release", "quern"))
    options = parser.parse_args()
    if options.quick:
        options.turns, options.seconds = 1, 0.5
    options.python_of_newest = make_newest(options.newest) if options.newest else None
    options.alone = Alone(options.alone)
    asked = options.settings.split(",") if options.settings else SETTINGS
    options.settings = [s for s in SETTINGS if s in asked and (options.newest or SETTINGS[s] == "1.13")]
    return options


def cells_of(options):
    import steps

    if options.cells:
        pairs = [cell.split(":") for cell in options.cells.split(",")]
    else:
        pairs = [(name, batch) for name in (options.models.split(",") if options.models else steps.ALL)
                 for batch in options.batches.split(",")]
    return [(name, int(batch), options.threads) for name, batch in pairs]


def main():
    if len(sys.argv) == 6 and sys.argv[1] == "--torch":
        name, batch, threads, setting = sys.argv[2:]
        measure_torch(name, int(batch), int(threads), setting)
        return
    options, begun = parse(), time.monotonic()
    cells = cells_of(options)
    rows = read_rows(options.out + ".csv")
    if os.getloadavg()[0] > options.threads + 1:
        print(f"bench_steps: the load average is {os.getloadavg()[0]:.1f}: others use the machine, "
              "and the times will not be good", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        for name in sorted({cell[0] for cell in cells}):
            write_samples(name, folder)
        for i in range(0, len(cells), options.group):
            fitting = [cell for cell in cells[i:i + options.group] if not is_too_large(options, rows, cell)]
            if time.monotonic() - begun > 60 * options.minutes:
                print(f"bench_steps: {options.minutes:g} minutes are over; the same command goes on", file=sys.stderr)
                break
            run_group(options, fitting, rows, folder)
            write_results(options, rows, cells)
    write_results(options, rows, cells)  # a run that had nothing to do


if __name__ == "__main__":
    main()
