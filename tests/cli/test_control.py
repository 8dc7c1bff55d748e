"""Q-learning through the command line: training, resuming, measuring, and environments that fail."""
import pathlib
import sys
import unittest

import quern

EXAMPLE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "environment.py"
CARTPOLE = ("--net", "mlp", "--data", "cartpole", "--fill", 200, "--replay", 500, "--episodes", 3)
BREAKOUT = ("--data", "breakout", "--fill", 200, "--replay", 100, "--target-every", 3, "--explore",
            400, "--batch", 4, "--episodes", 1)

# Greets, and then fails in the way its argument names, once so many steps were asked for.
FAILING = """
import struct, sys, time
kind, most = sys.argv[1], int(sys.argv[2])
print("quern-environment 1 observation f32 2 actions 2", flush=True)
for n, line in enumerate(sys.stdin):
    if n == most and kind == "die":
        sys.exit(7)
    if n == most and kind == "hang":
        time.sleep(100)
    text = b"nonsense" if n == most and kind == "nonsense" else b"reward 1 running"
    value = float("nan") if n == most and kind == "nan" else 0.5
    sys.stdout.buffer.write(text + b"\\n" + struct.pack("<2f", value, n))
    sys.stdout.buffer.flush()
"""


class Control(quern.Case):
    def train(self, *options, status=0):
        return self.run_quern("train", "dqn", *options, "--json", status=status)

    def process(self, kind, most):
        (self.folder / "failing.py").write_text(FAILING)
        return f"process:{sys.executable} failing.py {kind} {most}"


class Training(Control):
    def test_events(self):
        run = self.train(*CARTPOLE, "--steps", 30)
        for event in run.of("step"):
            self.assertEqual(list(event), ["event", "step", "loss", "value", "return", "epsilon",
                                           "episodes", "frames"])
        self.assertEqual(run.of("step")[-1]["frames"], 229)
        self.assertGreater(run.of("step")[-1]["episodes"], 3)
        self.assertGreater(run.of("done")[0]["test_return"], 5)

    def test_learns(self):
        run = self.train("--net", "mlp", "--data", "cartpole", "--frames", 25000, "--threads", 1)
        self.assertGreater(run.of("done")[0]["test_return"], 150)

    def test_synthetic(self):
        for net in ("mlp", "conv"):
            losses = [event["loss"] for event in self.train(
                "--net", net, "--data", "synthetic", "--steps", 80, "--batch", 16, "--lr",
                0.001).of("step")]
            self.assertLess(sum(losses[-10:]), sum(losses[:10]), net)

    def test_curve_and_game(self):
        run = self.run_quern("train", "dqn", *BREAKOUT, "--steps", 3, "--save", "w.safetensors",
                             "--frames", 5000)
        self.assertIn("an episode of ", run.output)
        shown = self.run_quern("sample", "dqn", "--weights", "w.safetensors", "--seed", 2)
        self.assertIn("######", shown.output)
        self.assertIn("an episode of ", shown.output)
        self.fails(1, "sample", "dqn", "--weights", "w.safetensors", "--picture", "x.png",
                   says=["as text"])

    def test_evaluate(self):
        self.train(*CARTPOLE, "--steps", 2, "--save", "w.safetensors")
        returns = [self.run_quern("evaluate", "dqn", "--weights", "w.safetensors", "--episodes", 9,
                                  "--test-epsilon", epsilon, "--json").of("evaluation")[0]
                   for epsilon in (0, 0, 1)]
        self.assertEqual(returns[0]["samples"], 9)
        self.assertEqual(returns[0]["return"], returns[1]["return"])
        self.assertNotEqual(returns[0]["return"], returns[2]["return"])
        self.assertTrue(10 < returns[2]["return"] < 40)


class SameBits(Control):
    def check_resume(self, options):
        self.train(*options, "--steps", 14, "--save", "whole.safetensors", "--threads", 2)
        self.train(*options, "--steps", 5, "--save", "part.safetensors", "--threads", 1)
        self.train("--resume", "part.safetensors", "--steps", 14, "--save", "part.safetensors",
                   "--threads", 1)
        self.assertEqual(self.bytes_of("part.safetensors"), self.bytes_of("whole.safetensors"))

    def test_cartpole(self):
        self.check_resume(CARTPOLE)

    def test_breakout(self):
        self.check_resume(BREAKOUT)

    def test_damaged_state(self):
        """Counters that cannot be are refused by name."""
        self.train(*CARTPOLE, "--steps", 2, "--save", "w.safetensors")
        data = bytearray(self.bytes_of("w.safetensors"))
        header = int.from_bytes(data[:8], "little")
        entry = data[8:8 + header].decode().split('"task.counters":')[1]
        begin = 8 + header + int(entry.split('"data_offsets":[')[1].split(",")[0])
        data[begin + 7] = 0xff
        (self.folder / "w.safetensors").write_bytes(data)
        self.fails(1, "train", "dqn", "--resume", "w.safetensors", "--steps", 4,
                   says=["state of control", "counters"])


class Outside(Control):
    def test_example(self):
        data = f"process:{sys.executable} {EXAMPLE}"
        options = ("--net", "mlp", "--data", data, "--fill", 300, "--replay", 400, "--episodes", 1)
        run = self.train(*options, "--steps", 5, "--save", "w.safetensors")
        self.assertIsNotNone(run.of("done")[0]["test_return"])
        again = self.train("--resume", "w.safetensors", "--steps", 8)
        self.assertEqual([event["frames"] for event in again.of("step")], [305, 306, 307])

    def test_failures(self):
        """What is wrong is said, and what was trained until then is saved."""
        said = {"die": "status 7", "nonsense": "nonsense", "nan": "not finite", "hang": "in time"}
        for kind, text in said.items():
            with self.subTest(kind):
                run = self.fails(
                    1, "train", "dqn", "--net", "mlp", "--data", self.process(kind, 150), "--fill",
                    100, "--replay", 400, "--checkpoint-every", 20, "--save", "w.safetensors",
                    "--steps", 100, "--timeout", 5 if kind == "hang" else 60, "--no-test",
                    says=[text, "w.safetensors holds the checkpoint of step 50"])
                self.assertNotIn("Traceback", run.errors)
                self.assertEqual(quern.metadata_of(self.folder / "w.safetensors")["step"], "50")

    def test_bad_greeting(self):
        self.fails(1, "train", "dqn", "--net", "mlp", "--data", "process:echo hello",
                   says=["echo hello", "quern-environment"])
        self.fails(1, "train", "dqn", "--net", "mlp", "--data", "process:exit 3",
                   says=["exit 3", "status 3"])


class Usage(Control):
    def test_misfits(self):
        self.fails(2, "train", "dqn", "--data", "cartpole", says=["4 numbers", "--net mlp"])
        self.fails(2, "train", "dqn", "--net", "mlp", "--data", "breakout", says=["frames"])
        self.fails(2, "train", "dqn", "--data", "pong", says=["pong", "cartpole, breakout"])
        self.fails(2, "train", "dqn", "--data", "process:", says=["process:COMMAND"])
        self.fails(2, "train", "lenet5", "--data", "synthetic", "--net", "mlp", says=["control"])
        self.fails(2, "train", "dqn", "--data", "cartpole", "--net", "mlp", "--augment", "flip",
                   says=["classification"])
        self.fails(2, "train", "dqn", "--data", "cartpole", "--net", "mlp", "--frames", 500,
                   says=["--steps"])


if __name__ == "__main__":
    unittest.main()
