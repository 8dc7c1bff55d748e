"""Small language models whose weights follow a rule, as folders of Hugging Face's."""
import json
import os
import struct
import zlib

import numpy


def weight(name, shape):
    """The values of a tensor: of norms near 1, of others small; a fixed stream for each name."""
    stream = numpy.random.RandomState(zlib.crc32(name.encode()))
    values = stream.standard_normal(shape)
    is_norm = "norm" in name or "ln_" in name
    if is_norm and name.endswith("weight"):
        return (1 + 0.2 * values).astype(numpy.float32)
    return (0.25 * values).astype(numpy.float32)


def tokens(name, length, vocabulary):
    stream = numpy.random.RandomState(zlib.crc32(name.encode()) ^ 1)
    return [int(t) for t in stream.randint(3, vocabulary, length)]


def write_safetensors(path, arrays):
    header, at = {}, 0
    for name, array in arrays.items():
        header[name] = {"dtype": "F32", "shape": list(array.shape),
                        "data_offsets": [at, at + array.nbytes]}
        at += array.nbytes
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for array in arrays.values():
            file.write(array.tobytes())


def write_folder(folder, recorded):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(recorded["config"], file)
    arrays = {name: weight(name, shape) for name, shape in recorded["shapes"].items()}
    write_safetensors(os.path.join(folder, "model.safetensors"), arrays)
