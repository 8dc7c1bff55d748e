"""Windows over the rows of a table, each beside the same cut with numpy: rows, targets and sides of the split."""
import ctypes
import os
import pathlib
import sys
import tempfile
import unittest

import numpy as np

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(os.environ["QUERN_BUILD"]) / "python"))
import quern  # noqa: E402
from quern import _data  # noqa: E402
from quern import _library as c  # noqa: E402

assert quern
LABELS = ["fall", "run", "walk"]


def make_table(n=3000, seed=5):
    """Times, groups, two channels and labels that come in runs; some times are lacking or jump, some labels are not there."""
    rng = np.random.default_rng(seed)
    steps = rng.choice([1.0, 1.0, 1.0, 2.0, 0.0], n)
    steps[rng.integers(0, n, 12)] = 50.0
    steps[rng.integers(0, n, 4)] = -3.0
    group = np.repeat(np.arange(n // 60), 60) * 7 % 13
    label = np.repeat(rng.integers(0, 3, n), rng.integers(1, 25, n))[:n]
    has_label = rng.random(n) > 0.1
    return np.cumsum(steps), group, rng.normal(size=(n, 2)).astype(np.float32), label, has_label


def write(path, table):
    time, group, x, label, has_label = table
    lines = ["time,who,a,b,label"]
    lines += [f"{time[i]:g},g{group[i]},{x[i, 0]:.9g},{x[i, 1]:.9g},{LABELS[label[i]] if has_label[i] else ''}"
              for i in range(len(time))]
    path.write_text("\n".join(lines) + "\n")


def target_of(label, has_label, rule):
    """The class of a window by its rows; None: it has none."""
    if rule in ("last", "same"):
        return label[-1] if has_label[-1] else None
    known = label[has_label]
    if len(known) == 0:
        return None
    counts = np.bincount(known, minlength=len(LABELS))
    return next(k for k in known[::-1] if counts[k] == counts.max())


def cut(table, length, stride, rule, by_group):
    """(first row, class) of each window."""
    time, group, _, label, has_label = table
    steps = np.diff(time, prepend=np.nan).astype(np.float32)
    shown = np.where(has_label, label, -1)
    usual = np.sort(steps[steps > 0])[(steps > 0).sum() // 2]
    ends = [i for i in range(1, len(time))
            if (by_group and group[i] != group[i - 1]) or not 0 <= steps[i] <= 3 * usual
            or (rule == "same" and shown[i] != shown[i - 1])]
    found = []
    for begin, end in zip([0, *ends], [*ends, len(time)]):
        for first in range(begin, end - length + 1, stride):
            rows = slice(first, first + length)
            target = target_of(label[rows], has_label[rows], rule)
            if target is not None:
                found.append((first, target))
    return found


class Windows(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="quern-windows-")
        self.addCleanup(self.folder.cleanup)
        os.environ["XDG_CACHE_HOME"] = self.folder.name
        self.path = pathlib.Path(self.folder.name) / "w.csv"
        self.table = make_table()
        write(self.path, self.table)

    def open(self, **options):
        how = c.DataOptions(target=b"label", **options)
        return _data.open_named(f"csv:{self.path}", how)

    def windows(self, source, split):
        """Values (n, length, 2) and classes of a split."""
        shape = tuple(source.c.sample.dims[i] for i in range(source.c.sample.rank))
        read = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_int, ctypes.c_int64, ctypes.c_void_p,
                                ctypes.c_void_p)(source.c.read)
        x, y = np.empty((source.n(split), *shape), np.float32), np.empty(source.n(split), np.int32)
        for i in range(source.n(split)):
            self.assertEqual(read(source.c.self, split, i, x[i:].ctypes.data, y[i:].ctypes.data), 0)
        return x[:, :, 0], y

    def test_equal_to_numpy(self):
        for length, stride, rule, group in ((7, 3, "majority", b"who"), (16, 16, "last", None), (5, 1, "same", b"who"),
                                            (150, 2, "majority", None), (2, 9, "same", None)):
            with self.subTest(length=length, stride=stride, rule=rule, group=group):
                wanted = cut(self.table, length, stride, rule, group is not None)
                if not wanted:
                    self.fail("nothing is compared")
                ignored = b"none" if group else b"who"
                source = self.open(window=length, stride=stride, window_label=rule.encode(), group=group, ignore=ignored)
                x, y = self.windows(source, 0)
                self.assertEqual(len(y), len(wanted))
                self.assertEqual(y.tolist(), [target for _, target in wanted])
                for i, (first, _) in enumerate(wanted):
                    np.testing.assert_array_equal(x[i], self.table[2][first:first + length])

    def test_arrays_are_cut_likewise(self):
        time, group, rows, label, _ = self.table
        table = (time, group, rows, label, np.ones(len(label), bool))
        places = {}
        for name, array in (("x", rows), ("y", label.astype(np.int64)), ("t", time + 1e9), ("g", group)):
            places[name] = f"{self.folder.name}/{name}.npy"
            np.save(places[name], array)
        for length, stride, rule in ((7, 3, "majority"), (5, 1, "same"), (16, 16, "last")):
            with self.subTest(length=length, rule=rule):
                how = c.DataOptions(window=length, stride=stride, window_label=rule.encode(),
                                    group=places["g"].encode(), time=places["t"].encode())
                x, y = self.windows(_data.open_named(f"npy:{places['x']},{places['y']}", how), 0)
                wanted = cut(table, length, stride, rule, True)
                self.assertEqual(y.tolist(), [target for _, target in wanted])
                for i, (first, _) in enumerate(wanted):
                    np.testing.assert_array_equal(x[i], rows[first:first + length])
        how = c.DataOptions(group=places["g"].encode(), holdout=0.3)
        source = _data.open_named(f"npy:{places['x']},{places['y']}", how)
        self.assertEqual(source.n(0) + source.n(1), len(label))
        self.assertTrue(all(source.n(split) % 60 == 0 for split in (0, 1)))

    def rows_of(self, x):
        """Rows of the table in windows, by their values."""
        places = {row.tobytes(): i for i, row in enumerate(self.table[2])}
        return {places[row.tobytes()] for window in x for row in window}

    def test_groups_are_on_one_side(self):
        source = self.open(window=8, stride=2, group=b"who", holdout=0.3, validation=0.2, seed=3)
        groups = []
        for split in range(3):
            rows = self.rows_of(self.windows(source, split)[0])
            groups.append({int(self.table[1][i]) for i in rows})
            self.assertTrue(groups[-1])
        self.assertFalse(groups[0] & groups[1] or groups[0] & groups[2] or groups[1] & groups[2])

    def test_no_row_is_on_both_sides(self):
        source = self.open(window=8, stride=1, ignore=b"who", holdout=0.3, validation=0.2, seed=3)
        rows = [self.rows_of(self.windows(source, split)[0]) for split in range(3)]
        self.assertTrue(all(rows))
        self.assertFalse(rows[0] & rows[1] or rows[0] & rows[2] or rows[1] & rows[2])

    def test_what_is_added_moves_nothing(self):
        before = self.rows_of(self.windows(self.open(window=8, group=b"who", holdout=0.3), 1)[0])
        more = make_table(600, seed=6)
        self.table = tuple(np.concatenate(pair) for pair in zip(more, self.table))
        self.table[1][:600] += 20
        write(self.path, self.table)
        after = self.rows_of(self.windows(self.open(window=8, group=b"who", holdout=0.3), 1)[0])
        self.assertLessEqual({i + 600 for i in before}, after)


if __name__ == "__main__":
    unittest.main()
