"""Traces, checked against the rules of the Trace Event Format: the object form, each phase with the
fields it must have, slices of a track nested or apart, counters that are numbers; and against the
measurement that they were written from."""
import json
import numbers
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

TOOL = pathlib.Path(os.environ["QUERN_TOOLS"]) / "write_reports"
SLACK_US = 0.002  # two ends are each rounded to a thousandth


def refuse(text):
    raise AssertionError(text + " is not JSON")


def check_event(event):
    """Complains about an event that is not as its phase demands."""
    assert event["ph"] in ("X", "C", "M"), event
    assert isinstance(event["name"], str) and event["name"], event
    assert isinstance(event["pid"], int), event
    if event["ph"] == "M":
        assert event["name"] in ("process_name", "thread_name"), event
        assert isinstance(event["args"]["name"], str), event
        return
    assert isinstance(event["ts"], numbers.Real) and event["ts"] >= 0, event
    if event["ph"] == "X":
        assert isinstance(event["tid"], int) and event["dur"] >= 0 and event["cat"], event
    else:
        assert event["args"], event
    for value in event.get("args", {}).values():
        assert isinstance(value, numbers.Real) and not isinstance(value, bool), event


def check_nesting(slices):
    """Slices of one track lie within one another, or apart."""
    open_ends = []
    for s in sorted(slices, key=lambda s: (s["ts"], -s["dur"])):
        end = s["ts"] + s["dur"]
        while open_ends and open_ends[-1] <= s["ts"] + SLACK_US:
            open_ends.pop()
        assert not open_ends or end <= open_ends[-1] + SLACK_US, s
        open_ends.append(end)


def check_trace(path):
    """All rules; gives the file's content."""
    trace = json.loads(pathlib.Path(path).read_text(encoding="utf-8"), parse_constant=refuse)
    assert trace["displayTimeUnit"] in ("ms", "ns")
    tracks = {}
    named, counters = set(), {}
    for event in trace["traceEvents"]:
        check_event(event)
        key = event["pid"], event.get("tid")
        if event["ph"] == "X":
            tracks.setdefault(key, []).append(event)
        elif event["ph"] == "C":
            counters.setdefault((event["pid"], event["name"]), []).append(event)
        else:
            named.add(key if event["name"] == "thread_name" else (event["pid"], None))
    for key, slices in tracks.items():
        assert key in named and (key[0], None) in named, f"track {key} has no name"
        check_nesting(slices)
    for key, points in counters.items():
        assert (key[0], None) in named, key
        assert points == sorted(points, key=lambda p: p["ts"]), key
        assert len({tuple(p["args"]) for p in points}) == 1, f"{key} changes its unit"
    return trace


class TestTrace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = pathlib.Path(tempfile.mkdtemp(prefix="quern-reports-"))
        cls.addClassCleanup(shutil.rmtree, cls.made)
        subprocess.run([TOOL, cls.made], check=True, stdout=subprocess.PIPE)

    def setUp(self):
        self.metrics = json.loads((self.made / "measured.json").read_text())

    def test_rules(self):
        for name in ("measured", "estimated", "bare", "real"):
            check_trace(self.made / f"{name}.trace.json")

    def test_rules_find_faults(self):
        good = {"ph": "X", "pid": 1, "tid": 1, "name": "a", "cat": "b", "ts": 0, "dur": 10}
        for fault in ({"ph": "Q"}, {"ts": -1}, {"dur": -1}, {"name": ""}, {"args": {"a": None}}):
            with self.assertRaises(AssertionError):
                check_event({**good, **fault})
        check_nesting([good, {**good, "ts": 2, "dur": 3}, {**good, "ts": 5, "dur": 5},
                       {**good, "ts": 10, "dur": 10}])
        with self.assertRaises(AssertionError):
            check_nesting([good, {**good, "ts": 5}])

    def of(self, trace, phase, pid):
        return [e for e in trace["traceEvents"] if e["ph"] == phase and e["pid"] == pid]

    def test_slices(self):
        trace = check_trace(self.made / "measured.trace.json")
        slices = self.of(trace, "X", 1)
        steps = [s for s in slices if s["cat"] == "step"]
        self.assertEqual([s["name"] for s in steps], [f"step {i}" for i in range(4, 24)])
        self.assertAlmostEqual(sum(s["dur"] for s in steps) / 20000, self.metrics["step_ms_mean"], 4)
        node = next(n for n in self.metrics["nodes"] if n["name"] == "conv2d2.backward")
        calls = [s for s in slices if s["name"] == node["name"] and s["tid"] == 2
                 and s["ts"] >= steps[0]["ts"]]
        self.assertEqual(len(calls), node["calls"])
        self.assertAlmostEqual(sum(s["dur"] for s in calls) / 1000, node["total_ms"], 3)
        self.assertEqual(calls[0]["args"]["flops"], node["flops"] / node["calls"])
        self.assertEqual(calls[0]["cat"], "conv2d_gradient")
        self.assertEqual({s["tid"] for s in slices}, {1, 2, 3, 4, 5})
        runs = [s for s in slices if s["cat"] == "run"]
        self.assertEqual(len(runs), len([r for r in runs if r["tid"] == 2]))

    def test_counters(self):
        trace = check_trace(self.made / "measured.trace.json")
        counters = {e["name"]: e["args"] for e in self.of(trace, "C", 2)}
        self.assertEqual(list(counters["power package-0 (rapl)"]), ["W"])
        self.assertEqual(list(counters["frequency cpu1 (frequency)"]), ["MHz"])
        self.assertEqual(list(counters["utilisation cpu0 (cores)"]), ["%"])
        own = {e["name"] for e in self.of(trace, "C", 1)}
        self.assertEqual(own, {"memory resident (memory)", "utilisation process (threads)"})
        estimated = check_trace(self.made / "estimated.trace.json")
        power = {e["name"] for e in self.of(estimated, "C", 2) if e["name"].startswith("power")}
        self.assertEqual(power, {"power package-0 (model, estimated)",
                                 "power dram (model, estimated)"})


if __name__ == "__main__":
    unittest.main()
