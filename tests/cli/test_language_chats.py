#!/usr/bin/python3
"""Conversations: the tokens that the model's chat template writes, the loss on answers and on the mark that ends them
beside a network written with numpy, answers that are drawn, and what is refused."""
import json
import unittest

import numpy as np

import quern
from test_language_runs import logits_of, values_of
import language_files as made

TEMPLATE = ("{% for m in messages %}{{ '<s>' if m.role == 'user' else '<t>' }}{{ m.content | trim }}"
            "{% if m.role == 'assistant' %}</s>{% endif %}{% endfor %}{% if add_generation_prompt %}<t>{% endif %}")


def chat(*contents):
    return {"messages": [{"role": "user" if i % 2 == 0 else "assistant", "content": text}
                         for i, text in enumerate(contents)]}


class Chats(quern.Case):
    def setUp(self):
        super().setUp()
        self.make(TEMPLATE)

    def make(self, template):
        tokens = ["<s>", "<t>", "</s>"] + [chr(ord("a") + i) for i in range(26)] + ["\u0120", "\u010a", "ab", "cd"]
        tokens += [f"<unused{i}>" for i in range(40 - len(tokens))]
        self.tokens = tokens
        pairs = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens,
                 "tokenizer.ggml.merges": ["a b", "c d"], "tokenizer.ggml.token_type": [3, 3, 3] + 30 * [1] + 7 * [5],
                 "tokenizer.ggml.eos_token_id": 2, "tokenizer.ggml.bos_token_id": 0}
        if template:
            pairs["tokenizer.chat_template"] = template
        self.tensors = made.tame_tensors("Q8_0")
        (self.folder / "m.gguf").write_bytes(made.gguf(made.LLAMA | pairs, self.tensors))

    def write(self, *lines):
        text = "".join((line if isinstance(line, str) else json.dumps(line)) + "\n" for line in lines)
        (self.folder / "c.jsonl").write_text(text)

    def evaluate(self, *options):
        run = self.run_quern("evaluate", "m.gguf", "--data", "chat:c.jsonl", "--json", *options)
        return run.of("evaluation")[0]

    def loss_of(self, pieces):
        """Pieces of tokens, with whether they are learned."""
        number = {text: i for i, text in enumerate(self.tokens)}
        tokens, learned = [], []
        for piece, is_learned in pieces:
            tokens += [number[token] for token in piece]
            learned += len(piece) * [is_learned]
        rows = logits_of(values_of(self.tensors), tokens[:-1])
        rows = rows - rows.max(-1, keepdims=True)
        losses = np.log(np.exp(rows).sum(-1)) - rows[np.arange(len(tokens) - 1), tokens[1:]]
        return [loss for loss, is_learned in zip(losses, learned[1:]) if is_learned]

    def test_answers(self):
        """The answers and the marks behind them alone count, whatever the form of the line."""
        self.write(chat("  abc ", "cd x", "e", "ab"), {"prompt": "ab", "completion": "cd"}, {"text": "abcd"})
        wanted = self.loss_of([(["<s>", "ab", "c", "<t>"], False), (["cd", "\u0120", "x", "</s>"], True),
                               (["<s>", "e", "<t>"], False), (["ab", "</s>"], True)])
        wanted += self.loss_of([(["ab"], False), (["cd", "</s>"], True)])
        wanted += self.loss_of([(["ab", "cd", "</s>"], True)])
        found = self.evaluate("--length", 64)
        self.assertEqual(found["samples"], 6 + 2 + 2)
        self.assertAlmostEqual(found["loss"], np.mean(wanted), delta=2e-5)

    def test_trained(self):
        """Training lowers the loss of the answers; conversations longer than a row are cut, and it says so."""
        self.write(*[chat("abc", "dcba dcba dcba", "q", "zz") for _ in range(40)])
        before = self.evaluate("--length", 32)["loss"]
        self.run_quern("train", "m.gguf", "--data", "chat:c.jsonl", "--lora", "rank=4", "--lr", 0.02, "--epochs", 4,
                       "--length", 32, "--save", "a.st", "--json")
        after = self.evaluate("--length", 32, "--weights", "a.st", "--split", "train")["loss"]
        self.assertLess(after, before - 0.3)
        run = self.run_quern("evaluate", "m.gguf", "--data", "chat:c.jsonl", "--length", 5)
        self.assertIn("40 conversations are longer than a row of 5 tokens", run.errors)

    def test_asked(self):
        """A question is written in the template; only the answer appears."""
        run = self.run_quern("sample", "m.gguf", "--chat", "--prompt", "abc", "--tokens", 5, "--temperature", 0)
        plain = self.run_quern("sample", "m.gguf", "--prompt", "<s>abc<t>", "--tokens", 5, "--temperature", 0)
        self.assertEqual("<s>abc<t>" + run.output, plain.output)
        self.assertIn("--chat needs a --prompt", self.run_quern("sample", "m.gguf", "--chat", status=2).errors)

    def refused(self, *lines):
        self.write(*lines)
        return self.run_quern("evaluate", "m.gguf", "--data", "chat:c.jsonl", status=1).errors

    def test_refused(self):
        good = chat("a", "b")
        self.assertIn("c.jsonl, line 3: it is no JSON object", self.refused(good, "", "{"))
        self.assertIn("line 2: no message is of the role", self.refused(good, chat("a")))
        self.assertIn("has no conversation", self.refused("", " "))
        self.make("{{ raise_exception('only one turn') if messages | length > 2 }}")
        self.assertIn("line 1: the chat template, line 1: it refuses the conversation: only one turn",
                      self.refused(chat("a", "b", "c", "d")))
        self.assertIn("leaves the answers out", self.refused(good))
        self.make("{% macro a() %}{% endmacro %}")
        errors = self.refused(good)
        self.assertIn('the statement "macro" is not known', errors)
        self.assertIn('"prompt", "completion"', errors)
        self.make(None)
        self.assertIn("has no chat template", self.refused(good))
        self.write({"prompt": "ab", "completion": "cd"})
        self.assertEqual(self.evaluate()["samples"], 2)


if __name__ == "__main__":
    unittest.main()
