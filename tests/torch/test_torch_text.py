#!/usr/bin/python3
"""Compares char-cnn, char-lstm, next-word and seq2seq with PyTorch in double, from the same weights on the same
batch: loss, the whole gradient by norm and the losses of five SGD steps, to 1e-8, and parameter
counts. In float: the gradient's error against float64 is at most twice PyTorch's own. The program dump_network in the folder $QUERN_TOOLS does the engine's part."""

import os
import sys
import unittest

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import networks  # noqa: E402 (found by the line before)

TOLERANCE = 1e-8
RATE, MOMENTUM, STEPS = 0.1, 0.9, 5


class CharLSTM(nn.Module):
    def __init__(self, vocabulary=96, hidden=256):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, hidden)
        self.lstm = nn.LSTM(hidden, hidden, 2, batch_first=True)
        self.output = nn.Linear(hidden, vocabulary)

    def forward(self, tokens):
        return self.output(self.lstm(self.embedding(tokens))[0])


class CharCNN(CharLSTM):
    def __init__(self, vocabulary=96, hidden=256):
        super().__init__(vocabulary, hidden)
        self.embedding = nn.Embedding(vocabulary, 128)
        self.conv = nn.Conv1d(128, hidden, 3)

    def forward(self, tokens):
        x = F.pad(self.embedding(tokens).transpose(1, 2), (2, 0))
        return self.output(self.lstm(F.relu(self.conv(x)).transpose(1, 2))[0])


class NextWord(nn.Module):
    def __init__(self, vocabulary=8000, hidden=256):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 128)
        self.lstm = nn.LSTM(128, hidden, batch_first=True)
        self.projection = nn.Linear(hidden, 128)
        self.output = nn.Module()
        self.output.bias = nn.Parameter(torch.zeros(vocabulary))

    def forward(self, tokens):
        y = self.projection(self.lstm(self.embedding(tokens))[0])
        return F.linear(y, self.embedding.weight, self.output.bias)


class Seq2Seq(nn.Module):
    def __init__(self, vocabulary=8000, hidden=512):
        super().__init__()
        self.source_embedding = nn.Embedding(vocabulary, hidden)
        self.encoder = nn.LSTM(hidden, hidden, 2, batch_first=True)
        self.target_embedding = nn.Embedding(vocabulary, hidden)
        self.decoder = nn.LSTM(hidden, hidden, 2, batch_first=True)
        self.combine = nn.Linear(2 * hidden, hidden)
        self.output = nn.Linear(hidden, vocabulary)

    def forward(self, source, target, lengths):
        """lengths of the sources; None: all are full."""
        embedded = self.source_embedding(source)
        if lengths is None:
            encoded, state = self.encoder(embedded)
        else:
            packed, state = self.encoder(nn.utils.rnn.pack_padded_sequence(
                embedded, lengths, batch_first=True, enforce_sorted=False))
            encoded, _ = nn.utils.rnn.pad_packed_sequence(packed, batch_first=True,
                                                          total_length=source.shape[1])
        decoded, _ = self.decoder(self.target_embedding(target), state)
        scores = decoded @ encoded.transpose(1, 2)
        if lengths is not None:
            is_padding = torch.arange(source.shape[1]) >= lengths[:, None]
            scores = scores.masked_fill(is_padding[:, None], -torch.inf)
        context = F.softmax(scores, -1) @ encoded
        attended = torch.tanh(self.combine(torch.cat([context, decoded], -1)))
        return self.output(attended)


def ours(net):
    """The engine's names and layouts for the parameters, as functions of the array."""
    result = {}
    for name, parameter in net.named_parameters():
        module, _, kind = name.rpartition(".")
        layout = (lambda array: array.transpose(0, 2, 1)) if parameter.dim() == 3 else None
        if "_l" in kind:
            what, layer = kind[:-1].rsplit("_l", 1)[0], int(kind[-1]) + 1
            part = "weight" if what.startswith("weight") else "bias"
            side = "x" if what.endswith("ih") else "h"
            prefix = f"lstm{layer}" if module == "lstm" else f"{module}.lstm{layer}"
            result[f"{prefix}.{part}_{side}"] = (parameter, layout)
        else:
            result[name] = (parameter, layout)
    return result


def arrays(net, pick):
    return {name: pick(parameter).numpy().transpose(0, 2, 1) if layout else pick(parameter).numpy()
            for name, (parameter, layout) in ours(net).items()}


