#!/usr/bin/python3
"""quern import, and training from ONNX files at the command line: files are made here, message by message, with
ONNX's own package."""

import json
import os
import shutil
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

QUERN = os.environ.get("QUERN", "build/release/quern")


def run(*words, status=0):
    done = subprocess.run([QUERN, *words], capture_output=True, text=True, check=False)
    assert done.returncode == status, f"{words}: {done.returncode}: {done.stdout}{done.stderr}"
    return done


def weight(name, *extents):
    values = np.random.default_rng(len(name)).normal(0, 0.3, extents).astype(np.float32)
    return numpy_helper.from_array(values, name)


def classifier(nodes=(), weights=(), classes=10):
    """A convolution, ReLU, mean, linear layer and softmax over images of 8x8x1; nodes go before the softmax."""
    body = [helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["a"], "conv", pads=[1, 1, 1, 1]),
            helper.make_node("Relu", ["a"], ["b"], "relu"),
            helper.make_node("GlobalAveragePool", ["b"], ["c"], "mean"),
            helper.make_node("Flatten", ["c"], ["d"], "flatten"),
            helper.make_node("Gemm", ["d", "head.weight", "head.bias"], ["e"], "head", transB=1),
            *nodes, helper.make_node("Softmax", ["e"], ["y"], "softmax")]
    graph = helper.make_graph(
        body, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", classes])],
        [weight("conv.weight", 6, 1, 3, 3), weight("conv.bias", 6), weight("head.weight", classes, 6),
         weight("head.bias", classes), *weights])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])


def report(folder):
    path = os.path.join(folder, "net.onnx")
    onnx.save(classifier(), path)
    found = json.loads(run("import", path, "--json").stdout)
    assert found["supported"] and found["opset"] == 13 and found["softmax_left_out"]
    assert found["inputs"] == [{"name": "x", "type": "float", "shape": ["open", 1, 8, 8], "batch_axis": 0,
                                "channels_last": True}]
    assert {o["type"]: o["count"] for o in found["operators"]} == {
        "Conv": 1, "Relu": 1, "GlobalAveragePool": 1, "Flatten": 1, "Gemm": 1, "Softmax": 1}
    assert [(p["name"], p["trains"]) for p in found["parameters"]] == [
        (name, True) for name in ("conv.weight", "conv.bias", "head.weight", "head.bias")]
    assert found["numbers_that_train"] == 54 + 6 + 60 + 10
    text = run("import", path, "--check").stdout
    assert "conv.weight 6x3x3x1" in text and "everything in it is supported" in text


def unsupported(folder):
    path = os.path.join(folder, "odd.onnx")
    onnx.save(classifier([helper.make_node("Unique", ["e"], ["f"], "odd one")]), path)
    done = run("import", path, "--check", status=1)
    assert "node odd one (Unique): there is no such operator here: export with another opset" in done.stdout
    assert run("import", path).returncode == 0
    done = run("train", path, "--data", "synthetic", "--steps", "1", status=1)
    assert "node odd one (Unique)" in done.stderr, done.stderr


def fixed_batch(folder):
    """A file for one sample, or a few, is trained with more where what it joins them with is the same for each."""
    path = os.path.join(folder, "fixed.onnx")
    join = helper.make_node("Concat", ["e", "rows"], ["y"], "join", axis=1)
    extents = numpy_helper.from_array(np.array([2, 2]), "extents")
    expand = helper.make_node("Expand", ["row", "extents"], ["rows"], "expand")
    for batch, nodes, weights, status in (
            (1, [], [], 0), (1, [join], [weight("rows", 1, 2)], 0), (2, [join], [weight("rows", 2, 2)], 1),
            (2, [expand, join], [weight("row", 1, 2), extents], 0), (2, [expand, join], [weight("row", 2), extents], 0)):
        model = classifier(nodes, weights, 12 if nodes else 10)
        if nodes:
            del model.graph.initializer[3].float_data[:], model.graph.node[-1]
            model.graph.initializer[2].CopyFrom(weight("head.weight", 10, 6))
            model.graph.initializer[3].CopyFrom(weight("head.bias", 10))
        model.graph.input[0].type.tensor_type.shape.dim[0].dim_value = batch
        onnx.save(model, path)
        done = run("train", path, "--data", "synthetic", "--steps", "1", "--batch", "4", status=status)
        says = f"made for a batch of {batch}, and this is one of"
        assert (says in done.stderr) == bool(status), done.stderr
        if status == 0:
            again = os.path.join(folder, "again.onnx")
            run("export", path, "--out", again)
            onnx.checker.check_model(again, full_check=True)
            extent = onnx.load(again).graph.input[0].type.tensor_type.shape.dim[0]
            assert extent.dim_value == batch, extent


