#!/usr/bin/python3
"""Writes an HTML page of training runs that opens offline: loss and accuracy over the steps, the
figures of each run, and what was predicted for one image. Its style and scripts are those of quern's
own pages (src/report/page). Needs Python's standard library and Chart.js (libjs-chart.js).

    script/report.py --out report.html [--machine FILE] [--image PNG --predicted FILE] RUN.jsonl...

RUN.jsonl is what `quern train --json` printed, --machine what `quern devices --json` printed,
--predicted what `quern predict --json` printed."""
import argparse
import base64
import html
import json
import pathlib
import time

PAGE = pathlib.Path(__file__).resolve().parent.parent / "src/report/page"
CHARTS = [pathlib.Path("/usr/share/javascript/chart.js/chart.min.js"),
          pathlib.Path("/usr/share/nodejs/chart.js/dist/chart.min.js")]
MEBIBYTE = 1 << 20
POLICY = ("default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
          "img-src data:")


def read_run(path):
    """The objects of one run, in lists by event."""
    events = {"step": [], "epoch": [], "done": []}
    for line in path.read_text().splitlines():
        item = json.loads(line)
        events.setdefault(item["event"], []).append(item)
    return events


def smoothed_losses(steps, n_points=150):
    """(step, mean loss) over equal stretches of the run."""
    size = max(1, len(steps) // n_points)
    for start in range(0, len(steps) - size + 1, size):
        part = steps[start:start + size]
        yield part[-1]["step"], sum(item["loss"] for item in part) / size


def accuracies(run):
    """(step, test accuracy in percent) after each epoch."""
    last, n_epochs = run["done"][-1]["steps"], len(run["epoch"])
    for index, item in enumerate(run["epoch"], 1):
        if item.get("test_accuracy") is not None:
            yield round(last * index / n_epochs), 100 * item["test_accuracy"]


# ---- parts of the page: see src/report/document.c ----

def element(kind, text):
    return f"<{kind}>{html.escape(text)}</{kind}>\n"


def figures(boxes):
    """A row of boxes (label, value, note)."""
    rows = "".join(
        f'<div class="figure"><span class="label">{html.escape(label)}</span>'
        f'<span class="value">{html.escape(value)}</span>'
        f'<span class="note">{html.escape(note)}</span></div>\n' for label, value, note in boxes)
    return f'<div class="figures">\n{rows}</div>\n'


def chart(kind, title, x, y, series, labels=()):
    """series: [(name, [(x, y)...])]; of bars y alone counts, one for each of labels."""
    data = {"kind": kind, "x": x, "y": y, "xLog": False, "yLog": False, "labels": list(labels),
            "series": [dict({"name": name, "guide": False, "y": [p[1] for p in points]},
                            **({} if labels else {"x": [p[0] for p in points]}))
                       for name, points in series]}
    name, text = html.escape(title), json.dumps(data).replace("<", "\\u003c")
    return (f'<figure class="chart" data-name="{name}"><figcaption>{name}</figcaption>\n'
            f'<div class="plot"><canvas role="img" aria-label="{name}"></canvas></div>\n'
            f'<script type="application/json">{text}</script></figure>\n')


def table(title, columns, rows):
    """rows: lists of numbers with their decimals, (value, decimals), or texts."""
    def cell(item):
        if isinstance(item, str):
            return f"<td>{html.escape(item)}</td>"
        value, decimals = item
        text, exact = ("\u2013", "") if value is None else (f"{value:,.{decimals}f}", value)
        return f'<td class="n" data-v="{exact}">{text}</td>'
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in columns)
    body = "".join("<tr>" + "".join(map(cell, row)) + "</tr>\n" for row in rows)
    name = html.escape(title)
    return (f'<figure class="table" data-name="{name}"><figcaption>{name}</figcaption>\n'
            f'<div class="scroll" tabindex="0"><table><thead><tr>{head}</tr></thead>'
            f"<tbody>\n{body}</tbody></table></div></figure>\n")


def about(machine, n_threads):
    """The line below the title."""
    parts = [machine] if machine else []
    parts += [f"{n_threads} thread{'s' if n_threads != 1 else ''}", time.strftime("%Y-%m-%d %H:%M")]
    return '<p class="about">' + " \u00b7 ".join(f"<span>{html.escape(p)}</span>"
                                                for p in parts) + "</p>\n"


def page(title, body):
    """A whole file."""
    library = next((path for path in CHARTS if path.exists()), None)
    if not library:
        raise SystemExit("report.py: Chart.js was not found; install libjs-chart.js")
    licence, style = (PAGE / "charts.licence.js").read_text(), (PAGE / "page.css").read_text()
    scripts = [licence + library.read_text(),
               *((PAGE / name).read_text() for name in ("canvas.js", "plan.js", "lanes.js", "matrix.js", "page.js"))]
    name = html.escape(title)
    return (f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
            f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            f'<meta name="color-scheme" content="light dark">\n'
            f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
            f"<title>{name}</title>\n<style>\n{style}</style>\n</head>\n<body>\n<main>\n"
            f"<h1>{name}</h1>\n{body}</main>\n"
            + "".join(f"<script>\n{script}</script>\n" for script in scripts) + "</body>\n</html>\n")


