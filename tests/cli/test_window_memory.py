"""Windows over long recordings: the memory that training takes does not grow with the rows."""
import os
import subprocess
import sys
import unittest

import quern

MEBIBYTE = 1024  # of ru_maxrss

ARRAYS = """
import numpy, sys
n = int(sys.argv[1])
numpy.save("x.npy", numpy.random.default_rng(1).normal(size=(n, 2)).astype("<f4"))
numpy.save("y.npy", (numpy.arange(n) // 500 % 2).astype("<i4"))
"""
TABLE = """
import sys
with open("x.csv", "w") as out:
    out.write("a,b,is\\n")
    out.writelines(f"{i % 97},{i % 89}.5,{i // 500 % 2}\\n" for i in range(int(sys.argv[1])))
"""


@unittest.skipIf(quern.SLOW, "an instrumented program's memory says nothing")
class WindowMemory(quern.Case):
    def peak(self, program, n, data):
        """Of a training run on n rows, in units of ru_maxrss. A child's peak begins with its parent's: the rows are made in
        another process."""
        subprocess.run([sys.executable, "-c", program, str(n)], cwd=self.folder, check=True)
        os.chdir(self.folder)
        pid = os.posix_spawn(quern.QUERN, [quern.QUERN, "train", "mlp", "--data", data, "--window", "64", "--stride", "16",
                                           "--holdout", "0.2", "--steps", "2", "--threads", "1"],
                             {**os.environ, "XDG_CACHE_HOME": str(self.folder)},
                             file_actions=[(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
                                           (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0)])
        _, status, usage = os.wait4(pid, 0)
        self.assertEqual(status, 0)
        return usage.ru_maxrss

    def test_arrays(self):
        small, large = (self.peak(ARRAYS, n, "npy:x.npy,y.npy") for n in (100_000, 1_000_000))
        self.assertLess(large, small + MEBIBYTE)

    def test_tables(self):
        small, large = (self.peak(TABLE, n, "csv:x.csv") for n in (20_000, 200_000))
        self.assertLess(large, small + MEBIBYTE)


if __name__ == "__main__":
    unittest.main()
