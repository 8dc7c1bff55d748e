"""Networks that PyTorch has exported, imported and exported again: training what comes of the second file
loses what training the first does."""
import os
import subprocess
import sys
import tempfile

import numpy as np
import torch

import test_torch_export as first

NAMES = ["lenet", "vgg", "convnext", "resnext", "mobilenet-v3", "decoder", "vit", "unet"]


def compare(case, folder):
    name, make, batch, _, options = case
    torch.manual_seed(7)
    network, x, labels = make().train(), batch(6), torch.randint(0, 5, (6,))
    path, again = (os.path.join(folder, end) for end in ("first.onnx", "again.onnx"))
    first.export(network, x, path, options)
    subprocess.run([os.environ["QUERN"], "export", path, "--out", again], check=True)
    wanted, found = (first.losses_of_quern(p, "f32", x, labels, folder) for p in (path, again))
    error = np.abs(found / wanted - 1).max()
    print(f"{name}: {error:.1e}, losses {wanted[0]:.4f} to {wanted[-1]:.4f}")
    return error <= 1e-6


def main():
    wrong = []
    for case in first.CASES:
        if case[0] not in NAMES:
            continue
        with tempfile.TemporaryDirectory() as folder:
            if not compare(case, folder):
                wrong.append(case[0])
    return f"differ: {wrong}" if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
