"""kill -9 at random moments of every kind of run, and the same command again: the same bits as of a run that was
never stopped, and nothing that was saved goes back."""
import gzip
import os
import pathlib
import random
import shutil
import signal
import struct
import tempfile
import time
import unittest

import quern

# In all, shared out among the kinds of runs.
N_KILLS = int(os.environ.get("QUERN_KILLS", "60"))
MANY = 10**9


class Kills(quern.Case):
    place = quern.IN_MEMORY

    def setUp(self):
        super().setUp()
        self.draw = random.Random(1)

    def kill(self, arguments, longest):
        """Starts the command and kills it after a random time; whether that came before its end."""
        process = self.start(*arguments)
        time.sleep(self.draw.uniform(0, longest))
        process.send_signal(signal.SIGKILL)
        _, errors = process.communicate()
        self.assertIn(process.returncode, (0, -signal.SIGKILL), errors)
        return process.returncode != 0

    def n_kills(self):
        kinds = [name for name in dir(self) if name.startswith("test_")]
        return max(-(-N_KILLS // len(kinds)) // (3 if quern.SLOW else 1), 1)

    def step(self, file):
        path = self.folder / file
        return int(quern.metadata_of(path)["step"]) if path.exists() else 0

    def training(self, *arguments, longest=0.3, every=3, before=lambda: None, more=5):
        """A run of training that is killed and goes on, against one that is not."""
        def command(file, n_steps):
            resumed = ["--resume", file] if (self.folder / file).exists() else []
            return ["train", *arguments, "--steps", n_steps, "--schedule-steps", 1000000, "--no-test", "--save", file,
                    "--checkpoint-every", every, *resumed]
        n, tries = 0, 0
        while n < self.n_kills():
            at = self.step("killed")
            before()
            n += self.kill(command("killed", MANY), longest)
            self.assertGreaterEqual(self.step("killed"), at)
            tries += 1
            self.assertLess(tries, 10 * self.n_kills() + 10)
        n_steps = self.step("killed") + more
        self.run_quern(*command("killed", n_steps))
        self.run_quern(*command("whole", n_steps))
        self.assertEqual(self.step("killed"), n_steps)
        self.assertEqual(self.bytes_of("killed"), self.bytes_of("whole"))
        self.assertEqual([path.name for path in self.folder.glob("*tmp*")], [])

    def repeated(self, arguments, out, longest):
        """A command that makes files: after each kill they are as a run makes them that is not killed, or not there."""
        self.run_quern(*arguments)
        whole = {path: path.read_bytes() for path in out()}
        self.assertTrue(whole)
        n, tries = 0, 0
        while n < self.n_kills():
            for path in whole:
                if self.draw.random() < 0.5:
                    path.unlink(missing_ok=True)
            n += self.kill(arguments, longest)
            for path, content in whole.items():
                if path.exists():
                    self.assertEqual(path.read_bytes(), content)
            tries += 1
            if tries > 10 * self.n_kills():
                break
        self.run_quern(*arguments)
        self.assertEqual({path: path.read_bytes() for path in out()}, whole)

    # ---- training ----

    def test_train(self):
        self.training("lenet5", "--batch", 16, "--augment", "crop,flip", "--optimizer", "adam", "--accumulate", 2,
                      "--threads", 2, "--data", self.make_images())

    def test_fine_tuning(self):
        data = self.make_images()
        self.run_quern("train", "lenet5", "--data", data, "--steps", 2, "--batch", 16, "--save", "base")
        self.training("lenet5", "--data", data, "--batch", 16, "--load", "base", "--head", 10, "--freeze", "conv*")

    def test_adapters(self):
        data = self.make_images()
        self.run_quern("train", "lenet5", "--data", data, "--steps", 2, "--batch", 16, "--save", "base")
        self.training("lenet5", "--data", data, "--batch", 16, "--load", "base", "--lora", "rank=2,layers=fc*")

    def test_text(self):
        (self.folder / "text").write_text("the mill grinds at home, the mill grinds alone. " * 200)
        self.training("char-lstm", "--data", "text:text", "--batch", 4, "--length", 8, "--optimizer", "adam")

    def test_control(self):
        self.training("dqn", "--net", "mlp", "--data", "cartpole", "--fill", 40, "--replay", 200, "--batch", 8,
                      "--frames", MANY, every=20)

    def test_images(self):
        self.training("dcgan", "--data", "synthetic", "--batch", 2, every=1, longest=0.5, more=1)

    def test_swapping(self):
        folder = tempfile.mkdtemp(prefix="quern-swap-", dir="/var/tmp")
        self.addCleanup(shutil.rmtree, folder)
        data = self.make_images()
        limits = ["--memory", "8M", "--swap", folder]
        self.run_quern("plan", "lenet5", "--data", data, "--batch", 128, *limits)
        (kept,) = (self.folder / "cache" / "quern").glob("swap-*.txt")
        kept.write_text("\n".join(kept.read_text().splitlines()[:2]) +
                        "\nwrite 50000000000\nread 50000000000\nlatency 1\nwork 1\n")
        self.training("lenet5", "--data", data, "--batch", 128, *limits, every=1, more=1)
        self.assertEqual(list(pathlib.Path(folder).iterdir()), [])

    def test_changing_budget(self):
        def change():
            (self.folder / "budget").write_text(self.draw.choice(["8M", "9M", "10M", "none"]) + "\n")
        change()
        self.training("lenet5", "--data", self.make_images(), "--batch", 64, "--budget-file", "budget",
                      before=change, every=2)

    # ---- what is not trained ----

    def test_export(self):
        self.run_quern("train", "lenet5", "--data", "synthetic", "--steps", 1, "--save", "w", "--no-test")
        self.repeated(["export", "lenet5", "--weights", "w", "--out", "m.onnx"],
                      lambda: list(self.folder.glob("m.onnx*")), 0.05)

    def test_convert(self):
        self.run_quern("train", "mlp", "--data", "synthetic", "--steps", 1, "--save", "w", "--no-test", "--momentum", 0)
        self.repeated(["convert", "w", "--model", "mlp", "--out", "converted"],
                      lambda: list(self.folder.glob("converted*")), 0.05)

    def test_unpacking(self):
        folder = self.folder / "idx"
        folder.mkdir()
        for stem, n in (("train", 2000), ("t10k", 200)):
            (folder / f"{stem}-images-idx3-ubyte.gz").write_bytes(
                gzip.compress(struct.pack(">IIII", 2051, n, 28, 28) + self.draw.randbytes(n * 784)))
            (folder / f"{stem}-labels-idx1-ubyte.gz").write_bytes(
                gzip.compress(struct.pack(">II", 2049, n) + bytes(i % 10 for i in range(n))))
        self.repeated(["train", "lenet5", "--data", f"idx:{folder}", "--steps", 1, "--no-test"],
                      # All but the list of what is there, which grows.
                      lambda: [path for path in (self.folder / "cache" / "quern").iterdir() if path.name != "sources"], 0.08)

    def test_drip(self):
        data = self.make_images(1400)
        cells = self.folder / "s" / "cells"
        self.repeated(["study", "--quick", "--only", "drip-b16", "--data", data, "--out", "s", "--threads", 1],
                      lambda: list(cells.iterdir()), 1.5)

    def test_study(self):
        """Cells that were done stay as they are."""
        arguments = ["study", "--models", "mlp,lenet5", "--batches", "1,2", "--steps", 2, "--seconds", "0.01", "--no-drip",
                     "--out", "s"]
        done, n = {}, 0
        while n < self.n_kills():
            was_killed = self.kill(arguments, 1)
            n += was_killed
            for path, content in done.items():
                self.assertEqual(path.read_bytes(), content)
            done = {path: path.read_bytes() for path in self.folder.glob("s/cells/*.json")}
            if not was_killed:
                shutil.rmtree(self.folder / "s")
                done, n = {}, n + 1
        self.run_quern(*arguments)
        self.assertEqual(len(list(self.folder.glob("s/cells/*.json"))), 6)
        self.assertEqual([path.name for path in self.folder.rglob("*tmp*")], [])


if __name__ == "__main__":
    unittest.main()
