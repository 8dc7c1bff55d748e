"""script/bootstrap waits while another program holds the package lock, and fails at once for another reason. apt-get,
dpkg-query and sudo are scripts of the test."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ.get("QUERN_SOURCE", pathlib.Path(__file__).parents[2]))
APT = """#!/bin/sh
echo "$*" >>"$0.log"
case "$1" in
  update) [ "$(grep -c ^update "$0.log")" -gt "$FAILURES" ] || { echo "E: $REASON" >&2; exit 100; } ;;
esac
"""
LOCKED = "Could not get lock /var/lib/apt/lists/lock. It is held by process 1738 (apt-get)"


class Bootstrap(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-bootstrap-"))
        self.addCleanup(shutil.rmtree, self.folder)
        for name, text in (("apt-get", APT), ("dpkg-query", "#!/bin/sh\nexit 1\n"), ("dpkg", "#!/bin/sh\n"),
                           ("sudo", "#!/bin/sh\nexec \"$@\"\n")):
            (self.folder / name).write_text(text)
            (self.folder / name).chmod(0o755)

    def run_script(self, failures, reason):
        environment = dict(os.environ, PATH=f"{self.folder}:{os.environ['PATH']}", FAILURES=str(failures),
                           REASON=reason, QUERN_LOCK_SECONDS="0")
        done = subprocess.run([SOURCE / "script/bootstrap", "--build"], env=environment, capture_output=True, text=True,
                              check=False)
        return done, (self.folder / "apt-get.log").read_text().splitlines()

    def test_waits_for_the_lock(self):
        done, calls = self.run_script(3, LOCKED)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([call.split()[0] for call in calls], ["update"] * 4 + ["install"])
        self.assertEqual(done.stdout.count("another program installs packages"), 1)
        self.assertIn("DPkg::Lock::Timeout=600", calls[-1])

    def test_other_failures(self):
        done, calls = self.run_script(3, "The repository has no Release file")
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(len(calls), 1)
        self.assertIn("no Release file", done.stderr)


if __name__ == "__main__":
    unittest.main()
