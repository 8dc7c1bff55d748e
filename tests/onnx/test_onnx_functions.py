"""Functions of a file: what calls one is what its body says, whatever is renamed, left out, nested or given by default; what would
never end, or fill the memory, is refused."""
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
from onnx import AttributeProto, FunctionProto, NodeProto, TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import quern  # noqa: E402

TOOLS = os.environ.get("QUERN_TOOLS", "build/release/tests")
X = np.linspace(-2, 2, 12).reshape(3, 4)


def node(kind, inputs, outputs, domain="", **attributes):
    return helper.make_node(kind, inputs, outputs, domain=domain, **attributes)


def referring(made, name, kind, reference):
    """An attribute of a node of a function that is the call's."""
    attribute = made.attribute.add()
    attribute.name, attribute.type, attribute.ref_attr_name = name, kind, reference
    return made


def function(name, inputs, outputs, nodes, attributes=(), domain="own", opset=15):
    made = FunctionProto(name=name, domain=domain, input=inputs, output=outputs, node=nodes, attribute=attributes)
    made.opset_import.extend([helper.make_opsetid("", opset), helper.make_opsetid("own", 1)])
    return made


def unknown(message, tag, content):
    """A field that the schema of this package may not have, with a length below 128."""
    return message.ParseFromString(message.SerializeToString() + bytes([tag << 3 | 2, len(content)]) + content)


def model(nodes, functions, given=(), outputs=("y",), opset=15):
    graph = helper.make_graph(nodes, "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, X.shape)],
                              [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs],
                              [numpy_helper.from_array(np.array(v, np.float32), k) for k, v in dict(given).items()])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("own", 1)])
    made.ir_version = 8
    made.functions.extend(functions)
    return made


def leaky(default=None):
    made = function("Leaky", ["a"], ["b"], [referring(node("LeakyRelu", ["a"], ["b"]), "alpha", AttributeProto.FLOAT, "slope")],
                    ["slope"] if default is None else [])
    if default is not None:
        unknown(made, 11, helper.make_attribute("slope", default).SerializeToString())
    return made


def handed_on():
    """An attribute that a function hands on to another, whose constant it is."""
    constant = referring(node("Constant", [], ["c"]), "value_float", AttributeProto.FLOAT, "inner")
    inner = function("Inner", ["a"], ["b"], [constant, node("Add", ["a", "c"], ["b"])], ["inner"])
    call = referring(node("Inner", ["a"], ["b"], "own"), "inner", AttributeProto.FLOAT, "outer")
    return model([node("Outer", ["x"], ["y"], "own", outer=2.5)], [function("Outer", ["a"], ["b"], [call], ["outer"]), inner])


def branches():
    """A branch inside of a function, which calls another one with names of both."""
    inner = [helper.make_graph([node(kind, ["a"], ["t"], "own" if kind == "Twice" else ""), node("Add", ["t", "k"], ["u"])], "branch",
                               [], [helper.make_tensor_value_info("u", TensorProto.FLOAT, None)]) for kind in ("Twice", "Neg")]
    choose = function("Choose", ["a", "k"], ["b"], [
        node("Constant", [], ["c"], value=helper.make_tensor("c", TensorProto.BOOL, [], [1])),
        node("If", ["c"], ["b"], then_branch=inner[0], else_branch=inner[1])])
    return model([node("Choose", ["x", "k"], ["p"], "own"), node("Choose", ["p", "k"], ["y"], "own")],
                 [choose, function("Twice", ["t"], ["c"], [node("Add", ["t", "t"], ["c"])])], {"k": 0.5})


def overloads():
    functions, calls = [], []
    for overload, kind in (("", "Abs"), ("other", "Neg")):
        functions.append(function("F", ["a"], ["b"], [node(kind, ["a"], ["b"])]))
        calls.append(NodeProto(op_type="F", domain="own", input=["x" if not calls else "p"], output=["y" if calls else "p"]))
        if overload:
            unknown(functions[-1], 13, overload.encode())
            unknown(calls[-1], 8, overload.encode())
    return model(calls, functions)


def doubling(n):
    """Each function calls the next one twice."""
    functions = [function(f"F{i}", ["a"], ["b"], [node(f"F{i + 1}", ["a"], ["t"], "own"), node(f"F{i + 1}", ["t"], ["b"], "own")])
                 for i in range(n)]
    functions.append(function(f"F{n}", ["a"], ["b"], [node("Abs", ["a"], ["b"])]))
    return model([node("F0", ["x"], ["y"], "own")], functions)


