"""Which architectures the trial takes: every k-th of the lists of torchvision, timm and transformers, sorted by name. The second
part has the places half-way between those of timm's first, all video classifiers of torchvision, every eighth base model of transformers,
and all modules of torch.nn of MODULES. The third part has new places of timm, causal, masked and translating language models, base models of every kind
of input, audio, segmentation, video, detection, and the modules of MORE_MODULES; its images have 64 pixels where the network takes so few, and
a network may have MOST_THIRD parameters (MOST_OF_IMAGES in segmentation and detection).
The fourth part (FOURTH) has other places of timm and transformers, all decoders of segmentation_models_pytorch, networks of diffusers and
torchaudio, and those of written.py; export.py exports it as PyTorch does by itself ("default").
One that has more than MOST parameters, or whose library cannot make it without files from a hub, gives its place to the
next of the list. Networks of transformers are made small by the settings of SMALL, where their configuration has them."""
import torch

import written

MOST, MOST_THIRD, MOST_OF_IMAGES = 30_000_000, 12_000_000, 60_000_000
EVERY = {"torchvision": 2, "timm": 20, "text": 6, "image": 3, "timm2": 40, "video": 1, "base": 8, "modules": 1}
THIRD = {"timm3": 40, "causal": 16, "masked": 10, "translation": 8, "base3": 32, "audio": 2, "ctc": 4, "detr": 3, "semantic": 2, "depth": 3,
         "clips": 1, "segmentation": 1, "detection": 1, "modules3": 1}
FOURTH = {"timm4": 80, "causal4": 24, "base4": 48, "audio4": 4, "series": 1, "smp": 2, "other": 1, "written": 1}
EVERY.update(THIRD)
EVERY.update(FOURTH)
LIMITS = {library: MOST_OF_IMAGES if library in ("segmentation", "detection", "smp") else MOST_THIRD for library in {**THIRD, **FOURTH}}
FIRST = {"timm4": 17, "causal4": 9, "base4": 13, "audio4": 1, "timm2": 10, "timm3": 5, "causal": 3, "masked": 3, "translation": 3, "base3": 4}
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
TOKENS = (2, 9)


def classes(*shape):
    return torch.arange(torch.Size(shape).numel()).reshape(shape) % 5


def signs(*shape):
    return 1.0 - 2.0 * (torch.arange(torch.Size(shape).numel()).reshape(shape) % 2)


