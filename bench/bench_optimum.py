#!/usr/bin/python3
"""Compares the time that the planner loses to recomputation with the least possible.

    bench/bench_optimum.py OUT [--program build/release/bench/bench_optimum] [--seeds 12]
                           [--seconds 300] [--solver cbc]

The steps of small random networks are planned within four limits each. For each a mixed-integer
program is written and solved by cbc (Debian's coinor-cbc): stage t ends when turn t has run for the
first time; R[t,i]: turn i runs in stage t; S[t,v]: value v is kept from stage t - 1 to t; F[t,v,k]: v
is freed in stage t behind turn k. (The formulation is that of Jain and others, "Checkmate", MLSys
2020, section 4, with values of their own, outputs in the place of inputs, workspaces, and turns that
may run once only.) It counts live bytes, where the planner's limit is on the packed arena, and stages
keep the usual order, where the planner may run a turn later: so the planner can be below it, too.

OUT gets a table in Markdown: ours, the best solution found, the bound proven, and ours over the bound
in per cent of the whole step and of the loss."""

import argparse
import os
import subprocess
import tempfile


class Step:
    """A step as bench_optimum prints it."""

    def __init__(self, text):
        self.turns, self.outputs, self.reads, self.plans = [], {}, {}, []
        self.bytes, self.results, self.producer, self.readers = {}, set(), {}, {}
        for line in text.splitlines():
            word, *rest = line.split()
            numbers = [float(n) for n in rest]
            getattr(self, "take_" + word)(numbers)

    def take_graph(self, n):
        self.base_ns, self.full = n[2], int(n[3])

    def take_turn(self, n):
        self.turns.append((n[1], int(n[2]), int(n[3])))
        self.outputs[int(n[0])], self.reads[int(n[0])] = [], []

    def take_output(self, n):
        turn, value = int(n[0]), int(n[1])
        self.outputs[turn].append(value)
        self.bytes[value], self.producer[value] = int(n[2]), turn
        self.readers[value] = []
        if n[3]:
            self.results.add(value)

    def take_read(self, n):
        turn, value = int(n[0]), int(n[1])
        self.reads[turn].append((value, bool(n[2])))
        if turn not in self.readers[value]:
            self.readers[value].append(turn)

    def take_plan(self, n):
        self.plans.append((int(n[0]), int(n[1]), n[2], n[3]))


