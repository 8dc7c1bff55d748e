#!/usr/bin/python3
"""Compares the small forms that take minutes with PyTorch, as test_torch_models.py does others."""

import sys

import test_torch_models

if __name__ == "__main__":
    sys.exit(test_torch_models.main(["vgg19", "resnet34", "resnet101", "resnet152", "googlenet",
                                     "inception-v3", "xception", "densenet100"]))
