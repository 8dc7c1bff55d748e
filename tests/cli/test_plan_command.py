"""quern plan: what is predicted is what training holds, for a model of every kind of task; figures fit
together; a plan that is saved is the one that is loaded, and one that was edited to be wrong is refused
with the step and the values named; wrong usage is refused."""
import json

import quern

# A model of each kind of task: one phase and two, one program and several.
KINDS = ["lenet5", "mobilenet-v2", "dcgan", "dqn", "seq2seq", "bert-tiny", "char-lstm", "char-cnn"]


class TestPlan(quern.Case):
    def plan(self, *arguments):
        return self.run_quern("plan", *arguments, "--json").of("plan")[0]

    def test_predicted(self):
        """Training without tests and checkpoints holds what was said, but for texts of settings and what looks
        for a schedule."""
        for model in KINDS:
            planned = self.plan(model, "--batch", 2)
            done = self.run_quern("train", model, "--data", "synthetic", "--batch", 2, "--steps", 2,
                                  "--no-test", "--no-samples", "--no-save", "--json").of("done")[0]
            self.assertAlmostEqual(planned["peak_bytes"], done["peak_bytes"], delta=6144, msg=model)
            self.assertEqual(planned["fixed_bytes"], done["parameter_bytes"], model)

    def test_baselines(self):
        for model in KINDS:
            planned = self.plan(model)
            programs = planned["programs"]
            self.assertTrue(programs[0]["training"])
            self.assertEqual(max(p["arena_bytes"] for p in programs), planned["arena_bytes"])
            self.assertLess(planned["fixed_bytes"] + planned["arena_bytes"], planned["peak_bytes"])
            for p in programs:
                self.assertLessEqual(p["lower_bound_bytes"], p["arena_bytes"])
                self.assertGreater(p["unplanned_bytes"], p["unplanned_freed_bytes"] - 1)
                alive = sum(p[f"peak_{kind}_bytes"] for kind in ["gradient", "feature", "workspace"])
                self.assertEqual(alive, p["lower_bound_bytes"], (model, p["program"]))
            self.assertEqual([(s["program"], s["space"], s["arena_bytes"]) for s in planned["spaces"]],
                             [(p["program"], "host", p["arena_bytes"]) for p in programs])
            self.assertEqual([(x["program"], x["device"], x["steps"], x["waits"])
                              for x in planned["lanes"]],
                             [(p["program"], "cpu", p["steps"], 0) for p in programs])
            self.assertEqual(planned["beside"] + planned["waits"], [])
            saved = (max(p["late_arena_bytes"] for p in programs)
                     - max(p["once_arena_bytes"] for p in programs))
            self.assertEqual(planned["early_update_saves_bytes"], max(0, saved))

    def test_text(self):
        output = self.run_quern("plan", "dcgan", "--batch", 8).output
        for text in ["dcgan: batch 8", "peak ", "unplanned ", "\ntraining ", "\ntesting "]:
            self.assertIn(text, output)

    def test_more_than_there_is(self):
        """Nothing of what is planned is taken: tens of GB are no trouble."""
        planned = self.plan("bert-base", "--batch", 256)
        self.assertGreater(planned["peak_bytes"], 1e10)

    def test_large_without_a_budget(self):
        """What costs next to nothing is made again where feature maps are most of a large network's
        memory; a budget without effect turns that off, and no bit changes."""
        planned = self.plan("mobilenet-v2", "--batch", 24)
        usual = self.plan("mobilenet-v2", "--batch", 24, "--memory", "64G")
        self.assertEqual(usual["again"], [])
        self.assertGreater(len(planned["again"]), 0)
        training = planned["programs"][0]
        self.assertLessEqual(training["extra_ms"], 0.025 * training["base_ms"])
        self.assertEqual(training["once_arena_bytes"], usual["programs"][0]["arena_bytes"])
        self.assertLess(planned["arena_bytes"], 0.95 * usual["arena_bytes"])
        peaks = []
        for name, how in [("default", []), ("once", ["--memory", "64G"])]:
            done = self.run_quern("train", "mobilenet-v2", "--data", "synthetic", "--batch", 24,
                                  "--steps", 2, "--no-test", "--json", "--save", name, *how)
            peaks.append(done.of("done")[0]["peak_bytes"])
        self.assertLess(peaks[0], peaks[1])
        self.assertEqual(self.bytes_of("default"), self.bytes_of("once"))

    def test_usage(self):
        self.fails(2, "plan", says=["MODEL"])
        self.fails(2, "plan", "lenet6", says=["lenet5"])
        self.fails(2, "plan", "lenet5", "--resume", "x", says=["trains nothing"])
        self.fails(2, "plan", "lenet5", "--batch", "0", says=["--batch 0"])

    def test_saved(self):
        for model in KINDS:
            before = self.plan(model, "--batch", 2, "--save", "plan.json")
            after = self.plan("--load", "plan.json")
            for key in ["model", "batch", "arena_bytes", "lower_bound_bytes", "fixed_bytes"]:
                self.assertEqual(before[key], after[key], (model, key))

    def test_budget(self):
        """What a plan within a budget predicts is what training within it holds; it costs no bit, and
        neither does training by the saved plan."""
        for model, percent in [("mobilenet-v2", 70), ("dcgan", 70), ("bert-tiny", 90)]:
            usual = self.plan(model, "--batch", 8)
            budget = usual["fixed_bytes"] + (
                usual["peak_bytes"] - usual["fixed_bytes"]) * percent // 100
            options = ["--batch", 8, "--memory", budget]
            planned = self.plan(model, *options, "--save", "plan.json", "--html", "plan.html")
            self.assertLessEqual(planned["peak_bytes"], budget)
            self.assertEqual(planned["memory_budget_bytes"], budget)
            self.assertGreater(len(planned["again"]), 0, model)
            self.assertGreater(sum(p["extra_ms"] for p in planned["programs"]), 0)
            self.assertGreater(planned["default_peak_bytes"], planned["peak_bytes"])
            self.assertEqual(self.plan("--load", "plan.json")["again"], planned["again"])

            def train(name, *how):
                done = self.run_quern("train", model, "--data", "synthetic", "--steps", 2,
                                      "--no-test", "--no-samples", "--json", "--save", name, *how)
                return done.of("done")[0]
            train("free", "--batch", 8)
            done = train("within", *options)
            self.assertAlmostEqual(done["predicted_peak_bytes"], planned["peak_bytes"],
                                   delta=budget / 100)
            self.assertLessEqual(done["peak_bytes"], budget)
            done = train("by-plan", "--plan", "plan.json")
            self.assertEqual(done["operations_again"], sum(a["times"] for a in planned["again"]))
            self.assertLessEqual(done["peak_bytes"], budget)
            for name in ["within", "by-plan"]:
                self.assertEqual(self.bytes_of("free"), self.bytes_of(name), (model, name))
        self.fails(1, "plan", "lenet5", "--memory", "1M", says=["too small", "the minimum is", "--memory"])

    def test_micro_batches(self):
        """A plan of a batch that is cut says so, and is trained by."""
        planned = self.plan("lenet5", "--batch", 8, "--micro-batch", 2, "--save", "plan.json")
        self.assertEqual([p["micro_batch"] for p in planned["programs"]], [2, 0])
        after = self.plan("--load", "plan.json")
        self.assertEqual([p["micro_batch"] for p in after["programs"]], [2, 0])
        self.assertEqual(after["arena_bytes"], planned["arena_bytes"])
        for name, how in [("free", ["--batch", 8]), ("by-plan", ["--plan", "plan.json"])]:
            self.run_quern("train", "lenet5", "--data", "synthetic", "--steps", 2, "--no-test",
                           "--save", name, *how)
        self.assertEqual(self.bytes_of("free"), self.bytes_of("by-plan"))

    def test_max_batch(self):
        run = self.run_quern("plan", "lenet5", "--memory", "4M", "--max-batch", "--json")
        found, planned = run.of("batches")[0], run.of("plan")[0]
        largest = found["largest_batch"]
        self.assertEqual(planned["batch"], largest)
        self.assertLessEqual(planned["peak_bytes"], 4 << 20)
        self.fails(1, "plan", "lenet5", "--memory", "4M", "--batch", largest + 1, says=["too small"])
        batches = {b["batch"]: b for b in found["batches"]}
        self.assertIn(largest, batches)
        self.assertEqual(found["fastest_batch"], min(batches, key=lambda n: batches[n]["sample_ms"]))
        text = self.run_quern("plan", "lenet5", "--memory", "4M", "--max-batch").output
        self.assertIn(f"the largest batch that fits is {largest};", text)
        self.fails(1, "plan", "lenet5", "--memory", "100K", "--max-batch", says=["too small"])
        self.fails(2, "plan", "lenet5", "--max-batch", says=["--memory"])
        self.fails(2, "plan", "lenet5", "--max-batch", "--memory", "4M", "--micro-batch", 2,
                   says=["--micro-batch"])


