"""The zoo in PyTorch, layer by layer as the engine builds it, to compare gradients and times with.

build(name, shape, classes) gives a network for images of shape (H, W, C), in the form for
ImageNet from LARGE rows on. Parameters come in the engine's order. A linear layer that reads a
flattened image keeps that image's (C, H, W) as `image`, since the engine flattens channels last.
"""

import torch
from torch import nn

LARGE = 224
SMALL_SHAPES = {"mlp": (28, 28, 1), "lenet5": (28, 28, 1)}
RESNETS = {
    "resnet18": (False, (2, 2, 2, 2)),
    "resnet34": (False, (3, 4, 6, 3)),
    "resnet50": (True, (3, 4, 6, 3)),
    "resnet101": (True, (3, 4, 23, 3)),
    "resnet152": (True, (3, 8, 36, 3)),
}
VGGS = {"vgg11": "11222", "vgg16": "22333", "vgg19": "22444"}
NAMES = (["mlp", "lenet5", "alexnet"] + list(VGGS) + list(RESNETS)
         + ["mobilenet-v1", "mobilenet-v2"])


def forms(name):
    """(shape, classes) of every form of a model, the small one first."""
    if name in SMALL_SHAPES:
        return [(SMALL_SHAPES[name], 10)]
    return [((32, 32, 3), 10), ((LARGE, LARGE, 3), 1000)]


class Draft(nn.Sequential):
    """A network under construction: it knows the shape that its layers give so far."""

    def __init__(self, shape, dropout):
        super().__init__()
        self.at = (shape[2], shape[0], shape[1])
        self.has_dropout = dropout

    def then(self, layer):
        self.append(layer)
        if isinstance(layer, (nn.ReLU, nn.ReLU6, nn.Tanh, nn.BatchNorm2d)):
            return self
        state = layer.training
        with torch.no_grad():
            self.at = tuple(layer.eval()(torch.zeros(1, *self.at)).shape[1:])
        layer.train(state)
        return self

    def conv(self, filters, kernel, stride=1, pad=None, groups=1, bias=True):
        pad = kernel // 2 if pad is None else pad
        return self.then(nn.Conv2d(self.at[0], filters, kernel, stride, pad, groups=groups,
                                   bias=bias))

    def norm(self):
        return self.then(nn.BatchNorm2d(self.at[0]))

    def conv_norm(self, filters, kernel, stride=1, groups=1):
        return self.conv(filters, kernel, stride, groups=groups, bias=False).norm()

    def relu(self):
        return self.then(nn.ReLU(inplace=True))

    def relu6(self):
        return self.then(nn.ReLU6(inplace=True))

    def tanh(self):
        return self.then(nn.Tanh())

    def drop(self, rate):
        return self.then(nn.Dropout(rate)) if self.has_dropout else self

    def linear(self, outputs):
        image = self.at if len(self.at) == 3 else None
        if image:
            self.then(nn.Flatten())
        self.then(nn.Linear(self.at[0], outputs))
        self[-1].image = image
        return self

    def mean(self):
        return self.then(nn.AdaptiveAvgPool2d(1)).then(nn.Flatten())

    def inside(self):
        """A draft of a branch that starts here."""
        return Draft((self.at[1], self.at[2], self.at[0]), self.has_dropout)


class Sum(nn.Module):
    """main(x) + side(x), or + x where there is no side, and ReLU where it is asked for."""

    def __init__(self, main, side, relu):
        super().__init__()
        self.main, self.side, self.relu = main, side, relu

    def forward(self, x):
        y = self.main(x) + (self.side(x) if self.side is not None else x)
        return torch.relu_(y) if self.relu else y


def mlp(net, _large, _name):
    net.linear(256).relu().linear(128).relu()


def lenet5(net, _large, _name):
    net.conv(6, 5).tanh().then(nn.AvgPool2d(2))
    net.conv(16, 5, pad=0).tanh().then(nn.AvgPool2d(2))
    net.conv(120, 5, pad=0).tanh().linear(84).tanh()


