"""Networks written for the trial, of kinds that no list of a library has: each is a function that gives a network and a batch of inputs.
Graphs, sets, signals, implicit functions, flows, experts, states that are scanned, and attention in forms of its own."""
import math

import torch
from torch import nn
from torch.nn import functional


class Of(nn.Module):
    """A network by its layers and a function of them and x."""

    def __init__(self, forward, **layers):
        super().__init__()
        self.run = forward
        for name, layer in layers.items():
            setattr(self, name, layer)

    def forward(self, x):
        return self.run(self, x)


def mlp(*widths, act=nn.GELU):
    return nn.Sequential(*[layer for a, b in zip(widths, widths[1:]) for layer in (nn.Linear(a, b), act())][:-1])


def graph_sums():
    """Messages along edges, summed where they arrive."""
    edges = torch.randint(0, 7, (2, 20))

    def run(m, x):
        for layer in (m.first, m.second):
            sent = layer(torch.cat([x[:, m.edges[0]], x[:, m.edges[1]]], -1))
            x = x + torch.zeros_like(x).index_add(1, m.edges[1], sent)
        return x.mean(1)
    network = Of(run, first=mlp(16, 8, 8), second=mlp(16, 8, 8))
    network.register_buffer("edges", edges)
    return network, torch.randn(2, 7, 8)


def graph_attention():
    adjacency = torch.rand(6, 6) > 0.5

    def run(m, x):
        h = m.value(x)
        score = functional.leaky_relu(m.left(h) + m.right(h).transpose(1, 2), 0.2)
        return torch.softmax(score.masked_fill(~(m.adjacency | torch.eye(6, dtype=torch.bool)), float("-inf")), -1) @ h
    network = Of(run, value=nn.Linear(8, 8), left=nn.Linear(8, 1), right=nn.Linear(8, 1))
    network.register_buffer("adjacency", adjacency)
    return network, torch.randn(2, 6, 8)


def wave_layers():
    """Causal convolutions with gates and skips (van den Oord et al. 2016)."""
    def run(m, x):
        x, skips = m.enter(x), 0
        for i, (gate, out) in enumerate(zip(m.gates, m.outs)):
            a, b = gate(functional.pad(x, (2 ** i, 0))).chunk(2, 1)
            h = out(torch.tanh(a) * torch.sigmoid(b))
            x, skips = x + h, skips + h
        return m.leave(functional.relu(skips))
    return Of(run, enter=nn.Conv1d(1, 8, 1), leave=nn.Conv1d(8, 4, 1), outs=nn.ModuleList(nn.Conv1d(8, 8, 1) for _ in range(4)),
              gates=nn.ModuleList(nn.Conv1d(8, 16, 2, dilation=2 ** i) for i in range(4))), torch.randn(2, 1, 64)


def conv_states():
    """A convolutional LSTM over frames (Shi et al. 2015)."""
    def run(m, x):
        h = c = torch.zeros(x.shape[0], 6, *x.shape[3:], dtype=x.dtype)
        for t in range(x.shape[1]):
            i, f, o, g = m.cell(torch.cat([x[:, t], h], 1)).chunk(4, 1)
            c = f.sigmoid() * c + i.sigmoid() * g.tanh()
            h = o.sigmoid() * c.tanh()
        return h
    return Of(run, cell=nn.Conv2d(9, 24, 3, padding=1)), torch.randn(2, 4, 3, 10, 10)


def experts():
    """The two best of four experts by a gate."""
    def run(m, x):
        top, which = m.gate(x).topk(2, -1)
        weights = torch.zeros_like(m.gate(x)).scatter(-1, which, top.softmax(-1))
        return (torch.stack([e(x) for e in m.experts], -2) * weights.unsqueeze(-1)).sum(-2)
    return Of(run, gate=nn.Linear(8, 4), experts=nn.ModuleList(mlp(8, 16, 8) for _ in range(4))), torch.randn(3, 5, 8)


def linear_attention():
    def run(m, x):
        q, k, v = m.qkv(x).chunk(3, -1)
        q, k = functional.elu(q) + 1, functional.elu(k) + 1
        state = torch.einsum("btd,bte->btde", k, v).cumsum(1)
        return m.out(torch.einsum("btd,btde->bte", q, state) / (q * k.cumsum(1)).sum(-1, keepdim=True))
    return Of(run, qkv=nn.Linear(8, 24), out=nn.Linear(8, 8)), torch.randn(2, 10, 8)


