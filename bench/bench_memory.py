#!/usr/bin/python3
"""Holds our memory planner against the rivals in bench/policies, with bench_memory.

    bench/bench_memory.py OUT [slowdown] [batch] [large] [planning] [--models A,B] [--rounds N]

slowdown: every model at batch 32 within 75, 50, 35 and 25 % of the arena that training takes without a
budget: the time of a step over that without one, predicted from measured times of the nodes and (where
--rounds is above 0) measured, by policy. batch: the largest batch within what an unplanned training
step (qn_figures_unplanned) of batch 32 takes, for four models at 224x224, and the time per sample there, but at eight times the batch at most,
beside that of batch 16 without a budget ("ideal"), run in turn in one process. large: the six models
that a board of 8 GB could not train at batch 16, within 2 GB, or fixed part + 25 % where the fixed
part leaves no room, with the least arena that is found. planning: the processor time and the memory
of planning within 75, 50, 35 and 25 % at batch 64.

OUT.csv gets a line for each result; a run that was stopped, or whose --minutes were over, goes on from
there. With --threads 1 it is processor time that is measured, which others on the machine change
less. OUT.md gets the tables, OUT-slowdown.svg a picture. Times are good only from a machine that is otherwise
idle; the load is noted in each line."""

import argparse
import csv
import json
import os
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import dots  # noqa: E402 (found by the line before)

FIELDS = ("part", "model", "batch", "size", "percent", "policy", "feasible", "limit_bytes",
          "arena_bytes", "least_bytes", "own_top_bytes", "predicted", "measured", "fastest",
          "rounds", "step_ns", "default_step_ns", "over_ideal", "same_bits", "again", "planning_ns",
          "planning_cpu_ns", "planner_bytes", "fixed_bytes", "default_bytes", "bound_bytes",
          "unplanned_bytes", "unplanned_freed_bytes", "load")
ZOO = ("mlp", "lenet5", "alexnet", "vgg11", "vgg16", "vgg19", "resnet18", "resnet34", "resnet50",
       "resnet101", "resnet152", "squeezenet", "mobilenet-v1", "mobilenet-v2", "googlenet",
       "inception-v3", "xception", "densenet40", "densenet100", "char-cnn", "char-lstm", "seq2seq",
       "dcgan", "dqn", "bert-tiny", "bert-base")
PERCENTS = (75, 50, 35, 25)
RIVALS = ("default", "none", "sqrt", "sublinear", "capuchin-recompute", "dtr", "dtr-eq", "dtr-local",
          "melon")
BATCH_MODELS = ("mobilenet-v1", "mobilenet-v2", "squeezenet", "resnet50")
LARGE = (("vgg19", 224), ("resnet101", 224), ("resnet152", 224), ("bert-base", 0),
         ("densenet100", 0), ("seq2seq", 0))
PLANNED = ("lenet5", "resnet50", "resnet152", "bert-base")
PLANNED_BATCH = 64
LARGE_BYTES, LARGE_BATCH = 2 << 30, 16
SMALL_BATCH, PHONE_BATCH, AIM_BATCH, PIXELS = 16, 32, 256, 224


# ---- results so far ----


def read_rows(path):
    if not os.path.exists(path):
        return []
    with open(path, encoding="ascii", newline="") as file:
        return list(csv.DictReader(file))


def add_row(options, rows, row):
    row = {name: str(row.get(name, "")) for name in FIELDS}
    rows.append(row)
    with open(options.out + ".csv", "a", encoding="ascii", newline="") as file:
        writer = csv.DictWriter(file, FIELDS)
        if file.tell() == 0:
            writer.writeheader()
        writer.writerow(row)


def find(rows, **wanted):
    return [row for row in rows if all(row[k] == str(v) for k, v in wanted.items())]


def number(row, name):
    return float(row[name]) if row.get(name) else None


# ---- runs ----


def run(options, model, batch, size, *arguments):
    """The objects that bench_memory prints: the model's figures, and a list of the others."""
    command = [options.program, model, "--batch", str(batch), "--size", str(size), "--threads",
               str(options.threads), *map(str, arguments)]
    result = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    lines = [json.loads(line) for line in result.stdout.splitlines()]
    if result.returncode != 0 or not lines:
        print(f"bench_memory: {' '.join(command)} ended with {result.returncode}", file=sys.stderr)
        return None, []
    return lines[0], lines[1:]


