#!/usr/bin/python3
"""Makes pictures to pretrain a network for photos on, of things that nobody has to download.

    made_pictures.py OUT [COUNT [SEED]]

OUT-x.npy gets COUNT pictures of 64x64x3 bytes (60000 unless said), OUT-y.npy their classes, of which there are 510:

    150 fractals      attractors of random affine maps, their weights a little different each time
    150 textures      noise of a spectrum and a direction, cells, waves and warps, in a palette of the class
    120 things        two to four simple shapes in an arrangement, lit from a side
     80 characters    drawn strokes, each a little different
     10 garments      Fashion-MNIST (the Debian package dataset-fashion-mnist), in colours

Everything but the textures lies before a texture, anywhere, of any size and somewhat turned. The same arguments make
the same bytes."""
import gzip
import sys

import numpy as np

SIZE = 64
N_FRACTALS, N_TEXTURES, N_THINGS, N_CHARACTERS, N_GARMENTS = 150, 150, 120, 80, 10
N_CLASSES = N_FRACTALS + N_TEXTURES + N_THINGS + N_CHARACTERS + N_GARMENTS
FASHION = "/usr/share/datasets/fashion-mnist"
Y, X = np.mgrid[0:SIZE, 0:SIZE].astype(np.float32)


# ---- textures ----


def spectrum(draw, exponent, stretch, angle, scale):
    """Noise of a power spectrum, longer in one direction, of mean 0 and deviation 1; (SIZE, SIZE)."""
    fy, fx = np.fft.fftfreq(SIZE)[:, None], np.fft.rfftfreq(SIZE)[None]
    u = (fx * np.cos(angle) + fy * np.sin(angle)) * stretch
    v = fy * np.cos(angle) - fx * np.sin(angle)
    radius = np.hypot(u, v) * SIZE / scale
    amplitude = 1 / (1 + radius ** 2) ** (exponent / 2)
    amplitude[0, 0] = 0
    phase = draw.normal(size=radius.shape) + 1j * draw.normal(size=radius.shape)
    noise = np.fft.irfft2(phase * amplitude, (SIZE, SIZE))
    return (noise / (noise.std() + 1e-9)).astype(np.float32)


def cells(draw, count, is_edges, u, v):
    """Distances to the nearest of random points, or how near the second is."""
    points = draw.uniform(-8, SIZE + 8, (count, 2)).astype(np.float32)
    distance = np.hypot(u[..., None] - points[:, 0], v[..., None] - points[:, 1])
    two = np.partition(distance, 1, axis=-1)[..., :2]
    field = two[..., 1] - two[..., 0] if is_edges else two[..., 0]
    return (field - field.mean()) / (field.std() + 1e-6)


def texture_class(draw):
    """What a class of textures has in common."""
    return {"kind": draw.integers(4), "exponent": draw.uniform(1.2, 4), "stretch": np.exp(draw.uniform(0, 1.8)),
            "angle": draw.uniform(0, np.pi), "scale": np.exp(draw.uniform(0.7, 2.6)), "count": int(draw.integers(8, 60)),
            "waves": np.exp(draw.uniform(-1.6, 0.2)), "warp": draw.uniform(0, 9), "hard": draw.uniform(0.5, 6),
            "mix": draw.uniform(0, 0.7), "palette": draw.random((3, 3))}


