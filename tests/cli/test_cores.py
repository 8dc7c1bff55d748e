"""Schedules over cores through the command line: the table of quern plan --compare-cores, machines as texts, energy and
power, and what is refused."""
import hashlib
import json
import os
import pathlib
import unittest

import quern

PHONES = pathlib.Path(__file__).parent.parent / "devices" / "snapdragon-phone"
PHONE = """# four and four
cores big 4 20 8 1.5
cores little 4 6 4 0.25
memory 14
idle 0.5
"""


class Cores(quern.Case):
    def setUp(self):
        super().setUp()
        (self.folder / "phone.txt").write_text(PHONE)

    def compare(self, *options, model="squeezenet"):
        (event,) = self.run_quern("plan", model, "--batch", 4, "--json", *options).of("cores")
        return event, {row["name"]: row for row in event["schedules"]}

    def test_this_machine(self):
        event, rows = self.compare("--compare-cores", "--threads", 2)
        one, ours = rows["one by one, all cores"], rows["quern, for time"]
        self.assertEqual(one["speedup"], 1)
        self.assertGreater(event["operations"], 100)
        self.assertLessEqual(ours["ms"], min(row["ms"] for row in rows.values()))
        text = self.run_quern("plan", "squeezenet", "--batch", 4, "--compare-cores", "--threads", 2).output
        self.assertIn("each on one core, HEFT", text)
        self.assertIn("no schedule can be faster than", text)
        self.assertLessEqual(max(event["longest_way_ms"], event["all_busy_ms"]), ours["ms"] * 1.000001)
        self.assertIn("2 core of this machine", text)

    def test_phone(self):
        _, fast = self.compare("--machine", "phone.txt")
        _, cheap = self.compare("--machine", "phone.txt", "--prefer", "energy")
        one = fast["one by one, all cores"]
        self.assertLessEqual(fast["quern, for time"]["ms"], one["ms"])
        self.assertLessEqual(cheap["quern, for energy"]["joules"], 0.75 * one["joules"])
        self.assertIn("time against energy", self.run_quern("plan", "lenet5", "--machine", "phone.txt").output)
        _, cool = self.compare("--machine", "phone.txt", "--power", "3")
        self.assertLessEqual(cool["quern, for time"]["most_watts"], 3)

    def test_recorded_phone(self):
        for name in "machine-1-3-4.txt", "machine-4-4.txt":
            machine = PHONES / name
            _, rows = self.compare("--machine", machine, model="lenet5")
            one = rows["one by one, all cores"]
            cheap = next(row for name, row in rows.items() if name.startswith("quern, for energy"))
            self.assertLessEqual(cheap["joules"], 0.75 * one["joules"])
            self.assertLessEqual(rows["quern, for time"]["ms"], min(row["ms"] for row in rows.values()))
            _, cool = self.compare("--machine", machine, "--power", "3", model="lenet5")
            for name, row in cool.items():
                if name.startswith("quern"):
                    self.assertLessEqual(row["most_watts"], 3)

    def test_measured(self):
        for options in ([], ["--machine", "phone.txt"]):
            event = self.run_quern("plan", "lenet5", "--batch", 4, "--json", "--threads", 2, "--measure",
                                   *options).of("cores")[0]
            rows = {row["name"]: row["ms"] for row in event["schedules"]}
            self.assertTrue(event["measured"])
            self.assertLessEqual(rows["quern, for time"], rows["one by one, all cores"])
        self.fails(1, "plan", "lenet5", "--batch", 4, "--threads", 1, "--measure", says=["--threads 2"])

    def test_schedule(self):
        """quern plan --cores auto: every operation once, on a core one after the other, predicted and seen."""
        plan = ["plan", "squeezenet", "--batch", 2, "--threads", 2, "--cores", "auto"]
        run = self.run_quern(*plan, "--json", "--html", "s.html")
        (event,), (planned,) = run.of("schedule"), run.of("plan")
        rows = event["operations"]
        self.assertEqual(len(rows), next(p["steps"] for p in planned["programs"] if p["program"] == event["program"]))
        self.assertEqual(len({row["name"] for row in rows}), len(rows))
        self.assertLessEqual(event["predicted_ms"], event["one_by_one_ms"])  # by the same times of operations
        self.assertGreater(event["profiled_steps"], 0)
        for begin, end in ("begin_ms", "end_ms"), ("measured_begin_ms", "measured_end_ms"):
            for core in range(event["cores"]):
                at = -1
                for row in sorted((row for row in rows if row["first_core"] == core), key=lambda row: row[begin]):
                    self.assertGreaterEqual(row[begin] + 1e-6, at)
                    self.assertGreaterEqual(row[end], row[begin])
                    at = row[end]
        curve = event["curve"]
        self.assertEqual(curve[0]["cores"], "2 core")
        for a, b in zip(curve, curve[1:]):  # of times that differ by less than is printed, too
            self.assertLessEqual(a["ms"], b["ms"])
            self.assertGreaterEqual(a["joules"], b["joules"])
        page = (self.folder / "s.html").read_text()
        self.assertIn("Time against energy", page)
        self.assertIn('<figure class="lanes"', page)
        self.assertIn("Schedule of training", page)
        self.assertIn("Side by side a step was predicted", self.run_quern(*plan).output)
        self.fails(1, "plan", "lenet5", "--threads", 1, "--cores", "auto", says=["--threads 2"])

    def test_cache(self):
        """What train keeps for a machine and a model is what the next run begins with, whatever is in the file."""
        weights, run = self.train("auto", "squeezenet", 1, 30)
        (event,) = run.of("cores")
        self.assertFalse(event["cached"])
        for path in (self.folder / "cache" / "quern").glob("schedule-*.txt"):
            path.write_text(path.read_text()[:-3])
        again, run = self.train("auto", "squeezenet", 1, 30)
        (event,) = run.of("cores")
        self.assertFalse(event["cached"])
        self.assertEqual(again, weights)

    def test_trace(self):
        event, rows = self.compare("--machine", "phone.txt", "--trace", "t.json")
        slices = [e for e in json.loads((self.folder / "t.json").read_text())["traceEvents"] if e["ph"] == "X"]
        self.assertEqual(len({e["args"]["step"] for e in slices}), event["operations"])
        ours = rows["quern, for time"]
        self.assertAlmostEqual(max(e["ts"] + e["dur"] for e in slices) / 1000, ours["ms"], delta=0.01)
        for core in {e["tid"] for e in slices}:
            at = 0
            for e in sorted((e for e in slices if e["tid"] == core), key=lambda e: e["ts"]):
                self.assertGreaterEqual(e["ts"] + 0.01, at)
                at = e["ts"] + e["dur"]

    def train(self, cores, model, batch, steps, *options):
        run = self.run_quern("train", model, "--data", "synthetic", "--batch", batch, "--steps", steps, "--no-test",
                             "--threads", 2, "--save", cores, "--override", "--cores", cores, "--json", *options)
        return hashlib.sha256(quern.weights_of(self.folder / cores)).hexdigest(), run

    def compared(self, model, batch, *options):
        """The comparison takes a time, not a number of steps: trains for longer until it is complete."""
        for steps in 300, 1500, 7500, 37500:
            other, run = self.train("auto", model, batch, steps, *options)
            if run.of("cores_compared"):
                one, _ = self.train("all", model, batch, steps)
                self.assertEqual(one, other)
                return run.of("cores_compared")[0]
        self.fail("no comparison in 37500 steps")

    def test_training(self):
        for model, batch, steps in ("lenet5", 4, 500), ("squeezenet", 1, 2):
            one, run = self.train("all", model, batch, steps)
            self.assertEqual(run.of("cores"), [])
            both, run = self.train("auto", model, batch, steps)
            self.assertEqual(one, both)
            (event,) = run.of("cores")
            self.assertGreater(event["measured"], event["operations"] / 3)
            self.assertLessEqual(event["predicted_ms"], event["one_by_one_ms"])  # by the same times of operations
            for done in run.of("cores_compared"):
                if done["changes"] == 0:  # later trials decide by other steps
                    self.assertTrue(not done["side_by_side"] or done["measured_gain"] >= 1.01)

    def test_prefer(self):
        """Energy and both by given watts: the same bits, and a curve of all that was compared; a ceiling leaves threads."""
        watts = ["--cpu-watts", 8, "--idle-watts", 0.5]
        per_core = 8 / len(os.sched_getaffinity(0))
        for prefer in "energy", "balanced":
            event = self.compared("lenet5", 4, "--prefer", prefer, *watts)
            for way in event["ways"]:
                if not way["side_by_side"]:
                    self.assertAlmostEqual(way["joules"] / way["ms"] * 1000, 0.5 + way["threads"] * per_core, delta=1e-6)
            self.assertEqual({way["threads"] for way in event["ways"]}, {1, 2})
        train = ["train", "lenet5", "--data", "synthetic", "--batch", 4, "--steps", 3, "--no-test", "--threads", 2]
        for power, threads in (f"{0.5 + per_core}W", 1), (0.5 + 2 * per_core, 2), (100, 2):
            (run,) = self.run_quern(*train, "--json", "--power", power, *watts).of("done")
            self.assertEqual(run["threads"], threads)
        self.fails(2, *train, "--power", 0.4, *watts, says=["give at least that"])
        self.fails(2, *train, "--prefer", "energy", says=["--cores auto"])

    def test_by_hand(self):
        own = sorted(os.sched_getaffinity(0))
        train = ["train", "lenet5", "--data", "synthetic", "--batch", 8, "--steps", 3, "--no-test", "--json", "--cores"]
        for cores, threads in (1, 1), (own[0], 1), (f"{own[0]},{own[-1]}", len({own[0], own[-1]})):
            cores = f"{cores}-{cores}" if cores == own[0] and cores != 1 else cores
            (run,) = self.run_quern(*train, cores).of("done")
            self.assertEqual(run["threads"], threads)
        self.fails(2, *train, len(own) + 1, says=[f"1 to {len(own)}"])
        self.fails(2, *train, "1023", says=["can be used here"])
        self.fails(2, *train, "1023-1023", says=["may not run on core 1023"])
        for wrong in "some", "0-", "1-0", "0,,1", "-1", "0-99999":
            self.fails(2, *train[:-1], f"--cores={wrong}", says=["by their numbers"])

    def test_budget(self):
        peak = self.run_quern("plan", "lenet5", "--batch", 8, "--json", "--threads", 2).of("plan")[0]["peak_bytes"]
        for budget in peak, peak + 100000, 3 * peak:
            _, run = self.train("auto", "lenet5", 8, 24, "--memory", budget)
            self.assertLessEqual(run.of("done")[0]["peak_bytes"], budget)

    def test_refused(self):
        (self.folder / "wrong.txt").write_text("cores big 4 20 8 1.5\nmemory much\n")
        plan = ["plan", "lenet5", "--batch", 4, "--machine"]
        self.fails(1, *plan, "wrong.txt", says=["wrong.txt", "line 2", "much"])
        self.fails(1, *plan, "none.txt", says=["none.txt"])
        self.fails(2, *plan, "phone.txt", "--power", "0.6", says=["0.75 W"])
        self.fails(2, *plan, "phone.txt", "--prefer", "speed", says=["time|energy|balanced"])


if __name__ == "__main__":
    unittest.main()
