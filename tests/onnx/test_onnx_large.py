#!/usr/bin/python3
"""A network whose weights pass 2 GB: read from a file with outside data, of which most is a hole, and written
again, which puts the weights outside by itself. Of one matrix of 1.2 GB each half of the numbers that count is
looked for where it must be. Needs 8 GB of memory and 3 GB of disk."""
import os
import re
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper

QUERN = os.environ.get("QUERN", "build/release/quern")
ROWS, COLUMNS, CLASSES = 20000, 15000, 3
BYTES = 4 * ROWS * COLUMNS
PLACES = (0, BYTES // 8 + 1, BYTES // 4 - 1)  # of each matrix; numbers are 4 bytes


def outside(name, extents, offset, n_bytes):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=extents,
                         data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "large.data"), ("offset", offset), ("length", n_bytes)):
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def make(path):
    """x (N, COLUMNS) through matrices there and back to a few classes."""
    nodes = [helper.make_node("Gemm", ["x", "a"], ["h"], "first", transB=1),
             helper.make_node("Gemm", ["h", "b"], ["i"], "second", transB=1),
             helper.make_node("Gemm", ["i", "c"], ["y"], "last", transB=1)]
    last = 4 * CLASSES * COLUMNS
    tensors = [outside("a", [ROWS, COLUMNS], 0, BYTES), outside("b", [COLUMNS, ROWS], BYTES, BYTES),
               outside("c", [CLASSES, COLUMNS], 2 * BYTES, last)]
    graph = helper.make_graph(nodes, "large", [helper.make_tensor_value_info("x", 1, ["n", COLUMNS])],
                              [helper.make_tensor_value_info("y", 1, ["n", CLASSES])], tensors)
    with open(path, "wb") as file:
        file.write(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)]).SerializeToString())
    with open(os.path.join(os.path.dirname(path), "large.data"), "wb") as file:
        file.truncate(2 * BYTES + last)
        for matrix in range(2):
            for i, place in enumerate(PLACES):
                file.seek(matrix * BYTES + 4 * place)
                file.write(np.float32(10 * matrix + i + 1).tobytes())


def check(path):
    """What was written: a small file, and the same numbers outside of it."""
    assert os.path.getsize(path) < 10000, os.path.getsize(path)
    tensors = {t.name: t for t in onnx.load(path, load_external_data=False).graph.initializer}
    for matrix, name in enumerate("ab"):
        at = {e.key: e.value for e in tensors[name].external_data}
        assert re.fullmatch(r"again\.onnx\.[0-9a-f]{16}\.data", at["location"]) and int(at["length"]) == BYTES, at
        data = np.memmap(os.path.join(os.path.dirname(path), at["location"]), np.float32, "r", int(at["offset"]), (BYTES // 4,))
        assert [data[place] for place in PLACES] == [10 * matrix + i + 1 for i in range(3)]
        assert np.count_nonzero(data) == 3


def run(*words, status=0):
    done = subprocess.run([QUERN, *words], capture_output=True, text=True, check=False)
    assert done.returncode == status, f"{words}: {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout + done.stderr


def main():
    with tempfile.TemporaryDirectory() as folder:
        path, again = (os.path.join(folder, name) for name in ("large.onnx", "again.onnx"))
        make(path)
        print(run("import", path, "--check").splitlines()[-1])
        run("export", path, "--out", again)
        check(again)
        print(run("import", again, "--check").splitlines()[-1])
        (data,) = [name for name in os.listdir(folder) if re.fullmatch(r"again\.onnx\..*data", name)]
        os.truncate(os.path.join(folder, data), BYTES)
        assert "beyond the end of their file" in run("import", again, status=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
