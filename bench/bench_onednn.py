#!/usr/bin/env python3
"""int8 convolutions forward beside those of oneDNN, by PyTorch's quantised operators: usage bench_onednn.py [ROUNDS].

For /usr/bin/python3 with python3-torch. One thread, 16 images, the shapes of bench_integer; quern's table is the fastest of
the machine. Each round runs one and then the other; figures are the fastest of the rounds, in G operations a second. oneDNN
makes uint8 of uint8 by int8 with scales of the tensor, quern int8 of int8 by a shift, with the largest sum."""
import os
import re
import subprocess
import sys
import time

import torch

BENCH = os.environ.get("BENCH", "build/release/bench/bench_integer")
SHAPES = ("64 to 64, 3x3 at 32", "128 to 128, 3x3 at 16", "256 to 256, 3x3 at 8", "512 to 512, 3x3 at 4", "64 to 128, 3x3 at 32 stride 2",
          "256 to 64, 1x1 at 16", "64 to 256, 1x1 at 16", "32 to 64, 5x5 at 28", "64 to 64, 3x3 at 56", "128 to 128, 3x3 at 16 depthwise")


def ours(name):
    run = subprocess.run([BENCH, "1", "", name + " forward", "shifted"], capture_output=True, text=True, check=True)
    return max(float(re.search(r"([0-9.]+) G/s", line)[1]) for line in run.stdout.splitlines())


def layer(name):
    """A call of the convolution, and its operations."""
    c, k, size, at = (int(x) for x in re.match(r"(\d+) to (\d+), (\d+)x\d+ at (\d+)", name).groups())
    stride, groups = (2 if "stride 2" in name else 1), (c if "depthwise" in name else 1)
    conv = torch.nn.Conv2d(c, k, size, stride, size // 2, groups=groups, bias=False)
    weight = torch.quantize_per_tensor(conv.weight.detach(), 0.01, 0, torch.qint8)
    packed = torch.ops.quantized.conv2d_prepack(weight, None, [stride] * 2, [size // 2] * 2, [1, 1], groups)
    x = torch.rand(16, c, at, at).contiguous(memory_format=torch.channels_last)
    x = torch.quantize_per_tensor(x, 1 / 127, 0, torch.quint8)
    outputs = 16 * k * ((at + 2 * (size // 2) - size) // stride + 1) ** 2
    return lambda: torch.ops.quantized.conv2d(x, packed, 0.5, 0), 2 * outputs * size * size * c // groups


def theirs(name):
    call, operations = layer(name)
    best = float("inf")
    for _ in range(12):
        begin = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - begin)
    return operations / best * 1e-9


def main():
    torch.set_num_threads(1)
    torch.backends.quantized.engine = "onednn"
    print(f"{'layer':36}{'oneDNN':>9}{'quern':>9}{'ratio':>7}")
    for name in SHAPES:
        rounds = [(theirs(name), ours(name)) for _ in range(int(sys.argv[1]) if len(sys.argv) > 1 else 3)]
        other, own = (max(r[i] for r in rounds) for i in range(2))
        print(f"{name:36}{other:9.1f}{own:9.1f}{own / other:7.2f}", flush=True)


if __name__ == "__main__":
    main()
