"""What a deployer needs of an exported file: classes, mean and deviation as its properties, or mean and deviation as
nodes in front (--with-preparation), so that bytes of an image give what quern predict gives; and the names of
inputs and outputs with which a file came in."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
import onnx

import exported

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import quern  # noqa: E402

SIDE, CLASSES = 28, ("dark", "light")


def run_quern(folder, *arguments):
    result = subprocess.run([quern.QUERN, *map(str, arguments)], cwd=folder, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"quern {arguments}: {result.stderr}")
    return result.stdout


def make_data(folder):
    """Bytes of 28x28x1 as npy files, whose mean and deviation training takes, and one of them as a picture."""
    draw = random.Random(1)
    rows = [bytes(draw.randrange(60) + 150 * (i % 2) for _ in range(SIDE * SIDE)) for i in range(32)]
    quern.write_npy(folder / "x.npy", "|u1", (32, SIDE, SIDE, 1), b"".join(rows))
    quern.write_npy(folder / "y.npy", "|u1", (32,), bytes(i % 2 for i in range(32)))
    quern.write_png(folder / "one.png", SIDE, SIDE, rows[1])
    return np.frombuffer(rows[1], np.uint8).astype(np.float32).reshape(1, 1, SIDE, SIDE)


def chances(logits):
    powers = np.exp(logits[0] - logits[0].max())
    return powers / powers.sum()


def predicted(folder, *words):
    """Probabilities by class, as quern predict prints them."""
    line = json.loads(run_quern(folder, "predict", *words, "one.png", "--top", 2, "--json"))
    return np.array([c["probability"] for c in sorted(line["classes"], key=lambda c: c["class"])])


def check_preparation(folder, pixels):
    run_quern(folder, "export", "lenet5", "--weights", "w.st", "--out", "plain.onnx")
    run_quern(folder, "export", "lenet5", "--weights", "w.st", "--out", "whole.onnx", "--with-preparation")
    wanted = predicted(folder, "lenet5", "--weights", "w.st")
    properties = {p.key: p.value for p in onnx.load(folder / "plain.onnx").metadata_props}
    mean, deviation = (json.loads(properties[f"quern.preparation.{key}"])[0] for key in ("mean", "std_dev"))
    assert properties["quern.preparation.sample"] == "28x28x1" and 0.1 < mean < 0.6 and deviation > 0.1
    by_hand = chances(exported.run(folder / "plain.onnx", np.float32((pixels / 255 - mean) / deviation))[0])
    of_bytes = chances(exported.run(folder / "whole.onnx", pixels)[0])
    assert np.abs(by_hand - wanted).max() < 1e-5, (by_hand, wanted)
    assert np.abs(of_bytes - wanted).max() < 1e-5, (of_bytes, wanted)
    onnx.checker.check_model(str(folder / "whole.onnx"), full_check=True)
    for name in ("plain.onnx", "whole.onnx"):  # quern's own reading, to the bit
        found = predicted(folder, name)
        assert (found == wanted).all(), (name, found, wanted)


def check_names(folder):
    """A file of another program's names keeps them; what is trained from bytes is still given bytes."""
    model = onnx.load(folder / "whole.onnx")
    graph, old = model.graph, model.graph.input[0].name
    last = graph.output[0].name
    for node in graph.node:
        node.input[:] = ["pixels" if name == old else name for name in node.input]
        node.output[:] = ["scores" if name == last else name for name in node.output]
    graph.input[0].name, graph.output[0].name = "pixels", "scores"
    onnx.save(model, folder / "other.onnx")
    run_quern(folder, "train", "other.onnx", "--data", "npy:x.npy,y.npy", "--epochs", 1, "--batch", 8, "--lr", 0,
              "--save", "again.st")
    run_quern(folder, "export", "other.onnx", "--weights", "again.st", "--out", "again.onnx")
    graph = onnx.load(folder / "again.onnx").graph
    assert [p.name for p in graph.input] == ["pixels"] and [p.name for p in graph.output] == ["scores"]
    assert (predicted(folder, "again.onnx") == predicted(folder, "whole.onnx")).all()


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["XDG_CACHE_HOME"] = name
        pixels = make_data(folder)
        run_quern(folder, "train", "lenet5", "--data", "npy:x.npy,y.npy", "--epochs", 2, "--batch", 8, "--lr", 0.01,
                  "--save", "w.st")
        check_preparation(folder, pixels)
        check_names(folder)
    print("preparation in files: ok")


main()
