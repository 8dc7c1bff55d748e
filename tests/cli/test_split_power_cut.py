"""A power cut while quern split trains, of the device's machine, of the peer's, or of both: at each point that was
drawn, the halves that the disks have kept are sound, and both programs go on from them to the network that they make
undisturbed."""
import pathlib
import random
import shutil
import subprocess
import unittest

import disk
import quern
import test_torture

N_POINTS = 200 if quern.ALL else 10


class SplitPowerCut(quern.Case):
    place = quern.IN_MEMORY

    def setUp(self):
        super().setUp()
        test_torture.Torture.make_rows(self)
        self.pair = test_torture.Pair(self)
        self.log = self.folder.parent / f"{self.folder.name}.log"
        self.addCleanup(self.log.unlink, missing_ok=True)

    def put(self, left):
        for side in ("device", "peer"):
            shutil.rmtree(self.folder / side, ignore_errors=True)
            (self.folder / side).mkdir()
        for path, content in left.items():
            if pathlib.Path(path).relative_to(self.folder).parts[0] in ("device", "peer"):
                pathlib.Path(path).write_bytes(content)

    def sides(self, watched):
        """(what was cut, contents by path): the machine that was not has all that was written."""
        here = {path: watched.written.get(number, b"") for path, number in watched.entries.items()}
        cuts = list(watched.cuts())
        for cut in cuts if quern.ALL else (cuts[0], cuts[-1]):
            yield "both", cut
            for side, other in (("device", "peer"), ("peer", "device")):
                mixed = {path: content for path, content in cut.items() if f"/{side}/" in path}
                mixed.update((path, content) for path, content in here.items() if f"/{other}/" in path)
                yield side, mixed

    def test_cuts(self):
        environment = disk.environment_of(self, disk.counts_path(self), log=self.log)
        peer, place = self.pair.serve(environment)
        watched = disk.Disk(self.folder)
        try:
            subprocess.run([quern.QUERN, *map(str, self.pair.train(place))], cwd=self.folder, env=environment, check=True,
                           capture_output=True)
        finally:
            self.pair.end(peer)
        disk.take_counts(disk.counts_path(self))
        whole, log = self.pair.whole(), disk.read_log(self.log)
        points = set(random.Random(2).sample(range(len(log)), min(N_POINTS, len(log))))
        n_looked = 0
        for i, operation in enumerate(log):
            watched.do(operation)
            for side, left in self.sides(watched) if i in points else ():
                self.put(left)
                self.pair.recover()
                self.assertTrue(self.pair.whole() == whole, f"{side} cut after operation {i}, {operation[0]}")
                n_looked += 1
        self.assertGreater(n_looked, 30)


if __name__ == "__main__":
    unittest.main()
