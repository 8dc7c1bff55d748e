"""The page of quern plan in a headless Chromium, at the width of a desk and of a phone, light and dark:
no error in the console, nothing fetched, nothing wider than the page; the picture tells what is pointed
at, and zooms; thousands of boxes are drawn at once.

With QUERN_PICTURES=FOLDER it leaves pictures there, to be looked at."""
import json
import os
import re
import time

import browser
import quern

SCREENS = [(1280, False), (1280, True), (390, False), (390, True)]
TOLD = "document.querySelector('figure.plan .told').textContent"


@quern.unittest.skipUnless(browser.CHROMIUM, "no Chromium: script/bootstrap --extended installs it")
class TestPlanBrowser(quern.Case):
    pictures = os.environ.get("QUERN_PICTURES")

    def write(self, model, *arguments):
        self.run_quern("plan", model, *arguments, "--html", model + ".html")
        return self.folder / (model + ".html")

    def drawn(self, path):
        """What the first picture is drawn of."""
        text = re.search(r'<figure class="plan".*?<script[^>]*>(.*?)</script>', path.read_text(), re.S)
        return json.loads(text[1])

    def boxes(self, path):
        return self.drawn(path)["boxes"]

    def look_at(self, page, path):
        for width, is_dark in SCREENS:
            page.open(path, width, is_dark)
            seen = page.look()
            self.assertEqual(seen["wide"], [], f"{path.name} at {width}")
            for chart in seen["charts"]:
                self.assertGreater(chart["colours"], 20, f"{path.name} at {width}: {chart['name']}")
            if self.pictures:
                scheme = "dark" if is_dark else "light"
                page.picture(f"{self.pictures}/plan-{path.stem}-{width}-{scheme}.png")
        self.assertEqual(page.complaints, [])

    def test_screens(self):
        with browser.Page() as page:
            for model in ["lenet5", "dcgan", "seq2seq"]:
                self.look_at(page, self.write(model, "--batch", 8))

    def test_pointing(self):
        """The middle of every large box tells of it, before and after zooming on it."""
        path = self.write("lenet5", "--batch", 8)
        with browser.Page() as page:
            page.open(path, 1280)
            rest = page.ask(TOLD)
            for first, last, offset, size, _, _, name, shape in self.boxes(path):
                point = (f"plans[0].choose(plans[0].xOf({(first + last + 1) / 2}),"
                         f" plans[0].yOf({offset + size / 2}))")
                page.ask(point)
                told = page.ask(TOLD)
                self.assertTrue(told.startswith(name + " " * bool(shape) + shape + ":"), told)
                self.assertIn(f"from step {first} (", told)
            page.ask("plans[0].choose(-1, -1)")
            self.assertEqual(page.ask(TOLD), rest)
            self.assertEqual(page.complaints, [])

    def test_budget(self):
        """What is recomputed is marked and says so, and is in the table."""
        path = self.write("mobilenet-v2", "--batch", 8, "--memory", "88M")
        drawn = self.drawn(path)
        marked = [box for box in drawn["boxes"] if box[5]]
        self.assertGreater(len(marked), 0)
        self.assertGreaterEqual(drawn["limit"], drawn["arena"])
        with browser.Page() as page:
            self.look_at(page, path)
            for first, last, offset, size, _, _, name, _ in marked:
                self.assertIn(".again", name)
                page.ask(f"plans[0].choose(plans[0].xOf({(first + last + 1) / 2}),"
                         f" plans[0].yOf({offset + size / 2}))")
                self.assertIn("recomputed", page.ask(TOLD))
            rows = page.ask("""document.querySelectorAll(
                'figure[data-name="Recomputed or swapped in training"] tbody tr').length""")
            self.assertGreaterEqual(len(marked), rows)
            self.assertGreater(rows, 0)

    def test_swapping(self):
        """Each memory space has its picture, and lanes and waits their columns."""
        path = self.write("resnet18", "--batch", 32, "--memory", "140M", "--swap", self.folder)
        text = path.read_text()
        if "Lanes of training" not in text:
            self.skipTest("this disk is too slow to be worth a swap")
        drawn = re.findall(r'<figure class="plan".*?<script[^>]*>(.*?)</script>', text, re.S)
        self.assertEqual(len(drawn), 3)
        self.assertGreater(len(json.loads(drawn[1])["boxes"]), 0)
        with browser.Page() as page:
            self.look_at(page, path)
            heads = page.ask("""Array.from(document.querySelectorAll(
                'figure[data-name="Operations of training"] th')).map(h => h.textContent).join()""")
            self.assertTrue(heads.endswith("lane,waits for"), heads)

    def test_schedule(self):
        """The lanes of --cores auto: predicted and measured, and what is pointed at is told."""
        path = self.write("squeezenet", "--batch", 2, "--threads", 2, "--cores", "auto")
        text = re.search(r'<figure class="lanes".*?<script[^>]*>(.*?)</script>', path.read_text(), re.S)
        drawn = json.loads(text[1])
        told = "document.querySelector('figure.lanes .told').textContent"
        for kind in 0, 1:
            self.assertGreater(len([box for box in drawn["boxes"] if box[0] == kind]), 200)
        with browser.Page() as page:
            self.look_at(page, path)
            rest = page.ask(told)
            for box in sorted(drawn["boxes"], key=lambda box: box[3] - box[4])[:20]:
                page.ask(f"lanes[0].choose(lanes[0].xOf({(box[3] + box[4]) / 2}), lanes[0].yOf({box[0]}, {box[1]}) + 5)")
                self.assertTrue(page.ask(told).startswith(f"{box[6]} ({box[7]}), {drawn['sets'][box[0]]}: "), page.ask(told))
            page.ask("lanes[0].choose(-1, -1)")
            self.assertEqual(page.ask(told), rest)
            whole = page.ask("Object.assign({}, lanes[0].view)")
            page.ask("""Array.from(document.querySelectorAll('figure.lanes .zoom button'))
                .find(b => b.textContent === 'Zoom in').click()""")
            self.assertAlmostEqual(page.ask("lanes[0].view.w"), whole["w"] / 2)
            self.assertEqual(page.complaints, [])

    def click(self, page, text):
        page.ask("""Array.from(document.querySelectorAll('figure.plan .zoom button'))
            .find(b => b.textContent === '%s').click()""" % text)
        return page.ask("Object.assign({}, plans[0].view)")

    def test_zooming(self):
        with browser.Page() as page:
            page.open(self.write("lenet5", "--batch", 8), 390)
            whole = page.ask("Object.assign({}, plans[0].view)")
            near = self.click(page, "Zoom in")
            self.assertAlmostEqual(near["w"], whole["w"] / 2)
            self.assertAlmostEqual(near["t"], whole["w"] / 4)
            for _ in range(30):
                near = self.click(page, "Zoom in")
            self.assertGreaterEqual(near["w"], 4)
            self.assertGreaterEqual(near["h"], 256)
            self.assertEqual(self.click(page, "Show all"), whole)
            self.assertEqual(self.click(page, "Zoom out"), whole)
            self.assertEqual(page.complaints, [])

    def test_many(self):
        path = self.write("resnet152", "--batch", 16)
        self.assertGreater(len(self.boxes(path)), 1500)
        with browser.Page() as page:
            self.look_at(page, path)
            begin = time.monotonic()
            for _ in range(10):
                self.click(page, "Zoom in")
                page.settle()
            self.assertLess(time.monotonic() - begin, 20)
            self.assertEqual(page.complaints, [])


if __name__ == "__main__":
    quern.unittest.main()
