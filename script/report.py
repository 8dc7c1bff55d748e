#!/usr/bin/python3
"""Makes one HTML file of training runs, with nothing to fetch: loss and accuracy as curves, the
figures of each run in a table. Needs only Python's standard library.

    script/report.py --out report.html [--note TEXT] [--image FILE] RUN.jsonl...

RUN.jsonl is what `quern train --json` printed."""
import argparse
import base64
import html
import json
import pathlib

WIDTH, HEIGHT, LEFT, RIGHT, BOTTOM = 720, 300, 56, 24, 36
COLOURS = ["#1f5fa8", "#c2571a", "#2c7d4f", "#7a3e9d", "#8a6d00"]
STYLE = """body{font:16px/1.5 system-ui,sans-serif;max-width:760px;margin:2em auto;padding:0 1em;
color:#222;background:#fff}svg{width:100%;height:auto}table{border-collapse:collapse}
td,th{padding:.2em .8em;text-align:right;border-bottom:1px solid #ddd}pre{background:#f4f4f4;
padding:.8em;overflow-x:auto}img{image-rendering:pixelated;width:112px}"""
COLUMNS = [("seed", "seed", "{:d}"), ("steps", "steps", "{:d}"),
           ("test_accuracy", "test accuracy", "{:.2%}"),
           ("median_step_ms", "median step, ms", "{:.2f}"),
           ("samples_per_second", "samples/s", "{:.0f}"), ("threads", "threads", "{:d}"),
           ("peak_bytes", "peak bytes", "{:,d}"), ("peak_rss_bytes", "process, bytes", "{:,d}")]


def read_run(path):
    """Lists of the objects of one run, by event."""
    events = {"step": [], "epoch": [], "done": []}
    for line in path.read_text().splitlines():
        item = json.loads(line)
        events.setdefault(item["event"], []).append(item)
    return events


def smoothed_losses(steps, n_points=150):
    """(step, mean loss) of equal stretches of the run."""
    size = max(1, len(steps) // n_points)
    for start in range(0, len(steps) - size + 1, size):
        part = steps[start:start + size]
        yield part[-1]["step"], sum(item["loss"] for item in part) / size


def accuracies(run):
    """(step, test accuracy) after each epoch."""
    last = run["steps_total"]
    n_epochs = len(run["epoch"])
    for index, item in enumerate(run["epoch"], 1):
        if item.get("test_accuracy") is not None:
            yield last * index / n_epochs, item["test_accuracy"]


def chart(title, curves, low, high, percent=False, dots=False):
    """An SVG of curves [(label, [(x, y)...])...] over y from low to high."""
    right = max((x for _, points in curves for x, _ in points), default=1)
    inner_width, inner_height = WIDTH - LEFT - RIGHT, HEIGHT - BOTTOM - 28

    def place(x, y):
        return (LEFT + inner_width * x / right,
                28 + inner_height * (1 - (y - low) / ((high - low) or 1)))

    parts = [f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" font-size="12">'
             f'<title>{html.escape(title)}</title>'
             f'<text x="{LEFT}" y="16" font-weight="bold">{html.escape(title)}</text>']
    for tick in range(5):
        value = low + (high - low) * tick / 4
        _, y = place(0, value)
        text = f"{value:.1%}" if percent else f"{value:.2f}"
        parts.append(f'<path d="M{LEFT} {y:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                     f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        x, _ = place(right * tick / 4, low)
        parts.append(f'<text x="{x:.1f}" y="{HEIGHT - 12}" text-anchor="middle">'
                     f'{right * tick / 4:.0f}</text>')
    for index, (label, points) in enumerate(curves):
        colour = COLOURS[index % len(COLOURS)]
        placed = [place(x, y) for x, y in points]
        line = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{colour}" '
                     f'stroke-width="1.5"/>')
        if dots:
            parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>'
                      for x, y in placed]
        parts.append(f'<text x="{WIDTH - RIGHT - 6}" y="{16 + 14 * index}" text-anchor="end" '
                     f'fill="{colour}">{html.escape(label)}</text>')
    return "".join(parts) + "</svg>"


def table(runs):
    """The figures that each run ended with."""
    rows = ["<tr>" + "".join(f"<th>{title}</th>" for _, title, _ in COLUMNS) + "</tr>"]
    for run in runs:
        done = run["done"][-1]
        cells = (form.format(done[key]) if done.get(key) is not None else "–"
                 for key, _, form in COLUMNS)
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    return "<table>" + "".join(rows) + "</table>"


def charts(runs):
    """Loss over steps, and test accuracy after each epoch."""
    losses, accuracy = [], []
    for run in runs:
        label = f"seed {run['done'][-1]['seed']}"
        losses.append((label, list(smoothed_losses(run["step"]))))
        accuracy.append((label, list(accuracies(run))))
    highest = max((y for _, points in losses for _, y in points), default=1)
    parts = [chart("training loss over steps (mean of stretches)", losses, 0, highest)]
    values = [y for _, points in accuracy for _, y in points]
    if values:
        low = int(min(values) * 50) / 50
        parts.append(chart("test accuracy over steps", accuracy, low, max(max(values), low + 0.02),
                           percent=True, dots=True))
    return "".join(parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("runs", nargs="+", type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--title", default="quern: training runs")
    parser.add_argument("--note", default="", help="text shown as it is")
    parser.add_argument("--image", type=pathlib.Path, help="PNG shown above the note")
    arguments = parser.parse_args()
    runs = [read_run(path) for path in arguments.runs]
    for path, run in zip(arguments.runs, runs):
        if not run["done"]:
            parser.error(f"{path}: the run did not come to its end")
        run["steps_total"] = run["done"][-1]["steps"]
    picture = ""
    if arguments.image:
        data = base64.b64encode(arguments.image.read_bytes()).decode()
        picture = f'<p><img alt="" src="data:image/png;base64,{data}"></p>'
    title = html.escape(arguments.title)
    note = f"<pre>{html.escape(arguments.note)}</pre>" if arguments.note else ""
    arguments.out.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{STYLE}</style><h1>{title}</h1>{charts(runs)}{table(runs)}{picture}{note}</html>\n")


if __name__ == "__main__":
    main()
