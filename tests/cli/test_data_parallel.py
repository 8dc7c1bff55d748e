"""quern train under mpirun: bits equal to one process for 1, 2 and 4 ranks, batch norm included; figures; a rank that is
killed; two machines, which are network namespaces with a cable between them, and one of them dies; what is refused.
Skipped where there is no mpirun, or no namespaces can be made."""
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import time
import unittest

import quern

MPIRUN = shutil.which("mpirun")


@unittest.skipUnless(MPIRUN, "there is no mpirun (Debian: openmpi-bin)")
class DataParallel(quern.Case):
    def setUp(self):
        super().setUp()
        self.environment.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
        self.data = self.make_images(128)

    def start_ranks(self, n, *arguments):
        command = [MPIRUN, "--oversubscribe", "-n", str(n), quern.QUERN, *map(str, arguments)]
        return subprocess.Popen(command, cwd=self.folder, text=True, env=self.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE)

    def run_ranks(self, n, *arguments, status=0):
        process = self.start_ranks(n, *arguments)
        output, errors = process.communicate()
        self.assertEqual(process.returncode, status, f"{arguments}\n{output}{errors}")
        return quern.Run(process.returncode, output, errors)

    def train(self, model, *options):
        return ["train", model, "--data", self.data, *options]

    def test_equal_bits(self):
        common = ["--steps", 6, "--threads", 1, "--augment", "flip", "--validation", 0.2]
        one = self.run_quern(*self.train("lenet5", "--batch", 4, "--accumulate", 4, *common, "--save", "one", "--json"))
        two = self.run_ranks(2, *self.train("lenet5", "--batch", 4, "--accumulate", 4, *common, "--save", "two",
                                            "--json"))
        four = self.run_ranks(4, *self.train("lenet5", "--batch", 16, *common, "--save", "four", "--json"))
        self.assertEqual(self.bytes_of("one"), self.bytes_of("two"))
        self.assertEqual(self.bytes_of("one"), self.bytes_of("four"))
        for run, n in ((two, 2), (four, 4)):
            (done,), (alone,) = run.of("done"), one.of("done")
            self.assertEqual(done["ranks"], n)
            self.assertEqual(done["test_loss"], alone["test_loss"])
            # Of each of 61,706 gradients the part that others own, in every batch, and its total at the end.
            of_step = 61706 * 4 * (n - 1) / n * (4 / n + 1)
            self.assertAlmostEqual(done["sent_bytes"] / (6 * of_step), 1, delta=0.02)
            self.assertGreaterEqual(done["wait_ms"], 0)

    def test_batch_norm(self):
        self.data = "synthetic"
        common = ["--steps", 1, "--threads", 1, "--no-test"]
        self.run_quern(*self.train("mobilenet-v1", "--batch", 2, "--accumulate", 2, *common, "--save", "one"))
        self.run_ranks(2, *self.train("mobilenet-v1", "--batch", 4, *common, "--save", "two"))
        self.assertEqual(self.bytes_of("one"), self.bytes_of("two"))

    def test_diverging(self):
        """All ranks find the sums not finite in the same step, and end."""
        two = self.run_ranks(2, *self.train("mlp", "--batch", 4, "--accumulate", 2, "--steps", 400, "--threads", 1, "--lr",
                                            1e6, "--no-test", "--save", "two"), status=1)
        self.assertNotIn("ranks are gone", two.errors)
        self.assertIn("is not finite, summed over the batches", two.errors)
        self.assertIn("nothing was changed", two.errors)

    @unittest.skipUnless(quern.ALL, "mpirun takes a second to end ranks")
    def test_refused(self):
        cases = [(1, "classification only", ["train", "char-lstm", "--data", "synthetic"]),
                 (2, "multiple of 2", self.train("lenet5", "--batch", 15)),
                 (2, "--accumulate", self.train("lenet5", "--batch", 4, "--accumulate", 3))]
        for status, says, options in cases:
            self.assertIn(says, self.run_ranks(2, *options, "--steps", 1, status=status).errors)

    def check_resumed(self, common, *says):
        """What an ended run has saved goes on in one process, with the bits of a run that nobody ended."""
        resumed = self.run_quern("train", "--resume", "saved", "--save", "saved", "--steps", 1, "--no-test")
        step = int(resumed.errors.split(" of 1 steps")[0].split()[-1])
        steps = step + 3
        self.run_quern("train", "--resume", "saved", "--save", "saved", "--steps", steps, "--no-test")
        self.run_quern(*self.train("lenet5", *common, "--steps", steps, "--save", "whole"))
        self.assertEqual(self.bytes_of("saved"), self.bytes_of("whole"), says)

    def kill(self, rank, number, after):
        """A run whose rank is killed after its first checkpoint; it goes on in one process with the bits of a run that
        nobody killed."""
        common = ["--batch", 4, "--accumulate", 2, "--schedule", "constant", "--no-test"]
        (self.folder / "saved").unlink(missing_ok=True)
        process = self.start_ranks(2, *self.train("lenet5", *common, "--steps", 1000000, "--checkpoint-every", 3, "--save",
                                                  "saved"))
        while not (self.folder / "saved").exists():
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        time.sleep(after)
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        ranks = {}
        for child in children:
            variables = pathlib.Path(f"/proc/{child}/environ").read_bytes().split(b"\0")
            ranks[next(int(v.split(b"=")[1]) for v in variables if v.startswith(b"OMPI_COMM_WORLD_RANK="))] = int(child)
        os.kill(ranks[rank], number)
        _, errors = process.communicate()
        self.assertNotEqual(process.returncode, 0)
        self.check_resumed(common, rank, number, errors)

    def test_killed(self):
        self.kill(0, signal.SIGKILL, 0)

    @unittest.skipUnless(quern.ALL, "20 kills take a minute")
    def test_killed_at_random(self):
        draw = random.Random(23)
        for i in range(20):
            self.kill(i % 2, draw.choice([signal.SIGKILL, signal.SIGTERM]), draw.uniform(0, 0.4))


