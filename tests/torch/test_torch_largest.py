#!/usr/bin/python3
"""Compares the ImageNet forms that take minutes with PyTorch; see test_torch_large.py."""

import sys

import test_torch_models

if __name__ == "__main__":
    sys.exit(test_torch_models.main(["--large", "--batch", "1", "vgg11", "vgg16", "vgg19",
                                     "resnet34", "resnet101", "resnet152", "inception-v3",
                                     "xception"]))
