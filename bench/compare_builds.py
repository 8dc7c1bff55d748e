#!/usr/bin/python3
"""Compares two builds of quern: the same weights, the same plans, and what both cost.

    bench/compare_builds.py BASE NEW OUT [weights] [plans] [times] [planning]
                            [--models A,B] [--batches 4,16] [--threads 1,2] [--processes N]

BASE and NEW are two quern commands. Without a part all are done:

    weights   20 steps at batch 4, seed 1, at each number of threads, without a budget and with
              --memory at 60 % of what BASE says training takes, or, where a build refuses that,
              at the least that both accept (a table says whose least is larger): the tensors of
              both checkpoints must be the same bytes
    plans     the plan files of the same cells: the same text, but for the line of the format
    times     median step and largest resident memory of processes that take turns, A B B A, at
              each batch; with --threads the largest number is used
    planning  time that planning within 60 % takes, of processes that take turns

OUT.csv gets a line for each finding; a run that was stopped goes on from there, and what is known
of other builds is refused. OUT.md gets the tables, with geometric means and the worst cell. Time
and memory above 1 mean that NEW is slower or larger. The load that the machine had from others is
noted: times are good only from a machine that is otherwise idle. The exit status is 1 where weights
or plans differ."""

import argparse
import csv
import hashlib
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile

os.environ.setdefault("QUERN_RUNS", "none")  # runs of a bench are not kept

PARTS = ("weights", "plans", "times", "planning")
FIELDS = ("part", "model", "batch", "threads", "budget", "build", "process", "value", "bytes",
          "load", "program")
BATCH, STEPS, N_WARM, PERCENT, PLANNINGS, MOST_RAISES = 4, 20, 3, 60, 3, 4


# ---- programs ----


def run(command):
    return subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False)


def last_json(text):
    return json.loads(text.splitlines()[-1])


def digest(path):
    """Of a safetensors file: names, types, shapes and bytes of its tensors."""
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        data = file.read()
    total = hashlib.sha256()
    for name in sorted(header):
        if name == "__metadata__":
            continue
        tensor = header[name]
        begin, end = tensor["data_offsets"]
        total.update(json.dumps([name, tensor["dtype"], tensor["shape"]]).encode())
        total.update(data[begin:end])
    return total.hexdigest()[:32]


def digest_plan(path):
    with open(path, "rb") as file:
        lines = file.read().splitlines()
    return hashlib.sha256(b"\n".join(x for x in lines if b'"format"' not in x)).hexdigest()[:32]


