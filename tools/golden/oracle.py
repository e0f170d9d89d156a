"""A float64 GPT-2 with an explicit mask: the reference that every cache is compared with.

No cache, one row at a time, every step written out. make_golden.py checks it against transformers.
It counts nothing twice and hides nothing: what a query may see is one table of True and False.
"""
import json
import math
from pathlib import Path

import torch
from safetensors.torch import load_file


def load(folder):
    """The weights (float64, no `transformer.` prefix) and the configuration of a model folder."""
    folder = Path(folder)
    weights = load_file(folder / "model.safetensors")
    weights = {name.removeprefix("transformer."): value.double() for name, value in weights.items()}
    return weights, json.loads((folder / "config.json").read_text())


def band(length, window=None):
    """visible[i][j]: query i sees key j. With a window: keys max(0, i - window + 1) to i."""
    query = torch.arange(length)[:, None]
    key = torch.arange(length)[None, :]
    visible = key <= query
    return visible if window is None else visible & (key > query - window)


def attention(query, key, value, visible):
    """Softmax attention of one layer: query, key, value [H, T, D], visible [T, T]."""
    scores = (query @ key.transpose(1, 2)) / math.sqrt(query.shape[-1])
    return scores.masked_fill(~visible, float("-inf")).softmax(-1) @ value


def forward(weights, config, ids, window=None, positions=None, visible=None, attend=attention):
    """Logits [T, V] of one row of ids.

    window: None (all earlier keys), a number, or a list with one entry a layer.
    positions, visible, attend: replace 0..T-1, the band and the attention (mutants.py does).
    """
    width, heads, epsilon = config["n_embd"], config["n_head"], config["layer_norm_epsilon"]
    length = len(ids)
    ids = torch.tensor(ids)
    positions = torch.arange(length) if positions is None else torch.tensor(positions)
    approximate = "none" if config["activation_function"] == "gelu" else "tanh"

    def linear(x, name):  # Conv1D: weights are stored [in, out]
        return x @ weights[name + ".weight"].double() + weights[name + ".bias"].double()

    def norm(x, name):
        return torch.nn.functional.layer_norm(
            x, (width,), weights[name + ".weight"].double(), weights[name + ".bias"].double(),
            epsilon)

    def by_head(x):
        return x.view(length, heads, width // heads).transpose(0, 1)

    x = weights["wte.weight"].double()[ids] + weights["wpe.weight"].double()[positions]
    for layer in range(config["n_layer"]):
        block = f"h.{layer}."
        layer_window = window[layer] if isinstance(window, (list, tuple)) else window
        layer_visible = band(length, layer_window) if visible is None else visible
        parts = linear(norm(x, block + "ln_1"), block + "attn.c_attn").split(width, -1)
        query, key, value = (by_head(part) for part in parts)
        mixed = attend(query, key, value, layer_visible).transpose(0, 1).reshape(length, width)
        x = x + linear(mixed, block + "attn.c_proj")
        inner = linear(norm(x, block + "ln_2"), block + "mlp.c_fc")
        inner = torch.nn.functional.gelu(inner, approximate=approximate)
        x = x + linear(inner, block + "mlp.c_proj")
    return norm(x, "ln_f") @ weights["wte.weight"].double().T


def lowest_best(logits):
    """The id with the largest logit; on a tie the lowest id."""
    return int((logits == logits.max()).nonzero()[0])


def greedy_by(last_logits, ids, new):
    """ids and `new` ids more, and the smallest gap between the two best logits on the way.
    last_logits(ids): the logits that choose the next id."""
    ids, gaps = list(ids), []
    for _ in range(new):
        logits = last_logits(ids)
        best, second = logits.topk(2).values
        gaps.append((best - second).item())
        ids.append(lowest_best(logits))
    return ids, min(gaps) if gaps else None


def greedy(weights, config, ids, new, window=None):
    return greedy_by(lambda ids: forward(weights, config, ids, window)[-1], ids, new)
