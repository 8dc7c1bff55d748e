"""Reports, read by an independent parser: a document's parts come through as they were given, whatever
their text, the page needs nothing from outside, and its charts' data is whole. Those of a made-up
measurement agree with one another, and say of every estimated number that it is one."""
import csv
import html.parser
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

TOOL = pathlib.Path(os.environ["QUERN_TOOLS"]) / "write_reports"
# In pages, what ends a line or turns its direction is replaced.
NASTY = "</script><b>\"it's\" & \\ <!-- \u2028 \U0001F333 h\u00fcllo"
SHOWN = NASTY.replace("\u2028", "\ufffd")
VOID = {"meta", "br", "link"}


class Reader(html.parser.HTMLParser):
    """Texts by tag and class, tables, and the JSON of charts; fails where tags do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.texts, self.tables, self.charts, self.links = [], [], {}, {}, []
        self.figure = None
        self.feed(text)
        self.close()
        assert not self.open, self.open

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag not in VOID:
            self.open.append((tag, attrs.get("class")))
            self.texts.append((tag, attrs.get("class"), ""))
        self.links += [attrs[key] for key in ("src", "href") if key in attrs]
        if tag == "figure":
            self.figure = attrs["data-name"]
        if tag == "tr":
            self.tables.setdefault(self.figure, []).append([])
        if tag in ("td", "th"):
            self.tables[self.figure][-1].append(attrs.get("data-v"))

    def handle_endtag(self, tag):
        assert self.open and self.open[-1][0] == tag, (self.open, tag)
        self.open.pop()

    def handle_data(self, data):
        if not self.open:
            return
        tag, kind = self.open[-1]
        self.texts.append((tag, kind, data))
        if tag in ("td", "th") and self.tables[self.figure][-1][-1] is None:
            self.tables[self.figure][-1][-1] = data
        if tag == "script" and self.figure and data.startswith("{"):
            self.charts[self.figure] = json.loads(data)

    def all_of(self, tag, kind=None):
        return [text for t, k, text in self.texts if (t, k) == (tag, kind) and text]


class TestReport(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = pathlib.Path(tempfile.mkdtemp(prefix="quern-reports-"))
        cls.addClassCleanup(shutil.rmtree, cls.made)
        subprocess.run([TOOL, cls.made], check=True, stdout=subprocess.PIPE)

    def read(self, name):
        text = (self.made / name).read_text(encoding="utf-8")
        reader = Reader(text)
        self.assertEqual(reader.links, [])
        self.assertNotRegex(re.sub(r"<script.*?</script>", "", text, flags=re.S), r"https?://")
        return reader

    def test_document(self):
        page = self.read("document.html")
        self.assertEqual(page.all_of("title"), [SHOWN])
        self.assertEqual(page.all_of("h1"), [SHOWN])
        self.assertEqual(page.all_of("p", "warning")[-1], SHOWN)
        self.assertEqual(page.all_of("span", "value")[-1], SHOWN)
        self.assertEqual(page.all_of("span", "badge"), ["uncertain", "confirmed"])
        self.assertEqual(page.all_of("section", "finding unsure") != [], True)
        self.assertEqual([text.strip() for text in page.all_of("h3") if text.strip()],
                         [SHOWN, "1. A claim."])
        self.check_about(page)
        table = page.tables["Operations by type"]
        self.assertEqual(table[0], ["operation", "calls", "time (ms)", "remark"])
        self.assertEqual([row[0] for row in table[1:]],
                         ["conv2d", "batch_norm", "relu", SHOWN, "linear"])
        self.assertEqual([row[2] for row in table[1:]], ["812.51", "40.25", "", "9.125", "110.75"])
        self.assertEqual(len(page.tables["A long table, wider than a phone"]), 61)

    def check_about(self, page, *more):
        """Below each title: machine, threads where they are known, date."""
        after = [i for i, item in enumerate(page.texts) if item[:2] == ("p", "about")][0]
        spans = [text for tag, kind, text in page.texts[after:] if (tag, kind) == ("span", None) and text]
        machine, *threads, date = spans[:len(more) + 2]
        self.assertRegex(machine, r"\d+ cores?$")
        self.assertEqual(threads, list(more))
        self.assertRegex(date, r"^\d{4}-\d\d-\d\d \d\d:\d\d$")

    def test_charts(self):
        page = self.read("document.html")
        self.assertEqual(len(page.charts), 6)
        points = page.charts["Roofline"]
        self.assertEqual((points["kind"], points["xLog"], points["yLog"]), ("points", True, True))
        self.assertEqual(points["labels"][-1], NASTY)
        self.assertEqual([s["guide"] for s in points["series"]], [False, False, True])
        bars = page.charts["Throughput by batch size"]
        self.assertEqual(bars["series"][1]["y"], [30, 44, None, 61, 66])
        self.assertEqual(bars["labels"], ["4", "8", "16", "32", "64"])
        steps = page.charts["Steps with a gap"]["series"]
        self.assertEqual([s.get("reference", False) for s in steps], [False] * 10 + [True])
        line = page.charts["A hundred thousand points"]["series"][0]
        self.assertEqual((len(line["x"]), len(line["y"]), max(line["y"])), (100000, 100000, 50))

    def rows(self, name):
        with open(self.made / name, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def metrics(self, name):
        def refuse(text):
            raise ValueError(text + " is not JSON")
        return json.loads((self.made / name).read_text(), parse_constant=refuse)

    def test_csv(self):
        rows = self.rows("measured.csv")
        self.assertEqual(list(rows[0]), "type,name,device,calls,total_ms,share,mean_us,p50_us,p95_us,"
                         "flops,bytes,gflops,bound,energy_mj,mean_w,estimated".split(","))
        self.assertEqual(len(rows), 48)
        first = rows[0]
        self.assertEqual((first["type"], first["name"], first["device"], first["calls"]),
                         ("conv2d", 'conv<1>,"a"', "cpu", "20"))
        self.assertAlmostEqual(sum(float(row["share"]) for row in rows), 1, 6)
        for row in rows:
            self.assertAlmostEqual(float(row["mean_us"]) * 20 / 1000, float(row["total_ms"]), 4)
            speed = float(row["flops"]) / float(row["total_ms"]) / 1e6
            self.assertAlmostEqual(float(row["gflops"]) / speed, 1, 6)
            self.assertIn(row["bound"], ("compute", "memory"))
        self.assertEqual({row["estimated"] for row in rows}, {"false"})
        self.assertEqual({row["estimated"] for row in self.rows("estimated.csv")}, {"true"})
        self.assertEqual(self.rows("bare.csv"), [])

    def test_json(self):
        m, rows = self.metrics("measured.json"), self.rows("measured.csv")
        self.assertEqual((m["title"], m["steps"], m["skipped_steps"]), ("resnet <18>, batch 16", 20, 3))
        self.assertEqual(len(m["step_rows"]), 20)
        for name in ("nodes", "types", "layers"):
            total = sum(row["total_ms"] for row in m[name])
            self.assertAlmostEqual(total / sum(float(row["total_ms"]) for row in rows), 1, 6)
        self.assertAlmostEqual(sum(row["energy_mj"] for row in m["nodes"]) / 1000
                               + m["idle_energy_j"], m["energy_j"], 3)
        self.assertEqual(m["memory"]["kinds"]["feature_map"], 610000000)
        self.assertEqual(m["part_energy_j"]["gpu"], None)
        self.assertEqual(len(m["said"]), 3)
        self.check_series(m)
        self.assertEqual(self.metrics("bare.json")["energy_j"], None)
        self.assertIs(self.metrics("estimated.json")["energy_is_estimated"], True)

    def check_series(self, m):
        by_name = {(s["name"], s["quantity"]): s for s in m["series"]}
        self.assertEqual(len(by_name), 13)  # the thread without readings is not there
        end = m["step_rows"][2]["end_s"]
        for s in by_name.values():
            self.assertLessEqual(s["readings"][0][0], 0)
            self.assertGreaterEqual(s["readings"][-1][1], end)
            self.assertLess(s["readings"][-1][0], end)
        self.assertEqual(by_name["package-0", "power"]["part"], "cpu")

    def test_page_of_a_measurement(self):
        page, m = self.read("measured.html"), self.metrics("measured.json")
        labels, values = page.all_of("span", "label"), page.all_of("span", "value")
        figures = dict(zip(labels, values))
        self.assertEqual(figures["step time"], f"{m['step_ms_median']:.0f} ms")
        self.assertEqual(figures["throughput"], f"{m['throughput']:.0f} samples/s")
        self.assertEqual(figures["energy per step"], f"{m['energy_mj_per_step'] / 1000:.2f} J")
        bars = page.charts["Time by type of operation"]
        self.assertEqual(bars["labels"], [row["type"] for row in m["types"]])
        for value, row in zip(bars["series"][0]["y"], m["types"]):
            self.assertAlmostEqual(value, row["total_ms"] / 20, 4)
        power = page.charts["Power, over 3 steps"]["series"]
        self.assertEqual([s["name"] for s in power], ["package-0", "dram", "a step begins"])
        self.assertIn(None, power[0]["y"])  # the reading that is missing is a gap
        roof = page.charts["Speed by arithmetic intensity"]
        self.assertEqual(len(roof["labels"]), sum(len(s["x"]) for s in roof["series"][:-1]))
        operations = page.tables["Single operations"]
        self.assertEqual(len(operations), 49)
        self.assertIn('conv<1>,"a"', [row[0] for row in operations])
        self.assertEqual(page.tables["Sensor messages"][3][1], "/sys/class/power_supply <none>")

    def test_estimates_are_marked(self):
        measured = (self.made / "measured.html").read_text().split("<script>\n/*")[0]
        self.assertNotIn("estimated", re.sub("<style>.*?</style>", "", measured, flags=re.S))
        page = self.read("estimated.html")
        self.assertEqual(len(page.all_of("p", "warning")), 2)  # one is for browsers without scripts
        self.assertTrue(any("estimated" in note for note in page.all_of("span", "note")))
        for name in ("By type", "By layer", "Single operations"):
            self.assertEqual(page.tables[name][0][-2:], ["energy (mJ, estimated)",
                                                         "power (W, estimated)"])
        for chart in ("Power, over 3 steps", "Power over the run"):
            names = [s["name"] for s in page.charts[chart]["series"] if not s["guide"]]
            self.assertEqual(names, ["package-0 (estimated)", "dram (estimated)"])
        for chart in ("Energy by component", "Energy of each step"):
            self.assertIn("estimated", page.charts[chart]["y"])
        units = [row[3] for row in page.tables["All sensors"] if row[1] == "power"]
        self.assertEqual(units, ["W, estimated"] * 2)

    def test_of_a_run(self):
        """A network that was trained under the meter."""
        m, rows, page = self.metrics("real.json"), self.rows("real.csv"), self.read("real.html")
        self.assertEqual((m["title"], m["steps"], m["skipped_steps"]), ("small network", 60, 3))
        self.assertEqual({row["calls"] for row in rows}, {"60"})
        self.check_about(page, "2 threads")
        self.assertEqual(m["threads"], 2)
        self.assertLessEqual(m["step_ms_low"], m["step_ms_median"])
        self.assertGreaterEqual(m["step_ms_high"], m["step_ms_median"])
        names = {row["name"]: row["type"] for row in rows}
        self.assertEqual(names["conv1"], "conv2d")
        self.assertEqual(len(page.tables["Single operations"]), len(rows) + 1)
        self.assertAlmostEqual((m["operations_ms_per_step"] + m["idle_ms_per_step"])
                               / m["step_ms_mean"], 1, 6)
        self.assertIn("Utilisation by core", " ".join(page.charts))

    def test_bare_page(self):
        page = self.read("bare.html")
        self.assertIn("not known", page.all_of("span", "value"))
        self.assertEqual(page.all_of("span", "label"), ["step time", "throughput", "energy"])
        self.assertEqual(list(page.charts), ["Time of each step"])


if __name__ == "__main__":
    unittest.main()
