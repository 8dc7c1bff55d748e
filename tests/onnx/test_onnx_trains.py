"""What of an ONNX file trains: as the file says, else by names and use, else as the user's lists say. Files of PyTorch's exporters
are in tests/onnx/cases."""
import json
import pathlib
import sys
import unittest

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import quern  # noqa: E402

CASES = pathlib.Path(__file__).parent / "cases"


def read_safetensors(path):
    data = pathlib.Path(path).read_bytes()
    n = int.from_bytes(data[:8], "little")
    types = {"F32": np.float32, "F64": np.float64, "I32": np.int32}
    return {name: np.frombuffer(data[8 + n:][slice(*t["data_offsets"])], types[t["dtype"]]).reshape(t["shape"])
            for name, t in json.loads(data[8:8 + n]).items() if name != "__metadata__" and t["dtype"] in types}


class Trains(quern.Case):
    def arrays(self, path, steps=2):
        """Trains on random arrays of the file's extents; returns the file."""
        model = onnx.load(path)
        random, arrays = np.random.default_rng(1), {}
        for place in [*model.graph.input, *model.graph.output]:
            shape = [d.dim_value or 4 for d in place.type.tensor_type.shape.dim]
            is_real = place.type.tensor_type.elem_type == TensorProto.FLOAT
            arrays[place.name] = (random.normal(size=shape) if is_real else random.integers(0, 4, shape)).astype(
                np.float32 if is_real else np.int64)
        np.savez(self.folder / "data.npz", **arrays)
        return ["--data", "npz:data.npz", "--batch", "2", "--steps", steps, "--lr", "0.1", "--no-test",
                "--save", "trained.st"]

    def train(self, path, *options, **more):
        return self.run_quern("train", path, *self.arrays(path), *options, "--override", **more)

    def moved(self, path):
        """Initialisers that the checkpoint has with other numbers, and those with the same."""
        trained = read_safetensors(self.folder / "trained.st")
        first = {t.name: numpy_helper.to_array(t) for t in onnx.load(path).graph.initializer}
        return ({name for name in first if name in trained and
                 not np.array_equal(np.sort(trained[name], axis=None), np.sort(first[name], axis=None))})

    def decisions(self, path, *options):
        report = json.loads(self.run_quern("import", path, "--json", *options).output)
        return {i["name"]: (i["trains"], i["sure"]) for i in report["initializers"]}

    def test_the_file_says_it(self):
        path = CASES / "buffers_train_dynamo.onnx"
        self.assertEqual(self.decisions(path), {
            "l.weight": (True, True), "l.bias": (True, True), "pe": (False, True), "mean": (False, True),
            "tbl": (False, True), "lifted_tensor_0": (False, True)})
        done = self.train(path)
        self.assertNotIn("does not say", done.errors)
        self.assertEqual(self.moved(path), {"l.weight", "l.bias"})

    def test_constant_nodes_never_train(self):
        path = CASES / "groupnorm_classic_constants_train.onnx"
        self.train(path)
        self.assertEqual(self.moved(path), {"weight", "bias"})
        trained = read_safetensors(self.folder / "trained.st")
        for node in onnx.load(path).graph.node:
            if node.op_type == "Constant" and node.output[0] in trained:
                value = numpy_helper.to_array(node.attribute[0].t)
                np.testing.assert_array_equal(trained[node.output[0]], value)

    def test_a_number_trains(self):
        path = CASES / "scalar_parameter_untrained.onnx"
        self.assertEqual(self.decisions(path)["sc"], (True, False))
        done = self.train(path)
        self.assertIn("does not say that sc trains", done.errors)
        self.assertEqual(self.moved(path), {"sc", "pre.weight", "pre.bias"})
        self.run_quern("evaluate", path, "--weights", "trained.st", "--data", "npz:data.npz", "--split", "train")
        self.run_quern("export", path, "--weights", "trained.st", "--out", "again.onnx")
        again = {t.name: numpy_helper.to_array(t) for t in onnx.load(self.folder / "again.onnx").graph.initializer}
        np.testing.assert_array_equal(again["sc"], read_safetensors(self.folder / "trained.st")["sc"])
        self.train(path, "--freeze", "sc")
        self.assertEqual(self.moved(path), {"pre.weight", "pre.bias"})

    def test_lists(self):
        path = CASES / "buffers_train_dynamo.onnx"
        self.train(path, "--train-only", "pe,l.bias")
        self.assertEqual(self.moved(path), {"pe", "l.bias"})
        self.train(path, "--train-only", "*")  # a pattern does not change what the file says
        self.assertEqual(self.moved(path), {"l.weight", "l.bias"})
        (self.folder / "list").write_text("# two\n pe \n\nl.weight\r\n")
        self.train(path, "--requires-grad", "list")
        self.assertEqual(self.moved(path), {"pe", "l.weight"})
        (self.folder / "list").unlink()  # the checkpoint has it
        self.run_quern("evaluate", path, "--weights", "trained.st", "--data", "npz:data.npz", "--split", "train")
        self.run_quern("train", "--resume", "trained.st", "--steps", "3", "--no-test", "--save", "trained.st")
        self.assertEqual(self.moved(path), {"pe", "l.weight"})
        (self.folder / "list.json").write_text('["tbl"]')
        self.train(path, "--requires-grad", "list.json")
        self.assertEqual(self.moved(path), {"tbl"})

    def test_wrong_lists(self):
        path = CASES / "buffers_train_dynamo.onnx"
        for text, status, says in (
                ("l.wieght", 2, "did you mean l.weight"), ("", 1, "no name is in it"), ("[1]", 1, "something else"),
                ("[", 1, "not a list of names in JSON"), ("a\0b", 1, "not a list of names")):
            (self.folder / "list").write_text(text)
            done = self.run_quern("import", path, "--requires-grad", "list", status=status)
            self.assertIn(says, done.errors)
        self.assertIn("No such file", self.run_quern("import", path, "--requires-grad", "none", status=1).errors)

    def network(self, producer, names):
        """x * a + b, then a layer, with initialisers of these names: a number, a row, a matrix, a bias."""
        values = [np.float32(2), np.full(3, 0.5, np.float32), np.eye(3, dtype=np.float32), np.ones(3, np.float32)]
        nodes = [helper.make_node("Mul", ["x", names[0]], ["m"]), helper.make_node("Add", ["m", names[1]], ["s"]),
                 helper.make_node("MatMul", ["s", names[2]], ["p"]), helper.make_node("Add", ["p", names[3]], ["y"])]
        graph = helper.make_graph(
            nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 3])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 3])],
            [numpy_helper.from_array(v, n) for v, n in zip(values, names)])
        path = self.folder / "net.onnx"
        onnx.save(helper.make_model(graph, producer_name=producer, opset_imports=[helper.make_opsetid("", 13)]), path)
        return path

    def test_names_and_use(self):
        sure, unsure, fixed, perhaps = (True, True), (True, False), (False, True), (False, False)
        for producer, names, wanted in (
                ("pytorch", ["logit_scale", "cls_token", "head.weight", "head.bias"], [unsure, unsure, sure, sure]),
                ("pytorch", ["onnx::Mul_7", "pe", "onnx::MatMul_9", "onnx::Add_3"], [perhaps, perhaps, unsure, perhaps]),
                ("tf2onnx", ["scale", "const_1", "dense/MatMul/ReadVariableOp:0", "dense/b"], [perhaps, perhaps, sure, unsure]),
                ("pytorch", ["k", "bn.running_mean", "w", "lifted_tensor_0"], [unsure, fixed, sure, fixed])):
            path = self.network(producer, names)
            self.assertEqual(list(self.decisions(path).values()), wanted, (producer, names))
        self.assertEqual(self.decisions(path, "--train-only", "k,lifted_tensor_0")["lifted_tensor_0"], sure)

    def test_a_fixed_batch_comes_back(self):
        """A network that can be built for its own batch alone, as it adds other rows to each sample."""
        path = self.network("pytorch", ["a.weight", "rows", "head.weight", "head.bias"])
        model = onnx.load(path)
        model.graph.initializer[1].CopyFrom(numpy_helper.from_array(np.arange(6, dtype=np.float32).reshape(2, 3), "rows"))
        for place in (model.graph.input[0], model.graph.output[0]):
            place.type.tensor_type.shape.dim[0].dim_value = 2
        onnx.save(model, path)
        self.train(path)
        self.run_quern("export", path, "--weights", "trained.st", "--out", "again.onnx")
        again = onnx.load(self.folder / "again.onnx").graph
        self.assertEqual([again.input, again.output, again.node], [model.graph.input, model.graph.output, model.graph.node])
        trained = read_safetensors(self.folder / "trained.st")
        for tensor in again.initializer:
            wanted = trained[tensor.name]
            found = numpy_helper.to_array(tensor)
            np.testing.assert_array_equal(found, wanted if found.shape == wanted.shape and tensor.name != "head.weight" else wanted.T)
        self.assertIn("head.weight", self.moved(path))

    def test_statistics_do_not_train(self):
        """A list of all initialisers, as examples elsewhere make it, and batch norms of a file for training."""
        draw = np.random.default_rng(2)
        constants = {"a.weight": draw.normal(size=(4, 4)), "bn.weight": np.ones(4), "bn.bias": np.zeros(4),
                     "bn.running_mean": np.zeros(4), "bn.running_var": np.ones(4)}
        nodes = [helper.make_node("Gemm", ["x", "a.weight"], ["h"], "a"),
                 helper.make_node("BatchNormalization", ["h", *list(constants)[1:]], ["y", "m", "v"], "bn", training_mode=1)]
        graph = helper.make_graph(nodes, "net", [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 4])],
                                  [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 4])],
                                  [numpy_helper.from_array(v.astype(np.float32), k) for k, v in constants.items()])
        onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8), self.folder / "bn.onnx")
        (self.folder / "all").write_text("\n".join(constants))
        for options in (("--requires-grad", "all"), ("--train-only", "bn.running_mean")):
            done = self.run_quern("import", "bn.onnx", *options, status=2)
            self.assertIn("bn.running_mean is a batch norm's running statistic", done.errors)
        (self.folder / "all").write_text("\n".join(list(constants)[:3]))
        self.run_quern("import", "bn.onnx", "--requires-grad", "all")
        self.assertEqual(self.run_quern("export", "bn.onnx", "--out", "out.onnx").errors, "")
        self.assertEqual(onnx.load(self.folder / "out.onnx").graph.node, onnx.load(self.folder / "bn.onnx").graph.node)
        self.train(self.folder / "bn.onnx")
        self.assertIn("1 batch norms of the file normalise by their batch",
                      self.run_quern("export", "bn.onnx", "--weights", "trained.st", "--out", "out.onnx").errors)
        self.assertEqual(onnx.load(self.folder / "out.onnx").graph.node[1].output, ["y"])

    def test_a_pattern_trains_what_is_unsure(self):
        path = self.network("tf2onnx", ["scale", "rows", "dense/kernel", "dense/bias"])
        self.train(path, "--train-only", "sc*")
        self.assertEqual(self.moved(path), {"scale"})


if __name__ == "__main__":
    unittest.main()
