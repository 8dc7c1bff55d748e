"""Numbers of the block formats of language models' weights, by NumPy, a row at a time: of the formats'
definition, apart from src/tensor/blocks.c. A format's number is that of qn_blocks."""

import numpy as np


def halves(raw):
    return np.ascontiguousarray(raw).view("<f2").astype(np.float32)


def nibbles(raw):
    """Low halves of all bytes, then the high ones."""
    return np.concatenate([raw & 15, raw >> 4], axis=1)


def fifth_bits(raw):
    word = np.ascontiguousarray(raw).view("<u4")
    return ((word >> np.arange(32, dtype=np.uint32)) & 1).astype(np.uint8) << 4


def groups(raw):
    """Scales and minima, (blocks, 8, 1), of formats K of 4 and 5 bits."""
    packed = raw[:, 4:16]
    low, middle, high = packed[:, :4], packed[:, 4:8], packed[:, 8:]
    scale = np.concatenate([low & 63, high & 15 | low >> 6 << 4], axis=1)
    least = np.concatenate([middle & 63, high >> 4 | middle >> 6 << 4], axis=1)
    return (halves(raw[:, :2]) * scale)[..., None], (halves(raw[:, 2:4]) * least)[..., None]


def q4_k(raw):
    scale, least = groups(raw)
    low = raw[:, 16:].reshape(-1, 4, 32)
    return scale * np.stack([low & 15, low >> 4], axis=2).reshape(-1, 8, 32) - least


def q5_k(raw):
    scale, least = groups(raw)
    low = raw[:, 48:].reshape(-1, 4, 32)
    bits = np.stack([low & 15, low >> 4], axis=2).reshape(-1, 8, 32)
    fifth = raw[:, None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    return scale * (bits | fifth << 4) - least


def q6_k(raw):
    low, high = raw[:, :128].reshape(-1, 2, 2, 32), raw[:, 128:192].reshape(-1, 2, 1, 32)
    bits = np.concatenate([low & 15, low >> 4], axis=2)
    bits = bits | (high >> np.array([0, 2, 4, 6], dtype=np.uint8)[:, None] & 3) << 4
    scale = halves(raw[:, 208:]) * raw[:, 192:208].view(np.int8)
    return scale[..., None] * (bits.reshape(-1, 16, 16).astype(np.int8) - 32)


# Numbers and bytes of a block, and how blocks (n, bytes) are widened.
FORMATS = {
    1: (1, 4, lambda raw: raw.view("<f4")),
    2: (1, 2, halves),
    3: (1, 2, lambda raw: (raw.view("<u2").astype(np.uint32) << 16).view(np.float32)),
    4: (32, 18, lambda raw: halves(raw[:, :2]) * (nibbles(raw[:, 2:]).astype(np.int8) - 8)),
    5: (32, 20, lambda raw: halves(raw[:, :2]) * nibbles(raw[:, 4:]) + halves(raw[:, 2:4])),
    6: (32, 22, lambda raw: halves(raw[:, :2])
        * ((nibbles(raw[:, 6:]) | fifth_bits(raw[:, 2:6])).astype(np.int8) - 16)),
    7: (32, 24, lambda raw: halves(raw[:, :2]) * (nibbles(raw[:, 8:]) | fifth_bits(raw[:, 4:8]))
        + halves(raw[:, 2:4])),
    8: (32, 34, lambda raw: halves(raw[:, :2]) * raw[:, 2:].view(np.int8)),
    9: (256, 144, q4_k),
    10: (256, 176, q5_k),
    11: (256, 210, q6_k),
}


def widen(blocks, rows):
    """float32 (K, C) of bytes (K, bytes of a row)."""
    _, n_bytes, read = FORMATS[blocks]
    return read(np.ascontiguousarray(rows).reshape(-1, n_bytes)).reshape(len(rows), -1)
