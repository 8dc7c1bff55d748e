"""A file that is trained and exported is the file that it was, with other weights: names, types, order, open axes, layout,
the softmax at its end and what it says of itself stay, and a runtime gives what quern predicts. Values that depend on
the batch are no parameters. Indices count from the end, and none is wrong in silence. Branches that are known are taken."""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

import exported

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import quern  # noqa: E402

TOOLS = os.environ.get("QUERN_TOOLS", "build/release/tests")
RANDOM = np.random.default_rng(1)


def run_quern(folder, *arguments, fails=False):
    result = subprocess.run([quern.QUERN, *map(str, arguments)], cwd=folder, capture_output=True, text=True)
    assert (result.returncode != 0) == fails, (arguments, result.stdout, result.stderr)
    return result.stdout + result.stderr


def node(kind, inputs, output, **attributes):
    return helper.make_node(kind, inputs, [output], name=f"layers/{output}", **attributes)


def weights(**shapes):
    return [numpy_helper.from_array((0.2 * RANDOM.standard_normal(shape)).astype(np.float32), name)
            for name, shape in shapes.items()]


def save(path, nodes, x, y, tensors, properties=None, opset=17):
    graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("pixels", TensorProto.FLOAT, x)],
                              [helper.make_tensor_value_info("chances", TensorProto.FLOAT, y)], tensors)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], producer_name="somebody")
    model.ir_version = 8
    helper.set_model_props(model, properties or {})
    onnx.checker.check_model(model)
    onnx.save(model, path)


def make_data(folder, shape, n=32):
    classes = [i % 3 for i in range(n)]
    x = RANDOM.standard_normal((n, *shape)).astype(np.float32) + np.array(classes).reshape(-1, *[1] * len(shape))
    quern.write_npy(folder / "x.npy", "<f4", x.shape, x.astype(np.float32).tobytes())
    quern.write_npy(folder / "y.npy", "|u1", (n,), bytes(classes))
    return x.astype(np.float32)


def signature(model):
    def places(values):
        return [v.SerializeToString() for v in values]
    return (places(model.graph.input), places(model.graph.output), model.ir_version, model.producer_name,
            [n.SerializeToString() for n in model.graph.node],
            [(p.key, p.value) for p in model.metadata_props if not p.key.startswith("quern.")],
            [(t.name, t.data_type, tuple(t.dims)) for t in model.graph.initializer])


def train_and_export(folder, batch=8, *more):
    run_quern(folder, "train", "net.onnx", "--data", "npy:x.npy,y.npy", *more, "--epochs", 2, "--batch", batch, "--save", "w.st")
    run_quern(folder, "evaluate", "net.onnx", "--data", "npy:x.npy,y.npy", "--weights", "w.st", "--batch", 3,
              "--split", "train")
    run_quern(folder, "export", "net.onnx", "--weights", "w.st", "--out", "again.onnx")
    first, again = (onnx.load(folder / name) for name in ("net.onnx", "again.onnx"))
    onnx.checker.check_model(again)
    return first, again


def check_nhwc(folder):
    """Images with channels last, open heights, a softmax, names of another's, and properties."""
    save(folder / "net.onnx",
         [node("Transpose", ["pixels"], "first", perm=[0, 3, 1, 2]),
          node("Conv", ["first", "filter", "shift"], "conv", pads=[1, 1, 1, 1], strides=[1, 1]), node("Relu", ["conv"], "relu"),
          node("GlobalAveragePool", ["relu"], "pool"), node("Flatten", ["pool"], "flat"),
          node("MatMul", ["flat", "head"], "scores"), node("Softmax", ["scores"], "chances", axis=1)],
         ["samples", "height", "width", 2], ["samples", 3], weights(filter=(4, 2, 3, 3), shift=(4,), head=(4, 3)),
         {"labels": "cat,dog,owl", "author": "somebody"})
    make_data(folder, (6, 6, 2))
    first, again = train_and_export(folder, 8, "--input", "6x6x2")
    assert signature(first) == signature(again)
    moved = [np.abs(numpy_helper.to_array(a) - numpy_helper.to_array(b)).max()
             for a, b in zip(first.graph.initializer, again.graph.initializer)]
    assert min(moved) > 0, moved
    x = RANDOM.standard_normal((2, 6, 6, 2)).astype(np.float32)
    assert np.allclose(exported.run(folder / "again.onnx", x)[0].sum(1), 1)


