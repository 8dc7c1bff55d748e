"""The Python package is typed, as mypy sees it, and every public name of it is documented: modules, classes,
functions, methods, properties and attributes."""
import ast
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
import quern  # noqa: E402

failures = []
# A program of a user's; mypy must see the package's own annotations. Wrong calls say what is wrong of them.
USER = '''import pickle
from typing import Any
import numpy as np
import quern
m = quern.Model("lenet5", classes=10)
h: quern.History = m.fit((np.zeros((8, 28, 28)), [1] * 8), epochs=1, memory="64M", label_smoothing=0.1)
p: "dict[str, np.ndarray[Any, Any]]" = m.parameters()
e: float = m.evaluate("fashion-mnist")["accuracy"]
with quern.Meter() as meter:
    j: float = meter.joules
m.fit((1, 2), epochs="3")  # [arg-type]
m.predicts(3)  # [attr-defined]
n: int = m.plan(batch=2)  # [assignment]
quern.Model()  # [call-arg]
quern.Model("mlp", num_classes=3)  # [arg-type]
quern.QuernClassifier("mlp", epochs=3).fit([[1.0]], [1]).predict_proba([[1.0]])
pickle.dumps(m)
m.fit(np.zeros((8, 28, 28)), [1] * 8, batch_size=4, callbacks=[print])
'''
with tempfile.TemporaryDirectory() as folder:
    user = pathlib.Path(folder) / "user.py"
    user.write_text(USER)
    told = subprocess.run(["/usr/bin/python3", "-m", "mypy", "--cache-dir", folder, "--config-file",
                           SOURCE / "pyproject.toml", "-p", "quern", "-m", "user"], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, cwd=folder, check=False,
                          env={**os.environ, "MYPYPATH": f"{BUILD / 'python'}:{folder}"}).stdout
wanted = [(i, line.split("# ")[1]) for i, line in enumerate(USER.splitlines(), 1) if "# [" in line]
found = [(int(place), kind) for place, kind in re.findall(r"user.py:(\d+): error: .*(\[[\w-]+\])", told)]
if found != wanted or "quern/" in told:
    failures.append(f"mypy says\n{told}")


def is_public(name):
    return not name.startswith("_") or name == "__init__"


trees = {node.name: node for path in (BUILD / "python/quern").glob("*.py") for node in ast.parse(path.read_text()).body
         if isinstance(node, ast.ClassDef)}


def documented_attributes(cls):
    """Attributes that __init__ and the class set, each by whether a text follows it."""
    for body in [node for node in ast.walk(trees[cls.__name__]) if isinstance(getattr(node, "body", None), list)]:
        for one, after in zip(body.body, [*body.body[1:], None]):
            target = one.target if isinstance(one, ast.AnnAssign) else one.targets[0] if isinstance(one, ast.Assign) \
                else None
            if isinstance(target, ast.Attribute) and is_public(target.attr) and isinstance(target.value, ast.Name) \
                    and target.value.id == "self":
                yield target.attr, isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)


n = 0
for name in quern.__all__:
    thing = getattr(quern, name)
    n += 1
    if name != "DataLike" and not inspect.getdoc(thing):
        failures.append(f"quern.{name} is not documented")
    if not inspect.isclass(thing) or not thing.__module__.startswith("quern"):
        continue
    for member, value in vars(thing).items():
        if is_public(member) and (callable(value) or isinstance(value, (property, classmethod))) \
                and member != "__init__":
            n += 1
            if not inspect.getdoc(value):
                failures.append(f"quern.{name}.{member} is not documented")
    if not issubclass(thing, Exception):
        for attribute, is_documented in documented_attributes(thing):
            n += 1
            if not is_documented:
                failures.append(f"quern.{name}.{attribute} is not documented")
assert n > 50, n
listed = {one for one in vars(quern) if is_public(one) and not inspect.ismodule(getattr(quern, one))} - {"annotations"}
if listed != set(quern.__all__):
    failures.append(f"__all__ and the public names differ: {listed ^ set(quern.__all__)}")
text = subprocess.run([sys.executable, "-c", "import quern; help(quern.Model.fit)"], check=True, text=True,
                      stdout=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(BUILD / "python")}).stdout
for words in ("Ctrl-C", "label_smoothing: ", "KeyboardInterrupt", "OutOfMemoryError"):
    if words not in text:
        failures.append(f"help(quern.Model.fit) does not say {words}")
print(*failures, sep="\n")
print(f"{n} public names")
sys.exit(bool(failures))
