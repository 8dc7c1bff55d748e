"""The static command for AArch64, under emulation: at most 5.5 MB, it trains LeNet-5 from IDX files and from a folder
of PNG files, and ends with the bits of the command that is linked with Debian's libraries, whatever the number of
threads; and reads a recorded phone. Makes the Debian package, and looks at what it depends on."""
import gzip
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ["QUERN_BUILD"])
SOURCE = pathlib.Path(os.environ["QUERN_SOURCE"])
EMULATOR = os.environ.get("QUERN_EMULATOR", "qemu-aarch64")
SIDE, CLASSES, MOST_BYTES = 28, 2, 5_500_000
sys.path.insert(0, str(SOURCE / "tests" / "cli"))
os.environ["QUERN"] = str(BUILD / "quern")
import quern  # noqa: E402


def run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if result.returncode:
        sys.exit(f"{command}: {result.returncode}\n{result.stdout}{result.stderr}")
    return result.stdout


def make_rows(n):
    draw = random.Random(n)
    return [bytes(draw.randrange(60) + 150 * (i % CLASSES) for _ in range(SIDE * SIDE)) for i in range(n)]


def make_idx(folder):
    folder.mkdir()
    for name, n in (("train", 32), ("t10k", 8)):
        images = struct.pack(">IIII", 0x803, n, SIDE, SIDE) + b"".join(make_rows(n))
        labels = struct.pack(">II", 0x801, n) + bytes(i % CLASSES for i in range(n))
        (folder / f"{name}-images-idx3-ubyte.gz").write_bytes(gzip.compress(images))
        (folder / f"{name}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(labels))


def make_photos(folder):
    for i, row in enumerate(make_rows(32)):
        where = folder / ("dark", "light")[i % CLASSES]
        where.mkdir(parents=True, exist_ok=True)
        quern.write_png(where / f"{i}.png", SIDE, SIDE, row)


def check_bits(folder, data):
    """The same run by both programs, with one thread and two."""
    made = []
    for program, threads in (("quern-static", 1), ("quern-static", 2), ("quern", 1)):
        out = folder / "w.st"
        run(EMULATOR, BUILD / program, "train", "lenet5", "--data", data, "--steps", 3, "--batch", 8, "--threads",
            threads, "--save", out, cwd=folder)
        made.append(out.read_bytes())
        out.unlink()
    if len(set(made)) != 1:
        sys.exit(f"{data}: the weights differ between programs or numbers of threads")
    print(f"{data}: {len(made[0])} equal bytes")


def check_size(folder):
    run("aarch64-linux-gnu-strip", "-o", folder / "stripped", BUILD / "quern-static")
    n = (folder / "stripped").stat().st_size
    headers = run("aarch64-linux-gnu-readelf", "-lW", folder / "stripped")
    if n > MOST_BYTES or "INTERP" in headers:
        sys.exit(f"the static command has {n} bytes, or needs a loader:\n{headers}")
    print(f"static, {n} bytes")


def check_phone():
    """What a recorded phone says of itself reaches the rules."""
    said = run(EMULATOR, BUILD / "quern-static", "learn", "status", "--sysroot", SOURCE / "tests/devices/snapdragon-phone")
    for text in ("31.5 (at most 38 C)", "64.0 (at least 20 % battery)"):
        assert text in said, said


def check_package(folder):
    run("cpack", "--config", BUILD / "CPackConfig.cmake", "-B", folder, "-D", "CPACK_COMPONENTS_ALL=run")
    package, = folder.glob("quern_*_arm64.deb")
    control = run("dpkg-deb", "-f", package)
    listing = run("dpkg-deb", "-c", package)
    for text in ("Architecture: arm64", "libpng16-16", "libjpeg62-turbo", "libc6"):
        assert text in control, control
    for text in ("./usr/bin/quern", "man1/quern.1", "bash-completion/completions/quern"):
        assert text in listing, listing
    print(f"{package.name}: {package.stat().st_size} bytes")


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        os.environ["XDG_CACHE_HOME"] = name
        check_size(folder)
        check_phone()
        make_idx(folder / "digits")
        make_photos(folder / "photos")
        check_bits(folder, "idx:digits")
        check_bits(folder, "images:photos")
        check_package(folder)


main()
