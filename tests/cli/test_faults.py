"""Each call in turn that fails once while a run saves: write, sync, rename, link, open, and every allocation. The files are
then old or new ones, never neither, no other file is left, and training goes on from them to the same end."""
import errno
import json
import random
import re
import struct
import unittest

import disk
import quern

# How many of each kind are tried where not all are.
SOME = {"write": 3, "sync": 4, "rename": 2, "link": 2, "open": 3, "alloc": 8, "look": 2, "read": 2, "room": 4, "mmap": 1}


def weights(file):
    """The tensors of a safetensors file, as bytes; the file must be whole."""
    length = struct.unpack("<Q", file[:8])[0]
    header = json.loads(file[8:8 + length])
    ends = [entry["data_offsets"][1] for name, entry in header.items() if name != "__metadata__"]
    assert max(ends) == len(file) - 8 - length
    return file[8 + length:]


class Faults(quern.Case):
    place = quern.IN_MEMORY

    def setUp(self):
        super().setUp()
        self.data = self.make_images(64)
        self.arguments = ["train", "lenet5", "--data", self.data, "--validation", 0.25, "--batch", 16, "--steps", 4,
                          "--threads", 1, "--save", "w", "--save-best", "b", "--checkpoint-every", 1]

    def begin(self):
        """The old files: those of a run of one step."""
        for path, content in self.old.items():
            (self.folder / path).write_bytes(content)

    def look(self, said, done):
        """What is there after a run, and that it is as it says."""
        names = {path.name for path in self.folder.iterdir()}
        self.assertEqual(names - {"cache"}, {"w", "b", "x.npy", "x-y.npy"}, said)
        self.assertIn(done.returncode, (0, 1), said + done.stderr)
        self.assertNotIn("Sanitizer", done.stderr)
        if done.returncode == 0:
            self.assertEqual(self.bytes_of("w"), self.whole["w"], said)
        for name in self.old:
            # Beside the weights of a step there may be no note yet of what was best.
            self.assertIn(weights(self.bytes_of(name)), self.known[name],
                          f"{said}: {name} is neither old nor new\n{done.stderr}")
        saved = re.search(r"w (still )?holds the checkpoint of step (\d+)", done.stderr)
        if saved:
            self.assertEqual(quern.metadata_of(self.folder / "w")["step"], saved.group(2), said)

    def each(self, nameless):
        self.run_quern(*self.arguments[:-8], "--steps", 1, "--save", "w", "--save-best", "b",
                       "--override")
        self.old = {name: self.bytes_of(name) for name in ("w", "b")}
        log = self.folder.parent / f"{self.folder.name}.log"
        self.addCleanup(log.unlink, missing_ok=True)
        watched = disk.Disk(self.folder)
        done, counts = disk.run(self, self.arguments, nameless=nameless, log=log)
        self.assertEqual(done.returncode, 0, done.stderr)
        for operation in disk.read_log(log):
            watched.do(operation)
        self.known = {name: {weights(version) for version in watched.versions[str(self.folder / name)]}
                      for name in self.old}
        self.whole = {name: self.bytes_of(name) for name in self.old}
        draw = random.Random(1)
        for kind, n in counts.items():
            calls = range(1, n + 1)
            if not quern.ALL:
                calls = draw.sample(calls, min(n, SOME.get(kind, 0) // (4 if quern.SLOW else 1)))
            for call in calls:
                yield f"{kind}:{call}"

    def goes_on(self, said):
        self.run_quern(*self.arguments, "--resume", "w")
        self.assertEqual(self.bytes_of("w"), self.whole["w"], said)

    def test_each(self):
        for nameless in (True, False):
            for i, fail in enumerate(self.each(nameless)):
                self.begin()
                done, _ = disk.run(self, self.arguments, fail=fail, nameless=nameless)
                self.look(fail, done)
                if i % 5 == 0 or quern.ALL:
                    self.goes_on(fail)

    def test_room(self):
        """A disk or quota that is too full is found before the first step; a file system that sets no blocks aside
        gets zeros, and the file the same bytes."""
        numbers = {"ENOSPC": errno.ENOSPC, "EDQUOT": errno.EDQUOT}
        arguments = [*self.arguments, "--json"]
        whole = disk.run(self, arguments)
        weights = {name: self.bytes_of(name) for name in ("w", "b")}
        for nameless in (True, False):
            for call, name in ((1, "w"), (2, "b")):
                for number in numbers.values():
                    for path in ("w", "b"):
                        (self.folder / path).unlink(missing_ok=True)
                    self.environment["QUERN_DISK_ERRNO"] = str(number)
                    done, _ = disk.run(self, arguments, fail=f"room:{call}", nameless=nameless)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertRegex(done.stderr, f"cannot keep [0-9]+ bytes of [0-9]+ that are free for {name}: ")
                    self.assertNotIn('"event":"step"', done.stdout)
                    self.assertEqual({path.name for path in self.folder.iterdir()} - {"cache"}, {"x.npy", "x-y.npy"})
            self.environment.update(QUERN_DISK_ERRNO=str(errno.EOPNOTSUPP))
            done, counts = disk.run(self, arguments, fail="room:all", nameless=nameless)
            self.assertEqual((done.returncode, done.stderr), (0, whole[0].stderr))
            self.assertGreater(counts["room"], whole[1]["room"])  # tried in two ways
            self.assertEqual({name: self.bytes_of(name) for name in weights}, weights)

    def test_room_later(self):
        """A disk that is full after a checkpoint: a warning, once, and training goes on."""
        self.run_quern(*self.arguments)
        whole = self.bytes_of("w")
        (self.folder / "w").unlink()
        (self.folder / "b").unlink()
        done, _ = disk.run(self, self.arguments, fail="room:3")
        self.assertEqual((done.returncode, done.stderr.count("no room is kept for the next checkpoint")), (0, 1))
        self.assertEqual(self.bytes_of("w"), whole)

    def test_beside_training(self):
        """A picture that cannot be written warns, and training goes on."""
        arguments = ["train", "dcgan", "--data", "synthetic", "--batch", 2, "--steps", 2, "--no-test", "--picture",
                     "p.png", "--picture-every", 1, "--save", "w"]
        self.run_quern(*arguments)
        whole = self.bytes_of("w")
        for fail in ("write:1", "sync:2", "rename:1", "open:3") if quern.ALL else ("write:1", "rename:1"):
            done, _ = disk.run(self, arguments, fail=fail, match=".png", nameless=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("warning", done.stderr)
            self.assertEqual(self.bytes_of("w"), whole)


if __name__ == "__main__":
    unittest.main()
