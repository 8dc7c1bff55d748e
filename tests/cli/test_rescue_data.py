"""What was trained is there when data break while training reads them, when what it is tested on does, and when an
environment dies: the last good step, not the last checkpoint."""
import os
import re
import shlex
import struct
import sys
import time
import unittest
import zipfile

import quern


class Rescue(quern.Case):
    place = quern.IN_MEMORY

    def resumed(self, errors, *more):
        """Runs the command that was printed, with more options."""
        command = re.search(r"^resume with: quern (.*)$", errors, re.M).group(1)
        return self.run_quern(*shlex.split(command), *more)

    def step(self, name="w"):
        return int(quern.metadata_of(self.folder / name)["step"])

    def make_idx(self, n=64, n_test=32):
        """Images as IDX files, which are read while training goes on; their name as data."""
        (self.folder / "idx").mkdir()
        for stem, count in (("train", n), ("t10k", n_test)):
            (self.folder / f"idx/{stem}-images-idx3-ubyte").write_bytes(
                struct.pack(">IIII", 2051, count, 28, 28) + bytes(range(256)) * (count * 784 // 256))
            (self.folder / f"idx/{stem}-labels-idx1-ubyte").write_bytes(
                struct.pack(">II", 2049, count) + bytes(i % 10 for i in range(count)))
        return f"idx:{self.folder / 'idx'}"

    def until_saved(self, process, name="w"):
        while not (self.folder / name).exists():
            time.sleep(0.01)
            self.assertIsNone(process.poll())


def write_npz(path, arrays):
    """As numpy.savez does: stored, not packed."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        for name, (kind, shape, content) in arrays.items():
            head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
            file.writestr(f"{name}.npy", b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head.encode() + content)


class Errors(Rescue):
    def broken(self, name, *more):
        """Training on data of which one file is cut short meanwhile, and the same when it is whole again."""
        process = self.start("train", "lenet5", "--data", self.make_idx(), "--batch", 16, "--epochs", 10**6, "--save",
                             "w", "--checkpoint-every", 1, *more)
        self.until_saved(process)
        path = self.folder / "idx" / name
        whole = path.read_bytes()
        path.write_bytes(whole[:100])
        _, errors = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 1, errors)
        self.assertIn(name, errors)
        step = self.step()
        self.assertIn(f"w holds the checkpoint of step {step}", errors)
        path.write_bytes(whole)
        self.resumed(errors, "--steps", step + 2)
        self.assertEqual(self.step(), step + 2)
        return step

    def test_data(self):
        """Data that cannot be read any more."""
        self.broken("train-images-idx3-ubyte", "--no-test")

    def test_arrays(self):
        """A file of arrays, which stays in memory while training goes on: cut, and cut within its last page."""
        self.run_quern("export", "mlp", "--out", "n.onnx")
        n = 64
        write_npz(self.folder / "x.npz", {"fc3": ("<i4", (n,), struct.pack(f"<{n}i", *(i % 10 for i in range(n)))),
                                          "input": ("<f4", (n, 28, 28, 1), bytes(n * 784 * 4))})
        path = self.folder / "x.npz"
        whole = path.read_bytes()
        for length in (0, len(whole) // 2, len(whole) - 1):
            path.write_bytes(whole)
            process = self.start("train", "n.onnx", "--data", "npz:x.npz", "--batch", 8, "--epochs", 10**6, "--save", "w",
                                 "--checkpoint-every", 1)
            self.until_saved(process)
            os.truncate(path, length)
            _, errors = process.communicate(timeout=300)
            self.assertEqual(process.returncode, 1, errors)
            self.assertIn("cannot read x.npz any more: it was cut short", errors)
            step = self.step()
            self.assertRegex(errors, f"w (still )?holds the checkpoint of step {step}\\b")
            path.write_bytes(whole)
            self.resumed(errors, "--steps", step + 2)
            self.assertEqual(self.step(), step + 2)
            (self.folder / "w").unlink()

    def test_measuring(self):
        """The trained weights are there where the data they are tested on breaks."""
        self.assertEqual(self.broken("t10k-images-idx3-ubyte") % 4, 0)

    def make_rows(self, n=20):
        """A class for each row, of 64 numbers; the path of the numbers and where they begin."""
        def array(name, kind, shape, content):
            head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
            (self.folder / name).write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head.encode() + content)
            return 10 + len(head)
        array("y.npy", "<i4", f"({n},)", struct.pack(f"<{n}i", *range(n)))
        values = [(7 * i % 13) / 13 for i in range(64 * n)]
        return self.folder / "x.npy", array("x.npy", "<f4", f"({n}, 8, 8, 1)", struct.pack(f"<{64 * n}f", *values))

    def test_validation_sample(self):
        """A number in a validation sample that is none any more: what was trained until then is there."""
        path, begin = self.make_rows()
        common = ("mlp", "--data", "npy:x.npy,y.npy", "--input", "8x8x1", "--validation", 0.2, "--batch", 1, "--threads", 1)
        self.run_quern("train", *common, "--steps", 1, "--save", "first")
        told = self.run_quern("evaluate", "mlp", "--weights", "first", "--split", "validation", "--per-class", "--json")
        held_out = [i for i, c in enumerate(told.of("evaluation")[0]["classes"]) if c["samples"] > 0]
        self.assertGreater(len(held_out), 1)  # about 4 of 20: what is held out depends on the content
        process = self.start("train", *common, "--epochs", 10**6, "--save", "w", "--checkpoint-every", 1)
        self.until_saved(process)
        whole = path.read_bytes()
        with open(path, "r+b") as file:
            file.seek(begin + 256 * held_out[1] + 40)
            file.write(struct.pack("<f", float("nan")))
        _, errors = process.communicate(timeout=300)
        self.assertEqual(process.returncode, 1, errors)
        self.assertIn("the validation loss is nan", errors)
        step = self.step()
        self.assertIn(f"w holds the checkpoint of step {step}", errors)
        self.assertEqual(step % (20 - len(held_out)), 0)  # the end of an epoch, where it is measured: no step is lost
        path.write_bytes(whole)
        self.resumed(errors, "--steps", step + 2)
        self.assertEqual(self.step(), step + 2)

    def test_last_step(self):
        """It is the last good step that is saved, not the last checkpoint: an environment that dies."""
        (self.folder / "env.py").write_text(DYING)
        run = self.fails(1, "train", "dqn", "--net", "mlp", "--data", f"process:{sys.executable} env.py", "--fill",
                         100, "--replay", 400, "--save", "w", "--steps", 1000, "--no-test",
                         "--checkpoint-every", 20, says=["status 7", "w holds the checkpoint of step 50"])
        self.assertEqual(self.step(), 50, run.errors)

    def test_without_save(self):
        (self.folder / "env.py").write_text(DYING)
        self.fails(1, "train", "dqn", "--net", "mlp", "--data", f"process:{sys.executable} env.py", "--fill", 100,
                   "--replay", 400, "--steps", 1000, "--no-test", "--no-save", says=["status 7", "--no-save"])


# An environment that ends after 150 actions.
DYING = """
import struct, sys
sys.stdout.buffer.write(b"quern-environment 1 observation f32 2 actions 2\\n")
sys.stdout.buffer.flush()
for n, line in enumerate(sys.stdin):
    if n == 150:
        sys.exit(7)
    sys.stdout.buffer.write(b"reward 1 running\\n" + struct.pack("<2f", 0.5, n))
    sys.stdout.buffer.flush()
"""


if __name__ == "__main__":
    unittest.main()
