#!/usr/bin/python3
"""Language models from files at work: measured and drawn from beside a network written with numpy in double, adapters
trained, resumed and loaded, and what is refused. The model is made here, by rule."""
import json
import math
import os
import struct
import unittest

import numpy as np

import language_files as made
import quern

TEXT = "abc dab cab aebf dgaf " * 60


def values_of(tensors):
    return {name: made.widen(kind, data).astype(np.float64).reshape(shape)
            for name, (kind, shape, data) in tensors.items()}


def logits_of(w, tokens, base=10000.0, heads=2, width=16):
    """A Llama of GGUF's: pairs of neighbours are turned."""
    norm = lambda x, scale: x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * scale
    n = len(tokens)
    angles = np.arange(n)[:, None] * base ** (-2 * np.arange(width // 2) / width)

    def turn(x):
        pairs = x.reshape(n, -1, width // 2, 2)
        c, s = np.cos(angles)[:, None], np.sin(angles)[:, None]
        a, b = pairs[..., 0], pairs[..., 1]
        return np.stack([a * c - b * s, a * s + b * c], -1).reshape(n, -1, width)

    x = w["token_embd.weight"][tokens]
    for i in range(2):
        of = lambda name: w[f"blk.{i}.{name}.weight"]
        y = norm(x, of("attn_norm"))
        q, k = turn(y @ of("attn_q").T), turn(y @ of("attn_k").T)
        v = (y @ of("attn_v").T).reshape(n, -1, width)
        weights = np.einsum("thd,ud->htu", q, k[:, 0]) / math.sqrt(width)
        weights = np.where(np.tri(n) > 0, weights, -np.inf)
        weights = np.exp(weights - weights.max(-1, keepdims=True))
        weights /= weights.sum(-1, keepdims=True)
        x = x + np.einsum("htu,ud->thd", weights, v[:, 0]).reshape(n, -1) @ of("attn_output").T
        y = norm(x, of("ffn_norm"))
        gate = y @ of("ffn_gate").T
        x = x + (gate / (1 + np.exp(-gate)) * (y @ of("ffn_up").T)) @ of("ffn_down").T
    return norm(x, w["output_norm.weight"]) @ w["token_embd.weight"].T


def losses_of(w, tokens, length):
    losses = []
    for begin in range(0, len(tokens) - 1, length):
        inputs, labels = tokens[begin:begin + length], tokens[begin + 1:begin + length + 1]
        rows = logits_of(w, inputs)[:len(labels)]
        rows = rows - rows.max(-1, keepdims=True)
        losses += list(np.log(np.exp(rows).sum(-1)) - rows[np.arange(len(labels)), labels])
    return losses


def read_adapters(path):
    """The pairs and tensors of a GGUF file of texts and floats."""
    with open(path, "rb") as file:
        data = file.read()
    at = 24
    magic, version, n_tensors, n_pairs = struct.unpack_from("<4sIQQ", data)
    assert (magic, version) == (b"GGUF", 3)
    pairs, tensors = {}, {}

    def take(form):
        nonlocal at
        found = struct.unpack_from("<" + form, data, at)
        at += struct.calcsize("<" + form)
        return found

    def take_text():
        return take(f"{take('Q')[0]}s")[0].decode()
    for _ in range(n_pairs):
        key = take_text()
        pairs[key] = take_text() if take("I")[0] == 8 else take("f")[0]
    places = {}
    for _ in range(n_tensors):
        name = take_text()
        shape = take(f"{take('I')[0]}Q")[::-1]
        kind, offset = take("IQ")
        assert kind == 0 and offset % 32 == 0
        places[name] = shape, offset
    begin = at + -at % 32
    for name, (shape, offset) in places.items():
        count = int(np.prod(shape))
        tensors[name] = np.frombuffer(data, "<f4", count, begin + offset).reshape(shape).astype(np.float64)
    return pairs, tensors


def names_of(path):
    with open(path, "rb") as file:
        return set(json.loads(file.read(int.from_bytes(file.read(8), "little"))))


class LanguageRuns(quern.Case):
    def setUp(self):
        super().setUp()
        self.make("m.gguf")
        (self.folder / "t.txt").write_text(TEXT)

    def make(self, name, kind="Q8_0", **pairs):
        self.tensors = made.tame_tensors(kind)
        pairs = {key.replace("__", "."): of for key, of in pairs.items()}
        (self.folder / name).write_bytes(made.gguf(made.LLAMA | made.TOKENIZER | pairs, self.tensors))

    def tokens_of(self, name):
        return self.run_quern("tokens", "m.gguf", name, "--json").events[0]["tokens"]

    def evaluate(self, *options):
        return self.run_quern("evaluate", "m.gguf", "--json", *options).of("evaluation")[0]

    def train(self, *options, status=0):
        return self.run_quern("train", "m.gguf", "--data", "text:t.txt", "--length", 24, "--batch", 3, "--json",
                              *options, status=status)

    def test_measured(self):
        tokens, w = self.tokens_of("t.txt"), values_of(self.tensors)
        for length in (7, 24, 128):
            losses = losses_of(w, tokens, length)
            found = self.evaluate("--data", "text:t.txt", "--length", length)
            self.assertEqual(found["samples"], len(tokens) - 1)
            self.assertAlmostEqual(found["loss"], np.mean(losses), delta=2e-5)
            self.assertAlmostEqual(found["perplexity"], math.exp(np.mean(losses)), delta=1e-3)
            first = 1 if length else 0
            bits = sum(losses) / math.log(2) / (len(TEXT) - first)
            self.assertAlmostEqual(found["bits_per_byte"], bits, delta=0.01 * bits)

    def test_lost_bytes(self):
        """A byte-level vocabulary without the byte of 'z' loses it, says so, and measures what is left."""
        tokens = [chr(ord("a") + i) for i in range(25)] + ["\u0120", "\u010a", *("ab", "cd", "ef")]
        tokens += [f"<unused{i}>" for i in range(40 - len(tokens))]
        self.make("m.gguf", tokenizer__ggml__model="gpt2", tokenizer__ggml__pre="gpt-2", tokenizer__ggml__tokens=tokens,
                  tokenizer__ggml__merges=["a b", "c d", "e f"], tokenizer__ggml__token_type=30 * [1] + 10 * [5])
        (self.folder / "z.txt").write_text("ab cdz efz" * 9)
        (self.folder / "y.txt").write_text(("ab cdz efz" * 9).replace("z", ""))
        found = [self.run_quern("evaluate", "m.gguf", "--data", f"text:{name}.txt", "--json") for name in "zy"]
        self.assertIn("18 bytes of the text have no token", found[0].errors)
        self.assertNotIn("no token", found[1].errors)
        figures = [run.of("evaluation")[0] for run in found]
        bits = [f["bits_per_byte"] * (8 * 9 - len("ab")) / (f["samples"] * f["loss"] / math.log(2)) for f in figures]
        self.assertAlmostEqual(bits[0], 1, places=6)
        self.assertAlmostEqual(bits[1], 1, places=6)

    def test_layers(self):
        """Layers run again by default where feature maps are most of the memory: equal bits in less of it, and the
        header says so."""
        common = ("--data", "text:t.txt", "--lora", "rank=4", "--length", 64, "--batch", 12)
        found = {}
        for how in ("layers", "little", None):
            run = self.run_quern("train", "m.gguf", *common, "--steps", 2, "--save", f"{how}.st",
                                 *(("--recompute", how) if how else ()))
            self.assertEqual("layers run again" in run.output, how != "little", how)
            plan = self.run_quern("plan", "m.gguf", *common, "--json", *(("--recompute", how) if how else ()))
            found[how] = plan.events[0]["peak_bytes"]
        self.assertEqual(found[None], found["layers"])
        self.assertLess(found["layers"], 0.8 * found["little"])
        self.assertEqual(*((self.folder / f"{how}.st").read_bytes() for how in ("layers", "little")))

    def test_drawn(self):
        """The likeliest tokens, read one by one behind those that are kept, are those of the whole text."""
        w, prompt = values_of(self.tensors), "abc dab cab aebf dgaf abc dab cab"
        (self.folder / "p.txt").write_text(prompt)
        tokens, wanted = self.tokens_of("p.txt"), prompt
        texts = made.TOKENIZER["tokenizer.ggml.tokens"]
        for _ in range(24):
            row = logits_of(w, tokens)[-1]
            best = np.sort(row)[-2:]
            self.assertGreater(best[1] - best[0], 1e-4)
            tokens = tokens + [int(row.argmax())]
            wanted += texts[tokens[-1]].replace("\u2581", " ")
        found = self.run_quern("sample", "m.gguf", "--prompt", prompt, "--tokens", 24, "--temperature", 0)
        self.assertEqual(found.output, wanted + "\n")
        lines = self.run_quern("sample", "m.gguf", "--prompt", prompt, "--tokens", 24, "--temperature", 0, "--json")
        self.assertEqual("\n".join(e["text"] for e in lines.of("sample")), wanted)
        stop = wanted[len(prompt) + 5:len(prompt) + 8]
        cut = wanted[:len(prompt)] + wanted[len(prompt):].split(stop)[0]
        found = self.run_quern("sample", "m.gguf", "--prompt", prompt, "--tokens", 24, "--temperature", 0, "--stop", stop)
        self.assertEqual(found.output, cut + "\n")

    def test_chances(self):
        draw = lambda *options: self.run_quern("sample", "m.gguf", "--prompt", "abc", "--tokens", 30, *options).output
        greedy = draw("--temperature", 0)
        self.assertEqual(draw("--top-k", 1), greedy)
        self.assertEqual(draw("--top-p", 1e-6), greedy)
        self.assertEqual(draw("--seed", 5), draw("--seed", 5, "--threads", 1))
        self.assertNotEqual(draw("--seed", 5), draw("--seed", 6))
        self.assertNotEqual(draw("--temperature", 0, "--repetition-penalty", 9), greedy)

    def test_adapters(self):
        """Training lowers the loss, goes on with the same bits, and its file belongs to the model."""
        before = self.evaluate("--data", "text:t.txt", "--split", "test", "--length", 24)["loss"]
        lora = ("--lora", "rank=4", "--lr", 0.01, "--warmup", 0)
        whole = self.train(*lora, "--steps", 12, "--save", "whole.st", "--threads", 2)
        self.train(*lora, "--steps", 5, "--schedule-steps", 12, "--save", "part.st", "--threads", 1)
        self.run_quern("train", "m.gguf", "--resume", "part.st", "--lora", "rank=4", "--steps", 12, "--save", "part.st")
        self.assertEqual(quern.weights_of(self.folder / "whole.st"), quern.weights_of(self.folder / "part.st"))
        after = self.evaluate("--weights", "whole.st")["loss"]
        self.assertAlmostEqual(after, whole.of("done")[0]["test_loss"], places=6)
        self.assertLess(after, before - 0.3)
        names = names_of(self.folder / "whole.st")
        self.assertIn("blk.1.ffn_down.lora_b.weight", names)
        self.assertNotIn("blk.1.ffn_down.weight", names)
        self.fails(1, "merge", "m.gguf", "--weights", "whole.st", "--out", "merged.st", says=("is not merged",))
        self.assertFalse((self.folder / "merged.st").exists())
        os.rename(self.folder / "m.gguf", self.folder / "n.gguf")
        again = self.run_quern("evaluate", "n.gguf", "--weights", "whole.st", "--json").of("evaluation")[0]
        self.assertEqual(again["loss"], after)
        drawn = [self.run_quern("sample", "n.gguf", *more, "--prompt", "abc ", "--tokens", 20, "--temperature", 0).output
                 for more in ((), ("--weights", "whole.st"))]
        self.assertNotEqual(drawn[0], drawn[1])

    def test_exported(self):
        """W + alpha / rank B A, by the adapters of the file, gives the loss that quern gives."""
        self.train("--lora", "rank=4,alpha=6", "--lr", 0.01, "--warmup", 0, "--steps", 8, "--save", "a.st", "--no-test")
        for _ in range(2):  # again: its own file is replaced
            self.run_quern("export", "m.gguf", "--weights", "a.st", "--out", "a.gguf")
        pairs, adapters = read_adapters(self.folder / "a.gguf")
        self.assertTrue(pairs.pop("quern.version"))
        self.assertEqual(pairs, {"general.type": "adapter", "general.architecture": "llama", "adapter.type": "lora",
                                 "adapter.lora.alpha": 6.0})
        w = values_of(self.tensors)
        for name in [n for n in w if n + ".lora_a" in adapters]:
            w[name] = w[name] + 6 / 4 * adapters[name + ".lora_b"] @ adapters[name + ".lora_a"]
        self.assertEqual(len(adapters), 2 * 14)
        losses = losses_of(w, self.tokens_of("t.txt"), 24)
        (self.folder / "u.txt").write_text(TEXT)
        found = self.evaluate("--weights", "a.st", "--data", "text:u.txt", "--length", 24)
        self.assertEqual(found["samples"], len(losses))
        self.assertAlmostEqual(found["loss"], np.mean(losses), delta=5e-5)
        plain = losses_of(values_of(self.tensors), self.tokens_of("t.txt"), 24)
        self.assertGreater(abs(np.mean(plain) - np.mean(losses)), 0.01)
        self.fails(2, "export", "m.gguf", "--weights", "a.st", "--out", "a.onnx", says=("FILE.gguf",))
        self.fails(2, "export", "m.gguf", "--out", "b.gguf", says=("only adapters are exported",))

    def test_parts(self):
        for part, there, missing in (("attn", "attn_q", "ffn_up"), ("mlp", "ffn_up", "attn_q")):
            self.train("--lora", f"rank=2,layers={part}", "--steps", 1, "--save", f"{part}.st", "--no-test")
            names = names_of(self.folder / f"{part}.st")
            self.assertIn(f"blk.0.{there}.lora_a.weight", names)
            self.assertNotIn(f"blk.0.{missing}.lora_a.weight", names)

    def test_all_weights(self):
        self.make("m.gguf", "F32")
        self.train("--steps", 3, "--save", "full.st")
        self.assertIn("token_embd.weight", names_of(self.folder / "full.st"))
        self.assertGreater(self.evaluate("--weights", "full.st")["samples"], 0)

    def test_budget(self):
        """Equal bits in less memory."""
        lora = ("--lora", "rank=4", "--steps", 2)
        free = self.train(*lora, "--save", "a.st")
        plan = self.run_quern("plan", "m.gguf", "--data", "text:t.txt", "--lora", "rank=4", "--length", 24, "--batch", 3,
                              "--json")
        self.assertTrue(plan.events)
        self.train(*lora, "--save", "b.st", "--micro-batch", 1)
        self.train(*lora, "--save", "c.st", "--memory", "2M")
        self.assertEqual(quern.weights_of(self.folder / "a.st"), quern.weights_of(self.folder / "c.st"))
        self.assertIn("a budget of", self.train(*lora, "--no-save", "--memory", "100K", status=1).errors)
        self.assertEqual(quern.weights_of(self.folder / "a.st"), quern.weights_of(self.folder / "b.st"))
        self.assertTrue(free.of("done"))

    def test_refused(self):
        says = lambda *words, of, status=2: self.fails(status, *words, says=(of,))
        train = ("train", "m.gguf", "--data", "text:t.txt")
        says(*train, of="--lora rank=8")
        says(*train, "--lora", "rank=2", "--length", 999, of="was made for 128")
        (self.folder / "one.txt").write_text("a")
        says("train", "m.gguf", "--data", "text:one.txt", "--lora", "rank=2", of="no text to learn from", status=1)
        says("sample", "m.gguf", "--prompt", "abc", "--tokens", 500, of="opened for 128 in all", status=1)
        says("sample", "m.gguf", "--characters", 5, of="--characters is not for")
        says("sample", "m.gguf", of="give a --prompt", status=1)
        self.make("big.gguf", tokenizer__ggml__tokens=[*made.TOKENIZER["tokenizer.ggml.tokens"], "x1"],
                  tokenizer__ggml__scores=[float(-i) for i in range(41)], tokenizer__ggml__token_type=[2] + 40 * [1])
        says("evaluate", "big.gguf", "--data", "text:t.txt", of="41 tokens, and its embedding 40 rows", status=1)
        self.make("other.gguf", llama__rope__scaling__type="yarn")
        says("evaluate", "other.gguf", "--data", "text:t.txt", of="yarn", status=1)


if __name__ == "__main__":
    unittest.main()
