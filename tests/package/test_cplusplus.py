"""The C++ header as C++17 and C++20, without a warning that a compiler has: its owners, failures, callbacks, and the
macros of the C headers."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from test_package import make_checkpoint, run

SOURCE = pathlib.Path(os.environ["QUERN_SOURCE"])
BUILD = pathlib.Path(os.environ["QUERN_BUILD"])
STRICT = ("-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Wold-style-cast", "-Werror")


def main():
    compilers = [one for one in ("g++", "clang++") if shutil.which(one)]
    if not compilers:
        sys.exit("no C++ compiler: script/bootstrap installs one")
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make_checkpoint(folder)
        for compiler in compilers:
            for standard in ("17", "20"):
                program = folder / f"{compiler}{standard}"
                run(compiler, f"-std=c++{standard}", *STRICT, f"-I{SOURCE / 'include'}",
                    SOURCE / "tests/package/cplusplus.cpp", f"-L{BUILD}", "-lquern", f"-Wl,-rpath,{BUILD}", "-o", program)
                place = folder / f"{compiler}{standard}.files"
                place.mkdir()
                print(f"== {compiler}, C++{standard}: {run(program, place, folder / 'squares.safetensors')}", end="")


if __name__ == "__main__":
    main()
