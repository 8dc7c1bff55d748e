"""What a deployer needs of an exported file: classes, mean and deviation as its properties, or mean and deviation as
nodes in front (--with-preparation), so that bytes of an image give what quern predict gives; rows of a table and arrays of
floats as they are in the data, amounts in their own units; and the names of inputs and outputs with which a file came
in."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import helper, numpy_helper

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


def make_table(folder):
    """Columns of three scales, and two amounts that are far from the size of 1."""
    draw = np.random.default_rng(3)
    x = np.float32(draw.normal((50, 1e-3, -7), (10, 1e-4, 2), (64, 3)))
    y = np.stack((x @ (3e3, 1e7, 1e4), x @ (1e-5, 0.1, 1e-5)), axis=1)
    lines = ["a,b,c,large,small"] + [",".join(f"{float(n):.9g}" for n in row) for row in np.hstack((x, y))]
    (folder / "t.csv").write_text("\n".join(lines) + "\n")
    return x


def amounts(folder, *words):
    lines = run_quern(folder, "predict", *words, "csv:t.csv", "--json").splitlines()
    return np.array([[v["value"] for v in json.loads(line)["values"]] for line in lines])


def make_foreign(folder):
    """A network of another program, without what quern puts into a file."""
    draw, place = np.random.default_rng(4), helper.make_tensor_value_info
    weights = [numpy_helper.from_array(np.float32(draw.normal(size=n) / 3), name)
               for name, n in (("w", (8, 3)), ("b", 8), ("v", (2, 8)), ("c", 2))]
    nodes = [helper.make_node("Gemm", ["x", "w", "b"], ["h"], "first", transB=1), helper.make_node("Relu", ["h"], ["r"], "relu"),
             helper.make_node("Gemm", ["r", "v", "c"], ["y"], "last", transB=1)]
    graph = helper.make_graph(nodes, "foreign", [place("x", 1, ["N", 3])], [place("y", 1, ["N", 2])], weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "foreign.onnx")


def check_amounts(folder):
    """Numbers of the data go in, the targets' own units come out: also of a file that was trained from an exported one,
    and of another program's network."""
    x, before = make_table(folder), None
    make_foreign(folder)
    for model, name in (("mlp", "own"), ("own.onnx", "again"), ("foreign.onnx", "theirs")):
        run_quern(folder, "train", model, "--data", "csv:t.csv", "--target", "large,small", "--task", "regression",
                  "--epochs", 3, "--batch", 8, "--lr", 0.001, "--save", f"{name}.st")
        run_quern(folder, "export", model, "--weights", f"{name}.st", "--out", f"{name}.onnx")
        onnx.checker.check_model(str(folder / f"{name}.onnx"), full_check=True)
        wanted, found = amounts(folder, "--weights", f"{name}.st"), exported.run(folder / f"{name}.onnx", x)[0]
        size = np.abs(wanted).max(axis=0)
        assert size[0] > 1e5 and (np.abs(found - wanted) < 1e-5 * size).all(), (name, found[:2], wanted[:2])
        assert (amounts(folder, f"{name}.onnx") == wanted).all(), name
        assert before is None or np.abs(wanted - before).max() > 0
        before = wanted if name != "again" else None
        kinds = [node.op_type for node in onnx.load(folder / f"{name}.onnx").graph.node]
        assert kinds.count("Mul") == kinds.count("Add") == 2, kinds


def check_floats(folder):
    """Images of floats, and columns that feed a network of images, one mean for each pixel."""
    draw = np.random.default_rng(5)
    x = np.float32(draw.normal(500, 100, (24, SIDE, SIDE, 1)))
    np.save(folder / "f.npy", x)
    np.save(folder / "g.npy", np.arange(24) % 2)
    (folder / "p.csv").write_text("\n".join(",".join(f"{v:.9g}" for v in row) + f",{CLASSES[i % 2]}"
                                            for i, row in enumerate(x.reshape(24, -1))) + "\n")
    for name, data, rows in (("floats", "npy:f.npy,g.npy", "npy:f.npy"), ("pixels", "csv:p.csv", "csv:p.csv")):
        run_quern(folder, "train", "lenet5", "--data", data, "--input", "28x28x1", "--steps", 2, "--batch", 8,
                  "--save", f"{name}.st")
        run_quern(folder, "export", "lenet5", "--weights", f"{name}.st", "--out", f"{name}.onnx")
        logits = exported.run(folder / f"{name}.onnx", x.transpose(0, 3, 1, 2))[0]
        for words in (("--weights", f"{name}.st"), (f"{name}.onnx",)):
            lines = map(json.loads, run_quern(folder, "predict", *words, rows, "--json").splitlines())
            for line, row in zip(lines, logits):
                wanted = [c["probability"] for c in sorted(line["classes"], key=lambda c: c["class"])]
                assert np.abs(chances(row[None]) - wanted).max() < 1e-5, (name, words, row, wanted)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["XDG_CACHE_HOME"] = name
        pixels = make_data(folder)
        run_quern(folder, "train", "lenet5", "--data", "npy:x.npy,y.npy", "--epochs", 2, "--batch", 8, "--lr", 0.01,
                  "--save", "w.st")
        check_preparation(folder, pixels)
        check_names(folder)
        check_amounts(folder)
        check_floats(folder)
    print("preparation in files: ok")


main()
