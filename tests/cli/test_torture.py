"""Call number n of a kind fails once while a command works: allocations, opening, reading, writing, syncing, renaming,
mappings; with each number that the system may give. A command then ends within a time, by itself and with a message if
it failed; its inputs are as they were; each output is the old file or the new one; no other file is left; and the same
command, run again, comes to the bytes that it makes undisturbed.

    test_torture.py [--table] [COMMAND...]    by hand: the table of what was tried, of some commands

Of each kind the first calls are tried, twenty of them or so many as QUERN_TORTURE says; with QUERN_ALL all calls with all
numbers, of more commands."""
import contextlib
import csv
import errno
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import unittest

import disk
import quern

# What a call may fail with, the usual first.
NUMBERS = {"alloc": ("ENOMEM",), "open": ("ENOSPC", "EACCES", "EMFILE", "EROFS", "EINTR"), "look": ("EMFILE", "EIO", "EACCES"),
           "read": ("EIO", "ESTALE"), "write": ("ENOSPC", "EIO", "EDQUOT"), "sync": ("EIO", "ENOSPC"),
           "rename": ("EIO", "ENOSPC", "EACCES"), "link": ("ENOSPC", "EMLINK"), "mmap": ("ENOMEM", "ENODEV"),
           "room": ("ENOSPC", "EDQUOT", "EOPNOTSUPP"),
           "connect": ("ECONNREFUSED", "ETIMEDOUT"), "accept": ("EMFILE", "ECONNABORTED")}
FIRST = int(os.environ.get("QUERN_TORTURE", "20"))
SECONDS = 60  # for an end; most take a tenth of one
TABLE = []


