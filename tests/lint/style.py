"""Checks of the house style that no compiler makes. Arguments: the files to look at.

- floors: a folder of src/ includes only from itself and from the folders above it in FLOORS; folders
  inside it are its rooms, and of two rooms of a floor at most one includes, by whatever way, from
  the other;
- a folder of src/ has at most 30 files;
- lines have at most 100 columns, comments too (clang-format leaves them alone);
- only src/os calls the operating system: by header, and by function;
- nothing in src reads numbers or letters as the user's locale has them, and nothing prints them into memory so;
- functions outside src/kernels are at most 60 lines long, nine of ten at most 30;
- only src/cli prints or exits;
- no operator of src/device compares operands' addresses: what is in place, the plan says;
- only src/run includes the engine's contents and its policies (run/engine.h, run/policy.h): others ask run/inspect.h;
- the engine, its planning and its trainer include no policy of it (src/run: SESSION, OF_POLICIES);
- identifiers of the folders in CLEAN use none of the words that docs/glossary.md has replaced;
- passes, plans and what runs them ask an operator's properties (graph/op.h), never which one it is.
"""
import pathlib
import re
import sys

FLOORS = ["base", "os", "tensor", "kernels", "graph", "ops", "device", "driver", "passes", "plan", "run",
          "format", "meter", "data", "env", "models", "onnx", "numerics", "tasks", "label", "learn", "federate", "report", "study",
          "cli"]
LONGEST, USUAL, WIDEST, MOST_FILES = 60, 30, 100, 30
PRINTS = re.compile(r"(?<![\w.>])(printf|vprintf|puts|putchar|perror|exit|_exit|abort)\s*\("
                    r"|\bfprintf\s*\(\s*std(out|err)")
ASK_PROPERTIES = ("passes", "plan", "run")
COMPARES_OPERANDS = re.compile(r"\b(?:in|out)\[[^]]*\][^;&|?]*[!=]=(?! *(?:NULL|0)\b)"
                               r"|\bfrom\b[\w .+]*[!=]=[\w .]*\bto\b(?!->|\.)")
IS_OPERATOR = re.compile(r"[!=]=\s*&qn_op_\w+|&qn_op_\w+\s*[!=]=")
COMMENT_OR_TEXT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)


# What knows no policy, and the headers of policies.
SESSION = re.compile(r"src/run/(?:(?:engine|executor|executor_lanes|program|store|trainer|training_loop|shared|merge|optimizer"
                     r"|watch|policy|policy_list|inspect)[.][ch]|planning/(?:planning|budget|saved)[.][ch]|guard/.*)")
OF_POLICIES = re.compile(r'#include "run/(?:(?:offload|timing|rehearsal)\.h|(?:cores/(?!runner)|tuning/|rebudget/|ranks/|resident/|placing/)'
                         r'|planning/swap\.h)')


# Words that identifiers of these folders had, and the field's terms for them (docs/glossary.md).
CLEAN = ("device", "driver", "passes", "plan", "run")
REPLACED = {"trip": "swap_interval", "trips": "swap_intervals", "siting": "placement_problem", "moment": "fence",
            "spread": "partition", "stretch": "segment", "way": "mode", "ways": "modes"}
NAMES_REPLACED = re.compile(r"\b(?:\w+_)?(" + "|".join(REPLACED) + r")(?:_\w+)?\b")


# Headers by which one speaks to the operating system, and functions of the C library that do.
SYSTEM_HEADER = re.compile(r"#include <((?:sys|net|netinet|arpa|linux|asm|mach)/[^>]+|unistd\.h|fcntl\.h|pthread\.h"
                           r"|dlfcn\.h|poll\.h|dirent\.h|spawn\.h|sched\.h|termios\.h|signal\.h|ftw\.h|glob\.h"
                           r"|semaphore\.h|time\.h|pwd\.h|mntent\.h|windows\.h)>")
SYSTEM_CALL = re.compile(r"(?<![\w.>])(fopen|freopen|fdopen|popen|system|setenv|remove|rename|tmpfile"
                         r"|time|clock|aligned_alloc|posix_memalign)\s*\(")


# What the C library does by the locale that a program has set: a comma in numbers, other letters.
BY_LOCALE = re.compile(r"(?<![\w.>])(strto(?:d|f|ld)|atof|is(?:alpha|alnum|space|print|graph|punct|lower|upper|blank|cntrl)"
                       r"|to(?:lower|upper)|str(?:n?casecmp|coll|xfrm|casestr|fmon)|setlocale|uselocale)\s*\(")
PRINTS_BY_LOCALE = re.compile(r"(?<![\w.>])(v(?:sn?|f|as|d)printf)\s*\(")
FORMATS = re.compile(r"(?<![\w.>])(sn?printf|fprintf|asprintf|dprintf|f?scanf|sscanf)\s*\(")
REAL = re.compile(r"%[-+ #0]*(?:\*|\d+)?(?:\.(?:\*|\d+)?)?[lL]?[aefgAEFG]")
PRINT = pathlib.Path("src/base/print.c")


def blank(match):
    """A comment or text without its content, lines kept."""
    return "\n" * match.group().count("\n")


def floor_of(path):
    return path.parts[1] if path.parts[0] == "src" and len(path.parts) > 2 else None


def check_floors(path, text):
    """Yields complaints about includes."""
    own = floor_of(path)
    for number, line in enumerate(text.split("\n"), 1):
        if re.match(r'#include "run/(engine|policy|offload)\.h"', line) and path.parts[0] == "src" and own != "run":
            yield f"{path}:{number}: what is in an engine is for src/run alone; ask run/inspect.h"
        if SESSION.fullmatch(path.as_posix()) and OF_POLICIES.match(line):
            yield f"{path}:{number}: the engine knows no policy; give the policies' rows a call (run/policy.h)"
        match = re.match(r'#include "(\w+)/', line)
        if not match or match.group(1) not in FLOORS or own not in FLOORS:
            continue
        if FLOORS.index(match.group(1)) > FLOORS.index(own):
            yield f"{path}:{number}: {own} includes from {match.group(1)}, which is below it"


