"""Installs into a prefix, moves the prefix, and builds and runs the examples against it: with
find_package (shared and static) and with pkg-config (shared and static)."""
import os
import pathlib
import struct
import subprocess
import sys
import tempfile
import zlib

SOURCE = pathlib.Path(os.environ["QUERN_SOURCE"])
BUILD = pathlib.Path(os.environ["QUERN_BUILD"])
EXAMPLES = ("own_model", "own_data", "own_meter", "classify", "learn")


COMMAND = BUILD / "quern"
SQUEEZENET_NUMBERS = 723_522  # of two classes


def run(*command, **more):
    """Runs a command; its output only if it fails."""
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, **more)
    if result.returncode:
        print("$", *command)
        print(result.stdout)
        sys.exit(f"{command[0]} ended with {result.returncode}")
    return result.stdout


def install(folder):
    """Installs, then moves it all: nothing in it may know its old place."""
    run("cmake", "--install", BUILD, "--prefix", folder / "first")
    prefix = folder / "moved" / "here"
    prefix.parent.mkdir()
    (folder / "first").rename(prefix)
    return prefix


def write_png(path, side, value):
    """A grey square."""
    rows = (b"\0" + bytes([value]) * side) * side
    parts = ((b"IHDR", struct.pack(">IIBBBBB", side, side, 8, 0, 0, 0, 0)),
             (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        for kind, data in parts))


def make_checkpoint(folder):
    """A squeezenet that has seen a few squares."""
    for name, value in (("dark", 30), ("light", 220)):
        (folder / "photos" / name).mkdir(parents=True)
        for i in range(10):
            write_png(folder / "photos" / name / f"{i}.png", 30 + i, value + i)
    run(COMMAND, "train", "squeezenet", "--data", f"images:{folder}/photos", "--steps", 1, "--batch", 4,
        "--save", folder / "squares.safetensors", cwd=folder)

def words_of(example, folder):
    """What an example is started with; folder: where it was built."""
    root = next(f for f in (folder, *folder.parents) if (f / "squares.safetensors").exists())
    return {"classify": (root / "squares.safetensors", root / "photos/dark/1.png"),
            "learn": (root / "learned", root / "squares.safetensors")}.get(example, ())


def check_memory(program, words):
    """Classifying an image may take 1.3 times the weights, and 4.8 MB: the least of nine processes, as
    the system reads up to 0.2 MB of the program more by where a process happens to lie."""
    tool = pathlib.Path(os.environ["QUERN_TOOLS"]) / "peak_memory"
    peaks = [int(subprocess.run([tool, program, *words], check=True, capture_output=True, text=True).stderr)
             for _ in range(9)]
    weights = 4 * SQUEEZENET_NUMBERS
    peak, most = min(peaks), int(1.3 * weights + 4.8e6)
    print(f"   {peak} bytes resident at most, {weights} of weights, {most} allowed")
    if peak > most:
        sys.exit(f"{program.name} took {peak} bytes, more than {most}")


def try_examples(folder, environment, suffix=""):
    for example in EXAMPLES:
        print(f"== {example}{suffix}")
        print(run(folder / (example + suffix), *words_of(example, folder), cwd=folder,
                  env=environment, stdin=subprocess.DEVNULL), end="")


def with_cmake(folder, prefix):
    where = folder / "with-cmake"
    run("cmake", "-S", SOURCE / "examples", "-B", where, f"-DCMAKE_PREFIX_PATH={prefix}",
        "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_C_FLAGS=-Wall -Wextra -Werror")
    run("cmake", "--build", where)
    try_examples(where, None)
    print("== train, of C++\n" + run(where / "train", cwd=where), end="")
    try_examples(where, None, "_static")
    check_memory(where / "classify_static", words_of("classify", where))


def with_pkg_config(folder, prefix):
    library = next(prefix.rglob("libquern.so")).parent
    environment = dict(os.environ, LD_LIBRARY_PATH=str(library),
                       PKG_CONFIG_PATH=str(library / "pkgconfig"))
    flags = run("pkg-config", "--cflags", "--libs", "quern", env=environment).split()
    fixed = run("pkg-config", "--cflags", "--libs", "--static", "quern", env=environment).split()
    fixed = [str(library / "libquern.a") if flag == "-lquern" else flag for flag in fixed]
    for example in EXAMPLES:
        source = SOURCE / "examples" / f"{example}.c"
        run("cc", source, "-o", folder / example, *flags, "-lm", env=environment)
        run("cc", source, "-o", folder / f"{example}_fixed", *fixed, "-lm", env=environment)
    try_examples(folder, environment)
    try_examples(folder, None, "_fixed")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        prefix = install(folder)
        make_checkpoint(folder)
        for file in sorted(prefix.rglob("*")):
            if file.suffix in (".pc", ".cmake") and str(folder) in file.read_text():
                sys.exit(f"{file} holds the path it was installed to")
        with_cmake(folder, prefix)
        with_pkg_config(folder, prefix)
        command = prefix / "bin" / "quern"
        print(run(command, "version"), end="")
        page = prefix / "share" / "man" / "man1" / "quern.1"
        if not page.is_file():
            sys.exit("the manual page is not installed")
    print("package: ok")


if __name__ == "__main__":
    main()
