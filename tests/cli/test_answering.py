"""Question answering through the command line: training on SQuAD's format, resuming, measuring,
asking, and what is refused."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import quern

QUESTIONS = pathlib.Path(os.environ.get("QUERN_SOURCE", ".")).resolve() / "tests" / "questions"
SMALL = ("--batch", 4, "--length", 48, "--warmup", 5)


def entry(question, context, *answers):
    """One of a file's paragraphs."""
    found = [{"text": answer, "answer_start": context.index(answer)} for answer in answers]
    return {"context": context, "qas": [{"id": "1", "question": question, "answers": found,
                                         "is_impossible": not found}]}


class Answering(quern.Case):
    def setUp(self):
        super().setUp()
        for name in ("questions.json", "words.txt"):
            shutil.copy(QUESTIONS / name, self.folder)
        self.write("few.json", json.loads(
            (QUESTIONS / "questions.json").read_text())["data"][0]["paragraphs"][1:4])

    def write(self, name, paragraphs):
        (self.folder / name).write_text(json.dumps({"data": [{"paragraphs": paragraphs}]}))

    def train(self, *options, data="squad:few.json", status=0):
        return self.run_quern("train", "bert-tiny", "--data", data, "--wordpiece", "words.txt",
                              "--json", *SMALL, *options, status=status)


class Training(Answering):
    @quern.numbers
    def test_learns(self):
        """12 questions, more rows: a passage is looked at through windows."""
        run = self.train("--steps", 120, "--save", "w.q", data="squad:few.json,few.json")
        losses = [event["loss"] for event in run.of("step")]
        self.assertLess(losses[-1], 0.5 * losses[0])
        done = run.of("done")[0]
        self.assertGreater(done["test_exact_match"], 0.25)
        self.assertGreaterEqual(done["test_f1"], done["test_exact_match"])

    def test_resume(self):
        """The same bits as in one go, over the ends of epochs, whatever the threads."""
        for extra in ((), ("--accumulate", 2)):
            self.train("--steps", 20, "--schedule-steps", 20, "--save", "whole.q", "--threads", 2,
                       *extra)
            self.train("--steps", 9, "--schedule-steps", 20, "--save", "part.q", "--override", *extra)
            (self.folder / "words.txt").rename(self.folder / "away.txt")
            self.run_quern("train", "bert-tiny", "--resume", "part.q", "--steps", 20, "--save",
                           "part.q", "--threads", 1)
            (self.folder / "away.txt").rename(self.folder / "words.txt")
            self.assertEqual(self.bytes_of("whole.q"), self.bytes_of("part.q"))

    def test_evaluate(self):
        done = self.train("--steps", 10, "--save", "w.q", data="squad:few.json,few.json"
                          ).of("done")[0]
        (self.folder / "words.txt").unlink()  # the checkpoint has it
        for batch in (1, 5):
            event = self.run_quern("evaluate", "bert-tiny", "--weights", "w.q", "--batch", batch,
                                   "--json").events[0]
            self.assertEqual(event["samples"], 12)
            self.assertEqual(event["exact_match"], done["test_exact_match"])
            self.assertAlmostEqual(event["f1"], done["test_f1"], places=12)
            self.assertAlmostEqual(event["loss"], done["test_loss"], places=5)

    def test_without_answers(self):
        """v2.0: a network that learns that there never is an answer says so."""
        text = "Otto sold a box of candles at the fish market."
        self.write("none.json", [entry(f"What did {name} buy?", text)
                                 for name in ("Mara", "Ilse", "Greta", "Otto")])
        self.train("--steps", 40, "--save", "w.q", data="squad:none.json")
        event = self.run_quern("evaluate", "bert-tiny", "--weights", "w.q", "--split", "train",
                               "--json").events[0]
        self.assertEqual((event["exact_match"], event["f1"]), (1, 1))
        run = self.run_quern("sample", "bert-tiny", "--weights", "w.q", "--prompt",
                             "What did Mara buy?", "--context", text)
        self.assertEqual(run.output, "(no answer)\n")

    def test_synthetic(self):
        run = self.run_quern("train", "bert-tiny", "--data", "synthetic", "--batch", 4, "--steps",
                             60, "--warmup", 10, "--no-test", "--no-samples", "--json", "--save",
                             "w.q")
        losses = [event["loss"] for event in run.of("step")]
        self.assertLess(losses[-1], losses[0])
        self.run_quern("evaluate", "bert-tiny", "--weights", "w.q")


