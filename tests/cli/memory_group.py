"""Control groups that limit memory, for tests that start programs in them."""
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
                if name == "memory.max":
                    (root / "cgroup.subtree_control").write_text("+memory")
                self.folder.mkdir()
            except OSError:
                continue
            if (self.folder / name).exists():
                (self.folder / name).write_text(str(limit))
                return
            self.folder.rmdir()
        raise OSError("no control group of memory")

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def pressed(self):
        """How often the limit was reached."""
        old = self.folder / "memory.failcnt"
        events = old.read_text() if old.exists() else (self.folder / "memory.events").read_text()
        return int(events) if old.exists() else int(re.search(r"^max (\d+)$", events, re.M).group(1))

    def close(self):
        self.folder.rmdir()


def can_be_made():
    try:
        Group(64 << 20).close()
        return True
    except OSError:
        return False


def bytes_of(size):
    """The number that a size such as 60M says."""
    return int(size[:-1]) << {"K": 10, "M": 20, "G": 30}[size[-1]]
