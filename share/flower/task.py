"""The network, the data and privacy, for clients and server."""
import fnmatch
import functools
import json
import math
import pathlib
import time

import numpy as np
import quern

GAUSSIAN_DELTA = 1e-5  # in which Flower's mod counts noise; the deviation does not depend on it


# Flower's usual names of settings, and those here.
USUAL_NAMES = {"num-server-rounds": "rounds", "batch-size": "batch", "learning-rate": "lr"}


def read_facts(folder):
    return json.loads((pathlib.Path(folder) / "facts.json").read_text())


def settings(config):
    """The settings of a run: those with Flower's usual names count where they are not 0."""
    chosen = dict(config)
    for usual, own in USUAL_NAMES.items():
        chosen[own] = config[usual] or config[own]
    if config["fraction-train"]:
        if not 0 < config["fraction-train"] <= 1:
            raise ValueError(f"fraction-train = {config['fraction-train']}: it is above 0 and at most 1")
        chosen["per-round"] = max(1, round(config["fraction-train"] * read_facts(config["data"])["clients"]))
    return chosen


def wait_for_nodes(grid, config, sleep=time.sleep):
    """Until a round can have its nodes. Says at once when there are too few, and ends the run after config["wait"] seconds."""
    waited, needed = 0, config["per-round"]
    while (connected := len(list(grid.get_node_ids()))) < needed:
        advice = f"start more, or run with --run-config \"per-round={max(connected, 1)}\""
        if waited == 0:
            print(f"{connected} nodes are connected, and a round needs {needed}: waiting up to {config['wait']:g} s; {advice}", flush=True)
        if waited >= config["wait"]:
            raise RuntimeError(f"after {waited} s {connected} nodes are connected, and a round needs {needed}: {advice}")
        sleep(1)
        waited += 1


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


def firsts(folder):
    """Where the samples of each client begin in order.npy, and their end."""
    return np.load(pathlib.Path(folder) / "first.npy")


def of_client(folder, client):
    """The samples of one client."""
    x, y, facts = samples(folder, "train")
    first, order = firsts(folder), np.load(pathlib.Path(folder) / "order.npy", mmap_mode="r")
    own = np.sort(order[first[client]:first[client + 1]])
    return prepare(x[own], facts), y[own]


def make_model(config):
    facts = read_facts(config["data"])
    model = quern.Model(config["model"], classes=facts["classes"], input=facts["input"])
    if config["start"]:  # its weights alone: samples are prepared here
        for name, values in quern.Model(config["start"]).parameters().items():
            if model.parameters()[name].shape != values.shape:
                raise ValueError(f"{config['start']} is of another network: {name} is {values.shape}")
            model.parameters()[name][...] = values
    return model


def sent_names(model, config):
    """Tensors that clients train and send, in the network's order."""
    names = list(model.parameters())
    if not config["train-only"]:
        return names
    last = names[-1].rpartition(".")[0]
    patterns = [f"{last}.*" if pattern == "head" else pattern for pattern in config["train-only"].split(",")]
    chosen = [name for name in names if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
    if not chosen:
        raise ValueError(f"train-only = {config['train-only']!r}: no tensor has such a name; there are {', '.join(names)}")
    return chosen


def set_weights(model, arrays, config):
    own = model.parameters()
    for name, given in zip(sent_names(model, config), arrays):
        own[name][...] = given


def get_weights(model, config):
    own = model.parameters()
    return [np.array(own[name]) for name in sent_names(model, config)]


def unpack(message):
    """The server's network, and the number of the round."""
    return message.content["arrays"].to_numpy_ndarrays(), int(message.content["config"]["server-round"])


def personal_names(model, config):
    """Tensors that never leave the client."""
    patterns = [pattern for pattern in config["personal"].split(",") if pattern]
    return [name for name in model.parameters() if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]


def shared(model, given, own, config):
    """What goes to the server: what was trained, with the server's own values where tensors are personal."""
    values = model.parameters()
    return [np.array(array if name in own else values[name])
            for name, array in zip(sent_names(model, config), given)]


def how(config):
    """What fit is to train, and FedProx, as its arguments."""
    return ({"train_only": config["train-only"]} if config["train-only"] else {}) | (
        {"proximal": config["proximal"]} if config["proximal"] else {})


def gaussian_epsilon(noise):
    """Epsilon by which Flower's mod makes noise of so many clips."""
    return math.sqrt(2 * math.log(1.25 / GAUSSIAN_DELTA)) / noise


def mills_ratio(x):
    """The chance of a standard normal variable above x over its density at x."""
    if x < 5:
        return 0.5 * math.erfc(x / math.sqrt(2)) / (math.exp(-x * x / 2) / math.sqrt(2 * math.pi))
    ratio = x
    for i in range(100, 0, -1):
        ratio = x + i / ratio
    return 1 / ratio


def gaussian_delta(mu, epsilon):
    """Of one release with noise of 1 / mu clips (Balle and Wang 2018, theorem 8)."""
    a, b = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    return 1 if a < -30 else math.exp(-a * a / 2) / math.sqrt(2 * math.pi) * (mills_ratio(a) - mills_ratio(b))


def epsilon(noise, rounds, delta):
    """Epsilon spent by so many releases with normal noise of so many clips, whoever takes part: exact."""
    mu, least, most = math.sqrt(rounds) / noise, 0, 1
    if gaussian_delta(mu, 0) <= delta:
        return 0
    while gaussian_delta(mu, most) > delta:
        most *= 2
    for _ in range(100):
        middle = (least + most) / 2
        least, most = (middle, most) if gaussian_delta(mu, middle) > delta else (least, middle)
    return most


def seed(config, round_number, client):
    """Of the order of a client's samples in a round."""
    return (int(config["seed"]) * 1_000_003 + round_number * 10_007 + client) % 2**31
