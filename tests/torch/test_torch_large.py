#!/usr/bin/python3
"""Compares ImageNet forms with PyTorch, as test_torch_models.py does the small ones."""

import sys

import test_torch_models

if __name__ == "__main__":
    sys.exit(test_torch_models.main(["--large", "--batch", "1", "alexnet", "resnet18", "resnet50",
                                     "squeezenet", "mobilenet-v1", "mobilenet-v2", "googlenet"]))
