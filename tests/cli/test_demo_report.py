"""script/report.py, the page of script/demo: the figures of quern's JSON come through, in the style of
quern's own pages, and a browser that has one draws it on a desk and a phone without a complaint."""
import html
import json
import os
import pathlib
import subprocess
import sys

import browser
import quern

REPORT = pathlib.Path(os.environ["QUERN_SOURCE"]) / "script/report.py"
SCREENS = [(1280, False), (1280, True), (390, False), (390, True)]


class DemoReport(quern.Case):
    def setUp(self):
        super().setUp()
        data = self.make_images(160)
        self.runs = []
        for seed in (1, 2):
            run = self.run_quern("train", "lenet5", "--data", data, "--batch", 16, "--epochs", 3,
                                 "--holdout", 0.2, "--seed", seed, "--json", "--save", "w.st")
            (self.folder / f"run-{seed}.jsonl").write_text(run.output)
            self.runs.append(run)
        image = self.folder / "image.png"
        quern.write_png(image, 28, 28, bytes(range(0, 196)) * 4)
        for name, arguments in {"machine": ["devices"],
                                "predicted": ["predict", "lenet5", "--weights", "w.st", image]}.items():
            (self.folder / f"{name}.json").write_text(self.run_quern(*arguments, "--json").output)
        self.given = ["--title", "A <title>", "--machine", "machine.json", "--image", image,
                      "--predicted", "predicted.json", "--label", "no. <1>"]

    def report(self, *runs):
        subprocess.run([sys.executable, REPORT, "--out", "r.html", *map(str, self.given), *runs],
                       cwd=self.folder, check=True)
        return (self.folder / "r.html").read_text(encoding="utf-8")

    def charts_of(self, text):
        parts = text.split('<figure class="chart" data-name="')[1:]
        return {part.split('"')[0]: json.loads(part.split("application/json\">")[1].split("</script>")[0])
                for part in parts}

    def test_page(self):
        text = self.report("run-1.jsonl", "run-2.jsonl")
        charts = self.charts_of(text)
        losses = charts["Training loss"]["series"]
        self.assertEqual([s["name"] for s in losses], ["seed 1", "seed 2"])
        for series, run in zip(losses, self.runs):
            self.assertEqual(series["x"], [step["step"] for step in run.of("step")])
            self.assertEqual(series["y"], [step["loss"] for step in run.of("step")])
        accuracy = charts["Test accuracy after each epoch"]["series"][0]
        done = self.runs[0].of("done")[0]
        self.assertEqual((len(accuracy["x"]), accuracy["x"][-1]), (3, done["steps"]))
        self.assertAlmostEqual(accuracy["y"][-1], 100 * done["test_accuracy"])
        self.assertIn(f'data-v="{round(done["peak_bytes"] / 2**20, 6)}"', text)
        self.assertIn(f"<span>{done['threads']} thread", text)
        self.assertIn("<title>A &lt;title&gt;</title>", text)
        self.assertIn("It shows: no. &lt;1&gt;.", text)
        predicted = json.loads((self.folder / "predicted.json").read_text().splitlines()[0])["classes"]
        self.assertEqual(charts["Prediction"]["labels"], [item["class"] for item in predicted])

    def test_machine(self):
        """The same words as quern's own pages have."""
        self.run_quern("plan", "lenet5", "--html", "p.html")
        own = (self.folder / "p.html").read_text().split('<p class="about"><span>')[1].split("</span>")[0]
        self.assertIn(f'<p class="about"><span>{own}</span>', self.report("run-1.jsonl"))
        self.assertTrue(html.unescape(own))

    def test_unfinished(self):
        (self.folder / "cut.jsonl").write_text('{"event":"step","step":1,"loss":2}\n')
        run = subprocess.run([sys.executable, REPORT, "--out", "r.html", "cut.jsonl"], cwd=self.folder,
                             capture_output=True, text=True, check=False)
        self.assertNotEqual(run.returncode, 0)
        self.assertIn("cut.jsonl: the run did not finish", run.stderr)
        self.assertFalse((self.folder / "r.html").exists())

    @quern.unittest.skipUnless(browser.CHROMIUM, "no Chromium: script/bootstrap --extended installs it")
    def test_screens(self):
        self.report("run-1.jsonl", "run-2.jsonl")
        with browser.Page() as page:
            for width, is_dark in SCREENS:
                page.open(self.folder / "r.html", width, is_dark)
                seen = page.look()
                self.assertEqual(seen["wide"], [], f"at {width}")
                self.assertEqual(len(seen["charts"]), 3)
                for chart in seen["charts"]:
                    self.assertGreater(chart["colours"], 5, chart["name"])
            self.assertEqual(page.complaints, [])


if __name__ == "__main__":
    quern.unittest.main()
