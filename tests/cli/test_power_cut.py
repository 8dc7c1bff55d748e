"""A power cut at every write of checkpoints, caches, studies and adapters, on file systems with and without files that
have no name: the old file or the new one, and nothing that was said to be saved is lost."""
import copy
import gzip
import random
import re
import struct
import unittest

import disk
import quern


class PowerCut(quern.Case):
    def setUp(self):
        super().setUp()
        self.log = self.folder.parent / f"{self.folder.name}.log"
        self.addCleanup(self.log.unlink, missing_ok=True)

    def watch(self, arguments, n_versions, nameless=True):
        """Runs the command and looks at every disk that a cut could leave; at least so many versions of files."""
        self.log.unlink(missing_ok=True)
        watched = disk.Disk(self.folder)
        n_before = sum(map(len, watched.versions.values()))
        done, counts = disk.run(self, arguments, nameless=nameless, log=self.log)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertGreater(disk.check(self, watched, disk.read_log(self.log)), 4 * n_versions)
        self.assertGreaterEqual(sum(map(len, watched.versions.values())) - n_before, n_versions)
        # The model of the disk is right: at the end it holds what the disk does.
        after = disk.Disk(self.folder)
        self.assertEqual({path: after.written[number] for path, number in after.entries.items()},
                         {path: watched.written[number] for path, number in watched.entries.items()})
        self.assertFalse([path for path in after.entries if path.endswith("-tmp")])
        return watched

    def test_checkpoints(self):
        # What is held out is drawn by content: of 64 pictures 40 are left to train on, so four steps are an epoch.
        data = self.make_images(64)
        common = ["train", "lenet5", "--data", data, "--validation", 0.25, "--batch", 10, "--threads", 1, "--save", "w", "--save-best",
                  "b", "--checkpoint-every", 1]
        for nameless in (True, False):
            self.watch([*common, "--epochs", 1], 4, nameless)
            last = self.watch([*common, "--epochs", 2, "--resume", "w"], 4, nameless)
            whole = self.bytes_of("w")
            # From each version, training goes on to the same end.
            for content in last.versions[str(self.folder / "w")]:
                (self.folder / "w").write_bytes(content)
                self.run_quern(*common, "--epochs", 2, "--resume", "w")
                self.assertEqual(self.bytes_of("w"), whole)
            for name in ("w", "b"):
                (self.folder / name).unlink()

    def test_the_check(self):
        """It finds what is wrong: files that were not synced, renamed before they were, folders that were not."""
        arguments = ["train", "mlp", "--data", "synthetic", "--batch", 50, "--steps", 3, "--no-test", "--save", "w"]
        self.run_quern(*arguments)
        for nameless in (True, False):
            self.log.unlink(missing_ok=True)
            before = disk.Disk(self.folder)
            disk.run(self, arguments, nameless=nameless, log=self.log)
            log = disk.read_log(self.log)
            self.assertGreater(disk.check(self, copy.deepcopy(before), log), 10)
            for left_out in ("S", "D"):
                wrong = [operation for operation in log if operation[0] != left_out]
                if left_out == "S":
                    with self.assertRaises(AssertionError):
                        disk.check(self, copy.deepcopy(before), wrong)
                else:
                    last = copy.deepcopy(before)
                    disk.check(self, last, wrong)
                    self.assertEqual(last.lasting_versions[str(self.folder / "w")], 1)

    def test_adapters(self):
        data = self.make_images(64)
        self.run_quern("train", "lenet5", "--data", data, "--batch", 16, "--steps", 2, "--save", "base")
        for nameless in (True, False):
            self.watch(["train", "lenet5", "--data", data, "--batch", 16, "--steps", 4, "--load", "base", "--lora",
                        "rank=2,layers=fc*", "--save", "adapter", "--checkpoint-every", 1], 4, nameless)
            self.watch(["merge", "lenet5", "--weights", "adapter", "--out", "merged"], 1, nameless)
            (self.folder / "adapter").unlink()
            (self.folder / "merged").unlink()

    def test_export(self):
        data = self.make_images(64)
        self.run_quern("train", "lenet5", "--data", data, "--batch", 16, "--steps", 2, "--save", "w")
        for nameless in (True, False):
            self.watch(["export", "lenet5", "--weights", "w", "--out", "m.onnx"], 1, nameless)
            self.watch(["export", "lenet5", "--weights", "w", "--out", "m.onnx"], 1, nameless)
            (self.folder / "m.onnx").unlink()

    def test_export_outside(self):
        """Weights outside of a model are in a file of their own: each cut leaves a model with its own."""
        data, pairs = self.make_images(64), set()
        model = self.folder / "m.onnx"
        for seed in (1, 2):
            self.run_quern("train", "lenet5", "--data", data, "--batch", 16, "--steps", 2, "--seed", seed, "--save", "w")
            for nameless in (True, False):
                self.log.unlink(missing_ok=True)
                watched = disk.Disk(self.folder)
                arguments = ["export", "lenet5", "--weights", "w", "--out", "m.onnx", "--outside"]
                done, _ = disk.run(self, arguments, nameless=nameless, log=self.log)
                self.assertEqual(done.returncode, 0, done.stderr)
                known = {path: path.read_bytes() for path in self.folder.glob("m.onnx.*.data")}
                self.assertEqual(len(known), 1)
                known.update({path: content for path, content in pairs})
                for operation in disk.read_log(self.log):
                    watched.do(operation)
                    for left in watched.cuts():
                        self.check_pair(left, model, known)
                pairs.update(known.items())
        self.assertEqual(len(pairs), 2)
        self.run_quern("export", "lenet5", "--weights", "w", "--out", "m.onnx")
        self.assertFalse(list(self.folder.glob("m.onnx.*")))

    def check_pair(self, left, model, known):
        if str(model) not in left:
            return
        named = set(re.findall(rb"m\.onnx\.[0-9a-f]{16}\.data", left[str(model)]))
        self.assertEqual(len(named), 1)
        path = model.parent / named.pop().decode()
        self.assertEqual(left.get(str(path)), known[path])

    def test_caches(self):
        folder = self.folder / "idx"
        folder.mkdir()
        for stem, n in (("train", 64), ("t10k", 16)):
            (folder / f"{stem}-images-idx3-ubyte.gz").write_bytes(
                gzip.compress(struct.pack(">IIII", 2051, n, 28, 28) + bytes(n * 784)))
            (folder / f"{stem}-labels-idx1-ubyte.gz").write_bytes(
                gzip.compress(struct.pack(">II", 2049, n) + bytes(i % 10 for i in range(n))))
        for nameless in (True, False):
            self.watch(["train", "lenet5", "--data", f"idx:{folder}", "--batch", 16, "--steps", 1, "--memory", "8M",
                        "--measure", "--swap", ".", "--tune", "quick"], 7, nameless)
            for path in (self.folder / "cache" / "quern").iterdir():
                path.unlink()

    def test_labels(self):
        """Rows of labels grow in place: what a cut leaves of them goes on to the end that it would have had."""
        draw = random.Random(3)

        def rows(n):
            return [[draw.gauss(8 * (i % 2), 1), draw.gauss(0, 1)] for i in range(n)]
        (self.folder / "known.csv").write_text("".join(f"{x:.3f},{y:.3f},{'ab'[i % 2]}\n" for i, (x, y) in enumerate(rows(100))))
        (self.folder / "new.csv").write_text("".join(f"{x:.3f},{y:.3f}\n" for x, y in rows(1200)))
        self.run_quern("label", "init", "--known", "csv:known.csv", "--out", "l.qnl")
        arguments = ["label", "stream", "l.qnl", "--data", "csv:new.csv", "--out", "labels.csv"]
        watched = disk.Disk(self.folder)
        done, _ = disk.run(self, arguments, log=self.log)
        self.assertEqual(done.returncode, 0, done.stderr)
        whole = {name: self.bytes_of(name) for name in ("l.qnl", "labels.csv")}
        seen = set()
        for operation in disk.read_log(self.log):
            watched.do(operation)
            for left in watched.cuts():
                seen.add(tuple(left.get(str(self.folder / name)) for name in whole))
        self.assertGreater(len(seen), 5)
        for labeller, labels in seen:
            (self.folder / "l.qnl").write_bytes(labeller)
            (self.folder / "labels.csv").unlink(missing_ok=True)
            if labels is not None:
                (self.folder / "labels.csv").write_bytes(labels)
            if labeller != whole["l.qnl"]:
                self.run_quern(*arguments)
            self.assertEqual({name: self.bytes_of(name) for name in whole}, whole)

    def test_study(self):
        for nameless in (True, False):
            self.watch(["study", "--models", "mlp", "--batches", "2", "--steps", 2, "--seconds", "0.01", "--no-drip",
                        "--out", f"out-{nameless}"], 6, nameless)


if __name__ == "__main__":
    unittest.main()
