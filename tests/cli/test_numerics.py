"""Numerics through the command line: files and their mistakes, training in int8, and that the same bits come out
of any number of threads and after resuming."""
import json
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
                 ({"gradient": {"type": "i8", "drops": [0.5, 0.2]}}, "rising")]
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
