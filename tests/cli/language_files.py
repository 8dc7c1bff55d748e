"""Files of language models, made by rule: GGUF files, folders as Hugging Face has them, and the numbers of blocks,
worked out by numpy from what the formats say. Nothing here is quern's."""
import json
import os
import struct

import numpy as np

TYPES = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8, "Q2_K": 10, "Q4_K": 12, "Q5_K": 13,
         "Q6_K": 14, "I32": 26, "BF16": 30}
SIZES = {"F32": (1, 4), "F16": (1, 2), "Q4_0": (32, 18), "Q4_1": (32, 20), "Q5_0": (32, 22), "Q5_1": (32, 24),
         "Q8_0": (32, 34), "Q2_K": (256, 84), "Q4_K": (256, 144), "Q5_K": (256, 176), "Q6_K": (256, 210), "I32": (1, 4),
         "BF16": (1, 2)}
U32, F32, BOOL, TEXT, LIST = 4, 6, 7, 8, 9


def text(value):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<Q", len(value)) + value


def value(of):
    """A value with its kind: whole numbers are u32, lists are of texts, whole numbers (i32) or floats."""
    if isinstance(of, bool):
        return struct.pack("<I?", BOOL, of)
    if isinstance(of, int):
        return struct.pack("<II", U32, of)
    if isinstance(of, float):
        return struct.pack("<If", F32, of)
    if isinstance(of, (str, bytes)):
        return struct.pack("<I", TEXT) + text(of)
    if all(isinstance(one, (str, bytes)) for one in of):
        return struct.pack("<IIQ", LIST, TEXT, len(of)) + b"".join(map(text, of))
    if all(isinstance(one, int) for one in of):
        return struct.pack("<IIQ", LIST, 5, len(of)) + np.asarray(of, "<i4").tobytes()
    return struct.pack("<IIQ", LIST, F32, len(of)) + np.asarray(of, "<f4").tobytes()


def gguf(pairs, tensors, version=3, alignment=32):
    """tensors: name -> (type, shape with the slowest axis first, bytes)."""
    head = struct.pack("<4sIQQ", b"GGUF", version, len(tensors), len(pairs))
    head += b"".join(text(key) + value(of) for key, of in pairs.items())
    data = b""
    for name, (kind, shape, numbers) in tensors.items():
        data += bytes(-len(data) % alignment)
        head += text(name) + struct.pack(f"<I{len(shape)}Q", len(shape), *reversed(shape))
        head += struct.pack("<IQ", TYPES[kind] if isinstance(kind, str) else kind, len(data))
        data += numbers
    return head + bytes(-len(head) % alignment) + data


def chance(name, count):
    """Bytes that depend on the name alone."""
    return np.random.default_rng(list(name.encode())).integers(0, 256, count, np.uint8)


def blocks(kind, count, name="blocks"):
    """Random blocks whose scales are finite."""
    n, size = SIZES[kind]
    data = chance(kind + name, count // n * size).reshape(-1, size)
    places = {"Q4_1": (1, 3), "Q5_1": (1, 3), "Q4_K": (1, 3), "Q5_K": (1, 3), "Q6_K": (209,)}.get(kind, (1,))
    for place in places if kind not in ("F32", "BF16", "I32") else (size - 1,):
        data[:, place] = data[:, place] & 0xbf  # the exponent is not the largest
    return data.tobytes()


def widen(kind, data):
    """The numbers of blocks, every product and sum rounded to f32."""
    n, size = SIZES[kind]
    rows = np.frombuffer(data, np.uint8).reshape(-1, size)
    half = lambda at: rows[:, at:at + 2].copy().view("<f2").astype(np.float32)
    nibbles = lambda x: np.concatenate([x & 15, x >> 4], axis=-1)
    f = lambda x: x.astype(np.float32)
    if kind == "F32":
        return rows.copy().view("<f4").reshape(-1)
    if kind == "F16":
        return f(rows.copy().view("<f2")).reshape(-1)
    if kind == "BF16":
        return (rows.copy().view("<u2").astype("<u4") << 16).view("<f4").reshape(-1)
    if kind == "Q8_0":
        return (half(0) * f(rows[:, 2:].view(np.int8))).reshape(-1)
    if kind == "Q4_0":
        return (half(0) * (f(nibbles(rows[:, 2:])) - 8)).reshape(-1)
    if kind == "Q4_1":
        return (half(0) * f(nibbles(rows[:, 4:])) + half(2)).reshape(-1)
    if kind in ("Q5_0", "Q5_1"):
        at = 2 if kind == "Q5_0" else 4
        high = np.unpackbits(rows[:, at:at + 4], axis=1, bitorder="little")
        whole = f(nibbles(rows[:, at + 4:]) + 16 * high)
        return (half(0) * (whole - 16) if kind == "Q5_0" else half(0) * whole + half(2)).reshape(-1)
    if kind in ("Q4_K", "Q5_K"):
        bits = np.unpackbits(rows[:, 4:16], axis=1, bitorder="little").reshape(-1, 12, 8)
        value_of = lambda b: (b * (1 << np.arange(b.shape[-1]))).sum(-1)
        scales = np.concatenate([value_of(bits[:, 0:4, :6]), value_of(
            np.concatenate([bits[:, 8:12, :4], bits[:, 0:4, 6:]], axis=-1))], axis=1)
        minima = np.concatenate([value_of(bits[:, 4:8, :6]), value_of(
            np.concatenate([bits[:, 8:12, 4:], bits[:, 4:8, 6:]], axis=-1))], axis=1)
        low = rows[:, size - 128:].reshape(-1, 4, 1, 32)
        whole = np.concatenate([low & 15, low >> 4], axis=2).reshape(-1, 8, 32)
        if kind == "Q5_K":
            high = np.unpackbits(rows[:, 16:48], axis=1, bitorder="little").reshape(-1, 32, 8)
            whole = whole + 16 * high.transpose(0, 2, 1)
        numbers = (half(0) * f(scales))[:, :, None] * f(whole) - (half(2) * f(minima))[:, :, None]
        return numbers.astype(np.float32).reshape(-1)
    assert kind == "Q6_K"
    low = rows[:, :128].reshape(-1, 2, 1, 64)
    low = np.concatenate([low & 15, low >> 4], axis=2).reshape(-1, 2, 4, 32)
    high = rows[:, 128:192].reshape(-1, 2, 1, 32) >> np.array([0, 2, 4, 6], np.uint8).reshape(1, 1, 4, 1) & 3
    whole = f(low + 16 * high).reshape(-1, 16, 16) - 32
    return ((half(208) * f(rows[:, 192:208].view(np.int8)))[:, :, None] * whole).reshape(-1)


# A Llama of two layers, width 32, two heads of 16, one of keys and values, feed-forward 64, 40 tokens.
LLAMA = {"general.architecture": "llama", "general.name": "made/by rule", "llama.block_count": 2,
         "llama.context_length": 128, "llama.embedding_length": 32, "llama.feed_forward_length": 64,
         "llama.attention.head_count": 2, "llama.attention.head_count_kv": 1, "llama.rope.freq_base": 10000.0,
         "llama.attention.layer_norm_rms_epsilon": 1e-5, "llama.vocab_size": 40}

# A SentencePiece tokenizer of its 40 tokens.
TOKENIZER = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": ["<unk>", *map(chr, range(97, 123)), "\u2581"]
             + [a + b for a in "abcd" for b in "efg"], "tokenizer.ggml.scores": [float(-i) for i in range(40)],
             "tokenizer.ggml.token_type": [2] + 39 * [1]}


