"""Whole training steps of NITI against a second implementation, in NumPy after the authors' published code (wangmaolin/niti, and
Mandheling's port of its loss to whole numbers): forward, the loss's gradient, errors, gradients, shifts, update. Nothing of
quern computes here. Weights after each step are equal to the bit, through all numbers of gradient bits.

Products are sums of whole numbers below 2^53, so NumPy's in float64 are exact."""
import json
import os
import subprocess
import tempfile

import numpy as np

TOOL = os.path.join(os.environ["QUERN_TOOLS"], "train_integer")
MASK = (1 << 64) - 1
BITS, DROPS = 4, (0.4, 0.7, 0.9)

# ---- tensors: int8 mantissas m and an exponent e, of values m * 2^e ----


def log2_up(largest):
    """The least b with largest <= 2^b; 0 of 0."""
    b = 0
    while largest > 0 and largest > 2.0 ** b:
        b += 1
    while largest > 0 and largest <= 2.0 ** (b - 1):
        b -= 1
    return b


def from_reals(x):
    e = log2_up(np.abs(x).max()) - 7
    scaled = x.astype(np.float64) * 2.0 ** -e
    return np.clip(np.sign(scaled) * np.floor(np.abs(scaled) + 0.5), -127, 127).astype(np.int64), e


def parts(sums, s):
    """Quotient by 2^s, cut towards zero, and what it leaves of the magnitude."""
    magnitude = np.abs(sums)
    return np.sign(sums), magnitude >> s, magnitude & ((1 << s) - 1)


def shift_near(sums):
    """Sums as mantissas of 7 bits, halves away from zero, and the shift that makes them so."""
    s = max(log2_up(np.abs(sums).max()) - 7, 0)
    if s == 0:
        return np.clip(sums, -127, 127), 0
    sign, quotient, rest = parts(sums, s)
    return np.clip(sign * (quotient + (rest >= 1 << (s - 1))), -127, 127), s


def shift_pseudo(sums, bits):
    """Sums as gradients of so many bits: the low half of what is cut off stands for a random number."""
    s = max(log2_up(np.abs(sums).max()) - bits, 0)
    if s == 0:
        return np.clip(sums, -127, 127)
    sign, quotient, rest = parts(sums, s)
    half = s >> 1
    high = rest >> half
    low = rest - (high << half)
    if s % 2:
        low *= 2
    return np.clip(sign * (quotient + (high > low)), -127, 127)


# ---- layers, images (N, H, W, C), filters (K, R, S, C) ----


def multiply(a, b):
    return (a.astype(np.float64) @ b.astype(np.float64)).astype(np.int64)


def windows(x, r, pad, stride=1):
    """(N, P, Q, R * R * C)"""
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    view = np.lib.stride_tricks.sliding_window_view(x, (r, r), (1, 2))[:, ::stride, ::stride]
    return view.transpose(0, 1, 2, 4, 5, 3).reshape(*view.shape[:3], -1)


class Product:
    """A convolution or, with r = 0, a linear layer, without bias."""

    def __init__(self, name, r=0, pad=0):
        self.name, self.r, self.pad = name, r, pad

    def forward(self, weights, x, e):
        w, exponent = weights[self.name]
        self.x, self.w = x if self.r else x.reshape(len(x), -1), w
        self.columns = windows(self.x, self.r, self.pad) if self.r else self.x
        y, s = shift_near(multiply(self.columns, w.reshape(len(w), -1).T))
        return y, e + exponent + s

    def gradient(self, error):
        rows = error.reshape(-1, error.shape[-1])
        return multiply(rows.T, self.columns.reshape(len(rows), -1)).reshape(self.w.shape)

    def backward(self, error):
        if not self.r:
            return shift_near(multiply(error, self.w))[0]
        turned = self.w[:, ::-1, ::-1].transpose(3, 1, 2, 0)
        return shift_near(multiply(windows(error, self.r, self.r - 1 - self.pad), turned.reshape(len(turned), -1).T))[0]


class Relu:
    def forward(self, _, x, e):
        self.is_open = x > 0
        return x * self.is_open, e

    def backward(self, error):
        return error * self.is_open