def check_head(folder):
    """Another number of classes: the one extent that changes."""
    save(folder / "net.onnx", [node("Gemm", ["pixels", "inner", "shift"], "hidden", transB=1), node("Relu", ["hidden"], "relu"),
                               node("Gemm", ["relu", "head", "bias"], "chances", transB=1)],
         ["N", 6], ["N", 9], weights(inner=(5, 6), shift=(5,), head=(9, 5), bias=(9,)))
    make_data(folder, (6,))
    run_quern(folder, "train", "net.onnx", "--data", "npy:x.npy,y.npy", "--head", "data", "--epochs", 1, "--save", "h.st")
    run_quern(folder, "export", "net.onnx", "--weights", "h.st", "--out", "again.onnx")
    again = onnx.load(folder / "again.onnx")
    onnx.checker.check_model(again)
    dims = again.graph.output[0].type.tensor_type.shape.dim
    assert again.graph.output[0].name == "chances" and dims[0].dim_param == "N" and dims[1].dim_value == 3
    assert exported.run(folder / "again.onnx", np.ones((2, 6), np.float32))[0].shape == (2, 3)


def check_batch_constant(folder):
    """Numbers expanded to the batch, as position codes are: another batch has others, and no checkpoint holds them."""
    codes = numpy_helper.from_array(np.float32([[0.1, -0.2, 0.3, 0.4, -0.5, 0.6]]), "codes")
    constant = helper.make_node("Constant", [], ["codes"], value=codes)
    one = numpy_helper.from_array(np.array([6], np.int64), "six")
    zero = numpy_helper.from_array(np.array([0], np.int64), "zero")
    save(folder / "net.onnx",
         [constant, node("Shape", ["pixels"], "shape"), node("Gather", ["shape", "zero"], "batch", axis=0),
          node("Concat", ["batch", "six"], "wanted", axis=0), node("Expand", ["codes", "wanted"], "all"),
          node("Concat", ["pixels", "all"], "both", axis=1), node("MatMul", ["both", "head"], "chances")],
         ["N", 6], ["N", 3], [*weights(head=(12, 3)), one, zero])
    make_data(folder, (6,))
    first, again = train_and_export(folder)
    assert signature(first) == signature(again)


def run_file(folder, x):
    np.asarray(x, np.float64).tofile(folder / "in")
    subprocess.run([os.path.join(TOOLS, "run_onnx"), folder / "net.onnx", "f32", "0", "0", folder / "in", folder / "out",
                    "x".join(map(str, np.shape(x)))], check=True)
    return np.fromfile(folder / "out")


