"""Checks that whatever the tests import, run or read comes from a package that script/bootstrap installs.

    packages.py FILE...

Modules of Python's own library and of the repository count as there. What a test imports inside of a
try statement, or asks shutil.which for, it can do without. Tests labelled extended or all, and those of the
cross build, may use the packages of the list `extended` too."""
import ast
import pathlib
import re
import sys

TOP = pathlib.Path(__file__).resolve().parents[2]
MODULES = {"numpy": "python3-numpy", "torch": "python3-torch", "onnx": "python3-onnx", "sklearn": "python3-sklearn"}
# None: in every Debian.
PROGRAMS = {"sh": None, "bash": None, "mount": None, "umount": None, "cc": "gcc", "gcc": "gcc", "nm": "gcc", "size": "gcc",
            "cmake": "cmake", "ctest": "cmake", "pkg-config": "pkg-config", "git": "git", "g++": "g++", "ip": "iproute2",
            "localedef": None, "unshare": None,
            "python3": "python3", "/usr/bin/python3": "python3", "qemu-aarch64": "qemu-user",
            "jupyter-nbconvert": "jupyter-nbconvert"}
FOLDERS = {"/usr/share/datasets/fashion-mnist": "dataset-fashion-mnist",
           "/usr/share/libonnx-testdata": "libonnx-testdata"}


def lists():
    """The lists of script/bootstrap, by name."""
    text = (TOP / "script/bootstrap").read_text()
    return {name: set(items.split()) for name, items in re.findall(r"^(\w+)=\(([^)]*)\)", text, re.M)}


def of_cmake(name):
    """The tests of one of the lists of tests/CMakeLists.txt."""
    text = (TOP / "tests/CMakeLists.txt").read_text()
    return set(re.search(rf"set\({name} ([^)]*)\)", text).group(1).split())


class Needs(ast.NodeVisitor):
    """(line, package) of all that a file cannot do without, and what nobody knows a package of."""

    def __init__(self, own):
        self.own, self.tried, self.found, self.unknown = own, 0, [], []

    def visit_Try(self, node):
        self.tried += 1
        self.generic_visit(node)
        self.tried -= 1

    def module(self, node, name):
        name = name.split(".")[0]
        if self.tried or name in sys.stdlib_module_names or name in self.own:
            return
        self.add(node, MODULES, name)

    def add(self, node, table, name):
        if name not in table:
            self.unknown.append((node.lineno, name))
        elif table[name]:
            self.found.append((node.lineno, table[name]))

    def visit_Import(self, node):
        for item in node.names:
            self.module(node, item.name)

    def visit_ImportFrom(self, node):
        self.module(node, node.module)

    def visit_Call(self, node):
        called = ast.unparse(node.func)
        first = node.args[0] if node.args else None
        if called in ("subprocess.run", "subprocess.Popen", "subprocess.check_output") \
                and isinstance(first, ast.List):
            first = first.elts[0]
        elif called != "run" or not (isinstance(first, ast.Constant) and first.value in PROGRAMS):
            first = None
        if not self.tried and isinstance(first, ast.Constant) and isinstance(first.value, str):
            self.add(node, PROGRAMS, first.value)
        self.generic_visit(node)


def needs_of(path, own):
    """What a file needs: folders in any language, modules and programs in Python."""
    text = path.read_text()
    needs = Needs(own)
    if path.suffix == ".py":
        needs.visit(ast.parse(text))
    for number, line in enumerate(text.splitlines(), 1):
        needs.found += [(number, package) for folder, package in FOLDERS.items() if f'"{folder}' in line]
    return needs


def main():
    paths = [pathlib.Path(name) for name in sys.argv[1:]]
    own = {path.stem for path in paths}
    packages = lists()
    later = of_cmake("EXTENDED_TESTS") | of_cmake("ALL_TESTS") | {"count_instructions"}
    faults = 0
    for path in paths:
        if path.parts[0] != "tests" or path.parts[1] == "lint":
            continue
        there = packages["build"] | packages["checks"]
        if path.stem in later:
            there |= packages["extended"]
        needs = needs_of(path, own)
        for line, name in needs.unknown:
            print(f"{path}:{line}: {name}: no package known of it; add it to tests/lint/packages.py")
        missing = [(line, package) for line, package in needs.found if package not in there]
        for line, package in missing:
            print(f"{path}:{line}: needs {package}, which script/bootstrap does not install")
        faults += len(needs.unknown) + len(missing)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