# the same, and what follows the input: a function that makes it
MORE_MODULES = {
    "AdaptiveAvgPool1d": ((4,), ROWS), "AdaptiveAvgPool3d": ((3,), VOLUME), "AdaptiveMaxPool1d": ((4,), ROWS), "AdaptiveMaxPool3d": ((2,), VOLUME),
    "Bilinear": ((16, 16, 5), ROWS, lambda: torch.ones(2, 12, 16)), "CircularPad1d": ((3,), ROWS), "CircularPad2d": ((2,), IMAGE),
    "CircularPad3d": ((1,), VOLUME), "ConstantPad1d": ((2, 0.5), ROWS), "ConstantPad2d": ((-1, 0.5), IMAGE), "ConstantPad3d": ((1, 2.0), VOLUME),
    "CosineSimilarity": ((1,), ROWS, lambda: signs(2, 12, 16)), "CrossEntropyLoss": ((), ROWS, lambda: classes(2, 16)),
    "Dropout2d": ((0.0,), IMAGE), "Embedding": ((99, 8), TOKENS), "EmbeddingBag": ((99, 8), TOKENS),
    "Flatten": ((1, 2), IMAGE), "GRUCell": ((16, 8), (3, 16)), "GaussianNLLLoss": ((), ROWS, lambda: signs(2, 12, 16), lambda: torch.ones(2, 12, 16)),
    "HingeEmbeddingLoss": ((), ROWS, lambda: signs(2, 12, 16)), "HuberLoss": (("mean", 0.7), ROWS, lambda: signs(2, 12, 16)),
    "InstanceNorm1d": ((12,), ROWS), "InstanceNorm3d": ((4, 1e-5, 0.1, True), VOLUME), "KLDivLoss": ((), ROWS, lambda: torch.full((2, 12, 16), 0.1)),
    "LPPool1d": ((2, 3), ROWS), "LSTMCell": ((16, 8), (3, 16)), "MaxPool1d": ((3, 2, 1), ROWS), 
    "MultiLabelSoftMarginLoss": ((), (3, 16), lambda: torch.ones(3, 16)),
    "MultiMarginLoss": ((), (5, 16), lambda: classes(5)), "NLLLoss": ((), ROWS, lambda: classes(2, 16)),
    "PairwiseDistance": ((), (4, 16), lambda: signs(4, 16)), "PoissonNLLLoss": ((), ROWS, lambda: torch.ones(2, 12, 16)), "RNNCell": ((16, 8), (3, 16)),
    "ReLU6": ((), ROWS), "ReflectionPad1d": ((3,), ROWS), "ReflectionPad3d": ((1,), VOLUME), "ReplicationPad1d": ((3,), ROWS),
    "ReplicationPad3d": ((1,), VOLUME), "SmoothL1Loss": ((), ROWS, lambda: signs(2, 12, 16)),
    "SoftMarginLoss": ((), ROWS, lambda: signs(2, 12, 16)), "Softmax2d": ((), IMAGE), 
    "TripletMarginLoss": ((), (4, 16), lambda: signs(4, 16), lambda: torch.ones(4, 16)), "UpsamplingBilinear2d": ((None, 2), IMAGE),
    "UpsamplingNearest2d": ((None, 3), IMAGE), "ZeroPad1d": ((2,), ROWS), "ZeroPad3d": ((1,), VOLUME),
}
SMALL = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
         "intermediate_size": 64, "d_model": 32, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": 64, "encoder_layers": 2,
         "decoder_layers": 2, "encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_ffn_dim": 64,
         "decoder_ffn_dim": 64, "d_ff": 64, "d_kv": 8, "num_layers": 2, "num_heads": 4, "embedding_size": 32, "head_dim": 8,
         "max_position_embeddings": 128, "image_size": 64, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2,
         "use_cache": False, "num_labels": 3}


# of transformers: the class that makes a network of a kind, and how its list is called
AUTO = {"causal": ("AutoModelForCausalLM", "FOR_CAUSAL_LM_"), "masked": ("AutoModelForMaskedLM", "FOR_MASKED_LM_"),
        "translation": ("AutoModelForSeq2SeqLM", "FOR_SEQ_TO_SEQ_CAUSAL_LM_"), "base3": ("AutoModel", ""),
        "causal4": ("AutoModelForCausalLM", "FOR_CAUSAL_LM_"), "base4": ("AutoModel", ""), "audio4": ("AutoModelForAudioClassification", "FOR_AUDIO_CLASSIFICATION_"),
        "audio": ("AutoModelForAudioClassification", "FOR_AUDIO_CLASSIFICATION_"), "ctc": ("AutoModelForCTC", "FOR_CTC_"),
        "detr": ("AutoModelForObjectDetection", "FOR_OBJECT_DETECTION_"), "semantic": ("AutoModelForSemanticSegmentation", "FOR_SEMANTIC_SEGMENTATION_"),
        "depth": ("AutoModelForDepthEstimation", "FOR_DEPTH_ESTIMATION_"), "clips": ("AutoModelForVideoClassification", "FOR_VIDEO_CLASSIFICATION_")}


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
    if library in ("timm2", "timm3", "timm4"):
        return names("timm")
    if library == "video":
        import torchvision
        return sorted(torchvision.models.list_models(module=torchvision.models.video))
    if library in ("segmentation", "detection"):
        import torchvision
        return sorted(torchvision.models.list_models(module=getattr(torchvision.models, library)))
    if library in AUTO:
        from transformers.models.auto import modeling_auto
        return sorted(getattr(modeling_auto, f"MODEL_{AUTO[library][1]}MAPPING_NAMES"))
    if library == "modules3":
        return sorted(MORE_MODULES)
    if library == "written":
        return sorted(written.NETWORKS)
    if library == "smp":
        import segmentation_models_pytorch as smp
        return sorted(smp.MODEL_ARCHITECTURES_MAPPING)
    if library == "series":
        return ["patchtst", "patchtsmixer"]
    if library == "other":
        return sorted(OTHERS)
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


