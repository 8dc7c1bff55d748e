"""quern learn start: learns from a folder of pictures, never twice from one, goes back, forgets, and comes
to the same versions however often it is killed."""
import contextlib
import os
import random
import sqlite3
import time
import unittest

import quern

CLASSES = ("down", "left", "right", "up")


def picture(path, label, is_turned, seed):
    """A bright bar at the place of the class, in noise; turned: lying."""
    rng = random.Random(seed)
    pixels = bytearray(28 * 28)
    for y in range(28):
        for x in range(28):
            place = y if is_turned else x
            pixels[28 * y + x] = min(255, int(rng.random() * 120) + (90 if place // 7 == label else 0))
    quern.write_png(path, 28, 28, bytes(pixels))


class LearnService(quern.Case):
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

    def pictures(self, folder, n, is_turned, first):
        for i in range(n):
            path = self.folder / folder / CLASSES[i % 4]
            path.mkdir(parents=True, exist_ok=True)
            picture(path / f"{first + i}.png", i % 4, is_turned, first + i + 1000 * is_turned)

    def setUp(self):
        super().setUp()
        self.pictures("shipped", 160, False, 0)
        self.pictures("inbox", 100, True, 0)
        self.run_quern("train", "lenet5", "--data", "images:shipped", "--input", "28x28x1", "--steps", 40,
                       "--batch", 16, "--threads", 1, "--augment", "none", "--save", "mine.safetensors")

    def serve(self, folder, *options, **how):
        return self.run_quern("learn", "start", folder, "--model", "mine.safetensors", "--data", "images:inbox",
                              "--old", "images:shipped", "--when", "cool:95", "--once", "--threads", 1, "--json",
                              *options, **how)

    def look(self, action, folder):
        return self.run_quern("learn", action, folder, "--json").events

    def test_life(self):
        self.serve("d", "--when", "battery,night:3-3.01,cool")
        self.first = quern.weights_of(self.folder / "d/model.safetensors")
        log = [e["text"] for e in self.serve("d").of("log")]
        self.assertIn("may learn: all rules hold", log)
        self.assertTrue(any(text.startswith("better, so it is version 1: of") for text in log), log)
        versions = self.look("versions", "d")
        self.assertEqual([v["version"] for v in versions], [0, 1])
        self.assertGreater(versions[1]["recent_became_right"], versions[1]["recent_became_wrong"])
        status = self.look("status", "d")[0]
        self.assertEqual((status["version"], status["taken"], status["fresh"], status["runs"]), (1, 260, 0, False))
        # Nothing new: nothing is learned again, also when a file has another name.
        (self.folder / "inbox/up/again.png").write_bytes((self.folder / "inbox/up/3.png").read_bytes())
        (self.folder / "inbox/up/bad.png").write_bytes(b"no picture")
        again = [e["text"] for e in self.serve("d").of("log")]
        self.assertTrue(any("up/again.png was taken before" in text for text in again), again)
        self.assertTrue(any("bad.png" in text and "left out" in text for text in again), again)
        self.assertEqual(self.look("status", "d")[0]["taken"], 260)
        new = self.bytes_of("d/model.safetensors")
        self.go_back()
        self.assertNotEqual(self.bytes_of("d/model.safetensors"), new)
        self.forgets()

    def go_back(self):
        self.assertEqual(self.look("undo", "d")[0]["version"], 0)
        self.fails(2, "learn", "undo", "d", says=["no version before 0"])
        self.serve("d")  # what was learned once is not learned again by itself
        self.assertEqual(self.look("status", "d")[0]["version"], 0)
        self.assertEqual(quern.weights_of(self.folder / "d/model.safetensors"), self.first)

    def forgets(self):
        samples = self.look("samples", "d")
        self.assertEqual(len(samples), 260)
        gone = next(s for s in samples if s["origin"] == "user" and s["use"] == "trains")
        with contextlib.closing(sqlite3.connect(self.folder / "d/learn.db")) as store:
            pixels, = store.execute("SELECT x FROM sample WHERE id=?", (gone["id"],)).fetchone()
        self.assertTrue(pixels[:200] in self.bytes_of("d/learn.db"))
        for path in (self.folder / "d", *(self.folder / "d").iterdir()):
            if path.name != "lock":
                self.assertEqual(path.stat().st_mode & 0o077, 0, path)
        self.run_quern("learn", "forget", "d", gone["id"])
        self.fails(2, "learn", "forget", "d", gone["id"], says=["there is no sample"])
        self.assertEqual({s["id"] for s in self.look("samples", "d")}, {s["id"] for s in samples} - {gone["id"]})
        self.assertFalse(pixels[:200] in self.bytes_of("d/learn.db"))  # overwritten, not only unlisted
        self.serve("d")  # nor does it come back from the folder
        self.assertEqual(len(self.look("samples", "d")), 259)
        log = self.run_quern("learn", "log", "d").output
        self.assertIn("the user went back to version 0", log)
        self.assertIn(f"the user deleted sample {gone['id']}", log)

    def test_relearns(self):
        self.serve("d")
        before = self.bytes_of("d/model.safetensors")
        gone = next(s for s in self.look("samples", "d") if s["origin"] == "user" and s["use"] == "trains")
        self.assertEqual(gone["version"], 0)
        said = self.run_quern("learn", "forget", "d", gone["id"], "--relearn").output
        self.assertIn("version 0 is in use", said)
        self.serve("d")
        self.assertEqual(self.look("status", "d")[0]["version"], 1)
        self.assertNotEqual(self.bytes_of("d/model.safetensors"), before)

    def test_pause_and_lock(self):
        self.run_quern("learn", "start", "d", "--model", "mine.safetensors", "--data", "images:inbox",
                       "--when", "night:3-3.01", "--once", "--threads", 1)
        self.run_quern("learn", "pause", "d")
        self.serve("d")
        self.assertEqual((self.look("status", "d")[0]["paused"], self.look("status", "d")[0]["taken"]), (True, 0))
        self.run_quern("learn", "resume", "d")
        running = self.start("learn", "start", "d", "--data", "images:inbox", "--when", "cool:95", "--threads", 1)
        while not self.look("status", "d")[0]["runs"]:
            time.sleep(0.02)
        self.fails(1, "learn", "start", "d", "--data", "images:inbox", says=["another"])
        while self.look("status", "d")[0]["version"] == 0:
            time.sleep(0.02)
        self.look("undo", "d")  # while it runs: it reads anew
        running.terminate()
        running.communicate()
        self.assertEqual(self.look("status", "d")[0]["version"], 0)

    def test_goes_on_with_its_own_model(self):
        self.serve("d")
        others = (self.folder / "mine.safetensors").read_bytes()[:-1] + b"x"
        (self.folder / "others.safetensors").write_bytes(others)
        (self.folder / "copy.safetensors").write_bytes(self.bytes_of("mine.safetensors"))
        start = ("learn", "start", "d", "--data", "images:inbox", "--when", "night:3-3.01", "--once")
        self.fails(2, *start, "--model", "others.safetensors", says=["goes on with its own model", "others.safetensors"])
        self.fails(1, *start, "--model", "nowhere.safetensors", says=["nowhere.safetensors"])
        for model in ((), ("--model", "copy.safetensors"), ("--model", "d/model.safetensors")):
            self.run_quern(*start, *model)

    def test_hostile_store(self):
        """A store that would run something of its own is refused by every action, and stays as it was."""
        self.run_quern("learn", "start", "d", "--model", "mine.safetensors", "--data", "images:inbox",
                       "--when", "night:3-3.01", "--once", "--threads", 1)
        good = self.bytes_of("d/learn.db")
        for made in ("TRIGGER t AFTER INSERT ON log BEGIN DELETE FROM sample; END", "VIEW v AS SELECT * FROM sample"):
            with contextlib.closing(sqlite3.connect(self.folder / "d/learn.db")) as store:
                store.execute(f"CREATE {made}")
                store.commit()
            bad = self.bytes_of("d/learn.db")
            for action in (("start", "d", "--data", "images:inbox", "--once"), ("status", "d"), ("samples", "d"),
                           ("versions", "d"), ("log", "d"), ("undo", "d"), ("forget", "d", 1)):
                self.fails(1, "learn", *action, says=["quern did not make it"])
            self.assertEqual(self.bytes_of("d/learn.db"), bad)
            (self.folder / "d/learn.db").write_bytes(good)

    def test_refused_start(self):
        self.fails(1, "learn", "start", "e", "--data", "images:inbox", "--model", "mine.safetensors", "--memory", "1M")
        self.assertFalse((self.folder / "e").exists())

    def test_refused(self):
        for arguments, says in ((("start", "d"), "--data images:INBOX"),
                                (("start", "d", "--data", "images:nowhere"), "images:DIR"),
                                (("start", "d", "--data", "images:inbox"), "--model FILE"),
                                (("log", "nowhere"), "nothing learns there"),
                                (("dance", "d"), "is not an action"),
                                (("undo",), "quern learn undo DIR"),
                                (("start", "d", "--data", "images:inbox", "--model", "mine.safetensors",
                                  "--memory", "1M"), "--keep has fewer")):
            self.fails(1 if "--memory" in arguments else 2, "learn", *arguments, says=[says])


if __name__ == "__main__":
    unittest.main()
