"""Room on the disk is looked for before the work: a disk without it ends federate, split (on both sides), learn and study
before the first step, and leaves no file behind that was not there; room that was kept holds until it is written to."""
import errno
import os
import subprocess
import unittest

import disk
import quern
import test_torture


class Room(quern.Case):
    place = quern.IN_MEMORY
    make_rows = test_torture.Torture.make_rows

    def files(self):
        return {str(path.relative_to(self.folder)): path.read_bytes() for path in self.folder.rglob("*")
                if path.is_file() and path.relative_to(self.folder).parts[0] != "cache"}

    def refused(self, arguments, name, never, call=1, leaves=()):
        """The call that sets blocks aside fails with each number that a full disk gives."""
        before = self.files()
        for number in ("ENOSPC", "EDQUOT"):
            self.environment["QUERN_DISK_ERRNO"] = str(getattr(errno, number))
            done, _ = disk.run(self, arguments, fail=f"room:{call}")
            self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
            self.assertRegex(done.stderr, rf"cannot keep [0-9]+ bytes of [0-9]+ that are free for \S*{name}: ")
            self.assertNotIn(never, done.stdout)
            left = self.files()
            self.assertEqual({path: left[path] for path in left if path not in leaves}, before)

    def test_federate(self):
        self.make_rows()
        arguments = test_torture.Federate.arguments
        self.refused((*arguments, "--json"), "f", '"round"')
        kept = (*arguments, "--personal", "*fc3*", "--json")
        self.refused(kept, "f.clients", '"round"')
        self.refused(kept, "f", '"round"', call=2, leaves=("f.clients",))
        # What a file system that sets no blocks aside gets is the same.
        done, counts = disk.run(self, arguments)
        self.assertEqual((done.returncode, counts["room"] > 1), (0, True))
        whole = self.bytes_of("f")
        self.environment["QUERN_DISK_ERRNO"] = str(errno.EOPNOTSUPP)
        for nameless in (True, False):
            (self.folder / "f").unlink()
            done, _ = disk.run(self, arguments, fail="room:all", nameless=nameless)
            self.assertEqual((done.returncode, self.bytes_of("f")), (0, whole), done.stderr)

    def test_split(self):
        """The side that has no room says so to the other, before a step."""
        self.make_rows()
        self.pair = test_torture.Pair(self)
        for at_peer, calls in ((False, (1,)), (True, (1, 2))):
            for call in calls:
                environment = disk.environment_of(self, disk.counts_path(self), fail=f"room:{call}")
                peer, place = self.pair.serve(environment if at_peer else None)
                done = subprocess.run([quern.QUERN, *map(str, self.pair.train(place))], cwd=self.folder, capture_output=True,
                                      env=None if at_peer else environment, text=True, check=False, timeout=60)
                said = self.pair.end(peer)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("cannot keep", done.stderr)
                self.assertNotIn("epoch", done.stdout)
                self.assertEqual([*(self.folder / "device").iterdir(), *(self.folder / "peer").iterdir()], [], said)

    def test_learn(self):
        test_torture.Learn.prepare(self)
        done, counts = disk.run(self, test_torture.Learn.arguments)
        self.assertEqual((done.returncode, counts["room"]), (0, 1), done.stderr)
        for path in (self.folder / "s").iterdir():
            path.unlink()
        (self.folder / "s").rmdir()
        self.refused(test_torture.Learn.arguments, "model.safetensors", "may learn")
        self.assertFalse((self.folder / "s").exists())

    def test_label(self):
        self.make_rows()
        self.refused(test_torture.Label.arguments, "l", "classes")
        self.run_quern(*test_torture.Label.arguments)
        self.refused(test_torture.Stream.arguments, "l", "samples", leaves=("o.csv",))
        self.run_quern(*test_torture.Stream.arguments)

    def test_days(self):
        arguments = ("learn", "simulate", "--data", "synthetic", "--model", "lenet5", "--days", 1, "--start", 64, "--keep", 64,
                     "--test", 64, "--threads", 1, "--save", "m")
        self.refused(arguments, "m", "day 1")

    def test_study(self):
        self.refused(test_torture.Study.arguments, "report.html", "mlp", leaves=("study/settings.json",))


class SmallDisk(quern.Case):
    """The same on a real disk of 2 MiB, which another program fills."""

    def setUp(self):
        super().setUp()
        test_torture.Torture.make_rows(self)
        self.disk = self.folder / "disk"
        self.disk.mkdir()
        self.mount("-t", "tmpfs", "-o", "size=2m", "tmpfs", self.disk)

    def fill(self, but):
        """All but so many bytes."""
        status = os.statvfs(self.disk)
        (self.disk / "filling").write_bytes(bytes(status.f_bavail * status.f_frsize - but))

    def test_full(self):
        """A checkpoint of 140 kB on a disk with 60 kB: refused at once; with room it is there."""
        arguments = [*test_torture.Federate.arguments[:-1], "disk/f", "--json"]
        self.fill(60_000)
        run = self.run_quern(*arguments, status=1)
        self.assertRegex(run.errors, "cannot keep [0-9]+ bytes of [0-9]+ that are free for disk/f")
        self.assertEqual(run.of("round"), [])
        (self.disk / "filling").unlink()
        self.run_quern(*arguments)
        self.assertTrue((self.disk / "f").exists())


if __name__ == "__main__":
    unittest.main()
