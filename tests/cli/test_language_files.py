#!/usr/bin/python3
"""Language models from elsewhere: every type of block beside numpy, what quern import says of GGUF files and of folders,
and damaged ones. The files are made here, by rule."""
import json
import os
import struct
import subprocess
import unittest

import numpy as np

import language_files as made
import quern

TOOL = os.path.join(os.environ.get("QUERN_TOOLS", "build/release/tests"), "dump_tensor")
READ = ["F32", "F16", "BF16", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q4_K", "Q5_K", "Q6_K"]


class LanguageFiles(quern.Case):
    def write(self, data, name="m.gguf"):
        with open(os.path.join(self.folder, name), "wb") as file:
            file.write(data)

    def quern(self, *words, status=0):
        """status None: any."""
        process = self.start(*words)
        output, errors = process.communicate()
        if status is not None:
            self.assertEqual(process.returncode, status, f"{words}: {output}{errors}")
        return quern.Run(process.returncode, output, errors)

    def report(self, path, status=0):
        done = self.quern("import", path, "--check", "--json", status=status)
        return json.loads(done.output)

    def widened(self, path, name):
        done = subprocess.run([TOOL, path, name], cwd=self.folder, capture_output=True, check=True)
        return np.frombuffer(done.stdout, np.float32)

    def refused(self, data, *words, status=1):
        self.write(data)
        done = self.quern("import", "m.gguf", "--check", status=status)
        for word in words:
            self.assertIn(word, done.output + done.errors)

    def test_every_type_has_the_bits_of_its_format(self):
        tensors = {f"t.{kind}": (kind, (3, 512), made.blocks(kind, 3 * 512)) for kind in READ}
        self.write(made.gguf({"general.architecture": "none"}, tensors))
        for kind in READ:
            wanted = made.widen(kind, tensors[f"t.{kind}"][2])
            self.assertEqual(wanted.dtype, np.float32)
            self.assertTrue(np.isfinite(wanted).all() and len(np.unique(wanted)) > 10, kind)
            got = self.widened("m.gguf", f"t.{kind}")
            self.assertEqual(got.view(np.uint32).tolist(), wanted.view(np.uint32).tolist(), kind)

    def test_a_model_is_described(self):
        for alignment in (32, 8, 4096):
            self.write(made.gguf(made.LLAMA | {"general.alignment": alignment}, made.llama_tensors(), 2, alignment))
            found = self.report("m.gguf")
            self.assertEqual((found["family"], found["layers"], found["vocabulary"], found["tied"], found["problems"]),
                             ("Llama", 2, 40, True, []))
            self.assertEqual({t["type"]: t["tensors"] for t in found["types"]}, {"F32": 5, "Q8_0": 15})
        text = self.quern("import", "m.gguf").output
        self.assertIn("2 heads of width 16, 1 of keys and values", text)
        self.assertIn(": by rule", text)

    def test_folders_of_one_file_and_of_several(self):
        for n_files in (1, 3):
            tensors = made.llama_folder(os.path.join(self.folder, f"f{n_files}"), n_files=n_files)
            found = self.report(f"f{n_files}")
            self.assertEqual((found["kind"], found["family"], found["problems"]), ("folder", "Llama", []))
            for name, (kind, _, data) in tensors.items():
                self.assertTrue(np.array_equal(self.widened(f"f{n_files}", name), made.widen(kind, data)), name)

    def test_what_a_family_does_not_have(self):
        tensors = made.llama_tensors()
        tensors["blk.1.attn_k.weight"] = tensors["blk.1.attn_q.weight"]
        tensors["blk.0.attn_q.bias"] = ("F32", (32,), bytes(128))
        del tensors["blk.0.ffn_up.weight"]
        self.write(made.gguf(made.LLAMA, tensors))
        problems = " ".join(self.report("m.gguf", status=1)["problems"])
        for words in ("blk.1.attn_k.weight is 32x32, and the model's sizes ask for 16x32",
                      "blk.0.attn_q.bias is none that models of the family have",
                      "blk.0.ffn_up.weight is missing"):
            self.assertIn(words, problems)
        self.quern("import", "m.gguf")  # without --check it is a description

    def test_refused_by_name(self):
        tensors = made.llama_tensors()
        tensors["token_embd.weight"] = ("Q2_K", (40, 256), bytes(40 * 84))
        self.refused(made.gguf(made.LLAMA, tensors), "token_embd.weight is of type Q2_K", "Q6_K")
        self.refused(made.gguf(made.LLAMA | {"general.architecture": "mamba"}, {}), "architecture mamba", "Llama, Qwen2")
        self.refused(made.gguf({}, {}), "do not say which architecture")
        self.refused(made.gguf(made.LLAMA | {"split.count": 3}, {}), "one of 3 files", "--merge")
        self.refused(made.gguf(made.LLAMA, {"t": (77, (1,), b"")}), "type 77")
        self.refused(made.gguf(made.LLAMA, {}, version=1), "version 1 of GGUF")
        self.refused(struct.pack(">4sIQQ", b"GGUF", 3, 0, 0), "big-endian")
        self.refused(made.gguf(made.LLAMA | {"llama.attention.head_count_kv": [1, 2]}, {}), "for all layers")
        self.refused(made.gguf(made.LLAMA | {"llama.attention.head_count": 3, "llama.attention.head_count_kv": 2}, {}),
                     "do not share 2 heads")

    def test_damaged_files(self):
        whole = made.gguf(made.LLAMA, made.llama_tensors())
        for at in [4, 7, 20, 23, 30, 100, 500, 1000, 2000, len(whole) // 2, len(whole) - 1]:
            self.refused(whole[:at], "not a valid GGUF file" if at >= 8 else "m.gguf")
        for word, data in {
                "more tensors than fit": struct.pack("<4sIQQ", b"GGUF", 3, 1 << 60, 0),
                "more values than fit": struct.pack("<4sIQQ", b"GGUF", 3, 0, 1 << 60),
                "is there twice": struct.pack("<4sIQQ", b"GGUF", 3, 0, 2) + 2 * (made.text("k") + made.value(1)),
                "longer than the file": struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + made.text("k")
                + struct.pack("<IIQ", 9, 4, 1 << 62),
                "list of lists": struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + made.text("k") + struct.pack("<IIQ", 9, 9, 1),
                "of a kind": struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + made.text("k") + struct.pack("<IQ", 13, 1),
                "empty or has a zero": struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + made.text("") + made.value(1),
                "neither 0 nor 1": struct.pack("<4sIQQ", b"GGUF", 3, 0, 1) + made.text("k") + struct.pack("<IB", 7, 2),
                "no power of two": made.gguf({"general.alignment": 48}, {}),
        }.items():
            self.refused(data, word)
        overlap = made.gguf({}, {"a": ("F32", (64,), bytes(256)), "b": ("F32", (8,), bytes(32))})
        for place, words in ((32, "overlaps"), (33, "multiple of the alignment"), (1 << 40, "outside the file")):
            self.refused(overlap.replace(struct.pack("<QIQ", 8, 0, 256), struct.pack("<QIQ", 8, 0, place)), words)
        self.refused(made.gguf({}, {"a": ("Q8_0", (40,), bytes(68))}), "no multiple of its blocks")
        self.refused(made.gguf({}, {"a": ("F32", (1 << 62, 1 << 62), b"")}), "beyond all bounds")

    def test_damaged_folders(self):
        def folder(name, change=None, **config):
            path = os.path.join(self.folder, name)
            made.llama_folder(path, config=made.CONFIG | config)
            if change:
                index = os.path.join(path, "model.safetensors.index.json")
                with open(index, encoding="utf-8") as file:
                    places = json.load(file)
                change(places["weight_map"])
                with open(index, "w", encoding="utf-8") as file:
                    json.dump(places, file)
            return self.quern("import", name, "--check", status=None)

        def says(done, words):
            self.assertIn(done.status, (1, 2))
            self.assertIn(words, done.output + done.errors)

        last = "model.norm.weight"
        says(folder("a", lambda m: m.update({last: "../model-00001-of-00002.safetensors"})), "no name of a file")
        says(folder("b", lambda m: m.update({last: "none.safetensors"})), "none.safetensors")
        says(folder("c", lambda m: m.pop(last)), "and not listed")
        says(folder("d", lambda m: m.update({"more": "model-00001-of-00002.safetensors"})), "more is not in")
        says(folder("e", lambda m: m.clear()), "no weight_map")
        says(folder("g", model_type="gpt_neox"), "architecture gpt_neox")
        says(folder("h", hidden_size=48), "ask for")
        says(folder("i", tie_word_embeddings=False), "lm_head.weight is missing")
        os.mkdir(os.path.join(self.folder, "empty"))
        says(self.quern("import", "empty", status=None), "no config.json")
        self.write(b"{}", "empty/config.json")
        says(self.quern("import", "empty", status=None), "neither model.safetensors")
        self.write(b"", "empty/pytorch_model.bin")
        says(self.quern("import", "empty", status=None), "safetensors")
        self.write(b"[]", "empty/config.json")
        says(self.quern("import", "empty", status=None), "not a JSON object")

    def test_options_of_onnx_files(self):
        self.write(made.gguf(made.LLAMA, made.llama_tensors()))
        done = self.quern("import", "m.gguf", "--shape", "x=1", status=2)
        self.assertIn("--shape is for ONNX files", done.errors)


if __name__ == "__main__":
    unittest.main()
