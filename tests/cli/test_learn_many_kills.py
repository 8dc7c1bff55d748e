"""test_learn_kills with a month and a thousand kills."""
import unittest

import test_learn_kills
from test_learn_kills import LearnKills  # noqa: F401

test_learn_kills.N_KILLS, test_learn_kills.N_DAYS = 1000, 30

if __name__ == "__main__":
    unittest.main()
