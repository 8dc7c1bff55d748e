#!/usr/bin/python3
"""Compares the time of a training step with PyTorch's, both measured in one interleaved run.

    bench/bench_steps.py OUT [--models A,B] [--batches 4,16] [--quick] [--quern PROGRAM]

Every cell, a model at a batch size, runs in fresh processes in turn: quern, and PyTorch in three
settings: as packaged; tuned (OpenBLAS with OpenMP, AVX-512 kernels where the processor has them,
memory kept between steps); tuned with channels last. A process reports its median step: forward,
backward, and SGD with momentum. Data is random, read from memory, the same for all.

OUT.csv gets a line for each process; a run that was stopped goes on from there. OUT.md gets the
table. PyTorch's time is that of its fastest process in any setting, since some models settle at
one of two speeds for a whole process; quern's is the median of its processes. A ratio above 1
means that quern is faster. The load that the machine had from others is noted in each line: a
table is good only from a machine that is otherwise idle."""

import argparse
import csv
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "tests", "torch", "models"))

MODELS = ("mlp,lenet5,alexnet,vgg11,vgg16,resnet18,resnet50,mobilenet-v1,mobilenet-v2")
SETTINGS = ("packaged", "tuned", "channels-last")
FIELDS = ("model", "batch", "threads", "program", "process", "median_ms", "steps", "load")
CLASSES, N_SAMPLES, N_WARM = 10, 256, 3


def cpu_has(flag):
    with open("/proc/cpuinfo", encoding="ascii") as file:
        return any(flag in line.split() for line in file if line.startswith("flags"))


def environment(setting, threads):
    result = dict(os.environ, OMP_NUM_THREADS=str(threads), OPENBLAS_NUM_THREADS=str(threads))
    if setting == "packaged":
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
    import reference
    import torch
    import torch.nn.functional as F

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    shape, _ = reference.forms(name)[0]
    net = reference.build(name, shape, CLASSES)
    x, y = torch.randn(batch, shape[2], *shape[:2]), torch.randint(CLASSES, (batch,))
    if setting == "channels-last":
        net = net.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    update = torch.optim.SGD(net.parameters(), 0.01, 0.9)
    times, start = [], None
    while len(times) < N_WARM + 5 or (time.monotonic() - start < seconds and len(times) < 500):
        if len(times) == N_WARM:
            start = time.monotonic()
        before = time.perf_counter()
        update.zero_grad(set_to_none=True)
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        update.step()
        loss.item()
        times.append((time.perf_counter() - before) * 1e3)
    print(json.dumps({"median_ms": statistics.median(times[N_WARM:]),
                      "steps": len(times) - N_WARM}))


def run_torch(cell, setting, seconds):
    name, batch, threads = cell
    command = [sys.executable, os.path.abspath(__file__), "--torch", name, str(batch),
               str(threads), setting, str(seconds)]
    result = subprocess.run(command, env=environment(setting, threads), check=True,
                            stdout=subprocess.PIPE, text=True)
    return json.loads(result.stdout)


def run_quern(quern, cell, expected_ms, seconds, folder):
    """The held samples are as many as a batch divides, and none is kept for testing, so that the
    process does nothing but train. expected_ms: to choose the number of steps by."""
    name, batch, threads = cell
    steps = N_WARM + max(5, min(500, int(seconds * 1e3 / expected_ms)))
    x, y = (os.path.join(folder, f"{name}-{part}.npy") for part in "xy")
    command = [quern, "train", name, "--data", f"npy:{x},{y}", "--classes", str(CLASSES), "--steps",
               str(steps), "--batch", str(batch), "--threads", str(threads), "--optimizer", "sgd",
               "--lr", "0.01", "--momentum", "0.9", "--weight-decay", "0", "--schedule",
               "constant", "--json"]
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    done = json.loads(result.stdout.splitlines()[-1])
    return {"median_ms": done["median_step_ms"], "steps": steps - N_WARM}


def write_samples(name, folder):
    import numpy as np
    import reference

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