def take(options, rows, part, subject, found):
    for one in found:
        shared = {k: subject[k] for k in ("fixed_bytes", "default_bytes", "bound_bytes",
                                          "unplanned_bytes", "unplanned_freed_bytes")}
        add_row(options, rows, {**one, **shared, "part": part,
                                "load": f"{os.getloadavg()[0]:.1f}"})
        print(f"{part}: {one['model']} batch {one['batch']} {one['percent']:g} % {one['policy']}: "
              f"{one.get('measured', one.get('predicted', 'does not fit'))}", file=sys.stderr,
              flush=True)


def run_slowdown(options, rows):
    part = "slowdown" if options.rounds else "predicted"
    for model in options.models or ZOO:
        left = [p for p in options.percents if not find(rows, part=part, model=model, percent=p)]
        if not left or is_over(options):
            continue
        subject, found = run(options, model, options.batch, 0, "--percent",
                             ",".join(map(str, left)), "--rounds", options.rounds, "--seconds",
                             options.seconds, "--profile", options.profile, "--steps",
                             options.steps, "--policies", ",".join(("quern",) + options.rivals))
        if subject:
            take(options, rows, part, subject, found)
            write_results(options, rows)


def fits(options, model, batch, limit):
    subject, found = run(options, model, batch, PIXELS, "--bytes", limit, "--rounds", 0,
                         "--profile", 0, "--policies", "quern")
    return subject is not None and found[0]["feasible"]


def largest_batch(options, model, limit):
    """The largest multiple of 8 that our planner fits into an arena."""
    low, high = PHONE_BATCH, PHONE_BATCH * 2
    while fits(options, model, high, limit):
        low, high = high, high * 2
    while high - low > 8:
        middle = (low + high) // 16 * 8
        low, high = (middle, high) if fits(options, model, middle, limit) else (low, middle)
    return low


def run_batch(options, rows):
    for model in options.models or BATCH_MODELS:
        if find(rows, part="batch", model=model) or is_over(options):
            continue
        phone, _ = run(options, model, PHONE_BATCH, PIXELS, "--rounds", 0, "--profile", 0)
        if not phone:
            continue
        limit = phone["unplanned_bytes"]
        most = largest_batch(options, model, limit)
        for batch in sorted({min(most, AIM_BATCH), most}):
            rounds = options.rounds if batch <= AIM_BATCH else 0
            subject, found = run(options, model, batch, PIXELS, "--bytes", limit, "--rounds",
                                 rounds, "--profile", 0, "--steps", 0, "--most",
                                 max(limit, 1 << 30), "--ideal", SMALL_BATCH, "--policies", "quern")
            if subject:
                take(options, rows, "batch", subject, found)
                write_results(options, rows)


