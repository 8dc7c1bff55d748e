"""Reports in a headless Chromium, at the width of a desk and of a phone, light and dark: no error in
the console, nothing fetched, nothing wider than the page, no chart left empty; tables sort, long
lines keep their extremes, and what is saved is whole.

With QUERN_PICTURES=FOLDER it leaves pictures there, to be looked at."""
import os
import pathlib
import subprocess

import browser
import quern

TOOL = pathlib.Path(os.environ["QUERN_TOOLS"]) / "write_reports"
SCREENS = [(1280, False), (1280, True), (390, False), (390, True)]
# Keeps what is saved instead of saving it; before the page's own script.
CATCH = """window.saved = [];
HTMLAnchorElement.prototype.click = function () { window.saved.push([this.download, this.href]); };"""
SAVED = """(async name => {
  window.saved.length = 0;
  document.querySelector(`figure[data-name="${name}"] .save`).click();
  const [file, link] = window.saved[0];
  return [file, await window.blobs[link].text()];
})('%s')"""
BLOBS = """window.blobs = {};
const make = URL.createObjectURL;
URL.createObjectURL = blob => { const link = make(blob); window.blobs[link] = blob; return link; };"""


@quern.unittest.skipUnless(browser.CHROMIUM, "no Chromium: script/bootstrap --extended installs it")
class TestReportBrowser(quern.Case):
    pictures = os.environ.get("QUERN_PICTURES")

    def setUp(self):
        super().setUp()
        subprocess.run([TOOL, self.folder], check=True, stdout=subprocess.PIPE)

    def look_at(self, page, name):
        """Looks at a report on every screen."""
        for width, is_dark in SCREENS:
            page.open(self.folder / name, width, is_dark)
            seen = page.look()
            self.assertEqual(seen["wide"], [], f"{name} at {width}")
            self.assertGreater(len(seen["charts"]), 0)
            for chart in seen["charts"]:
                self.assertGreater(chart["colours"], 20, f"{name} at {width}: {chart['name']}")
            back = page.ask("getComputedStyle(document.body).backgroundColor")
            self.assertEqual(sum(map(int, back[4:-1].split(","))) < 384, is_dark, back)
            if self.pictures:
                scheme = "dark" if is_dark else "light"
                page.picture(f"{self.pictures}/{name.split('.')[0]}-{width}-{scheme}.png")
        self.assertEqual(page.complaints, [])

    def test_screens(self):
        with browser.Page() as page:
            for report in sorted(self.folder.glob("*.html")):
                self.look_at(page, report.name)

    def test_complaints_are_heard(self):
        """What the other test relies on: an error, a request and a wide element do show."""
        path = self.folder / "bad.html"
        path.write_text("<!doctype html><body><div style='width:3000px;height:9px'></div>"
                        "<figure data-name=x><canvas></canvas></figure>"
                        "<img src='http://localhost:9/a.png'><script>throw Error('x')</script>")
        with browser.Page() as page:
            page.open(path, 1280)
            seen = page.look()
            self.assertIn("page 3008", " ".join(seen["wide"]))
            self.assertEqual(seen["charts"][0]["colours"], 1)
            self.assertIn("localhost:9", " ".join(page.complaints))
            self.assertIn("Error: x", " ".join(page.complaints))

    def test_behaviour(self):
        with browser.Page() as page:
            page.call("Page.addScriptToEvaluateOnNewDocument", source=CATCH + BLOBS)
            page.open(self.folder / "document.html", 1280)
            self.check_sorting(page)
            self.check_saving(page)
            drawn = page.ask("""(() => { const c = Chart.getChart(document.querySelector(
                'figure[data-name="A hundred thousand points"] canvas')).data.datasets[0].data;
                return [c.length, Math.max(...c.map(p => p.y)), c[0].x, c[c.length - 1].x]; })()""")
            self.assertLess(drawn[0], 5000)
            self.assertEqual(drawn[1:], [50, 0, 49999.5])
            self.assertEqual(page.complaints, [])

    def point_at(self, page, name, part):
        """What a chart answers in the middle of its height, at a part of its width."""
        return page.ask("""(() => {
          const chart = Chart.getChart(document.querySelector('figure[data-name="%s"] canvas'));
          const a = chart.chartArea, box = chart.canvas.getBoundingClientRect();
          chart.canvas.dispatchEvent(new MouseEvent('mousemove', {bubbles: true,
            clientX: box.left + a.left + %f * (a.right - a.left),
            clientY: box.top + (a.top + a.bottom) / 2}));
          return new Promise(done => setTimeout(() => done(chart.tooltip.opacity === 0 ? [] :
            chart.tooltip.title.concat(chart.tooltip.body.flatMap(b => b.lines))), 60));
        })()""" % (name, part))

    def test_pointing(self):
        """Charts of lines answer anywhere along them, with what holds there; not where a line has a gap."""
        with browser.Page() as page:
            page.open(self.folder / "document.html", 1280)
            for i in range(5, 100, 9):
                said = self.point_at(page, "A hundred thousand points", i / 100)
                self.assertEqual(len(said), 2, said)
                x, y = (float(text.split(": ")[1].replace(",", "")) for text in said)
                self.assertAlmostEqual(x, 50000 * i / 100, delta=60)
                self.assertTrue(8.9 <= y <= 11.7 or y == 50, y)
            said = dict(text.split(": ") for text in self.point_at(page, "Steps with a gap", 3.75 / 19.5))
            self.assertEqual(len(said), 12)  # the place, ten cores and what they are compared with
            for core in range(10):  # the eighth reading holds from 3.5 to 4
                self.assertEqual(said[f"cpu{core}"], str(7 * (core + 3) % 11 * 10))
            said = self.point_at(page, "Steps with a gap", 10.25 / 19.5)
            self.assertEqual([text.split(":")[0] for text in said], ["time (ms)", "another machine"])
            self.assertEqual(page.complaints, [])

    def test_labels_of_bars(self):
        """Names of bars stay different on a phone, and are whole where two lines hold them."""
        with browser.Page() as page:
            for width in (390, 1280):
                page.open(self.folder / "document.html", width)
                labels = page.ask("""Chart.getChart(document.querySelector(
                    'figure[data-name="Time by type of operation"] canvas')).scales.y.ticks.map(
                    t => [].concat(t.label).join(''))""")
                self.assertEqual(len(set(labels)), 4, labels)
                self.assertEqual(labels[0], "conv2d_weight_gradient")

    def check_sorting(self, page):
        column = """Array.from(document.querySelectorAll(
            'figure[data-name="Operations by type"] tbody tr'), r => r.cells[2].textContent)"""
        click = """document.querySelectorAll(
            'figure[data-name="Operations by type"] th button')[2].click()"""
        page.ask(click)
        self.assertEqual(page.ask(column), ["812.51", "110.75", "40.25", "9.12", "\u2013"])
        page.ask(click)
        self.assertEqual(page.ask(column), ["9.12", "40.25", "110.75", "812.51", "\u2013"])
        rows = """Array.from(document.querySelectorAll(
            'figure[data-name^="A long table"] tbody tr')).filter(r => r.offsetHeight).length"""
        self.assertEqual(page.ask(rows), 20)
        page.ask("document.querySelector('.more').click()")
        self.assertEqual(page.ask(rows), 60)

    def check_saving(self, page):
        name, text = page.ask(SAVED % "A hundred thousand points")
        lines = text.splitlines()
        self.assertEqual(name, "a-hundred-thousand-points.csv")
        self.assertEqual((lines[0], len(lines)), ("time (ms),package", 100001))
        self.assertEqual(lines[1 + 61234], "30617,50")
        _, text = page.ask(SAVED % "Operations by type")
        self.assertIn("conv2d,20,812.51,", text)
        self.assertIn("\"</script><b>\"\"it's\"\" & \\ <!-- \ufffd \U0001F333 h\u00fcllo\"", text)
        _, text = page.ask(SAVED % "Throughput by batch size")
        self.assertEqual(text.splitlines()[3], "16,28.8,")
        _, text = page.ask(SAVED % "Roofline")
        self.assertEqual(text.splitlines()[:2],
                         ["series,FLOPs per byte,GFLOP/s,name", "forward,10,30,conv1"])


if __name__ == "__main__":
    quern.unittest.main()