def good():
    """Models and what they give for X."""
    scaled = function("Scaled", ["a", "w"], ["b"], [node("Mul", ["a", "w"], ["x"]), node("Tanh", ["x"], ["b"])])
    yield "names", model([node("Scaled", ["x", "w"], ["b"], "own"), node("Scaled", ["b", "w"], ["y"], "own")], [scaled],
                         {"w": 3.0}), np.tanh(3 * np.tanh(3 * X))
    yield "attribute", model([node("Leaky", ["x"], ["y"], "own", slope=0.25)], [leaky()]), np.where(X < 0, X * 0.25, X)
    yield "attribute left out", model([node("Leaky", ["x"], ["y"], "own")], [leaky()]), np.where(X < 0, X * 0.01, X)
    yield "default", model([node("Leaky", ["x"], ["y"], "own")], [leaky(0.5)]), np.where(X < 0, X * 0.5, X)
    yield "no default", model([node("Leaky", ["x"], ["y"], "own", slope=0.125)], [leaky(0.5)]), np.where(X < 0, X * 0.125, X)
    clip = function("Cut", ["a", "low", "high"], ["b"], [node("Clip", ["a", "low", "high"], ["b"])])
    yield "input left out", model([node("Cut", ["x", "", "w"], ["y"], "own")], [clip], {"w": 0.5}), np.minimum(X, 0.5)
    both = function("Both", ["a"], ["a", "n"], [node("Neg", ["a"], ["n"])])
    yield "input as output", model([node("Both", ["x"], ["p", ""], "own"), node("Both", ["p"], ["", "y"], "own")], [both]), -X
    yield "handed on", handed_on(), X + 2.5
    yield "branches", branches(), 2 * (2 * X + 0.5) + 0.5
    yield "overloads", overloads(), -np.abs(X)
    yield "disorder", model([node("F", ["x"], ["y"], "own")], [function("F", ["a"], ["b"], [
        node("Exp", ["t"], ["b"]), node("Abs", ["a"], ["t"])])]), np.exp(np.abs(X))
    old = function("Old", ["a"], ["b"], [node("Softmax", ["a"], ["b"], axis=0)], opset=11)
    flat = np.exp(X - X.max())
    yield "older opset", model([node("Old", ["x"], ["y"], "own")], [old]), flat / flat.sum()
    yield "standard name", model([node("Abs", ["x"], ["y"])], [function("Abs", ["a"], ["b"], [node("Neg", ["a"], ["b"])], domain="")]), -X
    yield "many", doubling(6), np.abs(X)


def bad():
    """Models and a word of the refusal."""
    yield model([node("F", ["x"], ["y"], "own")], [function("F", ["a"], ["b"], [node("F", ["a"], ["b"], "own")])]), "calls itself"
    pair = [function(a, ["a"], ["b"], [node(b, ["a"], ["b"], "own")]) for a, b in (("F", "G"), ("G", "F"))]
    yield model([node("F", ["x"], ["y"], "own")], pair), "calls itself"
    yield doubling(40), "bytes of nodes"
    chain = [function(f"F{i}", ["a"], ["b"], [node(f"F{i + 1}" if i < 199 else "Abs", ["a"], ["b"], "own" if i < 199 else "")])
             for i in range(200)]
    yield model([node("F0", ["x"], ["y"], "own")], chain), "nest too deeply"
    one = function("F", ["a"], ["b"], [node("Abs", ["a"], ["b"])])
    yield model([node("F", ["x"], ["y"], "own")], [one, one]), "there twice"
    yield model([node("F", ["x", "x"], ["y"], "own")], [one]), "more inputs"
    yield model([node("F", ["x"], ["y"], "own")], [function("F", ["a"], ["b"], [node("Abs", ["q"], ["b"])])]), "nothing gives"
    yield model([node("F", ["x"], ["y"], "own")], [function("F", ["a"], ["b"], [node("Abs", ["a"], ["q"])])]), "given by nothing"
    yield model([node("F", ["x"], ["y"], "own")], [function("F", ["a"], ["b"], [node("Abs", ["a"], ["b"])], opset=99)]), "opset 99"
    yield model([node("G", ["x"], ["y"], "own")], [one]), "no such operator"


def run(made, folder):
    path = folder / "f.onnx"
    path.write_bytes(made.SerializeToString())
    X.tofile(folder / "in")
    return subprocess.run([os.path.join(TOOLS, "run_onnx"), path, "f64", "0", "0", folder / "in", folder / "out", "3x4"],
                          check=False, capture_output=True, text=True)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for title, made, right in good():
            done = run(made, folder)
            assert done.returncode == 0, (title, done.stderr)
            found = np.fromfile(folder / "out").reshape(right.shape)
            assert np.abs(found - right).max() < 1e-12, (title, found, right)
        for made, word in bad():
            (folder / "f.onnx").write_bytes(made.SerializeToString())
            done = subprocess.run([quern.QUERN, "import", "--check", folder / "f.onnx"], check=False, capture_output=True, text=True)
            assert done.returncode == 1 and word in done.stderr + done.stdout, (word, done.stderr)


if __name__ == "__main__":
    main()
