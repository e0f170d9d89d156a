#!/usr/bin/env python3
"""Makes the two small random models in data/golden and their float64 references.

    python3 tools/golden/make_golden.py --out data/golden

nano fits on a page; tiny has three layers and a longer context. For each:
  config.json, model.safetensors   the model, in the Hugging Face layout (float32)
  golden.json                      greedy ids and logits: full, with a window, with a window a layer
  past_key_values.json             what transformers keeps of a prompt, and its logits everywhere
  batch.json                       nano only: the logits of a batch of rows
Everything is computed by oracle.py and checked against transformers.
"""
import argparse
import json
import random
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import DynamicCache, GPT2Config, GPT2LMHeadModel

import stable_json
from oracle import forward, greedy

MODELS = {
    "nano": dict(seed=59, layers=2, heads=2, width=8, vocabulary=16, context=8, prompt=5),
    "tiny": dict(seed=12, layers=3, heads=3, width=24, vocabulary=97, context=64, prompt=9),
}
TOLERANCE = 1e-12  # between the oracle and transformers, both float64


def random_model(seed, layers, heads, width, vocabulary, context):
    """A model whose weights are wide enough that every fault moves its logits."""
    torch.manual_seed(seed)
    model = GPT2LMHeadModel(GPT2Config(
        n_layer=layers, n_head=heads, n_embd=width, vocab_size=vocabulary, n_positions=context,
        resid_pdrop=0, embd_pdrop=0, attn_pdrop=0, bos_token_id=vocabulary - 1,
        eos_token_id=vocabulary - 1)).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            values = torch.randn(weight.shape, generator=generator)
            if name.endswith("bias"):
                weight.copy_(values * 0.1)
            elif "ln_" in name:
                weight.copy_(1 + values * 0.1)
            elif "wte" in name or "wpe" in name:
                weight.copy_(values * 0.6)
            else:
                weight.copy_(values * (1.4 / weight.shape[0] ** 0.5))
    return model


def small_config(model):
    c = model.config
    return {"model_type": "gpt2", "n_layer": c.n_layer, "n_head": c.n_head, "n_embd": c.n_embd,
            "vocab_size": c.vocab_size, "n_positions": c.n_positions, "n_ctx": c.n_positions,
            "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new",
            "bos_token_id": c.bos_token_id, "eos_token_id": c.eos_token_id}


def reference(weights, config, prompt, new, window):
    """Prompt and new ids, with the logits that chose the first and the last new id."""
    def last(ids):
        return [round(x, 9) for x in forward(weights, config, ids, window)[-1].tolist()]
    ids, gap = greedy(weights, config, prompt, new, window)
    return {"prompt": prompt, "ids": ids, "min_margin": gap, "last_logits": last(prompt),
            "end_logits": last(ids[:-1])}


def check_with_transformers(model, weights, config, case):
    prompt, ids = case["prompt"], case["ids"]
    new = len(ids) - len(prompt)
    theirs = model(torch.tensor([prompt])).logits[0]
    assert (forward(weights, config, prompt) - theirs).abs().max() < TOLERANCE
    # All of the mask is ones: generate would hide a first token that equals pad_token_id.
    generated = model.generate(
        torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
        max_new_tokens=new, min_new_tokens=new, do_sample=False,
        pad_token_id=config["vocab_size"] - 1, eos_token_id=None)
    assert generated[0].tolist() == ids


def golden(model, weights, config, seed):
    """The cases of golden.json. `model` is transformers' own, in float64."""
    choose = random.Random(seed)
    context, layers = config["n_positions"], config["n_layer"]
    is_long = context > 16

    def prompt(length):
        return [choose.randrange(config["vocab_size"]) for _ in range(length)]

    cases = {
        "about": "float64 references; window W: query i sees keys max(0,i-W+1)..i in every layer, "
                 "positions unchanged. ids = prompt + new; last_logits = after the prompt (they "
                 "chose the first new id); end_logits = those that chose the last id",
        "full": [], "window": [], "layers": []}
    for length, new in ((1, min(30, context - 1)), (4, min(40, context - 4)), (7, context - 7),
                        (context // 2, context // 2)):
        case = reference(weights, config, prompt(length), new, None)
        check_with_transformers(model, weights, config, case)
        cases["full"].append(case)
    for window in (1, 2, 3, 5, 8, context // 2, context):
        length = 9 if is_long else 4
        case = reference(weights, config, prompt(length), min(24, context - length), window)
        cases["window"].append({"window": window, **case})
    for _ in range(3):
        windows = [choose.choice([None, 2, 3, 5]) for _ in range(layers)]
        if all(window is None for window in windows):
            windows[-1] = 2
        length = 6 if is_long else 4
        case = reference(weights, config, prompt(length), min(20, context - length), windows)
        cases["layers"].append({"windows": windows, **case})
    return cases


def past_key_values(model, ids):
    """Keys and values of every layer after `ids`, [H, S, D], as transformers keeps them."""
    whole = model(torch.tensor([ids]), cache=DynamicCache(), use_cache=True)
    by_token, logits = DynamicCache(), []
    for position in range(len(ids)):
        step = model(torch.tensor([ids[position:position + 1]]), cache=by_token, use_cache=True)
        logits.append(step.logits[0, -1])
    assert (torch.stack(logits) - whole.logits[0]).abs().max() < TOLERANCE
    layers = []
    for one, other in zip(whole.cache.layers, by_token.layers, strict=True):
        assert (one.keys - other.keys).abs().max() < TOLERANCE
        assert (one.values - other.values).abs().max() < TOLERANCE
        layers.append({"keys": one.keys[0].tolist(), "values": one.values[0].tolist()})
    return {"about": "transformers' past_key_values after a prompt, float64, every digit: keys and "
                     "values [H, S, D] a layer; the same whether the prompt is fed whole or token "
                     "by token. all_logits [S, V]: at every position",
            "prompt": ids, "layers": layers, "all_logits": whole.logits[0].tolist()}


def batch(model, weights, config, rows):
    """Logits of a batch of rows of one length, [B, T, V]."""
    logits = model(torch.tensor(rows)).logits
    for row, row_logits in zip(rows, logits, strict=True):
        assert (forward(weights, config, row) - row_logits).abs().max() < TOLERANCE
    return {"about": "float64 logits [B, T, V] of rows of one length, every digit",
            "ids": rows, "logits": logits.tolist()}


def make(folder, seed, prompt, **shape):
    folder.mkdir(parents=True, exist_ok=True)
    model = random_model(seed, **shape)
    config = small_config(model)
    weights = {name: value.detach().clone().contiguous()
               for name, value in model.transformer.state_dict().items()}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    model = model.double()
    choose = random.Random(seed + 1)
    vocabulary = range(config["vocab_size"])
    files = {"golden.json": golden(model, weights, config, seed),
             "past_key_values.json": past_key_values(model, choose.choices(vocabulary, k=prompt))}
    if folder.name == "nano":
        rows = [choose.sample(vocabulary, 6) for _ in range(3)]
        files["batch.json"] = batch(model, weights, config, rows)
    for name, value in files.items():
        print(f"{folder / name}: {stable_json.write(folder / name, value)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("data/golden"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    for name, options in MODELS.items():
        make(args.out / name, **options)


if __name__ == "__main__":
    main()