def check_system(path, text, bare):
    """Yields what a file asks of the operating system."""
    for number, line in enumerate(text.split("\n"), 1):
        match = SYSTEM_HEADER.match(line)
        if match:
            yield f"{path}:{number}: <{match.group(1)}>, which only os/ includes"
    for number, line in enumerate(bare.split("\n"), 1):
        match = SYSTEM_CALL.search(line)
        if match:
            yield f"{path}:{number}: {match.group(1)}(), which only os/ calls"


def call_at(text, begin):
    """The text of a call, from its name to its closing bracket."""
    depth = 0
    for match in re.finditer(r'"(?:\\.|[^"\\\n])*"|[()]', text[begin:]):
        depth += {"(": 1, ")": -1}.get(match.group(), 0)
        if depth == 0 and match.group() == ")":
            return text[begin:begin + match.end()]
    return text[begin:]


def check_locale(path, text, bare):
    """Yields calls whose result is another where the program has set a locale."""
    is_cli = floor_of(path) == "cli"  # the command sets no locale, and prints to people
    for match in BY_LOCALE.finditer(bare):
        number = bare.count("\n", 0, match.start()) + 1
        yield f"{path}:{number}: {match.group(1)}() goes by the locale; see base/decimal.h, base/text.h"
    for match in () if path == PRINT else PRINTS_BY_LOCALE.finditer(bare):
        number = bare.count("\n", 0, match.start()) + 1
        yield f"{path}:{number}: {match.group(1)}() goes by the locale; see base/print.h"
    for match in FORMATS.finditer(text):
        texts = "".join(re.findall(r'"((?:\\.|[^"\\\n])*)"', call_at(text, match.start())))
        if REAL.search(texts.replace("%%", "")) and not (is_cli and match.group(1) == "fprintf"):
            number = text.count("\n", 0, match.start()) + 1
            yield f"{path}:{number}: {match.group(1)}() of a real number goes by the locale; see base/print.h"


def room_of(path):
    return path.parent.relative_to("src").as_posix() if path.parts[0] == "src" else None


def find_circles(paths):
    """Yields complaints about rooms of one floor that include from each other."""
    includes = {}
    for path in paths:
        own = room_of(path)
        for folder in re.findall(r'#include "([\w/]+)/\w+\.h"', path.read_text()) if own else ():
            if "/" in own and "/" in folder and own != folder and own.split("/")[0] == folder.split("/")[0]:
                includes.setdefault(own, set()).add(folder)
    for first in includes:
        seen, todo = set(), [first]
        while todo:
            for room in includes.get(todo.pop(), ()):
                if room == first:
                    yield f"src/{first} includes from rooms that include from it"
                if room not in seen:
                    seen.add(room)
                    todo.append(room)


def find_crowds(paths):
    """Yields complaints about folders of src/ with too many files."""
    folders = [str(path.parent) for path in paths if path.parts[0] == "src"]
    for folder in sorted(set(folders)):
        if folders.count(folder) > MOST_FILES:
            yield f"{folder} has {folders.count(folder)} files; give it rooms of at most {MOST_FILES}"


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
    for number, line in enumerate(text.split("\n"), 1):
        if len(line) > WIDEST:
            yield f"{path}:{number}: {len(line)} columns; at most {WIDEST}"
    if own and own != "os":
        yield from check_system(path, text, bare)
    if own:
        yield from check_locale(path, text, bare)
    if own and own != "cli":
        if own == "os":  # where a process that was made cannot become another program
            bare = re.sub(r"\b_[eE]xit\(", "", bare)
        for number, line in enumerate(bare.split("\n"), 1):
            if PRINTS.search(line):
                yield f"{path}:{number}: prints or exits, which only the command line may"
    for match in IS_OPERATOR.finditer(bare) if own in ASK_PROPERTIES else ():
        number = bare.count("\n", 0, match.start()) + 1
        yield f"{path}:{number}: compares with an operator; ask a property of it (graph/op.h)"
    for match in NAMES_REPLACED.finditer(bare) if own in CLEAN else ():
        number = bare.count("\n", 0, match.start()) + 1
        yield f"{path}:{number}: {match.group()}: say {REPLACED[match.group(1)]} (docs/glossary.md)"
    for match in COMPARES_OPERANDS.finditer(bare) if own == "device" else ():
        number = bare.count("\n", 0, match.start()) + 1
        yield f"{path}:{number}: compares addresses; the plan says what is placed (qn_call_is_placed)"
    if own != "kernels":
        for number, length in function_lengths(bare):
            lengths.append(length)
            if length > LONGEST:
                yield f"{path}:{number}: a function of {length} lines; at most {LONGEST}"


def main():
    lengths, complaints = [], []
    for name in sys.argv[1:]:
        complaints.extend(check_file(pathlib.Path(name), lengths))
    paths = [pathlib.Path(name) for name in sys.argv[1:]]
    complaints.extend(find_circles(paths))
    complaints.extend(find_crowds(paths))
    usual = sum(length <= USUAL for length in lengths)
    if usual < 0.9 * len(lengths):
        complaints.append(f"{usual} of {len(lengths)} functions have at most {USUAL} lines; "
                          "nine of ten should")
    print("\n".join(complaints + [f"{len(lengths)} functions, {len(complaints)} complaints"]))
    return 1 if complaints else 0


if __name__ == "__main__":
    sys.exit(main())
