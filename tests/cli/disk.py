"""Runs the command on a disk that is watched or fails (tests/fake/disk.c), and makes of what was watched the disk as a
power cut could have left it at each point."""
import os
import pathlib
import subprocess

import quern

LIBRARY = pathlib.Path(os.environ.get("QUERN_TOOLS", "build/release/tests")).absolute() / "fake/libfake_disk.so"


def environment_of(case, counts, fail=None, match=None, nameless=True, log=None):
    """Of a program on such a disk, a call of which fails, or (kind:all) each of a kind."""
    environment = dict(case.environment, LD_PRELOAD=str(LIBRARY), QUERN_DISK_ROOT=f"{case.folder}/",
                       QUERN_DISK_COUNTS=str(counts))
    for name, value in (("FAIL", fail), ("MATCH", match), ("LOG", log)):
        if value:
            environment[f"QUERN_DISK_{name}"] = str(value)
    if not nameless:
        environment["QUERN_DISK_NAMELESS"] = "no"
    return environment


def counts_path(case):
    return case.folder.parent / f"{case.folder.name}.counts"


def take_counts(counts):
    """How many calls of each kind a program made."""
    lines = counts.read_text().split("\n")[:-1] if counts.exists() else []
    counts.unlink(missing_ok=True)
    return {line.split()[0]: int(line.split()[1]) for line in lines}


def run(case, arguments, timeout=None, **options):
    """Runs the command; returns what subprocess.run does, and how many calls of each kind there were."""
    counts = counts_path(case)
    done = subprocess.run([quern.QUERN, *map(str, arguments)], cwd=case.folder,
                          env=environment_of(case, counts, **options),
                          capture_output=True, text=True, errors="replace", check=False, timeout=timeout)
    return done, take_counts(counts)


def read_log(path):
    """The operations in their order: tuples of a letter and what belongs to it."""
    data, at, log = path.read_bytes(), 0, []
    while at < len(data):
        end = data.index(b"\n", at)
        words = data[at:end].decode().split(" ", 1)
        at = end + 1
        if words[0] == "W":
            number, offset, length = map(int, words[1].split())
            log.append(("W", number, offset, data[at:at + length]))
            at += length
        else:
            log.append((words[0], *words[1:]))
    return log


def norm(path):
    return os.path.normpath(path)


class Disk:
    """What is on the disk: contents as written and as synced, by file; entries as made and as synced, by path. A
    file that was not synced is what it was when it was last; an entry that was not synced is lost or not,
    but none before one that was made earlier in the same folder."""

    def __init__(self, folder):
        self.written, self.synced = {}, {}
        self.entries, self.lasting, self.pending = {}, {}, []
        self.versions, self.lasting_versions = {}, {}  # by path: contents that were put there; how many last
        for path in folder.rglob("*"):
            if path.is_file():
                number = path.stat().st_ino
                self.written[number] = self.synced[number] = path.read_bytes()
                self.entries[str(path)] = self.lasting[str(path)] = number
                self.versions[str(path)] = [self.written[number]]
                self.lasting_versions[str(path)] = 1

    def change(self, path, number):
        if number is None:
            self.entries.pop(path, None)
        else:
            self.entries[path] = number
        self.pending.append((path, number))

    def write(self, number, offset, data):
        content = self.written.get(number, b"").ljust(offset, b"\0")
        self.written[number] = content[:offset] + data + content[offset + len(data):]

    def sync_entries(self, folder):
        for path, number in self.pending:
            if folder is None or os.path.dirname(path) == folder:
                if number is None:
                    self.lasting.pop(path, None)
                else:
                    self.lasting[path] = number
                if path in self.versions and number is not None:
                    self.lasting_versions[path] = len(self.versions[path])
        self.pending = [item for item in self.pending
                        if folder is not None and os.path.dirname(item[0]) != folder]

    def do(self, operation):
        kind, *words = operation
        if kind == "N":
            self.written[int(words[0])] = self.synced[int(words[0])] = b""
        elif kind == "O":
            number, truncates, path = words[0].split(" ", 2)
            if norm(path) not in self.entries:
                self.written[int(number)] = self.synced[int(number)] = b""
                self.change(norm(path), int(number))
            elif truncates == "1":
                self.written[int(number)] = b""
        elif kind == "W":
            self.write(*words)
        elif kind == "T":
            number, length = map(int, words[0].split())
            self.written[number] = self.written.get(number, b"")[:length].ljust(length, b"\0")
        elif kind == "S":
            self.synced[int(words[0])] = self.written[int(words[0])]
        elif kind == "D":
            self.sync_entries(norm(words[0]))
        elif kind == "Y":
            self.synced = dict(self.written)
            self.sync_entries(None)
        elif kind == "L":
            number, path = words[0].split(" ", 1)
            self.change(norm(path), int(number))
        elif kind == "R":
            old, new = map(norm, words[0].split("\t"))
            number = self.entries[old]
            self.versions.setdefault(new, []).append(self.written[number])
            self.change(old, None)
            self.change(new, number)
        elif kind == "U":
            self.change(norm(words[0]), None)

    def cuts(self):
        """What a power cut now can leave: contents by path."""
        for n in range(len(self.pending) + 1):
            entries = dict(self.lasting)
            for path, number in self.pending[:n]:
                if number is None:
                    entries.pop(path, None)
                else:
                    entries[path] = number
            for contents in (self.synced, self.written):
                yield {path: contents.get(number, b"") for path, number in entries.items()}


def check_file(case, disk, left, path):
    """After a cut a file is one of its versions, and none that is older than the last that was said to be saved."""
    least = disk.lasting_versions.get(path, 0)
    if path in left:
        case.assertIn(left[path], disk.versions[path][max(least - 1, 0):],
                      f"{path}: {len(left[path])} bytes are no version of it that may be there")
    else:
        case.assertEqual(least, 0, f"{path} is gone")


def check(case, disk, log):
    """Does the operations of a log, and looks after each at every disk that a cut could leave; returns how many."""
    n = 0
    for operation in log:
        disk.do(operation)
        for left in disk.cuts():
            n += 1
            for path in disk.versions:
                if not path.endswith("-tmp"):
                    check_file(case, disk, left, path)
    return n
