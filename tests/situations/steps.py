"""Does a step of a situation and checks what it answered."""
import json
import operator
import os
import pathlib
import re
import shlex
import subprocess
import sys

SOURCE = pathlib.Path(__file__).resolve().parents[2]
QUERN = os.path.abspath(os.environ.get("QUERN", "build/release/quern"))
BUILD = pathlib.Path(os.environ.get("QUERN_BUILD", pathlib.Path(QUERN).parent)).absolute()
SECONDS = 300
COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq}

sys.path.insert(0, str(SOURCE / "tests/cli"))
import quern  # noqa: E402


def check_build():
    if not os.access(QUERN, os.X_OK):
        raise SystemExit(f"{QUERN} is not there; build it, or set QUERN")


class Answer:
    """What a command printed, and its exit status."""

    def __init__(self, done):
        self.status = done.returncode
        self.output, self.errors = done.stdout, done.stderr
        self.text = self.output + self.errors

    @property
    def events(self):
        for line in self.output.splitlines():
            if line.startswith("{"):
                yield json.loads(line)


def environment_of(folder):
    inherited = {name: value for name, value in os.environ.items() if name != "QUERN_RUNS"}
    return dict(inherited, XDG_CACHE_HOME=str(folder / ".cache"), QUERN=QUERN, QUERN_SOURCE=str(SOURCE),
                QUERN_BUILD=str(BUILD), QUERN_LIBRARY=str(BUILD / "libquern.so"),
                PYTHONPATH=str(SOURCE / "python"), PYTHONDONTWRITEBYTECODE="1")


def command_of(step):
    if step.kind == "run":
        return [QUERN, *shlex.split(step.text)]
    if step.kind == "shell":
        return ["sh", "-c", step.text]
    return ["/usr/bin/python3", "-c", "\n".join(step.code)]


def do(step, folder, environment=None, **options):
    """Runs the command of a step; a dictionary of more environment, and what subprocess.run takes."""
    done = subprocess.run(command_of(step), cwd=folder, env={**environment_of(folder), **(environment or {})},
                          capture_output=True, text=True, errors="replace", check=False, timeout=SECONDS,
                          stdin=subprocess.DEVNULL, **options)
    return Answer(done)


# ---- checks: each gives what is wrong, or None ----

def find_value(answer, key):
    """The last value under a key of the JSON lines; a point goes deeper."""
    found = None
    for event in answer.events:
        value = event
        for name in key.split("."):
            value = value.get(name) if isinstance(value, dict) else None
        found = value if value is not None else found
    return found


def check_value(text, answer, _):
    key, compare, wanted = text.split()
    value = find_value(answer, key)
    if value is None:
        return f"no JSON line has {key}"
    return None if COMPARE[compare](value, float(wanted)) else f"{key} is {value}, not {compare} {wanted}"


def check_same(text, _, folder):
    first, second = (quern.weights_of(folder / name) for name in text.split())
    return None if first == second else f"the tensors of {text} differ"


def check_differ(text, _, folder):
    first, second = (quern.weights_of(folder / name) for name in text.split())
    return None if first != second else f"the tensors of {text} are the same"


def check_holds(text, _, folder):
    name, _, pattern = text.partition(" ")
    content = (folder / name).read_bytes().decode(errors="replace")
    return None if re.search(pattern, content) else f"{name} does not hold {pattern}"


CHECKS = {
    "status": lambda text, a, _: None if a.status == int(text) else f"exit status {a.status}, not {text}",
    "says": lambda text, a, _: None if text in a.text else f"does not say: {text}",
    "never": lambda text, a, _: f"says: {text}" if text in a.text else None,
    "matches": lambda text, a, _: None if re.search(text, a.text, re.M) else f"does not match: {text}",
    "value": check_value,
    "file": lambda text, _, folder: None if (folder / text).exists() else f"{text} is not there",
    "no-file": lambda text, _, folder: f"{text} is there" if (folder / text).exists() else None,
    "holds": check_holds,
    "same": check_same,
    "differ": check_differ,
}


def common_faults(step, answer, folder):
    """What no command may do, whatever it is for."""
    if answer.status < 0:
        return f"ended by signal {-answer.status}"
    if step.kind == "run" and answer.status not in (0, 130) and "quern: " not in answer.errors:
        return "fails without a message"
    left = [str(path.relative_to(folder)) for path in folder.rglob("*.quern-tmp*") if path.is_file()]
    return f"left behind: {left}" if left else None


def wrongs(step, answer, folder):
    """All that is wrong with an answer, as a text, or None."""
    found = [common_faults(step, answer, folder)]
    if not any(kind == "status" for kind, _ in step.checks) and answer.status != 0:
        found.append(f"exit status {answer.status}")
    found += [CHECKS[kind](text, answer, folder) for kind, text in step.checks]
    found = [text for text in found if text]
    return "  " + "\n  ".join(found) + f"\n{answer.text}" if found else None