def run_cell(options, cell, rows, folder):
    """Fills in what rows lacks of a cell, in turn."""
    known = {key(row) for row in rows}
    for process in range(options.processes):
        for program in SETTINGS + ("quern",):
            if (*cell, program, process) in known:
                continue
            if program == "quern":
                expected = min(float(r["median_ms"]) for r in rows if key(r)[:3] == cell)
                found = run_quern(options.quern, cell, expected, options.seconds, folder)
            else:
                found = run_torch(cell, program, options.seconds)
            row = dict(zip(FIELDS, (*cell, program, process, f"{found['median_ms']:.3f}",
                                    found["steps"], f"{os.getloadavg()[0]:.1f}")))
            rows.append(row)
            with open(options.out + ".csv", "a", encoding="ascii", newline="") as file:
                writer = csv.DictWriter(file, FIELDS)
                if file.tell() == 0:
                    writer.writeheader()
                writer.writerow(row)
            print(f"{cell[0]} batch {cell[1]}: {program} {row['median_ms']} ms", file=sys.stderr,
                  flush=True)


def summarise(rows, cell):
    """quern's time, each setting's fastest process, and the ratio; null while parts are missing."""
    times = {}
    for row in rows:
        if key(row)[:3] == cell:
            times.setdefault(row["program"], []).append(float(row["median_ms"]))
    if len(times) < len(SETTINGS) + 1:
        return None
    ours, peers = statistics.median(times["quern"]), [min(times[s]) for s in SETTINGS]
    return ours, peers, min(peers) / ours


def write_table(options, rows, cells):
    import torch

    with open("/proc/cpuinfo", encoding="ascii") as file:
        names = [line.split(":", 1)[1].strip() for line in file if line.startswith("model name")]
    loads = [float(row["load"]) for row in rows] or [0]
    is_quiet = max(loads) <= options.threads + 1
    lines = [f"Milliseconds of a training step; {options.threads} threads on "
             f"{names[0] if names else platform.machine()}, PyTorch {torch.__version__}, "
             f"{time.strftime('%Y-%m-%d')}. "
             f"Load average during the run {min(loads):.1f} to {max(loads):.1f}. "
             f"Ratio: PyTorch's fastest / quern."
             f"{'' if is_quiet else ' **Others used the machine: not to be relied on.**'}", "",
             f"| model | batch | quern | {' | '.join(SETTINGS)} | ratio |", "|---|" + "---:|" * 6]
    for cell in cells:
        summary = summarise(rows, cell)
        if summary:
            ours, peers, ratio = summary
            lines.append(f"| {cell[0]} | {cell[1]} | {ours:.2f} | "
                         f"{' | '.join(f'{p:.2f}' for p in peers)} | {ratio:.2f} |")
    with open(options.out + ".md", "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="where OUT.csv and OUT.md go")
    parser.add_argument("--models", default=MODELS)
    parser.add_argument("--batches", default="4,16,32,64")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--processes", type=int, default=2, help="of each program")
    parser.add_argument("--seconds", type=float, default=2, help="measured in each process")
    parser.add_argument("--quick", action="store_true", help="half a second, one process of each")
    parser.add_argument("--quern", default=os.path.join(HERE, "..", "build", "release", "quern"))
    options = parser.parse_args()
    if options.quick:
        options.processes, options.seconds = 1, 0.5
    return options


def main():
    if len(sys.argv) == 7 and sys.argv[1] == "--torch":
        name, batch, threads, setting, seconds = sys.argv[2:]
        measure_torch(name, int(batch), int(threads), setting, float(seconds))
        return
    options = parse()
    cells = [(name, int(batch), options.threads) for name in options.models.split(",")
             for batch in options.batches.split(",")]
    rows = read_rows(options.out + ".csv")
    if os.getloadavg()[0] > options.threads + 1:
        print(f"bench_steps: the load average is {os.getloadavg()[0]:.1f}: others use the machine, "
              "and the times will not be good", file=sys.stderr)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.models.split(","):
            write_samples(name, folder)
        for cell in cells:
            run_cell(options, cell, rows, folder)
            write_table(options, rows, cells)


if __name__ == "__main__":
    main()
