#!/usr/bin/python3
"""test_torch_bert for bert-base: a minute and several gigabytes."""
import sys

import test_torch_bert

if __name__ == "__main__":
    sys.exit(test_torch_bert.main(["--base"]))
