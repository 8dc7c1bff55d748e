"""Networks of the zoo as ONNX files: ONNX's own checker takes them, names are kept, and PyTorch computes from them
what quern does. The argument "all" takes all classifiers, else the small ones."""
import os
import sys
import tempfile

import numpy as np
import onnx

import exported

QUICK = ["mlp", "lenet5", "squeezenet", "mobilenet-v2", "densenet40"]


def check_names(path, name):
    """Dropout and weights are there under quern's names; the batch is open."""
    model = onnx.load(path, load_external_data=False)
    graph = model.graph
    assert model.producer_name == "quern" and graph.name == name
    assert graph.input[0].type.tensor_type.shape.dim[0].dim_param == "N"
    names = {t.name for t in graph.initializer}
    layers = {n.name for n in graph.node if n.op_type in ("Conv", "Gemm")}
    assert layers and all(layer + ".weight" in names for layer in layers), (name, layers)
    assert len(layers) == len([n for n in graph.node if n.op_type in ("Conv", "Gemm")])
    if name == "squeezenet":
        assert [n.op_type for n in graph.node].count("Dropout") == 1


def check(name, folder, *more):
    path, x, y = exported.export(name, folder, 5, *more)
    onnx.checker.check_model(path, full_check=True)
    check_names(path, name)
    worst = np.abs(exported.run(path, x)[0] - y).max() / np.ptp(y)
    print(f"{name}: differs by {worst:.2g} of its range")
    assert worst < 1e-4, name
    for end in (".onnx", ".onnx.data", ".x", ".y"):
        if os.path.exists(os.path.join(folder, name + end)):
            os.remove(os.path.join(folder, name + end))


def check_network(name, folder):
    """Networks with layers of LSTM are left to ONNX's checker and to bench/check_onnxruntime.py."""
    path, inputs, expected = exported.export_network(name, folder)
    onnx.checker.check_model(path, full_check=True)
    if any(node.op_type == "LSTM" for node in onnx.load(path).graph.node):
        return
    for found, wanted in zip(exported.run(path, *inputs.values()), expected):
        worst = np.abs(found - wanted).max() / np.ptp(wanted)
        print(f"{name}: differs by {worst:.2g} of its range")
        assert worst < 1e-4, name


def main():
    with tempfile.TemporaryDirectory() as folder:
        for name in exported.CLASSIFIERS if sys.argv[1:] == ["all"] else QUICK:
            check(name, folder)
        check("squeezenet", folder, "outside")
        for name in ("dqn", "dcgan", "bert-tiny", "char-cnn"):
            check_network(name, folder)


if __name__ == "__main__":
    main()
