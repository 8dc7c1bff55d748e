"""A program that has set its user's locale, with a comma in numbers (German) or other letters (Turkish), gets the same
bytes: weights, settings in checkpoints, exported networks, labellers. The locales are made in a folder of the test;
the command stands for the program, and sets them by a library that is loaded with it (tests/fake/locale.c)."""
import json
import os
import pathlib
import random
import shutil
import subprocess
import unittest

import quern

TOOLS = pathlib.Path(os.environ.get("QUERN_TOOLS", "build/release/tests")).absolute()
LOCALES = (("de_DE", "UTF-8"), ("tr_TR", "ISO-8859-9"))
COMMANDS = (
    ("train", "mlp", "--data", "csv:d.CSV", "--epochs", "2", "--lr", "0.0125", "--label-smoothing", "0.05", "--lr-for",
     "*=x0.5", "--holdout", "0.25", "--save", "w", "--memory", "1.6M"),
    ("evaluate", "--weights", "w", "--data", "csv:d.CSV", "--json"),
    ("export", "mlp", "--weights", "w", "--out", "w.onnx"),
    ("label", "init", "--known", "csv:d.CSV", "--out", "l"),
    ("train", "w.onnx", "--data", "csv:d.CSV", "--epochs", "1", "--lr", "0.0125", "--save", "v"),
)
FILES = ("w", "w.onnx", "l", "v")


class Locale(quern.Case):
    def setUp(self):
        super().setUp()
        if not shutil.which("localedef"):
            self.skipTest("no localedef, so that no other locale can be made")
        self.locales = self.folder / "locales"
        self.locales.mkdir()
        draw = random.Random(3)
        rows = [(draw.gauss(k % 2, 0.6), draw.gauss(-(k % 2), 0.6), "Iı"[k % 2]) for k in range(120)]
        text = "x,y,KIND\n" + "".join(f"{x:.6f},{y:.17g},{kind}\n" for x, y, kind in rows)
        (self.folder / "d.CSV").write_text(text, encoding="utf-8")

    def make(self, name, charset):
        """Makes a locale; returns the environment of a program in it."""
        made = subprocess.run(["localedef", "-i", name, "-f", charset, str(self.locales / name)],
                              capture_output=True, text=True, check=False)
        if not (self.locales / name).exists():
            self.skipTest(f"localedef makes no {name}; Debian's package locales has its source: {made.stderr.strip()}")
        return dict(self.environment, LOCPATH=str(self.locales), LC_ALL=name)

    def bytes_in(self, environment):
        """What the commands write in an environment: the files, and what was printed of the evaluation."""
        self.environment = environment
        for name in FILES:
            (self.folder / name).unlink(missing_ok=True)
        printed = [self.run_quern(*command).output for command in COMMANDS]
        evaluation = json.loads(printed[1])
        del evaluation["samples_per_second"]
        return [self.bytes_of(name) for name in FILES], evaluation

    def test_same_bytes(self):
        files, printed = self.bytes_in(dict(self.environment, LC_ALL="C"))
        self.assertEqual(quern.metadata_of(self.folder / "w")["lr"], "0.0125")
        for name, charset in LOCALES:
            with self.subTest(locale=name):
                environment = self.make(name, charset)
                environment["LD_PRELOAD"] = str(TOOLS / "fake/libfake_locale.so")
                there, printed_there = self.bytes_in(environment)
                for file, own, other in zip(FILES, files, there):
                    self.assertEqual(own, other, f"{file} differs in {name}")
                self.assertEqual(printed_there, printed)
                del environment["LD_PRELOAD"]
                done = subprocess.run([TOOLS / "test_decimal"], env=dict(environment, QUERN_LOCALE_HAS_COMMA="1"),
                                      capture_output=True, text=True, check=False)
                self.assertEqual(done.returncode, 0, done.stdout)


if __name__ == "__main__":
    unittest.main()
