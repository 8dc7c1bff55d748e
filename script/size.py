#!/usr/bin/python3
"""Bytes of the shared library by part, as it is linked.

    script/size [BUILD] [--json]     BUILD: build/release

Read from the linker's map (BUILD/libquern.map): each section of an object that is in the library, under the
folder of src/ that it was compiled from. What is of no folder (headers, names of symbols, relocations, padding,
the compiler's library) is "linker". A text that several objects hold counts in each and is in the library once:
"shared texts" takes the difference off, so that all rows together are the file's size once it is stripped. A
folder that only the command uses (study) is not in the library.

The limit (LIMIT) is of what COUNTED names: the core, its float kernels (the reference and the sets
of one family of processors) and file formats; and, since no part can be without them, the linker's bytes of
the whole library. Every other part is told beside it. A part with an option can be left out
(cmake -DQUERN_WITH_...=OFF).
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

LIMIT = 1_480_000
CORE = ["base", "os", "tensor", "graph", "ops", "device", "driver", "passes", "plan", "run"]
KERNELS = ["kernels", "kernels/ref", "kernels/avx2", "kernels/avx512", "kernels/neon"]
COUNTED = [*CORE, *KERNELS, "format", "linker"]
OPTIONS = {part: "QUERN_WITH_" + part.split("/")[-1].upper()
           for part in ("kernels/avx2", "kernels/avx512", "kernels/neon", "kernels/integer", "driver/opencl", "driver/cuda", "driver/hexagon", "label",
                        "learn", "federate")}
# A section of the library starts its line; those of objects follow one space. Figures are on the next line if
# the name is long.
OUTPUT = re.compile(r"\S+\s+0x[0-9a-f]+\s+0x([0-9a-f]+)")
INPUT = re.compile(r"^ (\S+)\s+0x[0-9a-f]+\s+0x([0-9a-f]+) (\S+\.o)\)?$", re.M)
NOT_IN_FILE = re.compile(r"[.](bss|tbss|debug|comment|symtab|strtab|note\.GNU-stack)")


def part_of(path):
    """A folder of src/, a set of kernels, or a device; ONNX's files and generated messages are onnx's."""
    if ".dir/" not in path:
        return "linker"  # the compiler's own beginnings and ends
    if ".dir/src/" not in path:
        return "onnx"
    words = path.split(".dir/src/")[1].split("/")
    if words[:2] == ["format", "onnx"]:
        return "onnx"
    has_rooms = words[0] in ("kernels", "driver") or (words[0] == "device" and words[1] != "cpu")
    return "/".join(words[:2]) if has_rooms and len(words) > 2 else words[0]


def stripped_size(library):
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "library"
        subprocess.run(["strip", "-o", copy, library], check=True)
        return copy.stat().st_size


def measure(build):
    """Bytes by part, most first."""
    placed = (build / "libquern.map").read_text().split("Linker script and memory map")[1]
    sums = {"linker": 0, "shared texts": 0}
    for section in re.split(r"\n(?=[.\w/])", placed):
        head = OUTPUT.match(section)
        if not head or NOT_IN_FILE.match(section):
            continue
        rows = [(part_of(path), int(size, 16)) for _, size, path in INPUT.findall(section)]
        for part, size in rows:
            sums[part] = sums.get(part, 0) + size
        sums["shared texts"] -= max(0, sum(size for _, size in rows) - int(head[1], 16))
    sums["linker"] += stripped_size(build / "libquern.so") - sum(sums.values())
    return dict(sorted(sums.items(), key=lambda item: -item[1]))


def main():
    words = [word for word in sys.argv[1:] if word != "--json"]
    build = pathlib.Path(words[0] if words else "build/release").resolve()
    if not (build / "libquern.map").exists():
        sys.exit(f"script/size: {build}/libquern.map is not there; build the target quern_shared first")
    sums = measure(build)
    counted = sum(size for part, size in sums.items() if part in COUNTED)
    if "--json" in sys.argv:
        print(json.dumps({"parts": sums, "counted": counted, "limit": LIMIT}))
        return
    for title, is_counted in (("counted", True), ("beside it", False)):
        print(f"{title}:")
        for part, size in sums.items():
            if (part in COUNTED) == is_counted:
                print(f"  {part:<16}{size:>10,}  {OPTIONS.get(part, '')}".rstrip())
    print(f"counted in all    {counted:>10,} of {LIMIT:,}; the library {sum(sums.values()):,}")


if __name__ == "__main__":
    main()