def torch_run(net, forward, labels, steps):
    """The losses of some SGD steps and the gradient of the first; net.state_before: its weights."""
    net.state_before = {name: array.clone() for name, array in net.state_dict().items()}
    update = torch.optim.SGD(net.parameters(), RATE, MOMENTUM)
    losses, gradient = [], None
    for _ in range(steps):
        update.zero_grad(set_to_none=True)
        loss = F.cross_entropy(forward(net).flatten(0, 1), labels.flatten(), ignore_index=-1)
        loss.backward()
        losses.append(loss.item())
        if gradient is None:
            gradient = arrays(net, lambda p: p.grad.detach().clone())
        update.step()
    return np.array(losses), gradient


class Text(unittest.TestCase):
    def compare(self, model, sizes, net, inputs, forward, labels):
        parameters = arrays(net, lambda p: p.detach().clone())
        losses, gradients = networks.run(model, sizes, parameters, inputs, "f64", RATE, STEPS)
        _, ours_float = networks.run(model, sizes, parameters, inputs, "f32", RATE, 1)
        _, theirs_float = torch_run(net, forward, labels, 1)
        net.load_state_dict(net.state_before)
        wanted, truth = torch_run(net.double(), forward, labels, STEPS)
        error = np.max(np.abs(losses[:, 0] - wanted) / wanted)
        distance = networks.distance(gradients, truth)
        floats = [networks.distance(array, truth) for array in (ours_float, theirs_float)]
        print(f"{model} {sizes}: losses {error:.1e}, gradient {distance:.1e}, in float "
              "%.1e, PyTorch's %.1e" % tuple(floats))
        self.assertLess(error, TOLERANCE)
        self.assertLess(distance, TOLERANCE)
        self.assertLess(floats[0], 2 * floats[1])

    def compare_streams(self, model, make, batch, length, vocabulary=96):
        torch.manual_seed(1)
        text = torch.randint(vocabulary, (batch, length + 1))
        tokens, labels = text[:, :-1], text[:, 1:]
        sizes = (batch, length, 0, vocabulary, vocabulary, 0)
        shapes, input_shapes = networks.describe(model, sizes)
        net = make(vocabulary)
        self.assertEqual(sum(int(np.prod(shape)) for shape in shapes.values()),
                         sum(p.numel() for p in net.parameters()))
        inputs = {name: np.zeros(shape) for name, shape in input_shapes.items()}
        inputs.update(tokens=tokens.numpy(), labels=labels.flatten().numpy())
        self.compare(model, sizes, net, inputs, lambda net: net(tokens), labels)

    def test_char_lstm(self):
        self.compare_streams("char-lstm", CharLSTM, 2, 40)

    def test_char_cnn(self):
        self.compare_streams("char-cnn", CharCNN, 2, 40)

    def test_next_word(self):
        self.compare_streams("next-word", NextWord, 3, 20, 500)

    def compare_translation(self, sizes, lengths, n_targets):
        torch.manual_seed(2)
        (batch, length, target_length, vocabulary), net = sizes[:4], Seq2Seq(sizes[3])
        source = torch.randint(vocabulary, (batch, length))
        target = torch.randint(vocabulary, (batch, target_length + 1))
        given, labels = target[:, :-1], target[:, 1:].clone()
        labels[torch.arange(target_length) >= n_targets[:, None]] = -1
        is_full = bool((lengths == length).all())
        shapes, _ = networks.describe("seq2seq", sizes)
        self.assertEqual(sum(int(np.prod(shape)) for shape in shapes.values()),
                         sum(p.numel() for p in net.parameters()))
        inputs = {"source": source.numpy(), "source_lengths": lengths.numpy(),
                  "target": given.numpy(), "labels": labels.flatten().numpy()}
        self.compare("seq2seq", sizes, net, inputs,
                     lambda net: net(source, given, None if is_full else lengths), labels)

    def test_seq2seq(self):
        """The published form: sequences of full length; of its 8000 words, with QUERN_ALL alone."""
        words = 8000 if "QUERN_ALL" in os.environ else 500
        self.compare_translation((1, 30, 30, words, words, 0), torch.tensor([30]),
                                 torch.tensor([30]))

    def test_padded(self):
        self.compare_translation((3, 9, 7, 50, 50, 0), torch.tensor([9, 1, 4]),
                                 torch.tensor([2, 7, 1]))


if __name__ == "__main__":
    torch.set_num_threads(1)  # two thread pools of PyTorch's LSTM get into each other's way
    unittest.main()
