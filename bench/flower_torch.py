"""LeNet-5 of the zoo in PyTorch, with those parts of quern's Python interface that the Flower app uses: bench_flower.py
puts it in quern's place, so that both apps differ in the trainer alone. Weights have quern's names and shapes."""
import types

import numpy as np
import torch

LAYERS = {"conv1": torch.nn.Conv2d(1, 6, 5, padding=2), "conv2": torch.nn.Conv2d(6, 16, 5), "conv3": torch.nn.Conv2d(16, 120, 5),
          "fc1": torch.nn.Linear(120, 84), "fc2": torch.nn.Linear(84, 10)}


def as_ours(name, tensor):
    """A view in quern's order: convolutions have their channels last."""
    array = tensor.detach().numpy()
    return array.transpose(0, 2, 3, 1) if name.startswith("conv") and array.ndim == 4 else array


class Model:
    def __init__(self, _name, classes, **_):
        assert classes == 10
        torch.set_num_threads(1)
        steps = []
        for name, layer in LAYERS.items():
            steps += [(name, layer)] + ([("flat", torch.nn.Flatten())] if name == "conv3" else [])
            if name != "fc2":
                steps.insert(len(steps) - (name == "conv3"), (f"tanh_{name}", torch.nn.Tanh()))
            if name in ("conv1", "conv2"):
                steps.append((f"pool_{name}", torch.nn.AvgPool2d(2)))
        self.net = torch.nn.Sequential()
        for name, step in steps:
            self.net.add_module(name, step)

    def parameters(self):
        return {f"{name}.{kind}": as_ours(name, getattr(layer, kind))
                for name, layer in LAYERS.items() for kind in ("weight", "bias")}

    def fit(self, data, *, epochs, batch, lr, momentum, seed, **_):
        x, y = (torch.from_numpy(np.ascontiguousarray(part)) for part in data)
        x, y = x.permute(0, 3, 1, 2).contiguous(), y.long()
        draw, losses = torch.Generator().manual_seed(seed), []
        optimiser = torch.optim.SGD(self.net.parameters(), lr=lr, momentum=momentum)
        for _ in range(epochs):
            order = torch.randperm(len(y), generator=draw)
            for at in range(0, len(y), batch):
                chosen = order[at:at + batch]
                optimiser.zero_grad()
                loss = torch.nn.functional.cross_entropy(self.net(x[chosen]), y[chosen])
                loss.backward()
                optimiser.step()
                losses.append(loss.item())
        return types.SimpleNamespace(losses=losses)

    def evaluate(self, data):
        x, y = (torch.from_numpy(np.ascontiguousarray(part)) for part in data)
        with torch.no_grad():
            found = self.net(x.permute(0, 3, 1, 2).contiguous())
            loss = torch.nn.functional.cross_entropy(found, y.long())
        return {"loss": loss.item(), "accuracy": (found.argmax(1) == y).float().mean().item(), "samples": float(len(y))}

    def save(self, _path):
        pass
