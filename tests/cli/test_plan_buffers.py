"""quern plan --buffers: what is written is a packing, with all that was there; exit statuses; what is
proven; files that are wrong are refused with their line."""
import csv
import random
import signal
import unittest

import quern


def cut(seed, n, times, size):
    """Cuts a rectangle of times by bytes into n boxes: rows of lower, upper, size."""
    rng = random.Random(seed)
    boxes = [(0, times, size)]
    while len(boxes) < n:
        lower, upper, height = boxes.pop(max(rng.sample(range(len(boxes)), min(3, len(boxes))),
                                             key=lambda i: (boxes[i][1] - boxes[i][0]) * boxes[i][2]))
        if rng.random() < 0.5 and upper - lower > 1:
            at = rng.randrange(lower + 1, upper)
            boxes += [(lower, at, height), (at, upper, height)]
        elif height > 1:
            part = rng.randrange(1, height)
            boxes += [(lower, upper, part), (lower, upper, height - part)]
        else:
            boxes.append((lower, upper, height))
    rng.shuffle(boxes)
    return boxes


def cross(seed, boxes, n):
    """Pairs of boxes of which one begins and ends before the other exchange their ends, n times: as many
    bytes as before at every time, but hardly a packing without waste."""
    rng = random.Random(seed)
    while n > 0:
        i, j = rng.sample(range(len(boxes)), 2)
        (a, b, height), (c, d, other) = boxes[i], boxes[j]
        if not a < c < b < d:
            continue
        low = min(height, other)
        boxes[i], boxes[j] = (a, d, low), (c, b, low)
        boxes += [(a, b, height - low)] * (height > low) + [(c, d, other - low)] * (other > low)
        n -= 1
    return boxes


