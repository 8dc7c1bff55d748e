"""Training on the emulated Hexagon DSP: the bits of the CPU's integer training, also when the DSP's process is killed at
random moments; and one clear word where something is missing. Skipped where there is no emulator, or the build has no
program for the DSP."""
import json
import os
import pathlib
import random
import signal
import struct
import time
import unittest

import quern

N_STEPS = 8
N_KILLS = 3
MOST_KILLS = 12  # of a run: a slow machine may not get further between them
EMULATED = "hexagon:emulated"
DEVICE = f"{EMULATED}/all"


def tensors_of(path):
    """The tensors of a checkpoint, by name, without what each processor counts for itself: which sums it stored, and
    which products it made twice."""
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    tensors = {}
    for name, entry in json.loads(data[8:8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        tensors[name] = data[begin:end]
        if name.endswith("kept_shift"):
            tensors[name] = data[begin:begin + 16] + data[begin + 24:end]
    return tensors


def device_of(path):
    """The setting of a checkpoint."""
    data = path.read_bytes()
    return json.loads(data[8:8 + struct.unpack("<Q", data[:8])[0]])["__metadata__"]["device"]


def child_of(process):
    """The process that it has started; None: there is none now."""
    try:
        files = list(pathlib.Path(f"/proc/{process.pid}/task").glob("*/children"))
        return next((int(word) for file in files for word in file.read_text().split()), None)
    except OSError:
        return None


class Dsp(quern.Case):
    place = quern.IN_MEMORY

    def setUp(self):
        super().setUp()
        missing = quern.missing_dsp()
        if missing:
            self.skipTest(missing)
        self.assertIn(EMULATED, self.run_quern("devices").output)

    def train(self, model, device, file, n_steps, *more):
        return ("train", model, "--data", "synthetic", "--numerics", "niti", "--steps", n_steps, "--batch", 2, "--no-test",
                "--device", device, "--save", file, *more)

    def test_bits(self):
        """With products alone, and where tanh and average pools run on the CPU in between."""
        for model in ("lenet5", "lenet-relu"):
            self.run_quern(*self.train(model, "cpu", "cpu", N_STEPS))
            self.run_quern(*self.train(model, DEVICE, "dsp", N_STEPS))
            self.assertEqual(device_of(self.folder / "dsp"), DEVICE)
            self.assertEqual(tensors_of(self.folder / "cpu"), tensors_of(self.folder / "dsp"))

    def test_placement(self):
        """By what it counts; the same each time, and with the bits of the CPU, also where few works stay prepared."""
        plan = ("plan", "lenet-relu", "--data", "synthetic", "--numerics", "niti", "--batch", 16, "--json", "--device")
        found = self.run_quern(*plan, EMULATED).of("device")[0]
        ways = {way["on"]: way for way in found["ways"]}
        best = min(ways.values(), key=lambda way: way["ms"])
        self.assertTrue(best["chosen"])
        self.assertLess(ways["both"]["ms"], min(ways["cpu"]["ms"], ways["device"]["ms"]))
        self.assertGreater(ways["both"]["copies"], 0)
        self.assertLess(ways["both"]["copies"], ways["device"]["copies"])
        packets = {node["name"]: node["packets"] for node in found["operations"] if "packets" in node}
        self.assertGreater(len(packets), 20)
        self.assertGreater(sum(packets.values()), 10**6)
        again = self.run_quern(*plan, f"{EMULATED}:2").of("device")[0]
        self.assertGreater(sum(node.get("packets", 0) for node in again["operations"]), sum(packets.values()))
        self.assertEqual([node["cpu_ms"] for node in again["operations"]], [node["cpu_ms"] for node in found["operations"]])
        train = ("train", "lenet-relu", "--data", "synthetic", "--numerics", "niti", "--steps", 2, "--batch", 16, "--no-test")
        self.run_quern(*train, "--save", "cpu")
        self.run_quern(*train, "--device", EMULATED, "--save", "both")
        self.assertEqual(device_of(self.folder / "both"), found["device"])
        self.run_quern(*train, "--device", f"{EMULATED}:2/all", "--save", "few")
        for name in "both", "few":
            self.assertEqual(tensors_of(self.folder / "cpu"), tensors_of(self.folder / name))

    def test_energy(self):
        """By its model energy is another wish: never more of it than where time is wished for."""
        joules = {}
        for wish in "time", "energy":
            found = self.run_quern("plan", "lenet-relu", "--data", "synthetic", "--numerics", "niti", "--batch", 16, "--json",
                                   "--device", EMULATED, "--prefer", wish).of("device")[0]
            joules[wish] = next(way["joules"] for way in found["ways"] if way["chosen"])
        self.assertLessEqual(joules["energy"], joules["time"] * (1 + 1e-9))

    def test_kills(self):
        """The same, the DSP's process killed again and again."""
        draw = random.Random(1)
        self.run_quern(*self.train("lenet5", "cpu", "cpu", N_STEPS))
        n_kills = 0
        while n_kills < N_KILLS:
            process = self.start(*self.train("lenet5", DEVICE, "dsp", N_STEPS))
            last, n_before = None, n_kills
            while process.poll() is None:
                child = child_of(process)
                if child is None or child == last or n_kills == n_before + MOST_KILLS:
                    time.sleep(0.002)
                    continue
                time.sleep(draw.uniform(0, 0.01 * 2**(n_kills % 7)))
                last = child
                try:
                    os.kill(child, signal.SIGKILL)
                except ProcessLookupError:
                    continue
                n_kills += 1
            output, errors = process.communicate()
            self.assertEqual(process.returncode, 0, output + errors)
            self.assertNotIn("was lost", output + errors)
            self.assertEqual(tensors_of(self.folder / "cpu"), tensors_of(self.folder / "dsp"))

    def test_floats(self):
        """Nothing of a float network runs there, and nothing of its result changes."""
        for device in ("cpu", DEVICE):
            self.run_quern("train", "mlp", "--data", "synthetic", "--steps", 2, "--batch", 4, "--no-test", "--device", device,
                           "--save", device.partition(":")[0])
        self.assertEqual(tensors_of(self.folder / "cpu"), tensors_of(self.folder / "hexagon"))


class Missing(quern.Case):
    def test_words(self):
        """What is missing is said before anything is trained; a real DSP is no emulated one."""
        train = ("train", "lenet5", "--data", "synthetic", "--numerics", "niti", "--steps", 1, "--device")
        self.environment["PATH"] = str(self.folder)
        event = self.run_quern("devices", "--json").of("devices")[0]
        self.assertEqual(event["hexagon"], [])
        says = next(word for word in ("qemu-user", "QUERN_WITH_HEXAGON") if word in event["hexagon_missing"])
        self.fails(1, *train, DEVICE, says=[says])
        self.fails(1, *train, "hexagon", says=[EMULATED])
        self.fails(2, *train, "hexagon:real", says=[EMULATED])
        self.assertIn(says, self.run_quern("devices").output)


if __name__ == "__main__":
    unittest.main()