def texture(draw, made, colour_noise):
    """A picture of a class of textures, (SIZE, SIZE, 3) in about [0, 1]."""
    angle, zoom = made["angle"] + draw.normal(0, 0.2), np.exp(draw.normal(0, 0.15))
    noise = spectrum(draw, made["exponent"], made["stretch"], angle, made["scale"] * zoom)
    u = X + made["warp"] * spectrum(draw, 3, 1, 0, 4)
    v = Y + made["warp"] * spectrum(draw, 3, 1, 0, 4)
    if made["kind"] == 1:
        field = cells(draw, int(made["count"] / zoom) + 2, False, u, v)
    elif made["kind"] == 2:
        field = cells(draw, int(made["count"] / zoom) + 2, True, u, v)
    elif made["kind"] == 3:
        field = 1.4 * np.sin((u * np.cos(angle) + v * np.sin(angle)) * made["waves"] * zoom + draw.uniform(0, 6))
    else:
        field = noise
    field = (1 - made["mix"]) * field + made["mix"] * noise
    low = 1 / (1 + np.exp(-made["hard"] * field))[..., None]
    palette = np.clip(made["palette"] + draw.normal(0, colour_noise, (3, 3)), 0, 1)
    image = palette[0] * low + palette[1] * (1 - low)
    part = np.clip(spectrum(draw, 3, 1, 0, 3), -1, 1)[..., None] * 0.5 + 0.5
    return image * (1 - 0.3 * part) + palette[2] * 0.3 * part


# ---- what lies before them ----


def place(draw, turn, least, most):
    """Coordinates of about [-1, 1] of a thing somewhere in the picture."""
    size = draw.uniform(least, most) * SIZE / 2
    free = max(SIZE / 2 - 0.8 * size, 2)
    x, y = X - SIZE / 2 - draw.uniform(-free, free), Y - SIZE / 2 - draw.uniform(-free, free)
    angle = draw.normal(0, turn)
    return (x * np.cos(angle) + y * np.sin(angle)) / size, (y * np.cos(angle) - x * np.sin(angle)) / size


def fractal_class(draw):
    """Affine maps (n, 2, 3) whose attractor fills enough of the plane, with the chance of each."""
    while True:
        n = int(draw.integers(2, 7))
        maps = draw.uniform(-1, 1, (n, 2, 3))
        areas = abs(maps[:, 0, 0] * maps[:, 1, 1] - maps[:, 0, 1] * maps[:, 1, 0]) + 0.01
        if max(np.linalg.norm(maps[:, :, :2], 2, axis=(1, 2))) > 0.95:
            maps[:, :, :2] *= 0.9 / np.linalg.norm(maps[:, :, :2], 2, axis=(1, 2))[:, None, None]
        made = {"maps": maps, "chance": areas / areas.sum()}
        points, _ = attractor(draw, made)
        grid, _, _ = np.histogram2d(points[:, 0], points[:, 1], 32, [[-1.2, 1.2]] * 2)
        if 0.12 < (grid > 0).mean() < 0.7:
            return made


def attractor(draw, made):
    """Points of the attractor in about [-1, 1], and the map that each came by."""
    chains, n_turns = 160, 48
    point = np.zeros((chains, 2))
    points, used = [], []
    for turn in range(n_turns):
        which = draw.choice(len(made["maps"]), chains, p=made["chance"])
        maps = made["maps"][which]
        point = np.einsum("nij,nj->ni", maps[:, :, :2], point) + maps[:, :, 2]
        if turn >= 12:
            points.append(point)
            used.append(which)
    points = np.concatenate(points)
    middle, spread = np.median(points, 0), np.percentile(abs(points - np.median(points, 0)), 97) + 1e-6
    return (points - middle) / spread, np.concatenate(used)


def fractal(draw, made):
    changed = dict(made, maps=made["maps"] * draw.uniform(0.93, 1.07, made["maps"].shape))
    points, used = attractor(draw, changed)
    angle, size = draw.normal(0, 0.4), draw.uniform(0.55, 1) * SIZE / 2
    free = SIZE / 2 - 0.8 * size
    x = (points[:, 0] * np.cos(angle) - points[:, 1] * np.sin(angle)) * size + SIZE / 2 + draw.uniform(-free, free)
    y = (points[:, 0] * np.sin(angle) + points[:, 1] * np.cos(angle)) * size + SIZE / 2 + draw.uniform(-free, free)
    inside = (x >= 0) & (x < SIZE) & (y >= 0) & (y < SIZE)
    x, y, used = x[inside].astype(int), y[inside].astype(int), used[inside]
    colours = np.clip(draw.random(3) + draw.normal(0, 0.25, (8, 3)), 0, 1)
    image, mask = np.zeros((SIZE, SIZE, 3)), np.zeros((SIZE, SIZE), bool)
    image[y, x], mask[y, x] = colours[used], True
    return image, mask


