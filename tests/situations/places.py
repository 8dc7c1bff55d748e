"""Where situations are run: plainly, under a locale with a decimal comma, in a control group of memory, on a full disk,
without /proc. A place that cannot be made on this machine says why."""
import ctypes
import hashlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import steps

import memory_group  # tests/cli, which steps names
import quern

TOOLS = pathlib.Path(os.environ.get("QUERN_TOOLS", steps.BUILD / "tests")).absolute()
INSIDE = "QUERN_SITUATIONS_INSIDE"  # set within a namespace of mounts of our own


class Missing(Exception):
    """The machine does not allow it."""


class Place:
    name = "plain"

    def __init__(self):
        self.root = tempfile.mkdtemp(prefix="quern-situations-")

    def close(self):
        shutil.rmtree(self.root, ignore_errors=True)

    def answer(self, _situation, step, folder):
        return steps.do(step, folder)

    def do(self, situation, step, folder):
        """Does a step; what is wrong, or None."""
        return steps.wrongs(step, self.answer(situation, step, folder), folder)


# ---- a decimal comma ----

LOCALES = ("de_DE.UTF-8", "fr_FR.UTF-8", "es_ES.UTF-8", "it_IT.UTF-8", "nl_NL.UTF-8", "pt_BR.UTF-8", "ru_RU.UTF-8")


def has_comma(name, environment):
    code = f"import locale; locale.setlocale(locale.LC_ALL, {name!r}); print(locale.localeconv()['decimal_point'])"
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=False)
    return done.stdout.strip() == ","


class Comma(Place):
    """A program that has called setlocale, as the library's users do; the library alone never does."""
    name = "comma"

    def __init__(self):
        super().__init__()
        library = TOOLS / "fake/libfake_locale.so"
        if quern.SLOW or not library.exists():
            self.close()
            raise Missing("nothing can be loaded before an instrumented program")
        self.environment = self.find_locale()
        self.environment["LD_PRELOAD"] = str(library)

    def find_locale(self):
        for name in LOCALES:
            if has_comma(name, dict(os.environ)):
                return {"LC_ALL": name}
        made = {"LC_ALL": LOCALES[0], "LOCPATH": self.root}
        if shutil.which("localedef"):
            subprocess.run(["localedef", "-i", "de_DE", "-f", "UTF-8", f"{self.root}/{LOCALES[0]}"],
                           capture_output=True, check=False)
        if has_comma(LOCALES[0], {**os.environ, **made}):
            return made
        self.close()
        raise Missing("no locale with a decimal comma is installed, and localedef cannot make one")

    def answer(self, _situation, step, folder):
        return steps.do(step, folder, None if step.kind == "shell" else self.environment)


# ---- a control group ----

class Group(Place):
    """Every command is in a control group of 256 MiB, or of what the situation says."""
    name = "group"

    def __init__(self):
        if quern.SLOW:
            raise Missing("an instrumented program takes more memory")
        if not memory_group.can_be_made():
            raise Missing("no control group of memory can be made here")
        super().__init__()

    def answer(self, situation, step, folder):
        limit = situation.only[1] if situation.only and situation.only[1] else "256M"
        group = memory_group.Group(memory_group.bytes_of(limit))
        try:
            return steps.do(step, folder, preexec_fn=group.enter)
        finally:
            group.close()


# ---- mounts of our own ----

def enter_mounts():
    """Goes on in a new namespace of mounts, in which the program is root."""
    if os.environ.get(INSIDE):
        return
    for options in (["-m"], ["-rm"]):
        command = ["unshare", *options]
        if shutil.which("unshare") and subprocess.run(
                [*command, "sh", "-c", "mount -t tmpfs tmpfs /mnt"], capture_output=True, check=False).returncode == 0:
            os.environ[INSIDE] = "1"
            os.execvp("unshare", [*command, sys.executable, *sys.argv])
    raise Missing("nothing can be mounted here")


def mount(folder, size):
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"tmpfs", os.fsencode(folder), b"tmpfs", 0, f"size={size}".encode()) != 0:
        raise Missing(f"nothing can be mounted on {folder}: {os.strerror(ctypes.get_errno())}")


class NoProc(Place):
    name = "noproc"

    def __init__(self):
        enter_mounts()
        mount("/proc", "64k")
        super().__init__()


class Full(Place):
    """A command is first run on a disk without a free byte: it does the same, or fails, says why, and leaves every file
    as it was. Then there is room, and it must do all that it does elsewhere."""
    name = "full"

    def __init__(self):
        enter_mounts()
        super().__init__()
        mount(self.root, "80m")

    def do(self, situation, step, folder):
        if step.kind == "run":
            wrong = self.do_full(step, folder)
            if wrong:
                return f"  on a full disk:\n{wrong}"
        return super().do(situation, step, folder)

    def do_full(self, step, folder):
        before = contents_of(folder)
        filler = pathlib.Path(self.root) / "filler"
        fill(filler)
        try:
            answer = steps.do(step, folder)
        finally:
            filler.unlink()
        wrong = steps.common_faults(step, answer, folder)
        if not wrong and answer.status != step.status and "No space left" not in answer.errors:
            wrong = f"exit status {answer.status}, and does not say that there is no space"
        after = contents_of(folder)
        changed = [name for name, content in before.items() if not is_kept(name, content, after.get(name))]
        if not wrong and changed and answer.status != step.status:
            wrong = f"fails, and has changed {changed}"
        return f"  {wrong}\n{answer.text}" if wrong else None


def is_kept(name, before, after):
    """The log of a run may grow: it also says what failed."""
    is_log = pathlib.Path(name).name == "log.jsonl"
    return before == after or (is_log and after is not None and after.startswith(before))


def fill(path):
    """Takes all room there is, by pieces that grow smaller."""
    with open(path, "wb", buffering=0) as file:
        size = 0
        for piece in (1 << 24, 1 << 20, 1 << 16, 4096):
            try:
                while True:
                    os.posix_fallocate(file.fileno(), size, piece)
                    size += piece
            except OSError:
                pass


def contents_of(folder):
    """Digests of all files, and the text of logs."""
    return {str(path): path.read_bytes() if path.name == "log.jsonl" else hashlib.sha256(path.read_bytes()).digest()
            for path in folder.rglob("*") if path.is_file() and ".cache" not in path.parts}


PLACES = {place.name: place for place in (Place, Comma, Group, Full, NoProc)}
