"""A training step of each model of the zoo in PyTorch, on random data: what benchmarks compare with.

Every step is forward, loss, backward, and SGD with momentum, as `quern train MODEL --data
synthetic --optimizer sgd` does it."""

import reference
import torch
import torch.nn.functional as F

CLASSES = 10
RATE, MOMENTUM = 0.001, 0.9

# What `quern train` needs beside the defaults to do the same work.
QUERN_OPTIONS = {}


def is_classifier(name):
    return name in reference.FAMILIES


def has_images(name):
    return is_classifier(name)


ALL = tuple(reference.FAMILIES)


def supervised(net, inputs, loss):
    """The step of a network with one loss: loss(net(*inputs))."""
    update = torch.optim.SGD(net.parameters(), RATE, MOMENTUM)

    def step():
        update.zero_grad(set_to_none=True)
        value = loss(net(*inputs))
        value.backward()
        update.step()
        return value.item()

    return step


def classifier(name, batch, channels_last):
    shape, _ = reference.forms(name)[0]
    net = reference.build(name, shape, CLASSES)
    x, y = torch.randn(batch, shape[2], *shape[:2]), torch.randint(CLASSES, (batch,))
    if channels_last:
        net = net.to(memory_format=torch.channels_last)
        x = x.contiguous(memory_format=torch.channels_last)
    return supervised(net, (x,), lambda logits: F.cross_entropy(logits, y))


def make(name, batch, channels_last=False):
    """A function that does a step at a batch size and returns the loss."""
    return classifier(name, batch, channels_last)
