#!/usr/bin/env python3
"""Changes the budget at 25, 50 and 75 % of a training step, from the usual plan to a share of its arena and
back, and prints what runs again against beginning the step anew under the new plan, in estimated time.

    bench/bench_adapt.py [--build DIR] [--run] [MODEL:BATCH:PERCENT ...]

After that, what the change waits for: the time of finding the plan, and of making it of one that is ready.
"again" is all that runs again from the change on, "anyway" what of it would have without the change: what a
budget before has dropped must be made again, whatever comes. "saved" is what the change itself runs again
(the difference) against a restart; "in all" counts what would have run again anyway too. With --run every
change is also done, timed, and its bits compared. The table is Markdown."""
import argparse
import statistics
import subprocess

MODELS = ("mobilenet-v1:32:50", "mobilenet-v2:32:50", "squeezenet:32:50", "resnet50:32:50",
          "vgg11:32:60", "googlenet:32:50", "densenet40:16:60")


def measure(tool, model, batch, percent, run):
    """Rows of one model: direction, share of the step, and figures by name."""
    command = [tool, model, batch, percent, *(["run"] if run else [])]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    for line in text.splitlines():
        words = line.removesuffix(" same bits").split()
        figures = dict(zip(words[2::2], map(float, words[3::2])))
        yield words[0], int(words[1]), figures, line.endswith(" same bits")


def saved(figures):
    return 1 - max(figures["again"] - figures["stay"], 0) / figures["restart"]


def saved_in_all(figures):
    return 1 - figures["again"] / figures["restart"]


def summarise(name, all_figures):
    for way, share in ("", saved), (" in all", saved_in_all):
        shares = [share(f) for f in all_figures]
        print(f"{name}: {100 * statistics.mean(shares):.1f} % saved{way} in the mean, "
              f"{100 * min(shares):.1f} % at least")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build/release")
    parser.add_argument("--run", action="store_true")
    parser.add_argument("models", nargs="*", default=MODELS)
    options = parser.parse_args()
    tool = f"{options.build}/tests/switch_budget"
    done = {"shrink": [], "grow": []}
    waits = []
    print("| model, batch, arena | change | at | restart ms | again ms | anyway ms | operations "
          "| moved MB | saved | in all |" + (" took ms |" if options.run else ""))
    print("|---|---|---|---|---|---|---|---|---|---|" + ("---|" if options.run else ""))
    for name in options.models:
        model, batch, percent = name.split(":")
        for direction, at, f, is_same in measure(tool, model, batch, percent, options.run):
            if direction == "plan":
                waits.append((name, f))
                continue
            done[direction].append(f)
            assert is_same or not options.run
            print(f"| {model}, {batch}, {percent} % | {direction} | {at} % | {f['restart'] / 1e6:.0f} "
                  f"| {f['again'] / 1e6:.1f} | {f['stay'] / 1e6:.1f} | {f['nodes']:.0f} "
                  f"| {f['moved'] / 1e6:.1f} | {100 * saved(f):.1f} % | {100 * saved_in_all(f):.1f} % |"
                  + (f" {f['took'] / 1e6:.1f} |" if options.run else ""))
    print("\n| model, batch, arena | plan found in ms | plan that was ready in ms |\n|---|---|---|")
    for name, f in waits:
        print(f"| {name.replace(':', ', ')} % | {f['found'] / 1e6:.1f} | {f['ready'] / 1e6:.1f} |")
    print()
    for direction, figures in done.items():
        summarise(direction, figures)
    summarise("both", done["shrink"] + done["grow"])


if __name__ == "__main__":
    main()
