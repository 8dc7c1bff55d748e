"""quern label: a stream labelled by the command, killed and gone on with, named, shown, and what is refused."""
import base64
import csv
import math
import pathlib
import random
import re
import signal
import struct
import time
import unittest

import quern

KILLS = 200 if quern.ALL else 6


class Label(quern.Case):
    def setUp(self):
        super().setUp()
        draw = random.Random(5)

        def row(centre):
            return [draw.gauss(c, 1) for c in centre]
        known = [(row((0, 0, 0)), "cat") if i % 2 else (row((8, 0, 0)), "dog") for i in range(300)]
        (self.folder / "known.csv").write_text(
            "a,b,c,kind\n" + "".join(f"{x[0]:.4f},{x[1]:.4f},{x[2]:.4f},{y}\n" for x, y in known))
        self.truth = [("cat", "dog", "bird")[i % 3] if i > 500 else ("cat", "dog")[i % 2] for i in range(3000)]
        centres = {"cat": (0, 0, 0), "dog": (8, 0, 0), "bird": (0, 9, 3)}
        rows = [",".join(f"{v:.4f}" for v in row(centres[y])) for y in self.truth]
        (self.folder / "new.csv").write_text("a,b,c\n" + "\n".join(rows) + "\n")
        self.run_quern("label", "init", "--known", "csv:known.csv", "--out", "l.qnl")
        self.fresh = self.bytes_of("l.qnl")

    def stream(self, *options, **more):
        return self.run_quern("label", "stream", "l.qnl", "--data", "csv:new.csv", "--out", "labels.csv", *options,
                              **more)

    def labels(self):
        lines = (self.folder / "labels.csv").read_text().splitlines()
        self.assertEqual(lines[0], "sample,label,confidence")
        return [line.split(",") for line in lines[1:]]

    def check_told(self, truth, labeller):
        """Answers name found classes, and are there after saving; wrong ones change nothing."""
        asked = self.run_quern("label", "ask", "p.qnl", 4, "--json", "--html", "asked.html").of("question")
        page = (self.folder / "asked.html").read_text()
        self.assertEqual(page.count("data:image/"), len(asked))
        for question in asked:
            self.assertIn(str(question["sample"]), page)
        self.run_quern("label", "tell", "p.qnl", *(f"{q['sample']}=class-{truth[q['sample'] - 1]}" for q in asked))
        self.assertNotEqual(self.bytes_of("p.qnl"), labeller)
        names = [c["name"] for c in self.run_quern("label", "show", "p.qnl", "--json").of("class")]
        self.assertIn("class-2", names)
        again = self.run_quern("label", "ask", "p.qnl", 4, "--json").of("question")
        self.assertFalse({q["sample"] for q in asked} & {q["sample"] for q in again})
        self.assertEqual(self.run_quern("label", "review", "p.qnl", "--json").of("review"), [{"event": "review", "changed": 0}])
        self.assertIn("no more words", self.run_quern("label", "review", "p.qnl", "new-1", status=2).errors)
        told = self.bytes_of("p.qnl")
        for words, message in (((), "SAMPLE=NAME"), (("5",), "SAMPLE=NAME"), (("0=a",), "SAMPLE=NAME"),
                               (("99999=a",), "SAMPLE=NAME"), (("x=a",), "SAMPLE=NAME"), (("700=a\nb",), "line break"), (("700=new-99",), "found in the stream"),
                               (("700=" + 64 * "a",), "SAMPLE=NAME")):
            self.assertIn(message, self.run_quern("label", "tell", "p.qnl", *words, status=2).errors)
        self.assertEqual(self.bytes_of("p.qnl"), told)
        (self.folder / "p.qnl").write_bytes(labeller)

    def test_labels(self):
        self.stream()
        rows = self.labels()
        self.assertEqual([int(row[0]) for row in rows], list(range(1, 3001)))
        right = sum(row[1] == truth if truth != "bird" else row[1] not in ("cat", "dog")
                    for row, truth in zip(rows, self.truth))
        self.assertGreater(right, 2950)
        shown = self.run_quern("label", "show", "l.qnl", "--json").of("class")
        self.assertEqual([c["name"] for c in shown if c["known"]], ["cat", "dog"])
        for c in shown:  # of the last 1000 samples
            self.assertAlmostEqual(c["share"], sum(row[1] == c["name"] for row in rows[-1000:]) / 1000, delta=0.05)
        found = max((c for c in shown if not c["known"]), key=lambda c: c["members"])
        asked = self.run_quern("label", "ask", "l.qnl", 3, "--json").of("question")
        self.assertIn(found["name"], [q["class"] for q in asked])
        self.assertEqual([q["members"] for q in asked], sorted((q["members"] for q in asked), reverse=True))
        process = self.start("label", "ask", "l.qnl", 3, "--answers", stdin=-1)
        output, errors = process.communicate("".join(
            "bird\n" if q["class"] == found["name"] else "-\n" for q in asked))
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn("1 samples told", output)
        again = self.run_quern("label", "ask", "l.qnl", 3, "--json").of("question")
        self.assertNotIn(found["name"], [q["class"] for q in again])
        self.run_quern("label", "show", "l.qnl", "--html", "classes.html")
        self.assertIn("bird", (self.folder / "classes.html").read_text())
        self.stream()
        self.assertGreater(sum(row[1] == "bird" for row in self.labels()), 800)
        self.run_quern("label", "merge", "l.qnl", "cat", "dog")
        names = {c["name"] for c in self.run_quern("label", "show", "l.qnl", "--json").of("class")}
        self.assertNotIn("dog", names)

    def test_training_on_labelled_rows(self):
        """What was labelled trains a network that tells the classes, the new one too, of other rows."""
        self.stream()
        found = max((c for c in self.run_quern("label", "show", "l.qnl", "--json").of("class") if not c["known"]),
                    key=lambda c: c["members"])
        self.run_quern("label", "name", "l.qnl", f"{found['name']}=bird")
        self.run_quern("train", "mlp", "--data", "labelled:l.qnl", "--epochs", 5, "--save", "m.safetensors")
        rows = (self.folder / "new.csv").read_text().splitlines()
        (self.folder / "test.csv").write_text(
            "\n".join(f"{row},{kind}" for row, kind in zip(rows[601:1501], self.truth[600:1500])) + "\n")
        scored = self.run_quern("evaluate", "mlp", "--weights", "m.safetensors", "--data", "csv:test.csv", "--split",
                                "train", "--json")
        self.assertGreater(scored.events[-1]["accuracy"], 0.95)
        (self.folder / "cut.csv").write_text("\n".join(rows[:700]) + "\n1,2,x\n")
        self.fails(1, "label", "stream", "l.qnl", "--data", "csv:cut.csv", says=["line 701"])
        self.fails(1, "train", "mlp", "--data", "labelled:l.qnl", says=["l.qnl", "under way"])

    def test_killed_streams_end_alike(self):
        self.stream()
        labels, labeller = self.bytes_of("labels.csv"), self.bytes_of("l.qnl")
        draw = random.Random(1)
        begun = time.monotonic()
        (self.folder / "l.qnl").write_bytes(self.fresh)
        (self.folder / "labels.csv").unlink()
        self.stream()
        took = time.monotonic() - begun
        for _ in range(KILLS):
            (self.folder / "l.qnl").write_bytes(self.fresh)
            (self.folder / "labels.csv").unlink(missing_ok=True)
            for _ in range(3):
                if self.is_done():
                    break
                process = self.start("label", "stream", "l.qnl", "--data", "csv:new.csv", "--out", "labels.csv")
                time.sleep(draw.random() * took)
                process.send_signal(signal.SIGKILL)
                process.communicate()
            if not self.is_done():
                self.stream()
            self.assertEqual(self.bytes_of("labels.csv"), labels)
            self.assertEqual(self.bytes_of("l.qnl"), labeller)

    def is_done(self):
        """Whether the whole stream has been labelled."""
        shown = self.run_quern("label", "show", "l.qnl", "--json").of("labeller")[0]
        return shown["samples"] == 3000 and not shown["under_way"]

    def test_columns_of_texts(self):
        """Colours tell the classes apart; one that no labelled row had is of a new class."""
        draw = random.Random(3)
        colours = {"cat": "red", "dog": "blue", "bird": "green"}

        def row(kind):
            return f"{draw.gauss(0, 1):.3f},{colours[kind]},{draw.choice(['yes', 'no'])}"
        (self.folder / "texts.csv").write_text(
            "size,colour,tail,kind\n" + "".join(f"{row(kind)},{kind}\n" for kind in ["cat", "dog"] * 50))
        (self.folder / "rows.csv").write_text(
            "size,colour,tail\n" + "".join(row(kind) + "\n" for kind in ["cat", "dog", "bird"] * 100))
        self.run_quern("label", "init", "--known", "csv:texts.csv", "--out", "t.qnl")
        self.run_quern("label", "stream", "t.qnl", "--data", "csv:rows.csv", "--out", "labels.csv")
        names = [row[1] for row in self.labels()]
        self.assertGreater(names[::3].count("cat"), 95)
        self.assertGreater(names[1::3].count("dog"), 95)
        self.assertFalse({"cat", "dog"} & set(names[2::3]))
        asked = self.run_quern("label", "ask", "t.qnl").output
        self.assertRegex(asked, r"\(-?[0-9.]+,\?,(yes|no)\)")
        (self.folder / "rows.csv").write_text("1,red,yes\nbig,red,yes\n")
        self.fails(1, "label", "stream", "t.qnl", "--data", "csv:rows.csv", says=["line 2", "column 1", "'big'"])
        bench = self.run_quern("label", "bench", "--known", "csv:texts.csv", "--settings", 1, "--json")
        self.assertEqual(bench.of("setting")[0]["features"], 3)
        trained = self.run_quern("train", "mlp", "--data", "csv:texts.csv", "--batch", 10, "--steps", 2)
        self.assertIn("categories: colour", trained.errors)

    def test_pipe_and_revision(self):
        text = (self.folder / "new.csv").read_text()
        process = self.start("label", "stream", "l.qnl", "--data", "-", "--revise", 100, stdin=-1)
        output, errors = process.communicate(text)
        self.assertEqual(process.returncode, 0, errors)
        self.assertEqual([int(line.split(",")[0]) for line in output.splitlines()[1:]], list(range(1, 3001)))

    def make_series(self, name, kinds):
        """Sixteen steps of two values, of which the class says the speed, as npy files."""
        draw = random.Random(len(kinds))
        quern.write_npy(self.folder / f"{name}-x.npy", "<f4", (len(kinds), 16, 1, 2), struct.pack(
            f"<{32 * len(kinds)}f", *(wave(0.3 * (kind + 1) * step) + draw.gauss(0, 0.1)
                                      for kind in kinds for step in range(16) for wave in (math.sin, math.cos))))
        quern.write_npy(self.folder / f"{name}-y.npy", "<i4", (len(kinds),), struct.pack(f"<{len(kinds)}i", *kinds))
        return f"npy:{name}-x.npy,{name}-y.npy"

    def test_series(self):
        """Series are asked for and told as pictures are."""
        known = self.make_series("old", [i % 2 for i in range(40)])
        new = self.make_series("stream", [i % 4 % 3 for i in range(120)])
        self.run_quern("label", "init", "--known", known, "--out", "s.qnl", "--threads", 1)
        self.run_quern("label", "stream", "s.qnl", "--data", new, "--out", "labels.csv")
        asked = [q["sample"] for q in self.run_quern("label", "ask", "s.qnl", 2, "--json").of("question")]
        self.assertEqual(len(set(asked)), 2)
        self.run_quern("label", "tell", "s.qnl", *(f"{sample}=hum" for sample in asked))
        hum = [c for c in self.run_quern("label", "show", "s.qnl", "--json").of("class") if c["name"] == "hum"]
        self.assertEqual(len(hum), 1)
        self.assertGreater(hum[0]["share"], 0)
        again = self.run_quern("label", "ask", "s.qnl", 2, "--json").of("question")
        self.assertFalse(set(asked) & {q["sample"] for q in again})
        told = self.bytes_of("s.qnl")
        names = [f"{sample}=sound-{sample}" for sample in range(1, 121) if sample not in asked][:64]
        self.fails(2, "label", "tell", "s.qnl", *names, says=["no room for the class", "nothing was told"])
        self.assertEqual(self.bytes_of("s.qnl"), told)

    def test_a_growing_file(self):
        lines = (self.folder / "new.csv").read_text().splitlines(keepends=True)
        (self.folder / "grows.csv").write_text("".join(lines[:601]) + lines[601][:5])
        process = self.start("label", "stream", "l.qnl", "--data", "csv:grows.csv", "--follow")
        for _ in range(601):
            process.stdout.readline()
        with open(self.folder / "grows.csv", "a", encoding="utf-8") as file:
            file.write(lines[601][5:])
        self.assertTrue(process.stdout.readline().startswith("601,"))
        process.send_signal(signal.SIGINT)
        process.communicate()
        self.assertEqual(process.returncode, 0)
        self.run_quern("label", "stream", "l.qnl", "--data", "csv:grows.csv")

    def test_a_file_of_version_1(self):
        """Written before labellers had examples; goes on where it was."""
        old = pathlib.Path(__file__).parents[1] / "fuzz" / "corpus" / "labeller" / "small"
        (self.folder / "l.qnl").write_bytes(old.read_bytes())
        before = self.run_quern("label", "show", "l.qnl", "--json").of("labeller")[0]
        (self.folder / "one.csv").write_text("0.5\n" * 3)
        self.run_quern("label", "stream", "l.qnl", "--data", "csv:one.csv")
        after = self.run_quern("label", "show", "l.qnl", "--json").of("labeller")[0]
        self.assertEqual(after["samples"], before["samples"] + 3)
        self.assertIn(b'"version":"2"', self.bytes_of("l.qnl"))

    def test_mistakes(self):
        self.fails(2, "label", "draw", says=["not an action"])
        self.fails(2, "label", "init", says=["--known"])
        self.fails(1, "label", "show", "known.csv", "--background", says=["known.csv", "safetensors"])
        self.fails(2, "label", "stream", "l.qnl", says=["--data"])
        self.fails(2, "label", "name", "l.qnl", "wolf=fox", says=["wolf"])
        (self.folder / "bad.csv").write_text("1,2,3\n1,x,3\n")
        self.fails(1, "label", "stream", "l.qnl", "--data", "csv:bad.csv", says=["bad.csv", "line 2", "column 2"])
        (self.folder / "bad.csv").write_text("1,2,3,cat\n")
        self.fails(1, "label", "stream", "l.qnl", "--data", "csv:bad.csv", says=["leave the label out"])
        (self.folder / "bad.csv").write_text('1,2,3\n1,"2,3\n')
        self.fails(1, "label", "stream", "l.qnl", "--data", "csv:bad.csv", says=["bad.csv", "line 2", "not closed"])
        self.fails(1, "label", "stream", "l.qnl", "--data", "csv:new.csv", "--out", "/dev/full", says=["/dev/full"])
        self.fails(1, "label", "stream", "l.qnl", "--data", "csv:none.csv", says=["none.csv"])
        (self.folder / "wide.csv").write_text(",".join(["1"] * 300) + "\n" + ",".join(["2"] * 300) + "\n")
        self.fails(2, "label", "init", "--known", "csv:wide.csv", "--out", "w.qnl", says=["1 to 128"])

    def test_names(self):
        """Names are quoted in CSV; those that would be two classes' or break lines are refused."""
        known = (self.folder / "known.csv").read_text()
        for given, message in (('"line\nbreak"', "line break"), ("new-1", "found in the stream"), ("n" * 64, "64 bytes")):
            (self.folder / "bad.csv").write_text(known.replace(",cat\n", f",{given}\n"))
            self.fails(2, "label", "init", "--known", "csv:bad.csv", "--out", "n.qnl", says=[message])
        self.assertFalse((self.folder / "n.qnl").exists())
        (self.folder / "good.csv").write_text(known.replace(",cat\n", ',"cat, ""wild"""\n'))
        self.run_quern("label", "init", "--known", "csv:good.csv", "--out", "n.qnl")
        self.run_quern("label", "stream", "n.qnl", "--data", "csv:new.csv", "--out", "named.csv")
        with open(self.folder / "named.csv", newline="") as file:
            rows = list(csv.reader(file))
        self.assertEqual({len(row) for row in rows}, {3})
        self.assertIn('cat, "wild"', {row[1] for row in rows})

    def test_streams_one_after_another(self):
        """A second stream's labels come behind the first's; those of other samples are not replaced unasked."""
        rows = (self.folder / "new.csv").read_text().splitlines(keepends=True)
        (self.folder / "day1.csv").write_text("".join(rows[:801]))
        (self.folder / "day2.csv").write_text("".join(rows[:1] + rows[801:1201]))
        for day in "day1.csv", "day2.csv":
            self.run_quern("label", "stream", "l.qnl", "--data", f"csv:{day}", "--out", "labels.csv")
        self.assertEqual([int(row[0]) for row in self.labels()], list(range(1, 1201)))
        both = self.bytes_of("labels.csv")
        (self.folder / "l.qnl").write_bytes(self.fresh)
        again = "label", "stream", "l.qnl", "--data", "csv:day2.csv", "--out", "labels.csv"
        self.fails(2, *again, says=["up to sample 1200", "after sample 0", "--force"])
        self.assertEqual(self.bytes_of("labels.csv"), both)
        self.run_quern(*again, "--force")
        self.assertEqual(len(self.labels()), 400)

    def test_a_missing_value_is_no_header(self):
        (self.folder / "nan.csv").write_text("0.1,nan,0.3\n0.1,0.2,0.3\n")
        self.fails(1, "label", "stream", "l.qnl", "--data", "csv:nan.csv", says=["nan.csv", "line 1", "column 2"])

    def test_undo_and_export(self):
        self.fails(2, "label", "undo", "l.qnl", says=["nothing was corrected"])
        self.stream()
        found = [c["name"] for c in self.run_quern("label", "show", "l.qnl", "--json").of("class") if not c["known"]]
        before = self.bytes_of("l.qnl")
        self.run_quern("label", "name", "l.qnl", f"{found[0]}=bird")
        named = self.bytes_of("l.qnl")
        self.run_quern("label", "export", "l.qnl", "--out", "kept.csv")
        lines = [line.split(",") for line in (self.folder / "kept.csv").read_text().splitlines()]
        self.assertEqual(lines[0], ["sample", "label", "confidence"])
        self.assertEqual(int(lines[-1][0]), 3000)
        wrong = sum(label != self.truth[int(sample) - 1] for sample, label, _ in lines[1:])
        self.assertLess(wrong, 0.1 * len(lines))
        self.run_quern("label", "undo", "l.qnl")
        self.assertEqual(self.bytes_of("l.qnl"), before)
        self.run_quern("label", "undo", "l.qnl")
        self.assertEqual(self.bytes_of("l.qnl"), named)
        (self.folder / "more.csv").write_text("1,2,3\n")
        self.run_quern("label", "stream", "l.qnl", "--data", "csv:more.csv", "--out", "more-labels.csv")
        self.fails(2, "label", "undo", "l.qnl", says=["1 samples were labelled"])

    def make_pictures(self, name, kinds):
        """Pictures with a bright bar, whose place is the class, as files of the format of MNIST."""
        draw = random.Random(len(kinds))
        (self.folder / name).mkdir()
        for split, labels in (("train", kinds), ("t10k", kinds[:1])):
            pictures = b"".join(bytes(draw.randrange(50) + (180 if row // 3 == kind else 0)
                                      for row in range(8) for _ in range(8)) for kind in labels)
            (self.folder / name / f"{split}-images-idx3-ubyte").write_bytes(
                struct.pack(">4I", 2051, len(labels), 8, 8) + pictures)
            (self.folder / name / f"{split}-labels-idx1-ubyte").write_bytes(
                struct.pack(">2I", 2049, len(labels)) + bytes(labels))

    def samples_of(self, labeller):
        return self.run_quern("label", "show", labeller, "--json").of("labeller")[0]["samples"]

    def check_typical(self):
        """The page shows samples of each class as bitmaps, the lowest row first."""
        self.run_quern("label", "show", "p.qnl", "--html", "classes.html")
        page = self.bytes_of("classes.html").decode()
        for kind in range(2):
            row = re.search(rf'<td>{kind}</td><td><img class="small" alt="{kind}" src="data:image/bmp;base64,([^"]+)"', page)
            bitmap = base64.b64decode(row[1])
            self.assertEqual(struct.unpack("<2sIHHI", bitmap[:14]), (b"BM", len(bitmap), 0, 0, 54))
            self.assertEqual(struct.unpack("<Iii", bitmap[14:26]), (40, 8, 8))
            rows = [sum(bitmap[54 + 24 * y:78 + 24 * y]) for y in range(7, -1, -1)]
            self.assertEqual(rows.index(max(rows)) // 3, kind)

    def test_pictures(self):
        """A class that nobody announced is found; a killed stream goes on to the same labels and file."""
        truth = [i % 2 if i < 310 else i % 3 for i in range(720)]
        self.make_pictures("old", [i % 2 for i in range(60)])
        self.make_pictures("stream", truth)
        self.run_quern("label", "init", "--known", "idx:old", "--out", "p.qnl", "--threads", 1)
        fresh = self.bytes_of("p.qnl")
        command = "label", "stream", "p.qnl", "--data", "idx:stream", "--out", "labels.csv"
        self.run_quern(*command)
        rows, labels, labeller = self.labels(), self.bytes_of("labels.csv"), self.bytes_of("p.qnl")
        self.assertGreater(sum(row[1] == str(kind) for kind, row in zip(truth, rows) if kind < 2), 400)
        late = [row[1] for kind, row in list(zip(truth, rows))[700:] if kind == 2]
        self.assertGreater(sum(name.startswith("new-") for name in late), len(late) // 2)
        question = self.run_quern("label", "ask", "p.qnl", "--json").of("question")[0]
        self.assertTrue(question["class"].startswith("new-"))
        self.check_typical()
        self.check_told(truth, labeller)
        trained = self.run_quern("train", "mlp", "--data", "labelled:p.qnl", "--epochs", 3, "--holdout", 0.2,
                                 "--json").of("epoch")[-1]
        self.assertGreater(trained["test_accuracy"], 0.5)
        (self.folder / "p.qnl").write_bytes(fresh)
        (self.folder / "labels.csv").unlink(missing_ok=True)
        process = self.start(*command)
        while self.samples_of("p.qnl") == 0:  # it is written first after 500 samples
            self.assertIsNone(process.poll())
        process.send_signal(signal.SIGKILL)
        process.communicate()
        if self.samples_of("p.qnl") < len(rows):
            self.run_quern(*command)
        self.assertEqual(self.bytes_of("labels.csv"), labels)
        self.assertEqual(self.bytes_of("p.qnl"), labeller)
        self.fails(2, "label", "stream", "p.qnl", "--data", "csv:new.csv", says=["rows of numbers"])
        self.fails(2, "label", "stream", "l.qnl", "--data", "idx:stream", says=["csv:FILE"])

    @quern.numbers
    def test_bench(self):
        run = self.run_quern("label", "bench", "--settings", 1, "--features", 5, "--json", "--html", "bench.html")
        ours = next(m for m in run.of("method") if m["name"] == "quern")
        others = [m for m in run.of("method") if m["name"] != "quern"]
        self.assertTrue(all(ours["balanced"] < m["balanced"] for m in others))
        self.assertLess(run.of("setting")[0]["bytes"], 100000)
        names = run.of("names")[0]
        self.assertGreater(names["asked"], names["drawn"])
        self.assertLessEqual(names["matched"], 100)
        alone = self.run_quern("label", "bench", "--settings", 1, "--features", 5, "--json", "--nothing-new")
        self.assertEqual({m["missed_new"] for m in alone.of("method")}, {0})
        self.assertIn("micro-clusters", (self.folder / "bench.html").read_text())

    def test_bench_of_a_data_set(self):
        """Four separate classes: whichever two are held back are found; figures do not depend on the run."""
        draw = random.Random(2)
        centres = {"a": (0, 0), "b": (12, 0), "c": (0, 12), "d": (12, 12)}
        rows = [f"{draw.gauss(x, 1):.4f},{draw.gauss(y, 1):.4f},{name}\n"
                for name, (x, y) in centres.items() for _ in range(300)]
        (self.folder / "all.csv").write_text("".join(rows))
        options = ["label", "bench", "--known", "csv:all.csv", "--settings", 2, "--json"]
        run = self.run_quern(*options, "--html", "bench.html")
        ours = next(m for m in run.of("method") if m["name"] == "quern")
        self.assertLess(ours["balanced"], 5)
        self.assertNotIn("excess_balanced", ours)
        self.assertEqual([(t["seed"], t["classes"], t["features"]) for t in run.of("setting")], [(1, 4, 2), (2, 4, 2)])
        self.assertTrue(all(0.5 < t["new_share"] < 0.7 for t in run.of("setting")))
        self.assertNotIn("true density", (self.folder / "bench.html").read_text())
        again = self.run_quern(*options)
        self.assertEqual(run.of("method"), again.of("method"))
        alone = self.run_quern(*options, "--nothing-new")
        self.assertEqual({m["missed_new"] for m in alone.of("method")}, {0})
        self.fails(2, "label", "bench", "--known", "csv:all.csv", "--speed", 0.1, says=["--speed", "--known"])
        (self.folder / "one.csv").write_text("1,2,a\n2,3,a\n3,4,a\n")
        self.fails(2, "label", "bench", "--known", "csv:one.csv", says=["two or more"])


if __name__ == "__main__":
    unittest.main()
