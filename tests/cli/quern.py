"""What the tests of the command line share: running it, reading its JSON, small data sets.

The command is $QUERN. Nothing but the standard library is needed."""
import json
import os
import pathlib
import random
import shutil
import struct
import subprocess
import tempfile
import unittest
import zlib

# The program is instrumented or emulated: what looks at numbers alone, or tries again and again, is for
# the others.
SLOW = "QUERN_SLOW" in os.environ
numbers = unittest.skipIf(SLOW, "looks at numbers alone")
# script/test --all: combinations are tried that others stand for.
ALL = "QUERN_ALL" in os.environ

IN_MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None

QUERN = os.path.abspath(os.environ.get("QUERN", "build/release/quern"))


def missing_dsp():
    """Why nothing can run on the emulated DSP here, or None."""
    if not shutil.which("qemu-hexagon"):
        return "qemu-hexagon is not installed (Debian: qemu-user)"
    done = subprocess.run([QUERN, "devices", "--json"], capture_output=True, text=True, check=False)
    devices = [json.loads(line) for line in done.stdout.splitlines()]
    if not any(event.get("hexagon") for event in devices):
        return "this build has no program for the DSP (Debian: clang, lld)"
    return None


def missing_terminal():
    """Why no terminal can be made here, or None."""
    try:
        for end in os.openpty():
            os.close(end)
    except OSError as error:
        return f"no terminal can be made here: {error.strerror}"
    return None


def become_nobody():
    """For a child between fork and exec: root becomes a user who owns nothing."""
    if os.geteuid() == 0:
        os.setgid(65534)
        os.setuid(65534)


def missing_nobody():
    """Why root cannot become another user here, or None."""
    try:
        subprocess.run(["true"], preexec_fn=become_nobody, check=True)
    except subprocess.SubprocessError:
        return "root cannot become another user here"
    return None


class Run:
    """A finished run: exit status, output, messages, JSON events."""

    def __init__(self, status, output, errors):
        self.status, self.output, self.errors = status, output, errors

    @property
    def events(self):
        return [json.loads(line) for line in self.output.splitlines()]

    def of(self, kind):
        return [event for event in self.events if event["event"] == kind]


class Case(unittest.TestCase):
    """A test with a folder of its own, in which the command runs."""

    # Where the folder is made: for tests that write very often, in memory.
    place = None

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="quern-cli-", dir=self.place))
        self.addCleanup(shutil.rmtree, self.folder)
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"))
        self.environment.pop("QUERN_RUNS", None)

    def start(self, *arguments, **options):
        """Starts the command; its streams are pipes unless options say otherwise."""
        options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
        return subprocess.Popen([QUERN, *map(str, arguments)], cwd=self.folder, text=True,
                                env=self.environment, **options)

    def run_quern(self, *arguments, status=0, **options):
        """Runs the command to its end and checks its exit status."""
        process = self.start(*arguments, **options)
        output, errors = process.communicate()
        self.assertEqual(process.returncode, status, f"{arguments}\n{output}{errors}")
        return Run(process.returncode, output, errors)

    def fails(self, status, *arguments, says=()):
        """A run that must fail, with a message that holds all of the texts."""
        run = self.run_quern(*arguments, status=status)
        for text in says:
            self.assertIn(text, run.errors)
        self.assertTrue(run.errors.startswith("quern: ") or "\nquern: " in run.errors, run.errors)
        return run

    def mount(self, *words):
        """mount, undone at the end; where it is not there, or not allowed, the test is left out. The last word is the place."""
        environment = dict(os.environ, PATH=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
        if not shutil.which("mount", path=environment["PATH"]):
            self.skipTest("there is no mount (Debian: mount)")
        done = subprocess.run(["mount", *map(str, words)], env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            self.skipTest(f"nothing can be mounted here: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", str(words[-1])], env=environment, check=True)

    def bytes_of(self, name):
        return (self.folder / name).read_bytes()

    def make_images(self, n=256, side=28, channels=1, classes=10, name="x"):
        """A learnable set of byte images as two npy files; returns the data's name."""
        draw = random.Random(n)
        labels = [i % classes for i in range(n)]
        rows = []
        for label in labels:
            row = bytearray(draw.randrange(60) for _ in range(side * side * channels))
            begin = label * (len(row) // classes)
            for i in range(begin, begin + len(row) // classes):
                row[i] = 200 + draw.randrange(50)
            rows.append(bytes(row))
        write_npy(self.folder / f"{name}.npy", "|u1", (n, side, side, channels), b"".join(rows))
        write_npy(self.folder / f"{name}-y.npy", "|u1", (n,), bytes(labels))
        return f"npy:{name}.npy,{name}-y.npy"


def write_npy(path, kind, shape, data, is_fortran=False):
    shape = "(" + "".join(f"{extent}, " for extent in shape) + ")"
    header = f"{{'descr': '{kind}', 'fortran_order': {is_fortran}, 'shape': {shape}, }}"
    header += " " * (63 - (10 + len(header)) % 64) + "\n"
    with open(path, "wb") as file:
        file.write(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def write_png(path, width, height, pixels):
    """A grey image of 8 bits."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(
            ">I", zlib.crc32(kind + data))
    rows = b"".join(b"\0" + pixels[y * width:(y + 1) * width] for y in range(height))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n"
                   + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
                   + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def metadata_of(path):
    """The text pairs of a safetensors file."""
    with open(path, "rb") as file:
        length = struct.unpack("<Q", file.read(8))[0]
        return json.loads(file.read(length))["__metadata__"]


def weights_of(path):
    """The tensors of a safetensors file, as bytes."""
    with open(path, "rb") as file:
        file.seek(struct.unpack("<Q", file.read(8))[0], 1)
        return file.read()