def heads(folder):
    """The last layer is found and made anew in every form that exporters give it."""
    path, saved = os.path.join(folder, "head.onnx"), os.path.join(folder, "head.safetensors")
    turned, filters = weight("head.turned", 6, 10), weight("head.filters", 10, 6, 1, 1)
    plain, bias, row = weight("head.weight", 10, 6), weight("head.bias", 10), weight("head.row", 1, 10)
    flat = helper.make_node("Flatten", ["c"], ["d"], "flatten")
    product = helper.make_node("MatMul", ["d", "head.turned"], ["p"], "product")
    turn = helper.make_node("Transpose", ["head.weight"], ["t"], "turn", perm=[1, 0])
    for name, nodes, weights in (
            ("MatMul, Add", [flat, product, helper.make_node("Add", ["p", "head.bias"], ["y"], "sum")], [turned, bias]),
            ("Add the other way", [flat, product, helper.make_node("Add", ["head.row", "p"], ["y"], "sum")],
             [turned, row]),
            ("MatMul of a Transpose", [flat, turn, helper.make_node("MatMul", ["d", "t"], ["p"], "product"),
                                       helper.make_node("Add", ["p", "head.bias"], ["y"], "sum")], [plain, bias]),
            ("Gemm, as it is", [flat, helper.make_node("Gemm", ["d", "head.turned", "head.row"], ["y"], "head")],
             [turned, row]),
            ("Gemm of a Transpose", [flat, turn, helper.make_node("Gemm", ["d", "t"], ["y"], "head")], [plain]),
            ("Conv and Flatten", [helper.make_node("Conv", ["c", "head.filters", "head.bias"], ["p"], "head"),
                                  helper.make_node("Flatten", ["p"], ["y"], "flatten")], [filters, bias])):
        model = classifier()
        del model.graph.node[3:], model.graph.initializer[2:]
        model.graph.node.extend(nodes)
        model.graph.initializer.extend(weights)
        onnx.save(model, path)
        run("import", path, "--check")
        done = run("train", path, "--data", "synthetic", "--steps", "3", "--batch", "4", "--head", "7", "--train-only",
                   "head", "--classes", "7", "--save", saved, "--json")
        trained = json.loads(done.stdout.splitlines()[-1])["parameters"]
        assert trained == 7 * 6 + 7 * (len(weights) - 1), (name, trained)
        again = os.path.join(folder, "again.onnx")
        run("export", path, "--weights", saved, "--out", again)
        found = json.loads(run("import", again, "--json").stdout)
        assert found["outputs"][0]["shape"] == ["open", 7], (name, found["outputs"])


def trains(folder):
    path, saved = os.path.join(folder, "net.onnx"), os.path.join(folder, "saved.safetensors")
    onnx.save(classifier(), path)
    common = ["--data", "synthetic", "--batch", "16"]
    done = run("train", path, *common, "--steps", "200", "--lr", "0.3", "--save", saved)
    assert "130 numbers train" in done.stderr and "softmax at the end is left out" in done.stderr, done.stderr
    first = json.loads(run("evaluate", path, "--weights", saved, "--json").stdout.splitlines()[-1])
    assert first["loss"] < 2.2, first
    moved = os.path.join(folder, "moved.onnx")
    shutil.move(path, moved)
    again = json.loads(run("evaluate", moved, "--weights", saved, "--json").stdout.splitlines()[-1])
    assert again["loss"] == first["loss"]
    run("train", moved, "--resume", saved, "--steps", "201", "--override")
    done = run("evaluate", path, "--weights", saved, status=1)
    assert path in done.stderr and "No such file" in done.stderr, done.stderr
    onnx.save(classifier(classes=9), path)
    done = run("evaluate", path, "--weights", saved, status=1)
    assert "or that file has changed since" in done.stderr, done.stderr
    done = run("evaluate", "lenet5", "--weights", saved, status=1)
    assert "not of lenet5" in done.stderr, done.stderr
    run("plan", moved, "--batch", "4")


def hostile(folder):
    """What the file says must be refused with a word on it, and by no crash."""
    path = os.path.join(folder, "bad.onnx")
    cases = []
    model = classifier()
    model.graph.node[0].input[0] = "b"
    cases.append((model, "gives itself"))
    model = classifier()
    model.graph.node[1].input[0] = "nowhere"
    cases.append((model, "nowhere"))
    model = classifier()
    model.graph.node[1].output[0] = "a"
    cases.append((model, "twice"))
    model = classifier()
    model.graph.initializer[0].dims[0] = 2**62
    cases.append((model, "conv.weight"))
    model = classifier()
    model.graph.input[0].type.tensor_type.shape.dim[2].dim_value = 2**61
    cases.append((model, ""))
    model = classifier()
    model.graph.node[0].attribute[0].ints[0] = 2**62
    cases.append((model, "conv"))
    model = classifier()
    model.graph.node[4].input[1] = "conv.bias"
    cases.append((model, "head"))
    for model, word in cases:
        onnx.save(model, path)
        done = run("train", path, "--data", "synthetic", "--steps", "1", status=1)
        assert word in done.stderr and done.stderr.startswith("quern: "), done.stderr
        assert subprocess.run([QUERN, "import", path, "--check"], capture_output=True, check=False).returncode == 1
    with open(path, "wb") as file:  # without holes filled
        file.truncate(2**31)
    assert "below 2 GB" in run("import", path, status=1).stderr
    with open(path, "wb") as file:
        file.write(b"no ONNX at all")
    assert "bad.onnx" in run("import", path, status=1).stderr


def main():
    for check in (report, unsupported, fixed_batch, heads, trains, hostile):
        with tempfile.TemporaryDirectory() as folder:
            check(folder)
            print(f"{check.__name__}: ok", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
