#!/usr/bin/python3
"""Compares the ImageNet forms that take minutes with PyTorch; see test_torch_large.py."""

import sys

import test_torch_models

if __name__ == "__main__":
    sys.exit(test_torch_models.main(["--large", "--batch", "1", "vgg11", "vgg16"]))
