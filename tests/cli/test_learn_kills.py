"""A month of quern learn start, killed (and asked to end) at random moments: the same versions and samples,
bit for bit, as without."""
import contextlib
import os
import random
import signal
import sqlite3
import subprocess
import time
import unittest

import quern

N_KILLS, N_DAYS = 50, 8
N_DAILY = 32


def picture(path, label, is_turned, seed):
    """A bright bar at the place of the class, in noise; turned: lying."""
    noise = random.Random(seed).randbytes(28 * 28)
    pixels = bytearray(byte // 2 for byte in noise)
    for i in range(28 * 28):
        if (i // 28 if is_turned else i % 28) // 7 == label:
            pixels[i] += 36
    path.parent.mkdir(parents=True, exist_ok=True)
    quern.write_png(path, 28, 28, bytes(pixels))


class LearnKills(quern.Case):
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

    def setUp(self):
        super().setUp()
        for i in range(80):
            picture(self.folder / f"shipped/{i % 4}/{i}.png", i % 4, False, i)
        self.run_quern("train", "lenet5", "--data", "images:shipped", "--input", "28x28x1", "--steps", 60,
                       "--batch", 16, "--threads", 1, "--augment", "none", "--save", "mine.safetensors")

    def come(self, folder, day):
        for i in range(N_DAILY):
            picture(self.folder / folder / str(i % 4) / f"{day}-{i}.png", i % 4, True,
                    1000 + N_DAILY * day + i)

    def serve(self, name):
        return self.start("learn", "start", name, "--model", "mine.safetensors", "--data", f"images:{name}-inbox",
                          "--old", "images:shipped", "--when", "cool:95", "--once", "--threads", 1, "--keep", 300,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)

    def finish(self, name):
        process = self.serve(name)
        errors = process.communicate()[1]
        self.assertEqual(process.returncode, 0, errors)

    def content(self, name):
        with contextlib.closing(sqlite3.connect(self.folder / name / "learn.db")) as store:
            return [store.execute(statement).fetchall() for statement in (
                "SELECT number, steps, part, recent, recent_right, recent_better, old, old_right, weights"
                " FROM version ORDER BY number",
                "SELECT origin, held_out, place, label, version, name, x FROM sample ORDER BY 1, 2, 3",
                "SELECT origin, held_out, seen, full FROM memory ORDER BY 1, 2")]

    def is_within_round(self, name):
        """Whether a process left a round behind."""
        with contextlib.suppress(sqlite3.Error), contextlib.closing(
                sqlite3.connect(self.folder / name / "learn.db")) as store:
            state = store.execute("SELECT steps FROM state").fetchone()
            return bool(state) and state[0] > 0
        return False

    def live(self, name, n_kills, rng):
        """The days of a month, the kills evenly among them; returns how long each day's end took."""
        n_killed, took = 0, []
        for day in range(N_DAYS):
            self.come(f"{name}-inbox", day)
            wanted = n_kills * (day + 1) // N_DAYS
            while n_killed < wanted:
                process = self.serve(name)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait((0.1 + 0.85 * rng.random()) * self.days[day])
                process.send_signal(signal.SIGTERM if rng.random() < 0.2 else signal.SIGKILL)
                errors = process.communicate()[1]
                self.assertIn(process.returncode, (0, -9, -15), errors)
                n_killed += 1
                self.n_within += self.is_within_round(name)
            begin = time.monotonic()
            self.finish(name)
            took.append(time.monotonic() - begin)
        return took

    def test_kills(self):
        self.n_within = 0
        self.days = self.live("calm", 0, None)
        self.live("wild", N_KILLS, random.Random(7))
        calm, wild = self.content("calm"), self.content("wild")
        self.assertGreaterEqual(len(calm[0]), 2)
        self.assertEqual(calm, wild)
        self.assertEqual((self.folder / "calm/model.safetensors").read_bytes(),
                         (self.folder / "wild/model.safetensors").read_bytes())
        print(len(calm[0]) - 1, "versions of", N_DAYS, "days,", N_KILLS, "kills,", self.n_within,
              "of them left a round behind")


if __name__ == "__main__":
    unittest.main()
