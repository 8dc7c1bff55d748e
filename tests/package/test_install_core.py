"""Builds the core alone (QUERN_CORE_ONLY), installs it and moves it: its headers compile on their own as
C and C++, and package/own_core.c builds against it with find_package and with pkg-config, and
learns. The programs need no library but the C library's own."""
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SOURCE = pathlib.Path(os.environ["QUERN_SOURCE"])
EXAMPLE = SOURCE / "tests/package/own_core.c"
HEADERS = {f"{name}.h" for name in "base graph ops model tuning engine data trainer".split()}
# Declared in the core's headers and made by floors above it: data sets, images, loaders, the zoo.
ABOVE = re.compile(r"qn_(data|image|loader)_\w+|qn_model_(at|find|measure)")
SYSTEM = {"linux-vdso", "libc", "libm", "libpthread", "ld-linux-x86-64", "ld-linux-aarch64"}
CMAKE_LISTS = """cmake_minimum_required(VERSION 3.22)
project(own_core LANGUAGES C)
find_package(quern REQUIRED COMPONENTS static)
add_executable(own_core {example})
target_link_libraries(own_core PRIVATE quern::quern_static)
"""


def run(*command, **more):
    """What a command prints; ends the test where it fails."""
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, **more)
    if result.returncode:
        print("$", *command)
        print(result.stdout)
        sys.exit(f"{command[0]} ended with {result.returncode}")
    return result.stdout


def install(folder):
    """Builds, installs, and moves what is installed: nothing in it may know its old place."""
    build, first, prefix = folder / "build", folder / "first", folder / "moved/here"
    launcher = ["-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    run("cmake", "-S", SOURCE, "-B", build, "-DQUERN_CORE_ONLY=ON", "-DBUILD_TESTING=OFF",
        "-DQUERN_WITH_INTEGER=OFF", "-DQUERN_WITH_AVX512=OFF",  # a third of the time to compile
        "-DCMAKE_BUILD_TYPE=Release", *launcher)
    run("cmake", "--build", build, "--parallel", os.cpu_count())
    run("cmake", "--install", build, "--prefix", first)
    prefix.parent.mkdir()
    first.rename(prefix)
    for file in prefix.rglob("*"):
        if file.suffix in (".pc", ".cmake") and str(folder) in file.read_text():
            sys.exit(f"{file} holds the path it was installed to")
    return prefix


def check_headers(prefix):
    """Those of the core and no other; each compiles alone."""
    headers = {path.name for path in (prefix / "include/quern").glob("*.h")}
    if headers != HEADERS:
        sys.exit(f"headers installed: {sorted(headers)}, not {sorted(HEADERS)}")
    for compiler, language in (("cc", "c"), ("c++", "c++")):
        if not shutil.which(compiler):
            print(f"no {compiler}: headers not tried as {language}")
            continue
        for name in sorted(headers):
            run(compiler, "-x", language, "-Wall", "-Wextra", "-Werror", "-fsyntax-only",
                "-I", prefix / "include", "-", input=f"#include <quern/{name}>\n")


def check_library(prefix):
    """What the headers declare is in the library, but for what is made above the core."""
    library = next(prefix.rglob("libquern.a"))
    listing = run("nm", "--defined-only", library).splitlines()
    defined = {line.split()[-1] for line in listing if " T " in line}
    declared = set()
    for header in (prefix / "include/quern").glob("*.h"):
        text = re.sub(r"/\*.*?\*/|^#define.*?$", "", header.read_text(), flags=re.S | re.M)
        declared |= {re.search(r"(qn_\w+)\s*\(", part).group(1)
                     for part in re.findall(r"\bQN_API\b(.*?);", text, re.S)}
    missing = {name for name in declared - defined if not ABOVE.fullmatch(name)}
    if missing or not declared & defined:
        sys.exit(f"declared and not in {library.name}: {sorted(missing)}")
    print(f"{len(declared & defined)} functions of the headers are in the library")


def try_program(program):
    """It learns, with the system's libraries alone."""
    print(f"{program.parent.name}: {run(program)}", end="")
    others = {name for name in re.findall(r"^\s*(?:\S*/)?([\w-]+)\.so", run("ldd", program), re.M)
              if name not in SYSTEM}
    if others:
        sys.exit(f"{program} needs {sorted(others)}")


def with_cmake(folder, prefix):
    where = folder / "with-cmake"
    where.mkdir()
    (where / "CMakeLists.txt").write_text(CMAKE_LISTS.format(example=EXAMPLE))
    run("cmake", "-S", where, "-B", where / "build", f"-DCMAKE_PREFIX_PATH={prefix}",
        "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror")
    run("cmake", "--build", where / "build")
    try_program(where / "build/own_core")


def with_pkg_config(folder, prefix):
    where = folder / "with-pkg-config"
    where.mkdir()
    package = next(prefix.rglob("quern.pc")).parent
    flags = run("pkg-config", "--static", "--cflags", "--libs", "quern",
                env=dict(os.environ, PKG_CONFIG_PATH=str(package))).split()
    run("cc", EXAMPLE, "-Wall", "-Wextra", "-Werror", "-o", where / "own_core", *flags)
    try_program(where / "own_core")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prefix = install(folder)
        check_headers(prefix)
        check_library(prefix)
        with_cmake(folder, prefix)
        with_pkg_config(folder, prefix)
    print("install of the core: ok")


if __name__ == "__main__":
    main()
