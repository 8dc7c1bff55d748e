"""quern inspect: what is said of data before training."""
import unittest

import quern


class Inspect(quern.Case):
    def look(self, *arguments):
        return self.run_quern("inspect", *arguments, "--json").events[0]

    def test_arrays(self):
        data = self.make_images(40, classes=4)
        seen = self.look(data, "--holdout", "0.25")
        self.assertEqual(seen["training_samples"] + seen["test_samples"], 40)
        self.assertIn(seen["test_samples"], range(4, 17))
        self.assertEqual((seen["sample"], seen["sample_type"]), ("28x28x1", "bytes"))
        self.assertEqual(seen["target_kind"], "classes")
        told = self.run_quern("inspect", data, "--holdout", "0.25").output
        self.assertIn("target: 4 classes", told)
        self.assertRegex(told, r"split: \d+ to train on, \d+ to test, by a hash of each sample")

    def test_usage(self):
        self.fails(2, "inspect", says=["needs DATA"])
        self.fails(2, "inspect", "nothing", says=["neither a file or folder"])


if __name__ == "__main__":
    unittest.main()
