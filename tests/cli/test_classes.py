"""quern evaluate, class by class: the counts against those of quern predict, one image at a time; scores
worked out anew; all forms of output the same; names of folders of images."""
import csv
import json
import random
import re
import unittest

import quern

NAMES = ["ant", "bee, wild", "cat"]


class Confusion(quern.Case):
    def setUp(self):
        super().setUp()
        draw = random.Random(3)
        self.files = {}
        for split, n in (("train", 16), ("test", 7)):
            for i, name in enumerate(NAMES):
                folder = self.folder / "data" / split / name
                folder.mkdir(parents=True)
                for k in range(n + i):
                    pixels = bytearray(draw.randrange(256) for _ in range(64))
                    for j in range(i * 20, i * 20 + 20):
                        pixels[j] = min(255, pixels[j] + 70)
                    quern.write_png(folder / f"{k}.png", 8, 8, bytes(pixels))
                    if split == "test":
                        self.files[f"data/test/{name}/{k}.png"] = i
        self.run_quern("train", "lenet5", "--data", "images:data", "--batch", 8, "--epochs", 3,
                       "--save", "w.st")

    def evaluate(self, *options, **how):
        return self.run_quern("evaluate", "lenet5", "--weights", "w.st", *options, **how)

    def test_counts(self):
        result = self.evaluate("--json", "--confusion", "c.csv", "--html", "c.html").events[0]
        rows = list(csv.reader((self.folder / "c.csv").open()))
        self.assertEqual(rows[0], ["class", *NAMES])
        self.assertEqual([row[0] for row in rows[1:]], NAMES)
        counts = [list(map(int, row[1:])) for row in rows[1:]]
        # One by one.
        wanted = [[0] * 3 for _ in NAMES]
        lines = self.run_quern("predict", "lenet5", "--weights", "w.st", "--top", 1, "--json",
                               *self.files).output.splitlines()
        for line in map(json.loads, lines):
            wanted[self.files[line["image"]]][NAMES.index(line["classes"][0]["class"])] += 1
        self.assertEqual(counts, wanted)
        # The same everywhere.
        self.assertEqual([c["taken_for"] for c in result["classes"]], counts)
        page = (self.folder / "c.html").read_text()
        drawn = json.loads(re.search(r'<figure class="matrix".*?<script[^>]*>(.*?)</script>', page,
                                     re.S)[1])
        self.assertEqual(drawn, {"names": NAMES, "counts": counts})
        self.assertIn("lenet5 on images:data, test samples", page)
        self.check_scores(result, counts)

    def check_scores(self, result, counts):
        right, n = sum(counts[i][i] for i in range(3)), sum(map(sum, counts))
        self.assertEqual(result["samples"], n)
        self.assertAlmostEqual(result["accuracy"], right / n, places=8)
        f1s = []
        for i, c in enumerate(result["classes"]):
            taken, samples = sum(row[i] for row in counts), sum(counts[i])
            precision = counts[i][i] / taken if taken else None
            recall = counts[i][i] / samples
            self.assertEqual((c["class"], c["samples"]), (NAMES[i], samples))
            for ours, theirs in ((c["precision"], precision), (c["recall"], recall)):
                if theirs is None:
                    self.assertIsNone(ours)
                else:
                    self.assertAlmostEqual(ours, theirs, places=8)
            both = (precision or 0) + recall
            f1s.append(2 * (precision or 0) * recall / both if both else 0)
            self.assertAlmostEqual(c["f1"], f1s[-1], places=8)
        self.assertAlmostEqual(result["macro_f1"], sum(f1s) / 3, places=8)

    def test_text(self):
        plain = self.evaluate().output
        run = self.evaluate("--per-class")
        self.assertEqual(run.output.splitlines()[0].rsplit(",", 1)[0],
                         plain.splitlines()[0].rsplit(",", 1)[0])
        self.assertRegex(run.output, r"(?m)^bee, wild +8 +")
        self.assertIn("mean F1 of the classes", run.output)

    def test_memory(self):
        """Counts do not depend on the batch, threads or a budget."""
        whole = self.evaluate("--json", "--per-class").events[0]["classes"]
        self.assertEqual(whole, self.evaluate("--json", "--per-class", "--batch", 3, "--threads",
                                              1, "--memory", "20M").events[0]["classes"])

    def test_most(self):
        """Of more classes than are to be shown, the most confused pairs."""
        counts = [c["taken_for"] for c in self.evaluate("--json", "--per-class").events[0]["classes"]]
        pairs = sorted(((-n, i, k) for i, row in enumerate(counts) for k, n in enumerate(row)
                        if i != k and n), key=lambda pair: pair)
        most = [(NAMES[i], NAMES[k], -n) for n, i, k in pairs[:2]]
        result = self.evaluate("--json", "--most-confused", 2, "--confusion", "m.csv", "--html",
                               "m.html").events[0]
        self.assertEqual(result["confused_pairs"], len(pairs))
        self.assertEqual([(p["class"], p["taken_for"], p["samples"])
                          for p in result["most_confused"]], most)
        self.assertEqual([set(c) & {"taken_for"} for c in result["classes"]], [set()] * 3)
        rows = list(csv.reader((self.folder / "m.csv").open()))
        self.assertEqual(rows, [["class", "taken for", "samples"],
                                *([a, b, str(n)] for a, b, n in most)])
        self.assertIn(f"The {len(most)} with the most wrong samples, of {len(pairs)} pairs",
                      (self.folder / "m.html").read_text())
        self.assertIn("of 3; --most-confused shows more",
                      self.evaluate("--per-class", "--most-confused", 2).output)

    def test_many_classes(self):
        """What is written and held of 20,000 classes goes with the samples, not with their square."""
        n = 20000
        draw = random.Random(9)
        write = quern.write_npy
        write(self.folder / "m.npy", "|u1", (n, 2), bytes(draw.randrange(256) for _ in range(2 * n)))
        write(self.folder / "m-y.npy", "<i4", (n,), b"".join(i.to_bytes(4, "little") for i in range(n)))
        self.run_quern("train", "mlp", "--data", "npy:m.npy,m-y.npy", "--classes", n, "--steps", 1,
                       "--batch", 8, "--save", "m.st", "--holdout", 0.2, "--memory", "80M")
        run = self.run_quern("evaluate", "mlp", "--weights", "m.st", "--json", "--per-class",
                             "--confusion", "m.csv", "--html", "m.html", "--memory", "80M")
        self.assertLess(len(run.output), 4e6)
        self.assertEqual(len(run.events[0]["classes"]), n)
        self.assertEqual(len(run.events[0]["most_confused"]), 1000)
        for name in ("m.csv", "m.html"):
            self.assertLess((self.folder / name).stat().st_size, 1e6)

    def test_no_numbers(self):
        """Weights that give no finite loss are an error, and no null among the figures."""
        file = bytearray(self.bytes_of("w.st"))
        length = int.from_bytes(file[:8], "little")
        for name, entry in json.loads(file[8:8 + length]).items():
            if name.endswith("bias"):
                at = 8 + length + entry["data_offsets"][0]
                file[at:at + 4] = b"\0\0\xc0\x7f"
        (self.folder / "nan.st").write_bytes(file)
        for options in ((), ("--json",)):
            run = self.run_quern("evaluate", "lenet5", "--weights", "nan.st", *options, status=1)
            self.assertIn("weights give no numbers", run.errors)
            self.assertEqual(run.output, "")

    def test_asked_rate(self):
        """A run that diverges says the rate that was asked for, not the warm-up's alone."""
        run = self.fails(1, "train", "mlp", "--data", "images:data", "--batch", 8, "--epochs", 200,
                         "--lr", 1000000, "--warmup", 5000, "--no-test")
        self.assertIn("set to 1e+06", run.errors)

    def test_numbers(self):
        """Targets that are numbers have no classes."""
        import array
        values = array.array("f", [i / 64 for i in range(64)]).tobytes()
        quern.write_npy(self.folder / "t.npy", "<f4", (64, 1), values)
        quern.write_npy(self.folder / "t-y.npy", "<f4", (64, 1), values)
        self.run_quern("train", "mlp", "--data", "npy:t.npy,t-y.npy", "--epochs", 1, "--batch", 8,
                       "--save", "t.st", "--holdout", 0.25)
        self.fails(2, "evaluate", "mlp", "--weights", "t.st", "--per-class", says=["classes"])


if __name__ == "__main__":
    unittest.main()
