"""Next words through the command line: learning a text of words, making the network a user's, drawing
sentences, and what is refused. Texts are made by rules: the general one has four subjects, each
with a verb of its own; a user has the same words in another order, and some that are new."""
import unittest

import quern

SMALL = ("--hidden", 32, "--batch", 4, "--vocabulary", 60, "--lr", 0.01)
GENERAL = (("the dog barks", "at a cat"), ("a cat sleeps", "on the mat"),
           ("the bird sings", "in a tree"), ("my horse runs", "over the field"))
USERS = {"sailor": (("ahoy the horse", "sings at a tree"), ("a cat runs", "over my starboard mat")),
         "poet": (("o bird", "o dog o tree"), ("my field sleeps", "whither the cat"))}


def sentences(parts, n, end):
    """Sentences of a beginning and an end each, in an order that a rule gives."""
    k = len(parts)
    return "".join(f"{parts[i * i % 13 % k][0].capitalize()} {parts[i * i % 13 % k][1]}{end}"
                   for i in range(n))


class NextWord(quern.Case):
    def setUp(self):
        super().setUp()
        (self.folder / "general.txt").write_text(sentences(GENERAL, 600, ". "))
        for name, parts in USERS.items():
            (self.folder / f"{name}.txt").write_text(sentences(parts, 700, "! "))

    def train(self, *options, status=0):
        return self.run_quern("train", "next-word", "--data", "text:general.txt", "--json", *SMALL,
                              *options, status=status)


class Learning(NextWord):
    def test_learns(self):
        done = self.train("--epochs", 4, "--save", "g.q").of("done")[0]
        self.assertLess(done["test_perplexity"], 4)
        self.assertGreater(done["test_top3_accuracy"], 0.8)
        self.assertGreaterEqual(done["test_top3_accuracy"], done["test_top1_accuracy"])
        self.assertGreater(done["test_keystrokes_saved"], 0.4)
        text = self.run_quern("sample", "next-word", "--weights", "g.q", "--prompt", "The DOG",
                              "--temperature", 0).output
        self.assertIn("the dog barks at a cat.", text)

    def test_resume(self):
        self.train("--steps", 30, "--save", "whole.q", "--threads", 2)
        self.train("--steps", 11, "--schedule-steps", 30, "--save", "part.q", "--threads", 1)
        self.run_quern("train", "--resume", "part.q", "--steps", 30, "--save", "part.q")
        whole, part = (self.run_quern("evaluate", "--weights", name, "--json").events[0]
                       for name in ("whole.q", "part.q"))
        for event in (whole, part):
            event.pop("samples_per_second", None)
        self.assertEqual(whole["loss"], part["loss"])


class Personal(NextWord):
    def test_two_users(self):
        """Both gain; what is saved has the accuracy that was said; the general network stays."""
        self.train("--epochs", 4, "--save", "g.q")
        before = self.bytes_of("g.q")
        for name in USERS:
            run = self.run_quern("train", "--resume", "g.q", "--personalise", f"{name}.txt",
                                 "--personal-rate", 0.005, "--save-personal", f"{name}.q",
                                 "--json", "--no-test")
            event = run.of("personal")[0]
            self.assertEqual(event["train_words"], 1599)
            self.assertGreater(event["new_words"], 0)
            self.assertGreater(event["top3_accuracy_after"], event["top3_accuracy_before"] + 0.05)
            self.assertGreater(event["keystrokes_saved_after"], event["keystrokes_saved_before"])
            self.assertLess(event["loss_after"], event["loss_before"])
            again = self.run_quern("evaluate", "--weights", f"{name}.q", "--batch", 1,
                                   "--json").events[0]
            self.assertEqual(again["loss"], event["loss_after"])
            self.assertEqual(again["samples"], event["test_words"])
        self.assertEqual(before, self.bytes_of("g.q"))

    def test_same_bits(self):
        self.train("--steps", 20, "--save", "g.q")
        for threads in (1, 2):
            self.run_quern("train", "--resume", "g.q", "--personalise", "poet.txt", "--threads",
                           threads, "--save-personal", f"{threads}.q", "--no-test", "--json")
        self.assertEqual(self.bytes_of("1.q"), self.bytes_of("2.q"))

    def test_never_worse(self):
        """Steps that are far too large lose everything: the weights stay as they were."""
        words = [word for parts in GENERAL for part in parts for word in part.split()]
        value, chance = 1, []
        for _ in range(2600):
            value = value * 1103515245 % 2147483648 + 12345
            chance.append(words[value // 65536 % len(words)])
        (self.folder / "chance.txt").write_text(" ".join(chance))
        self.train("--steps", 60, "--save", "g.q")
        event = self.run_quern("train", "--resume", "g.q", "--personalise", "chance.txt",
                               "--personal-rate", 1, "--json", "--no-test").of("personal")[0]
        self.assertEqual(event["epoch"], 0)
        self.assertEqual(event["loss_before"], event["loss_after"])

    def test_refused(self):
        self.train("--personalise", "nobody.txt", status=1)
        for options, words in ((("--save-personal", "x.q"), "need --personalise"),
                               (("--personal-words", 200), "need --personalise")):
            self.assertIn(words, self.train(*options, status=2).errors)
        (self.folder / "short.txt").write_text("Only a few words.")
        run = self.train("--steps", 2, "--personalise", "short.txt", status=1)
        self.assertIn("too few for a block", run.errors)
        (self.folder / "short.txt").write_text("Only a few words more. " * 40)
        run = self.train("--steps", 2, "--personalise", "short.txt", status=1)
        self.assertIn("none is left to test on", run.errors)
        self.train("--steps", 2, "--personalise", "short.txt", "--personal-words", 100)
        run = self.run_quern("train", "char-lstm", "--data", "text:general.txt", "--steps", 1,
                             "--personalise", "poet.txt", status=2)
        self.assertIn("such as next-word, not char-lstm", run.errors)


if __name__ == "__main__":
    unittest.main()