def alexnet(net, large, _name):
    pool = (3, 2) if large else (2, 2)
    if large:
        net.conv(64, 11, 4, pad=2)
    else:
        net.conv(64, 3, 2)
    net.relu().then(nn.MaxPool2d(*pool))
    net.conv(192, 5 if large else 3).relu().then(nn.MaxPool2d(*pool))
    net.conv(384, 3).relu().conv(256, 3).relu().conv(256, 3).relu().then(nn.MaxPool2d(*pool))
    image = net.at
    net.then(nn.Flatten()).drop(0.5).linear(4096)
    net[-1].image = image
    net.relu().drop(0.5).linear(4096).relu()


def vgg(net, large, name):
    for width, depth in zip((64, 128, 256, 512, 512), VGGS[name]):
        for _ in range(int(depth)):
            net.conv(width, 3)
            if not large:
                net.norm()
            net.relu()
        net.then(nn.MaxPool2d(2))
    if large:
        net.linear(4096).relu().drop(0.5).linear(4096).relu().drop(0.5)


def resnet(net, large, name):
    has_bottleneck, depths = RESNETS[name]
    net.conv_norm(64, 7 if large else 3, 2 if large else 1).relu()
    if large:
        net.then(nn.MaxPool2d(3, 2, 1))
    for stage, depth in enumerate(depths):
        for i in range(depth):
            width, stride = 64 << stage, 2 if stage and not i else 1
            main, side = net.inside(), None
            if has_bottleneck:
                main.conv_norm(width, 1).relu().conv_norm(width, 3, stride).relu()
                main.conv_norm(4 * width, 1)
            else:
                main.conv_norm(width, 3, stride).relu().conv_norm(width, 3)
            if main.at != net.at:
                side = net.inside().conv_norm(main.at[0], 1, stride)
            net.then(Sum(main, side, True))
    net.mean()


def mobilenet_v1(net, large, _name):
    net.conv_norm(32, 3, 2 if large else 1).relu()
    plan = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5,
            (1024, 2), (1024, 1)]
    for filters, stride in plan:
        net.conv_norm(net.at[0], 3, stride, net.at[0]).relu().conv_norm(filters, 1).relu()
    net.mean()


def mobilenet_v2(net, large, _name):
    net.conv_norm(32, 3, 2 if large else 1).relu6()
    plan = [(1, 16, 1, 1), (6, 24, 2, 2 if large else 1), (6, 32, 3, 2), (6, 64, 4, 2),
            (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)]
    for factor, filters, depth, first_stride in plan:
        for i in range(depth):
            main, stride = net.inside(), first_stride if i == 0 else 1
            hidden = net.at[0] * factor
            if factor > 1:
                main.conv_norm(hidden, 1).relu6()
            main.conv_norm(hidden, 3, stride, hidden).relu6().conv_norm(filters, 1)
            net.then(Sum(main, None, False) if main.at == net.at else main)
    net.conv_norm(1280, 1).relu6().mean()
    if large:
        net.drop(0.2)


FAMILIES = {"mlp": mlp, "lenet5": lenet5, "alexnet": alexnet, "mobilenet-v1": mobilenet_v1,
            "mobilenet-v2": mobilenet_v2, **dict.fromkeys(VGGS, vgg),
            **dict.fromkeys(RESNETS, resnet)}


def build(name, shape, classes, dropout=True):
    """The network with PyTorch's own initialisation, in training mode."""
    net = Draft(shape, dropout)
    FAMILIES[name](net, shape[0] >= LARGE, name)
    return net.linear(classes).train()


def to_engine(net):
    """Parameters or gradients are laid out for the engine by these, one for each parameter."""
    layouts = []
    for module in net.modules():
        for kind, parameter in module.named_parameters(recurse=False):
            image = getattr(module, "image", None)
            if parameter.dim() == 4:
                layouts.append(lambda w: w.permute(0, 2, 3, 1))
            elif kind == "weight" and image:
                layouts.append(lambda w, image=image:
                               w.reshape(-1, *image).permute(0, 2, 3, 1).flatten(1))
            else:
                layouts.append(lambda w: w)
    return layouts
