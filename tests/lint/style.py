"""Checks of the house style that no compiler makes. Arguments: the files to look at.

- floors: a folder of src/ includes only from itself and from the folders above it in FLOORS;
- functions outside src/kernels are at most 60 lines long, nine of ten at most 30;
- only src/cli prints or exits.
"""
import pathlib
import re
import sys

FLOORS = ["base", "os", "tensor", "kernels", "graph", "ops", "passes", "device", "plan", "run",
          "format", "meter", "data", "env", "models", "onnx", "tasks", "label", "federate", "report", "study",
          "cli"]
LONGEST, USUAL = 60, 30
PRINTS = re.compile(r"(?<![\w.>])(printf|vprintf|puts|putchar|perror|exit|_exit|abort)\s*\("
                    r"|\bfprintf\s*\(\s*std(out|err)")
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)


def blank(match):
    """A comment or text without its content, lines kept."""
    return "\n" * match.group().count("\n")


def floor_of(path):
    return path.parts[1] if path.parts[0] == "src" and len(path.parts) > 2 else None


def check_floors(path, text):
    """Yields complaints about includes."""
    own = floor_of(path)
    for number, line in enumerate(text.split("\n"), 1):
        match = re.match(r'#include "(\w+)/', line)
        if not match or match.group(1) not in FLOORS or own not in FLOORS:
            continue
        if FLOORS.index(match.group(1)) > FLOORS.index(own):
            yield f"{path}:{number}: {own} includes from {match.group(1)}, which is below it"


def function_lengths(text):
    """Yields (line, length) of each function: clang-format puts its braces in column one."""
    start, opened = None, None
    for number, line in enumerate(text.split("\n"), 1):
        if opened is None:
            if start is None and re.match(r"[A-Za-z_]", line):
                start = number
            if start is not None and line.endswith("{"):
                opened = "(" in line or line.startswith(" ")
            elif line.endswith(";") or not line:
                start = None
        elif line.startswith("}"):
            if opened and line == "}":
                yield start, number - start + 1
            start, opened = None, None


def check_file(path, lengths):
    """Yields complaints about one file; adds its functions' lengths to the list."""
    text = path.read_text()
    yield from check_floors(path, text)
    bare = COMMENT_OR_TEXT.sub(blank, text)
    own = floor_of(path)
    if own and own != "cli":
        for number, line in enumerate(bare.split("\n"), 1):
            if PRINTS.search(line):
                yield f"{path}:{number}: prints or exits, which only the command line may"
    if own != "kernels":
        for number, length in function_lengths(bare):
            lengths.append(length)
            if length > LONGEST:
                yield f"{path}:{number}: a function of {length} lines; at most {LONGEST}"


def main():
    lengths, complaints = [], []
    for name in sys.argv[1:]:
        complaints.extend(check_file(pathlib.Path(name), lengths))
    usual = sum(length <= USUAL for length in lengths)
    if usual < 0.9 * len(lengths):
        complaints.append(f"{usual} of {len(lengths)} functions have at most {USUAL} lines; "
                          "nine of ten should")
    print("\n".join(complaints + [f"{len(lengths)} functions, {len(complaints)} complaints"]))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