def scanned_states():
    """Selective states (Gu and Dao 2023), written out."""
    def run(m, x):
        delta, b, c = functional.softplus(m.delta(x)), m.b(x), m.c(x)
        h, outs = torch.zeros(x.shape[0], 8, 4, dtype=x.dtype), []
        for t in range(x.shape[1]):
            h = torch.exp(delta[:, t, :, None] * -m.a.exp()) * h + delta[:, t, :, None] * b[:, t, None] * x[:, t, :, None]
            outs.append((h * c[:, t, None]).sum(-1))
        return torch.stack(outs, 1) + x * m.skip
    return Of(run, delta=nn.Linear(8, 8), b=nn.Linear(8, 4), c=nn.Linear(8, 4), a=nn.Parameter(torch.rand(8, 4)),
              skip=nn.Parameter(torch.ones(8))), torch.randn(2, 9, 8)


def sines():
    """Layers of sines of coordinates (Sitzmann et al. 2020) after an embedding by frequencies."""
    def run(m, x):
        x = torch.cat([f(x[..., None] * 2.0 ** torch.arange(4) * math.pi).flatten(-2) for f in (torch.sin, torch.cos)], -1)
        return m.last(torch.sin(30 * m.second(torch.sin(m.first(x)))))
    return Of(run, first=nn.Linear(16, 16), second=nn.Linear(16, 16), last=nn.Linear(16, 3)), torch.rand(6, 2)


def couplings():
    """A flow of couplings, and the logarithm of its determinant (Dinh et al. 2017)."""
    def run(m, x):
        log = 0
        for net in m.nets:
            a, b = x.chunk(2, -1)
            scale, shift = net(a).chunk(2, -1)
            scale = torch.tanh(scale)
            x, log = torch.cat([b * scale.exp() + shift, a], -1), log + scale.sum(-1, keepdim=True)
        return torch.cat([x, log], -1)
    return Of(run, nets=nn.ModuleList(mlp(4, 16, 8) for _ in range(3))), torch.randn(5, 8)


def splines():
    """A layer of splines (Liu et al. 2024): bases by degree."""
    grid = torch.linspace(-2, 2, 12)

    def run(m, x):
        x = x[..., None]
        bases = ((x >= m.grid[:-1]) & (x < m.grid[1:])).to(x.dtype)
        for k in range(1, 4):
            bases = (x - m.grid[:-(k + 1)]) / (m.grid[k:-1] - m.grid[:-(k + 1)]) * bases[..., :-1] + \
                (m.grid[k + 1:] - x) / (m.grid[k + 1:] - m.grid[1:-k]) * bases[..., 1:]
        return m.base(functional.silu(x[..., 0])) + torch.einsum("bik,oik->bo", bases, m.weight)
    network = Of(run, base=nn.Linear(5, 3), weight=nn.Parameter(torch.randn(3, 5, 8) * 0.1))
    network.register_buffer("grid", grid)
    return network, torch.randn(4, 5)


def spectral_operator():
    """A Fourier layer (Li et al. 2021) with real weights."""
    def run(m, x):
        f = torch.fft.rfft(m.enter(x), dim=-1, norm="ortho")
        real, imaginary = f.real[..., :6], f.imag[..., :6]
        out = torch.complex(torch.einsum("bct,cot->bot", real, m.re) - torch.einsum("bct,cot->bot", imaginary, m.im),
                            torch.einsum("bct,cot->bot", real, m.im) + torch.einsum("bct,cot->bot", imaginary, m.re))
        return torch.fft.irfft(functional.pad(out, (0, 11)), n=32, dim=-1, norm="ortho") + m.by(x)
    return Of(run, enter=nn.Conv1d(2, 4, 1), by=nn.Conv1d(2, 4, 1), re=nn.Parameter(torch.randn(4, 4, 6) * 0.1),
              im=nn.Parameter(torch.randn(4, 4, 6) * 0.1)), torch.randn(2, 2, 32)


