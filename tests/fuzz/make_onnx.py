#!/usr/bin/python3
"""Makes the corpus of fuzz_onnx anew: small models that together use each message that is read.

usage: make_onnx.py FOLDER
"""
import os
import sys

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper


def model(nodes, inputs, outputs, initializers=(), opset=13, **more):
    """A model as bytes; inputs and outputs are names of float tensors (N, 4)."""
    places = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 4]) for name in names]
              for names in (inputs, outputs)]
    graph = helper.make_graph(nodes, "graph", *places, initializer=list(initializers), **more)
    made = helper.make_model(graph, producer_name="quern",
                             opset_imports=[helper.make_opsetid("", opset)])
    helper.set_model_props(made, {"task": "classification"})
    return made


def functions():
    """Functions with attributes of their calls, in a branch, and ones that call themselves."""
    node = helper.make_node
    slope = node("LeakyRelu", ["a"], ["b"])
    slope.attribute.add(name="alpha", type=onnx.AttributeProto.FLOAT, ref_attr_name="slope")
    inner = helper.make_graph([node("Leaky", ["a"], ["t"], domain="own")], "inner", [], [
        helper.make_tensor_value_info("t", TensorProto.FLOAT, None)])
    bodies = {"Leaky": [slope], "Both": [node("If", ["a"], ["b"], then_branch=inner, else_branch=inner)],
              "Self": [node("Self", ["a"], ["b"], domain="own")]}
    made = {}
    for name, kinds in (("functions", ("Leaky", "Both")), ("functions_endless", ("Self",))):
        made[name] = model([node(kinds[0], ["x"], ["p"], domain="own", slope=0.5), node(kinds[-1], ["p"], ["y"], domain="own")],
                           ["x"], ["y"])
        for kind in kinds:
            made[name].functions.append(onnx.FunctionProto(name=kind, domain="own", input=["a"], output=["b"],
                                                           attribute=["slope"], node=bodies[kind]))
        # defaults and overloads, which the schema of this package may not know
        default = helper.make_attribute("slope", 0.25).SerializeToString()
        for tag, content in ((11, default), (13, b"")):
            body = made[name].functions[0]
            body.ParseFromString(body.SerializeToString() + bytes([tag << 3 | 2, len(content)]) + content)
    return made


def main():
    node, tensor = helper.make_node, helper.make_tensor
    small = numpy_helper.from_array(np.arange(8, dtype=np.float32).reshape(2, 4), "w")
    lists = [tensor("f", TensorProto.FLOAT, [2], [1.0, 2.0]), tensor("i", TensorProto.INT64, [2], [1, -1]),
             tensor("b", TensorProto.INT8, [1], [-3]), tensor("h", TensorProto.FLOAT16, [1], [1.0]),
             tensor("d", TensorProto.DOUBLE, [], [0.5]), tensor("u", TensorProto.UINT32, [1], [7])]
    outside = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2, 4],
                          data_location=TensorProto.EXTERNAL)
    for key, value in (("location", "quern-fuzz.data"), ("offset", "0"), ("length", "32")):
        outside.external_data.add(key=key, value=value)
    inner = helper.make_graph([node("Relu", ["x"], ["r"])], "inner", [], [
        helper.make_tensor_value_info("r", TensorProto.FLOAT, None)])
    old = model([node("Gemm", ["x", "w"], ["y"], "fc", transB=1)], ["x"], ["y"], [small], 7)
    old.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [2, 4]))
    files = {
        "gemm": old,
        "lists": model([node("Relu", ["x"], ["y"])], ["x"], ["y"], lists),
        "outside": model([node("MatMul", ["w", "x"], ["y"])], ["x"], ["y"], [outside]),
        "disorder": model([node("Add", ["b", "a"], ["y"]), node("Relu", ["a"], ["b"]),
                           node("Abs", ["x"], ["a"])], ["x"], ["y"]),
        "cycle": model([node("Add", ["x", "b"], ["a"]), node("Relu", ["a"], ["b"])], ["x"], ["b"]),
        "attributes": model([
            node("Constant", [], ["c"], value=tensor("t", TensorProto.FLOAT, [1], [1.0])),
            node("Odd", ["x", "", "c"], ["y", ""], "n", "elsewhere", doc="text", f=0.5, i=-7, s="text",
                 floats=[1.0, 2.0], ints=[1, 2, 3], strings=["a", "b"]),
            node("If", ["x"], ["z"], then_branch=inner, else_branch=inner)], ["x"], ["y", "z"],
            value_info=[helper.make_tensor_value_info("c", TensorProto.FLOAT, [1])]),
        "optional": model([node("Dropout", ["x"], ["y", "mask"], ratio=0.5)], ["x"], ["y"], opset=10),
    }
    files.update(functions())
    os.makedirs(sys.argv[1], exist_ok=True)
    for name, made in files.items():
        made.ir_version = 3 if name == "gemm" else 7
        with open(os.path.join(sys.argv[1], name), "wb") as file:
            file.write(made.SerializeToString())


if __name__ == "__main__":
    main()
