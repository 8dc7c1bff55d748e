"""quern train --swap: the same weights as without, through a file that leaves nothing behind; folders that
will not do are refused with what to do."""
import csv
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import tempfile
import time
import unittest

import quern

MODEL = ["squeezenet", "--data", "synthetic", "--batch", 64, "--threads", 2]


class Swapping(quern.Case):
    def setUp(self):
        super().setUp()
        self.disk = pathlib.Path(tempfile.mkdtemp(prefix="quern-swap-", dir="/var/tmp"))
        self.addCleanup(shutil.rmtree, self.disk)

    def pretend_speed(self):
        """Lets the kept speed of the folder be one that makes swapping worth it anywhere."""
        (kept,) = (self.folder / "cache" / "quern").glob("swap-*.txt")
        lines = kept.read_text().splitlines()
        self.assertEqual([line.split()[0] for line in lines],
                         ["machine", "folder", "write", "read", "latency", "work"])
        self.assertEqual(lines[1], f"folder {self.disk}")
        kept.write_text("\n".join(lines[:2]) + "\nwrite 50000000000\nread 50000000000\n"
                        "latency 1\nwork 1\n")

    def budget(self):
        """Three quarters of what it takes without one."""
        event = self.run_quern("train", *MODEL, "--steps", 3, "--json", "--save", "usual.st")
        return event.of("done")[0]["peak_bytes"] * 3 // 4

    def test_same_bits(self):
        budget = self.budget()
        limits = ["--memory", budget, "--swap", self.disk]
        self.run_quern("plan", *MODEL, *limits)
        self.pretend_speed()
        run = self.run_quern("train", *MODEL, "--steps", 3, "--json", *limits, "--save", "swap.st")
        done = run.of("done")[0]
        self.assertGreater(done["swapped_bytes"], 1 << 20)
        self.assertLessEqual(done["peak_bytes"], budget)
        self.assertEqual(self.bytes_of("usual.st"), self.bytes_of("swap.st"))
        self.assertEqual(list(self.disk.iterdir()), [])
        self.check_resumed(limits)
        words = self.run_quern("train", *MODEL, "--steps", 1, *limits).output
        self.assertIn("swapped in a step", words)
        self.run_quern("profile", *MODEL, "--steps", 2, *limits, "--csv", "ops.csv", "--trace",
                       "trace.json")
        self.check_lanes()

    def test_named_least(self):
        """With the file a refusal names no more than without, and what it names works."""
        model = ["lenet5", "--batch", 64, "--threads", 2]
        named = []
        # Measuring how fast the disk is takes 4 MB, once, and no less is named then.
        self.run_quern("plan", *model, "--memory", "64M", "--swap", self.disk)
        for swap in [], ["--swap", self.disk]:
            run = self.fails(1, "plan", *model, "--memory", "1M", *swap, says=["--memory"])
            named.append(int(re.search(r"use --memory (\d+)K", " ".join(run.errors.split()))[1]))
            self.run_quern("plan", *model, "--memory", f"{named[-1]}K", *swap)
            self.fails(1, "plan", *model, "--memory", f"{named[-1] - 1}K", *swap)
        self.assertLessEqual(named[1], named[0])

    def check_resumed(self, limits):
        """A run that is stopped and goes on, with lanes of the disk before, behind, or both."""
        for before, behind in [(limits, limits), ([], limits), (limits, [])]:
            self.run_quern("train", *MODEL, "--steps", 2, *before, "--save", "part.st")
            done = self.run_quern("train", "--resume", "part.st", "--steps", 3, "--threads", 2, "--json",
                                  *behind, "--save", "resumed.st").of("done")[0]
            self.assertEqual(done.get("swapped_bytes", 0) > 0, bool(behind))
            self.assertEqual(self.bytes_of("resumed.st"), self.bytes_of("usual.st"))

    def check_lanes(self):
        """Copies to the disk and back are calls of its lanes, and each lane is a track of the trace."""
        with open(self.folder / "ops.csv", encoding="utf-8", newline="") as file:
            copies = [row for row in csv.DictReader(file) if row["device"] == "disk"]
        self.assertGreater(len(copies), 1)
        for row in copies:
            self.assertEqual(row["type"], "copy")
            self.assertGreater(int(row["calls"]), 0, row["name"])
            self.assertGreater(float(row["total_ms"]), 0, row["name"])
        with open(self.folder / "trace.json", encoding="utf-8") as file:
            events = json.load(file)["traceEvents"]
        lanes = [event["tid"] for event in events if event["name"] == "thread_name" and
                 event["args"]["name"].startswith("lane of disk")]
        self.assertEqual(len(lanes), 2)
        names = {row["name"] for row in copies}
        for lane in lanes:
            done = {event["name"] for event in events if event["ph"] == "X" and event["tid"] == lane}
            self.assertTrue(done and done <= names, done)

    def test_saved_plan(self):
        """A plan that swaps is shown without a folder, and trained by with one."""
        limits = ["--memory", self.budget(), "--swap", self.disk]
        self.run_quern("plan", *MODEL, *limits)
        self.pretend_speed()
        saved = self.run_quern("plan", *MODEL, *limits, "--save", "plan.json", "--json").of("plan")[0]
        self.assertTrue(saved["again"][0]["swapped"])
        loaded = self.run_quern("plan", "--load", "plan.json", "--json").of("plan")[0]
        self.assertEqual([a["name"] for a in loaded["again"] if a["swapped"]],
                         [a["name"] for a in saved["again"] if a["swapped"]])
        by_plan = ["train", "squeezenet", "--data", "synthetic", "--steps", 3, "--plan", "plan.json"]
        self.fails(2, *by_plan, says=["--swap"])
        self.run_quern(*by_plan, "--swap", self.disk, "--save", "by-plan.st")
        self.assertEqual(self.bytes_of("usual.st"), self.bytes_of("by-plan.st"))

    def test_kill_leaves_nothing(self):
        process = self.start("train", *MODEL, "--steps", 100000, "--memory", self.budget(),
                             "--swap", self.disk)
        time.sleep(1.5)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self.assertEqual(list(self.disk.iterdir()), [])

    def test_refusals(self):
        def refused(folder, *says, status=1, memory=("--memory", "30M")):
            self.fails(status, "train", *MODEL, "--steps", 1, *memory, "--swap", folder, says=says)

        refused("none", "none", "No such file")
        refused(self.disk, "--memory", status=2, memory=())
        if pathlib.Path("/dev/shm").is_dir() and self.is_in_memory("/dev/shm"):
            refused("/dev/shm", "/dev/shm", "kept in memory", "name a folder on a disk", status=2)
        (self.folder / "file").write_text("")
        refused("file", "file", "Not a directory")
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, limit[1]))
        try:
            refused(self.disk, "ulimit -f", "1048576")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limit)

    @staticmethod
    def is_in_memory(folder):
        mounts = pathlib.Path("/proc/mounts").read_text().splitlines()
        return any(m.split()[1] == folder and m.split()[2] == "tmpfs" for m in mounts)


if __name__ == "__main__":
    unittest.main()
