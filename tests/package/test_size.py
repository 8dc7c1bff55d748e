"""The core, float kernels of one family of processors and the file formats keep within their limit, every
folder of the library is told by script/size, as large as its objects."""
import json
import os
import pathlib
import subprocess
import sys

source, build = pathlib.Path(os.environ["QUERN_SOURCE"]), pathlib.Path(os.environ["QUERN_BUILD"])
if "CMAKE_BUILD_TYPE:STRING=Release" not in (build / "CMakeCache.txt").read_text():
    print("no release build: its size is not looked at")
    sys.exit()

told = json.loads(subprocess.run([source / "script/size", build, "--json"], check=True,
                                 stdout=subprocess.PIPE).stdout)
parts = told["parts"]
print(told)
floors = {folder.name for folder in (source / "src").iterdir() if any(folder.rglob("*.c"))} - {"cli"}
left_out = floors - {part.split("/")[0] for part in parts}
assert left_out <= {"federate", "label", "learn", "study"}, f"not told: {left_out}"
assert abs(parts["shared texts"]) < 0.02 * sum(parts.values()), "sections of the map are read twice"
# Headers, names and relocations; more would be code that no part was given.
assert 0 < parts["linker"] < 0.1 * sum(parts.values()), "too much is the linker's"
assert told["counted"] <= told["limit"] == 1_480_000, "the core grew beyond its limit"

# Against the objects themselves: a part is what they hold, less what nothing uses and texts that are there twice.
for floor in ("ops", "plan", "kernels"):
    objects = [path for path in build.glob(f"CMakeFiles/quern_*.dir/src/{floor}/**/*.o")
               if (source / str(path).split(".dir/")[1][:-2]).exists()]  # not of a file that was renamed
    rows = subprocess.run(["size", *objects], check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()[1:]
    held = sum(int(row.split()[0]) + int(row.split()[1]) for row in rows)
    linked = sum(size for part, size in parts.items() if part.split("/")[0] == floor)
    print(f"{floor}: {linked} bytes of {held}")
    assert 0.7 * held < linked <= held, f"{floor}: not what its objects hold"
