#!/usr/bin/env python3
"""Records what transformers makes of small language models whose weights follow a rule.

    bench/language_models.py > tests/torch/language_models.json

It needs PyPI's torch and transformers, which the tests do not: they write the same models by the
rule (tests/torch/language_models.py) and compare quern's logits with those that were recorded."""
import json
import os
import sys
import tempfile

import torch
import transformers

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "torch"))
import language_models  # noqa: E402

COMMON = dict(hidden_size=24, intermediate_size=40, num_hidden_layers=2, num_attention_heads=4,
              num_key_value_heads=2, vocab_size=61, max_position_embeddings=64,
              bos_token_id=1, eos_token_id=2, pad_token_id=0)

LLAMA3 = dict(rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0,
              high_freq_factor=4.0, original_max_position_embeddings=16)

MODELS = {
    "llama": ("LlamaConfig", dict(COMMON)),
    "llama-own-head": ("LlamaConfig", dict(COMMON, tie_word_embeddings=True, head_dim=8,
                                           rope_parameters=LLAMA3)),
    "llama-linear": ("LlamaConfig", dict(COMMON, rope_parameters=dict(
        rope_type="linear", rope_theta=10000.0, factor=2.0))),
    "mistral": ("MistralConfig", dict(COMMON, sliding_window=6, head_dim=6)),
    "qwen2": ("Qwen2Config", dict(COMMON, tie_word_embeddings=True)),
    "qwen3": ("Qwen3Config", dict(COMMON, head_dim=10)),
    "gemma3": ("Gemma3TextConfig", dict(COMMON, head_dim=8, num_hidden_layers=7, sliding_window=5,
                                        query_pre_attn_scalar=12, final_logit_softcapping=9.0)),
    "phi3": ("Phi3Config", dict(COMMON)),
    "phi3-longrope": ("Phi3Config", dict(
        COMMON, original_max_position_embeddings=16,
        rope_parameters=dict(rope_type="longrope", rope_theta=10000.0,
                             short_factor=[1.0, 1.1, 1.3], long_factor=[1.5, 2.0, 4.0],
                             original_max_position_embeddings=16))),
    "gpt2": ("GPT2Config", dict(n_embd=24, n_layer=2, n_head=4, vocab_size=61, n_positions=64,
                                n_ctx=64, bos_token_id=1, eos_token_id=2)),
}
LENGTH = 20


def record(name, make, settings):
    config = getattr(transformers, make)(**settings)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, attn_implementation="eager")
    model = model.double().eval()
    state = model.state_dict()
    tied = bool(getattr(config, "tie_word_embeddings", False))
    shapes = {k: list(v.shape) for k, v in state.items() if not (tied and k == "lm_head.weight")}
    made = {k: torch.tensor(language_models.weight(k, s)).double() for k, s in shapes.items()}
    model.load_state_dict(made, strict=False)
    if tied:
        model.tie_weights()
    tokens = language_models.tokens(name, LENGTH, 61)
    with torch.no_grad():
        logits = model(torch.tensor([tokens])).logits[0].double()
    with tempfile.TemporaryDirectory() as folder:
        config.architectures = [type(model).__name__]
        config.save_pretrained(folder)
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as file:
            saved = json.load(file)
    rows = [0, 1, 7, LENGTH - 1]
    return {"config": saved, "shapes": shapes, "length": LENGTH, "rows": rows,
            "logits": [[round(float(x), 7) for x in logits[r]] for r in rows]}


def main():
    transformers.set_seed(1)
    print(json.dumps({n: record(n, *m) for n, m in MODELS.items()}, separators=(",", ":")))


main()
