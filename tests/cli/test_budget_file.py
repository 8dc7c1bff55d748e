"""A memory budget that changes while training runs, by a file and by the system's pressure: it takes effect
in the middle of a step, resident memory falls with it, and the weights are those of a run without any."""
import os
import pathlib
import re
import signal
import unittest

import quern

TRAIN = ("train", "squeezenet", "--data", "synthetic", "--batch", 16, "--seed", 3, "--no-test",
         "--schedule", "constant", "--threads", 2, "--json")
LONG = ("--steps", 100000)  # it is stopped before


def tensors(path):
    """A checkpoint without its header, which says how long to train."""
    raw = path.read_bytes()
    return raw[8 + int.from_bytes(raw[:8], "little"):]


class Budget(quern.Case):
    def peak(self):
        return self.run_quern(*TRAIN, "--steps", 2).events[-1]["peak_bytes"]

    def resident(self, process):
        text = pathlib.Path(f"/proc/{process.pid}/statm").read_text()
        return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def follow(self, process, turns):
        """Calls turns[n] with the n-th change of the budget, and stops the run with the last one. The
        changes, what was resident then, and the messages."""
        changes, resident = [], []
        for line in process.stdout:
            event = quern.json.loads(line)
            if event["event"] != "budget" or len(changes) > len(turns):
                continue
            changes.append(event)
            resident.append(self.resident(process))
            if len(changes) <= len(turns):
                turns[len(changes) - 1]()
            else:
                process.send_signal(signal.SIGINT)
        errors = process.stderr.read()
        self.assertEqual(process.wait(), 130, errors)
        process.stdout.close()
        process.stderr.close()
        return changes, resident, errors

    def test_file(self):
        small, file = self.peak() * 3 // 4, self.folder / "budget"
        file.write_text(f"{small}\n")

        def write(text):
            return lambda: file.write_text(text)

        process = self.start(*TRAIN, *LONG, "--budget-file", file, "--save", "changed.safetensors")
        changes, resident, errors = self.follow(process, [write("none\n"), write(f"{small}\n")])
        self.assertEqual([c["to_bytes"] for c in changes], [small, 0, small])
        self.assertLess(resident[2], small + (24 << 20))
        steps = re.search(r"stopped after step (\d+)", errors).group(1)
        self.run_quern(*TRAIN, "--steps", steps, "--save", "usual.safetensors")
        self.assertEqual(tensors(self.folder / "changed.safetensors"),
                         tensors(self.folder / "usual.safetensors"))

    def test_refused(self):
        for text, says in (("1M", "a budget of 1 MiB is too small: about"),
                           ("rubbish", "rubbish is not a size such as 300M or 1.5G")):
            (self.folder / "budget").write_text(text)
            run = self.run_quern(*TRAIN, "--steps", 30, "--budget-file", "budget")
            self.assertIn(says, run.errors)
            self.assertEqual(run.of("budget"), [])

    def test_pressure(self):
        low, file = self.peak() * 3 // 4, self.folder / "pressure"

        def write(share):
            with open(file, "w" if not file.exists() else "r+") as f:
                f.write(f"some avg10={share:05.2f} avg60=0.00 avg300=0.00 total=0\n")

        write(50)
        process = self.start(*TRAIN, *LONG, "--memory-pressure", low, "--pressure-file", file,
                             "--pressure-calm", 1)
        changes, _, errors = self.follow(process, [lambda: write(0)])
        self.assertEqual([c["to_bytes"] for c in changes], [low, 0], errors)

    def test_usage(self):
        self.fails(2, *TRAIN, "--pressure-file", "x", says=("--memory-pressure SIZE",))
        self.fails(1, *TRAIN, "--memory-pressure", "100M", "--pressure-file", "nowhere",
                   says=("nowhere", "how short of memory"))


if __name__ == "__main__":
    unittest.main()
