#!/usr/bin/python3
"""Writes questions.json, 200 questions on passages in the format of SQuAD v1.1, and words.txt, a
WordPiece vocabulary for them, into the folder of this script or the one that is named.

Every sentence is put together here from patterns and words of our own, drawn by a generator that
gives the same numbers everywhere."""

import collections
import json
import pathlib
import sys

N_PASSAGES, N_QUESTIONS_EACH = 50, 4
N_WHOLE_WORDS = 150

PEOPLE = ("Mara", "Otto", "Zoë", "Ilse", "Bruno", "Anaïs", "Pavel", "Greta", "Tomás", "Runa",
          "Viktor", "Selma", "Jonas", "Beatriz", "Casimir", "Dorothea")
TOWNS = ("Lindholm", "Port Sella", "Agrafa", "Old Mirny", "Quillbrook", "São Telo", "Verden",
         "Hartmoor", "Castelbruno", "Neuwald")
THINGS = ("a copper kettle", "three wooden masks", "a map of the harbour", "two silver spoons",
          "a box of candles", "a blue bicycle", "forty clay tiles", "an old violin",
          "a sack of barley", "a glass lantern", "seven woollen blankets", "a broken compass")
PLACES = ("the night market", "the railway station", "the old mill", "the stone bridge",
          "the town library", "the fish market", "the eastern gate", "the school garden")
TIMES = ("on Monday morning", "in the spring of 1921", "at half past six", "in late October",
         "on the first day of the fair", "during the long winter", "at noon", "in March 1874")
TRADES = ("baker", "clockmaker", "ferryman", "teacher", "carpenter", "weaver", "beekeeper",
          "surveyor", "printer", "glazier")
REASONS = ("the river had frozen", "the roof was leaking", "the harvest had failed",
           "her brother was ill", "the road was closed", "the bells would not stop")
REMARKS = ("It rained all day, and the streets were empty.",
           "A cold wind blew from the sea.",
           "Nobody in the town had expected visitors.",
           "The shops closed early that day; only the inn stayed open.",
           "Children ran along the wall and shouted to the boats.")


class Draw:
    """A linear congruential generator (Knuth's constants); its upper bits."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) % n

    def one(self, items):
        return items[self.below(len(items))]

    def several(self, items, n):
        items = list(items)
        return [items.pop(self.below(len(items))) for _ in range(n)]


def facts(draw, n_remarks):
    """Two people's stories: sentences, and pairs of a question and its answer."""
    first, second = draw.several(PEOPLE, 2)
    towns, things = draw.several(TOWNS, 2), draw.several(THINGS, 2)
    places, times = draw.several(PLACES, 2), draw.several(TIMES, 2)
    trade, reason, price = draw.one(TRADES), draw.one(REASONS), 3 + draw.below(90)
    sentences = [
        f"{first}, a {trade} from {towns[0]}, bought {things[0]} at {places[0]} {times[0]}.",
        f"The seller asked for {price} crowns.",
        *draw.several(REMARKS, n_remarks),
        f"{second} carried {things[1]} to {towns[1]} {times[1]}, because {reason}.",
        f"They met at {places[1]} and told each other the story.",
    ]
    pairs = [
        (f"What did {first} buy?", things[0]),
        (f"Where did {first} buy {things[0]}?", places[0]),
        (f"When did {first} go to {places[0]}?", times[0]),
        (f"What was the trade of {first}?", trade),
        (f"Which town was {first} from?", towns[0]),
        ("How much did the seller want?", f"{price} crowns"),
        (f"What did {second} carry?", things[1]),
        (f"Who carried {things[1]}?", second),
        (f"To which town did {second} go?", towns[1]),
        (f"Why did {second} carry {things[1]} there?", reason),
        ("Where did they meet?", places[1]),
    ]
    return sentences, pairs


def make_passage(number):
    draw = Draw(number + 1)
    # Every fifth is much longer than a row of 64 tokens.
    sentences, pairs = facts(draw, 4 if number % 5 == 0 else 1)
    context = " ".join(sentences)
    questions = []
    for question, answer in draw.several(pairs, N_QUESTIONS_EACH):
        questions.append({"id": f"{number}-{len(questions)}", "question": question,
                          "answers": [{"text": answer, "answer_start": context.index(answer)}]})
    return {"context": context, "qas": questions}


def words_of(text):
    """The words of the basic tokenizer for the letters that are used here."""
    plain = "".join({"ë": "e", "ï": "i", "á": "a", "ã": "a"}.get(c, c) for c in text.lower())
    return "".join(c if c.isalnum() else f" {c} " for c in plain).split()


def make_words(passages):
    """Marks, characters, the most frequent words, and those characters inside words."""
    counts = collections.Counter()
    for passage in passages:
        counts.update(words_of(passage["context"]))
        for question in passage["qas"]:
            counts.update(words_of(question["question"]))
    characters = sorted({c for word in counts for c in word})
    whole = sorted((w for w in counts if len(w) > 1), key=lambda w: (-counts[w], w))
    inside = [f"##{c}" for c in characters if c.isalnum()]
    return (["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"] + characters + whole[:N_WHOLE_WORDS]
            + inside + ["##ing", "##er", "##ed", "##st"])


def main(folder):
    passages = [make_passage(number) for number in range(N_PASSAGES)]
    data = [{"title": f"Stories {i // 10 + 1}", "paragraphs": passages[i:i + 10]}
            for i in range(0, N_PASSAGES, 10)]
    text = json.dumps({"version": "1.1", "data": data}, ensure_ascii=False, indent=1)
    (folder / "questions.json").write_text(text + "\n", encoding="utf-8")
    words = "".join(f"{word}\n" for word in make_words(passages))
    (folder / "words.txt").write_text(words, encoding="utf-8")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else __file__ + "/..").resolve())
