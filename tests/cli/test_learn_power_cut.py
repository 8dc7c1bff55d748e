"""A power cut while quern learn takes samples, trains and saves: at each point that was drawn, whatever the disk has
kept is a sound store, and the same command goes on from it to the versions and samples that it makes undisturbed."""
import contextlib
import pathlib
import random
import shutil
import sqlite3
import unittest

import disk
import quern
import test_torture

N_POINTS = 400 if quern.ALL else 12
ARGUMENTS = test_torture.Learn.arguments


class LearnPowerCut(quern.Case):
    place = quern.IN_MEMORY
    content = test_torture.Learn.content

    def setUp(self):
        super().setUp()
        test_torture.Learn.prepare(self)
        self.log = self.folder.parent / f"{self.folder.name}.log"
        self.addCleanup(self.log.unlink, missing_ok=True)

    def put(self, left):
        """The folder as a cut left it; inputs and cache were there for long."""
        for path in self.folder.rglob("*"):
            if path.is_file() and str(path) not in left and path.relative_to(self.folder).parts[0] != "cache":
                path.unlink()
        for path, content in left.items():
            pathlib.Path(path).parent.mkdir(parents=True, exist_ok=True)
            pathlib.Path(path).write_bytes(content)

    def look(self, left, said):
        shutil.rmtree(self.folder / "s", ignore_errors=True)
        self.put(left)
        done = self.run_quern(*ARGUMENTS)
        with contextlib.closing(sqlite3.connect(self.folder / "s/learn.db")) as store:
            self.assertEqual(store.execute("PRAGMA integrity_check").fetchone(), ("ok",), said)
        self.assertEqual(self.content("s"), self.whole, f"{said}: {done.errors}")

    def test_cuts(self):
        watched = disk.Disk(self.folder)
        done, _ = disk.run(self, ARGUMENTS, log=self.log)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.whole, path = self.content("s"), self.folder / "s/learn.db"
        store = path.read_bytes()
        self.assertGreater(len(self.whole[1]), 6)
        log = disk.read_log(self.log)
        points = set(random.Random(1).sample(range(len(log)), min(N_POINTS, len(log))))
        n_looked = 0
        for i, operation in enumerate(log):
            watched.do(operation)
            if i not in points:
                continue
            cuts = list(watched.cuts())
            for cut in cuts if quern.ALL else (cuts[0], cuts[-1]):
                self.look(cut, f"after operation {i}, {operation[0]}")
                n_looked += 1
        self.assertGreater(n_looked, 16)
        # The model of the disk is right: at the end it holds what the disk did.
        self.assertEqual(watched.written[watched.entries[str(path)]], store)


if __name__ == "__main__":
    unittest.main()
