"""quern profile: every report of one run says the same, energy of a known power is conserved, every kind
of task is measured, and what cannot be done is said."""
import csv
import json
import os
import pathlib
import re
import resource
import signal
import threading
import time
import unittest

import quern

COLUMNS = ("type,name,device,calls,total_ms,share,mean_us,p50_us,p95_us,flops,bytes,gflops,bound,"
           "energy_mj,mean_w,estimated").split(",")
STEPS, BATCH = 10, 8
SMALL = {"lenet5": (), "char-lstm": ("--hidden", 32, "--length", 16),
         "seq2seq": ("--hidden", 32, "--length", 8), "bert-tiny": ("--length", 16), "dcgan": (),
         "dqn": ("--net", "mlp")}
WATTS = 5


def read_csv(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def total(rows, column):
    return sum(float(row[column]) for row in rows)


def processor_seconds(process):
    fields = pathlib.Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Profile(quern.Case):
    def profile(self, *options, model="lenet5", steps=STEPS, **more):
        return self.run_quern("profile", model, "--batch", BATCH, "--steps", steps, *options, **more)

    def near(self, value, expected, part):
        self.assertLessEqual(abs(value - expected), part * abs(expected), (value, expected))

    def record_power(self, watts=WATTS):
        """Power of the whole device that stays the same."""
        (self.folder / "power.csv").write_text(f"time_s,system:board:W\n0,{watts}\n10000,{watts}\n")
        return "power.csv"


class Busy(Profile):
    """Other programs, by a recorded /proc/stat that goes on while the command runs: of every ten ticks
    so many are busy."""

    def setUp(self):
        super().setUp()
        self.tree = self.folder / "tree"
        (self.tree / "proc").mkdir(parents=True)
        self.ticks, self.busy, self.is_done = 0, 0, threading.Event()
        self.write()

    def write(self):
        text = f"cpu  {self.busy} 0 0 {self.ticks - self.busy} 0 0 0 0\n"
        (self.tree / "proc/stat.new").write_text(text)
        os.replace(self.tree / "proc/stat.new", self.tree / "proc/stat")

    def go_on(self, part):
        """Ticks by the million, so that any two looks are far apart and our own time is nothing beside them."""
        while not self.is_done.wait(0.002):
            self.ticks += 1000000
            self.busy += int(1000000 * part)
            self.write()

    def measure(self, part, *options):
        thread = threading.Thread(target=self.go_on, args=[part])
        thread.start()
        try:
            # so many steps that the file goes on meanwhile, however busy the machine is
            return self.profile("--sysroot", self.tree, "--html", "p.html", "--metrics", "m.json", *options, steps=200)
        finally:
            self.is_done.set()
            thread.join()

    def metrics(self):
        return json.loads((self.folder / "m.json").read_text())

    def test_quiet(self):
        run = self.measure(0.04)
        self.assertNotIn("uncertain", run.output)
        self.assertNotIn("measuring again", run.output)
        self.assertEqual(self.metrics()["measurements"], 1)
        self.near(self.metrics()["others"], 0.04, 0.01)

    def test_busy(self):
        run = self.measure(0.4)
        self.assertEqual(run.output.count("other programs used 40 % of the processors; measuring again"), 2)
        self.assertIn("other programs used 40 % of the processors in the quietest of 3", run.output)
        self.assertIn("medians of 3 measurements", run.output)
        self.assertEqual(self.metrics()["measurements"], 3)
        self.near(self.metrics()["others"], 0.4, 0.01)
        self.assertIn("Other programs used 40.0 % of the processors", (self.folder / "p.html").read_text())

    def test_one_is_enough(self):
        run = self.measure(0.4, "--repeat", 1, "--json")
        self.assertEqual(run.of("busy"), [])
        self.assertEqual(run.events[-1]["measurements"], 1)
        self.near(run.events[-1]["others"], 0.4, 0.01)

    def test_json(self):
        events = self.measure(0.4, "--repeat", 2, "--json").of("busy")
        self.assertEqual([event["measurements"] for event in events], [1])
        self.near(events[0]["others"], 0.4, 0.01)


class Reports(Profile):
    def test_done(self):
        run = self.profile("--json")
        done = run.events[-1]
        self.assertEqual(done["event"], "done")
        self.assertEqual((done["model"], done["batch"], done["mode"]),
                         ("lenet5", BATCH, "training"))
        self.assertEqual((done["steps"], done["skipped_steps"]), (STEPS, 3))
        for key in ("median_step_ms", "step_ms_mean", "operations_ms_per_step",
                    "samples_per_second", "peak_bytes", "parameter_bytes", "resident_peak_bytes"):
            self.assertGreater(done[key], 0, key)
        self.assertIn("energy_mj_per_step", done)
        self.assertIn(done["energy_is_estimated"], (True, False))
        self.near(done["samples_per_second"], 1e3 * BATCH / done["step_ms_mean"], 0.001)
        # Operations and measured idle time are all that there is of a step.
        self.near(done["operations_ms_per_step"] + done["idle_ms_per_step"], done["step_ms_mean"],
                  0.02)
        steps = run.of("step")
        self.assertEqual([event["step"] for event in steps], list(range(4, STEPS + 4)))
        self.near(sum(event["ms"] for event in steps) / STEPS, done["step_ms_mean"], 1e-6)

    def test_reports_agree(self):
        done = self.profile("--csv", "ops.csv", "--metrics", "all.json", "--trace", "trace.json",
                            "--html", "report.html", "--json", "--power",
                            self.record_power()).events[-1]
        rows = read_csv(self.folder / "ops.csv")
        self.assertEqual(list(rows[0]), COLUMNS)
        self.assertEqual((self.folder / "ops.csv").read_text().splitlines()[0], ",".join(COLUMNS))
        self.assertEqual({int(row["calls"]) for row in rows}, {STEPS})
        self.near(total(rows, "share"), 1, 1e-4)
        # One operation at a time: their union is their sum.
        self.near(total(rows, "total_ms"), STEPS * done["operations_ms_per_step"], 0.01)
        kept = json.loads((self.folder / "all.json").read_text())
        for key, other in (("steps", "steps"), ("step_ms_mean", "step_ms_mean"),
                           ("step_ms_median", "median_step_ms"), ("throughput", "samples_per_second"),
                           ("operations_ms_per_step", "operations_ms_per_step"),
                           ("energy_mj_per_step", "energy_mj_per_step")):
            self.near(kept[key], done[other], 1e-6)
        instances = [event for event in json.loads((self.folder / "trace.json").read_text())
                     ["traceEvents"] if event["ph"] == "X"]
        names = {row["name"] for row in rows}
        for name in names:
            self.assertTrue(any(event["name"] == name or event.get("args", {}).get("node") == name
                                for event in instances), name)
        self.assertIn("</html>", (self.folder / "report.html").read_text())

    def test_flops(self):
        """Of the first convolution: 5x5 from 1 to 6 channels at 28x28, a multiply-add being two."""
        self.profile("--csv", "ops.csv")
        rows = read_csv(self.folder / "ops.csv")
        first = next(row for row in rows if row["type"] == "conv2d")
        self.assertEqual(float(first["flops"]), STEPS * BATCH * 2 * 28 * 28 * 25 * 6)

    def test_summary(self):
        run = self.profile("--csv", "ops.csv", "--power", self.record_power())
        for line in run.output.splitlines():
            self.assertLessEqual(len(line), 80, line)
        self.assertIn(f"lenet5, batch {BATCH}: {STEPS} steps measured after 3", run.output)
        self.assertIn("\nsaved to ops.csv\n", run.output)
        for label in ("step", "throughput", "operations", "energy", "memory", "operation"):
            self.assertRegex(run.output, rf"(?m)^{label} ")
        self.assertNotIn("nan", run.output)
        self.assertNotIn("estimated", re.search(r"(?m)^energy .*$", run.output).group())


class Energy(Profile):
    def test_known_power_is_conserved(self):
        done = self.profile("--csv", "ops.csv", "--json", "--power",
                            self.record_power()).events[-1]
        rows = read_csv(self.folder / "ops.csv")
        self.assertIs(done["energy_is_estimated"], False)
        self.near(done["energy_mj_per_step"], WATTS * done["step_ms_mean"], 0.005)
        given = total([row for row in rows if row["energy_mj"]], "energy_mj")
        self.near(given / STEPS + done["idle_energy_mj_per_step"], done["energy_mj_per_step"], 0.001)
        self.near(given / STEPS, WATTS * done["operations_ms_per_step"], 0.02)
        for row in rows:
            self.near(float(row["mean_w"]), WATTS, 0.02)
            self.assertEqual(row["estimated"], "false")

    def test_energy_is_the_power_recorded(self):
        """Twice the power is twice the energy of a millisecond."""
        def joules(watts):
            done = self.profile("--json", "--power", self.record_power(watts)).events[-1]
            return done["energy_mj_per_step"] / done["step_ms_mean"]
        self.near(joules(14), 2 * joules(7), 0.01)


class Tasks(Profile):
    def test_every_task(self):
        for model, options in SMALL.items():
            with self.subTest(model):
                done = self.profile("--json", *options, model=model, steps=2).events[-1]
                self.assertEqual((done["event"], done["steps"]), ("done", 2))
                self.assertGreater(done["operations_ms_per_step"], 0)

    def test_inference(self):
        for model, options in SMALL.items():
            with self.subTest(model):
                done = self.profile("--json", "--inference", "--csv", "ops.csv", *options,
                                    model=model, steps=4).events[-1]
                self.assertEqual((done["mode"], done["steps"]), ("inference", 4))
                self.assertGreater(done["training_step_ms"], 0)
                types = {row["type"] for row in read_csv(self.folder / "ops.csv")}
                self.assertTrue(types)
                self.assertFalse([name for name in types if "backward" in name or name == "sgd"
                                  or name == "adam"], types)

    def test_resume(self):
        self.run_quern("train", "lenet5", "--data", "synthetic", "--batch", BATCH, "--steps", 4,
                       "--no-test", "--save", "weights.safetensors")
        done = self.run_quern("profile", "lenet5", "--resume", "weights.safetensors", "--steps", 5,
                              "--skip", 1, "--json").events[-1]
        self.assertEqual((done["steps"], done["skipped_steps"], done["batch"]), (5, 1, BATCH))

    def test_epochs(self):
        """An epoch of 64 samples in batches of 8."""
        data = self.make_images(n=64)
        done = self.run_quern("profile", "lenet5", "--data", data, "--batch", 8, "--epochs", 1,
                              "--skip", 2, "--json").events[-1]
        self.assertEqual((done["steps"], done["skipped_steps"]), (6, 2))

    def test_clock_only(self):
        done = self.profile("--json", "--no-meter").events[-1]
        self.assertEqual((done["event"], done["steps"]), ("done", STEPS))
        self.assertGreater(done["median_step_ms"], 0)
        self.assertNotIn("energy_mj_per_step", done)


class Faults(Profile):
    def test_bad_usage(self):
        def wrong(*options, says, status=2):
            self.fails(status, "profile", *options, says=says)
        wrong(says=["MODEL"])
        wrong("lenet6", says=["lenet6", "lenet5"])
        wrong("lenet5", "--interval", 0, says=["--interval 0"])
        wrong("lenet5", "--interval", 1001, says=["--interval 1001"])
        wrong("lenet5", "--steps", 0, says=["--steps 0"])
        wrong("lenet5", "--save", "x", says=["--save"])
        wrong("lenet5", "--html", ".", says=["--html", "must name a file"])
        wrong("lenet5", "--csv", "nowhere/ops.csv", says=["nowhere"], status=1)
        wrong("lenet5", "--no-meter", "--csv", "ops.csv", says=["--csv", "--no-meter"])
        wrong("lenet5", "--override", says=["--resume"])
        wrong("lenet5", "--hidden", 3, says=["--hidden"])
        wrong("lenet5", "--data", self.make_images(n=16), "--batch", 8, "--epochs", 1,
              says=["2 steps", "--skip"])
        wrong("lenet5", "--steps", 1, "--sysroot", "nowhere", says=["--sysroot nowhere"])

    def test_bad_power(self):
        (self.folder / "bad.csv").write_text("time_s,system:board:W\n0,five\n")
        self.fails(1, "profile", "lenet5", "--steps", 1, "--power", "bad.csv",
                   says=["bad.csv:2"])
        self.fails(1, "profile", "lenet5", "--steps", 1, "--power", "none.csv", says=["none.csv"])

    def test_full_disk(self):
        """A limit on the size of files stands for the full disk."""
        def limit():
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))
        for option, name in (("csv", "ops.csv"), ("trace", "trace.json"), ("html", "report.html"),
                             ("metrics", "all.json")):
            run = self.profile(f"--{option}", name, steps=2, status=1, preexec_fn=limit)
            self.assertIn(name, run.errors)
            self.assertIn("lenet5, batch", run.output)
        self.assertEqual([path.name for path in self.folder.iterdir() if path.name != "cache"], [])

    def test_what_was_there_stays(self):
        (self.folder / "ops.csv").write_text("mine")
        self.profile("--csv", "ops.csv", "--force", steps=2, status=1, preexec_fn=lambda: (
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
            resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))))
        self.assertEqual((self.folder / "ops.csv").read_text(), "mine")

    def test_interrupt(self):
        """What was measured until then is reported."""
        process = self.start("profile", "lenet5", "--batch", BATCH, "--steps", 10**8, "--csv",
                             "ops.csv", "--json")
        while processor_seconds(process.pid) < 1.5:  # much more than the steps that are skipped take
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=600)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("stopped after", errors)
        done = json.loads(output.splitlines()[-1])
        self.assertEqual(done["event"], "done")
        calls = {int(row["calls"]) for row in read_csv(self.folder / "ops.csv")}
        self.assertEqual(calls, {done["steps"]})


if __name__ == "__main__":
    unittest.main()
