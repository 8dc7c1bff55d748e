"""What test_suite.py tries, with the heavy models."""
import unittest

import test_suite


class Heavy(test_suite.Suite):
    names = test_suite.HEAVY


del test_suite.Suite

if __name__ == "__main__":
    unittest.main()