SHAPES = (lambda u, v: np.hypot(u, v) < 1,
          lambda u, v: np.maximum(abs(u), abs(v)) < 0.9,
          lambda u, v: (v > -0.8) & (v < 1 - 2 * abs(u)),
          lambda u, v: abs(np.hypot(u, v) - 0.75) < 0.25,
          lambda u, v: np.hypot(u, v) < 0.62 + 0.38 * np.cos(5 * np.arctan2(v, u)),
          lambda u, v: abs(u) + abs(v) < 1,
          lambda u, v: (np.hypot(u, v) < 1) & (v > 0),
          lambda u, v: (np.hypot(u, v) < 1) & (np.hypot(u - 0.45, v) > 0.75),
          lambda u, v: (np.minimum(abs(u), abs(v)) < 0.3) & (np.maximum(abs(u), abs(v)) < 1))


def thing_class(draw):
    parts = [{"shape": int(draw.integers(len(SHAPES))), "at": draw.uniform(-0.6, 0.6, 2), "turn": draw.uniform(0, 6.28),
              "size": np.exp(draw.uniform(-1.3, -0.2, 2)), "colour": draw.random(3)} for _ in range(draw.integers(2, 5))]
    return {"parts": sorted(parts, key=lambda part: -part["size"].prod())}


def thing(draw, made):
    u, v = place(draw, 0.45, 0.5, 1)
    v = v * np.exp(draw.normal(0, 0.12))
    image, mask = np.zeros((SIZE, SIZE, 3)), np.zeros((SIZE, SIZE), bool)
    shift = draw.normal(0, 0.18, 3)
    for part in made["parts"]:
        at = part["at"] + draw.normal(0, 0.05, 2)
        angle, size = part["turn"] + draw.normal(0, 0.1), part["size"] * np.exp(draw.normal(0, 0.08, 2))
        x, y = u - at[0], v - at[1]
        inside = SHAPES[part["shape"]]((x * np.cos(angle) + y * np.sin(angle)) / size[0],
                                       (y * np.cos(angle) - x * np.sin(angle)) / size[1])
        light = 1 + 0.35 * (x * draw.uniform(-1, 1) + y)[..., None]
        image = np.where(inside[..., None], np.clip(part["colour"] + shift + draw.normal(0, 0.08, 3), 0, 1) * light, image)
        mask |= inside
    return image, mask


def character_class(draw):
    return {"strokes": draw.uniform(-1, 1, (int(draw.integers(2, 5)), 4, 2))}


def character(draw, made):
    size, width = draw.uniform(0.5, 0.95) * SIZE / 2, draw.uniform(1.0, 3.2)
    free = SIZE / 2 - 0.9 * size
    shear = np.eye(2) + draw.normal(0, 0.14, (2, 2))
    t = np.linspace(0, 1, 22)[:, None]
    weights = np.concatenate([(1 - t) ** 3, 3 * t * (1 - t) ** 2, 3 * t * t * (1 - t), t ** 3], 1)
    strokes = made["strokes"] + draw.normal(0, 0.1, made["strokes"].shape)
    points = (weights @ strokes).reshape(-1, 2) @ shear * size + SIZE / 2 + draw.uniform(-free, free, 2)
    distance = np.hypot(X[..., None] - points[:, 0], Y[..., None] - points[:, 1]).min(-1)
    return np.broadcast_to(draw.random(3), (SIZE, SIZE, 3)), distance < width


