"""Wheels for other systems, of script/wheel: for this architecture installed and used, for AArch64 linked by a program
that trains under an emulator. They need libc alone, and have every table of kernels inside."""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import zipfile

SOURCE = pathlib.Path(os.environ["QUERN_SOURCE"])
TABLES = {"x86_64": ("ref_f32", "ref_f64", "avx2", "avx512"), "aarch64": ("ref_f32", "ref_f64", "neon")}
PROGRAM = """
import numpy as np, quern
x = np.zeros((40, 28, 28), np.uint8); y = np.arange(40) % 4
x[np.arange(40), :, y * 7] = 200
m = quern.Model("lenet5", classes=4)
m.fit((x, y), epochs=30, batch=8, seed=1)
assert m.evaluate((x, y))["accuracy"] > 0.9
m.export("m.onnx")
assert (quern.Model("m.onnx").predict(x).shape) == (40, 4)
print(quern.__file__)
"""


def run(*words, **more):
    """Output of a command."""
    result = subprocess.run([str(word) for word in words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            check=False, **more)
    if result.returncode:
        sys.exit(f"{words}: {result.stdout[-4000:]}")
    return result.stdout


def build(folder, machine, *options):
    """Builds a wheel, and looks at its library. Its path, and the library's."""
    wheel = SOURCE / run(SOURCE / "script/wheel", *options, cwd=SOURCE).splitlines()[-1]
    assert re.fullmatch(rf"quern-[\d.]+-py3-none-manylinux_2_\d+_{machine}\.whl", wheel.name), wheel
    with zipfile.ZipFile(wheel) as archive:
        assert archive.testzip() is None
        archive.extract("quern/libquern.so", folder / machine)
    library = folder / machine / "quern/libquern.so"
    exported = [line.split()[-1] for line in run("readelf", "-W", "--dyn-syms", library).splitlines()
                if re.search(r" (GLOBAL|WEAK) +DEFAULT +\d+ ", line)]
    assert exported and all(name.startswith("qn_") for name in exported), [n for n in exported if n[:3] != "qn_"][:9]
    return wheel, library


def check_tables(folder, machine):
    """The library before it was stripped has the tables of kernels."""
    names = run("readelf", "-W", "-s", SOURCE / folder / "python/lib/libquern.so")
    for table in TABLES[machine]:
        assert re.search(rf"qn_\w*{table}", names), f"no table {table} for {machine}"


with tempfile.TemporaryDirectory() as place:
    place = pathlib.Path(place)
    machine = os.uname().machine
    wheel, _ = build(place, machine)
    check_tables("build/bundled", machine)
    run("/usr/bin/python3", "-m", "venv", "--system-site-packages", place / "venv")
    run(place / "venv/bin/python", "-m", "pip", "install", "--no-index", "--no-deps", wheel)
    told = run(place / "venv/bin/python", "-c", PROGRAM, cwd=place)
    assert str(place) in told.splitlines()[-1], told
    wheel, library = build(place, "aarch64", "--arm64")
    check_tables("build/arm64", "aarch64")
    run("aarch64-linux-gnu-gcc", "-O1", "-I", SOURCE / "include", SOURCE / "examples/own_data.c", library, "-lm", "-o",
        place / "own_data")
    # The loader and libc are those of Debian's arm64 packages: the cross compiler's loader does not fit their libc.
    told = run("qemu-aarch64", "-cpu", "cortex-a53", "-E", f"LD_LIBRARY_PATH={library.parent}", place / "own_data")
    print(told)
print("wheels:", sorted(path.name for path in (SOURCE / "build/wheels").glob("*.whl")))
