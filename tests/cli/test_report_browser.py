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
        self.assertIn("\"</script><b>\"\"it's\"\" & \\ <!-- \u2028 \U0001F333 h\u00fcllo\"", text)
        _, text = page.ask(SAVED % "Throughput by batch size")
        self.assertEqual(text.splitlines()[3], "16,28.8,")
        _, text = page.ask(SAVED % "Roofline")
        self.assertEqual(text.splitlines()[:2],
                         ["series,FLOPs per byte,GFLOP/s,name", "forward,10,30,conv1"])


if __name__ == "__main__":
    quern.unittest.main()
