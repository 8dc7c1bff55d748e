"""Files that commands write: tried before the work; links are followed, streams only where one is meant;
standard streams that are closed become nobody's file."""
import fcntl
import os
import pathlib
import shutil
import signal
import stat
import subprocess
import sys
import time
import unittest

import quern

# Commands and their options that name a file to be written, and words before.
FILES = [("train lenet5 --data synthetic --steps 1", ["save", "save-best"]),
         ("train dcgan --data synthetic --steps 1", ["picture"]),
         ("plan lenet5", ["save"]),
         ("convert x.safetensors", ["out"]), ("export lenet5", ["out"]), ("merge lenet5", ["out"]),
         ("sample dcgan", ["picture"])]
STREAMS = [("profile lenet5 --steps 1", ["html", "trace", "csv", "metrics"]),
           ("plan lenet5", ["html"]), ("evaluate lenet5", ["html", "confusion"])]


EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "environment.py"


class Targets(quern.Case):
    def impossible(self):
        """Paths that cannot be written, and what is said of each."""
        os.mkfifo(self.folder / "fifo")
        (self.folder / "sink").symlink_to("/dev/null")
        (self.folder / "loop").symlink_to("loop")
        yield "fifo", "no regular file"
        yield "sink", "no regular file"
        yield "loop", "loop"
        yield "nowhere/file", "there is no folder nowhere"
        yield "n" * 256, "too long"
        yield "/proc/version/file", "there is no folder"
        yield "/proc/file", "/proc/file"

    def test_tried_at_the_start(self):
        for path, says in self.impossible():
            for words, options in FILES + STREAMS:
                for option in options:
                    run = self.fails(1, *words.split(), f"--{option}", path, says=[f"--{option}", says])
                    self.assertEqual(run.output, "", words)
        self.assertEqual({p.name for p in self.folder.iterdir()}, {"fifo", "sink", "loop"})

    def test_streams(self):
        """/dev/stdout stays what it is, and only reports go there."""
        before = os.readlink("/dev/stdout") if os.path.islink("/dev/stdout") else None
        for words, options in FILES:
            for option in options:
                for path in ("-", "/dev/stdout", "/dev/fd/1"):
                    self.fails(1, *words.split(), f"--{option}", path, says=["stream"])
        for path in ("-", "/dev/stdout"):
            with open(self.folder / "all", "w") as file:
                self.run_quern("profile", "mlp", "--steps", 1, "--skip", 0, "--csv", path, stdout=file)
            text = (self.folder / "all").read_text()
            self.assertIn("\ntype,name,device,calls,", text)
            self.assertIn("throughput", text)
        if before:
            self.assertEqual(os.readlink("/dev/stdout"), before)

    def test_links(self):
        """What a link points to is replaced, with its rights; the link stays."""
        (self.folder / "there").mkdir()
        target = self.folder / "there" / "weights"
        target.write_text("old")
        target.chmod(0o600)
        (self.folder / "link").symlink_to("there/weights")
        self.run_quern("train", "mlp", "--data", "synthetic", "--steps", 1, "--save", "link", "--force")
        self.assertTrue((self.folder / "link").is_symlink())
        self.assertEqual(quern.metadata_of(target)["step"], "1")
        self.assertEqual(stat.S_IMODE(target.stat().st_mode), 0o600)
        self.assertEqual([p.name for p in target.parent.iterdir()], ["weights"])

    def test_what_a_kill_left_goes(self):
        (self.folder / "w.quern-tmp").write_text("half a file")
        self.fails(1, "train", "mlp", "--data", "idx:nothing", "--steps", 1, "--save", "w")
        self.assertFalse((self.folder / "w.quern-tmp").exists())
        self.assertFalse((self.folder / "w").exists())

    def hold(self, name):
        """A file that another program has locked."""
        file = open(self.folder / name, "wb")
        self.addCleanup(file.close)
        fcntl.flock(file, fcntl.LOCK_EX)

    def test_names_in_the_way(self):
        """A folder of the temporary name is told before the work; past what others hold, another name is taken,
        and when all are held the end comes in a second, with a message."""
        command = ["train", "mlp", "--data", "synthetic", "--steps", 1, "--save", "w"]
        (self.folder / "w.quern-tmp").mkdir()
        self.fails(1, *command, says=["w.quern-tmp", "folder", "remove or rename"])
        (self.folder / "w.quern-tmp").rmdir()
        self.hold("w.quern-tmp")
        self.run_quern(*command)
        self.assertEqual(quern.metadata_of(self.folder / "w")["step"], "1")
        self.assertEqual({p.name for p in self.folder.iterdir()} - {"cache"}, {"w", "w.quern-tmp"})
        for i in range(2, 9):
            self.hold(f"w.quern-tmp{i}")
        begin = time.monotonic()
        self.fails(1, *command, says=["in use", "choose another name"])
        self.assertLess(time.monotonic() - begin, 60)

    def test_names_that_come_in_the_way(self):
        """A folder that is made while a run goes on does not keep it from saving."""
        self.run_quern("train", "mlp", "--data", "synthetic", "--steps", 1, "--schedule-steps", 10**6,
                       "--save", "w")
        process = self.start("train", "--steps", 10**9, "--json", "--resume", "w", "--save", "w")
        process.stdout.readline()
        (self.folder / "w.quern-tmp").mkdir()
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(60), 130)
        self.assertGreater(int(quern.metadata_of(self.folder / "w")["step"]), 1)
        for stream in (process.stdout, process.stderr):
            stream.close()

    @unittest.skipUnless(os.geteuid() == 0, "needs two users: run as root")
    def test_sticky_folders(self):
        """Where only owners may replace a file, that is told before the work."""
        self.folder.chmod(0o1777)
        (self.folder / "w").write_bytes(b"")
        (self.folder / "w").chmod(0o666)
        (self.folder / "v.quern-tmp").write_bytes(b"root's")
        (self.folder / "cache").mkdir(mode=0o777)
        (self.folder / "cache").chmod(0o777)
        command = ["train", "mlp", "--data", "synthetic", "--steps", 1, "--save"]
        run = self.run_as_nobody(*command, "w")
        self.assertEqual(run.returncode, 1)
        self.assertIn("another user", run.stderr)
        run = self.run_as_nobody(*command, "v")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertEqual((self.folder / "v.quern-tmp").read_bytes(), b"root's")

    def run_as_nobody(self, *words):
        command = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        shutil.copy(quern.QUERN, self.folder / "program")
        (self.folder / "program").chmod(0o755)
        return subprocess.run([*command, self.folder / "program", *map(str, words)], cwd=self.folder,
                              env=dict(self.environment, LD_LIBRARY_PATH=os.path.dirname(quern.QUERN)), check=False,
                              capture_output=True, text=True, timeout=60)

    def test_closed_streams(self):
        """The pipes of an environment never get the numbers of standard streams, and so never become
        those of another (evaluation starts a second one)."""
        command = [quern.QUERN, "train", "dqn", "--net", "mlp", "--data",
                   f"process:{sys.executable} {EXAMPLE}", "--steps", "3", "--fill", "40", "--replay",
                   "100", "--batch", "4", "--episodes", "1", "--save", "w"]
        for closed in ("<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"):
            done = subprocess.run(["sh", "-c", f'exec "$@" {closed}', "sh", *command],
                                  cwd=self.folder, env=self.environment, stdout=subprocess.DEVNULL,
                                  stderr=subprocess.DEVNULL)
            self.assertEqual(done.returncode, 0, closed)
            self.assertEqual(quern.metadata_of(self.folder / "w")["step"], "3")
            (self.folder / "w").unlink()


if __name__ == "__main__":
    unittest.main()
