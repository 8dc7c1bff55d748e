"""quern meter: another program's run is passed through untouched, and measured."""
import json
import os
import pty
import resource
import signal
import statistics
import subprocess
import sys
import time
import unittest

import quern

PYTHON = "/usr/bin/python3"

# What scripts of these tests begin with: a trace of their own, by any clock.
TRACING = """
import gzip, json, sys, time
CLOCKS = {"realtime": time.CLOCK_REALTIME, "monotonic": time.CLOCK_MONOTONIC,
          "boottime": time.CLOCK_BOOTTIME}
events, times = [], {}
def now(clock):
    return time.clock_gettime_ns(CLOCKS[clock])
def burn(seconds):
    end = time.process_time_ns() + int(seconds * 1e9)
    while time.process_time_ns() < end:
        pass
def event(name, begin, end, tid=1):
    events.append({"ph": "X", "name": name, "ts": begin / 1000, "dur": (end - begin) / 1000,
                   "pid": 1, "tid": tid})
"""

# 0.4 s of a core, and as much by a process that it starts.
TWICE = TRACING + f"""
import subprocess
burn(0.4)
subprocess.run([{PYTHON!r}, "-c", {TRACING + "burn(0.4)"!r}])
"""


class Case(quern.Case):
    def meter(self, *options, command, status=0, **how):
        return self.run_quern("meter", *options, "--", *command, status=status, **how)

    def python(self, *options, script, status=0, **how):
        return self.meter(*options, command=[PYTHON, "-c", script], status=status, **how)

    def done(self, run):
        """The JSON line on standard error."""
        lines = [line for line in run.errors.splitlines() if line.startswith('{"event":"done"')]
        self.assertEqual(len(lines), 1, run.errors)
        return json.loads(lines[0])

    def trace(self, name):
        return json.loads(self.bytes_of(name))["traceEvents"]

    def slices(self, name):
        return [e for e in self.trace(name) if e["ph"] == "X"]


    def utilisation(self, trace, done):
        """Of the process, in cores, at seconds; ended by the end of the run."""
        points = [(e["ts"] / 1e6, next(iter(e["args"].values()))) for e in trace
                  if e["ph"] == "C" and "process" in e["name"] and "utilisation" in e["name"]]
        self.assertGreater(len(points), 10)
        return points + [(done["begin_ns"] / 1e9 + done["seconds"], 0)]


