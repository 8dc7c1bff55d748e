"""quern study on this machine: two small models at two batch sizes; resuming, also after a kill; cells
that die; a full disk; wrong usage."""
import csv
import json
import os
import pathlib
import resource
import signal
import time
import unittest

import quern

SMALL = ["--models", "mlp,lenet5", "--batches", "2,4", "--steps", "3", "--seconds", "0", "--no-drip",
         "--repeat", "1"]
CELLS = ["mlp-b2", "mlp-b2-inference", "mlp-b4", "lenet5-b2", "lenet5-b2-inference", "lenet5-b4"]


def children_of(pid):
    """Processes that it has started, by /proc."""
    found = []
    for folder in pathlib.Path("/proc").iterdir():
        try:
            text = (folder / "stat").read_text() if folder.name.isdigit() else ""
        except OSError:
            continue
        if text and text.rsplit(")", 1)[1].split()[1] == str(pid):
            found.append(int(folder.name))
    return found


def is_alive(pid):
    try:
        state = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def wait_for(condition, what, seconds=600):
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise AssertionError(f"no {what} in {seconds} s")
        time.sleep(0.01)


class Study(quern.Case):
    def study(self, *more, **options):
        return self.run_quern("study", *SMALL, "--out", "s", *more, **options)

    def rows(self):
        with open(self.folder / "s/study.csv", newline="") as file:
            return list(csv.DictReader(file))

    def modified(self):
        return {name: (self.folder / f"s/cells/{name}.json").stat().st_mtime_ns for name in CELLS}

    def check_whole(self, name):
        """A result is there in full, or not at all."""
        path = self.folder / "s" / name
        if not path.exists():
            return
        text = path.read_text()
        if name.endswith(".json"):
            json.loads(text)
        elif name.endswith(".html"):
            self.assertTrue(text.rstrip().endswith("</html>"))
        else:
            self.assertTrue(text.endswith("\n"))

    def check_all_whole(self):
        for name in ("study.csv", "study.json", "report.html", "settings.json"):
            self.check_whole(name)
        for path in (self.folder / "s/cells").glob("*.json"):
            json.loads(path.read_text())

    def test_run_and_resume(self):
        output = self.study().output
        self.assertIn("6/6 lenet5, batch 4: ", output)
        self.assertIn("12 ", output.splitlines()[-2])
        rows = self.rows()
        self.assertEqual(len(rows), 6)
        for row in rows:
            self.assertEqual(row["state"], "done", row)
            self.assertGreater(float(row["step_ms_median"]), 0)
            self.assertLessEqual(float(row["meter_bytes"]), 16e6)
            self.assertGreater(float(row["resident_peak_bytes"]), 1e6)
        trained = [row for row in rows if row["kind"] == "training"]
        self.assertEqual([row["model"] for row in trained], ["mlp", "mlp", "lenet5", "lenet5"])
        self.assertGreater(float(trained[0]["samples_per_second"]), 0)
        self.assertGreater(float(trained[0]["inference_ms"]), 0)
        self.assertEqual(trained[1]["inference_ms"], "")
        study = json.loads(self.bytes_of("s/study.json"))
        self.assertEqual([o["number"] for o in study["observations"]], list(range(1, 13)))
        verdicts = {o["verdict"] for o in study["observations"]}
        self.assertLessEqual(verdicts, {"confirmed", "not confirmed", "uncertain",
                                        "cannot be judged here"})
        self.assertEqual(study["observations"][11]["verdict"], "cannot be judged here")
        self.check_all_whole()
        self.assertIn("Throughput by batch", self.bytes_of("s/report.html").decode())

        before = self.modified()
        self.assertIn("6 cells, 6 of them already measured", self.study().output)
        self.assertEqual(before, self.modified())
        (self.folder / "s/cells/mlp-b4.json").unlink()
        self.study()
        after = self.modified()
        self.assertEqual([name for name in CELLS if before[name] != after[name]], ["mlp-b4"])

        self.fails(2, "study", *SMALL, "--out", "s", "--steps", "4",
                   says=["measured with steps 3, but now it is 4", "another --out"])

    def test_sudden_stop(self):
        process = self.start("study", *SMALL, "--out", "s", "--steps", "200")
        first = self.folder / "s/cells/mlp-b2.json"
        wait_for(first.exists, "cell")
        kept = first.stat().st_mtime_ns
        wait_for(lambda: children_of(process.pid) or process.poll() is not None, "process")
        children = children_of(process.pid)
        process.kill()
        process.communicate()
        wait_for(lambda: not any(map(is_alive, children)), "end of the cell's process")
        self.check_all_whole()
        self.study("--steps", "200")
        self.assertEqual(first.stat().st_mtime_ns, kept)
        self.assertEqual({row["state"] for row in self.rows()}, {"done"})

    def test_interrupt(self):
        process = self.start("study", *SMALL, "--out", "s", "--steps", "1000")
        wait_for((self.folder / "s/study.json").exists, "result")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
        if process.returncode != 0:
            self.assertEqual(process.returncode, 130)
            self.assertIn("the same command goes on from here", errors)
        self.check_all_whole()

    def test_cell_that_is_killed(self):
        process = self.start("study", *SMALL, "--out", "s", "--models", "vgg11", "--batches", "8",
                             "--steps", "50")
        wait_for(lambda: children_of(process.pid) or process.poll() is not None, "process")
        os.kill(children_of(process.pid)[0], signal.SIGKILL)
        output, errors = process.communicate()
        self.assertEqual(process.returncode, 0, errors)
        self.assertIn("vgg11, batch 8: failed: killed at ", output)
        row = self.rows()[0]
        self.assertEqual(row["state"], "failed")
        self.assertIn("ran out of memory", row["reason"])
        self.assertIn("killed at", self.bytes_of("s/report.html").decode())

    def test_left_out(self):
        output = self.study("--models", "lenet5", "--memory-limit", "1000000").output
        self.assertIn("lenet5, batch 4: left out: its plan needs ", output)
        self.assertIn("3 cells left out", output)

    def test_full_disk(self):
        """No file may grow beyond 60 kB: the page does not fit."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (60000, 60000))
        process = self.start("study", *SMALL, "--out", "s", "--models", "mlp", preexec_fn=limit,
                             restore_signals=False)
        _, errors = process.communicate()
        self.assertEqual(process.returncode, 1)
        self.assertIn("cannot write", errors)
        self.assertFalse((self.folder / "s/report.html").exists())
        self.check_all_whole()

    def test_wrong_usage(self):
        for arguments, text in [(["--models", "lenet6"], "lenet5"), (["--batches", "0"], "--batches"),
                                (["--batches", "4,,8"], "comma"), (["--batches", "x"], "--batches"),
                                (["--only", "lenet5-b4"], "drip-b16"),
                                (["--sysroot", "nowhere"], "nowhere")]:
            self.fails(2, "study", "--out", "s", *arguments, says=[text])

    def test_drip(self):
        data = self.make_images(n=1400, side=28)
        self.run_quern("study", "--only", "drip-b16", "--out", "s", "--data", data, "--quick")
        drip = json.loads(self.bytes_of("s/cells/drip-b16.json"))["drip"]
        self.assertEqual([drip["model"], drip["batch"], len(drip["days"])], ["lenet5", 16, 18])
        self.assertEqual(drip["test_samples"], 128)
        output = self.run_quern("study", "--models", "mlp", "--batches", "2", "--steps", "3", "--quick",
                                "--seconds", "0", "--out", "s", "--data", data).output
        self.assertIn("drip training: ", output)
        finding = json.loads(self.bytes_of("s/study.json"))["observations"][11]
        self.assertNotEqual(finding["verdict"], "cannot be judged here")


if __name__ == "__main__":
    unittest.main()
