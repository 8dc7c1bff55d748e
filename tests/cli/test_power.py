"""Energy of training as quern profile tells it, against power that is known: replayed, or of a recorded
tree, whose power stands still."""
import pathlib
import os
import unittest

import quern

SOURCE = pathlib.Path(os.environ.get("QUERN_SOURCE", pathlib.Path(__file__).parents[2]))
RUN = ["profile", "lenet5", "--batch", "32", "--steps", "12", "--json"]


class Energy(quern.Case):
    def watts(self, *options):
        """Energy of a step by its time; and the whole last event."""
        done = self.run_quern(*RUN, *options).of("done")[0]
        return done["energy_mj_per_step"] / done["step_ms_mean"], done

    def replay(self, text):
        (self.folder / "power.csv").write_text(text)
        return self.watts("--power", "power.csv")

    def test_replayed(self):
        """A rail of 10 W, by gauge and by a counter that wraps each second, the processor inside it."""
        rows = [f"{i * 0.05:.2f},10,{i * 300 % 1000}" for i in range(20 * 120)]
        for column, watts in (("system:in:W,cpu:c:mJ:wrap=1000:inside=in", 10),
                              ("other:o:mW,cpu:c:mJ:wrap=1000", 6.01)):
            found, done = self.replay(f"time_s,{column}\n" + "\n".join(rows) + "\n")
            self.assertAlmostEqual(found / watts, 1, delta=0.005)
            self.assertFalse(done["energy_is_estimated"])

    def test_tree(self):
        found, done = self.watts("--sysroot", SOURCE / "tests/devices/jetson-tx2")
        self.assertAlmostEqual(found / 11.910, 1, delta=0.005) # VDD_IN alone, which holds the others
        self.assertFalse(done["energy_is_estimated"])

    def test_no_number(self):
        """A recorded counter stands still: that is no energy of 0."""
        tree = self.folder / "tree"
        for name, text in (("devices/system/cpu/present", "0"),
                           ("class/powercap/intel-rapl:0/name", "package-0"),
                           ("class/powercap/intel-rapl:0/energy_uj", "12345")):
            (tree / "sys" / name).parent.mkdir(parents=True, exist_ok=True)
            (tree / "sys" / name).write_text(text + "\n")
        done = self.run_quern(*RUN, "--sysroot", tree).of("done")[0]
        self.assertIsNone(done["energy_mj_per_step"])

    def test_refused(self):
        self.fails(1, *RUN, "--power", "nowhere.csv", says=["nowhere.csv"])
        (self.folder / "power.csv").write_text("time_s,cpu:a:W\n0,1\n1,much\n")
        self.fails(1, *RUN, "--power", "power.csv", says=["power.csv:3", "much"])


if __name__ == "__main__":
    unittest.main()