class Passing(Case):
    def test_exit_status(self):
        self.meter(command=["true"])
        self.meter(command=["sh", "-c", "exit 7"], status=7)
        self.meter(command=["sh", "-c", "kill -TERM $$"], status=143)
        self.meter(command=["sh", "-c", "kill -KILL $$"], status=137)

    def test_not_run(self):
        run = self.meter(command=["./nothing-here"], status=127)
        self.assertIn("cannot run ./nothing-here: No such file or directory", run.errors)
        run = self.meter(command=["/etc/passwd"], status=126)
        self.assertIn("cannot run /etc/passwd: Permission denied", run.errors)

    def test_usage(self):
        self.fails(2, "meter", says=["quern meter needs COMMAND"])
        self.fails(2, "meter", "--clock", "realtime", "--", "true", says=["--clock needs --ops"])
        self.fails(2, "meter", "--interval", "0", "--", "true", says=["--interval 0"])
        self.fails(1, "meter", "--html", "none/x.html", "--", "touch", "ran", says=["none"])
        self.assertFalse((self.folder / "ran").exists())

    def test_streams(self):
        """Every byte of all three is the program's; what is told comes after, on standard error."""
        script = ("import sys; d = sys.stdin.buffer.read(); sys.stdout.buffer.write(d[::-1]);"
                  "sys.stderr.write('mine\\n')")
        data = bytes(range(256)) * 5000
        process = subprocess.run([quern.QUERN, "meter", "--", PYTHON, "-c", script], input=data,
                                 capture_output=True, cwd=self.folder, check=True)
        self.assertEqual(process.stdout, data[::-1])
        self.assertTrue(process.stderr.startswith(b"mine\n"))
        self.assertIn(b"whole run", process.stderr)

    def test_arguments(self):
        run = self.meter(command=["printf", "%s|", "--json", "a b", "", "--", "-x"])
        self.assertEqual(run.output, "--json|a b||--|-x|")

    def start_waiting(self, script):
        """Starts a script that says when it is ready."""
        process = self.start("meter", "--", PYTHON, "-c", script)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def test_signals(self):
        # Not by print, which may still be at work on "ready".
        script = ("import os, signal, time\n"
                  "def note(number, frame): os.write(1, b'%d\\n' % number)\n"
                  "for s in (signal.SIGUSR1, signal.SIGHUP, signal.SIGINT):\n"
                  "    signal.signal(s, note)\n"
                  "print('ready', flush=True)\n"
                  "while True: time.sleep(0.05)\n")
        process = self.start_waiting(script)
        for number in (signal.SIGUSR1, signal.SIGHUP, signal.SIGINT):
            process.send_signal(number)
            self.assertEqual(process.stdout.readline(), f"{number.value}\n")
        process.send_signal(signal.SIGTERM)
        output, errors = process.communicate()
        self.assertEqual((process.returncode, output), (143, ""))
        self.assertIn("whole run", errors)

    def test_ignored_signals(self):
        """What was ignored when it began stays so, as nohup wants."""
        script = ("import signal, os; print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN,"
                  "signal.pthread_sigmask(signal.SIG_BLOCK, []))")
        old = signal.signal(signal.SIGHUP, signal.SIG_IGN)
        try:
            run = self.python(script=script)
        finally:
            signal.signal(signal.SIGHUP, old)
        self.assertEqual(run.output, "True set()\n")

    def test_terminal(self):
        """A Ctrl-C reaches the program once, by its terminal, and both end in good order."""
        missing = quern.missing_terminal()
        if missing:
            self.skipTest(missing)
        script = ("import signal, time\nn = 0\n"
                  "def note(*_):\n    global n\n    n += 1\n"
                  "signal.signal(signal.SIGINT, note)\nprint('ready', flush=True)\n"
                  "end = time.monotonic() + 20\n"
                  "while n == 0 and time.monotonic() < end: time.sleep(0.01)\n"
                  "time.sleep(0.3)\nprint('interrupted', n, flush=True)\n")
        process, controller = pty.fork()
        if process == 0:
            os.execv(quern.QUERN, [quern.QUERN, "meter", "--", PYTHON, "-c", script])
        seen = b""
        while b"ready" not in seen:
            seen += os.read(controller, 4096)
        os.write(controller, b"\x03")
        try:
            while part := os.read(controller, 4096):
                seen += part
        except OSError:  # its end
            pass
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), 0)
        self.assertIn(b"interrupted 1", seen)
        self.assertIn(b"whole run", seen)


