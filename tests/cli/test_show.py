#!/usr/bin/python3
"""quern show and quern fix: what trained weights say of data, as lines, JSON and a page; pictures in wrong folders are
moved after a question, and back; nothing is replaced."""
import os
import random
import re
import unittest

import quern


class Show(quern.Case):
    def make_rows(self, name="d.csv", n=300, part=0.1):
        """Three classes of two numbers; every tenth row has another class's name. Returns the numbers of those rows."""
        draw = random.Random(7)
        wrong = set(draw.sample(range(n), round(part * n)))
        lines = ["x,y,kind"]
        for i in range(n):
            kind = i % 3
            x, y = draw.gauss((-2, 2, 0)[kind], 0.6), draw.gauss((0, 0, 3)[kind], 0.6)
            lines.append(f"{x:.4f},{y:.4f},{'abc'[(kind + draw.choice((1, 2))) % 3 if i in wrong else kind]}")
        (self.folder / name).write_text("\n".join(lines) + "\n")
        return wrong

    def make_photos(self):
        """Bright and dark pictures, two in the other's folder, and a copy."""
        draw = random.Random(3)
        for kind, base in (("bright", 180), ("dark", 20)):
            (self.folder / "photos" / kind).mkdir(parents=True)
            for i in range(14):
                pixels = bytes(base + draw.randrange(60) for _ in range(28 * 28))
                quern.write_png(self.folder / "photos" / kind / f"{i}.png", 28, 28, pixels)
        os.rename(self.folder / "photos/dark/3.png", self.folder / "photos/bright/wrong.png")
        (self.folder / "photos/dark/wrong.png").write_bytes((self.folder / "photos/bright/0.png").read_bytes())
        (self.folder / "photos/bright/again.png").write_bytes((self.folder / "photos/bright/5.png").read_bytes())
        self.run_quern("train", "lenet-relu", "--data", "images:photos", "--steps", 40, "--batch", 8, "--no-test", "--save", "p.st")

    def test_rows(self):
        """Of labels of which a tenth is wrong, four fifths are among the first 15 % that are suggested."""
        wrong = self.make_rows()
        self.run_quern("train", "mlp", "--data", "csv:d.csv", "--holdout", 0.2, "--steps", 30, "--no-test", "--save", "d.st")
        run = self.run_quern("show", "d.st", "--json")
        summary, suspects = run.of("show")[0], run.of("suspect")
        self.assertEqual((summary["samples"], summary["suspects"]), (300, len(suspects)))
        first = {int(s["sample"].removeprefix("row ")) - 1 for s in suspects[:45]}
        self.assertGreaterEqual(len(first & wrong), 0.8 * len(wrong))
        lines = (self.folder / "d.csv").read_text().splitlines()
        for s in suspects:
            self.assertEqual(s["class"], lines[int(s["sample"].removeprefix("row "))][-1])
        self.assertEqual(sum(c["samples"] for c in run.of("class")), 300)
        self.fails(1, "fix", "d.st", "--yes", says=["the class of a sample is not the folder that it lies in"])

    def test_photos(self):
        """The page holds thumbnails and loads nothing; quern fix moves what is in the wrong folder, and back."""
        self.make_photos()
        run = self.run_quern("show", "p.st", "--html", "look.html", "--json")
        self.assertEqual({(s["sample"], s["suggested"]) for s in run.of("suspect")},
                         {("photos/bright/wrong.png", "dark"), ("photos/dark/wrong.png", "bright")})
        pairs = {frozenset((d["sample"], d["of"])) for d in run.of("duplicate")}
        self.assertIn(frozenset(("photos/bright/5.png", "photos/bright/again.png")), pairs)
        page = (self.folder / "look.html").read_text()
        self.assertEqual(os.stat(self.folder / "look.html").st_mode & 0o777, 0o600)
        self.assertGreater(page.count("data:image/jpeg;base64,"), 10)
        self.assertFalse(re.search(r'(src|href)="(?!data:)', page))
        self.assertIn("photos/bright/wrong.png", page)
        self.assertIn("probably wrong labels: 2", self.run_quern("show", "p.st").output)
        self.check_fix()

    def check_fix(self):
        def pictures():
            return sorted(str(p.relative_to(self.folder)) for p in self.folder.glob("photos/*/*"))
        before = pictures()
        contents = {p: self.bytes_of(p) for p in before}
        run = self.run_quern("fix", "p.st", "--dry-run", "--json")
        self.assertEqual([e["moved"] for e in run.of("move")], [False, False])
        self.assertIn("nothing was moved", self.run_quern("fix", "p.st", stdin=open(os.devnull)).output)
        self.assertEqual(pictures(), before)
        self.fails(2, "fix", "p.st", "--json", says=["--json cannot ask"])
        self.fails(2, "fix", "p.st", "--undo", "moved.csv", says=["leave the checkpoint out"])
        self.fails(2, "fix", says=["quern fix needs CHECKPOINT"])
        # Each goes beside the other's name, which is taken where the other has not gone yet.
        run = self.run_quern("fix", "p.st", "--yes", "--json")
        self.assertEqual([e["moved"] for e in run.of("move")], [True, True])
        after = pictures()
        self.assertEqual(len(after), len(before))
        self.assertNotEqual(after, before)
        for event in run.of("move"):
            self.assertTrue(os.path.exists(event["to"]) and event["to"] != event["from"])
        self.assertEqual(os.stat(self.folder / "moved.csv").st_mode & 0o777, 0o600)
        self.assertEqual(sorted(contents.values()), sorted(self.bytes_of(p) for p in after))
        # Where something has come to lie since, it stays, and so does what would go there.
        first = run.of("move")[0]
        with open(first["from"], "w", encoding="ascii") as file:
            file.write("new")
        run = self.run_quern("fix", "--undo", "moved.csv", "--yes", status=1)
        self.assertIn("1 of 2 pictures stay where they are", run.errors)
        with open(first["from"], encoding="ascii") as file:
            self.assertEqual(file.read(), "new")
        os.unlink(first["from"])
        self.run_quern("fix", "--undo", "moved.csv", "--yes")
        self.assertEqual({p: self.bytes_of(p) for p in pictures()}, contents)
        (self.folder / "other.csv").write_text("a,b\n1,2\n")
        self.fails(1, "fix", "--undo", "other.csv", says=["is no list of quern fix"])

    def test_refused(self):
        """Targets that are numbers, files that are no checkpoint."""
        (self.folder / "r.csv").write_text("x,y\n" + "".join(f"{i / 7},{i * 0.31}\n" for i in range(40)))
        self.run_quern("train", "mlp", "--data", "csv:r.csv", "--task", "regression", "--steps", 2, "--no-test", "--save", "r.st")
        self.fails(1, "show", "r.st", says=["the targets of csv:r.csv are numbers"])
        self.fails(1, "show", "none.st", says=["none.st"])
        self.fails(2, "show", says=["show"])


if __name__ == "__main__":
    unittest.main()
