"""The zoo in PyTorch, layer by layer as the engine builds it, to compare gradients and times with.

build(name, shape, classes) gives a network for images of shape (H, W, C), in the form for
ImageNet from LARGE rows on. Parameters come in the engine's order. A linear layer that reads a
flattened image keeps that image's (C, H, W) as `image`, since the engine flattens channels last.
"""

import torch
from torch import nn

LARGE = 128
SMALL_SHAPES = {"mlp": (28, 28, 1), "lenet5": (28, 28, 1), "lenet-relu": (28, 28, 1),
                "inception-v3": (96, 96, 3)}
LARGE_SIZES = {"inception-v3": 299, "xception": 299}
SINGLE = ("mlp", "lenet5", "lenet-relu", "vgg-small", "densenet40", "densenet100")
RESNETS = {
    "resnet18": (False, (2, 2, 2, 2)),
    "resnet34": (False, (3, 4, 6, 3)),
    "resnet50": (True, (3, 4, 6, 3)),
    "resnet101": (True, (3, 4, 23, 3)),
    "resnet152": (True, (3, 8, 36, 3)),
}
VGGS = {"vgg11": "11222", "vgg16": "22333", "vgg19": "22444"}
DENSENETS = {"densenet40": 12, "densenet100": 32}
# Stages of GoogLeNet modules: 1x1; 1x1 and 3x3; 1x1 and 5x5; pool and 1x1.
GOOGLENET = (((64, 96, 128, 16, 32, 32), (128, 128, 192, 32, 96, 64)),
             ((192, 96, 208, 16, 48, 64), (160, 112, 224, 24, 64, 64),
              (128, 128, 256, 24, 64, 64), (112, 144, 288, 32, 64, 64),
              (256, 160, 320, 32, 128, 128)),
             ((256, 160, 320, 32, 128, 128), (384, 192, 384, 48, 128, 128)))
NAMES = (["mlp", "lenet5", "lenet-relu", "alexnet", "vgg-small"] + list(VGGS) + list(RESNETS)
         + ["squeezenet", "mobilenet-v1", "mobilenet-v2", "googlenet", "inception-v3", "xception"]
         + list(DENSENETS))


def forms(name):
    """(shape, classes) of every form of a model, the small one first."""
    small, size = SMALL_SHAPES.get(name, (32, 32, 3)), LARGE_SIZES.get(name, 224)
    return [(small, 10)] + ([] if name in SINGLE else [((size, size, 3), 1000)])


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
        if pad is None:
            pad = kernel // 2 if isinstance(kernel, int) else [k // 2 for k in kernel]
        return self.then(nn.Conv2d(self.at[0], filters, kernel, stride, pad, groups=groups,
                                   bias=bias))

    def norm(self, epsilon=1e-5):
        return self.then(nn.BatchNorm2d(self.at[0], epsilon))

    def conv_norm(self, filters, kernel, stride=1, groups=1, pad=None, epsilon=1e-5):
        return self.conv(filters, kernel, stride, pad, groups, False).norm(epsilon)

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

    def pool(self, kernel, stride, pad=0, ceil=False):
        return self.then(nn.MaxPool2d(kernel, stride, pad, ceil_mode=ceil))

    def split(self, *branches):
        """Each branch fills a draft of its own; their channels come side by side."""
        drafts = [self.inside() for _ in branches]
        for fill, draft in zip(branches, drafts):
            fill(draft)
        return self.then(Beside(drafts))

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


class Beside(nn.ModuleList):
    """The channels of all branches over one input."""

    def forward(self, x):
        return torch.cat([branch(x) for branch in self], dim=1)


def mlp(net, _large, _name):
    net.linear(256).relu().linear(128).relu()


def lenet5(net, _large, _name):
    net.conv(6, 5).tanh().then(nn.AvgPool2d(2))
    net.conv(16, 5, pad=0).tanh().then(nn.AvgPool2d(2))
    net.conv(120, 5, pad=0).tanh().linear(84).tanh()


def lenet_relu(net, _large, _name):
    net.conv(20, 5, pad=0).relu().pool(2, 2).conv(50, 5, pad=0).relu().pool(2, 2).linear(500).relu()


def vgg_small(net, _large, _name):
    for width in (128, 256, 512):
        net.conv(width, 3).relu().conv(width, 3).relu().pool(2, 2)


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


