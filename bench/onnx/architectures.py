"""Which architectures the trial takes: every k-th of the lists of torchvision, timm and transformers, sorted by name.
One that has more than MOST parameters, or whose library cannot make it without files from a hub, gives its place to the
next of the list. Networks of transformers are made small by the settings of SMALL, where their configuration has them."""
import torch

MOST = 30_000_000
EVERY = {"torchvision": 2, "timm": 20, "text": 6, "image": 3}
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
    if library == "timm":
        import timm
        network = timm.create_model(name, pretrained=False)
        size = network.pretrained_cfg.get("input_size", (3, 224, 224))
        return network, torch.randn(2, *size)
    import transformers
    if library == "text":
        network = small(name, transformers.AutoModelForSequenceClassification)
        return Logits(network, "input_ids"), torch.randint(3, 98, (2, 11))
    network = small(name, transformers.AutoModelForImageClassification)
    size = getattr(network.config, "image_size", 64)
    size = size if isinstance(size, int) else 64
    return Logits(network, "pixel_values"), torch.randn(2, 3, size, size)


def chosen():
    """(library, place in its list) of all that are tried; where one cannot be made, the next takes its place."""
    return [(library, i) for library, k in EVERY.items() for i in range(0, len(names(library)), k)]


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
