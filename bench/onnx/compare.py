#!/usr/bin/env python3
"""Compares what export.py made with what quern makes of it.

usage: compare.py FOLDER TOOLS [COMMAND]

Imports each file (COMMAND import --check, TOOLS/../quern unless another is given, of an older version for instance), runs it in
inference by TOOLS/run_onnx, exports it and has ONNX Runtime run that. Writes a line of JSON for each to FOLDER/results,
passing over those that are there, and prints a table of counts and the failures."""
import json
import os
import subprocess
import sys

import numpy as np

os.environ.setdefault("QUERN_RUNS", "none")  # runs of a bench are not kept

SECONDS, LIMIT, TRAINING_LIMIT = 240, 1e-5, 1e-7


def first_line(text):
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""


def call(*arguments):
    try:
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=SECONDS, errors="replace")
    except subprocess.TimeoutExpired:
        return False, f"longer than {SECONDS} s", ""
    return done.returncode == 0, first_line(done.stderr), done.stdout


def import_it(command, path):
    good, error, text = call(command, "import", "--check", "--json", path)
    if good or error:
        return "" if good else error
    report = json.loads(text)
    return "; ".join(sorted({f"{f.get('type', '')}: {f['reason']}" for f in report["failures"]}))[:300]


def difference(found, expected):
    """The largest difference as a share of the largest number."""
    return float(np.abs(found - expected).max() / max(np.abs(expected).max(), 1e-30))


def run_it(tools, path, x, expected):
    given, made = path + ".given", path + ".made"
    x.astype(np.float64).tofile(given)
    good, error, _ = call(os.path.join(tools, "run_onnx"), path, "f32", "0", "0", given, made,
                          "x".join(map(str, x.shape)))
    if not good:
        return None, error
    found = np.fromfile(made)
    os.remove(given)
    os.remove(made)
    if found.size != expected.size:
        return None, f"{found.size} numbers where {expected.size} are right"
    return difference(found.reshape(expected.shape), expected), ""


def signature(path):
    import onnx
    model = onnx.load(path, load_external_data=False)

    def places(values):
        return [(v.name, v.type.tensor_type.elem_type,
                 [d.dim_value if d.HasField("dim_value") else d.dim_param for d in v.type.tensor_type.shape.dim])
                for v in values]
    names = {t.name for t in model.graph.initializer}
    return (places([v for v in model.graph.input if v.name not in names]), places(model.graph.output),
            sorted((p.key, p.value) for p in model.metadata_props if not p.key.startswith("quern.")))


def export_it(command, path, x, expected):
    import onnx
    import export
    out = path + ".again.onnx"
    good, error, _ = call(command, "export", path, "--out", out)
    if not good:
        return {"again": error}
    try:
        onnx.checker.check_model(out)
        result = {"again_difference": difference(export.run(out, x), expected)}
        if signature(out) != signature(path):
            result["signature"] = "another"
    except Exception as failure:
        result = {"again": first_line(str(failure))}
    os.remove(out)
    return result


def train_it(tools, path, x, losses):
    """The largest difference of a loss, as a share of it."""
    import export
    given, made = path + ".given", path + ".made"
    x.astype(np.float64).tofile(given)
    good, error, _ = call(os.path.join(tools, "run_onnx"), path, "f64", str(len(losses)), str(export.RATE), given, made,
                          "x".join(map(str, x.shape)))
    if not good:
        return None, error
    found = np.fromfile(made)
    os.remove(given)
    os.remove(made)
    return float(np.abs(found / losses - 1).max()), ""


def compare(line, tools, command):
    path = line["file"]
    result = {key: line[key] for key in ("library", "name", "exporter", "mode")}
    result["import"] = import_it(command, path)
    x = np.load(path[:-5] + ".in.npy")
    if line["mode"] == "train":
        if not result["import"]:
            result["losses"], result["run"] = train_it(tools, path, x, np.load(path[:-5] + ".losses.npy"))
        return result
    expected = np.load(path[:-5] + ".out.npy")
    if not result["import"]:
        result["difference"], result["run"] = run_it(tools, path, x, expected)
        result.update(export_it(command, path, x, expected))
    return result


def print_table(results):
    kinds = sorted({(r["library"], r["exporter"], r["mode"]) for r in results})
    print(f"{'library':<14}{'exporter':<10}{'mode':<7}{'files':>6}{'import':>8}{'forward':>9}{'again':>7}{'signature':>11}{'trained':>9}")
    for kind in kinds:
        rows = [r for r in results if (r["library"], r["exporter"], r["mode"]) == kind]
        good = [r for r in rows if not r["import"]]
        near = [r for r in good if r.get("difference") is not None and r["difference"] < LIMIT]
        again = [r for r in good if r.get("again_difference", 1) < LIMIT]
        kept = [r for r in again if "signature" not in r]
        trained = [r for r in good if r.get("losses") is not None and r["losses"] < TRAINING_LIMIT]
        print(f"{kind[0]:<14}{kind[1]:<10}{kind[2]:<7}{len(rows):>6}{len(good):>8}{len(near):>9}{len(again):>7}{len(kept):>11}{len(trained):>9}")
    for r in results:
        where = f"{r['library']} {r['name']} {r['exporter']} {r['mode']}"
        for key in ("import", "run", "again", "signature"):
            if r.get(key):
                print(f"{where}: {key}: {r[key]}")
        for key in ("difference", "again_difference", "losses"):
            if r.get(key) is not None and not r[key] < (TRAINING_LIMIT if key == "losses" else LIMIT):
                print(f"{where}: {key} {r[key]:.2g}")


def main():
    folder, tools = sys.argv[1:3]
    command = sys.argv[3] if len(sys.argv) > 3 else os.path.join(tools, os.pardir, "quern")
    path = os.path.join(folder, "results")
    results = [json.loads(line) for line in open(path)] if os.path.exists(path) else []
    done = {(r["library"], r["name"], r["exporter"], r["mode"]) for r in results}
    with open(path, "a") as lines:
        for line in map(json.loads, open(os.path.join(folder, "exports"))):
            if "file" not in line or "exporting" in line:
                continue
            if (line["library"], line["name"], line["exporter"], line["mode"]) in done:
                continue
            results.append(compare(line, tools, command))
            print(json.dumps(results[-1]), file=lines, flush=True)
    print_table(results)


if __name__ == "__main__":
    main()