def capsules():
    """Routing by agreement (Sabour et al. 2017)."""
    def squash(s):
        n = (s * s).sum(-1, keepdim=True)
        return n / (1 + n) * s / (n + 1e-8).sqrt()

    def run(m, x):
        u = torch.einsum("bid,iojd->bioj", squash(m.first(x).view(x.shape[0], 6, 4)), m.weight)
        b = torch.zeros(x.shape[0], 6, 3, dtype=x.dtype)
        for _ in range(3):
            v = squash((b.softmax(-1).unsqueeze(-1) * u).sum(1))
            b = b + (u * v.unsqueeze(1)).sum(-1)
        return v.norm(dim=-1)
    return Of(run, first=nn.Linear(10, 24), weight=nn.Parameter(torch.randn(6, 3, 5, 4) * 0.3)), torch.randn(4, 10)


def deformed():
    """A convolution whose places are learnt (Dai et al. 2017)."""
    import torchvision

    def run(m, x):
        return torchvision.ops.deform_conv2d(x, m.places(x), m.weight, padding=1)
    return Of(run, places=nn.Conv2d(3, 18, 3, padding=1), weight=nn.Parameter(torch.randn(4, 3, 3, 3) * 0.2)), torch.randn(2, 3, 8, 8)


def transformed_images():
    """A network that turns its input (Jaderberg et al. 2015)."""
    def run(m, x):
        theta = m.where(x.flatten(1)).view(-1, 2, 3)
        return m.conv(functional.grid_sample(x, functional.affine_grid(theta, list(x.shape), align_corners=False), align_corners=False))
    return Of(run, where=nn.Linear(192, 6), conv=nn.Conv2d(3, 4, 3)), torch.randn(2, 3, 8, 8)


def points():
    """Sets of points (Qi et al. 2017): the largest of each feature, and the nearest neighbours."""
    def run(m, x):
        near = torch.cdist(x, x).topk(4, largest=False).indices
        around = torch.gather(x.unsqueeze(1).expand(-1, 12, -1, -1), 2, near.unsqueeze(-1).expand(-1, -1, -1, 3))
        return m.last(m.first(torch.cat([around - x.unsqueeze(2), x.unsqueeze(2).expand_as(around)], -1)).amax(2).amax(1))
    return Of(run, first=mlp(6, 16, 16), last=nn.Linear(16, 5)), torch.randn(2, 12, 3)


def forecast_blocks():
    """Blocks that subtract what they explain (Oreshkin et al. 2020)."""
    def run(m, x):
        total = 0
        for block in m.blocks:
            back, ahead = block(x).split([24, 6], -1)
            x, total = x - back, total + ahead
        return total
    return Of(run, blocks=nn.ModuleList(mlp(24, 32, 30, act=nn.ReLU) for _ in range(3))), torch.randn(4, 24)


def moving_averages():
    """Series as trend and rest (Zeng et al. 2023)."""
    def run(m, x):
        trend = functional.avg_pool1d(torch.cat([x[:, :, :1].repeat(1, 1, 2), x, x[:, :, -1:].repeat(1, 1, 2)], -1), 5, 1)
        return m.rest(x - trend) + m.trend(trend)
    return Of(run, rest=nn.Linear(24, 6), trend=nn.Linear(24, 6)), torch.randn(2, 3, 24)


def patched_series():
    """Patches of a series, normalised by each sample (Nie et al. 2023)."""
    def run(m, x):
        mean, deviation = x.mean(-1, keepdim=True), x.std(-1, keepdim=True, unbiased=False) + 1e-5
        patches = ((x - mean) / deviation).unfold(-1, 8, 4)
        n, c, p, k = patches.shape
        h = m.encoder((m.enter(patches) + m.places).reshape(n * c, p, 16))
        return m.head(h.reshape(n, c, p * 16)) * deviation + mean
    layer = nn.TransformerEncoderLayer(16, 4, 32, 0.0, "gelu", batch_first=True)
    return Of(run, enter=nn.Linear(8, 16), places=nn.Parameter(torch.randn(5, 16) * 0.02), encoder=nn.TransformerEncoder(layer, 2, enable_nested_tensor=False),
              head=nn.Linear(80, 6)), torch.randn(2, 3, 24)