def check_indices(folder):
    """Rows by indices that are known only when it runs: -1 is the last, and an invalid one is not a number."""
    table = RANDOM.standard_normal((5, 3)).astype(np.float32)
    graph = helper.make_graph([node("Gather", ["which", "table"][::-1], "rows", axis=0)], "net",
                              [helper.make_tensor_value_info("which", TensorProto.INT64, ["N"])],
                              [helper.make_tensor_value_info("rows", TensorProto.FLOAT, ["N", 3])],
                              [numpy_helper.from_array(table, "table")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "net.onnx")
    found = run_file(folder, [0, -1, -5, 4, 5, -6]).reshape(6, 3)
    assert np.array_equal(found[:4].astype(np.float32), table[[0, -1, -5, 4]])
    assert np.isnan(found[4:]).all()


def check_branch(folder):
    """An If whose condition follows from shapes, with a name that both branches give."""
    def branch(kind):
        return helper.make_graph([node(kind, ["pixels"], "part"), node("Relu", ["part"], "made")], kind, [],
                                 [helper.make_tensor_value_info("made", TensorProto.FLOAT, None)])
    two = numpy_helper.from_array(np.array(2, np.int64), "two")
    nodes = [node("Shape", ["pixels"], "shape"), node("Size", ["shape"], "rank"), node("Equal", ["rank", "two"], "flat"),
             node("If", ["flat"], "y", then_branch=branch("Neg"), else_branch=branch("Abs")),
             node("MatMul", ["y", "head"], "chances")]
    save(folder / "net.onnx", nodes, ["N", 6], ["N", 3], [*weights(head=(6, 3)), two])
    x = RANDOM.standard_normal((2, 6))
    head = numpy_helper.to_array(onnx.load(folder / "net.onnx").graph.initializer[0])
    found = run_file(folder, x).reshape(2, 3)
    assert np.allclose(found, np.maximum(-x, 0) @ head, atol=1e-5)
    first, again = (make_data(folder, (6,)), train_and_export(folder))[1]
    assert signature(first) == signature(again)


def check_parts(folder):
    """A chunk as PyTorch's exporter writes it: a sequence, whose parts are taken by number."""
    given = [numpy_helper.from_array(np.array(n, np.int64), name) for name, n in (("four", 4), ("first", 0), ("last", -1))]
    save(folder / "net.onnx",
         [node("SplitToSequence", ["pixels", "four"], "all", axis=1), node("SequenceAt", ["all", "first"], "a"),
          node("SequenceAt", ["all", "last"], "b"), node("Concat", ["b", "a"], "both", axis=1),
          node("MatMul", ["both", "head"], "chances")], ["N", 6], ["N", 3], [*weights(head=(6, 3)), *given])
    x = RANDOM.standard_normal((2, 6))
    head = numpy_helper.to_array(onnx.load(folder / "net.onnx").graph.initializer[0])
    found = run_file(folder, x).reshape(2, 3)
    assert np.allclose(found, x[:, [4, 5, 0, 1, 2, 3]] @ head, atol=1e-5)


def check_two_heads(folder):
    """Two classifiers that are averaged are both made anew."""
    half = numpy_helper.from_array(np.array(0.5, np.float32), "half")
    save(folder / "net.onnx",
         [node("Gemm", ["pixels", "inner", "shift"], "hidden", transB=1), node("Relu", ["hidden"], "relu"),
          node("Gemm", ["relu", "head", "bias"], "one", transB=1), node("Gemm", ["relu", "other", "bias2"], "two", transB=1),
          node("Add", ["one", "two"], "sum"), node("Mul", ["sum", "half"], "chances")],
         ["N", 6], ["N", 9], [*weights(inner=(5, 6), shift=(5,), head=(9, 5), bias=(9,), other=(9, 5), bias2=(9,)), half])
    make_data(folder, (6,))
    run_quern(folder, "train", "net.onnx", "--data", "npy:x.npy,y.npy", "--head", "data", "--epochs", 1, "--save", "h.st")
    run_quern(folder, "export", "net.onnx", "--weights", "h.st", "--out", "again.onnx")
    again = onnx.load(folder / "again.onnx")
    shapes = {t.name: tuple(t.dims) for t in again.graph.initializer}
    assert shapes["head"] == shapes["other"] == (3, 5) and shapes["bias"] == shapes["bias2"] == (3,), shapes
    onnx.checker.check_model(again, full_check=True)


def check_fixed_width(folder):
    """A file that names its old number of classes elsewhere, too, is not written with another."""
    wanted = numpy_helper.from_array(np.array([-1, 3, 3], np.int64), "wanted")
    save(folder / "net.onnx", [node("Gemm", ["pixels", "head", "bias"], "scores", transB=1),
                               node("Reshape", ["scores", "wanted"], "square"), node("ReduceMax", ["square"], "y", keepdims=0, axes=[2]),
                               node("Concat", ["y", "scores"], "both", axis=1), node("Identity", ["both"], "chances")],
         ["N", 6], ["N", 12], [*weights(head=(9, 6), bias=(9,)), wanted])
    make_data(folder, (6,))
    text = run_quern(folder, "train", "net.onnx", "--data", "npy:x.npy,y.npy", "--head", "data", "--epochs", 1, "--save", "h.st",
                     fails=True)
    assert "quern:" in text and not (folder / "h.st").exists(), text


def check_more_outputs(folder):
    """Classes that the data happens not to show, told in a line."""
    save(folder / "net.onnx", [node("Gemm", ["pixels", "head", "bias"], "chances", transB=1)], ["N", 6], ["N", 10],
         weights(head=(10, 6), bias=(10,)))
    make_data(folder, (6,))
    text = run_quern(folder, "train", "net.onnx", "--data", "npy:x.npy,y.npy", "--epochs", 1, "--save", "w.st")
    assert "10 outputs, and the data shows 3 classes" in text, text
    run_quern(folder, "evaluate", "net.onnx", "--data", "npy:x.npy,y.npy", "--weights", "w.st", "--split", "train")
    run_quern(folder, "export", "net.onnx", "--weights", "w.st", "--out", "again.onnx")


def check_tasks(folder):
    """What import promises, training does: windows of numbers, a symbol for what is a number; not taggers."""
    save(folder / "net.onnx", [node("Flatten", ["pixels"], "rows"), node("MatMul", ["rows", "head"], "chances")],
         ["N", 4, 6], ["N", "classes"], weights(head=(24, 3)))
    make_data(folder, (4, 6))
    assert "task        classification" in run_quern(folder, "import", "net.onnx")
    first, again = train_and_export(folder)
    assert signature(first) == signature(again)
    graph = helper.make_graph([node("Gather", ["table", "words"], "rows", axis=0), node("MatMul", ["rows", "head"], "labels")], "net",
                              [helper.make_tensor_value_info("words", TensorProto.INT64, ["N", "T"])],
                              [helper.make_tensor_value_info("labels", TensorProto.FLOAT, ["N", "T", 5])],
                              weights(table=(50, 4), head=(4, 5)))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), folder / "tags.onnx")
    text = run_quern(folder, "import", "tags.onnx")
    assert "labels them instead of saying the next" in text and "task        language" not in text, text


def main():
    for check in (check_nhwc, check_head, check_batch_constant, check_indices, check_branch, check_parts, check_two_heads, check_fixed_width, check_more_outputs,
                  check_tasks):
        with tempfile.TemporaryDirectory() as folder:
            check(pathlib.Path(folder))
            print(check.__name__)


if __name__ == "__main__":
    main()
