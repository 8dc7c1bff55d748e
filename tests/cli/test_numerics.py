"""Numerics through the command line: files and their mistakes, training in int8, and that the same bits come out
of any number of threads and after resuming."""
import json
import platform
import unittest

import quern


class Numerics(quern.Case):
    def train(self, name, *options, status=0):
        return self.run_quern("train", "lenet5", "--data", "synthetic", "--batch", 4, "--no-test",
                              "--schedule-steps", 4, "--save", name, *options, status=status)

    def test_printed_is_a_file(self):
        printed = self.run_quern("numerics", "niti").output
        (self.folder / "mine.json").write_text(printed)
        self.assertEqual(self.run_quern("numerics", "mine.json").output, printed)
        self.assertEqual([line.split()[0] for line in self.run_quern("numerics").output.splitlines()[1:]],
                         ["niti", "bf16", "fp16"])

    def test_mistakes(self):
        niti = json.loads(self.run_quern("numerics", "niti").output)
        wrong = [({"weigth": {}}, "weigth"), ({"products": "i64"}, "products"), ({"name": "a b"}, "name"),
                 ({"gradient": {"type": "i8", "bits": 9}}, "bits"), ({"weight": {"type": "i9"}}, "type"),
                 ({"products": "f32"}, "optimiser"), ({"loss-factor": 2}, "loss-factor"),
                 ({"gradient": {"type": "i8", "drops": [0.5, 0.2]}}, "rising"), ({"shifts": "often"}, "shifts"),
                 ({"shifts": "adaptive", "products": "f32", "loss": "f32", "update": "optimiser",
                   "gradient": {"type": "i8"}}, "shifts")]
        for change, says in wrong:
            (self.folder / "bad.json").write_text(json.dumps({**niti, **change}))
            self.fails(1, "numerics", "bad.json", says=["bad.json", says])
        (self.folder / "bad.json").write_text("[" * 5000)
        self.fails(1, "numerics", "bad.json", says=["JSON"])
        self.fails(2, "train", "lenet5", "--data", "synthetic", "--numerics", "nity", says=["niti"])
        self.fails(1, "train", "lenet5", "--data", "synthetic", "--numerics", "niti", "--accumulate", 2,
                   says=["accumulated"])

    @quern.numbers
    def test_same_bits(self):
        self.train("whole", "--numerics", "niti", "--steps", 4, "--threads", 1)
        self.train("half", "--numerics", "niti", "--steps", 2, "--threads", 3)
        self.run_quern("train", "lenet5", "--resume", "half", "--steps", 4, "--save", "half", "--no-test")
        self.assertEqual(quern.weights_of(self.folder / "whole"), quern.weights_of(self.folder / "half"))

    @quern.numbers
    def test_every_set_gives_the_bits(self):
        """A network that is all whole numbers: one instruction set and thread count has the weights of any other."""
        found = []
        sets = ("ref", "neon") if platform.machine() in ("aarch64", "arm64") else ("ref", "avx2", "avx512")
        for threads, isa in enumerate(sets, 1):
            self.environment["QUERN_ISA"] = isa
            self.run_quern("train", "lenet-relu", "--data", "synthetic", "--batch", 4, "--no-test", "--steps", 3,
                           "--schedule-steps", 4, "--numerics", "niti", "--threads", threads, "--save", isa)
            found.append(quern.weights_of(self.folder / isa))
        self.assertEqual(found, found[:1] * len(sets))

    @quern.numbers
    def test_adaptive_shifts(self):
        """What is kept of shifts is in the checkpoint: half and half again gives the bits of the whole. Exact shifts
        have no wrong one, and every product is counted once."""
        niti = json.loads(self.run_quern("numerics", "niti").output)
        (self.folder / "adaptive.json").write_text(json.dumps({**niti, "shifts": "adaptive"}))
        self.train("whole", "--numerics", "adaptive.json", "--steps", 8, "--threads", 1)
        self.train("half", "--numerics", "adaptive.json", "--steps", 5, "--threads", 2)
        self.run_quern("train", "lenet5", "--resume", "half", "--steps", 8, "--save", "half", "--no-test")
        self.assertEqual(quern.weights_of(self.folder / "whole"), quern.weights_of(self.folder / "half"))
        for numerics, is_exact in (("niti", True), ("adaptive.json", False)):
            lines = self.train("again", "--numerics", numerics, "--steps", 8, "--json").output.splitlines()
            done = json.loads(lines[-1])
            self.assertEqual(done["shifts"], 8 * 14)
            self.assertEqual(done["shifts"], done["shifts_kept"] + done["shifts_stored"] + done["shifts_twice"])
            self.assertGreater(done["shifts_kept"], 0)
            self.assertEqual(done["shifts_wrong"] == 0, is_exact)

    def test_what_is_kept(self):
        for name, types in (("niti", {"I8", "I32"}), ("bf16", {"F32"})):
            self.train(name, "--numerics", name, "--steps", 1)
            data = (self.folder / name).read_bytes()
            header = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])
            self.assertEqual({t["dtype"] for n, t in header.items() if n != "__metadata__"}, types)
            self.run_quern("evaluate", "--weights", name)

    def test_batch_of_one(self):
        self.run_quern("train", "lenet5", "--data", "synthetic", "--batch", 1, "--steps", 2, "--no-test",
                       "--numerics", "niti")


if __name__ == "__main__":
    unittest.main()