class Measuring(Case):
    def test_processor(self):
        """Of a child's child, too; compared with what the kernel says of this test's children."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        run = self.python("--json", script=TWICE)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = (after.ru_utime + after.ru_stime) - (before.ru_utime + before.ru_stime)
        done = self.done(run)
        self.assertGreater(done["processor_seconds"], 0.8)
        # The rest is quern's own, the more the longer the machine takes.
        self.assertLess(done["processor_seconds"], used)
        self.assertGreater(done["processor_seconds"], used - 0.3 - 0.05 * done["seconds"])

    def test_utilisation(self):
        """The samples of the process and its children add up to the processor time they used."""
        run = self.python("--json", "--trace", "t.json", script=TWICE)
        done = self.done(run)
        points = self.utilisation(self.trace("t.json"), done)
        seconds = integrate(points, points[0][0], points[-1][0])
        # What the child ran after the last look at it is in no sample.
        late = max(following - at for (at, _), (following, _) in zip(points, points[1:]))
        self.assertAlmostEqual(seconds, done["processor_seconds"], delta=0.15 + 2 * late)

    def test_memory(self):
        run = self.python("--json", script="x = bytearray(200 << 20); import time; time.sleep(0.3)")
        done = self.done(run)
        for key in ("peak_rss_bytes", "resident_peak_bytes"):
            self.assertGreater(done[key], 200 << 20)
            self.assertLess(done[key], 300 << 20)

    def test_energy(self):
        """Of replayed power: 5 W, and 3 W of it the processor's."""
        (self.folder / "power.csv").write_text(
            "time_s,system:VIN:W,cpu:VDD_CPU:W\n0,5,3\n1000,5,3\n")
        done = self.done(self.meter("--json", "--power", "power.csv", command=["sleep", "0.4"]))
        self.assertAlmostEqual(done["energy_j"], 5 * done["seconds"], delta=0.025 * done["seconds"])
        self.assertEqual(done["energy_is"], "measured")
        run = self.meter("--power", "power.csv", command=["sleep", "0.1"])
        self.assertRegex(run.errors, r"whole run .* J\n")

    def test_short(self):
        """A program that ends at once is measured, too."""
        done = self.done(self.meter("--json", command=["true"]))
        self.assertGreater(done["seconds"], 0)
        self.assertEqual((done["exit_status"], done["steps"]), (0, 0))

    def test_reports(self):
        self.meter("--html", "r.html", "--trace", "t.json", "--csv", "o.csv", "--metrics", "m.json",
                   command=["sleep", "0.2"])
        self.assertIn(b"sleep 0.2", self.bytes_of("r.html"))
        self.assertTrue(self.bytes_of("o.csv").startswith(b"type,name,device,calls,"))
        self.assertEqual(json.loads(self.bytes_of("m.json"))["steps"], 1)
        self.assertTrue(self.trace("t.json"))

    def test_impossible_target(self):
        """What cannot be written is known before the program runs."""
        run = self.meter("--metrics", "/dev/full", command=["touch", "ran"], status=1)
        self.assertIn("/dev/full", run.errors)
        self.assertFalse((self.folder / "ran").exists())

    def test_full_disk(self):
        """Where it fails afterwards, the program's own status counts if it says something."""
        for command, status in ((["true"], 1), (["sh", "-c", "exit 5"], 5)):
            run = self.meter("--metrics", "metrics.json", command=command, status=status, preexec_fn=no_files)
            self.assertIn("metrics.json", run.errors)
            self.assertFalse((self.folder / "metrics.json").exists())


def no_files():
    """Every file is too large from its first byte on."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def integrate(points, begin, end):
    """Of a value over time, where each point's holds until the next."""
    return sum(value * max(0, min(following, end) - max(at, begin))
               for (at, value), (following, _) in zip(points, points[1:]))


def bounds(points, begin, end):
    """The least and the most that the time from begin to end may hold: of points that lie in it wholly, and
    of all that reach into it, however late they were taken."""
    spans = [(at, following, value * (following - at))
             for (at, value), (following, _) in zip(points, points[1:])]
    return (sum(area for at, following, area in spans if begin <= at and following <= end),
            sum(area for at, following, area in spans if at < end and following > begin))


