"""Runs tables of situations: inputs, commands, and what each must answer (README.md).

    run.py [--place plain|comma|group|full|noproc] TABLE...

Each situation gets a folder of its own. Exit status 77: the place cannot be made here; the reason is printed."""
import argparse
import os
import pathlib
import shutil
import signal
import sys
import tempfile

import places
import steps
import table

SKIPPED = 77


def inputs_of(situation, folder):
    for name, make in situation.inputs:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        make(path)


def run(situation, place):
    """What went wrong, or None."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-situation-", dir=place.root))
    try:
        inputs_of(situation, folder)
        for step in situation.steps:
            wrong = place.do(situation, step, folder)
            if wrong:
                return f"line {step.line}: {step.text}\n{wrong}"
        return None
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def run_table(path, place):
    n_wrong = 0
    for situation in table.read(path):
        reason = situation.left_out_of(place.name)
        if reason is not None:
            print(f"left out  {situation.name}{': ' if reason else ''}{reason}")
            continue
        wrong = run(situation, place)
        n_wrong += wrong is not None
        print(f"{'WRONG' if wrong else 'right'}     {situation.name}", flush=True)
        if wrong:
            print(f"{path}:{situation.line}: {situation.name}\n{wrong}\n", flush=True)
    return n_wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--place", default="plain", choices=places.PLACES)
    parser.add_argument("tables", nargs="+", type=pathlib.Path)
    given = parser.parse_args()
    signal.alarm(1200)
    try:
        place = places.PLACES[given.place]()
    except places.Missing as missing:
        print(f"skipped: {missing}")
        return SKIPPED
    steps.check_build()
    try:
        return 1 if sum(run_table(path, place) for path in given.tables) else 0
    finally:
        place.close()


if __name__ == "__main__":
    os.environ.pop("LC_ALL", None)
    sys.exit(main())
