"""test_kills with a thousand kills."""
import unittest

import test_kills
from test_kills import Kills  # noqa: F401

test_kills.N_KILLS = 1000

if __name__ == "__main__":
    unittest.main()