def shared_weights():
    """An encoder and decoder with one matrix, turned."""
    def run(m, x):
        return functional.linear(torch.tanh(m.code(x)), m.code.weight.t(), m.bias)
    return Of(run, code=nn.Linear(12, 5), bias=nn.Parameter(torch.zeros(12))), torch.randn(4, 12)


def normed_weights():
    def run(m, x):
        return m.second(functional.relu(m.first(x)).mean((2, 3)))
    return Of(run, first=nn.utils.parametrizations.weight_norm(nn.Conv2d(3, 6, 3)),
              second=nn.utils.parametrizations.orthogonal(nn.Linear(6, 6), use_trivialization=False, orthogonal_map="cayley")), torch.randn(2, 3, 8, 8)


def squeezed():
    """Channels weighed by their means, in a block with parts of depth (Howard et al. 2019)."""
    def run(m, x):
        h = functional.hardswish(m.norm(m.deep(functional.hardswish(m.wide(x)))))
        return x + m.narrow(h * functional.hardsigmoid(m.up(functional.relu(m.down(functional.adaptive_avg_pool2d(h, 1))))))
    return Of(run, wide=nn.Conv2d(8, 16, 1), deep=nn.Conv2d(16, 16, 5, padding=2, groups=16), norm=nn.GroupNorm(4, 16), down=nn.Conv2d(16, 4, 1),
              up=nn.Conv2d(4, 16, 1), narrow=nn.Conv2d(16, 8, 1)), torch.randn(2, 8, 9, 9)


def shuffled_up():
    """More pixels out of channels, added to an image made larger (Shi et al. 2016)."""
    def run(m, x):
        return functional.pixel_shuffle(m.second(functional.prelu(m.first(x), m.slope)), 3) + functional.interpolate(x, scale_factor=3, mode="bicubic")
    return Of(run, first=nn.Conv2d(3, 8, 5, padding=2), second=nn.Conv2d(8, 27, 3, padding=1), slope=nn.Parameter(torch.full((8,), 0.25))), torch.randn(1, 3, 7, 6)


def boxes():
    """A detector of one scale: centres, extents and classes as YOLO decodes them."""
    def run(m, x):
        y = m.head(functional.silu(m.stem(x)))
        n, _, h, w = y.shape
        y = y.view(n, 3, 9, h, w).permute(0, 1, 3, 4, 2)
        rows, columns = torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")
        centre = (y[..., :2].sigmoid() * 2 - 0.5 + torch.stack([columns, rows], -1)) * 8
        extent = (y[..., 2:4].sigmoid() * 2) ** 2 * m.anchors.view(1, 3, 1, 1, 2)
        return torch.cat([centre, extent, y[..., 4:].sigmoid()], -1).reshape(n, -1, 9)
    network = Of(run, stem=nn.Conv2d(3, 8, 6, 4, 2), head=nn.Conv2d(8, 27, 1))
    network.register_buffer("anchors", torch.tensor([[10.0, 13.0], [16.0, 30.0], [33.0, 23.0]]))
    return network, torch.randn(2, 3, 32, 32)


def regions():
    """The second stage of a detector over boxes that the image's own features make."""
    import torchvision

    def run(m, x):
        h = functional.relu(m.stem(x))
        place = m.where(h.mean((2, 3))).sigmoid() * 6
        box = torch.cat([place[:, :2], place[:, :2] + place[:, 2:] + 1], 1)
        which = torch.arange(x.shape[0], dtype=x.dtype).unsqueeze(1)
        return m.head(torchvision.ops.roi_align(h, torch.cat([which, box], 1), 3, 1.0, 2, True).flatten(1))
    return Of(run, stem=nn.Conv2d(3, 6, 3, padding=1), where=nn.Linear(6, 4), head=nn.Linear(54, 5)), torch.randn(2, 3, 12, 12)