class Asking(Answering):
    def setUp(self):
        super().setUp()
        self.train("--steps", 5, "--save", "w.q")

    def ask(self, *options, status=0):
        return self.run_quern("sample", "bert-tiny", "--weights", "w.q", *options, status=status)

    def test_asks(self):
        (self.folder / "few.json").unlink()  # asking needs the checkpoint alone
        context = "Zoë, a weaver, bought\n a lantern. " * 20
        answer = self.ask("--prompt", "What did Zoë buy?", "--context", context).output
        self.assertIn(answer.rstrip("\n"), context)
        self.assertEqual(answer, self.ask("--prompt", "What did Zoë buy?", "--context", context,
                                          "--threads", 1).output)
        self.assertEqual(self.ask("--prompt", "What?", "--context", " ").output, "(no answer)\n")

    def test_shows_data(self):
        run = self.ask("--count", 2)
        self.assertEqual(run.output.count("question: "), 2)
        self.assertEqual(run.output.count("right:    "), 2)

    def test_refusals(self):
        self.fails(1, "sample", "bert-tiny", "--weights", "w.q", "--prompt", "What?",
                   says=("--context",))
        (self.folder / "few.json").unlink()
        self.fails(1, "sample", "bert-tiny", "--weights", "w.q", says=("few.json",))


class Refusals(Answering):
    def refused(self, data, *says, status=1):
        self.fails(status, "train", "bert-tiny", "--data", data, "--wordpiece", "words.txt",
                   says=says)

    def test_broken_files(self):
        broken = entry("What?", "a lantern", "lantern")
        broken["qas"][0]["answers"][0]["answer_start"] = 3
        self.write("place.json", [entry("What?", "a lantern", "lantern"), broken])
        text = (self.folder / "few.json").read_text()
        (self.folder / "cut.json").write_text(text[:200])
        (self.folder / "empty.json").write_text("")
        self.refused("squad:cut.json", "cut.json: line 1, column ")
        self.refused("squad:empty.json", "empty.json", "empty")
        self.refused("squad:place.json",
                     "place.json: data[0].paragraphs[1].qas[0].answers[0].answer_start")
        self.refused("squad:few.json,none.json", "none.json")
        self.refused("squad:place.json", status=1)
        self.refused("text:few.json", "squad:TRAIN", status=2)

    def test_vocabularies(self):
        self.fails(2, "train", "bert-tiny", "--data", "squad:few.json", says=("--wordpiece",))
        self.fails(2, "train", "bert-tiny", "--data", "synthetic", "--wordpiece", "words.txt",
                   says=("leave --wordpiece out",))
        (self.folder / "words.txt").write_text("[PAD]\nhouse\n")
        self.refused("squad:few.json", "words.txt: no line is [UNK]")

    def test_lengths(self):
        self.fails(2, "train", "bert-tiny", "--data", "synthetic", "--length", 10, says=("16",))
        self.fails(2, "train", "bert-tiny", "--data", "synthetic", "--length", 513, says=("512",))

    def test_kept(self):
        """A file that breaks leaves the checkpoint as it is."""
        self.train("--steps", 3, "--save", "w.q")
        before = self.bytes_of("w.q")
        (self.folder / "few.json").write_text('{"data": [')
        self.fails(1, "train", "bert-tiny", "--resume", "w.q", "--save", "w.q", "--steps", 6,
                   says=("line 1",))
        self.assertEqual(before, self.bytes_of("w.q"))


class Questions(Answering):
    def test_made_anew(self):
        """The set that ships is what its script makes."""
        subprocess.run([sys.executable, QUESTIONS / "make_questions.py", self.folder / "."],
                       check=True)
        for name in ("questions.json", "words.txt"):
            self.assertEqual(self.bytes_of(name), (QUESTIONS / name).read_bytes())


if __name__ == "__main__":
    unittest.main()
