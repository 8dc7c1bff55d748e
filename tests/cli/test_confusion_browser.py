"""The page of quern evaluate --html in a headless Chromium, on a desk and a phone, light and dark: no
error, nothing fetched, nothing wider than the page; the matrix is drawn and tells what is pointed at.

With QUERN_PICTURES=FOLDER it leaves pictures there, to be looked at."""
import os

import browser
import quern

SCREENS = [(1280, False), (1280, True), (390, False), (390, True)]
TOLD = "document.querySelector('figure.matrix .told').textContent"


@quern.unittest.skipUnless(browser.CHROMIUM, "no Chromium: script/bootstrap --extended installs it")
class TestConfusionBrowser(quern.Case):
    pictures = os.environ.get("QUERN_PICTURES")

    def test_page(self):
        data = self.make_images(128)
        self.run_quern("train", "lenet5", "--data", data, "--batch", 16, "--steps", 6, "--holdout",
                       0.3, "--save", "w.st")
        self.run_quern("evaluate", "lenet5", "--weights", "w.st", "--html", "c.html")
        with browser.Page() as page:
            for width, is_dark in SCREENS:
                page.open(self.folder / "c.html", width, is_dark)
                seen = page.look()
                self.assertEqual(seen["wide"], [], f"at {width}")
                self.assertGreater(seen["charts"][0]["colours"], 5)
                if self.pictures:
                    page.picture(f"{self.pictures}/confusion-{width}-{is_dark}.png")
            rest = page.ask(TOLD)
            page.ask("matrices[0].choose(2, 2)")
            self.assertRegex(page.ask(TOLD), r"^\d+ of the \d+ samples of 2 \([\d.]+\s%\) were "
                                             "recognised$")
            page.ask("matrices[0].choose(1, 4)")
            self.assertRegex(page.ask(TOLD), "of 1 .* were taken for 4$")
            page.ask("matrices[0].choose(-1, 0)")
            self.assertEqual(page.ask(TOLD), rest)
            self.assertEqual(page.complaints, [])


if __name__ == "__main__":
    quern.unittest.main()
