"""A fresh environment with nothing but quern's wheel, as pip installs it without a network, and the system's
numpy: what the tests of the Python package run in."""
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE, BUILD = pathlib.Path(os.environ["QUERN_SOURCE"]), pathlib.Path(os.environ["QUERN_BUILD"])


def run(*command, **more):
    """Runs a command; ends the test with its output if it fails."""
    result = subprocess.run([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                            text=True, **more)
    if result.returncode:
        sys.exit(f"$ {' '.join(map(str, command))}\n{result.stdout}\nended with {result.returncode}")
    return result.stdout


def make(folder):
    """Builds the wheel and installs it; the environment's python."""
    wheel = run("/usr/bin/python3", SOURCE / "python/make_wheel.py", BUILD, folder / "wheels").splitlines()[-1]
    run("/usr/bin/python3", "-m", "venv", "--system-site-packages", folder / "venv")
    python = folder / "venv/bin/python"
    run(python, "-m", "pip", "install", "--no-index", "--no-deps", "--no-warn-conflicts", wheel)
    return python


def enter(main):
    """Runs main in a fresh environment: this file's program again, by its python."""
    if os.environ.get("QUERN_FRESH"):
        main()
        return
    with tempfile.TemporaryDirectory() as folder:
        python = make(pathlib.Path(folder))
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        environment.update(QUERN_FRESH=folder, XDG_CACHE_HOME=f"{folder}/cache")
        sys.exit(subprocess.run([python, "-W", "error::ResourceWarning", os.path.abspath(sys.argv[0]), *sys.argv[1:]],
                                env=environment, cwd=folder, check=False).returncode)