def run_large(options, rows):
    for model, size in LARGE:
        if find(rows, part="large", model=model) or is_over(options):
            continue
        figures, least = run(options, model, LARGE_BATCH, size, "--bytes", 64, "--rounds", 0,
                             "--profile", 0, "--policies", "quern")
        if not figures:
            continue
        room = LARGE_BYTES - figures["fixed_bytes"]
        if room < least[0]["least_bytes"]:
            room = max(figures["default_bytes"] // 4, least[0]["least_bytes"])
        subject, found = run(options, model, LARGE_BATCH, size, "--bytes", room, "--rounds",
                             options.rounds, "--profile", options.profile, "--steps",
                             options.steps, "--policies", "quern")
        if subject:
            for one in found:
                one["least_bytes"] = least[0]["least_bytes"]
            take(options, rows, "large", subject, found)
            write_results(options, rows)


def run_planning(options, rows):
    for model in options.models or PLANNED:
        if find(rows, part="planning", model=model) or is_over(options):
            continue
        subject, found = run(options, model, PLANNED_BATCH, 0, "--percent",
                             ",".join(map(str, PERCENTS)), "--rounds", 0, "--profile", 0,
                             "--policies", "quern")
        if subject:
            take(options, rows, "planning", subject, found)
            write_results(options, rows)


def is_over(options):
    return time.monotonic() > options.end


# ---- tables ----


def slowdown(row):
    """The median where it was measured, else predicted; none: it does not fit."""
    if row["feasible"] != "True":
        return None
    return number(row, "measured") or number(row, "predicted")


def mean(values):
    return f"{statistics.geometric_mean(values):.3f}" if values else ""


def slowdown_table(rows, part):
    names = [n for n in ("quern",) + RIVALS if find(rows, part=part, policy=n)]
    lines = [f"| model | budget | {' | '.join(names)} |", "|---|---:|" + "---:|" * len(names)]
    for model in ZOO:
        for percent in PERCENTS:
            cells = {r["policy"]: r for r in rows if r["part"] == part and r["model"] == model and
                     float(r["percent"]) == percent}
            if not cells:
                continue
            values = {n: slowdown(cells[n]) if n in cells else None for n in names}
            least = min((v for v in values.values() if v), default=None)
            texts = [("**%.3f**" if v == least else "%.3f") % v if v else "—"
                     for v in (values[n] for n in names)]
            lines.append(f"| {model} | {percent} % | {' | '.join(texts)} |")
    return lines


def means_table(rows, part):
    """Geometric means over the models that both fit, and how many models each fits."""
    lines = ["| budget | rival | models: quern | rival | quern, where both fit | rival |",
             "|---:|---|---:|---:|---:|---:|"]
    for percent in PERCENTS:
        at = [r for r in rows if r["part"] == part and float(r["percent"]) == percent]
        ours = {r["model"]: slowdown(r) for r in at if r["policy"] == "quern"}
        for rival in RIVALS:
            theirs = {r["model"]: slowdown(r) for r in at if r["policy"] == rival}
            both = [m for m in theirs if theirs[m] and ours.get(m)]
            if not theirs:
                continue
            lines.append(f"| {percent} % | {rival} | {sum(1 for v in ours.values() if v)} | "
                         f"{sum(1 for v in theirs.values() if v)} of {len(theirs)} | "
                         f"{mean([ours[m] for m in both])} | {mean([theirs[m] for m in both])} |")
        lines.append(f"| {percent} % | all that fit | {sum(1 for v in ours.values() if v)} of "
                     f"{len(ours)} | | {mean([v for v in ours.values() if v])} | |")
    return lines


def memory_table(rows):
    lines = ["| model | fixed part | unplanned | default | ratio | least found | of default "
             "| no arena is below |", "|---|---:|---:|---:|---:|---:|---:|---:|"]
    ratios = []
    for model in ZOO:
        mine = [r for r in rows if r["part"] in ("slowdown", "predicted") and r["model"] == model]
        if not mine:
            continue
        full, plain = number(mine[0], "default_bytes"), number(mine[0], "unplanned_bytes")
        least = min(number(r, "least_bytes") for r in mine if r["policy"] == "quern")
        bound = number(mine[0], "bound_bytes")
        ratios.append(full / plain)
        lines.append(f"| {model} | {number(mine[0], 'fixed_bytes') / 1e6:.1f} | {plain / 1e6:.1f} | "
                     f"{full / 1e6:.1f} | {full / plain:.3f} | {least / 1e6:.1f} | "
                     f"{100 * least / full:.0f} % | {100 * bound / full:.0f} % |")
    return lines + ["", f"Geometric mean of default to unplanned: {mean(ratios)}."]


def batch_table(rows):
    lines = ["| model | arena, MB | batch | times 32 | ms a sample | over batch 16 | predicted | again |",
             "|---|---:|---:|---:|---:|---:|---:|---:|"]
    for model in BATCH_MODELS:
        for r in find(rows, part="batch", model=model):
            batch, step, over = int(r["batch"]), number(r, "step_ns"), number(r, "over_ideal")
            lines.append(f"| {model} | {number(r, 'limit_bytes') / 1e6:.0f} | {batch} | "
                         f"{batch / PHONE_BATCH:.2f} | "
                         f"{f'{step / batch / 1e6:.1f}' if step else '—'} | "
                         f"{f'{over:.3f}' if over else '—'} | {number(r, 'predicted'):.3f} | "
                         f"{r['again']} |")
    return lines


def planning_table(rows):
    lines = ["| model | budget | processor time, ms | planner's memory, MB | slowdown |",
             "|---|---:|---:|---:|---:|"]
    for r in rows:
        if r["part"] != "planning":
            continue
        fits = r["feasible"] == "True"
        text = (f"{number(r, 'planner_bytes') / 1e6:.1f} | {number(r, 'predicted'):.3f}" if fits
                else "— | refused")
        lines.append(f"| {r['model']} | {r['percent']} % | "
                     f"{number(r, 'planning_cpu_ns') / 1e6:.0f} | {text} |")
    return lines


def large_table(rows):
    lines = ["| model | fixed part, MB | default arena | least arena | arena allowed | used | "
             "predicted | ms a step |", "|---|---:|---:|---:|---:|---:|---:|---:|"]
    for r in rows:
        if r["part"] != "large" or not r["arena_bytes"]:
            continue
        mb = [f"{number(r, k) / 1e6:.0f}" for k in ("fixed_bytes", "default_bytes", "least_bytes",
                                                    "limit_bytes", "arena_bytes")]
        step = number(r, "step_ns")
        lines.append(f"| {r['model']} | {' | '.join(mb)} | {number(r, 'predicted'):.3f} | "
                     f"{step / 1e6 if step else float('nan'):.0f} |")
    return lines


def describe(rows, part):
    loads = [float(r["load"]) for r in rows if r["part"] == part and r["load"]]
    bits = [r["same_bits"] for r in rows if r["part"] == part and r["same_bits"] in ("True",
                                                                                    "False")]
    text = f"Load average {min(loads):.1f} to {max(loads):.1f}."
    if bits:
        text += f" Equal bits in {bits.count('True')} of {len(bits)} runs."
    return text


def write_results(options, rows):
    lines = []
    for part, title in (("slowdown", "Time of a step over that without a budget, measured"),
                        ("predicted", "Time of a step over that without a budget, predicted")):
        if not find(rows, part=part):
            continue
        lines += [f"## {title}", "", describe(rows, part), "", *means_table(rows, part), "",
                  *slowdown_table(rows, part), ""]
        draw(options, rows, part)
    if find(rows, part="slowdown") or find(rows, part="predicted"):
        lines += ["## Memory without a budget, MB", "", *memory_table(rows), ""]
    for part, title, table in (("batch", "Largest batch", batch_table),
                               ("large", "Large models at batch 16", large_table),
                               ("planning", "Planning at batch 64", planning_table)):
        if find(rows, part=part):
            lines += [f"## {title}", "", describe(rows, part), "", *table(rows), ""]
    with open(options.out + ".md", "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


def draw(options, rows, part):
    """The fastest rival's time over ours, a dot for each budget."""
    ratios = {}
    for model in ZOO:
        for percent in PERCENTS:
            at = [r for r in rows if r["part"] == part and r["model"] == model and
                  float(r["percent"]) == percent]
            ours = [slowdown(r) for r in at if r["policy"] == "quern" and slowdown(r)]
            theirs = [slowdown(r) for r in at if r["policy"] != "quern" and slowdown(r)]
            if ours and theirs:
                ratios.setdefault(model, {})[percent] = min(theirs) / ours[0]
    if ratios:
        dots.draw("quern beside the fastest rival, by budget in per cent",
                  "time of the fastest rival's step / ours; right of 1 quern is ahead", ratios,
                  f"{options.out}-{part}.svg")


def parse():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", help="where OUT.csv, OUT.md and the pictures go")
    parser.add_argument("parts", nargs="*", choices=("slowdown", "batch", "large", "planning"))
    parser.add_argument("--models", default="")
    parser.add_argument("--rivals", default=",".join(RIVALS[1:]),
                        help="default: the plan without a budget again, which shows the noise")
    parser.add_argument("--batch", type=int, default=32, help="of slowdown")
    parser.add_argument("--percents", default=",".join(map(str, PERCENTS)), help="of slowdown")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=5, help="of all plans in turn; 0: predicted")
    parser.add_argument("--seconds", type=float, default=10, help="more rounds within this, a budget")
    parser.add_argument("--profile", type=int, default=5, help="steps that nodes are measured in")
    parser.add_argument("--steps", type=int, default=2,
                        help="whose weights are compared, before the rounds")
    parser.add_argument("--minutes", type=float, default=1e6, help="after which no run is begun")
    parser.add_argument("--program", default=os.path.join(HERE, "..", "build", "release", "bench",
                                                          "bench_memory"))
    options = parser.parse_args()
    options.models = tuple(filter(None, options.models.split(",")))
    options.rivals = tuple(filter(None, options.rivals.split(",")))
    options.percents = tuple(map(int, options.percents.split(",")))
    options.end = time.monotonic() + 60 * options.minutes
    return options


def main():
    options = parse()
    rows = read_rows(options.out + ".csv")
    for part, do in (("slowdown", run_slowdown), ("batch", run_batch), ("large", run_large),
                     ("planning", run_planning)):
        if part in options.parts:
            do(options, rows)
    write_results(options, rows)


if __name__ == "__main__":
    main()