class Comparison:
    def __init__(self, options):
        self.options = options
        self.folder = tempfile.mkdtemp(prefix="compare-")
        self.rows = {}
        self.path = options.out + ".csv"
        self.read()

    # ---- what is known ----

    def builds(self):
        return {"base": self.options.base, "new": self.options.new}

    def read(self):
        programs = {name: program_id(path) for name, path in self.builds().items()}
        self.programs = programs
        if not os.path.exists(self.path):
            return
        with open(self.path, encoding="ascii", newline="") as file:
            for row in csv.DictReader(file):
                if row["program"] != programs[row["build"]]:
                    sys.exit(f"{self.path} is of another {row['build']} build; name another OUT")
                self.rows[key(row)] = row

    def note(self, cell, value, peak=0):
        row = dict(zip(FIELDS, (*cell, value, peak, f"{os.getloadavg()[0]:.1f}",
                                self.programs[cell[5]])))
        row = {name: str(x) for name, x in row.items()}
        self.rows[key(row)] = row
        is_new = not os.path.exists(self.path)
        with open(self.path, "a", encoding="ascii", newline="") as file:
            writer = csv.DictWriter(file, FIELDS)
            if is_new:
                writer.writeheader()
            writer.writerow(row)

    def get(self, *cell):
        return self.rows.get(tuple(str(x) for x in cell))

    # ---- one process ----

    def plan(self, build, model, batch, threads, budget):
        return run([self.builds()[build], "plan", model, "--data", "synthetic", "--batch",
                    str(batch), "--threads", str(threads), *budget, "--json"])

    def least(self, build, model, batch, threads, budget):
        """The budget, or, where a build refuses it, the least that this names."""
        for _ in range(MOST_RAISES):
            done = self.plan(build, model, batch, threads, ["--memory", str(budget)])
            if done.returncode == 0:
                return budget
            named = re.search(r"(?:give|use) --memory (\d+)([KMG]?)", done.stderr)
            if not named:
                break
            budget = int(named.group(1)) << {"": 0, "K": 10, "M": 20, "G": 30}[named.group(2)]
        return sys.exit(f"{build}, {model}: {done.stderr}")

    def choose_budget(self, model, batch, threads):
        """A part of what BASE takes without one, or, where a build refuses that, the least that
        both accept."""
        done = self.plan("base", model, batch, threads, [])
        if done.returncode != 0:
            sys.exit(f"{model}: {done.stderr}")
        budget = last_json(done.stdout)["peak_bytes"] * PERCENT // 100
        found = {build: self.least(build, model, batch, threads, budget)
                 for build in self.builds()}
        for build, bytes_ in found.items():
            self.note(("least", model, batch, threads, PERCENT, build, 0), bytes_)
        return max(found.values())

    def budget(self, model, batch, threads, percent):
        """Options of the budget."""
        if percent == 100:
            return []
        cell = ("budget", model, batch, threads, percent, "base", 0)
        if not self.get(*cell):
            self.note(cell, self.choose_budget(model, batch, threads))
        return ["--memory", self.get(*cell)["value"]]

    def options_of(self, model, batch, threads, percent):
        return [model, "--data", "synthetic", "--batch", str(batch), "--threads", str(threads),
                *self.budget(model, batch, threads, percent)]

    def find_weights(self, build, model, threads, percent):
        path = os.path.join(self.folder, "weights")
        done = run([self.builds()[build], "train",
                    *self.options_of(model, BATCH, threads, percent), "--seed", "1", "--steps",
                    str(STEPS), "--no-test", "--no-samples", "--json", "--save", path])
        if done.returncode != 0:
            return refusal(done)
        found = digest(path)
        os.unlink(path)
        return found

    def find_plan(self, build, model, threads, percent):
        path = os.path.join(self.folder, "plan")
        done = run([self.builds()[build], "plan",
                    *self.options_of(model, BATCH, threads, percent), "--save", path, "--json"])
        return digest_plan(path) if done.returncode == 0 else refusal(done)

    def measure_step(self, build, model, batch, steps):
        done = run([self.builds()[build], "train",
                    *self.options_of(model, batch, max(self.options.threads), 100), "--seed", "1",
                    "--steps", str(steps), "--no-test", "--no-samples", "--json"])
        if done.returncode != 0:
            sys.exit(f"{build}, {model} at batch {batch}: {done.stderr}")
        found = last_json(done.stdout)
        return found["median_step_ms"], found["peak_rss_bytes"]

    def measure_planning(self, build, model, batch):
        """The fastest of a few: it is short, and a program that has just started is slow."""
        times = []
        for _ in range(PLANNINGS):
            done = run([self.builds()[build], "plan",
                        *self.options_of(model, batch, max(self.options.threads), PERCENT),
                        "--json"])
            times.append(last_json(done.stdout)["planning_ms"] if done.returncode == 0 else 0)
        return min(times)

    # ---- parts ----

    def compare_equal(self, part, find):
        for model in self.options.models:
            for threads in self.options.threads:
                for percent in (100, PERCENT):
                    for build in self.builds():
                        cell = (part, model, BATCH, threads, percent, build, 0)
                        if not self.get(*cell):
                            self.note(cell, find(build, model, threads, percent))
                    self.say_equal(part, model, threads, percent)

    def equal_of(self, part, model, threads, percent):
        found = [self.get(part, model, BATCH, threads, percent, build, 0)
                 for build in self.builds()]
        return None if None in found else found[0]["value"] == found[1]["value"]

    def say_equal(self, part, model, threads, percent):
        word = "the same" if self.equal_of(part, model, threads, percent) else "DIFFERENT"
        print(f"{part} {model} threads {threads} memory {percent} %: {word}", file=sys.stderr,
              flush=True)

    def n_steps(self, model, batch):
        """So many that a process takes some seconds."""
        known = self.get("length", model, batch, max(self.options.threads), 100, "base", 0)
        if not known:
            median_ms, _ = self.measure_step("base", model, batch, N_WARM + 3)
            steps = N_WARM + max(5, min(3000, int(self.options.seconds * 1e3 / median_ms)))
            cell = ("length", model, batch, max(self.options.threads), 100, "base", 0)
            self.note(cell, steps)
            known = self.get(*cell)
        return int(known["value"])

    def compare_cost(self, part, percent, measure):
        for model in self.options.models:
            for batch in self.options.batches:
                for process in range(self.options.processes):
                    turn = ("base", "new") if process % 2 == 0 else ("new", "base")
                    for build in turn:
                        cell = (part, model, batch, max(self.options.threads), percent, build,
                                process)
                        if not self.get(*cell):
                            self.note(cell, *measure(build, model, batch))
                self.say_cost(part, model, batch, percent)

    def ratio_of(self, part, model, batch, percent, field="value"):
        found = {}
        for build in self.builds():
            rows = [self.get(part, model, batch, max(self.options.threads), percent, build, p)
                    for p in range(self.options.processes)]
            if None in rows:
                return None
            found[build] = statistics.median(float(row[field]) for row in rows)
        return (found["base"], found["new"],
                found["new"] / found["base"] if found["base"] > 0 else math.nan)

    def say_cost(self, part, model, batch, percent):
        base, new, ratio = self.ratio_of(part, model, batch, percent)
        print(f"{part} {model} batch {batch}: {base:.3f} ms, {new:.3f} ms, {ratio:.4f}",
              file=sys.stderr, flush=True)

    def do(self, part):
        if part == "weights":
            self.compare_equal(part, self.find_weights)
        elif part == "plans":
            self.compare_equal(part, self.find_plan)
        elif part == "times":
            self.compare_cost(part, 100, lambda build, model, batch: self.measure_step(
                build, model, batch, self.n_steps(model, batch)))
        else:
            self.compare_cost(part, PERCENT, lambda build, model, batch: (
                self.measure_planning(build, model, batch),))

    # ---- tables ----

    def equal_table(self, part):
        cells = [(t, p) for t in self.options.threads for p in (100, PERCENT)]
        lines = [f"## {part}", "", "| model | " + " | ".join(
            f"{t} threads, {p} %" for t, p in cells) + " |", "|---" * (len(cells) + 1) + "|"]
        n_same = n_different = n_refused = 0
        for model in self.options.models:
            words = []
            for threads, percent in cells:
                equal = self.equal_of(part, model, threads, percent)
                row = self.get(part, model, BATCH, threads, percent, "base", 0)
                refused = bool(row) and row["value"].startswith("refused")
                words.append("" if equal is None else "DIFFERENT" if not equal else
                             "refused by both" if refused else "same")
                n_different += equal is False
                n_refused += equal is True and refused
                n_same += equal is True and not refused
            lines.append(f"| {model} | " + " | ".join(words) + " |")
        lines += ["", f"{n_same} the same, {n_refused} refused by both, {n_different} different", ""]
        return lines, n_different

    def least_table(self):
        """Where the builds do not accept the same budget."""
        lines = []
        for model in self.options.models:
            for threads in self.options.threads:
                found = [self.get("least", model, BATCH, threads, PERCENT, build, 0)
                         for build in self.builds()]
                if None in found or found[0]["value"] == found[1]["value"]:
                    continue
                base, new = (int(row["value"]) for row in found)
                lines.append(f"| {model} | {threads} | {base} | {new} | {new / base:.4f} |")
        if not lines:
            return []
        return ["## least budgets that differ", "", "| model | threads | base | new | ratio |",
                "|---|---|---|---|---|", *lines, ""]

    def cost_table(self, title, part, percent, field, scale, unit):
        lines = [f"## {title}", "", f"| model | batch | base, {unit} | new, {unit} | ratio |",
                 "|---|---|---|---|---|"]
        ratios = []
        for model in self.options.models:
            for batch in self.options.batches:
                found = self.ratio_of(part, model, batch, percent, field)
                if not found or math.isnan(found[2]):
                    continue
                ratios.append((found[2], f"{model} at batch {batch}"))
                lines.append(f"| {model} | {batch} | {found[0] / scale:.3f} | "
                             f"{found[1] / scale:.3f} | {found[2]:.4f} |")
        if ratios:
            mean = math.exp(statistics.fmean(math.log(r) for r, _ in ratios))
            worst = max(ratios)
            lines += ["", f"geometric mean {mean:.4f}, worst {worst[0]:.4f} ({worst[1]}), "
                          f"{len(ratios)} cells", ""]
        return lines

    def write_tables(self):
        lines, n_different = ["# Two builds compared", ""], 0
        for part in self.options.parts:
            if part in ("weights", "plans"):
                table, n = self.equal_table(part)
                lines += table
                n_different += n
            elif part == "times":
                lines += self.cost_table("step time", part, 100, "value", 1, "ms")
                lines += self.cost_table("resident memory", part, 100, "bytes", 1 << 20, "MiB")
            else:
                lines += self.cost_table("planning within 60 %", part, PERCENT, "value", 1, "ms")
        lines += self.least_table()
        with open(self.options.out + ".md", "w", encoding="ascii") as file:
            file.write("\n".join(lines) + "\n")
        print("\n".join(lines))
        return n_different


def key(row):
    return tuple(row[name] for name in FIELDS[:7])


def refusal(done):
    """A budget that is refused is a result; anything else that goes wrong ends the run."""
    if "at least" in done.stderr or "--memory" in done.stderr:
        return f"refused {done.returncode}"
    sys.exit(f"{' '.join(done.args)}: {done.stderr}")


def program_id(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()[:16]


def list_models(quern):
    return [line.split()[0] for line in run([quern, "models"]).stdout.splitlines()[1:] if line]


def numbers(text):
    return [int(x) for x in text.split(",")]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("new")
    parser.add_argument("out")
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--models", type=lambda text: text.split(","))
    parser.add_argument("--batches", type=numbers, default=[4, 16])
    parser.add_argument("--threads", type=numbers, default=[1, 2])
    parser.add_argument("--processes", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=3, help="a process of times takes")
    options = parser.parse_args()
    options.parts = options.parts or list(PARTS)
    if not set(options.parts) <= set(PARTS):
        parser.error(f"a part is one of {', '.join(PARTS)}")
    options.models = options.models or list_models(options.base)
    comparison = Comparison(options)
    for part in options.parts:
        comparison.do(part)
    return 1 if comparison.write_tables() else 0


if __name__ == "__main__":
    sys.exit(main())