class MaxPool:
    """2 x 2; the first of equal numbers is the largest."""

    def forward(self, _, x, e):
        n, h, w, c = x.shape
        self.shape = x.shape
        four = windows(x[:, :h // 2 * 2, :w // 2 * 2], 2, 0, 2).reshape(n, h // 2, w // 2, 4, c)
        self.index = four.argmax(3)
        return four.max(3), e

    def backward(self, error):
        n, p, q, c = self.index.shape
        made, error = np.zeros(self.shape, np.int64), error.reshape(n, p, q, c)
        for i in range(4):
            made[:, i // 2:2 * p:2, i % 2:2 * q:2] = error * (self.index == i)
        return made


# ---- the loss ----


def mix(x):
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9 & MASK
    x = (x ^ x >> 27) * 0x94d049bb133111eb & MASK
    return x ^ x >> 31


def random_words(seed, name, step, n):
    """Philox 4x32 with 10 rounds, keyed by seed and name; blocks of four words are numbered."""
    purpose = 0xcbf29ce484222325
    for c in name.encode():
        purpose = (purpose ^ c) * 0x100000001b3 & MASK
    key = mix(mix(seed + 0x9e3779b97f4a7c15 & MASK) ^ purpose)
    words = []
    for block in range((n + 3) // 4):
        x, k = [block, 0, step, 0], [key & 0xffffffff, key >> 32]
        for _ in range(10):
            p, q = x[0] * 0xd2511f53, x[2] * 0xcd9e8d57
            x = [q >> 32 ^ x[1] ^ k[0], q & 0xffffffff, p >> 32 ^ x[3] ^ k[1], p & 0xffffffff]
            k = [k[0] + 0x9e3779b9 & 0xffffffff, k[1] + 0xbb67ae85 & 0xffffffff]
        words += x
    return words[:n]


def divide(a, b):
    """Towards zero, as C does."""
    return abs(a) // b * (1 if a >= 0 else -1)


def loss_errors(logits, e, labels, step):
    """The cross entropy's gradient by logits in whole numbers, rounded up or down by chance to a 16th."""
    made = np.zeros(logits.shape, np.int64)
    words = iter(random_words(7, "loss.samples.backward", step, logits.size))
    for row, (numbers, label) in enumerate(zip(logits.tolist(), labels)):
        if e > -7:
            powers = [divide(a * 47274, 1 << 15) for a in numbers]
            powers = [p << e if e >= 0 else divide(p, 1 << -e) for p in powers]
            weights = [(1 << max(p - (max(powers) - 10), 0)) - 1 for p in powers]
        else:
            weights = [(1 << 1 - 2 * e) + a * (1 << 1 - e) + a * a for a in numbers]
        shares = [divide(w << 11, sum(weights)) for w in weights]
        shares[label] -= sum(shares)
        for i, g in enumerate(shares):
            cut, rest = divide(g, 16), abs(g) % 16
            up = rest > next(words) >> 28
            made[row, i] = max(-127, min(127, cut + up * (1 if g > 0 else -1)))
    return made


# ---- a step ----

LENET = [Product("conv1.weight", 5), Relu(), MaxPool(), Product("conv2.weight", 5), Relu(), MaxPool(),
         Product("fc1.weight"), Relu(), Product("fc2.weight")]
VGG = [layer for stage in (1, 2, 3) for layer in (
    Product(f"stage{stage}.block1.conv.weight", 3, 1), Relu(), Product(f"stage{stage}.block2.conv.weight", 3, 1), Relu(),
    MaxPool())] + [Product("fc.weight")]


def train_step(layers, weights, x, labels, k, n_steps):
    """Changes the weights by a batch, step k (from 0) of n_steps."""
    y, e = from_reals(x)
    for layer in layers:
        y, e = layer.forward(weights, y, e)
    error = loss_errors(y, e, labels, k)
    bits, changed = BITS - sum(k > drop * n_steps for drop in DROPS), {}
    for layer in reversed(layers):
        if isinstance(layer, Product):
            changed[layer.name] = shift_pseudo(layer.gradient(error), bits)
        if layer is not layers[0]:
            error = layer.backward(error)
    for name, g in changed.items():
        w, exponent = weights[name]
        weights[name] = (np.clip(w - g, -127, 127), exponent)
    return changed


def read_checkpoint(path):
    with open(path, "rb") as file:
        data = file.read()
    begin = 8 + int.from_bytes(data[:8], "little")
    types = {"I8": np.int8, "I32": np.int32}
    header = {name: t for name, t in json.loads(data[8:begin]).items() if name != "__metadata__"}
    return {name: np.frombuffer(data[begin + t["data_offsets"][0]:begin + t["data_offsets"][1]],
                                types[t["dtype"]]).reshape(t["shape"]) for name, t in header.items()}


def compare(model, layers, side, channels, batch, n_steps):
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([TOOL, model, str(side), str(batch), str(n_steps), "niti", folder], check=True)
        x = np.fromfile(os.path.join(folder, "x"), np.float32).reshape(n_steps, batch, side, side, channels)
        y = np.fromfile(os.path.join(folder, "y"), np.int32).reshape(n_steps, batch)
        start = read_checkpoint(os.path.join(folder, "0.st"))
        names = [layer.name for layer in layers if isinstance(layer, Product)]
        assert sorted(names) == sorted(n for n in start if n.endswith(".weight"))
        weights = {n: (start[n].astype(np.int64), int(start[n + ".exponent"])) for n in names}
        for k in range(n_steps):
            changed = train_step(layers, weights, x[k], y[k], k, n_steps)
            theirs = read_checkpoint(os.path.join(folder, f"{k + 1}.st"))
            for name in names:
                assert changed[name].any(), (model, k, name)
                different = int((weights[name][0] != theirs[name]).sum())
                assert different == 0, f"{model}, step {k}: {different} of {name} differ"
    print(f"{model}: {n_steps} steps equal")


compare("lenet-relu", LENET, 28, 1, 8, 12)
compare("lenet-relu", LENET, 19, 1, 1, 3)
compare("vgg-small", VGG, 12, 3, 3, 5)
