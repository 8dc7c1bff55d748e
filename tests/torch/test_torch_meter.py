"""quern meter on a PyTorch script with its profiler's trace: own times add up to what the trace
covers, and the trace's clock is mapped to ours within a millisecond."""
import json
import pathlib
import statistics
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
import quern  # noqa: E402
from test_torch_trace import covered_ns, events_of  # noqa: E402

SCRIPT = """
import os
for library in "OMP", "OPENBLAS", "MKL", "BLIS":
    os.environ[library + "_NUM_THREADS"] = "1"
import json, time, torch
from torch.profiler import ProfilerActivity, profile, record_function

def note_border():
    borders.append((time.monotonic_ns(), time.process_time_ns()))

def mark_clock():
    for _ in range(5):
        with record_function(f"monotonic_ns={time.monotonic_ns()}"):
            pass

torch.set_num_threads(1)
x, borders = torch.randn(128, 128), []
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    with record_function("first"):  # is slow
        torch.mm(x, x)
    MARK
    for _ in range(9):
        time.sleep(0.06)
        note_border()
        with record_function("busy"):
            end = time.process_time() + 0.06
            while time.process_time() < end:
                torch.mm(x, x)
        note_border()
    MARK
profiler.export_chrome_trace("ops.json")
json.dump(borders, open("borders.json", "w"))
"""


class Meter(quern.Case):
    def meter(self, script, *options, status=0):
        return self.run_quern("meter", "--json", "--ops", "ops.json", *options, "--",
                              "/usr/bin/python3", "-c", script, status=status)

    def test_trace(self):
        run = self.meter(SCRIPT.replace("MARK", "mark_clock()"), "--trace", "t.json", "--interval",
                         "5", "--csv", "o.csv")
        done = json.loads(run.errors[run.errors.index('{"event":"done"'):])
        self.check_sums(done)
        trace = json.loads(self.bytes_of("t.json"))["traceEvents"]
        borders = json.loads(self.bytes_of("borders.json"))
        self.check_clock(done, trace, list(zip(borders[::2], borders[1::2])))
        self.check_samples(trace, list(zip(borders, borders[1:])))
        rows = self.bytes_of("o.csv").decode().splitlines()
        self.assertTrue(any(row.startswith("aten::mm,aten::mm,cpu,") for row in rows))

    def check_sums(self, done):
        """Over all that are operations, on every track."""
        covered = 0
        for slices in events_of(self.folder / "ops.json").values():
            covered += covered_ns([s for s in slices if not s[2].startswith("monotonic_ns=")])
        self.assertGreater(covered, 9 * 30e6)
        self.assertAlmostEqual(done["self_ms"], covered / 1e6, delta=covered / 1e6 * 0.001)

    def check_clock(self, done, trace, regions):
        """Our trace has the monotonic clock, by which the script noted the borders of its regions;
        a thread that is put off between clock and region makes single ones worse."""
        busy = [(e["ts"], e["ts"] + e["dur"]) for e in trace
                if e["ph"] == "X" and e["name"] == "busy"]
        off = []
        for (begin, _), (end, _) in regions:
            begin, end = begin / 1000, end / 1000
            inside = [slice for slice in busy if begin - 30000 < slice[0] < end]
            off += [min(s[0] for s in inside) - begin, max(s[1] for s in inside) - end]
        self.assertLess(statistics.median(map(abs, off)), 1000, off)
        self.assertLessEqual(done["clock_error_ms"], 1)
        self.assertEqual(done["clock"], "marks in the trace")

    def check_samples(self, trace, stretches):
        """By the process's own clock it ran in the regions and not between them. The samples that
        lie wholly in such a stretch of time cannot tell of more, those that touch it not of less, but for
        a tick of the scheduler (10 ms), up to which the clock of another process is known: however
        late the samples come. Medians, since the sampler may be put off between two clocks."""
        points = [(e["ts"] * 1000, next(iter(e["args"].values()))) for e in trace
                  if e["ph"] == "C" and "process" in e["name"] and "utilisation" in e["name"]]
        samples = [(at, following, value * (following - at))
                   for (at, value), (following, _) in zip(points, points[1:])]
        for kind in 0, 1:
            more, less = [], []
            for (begin, before), (end, after) in stretches[kind::2]:
                within = sum(ran for a, b, ran in samples if begin <= a and b <= end)
                touching = sum(ran for a, b, ran in samples if a < end and begin < b)
                more.append(within - (after - before))
                less.append(after - before - touching)
            self.assertLess(statistics.median(more), 1e7, more)
            self.assertLess(statistics.median(less), 1e7, less)

    def test_without_marks(self):
        """Debian's profiler counts from its own start: that cannot be guessed."""
        run = self.meter(SCRIPT.replace("MARK", "pass").replace("range(9)", "range(1)"), status=1)
        self.assertIn("let the program record, five times in a row, an event named monotonic_ns=N",
                      run.errors)


if __name__ == "__main__":
    unittest.main()