def settings_of(config):
    """Those of SMALL that a configuration has, and those of the configurations inside of it."""
    found = {}
    for key, value in vars(config).items():
        if key in SMALL and isinstance(value, int) and not isinstance(value, bool):
            found[key] = SMALL[key]
        elif hasattr(value, "to_dict") and hasattr(value, "model_type"):
            found[key] = {**value.to_dict(), **settings_of(value)}
    return found


def smaller(name, auto):
    """As small(), all through the configuration, so that what follows from its numbers does."""
    from transformers import CONFIG_MAPPING
    kind = CONFIG_MAPPING[name]
    config = kind(**settings_of(kind()))
    config.use_cache = False
    config.return_dict = True
    return auto.from_config(config)


def flat(found, n):
    """All real tensors of what a network gives, one after the other, for each of n samples."""
    if isinstance(found, torch.Tensor):
        return [found.reshape(n, -1)] if found.is_floating_point() and found.dim() and found.shape[0] == n else []
    values = found.values() if hasattr(found, "values") else found if isinstance(found, (tuple, list)) else []
    return [part for value in values for part in flat(value, n)]


class Whole(torch.nn.Module):
    """All outputs of a network, beside one another."""

    def __init__(self, network, name):
        super().__init__()
        self.network, self.name = network, name

    def forward(self, x):
        return torch.cat(flat(self.network(**{self.name: x}), x.shape[0]), 1)


class Named(torch.nn.Module):
    """The output of a network that is called logits, or the first."""

    def __init__(self, network, name, more):
        super().__init__()
        self.network, self.name, self.more = network, name, more

    def forward(self, x):
        y = self.network(**{self.name: x}, **{key: x for key in self.more})
        return y["logits"] if "logits" in y else y[0]


class Dense(torch.nn.Module):
    """What the losses of a detection network read: all that its heads give, of boxes that stay where they are if it has two stages."""

    def __init__(self, network):
        super().__init__()
        self.network, self.has_one_batch = network, True  # of each size, so that no level of features lacks boxes
        self.boxes = torch.tensor([[4.0, 4.0, 40.0, 50.0], [-20.0, 0.0, 130.0, 150.0], [-100.0, -90.0, 200.0, 210.0], [-250.0, -240.0, 350.0, 360.0]])

    def forward(self, x):
        features, n = self.network.backbone(x), x.shape[0]
        if hasattr(self.network, "head"):
            return torch.cat(flat(self.network.head(list(features.values())), n), 1)
        parts = flat(self.network.rpn.head(list(features.values())), n)
        heads = self.network.roi_heads
        pooled = heads.box_roi_pool(features, [self.boxes.to(x.dtype)] * 2, [(128, 128)] * 2)
        return torch.cat(parts + [y.reshape(n, -1) for y in heads.box_predictor(heads.box_head(pooled))], 1)


class Beside(torch.nn.Module):
    """A module of torch.nn of x times a weight and tensors that do not train; the first output."""

    def __init__(self, network, more):
        super().__init__()
        self.network, self.more, self.has_one_batch = network, more, bool(more)
        self.scale = torch.nn.Parameter(torch.ones(1))

    def forward(self, x):
        y = self.network(x * self.scale if x.is_floating_point() else x, *[v.to(x.dtype) if v.is_floating_point() else v for v in self.more])
        return y[0] if isinstance(y, tuple) else y


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


