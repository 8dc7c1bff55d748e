"""Names that a terminal would obey, or that are no UTF-8, wherever a command prints names: nothing of them reaches the
terminal, and every JSON line is one, in UTF-8."""
import json
import os
import re
import subprocess
import unittest

import quern

# Erases the screen; a second line; a title; turns the direction; C1; Latin-1; a byte that is no character.
HOSTILE = [b"a\x1b[2J", b"b\x1b]0;owned\x07", "c\u202egpj".encode(), b"d\xc2\x9b31m", b"e\x9b\xff", b"f\x7f\r\x08"]
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


class Names(quern.Case):
    place = quern.IN_MEMORY

    def look(self, *arguments, data=b""):
        """Runs a command, whatever its end, and looks at all that it prints."""
        done = subprocess.run([quern.QUERN, *arguments], cwd=self.folder, env=self.environment, input=data,
                              capture_output=True, check=False)
        self.assertIn(done.returncode, (0, 1, 2), (arguments, done.stderr))
        for stream in (done.stdout, done.stderr):
            text = stream.decode("utf-8", "surrogateescape")
            found = OBEYED.search(text)
            self.assertIsNone(found, (arguments, found and text[max(0, found.start() - 60):found.end() + 20]))
        if "--json" in arguments:
            for line in done.stdout.decode("utf-8").splitlines():
                json.loads(line)
        return done

    def both(self, *arguments, status=0):
        for more in ((), ("--json",)):
            done = self.look(*arguments, *more)
            self.assertEqual(done.returncode, status, (arguments, more, done.stderr))

    def make_pictures(self):
        folder = os.fsencode(self.folder) + b"/pictures"
        for c, name in enumerate(HOSTILE):
            os.makedirs(folder + b"/" + name)
            for i in range(6):
                path = os.fsdecode(folder + b"/" + name + b"/" + name + b"%d.png" % i)
                quern.write_png(path, 28, 28, bytes((40 * c + i * p) % 256 for p in range(784)))

    def test_pictures(self):
        self.make_pictures()
        data = ("--data", "images:pictures", "--batch", "4", "--input", "28x28x1")
        self.both("inspect", "images:pictures", "--input", "28x28x1")
        self.look("train", "lenet5", *data, "--validation", "0.2", "--epochs", "1", "--save", "w")
        self.both("evaluate", "--weights", "w", "--per-class", "--html", "p.html", "--confusion", "c.csv")
        for name in ("p.html", "c.csv"):
            self.assertIsNone(re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]",
                                        (self.folder / name).read_text("utf-8")), name)
        first = b"pictures/" + HOSTILE[0] + b"/" + HOSTILE[0] + b"0.png"
        last = b"pictures/" + HOSTILE[4] + b"/" + HOSTILE[4] + b"0.png"
        self.both("predict", "--weights", "w", first, last, b"pictures/" + HOSTILE[2])
        self.look("predict", "--weights", "w", first, last, "--csv")
        self.both("cache")
        self.look("predict", "--weights", "w", HOSTILE[1])
        self.look("train", "lenet5", *data, "--resume", "w", "--epochs", "2")
        os.rename(os.fsencode(self.folder) + b"/pictures/" + HOSTILE[0],
                  os.fsencode(self.folder) + b"/pictures/new" + HOSTILE[0])
        self.look("evaluate", "--weights", "w")
        self.look("export", "lenet5", "--weights", "w", "--out", "w.onnx")
        self.both("import", "w.onnx")

    def make_rows(self, name, labels=HOSTILE, n=20):
        rows = [b"x\x1b[1m,y\xc2\x9b,label"]
        for i in range(n * len(labels)):
            rows.append(b"%d.%d,%d,%s" % (i % len(labels), i % 7, i % 5, labels[i % len(labels)].replace(b"\r", b"")))
        (self.folder / name).write_bytes(b"\n".join(rows) + b"\n")

    def test_tables(self):
        self.make_rows("d.csv")
        self.both("inspect", "csv:d.csv")
        self.look("train", "mlp", "--data", "csv:d.csv", "--holdout", "0.2", "--epochs", "2", "--save", "w")
        self.both("evaluate", "--weights", "w", "--per-class")
        self.both("predict", "--weights", "w", "csv:d.csv")
        self.look("predict", "--weights", "w", "csv:d.csv", "--csv")
        (self.folder / "bad.csv").write_bytes(b"x\x1b[1m,q\x1b[2J,label\n1,\x1b[5m,a\n")
        self.look("predict", "--weights", "w", "csv:bad.csv")
        self.look("train", "mlp", "--data", "csv:d.csv", "--target", "no\x1b[2J", "--steps", "1", "--no-save")

    def test_labels(self):
        self.make_rows("known.csv", HOSTILE[:2])
        self.make_rows("rows.csv", HOSTILE[:3], n=60)
        self.look("label", "init", "--known", "csv:known.csv", "--out", "l.qnl")
        self.look("label", "stream", "l.qnl", "--data", "csv:rows.csv", "--out", "labels.csv")
        for action in ("show", "ask"):
            self.look("label", action, "l.qnl")
            self.look("label", action, "l.qnl", "--json")
        self.look("label", "ask", "l.qnl", "--html", "ask.html", "--override")
        self.look("label", "tell", "l.qnl", "1=\x1b[2J")

    def test_files(self):
        """Data, checkpoints and outputs with such names; a checkpoint finds its data again."""
        self.make_rows("d.csv")
        strange = HOSTILE[4] + HOSTILE[0]
        data, weights, network = (strange + ending for ending in (b".csv", b".st", b".onnx"))
        os.rename(os.fsencode(self.folder) + b"/d.csv", os.fsencode(self.folder) + b"/" + data)
        self.both("train", "mlp", "--data", b"csv:" + data, "--holdout", "0.2", "--validation", "0.2", "--steps", "2", "--threads", "1",
                  "--save", weights, "--save-best", b"best" + weights)
        self.both("evaluate", "--weights", weights, "--html", b"p" + strange, "--confusion", b"c" + strange)
        self.both("train", "--resume", weights, "--steps", "4", "--save", weights)
        self.both("predict", b"csv:" + data, "--weights", weights)
        self.both("inspect", b"csv:" + data, weights, "--html", b"i" + strange)
        self.look("export", "mlp", "--weights", weights, "--out", network)
        self.both("import", network)
        self.look("models", network)
        self.look("plan", "mlp", "--html", b"q" + strange, "--save", b"r" + strange)
        for more in ((), ("--json",)):
            self.look("federate", "simulate", "--model", "mlp", "--data", b"csv:" + data, "--holdout", "0.2", "--clients", "3",
                      "--per-round", "2", "--rounds", "1", "--save", b"f" + strange, "--html", b"h" + strange, *more)
        self.look("federate", "app", "--model", "mlp", "--data", b"csv:" + data, "--holdout", "0.2", "--clients", "3", "--per-round", "2",
                  "--out", b"app" + strange)
        self.look("split", "key", "--out", b"key" + strange)

    def test_words(self):
        """Wrong words and values of every command."""
        names = re.findall(r"^  (\w+) +[A-Z]", self.run_quern("help").output, re.M)
        strange = HOSTILE[0] + HOSTILE[4]
        for name in set(names) - {"study", "meter"}:
            for words in ((strange,), (b"--" + strange,), (b"show", strange), (b"start", strange, strange), (b"x", b"--weights", strange),
                          (b"x", b"--data", b"csv:" + strange), (b"x", b"--data", strange), (b"x", b"--model", strange),
                          (b"x", b"--save", strange + b"/x"), (b"x", b"--out", strange + b"/x")):
                self.look(name, *words)
        self.look(strange)

    def test_federate(self):
        self.make_rows("d.csv")
        common = ("federate", "simulate", "--model", "mlp", "--data", "csv:d.csv", "--holdout", "0.2", "--clients", "3",
                  "--per-round", "2", "--rounds", "1", "--batch", "4")
        self.both(*common)
        self.assertEqual(self.look(*common, "--save", "f", "--html", "p.html").returncode, 0)
        self.assertIsNone(re.search("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e]",
                                    (self.folder / "p.html").read_text("utf-8")))
        self.look(*common, "--partition", "\x1b[2J")
        self.look(*common, "--personal", "\x1b[2J", "--resume", "\x1b[2Jf")
        self.look("federate", "\x1b[2J")

    def test_learn(self):
        self.make_pictures()
        self.look("train", "lenet5", "--data", "images:pictures", "--input", "28x28x1", "--steps", "1", "--batch", "4", "--no-test",
                  "--save", "m")
        start = ("learn", "start", b"s\x1b[2J", "--model", "m", "--data", "images:pictures", "--when", "cool:95", "--once",
                 "--threads", "1")
        self.assertEqual(self.look(*start).returncode, 0)
        for action in ("status", "versions", "samples", "log"):
            self.both("learn", action, b"s\x1b[2J")
        self.look("learn", "forget", b"s\x1b[2J", "1")
        self.look(*start, "--json")
        os.rename(os.fsencode(self.folder) + b"/pictures/" + HOSTILE[1],
                  os.fsencode(self.folder) + b"/pictures/new" + HOSTILE[1])
        self.look(*start)


if __name__ == "__main__":
    unittest.main()
