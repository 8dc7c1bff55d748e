"""quern study --quick, whole: some minutes. Its page opens in a browser without a complaint, shows all
figures, and is no wider than a desktop's or a phone's screen."""
import csv
import json
import unittest

import browser
import quern

CHARTS = ["Throughput by batch", "Memory by kind and batch", "Feature maps and workspace by batch",
          "Utilisation of each core by batch", "Training as a multiple of inference",
          "Accuracy of drip training"]


class Quick(quern.Case):
    def test_whole(self):
        data = self.make_images(n=4000, side=28)
        output = self.run_quern("study", "--quick", "--data", data, "--out", "s").output
        self.assertIn("18/18 lenet5, batch 64, drip training: ", output)
        with open(self.folder / "s/study.csv", newline="") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual({row["state"] for row in rows}, {"done"})
        for row in rows:
            if row["kind"] != "drip":
                self.assertLessEqual(float(row["meter_bytes"]), 16e6, row)
                self.assertGreater(float(row["cpu_utilisation"]), 0, row)
        study = json.loads((self.folder / "s/study.json").read_text())
        judged = [o for o in study["observations"] if o["verdict"] != "cannot be judged here"]
        self.assertLessEqual({9, 10, 11, 12}, {o["number"] for o in judged})
        if browser.CHROMIUM:
            self.check_page()

    def check_page(self):
        with browser.Page() as page:
            for width in (1280, 390):
                for is_dark in (False, True):
                    page.open(self.folder / "s/report.html", width, is_dark)
                    looked = page.look()
                    self.assertEqual(looked["wide"], [])
                    names = [chart["name"] for chart in looked["charts"]]
                    for name in CHARTS:
                        self.assertIn(name, names)
                    self.assertTrue(any(name.startswith("Utilisation over ") for name in names))
                    for chart in looked["charts"]:
                        self.assertGreater(chart["colours"], 2, chart)
            self.assertEqual(page.complaints, [])


if __name__ == "__main__":
    unittest.main()
