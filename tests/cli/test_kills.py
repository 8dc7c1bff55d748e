"""kill -9 at random moments, resume after each: the same bits as a run never stopped."""
import os
import random
import signal
import time
import unittest

import quern

N_KILLS = int(os.environ.get("QUERN_KILLS", "10"))


class Kills(quern.Case):
    def setUp(self):
        super().setUp()
        self.data = self.make_images()
        self.common = ["--batch", 16, "--augment", "crop,flip", "--optimizer", "adam",
                       "--accumulate", 2, "--threads", 2]

    def resume(self, file, n_steps):
        """The arguments of a run up to a step, from its checkpoint if there is one."""
        arguments = ["train", "lenet5", "--steps", n_steps, "--schedule-steps", 1000000, "--save",
                     file, "--checkpoint-every", 3, *self.common, "--data", self.data]
        return arguments + (["--resume", file] if (self.folder / file).exists() else [])

    def step(self, file):
        path = self.folder / file
        return int(quern.metadata_of(path)["step"]) if path.exists() else 0

    def test_kills(self):
        draw = random.Random(1)
        n_kills, file = 0, "killed.safetensors"
        while n_kills < N_KILLS:
            before = self.step(file)
            process = self.start(*self.resume(file, 10**9))
            time.sleep(draw.uniform(0, 0.5))
            process.send_signal(signal.SIGKILL)
            process.communicate()
            n_kills += process.returncode == -signal.SIGKILL
            self.assertGreaterEqual(self.step(file), before)
        left = {path.name for path in self.folder.glob(file + "*")}
        # A kill between naming and renaming is rare, and leaves one file at most.
        self.assertLessEqual(len(left), 2, left)
        n_steps = self.step(file) + 5
        self.run_quern(*self.resume(file, n_steps))
        self.run_quern(*self.resume("whole.safetensors", n_steps))
        self.assertEqual(self.step(file), n_steps)
        self.assertEqual(self.bytes_of(file), self.bytes_of("whole.safetensors"))
        print(f"{n_kills} kills, {n_steps} steps")


if __name__ == "__main__":
    unittest.main()