class Operations(Case):
    def record(self, clock, base=0, name="ops.json", ending=""):
        """A script with a busy event of 0.2 s between two rests of 0.2 s, and the times of the
        monotonic clock just before and just after each of its borders in times.json."""
        return TRACING + f"""
time.sleep(0.2)
m0, t0, m1 = time.monotonic_ns(), now({clock!r}), time.monotonic_ns()
burn(0.2)
m2, t1, m3 = time.monotonic_ns(), now({clock!r}), time.monotonic_ns()
time.sleep(0.2)
event("busy", t0 - {base}, t1 - {base})
event("inner", t0 - {base} + 50000000, t0 - {base} + 60000000)
{ending}
with (gzip.open if {name!r}.endswith("gz") else open)({name!r}, "wt") as file:
    json.dump({{"baseTimeNanoseconds": {base}, "traceEvents": events}} if {base} else events, file)
json.dump([m0, m1, m2, m3], open("times.json", "w"))
"""

    def check_borders(self, done):
        """The event in our trace, which has the monotonic clock, lies where the script says."""
        times = json.loads(self.bytes_of("times.json"))
        busy = [e for e in self.slices("t.json") if e["name"] == "busy"]
        self.assertEqual(len(busy), 2)  # what is left of it around its inner one
        for at, before, after in ((min(e["ts"] for e in busy), *times[:2]),
                                  (max(e["ts"] + e["dur"] for e in busy), *times[2:])):
            self.assertGreater(at, before / 1000 - 1000)
            self.assertLess(at, after / 1000 + 1000)
        self.assertLessEqual(done["clock_error_ms"], 1)

    def test_clocks(self):
        words = {"realtime": "the wall clock", "monotonic": "the monotonic clock",
                 "boottime": ("the clock since boot", "the monotonic clock")}
        for clock, wanted in words.items():
            for name, base in (("ops.json", 0), ("ops.json.gz", 0)) + (
                    (("ops.json", 1727299674000000000),) if clock == "realtime" else ()):
                with self.subTest(clock=clock, name=name, base=base):
                    run = self.python("--json", "--ops", name, "--trace", "t.json",
                                      script=self.record(clock, base, name))
                    done = self.done(run)
                    self.check_borders(done)
                    self.assertTrue(done["clock"].startswith(wanted), done["clock"])
                    self.assertAlmostEqual(done["self_ms"], done["covered_ms"], places=6)
                    self.assertEqual(done["operations"], 2)

    def test_busy(self):
        """The process used its 0.2 s of a core just where the trace says so, by the samples,
        however long the machine took to give it that and however late it took them."""
        run = self.python("--json", "--ops", "ops.json", "--trace", "t.json", "--interval", "5",
                          script=self.record("realtime"))
        done = self.done(run)
        trace = self.trace("t.json")
        busy = [e for e in trace if e["ph"] == "X" and e["name"] in ("busy", "inner")]
        begin = min(e["ts"] for e in busy) / 1e6
        end = max(e["ts"] + e["dur"] for e in busy) / 1e6
        points = self.utilisation(trace, done)
        least, most = bounds(points, begin - 0.02, end + 0.02)
        self.assertLess(least, 0.23)
        self.assertGreater(most, 0.17)
        self.assertLess(bounds(points, begin - 0.15, begin - 0.02)[0], 0.02)
        self.assertLess(bounds(points, end + 0.02, end + 0.15)[0], 0.02)

    def test_table(self):
        """A row for each name: calls and their own time."""
        script = self.record("monotonic", ending="""
for i in range(10):
    event("small", t0 + 70000000 + i * 1000000, t0 + 70000000 + i * 1000000 + 250000 * (1 + i % 2))
""")
        self.python("--ops", "ops.json", "--csv", "o.csv", script=script)
        rows = [line.split(",") for line in self.bytes_of("o.csv").decode().splitlines()]
        rows = {row[1]: dict(zip(rows[0], row)) for row in rows[1:]}
        self.assertEqual(set(rows), {"busy", "inner", "small"})
        small = rows["small"]
        self.assertEqual(small["calls"], "10")
        self.assertAlmostEqual(float(small["total_ms"]), 3.75, places=2)
        self.assertAlmostEqual(float(small["mean_us"]), 375, delta=1)
        self.assertAlmostEqual(float(rows["inner"]["total_ms"]), 10, places=2)
        self.assertAlmostEqual(sum(float(row["share"]) for row in rows.values()), 1, places=2)

    def test_energy(self):
        """Joules per operation: a constant 5 W, shared where two threads work at once."""
        (self.folder / "power.csv").write_text("time_s,system:VIN:W\n0,5\n1000,5\n")
        script = self.record("monotonic", ending="""
event("beside", t0 + 100000000, t0 + 140000000, tid=2)
""")
        run = self.python("--json", "--ops", "ops.json", "--power", "power.csv", "--csv", "o.csv",
                          script=script)
        rows = [line.split(",") for line in self.bytes_of("o.csv").decode().splitlines()]
        energy = {row[1]: float(row[rows[0].index("energy_mj")]) for row in rows[1:]}
        times = json.loads(self.bytes_of("times.json"))
        self.assertAlmostEqual(energy["inner"], 50, delta=1)
        self.assertAlmostEqual(energy["beside"], 100, delta=2)
        self.assertGreater(energy["busy"], (times[2] - times[1]) / 1e6 * 5 - 160)
        self.assertLess(energy["busy"], (times[3] - times[0]) / 1e6 * 5 - 140)
        done = self.done(run)
        self.assertAlmostEqual(done["energy_mj_per_step"], 5e3 * done["seconds"],
                               delta=25 * done["seconds"])

    def test_steps(self):
        script = self.record("monotonic", ending="""
for i in range(4):
    event(f"ProfilerStep#{i + 7}", t0 + i * 40000000, t0 + (i + 1) * 40000000)
""")
        done = self.done(self.python("--json", "--ops", "ops.json", script=script))
        self.assertEqual(done["steps"], 4)
        self.assertAlmostEqual(done["median_step_ms"], 40, delta=0.01)
        self.assertAlmostEqual(done["operations_ms_per_step"], 40, delta=0.1)
        done = self.done(self.python("--json", "--ops", "ops.json", "--skip", 3, script=script))
        self.assertAlmostEqual(done["median_step_ms"], 40, delta=0.01)
        run = self.python("--json", "--ops", "ops.json", "--skip", 9, script=script, status=1)
        self.assertIn("quern: ", run.errors)

    def test_refused(self):
        """The run is told all the same, and the exit status says that something is missing."""
        cases = {
            "print(1)": "the command has not written it",
            "open('ops.json', 'w').write('[{')": "line 1, byte 2: the file is cut off here",
            "open('ops.json', 'w').write('{}')": "there is no \"traceEvents\"",
            TRACING + "event('x', 0, 5); json.dump(events, open('ops.json', 'w'))":
                "an event named monotonic_ns=N",
        }
        for script, says in cases.items():
            with self.subTest(says=says):
                run = self.python("--ops", "ops.json", script=script, status=1)
                self.assertIn(says, run.errors)
                self.assertIn("whole run", run.errors)
                self.python("--ops", "ops.json", script=script + "\nraise SystemExit(3)",
                            status=3)
                (self.folder / "ops.json").unlink(missing_ok=True)
        self.python("--ops", "ops.json", script=self.record("monotonic"))
        old = time.time() - 9
        os.utime(self.folder / "ops.json", (old, old))
        run = self.meter("--ops", "ops.json", command=["true"], status=1)
        self.assertIn("the command has not written it; it is", run.errors)

    def test_marks(self):
        """A clock that nobody knows, with marks in the trace."""
        script = TRACING + """
start = time.monotonic_ns() + 123456
for i in range(5):
    mark = time.monotonic_ns()
    begin = time.monotonic_ns() - start
    event(f"monotonic_ns={mark}", begin, time.monotonic_ns() - start)
time.sleep(0.1)
m0 = time.monotonic_ns(); burn(0.05); m1 = time.monotonic_ns()
event("busy", m0 - start, m1 - start)
json.dump(events, open("ops.json", "w"))
json.dump([m0, m1], open("times.json", "w"))
"""
        done = self.done(self.python("--json", "--ops", "ops.json", "--trace", "t.json",
                                     script=script))
        begin, end = json.loads(self.bytes_of("times.json"))
        busy, = [e for e in self.slices("t.json") if e["name"] == "busy"]
        self.assertAlmostEqual(busy["ts"], begin / 1000, delta=1000)
        self.assertAlmostEqual(busy["ts"] + busy["dur"], end / 1000, delta=1000)
        self.assertEqual(done["clock"], "marks in the trace")


if __name__ == "__main__":
    unittest.main()
