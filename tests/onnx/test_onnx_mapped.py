#!/usr/bin/python3
"""Large initialisers stay in the file, at whatever address: the same numbers come in and go out, import takes
less memory than they do, and a file that others write over while it is open is refused."""
import os
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

QUERN = os.environ.get("QUERN", "build/release/quern")
SIZE = 520  # a matrix is a little more than a megabyte


def make(path, kind, pad):
    """A layer in the order of the file's axes or the other, or a convolution; what is before it moves its numbers
    by pad bytes."""
    rng = np.random.default_rng(pad)
    weight = rng.standard_normal((SIZE, SIZE)).astype(np.float16 if kind == "half" else np.float32)
    last = rng.standard_normal((3, SIZE)).astype(np.float32)
    nodes = [helper.make_node("Gemm", ["x", "w"], ["h"], "first", transB=int(kind == "same"))]
    extents = ["n", SIZE]
    if kind == "half":
        nodes = [helper.make_node("Cast", ["w"], ["v"], "wide", to=TensorProto.FLOAT),
                 helper.make_node("MatMul", ["x", "v"], ["h"], "first")]
    if kind == "conv":
        weight = weight[:512, :513].reshape(512, 57, 3, 3)
        last = last[:, :512]
        extents = ["n", 57, 3, 3]
        nodes = [helper.make_node("Conv", ["x", "w"], ["g"], "first"), helper.make_node("Flatten", ["g"], ["h"], "flat")]
    nodes.append(helper.make_node("Gemm", ["h", "l"], ["y"], "last", transB=1))
    graph = helper.make_graph(nodes, "g" * (1 + pad), [helper.make_tensor_value_info("x", 1, extents)],
                              [helper.make_tensor_value_info("y", 1, ["n", 3])],
                              [numpy_helper.from_array(weight, "w"), numpy_helper.from_array(last, "l")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 7
    onnx.save(model, path)
    return weight, [d for d in extents if d != "n"]


def run(*words, status=0):
    done = subprocess.run([QUERN, *words], capture_output=True, text=True, check=False)
    assert done.returncode == status, f"{words}: {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def check_numbers(folder, kind, pad):
    path, again, trained = (os.path.join(folder, name) for name in ("m.onnx", "again.onnx", "m.st"))
    weight, sample = make(path, kind, pad)
    x, y = os.path.join(folder, "x.npy"), os.path.join(folder, "y.npy")
    np.save(x, np.ones((6, *sample[1:], sample[0]) if kind == "conv" else (6, *sample), np.float32))
    np.save(y, np.arange(6) % 3)
    run("train", path, "--data", f"npy:{x},{y}", "--steps", "1", "--batch", "6", "--lr", "1e-30", "--no-test",
        "--save", trained)
    run("export", path, "--weights", trained, "--out", again)
    (found,) = [t for t in onnx.load(again).graph.initializer if t.name == "w"]
    np.testing.assert_array_equal(numpy_helper.to_array(found), weight, f"{kind} {pad}")


def make_large(path):
    n, width = 20, 1536
    weights = [numpy_helper.from_array(np.zeros((width, width), np.float32), f"w{i}") for i in range(n)]
    last = numpy_helper.from_array(np.ones((2, width), np.float32), "l")
    nodes = [helper.make_node("Gemm", [f"h{i}" if i else "x", f"w{i}"], [f"h{i + 1}"], f"g{i}") for i in range(n)]
    nodes.append(helper.make_node("Gemm", [f"h{n}", "l"], ["y"], "last", transB=1))
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", 1, ["n", width])],
                              [helper.make_tensor_value_info("y", 1, ["n", 2])], [*weights, last])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)])
    model.ir_version = 7
    onnx.save(model, path)


def check_memory(folder):
    """In a process that never held the weights, since a child's peak begins with its parent's."""
    path = os.path.join(folder, "large.onnx")
    subprocess.run([sys.executable, __file__, path], check=True)
    for words in (("import", path, "--check"), ("export", path, "--out", os.path.join(folder, "out.onnx"))):
        pid = os.posix_spawn(QUERN, [QUERN, *words], os.environ)
        _, status, usage = os.wait4(pid, 0)
        assert status == 0
        print(f"{words[0]}: {usage.ru_maxrss // 1024} MiB for a file of {os.path.getsize(path) >> 20} MiB")
        assert usage.ru_maxrss * 1024 < os.path.getsize(path) * 3 // 4, usage.ru_maxrss


def main():
    if len(sys.argv) > 1:
        make_large(sys.argv[1])
        return 0
    with tempfile.TemporaryDirectory() as folder:
        for pad, kind in enumerate(("same", "turned", "conv", "half", "turned", "turned", "turned")):
            check_numbers(folder, kind, pad)
        check_memory(folder)
    return 0


if __name__ == "__main__":
    sys.exit(main())
