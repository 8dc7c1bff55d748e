#!/usr/bin/python3
"""Networks that PyTorch exports, trained on from the file: losses of 5 steps of plain SGD on one batch must be
PyTorch's, to 1e-8 in double for all and to 1e-3 in float for those that are shallow."""

import os
import subprocess
import sys
import tempfile

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

TOOLS = os.environ.get("QUERN_TOOLS", "build/release/tests")
STEPS, RATE = 5, 0.05
TRAINING, EVAL = torch.onnx.TrainingMode.TRAINING, torch.onnx.TrainingMode.EVAL


def norm_relu(inputs, outputs, kernel=3, stride=1, groups=1, activation=nn.ReLU):
    return nn.Sequential(nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
                         nn.BatchNorm2d(outputs), activation())


class Lenet(nn.Module):
    """Max pools, uneven pads, tanh as a module's function."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.ZeroPad2d((1, 2, 0, 1)), nn.Conv2d(3, 6, 5), nn.ReLU(),
                                      nn.MaxPool2d(3, 2, 1, ceil_mode=True), nn.Conv2d(6, 16, 3, padding=1),
                                      nn.ReLU(), nn.AvgPool2d(2, padding=1, count_include_pad=False))
        self.classifier = nn.Sequential(nn.Linear(320, 84), nn.ReLU(), nn.Dropout(0.0), nn.Linear(84, 10))

    def forward(self, x):
        return self.classifier(torch.flatten(self.features(x), 1))


class PlainConv(nn.Module):
    """Only convolutions, global pooling, and a linear layer without bias."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3, 2, 1), nn.Conv2d(8, 12, 3, dilation=2)
        self.head = nn.Linear(12, 7, bias=False)

    def forward(self, x):
        x = F.relu(self.b(F.relu(self.a(x))))
        return self.head(F.adaptive_avg_pool2d(x, 1).flatten(1))


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.a = norm_relu(inputs, outputs, stride=stride)
        self.b = nn.Sequential(nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False), nn.BatchNorm2d(outputs))
        self.skip = nn.Identity() if stride == 1 and inputs == outputs else nn.Sequential(
            nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return F.relu(self.b(self.a(x)) + self.skip(x))


def resnet():
    return nn.Sequential(norm_relu(3, 8), nn.MaxPool2d(3, 2, 1), BasicBlock(8, 8, 1), BasicBlock(8, 16, 2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


def vgg():
    return nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2),
                         nn.Flatten(), nn.Dropout(0.0), nn.Linear(16 * 16, 32), nn.ReLU(), nn.Linear(32, 10))


class ResnextBlock(nn.Module):
    """Not in the zoo: bottlenecks with groups (Xie et al. 2017)."""

    def __init__(self, width, groups):
        super().__init__()
        self.body = nn.Sequential(norm_relu(width, width // 2, 1), norm_relu(width // 2, width // 2, groups=groups),
                                  nn.Conv2d(width // 2, width, 1, bias=False), nn.BatchNorm2d(width))

    def forward(self, x):
        return F.relu(x + self.body(x))


def resnext():
    return nn.Sequential(norm_relu(3, 16, stride=2), ResnextBlock(16, 4), ResnextBlock(16, 2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))


class Squeeze(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.less, self.more = nn.Conv2d(channels, channels // 4, 1), nn.Conv2d(channels // 4, channels, 1)

    def forward(self, x):
        gate = F.adaptive_avg_pool2d(x, 1)
        return x * F.hardsigmoid(self.more(F.relu(self.less(gate))))


class Inverted(nn.Module):
    def __init__(self, inputs, hidden, outputs, stride, activation):
        super().__init__()
        self.is_kept = inputs == outputs and stride == 1
        self.body = nn.Sequential(norm_relu(inputs, hidden, 1, activation=activation),
                                  norm_relu(hidden, hidden, 5, stride, hidden, activation), Squeeze(hidden),
                                  nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        return x + self.body(x) if self.is_kept else self.body(x)


def mobilenet_v3():
    """Not in the zoo: squeeze and excite, hard swish (Howard et al. 2019)."""
    return nn.Sequential(norm_relu(3, 8, stride=2, activation=nn.Hardswish), Inverted(8, 16, 8, 1, nn.ReLU),
                         Inverted(8, 24, 12, 2, nn.Hardswish), norm_relu(12, 24, 1, activation=nn.Hardswish),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(24, 32), nn.Hardswish(),
                         nn.Dropout(0.0), nn.Linear(32, 10))


class ConvnextBlock(nn.Module):
    """Not in the zoo (Liu et al. 2022)."""

    def __init__(self, width):
        super().__init__()
        self.depth = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.more, self.less = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)
        self.scale = nn.Parameter(0.1 * torch.ones(width))

    def forward(self, x):
        y = self.norm(self.depth(x).permute(0, 2, 3, 1))
        y = self.scale * self.less(F.gelu(self.more(y)))
        return x + y.permute(0, 3, 1, 2)


class Convnext(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem, self.blocks = nn.Conv2d(3, 12, 4, 4), nn.Sequential(ConvnextBlock(12), ConvnextBlock(12))
        self.norm, self.head = nn.LayerNorm(12), nn.Linear(12, 10)

    def forward(self, x):
        return self.head(self.norm(self.blocks(self.stem(x)).mean([2, 3])))


class Lstm(nn.Module):
    """Not in the zoo: a classifier of sequences of words."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(50, 12)
        self.lstm = nn.LSTM(12, 16, batch_first=True)
        self.head = nn.Linear(16, 5)

    def forward(self, x):
        y, _ = self.lstm(self.words(x))
        return self.head(y[:, -1])


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        n, t, c = x.shape
        q, k, v = self.qkv(x).reshape(n, t, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        weights = torch.softmax(q @ k.transpose(-2, -1) / (c // self.heads) ** 0.5, -1)
        return self.out((weights @ v).transpose(1, 2).reshape(n, t, c))


class Vit(nn.Module):
    """Not in the zoo: a transformer encoder over patches (Dosovitskiy et al. 2021)."""

    def __init__(self, width=24):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(0.1 * torch.randn(1, 17, width))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(5))
        self.attention = nn.ModuleList(Attention(width, 3) for _ in range(2))
        self.mlp = nn.ModuleList(nn.Sequential(nn.Linear(width, 48), nn.GELU(), nn.Linear(48, width))
                                 for _ in range(2))
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        for i in range(2):
            x = x + self.attention[i](self.norms[2 * i](x))
            x = x + self.mlp[i](self.norms[2 * i + 1](x))
        return self.head(self.norms[4](x)[:, 0])


class Decoder(nn.Module):
    """Transposed convolutions with groups, as a segmenting network has, and joined branches."""

    def __init__(self):
        super().__init__()
        self.down = norm_relu(3, 8, stride=2)
        self.up = nn.ConvTranspose2d(8, 6, 3, 2, 1, output_padding=1, groups=2)
        self.last, self.head = norm_relu(9, 8), nn.Linear(8, 6)

    def forward(self, x):
        y = torch.cat([F.leaky_relu(self.up(self.down(x)), 0.1), x], 1)
        return self.head(self.last(y).mean([2, 3]))


class Unet(nn.Module):
    """Pads of three kinds, sizes that go up and down by neighbours and between them, slices with steps, a
    token of every sample."""

    def __init__(self):
        super().__init__()
        self.pads = nn.ModuleList([nn.ReflectionPad2d((1, 2, 2, 1)), nn.ReplicationPad2d(1),
                                   nn.ConstantPad2d((0, 1, 1, 0), 0.3)])
        self.down = nn.ModuleList([norm_relu(3, 8, stride=2), norm_relu(8, 12, stride=2)])
        self.up = nn.ModuleList([norm_relu(20, 10), norm_relu(13, 8)])
        self.token, self.mix = nn.Parameter(torch.randn(1, 8, 1)), nn.Linear(8, 8)
        self.head = nn.Linear(8, 6)

    def forward(self, x):
        x = self.pads[0](x)
        a = self.down[0](x)
        b = self.down[1](self.pads[2](self.pads[1](a)))
        b = F.interpolate(b, size=a.shape[2:], mode="bilinear", align_corners=False)
        c = self.up[0](torch.cat([a, b], 1))
        c = F.interpolate(F.interpolate(c, size=(7, 13), mode="bilinear", align_corners=True), scale_factor=2.0)
        d = self.up[1](torch.cat([c, x[:, :, 1:15, :13].repeat(1, 1, 1, 2)], 1))[:, :, ::2, 1::3]
        d = torch.cat([self.token.expand(x.shape[0], -1, -1), d.flatten(2)], 2).transpose(1, 2)
        return self.head(torch.tanh(self.mix(d)).mean(1))


def video():
    """Volumes: filters of several depths, in groups too, and pools with padding and cut windows."""
    return nn.Sequential(nn.Conv3d(2, 8, 3, padding=1, bias=False), nn.BatchNorm3d(8), nn.ReLU(),
                         nn.MaxPool3d((2, 3, 2), ceil_mode=True),
                         nn.Conv3d(8, 12, (2, 3, 1), stride=(2, 2, 1), padding=(1, 1, 0), dilation=(2, 1, 1), groups=2),
                         nn.ReLU(), nn.AvgPool3d(3, 2, 1, count_include_pad=False), nn.Conv3d(12, 12, 1, groups=12),
                         nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(12, 10))


def video_back():
    """Transposed convolutions of volumes: strides, dilations, groups, and outputs beyond what the filter covers."""
    return nn.Sequential(nn.ConvTranspose3d(2, 6, 3, stride=(2, 1, 2), padding=1, output_padding=(1, 0, 1)), nn.ReLU(),
                         nn.ConvTranspose3d(6, 4, (2, 3, 1), stride=(3, 1, 1), padding=(0, 2, 0), dilation=(2, 1, 1), groups=2,
                                            bias=False), nn.Tanh(), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(4, 10))


def volumes(n):
    return torch.randn(n, 2, 9, 15, 8)


def words(n):
    return torch.randint(0, 50, (n, 9))


def images(n):
    return torch.randn(n, 3, 16, 16)


# name, network, batch, shallow (compared in float too), options of the export
CASES = [
    ("lenet", Lenet, images, True, {}),
    ("plain", PlainConv, images, True, {}),
    ("vgg", vgg, images, True, {}),
    ("resnet", resnet, images, False, {}),
    ("resnext", resnext, images, False, {}),
    ("mobilenet-v3", mobilenet_v3, images, False, {"opset_version": 14}),
    ("convnext", Convnext, images, False, {}),
    ("convnext, opset 17", Convnext, images, False, {"opset_version": 17}),
    ("lstm", Lstm, words, True, {}),
    ("vit", Vit, images, False, {}),
    ("vit exported for inference", Vit, images, False, {"training": EVAL, "opset_version": 12}),
    ("decoder", Decoder, images, True, {}),
    ("vit of one sample", Vit, images, False, {"fixed": 1}),
    ("vit of two samples", Vit, images, False, {"fixed": 2}),
    ("lstm of one sample", Lstm, words, True, {"fixed": 1}),
    ("lstm of two samples", Lstm, words, True, {"fixed": 2}),
    ("video", video, volumes, False, {}),
    ("video back", video_back, lambda n: torch.randn(n, 2, 3, 5, 4), False, {}),
    ("unet", Unet, images, False, {}),
    ("unet, opset 11", Unet, images, False, {"opset_version": 11}),
]


def export(network, x, path, options):
    """In double: a network's weights are then what PyTorch trains in double. Option "fixed": for so many samples."""
    options = dict(options)
    fixed = options.pop("fixed", None)
    axes = None if fixed else {"x": {0: "batch"}}
    options = {"training": TRAINING, "do_constant_folding": False, "opset_version": 13} | options
    torch.onnx.export(network, x[:fixed], path, input_names=["x"], dynamic_axes=axes, **options)


def losses_of_torch(network, x, labels):
    network.train()
    step = torch.optim.SGD(network.parameters(), RATE)
    losses = []
    for _ in range(STEPS):
        step.zero_grad()
        loss = F.cross_entropy(network(x), labels)
        loss.backward()
        step.step()
        losses.append(loss.item())
    return np.array(losses)


def losses_of_quern(path, real, x, labels, folder):
    data = x.movedim(1, -1) if x.dim() >= 4 else x
    given, made = os.path.join(folder, "in"), os.path.join(folder, "out")
    np.concatenate([data.double().numpy().ravel(), labels.double().numpy()]).tofile(given)
    shape = "x".join(str(extent) for extent in data.shape)
    subprocess.run([os.path.join(TOOLS, "train_onnx"), path, real, str(RATE), str(STEPS), given, made, shape],
                   check=True)
    return np.fromfile(made)


def compare(case, folder):
    name, make, batch, shallow, options = case
    torch.manual_seed(7)
    network, x = make().double(), batch(6)
    x = x.double() if x.is_floating_point() else x
    labels = torch.randint(0, 5, (6,))
    path = os.path.join(folder, "model.onnx")
    network.train(options.get("training") != EVAL)
    export(network, x, path, options)
    wanted = losses_of_torch(network, x, labels)
    for real, most in (("f64", 1e-8), ("f32", 1e-3))[:2 if shallow else 1]:
        error = np.abs(losses_of_quern(path, real, x, labels, folder) / wanted - 1).max()
        print(f"{name}: {real} {error:.1e}, losses {wanted[0]:.4f} to {wanted[-1]:.4f}", flush=True)
        assert error <= most, f"{name}: {real} differs by {error}"


def main(names):
    torch.set_num_threads(2)
    failures = 0
    for case in CASES:
        if names and case[0] not in names:
            continue
        with tempfile.TemporaryDirectory() as folder:
            try:
                compare(case, folder)
            except (AssertionError, subprocess.CalledProcessError) as error:
                print(f"{case[0]}: {error}", flush=True)
                failures += 1
    return failures > 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
