"""Twenty configurations, each within a control group whose memory limit is the budget and 8 MB: what the
program's code and libraries take. The system ends what takes more. Three of them where nothing is said.

Skipped where no control group can be made."""
import re
import subprocess
import unittest

import memory_group
import quern

OVERHEAD = 8 << 20
CONFIGURATIONS = (
    ("lenet5", "--batch", 64), ("dqn", "--net", "mlp", "--data", "cartpole", "--replay", 300,
                                "--fill", 40),
    ("mobilenet-v2", "--batch", 4),
    ("lenet5", "--batch", 7, "--threads", 1), ("lenet5", "--batch", 256, "--accumulate", 2),
    ("mlp", "--batch", 128), ("mlp", "--batch", 32, "--optimizer", "adam"),
    ("squeezenet", "--batch", 8), ("mobilenet-v1", "--batch", 4), ("resnet18", "--batch", 2),
    ("densenet40", "--batch", 2), ("googlenet", "--batch", 1), ("char-cnn", "--batch", 8),
    ("char-lstm", "--batch", 4), ("seq2seq", "--batch", 2, "--hidden", 32),
    ("dcgan", "--batch", 8), ("bert-tiny", "--batch", 4), ("bert-tiny", "--batch", 16),
    ("lenet5", "--batch", 32, "--lora", "rank=2,layers=*"),
    ("lenet5", "--batch", 64, "--freeze", "conv*"))


@unittest.skipUnless(memory_group.can_be_made(), "no control group of memory can be made here")
@unittest.skipIf(quern.SLOW, "an instrumented program takes more")
class MemoryGroup(quern.Case):
    def test_within(self):
        for name, *options in CONFIGURATIONS if quern.ALL else CONFIGURATIONS[:3]:
            with self.subTest(f"{name} {options}"):
                self.check(name, options)

    def check(self, name, options):
        data = () if "--data" in options else ("--data", "synthetic")
        run = ("train", name, *data, *options, "--no-test", "--no-samples", "--steps", 2)
        refused = self.fails(1, *run, "--memory", "64K")
        least = re.search(r"--memory (\d+[KM])", refused.errors).group(1)
        group = memory_group.Group(memory_group.bytes_of(least) + OVERHEAD)
        try:
            process = subprocess.run([quern.QUERN, *map(str, run), "--memory", least, "--save",
                                      "w.st"], cwd=self.folder, env=self.environment, text=True,
                                     capture_output=True, preexec_fn=group.enter)
            self.assertEqual(process.returncode, 0, process.stderr)
            print(f"{name} {options}: {least}, limit reached {group.pressed()} times")
        finally:
            group.close()


if __name__ == "__main__":
    unittest.main()
