"""quern devices: each shipped tree shows what it has and names what it lacks; this device, too."""
import json
import os
import pathlib
import shutil
import unittest

import quern

SOURCE = pathlib.Path(os.environ.get("QUERN_SOURCE", pathlib.Path(__file__).parents[2]))
TREES = SOURCE / "tests" / "devices"


class Devices(quern.Case):
    def look(self, tree):
        """What a tree shows: the JSON object, sensors by (source, channel, quantity), missing by source."""
        run = self.run_quern("devices", "--sysroot", TREES / tree, "--json")
        event = run.of("devices")[0]
        sensors = {(s["source"], s["channel"], s["quantity"]): s for s in event["sensors"]}
        missing = {m["source"]: m["why"] for m in event["missing"]}
        return event, sensors, missing

    def check_text(self, tree, *texts):
        output = self.run_quern("devices", "--sysroot", TREES / tree).output
        for text in texts:
            self.assertIn(text, output)
        for line in output.splitlines():
            self.assertLessEqual(len(line), 80, line)

    def kinds(self, event):
        return [(k["name"], k["model"], k["threads"]) for k in event["kinds"]]

    def test_jetson_tx2(self):
        event, sensors, missing = self.look("jetson-tx2")
        self.assertEqual(self.kinds(event), [("performance", "Denver 2", 2),
                                             ("efficiency", "Cortex-A57", 4)])
        self.assertEqual(event["clusters"], 2)
        parts = {name: s["part"] for (source, name, _), s in sensors.items() if source == "ina3221"}
        self.assertEqual(parts, {"VDD_IN": "system", "VDD_SYS_GPU": "gpu", "VDD_SYS_CPU": "cpu",
                                 "VDD_SYS_SOC": "soc", "VDD_SYS_DDR": "memory",
                                 "VDD_4V0_WIFI": "other"})
        self.assertAlmostEqual(sensors["ina3221", "VDD_IN", "power"]["value"], 11.910)
        self.assertAlmostEqual(sensors["gpu-load", "gpu", "utilisation"]["value"], 0.823)
        for source in ("rapl", "battery", "nvml", "hwmon"):
            self.assertIn("not there", missing[source])
        self.assertFalse([s for s in event["sensors"] if s["estimated"]])
        self.check_text("jetson-tx2", "2 cores (Denver 2), up to 2.04 GHz", "cpu0,3-5", "VDD_SYS_DDR",
                        "L2 2 MiB for 4", "not there: energy counters of Intel and AMD processors")

    def test_phone(self):
        event, sensors, missing = self.look("snapdragon-phone")
        self.assertEqual([name for name, _, _ in self.kinds(event)],
                         ["prime", "performance", "efficiency"])
        self.assertEqual(event["caches"], [])
        self.assertAlmostEqual(sensors["battery", "battery", "power"]["value"],
                               3.912345 * 0.412109, 6)
        self.assertIn(("gpu-load", "gpu", "utilisation"), sensors)
        self.assertIn("rapl", missing)
        self.assertIn("ina3221", missing)
        self.check_text("snapdragon-phone", "SM8150", "caches: the kernel does not tell",
                        "3 cores (Kryo 4xx Gold), up to 2.42 GHz, cluster 1: cpu4-6")

    def test_raspberry_pi(self):
        event, sensors, missing = self.look("raspberry-pi-5")
        self.assertEqual(self.kinds(event), [("cpu", "Cortex-A76", 4)])
        self.assertEqual([c["bytes"] for c in event["caches"]],
                         [64 << 10, 64 << 10, 512 << 10, 2 << 20])
        for source in ("rapl", "ina3221", "hwmon", "battery", "nvml"):
            self.assertIn("not there", missing[source])
        power = [s for s in event["sensors"] if s["quantity"] == "power"]
        self.assertTrue(power and all(s["estimated"] and s["source"] == "model" for s in power))
        self.check_text("raspberry-pi-5", "Raspberry Pi 5 Model B Rev 1.0", "estimated",
                        "no sensor measures the power")

    def test_laptop(self):
        event, sensors, missing = self.look("intel-laptop")
        self.assertEqual(event["isa"], "avx2")
        self.assertEqual([(k["name"], k["cores"], k["threads"]) for k in event["kinds"]],
                         [("performance", 2, 4), ("efficiency", 4, 4)])
        rapl = {name for source, name, _ in sensors if source == "rapl"}
        self.assertEqual(rapl, {"package-0", "core-0", "uncore-0", "psys"}) # not twice by MMIO
        self.assertAlmostEqual(sensors["battery", "BAT0", "power"]["value"], 7.412)
        self.assertEqual([s for s in sensors if s[0] == "hwmon"], []) # it is the battery's
        self.assertIn("ina3221", missing)
        self.check_text("intel-laptop", "i3-1215U", "2 cores with 4 threads, up to 4.40 GHz",
                        "L2 2 MiB for 4", "L3 10 MiB for 8")

    def test_faults(self):
        """What cannot be read is said, with the reason."""
        tree = self.folder / "laptop"
        shutil.copytree(TREES / "intel-laptop", tree)
        powercap = tree / "sys/class/powercap"
        for zone in powercap.iterdir():
            (zone / "energy_uj").unlink()
            (zone / "energy_uj").mkdir() # nobody can read a folder, not even root
        (tree / "sys/class/power_supply/BAT0/status").write_text("Charging\n")
        event, sensors, missing = self.look(tree)
        self.assertIn("energy_uj: cannot be read: Is a directory", missing["rapl"])
        self.assertIn("BAT0: Charging", missing["battery"])
        self.assertIn("unplug", missing["battery"])
        self.assertNotIn("rapl", {source for source, _, _ in sensors})
        self.check_text(tree, "unplug it")

    def test_wrong_usage(self):
        self.fails(2, "devices", "--sysroot", "nowhere", says=["--sysroot nowhere", "no such folder"])
        self.fails(2, "devices", "--sysroot", self.folder, says=["sys/devices/system/cpu/present"])
        self.fails(2, "devices", "--sysroot", TREES / "jetson-tx2", "--calibrate",
                   says=["--calibrate measures this device"])

    def test_here(self):
        run = self.run_quern("devices", "--json")
        event = run.of("devices")[0]
        self.assertIn(event["isa"], ("ref", "neon", "avx2", "avx512"))
        self.assertEqual(sum(k["threads"] for k in event["kinds"]),
                         sum(c["kind"] is not None for c in event["cores"]))
        output = self.run_quern("devices").output
        self.assertIn("\nsensors\n", output)
        self.assertIn("--calibrate", output)
        for line in output.splitlines():
            self.assertLessEqual(len(line), 80, line)

    def test_opencl(self):
        """Devices with their memory, or why there are none, in one place of both forms."""
        event = self.run_quern("devices", "--json").of("devices")[0]
        if event["opencl"]:
            self.assertIsNone(event["opencl_missing"])
            self.assertIn("opencl:0", self.run_quern("devices").output)
        else:
            print("no OpenCL driver here:", event["opencl_missing"])
        for device in event["opencl"]:
            self.assertGreaterEqual(device["memory_bytes"], device["largest_buffer_bytes"])
            self.assertTrue(device["name"] and device["driver"])
        self.environment["OCL_ICD_VENDORS"] = str(self.folder)  # the loader finds no driver there
        event = self.run_quern("devices", "--json").of("devices")[0]
        self.assertEqual(event["opencl"], [])
        self.assertIn("OpenCL", event["opencl_missing"])

    TRAIN = ("train", "lenet5", "--data", "synthetic", "--batch", "8", "--no-test")
    # watts with which the device is always the cheapest, however slow it is
    CHEAP = ("--prefer", "energy", "--cpu-watts", "1e5", "--device-watts", "0.001")

    def test_plan_of_auto(self):
        """Where operations would run, and why; the plan itself is that of what auto came to."""
        plan = ("plan", "lenet5", "--data", "synthetic", "--batch", "8", "--device", "auto")
        event = self.run_quern(*plan, *self.CHEAP, "--json").of("device")[0]
        if event["name"] is None:
            print("no device here")
            self.assertEqual(event["device"], "cpu")
            self.assertIn("no device besides the CPU", self.run_quern(*plan).output)
            return
        ways = {way["on"]: way for way in event["ways"]}
        chosen = [way["on"] for way in event["ways"] if way["chosen"]]
        self.assertEqual(list(ways), ["cpu", "device", "both", "pieces"])
        self.assertEqual(len(chosen), 1)
        self.assertNotEqual(chosen, ["cpu"])
        self.assertTrue(ways["cpu"]["measured"] and ways["device"]["measured"])
        self.assertLess(ways[chosen[0]]["joules"], ways["cpu"]["joules"])
        self.assertEqual(ways["cpu"]["copies"], 0)
        self.assertEqual(ways["device"]["copied_bytes"], 0)  # PoCL's memory is the host's
        places = {o["name"]: o for o in event["operations"]}
        self.assertEqual(len(places), len(event["operations"]))
        self.assertIn("device", {o["on"] for o in event["operations"]})
        for o in event["operations"]:
            self.assertTrue(o["because"])
            self.assertTrue(o["device_ms"] is not None or o["on"] == "cpu", o)
            self.assertEqual(o["type"] == "sgd" and o["on"] == "cpu", "updates" in o["because"], o)
        output = self.run_quern(*plan, *self.CHEAP).output
        self.assertIn("less energy there", output)
        self.assertIn("1      opencl", output)
        self.environment["OCL_ICD_VENDORS"] = str(self.folder)
        self.assertIn("no device besides the CPU", self.run_quern(*plan).output)

    def test_placement_is_kept(self):
        """A run for the least energy keeps its placement, and a resumed one repeats it."""
        run = self.run_quern(*self.TRAIN, "--steps", "2", "--device", "auto", *self.CHEAP,
                             "--save", "a.safetensors")
        kept = (self.folder / "a.safetensors").read_bytes()
        if b'"device":"cpu"' in kept:
            print("no device here:", run.errors)
            return
        self.assertIn(b'"device":"opencl', kept)
        device = kept[kept.index(b'"device":"'):].split(b",")[0]
        self.run_quern("train", "--resume", "a.safetensors", "--steps", "3", "--no-test", "--save",
                       "b.safetensors")
        self.assertIn(device, (self.folder / "b.safetensors").read_bytes())

    def test_profile(self):
        """A track for each processor and its copies, times that add up, joules by given watts."""
        self.run_quern("profile", "lenet5", "--data", "synthetic", "--batch", "8", "--steps", "4",
                       "--repeat", "1", "--device", "auto", "--accumulate", "2", *self.CHEAP,
                       "--trace", "t.json",
                       "--metrics", "m.json", "--html", "r.html")
        trace = json.loads((self.folder / "t.json").read_text())["traceEvents"]
        metrics = json.loads((self.folder / "m.json").read_text())
        uses = {use["device"]: use for use in metrics["processors"]}
        if len(uses) == 1:
            print("no device here")
            return
        device, cpu = uses["opencl"], uses["cpu"]
        total = sum(node["total_ms"] for node in metrics["nodes"]) / metrics["steps"]
        self.assertAlmostEqual(total / (device["operations_ms"] + device["copies_ms"]
                                        + cpu["operations_ms"]), 1, 6)
        self.assertAlmostEqual(cpu["energy_mj"] / cpu["operations_ms"] / 1e5, 1, 6)
        self.assertEqual(device["operations"] + cpu["operations"],
                         sum(n["calls"] > 0 and n["type"] != "copy" for n in metrics["nodes"]))
        names = {e["tid"]: e["args"]["name"] for e in trace if e.get("name") == "thread_name"}
        tracks = {}
        for event in trace:
            if event["ph"] == "X":
                tracks.setdefault(names[event["tid"]], set()).add(event["cat"])
        self.assertEqual(device["copied_bytes"], 0)  # PoCL's memory is the host's
        self.assertNotIn("copies of opencl", tracks)
        lane = next(cats for name, cats in tracks.items() if name.startswith("lane of opencl"))
        self.assertIn("conv2d", lane)
        self.assertNotIn("copy", lane)
        page = (self.folder / "r.html").read_text()
        for text in ("a track for each processor", "by its watts"):
            self.assertIn(text, page)

    def test_foreground(self):
        """Giving way changes no bit."""
        train = ("train", "mlp", "--data", "synthetic", "--steps", "2", "--batch", "4", "--no-test")
        self.run_quern(*train, "--save", "a.safetensors")
        self.run_quern(*train, "--foreground", "60", "--save", "b.safetensors")
        a, b = ((self.folder / (name + ".safetensors")).read_bytes() for name in "ab")
        self.assertEqual(a, b)
        self.fails(2, *train, "--foreground", "0", says=["--foreground"])

    def test_wrong_wishes(self):
        self.fails(2, *self.TRAIN, "--steps", "1", "--prefer", "energy", says=["--device auto"])
        self.fails(2, *self.TRAIN, "--steps", "1", "--prefer", "energy", "--device", "auto",
                   says=["--cpu-watts and --device-watts"])

    def test_training_without_driver(self):
        """--device names what is missing; auto trains on the CPU, with its bits, and keeps that."""
        self.environment["OCL_ICD_VENDORS"] = str(self.folder)
        train = ("train", "mlp", "--data", "synthetic", "--steps", "2", "--batch", "4", "--no-test")
        self.fails(1, *train, "--device", "opencl", says=["OpenCL"])
        self.fails(2, *train, "--device", "gpu", says=["it is one of cpu|cuda[:N]|opencl[:N]|hexagon:emulated[:N]|auto"])
        self.fails(1, *train, "--device", "opencl", "--memory", "8M", "--swap", str(self.folder),
                   says=["swap file"])
        for device in ("cpu", "auto"):
            self.run_quern(*train, "--device", device, "--save", device + ".safetensors")
        auto, cpu = ((self.folder / (name + ".safetensors")).read_bytes() for name in ("auto", "cpu"))
        self.assertIn(b'"device":"cpu"', auto)
        self.assertEqual(auto, cpu)

    def test_calibrated(self):
        """The roofline that was measured is kept, and shown from then on."""
        event = self.run_quern("devices", "--calibrate", "--json").of("devices")[0]
        self.assertIn("f32", {p["dtype"] for p in event["peaks"]})
        for peak in event["peaks"]:
            self.assertGreater(peak["flops"], 1e7)
        self.assertEqual(event["levels"][-1]["name"], "DRAM")
        for level in event["levels"]:
            self.assertGreater(level["bandwidth"], 1e7)
            if len(os.sched_getaffinity(0)) > 1:
                self.assertLessEqual(level["beside_bandwidth"], level["bandwidth"])
                self.assertGreater(level["beside_bandwidth"], 1)
        again = self.run_quern("devices", "--json").of("devices")[0]
        self.assertEqual(again["peaks"], event["peaks"])
        self.assertEqual(again["opencl"], event["opencl"])
        for device in event["opencl"]:
            for speed in ("flops", "bandwidth", "copy_in_bandwidth", "copy_out_bandwidth"):
                self.assertGreater(device[speed], 1e6)
            self.assertGreater(device["launch_us"], 0)
            self.assertIn("us for a kernel", self.run_quern("devices").output)
        self.assertIn("FLOP/s of one core", self.run_quern("devices").output)


if __name__ == "__main__":
    unittest.main()