AGENT = """#!/bin/sh
# what mpirun calls instead of ssh: HOST COMMAND...
name=%s$1
shift
exec ip netns exec "$name" unshare --uts sh -c "hostname $name; $*"
"""


@unittest.skipUnless(shutil.which("ip"), "there is no ip (Debian: iproute2)")
class Machines(DataParallel):
    """Those tests that several machines change, and their own."""

    def setUp(self):
        super().setUp()
        self.prefix = f"quern{os.getpid()}-"
        self.names = [self.prefix + f"10.77.0.{i}" for i in (1, 2)]
        self.addCleanup(self.unplug)
        for name in self.names:
            for action in (["add", name], ["exec", name, "true"]):  # in a chroot the second fails
                if subprocess.run(["ip", "netns", *action], capture_output=True, check=False).returncode:
                    self.skipTest("no network namespace can be made")
        one, two = self.names
        try:
            self.ip("link", "add", "q1", "netns", one, "type", "veth", "peer", "name", "q2", "netns", two)
        except subprocess.CalledProcessError as error:
            self.skipTest(f"no link between network namespaces can be made: {error.stderr.strip()}")
        for i, name in enumerate(self.names, 1):
            self.ip("-n", name, "addr", "add", f"10.77.0.{i}/24", "dev", f"q{i}")
            self.ip("-n", name, "link", "set", "lo", "up")
            self.ip("-n", name, "link", "set", f"q{i}", "up")
        (self.folder / "agent").write_text(AGENT % self.prefix)
        (self.folder / "agent").chmod(0o755)

    def ip(self, *arguments):
        return subprocess.run(["ip", *arguments], capture_output=True, text=True, check=True).stdout

    def unplug(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def start_ranks(self, n, *arguments):
        """A rank on each machine; mpirun is on the first."""
        self.assertEqual(n, 2)
        command = [MPIRUN, "--mca", "plm_rsh_agent", self.folder / "agent", "--mca", "oob_tcp_if_include", "10.77.0.0/24",
                   "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "10.77.0.0/24",
                   "--host", "10.77.0.1:1,10.77.0.2:1", "-n", n, quern.QUERN, *arguments]
        inside = ["ip", "netns", "exec", self.names[0], "unshare", "--uts", "sh", "-c",
                  f'hostname {self.names[0]}; exec "$@"', "sh"]
        return subprocess.Popen([*inside, *map(str, command)], cwd=self.folder, text=True, env=self.environment,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_equal_bits(self):
        common = ["--steps", 6, "--threads", 1, "--no-test", "--batch", 4, "--accumulate", 4]
        self.run_quern(*self.train("lenet5", *common, "--save", "one"))
        two = self.run_ranks(2, *self.train("lenet5", *common, "--save", "two", "--json"))
        self.assertEqual(self.bytes_of("one"), self.bytes_of("two"))
        (link,) = json.loads(self.ip("-n", self.names[0], "-j", "-s", "link", "show", "q1"))
        self.assertAlmostEqual(link["stats64"]["tx"]["bytes"] / two.of("done")[0]["sent_bytes"], 1, delta=0.15)

    def test_killed(self):
        """The second machine dies."""
        common = ["--batch", 4, "--accumulate", 2, "--schedule", "constant", "--no-test"]
        process = self.start_ranks(2, *self.train("lenet5", *common, "--steps", 1000000, "--checkpoint-every", 3, "--save",
                                                  "saved"))
        while not (self.folder / "saved").exists():
            self.assertIsNone(process.poll())
            time.sleep(0.01)
        for number in self.ip("netns", "pids", self.names[1]).split():
            os.kill(int(number), signal.SIGKILL)
        _, errors = process.communicate()
        self.assertNotEqual(process.returncode, 0)
        self.check_resumed(common, errors)

    test_batch_norm = test_refused = test_killed_at_random = None


if __name__ == "__main__":
    unittest.main()
