"""Networks trained in int8 as files with QuantizeLinear and DequantizeLinear: the onnx package finds them valid, the int8
weights are the checkpoint's, PyTorch's reading of the operators predicts what quern does with the checkpoint, and so does
quern's own reading."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy as np
import onnx
import torch
from onnx import numpy_helper

import exported

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import quern  # noqa: E402

N, SIDE, DATA = 64, 28, "npy:x.npy,y.npy"
# the most that the loss may differ: by ties, which ONNX rounds to even, and by the order of sums in f32
MODELS = (("lenet-relu", "niti", 0.02), ("lenet5", "niti", 0.02), ("lenet5", "octo", 0.01), ("lenet5", "sparse", 0.01),
          ("lenet5", "wageubn", 0.05), ("lenet5", "f32", 1e-5))


def run_quern(folder, *arguments, status=0):
    result = subprocess.run([quern.QUERN, *map(str, arguments)], cwd=folder, capture_output=True, text=True)
    assert result.returncode == status, (arguments, result.stderr)
    return result.stdout if status == 0 else result.stderr


def make_data(folder):
    """Images of 4 classes, so many that they are one batch: the scales of the export are those of the evaluation."""
    draw, y = np.random.default_rng(1), np.arange(N) % 4
    x = draw.integers(0, 60, (N, SIDE, SIDE, 1))
    for image, label in zip(x, y):
        image[7 * label:7 * label + 9] += 150
    quern.write_npy(folder / "x.npy", "|u1", x.shape, x.astype(np.uint8).tobytes())
    quern.write_npy(folder / "y.npy", "|u1", y.shape, y.astype(np.uint8).tobytes())
    return x.astype(np.float32).transpose(0, 3, 1, 2) / 255, y


def read_checkpoint(path):
    data = path.read_bytes()
    begin = 8 + int.from_bytes(data[:8], "little")
    return {name: data[begin + t["data_offsets"][0]:begin + t["data_offsets"][1]]
            for name, t in json.loads(data[8:begin]).items() if name != "__metadata__"}


def check_weights(model, checkpoint):
    """Stored int8 weights are in the file as they are, with a power of two for a scale."""
    found = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    names = [name for name in found if name.endswith(".weight/int8")]
    assert len(names) >= 4, names
    for name in names:
        w, weight = found[name], name[:-len("/int8")]
        kept = np.frombuffer(checkpoint[weight], np.int8)
        if w.ndim == 4:
            w = w.transpose(0, 2, 3, 1)
        assert (w.ravel() == kept).all(), name
        assert np.log2(float(found[weight + "/scale"])) % 1 == 0
    assert not any(name.endswith(".bias") for name in found)


def check_predictions(folder, model, numerics, most, x, y):
    run_quern(folder, "train", model, "--data", DATA, "--epochs", 4, "--batch", 8, "--no-test", "--numerics", numerics,
              "--save", "w.st")
    run_quern(folder, "export", model, "--weights", "w.st", "--out", "w.onnx", "--samples", N)
    file = onnx.load(folder / "w.onnx")
    onnx.checker.check_model(file, full_check=True)
    names = [node.name for node in file.graph.node]
    assert len(names) == len(set(names)), names  # ONNX Runtime refuses the file otherwise
    if numerics == "niti":
        check_weights(file, read_checkpoint(folder / "w.st"))
    assert any(n.op_type == "DequantizeLinear" for n in file.graph.node) == (numerics != "f32")
    assert [p.name for p in file.graph.input] == ["input"] and [p.name for p in file.graph.output] == ["fc2"]
    properties = {p.key: p.value for p in file.metadata_props}
    mean, deviation = (json.loads(properties[f"quern.preparation.{key}"])[0] for key in ("mean", "std_dev"))
    outputs, = exported.run(folder / "w.onnx", np.float32((x - mean) / deviation))
    loss = float(torch.nn.functional.cross_entropy(torch.from_numpy(outputs), torch.from_numpy(y)))
    right = (outputs.argmax(1) == y).mean()
    for by in (("--weights", "w.st"), ("w.onnx", "--data", DATA)):
        line = run_quern(folder, "evaluate", *by, "--split", "train", "--batch", N, "--json")
        ours = json.loads(line)
        assert abs(ours["loss"] - loss) <= most * (1 + loss), (model, numerics, by, ours, loss)
        assert abs(ours["accuracy"] - right) <= 1.5 / N, (model, numerics, by, ours, right)


def check_float_weights(folder):
    """A network that was trained in f32 in int8; what cannot be."""
    run_quern(folder, "train", "lenet5", "--data", DATA, "--steps", 4, "--batch", 8, "--no-test", "--save", "f.st")
    run_quern(folder, "export", "lenet5", "--weights", "f.st", "--numerics", "sparse", "--out", "f.onnx")
    weights = [t for t in onnx.load(folder / "f.onnx").graph.initializer if t.name == "conv1.weight/scale"]
    assert list(weights[0].dims) == [6]
    for words, says in ((("--numerics", "bf16"), "int8"), (("--numerics", "niti"), "conv1.weight"),
                        (("--numerics", "sparse", "--data", "npy:none.npy,none.npy"), "none.npy")):
        message = run_quern(folder, "export", "lenet5", "--weights", "f.st", *words, "--out", "bad.onnx", status=1)
        assert says in message, message
        assert not (folder / "bad.onnx").exists()
    run_quern(folder, "export", "lenet5", "--numerics", "niti", "--out", "bad.onnx", status=2)


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["XDG_CACHE_HOME"] = name
        x, y = make_data(folder)
        for model, numerics, most in MODELS:
            check_predictions(folder, model, numerics, most, x, y)
        check_float_weights(folder)
    print("int8 in files: ok")


main()
