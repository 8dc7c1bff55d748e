#!/usr/bin/env python3
"""Logits of each family of language models beside those of transformers, as bench/language_models.py
recorded them: small models whose weights follow a rule."""
import json
import os
import subprocess
import sys
import tempfile

import numpy

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import language_models  # noqa: E402


def logits_of(path, tokens):
    tool = os.path.join(os.environ["QUERN_TOOLS"], "language_logits")
    text = subprocess.run([tool, path] + [str(t) for t in tokens], capture_output=True, text=True)
    assert text.returncode == 0, text.stderr
    return numpy.array([[float(x) for x in line.split()] for line in text.stdout.splitlines()])


def main():
    with open(os.path.join(HERE, "language_models.json"), encoding="utf-8") as file:
        recorded = json.load(file)
    with tempfile.TemporaryDirectory() as folder:
        for name, model in recorded.items():
            path = os.path.join(folder, name)
            language_models.write_folder(path, model)
            is_ = logits_of(path, language_models.tokens(name, model["length"], 61))
            wanted = numpy.array(model["logits"])
            error = numpy.abs(is_[model["rows"]] - wanted).max() / numpy.abs(wanted).max()
            print(f"{name}: {error:.2e}", flush=True)
            assert error < 1e-5, name


main()
