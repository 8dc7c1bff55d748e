"""test_dsp with a hundred steps and fifty kills."""
import unittest

import test_dsp

test_dsp.N_STEPS = 100
test_dsp.N_KILLS = 50


class Dsp(test_dsp.Dsp):
    test_floats = None


if __name__ == "__main__":
    unittest.main()
