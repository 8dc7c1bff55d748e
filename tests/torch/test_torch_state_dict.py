#!/usr/bin/python3
"""What torch.save writes is read by quern convert: both containers, dictionaries inside of others,
every element type and stride to the same weights; what would need the file's code is not run, and
damage is found."""
import argparse
import json
import os
import subprocess
import tempfile
import unittest

import numpy as np
import torch

QUERN = os.environ["QUERN"]
OLD = {"_use_new_zipfile_serialization": False}


class Attack:
    """Makes a file wherever it is unpickled."""

    def __reduce__(self):
        return os.system, ("touch it-was-run",)


def make_weights():
    """Those of quern's mlp."""
    generator = torch.Generator().manual_seed(3)
    sizes = {"fc1": (256, 784), "fc2": (128, 256), "fc3": (10, 128)}
    weights = {}
    for name, (n_out, n_in) in sizes.items():
        weights[name + ".weight"] = torch.randn(n_out, n_in, generator=generator)
        weights[name + ".bias"] = torch.randn(n_out, generator=generator)
    return weights


class StateDicts(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.weights = make_weights()

    def path(self, name):
        return os.path.join(self.folder.name, name)

    def convert(self, content, *options, status=0, **how):
        """What is printed, for a content that is saved, or for bytes."""
        if isinstance(content, bytes):
            with open(self.path("w.pt"), "wb") as file:
                file.write(content)
        else:
            torch.save(content, self.path("w.pt"), **how)
        run = subprocess.run([QUERN, "convert", "w.pt", "--model", "mlp", *options],
                             capture_output=True, text=True, cwd=self.folder.name)
        self.assertEqual(run.returncode, status, run.stdout + run.stderr)
        return run.stdout + run.stderr

    def check(self, content, *options, expected=None, **how):
        """The weights come through, bit for bit."""
        self.convert(content, "--out", "out.safetensors", "--force", *options, **how)
        with open(self.path("out.safetensors"), "rb") as file:
            header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
            data = file.read()
        for name, tensor in (expected or self.weights).items():
            found = np.frombuffer(data[slice(*header[name]["data_offsets"])], np.float32)
            np.testing.assert_array_equal(found, tensor.float().numpy().ravel(), name)

    def refused(self, content, sentence, *options, status=1, **how):
        self.assertIn(sentence, self.convert(content, *options, status=status, **how))

    def test_containers(self):
        self.check(self.weights)
        self.check(self.weights, **OLD)

    def test_dictionaries_within(self):
        optimizer = {"state": {0: {"exp_avg": self.weights["fc1.weight"]}}, "param_groups": [{}]}
        for how in ({}, OLD):
            self.check({"model": self.weights, "epoch": 3, "optimizer": optimizer}, **how)
        two = {"state_dict": self.weights, "state_dict_ema": {k: 2 * v for k, v in self.weights.items()}}
        self.refused(two, "state_dict, state_dict_ema; say which: --key KEY", status=2)
        self.check(two, "--key", "state_dict_ema", expected=two["state_dict_ema"])
        self.refused(two, "no tensors under ema", "--key", "ema", status=2)
        self.assertIn('"key":"state_dict"', self.convert(two, "--key", "state_dict", "--json"))

    def test_strides(self):
        turned = {k: v.t().contiguous().t() if v.dim() == 2 else v for k, v in self.weights.items()}
        self.assertFalse(turned["fc1.weight"].is_contiguous())
        shared = torch.cat([v.ravel() for v in self.weights.values()])
        views, at = {}, 0
        for name, tensor in self.weights.items():
            views[name] = shared[at:at + tensor.numel()].view(tensor.shape)
            at += tensor.numel()
        every_second = {k: torch.stack([v, v], -1)[..., 0] for k, v in self.weights.items()}
        for how in ({}, OLD):
            for content in (turned, views, every_second):
                self.check(content, **how)

    def test_types(self):
        for how in ({}, OLD):
            self.check({k: torch.nn.Parameter(v) for k, v in self.weights.items()}, **how)
            self.check({k: v.double() for k, v in self.weights.items()}, **how)
            for dtype in (torch.float16, torch.bfloat16):
                narrow = {k: v.to(dtype) for k, v in self.weights.items()}
                self.check(narrow, expected=narrow, **how)
        whole = dict(self.weights, **{"fc1.bias": torch.zeros(256, dtype=torch.int64)})
        self.refused(whole, "fc1.bias of the file is of type int64")

    def test_no_code_is_run(self):
        self.refused({"model": Attack()}, "no tensors by name in it, but a posix.system")
        self.refused(Attack(), "it holds a whole posix.system")
        for how in ({}, OLD):
            said = self.convert({"model": self.weights, "x": Attack()}, **how)
            self.assertIn("not read: objects such as posix.system", said)
            self.check({"model": self.weights, "args": argparse.Namespace(rate=1)}, **how)
        self.assertFalse(os.path.exists(self.path("it-was-run")))

    def test_refused(self):
        self.refused(torch.nn.Linear(3, 2), "it holds a whole torch.nn.modules.linear.Linear")
        torch.jit.save(torch.jit.script(torch.nn.Linear(3, 2)), self.path("script"))
        with open(self.path("script"), "rb") as file:
            self.refused(file.read(), "a TorchScript program")
        self.refused({"epoch": 3}, "no tensors by name in it")
        self.refused({"a": torch.zeros(1, 1, 1, 1, 1, 1, 1, 1, 1, 1)}, "has 10 dimensions")

    def test_damage(self):
        for how in ({}, OLD):
            torch.save(self.weights, self.path("whole.pt"), **how)
            with open(self.path("whole.pt"), "rb") as file:
                whole = file.read()
            for n in (20, 500, len(whole) // 2, len(whole) - 300):
                self.convert(whole[:n], status=1)
        torch.save(self.weights, self.path("whole.pt"))
        with open(self.path("whole.pt"), "rb") as file:
            whole = bytearray(file.read())
        whole[len(whole) // 2] ^= 1
        self.refused(bytes(whole), "wrong checksum: the file is damaged")


if __name__ == "__main__":
    unittest.main()
