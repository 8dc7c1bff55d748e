"""Control groups that limit memory or processor time, for tests that start programs in them."""
import os
import pathlib
import re


class Group:
    """A control group with a limit, of either version; OSError where none can be made. (ulimit -v would count what
    libraries and stacks have reserved and never touch, ten times what is resident.)"""
    ROOTS = ((pathlib.Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes"),
             (pathlib.Path("/sys/fs/cgroup"), "memory.max"), (pathlib.Path("/sys/fs/cgroup/unified"), "memory.max"))

    def __init__(self, limit):
        for root, name in self.ROOTS:
            self.folder = root / f"quern-{os.getpid()}"
            try:
                if name.endswith(".max"):
                    (root / "cgroup.subtree_control").write_text("+" + name.split(".")[0])
                self.folder.mkdir()
            except OSError:
                continue
            if (self.folder / name).exists():
                (self.folder / name).write_text(str(limit))
                return
            self.folder.rmdir()
        raise OSError("no control group with a limit")

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def pressed(self):
        """How often the limit was reached."""
        old = self.folder / "memory.failcnt"
        events = old.read_text() if old.exists() else (self.folder / "memory.events").read_text()
        return int(events) if old.exists() else int(re.search(r"^max (\d+)$", events, re.M).group(1))

    def close(self):
        self.folder.rmdir()


class TimeGroup(Group):
    """A control group with a quota of so many processors."""
    PERIOD = 100000
    ROOTS = ((pathlib.Path("/sys/fs/cgroup/cpu"), "cpu.cfs_quota_us"), (pathlib.Path("/sys/fs/cgroup"), "cpu.max"),
             (pathlib.Path("/sys/fs/cgroup/unified"), "cpu.max"))

    def __init__(self, n):
        super().__init__(n * self.PERIOD)


MANY = {Group: 64 << 20, TimeGroup: 1}


def can_be_made(kind=Group):
    try:
        kind(MANY[kind]).close()
        return True
    except OSError:
        return False


def bytes_of(size):
    """The number that a size such as 60M says."""
    return int(size[:-1]) << {"K": 10, "M": 20, "G": 30}[size[-1]]
