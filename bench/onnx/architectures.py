"""Which architectures the trial takes: every k-th of the lists of torchvision, timm and transformers, sorted by name. The second
part has the places half-way between those of timm's first, all video classifiers of torchvision, every eighth base model of transformers,
and all modules of torch.nn of MODULES.
One that has more than MOST parameters, or whose library cannot make it without files from a hub, gives its place to the
next of the list. Networks of transformers are made small by the settings of SMALL, where their configuration has them."""
import torch

MOST = 30_000_000
EVERY = {"torchvision": 2, "timm": 20, "text": 6, "image": 3, "timm2": 40, "video": 1, "base": 8, "modules": 1}
FIRST = {"timm2": 10}
IMAGE, VOLUME, ROWS = (2, 8, 12, 12), (2, 4, 6, 6, 6), (2, 12, 16)
# a module's arguments, and the shape of its input
MODULES = {
    "AdaptiveAvgPool2d": ((3,), IMAGE), "AdaptiveMaxPool2d": ((4,), IMAGE), "AvgPool1d": ((3, 2, 1), ROWS),
    "AvgPool2d": ((3, 2, 1, True), IMAGE), "AvgPool3d": ((2,), VOLUME), "BatchNorm1d": ((12,), ROWS), "BatchNorm2d": ((8,), IMAGE),
    "BatchNorm3d": ((4,), VOLUME), "CELU": ((), ROWS), "ChannelShuffle": ((2,), IMAGE), "Conv1d": ((12, 6, 3), ROWS),
    "Conv2d": ((8, 6, 3, 2, 1, 1, 2), IMAGE), "Conv3d": ((4, 6, 3), VOLUME), "ConvTranspose1d": ((12, 6, 3, 2, 1, 1), ROWS),
    "ConvTranspose2d": ((8, 6, 3, 2, 1, 1, 2), IMAGE), "ConvTranspose3d": ((4, 6, 3, 2), VOLUME), "CosineSimilarity": None,
    "ELU": ((), ROWS), "Fold": ((9, 3), (2, 36, 49)), "GELU": ((), ROWS), "GLU": ((), ROWS), "GRU": ((16, 8, 2, True, True, 0.0, True), ROWS),
    "GroupNorm": ((4, 8), IMAGE), "Hardshrink": ((), ROWS), "Hardsigmoid": ((), ROWS), "Hardswish": ((), ROWS), "Hardtanh": ((), ROWS),
    "InstanceNorm2d": ((8, 1e-5, 0.1, True), IMAGE), "LPPool2d": ((2, 3, 2), IMAGE), "LSTM": ((16, 8, 2, True, True, 0.0, True), ROWS),
    "LayerNorm": ((16,), ROWS), "LeakyReLU": ((-0.1,), ROWS), "Linear": ((16, 5), ROWS), "LocalResponseNorm": ((3,), IMAGE),
    "LogSigmoid": ((), ROWS), "LogSoftmax": ((1,), ROWS), "MaxPool2d": ((3, 2, 1, 1, False, True), IMAGE), "MaxPool3d": ((2,), VOLUME),
    "Mish": ((), ROWS), "PReLU": ((8,), IMAGE), "PixelShuffle": ((2,), IMAGE), "PixelUnshuffle": ((2,), IMAGE), "RMSNorm": ((16,), ROWS),
    "RNN": ((16, 8, 1, "tanh", True, True), ROWS), "ReflectionPad2d": ((2,), IMAGE), "ReplicationPad2d": ((2,), IMAGE), "SELU": ((), ROWS),
    "SiLU": ((), ROWS), "Softmax": ((1,), ROWS), "Softmin": ((1,), ROWS), "Softplus": ((2.0,), ROWS), "Softshrink": ((), ROWS),
    "Softsign": ((), ROWS), "Tanhshrink": ((), ROWS), "Threshold": ((0.1, 20.0), ROWS),
    "TransformerDecoderLayer": ((16, 4, 32, 0.0, "relu", 1e-5, True), ROWS), "TransformerEncoderLayer": ((16, 4, 32, 0.0, "gelu", 1e-5, True), ROWS),
    "Unfold": ((3,), IMAGE), "Unflatten": ((1, (3, 4)), ROWS), "Upsample": ((None, 2, "bilinear"), IMAGE), "ZeroPad2d": ((1,), IMAGE),
}
SMALL = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 64, "d_model": 32, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 64, "encoder_layers": 2,
         "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
         "decoder_ffn_dim": 64, "d_ff": 64, "d_kv": 8, "num_layers": 2, "num_heads": 4, "embedding_size": 32, "head_dim": 8,
         "max_position_embeddings": 128, "image_size": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
         "use_cache": False, "num_labels": 3}


def text_names():
    from transformers.models.auto import modeling_auto
    return sorted(modeling_auto.MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING_NAMES)


