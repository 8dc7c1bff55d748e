"""Whatever ends a run, what was trained is there: errors that leave the weights sound, signals, output that nobody
reads. The command that is printed goes on from it."""
import math
import os
import re
import shlex
import signal
import struct
import subprocess
import time
import unittest

import quern


class Rescue(quern.Case):
    def resumed(self, errors, *more):
        """Runs the command that was printed, with more options."""
        command = re.search(r"^resume with: quern (.*)$", errors, re.M).group(1)
        return self.run_quern(*shlex.split(command), *more)

    def step(self, name="w"):
        return int(quern.metadata_of(self.folder / name)["step"])

    def make_folder(self, folder="images", n=8):
        """Two classes of images. They are read when they are needed, since their pixels cannot be kept."""
        self.environment.update(XDG_CACHE_HOME="/dev/null", TMPDIR="/dev/null")
        for name in ("a", "b"):
            (self.folder / folder / name).mkdir(parents=True)
            for i in range(n):
                path = self.folder / folder / name / f"{i}.png"
                quern.write_png(path, 28, 28, bytes(range(256)) * 3 + bytes([i] * 16))
        return f"images:{self.folder / folder}"

    def fails_when(self, broken, folder, *arguments):
        """A run that trains, then meets images of a class that is all broken; returns its messages."""
        process = self.start(*arguments, "--json")
        self.addCleanup(process.kill)
        while '"event":"step"' not in process.stdout.readline():
            self.assertIsNone(process.poll())
        for path in (self.folder / folder).iterdir():
            broken(path)
        errors = process.communicate()[1]
        self.assertEqual(process.returncode, 1, errors)
        self.assertRegex(errors, rf"quern: .*{folder}/\d\.png")
        return errors


class Errors(Rescue):
    def test_overflow(self):
        """A finite sample whose loss is not finite ends the run; the checkpoint of the step before stays as it was."""
        samples = [float((i + j) % 7) for i in range(64) for j in range(4)]
        samples[37 * 4] = 3e38
        quern.write_npy(self.folder / "x.npy", "<f4", (64, 4), struct.pack("<256f", *samples))
        quern.write_npy(self.folder / "y.npy", "<i4", (64,), struct.pack("<64i", *(i % 2 for i in range(64))))
        run = self.fails(1, "train", "mlp", "--data", "npy:x.npy,y.npy", "--batch", 8, "--epochs", 2, "--no-test",
                         "--checkpoint-every", 1, "--save", "w", says=["loss is"])
        self.assertEqual(self.step(), int(re.search(r"holds the checkpoint of step (\d+)", run.errors).group(1)))
        weights = quern.weights_of(self.folder / "w")
        self.assertTrue(all(math.isfinite(w) for w, in struct.iter_unpack("<f", weights)))

    def test_images(self):
        """Images that could be read when training began: cut short, empty, gone."""
        for kind, broken in (("cut", lambda p: p.write_bytes(p.read_bytes()[:100])),
                             ("empty", lambda p: p.write_bytes(b"")),
                             ("gone", lambda p: p.unlink())):
            with self.subTest(kind):
                data = self.make_folder(kind)
                errors = self.fails_when(broken, f"{kind}/b", "train", "lenet5", "--data", data, "--batch", 2,
                                         "--epochs", 100000, "--save", "w", "--override", "--no-test")
                step = self.step()
                self.assertGreater(step, 0)
                self.assertIn(f"w holds the checkpoint of step {step}", errors)
                for i in range(8):
                    copy(self.folder / kind / "a" / f"{i}.png", self.folder / kind / "b" / f"{i}.png")
                self.resumed(errors, "--steps", step + 3)
                self.assertEqual(self.step(), step + 3)

    def test_measuring(self):
        """The trained weights are there where the data they are tested on cannot be read."""
        self.make_folder("both/train")
        self.make_folder("both/test", 4)
        data = f"images:{self.folder / 'both'}"
        errors = self.fails_when(lambda p: p.write_bytes(b"no image"), "both/test/b", "train", "lenet5",
                                 "--data", data, "--batch", 4, "--epochs", 100000, "--save", "w")
        step = self.step()
        self.assertGreater(step, 0)
        self.resumed(errors, "--no-test", "--steps", step + 2)
        self.assertEqual(self.step(), step + 2)

    def test_without_save(self):
        errors = self.fails_when(lambda p: p.unlink(), "images/b", "train", "lenet5", "--data",
                                 self.make_folder(), "--batch", 2, "--epochs", 100000, "--no-save")
        self.assertIn("--no-save", errors)


