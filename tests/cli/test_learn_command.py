"""quern learn: days of a device with their budget, reasons and page; recorded use; what a model learns in
them; what is refused."""
import os
import pathlib
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

    def status(self, device, *options):
        tree = pathlib.Path(os.environ["QUERN_SOURCE"]) / "tests/devices" / device
        found = self.run_quern("learn", "status", "--sysroot", tree, "--json", *options).of("status")[0]
        return found, {rule["rule"]: rule for rule in found["rules"]}

    def test_status(self):
        found, rules = self.status("snapdragon-phone", "--when", "idle,charging,cool,battery,memory:1000")
        self.assertFalse(found["may_train"])
        self.assertEqual((rules["charging"]["value"], rules["charging"]["holds"]), (0, False))
        self.assertEqual((rules["battery"]["value"], rules["battery"]["holds"]), (64, True))
        self.assertEqual((rules["cool"]["value"], rules["cool"]["limit"], rules["cool"]["holds"]), (31.5, 38, True))
        self.assertAlmostEqual(rules["memory"]["value"], 2490000 / 1024, 3)
        self.assertEqual((rules["idle"]["value"], rules["idle"]["holds"]), (None, False))
        found, rules = self.status("raspberry-pi-5", "--when", "charging,cool")
        self.assertTrue(found["may_train"])  # no battery; a processor of 52.15 C
        self.assertEqual((rules["charging"]["value"], rules["cool"]["value"]), (None, 52.15))
        self.assertEqual(rules["cool"]["limit"], 65)
        _, rules = self.status("intel-laptop", "--when", "charging,cool:50")
        self.assertEqual((rules["cool"]["value"], rules["cool"]["holds"]), (51, False))
        self.assertEqual(self.status("jetson-tx2", "--when", "cool")[1]["cool"]["value"], 41.5)

    def test_status_of_a_tree(self):
        for name, text in (("loadavg", "1.50 0.2 0.1 1/2 3\n"), ("stat", "cpu  1 1\ncpu0 1 1\ncpu1 1 1\n"),
                           ("pressure/memory", "some avg10=12.50 avg60=0 avg300=0 total=1\n")):
            path = self.folder / "tree/proc" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        run = self.run_quern("learn", "status", "--sysroot", "tree", "--when", "load,calm", "--json")
        found = run.of("status")[0]
        self.assertEqual([r["value"] for r in found["rules"][:2]], [0.75, 12.5])
        self.assertIn("load", found["why"])
        self.assertIn("may not train now", self.run_quern("learn", "status", "--sysroot", "tree").output)
        self.run_quern("learn", "status")
        self.fails(1, "learn", "status", "--sysroot", "nowhere", says=["no such folder"])

    def idle_by_logind(self, said):
        """Minutes, where logind says so much; None: not known."""
        folder = pathlib.Path(os.environ["QUERN_TOOLS"]) / "fake_systemd"
        self.environment.update(LD_LIBRARY_PATH=str(folder), QUERN_FAKE_IDLE=said)
        return self.run_quern("learn", "status", "--when", "idle", "--json").of("status")[0]["rules"][0]["value"]

    def test_logind(self):
        """What desktops report counts beside terminals, and where neither knows, nothing is trained."""
        self.assertEqual(self.idle_by_logind("busy"), 0)
        self.assertTrue(0 <= self.idle_by_logind("7200") <= 120.5)
        terminals = self.idle_by_logind("away")
        self.assertEqual(terminals is None, self.idle_by_logind("none") is None)
        if terminals is None:
            self.assertGreater(self.idle_by_logind("7200"), 119)

    def learn(self, *options):
        data = self.make_images(1200)
        return self.run_quern("learn", "simulate", "--data", data, "--holdout", "0.2", "--days", 6, "--start", 400,
                              "--keep", 100, "--test", 200, "--daily", 80, "--json", *options)

    def test_learning(self):
        run = self.learn("--save", "p.safetensors", "--html", "l.html", "--threads", 1)
        start, days = run.of("start")[0], run.of("day")
        best = start["user_accuracy"]
        self.assertLess(best, 0.82)  # two of ten classes are new
        for day in days:
            self.assertLessEqual(day["recent_became_wrong"], day["recent_samples"])
            if day["has_replaced"]:
                self.assertLess(day["recent_chance"], 0.0501)
                self.assertGreater(day["recent_became_right"], day["recent_became_wrong"])
            self.assertGreater(day["user_accuracy"], best - 0.03)
            best = max(best, day["user_accuracy"])
        self.assertGreater(days[-1]["user_accuracy"], start["user_accuracy"] + 0.05)
        self.assertGreater(days[-1]["version"], 0)
        self.assertIn("Accuracy on test samples", (self.folder / "l.html").read_text())
        self.run_quern("evaluate", "--weights", "p.safetensors", "--data", "npy:x.npy,x-y.npy", "--holdout", "0.2")
        again = self.learn("--threads", 2)
        self.assertEqual(run.output, again.output)

    def test_refused(self):
        (self.folder / "bad.csv").write_text("second,in_use\n5,0\n4,1\n")
        for words, says in ((("--device", "snapdragon"), "snapdragon-phone"), (("--when", "idel"), "did you mean idle"),
                            (("--when", "battery:101"), "from 5 to 95")):
            self.fails(2, "learn", "simulate", *words, says=[says])
        data = self.make_images(200)
        for words, says in ((("--drift", "blur:1"), "rotate:DEGREES"), (("--drift", "classes:9"), "less than two"),
                            (("--model", "lenet"), "lenet5"), (("--load", "x.safetensors"), "x.safetensors")):
            self.fails(1 if words[0] == "--load" else 2, "learn", "simulate", "--data", data, "--holdout", "0.2",
                       "--start", 64, *words, says=[says])
        self.fails(2, "learn", "simulate", "--save", "m.safetensors", says=["needs --data"])
        self.fails(2, "learn", "simulat", says=["not an action"])
        self.fails(1, "learn", "simulate", "--trace", "bad.csv", says=["line 3", "must rise"])
        self.fails(1, "learn", "simulate", "--trace", "none.csv", says=["none.csv"])


if __name__ == "__main__":
    unittest.main()
