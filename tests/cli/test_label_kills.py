"""quern label stream, killed 200 times at random moments: no label is lost, and none differs."""
import random
import signal
import time
import unittest

import quern

KILLS, ROWS = 200, 30000
CENTRES = {"cat": (0, 0), "dog": (8, 0), "bird": (0, 9)}


class Kills(quern.Case):
    def setUp(self):
        super().setUp()
        draw = random.Random(7)

        def row(kind):
            return ",".join(f"{draw.gauss(c, 1):.3f}" for c in CENTRES[kind])
        (self.folder / "known.csv").write_text(
            "".join(f"{row(kind)},{kind}\n" for kind in ["cat", "dog"] * 100))
        (self.folder / "new.csv").write_text(
            "".join(row(draw.choice(list(CENTRES))) + "\n" for _ in range(ROWS)))
        self.run_quern("label", "init", "--known", "csv:known.csv", "--out", "l.qnl")
        self.fresh = self.bytes_of("l.qnl")

    command = "label", "stream", "l.qnl", "--data", "csv:new.csv", "--out", "labels.csv"

    def begin_anew(self):
        (self.folder / "l.qnl").write_bytes(self.fresh)
        (self.folder / "labels.csv").unlink(missing_ok=True)

    def check(self, wanted):
        self.assertEqual(self.bytes_of("labels.csv"), wanted[0])
        self.assertEqual(self.bytes_of("l.qnl"), wanted[1])

    def test_nothing_is_lost(self):
        self.run_quern(*self.command)
        wanted = self.bytes_of("labels.csv"), self.bytes_of("l.qnl")
        self.assertEqual(wanted[0].count(b"\n"), ROWS + 1)
        draw = random.Random(8)
        n_whole = 0
        self.begin_anew()
        for _ in range(KILLS):
            process = self.start(*self.command)
            time.sleep(draw.uniform(0.001, 0.12))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            if self.bytes_of("l.qnl") == wanted[1]:  # it was done before
                self.check(wanted)
                n_whole += 1
                self.begin_anew()
        # The last one goes on, too: a killed stream is under way, and this command ends it.
        self.run_quern(*self.command)
        self.check(wanted)
        print(f"{KILLS} kills, {n_whole + 1} whole streams")


if __name__ == "__main__":
    unittest.main()
