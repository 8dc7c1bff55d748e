"""The disk under quern learn: pictures that cannot be read for a while are taken later, whatever the reason; and the folder
never takes more than --disk says, temporary files and what the store needs to undo included."""
import contextlib
import errno
import sqlite3
import unittest

import disk
import quern
import test_torture


def peak(log, root, sizes, names):
    """The most that files under a folder took; sizes by file and names by path go on from a log before."""
    most, nameless = 0, set()
    for kind, *words in log:
        if kind == "N":
            nameless.add(int(words[0]))
            sizes[int(words[0])] = 0
        elif kind == "O":
            number, truncates, path = words[0].split(" ", 2)
            if not path.startswith(root):
                continue
            if names.get(path) != int(number) or truncates == "1":
                sizes[int(number)] = 0
            names[path] = int(number)
        elif kind == "W" and words[0] in sizes:
            sizes[words[0]] = max(sizes[words[0]], words[1] + len(words[2]))
        elif kind == "T" and int(words[0].split()[0]) in sizes:
            sizes[int(words[0].split()[0])] = int(words[0].split()[1])
        elif kind == "L":
            number, path = words[0].split(" ", 1)
            names[path] = int(number)
            nameless.discard(int(number))
        elif kind == "R":
            old, new = words[0].split("\t")
            if old in names:
                names[new] = names.pop(old)
        elif kind == "U":
            names.pop(words[0], None)
        most = max(most, sum(sizes[number] for number in set(names.values()) | nameless))
    return most


class LearnDisk(quern.Case):
    place = quern.IN_MEMORY
    arguments = test_torture.Learn.arguments[:-2]  # without --keep

    def setUp(self):
        super().setUp()
        test_torture.Learn.prepare(self)
        self.sizes, self.names = {}, {}

    def rows(self, statement):
        with contextlib.closing(sqlite3.connect(self.folder / "s/learn.db")) as store:
            return store.execute(statement).fetchall()

    def taken(self):
        return {name for name, in self.rows("SELECT name FROM sample")}

    def test_unread(self):
        """Opening or reading a picture fails for as long as a run lasts: the others are taken, it is by the next run."""
        names = {f"{i % 4}/{i}.png" for i in range(12)}
        for kind, number in (("look", "EMFILE"), ("look", "EACCES"), ("read", "EIO"), ("read", "ESTALE"), ("look", "ENFILE")):
            self.environment["QUERN_DISK_ERRNO"] = str(getattr(errno, number))
            done, _ = disk.run(self, self.arguments, fail=f"{kind}:all", match="inbox/1/5.png")
            self.assertEqual(done.returncode, 0, f"{kind} {number}: {done.stderr}")
            self.assertIn("left for later", done.stdout, f"{kind} {number}")
            self.assertEqual(self.taken(), names - {"1/5.png"}, f"{kind} {number}")
            self.run_quern(*self.arguments)
            self.assertEqual(self.taken(), names, f"{kind} {number}")
            for path in (self.folder / "s").iterdir():
                path.unlink()
            (self.folder / "s").rmdir()

    def run_watched(self, limit):
        log = self.folder.parent / f"{self.folder.name}.log"
        done, _ = disk.run(self, (*self.arguments, "--disk", limit), log=log)
        most = peak(disk.read_log(log), f"{self.folder}/s/", self.sizes, self.names)
        log.unlink()
        there = sum(path.stat().st_size for path in (self.folder / "s").iterdir())
        self.assertLessEqual(there, most)
        return done, most

    def test_limit(self):
        """Days of pictures at the smallest --disk that is accepted; one below what is there says so, and loses nothing."""
        done, _ = disk.run(self, (*self.arguments, "--disk", "3M"))
        self.assertEqual(done.returncode, 2)
        self.assertRegex(done.stderr, "--disk leave room for -?[0-9]+ samples")
        limit = 4_300_000
        for day in range(3):
            for i in range(60):
                test_torture.picture(self.folder / f"inbox/{i % 4}/{day}-{i}.png", (i + day) % 4, 1000 * day + i)
            done, most = self.run_watched(limit)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertLessEqual(most, limit, f"day {day}")
        self.assertGreater(most, limit // 2)
        n = len(self.taken())
        for i in range(400):
            test_torture.picture(self.folder / f"inbox/{i % 4}/more-{i}.png", i % 4, 9000 + i)
        size = (self.folder / "s/learn.db").stat().st_size
        done, _ = self.run_watched(3_000_000)
        self.assertEqual((done.returncode, "--disk is reached" in done.stderr), (1, True), done.stderr)
        self.assertLessEqual((self.folder / "s/learn.db").stat().st_size, size)
        self.assertGreaterEqual(len(self.taken()), n)
        self.assertEqual(self.rows("PRAGMA integrity_check"), [("ok",)])
        done, _ = self.run_watched(9_000_000)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.rows("SELECT count(*) FROM taken")[0][0], 2 * (12 + 180 + 400))


if __name__ == "__main__":
    unittest.main()