def llama_tensors(kind="Q8_0"):
    shapes = {"token_embd.weight": (40, 32), "output_norm.weight": (32,)}
    for i in range(2):
        shapes |= {f"blk.{i}.{name}.weight": shape for name, shape in {
            "attn_norm": (32,), "ffn_norm": (32,), "attn_q": (32, 32), "attn_k": (16, 32), "attn_v": (16, 32),
            "attn_output": (32, 32), "ffn_gate": (64, 32), "ffn_up": (64, 32), "ffn_down": (32, 64)}.items()}
    tensors = {}
    for name, shape in shapes.items():
        of = kind if len(shape) == 2 else "F32"
        tensors[name] = (of, shape, blocks(of, int(np.prod(shape)), name))
    return tensors


def tame_tensors(kind="Q8_0"):
    """Weights in blocks whose numbers are small, norms near 1."""
    tensors = {}
    for name, (of, shape, _) in llama_tensors().items():
        count = int(np.prod(shape))
        whole = chance(name, count).astype(np.int8)
        if of == "F32":
            tensors[name] = ("F32", shape, (1 + whole.astype("<f4") / 512).tobytes())
        elif kind == "F32":
            tensors[name] = ("F32", shape, (whole.astype("<f4") / 256).tobytes())
        else:
            scales = np.full((count // 32, 1), 1 / 256, "<f2").view(np.uint8)
            tensors[name] = (kind, shape, np.hstack([scales, whole.view(np.uint8).reshape(-1, 32)]).tobytes())
    return tensors


NAMES = {"attn_norm": "input_layernorm", "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj",
         "attn_k": "self_attn.k_proj", "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj",
         "ffn_gate": "mlp.gate_proj", "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}


def folder_name(name):
    """Hugging Face's name of a tensor of Llama's."""
    if name.startswith("blk."):
        _, layer, part, _ = name.split(".")
        return f"model.layers.{layer}.{NAMES[part]}.weight"
    return {"token_embd.weight": "model.embed_tokens.weight", "output_norm.weight": "model.norm.weight"}[name]


def safetensors(path, tensors):
    header, data = {}, b""
    for name, (kind, shape, numbers) in tensors.items():
        header[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [len(data), len(data) + len(numbers)]}
        data += numbers
    head = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(head)) + head + data)


CONFIG = {"model_type": "llama", "num_hidden_layers": 2, "hidden_size": 32, "num_attention_heads": 2,
          "num_key_value_heads": 1, "intermediate_size": 64, "max_position_embeddings": 128, "vocab_size": 40,
          "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True}


def llama_folder(path, kind="BF16", n_files=2, config=None):
    """The folder of the same Llama, its tensors dealt out over files."""
    tensors = {folder_name(name): of for name, of in llama_tensors(kind).items()}
    os.makedirs(path, exist_ok=True)
    with open(f"{path}/config.json", "w", encoding="utf-8") as file:
        json.dump(CONFIG if config is None else config, file)
    if n_files == 1:
        safetensors(f"{path}/model.safetensors", tensors)
        return tensors
    names = [f"model-{i + 1:05}-of-{n_files:05}.safetensors" for i in range(n_files)]
    for i, name in enumerate(names):
        safetensors(f"{path}/{name}", dict(list(tensors.items())[i::n_files]))
    places = {tensor: names[i % n_files] for i, tensor in enumerate(tensors)}
    with open(f"{path}/model.safetensors.index.json", "w", encoding="utf-8") as file:
        json.dump({"metadata": {"total_size": 1}, "weight_map": places}, file)
    return tensors
