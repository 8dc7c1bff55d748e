#!/usr/bin/python3
"""The commands of README and docs/ that are about large networks; see test_documents.py."""
import unittest

import test_documents


class LargeDocuments(test_documents.Documents):
    large = True

    def setUp(self):
        """The weights that large commands of the documents go on from."""
        super().setUp()
        for model, name in (("resnet18", "mine"), ("mobilenet-v2", "pretrained")):
            self.run_quern("train", model, "--data", "images:photos", "--input", 32, "--steps", 1, "--no-test",
                           "--save", f"{name}.safetensors")


if __name__ == "__main__":
    unittest.main()
