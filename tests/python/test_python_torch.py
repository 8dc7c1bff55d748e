"""PyTorch modules through ONNX: what they compute, before and after training, is what PyTorch computes; torch's
data sets and loaders as data; weights shared with torch's tensors."""
import os
import pathlib

import fresh
import numpy as np


def main():
    import quern
    import torch

    torch.manual_seed(0)
    nn = torch.nn
    module = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
                           nn.Linear(8 * 8 * 8, 5))
    x, y = torch.randn(64, 3, 16, 16), torch.arange(64) % 5
    module(x)  # running statistics that are not the first ones
    module.eval()
    folder = pathlib.Path(os.environ["QUERN_FRESH"])

    def difference(model):
        with torch.no_grad():
            wanted = torch.softmax(module(x), 1).numpy()
        return float(np.abs(model.predict(x.numpy()) - wanted).max())

    model = quern.Model.from_torch(module, x[:2], path=folder / "module.onnx")
    assert not module.training and difference(model) < 1e-5, difference(model)

    data = torch.utils.data.TensorDataset(x, y)
    history = model.fit(data, epochs=60, batch=16, lr=0.05, seed=1)
    assert history.losses[-1] < history.losses[0] / 2, history
    first = model.evaluate((x.numpy(), y.numpy()))
    assert first["accuracy"] > 0.9 and first["samples"] == 64, first
    for same in (data, torch.utils.data.DataLoader(data, batch_size=10)):
        assert model.evaluate(same) == first

    # What was learned goes back into the module, tensor by tensor, and computes the same there.
    state = module.state_dict()
    for name, array in model.parameters().items():
        tensor = torch.from_dlpack(array)
        wanted = state[name].shape
        if tensor.ndim == 4:
            tensor = tensor.permute(0, 3, 1, 2)  # (K, R, S, C)
        assert tensor.shape == wanted, (name, tensor.shape, wanted)
        state[name].copy_(tensor)
    assert difference(model) < 1e-5, difference(model)
    torch.from_dlpack(model.parameters()["5.bias"]).zero_()
    assert not model.parameters()["5.bias"].any()

    model.save(folder / "m.safetensors")
    again = quern.Model(folder / "m.safetensors", layout="nchw")
    np.testing.assert_array_equal(again.predict(x.numpy()), model.predict(x.numpy()))
    temporary = quern.Model.from_torch(module, x[:1])
    place = temporary.name
    assert pathlib.Path(place).is_file()
    del temporary
    assert not pathlib.Path(place).exists()
    print(history)


if __name__ == "__main__":
    fresh.enter(main)