def image_names():
    from transformers.models.auto import modeling_auto
    return sorted(modeling_auto.MODEL_FOR_IMAGE_CLASSIFICATION_MAPPING_NAMES)


def names(library):
    if library == "torchvision":
        import torchvision
        return sorted(torchvision.models.list_models(module=torchvision.models))
    if library == "timm":
        import timm
        return sorted(timm.list_models())
    if library == "timm2":
        return names("timm")
    if library == "video":
        import torchvision
        return sorted(torchvision.models.list_models(module=torchvision.models.video))
    if library == "base":
        from transformers.models.auto import modeling_auto
        return sorted(modeling_auto.MODEL_MAPPING_NAMES)
    if library == "modules":
        return [name for name in sorted(MODULES) if MODULES[name]]
    return text_names() if library == "text" else image_names()


def small(name, auto):
    from transformers import CONFIG_MAPPING
    config = CONFIG_MAPPING[name]()
    for key, value in SMALL.items():
        if hasattr(config, key) and isinstance(getattr(config, key), int) and not isinstance(getattr(config, key), bool):
            setattr(config, key, value)
    config.use_cache = False
    config.return_dict = True
    return auto.from_config(config)


class First(torch.nn.Module):
    """The first output of a network, times a weight, so that all trains, and of two inputs the same twice."""

    def __init__(self, network, name=None, twice=False):
        super().__init__()
        self.network, self.name, self.twice = network, name, twice
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        x = x * self.scale if x.is_floating_point() else x
        y = self.network(**{self.name: x}) if self.name else self.network(x, x) if self.twice else self.network(x)
        return y[0] if isinstance(y, (tuple, list)) or self.name else y


class Logits(torch.nn.Module):
    """The logits alone of a network of transformers."""

    def __init__(self, network, name):
        super().__init__()
        self.network, self.name = network, name

    def forward(self, x):
        return self.network(**{self.name: x}).logits


def make(library, name):
    """A network, with random weights, and a batch of two samples that it takes."""
    torch.manual_seed(1)
    if library == "torchvision":
        import torchvision
        network = torchvision.models.get_model(name, weights=None)
        size = 299 if name == "inception_v3" else 224
        if name in ("inception_v3", "googlenet"):
            network.aux_logits = False
            network.AuxLogits = network.aux1 = network.aux2 = None
        return network, torch.randn(2, 3, size, size)
    if library in ("timm", "timm2"):
        import timm
        network = timm.create_model(name, pretrained=False)
        size = network.pretrained_cfg.get("input_size", (3, 224, 224))
        return network, torch.randn(2, *size)
    if library == "modules":
        arguments, shape = MODULES[name]
        return First(getattr(torch.nn, name)(*arguments), None, name == "TransformerDecoderLayer"), torch.randn(*shape)
    if library == "video":
        import torchvision
        side = 112 if name.startswith(("mc3", "r2plus1d", "r3d")) else 224
        return torchvision.models.get_model(name, weights=None), torch.randn(2, 3, 16, side, side)
    import transformers
    if library == "base":
        network = small(name, transformers.AutoModel)
        key = network.main_input_name
        if key not in ("input_ids", "pixel_values"):
            raise ValueError(f"it takes {key}")
        side = getattr(network.config, "image_size", 64)
        x = torch.randint(3, 98, (2, 11)) if key == "input_ids" else torch.randn(2, 3, *((side, side) if isinstance(side, int) else (64, 64)))
        with torch.no_grad():  # one that needs more than this is another's place
            First(network.eval(), key)(x)
        return First(network, key), x
    if library == "text":
        network = small(name, transformers.AutoModelForSequenceClassification)
        return Logits(network, "input_ids"), torch.randint(3, 98, (2, 11))
    network = small(name, transformers.AutoModelForImageClassification)
    size = getattr(network.config, "image_size", 64)
    size = size if isinstance(size, int) else 64
    return Logits(network, "pixel_values"), torch.randn(2, 3, size, size)


def chosen():
    """(library, place in its list) of all that are tried; where one cannot be made, the next takes its place."""
    return [(library, i) for library, k in EVERY.items() for i in range(FIRST.get(library, 0), len(names(library)), k)]


def make_from(library, place):
    """The first of the list from a place on that can be made, before the next place of the rule."""
    listed, reason = names(library), ""
    for name in listed[place:place + EVERY[library]]:
        try:
            with torch.device("meta"):
                n = sum(p.numel() for p in make(library, name)[0].parameters())
            if n > MOST:
                reason = f"{name}: {n / 1e6:.0f} million parameters"
                continue
            network, x = make(library, name)
        except Exception as error:  # what a library cannot make without a hub is another's place
            reason = f"{name}: {type(error).__name__}: {error}".splitlines()[0]
            continue
        return name, network, x
    raise LookupError(reason)
