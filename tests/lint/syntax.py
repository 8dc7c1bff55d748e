"""Compiles Python files in memory: syntax alone, nothing written. Arguments: the files."""
import pathlib
import sys

for name in sys.argv[1:]:
    compile(pathlib.Path(name).read_text(), name, "exec")
