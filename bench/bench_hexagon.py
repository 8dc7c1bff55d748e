#!/usr/bin/env python3
"""Products of int8 on an emulated Hexagon DSP, in instruction packets: HVX against scalar code.

Builds bench/hexagon/product.c twice, runs both under qemu-hexagon, requires equal bytes, and counts
packets with the plug-in bench/hexagon/count.c, without those of making the operands. The bound is
two multiplications of vectors (128 products each) a packet. Needs clang-14, lld, qemu-user and a C
compiler. Counts are no times: a packet may take several cycles.
"""

import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent / "hexagon"
TARGET = ["clang-14", "--target=hexagon-unknown-linux-musl", "-mcpu=hexagonv66", "-O2",
          "-ffreestanding", "-fno-builtin", "-nostdlib", "-static", "-fuse-ld=lld"]
HVX = ["-mhvx", "-mhvx-length=128b"]
# rows, columns, products: small, and linear layers and convolutions as products of lenet5 and
# vgg-small, at the batch or the part of an image that a DSP's memory allows
SHAPES = [(64, 64, 256), (64, 128, 400), (64, 128, 576), (256, 128, 1152), (256, 256, 2304)]


def build(folder, name, flags):
    program = folder / name
    subprocess.run([*TARGET, *flags, "-o", program, HERE / "product.c"], check=True)
    return program


def run(program, plugin):
    done = subprocess.run(["qemu-hexagon", "-plugin", plugin, program], check=True,
                          capture_output=True)
    return done.stdout, int(re.search(rb"packets (\d+)", done.stderr)[1])


def measure(folder, plugin, shape, flags):
    sizes = [f"-D{name}={value}" for name, value in zip("MNK", shape)]
    _, without = run(build(folder, "without", [*sizes, *flags, "-DROUNDS=0"]), plugin)
    output, packets = run(build(folder, "with", [*sizes, *flags, "-DROUNDS=1"]), plugin)
    return output, packets - without


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        plugin = folder / "count.so"
        subprocess.run(["cc", "-O2", "-shared", "-fPIC", "-o", plugin, HERE / "count.c"],
                       check=True)
        print("| product | scalar | HVX | scalar / HVX | HVX / bound |\n|---|---|---|---|---|")
        for shape in SHAPES:
            expected, scalar = measure(folder, plugin, shape, [])
            made, vector = measure(folder, plugin, shape, HVX)
            if made != expected:
                sys.exit(f"bench_hexagon: other numbers by HVX for {shape}")
            bound = shape[0] * shape[1] * shape[2] / 256
            print(f"| {' x '.join(map(str, shape))} | {scalar:,} | {vector:,} | "
                  f"{scalar / vector:.0f} | {vector / bound:.2f} |", flush=True)


if __name__ == "__main__":
    main()
