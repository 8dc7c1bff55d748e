"""Self times of traces, against a computation of their own: of PyTorch's profiler, and made up."""
import collections
import decimal
import gzip
import json
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import unittest

import torch

TOOL = pathlib.Path(os.environ.get("QUERN_TOOLS", "build/release/tests"), "trace_times")


def events_of(path):
    """Slices by track as (begin, end, name), in whole nanoseconds."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt") as file:
        trace = json.load(file, parse_float=str, parse_int=str)
    if isinstance(trace, dict):
        trace = trace["traceEvents"]
    tracks, stacks = collections.defaultdict(list), collections.defaultdict(list)

    def ns(text):
        return int(decimal.Decimal(text) * 1000)
    for event in trace:
        track = f"{event.get('pid', '')}/{event.get('tid', '')}"
        if event.get("ph") == "X":
            begin = ns(event["ts"])
            tracks[track].append((begin, begin + ns(event.get("dur", "0")), event.get("name", "")))
        elif event.get("ph") in "BE":
            stacks[track].append((ns(event["ts"]), event["ph"], event.get("name", "")))
    for track, halves in stacks.items():
        opened = []
        for at, phase, name in sorted(halves, key=lambda half: half[0]):
            if phase == "B":
                opened.append((at, name))
            elif opened:
                begin, name = opened.pop()
                tracks[track].append((begin, at, name))
    return tracks


def covered_ns(slices):
    """Length of the union of the intervals."""
    total, until = 0, None
    for begin, end, _ in sorted(slices):
        begin = begin if until is None else max(begin, until)
        total += max(0, end - begin)
        until = end if until is None else max(until, end)
    return total


def self_ns(slices):
    """By name, of slices that are properly nested: duration less that of the direct children."""
    own, stack = collections.Counter(), []
    for begin, end, name in sorted(slices, key=lambda s: (s[0], -s[1])):
        while stack and stack[-1][0] <= begin:
            stack.pop()
        own[name] += end - begin
        if stack:
            own[stack[-1][1]] -= min(end, stack[-1][0]) - begin
        stack.append((end, name))
    return own


class Trace(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-trace-"))
        self.addCleanup(shutil.rmtree, self.folder)

    def read(self, path):
        """By track, the sums by name as the library has them."""
        lines = subprocess.run([TOOL, path], check=True, capture_output=True, text=True).stdout
        tracks = collections.defaultdict(collections.Counter)
        for line in lines.splitlines():
            track, name, ns = line.split("\t")
            tracks[track][name] += int(ns)
        return tracks

    def check_sums(self, path, most_off=0.0):
        """Self times add up to what is covered, on every track."""
        read, wanted = self.read(path), events_of(path)
        self.assertEqual(set(read), set(wanted))
        for track, slices in wanted.items():
            covered = covered_ns(slices)
            self.assertLessEqual(abs(sum(read[track].values()) - covered), most_off * covered)
        return read, wanted

    def check_names(self, path):
        read, wanted = self.check_sums(path)
        for track, slices in wanted.items():
            self.assertEqual(+read[track], +self_ns(slices))

    def write(self, name, trace):
        path = self.folder / name
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "wt") as file:
            json.dump(trace, file)
        return path


class Torch(Trace):
    def record(self, name):
        model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Flatten(),
                                    torch.nn.Linear(8 * 14 * 14, 10))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        x, y = torch.randn(8, 3, 16, 16), torch.randint(10, (8,))
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            for _ in range(5):
                optimizer.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                optimizer.step()
                profiler.step()
        path = self.folder / name
        profiler.export_chrome_trace(str(path))
        return path

    def test_profiler(self):
        """Times are cut to whole microseconds there, so a child may seem to outlive its parent: the
        sums by name are then a matter of taste, but not their sum."""
        path = self.record("t.json")
        read, wanted = self.check_sums(path)
        self.assertGreater(sum(map(len, wanted.values())), 200)
        names = set().union(*read.values())
        self.assertTrue({"aten::conv2d", "aten::addmm", "aten::relu"} <= names)
        for track, slices in wanted.items():
            own = self_ns(slices)
            for name, ns in own.items():
                calls = sum(s[2] == name for s in slices)
                self.assertLessEqual(abs(read[track][name] - ns), 4000 * calls, name)


class MadeUp(Trace):
    def nest(self, draw, begin, end, depth):
        """Events nested at random within an interval."""
        at, events = begin, []
        while at < end and depth > 0:
            first = at + draw.randrange(1, 500) / 2
            last = min(end, first + draw.randrange(0, 2000) / 2)
            if first >= end:
                break
            events.append({"ph": "X", "name": f"op{draw.randrange(9)}", "ts": first,
                           "dur": last - first, "pid": 1, "tid": 2, "args": {"x": [1, {"ts": 5}]}})
            events += self.nest(draw, first, last, depth - 1)
            at = last
        return events

    def test_nested(self):
        for seed in range(5):
            draw, origin = random.Random(seed), seed % 2 * 1790000000000000
            events = self.nest(draw, origin, origin + 9000, 5)
            draw.shuffle(events)
            self.assertGreater(len(events), 20)
            self.check_names(self.write("t.json", events))
            self.check_names(self.write("t.json.gz", {"traceEvents": events}))

    def test_halves(self):
        draw = random.Random(9)
        events = []
        for track in range(3):
            at, n_open = 0.0, 0
            for _ in range(300):
                at += draw.randrange(1, 80) / 8
                begins = n_open == 0 or (n_open < 6 and draw.random() < 0.5)
                n_open += 1 if begins else -1
                events.append({"ph": "B" if begins else "E", "ts": at, "tid": track, "pid": "CPU",
                               **({"name": f"op{draw.randrange(5)}"} if begins else {})})
        draw.shuffle(events)
        self.check_names(self.write("t.json", {"traceEvents": events}))

    def test_crossing(self):
        draw = random.Random(3)
        events = [{"ph": "X", "name": f"op{i % 7}", "ts": draw.randrange(5000), "pid": 1,
                   "dur": draw.randrange(300), "tid": draw.randrange(3)} for i in range(2000)]
        self.check_sums(self.write("t.json", events))


if __name__ == "__main__":
    unittest.main()
