#!/usr/bin/python3
"""ONNX files of networks that are no classifiers at the command line: weights go out with their vocabulary, measure the
same from the file, and train on from there; what does not fit is said."""

import json
import os
import subprocess
import sys
import tempfile

QUERN = os.environ.get("QUERN", "build/release/quern")


def run(*words, status=0):
    done = subprocess.run([QUERN, *words], capture_output=True, text=True, check=False)
    assert done.returncode == status, f"{words}: {done.returncode}: {done.stdout}{done.stderr}"
    return done


def measure(*words):
    found = json.loads(run("evaluate", *words, "--json").stdout.splitlines()[-1])
    found.pop("samples_per_second")
    return found


def tasks_of(path):
    """Those that fit, but for arrays, which any network does."""
    tasks = [t["task"] for t in json.loads(run("import", path, "--json").stdout)["tasks"] if t["fits"]]
    assert tasks[-1] == "arrays", tasks
    return tasks[:-1]


def language(folder):
    """Out with trained weights, measured, trained on, out again under the names it came with."""
    text, first, second, third = (os.path.join(folder, name) for name in ("text", "a.onnx", "b.st", "c.onnx"))
    with open(text, "w", encoding="utf-8") as file:
        file.write("the cat sat on a mat and looked at the dog\n" * 40)
    data = ["--data", f"text:{text}", "--holdout", "0.2"]
    sizes = ["--length", "8", "--batch", "4"]
    trained = os.path.join(folder, "a.st")
    run("train", "char-lstm", *data, *sizes, "--hidden", "16", "--epochs", "1", "--save", trained)
    run("export", "char-lstm", "--weights", trained, "--out", first)
    assert tasks_of(first) == ["language"]
    wanted = measure("char-lstm", *data, "--weights", trained, "--batch", "4")
    found = measure(first, *data, "--batch", "4")
    assert found["samples"] == wanted["samples"] and abs(found["loss"] - wanted["loss"]) < 1e-6, (found, wanted)
    run("train", first, *data, *sizes, "--epochs", "1", "--save", second)
    better = measure(first, *data, "--weights", second, "--batch", "4")
    assert better["loss"] < found["loss"]
    run("export", first, "--weights", second, "--out", third)
    again = measure(third, *data, "--batch", "4")
    assert abs(again["loss"] - better["loss"]) < 1e-6, (again, better)
    assert run("sample", third, "--count", "1").stdout
    assert "is not a network for answering, which takes tokens" in run(
        "train", first, "--data", "squad:x", status=1).stderr
    assert "is not a network for control" in run("train", first, "--data", "cartpole", status=1).stderr


def answering(folder):
    weights, path = os.path.join(folder, "d.st"), os.path.join(folder, "d.onnx")
    data = ["--data", "synthetic"]
    run("train", "bert-tiny", *data, "--length", "16", "--batch", "4", "--steps", "2", "--no-test", "--save", weights)
    run("export", "bert-tiny", "--weights", weights, "--out", path)
    assert tasks_of(path) == ["answering"]
    assert measure(path, *data) == measure("bert-tiny", *data, "--weights", weights)
    run("train", path, *data, "--batch", "4", "--steps", "2", "--no-test", "--save", weights)
    assert "made for" not in run("evaluate", path, "--weights", weights).stderr


def control(folder):
    weights, path = os.path.join(folder, "e.st"), os.path.join(folder, "e.onnx")
    game = ["--data", "cartpole", "--steps", "20", "--fill", "64", "--no-test", "--save", weights]
    run("train", "dqn", "--net", "mlp", *game)
    run("export", "dqn", "--weights", weights, "--out", path)
    assert tasks_of(path) == ["classification", "control"]
    run("train", path, *game)
    assert measure(path, "--weights", weights, "--episodes", "2")["return"] > 0
    assert "--input and --classes" in run("export", "dqn", "--weights", weights, "--input", "4", "--out", path,
                                          status=2).stderr


def main():
    with tempfile.TemporaryDirectory() as folder:
        language(folder)
        answering(folder)
        control(folder)


if __name__ == "__main__":
    sys.exit(main())
