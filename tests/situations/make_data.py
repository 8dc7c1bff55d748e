"""Inputs of data: rows of numbers and folders of pictures, made by rule. Each maker writes one path."""
import itertools
import math
import random
import struct
import wave

import quern


def blobs(path, classes="ant bee cat", n=50, columns="x y", seed=1, label="label", header=True):
    """A CSV of n rows for each class, in turn. Class i of the alphabet of all names is a cloud at an angle that its
    name alone gives, so that two files agree about it."""
    draw = random.Random(seed)
    names = columns.split()
    lines = [",".join([*names, label])] if header else []
    for _ in range(n):
        for name in classes.split():
            angle = ord(name[0]) - ord("a")
            at = {"x": 4 * math.cos(angle), "y": 9 + 4 * math.sin(angle)}
            row = [f"{at.get(column, 0) + draw.gauss(0, 0.4):.4f}" for column in names]
            lines.append(",".join([*row, name]))
    path.write_text("\n".join(lines) + "\n")


def noise(path, n=100, columns="x y", classes="no yes", seed=1):
    """A CSV whose classes say nothing of its numbers."""
    draw = random.Random(seed)
    lines = [",".join([*columns.split(), "label"])]
    lines += [",".join([*(f"{draw.gauss(0, 1):.4f}" for _ in columns.split()), draw.choice(classes.split())])
              for _ in range(n)]
    path.write_text("\n".join(lines) + "\n")


def colours(path, classes="red green", n=10, side=8, first=0, seed=1):
    """A folder of folders of PNG pictures; the grey of class i of the alphabet is its first letter's. Names are
    FIRST.png and on."""
    draw = random.Random(seed)
    for name in classes.split():
        (path / name).mkdir(parents=True, exist_ok=True)
        grey = (ord(name[0]) - ord("a")) * 9
        for k in range(first, first + n):
            pixels = bytes(grey + draw.randrange(16) for _ in range(side * side))
            quern.write_png(path / name / f"{k:04d}.png", side, side, pixels)


def series(path, axes="ntc", kind="<f4", is_fortran=False, n=200, seed=1):
    """Arrays path/x.npy and path/y.npy: 64 steps of 3 channels, the second of which swings fast or slowly. Whole numbers
    are tens above zero."""
    draw = random.Random(seed)
    path.mkdir(parents=True, exist_ok=True)
    labels = [draw.randrange(2) for _ in range(n)]
    extents = {"n": n, "t": 64, "c": 3}
    values = {(i, t, c): draw.gauss(0, 0.3) + (c == 1) * math.sin(t / (2 + 3 * labels[i]))
              for i in range(n) for t in range(64) for c in range(3)}
    slowest_first = axes[::-1] if is_fortran else axes
    flat = [values[tuple(at[slowest_first.index(axis)] for axis in "ntc")]
            for at in itertools.product(*(range(extents[axis]) for axis in slowest_first))]
    if kind == "<u2":
        flat = [max(0, round(10 * value + 30)) for value in flat]
    packed = struct.pack(f"<{len(flat)}" + {"<f4": "f", "<f8": "d", "<u2": "H"}[kind], *flat)
    quern.write_npy(path / "x.npy", kind, tuple(extents[axis] for axis in axes), packed, is_fortran)
    quern.write_npy(path / "y.npy", "|b1", (n,), bytes(labels))


def wide(path, n=120, side=8, seed=1):
    """Arrays path/x.npy of numbers of 16 bits, (n, side, side), and path/y.npy: one half of class 1 is brighter."""
    draw = random.Random(seed)
    path.mkdir(parents=True, exist_ok=True)
    flat = [20000 + draw.randrange(5000) + 30000 * (i % 2) * (k < side * side // 2) for i in range(n) for k in range(side * side)]
    quern.write_npy(path / "x.npy", "<u2", (n, side, side), struct.pack(f"<{len(flat)}H", *flat))
    quern.write_npy(path / "y.npy", "|u1", (n,), bytes(i % 2 for i in range(n)))


def noise_pictures(path, classes="one two", n=25, side=8, prefix="p", seed=1):
    """Pictures of noise, which nobody can tell apart but by heart."""
    draw = random.Random(seed)
    for name in classes.split():
        (path / name).mkdir(parents=True, exist_ok=True)
        for k in range(n):
            pixels = bytes(draw.randrange(256) for _ in range(side * side))
            quern.write_png(path / name / f"{prefix}{k:04d}.png", side, side, pixels)


def said(path, n=80, seed=1):
    """A CSV of short texts of two classes."""
    draw = random.Random(seed)
    words = {"good": ["fine", "lovely", "great"], "bad": ["bad", "awful", "poor"]}
    lines = [" ".join(draw.choice(words[name]) for _ in range(5)) + "," + name for _ in range(n // 2) for name in words]
    path.write_text("text,label\n" + "\n".join(lines) + "\n")


def tones(path, n=10, seed=1):
    """Folders high and low of n WAV files of a second each."""
    draw = random.Random(seed)
    for name, hertz in (("high", 2000), ("low", 200)):
        (path / name).mkdir(parents=True, exist_ok=True)
        for k in range(n):
            turns = 2 * math.pi * (hertz + draw.randrange(50)) / 8000
            with wave.open(str(path / name / f"{k}.wav"), "wb") as sound:
                sound.setparams((1, 2, 8000, 8000, "NONE", ""))
                sound.writeframes(struct.pack("<8000h", *(int(8000 * math.sin(turns * t)) for t in range(8000))))
