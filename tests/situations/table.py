"""Reads a table of situations. README.md describes its lines."""
import ast
import importlib
import pathlib
import re

HERE = pathlib.Path(__file__).resolve().parent
DO = ("run", "shell", "python")
CHECKS = ("status", "says", "never", "matches", "value", "file", "no-file", "holds", "same", "differ")


class Wrong(Exception):
    """A table that cannot be read."""


class Step:
    """A command and what must hold after it: (kind, text) pairs."""

    def __init__(self, line, kind, text):
        self.line, self.kind, self.text, self.checks = line, kind, text, []

    @property
    def status(self):
        return int(next((text for kind, text in self.checks if kind == "status"), 0))


class Situation:
    def __init__(self, line, name):
        self.line, self.name, self.inputs, self.steps = line, name, [], []
        self.without, self.only = {}, None  # places: reason; (place, argument)

    def left_out_of(self, place):
        """The reason, "" if none is worth saying, or None: it is run there."""
        if self.only and self.only[0] != place:
            return ""
        return self.without.get(place)


def makers():
    """Functions of all make_*.py, by name."""
    found = {}
    for path in sorted(HERE.glob("make_*.py")):
        module = importlib.import_module(path.stem)
        for name, value in vars(module).items():
            if callable(value) and not name.startswith("_") and value.__module__ == path.stem:
                if name in found:
                    raise Wrong(f"{name} is in two files make_*.py")
                found[name] = value
    return found


def call_of(expression, known):
    """A function of a path, of "maker(literal, name=literal)"."""
    call = ast.parse(expression.strip(), mode="eval").body
    if not isinstance(call, ast.Call) or getattr(call.func, "id", None) not in known:
        raise Wrong(f"no maker is called by {expression}")
    arguments = [ast.literal_eval(value) for value in call.args]
    named = {word.arg: ast.literal_eval(word.value) for word in call.keywords}
    return lambda path: known[call.func.id](path, *arguments, **named)


def writer_of(lines):
    return lambda path: path.write_text("".join(f"{line}\n" for line in lines))


class Reader:
    def __init__(self):
        self.known, self.situations, self.block = makers(), [], None
        self.without = {}  # of the whole table: what stands before the first situation

    def begin(self, number, name):
        if any(s.name == name for s in self.situations):
            raise Wrong(f"two situations are called {name}")
        self.situations.append(Situation(number, name))
        self.situations[-1].without.update(self.without)

    def take(self, number, line):
        word, _, rest = line.strip().partition(" ")
        if not word or word.startswith("#"):
            return
        if word == "|":
            self.block.append(line.strip()[2:])
            return
        self.block = None
        if word == "==":
            self.begin(number, rest)
        elif word in DO:
            self.add_step(number, word, rest)
        elif word in CHECKS:
            self.situations[-1].steps[-1].checks.append((word, rest))
        else:
            self.take_other(word, rest)

    def add_step(self, number, word, rest):
        step = Step(number, word, rest)
        self.situations[-1].steps.append(step)
        if word == "python":
            self.block = step.code = []

    def take_other(self, word, rest):
        if word == "not":
            place, _, reason = rest.partition(" ")
            (self.situations[-1].without if self.situations else self.without)[place] = reason
            return
        situation = self.situations[-1]
        if word == "input":
            name, expression = re.fullmatch(r"(\S+)\s+=\s+(.*)", rest).groups()
            situation.inputs.append((name, call_of(expression, self.known)))
        elif word == "text":
            self.block = []
            situation.inputs.append((rest, writer_of(self.block)))
        elif word == "only":
            situation.only = (*rest.split(), None)[:2]
        else:
            raise Wrong(f"'{word}' is not known")


def check(situation):
    if not situation.steps:
        raise Wrong("nothing is run")
    for step in situation.steps:
        if step.status != 0 and not any(kind in ("says", "matches") for kind, _ in step.checks):
            raise Wrong(f"line {step.line}: a failure must say something")
    if not any(step.checks for step in situation.steps):
        raise Wrong("nothing is checked")


def read(path):
    reader = Reader()
    for number, line in enumerate(path.read_text().splitlines(), 1):
        try:
            reader.take(number, line)
        except (Wrong, IndexError, AttributeError, ValueError, SyntaxError) as error:
            raise SystemExit(f"{path}:{number}: {line.strip()}: {error}") from error
    for situation in reader.situations:
        try:
            check(situation)
        except Wrong as error:
            raise SystemExit(f"{path}:{situation.line}: {situation.name}: {error}") from error
    return reader.situations