class Buffers(quern.Case):
    def write(self, boxes, name="buffers.csv"):
        lines = ["id,lower,upper,size", *(f"b{i},{a},{b},{s}" for i, (a, b, s) in enumerate(boxes))]
        (self.folder / name).write_text("\n".join(lines) + "\n")

    def rows(self, name="placed.csv"):
        with open(self.folder / name, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def top(self, rows):
        """The top of a packing, which is checked."""
        boxes = [tuple(int(row[k]) for k in ("lower", "upper", "offset", "size")) for row in rows]
        for i, (a, b, y, h) in enumerate(boxes):
            self.assertGreaterEqual(y, 0)
            for c, d, z, k in boxes[:i]:
                self.assertTrue(b <= c or d <= a or y + h <= z or z + k <= y, (i, a, b, y, h))
        return max(y + h for _, _, y, h in boxes)

    def pack(self, *arguments, status=0):
        run = self.run_quern("plan", "--buffers", "buffers.csv", "--out", "placed.csv", "--json",
                             *arguments, status=status)
        return run.of("packed")[0]

    def test_perfect(self):
        boxes = cut(1, 200, 1 << 20, 1 << 20)
        self.write(boxes)
        told = self.pack("--capacity", 1 << 20, "--seconds", 60)
        rows = self.rows()
        self.assertEqual(self.top(rows), 1 << 20)
        self.assertEqual([(int(r["lower"]), int(r["upper"]), int(r["size"])) for r in rows], boxes)
        self.assertEqual([r["id"] for r in rows], [f"b{i}" for i in range(len(boxes))])
        self.assertEqual((told["buffers"], told["top_bytes"], told["fits"]), (200, 1 << 20, True))
        self.assertTrue(told["proven_optimal"])
        self.assertEqual(told["gap_percent"], 0)

    def test_does_not_fit(self):
        self.write(cut(2, 40, 1000, 1000))
        told = self.pack("--capacity", 999, status=3)
        self.assertTrue(told["proven_impossible"])
        self.assertEqual(self.top(self.rows()), told["top_bytes"])
        text = self.run_quern("plan", "--buffers", "buffers.csv", "--capacity", 999, status=3).output
        self.assertIn("does not fit, proven", text)

    def test_no_time(self):
        """The best that was found is written, and nothing that is not known is said to be proven."""
        self.write(cut(3, 300, 40, 1 << 16))
        told = self.pack("--capacity", 1 << 16, "--seconds", 0, status=3)
        self.assertFalse(told["proven_impossible"] or told["proven_optimal"])
        self.assertEqual(self.top(self.rows()), told["top_bytes"])
        self.assertGreater(told["gap_percent"], 0)
        text = self.run_quern("plan", "--buffers", "buffers.csv", "--capacity", 1 << 16,
                              "--seconds", 0, status=3).output
        self.assertIn("none is not proven", text)

    def test_as_low_as_possible(self):
        self.write([(0, 4, 3), (2, 6, 5), (5, 9, 3)])
        self.assertEqual(self.pack()["top_bytes"], 8)
        self.assertIn("as much, proven", self.run_quern("plan", "--buffers", "buffers.csv").output)

    def test_columns_are_kept(self):
        text = ('\ufeffname,"size",lower,id,upper,note\r\n'
                'x,8,0,1,5,"a, ""b""\n c"\r\n\r\n"é", 16 ,-3,2,5,\r\n')
        (self.folder / "buffers.csv").write_bytes(text.encode())
        self.pack()
        placed = (self.folder / "placed.csv").read_bytes().decode()
        offsets = [row["offset"] for row in self.rows()]
        self.assertEqual(sorted(offsets), sorted(offsets, key=int))
        self.assertEqual(placed, '\ufeffname,"size",lower,id,upper,note,offset\r\n'
                         f'x,8,0,1,5,"a, ""b""\n c",{offsets[0]}\r\n"é", 16 ,-3,2,5,,{offsets[1]}\r\n')
        (self.folder / "placed.csv").rename(self.folder / "buffers.csv")
        self.pack()
        self.assertEqual((self.folder / "placed.csv").read_bytes().decode(), placed)

    def test_no_buffers(self):
        self.write([])
        self.assertEqual(self.pack()["top_bytes"], 0)
        self.assertEqual((self.folder / "placed.csv").read_text(), "id,lower,upper,size,offset\n")

    def test_interrupt(self):
        """Ctrl-C: the best so far is written."""
        self.write(cross(3, cut(2, 300, 200, 1 << 16), 40))
        process = self.start("plan", "--buffers", "buffers.csv", "--out", "placed.csv", "--json",
                             "--seconds", 1000, "--capacity", 1 << 16)
        self.assertIn('"progress"', process.stdout.readline())
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 3, errors)
        self.assertIn('"interrupted":true', output.replace(" ", ""))
        self.top(self.rows())

    def test_wrong_files(self):
        begin = "id,lower,upper,size\na,0,1,4\n"
        wrong = {"": "no column is named id", "id,lower,upper\n": "buffers.csv:1: no column is named size",
                 "id,id,lower,upper,size\n": "two columns are named id",
                 begin + "b,0,x,4\n": 'buffers.csv:3: upper is "x"',
                 begin + "b,0,1.5,4\n": 'buffers.csv:3: upper is "1.5"',
                 begin + "b,0,99999999999999999999,4\n": "buffers.csv:3: upper",
                 begin + "\nb,0,1,-4\n": "buffers.csv:4: size is -4, below 0",
                 begin + "b,0,1\n": "buffers.csv:3: 3 fields",
                 begin + "b,0,1,4,5\n": "buffers.csv:3: 5 fields",
                 begin + "b,7,7,4\n": "buffers.csv:3: alive in [7, 7)",
                 begin + 'b,0,1,"4\n': "buffers.csv: line 3: a quote is not closed",
                 begin + 'b,0,1,"4"5\n': "buffers.csv:3: a quoted field does not end where it should",
                 begin + "b,0,1,9223372036854775807\n": "buffers.csv:3: the sizes"}
        for text, says in wrong.items():
            (self.folder / "buffers.csv").write_text(text)
            self.fails(1, "plan", "--buffers", "buffers.csv", "--out", "placed.csv", says=[says])
            self.assertFalse((self.folder / "placed.csv").exists())
        self.fails(1, "plan", "--buffers", "none.csv", says=["none.csv"])
        self.fails(2, "plan", "--buffers", "buffers.csv", "--capacity", "0", says=["--capacity"])
        self.fails(2, "plan", "--buffers", "buffers.csv", "--seconds", "x", says=["--seconds"])


if __name__ == "__main__":
    unittest.main()
