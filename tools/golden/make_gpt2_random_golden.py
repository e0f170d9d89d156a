#!/usr/bin/env python3
"""Makes the float64 reference of gpt2-random: what greedy decoding on the seeded 124M model gives.

    python3 tools/golden/make_gpt2_random_golden.py --out data/golden/gpt2_random.json

Draws the weights as common/random_checkpoint.cpp does, bit for bit, has transformers generate in float64
with its own cache, and checks the ids by one forward without a cache. Needs 3 GB of memory and a minute or two.
"""
import argparse
import math
from pathlib import Path

import torch
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel

import stable_json

PROMPT = [15496, 11, 314, 716]  # "Hello, I am"
SHOWN = ("wte.weight", "wpe.weight", "h.0.attn.c_attn.weight", "h.0.attn.c_attn.bias", "h.9.ln_1.weight",
         "h.11.mlp.c_proj.weight", "ln_f.bias")


def spread(name, shape):
    """The standard deviation and the mean of one tensor."""
    if name.startswith(("wte", "wpe")) or name.endswith(".bias"):
        return 0.1, 0.0
    if len(shape) == 1:
        return 0.1, 1.0  # LayerNorm
    gain = 2.5 if name.endswith("c_attn.weight") else 1.0
    return gain / math.sqrt(shape[0]), 0.0


def random_model(seed):
    """One generator, the tensors in alphabetical order, float32."""
    model = GPT2LMHeadModel(GPT2Config(resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)).eval()
    generator = torch.Generator().manual_seed(seed)
    for name, weight in sorted(model.transformer.named_parameters()):
        deviation, mean = spread(name, weight.shape)
        values = torch.rand(weight.shape, generator=generator, dtype=torch.float32)
        weight.copy_(values.sub_(0.5).mul_(deviation * math.sqrt(12)).add_(mean))
    return model


def greedy(model, prompt, new):
    """Ids, and for each new one the two best logits. Ties: the lowest id."""
    ids, fed, best, cache = list(prompt), list(prompt), [], DynamicCache()
    for _ in range(new):
        logits = model(torch.tensor([fed]), past_key_values=cache, use_cache=True, logits_to_keep=1).logits[0, -1]
        best.append(logits.topk(2).values.tolist())
        fed = [int((logits == logits.max()).nonzero()[0])]
        ids += fed
    return ids, best, logits


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--seed", type=int, default=124)
    parser.add_argument("--new", type=int, default=200)
    arguments = parser.parse_args()
    torch.set_grad_enabled(False)

    model = random_model(arguments.seed)
    weights = dict(model.transformer.named_parameters())
    shown = {}
    for name in SHOWN:
        values = weights[name].double().flatten()
        shown[name] = {"sum": values.sum().item(), "first": values[0].item(), "last": values[-1].item()}

    model = model.double()
    ids, best, last = greedy(model, PROMPT, arguments.new)
    without_cache = model(torch.tensor([ids[:-1]]), use_cache=False).logits[0, len(PROMPT) - 1:]
    assert without_cache.argmax(-1).tolist() == ids[len(PROMPT):]
    top = last.topk(5)
    golden = {
        "about": "gpt2-random: greedy ids by transformers in float64; last_top: the best of the logits that chose the "
                 "last id; weights: the sum in float64, the first and the last number of some tensors",
        "seed": arguments.seed,
        "prompt": PROMPT,
        "ids": ids,
        "distinct": len(set(ids[len(PROMPT):])),
        "min_margin": min(first - second for first, second in best),
        "last_top": [[index, value] for value, index in zip(top.values.tolist(), top.indices.tolist())],
        "weights": shown,
    }
    print(stable_json.write(arguments.out, golden), "distinct", golden["distinct"], "margin", golden["min_margin"])


if __name__ == "__main__":
    main()
