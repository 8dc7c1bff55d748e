#!/usr/bin/python3
"""quern tokens beside a tokenizer written here from the papers: the split patterns as Python's regular expressions over
the characters of the text, pairs merged one by one. Vocabularies are trained here on a few lines."""
import collections
import json
import os
import re
import unicodedata
import unittest

import language_files as made
import quern

SAMPLE = """The quick brown fox isn't there, they're gone; we'll see it's 12345 times. The the the there.
def f(x):\n    return x ** 2  # ok\n\n\n\t\tint main(void) { return 0; }\r\n
中文字符 一二三 العربية עברית 한국어 हिन्दी ελληνικά Ünïcödé é e\u0301 😀👩\u200d👧🏽 ⅷ ٣٤ ½ \u00a0 x\u3000y\u2028z \x00\x7f\x1b
DON'T I'LL 'S 'ſ 'x ''s ___ ... !!! ?\n\n  \n   word   \n 1 22  333   4444 a1b2 \ufffd \U000e0001 tail   """
TEXT = SAMPLE + SAMPLE.upper() + "  " + SAMPLE[::-1] + "<|end|> in <r> the  <|end|>\n" + 40 * "ab " + 70 * "a" + " \n "
CONTRACTIONS = "'s|'t|'re|'ve|'m|'ll|'d"
PATTERNS = {
    "GPT-2": CONTRACTIONS + r"| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    "Llama 3": f"(?i:{CONTRACTIONS})" + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+",
    "Qwen2": f"(?i:{CONTRACTIONS})" + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
}
SPLITTERS = {"GPT-2": [{"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}],
             "SmolLM": [{"type": "Digits", "individual_digits": True},
                        {"type": "ByteLevel", "add_prefix_space": False, "use_regex": True}]}
for name in ("Llama 3", "Qwen2"):
    SPLITTERS[name] = [{"type": "Split", "pattern": {"Regex": PATTERNS[name]}, "behavior": "Isolated", "invert": False},
                       {"type": "ByteLevel", "add_prefix_space": False, "use_regex": False}]
GGUF_NAMES = {"GPT-2": "gpt-2", "SmolLM": "smollm", "Llama 3": "llama-bpe", "Qwen2": "qwen2"}
SPACES = "\t\n\v\f\r \u0085\u00a0\u1680" + "".join(map(chr, range(0x2000, 0x200b))) + "\u2028\u2029\u202f\u205f\u3000"
BLANK = "\u2581"


def split(pattern, text):
    """The words of a text; \\p{L} and \\p{N} are what of them occurs in it."""
    of = lambda kind: "".join(sorted(re.escape(c) for c in set(text) if unicodedata.category(c)[0] == kind)) or "\ue000"
    spaces = re.escape(SPACES)
    pattern = pattern.replace(r"(?!\S)", f"(?![^{spaces}])").replace(r"\s*", f"[{spaces}]*")
    pattern = re.sub(r"(?<!\[)(?<!\^)\\s\+", lambda _: f"[{spaces}]+", pattern).replace(r"\s", spaces)
    for kind in "LN":
        pattern = re.sub(rf"(\[[^]]*)\\p{{{kind}}}", lambda m: m[1] + of(kind), pattern)
        pattern = pattern.replace(f"\\p{{{kind}}}", f"[{of(kind)}]")
    words = [m[0] for m in re.finditer(pattern, text)]
    assert "".join(words) == text
    return words


def words_of(kind, text):
    if kind == "Qwen2":
        text = unicodedata.normalize("NFC", text)
    if kind != "SmolLM":
        return split(PATTERNS[kind], text)
    pieces = re.split("([\ue000" + "".join(c for c in set(text) if unicodedata.category(c)[0] == "N") + "])", text)
    return [word for piece in pieces if piece for word in split(PATTERNS["GPT-2"], piece)]


def merge(symbols, ranks):
    symbols = list(symbols)
    while True:
        best = min((ranks[pair], i) for i, pair in enumerate(zip(symbols, symbols[1:])) if pair in ranks) \
            if any(pair in ranks for pair in zip(symbols, symbols[1:])) else None
        if best is None:
            return symbols
        symbols[best[1]:best[1] + 2] = [symbols[best[1]] + symbols[best[1] + 1]]


def train(words, n):
    """The n most frequent pairs, one after the other."""
    counts = collections.Counter(map(tuple, words))
    merges = []
    for _ in range(n):
        pairs = collections.Counter()
        for symbols, count in counts.items():
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] += count
        pair = max(pairs, key=lambda p: (pairs[p], p))
        merges.append(pair)
        ranks = {pair: 0}
        counts = collections.Counter({tuple(merge(s, ranks)): c for s, c in counts.items()})
    return merges


def printed():
    """What byte-level vocabularies write bytes as."""
    own = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [b for b in range(256) if b not in own]
    return {bytes([b]): chr(b if b in own else 256 + others.index(b)) for b in range(256)}


class Tokens(quern.Case):
    def tokens(self, model, text):
        data = text if isinstance(text, bytes) else text.encode()
        (self.folder / "text").write_bytes(data)
        return self.run_quern("tokens", model, "text", "--json").events[0]["tokens"]

    def write_json(self, name, root):
        os.makedirs(self.folder / name, exist_ok=True)
        (self.folder / name / "tokenizer.json").write_text(json.dumps(root), encoding="utf-8")

    def byte_level(self, kind):
        """Vocabulary, merges and the reference."""
        to_bytes = lambda word: [bytes([b]) for b in word.encode()]
        merges = train([to_bytes(word) for word in words_of(kind, SAMPLE)], 150)
        texts = sorted(printed()) + [a + b for a, b in merges]
        texts = list(dict.fromkeys(texts)) + ([b" word"] if kind == "Llama 3" else [])
        numbers = {text: i for i, text in enumerate(texts)}
        ranks = {pair: i for i, pair in reversed(list(enumerate(merges)))}
        n = len(texts)

        def encode(text):
            found = []
            for part in re.split(r"(<\|end\|>|\s*<r>\s*)", text):
                if "<r>" in part or part == "<|end|>":
                    found.append(n + (part != "<|end|>"))
                    continue
                for word in words_of(kind, part) if part else []:
                    whole = kind == "Llama 3" and word.encode() in numbers
                    symbols = [word.encode()] if whole else merge(to_bytes(word), ranks)
                    found += [numbers[s] for s in symbols]
            return found

        show = lambda text: "".join(printed()[bytes([b])] for b in text)
        return [show(t) for t in texts], [[show(a), show(b)] for a, b in merges], encode

    def test_byte_level(self):
        for kind, splitters in SPLITTERS.items():
            texts, merges, encode = self.byte_level(kind)
            n = len(texts)
            added = [{"id": n, "content": "<|end|>", "special": True},
                     {"id": n + 1, "content": "<r>", "lstrip": True, "rstrip": True}]
            model = {"type": "BPE", "vocab": {t: i for i, t in enumerate(texts)}, "merges": merges,
                     "ignore_merges": kind == "Llama 3"}
            root = {"added_tokens": added, "model": model, "pre_tokenizer": {"type": "Sequence", "pretokenizers": splitters},
                    "normalizer": {"type": "NFC"} if kind == "Qwen2" else None}
            self.write_json("new", root)
            model["merges"] = [" ".join(pair) for pair in merges]
            self.write_json("old", root)
            wanted = encode(TEXT)
            self.assertGreater(len(TEXT.encode()), 1.2 * len(wanted))
            for folder in ("new", "old"):
                self.assertEqual(self.tokens(folder, TEXT), wanted, kind)
            pairs = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": GGUF_NAMES[kind],
                     "tokenizer.ggml.tokens": texts + ["<|end|>"], "tokenizer.ggml.token_type": n * [1] + [3],
                     "tokenizer.ggml.merges": model["merges"]}
            (self.folder / "m.gguf").write_bytes(made.gguf(pairs, {}))
            plain = TEXT.replace("<r>", "")
            self.assertEqual(self.tokens("m.gguf", plain), encode(plain), kind)
            broken = b"a\xff\xfe b\xc3" + bytes(range(128, 256))
            listed = self.run_quern("tokens", "m.gguf", "text", "--list").output.split("\n")
            self.assertEqual(len(listed), len(encode(plain)) + 1)
            shown = printed()
            numbers = {t: i for i, t in enumerate(texts)}
            whole = b"".join(next(b for b, c in shown.items() if c == one) for t in self.tokens("m.gguf", broken)
                             for one in texts[t])
            self.assertEqual(whole, broken)
            self.assertEqual(len(numbers), n)

    def sentence_piece(self):
        words = ["".join(w) for w in re.findall(f"{BLANK}*[^{BLANK}]*", SAMPLE.replace(" ", BLANK)) if w]
        merges = train(words, 120)
        alphabet = sorted({c for c in SAMPLE.replace(" ", BLANK) if c < "\u0500" and c not in "\n\0"} | {BLANK})
        merges = [(a, b) for a, b in merges if all(c in alphabet for c in a + b)]
        texts = ["<unk>", "<s>"] + [f"<0x{b:02X}>" for b in range(256)] + alphabet
        texts = list(dict.fromkeys(texts + [a + b for a, b in merges]))
        numbers = {t: i for i, t in enumerate(texts)}
        scores = len(texts) * [0.0]
        for i, (a, b) in enumerate(merges):
            scores[numbers[a + b]] = min(scores[numbers[a + b]], -float(i)) if scores[numbers[a + b]] else -float(i)
        return texts, merges, numbers, scores

    def test_sentence_piece(self):
        texts, merges, numbers, scores = self.sentence_piece()
        ranks = {}
        for i, pair in enumerate(merges):
            ranks.setdefault(pair, i)

        def encode(text, prefix, ranks_of=None):
            found = []
            for part in re.split("(<s>)", text):
                if part == "<s>":
                    found.append(1)
                    continue
                part = (prefix if part else "") + part.replace(" ", BLANK)
                for symbol in merge(part, ranks_of or ranks):
                    known = symbol in numbers and not symbol.startswith("<0x")
                    found += [numbers[symbol]] if known else [2 + b for b in symbol.encode()]
            return found

        model = {"type": "BPE", "vocab": numbers, "merges": [list(m) for m in merges], "byte_fallback": True,
                 "unk_token": "<unk>", "fuse_unk": True}
        blanks = {"type": "Replace", "pattern": {"String": " "}, "content": BLANK}
        added = [{"id": 1, "content": "<s>", "special": True}]
        text = "of <s>" + TEXT.replace("\0", "")
        for prefix, normaliser in ((BLANK, {"type": "Sequence",
                                            "normalizers": [{"type": "Prepend", "prepend": BLANK}, blanks]}), ("", blanks)):
            self.write_json("sp", {"added_tokens": added, "model": model, "normalizer": normaliser, "pre_tokenizer": None})
            self.assertEqual(self.tokens("sp", text), encode(text, prefix))
        # A GGUF file has scores in place of merges: any two tokens whose texts together are a token may be merged.
        alike = {(t[:i], t[i:]): -scores[numbers[t]] for t in texts[258:] for i in range(1, len(t))}
        pairs = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": texts, "tokenizer.ggml.scores": scores,
                 "tokenizer.ggml.token_type": [2, 3] + 256 * [6] + (len(texts) - 258) * [1]}
        for prefix in (BLANK, ""):
            pairs["tokenizer.ggml.add_space_prefix"] = bool(prefix)
            (self.folder / "m.gguf").write_bytes(made.gguf(pairs, {}))
            self.assertEqual(self.tokens("m.gguf", text), encode(text, prefix, alike))

    def test_what_is_refused(self):
        base = {"model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}, "pre_tokenizer": SPLITTERS["GPT-2"][0]}

        def refuses(words, **changes):
            self.write_json("bad", base | changes)
            self.fails(1, "tokens", "bad", "bad/tokenizer.json", says=["bad/tokenizer.json", words])

        refuses("WordPiece", model={"type": "WordPiece", "vocab": {}})
        refuses("no vocab", model={"type": "BPE"})
        refuses("no merges", model={"type": "BPE", "vocab": {"a": 0}})
        refuses("empty", model={"type": "BPE", "vocab": {}, "merges": []})
        refuses("merge 1 is not two texts", model={"type": "BPE", "vocab": {"a": 0}, "merges": ["aa"]})
        refuses("no tokens of the vocabulary", model={"type": "BPE", "vocab": {"a": 0}, "merges": ["a a"]})
        refuses("dropout", model=base["model"] | {"dropout": 0.1})
        refuses("inside or at the end", model=base["model"] | {"end_of_word_suffix": "</w>"})
        refuses("far beyond", model={"type": "BPE", "vocab": {"a": 99999}, "merges": []})
        refuses("has two texts", model={"type": "BPE", "vocab": {"a": 0, "b": 0}, "merges": []})
        refuses("Lowercase", normalizer={"type": "Lowercase"})
        refuses("add_prefix_space", pre_tokenizer={"type": "ByteLevel", "add_prefix_space": True})
        refuses("neither ByteLevel", pre_tokenizer=None)
        refuses("Whitespace", pre_tokenizer={"type": "Whitespace"})
        refuses("[a-z]+", pre_tokenizer={"type": "Split", "pattern": {"Regex": "[a-z]+"}, "behavior": "Isolated"})
        refuses("single words", added_tokens=[{"id": 1, "content": "x", "single_word": True}])
        for words, pairs in {"no tokenizer.ggml.tokens": {}, "\"bert\"": {"tokenizer.ggml.model": "bert"},
                             "\"tekken\"": {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "tekken"},
                             "one number for each": {"tokenizer.ggml.model": "llama"}}.items():
            if pairs:
                pairs["tokenizer.ggml.tokens"] = ["a", "b"]
            (self.folder / "m.gguf").write_bytes(made.gguf(pairs, {}))
            self.fails(1, "tokens", "m.gguf", "m.gguf", says=["m.gguf", words])
        self.fails(1, "tokens", "none.gguf", "m.gguf", says=["none.gguf"])


if __name__ == "__main__":
    unittest.main()