def garment(draw, image):
    u, v = place(draw, 0.25, 0.55, 1)
    x, y = (u + 1) * 13.5, (v + 1) * 13.5
    inside = (x >= 0) & (x < 27) & (y >= 0) & (y < 27)
    i, j = np.where(inside, y, 0).astype(int), np.where(inside, x, 0).astype(int)
    fy, fx = np.where(inside, y - i, 0), np.where(inside, x - j, 0)
    grey = ((image[i, j] * (1 - fx) + image[i, j + 1] * fx) * (1 - fy)
            + (image[i + 1, j] * (1 - fx) + image[i + 1, j + 1] * fx) * fy) / 255
    return grey[..., None] * draw.uniform(0.4, 1.2, 3), inside & (grey > 0.08)


def soften(mask):
    """The mask with edges of a pixel, (SIZE, SIZE, 1)."""
    soft = mask.astype(np.float32)
    soft = (2 * soft + np.roll(soft, 1, 0) + np.roll(soft, -1, 0)) / 4
    return ((2 * soft + np.roll(soft, 1, 1) + np.roll(soft, -1, 1)) / 4)[..., None]


def finish(draw, image):
    """Light, contrast and the noise of a sensor; bytes."""
    light = 1 + draw.normal(0, 0.25) * (X / SIZE - 0.5) + draw.normal(0, 0.25) * (Y / SIZE - 0.5)
    image = (image - 0.5) * draw.uniform(0.7, 1.2) + 0.5 + draw.normal(0, 0.08)
    image = image * light[..., None] + draw.normal(0, draw.uniform(0, 0.05), image.shape)
    if draw.random() < 0.12:
        image = np.broadcast_to(image.mean(-1, keepdims=True), image.shape)
    return (np.clip(image, 0, 1) * 255).astype(np.uint8)


def read_fashion():
    with gzip.open(FASHION + "/train-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read()[16:], np.uint8).reshape(-1, 28, 28)
    with gzip.open(FASHION + "/train-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read()[8:], np.uint8)
    return [images[labels == k] for k in range(N_GARMENTS)]


def all_classes(draw):
    """A list of (function, what it is told) by class; textures have None for a function."""
    return ([(fractal, fractal_class(draw)) for _ in range(N_FRACTALS)]
            + [(None, texture_class(draw)) for _ in range(N_TEXTURES)]
            + [(thing, thing_class(draw)) for _ in range(N_THINGS)]
            + [(character, character_class(draw)) for _ in range(N_CHARACTERS)]
            + [(garment, images) for images in read_fashion()])


def picture(draw, classes, k):
    function, made = classes[k]
    if function is None:
        return finish(draw, texture(draw, made, 0.08))
    if function is garment:
        made = made[draw.integers(len(made))]
    image, mask = function(draw, made)
    back = texture(draw, texture_class(draw), 0)
    if draw.random() < 0.4:
        back = 0.2 * back + 0.8 * draw.random(3)
    soft = soften(mask)
    if abs((back * soft).sum((0, 1)) - (image * soft).sum((0, 1))).sum() < 0.3 * soft.sum():
        back = 1 - back
    return finish(draw, image * soft + back * (1 - soft))


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    count = int(sys.argv[2]) if len(sys.argv) > 2 else 60000
    seed = int(sys.argv[3]) if len(sys.argv) > 3 else 1
    classes = all_classes(np.random.default_rng(1))
    draw = np.random.default_rng([seed, 2])
    # Garments as often as ten other classes each.
    chance = np.where(np.arange(N_CLASSES) < N_CLASSES - N_GARMENTS, 1.0, 8.0)
    which = draw.choice(N_CLASSES, count, p=chance / chance.sum()).astype(np.int32)
    pictures = np.lib.format.open_memmap(sys.argv[1] + "-x.npy", "w+", np.uint8, (count, SIZE, SIZE, 3))
    for i, k in enumerate(which):
        pictures[i] = picture(draw, classes, k)
        if sys.stderr.isatty() and i % 100 == 0:
            print(f"\r{i} of {count} pictures", end="", file=sys.stderr)
    pictures.flush()
    np.save(sys.argv[1] + "-y.npy", which)


if __name__ == "__main__":
    main()
