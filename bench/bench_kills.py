#!/usr/bin/python3
"""Kills at random moments of ten kinds of work, and the same bits afterwards.

    bench/bench_kills.py [--kills N] [--seed N] [KIND...]

KIND: train, stream (label stream), learn, federate, split (either program), study, start (features of photos and the head
fitted to them), language (an adapter of a language model), export, convert; N kills in all (default: 1000). A life
begins with a fresh folder, is killed some times, one of five times by TERM, each time by the command that goes on, and
ends by itself; what is left is compared with what an undisturbed run leaves, weights and labels bit for bit, of a study what
does not depend on time. A line has the kills of a kind, those that came while it worked, those that left new work behind,
lives, and lives that came to the same bits. Ends with status 1 if one did not."""
import argparse
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
os.environ.setdefault("QUERN_RUNS", "none")
os.environ.setdefault("QUERN", str(ROOT / "build/release/quern"))
sys.path.insert(0, str(ROOT / "tests/cli"))
import test_language_runs  # noqa: E402
import test_start  # noqa: E402
import test_torture  # noqa: E402

KILLS_OF_LIFE, TERM_SHARE = 5, 0.2


class Life:
    """Of one command: its undisturbed result, and how long that takes."""
    torture = None

    def __init__(self, seed):
        self.case = self.torture("test_each")
        self.case.setUp()
        self.folder, self.draw = self.case.folder, random.Random(seed)
        self.case.prepare()
        self.case.saved = self.folder.parent / f"{self.folder.name}.saved"
        shutil.copytree(self.folder, self.case.saved)
        begin = time.monotonic()
        self.finish()
        self.seconds = time.monotonic() - begin
        self.new = self.content()
        self.kills = self.working = self.left = self.lives = self.same = 0

    def close(self):
        shutil.rmtree(self.case.saved)
        self.case.doCleanups()

    def content(self):
        return {name: self.case.content(name) for name in self.case.outputs}

    def arguments(self):
        return self.case.arguments

    def finish(self):
        self.case.run_quern(*self.arguments())

    def work_left(self):
        """What tells whether a killed command left new work behind."""
        return [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in sorted(self.folder.rglob("*"))
                if path.is_file() and "cache" not in path.parts]

    def end(self, process):
        """Kills it at a random moment; whether it worked then."""
        try:
            process.wait(self.draw.uniform(0, self.seconds))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGTERM if self.draw.random() < TERM_SHARE else signal.SIGKILL)
        _, errors = process.communicate(timeout=test_torture.SECONDS)
        assert process.returncode in (0, 1, -9, -15), errors
        return process.returncode != 0

    def kill(self):
        return self.end(self.case.start(*self.arguments()))

    def live(self, n_kills):
        self.case.restore()
        for _ in range(n_kills):
            before = self.work_left()
            self.working += self.kill()
            self.left += self.work_left() != before
            self.kills += 1
        self.finish()
        self.lives += 1
        self.same += self.content() == self.new


class Train(Life):
    class torture(test_torture.Train):
        arguments = (*test_torture.Train.arguments, "--steps", 600, "--checkpoint-every", 20)

        def prepare(self):
            self.make_rows()

        def content(self, name):
            """All but the name of the run."""
            return super().content(name)

    def arguments(self):
        return (*self.case.arguments, *(("--resume", "w") if (self.folder / "w").exists() else ()))


class Stream(Life):
    class torture(test_torture.Stream):
        def prepare(self):
            super().prepare()
            rows = (self.folder / "n.csv").read_text().splitlines()
            (self.folder / "n.csv").write_text("\n".join([rows[0], *(rows[1:] * 60)]) + "\n")

    def finish(self):
        """A stream that has ended and is begun again would label its rows anew."""
        state = self.case.run_quern("label", "show", "l", "--json").events[0]
        if state["under_way"] or state["samples"] == 0:
            super().finish()

    def kill(self):
        state = self.case.run_quern("label", "show", "l", "--json").events[0]
        return (state["under_way"] or state["samples"] == 0) and super().kill()


class Learn(Life):
    torture = test_torture.Learn


class Federate(Life):
    class torture(test_torture.Federate):
        arguments = (*test_torture.Federate.arguments, "--rounds", 12)

    def arguments(self):
        return (*self.case.arguments, *(("--resume", "f") if (self.folder / "f").exists() else ()))


class Split(Life):
    torture = test_torture.Split

    def finish(self):
        self.case.recover()

    def kill(self):
        """Of the device's program or of the peer's."""
        pair = self.case.pair
        peer, place = pair.serve()
        more = ("--resume", "device/f") if (self.folder / "device/f").exists() else ()
        device = self.case.start(*pair.train(place, *more))
        if self.draw.random() < 0.5:
            worked = self.end(device)
            pair.end(peer)
            return worked
        try:
            device.wait(self.draw.uniform(0, self.seconds))
        except subprocess.TimeoutExpired:
            pass
        worked = device.poll() is None
        peer.kill()
        peer.communicate()
        device.communicate(timeout=test_torture.SECONDS)
        return worked


class Study(Life):
    torture = test_torture.Study

    def arguments(self):
        return self.case.again()


class Start(Life):
    def work_left(self):
        """Features that are computed are in the cache."""
        return [(path.name, path.stat().st_size) for path in sorted(self.folder.rglob("features-*"))]

    class torture(test_start.Start, test_torture.Torture):
        outputs = ("a.st",)
        arguments = ("train", "--data", "images:photos", "--save", "a.st", "--threads", 1)

        def prepare(self):
            self.make_start()
            self.make_photos(n=40)

        def test_each(self):
            """Has no calls that fail."""


class Language(Life):
    class torture(test_language_runs.LanguageRuns, test_torture.Torture):
        outputs = ("a.st",)
        arguments = ("train", "m.gguf", "--data", "text:t.txt", "--length", 24, "--batch", 3, "--lora", "rank=4", "--threads", 1,
                     "--steps", 60, "--checkpoint-every", 5, "--save", "a.st")

        def test_each(self):
            """Has no calls that fail."""

    def arguments(self):
        """Resumed, it has the adapter of before."""
        if not (self.folder / "a.st").exists():
            return self.case.arguments
        return (*(a for a in self.case.arguments if a not in ("--lora", "rank=4")), "--resume", "a.st")


class Export(Life):
    torture = test_torture.Export


class Convert(Life):
    torture = test_torture.Convert


KINDS = {kind.__name__.lower(): kind
         for kind in (Train, Stream, Learn, Federate, Split, Study, Start, Language, Export, Convert)}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kinds", nargs="*", metavar="KIND", choices=[*KINDS, []])
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1)
    a = parser.parse_args()
    names = a.kinds or list(KINDS)
    print("kind".ljust(10), *(word.rjust(9) for word in ("kills", "working", "left", "lives", "same")))
    is_well = True
    for name in names:
        life = KINDS[name](a.seed)
        try:
            while life.kills < -(-a.kills // len(names)):
                life.live(KILLS_OF_LIFE)
        finally:
            life.close()
        print(name.ljust(10), *(str(n).rjust(9) for n in (life.kills, life.working, life.left, life.lives, life.same)), flush=True)
        is_well = is_well and life.same == life.lives
    sys.exit(not is_well)


if __name__ == "__main__":
    main()
