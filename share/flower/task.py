"""The network and the data, for clients and server."""
import functools
import json
import pathlib

import numpy as np
import quern


def read_facts(folder):
    return json.loads((pathlib.Path(folder) / "facts.json").read_text())


@functools.lru_cache(maxsize=2)
def samples(folder, split):
    """All samples of a split as they are in the file, their classes, and facts about the data."""
    folder, facts = pathlib.Path(folder), read_facts(folder)
    x = np.load(folder / f"{split}-x.npy", mmap_mode="r")
    return x, np.load(folder / f"{split}-y.npy"), facts


def prepare(x, facts):
    """Bytes to floats from 0 to 1, then by the mean and deviation of all training samples."""
    x = x.astype(np.float32)
    if facts["bytes"]:
        x /= 255
    mean, deviation = (np.float32(facts[name]) for name in ("mean", "std_dev"))
    if mean.size == x[0].size:  # one for each number
        mean, deviation = mean.reshape(x.shape[1:]), deviation.reshape(x.shape[1:])
    return (x - mean) / deviation


def of_client(folder, client):
    """The samples of one client."""
    x, y, facts = samples(folder, "train")
    first, order = (np.load(pathlib.Path(folder) / name, mmap_mode="r") for name in ("first.npy", "order.npy"))
    own = np.sort(order[first[client]:first[client + 1]])
    return prepare(x[own], facts), y[own]


def make_model(config):
    facts = read_facts(config["data"])
    return quern.Model(config["model"], classes=facts["classes"], input=facts["input"])


def set_weights(model, arrays):
    for own, given in zip(model.parameters().values(), arrays):
        own[...] = given


def get_weights(model):
    return [np.array(values) for values in model.parameters().values()]


def seed(config, message, client):
    """Of the order of a client's samples in a round."""
    round_number = int(message.content["config"]["server-round"])
    return (int(config["seed"]) * 1_000_003 + round_number * 10_007 + client) % 2**31