class TestEdited(quern.Case):
    """Each edit breaks one promise of a plan."""

    def setUp(self):
        super().setUp()
        self.run_quern("plan", "lenet5", "--batch", 4, "--threads", 2, "--save", "plan.json")
        self.text = (self.folder / "plan.json").read_text()

    def refused(self, edit, *says):
        plan = json.loads(self.text)
        edit(plan, plan["programs"][0])
        (self.folder / "edited.json").write_text(json.dumps(plan))
        self.fails(1, "plan", "--load", "edited.json", says=["edited.json", *says])

    @staticmethod
    def storage(program, value):
        return next(s for s in program["storages"] if s["value"] == value)

    def test_places(self):
        def together(_, program):
            self.storage(program, "pool1")["offset"] = self.storage(program, "conv1")["offset"]
        self.refused(together, "training", "(conv1)", "(pool1)", "alive in step 1", "overlap")

        def outside(_, program):
            self.storage(program, "conv2")["offset"] = program["arena_bytes"]
        self.refused(outside, "(conv2)", "exceeds the arena")

        def askew(_, program):
            self.storage(program, "conv2")["offset"] += 4
        self.refused(askew, "(conv2)", "misaligned")

        def small(_, program):
            program["arena_bytes"] -= 64
        self.refused(small, "arena")

    def test_what_lies(self):
        def short(_, program):
            self.storage(program, "conv1")["bytes"] //= 2
        self.refused(short, "(conv1)", "bytes", "for conv1")

        def brief(_, program):
            self.storage(program, "pool1")["last"] = 1
        self.refused(brief, "(pool1)", "from step 1 to 1")

        def gone(_, program):
            del program["storages"][-1]
        self.refused(gone, "storages; the graph needs")

    def test_order(self):
        def early(_, program):
            items = program["items"]
            items[1], items[2] = items[2], items[1]
        self.refused(early, "item 1", "conv2 reads pool1", "not made yet")

        def left_out(_, program):
            program["items"].remove(["run", "fc1.weight.update"])
        self.refused(left_out, "fc1.weight.update never runs")

        def twice(_, program):
            program["items"].append(["run", "fc1.weight.update"])
        self.refused(twice, "fc1.weight.update", "second time")

        def unknown(_, program):
            program["items"].append(["run", "fc9"])
        self.refused(unknown, "no node fc9")

        def of_nothing(_, program):
            program["items"].append(["jump", "fc1"])
        self.refused(of_nothing, "no known action")

    def test_other_graph(self):
        def batch(plan, _):
            plan["settings"]["batch"] = "8"
        self.refused(batch, "another graph", "make a new plan")

        def model(plan, _):
            plan["model"] = "mlp"
        self.refused(model, "another graph")

        def threads(plan, _):
            plan["threads"] = 1
        self.refused(threads, "the graph needs")

        def setting(plan, _):
            plan["settings"]["speed"] = "9"
        self.refused(setting, "no setting speed")

    def test_no_plan(self):
        (self.folder / "edited.json").write_text(self.text[:1000])
        self.fails(1, "plan", "--load", "edited.json", says=["no plan file"])
        self.fails(1, "plan", "--load", "nowhere.json", says=["nowhere.json"])
        self.fails(2, "plan", "mlp", "--load", "plan.json", says=["lenet5", "mlp"])
        self.fails(2, "plan", "--load", "plan.json", "--batch", "8", says=["--batch is 8"])
        self.fails(2, "plan", "--load", "plan.json", "--threads", "1", says=["--threads 2"])


if __name__ == "__main__":
    quern.unittest.main()
