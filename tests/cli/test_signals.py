"""Every command that waits ends at the first Ctrl-C, TERM or HUP: for input that does not come, for the other end of a
pipe, for a program that does not answer, for pictures, for its own work. What it had is saved."""
import os
import pty
import re
import select
import signal
import subprocess
import time
import unittest

import quern
import test_torture

SECONDS = 30  # most take a tenth of one
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# It says what it is, and then nothing.
SILENT = """import time
print("quern-environment 1 observation f32 4 actions 2", flush=True)
time.sleep(1000)
"""


class Signals(quern.Case):
    def setUp(self):
        super().setUp()
        test_torture.Torture.make_rows(self)
        (self.folder / "silent.py").write_text(SILENT)
        os.mkfifo(self.folder / "pipe.csv")
        self.run_quern("label", "init", "--known", "csv:k.csv", "--out", "l")
        self.run_quern("train", "lenet5", "--data", "synthetic", "--input", "28x28x1", "--steps", 1, "--no-test", "--save", "m")
        test_torture.picture(self.folder / "inbox/0/0.png", 0, 1)
        test_torture.picture(self.folder / "inbox/1/1.png", 1, 2)

    def check(self, *arguments):
        for number in SIGNALS:
            with self.subTest(command=arguments, signal=number.name):
                process = self.start(*arguments, stdin=subprocess.PIPE)
                time.sleep(0.4)  # one that comes before it waits ends it, too
                self.assertIsNone(process.poll(), "it does not wait")
                process.send_signal(number)
                try:
                    process.wait(SECONDS)
                except subprocess.TimeoutExpired:
                    self.fail("the first signal does not end it")
                finally:
                    process.kill()
                    process.communicate()

    def test_label(self):
        self.check("label", "stream", "l", "--data", "-", "--out", "a.csv")
        self.check("label", "stream", "l", "--data", "csv:pipe.csv", "--out", "b.csv")
        self.check("label", "stream", "l", "--data", "csv:n.csv", "--follow")

    def test_train(self):
        self.check("train", "dqn", "--data", "process:/usr/bin/python3 silent.py", "--net", "mlp")
        self.check("train", "lenet5", "--data", "synthetic", "--epochs", 1000, "--save", "w")
        self.check("federate", "simulate", "--data", "synthetic", "--rounds", 100000)

    def test_long_step(self):
        """A step of many seconds ends between two of its operations."""
        self.check("profile", "resnet18", "--data", "synthetic", "--batch", 256, "--steps", 8)

    def test_services(self):
        self.check("learn", "start", "s", "--model", "m", "--data", "images:inbox", "--when", "cool:95", "--threads", 1)
        self.check("meter", "--", "sleep", "1000")

    # Of a command that works for hours: what it says when it has begun.
    LONG = (
        ("of one class", "federate", "simulate", "--model", "lenet5", "--data", "synthetic", "--clients", 3, "--per-round", 3,
         "--rounds", 2, "--local-epochs", 1000, "--batch", 1, "--save", "f"),
        ("listening", "split", "serve", "--listen", "127.0.0.1:0", "--save", "peer"),
    )

    def begin(self, says, *arguments):
        """The command on a terminal, where lines come at once, when it has said so."""
        terminal, end = pty.openpty()
        self.addCleanup(os.close, terminal)
        process = subprocess.Popen([quern.QUERN, *map(str, arguments)], cwd=self.folder, env=self.environment,
                                   stdin=subprocess.DEVNULL, stdout=end, stderr=end)
        os.close(end)
        self.addCleanup(process.kill)
        said = ""
        while not re.search(says, said):
            self.assertTrue(select.select([terminal], [], [], SECONDS)[0], (arguments, said))
            said += os.read(terminal, 4096).decode("utf-8", "replace")
        return process, terminal

    def end(self, process, terminal):
        """All that it says from now on."""
        said = ""
        try:
            while select.select([terminal], [], [], SECONDS)[0]:
                said += os.read(terminal, 4096).decode("utf-8", "replace")
            self.fail("the first signal does not end it")
        except OSError:  # the other end is closed
            process.wait(SECONDS)
        return said

    def test_long(self):
        for says, *arguments in self.LONG:
            for number in SIGNALS:
                with self.subTest(command=arguments, signal=number.name):
                    process, terminal = self.begin(says, *arguments)
                    process.send_signal(number)
                    said = self.end(process, terminal)
                    self.assertNotIn(process.returncode, (-signal.SIGSEGV, -signal.SIGABRT, -signal.SIGBUS), said)
                    self.assertNotIn("round 1", said)  # it ends within a round


if __name__ == "__main__":
    unittest.main()
