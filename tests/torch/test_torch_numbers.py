"""Conversions to and from float16 and bfloat16 against NumPy's and PyTorch's: every pattern, and
doubles at random of all sizes, at the middles of neighbours and beside them."""

import os
import subprocess
import unittest

import numpy as np
import torch

TOOL = os.path.join(os.environ["QUERN_TOOLS"], "dump_numbers")


def run(dtype, doubles):
    """The patterns that doubles become, and what all patterns are."""
    out = subprocess.run([TOOL, dtype], input=doubles.tobytes(), stdout=subprocess.PIPE, check=True)
    patterns = np.frombuffer(out.stdout[: 2 * len(doubles)], np.uint16)
    return patterns, np.frombuffer(out.stdout[2 * len(doubles):], np.float64)


def doubles_for(values):
    """Middles of neighbours among the values and what lies beside them; all sizes at random."""
    rng = np.random.default_rng(1)
    ordered = np.sort(values[np.isfinite(values)])
    middles = (ordered[1:] + ordered[:-1]) / 2
    random = rng.standard_normal(100000) * 2.0 ** rng.uniform(-160, 160, 100000)
    special = np.array([np.inf, -np.inf, 0.0, -0.0])
    return np.concatenate([middles, np.nextafter(middles, np.inf), np.nextafter(middles, -np.inf),
                           values[np.isfinite(values)], random, special])


def same(a, b):
    """Equal with signs of zeros, or both NaN."""
    return (np.isnan(a) & np.isnan(b)) | ((a == b) & (np.signbit(a) == np.signbit(b)))


class Numbers(unittest.TestCase):
    def test_float16(self):
        values = np.arange(65536, dtype=np.uint16).view(np.float16).astype(np.float64)
        doubles = doubles_for(values)
        patterns, all_values = run("f16", doubles)
        self.assertTrue(same(all_values, values).all())
        with np.errstate(over="ignore", under="ignore"):
            self.assertTrue((patterns == doubles.astype(np.float16).view(np.uint16)).all())

    def test_bfloat16(self):
        bits = torch.arange(65536, dtype=torch.int32).to(torch.int16)
        values = bits.view(torch.bfloat16).to(torch.float64).numpy()
        with np.errstate(over="ignore", under="ignore"):  # PyTorch goes by way of floats, in two roundings
            doubles = doubles_for(values).astype(np.float32).astype(np.float64)
        patterns, all_values = run("bf16", doubles)
        self.assertTrue(same(all_values, values).all())
        theirs = torch.from_numpy(doubles.astype(np.float32)).to(torch.bfloat16)
        self.assertTrue((patterns == theirs.view(torch.int16).numpy().view(np.uint16)).all())


if __name__ == "__main__":
    unittest.main()
