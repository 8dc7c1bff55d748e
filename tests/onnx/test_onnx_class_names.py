"""Names of classes in files of other programs: read from where these write them, in any form, matched by name; lists that
contradict each other are refused, and an export leaves none that is no longer so."""
import json
import pathlib
import subprocess
import sys
import tempfile
import os

import numpy as np
import onnx
from onnx import helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import quern  # noqa: E402

NAMES, ORDER = ("ant", "bee", "größe"), (2, 0, 1)
CENTRES = np.float32([[0, 0], [8, 0], [0, 8]])
THEIRS = [NAMES[i] for i in ORDER]
FORMS = {
    "names": (str(dict(enumerate(THEIRS))), json.dumps(THEIRS), json.dumps({str(i): name for i, name in enumerate(THEIRS)})),
    "classes": (str(THEIRS), ", ".join(THEIRS), "\n".join(THEIRS) + "\n", str(tuple(THEIRS))),
    "class_to_idx": (json.dumps({name: i for i, name in reversed(list(enumerate(THEIRS)))}),),
}


def run(folder, *arguments, status=0):
    result = subprocess.run([quern.QUERN, *map(str, arguments)], cwd=folder, capture_output=True, text=True)
    assert result.returncode == status, (arguments, result.stdout, result.stderr)
    return result.stdout + result.stderr


def make(path, properties):
    """A network that tells three centres apart, its outputs in an order of its own."""
    weights = CENTRES[list(ORDER)]
    node = helper.make_node("Gemm", ["x", "w", "b"], ["y"], "head", transB=1)
    graph = helper.make_graph([node], "theirs", [helper.make_tensor_value_info("x", 1, ["N", 2])],
                              [helper.make_tensor_value_info("y", 1, ["N", 3])],
                              [numpy_helper.from_array(weights, "w"),
                               numpy_helper.from_array(-(weights * weights).sum(axis=1) / 2, "b")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for key, value in properties.items():
        model.metadata_props.add(key=key, value=value)
    onnx.save(model, path)


def make_data(folder, names, name):
    draw = np.random.default_rng(1)
    rows = [(*(CENTRES[i % 3] + draw.normal(size=2)), names[i % 3]) for i in range(60)]
    (folder / name).write_text("x,y,label\n" + "".join(f"{x:.4f},{y:.4f},{k}\n" for x, y, k in rows))


def accuracy(folder, *words):
    lines = [line for line in run(folder, "evaluate", *words, "--json").splitlines() if line.startswith("{")]
    event = json.loads(lines[-1])
    assert event["samples"] == 60, event
    return event["accuracy"]


def check_forms(folder):
    for key, forms in FORMS.items():
        for form in forms:
            make(folder / "m.onnx", {key: form, "description": "ant, bee"})
            assert accuracy(folder, "m.onnx", "--data", "csv:d.csv") > 0.99, form
            assert f"its property '{key}' names its outputs: größe, ant, bee" in run(folder, "evaluate", "m.onnx", "--data", "csv:d.csv")
    (folder / "hf").mkdir()
    make(folder / "hf" / "model.onnx", {})
    (folder / "hf" / "config.json").write_text(json.dumps({"id2label": {str(i): name for i, name in enumerate(THEIRS)}}))
    assert accuracy(folder, "hf/model.onnx", "--data", "csv:d.csv") > 0.99


def check_refusals(folder):
    make(folder / "m.onnx", {"names": str(THEIRS), "labels": str(list(NAMES))})
    told = run(folder, "evaluate", "m.onnx", "--data", "csv:d.csv", status=1)
    assert "'names' says that its outputs are größe, ant, bee; its property 'labels' says ant, bee, größe" in told, told
    make(folder / "m.onnx", {"names": str(THEIRS + ["dog"])})
    told = run(folder, "evaluate", "m.onnx", "--data", "csv:d.csv")
    assert "names 4 classes, and it has 3 outputs" in told and "in this order, ant, bee, größe" in told, told
    make(folder / "m.onnx", {"names": str(THEIRS)})
    told = run(folder, "train", "m.onnx", "--data", "csv:dog.csv", "--steps", 1, status=1)
    assert "not trained for: dog; without a sample: größe" in told, told


def check_export(folder):
    """A grown head: the old list goes, the new one is quern's."""
    run(folder, "train", "m.onnx", "--data", "csv:dog.csv", "--steps", 1, "--lr", 0, "--head", "data", "--save", "g.st")
    run(folder, "export", "m.onnx", "--weights", "g.st", "--out", "g.onnx")
    properties = {p.key: p.value for p in onnx.load(folder / "g.onnx").metadata_props}
    assert "names" not in properties, properties
    assert json.loads(properties["quern.preparation.class_names"]) == THEIRS + ["dog"], properties


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["XDG_CACHE_HOME"] = name
        make_data(folder, NAMES, "d.csv")
        make_data(folder, ("ant", "bee", "dog"), "dog.csv")
        check_forms(folder)
        check_refusals(folder)
        check_export(folder)
    print("names of classes in files: ok")


main()
