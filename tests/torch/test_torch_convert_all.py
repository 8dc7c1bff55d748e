#!/usr/bin/python3
"""Every image classifier that quern has a map for, as test_torch_convert.py does two of them."""

import sys

import test_torch_convert

if __name__ == "__main__":
    sys.argv.append("--all")
    sys.exit(test_torch_convert.main())
