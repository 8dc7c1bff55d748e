"""Networks whose parameters have the names under which weights are published: image classifiers as
torchvision names them, BERT as Hugging Face does. Written for what `quern convert` reads: names,
shapes and the forward pass are theirs, initialisation is not."""

import torch
import torch.nn.functional as F
from torch import nn


def _norm(channels, eps=1e-5):
    return nn.BatchNorm2d(channels, eps)


class Block(nn.Module):
    """ResNet's basic block or bottleneck."""

    def __init__(self, channels, width, stride, wide):
        super().__init__()
        sizes = [(1, 1), (3, stride), (1, 1)] if wide else [(3, stride), (3, 1)]
        outputs = 4 * width if wide else width
        self.depth, at = len(sizes), channels
        for i, (kernel, step) in enumerate(sizes, 1):
            to = outputs if i == self.depth else width
            setattr(self, f"conv{i}", nn.Conv2d(at, to, kernel, step, kernel // 2, bias=False))
            setattr(self, f"bn{i}", _norm(to))
            at = to
        self.downsample = None
        if stride > 1 or channels != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(channels, outputs, 1, stride, bias=False),
                                            _norm(outputs))

    def forward(self, x):
        y = x
        for i in range(1, self.depth + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            y = F.relu(y) if i < self.depth else y
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, wide, depths, classes=1000):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), _norm(64)
        at = 64
        for stage, depth in enumerate(depths):
            blocks, width = [], 64 << stage
            for i in range(depth):
                blocks.append(Block(at, width, 2 if stage and not i else 1, wide))
                at = 4 * width if wide else width
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
        self.fc = nn.Linear(at, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        for stage in range(1, 5):
            x = getattr(self, f"layer{stage}")(x)
        return self.fc(x.mean((2, 3)))


def _conv_norm_relu6(channels, filters, kernel, stride=1, groups=1):
    return nn.Sequential(nn.Conv2d(channels, filters, kernel, stride, kernel // 2, groups=groups,
                                   bias=False), _norm(filters), nn.ReLU6())


class InvertedResidual(nn.Module):
    def __init__(self, channels, filters, stride, factor):
        super().__init__()
        hidden = channels * factor
        layers = [_conv_norm_relu6(channels, hidden, 1)] if factor != 1 else []
        layers += [_conv_norm_relu6(hidden, hidden, 3, stride, hidden),
                   nn.Conv2d(hidden, filters, 1, bias=False), _norm(filters)]
        self.conv, self.adds = nn.Sequential(*layers), stride == 1 and channels == filters

    def forward(self, x):
        return x + self.conv(x) if self.adds else self.conv(x)


class SameConv2d(nn.Conv2d):
    """With TensorFlow's pads: the odd one is below and to the right."""

    def forward(self, x):
        pads = []
        for size, kernel, stride in zip(x.shape[:1:-1], self.kernel_size[::-1], self.stride[::-1]):
            n = max((-(-size // stride) - 1) * stride + kernel - size, 0)
            pads += [n // 2, n - n // 2]
        return super().forward(nn.functional.pad(x, pads))


class LiteBlock(nn.Module):
    def __init__(self, channels, filters, kernel, stride, factor):
        super().__init__()
        hidden = channels * factor
        self.adds = stride == 1 and channels == filters
        if factor != 1:
            self._expand_conv = nn.Conv2d(channels, hidden, 1, bias=False)
            self._bn0 = nn.BatchNorm2d(hidden, eps=1e-3)
        self._depthwise_conv = SameConv2d(hidden, hidden, kernel, stride, groups=hidden, bias=False)
        self._bn1 = nn.BatchNorm2d(hidden, eps=1e-3)
        self._project_conv = nn.Conv2d(hidden, filters, 1, bias=False)
        self._bn2 = nn.BatchNorm2d(filters, eps=1e-3)

    def forward(self, x):
        y = nn.functional.relu6(self._bn0(self._expand_conv(x))) if hasattr(self, "_bn0") else x
        y = nn.functional.relu6(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        return x + y if self.adds else y


class EfficientNetLite(nn.Module):
    """filters and depths of the seven stages."""

    def __init__(self, filters, depths, classes=1000):
        super().__init__()
        self._conv_stem, self._bn0 = SameConv2d(3, 32, 3, 2, bias=False), nn.BatchNorm2d(32, eps=1e-3)
        blocks, at = [], 32
        for width, depth, kernel, stride in zip(filters, depths, (3, 3, 5, 3, 5, 5, 3),
                                                (1, 2, 2, 2, 1, 2, 1)):
            for i in range(depth):
                blocks.append(LiteBlock(at, width, kernel, 1 if i else stride, 6 if blocks else 1))
                at = width
        self._blocks = nn.Sequential(*blocks)
        self._conv_head = nn.Conv2d(at, 1280, 1, bias=False)
        self._bn1 = nn.BatchNorm2d(1280, eps=1e-3)
        self._fc = nn.Linear(1280, classes)

    def forward(self, x):
        x = self._blocks(nn.functional.relu6(self._bn0(self._conv_stem(x))))
        x = nn.functional.relu6(self._bn1(self._conv_head(x)))
        return self._fc(x.mean((2, 3)))


class MobileNetV2(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        layers, at = [_conv_norm_relu6(3, 32, 3, 2)], 32
        for factor, filters, depth, first in ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2),
                                              (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                                              (6, 320, 1, 1)):
            for i in range(depth):
                layers.append(InvertedResidual(at, filters, 1 if i else first, factor))
                at = filters
        self.features = nn.Sequential(*layers, _conv_norm_relu6(at, 1280, 1))
        self.classifier = nn.Sequential(nn.Dropout(0.2), nn.Linear(1280, classes))

    def forward(self, x):
        return self.classifier(self.features(x).mean((2, 3)))


class Plain(nn.Module):
    """Features, and a classifier over them as an image of side 6 or 7: AlexNet, VGG."""

    def __init__(self, features, classifier):
        super().__init__()
        self.features, self.classifier = nn.Sequential(*features), nn.Sequential(*classifier)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


def vgg(depths, classes=1000):
    layers, at = [], 3
    for width, depth in zip((64, 128, 256, 512, 512), depths):
        for _ in range(depth):
            layers += [nn.Conv2d(at, width, 3, 1, 1), nn.ReLU()]
            at = width
        layers.append(nn.MaxPool2d(2))
    return Plain(layers, [nn.Linear(512 * 49, 4096), nn.ReLU(), nn.Dropout(),
                          nn.Linear(4096, 4096), nn.ReLU(), nn.Dropout(),
                          nn.Linear(4096, classes)])


def alexnet(classes=1000):
    return Plain([nn.Conv2d(3, 64, 11, 4, 2), nn.ReLU(), nn.MaxPool2d(3, 2),
                  nn.Conv2d(64, 192, 5, 1, 2), nn.ReLU(), nn.MaxPool2d(3, 2),
                  nn.Conv2d(192, 384, 3, 1, 1), nn.ReLU(), nn.Conv2d(384, 256, 3, 1, 1), nn.ReLU(),
                  nn.Conv2d(256, 256, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(3, 2)],
                 [nn.Dropout(), nn.Linear(256 * 36, 4096), nn.ReLU(), nn.Dropout(),
                  nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, classes)])


class Fire(nn.Module):
    def __init__(self, channels, squeeze, expand):
        super().__init__()
        self.squeeze = nn.Conv2d(channels, squeeze, 1)
        self.expand1x1 = nn.Conv2d(squeeze, expand, 1)
        self.expand3x3 = nn.Conv2d(squeeze, expand, 3, padding=1)

    def forward(self, x):
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.expand1x1(x)), F.relu(self.expand3x3(x))], 1)


class SqueezeNet(nn.Module):
    """Version 1.1."""

    def __init__(self, classes=1000):
        super().__init__()
        pool = lambda: nn.MaxPool2d(3, 2, ceil_mode=True)  # noqa: E731
        self.features = nn.Sequential(
            nn.Conv2d(3, 64, 3, 2), nn.ReLU(), pool(), Fire(64, 16, 64), Fire(128, 16, 64), pool(),
            Fire(128, 32, 128), Fire(256, 32, 128), pool(), Fire(256, 48, 192), Fire(384, 48, 192),
            Fire(384, 64, 256), Fire(512, 64, 256))
        self.classifier = nn.Sequential(nn.Dropout(), nn.Conv2d(512, classes, 1), nn.ReLU())

    def forward(self, x):
        return self.classifier(self.features(x)).mean((2, 3))


class ConvNorm(nn.Module):
    """What both Inceptions are made of."""

    def __init__(self, channels, filters, kernel, stride=1, padding=0):
        super().__init__()
        self.conv = nn.Conv2d(channels, filters, kernel, stride, padding, bias=False)
        self.bn = _norm(filters, 1e-3)

    def forward(self, x):
        return F.relu(self.bn(self.conv(x)))


class GoogLeNetModule(nn.Module):
    def __init__(self, channels, direct, reduce3, out3, reduce5, out5, pooled):
        super().__init__()
        self.branch1 = ConvNorm(channels, direct, 1)
        self.branch2 = nn.Sequential(ConvNorm(channels, reduce3, 1),
                                     ConvNorm(reduce3, out3, 3, padding=1))
        self.branch3 = nn.Sequential(ConvNorm(channels, reduce5, 1),
                                     ConvNorm(reduce5, out5, 3, padding=1))
        self.branch4 = nn.Sequential(nn.MaxPool2d(3, 1, 1, ceil_mode=True),
                                     ConvNorm(channels, pooled, 1))

    def forward(self, x):
        return torch.cat([getattr(self, f"branch{i}")(x) for i in range(1, 5)], 1)


class GoogLeNetHead(nn.Module):
    """An auxiliary head, of training alone."""

    def __init__(self, channels, classes):
        super().__init__()
        self.conv = ConvNorm(channels, 128, 1)
        self.fc1, self.fc2 = nn.Linear(2048, 1024), nn.Linear(1024, classes)


class GoogLeNet(nn.Module):
    MODULES = {"3a": (192, 64, 96, 128, 16, 32, 32), "3b": (256, 128, 128, 192, 32, 96, 64),
               "4a": (480, 192, 96, 208, 16, 48, 64), "4b": (512, 160, 112, 224, 24, 64, 64),
               "4c": (512, 128, 128, 256, 24, 64, 64), "4d": (512, 112, 144, 288, 32, 64, 64),
               "4e": (528, 256, 160, 320, 32, 128, 128), "5a": (832, 256, 160, 320, 32, 128, 128),
               "5b": (832, 384, 192, 384, 48, 128, 128)}

    def __init__(self, classes=1000):
        super().__init__()
        self.conv1 = ConvNorm(3, 64, 7, 2, 3)
        self.conv2, self.conv3 = ConvNorm(64, 64, 1), ConvNorm(64, 192, 3, padding=1)
        for name, widths in self.MODULES.items():
            setattr(self, f"inception{name}", GoogLeNetModule(*widths))
        self.aux1, self.aux2 = GoogLeNetHead(512, classes), GoogLeNetHead(528, classes)
        self.fc = nn.Linear(1024, classes)

    def forward(self, x):
        x = F.max_pool2d(self.conv1(x), 3, 2, ceil_mode=True)
        x = F.max_pool2d(self.conv3(self.conv2(x)), 3, 2, ceil_mode=True)
        for name in self.MODULES:
            x = getattr(self, f"inception{name}")(x)
            if name in ("3b", "4e"):
                x = F.max_pool2d(x, 3 if name == "3b" else 2, 2, ceil_mode=True)
        return self.fc(x.mean((2, 3)))


class InceptionModule(nn.Module):
    """parts: by name, of convolutions (channels, filters, kernel, stride, padding), in rows; a row
    that begins with "pool" reads the mean pool of what comes in. A list within a row ends it side by
    side. largest: the max pool is a branch too."""

    def __init__(self, rows, largest=False):
        super().__init__()
        self.rows, self.largest = [], largest
        for row in rows:
            names = []
            for part in row:
                if part == "pool":
                    names.append(part)
                    continue
                ends = part if isinstance(part, list) else [part]
                for name, *sizes in ends:
                    setattr(self, name, ConvNorm(*sizes))
                names.append([end[0] for end in ends])
            self.rows.append(names)

    def run_row(self, names, x):
        for name in names:
            if name == "pool":
                x = F.avg_pool2d(x, 3, 1, 1)
            else:
                x = torch.cat([getattr(self, end)(x) for end in name], 1)
        return x

    def forward(self, x):
        parts = [self.run_row(names, x) for names in self.rows]
        return torch.cat(parts + ([F.max_pool2d(x, 3, 2)] if self.largest else []), 1)


def _inception_a(n, pooled):
    return InceptionModule([
        [("branch1x1", n, 64, 1)],
        [("branch5x5_1", n, 48, 1), ("branch5x5_2", 48, 64, 5, 1, 2)],
        [("branch3x3dbl_1", n, 64, 1), ("branch3x3dbl_2", 64, 96, 3, 1, 1),
         ("branch3x3dbl_3", 96, 96, 3, 1, 1)],
        ["pool", ("branch_pool", n, pooled, 1)]])


def _inception_b():
    return InceptionModule([
        [("branch3x3", 288, 384, 3, 2)],
        [("branch3x3dbl_1", 288, 64, 1), ("branch3x3dbl_2", 64, 96, 3, 1, 1),
         ("branch3x3dbl_3", 96, 96, 3, 2)]], True)


ROW, COLUMN = ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0))


def _inception_c(width):
    return InceptionModule([
        [("branch1x1", 768, 192, 1)],
        [("branch7x7_1", 768, width, 1), ("branch7x7_2", width, width, *ROW),
         ("branch7x7_3", width, 192, *COLUMN)],
        [("branch7x7dbl_1", 768, width, 1), ("branch7x7dbl_2", width, width, *COLUMN),
         ("branch7x7dbl_3", width, width, *ROW), ("branch7x7dbl_4", width, width, *COLUMN),
         ("branch7x7dbl_5", width, 192, *ROW)],
        ["pool", ("branch_pool", 768, 192, 1)]])


def _inception_d():
    return InceptionModule([
        [("branch3x3_1", 768, 192, 1), ("branch3x3_2", 192, 320, 3, 2)],
        [("branch7x7x3_1", 768, 192, 1), ("branch7x7x3_2", 192, 192, *ROW),
         ("branch7x7x3_3", 192, 192, *COLUMN), ("branch7x7x3_4", 192, 192, 3, 2)]], True)


def _inception_e(n):
    row, column = ((1, 3), 1, (0, 1)), ((3, 1), 1, (1, 0))
    return InceptionModule([
        [("branch1x1", n, 320, 1)],
        [("branch3x3_1", n, 384, 1), [("branch3x3_2a", 384, 384, *row),
                                      ("branch3x3_2b", 384, 384, *column)]],
        [("branch3x3dbl_1", n, 448, 1), ("branch3x3dbl_2", 448, 384, 3, 1, 1),
         [("branch3x3dbl_3a", 384, 384, *row), ("branch3x3dbl_3b", 384, 384, *column)]],
        ["pool", ("branch_pool", n, 192, 1)]])


class InceptionHead(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.conv0, self.conv1 = ConvNorm(768, 128, 1), ConvNorm(128, 768, 5)
        self.fc = nn.Linear(768, classes)


class InceptionV3(nn.Module):
    STEM = (("1a_3x3", 3, 32, 3, 2), ("2a_3x3", 32, 32, 3), ("2b_3x3", 32, 64, 3, 1, 1),
            ("3b_1x1", 64, 80, 1), ("4a_3x3", 80, 192, 3))

    def __init__(self, classes=1000):
        super().__init__()
        for name, *sizes in self.STEM:
            setattr(self, f"Conv2d_{name}", ConvNorm(*sizes))
        modules = [_inception_a(192, 32), _inception_a(256, 64), _inception_a(288, 64),
                   _inception_b(), *(_inception_c(width) for width in (128, 160, 160, 192)),
                   _inception_d(), _inception_e(1280), _inception_e(2048)]
        self.names = [f"Mixed_{name}" for name in "5b 5c 5d 6a 6b 6c 6d 6e 7a 7b 7c".split()]
        for name, module in zip(self.names, modules):
            setattr(self, name, module)
        self.AuxLogits = InceptionHead(classes)
        self.fc = nn.Linear(2048, classes)

    def forward(self, x):
        for name, *_ in self.STEM:
            x = getattr(self, f"Conv2d_{name}")(x)
            if name in ("2b_3x3", "4a_3x3"):
                x = F.max_pool2d(x, 3, 2)
        for name in self.names:
            x = getattr(self, name)(x)
        return self.fc(x.mean((2, 3)))


CLASSIFIERS = {
    "resnet18": lambda: ResNet(False, (2, 2, 2, 2)),
    "resnet34": lambda: ResNet(False, (3, 4, 6, 3)),
    "resnet50": lambda: ResNet(True, (3, 4, 6, 3)),
    "resnet101": lambda: ResNet(True, (3, 4, 23, 3)),
    "resnet152": lambda: ResNet(True, (3, 8, 36, 3)),
    "mobilenet-v2": MobileNetV2, "alexnet": alexnet, "squeezenet": SqueezeNet,
    "vgg11": lambda: vgg((1, 1, 2, 2, 2)), "vgg16": lambda: vgg((2, 2, 3, 3, 3)),
    "vgg19": lambda: vgg((2, 2, 4, 4, 4)), "googlenet": GoogLeNet, "inception-v3": InceptionV3,
    "efficientnet-lite0": lambda: EfficientNetLite((16, 24, 40, 80, 112, 192, 320),
                                                   (1, 2, 2, 3, 3, 4, 1)),
    "efficientnet-lite1": lambda: EfficientNetLite((16, 24, 40, 80, 112, 192, 320),
                                                   (1, 3, 3, 4, 4, 5, 1)),
    "efficientnet-lite2": lambda: EfficientNetLite((16, 24, 48, 88, 120, 208, 352),
                                                   (1, 3, 3, 4, 4, 5, 1)),
}
SIDES = {"inception-v3": 299, "efficientnet-lite1": 240, "efficientnet-lite2": 260}  # else 224
# Of the published weights, without auxiliary heads.
PARAMETERS = {"resnet18": 11689512, "resnet34": 21797672, "resnet50": 25557032,
              "resnet101": 44549160, "resnet152": 60192808, "mobilenet-v2": 3504872,
              "alexnet": 61100840, "squeezenet": 1235496, "vgg11": 132863336, "vgg16": 138357544,
              "vgg19": 143667240, "googlenet": 6624904, "inception-v3": 23834568,
              "efficientnet-lite0": 4652008, "efficientnet-lite1": 5416680,
              "efficientnet-lite2": 6092072}


# ---- BERT ----


class Inside(nn.Module):
    """A folder of names."""

    def __init__(this, /, **parts):  # noqa: N805 (one of the names is "self")
        super().__init__()
        for name, part in parts.items():
            setattr(this, name, part)


class Bert(nn.Module):
    """A question answering model: bert.* and qa_outputs. Attention without a mask."""

    def __init__(self, vocabulary, hidden, layers, heads, wide):
        super().__init__()
        linear, norm = nn.Linear, lambda: nn.LayerNorm(hidden, eps=1e-12)
        embeddings = Inside(word_embeddings=nn.Embedding(vocabulary, hidden),
                            position_embeddings=nn.Embedding(512, hidden),
                            token_type_embeddings=nn.Embedding(2, hidden), LayerNorm=norm())
        embeddings.register_buffer("position_ids", torch.arange(512)[None])
        layer = [Inside(attention=Inside(
            **{"self": Inside(query=linear(hidden, hidden), key=linear(hidden, hidden),
                              value=linear(hidden, hidden)),
               "output": Inside(dense=linear(hidden, hidden), LayerNorm=norm())}),
            intermediate=Inside(dense=linear(hidden, wide)),
            output=Inside(dense=linear(wide, hidden), LayerNorm=norm())) for _ in range(layers)]
        self.bert = Inside(embeddings=embeddings, encoder=Inside(layer=nn.ModuleList(layer)))
        self.qa_outputs, self.heads = linear(hidden, 2), heads

    def attend(self, part, x):
        n, length, hidden = x.shape
        query, key, value = (getattr(part, name)(x).view(n, length, self.heads, -1).transpose(1, 2)
                             for name in ("query", "key", "value"))
        scores = query @ key.transpose(2, 3) / (hidden / self.heads) ** 0.5
        return (scores.softmax(-1) @ value).transpose(1, 2).reshape(x.shape)

    def forward(self, tokens, types):
        e = self.bert.embeddings
        x = e.LayerNorm(e.word_embeddings(tokens) + e.token_type_embeddings(types)
                        + e.position_embeddings.weight[:tokens.shape[1]])
        for part in self.bert.encoder.layer:
            attention = part.attention
            y = attention.output.dense(self.attend(getattr(attention, "self"), x))
            x = attention.output.LayerNorm(x + y)
            y = part.output.dense(F.gelu(part.intermediate.dense(x)))
            x = part.output.LayerNorm(x + y)
        return self.qa_outputs(x)
