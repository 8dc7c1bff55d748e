"""Files in the cache folder: one that is damaged is made again, and where the folder cannot be written, everything works
without it. What is kept is listed, bounded and removed."""
import gzip
import os
import random
import shutil
import struct
import subprocess
import unittest

import quern

TRAIN = ["train", "lenet5", "--batch", 16, "--steps", 4, "--no-test", "--threads", 1, "--save", "w"]


class Cache(quern.Case):
    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache" / "quern"

    def make_idx(self):
        """A set of images as gzipped IDX files; its name."""
        draw = random.Random(1)
        folder = self.folder / "idx"
        folder.mkdir()
        for stem, n in (("train", 64), ("t10k", 16)):
            labels = bytes(i % 10 for i in range(n))
            pixels = bytes(draw.randrange(256) for _ in range(n * 784))
            for name, header, data in (
                    (f"{stem}-images-idx3-ubyte.gz", struct.pack(">IIII", 2051, n, 28, 28), pixels),
                    (f"{stem}-labels-idx1-ubyte.gz", struct.pack(">II", 2049, n), labels)):
                (folder / name).write_bytes(gzip.compress(header + data))
        return f"idx:{folder}"

    def make_csv(self):
        draw = random.Random(2)
        lines = ["label," + ",".join(f"x{i}" for i in range(8))]
        lines += [f"{i % 3}," + ",".join(f"{draw.random():.4f}" for _ in range(8)) for i in range(200)]
        (self.folder / "rows.csv").write_text("\n".join(lines) + "\n")
        return "csv:rows.csv"

    def train(self, data, model="lenet5"):
        run = self.run_quern("train", model, "--data", data, *TRAIN[2:])
        return run, self.bytes_of("w")

    def test_damaged(self):
        """Cut short, longer, any byte changed, empty, of another kind: made again, the same weights."""
        for model, data in (("lenet5", self.make_idx()), ("mlp", self.make_csv())):
            before = set(self.cache.iterdir()) if self.cache.exists() else set()
            _, first = self.train(data, model)
            kept = {path: path.read_bytes() for path in set(self.cache.iterdir()) - before}
            largest = max(kept, key=lambda path: len(kept[path]))
            whole = kept[largest]
            draw = random.Random(3)
            places = [0, len(whole) - 1, *(draw.randrange(len(whole)) for _ in range(6))]
            cases = [whole[:-1], whole[:len(whole) // 2], b"", whole + b"x", b"text\n" * 10]
            cases += [whole[:at] + bytes([whole[at] ^ 16]) + whole[at + 1:] for at in places]
            for case in cases:
                largest.write_bytes(case)
                run, weights = self.train(data, model)
                self.assertIn("is damaged, and is made again", run.errors, (model, case[:50], largest))
                self.assertEqual(weights, first)
                self.assertEqual(largest.read_bytes(), whole)
            run, _ = self.train(data, model)
            self.assertNotIn("damaged", run.errors)

    def test_in_the_way(self):
        """A folder where the file should be."""
        data = self.make_idx()
        _, first = self.train(data)
        for path in [path for path in self.cache.iterdir() if path.name != "sources"]:
            path.unlink()
            path.mkdir()
        run, weights = self.train(data)
        self.assertIn("cannot be cached", run.errors)
        self.assertEqual(weights, first)

    def test_unwritable(self):
        """Each of what is kept, where nothing can be: unpacked files, times of operations, tiles, swap speed."""
        data = self.make_idx()
        _, first = self.train(data)
        (self.folder / "plain").write_text("no folder")
        (self.folder / "tmp").mkdir()
        for tmp in (self.folder / "tmp", self.folder / "plain"):
            self.environment.update(XDG_CACHE_HOME=str(self.folder / "plain" / "x"), TMPDIR=str(tmp))
            run, weights = self.train(data)
            self.assertEqual(weights, first)
            self.assertEqual("cannot be cached" in run.errors, tmp.name == "plain", run.errors)
            self.run_quern("train", "lenet5", "--data", data, *TRAIN[2:], "--memory", "8M", "--swap", ".",
                           "--tune", "quick")
            self.run_quern("profile", "lenet5", "--data", data, "--steps", 2, "--batch", 16)

    def test_damaged_tables(self):
        """Every other file that is kept, filled with something else: nothing fails, and it is whole afterwards."""
        data = self.make_idx()
        command = ["train", "lenet5", "--data", data, *TRAIN[2:], "--memory", "8M", "--swap", ".", "--tune", "quick",
                   "--measure"]
        self.run_quern(*command)
        self.run_quern("profile", "lenet5", "--data", data, "--steps", 2, "--batch", 16)
        weights = self.bytes_of("w")
        kept = [path for path in self.cache.iterdir() if path.name != "sources"]
        self.assertGreaterEqual(len(kept), 6)
        for path in kept:
            for text in (b"", b"\xff" * 1000, path.read_bytes()[:-3]):
                path.write_bytes(text)
                self.run_quern(*command)
                self.assertEqual(self.bytes_of("w"), weights)
                if not path.name.startswith("roofline"):
                    self.assertNotEqual(path.read_bytes(), text, path.name)


class Command(quern.Case):
    """quern cache: what is kept, of what, and how much of it."""

    def setUp(self):
        super().setUp()
        self.cache = self.folder / "cache" / "quern"

    def make_csv(self, name, n=200):
        draw = random.Random(n)
        lines = ["x,y,label"] + [f"{draw.random():.4f},{draw.random():.4f},{i % 2}" for i in range(n)]
        (self.folder / name).write_text("\n".join(lines) + "\n")

    def train(self, name):
        self.run_quern("train", "mlp", "--data", f"csv:{name}", "--steps", 2, "--threads", 1, "--save", "w", "--override")
        return self.bytes_of("w")

    def kept(self):
        return {event["source"]: event for event in self.run_quern("cache", "--json").of("cached")}

    def test_list_and_remove(self):
        umask = os.umask(0o022)
        try:
            for name in ("a.csv", "b.csv"):
                self.make_csv(name)
                self.train(name)
        finally:
            os.umask(umask)
        kept = self.kept()
        self.assertEqual(set(kept), {str(self.folder / "a.csv"), str(self.folder / "b.csv")})
        for event in kept.values():
            path = self.cache / event["name"]
            self.assertEqual((path.stat().st_size, event["kind"]), (event["bytes"], "data, read"))
        self.assertEqual(self.cache.stat().st_mode & 0o777, 0o700)
        for path in self.cache.iterdir():
            self.assertEqual(path.stat().st_mode & 0o777, 0o600, path)
        self.assertIn("a.csv", self.run_quern("cache").output)
        self.run_quern("cache", "remove", "a.csv")  # by the data
        self.assertEqual(set(self.kept()), {str(self.folder / "b.csv")})
        self.assertNotIn("a.csv", (self.cache / "sources").read_text())
        self.train("a.csv")
        (self.folder / "a.csv").unlink()
        self.run_quern("cache", "remove", kept[str(self.folder / "b.csv")]["name"], self.folder / "a.csv")
        self.assertEqual(self.kept(), {})
        self.train("b.csv")
        self.run_quern("cache", "clear")
        self.assertEqual(list(self.cache.iterdir()), [])
        for wrong in (["remove"], ["remove", "none"], ["clear", "x"], ["list", "x"], ["burn"]):
            self.fails(2, "cache", *wrong)

    def test_limit(self):
        """What was not used for longest goes first; what is above the bound alone is not kept."""
        sources = []
        for i in range(4):
            self.make_csv(f"{i}.csv", 400)
            self.train(f"{i}.csv")
            sources.append(str(self.folder / f"{i}.csv"))
        sizes = self.kept()
        for i, source in enumerate(sources):  # the order of their uses
            os.utime(self.cache / sizes[source]["name"], (0, 1000 + i))
        self.train("0.csv")
        one = sizes[sources[0]]["bytes"]
        self.run_quern("cache", "--limit", 3 * one + 10)
        self.assertEqual(set(self.kept()), {sources[0], sources[2], sources[3]})
        self.make_csv("4.csv", 400)
        self.train("4.csv")
        self.assertEqual(set(self.kept()), {sources[0], sources[3], str(self.folder / "4.csv")})
        self.assertEqual(self.run_quern("cache", "--json").of("cache")[0]["limit_bytes"], 3 * one + 10)
        whole = self.train("4.csv")
        self.run_quern("cache", "--limit", one // 2)
        self.assertEqual(self.train("4.csv"), whole)
        self.assertEqual(self.kept(), {})

    def test_links(self):
        """A link in the folder is neither read nor written through."""
        self.make_csv("a.csv")
        whole = self.train("a.csv")
        precious = self.folder / "precious"
        kept = [path for path in self.cache.iterdir() if path.name != "sources"]
        for planted in [*kept, self.cache / "sources", self.cache / "limit"]:
            for content in (b"mine", kept[0].read_bytes() if kept[0].exists() else b"5\n"):
                precious.write_bytes(content)
                planted.unlink(missing_ok=True)
                planted.symlink_to(precious)
                self.assertEqual(self.train("a.csv"), whole)
                self.run_quern("cache", "--limit", "1M")
                self.assertEqual(precious.read_bytes(), content)
                self.assertFalse(planted.is_symlink())
        kept[0].unlink()
        kept[0].symlink_to(precious)
        self.run_quern("cache", "clear")
        self.assertTrue(precious.exists())
        self.assertFalse(kept[0].is_symlink())

    def test_together(self):
        """Many processes, a bound that only one file fits, and one that clears it all the time."""
        for i in range(3):
            self.make_csv(f"{i}.csv", 300)
        whole = [self.train(f"{i}.csv") for i in range(3)]
        self.run_quern("cache", "--limit", max(event["bytes"] for event in self.kept().values()) + 100)
        runs = [(i, self.start("train", "mlp", "--data", f"csv:{i % 3}.csv", "--steps", 2, "--threads", 1, "--save",
                               f"w{i}")) for i in range(6)]
        for _ in range(4):
            self.run_quern("cache", "clear")
        for i, run in runs:
            _, errors = run.communicate()
            self.assertEqual(run.returncode, 0, errors)
            self.assertEqual(self.bytes_of(f"w{i}"), whole[i % 3])


class Study(quern.Case):
    def test_read_only(self):
        """Said before the first cell."""
        missing = quern.missing_nobody()
        if missing:
            self.skipTest(missing)
        (self.folder / "plain").write_text("no folder")
        self.fails(1, "study", "--quick", "--out", "plain/x", says=["plain"])
        (self.folder / "shut").mkdir()
        self.folder.chmod(0o755)
        (self.folder / "shut").chmod(0o555)

        program = shutil.copy(quern.QUERN, self.folder)  # nobody may not look into every home
        run = subprocess.run([program, "study", "--quick", "--out", "shut"], cwd=self.folder,
                             capture_output=True, text=True, preexec_fn=quern.become_nobody, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn("shut", run.stderr)
        self.assertIn("denied", run.stderr)
        self.assertEqual(run.stdout, "")


if __name__ == "__main__":
    unittest.main()
