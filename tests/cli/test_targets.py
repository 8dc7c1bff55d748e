"""Files that commands write: tried before the work; links are followed, streams only where one is meant;
standard streams that are closed become nobody's file."""
import os
import pathlib
import stat
import subprocess
import sys
import unittest

import quern

# Commands and their options that name a file to be written, and words before.
FILES = [("train lenet5 --data synthetic --steps 1", ["save", "save-best"]),
         ("train dcgan --data synthetic --steps 1", ["picture"]),
         ("plan lenet5", ["save"]),
         ("convert lenet5 x.safetensors", ["out"]), ("export lenet5", ["out"]), ("merge lenet5", ["out"]),
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
        self.run_quern("train", "mlp", "--data", "synthetic", "--steps", 1, "--save", "link")
        self.assertTrue((self.folder / "link").is_symlink())
        self.assertEqual(quern.metadata_of(target)["step"], "1")
        self.assertEqual(stat.S_IMODE(target.stat().st_mode), 0o600)
        self.assertEqual([p.name for p in target.parent.iterdir()], ["weights"])

    def test_what_a_kill_left_goes(self):
        (self.folder / "w.quern-tmp").write_text("half a file")
        self.fails(1, "train", "mlp", "--data", "idx:nothing", "--steps", 1, "--save", "w")
        self.assertFalse((self.folder / "w.quern-tmp").exists())
        self.assertFalse((self.folder / "w").exists())

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