class Signals(Rescue):
    def setUp(self):
        super().setUp()
        self.data = self.make_images()
        self.arguments = ["train", "lenet5", "--data", self.data, "--batch", 16, "--epochs", 10000,
                          "--threads", 1, "--save", "w", "--checkpoint-every", 5, "--json"]

    def begin(self, **options):
        process = self.start(*self.arguments, **options)
        while not (self.folder / "w").exists():
            time.sleep(0.01)
            self.assertIsNone(process.poll())
        return process

    def test_hang_up(self):
        """As a terminal does it that goes away: twice, and nobody reads what is said."""
        process = self.begin()
        process.stdout.close()
        process.stderr.close()
        for _ in range(3):
            process.send_signal(signal.SIGHUP)
        self.assertEqual(process.wait(), 1)
        step = self.step()
        self.run_quern("train", "lenet5", "--resume", "w", "--save", "w", "--steps", step + 1)
        self.assertEqual(self.step(), step + 1)

    def test_hang_up_with_message(self):
        process = self.begin(stdout=subprocess.DEVNULL)
        process.send_signal(signal.SIGHUP)
        errors = process.communicate()[1]
        self.assertEqual(process.returncode, 1)
        self.assertIn(f"w holds the checkpoint of step {self.step()}", errors)

    def test_reader_that_goes(self):
        """quern train | head -1: the run goes on to its end."""
        self.arguments[self.arguments.index(10000)] = 2
        process = self.start(*self.arguments)
        process.stdout.readline()
        process.stdout.close()
        process.stderr.read()
        self.assertEqual(process.wait(), 1)
        self.assertEqual(self.step(), 32)

    def test_reader_that_is_gone(self):
        """Before the first message, which says what the data are taken for, and so before training begins."""
        self.arguments[self.arguments.index(10000)] = 2
        self.arguments[self.arguments.index(self.data)] = self.make_folder().split(":")[1]
        self.arguments[self.arguments.index("--batch") + 1] = 2
        process = self.start(*self.arguments)
        process.stdout.close()
        process.stderr.close()
        self.assertEqual(process.wait(), 1)
        self.assertGreater(self.step(), 0)

    def test_ignored(self):
        """What whoever started it wants to be ignored is: nohup, and Ctrl-C of a job in the background."""
        def ignore():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        process = self.begin(stdout=subprocess.DEVNULL, preexec_fn=ignore)
        process.send_signal(signal.SIGHUP)
        process.send_signal(signal.SIGINT)
        step = self.step()
        while self.step() < step + 10:
            time.sleep(0.01)
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGTERM)
        process.communicate()
        self.assertEqual(process.returncode, 1)

    def test_limit_of_file_size(self):
        """ulimit -f: as a full disk. Checkpoints are too large, training goes on."""
        self.run_quern("train", "lenet5", "--data", self.data, "--batch", 16, "--steps", 2, "--save", "w")
        before = self.bytes_of("w")
        command = ["sh", "-c", 'ulimit -f 20; exec "$@"', "sh", quern.QUERN,
                   *map(str, self.arguments), "--steps", "8"]
        run = subprocess.run(command, cwd=self.folder, env=self.environment, capture_output=True, text=True)
        self.assertEqual(run.returncode, 1)
        self.assertIn("training goes on", run.stderr)
        self.assertIn("trained, but not saved", run.stderr)
        self.assertEqual(self.bytes_of("w"), before)


def copy(source, target):
    if target.is_symlink():
        os.unlink(target)
    target.write_bytes(source.read_bytes())


if __name__ == "__main__":
    unittest.main()
