"""A training step of each model of the zoo in PyTorch, on random data: what benchmarks compare with.

Every step is forward, loss, backward, and SGD with momentum, as `quern train MODEL --data
synthetic --optimizer sgd` does it. The networks are those that the tests compare with; where a model
has dropout, it is on. Works with PyTorch 1.13 and later; compiling needs 2.1."""

import os
import sys
from typing import NamedTuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))

import reference  # noqa: E402
import test_torch_bert as bert  # noqa: E402
import test_torch_dcgan as dcgan  # noqa: E402
import test_torch_dqn as dqn  # noqa: E402
import test_torch_text as text  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402

CLASSES = 10
RATE, MOMENTUM = 0.001, 0.9


class Way(NamedTuple):
    """How PyTorch is asked to run a network."""

    channels_last: bool = False
    compiled: bool = False


# What `quern train` needs beside the defaults to do the same work.
QUERN_OPTIONS = {"char-lstm": ("--length", "100"), "char-cnn": ("--length", "100"),
                 "bert-base": ("--length", "128"), "bert-tiny": ("--length", "64")}


def is_classifier(name):
    return name in reference.FAMILIES


def has_images(name):
    return is_classifier(name) or name in ("dcgan", "dqn")


def sgd(net):
    return torch.optim.SGD(net.parameters(), RATE, MOMENTUM)


def supervised(net, loss):
    """The step of a network with one loss; loss(net) computes it."""
    update = sgd(net)

    def step():
        update.zero_grad(set_to_none=True)
        value = loss(net)
        value.backward()
        update.step()
        return value.item()

    return step


def prepare(net, way):
    if way.channels_last:
        net.to(memory_format=torch.channels_last)
    if way.compiled:
        net.compile()
    return net


def images(x, way):
    return x.contiguous(memory_format=torch.channels_last) if way.channels_last else x


def classifier(name, batch, way):
    shape, _ = reference.forms(name)[0]
    net = prepare(reference.build(name, shape, CLASSES), way)
    y = torch.randint(CLASSES, (batch,))
    x = images(torch.randn(batch, shape[2], *shape[:2]), way)
    return supervised(net, lambda net: F.cross_entropy(net(x), y))


def characters(name, batch, way):
    net = prepare(text.CharLSTM() if name == "char-lstm" else text.CharCNN(), way)
    tokens = torch.randint(96, (batch, 101))
    x, y = tokens[:, :-1].contiguous(), tokens[:, 1:].flatten()
    return supervised(net, lambda net: F.cross_entropy(net(x).flatten(0, 1), y))


def translation(_name, batch, way):
    source, target = torch.randint(8000, (batch, 30)), torch.randint(8000, (batch, 31))
    x, y = target[:, :-1].contiguous(), target[:, 1:].flatten()
    return supervised(prepare(text.Seq2Seq(), way),
                      lambda net: F.cross_entropy(net(source, x, None).flatten(0, 1), y))


def answering(name, batch, way):
    extents = (30522, 768, 12, 12, 3072) if name == "bert-base" else (8192, 128, 2, 2, 512)
    length = 128 if name == "bert-base" else 64
    tokens = torch.randint(extents[0], (batch, length))
    types = (torch.arange(length) >= length // 2).long().expand(batch, -1)
    spans = torch.randint(length, (2, batch))

    def loss(net):
        begin, end = net(tokens, types, None).unbind(-1)
        return (F.cross_entropy(begin, spans[0]) + F.cross_entropy(end, spans[1])) / 2

    return supervised(prepare(bert.Bert(*extents, dropout=0.1), way), loss)


def control(_name, batch, way):
    net = prepare(dqn.frames(), way)
    x = images(torch.randn(batch, 4, 84, 84), way)
    action, wanted = torch.randint(18, (batch, 1)), torch.randn(batch)
    return supervised(net, lambda net: F.smooth_l1_loss(net(x).gather(1, action)[:, 0], wanted))


def generation(_name, batch, way):
    make, judge = prepare(dcgan.generator(), way), prepare(dcgan.discriminator(), way)
    real = images(torch.randn(batch, 3, 32, 32), way)
    update_make, update_judge = sgd(make), sgd(judge)
    ones, zeros = torch.ones(batch, 1), torch.zeros(batch, 1)
    entropy = F.binary_cross_entropy_with_logits

    def step():
        update_judge.zero_grad(set_to_none=True)
        fake = make(torch.randn(batch, dcgan.NOISE, 1, 1))
        loss = entropy(judge(real), ones) + entropy(judge(fake.detach()), zeros)
        loss.backward()
        update_judge.step()
        update_make.zero_grad(set_to_none=True)
        loss = entropy(judge(fake), ones)
        loss.backward()
        update_make.step()
        return loss.item()

    return step


OTHERS = {"char-cnn": characters, "char-lstm": characters, "seq2seq": translation,
          "dcgan": generation, "dqn": control, "bert-tiny": answering, "bert-base": answering}
ALL = (*reference.FAMILIES, *OTHERS)


def make(name, batch, way=Way()):
    """A function that does a step at a batch size and returns the loss."""
    return OTHERS.get(name, classifier)(name, batch, way)