def smallest_image(create):
    """A network and images of 64 pixels, where it takes them, else of its own."""
    network = create()
    size = network.pretrained_cfg.get("input_size", (3, 224, 224))
    for more in ({}, {"img_size": 64}):
        try:
            network = create(**more).eval()
            x = torch.randn(2, size[0], 64, 64)
            with torch.no_grad():
                network(x)
            return network, x
        except Exception:  # it takes its own size alone
            pass
    return create(), torch.randn(2, *size)


def of_transformers(library, network):
    """With inputs by the name of the first."""
    key, config = network.main_input_name, network.config
    side = getattr(config, "image_size", 64)
    side = side if isinstance(side, int) else 64
    frames = getattr(config, "num_frames", None) or getattr(config, "frames_per_clip", 4)
    inputs = {"input_ids": lambda: torch.randint(3, 98, (2, 11)), "pixel_values": lambda: torch.randn(2, getattr(config, "num_channels", 3), side, side),
              "input_values": lambda: torch.randn(2, 1024, 128) if config.model_type.startswith("audio") else torch.randn(2, 4000),
              "input_features": lambda: torch.randn(2, getattr(config, "num_mel_bins", 80), 3000), "pixel_values_videos": lambda: torch.randn(2, frames, 3, side, side)}
    if key not in inputs:
        raise ValueError(f"it takes {key}")
    x = torch.randn(2, frames, 3, side, side) if library == "clips" else inputs[key]()
    network = Whole(network, key) if library == "detr" else Named(network, key, ["decoder_input_ids"] if library == "translation" else [])
    with torch.no_grad():  # one that needs more than this is another's place
        network.eval()(x)
    return network, x


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
    if library in ("timm3", "timm4"):
        import timm
        return smallest_image(lambda **more: timm.create_model(name, pretrained=False, **more))
    if library == "segmentation":
        import torchvision
        network = torchvision.models.get_model(name, weights=None, weights_backbone=None, aux_loss=False)
        return Whole(network, "input" if name.startswith("lraspp") else "x"), torch.randn(2, 3, 64, 64)
    if library == "detection":
        import torchvision
        return Dense(torchvision.models.get_model(name, weights=None, weights_backbone=None)), torch.randn(2, 3, 128, 128)
    if library == "modules3":
        arguments, shape, *more = MORE_MODULES[name]
        x = torch.randint(0, 99, shape) if shape is TOKENS else torch.randn(*shape)
        return Beside(getattr(torch.nn, name)(*arguments), [f() for f in more]), x
    if library == "written":
        return written.NETWORKS[name]()
    if library == "smp":
        import segmentation_models_pytorch as smp
        more = {"img_size": 64} if name in ("dpt",) else {}
        return smp.create_model(name, "resnet18", None, classes=3, **more), torch.randn(2, 3, 64, 64)
    if library == "other":
        return OTHERS[name]()
    import transformers
    if library == "series":
        config = transformers.CONFIG_MAPPING[name](context_length=32, prediction_length=8, patch_length=8, patch_stride=8, num_input_channels=3, d_model=16,
                                                   num_hidden_layers=2, num_layers=2, num_attention_heads=4, ffn_dim=32)
        kind = {"patchtst": "PatchTSTForPrediction", "patchtsmixer": "PatchTSMixerForPrediction"}[name]
        return Named(getattr(transformers, kind)(config), "past_values", []), torch.randn(2, 32, 3)
    if library in AUTO:
        return of_transformers(library, smaller(name, getattr(transformers, AUTO[library][0])).eval())
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


class Timed(torch.nn.Module):
    """A network of diffusers at one of its times, with other inputs that do not change."""

    def __init__(self, network, *more):
        super().__init__()
        self.network, self.more = network, more

    def forward(self, x):
        return self.network(x, *[v.to(x.dtype) if v.is_floating_point() else v for v in self.more], return_dict=False)[0]


