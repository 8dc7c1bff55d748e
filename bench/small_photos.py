#!/usr/bin/python3
"""Makes a small set of photo-like pictures, a folder a class, to try training on few with.

    small_photos.py FOLDER [PER_CLASS [SEED]]

Seven classes of things (disc, square, triangle, ring, cross, star, stripes) of some tendency of colour, any size,
angle and place, before a background of two colours with texture, lit from a side, a little blurred and noisy, 96x72."""
import pathlib
import struct
import sys
import zlib

import numpy as np

WIDTH, HEIGHT = 96, 72
CLASSES = ["cross", "disc", "ring", "square", "star", "stripes", "triangle"]
# What a class tends to, as flowers do; the spread about it is as large as the distance between two.
COLOURS = [(0.8, 0.2, 0.2), (0.9, 0.6, 0.2), (0.3, 0.3, 0.8), (0.3, 0.7, 0.3), (0.9, 0.9, 0.4),
           (0.6, 0.6, 0.6), (0.7, 0.3, 0.7)]


def png(pixels):
    """A colour PNG of 8 bits."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    height, width, _ = pixels.shape
    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
            + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def inside(kind, u, v):
    """Where the thing is, in its own coordinates, of about [-1, 1]."""
    radius, angle = np.hypot(u, v), np.arctan2(v, u)
    return {"disc": radius < 0.9,
            "ring": (radius < 1) & (radius > 0.6),
            "square": np.maximum(abs(u), abs(v)) < 0.75,
            "triangle": (v > -0.6) & (v < 0.9 - 1.7 * abs(u)),
            "cross": (np.minimum(abs(u), abs(v)) < 0.28) & (np.maximum(abs(u), abs(v)) < 0.95),
            "star": radius < 0.65 + 0.35 * np.cos(5 * angle),
            "stripes": (np.maximum(abs(u), abs(v)) < 0.8) & (np.sin(9 * u) > 0)}[kind]


def smooth_noise(draw, cells):
    """A texture: random values on a coarse grid, in between by the nearest of a blurred one."""
    grid = draw.random((cells + 1, cells + 1, 3))
    y = np.linspace(0, cells - 1e-6, HEIGHT)[:, None]
    x = np.linspace(0, cells - 1e-6, WIDTH)[None]
    i, j = y.astype(int), x.astype(int)
    fy, fx = (y - i)[..., None], (x - j)[..., None]
    return ((grid[i, j] * (1 - fx) + grid[i, j + 1] * fx) * (1 - fy)
            + (grid[i + 1, j] * (1 - fx) + grid[i + 1, j + 1] * fx) * fy)


def picture(draw, kind):
    y, x = np.mgrid[0:HEIGHT, 0:WIDTH]
    size, turn = draw.uniform(14, 30), draw.uniform(0, 2 * np.pi)
    at_x, at_y = draw.uniform(30, WIDTH - 30), draw.uniform(24, HEIGHT - 24)
    dx, dy = (x - at_x) / size, (y - at_y) / size
    mask = inside(kind, dx * np.cos(turn) + dy * np.sin(turn), dy * np.cos(turn) - dx * np.sin(turn))
    usual = np.array(COLOURS[CLASSES.index(kind)])
    back, thing = draw.random(3), np.clip(usual + draw.normal(0, 0.22, 3), 0, 1)
    while abs(back - thing).sum() < 0.5:
        back = draw.random(3)
    image = 0.6 * back + 0.4 * smooth_noise(draw, int(draw.integers(2, 14)))
    thing = 0.75 * thing + 0.25 * smooth_noise(draw, int(draw.integers(2, 10)))
    image = np.where(mask[..., None], thing, image)
    image = (image + np.roll(image, 1, 0) + np.roll(image, 1, 1) + np.roll(image, (1, 1), (0, 1))) / 4
    side = np.cos(draw.uniform(0, 2 * np.pi)) * (x / WIDTH - 0.5) + (y / HEIGHT - 0.5) * draw.uniform(-1, 1)
    image = image * (1 + 0.6 * side[..., None]) + draw.normal(0, 0.04, image.shape)
    return (np.clip(image, 0, 1) * 255).astype(np.uint8)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    folder = pathlib.Path(sys.argv[1])
    per_class = int(sys.argv[2]) if len(sys.argv) > 2 else 36
    draw = np.random.default_rng(int(sys.argv[3]) if len(sys.argv) > 3 else 1)
    for kind in CLASSES:
        (folder / kind).mkdir(parents=True, exist_ok=True)
        for i in range(per_class):
            (folder / kind / f"{i:04d}.png").write_bytes(png(picture(draw, kind)))


if __name__ == "__main__":
    main()
