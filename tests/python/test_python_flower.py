"""The app for Flower that quern federate app writes, without Flower: its settings, its data, and a round of its clients,
whose mean is the server's."""
import contextlib
import importlib.util
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import tomllib
import unittest

import fresh
import numpy as np

QUERN = os.environ["QUERN"]
CLIENTS, CLASSES, SIDE = 4, 3, 12


class Flower(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-flower-"))
        self.addCleanup(shutil.rmtree, self.folder)
        draw = np.random.default_rng(2)
        self.y = (np.arange(240) % CLASSES).astype(np.int32)
        self.x = draw.integers(0, 100, (240, SIDE, SIDE, 1)).astype(np.uint8)
        self.x[np.arange(240), self.y * 4] += 120
        np.save(self.folder / "x.npy", self.x)
        np.save(self.folder / "y.npy", self.y)

    def write(self, *more, status=0):
        done = subprocess.run([QUERN, "federate", "app", "--model", "mlp", "--data", "npy:x.npy,y.npy", "--holdout",
                               "0.25", "--clients", str(CLIENTS), "--per-round", str(CLIENTS), "--partition", "hsu:3", *more],
                              cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        self.assertEqual(done.returncode, status, done.stdout)
        return done.stdout

    def test_app(self):
        self.write("--out", "app", "--lr", "0.25", "--server-lr", "1", "--batch", "8")
        app = self.folder / "app"
        project = tomllib.loads((app / "pyproject.toml").read_text())
        config = project["tool"]["flwr"]["app"]["config"]
        self.assertEqual((config["lr"], config["server-lr"], config["batch"], config["model"]), (0.25, 1.0, 8, "mlp"))
        self.assertIsInstance(config["server-lr"], float)
        for path in app.rglob("*"):
            if path.suffix in (".py", ".md", ".toml"):
                self.assertNotRegex(path.read_text(), "@[A-Z_]+@")
        for name in ("client_app", "server_app"):  # they import Flower
            compile((app / f"quern_app/{name}.py").read_text(), name, "exec")
        self.check_data(app)
        self.check_round(app, config)

    def check_data(self, app):
        order, first = np.load(app / "data/order.npy"), np.load(app / "data/first.npy")
        facts = json.loads((app / "data/facts.json").read_text())
        train, test = np.load(app / "data/train-x.npy"), np.load(app / "data/test-x.npy")
        self.assertEqual(sorted(order), list(range(len(train))))
        self.assertEqual((first[0], first[-1], len(first)), (0, len(train), CLIENTS + 1))
        self.assertEqual(len(train) + len(test), len(self.x))
        whole = {image.tobytes(): label for image, label in zip(self.x, self.y)}
        for split, images in (("train", train), ("test", test)):
            for image, label in zip(images, np.load(app / f"data/{split}-y.npy")):
                self.assertEqual(whole[image.tobytes()], label)
        self.assertAlmostEqual(facts["mean"][0], (train / 255).mean(), 5)
        self.assertAlmostEqual(facts["std_dev"][0], (train / 255).std(), 4)

    def check_round(self, app, config):
        sys.path.insert(0, str(app))
        task = importlib.import_module("quern_app.task")
        server = task.get_weights(task.make_model(config), config)
        sums, n = [np.zeros(w.shape) for w in server], 0
        for client in range(CLIENTS):
            x, y = task.of_client(config["data"], client)
            model = task.make_model(config)
            task.set_weights(model, server, config)
            model.fit((x, y), epochs=4, batch=config["batch"], lr=config["lr"], optimizer="sgd", schedule="constant",
                      warmup=0, test=False, meter=False, verbose=False, threads=1)
            sums = [s + len(y) * w for s, w in zip(sums, task.get_weights(model, config))]
            n += len(y)
        x, y, facts = task.samples(config["data"], "test")
        model = task.make_model(config)
        before = model.evaluate((task.prepare(x, facts), y))
        task.set_weights(model, [s / n for s in sums], config)
        after = model.evaluate((task.prepare(x, facts), y))
        self.assertLess(after["loss"], 0.7 * before["loss"])
        self.assertGreater(after["accuracy"], 0.8)

    def test_private(self):
        self.write("--out", "app", "--secure", "--personal", "fc3.*")
        self.write("--out", "noisy", "--dp-clip", "2", "--dp-noise", "0.5", "--dp-where", "client", "--dp-delta", "1e-4")
        config, noisy = (tomllib.loads((self.folder / f"{name}/pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
                         for name in ("app", "noisy"))
        self.assertEqual((config["secure"], config["dp-clip"], noisy["secure"]), (True, 0, False))
        self.assertEqual([noisy[f"dp-{key}"] for key in ("clip", "noise", "where", "delta")], [2, 0.5, "client", 1e-4])
        found = importlib.util.spec_from_file_location("private_task", self.folder / "app/quern_app/task.py")
        task = importlib.util.module_from_spec(found)
        found.loader.exec_module(task)
        model = task.make_model(config)
        own = task.personal_names(model, config)
        self.assertEqual(own, ["fc3.weight", "fc3.bias"])
        given = [array + 1 for array in task.get_weights(model, config)]
        for name, sent, kept, theirs in zip(model.parameters(), task.shared(model, given, own, config),
                                           task.get_weights(model, config), given):
            self.assertTrue(np.array_equal(sent, theirs if name in own else kept))
        # the PLD accountant of Google's dp-accounting 0.6.0, of composed Gaussian events
        self.assertAlmostEqual(task.epsilon(2, 1, 1e-5), 1.99309, 4)
        self.assertAlmostEqual(task.epsilon(1, 100, 1e-5), 91.8173, 3)
        self.assertEqual(task.epsilon(1e4, 1, 0.1), 0)

    def test_settings(self):
        """Flower's usual names; and who is told that nodes are missing."""
        self.write("--out", "app", "--lr", "0.25", "--server", "yogi")
        config = tomllib.loads((self.folder / "app/pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
        found = importlib.util.spec_from_file_location("named_task", self.folder / "app/quern_app/task.py")
        task = importlib.util.module_from_spec(found)
        found.loader.exec_module(task)
        self.assertEqual(config["server"], "yogi")
        self.assertEqual(task.settings(config), config)
        usual = {"num-server-rounds": 7, "fraction-train": 0.5, "batch-size": 3, "learning-rate": 0.5}
        chosen = task.settings(config | usual)
        self.assertEqual([chosen[name] for name in ("rounds", "per-round", "batch", "lr")], [7, CLIENTS // 2, 3, 0.5])
        with self.assertRaisesRegex(ValueError, "at most 1"):
            task.settings(config | {"fraction-train": 1.5})

        class Grid:
            nodes = 1

            def get_node_ids(self):
                return range(self.nodes)

        grid, told = Grid(), io.StringIO()
        with contextlib.redirect_stdout(told), self.assertRaisesRegex(RuntimeError, "1 nodes are connected, and a round needs 4"):
            task.wait_for_nodes(grid, config, sleep=lambda seconds: None)
        self.assertIn("per-round=1", told.getvalue())
        self.assertEqual(told.getvalue().count("\n"), 1)
        with contextlib.redirect_stdout(io.StringIO()):  # the last comes while the server waits
            task.wait_for_nodes(grid, config, sleep=lambda seconds: setattr(grid, "nodes", grid.nodes + 1))
        self.assertEqual(grid.nodes, CLIENTS)

    def test_head(self):
        """The last layer alone is trained and sent; the network begins with a checkpoint."""
        subprocess.run([QUERN, "train", "mlp", "--data", "npy:x.npy,y.npy", "--holdout", "0.25", "--input", "12x12x1",
                        "--steps", "3", "--save",
                        "start.safetensors"], cwd=self.folder, check=True, stdout=subprocess.DEVNULL)
        self.write("--out", "app", "--train-only", "head", "--load", "start.safetensors", "--proximal", "0.1")
        config = tomllib.loads((self.folder / "app/pyproject.toml").read_text())["tool"]["flwr"]["app"]["config"]
        found = importlib.util.spec_from_file_location("head_task", self.folder / "app/quern_app/task.py")
        task = importlib.util.module_from_spec(found)
        found.loader.exec_module(task)
        model, start = task.make_model(config), task.make_model(config)
        self.assertEqual(task.sent_names(model, config), ["fc3.weight", "fc3.bias"])
        self.assertEqual(task.how(config), {"train_only": "head", "proximal": 0.1})
        x, y = task.of_client(config["data"], 0)
        model.fit((x, y), epochs=2, batch=8, lr=0.1, optimizer="sgd", test=False, meter=False, verbose=False, **task.how(config))
        for name, values in model.parameters().items():
            self.assertEqual(np.array_equal(values, start.parameters()[name]), name not in task.sent_names(model, config), name)
        sent = task.shared(model, task.get_weights(start, config), [], config)
        self.assertEqual([array.shape for array in sent], [(3, 128), (3,)])
        task.set_weights(start, sent, config)
        for name, values in model.parameters().items():
            self.assertTrue(np.array_equal(values, start.parameters()[name]), name)
        self.assertEqual(start.evaluate((x, y)), model.evaluate((x, y)))
        with self.assertRaisesRegex(ValueError, "no tensor has such a name"):
            task.sent_names(model, config | {"train-only": "conv9.*"})

    def test_refused(self):
        self.assertIn("--out", self.write(status=2))
        self.assertIn("only the simulation", self.write("--out", "b", "--drop", "0.5", status=1))
        self.assertIn("do not work together", self.write("--out", "b", "--secure", "--dp-clip", "1", status=1))
        self.assertIn("none.whl", self.write("--out", "b", "--wheel", "none.whl", status=1))
        (self.folder / "c").mkdir()
        (self.folder / "c/pyproject.toml").write_text("mine")
        self.assertIn("there already", self.write("--out", "c", status=2))
        self.assertEqual((self.folder / "c/pyproject.toml").read_text(), "mine")


if __name__ == "__main__":
    fresh.enter(unittest.main)
