"""quern learn: days of a device with their budget, reasons and page; recorded use; what is refused."""
import unittest

import quern


class Learn(quern.Case):
    def test_days(self):
        for device, joules in (("snapdragon-phone", 2000), ("intel-laptop", 12000), ("raspberry-pi-5", 6000)):
            run = self.run_quern("learn", "simulate", "--device", device, "--days", 6, "--json")
            days = run.of("day")
            self.assertEqual([d["day"] for d in days], list(range(1, 7)))
            for day in days:
                self.assertLess(day["joules"], joules + 16)
            self.assertGreater(sum(d["joules"] for d in days), joules)
            again = self.run_quern("learn", "simulate", "--device", device, "--days", 6, "--json")
            self.assertEqual(run.output, again.output)

    def test_reasons(self):
        run = self.run_quern("learn", "simulate", "--days", 2, "--log", "--json", "--joules", 0, "--minutes", 1)
        decisions = run.of("decision")
        self.assertTrue(any(d["may_train"] for d in decisions))
        self.assertTrue(any(d["why"] == "charging: on battery" for d in decisions))
        self.assertTrue(any(d["why"] == "budget: 1.0 min of 1.0 min are spent today" for d in decisions))
        self.assertEqual([d["train_seconds"] for d in run.of("day")], [60, 60])

    def test_trace_and_page(self):
        (self.folder / "u.csv").write_text("second,in_use,charging,battery,celsius\n0,1,1,80,25\n7200,0,1,80,25\n"
                                           "7800,1,1,80,25\n")
        run = self.run_quern("learn", "simulate", "--trace", "u.csv", "--days", 2, "--json", "--html", "d.html")
        self.assertEqual([d["train_seconds"] for d in run.of("day")], [301, 301])
        self.assertEqual([d["returns"] for d in run.of("day")], [1, 1])
        page = (self.folder / "d.html").read_text()
        self.assertIn("2 days of snapdragon-phone", page)
        self.assertIn("Energy of training", page)

    def test_refused(self):
        (self.folder / "bad.csv").write_text("second,in_use\n5,0\n4,1\n")
        for words, says in ((("--device", "snapdragon"), "snapdragon-phone"), (("--when", "idel"), "did you mean idle"),
                            (("--when", "battery:101"), "from 5 to 95")):
            self.fails(2, "learn", "simulate", *words, says=[says])
        self.fails(2, "learn", "simulat", says=["not an action"])
        self.fails(1, "learn", "simulate", "--trace", "bad.csv", says=["line 3", "must rise"])
        self.fails(1, "learn", "simulate", "--trace", "none.csv", says=["none.csv"])


if __name__ == "__main__":
    unittest.main()
