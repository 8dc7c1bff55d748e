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
import json, time, torch
from torch.profiler import ProfilerActivity, profile, record_function

def mark_clock():
    for _ in range(5):
        with record_function(f"monotonic_ns={time.monotonic_ns()}"):
            pass

torch.set_num_threads(1)
x, regions = torch.randn(128, 128), []
with profile(activities=[ProfilerActivity.CPU]) as profiler:
    with record_function("first"):  # is slow
        torch.mm(x, x)
    MARK
    for _ in range(9):
        time.sleep(0.06)
        begin = time.monotonic_ns()
        with record_function("busy"):
            end = time.process_time() + 0.03
            while time.process_time() < end:
                torch.mm(x, x)
        regions.append((begin, time.monotonic_ns()))
    MARK
profiler.export_chrome_trace("ops.json")
json.dump(regions, open("regions.json", "w"))
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
        regions = json.loads(self.bytes_of("regions.json"))
        self.check_clock(done, trace, regions)
        self.check_samples(trace, regions)
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
        for begin, end in regions:
            begin, end = begin / 1000, end / 1000
            inside = [slice for slice in busy if begin - 30000 < slice[0] < end]
            off += [min(s[0] for s in inside) - begin, max(s[1] for s in inside) - end]
        self.assertLess(statistics.median(map(abs, off)), 1000, off)
        self.assertLessEqual(done["clock_error_ms"], 1)
        self.assertEqual(done["clock"], "marks in the trace")

    def check_samples(self, trace, regions):
        """The process used its core in the regions, by our samples, and not between them."""
        points = [(e["ts"] * 1000, next(iter(e["args"].values()))) for e in trace
                  if e["ph"] == "C" and "process" in e["name"] and "utilisation" in e["name"]]
        inside, between = [], []
        for (begin, end), following in zip(regions, regions[1:]):
            inside += [v for at, v in points if begin + 1e7 < at < end - 1e7]
            between += [v for at, v in points if end + 1e7 < at < following[0] - 1e7]
        self.assertGreater(statistics.mean(inside), 4 * statistics.mean(between))

    def test_without_marks(self):
        """Debian's profiler counts from its own start: that cannot be guessed."""
        run = self.meter(SCRIPT.replace("MARK", "pass").replace("range(9)", "range(1)"), status=1)
        self.assertIn("let the program record, five times in a row, an event named monotonic_ns=N",
                      run.errors)


if __name__ == "__main__":
    unittest.main()