# ---- what is shown ----

def headline(runs):
    """The figures of all runs at the top: means."""
    done = [run["done"][-1] for run in runs]
    note = f"mean of {len(done)} seeds" if len(done) > 1 else ""

    def mean(key):
        values = [item[key] for item in done if item.get(key) is not None]
        return sum(values) / len(values) if values else None
    boxes = [("test accuracy", "test_accuracy", 100, "{:.2f} %", note),
             ("step time", "median_step_ms", 1, "{:.2f} ms", "median"),
             ("throughput", "samples_per_second", 1, "{:,.0f} samples/s", ""),
             ("memory of training", "peak_bytes", 1 / MEBIBYTE, "{:.2f} MiB", "peak, as planned"),
             ("resident memory", "peak_rss_bytes", 1 / MEBIBYTE, "{:.1f} MiB",
              "peak of the process")]
    return figures([(label, form.format(mean(key) * scale), remark)
                    for label, key, scale, form, remark in boxes if mean(key) is not None])


def curves(runs):
    """Loss and accuracy, a line a run."""
    names = [f"seed {run['done'][-1]['seed']}" for run in runs]
    parts = [chart("line", "Training loss", "step", "loss",
                   [(name, list(smoothed_losses(run["step"]))) for name, run in zip(names, runs)])]
    accuracy = [(name, list(accuracies(run))) for name, run in zip(names, runs)]
    if any(points for _, points in accuracy):
        parts.append(chart("line", "Test accuracy after each epoch", "step", "accuracy (%)", accuracy))
    return "".join(parts)


def runs_table(runs):
    """The figures that each run ended with."""
    def row(done):
        def scaled(key, scale, decimals):
            value = done.get(key)
            return (None if value is None else round(value * scale, 6), decimals)
        return [(done["seed"], 0), (done["steps"], 0), scaled("test_accuracy", 100, 2),
                scaled("median_step_ms", 1, 2), scaled("samples_per_second", 1, 0),
                scaled("peak_bytes", 1 / MEBIBYTE, 2), scaled("peak_rss_bytes", 1 / MEBIBYTE, 1)]
    columns = ["seed", "steps", "test accuracy (%)", "median step (ms)", "samples/s",
               "memory of training (MiB)", "resident memory (MiB)"]
    return table("Runs", columns, [row(run["done"][-1]) for run in runs])


def prediction(image, predicted, label):
    """One image, and the classes that the network takes it for."""
    data = base64.b64encode(image.read_bytes()).decode()
    parts = [element("h2", "One image of the test set"),
             f'<p><img class="pixels" alt="the image" src="data:image/png;base64,{data}"></p>\n']
    if label:
        parts.append(element("p", f"It shows: {label}."))
    if predicted:
        classes = json.loads(predicted.read_text().splitlines()[0])["classes"]
        points = [(None, round(100 * item["probability"], 4)) for item in classes]
        parts.append(chart("across", "Prediction", "", "probability (%)", [("probability", points)],
                           [item["class"] for item in classes]))
    return "".join(parts)


def machine_of(path):
    """The name of the machine, as quern's own pages print it."""
    device = json.loads(path.read_text().splitlines()[0])
    names = [name for name in (device["machine"], device["processor"]) if name]
    n_cores = len(device["cores"])
    return ", ".join(names + [f"{n_cores} core{'s' if n_cores != 1 else ''}"])


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("runs", nargs="+", type=pathlib.Path)
    parser.add_argument("--out", required=True, type=pathlib.Path)
    parser.add_argument("--title", default="Training runs")
    parser.add_argument("--machine", type=pathlib.Path, help="output of quern devices --json")
    parser.add_argument("--image", type=pathlib.Path, help="a PNG to show")
    parser.add_argument("--predicted", type=pathlib.Path, help="output of quern predict --json for it")
    parser.add_argument("--label", default="", help="what the image shows")
    arguments = parser.parse_args()
    runs = [read_run(path) for path in arguments.runs]
    for path, run in zip(arguments.runs, runs):
        if not run["done"]:
            parser.error(f"{path}: the run did not finish")
    machine = machine_of(arguments.machine) if arguments.machine else ""
    body = about(machine, runs[0]["done"][-1]["threads"]) + headline(runs) + curves(runs)
    body += runs_table(runs)
    if arguments.image:
        body += prediction(arguments.image, arguments.predicted, arguments.label)
    arguments.out.write_text(page(arguments.title, body), encoding="utf-8")


if __name__ == "__main__":
    main()