class Program:
    """The mixed-integer program of a step within a limit of live bytes, in LP format."""

    def __init__(self, step, limit):
        self.step, self.limit = step, limit
        self.rows, self.binaries, self.fixed = [], set(), {}
        self.unit = 1024.0
        n = len(step.turns)
        for t in range(n):
            self.add_stage(t, n)

    def runs(self, t, i):
        """R[t,i], or a number where it is known."""
        if i > t:
            return 0
        if i == t:
            return 1
        latest = self.step.turns[i][2]
        if latest < 0 or latest < t or self.step.turns[t][2] < 0 and not self.step.outputs[t]:
            return 0
        return self.binary("R_%d_%d" % (t, i))

    def kept(self, t, v):
        """S[t,v], or a number where it is known."""
        n = len(self.step.turns)
        if t >= n:
            return 1 if v in self.step.results else 0
        if t <= self.step.producer[v]:
            return 0
        if v in self.step.results:
            return 1
        if self.step.turns[self.step.producer[v]][2] >= 0 or t <= max(self.step.readers[v] or [0]):
            return self.binary("S_%d_%d" % (t, v))
        return 0

    def binary(self, name):
        self.binaries.add(name)
        return name

    def row(self, terms, sense, right):
        """terms: pairs of factor and name or number."""
        factors = {}
        for factor, what in terms:
            if isinstance(what, (int, float)):
                right -= factor * what
            else:
                factors[what] = factors.get(what, 0) + factor
        texts = ["%+.9g %s" % (factor, what) for what, factor in factors.items() if factor]
        if texts:
            self.rows.append("%s %s %.9g" % (" ".join(texts), sense, right))
            return
        holds = {"<=": 0 <= right + 1e-9, ">=": 0 >= right - 1e-9, "=": abs(right) < 1e-9}[sense]
        if not holds:
            self.rows.append("zero %s %.9g" % (sense, right))
            self.fixed["zero"] = 0

    def add_stage(self, t, n):
        step = self.step
        for i in range(t + 1):
            for v, _ in step.reads[i]:
                self.row([(1, self.runs(t, i)), (-1, self.runs(t, step.producer[v])),
                          (-1, self.kept(t, v))], "<=", 0)
        for v in step.bytes:
            if t < n:
                self.row([(1, self.kept(t + 1, v)), (-1, self.kept(t, v)),
                          (-1, self.runs(t, step.producer[v]))], "<=", 0)
        self.add_memory(t)

    def freed(self, t, v, k):
        """F[t,v,k]: v is freed behind k, which reads or makes it."""
        step = self.step
        ends = [(1, self.runs(t, k))] if self.runs(t, k) != 0 else None
        if ends is None or self.kept(t + 1, v) == 1:
            return 0
        name = "F_%d_%d_%d" % (t, v, k)
        if name in self.fixed:
            return name
        self.fixed[name] = None
        self.row([(1, name), (-1, self.runs(t, k))], "<=", 0)
        self.row([(1, name), (1, self.kept(t + 1, v))], "<=", 1)
        for j in step.readers[v]:
            if k < j <= t:
                self.row([(1, name), (1, self.runs(t, j))], "<=", 1)
        return name

    def add_memory(self, t):
        step, unit = self.step, self.unit
        alive = [(step.bytes[v] / unit, self.kept(t, v)) for v in step.bytes]
        for k in range(t + 1):
            run = self.runs(t, k)
            frees, places = [], []
            for v in set([v for v, _ in step.reads[k]] + step.outputs[k]):
                freed = self.freed(t, v, k)
                frees.append((-step.bytes[v] / unit, freed))
                if any(u == v and p for u, p in step.reads[k]) and step.outputs[k] and \
                        step.bytes[v] == step.bytes[step.outputs[k][0]]:
                    places.append((-1, freed))
            made = [(sum(step.bytes[v] for v in step.outputs[k]) / unit, run)]
            top = alive + made + [(step.turns[k][1] / unit, run)]
            if places:
                name = "I_%d_%d" % (t, k)
                self.fixed[name] = None
                self.row([(1, name)] + places, "<=", 0)
                self.row([(1, name), (-1, run)], "<=", 0)
                top = top + [(-step.bytes[step.outputs[k][0]] / unit, name)]
            if run != 0:
                self.row(top, "<=", self.limit / unit)
            alive = alive + made + frees

    def write(self, path):
        step, names = self.step, sorted(self.binaries)
        cost = ["%+.9g %s" % (step.turns[int(name.split("_")[2])][0] / 1000, name)
                for name in names if name[0] == "R"]
        with open(path, "w") as file:
            file.write("Minimize\n obj: %s\nSubject To\n" % (" ".join(cost) or "0 zero"))
            for i, row in enumerate(self.rows):
                file.write(" c%d: %s\n" % (i, row))
            file.write("Bounds\n")
            for name in self.fixed:
                file.write(" 0 <= %s <= %d\n" % (name, 0 if name == "zero" else 1))
            file.write("Binaries\n %s\nEnd\n" % "\n ".join(names))


def solve(program, options):
    """Best ns found (None: infeasible, or nothing found) and the bound proven."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "step.lp")
        program.write(path)
        done = subprocess.run([options.solver, path, "sec", str(options.seconds), "ratio", "0.001",
                               "solve"], stdout=subprocess.PIPE, text=True, check=True)
    if "ERROR" in done.stdout:
        raise SystemExit(done.stdout)
    best, bound = None, 0.0
    for line in done.stdout.splitlines():
        if line.startswith("Objective value:"):
            best = float(line.split()[-1]) * 1000
        elif line.startswith("Lower bound:"):
            bound = float(line.split()[-1]) * 1000
        elif line.startswith("Result -") and "infeasible" in line:
            return None, float("inf")
    proven = "Result - Optimal solution found" in done.stdout
    return best, best if proven and best is not None else bound


def compare(options, file):
    worst = 0.0
    file.write("| step | turns | limit | ours, ns | found | bound | over the bound, of the step | "
               "of the loss |\n|---|---|---|---|---|---|---|---|\n")
    for seed in range(options.seeds):
        done = subprocess.run([options.program, str(seed)], stdout=subprocess.PIPE, text=True,
                              check=True)
        step = Step(done.stdout)
        for limit, _, extra, _ in step.plans:
            best, bound = solve(Program(step, limit), options)
            over = (extra - bound) / (step.base_ns + bound)
            loss = (extra - bound) / bound if bound > 0 else float(extra > 0)
            worst = max(worst, over)
            file.write("| %d | %d | %.1f %% | %.0f | %s | %.0f | %+.2f %% | %+.1f %% |\n" % (
                seed, len(step.turns), 100 * limit / step.full, extra,
                "none" if best is None else "%.0f" % best, bound, 100 * over, 100 * loss))
            file.flush()
    file.write("\nMost over the bound, of the step: %.2f %%.\n" % (100 * worst))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out")
    parser.add_argument("--program", default="build/release/bench/bench_optimum")
    parser.add_argument("--seeds", type=int, default=12)
    parser.add_argument("--seconds", type=int, default=300)
    parser.add_argument("--solver", default="cbc")
    options = parser.parse_args()
    with open(options.out, "w") as file:
        compare(options, file)


if __name__ == "__main__":
    main()
