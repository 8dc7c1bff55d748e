"""Checkpoints on real file systems in a file, vfat (no files without names) and ext4: kills leave one file at most, a
full disk leaves the old checkpoint, and a copy of the disk that is taken while it is written, as a power cut leaves
it, holds a whole one. Needs to mount, and is left out where that is not allowed."""
import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import tempfile
import time
import unittest

import quern

MAKE = {"vfat": ["mkfs.vfat"], "ext4": ["mkfs.ext4", "-q", "-F"]}


def tool(*words):
    environment = dict(os.environ, PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    return subprocess.run(list(map(str, words)), env=environment, capture_output=True, text=True, check=False)


class FileSystem:
    """What each is asked; mixed into a case."""

    def setUp(self):
        super().setUp()
        self.images = pathlib.Path(tempfile.mkdtemp(prefix="quern-disk-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.images)
        image = self.images / "disk"
        image.write_bytes(b"")
        os.truncate(image, 24 << 20)
        try:
            made = tool(*MAKE[self.kind], image)
        except FileNotFoundError:
            self.skipTest(f"there is no {MAKE[self.kind][0]}")
        self.assertEqual(made.returncode, 0, made.stderr)
        self.disk = self.mount_image(image)
        self.data = self.make_images(128)
        self.file = self.disk / "w.safetensors"

    def mount_image(self, image):
        place = self.images / f"{image.name}-mounted"
        place.mkdir()
        self.mount("-o", "loop", "-t", self.kind, image, place)
        return place

    def command(self, n_steps, file=None):
        file = file or self.file
        resumed = ["--resume", file] if file.exists() else []
        return ["train", "lenet5", "--data", self.data, "--batch", 16, "--threads", 1, "--steps", n_steps,
                "--schedule-steps", 1000000, "--no-test", "--save", file, "--checkpoint-every", 1, *resumed]

    def step_of(self, file):
        """The step of a checkpoint, which must be whole; 0: there is none."""
        if not file.exists():
            return 0
        content = file.read_bytes()
        length = struct.unpack("<Q", content[:8])[0]
        header = json.loads(content[8:8 + length])
        metadata = header.pop("__metadata__")
        self.assertEqual(max(entry["data_offsets"][1] for entry in header.values()), len(content) - 8 - length)
        return int(metadata["step"])

    def test_kills(self):
        draw = random.Random(1)
        for _ in range(8 if quern.ALL else 3):
            before = self.step_of(self.file)
            process = self.start(*self.command(10**9))
            while self.step_of(self.file) == before:
                time.sleep(0.01)
            time.sleep(draw.uniform(0, 0.2))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            left = {path.name for path in self.disk.iterdir()} - {"lost+found"}
            self.assertLessEqual(left, {self.file.name, self.file.name + ".quern-tmp"})
        n_steps = self.step_of(self.file) + 2
        self.run_quern(*self.command(n_steps))
        self.run_quern(*self.command(n_steps, self.folder / "whole"))
        self.assertEqual(self.file.read_bytes(), self.bytes_of("whole"))
        self.assertEqual({path.name for path in self.disk.iterdir()} - {"lost+found"}, {self.file.name})

    def test_cuts(self):
        """What the disk holds while the system does not know that it is read is what a power cut leaves."""
        process = self.start(*self.command(10**9))
        while self.step_of(self.file) == 0:
            time.sleep(0.01)
        steps = []
        for i in range(12 if quern.ALL else 4):
            least = self.step_of(self.file) - 1  # the last may be under way
            copy = self.images / f"cut-{i}"
            process.send_signal(signal.SIGSTOP)  # a copy takes time, and a cut none
            shutil.copyfile(self.images / "disk", copy)
            process.send_signal(signal.SIGCONT)
            steps.append(self.step_of(self.mount_image(copy) / self.file.name))
            self.assertGreaterEqual(steps[-1], least)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate()
        last = self.images / "cut-last"
        shutil.copyfile(self.images / "disk", last)
        self.assertIn(f"step {self.step_of(self.mount_image(last) / self.file.name)}\n", errors)
        self.assertEqual(steps, sorted(steps))

    def test_full(self):
        self.run_quern(*self.command(1))
        before = self.file.read_bytes()
        filling = self.disk / "filling"
        with self.assertRaises(OSError), open(filling, "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        run = self.run_quern(*self.command(3), "--json", status=1)
        self.assertRegex(run.errors, r"cannot keep \d+ bytes of \d+ that are free for .*No space left")
        self.assertEqual(run.of("step"), [])
        self.assertEqual(self.file.read_bytes(), before)
        filling.unlink()
        self.run_quern(*self.command(3))
        self.assertEqual(self.step_of(self.file), 3)


    def test_room(self):
        """A disk that others fill while a run is under way has room for its checkpoint."""
        self.run_quern(*self.command(1))
        process = self.start(*self.command(10**9), "--checkpoint-every", 0, "--json")
        next(line for line in process.stdout if '"event":"step"' in line)
        with self.assertRaises(OSError), open(self.disk / "filling", "wb", buffering=0) as file:
            while True:
                file.write(bytes(4096))
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate()
        last = [json.loads(line) for line in output.splitlines() if '"event":"step"' in line][-1]
        self.assertEqual(self.step_of(self.file), last["step"], errors)
        self.assertGreater(last["step"], 1)
        self.assertEqual({path.name for path in self.disk.iterdir()} - {"lost+found", "filling"}, {self.file.name})


class Vfat(FileSystem, quern.Case):
    kind = "vfat"


class Ext4(FileSystem, quern.Case):
    kind = "ext4"


if __name__ == "__main__":
    unittest.main()