def of_diffusers(name, settings, shape, *more):
    import diffusers
    return Timed(getattr(diffusers, name)(**settings), *[f() for f in more]), torch.randn(*shape)


def conformer():
    """torchaudio's, whose library wants a PyTorch of its own day: the folder that TORCHAUDIO says has its source."""
    import importlib.util
    import os
    spec = importlib.util.spec_from_file_location("conformer", os.path.join(os.environ["TORCHAUDIO"], "models", "conformer.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    network = module.Conformer(input_dim=16, num_heads=4, ffn_dim=32, num_layers=2, depthwise_conv_kernel_size=5)
    return Timed(Keywordless(network), torch.tensor([20, 20])), torch.randn(2, 20, 16)


class Keywordless(torch.nn.Module):
    """One that knows nothing of return_dict."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def forward(self, *given, return_dict=False):
        return self.network(*given)


def with_x_transformers():
    from x_transformers import Encoder, TransformerWrapper
    return TransformerWrapper(num_tokens=99, max_seq_len=32, attn_layers=Encoder(dim=32, depth=2, heads=4, attn_dim_head=8, rotary_pos_emb=True, ff_glu=True,
                                                                                 use_rmsnorm=True)), torch.randint(0, 99, (2, 11))


UNET = {"sample_size": 16, "in_channels": 2, "out_channels": 2, "layers_per_block": 1, "block_out_channels": (8, 16), "norm_num_groups": 4}
OTHERS = {
    "conformer": conformer, "x-transformers": with_x_transformers,
    "UNet2DModel": lambda: of_diffusers("UNet2DModel", {**UNET, "down_block_types": ("DownBlock2D", "AttnDownBlock2D"),
                                                        "up_block_types": ("AttnUpBlock2D", "UpBlock2D"), "attention_head_dim": 4}, (2, 2, 16, 16), lambda: torch.tensor(3)),
    "UNet2DConditionModel": lambda: of_diffusers("UNet2DConditionModel", {
        **UNET, "down_block_types": ("CrossAttnDownBlock2D", "DownBlock2D"), "up_block_types": ("UpBlock2D", "CrossAttnUpBlock2D"), "cross_attention_dim": 8,
        "attention_head_dim": 4}, (2, 2, 16, 16), lambda: torch.tensor(3), lambda: torch.ones(2, 5, 8)),
    "UNet1DModel": lambda: of_diffusers("UNet1DModel", {"sample_size": 64, "in_channels": 2, "out_channels": 2, "extra_in_channels": 16, "block_out_channels": (8, 8, 16)},
                                        (2, 2, 64), lambda: torch.tensor(3)),
    "AutoencoderKL": lambda: of_diffusers("AutoencoderKL", {"block_out_channels": (8, 16), "norm_num_groups": 4, "down_block_types": ("DownEncoderBlock2D",) * 2,
                                                            "up_block_types": ("UpDecoderBlock2D",) * 2}, (2, 3, 16, 16)),
    "VQModel": lambda: of_diffusers("VQModel", {"block_out_channels": (8, 16), "norm_num_groups": 4, "down_block_types": ("DownEncoderBlock2D",) * 2,
                                                "up_block_types": ("UpDecoderBlock2D",) * 2}, (2, 3, 16, 16)),
    "DiTTransformer2DModel": lambda: of_diffusers("DiTTransformer2DModel", {"num_attention_heads": 2, "attention_head_dim": 8, "in_channels": 2, "num_layers": 2, "sample_size": 8,
                                                                            "norm_num_groups": 2}, (2, 2, 8, 8), lambda: torch.tensor([3, 3]), lambda: torch.tensor([1, 2])),
}


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
            if n > LIMITS.get(library, MOST):
                reason = f"{name}: {n / 1e6:.0f} million parameters"
                continue
            network, x = make(library, name)
        except Exception as error:  # what a library cannot make without a hub is another's place
            reason = f"{name}: {type(error).__name__}: {error}".splitlines()[0]
            continue
        return name, network, x
    raise LookupError(reason)
