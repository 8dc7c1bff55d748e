"""bert-tiny learns the 200 questions that ship with the tests: exact match above 95 %. About two
minutes on two cores."""
import unittest

import test_answering


class Learning(test_answering.Answering):
    def test_learns(self):
        self.run_quern("train", "bert-tiny", "--data", "squad:questions.json", "--wordpiece",
                       "words.txt", "--save", "w.q", "--no-samples")
        event = self.run_quern("evaluate", "bert-tiny", "--weights", "w.q", "--split", "train",
                               "--json").events[0]
        self.assertEqual(event["samples"], 200)
        self.assertGreater(event["exact_match"], 0.95)


if __name__ == "__main__":
    unittest.main()