def squeezenet(net, large, _name):
    def pool():
        net.pool(3, 2, 0 if large else 1, large)

    def fire(squeeze, expand):
        net.conv(squeeze, 1).relu()
        net.split(lambda part: part.conv(expand, 1).relu(),
                  lambda part: part.conv(expand, 3).relu())

    net.conv(64, 3, 2 if large else 1, pad=0 if large else 1).relu()
    for widths in ((64, 64), (128, 128), (192, 192, 256, 256)):
        pool()
        for expand in widths:
            fire(expand // 4, expand)
    net.drop(0.5)


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


def googlenet(net, large, _name):
    epsilon, kernel = (1e-3, 3) if large else (1e-5, 5)

    def conv(part, filters, size, stride=1):
        return part.conv_norm(filters, size, stride, epsilon=epsilon).relu()

    def module(direct, reduce3, out3, reduce5, out5, pooled):
        net.split(lambda part: conv(part, direct, 1),
                  lambda part: conv(conv(part, reduce3, 1), out3, 3),
                  lambda part: conv(conv(part, reduce5, 1), out5, kernel),
                  lambda part: conv(part.pool(3, 1, 1), pooled, 1))

    if large:
        conv(conv(conv(net, 64, 7, 2).pool(3, 2, ceil=True), 64, 1), 192, 3).pool(3, 2, ceil=True)
    else:
        conv(net, 192, 3)
    for i, stage in enumerate(GOOGLENET):
        if i:
            net.pool(2 if large and i == 2 else 3, 2, 0 if large else 1, large)
        for widths in stage:
            module(*widths)
    net.mean().drop(0.2 if large else 0.4)


def inception_v3(net, _large, _name):
    """A branch is a list of steps: (filters, kernel[, stride, pad]) or the name of a pool."""
    def run(part, steps):
        for step in steps:
            if step == "max":
                part.pool(3, 2)
            elif step == "mean":
                part.then(nn.AvgPool2d(3, 1, 1))
            elif isinstance(step[0], list):
                part.split(*(lambda inner, s=s: run(inner, s) for s in step))
            else:
                filters, kernel, stride, pad = step if len(step) == 4 else (*step, 1, None)
                part.conv_norm(filters, kernel, stride, pad=pad, epsilon=1e-3).relu()

    def module(*branches):
        run(net, [branches])

    row, column = (1, 7), (7, 1)
    run(net, [(32, 3, 2, 0), (32, 3, 1, 0), (64, 3), "max", (80, 1), (192, 3, 1, 0), "max"])
    for pooled in (32, 64, 64):
        module([(64, 1)], [(48, 1), (64, 5)], [(64, 1), (96, 3), (96, 3)],
               ["mean", (pooled, 1)])
    module([(384, 3, 2, 0)], [(64, 1), (96, 3), (96, 3, 2, 0)], ["max"])
    for width in (128, 160, 160, 192):
        module([(192, 1)], [(width, 1), (width, row), (192, column)],
               [(width, 1), (width, column), (width, row), (width, column), (192, row)],
               ["mean", (192, 1)])
    module([(192, 1), (320, 3, 2, 0)], [(192, 1), (192, row), (192, column), (192, 3, 2, 0)],
           ["max"])
    for _ in range(2):
        ends = ([(384, (1, 3))], [(384, (3, 1))])
        module([(320, 1)], [(384, 1), ends], [(448, 1), (384, 3), ends], ["mean", (192, 1)])
    net.mean().drop(0.5)


def xception(net, large, _name):
    def separable(part, filters):
        return part.conv(part.at[0], 3, groups=part.at[0], bias=False).conv_norm(filters, 1)

    def block(filters, stride, relu_first=True):
        main, side = net.inside(), None
        for i, width in enumerate(filters):
            if i or relu_first:
                main.then(nn.ReLU())
            separable(main, width)
        if stride > 1:
            main.pool(3, stride, 1)
        if main.at != net.at:
            side = net.inside().conv_norm(main.at[0], 1, stride)
        net.then(Sum(main, side, False))

    pad = 0 if large else 1
    net.conv_norm(32, 3, 2 if large else 1, pad=pad).relu().conv_norm(64, 3, pad=pad).relu()
    block((128, 128), 2 if large else 1, False)
    block((256, 256), 2)
    block((728, 728), 2)
    for _ in range(8):
        block((728, 728, 728), 1)
    block((728, 1024), 2)
    separable(net, 1536).relu()
    separable(net, 2048).relu().mean()


def densenet(net, _large, name):
    net.conv(16, 3, bias=False)
    for i in range(3):
        for _ in range(DENSENETS[name]):
            net.split(lambda part: part,
                      lambda part: part.norm().relu().conv(12, 3, bias=False))
        net.norm().relu()
        if i < 2:
            net.conv(net.at[0], 1, bias=False).then(nn.AvgPool2d(2))
    net.mean()


FAMILIES = {"mlp": mlp, "lenet5": lenet5, "lenet-relu": lenet_relu, "vgg-small": vgg_small, "alexnet": alexnet, "mobilenet-v1": mobilenet_v1,
            "mobilenet-v2": mobilenet_v2, **dict.fromkeys(VGGS, vgg),
            "squeezenet": squeezenet, "googlenet": googlenet, "inception-v3": inception_v3,
            "xception": xception, **dict.fromkeys(DENSENETS, densenet),
            **dict.fromkeys(RESNETS, resnet)}


def build(name, shape, classes, dropout=True):
    """The network with PyTorch's own initialisation, in training mode."""
    net = Draft(shape, dropout)
    FAMILIES[name](net, shape[0] >= LARGE, name)
    if name == "squeezenet":  # its logits are means of feature maps
        return net.conv(classes, 1).relu().mean().train()
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