def picture(path, label, seed):
    pixels = bytearray(byte // 2 for byte in random.Random(seed).randbytes(28 * 28))
    for i in range(28 * 28):
        if i % 28 // 7 == label:
            pixels[i] += 36
    path.parent.mkdir(parents=True, exist_ok=True)
    quern.write_png(path, 28, 28, bytes(pixels))


class Torture(quern.Case):
    place = quern.IN_MEMORY
    # Of a command: its arguments, the files that it makes or changes, and the arguments with which it goes on.
    arguments, outputs = (), ()
    # The share of the first calls that is tried where a run takes long.
    part = 1
    # After every such failed call the command is run again.
    each = 4

    def prepare(self):
        """Makes the inputs, and outputs of before."""

    def content(self, name):
        """What of an output has to be equal; a page says when it was written."""
        path = self.folder / name
        content = path.read_bytes() if path.exists() else None
        return re.sub(rb"\d{4}-\d\d-\d\d \d\d:\d\d", b"", content) if name.endswith(".html") and content else content

    def again(self):
        """The command that goes on after a failure, which left what it says it did."""
        return self.arguments

    def make_rows(self):
        draw = random.Random(3)
        for name, has_label in (("k.csv", True), ("n.csv", False)):
            rows = ["a,b,c" + (",label" if has_label else "")]
            for i in range(90):
                row = [f"{draw.gauss(i % 2, 0.2):.4f}", f"{draw.gauss(-(i % 2), 0.2):.4f}", f"{draw.random():.4f}"]
                rows.append(",".join(row + (["xy"[i % 2]] if has_label else [])))
            (self.folder / name).write_text("\n".join(rows) + "\n")

    def recover(self):
        self.run_quern(*self.again())

    # ---- one command ----

    def files(self):
        """All files but those of the cache, which may come and go."""
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*")
                if path.is_file() and path.relative_to(self.folder).parts[0] not in ("cache", "runs")}

    def is_output(self, name):
        return any(name == output or name.startswith(output + "/") for output in self.outputs)

    def inputs(self):
        return {name: (self.folder / name).read_bytes() for name in self.files() if not self.is_output(name)}

    def run_failing(self, fail=None, number=None):
        self.environment.pop("QUERN_DISK_ERRNO", None)
        if number:
            self.environment["QUERN_DISK_ERRNO"] = str(getattr(errno, number))
        try:
            return disk.run(self, self.arguments, fail=fail, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self.fail(f"{fail} {number}: does not end within {SECONDS} s")

    def restore(self):
        """The folder as it was before the command."""
        for path in self.folder.iterdir():
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        shutil.copytree(self.saved, self.folder, dirs_exist_ok=True)

    def look(self, said, done):
        self.assertIn(done.returncode, (0, 1, 2), f"{said}: {done.stderr}")
        if done.returncode:
            self.assertRegex(done.stderr, r"(^|\n)quern: .", said)
        there = self.inputs()
        self.assertTrue(there == self.given, f"{said}: inputs were changed, or files are left: {set(there) ^ set(self.given)}")
        for name in self.outputs:
            self.look_at_output(name, said, done)

    def look_at_output(self, name, said, done):
        known = ((self.new[name],), (self.old[name], self.new[name]), (self.old[name],))[done.returncode]
        self.assertTrue(self.content(name) in known, f"{said}: {name} is neither old nor new; {done.stderr}")

    def calls(self, counts):
        """(kind, number of the call, name of the error) of what is tried."""
        for kind, n in counts.items():
            names = NUMBERS[kind]
            if quern.ALL:
                yield from ((kind, call, name) for call in range(1, n + 1) for name in names)
            else:
                most = max(1, int(FIRST * self.part))
                yield from ((kind, call, names[call % len(names)]) for call in range(1, min(n, most) + 1))

    def check(self):
        self.prepare()
        self.saved = self.folder.parent / f"{self.folder.name}.saved"
        self.addCleanup(shutil.rmtree, self.saved, ignore_errors=True)
        shutil.copytree(self.folder, self.saved)
        self.old = {name: self.content(name) for name in self.outputs}
        self.given = self.inputs()
        done, counts = self.run_failing()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.new = {name: self.content(name) for name in self.outputs}
        tried = {}
        for kind, call, name in self.calls(counts):
            said = f"{kind}:{call} {name}"
            self.restore()
            done, _ = self.run_failing(f"{kind}:{call}", name)
            self.look(said, done)
            if done.returncode and ((call - 1) % self.each == 0 or quern.ALL):
                self.recover()
                for output in self.outputs:
                    self.assertTrue(self.content(output) == self.new[output], f"{output} differs after {said}")
            tried[kind] = tried.get(kind, 0) + 1
        TABLE.append((type(self).__name__.lower(), counts, tried))


class Train(Torture):
    outputs = ("w",)
    arguments = ("train", "mlp", "--data", "csv:k.csv", "--batch", 16, "--steps", 4, "--threads", 1, "--holdout", 0.2, "--save", "w")

    def prepare(self):
        self.make_rows()
        self.run_quern(*self.arguments, "--steps", 1)

    def look_at_output(self, name, said, done):
        """Also the checkpoint of a step between."""
        said_of = quern.metadata_of(self.folder / name)
        if done.returncode != 1 or said_of["steps"] != "4" or said_of["step"] not in ("1", "2", "3"):
            super().look_at_output(name, said, done)

    def again(self):
        return (*self.arguments, "--resume", "w")

    def test_each(self):
        self.check()


class Label(Torture):
    outputs = ("l",)
    arguments = ("label", "init", "--known", "csv:k.csv", "--out", "l")

    def prepare(self):
        self.make_rows()

    def test_each(self):
        self.check()


class Stream(Torture):
    outputs = ("l", "o.csv")
    each = 1
    arguments = ("label", "stream", "l", "--data", "csv:n.csv", "--out", "o.csv")

    def prepare(self):
        self.make_rows()
        self.run_quern("label", "init", "--known", "csv:k.csv", "--out", "l")
        old, shown = self.bytes_of("l"), self.run_quern("label", "show", "l", "--json").output
        # A labeller that knows of its stream and of none of its labels: the header fits on the disk, and no more.
        self.assertEqual(disk.run(self, self.arguments, fail="write:3")[0].returncode, 1)
        self.assertEqual(self.bytes_of("o.csv"), b"sample,label,confidence\n")
        self.begun = self.bytes_of("l")
        self.assertEqual(self.run_quern("label", "show", "l", "--json").output.replace("csv:n.csv", ""), shown)
        (self.folder / "l").write_bytes(old)
        (self.folder / "o.csv").unlink()

    def look_at_output(self, name, said, done):
        """Labels are written as they come, the labeller that counts them after them: a prefix is there."""
        if not done.returncode:
            super().look_at_output(name, said, done)
        elif name == "o.csv":
            self.assertTrue(self.new[name].startswith(self.content(name) or b""), said)
        else:
            self.assertIn(self.content(name), (self.old[name], self.begun, self.new[name]), f"{said}: {done.stderr}")

    def test_each(self):
        self.check()

    def test_other_file(self):
        """After a disk that was full from the first label on, the labels may go to another one."""
        self.prepare()
        self.assertEqual(disk.run(self, self.arguments, fail="write:3")[0].returncode, 1)
        self.run_quern(*self.arguments[:-1], "other.csv")
        self.assertEqual(len((self.folder / "other.csv").read_text().splitlines()), 91)


class Export(Torture):
    outputs = ("n.onnx",)
    arguments = ("export", "mlp", "--weights", "w", "--out", "n.onnx")

    def prepare(self):
        self.make_rows()
        self.run_quern("train", "mlp", "--data", "csv:k.csv", "--batch", 16, "--steps", 1, "--save", "w")

    def test_each(self):
        self.check()


class Import(Export):
    outputs = ()
    arguments = ("import", "n.onnx")

    def prepare(self):
        super().prepare()
        self.run_quern(*Export.arguments)


class Convert(Torture):
    outputs = ("c",)
    arguments = ("convert", "w", "--model", "mlp", "--input", "1x1x3", "--classes", 2, "--out", "c")

    def prepare(self):
        self.make_rows()
        self.run_quern("train", "mlp", "--data", "csv:k.csv", "--batch", 16, "--steps", 1, "--momentum", 0, "--save", "w")

    def test_each(self):
        self.check()


class Trained(Torture):
    """Commands that read the weights of a run."""
    training = ("train", "mlp", "--data", "csv:k.csv", "--batch", 16, "--steps", 2, "--threads", 1, "--holdout", 0.2, "--save", "w")
    more = ()

    def prepare(self):
        self.make_rows()
        self.run_quern(*self.training, *self.more)


class Evaluate(Trained):
    outputs = ("c.csv", "p.html")
    arguments = ("evaluate", "--weights", "w", "--confusion", "c.csv", "--html", "p.html")

    def test_each(self):
        self.check()


class Predict(Trained):
    arguments = ("predict", "csv:n.csv", "--weights", "w")

    def test_each(self):
        self.check()


class Merge(Trained):
    outputs = ("m",)
    more = ("--save", "base")
    arguments = ("merge", "mlp", "--weights", "a", "--out", "m")

    def prepare(self):
        super().prepare()
        self.run_quern(*self.training, "--load", "base", "--lora", "rank=2,layers=fc*", "--save", "a")

    def test_each(self):
        self.check()


class Inspect(Torture):
    outputs = ("p.html",)
    arguments = ("inspect", "csv:k.csv", "--html", "p.html")

    def prepare(self):
        self.make_rows()

    def test_each(self):
        self.check()


class Plan(Torture):
    outputs = ("p.html", "p.json")
    arguments = ("plan", "mlp", "--input", "1x1x3", "--classes", 2, "--batch", 8, "--html", "p.html", "--save", "p.json")

    def content(self, name):
        """The page says how long planning took."""
        content = super().content(name)
        return content.rstrip().endswith(b"</html>") if content and name == "p.html" else content

    def test_each(self):
        self.check()


class Join(Torture):
    """A labeller that is corrected; beside it stays what undo goes back to."""
    outputs = ("l", "l.before")
    arguments = ("label", "merge", "l", "x", "y")

    def prepare(self):
        self.make_rows()
        self.run_quern("label", "init", "--known", "csv:k.csv", "--out", "l")
        self.run_quern("label", "stream", "l", "--data", "csv:n.csv", "--out", "o.csv")

    def test_each(self):
        self.check()


class Adapters(Torture):
    """A language model, whose weights stay in its file."""
    outputs = ("w",)
    arguments = ("train", "m.gguf", "--data", "text:t.txt", "--length", 24, "--batch", 3, "--lora", "rank=2", "--steps", 2,
                 "--threads", 1, "--no-test", "--save", "w")

    def prepare(self):
        import language_files as made  # needs numpy
        (self.folder / "t.txt").write_text("abc dab cab aebf dgaf " * 20)
        (self.folder / "m.gguf").write_bytes(made.gguf(made.LLAMA | made.TOKENIZER, made.tame_tensors()))

    def look_at_output(self, name, said, done):
        """Also the checkpoint of a step between."""
        if done.returncode != 1 or self.content(name) is None or quern.metadata_of(self.folder / name)["step"] != "1":
            super().look_at_output(name, said, done)

    def again(self):
        return (*self.arguments, "--resume", "w") if (self.folder / "w").exists() else self.arguments

    def test_each(self):
        self.check()


class Send(Adapters):
    """Adapters, exported for other programs."""
    outputs = ("a.gguf",)
    arguments = ("export", "m.gguf", "--weights", "w", "--out", "a.gguf")
    look_at_output = Torture.look_at_output
    again = Torture.again

    def prepare(self):
        super().prepare()
        self.run_quern(*Adapters.arguments)


class Draw(Adapters):
    outputs = ()
    arguments = ("sample", "m.gguf", "--prompt", "abc", "--tokens", 3, "--temperature", 0, "--threads", 1)
    again = Torture.again

    def test_without_mappings(self):
        """A file system that maps no files: the weights are read instead."""
        self.prepare()
        done, counts = self.run_failing()
        found = [self.run_failing(f"mmap:{call}", "ENODEV")[0] for call in range(1, counts["mmap"] + 1)]
        self.assertIn((0, done.stdout), [(one.returncode, one.stdout) for one in found])


class Pretrained(Trained):
    arguments = ("pretrained", "--dir", "starts")

    def prepare(self):
        super().prepare()
        (self.folder / "starts").mkdir()
        shutil.copy(self.folder / "w", self.folder / "starts/w.safetensors")

    def test_each(self):
        self.check()


class App(Torture):
    """A folder: its last file says that it is whole."""
    outputs = ("app",)
    arguments = ("federate", "app", "--model", "mlp", "--data", "csv:k.csv", "--holdout", 0.2, "--clients", 3, "--per-round", 2,
                 "--out", "app")

    def prepare(self):
        self.make_rows()

    def content(self, name):
        folder = self.folder / name
        if not (folder / "pyproject.toml").exists():
            return None
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def test_each(self):
        self.check()


@unittest.skipUnless(quern.ALL or "QUERN_TORTURE" in os.environ, "a run takes half a second: script/torture, and --all")
class Fit(Torture):
    """A head on features, which are kept in the cache."""
    outputs = ("w",)
    part = 0.1
    arguments = ("train", "--data", "images:photos", "--start", "body", "--threads", 1, "--no-test", "--save", "w")

    def prepare(self):
        for i in range(8):
            picture(self.folder / f"photos/{i % 2}/{i}.png", i % 2, i)
        starts = self.folder / "data/quern/pretrained"
        starts.mkdir(parents=True)
        self.environment.update(XDG_DATA_HOME=str(self.folder / "data"), XDG_DATA_DIRS=str(self.folder / "none"))
        self.run_quern("train", "efficientnet-lite0", "--data", "images:photos", "--input", "128", "--steps", 1, "--batch", 4,
                       "--no-test", "--save", starts / "body.safetensors")

    def again(self):
        return self.arguments

    def test_each(self):
        self.check()


class Federate(Torture):
    outputs = ("f",)
    arguments = ("federate", "simulate", "--model", "mlp", "--data", "csv:k.csv", "--holdout", 0.2, "--clients", 3, "--rounds", 2,
                 "--per-round", 2, "--batch", 8, "--threads", 1, "--save", "f")

    def prepare(self):
        self.make_rows()

    def look_at_output(self, name, said, done):
        """Also the round between."""
        if done.returncode == 0 or self.content(name) is None:
            super().look_at_output(name, said, done)
        else:
            quern.metadata_of(self.folder / name)

    def test_each(self):
        self.check()


class Learn(Torture):
    """The store is a database: its rows are compared, not its bytes."""
    outputs = ("s",)
    arguments = ("learn", "start", "s", "--model", "m", "--data", "images:inbox", "--when", "cool:95", "--once", "--threads", 1,
                 "--keep", 40)

    def prepare(self):
        for i in range(24):
            picture(self.folder / f"old/{i % 4}/{i}.png", i % 4, i)
        for i in range(12):
            picture(self.folder / f"inbox/{i % 4}/{i}.png", i % 4, 100 + i)
        self.run_quern("train", "lenet5", "--data", "images:old", "--input", "28x28x1", "--steps", 2, "--batch", 8,
                       "--threads", 1, "--augment", "none", "--save", "m")

    def content(self, name):
        path = self.folder / name / "learn.db"
        if not path.exists():
            return None
        with contextlib.closing(sqlite3.connect(path)) as store:
            return [store.execute(statement).fetchall() for statement in (
                "SELECT number, steps, part, weights FROM version ORDER BY number",
                "SELECT origin, held_out, place, label, name, x FROM sample ORDER BY 1, 2, 3")]

    def look_at_output(self, name, said, done):
        """What was taken before a failure stays, and is sound; one that passes loses no picture and changes no bit."""
        path = self.folder / name / "learn.db"
        if done.returncode == 0 or not path.exists():
            super().look_at_output(name, said, done)
            return
        with contextlib.closing(sqlite3.connect(path)) as store:
            self.assertEqual(store.execute("PRAGMA integrity_check").fetchone(), ("ok",), said)

    def test_each(self):
        self.check()

    def test_unread(self):
        """Pictures that cannot be opened are left for later: the user's for the next listing, old ones for the next start."""
        self.prepare()
        arguments = (*self.arguments, "--old", "images:old")
        done, _ = disk.run(self, arguments, fail="look:all", match="/5.png")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("left for later", done.stdout)
        names = {row[4] for row in self.content("s")[1]}
        self.assertNotIn("1/5.png", names)
        self.assertEqual(len(names), 23)
        self.run_quern(*arguments)
        self.assertEqual(sum(row[4] == "1/5.png" for row in self.content("s")[1]), 2)


class Pair:
    """The two programs of split learning, in a folder of a test; the peer has a file for each run."""

    def __init__(self, case):
        self.case = case

    def train(self, place, *more):
        return ("split", "train", "--peer", place, "--cut", "fc1", "--model", "mlp", "--data", "csv:k.csv", "--holdout", 0.2,
                "--batch", 16, "--epochs", 2, "--lr", 0.1, "--threads", 1, "--save", "device/f", *more)

    def serve(self, environment=None):
        """The peer, and where it listens; None: it ended before."""
        (self.case.folder / "device").mkdir(exist_ok=True)
        (self.case.folder / "peer").mkdir(exist_ok=True)
        peer = subprocess.Popen([quern.QUERN, "split", "serve", "--listen", "0", "--save", "peer", "--threads", "1"],
                                cwd=self.case.folder, env=environment or self.case.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)
        said = re.search(r"port (\d+)", peer.stdout.readline())
        return peer, said and f"localhost:{said[1]}"

    def end(self, peer):
        """Asks the peer to end; what it said."""
        peer.terminate()
        try:
            return peer.communicate(timeout=SECONDS)[1]
        except subprocess.TimeoutExpired:
            peer.kill()
            peer.communicate()
            self.case.fail("split serve does not end after TERM")

    def recover(self):
        """Both again, from where the device's half is."""
        peer, place = self.serve()
        more = ("--resume", "device/f") if (self.case.folder / "device/f").exists() else ()
        try:
            self.case.run_quern(*self.train(place, *more))
        finally:
            self.end(peer)

    def whole(self):
        """Weights of the network of both halves."""
        run = quern.metadata_of(self.case.folder / "device/f")["split.run"]
        back, = (path for path in (self.case.folder / "peer").iterdir()
                 if not path.name.endswith(".before") and quern.metadata_of(path)["split.run"] == run)
        self.case.run_quern("split", "join", "device/f", f"peer/{back.name}", "--out", "device/whole")
        whole = quern.weights_of(self.case.folder / "device/whole")
        (self.case.folder / "device/whole").unlink()
        return whole


class Split(Torture):
    """Runs have random names: the weights of the network of both halves are compared."""
    outputs = ("device", "peer")
    each = 2
    fails_at_peer = False

    def prepare(self):
        self.make_rows()
        self.pair = Pair(self)

    def content(self, name):
        if name == "device":
            return self.pair.whole() if (self.folder / "device/f").exists() else None
        return (self.folder / name).exists() or None

    def run_failing(self, fail=None, number=None):
        counts = disk.counts_path(self)
        environment = disk.environment_of(self, counts, fail=fail)
        if number:
            environment["QUERN_DISK_ERRNO"] = str(getattr(errno, number))
        peer, place = self.pair.serve(environment if self.fails_at_peer else None)
        try:
            done = subprocess.run([quern.QUERN, *map(str, self.pair.train(place or "localhost:1"))], cwd=self.folder,
                                  env=None if self.fails_at_peer else environment, capture_output=True, text=True,
                                  check=False, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            self.fail(f"{fail} {number}: does not end within {SECONDS} s")
        finally:
            said = self.pair.end(peer)
        self.assertIn(peer.returncode, (0, 1, 2), said)
        return done, disk.take_counts(counts)

    def look_at_output(self, name, said, done):
        """Each half is whole, if it is there; both together are looked at after a recovery."""
        if done.returncode == 0:
            super().look_at_output(name, said, done)
        for path in (self.folder / name).glob("*"):
            self.assertIn("split.run", quern.metadata_of(path), said)

    def recover(self):
        self.pair.recover()

    def test_each(self):
        self.check()


class Peer(Split):
    fails_at_peer = True


class Study(Torture):
    """Its numbers are times; what does not depend on them is compared. A cell that failed is a row with the reason."""
    outputs = ("study",)
    part = 0.25
    each = 2
    arguments = ("study", "--models", "mlp", "--batches", "4", "--quick", "--seconds", "0.01", "--steps", 1, "--no-drip",
                 "--threads", 1, "--out", "study")
    columns = ("model", "kind", "state", "reason", "batch", "parameter_bytes", "gradient_bytes", "state_bytes", "input_bytes",
               "feature_bytes", "workspace_bytes", "engine_peak_bytes")

    def rows(self):
        with open(self.folder / "study/study.csv", encoding="utf-8", newline="") as file:
            return [tuple(row[column] for column in self.columns) for row in csv.DictReader(file)]

    def content(self, name):
        folder = self.folder / name
        if not (folder / "study.csv").exists():
            return None
        return (sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()), self.rows(),
                (folder / "settings.json").read_bytes())

    def look_at_output(self, name, said, done):
        """Whole files alone, and a reason for what was not measured."""
        for path in (self.folder / name).rglob("*.json"):
            json.loads(path.read_text(encoding="utf-8"))
        for row in self.rows() if (self.folder / name / "study.csv").exists() else ():
            self.assertTrue(row[2] in ("done", "waiting") or row[3], f"{said}: {row}")
        if done.returncode == 0 and all(row[2] == "done" for row in self.rows()):
            super().look_at_output(name, said, done)
        elif done.returncode == 0:
            self.recover()
            self.assertEqual(self.content(name), self.new[name], said)

    def again(self):
        return (*self.arguments, "--retry")

    def test_each(self):
        self.check()


def print_table():
    kinds = list(NUMBERS)
    print("command".ljust(10), *(kind.rjust(12) for kind in kinds))
    for name, counts, tried in TABLE:
        print(name.ljust(10), *(f"{tried.get(kind, 0)}/{counts.get(kind, 0)}".rjust(12) for kind in kinds))


if __name__ == "__main__":
    shows = "--table" in sys.argv
    wanted = [word.capitalize() for word in sys.argv[1:] if word != "--table"]
    program = unittest.main(argv=[sys.argv[0], *wanted], exit=False)
    print_table()
    sys.exit(not program.result.wasSuccessful())