def rotated_attention():
    """Queries and keys turned by their places, with one key for two queries and a window."""
    def run(m, x):
        n, t, _ = x.shape
        q, k, v = (y.view(n, t, -1, 8).transpose(1, 2) for y in m.qkv(x).split([32, 16, 16], -1))
        angle = torch.arange(t, dtype=x.dtype)[:, None] * 100.0 ** (-torch.arange(0, 4, dtype=x.dtype) / 4)
        cos, sin = torch.cat([angle.cos()] * 2, -1), torch.cat([angle.sin()] * 2, -1)

        def turn(y):
            a, b = y.chunk(2, -1)
            return y * cos + torch.cat([-b, a], -1) * sin
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        away = torch.arange(t)[:, None] - torch.arange(t)[None]
        mask = (away >= 0) & (away < 5)
        y = functional.scaled_dot_product_attention(turn(q), turn(k), v, attn_mask=mask)
        return m.out(y.transpose(1, 2).reshape(n, t, 32))
    return Of(run, qkv=nn.Linear(32, 64), out=nn.Linear(32, 32)), torch.randn(2, 9, 32)


def decoder_of_words():
    """A GRU that attends to what an encoder made (Bahdanau et al. 2015), step by step."""
    def run(m, x):
        memory, h = m.encoder(m.table(x))
        h, y, outs = h[0], m.table(x[:, 0]), []
        for _ in range(4):
            weights = (memory @ m.key(h).unsqueeze(-1)).softmax(1)
            h = m.cell(torch.cat([y, (memory * weights).sum(1)], -1), h)
            outs.append(m.out(h))
            y = m.table(outs[-1].argmax(-1))
        return torch.stack(outs, 1)
    return Of(run, table=nn.Embedding(20, 8), encoder=nn.GRU(8, 12, batch_first=True), key=nn.Linear(12, 12), cell=nn.GRUCell(20, 12),
              out=nn.Linear(12, 20)), torch.randint(0, 20, (3, 7))


def factors():
    """Interactions of categories in pairs (Rendle 2010), with numbers shifted into one table."""
    def run(m, x):
        rows = m.table(x + torch.tensor([0, 10, 20]))
        return m.line(x + torch.tensor([0, 10, 20])).sum(1) + 0.5 * (rows.sum(1) ** 2 - (rows ** 2).sum(1)).sum(-1, keepdim=True)
    return Of(run, table=nn.Embedding(30, 6), line=nn.Embedding(30, 1)), torch.randint(0, 10, (5, 3))


def mixer_of_tokens():
    def run(m, x):
        x = m.enter(x).flatten(2).transpose(1, 2)
        x = x + m.tokens(m.first(x).transpose(1, 2)).transpose(1, 2)
        return (x + m.channels(m.second(x))).mean(1)
    return Of(run, enter=nn.Conv2d(3, 16, 4, 4), first=nn.LayerNorm(16), second=nn.LayerNorm(16), tokens=mlp(9, 18, 9), channels=mlp(16, 32, 16)), torch.randn(2, 3, 12, 12)


def windows():
    """Attention in windows that are shifted, with a bias by distance (Liu et al. 2021)."""
    def cut(x):
        n, h, w, c = x.shape
        return x.view(n, h // 4, 4, w // 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(-1, 16, c)

    def run(m, x):
        n, h, w, c = x.shape
        shifted = torch.roll(x, (-2, -2), (1, 2))
        q, k, v = (y.view(-1, 16, 2, 8).transpose(1, 2) for y in m.qkv(cut(shifted)).chunk(3, -1))
        bias = m.table[m.number.view(-1)].view(16, 16, 2).permute(2, 0, 1)
        y = ((q @ k.transpose(-2, -1)) * 8 ** -0.5 + bias).softmax(-1) @ v
        y = m.out(y.transpose(1, 2).reshape(-1, 16, 16)).view(n, h // 4, w // 4, 4, 4, c).permute(0, 1, 3, 2, 4, 5).reshape(n, h, w, c)
        return x + torch.roll(y, (2, 2), (1, 2))
    network = Of(run, qkv=nn.Linear(16, 48), out=nn.Linear(16, 16), table=nn.Parameter(torch.randn(49, 2) * 0.02))
    at = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
    away = (at[:, :, None] - at[:, None]).permute(1, 2, 0) + 3
    network.register_buffer("number", away[..., 0] * 7 + away[..., 1])
    return network, torch.randn(2, 8, 8, 16)


NETWORKS = {name: make for name, make in list(globals().items())
            if callable(make) and getattr(make, "__module__", "") == __name__ and name not in ("Of", "mlp")}
