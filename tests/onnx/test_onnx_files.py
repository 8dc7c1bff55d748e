"""Files that PyTorch's current exporter wrote (tests/onnx/files, with their recipe): outputs and three steps of training are
PyTorch's, and what is exported again is the same file."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import quern  # noqa: E402

TOOLS = os.environ.get("QUERN_TOOLS", "build/release/tests")
FILES = pathlib.Path(__file__).parent / "files"


def run_file(path, made, steps, folder):
    np.array(made["input"], np.float64).tofile(folder / "in")
    subprocess.run([os.path.join(TOOLS, "run_onnx"), path, "f64", str(steps), "0.05", folder / "in", folder / "out",
                    "x".join(map(str, made["shape"]))], check=True)
    return np.fromfile(folder / "out")


def check(path, folder):
    with open(path.with_suffix(".json"), encoding="utf-8") as file:
        made = json.load(file)
    output = np.array(made["output"])
    difference = np.abs(run_file(path, made, 0, folder) - output).max() / np.abs(output).max()
    losses = np.abs(run_file(path, made, 3, folder) / np.array(made["losses"]) - 1).max()
    print(f"{path.stem}: output {difference:.1e}, losses {losses:.1e}")
    assert difference < 1e-6 and losses < 1e-7
    report = json.loads(subprocess.run([quern.QUERN, "import", path, "--json"], check=True, capture_output=True).stdout)
    if any(task["fits"] for task in report["tasks"]):
        subprocess.run([quern.QUERN, "export", path, "--out", folder / "again.onnx"], check=True, stdout=subprocess.DEVNULL)
        first, again = onnx.load(path).graph, onnx.load(folder / "again.onnx").graph
        assert first.input == again.input and first.output == again.output
        assert first.initializer == again.initializer


def main():
    paths = sorted(FILES.glob("*.onnx"))
    assert paths
    for path in paths:
        with tempfile.TemporaryDirectory() as folder:
            check(path, pathlib.Path(folder))


if __name__ == "__main__":
    main()
