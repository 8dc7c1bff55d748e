#!/usr/bin/env python3
"""Energy on the devices of tests/devices, whose watts are modelled: what schedules for energy need of what one by one on all cores at
full speed does, and whether a ceiling of power holds.

    bench/bench_devices.py [--batch N] [--power W] [--device NAME] [MODEL...]

A row has, for each machine of each device, millijoules of a step one by one and by --prefer energy, the part saved, how many times
as long the step is, and of the schedule under the ceiling (without --power 35 % of what all cores take, and idle watts) its time, that
one by one, and the highest mean power of any second of steps one behind the other, worked out from the trace of the schedule."""
import argparse
import json
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).parent.parent
QUERN = ROOT / "build" / "release" / "quern"
DEVICES = ROOT / "tests" / "devices"
MODELS = ["squeezenet", "googlenet", "inception-v3", "mobilenet-v2", "resnet18", "char-lstm", "lenet5"]


def plan(model, batch, machine, *options):
    done = subprocess.run([QUERN, "plan", model, "--batch", str(batch), "--machine", machine, "--json", *options], capture_output=True,
                          text=True, check=True)
    (event,) = [e for e in map(json.loads, done.stdout.splitlines()) if e["event"] == "cores"]
    return event["schedules"]


def most_watts(trace, step_ms, machine, idle):
    """Of any second: steps follow one another, and a second has many, or is a part of one."""
    watts = {line.split()[1]: float(line.split()[5]) for line in machine.read_text().splitlines() if line.startswith("cores")}
    events = json.loads(trace.read_text())["traceEvents"]
    kind = {e["tid"]: e["args"]["name"].split(", ")[1] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    slices = [(e["ts"] / 1000, (e["ts"] + e["dur"]) / 1000, watts[kind[e["tid"]]]) for e in events if e["ph"] == "X"]
    times = sorted({t for begin, end, _ in slices for t in (begin, end)})
    most = 0
    for at in times:
        joules = 0
        whole, part = divmod(1000.0, step_ms)
        for begin, end, w in slices:
            joules += w * (end - begin) * whole
            for shift in (0, step_ms):
                joules += w * max(0, min(end + shift, at + part) - max(begin + shift, at))
        most = max(most, idle + joules / 1000)
    return most


def facts(machine):
    """Idle watts, and a ceiling."""
    lines = [line.split() for line in machine.read_text().splitlines()]
    idle = next(float(words[1]) for words in lines if words[0] == "idle")
    return idle, idle + 0.35 * sum(float(words[2]) * float(words[5]) for words in lines if words[0] == "cores")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", default=MODELS)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--power", type=float)
    parser.add_argument("--device", default="*")
    a = parser.parse_args()
    least, highest = 1, 0
    for machine in sorted(DEVICES.glob(f"{a.device}/machine*.txt")):
        idle, ceiling = facts(machine)
        ceiling = a.power or round(ceiling, 1)
        for model in a.models:
            rows = plan(model, a.batch, machine, "--prefer", "energy")
            one, cheap = rows[0], rows[-1]
            with tempfile.TemporaryDirectory() as folder:
                trace = pathlib.Path(folder) / "t.json"
                cool = plan(model, a.batch, machine, "--power", str(ceiling), "--trace", trace)[-1]
                watts = most_watts(trace, cool["ms"], machine, idle)
            if "slower clock" in cool["name"]:
                watts = min(watts, cool["most_watts"])  # the trace has no clock: the schedule's own highest power holds
            saved = 1 - cheap["joules"] / one["joules"]
            least, highest = min(least, saved), max(highest, watts / ceiling)
            print(f"| {machine.parent.name} {machine.stem[7:]} | {model} | {1000 * one['joules']:.1f} | {1000 * cheap['joules']:.1f} | "
                  f"{100 * saved:.0f} | {cheap['ms'] / one['ms']:.1f} | {ceiling} | {cool['ms']:.1f} | {one['ms']:.1f} | {watts:.2f} |",
                  flush=True)
    print(f"least saved {100 * least:.0f} %; highest power {100 * highest:.0f} % of the ceiling")


if __name__ == "__main__":
    main()
