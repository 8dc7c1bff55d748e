"""Every structure and function that the Python package declares is what the headers declare: sizes, offsets of
all fields in their order, and the number of arguments."""
import ctypes
import inspect
import os
import pathlib
import re
import subprocess
import sys
import tempfile

SOURCE, BUILD = pathlib.Path(os.environ["QUERN_SOURCE"]), pathlib.Path(os.environ["QUERN_BUILD"])
sys.dont_write_bytecode = True
sys.path.insert(0, str(BUILD / "python"))
from quern import _library  # noqa: E402

structures = [one for _, one in inspect.getmembers(_library, inspect.isclass)
              if issubclass(one, ctypes.Structure) and hasattr(one, "_c_name_")]
assert len(structures) > 25, len(structures)
lines = ['#include <stddef.h>', '#include <stdio.h>', '#include "quern/quern.h"', "int main(void) {"]
for one in structures:
    lines.append(f'    printf("{one._c_name_} size %zu\\n", sizeof({one._c_name_}));')
    lines += [f'    printf("{one._c_name_} {field[0]} %zu %zu\\n", offsetof({one._c_name_}, {field[0]}), '
              f"sizeof((({one._c_name_} *)0)->{field[0]}));" for field in one._fields_]
lines += ["    return 0;", "}"]
with tempfile.TemporaryDirectory() as folder:
    program = pathlib.Path(folder) / "layout"
    program.with_suffix(".c").write_text("\n".join(lines))
    subprocess.run(["cc", "-I", SOURCE / "include", program.with_suffix(".c"), "-o", program], check=True)
    told = subprocess.run([program], check=True, text=True, stdout=subprocess.PIPE).stdout.splitlines()
wanted = []
for one in structures:
    wanted.append(f"{one._c_name_} size {ctypes.sizeof(one)}")
    wanted += [f"{one._c_name_} {name} {getattr(one, name).offset} {getattr(one, name).size}"
               for name, *_ in one._fields_]
heads = {one._c_name_ for one in structures if getattr(one, "_c_is_head_", False)}
differ = [f"C: {c}; Python: {py}" for c, py in zip(told, wanted)
          if c != py and not (c.split()[0] in heads and " size " in c)]
print(*differ, sep="\n")

headers = "\n".join(path.read_text() for path in (SOURCE / "include/quern").glob("*.h"))
headers = re.sub(r"/\*.*?\*/", " ", headers, flags=re.S)
for name, (_, *arguments) in _library._FUNCTIONS.items():
    found = re.search(rf"QN_API[^;(]*\b{name}\(((?:[^()]|\([^()]*\))*)\)", headers)
    assert found, f"{name} is not declared"
    inner = re.sub(r"\([^()]*\)", "", found.group(1)).strip()
    n = 0 if inner == "void" else len(inner.split(","))
    if n != len(arguments):
        differ.append(f"{name} has {n} arguments, not {len(arguments)}")
        print(differ[-1])
print(f"{len(wanted)} sizes and offsets of {len(structures)} structures, {len(_library._FUNCTIONS)} functions")
sys.exit(bool(differ) or len(told) != len(wanted))
