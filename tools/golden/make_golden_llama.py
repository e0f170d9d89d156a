#!/usr/bin/env python3
"""Makes the two small random Llamas in data/golden and their float64 references.

    python3 tools/golden/make_golden_llama.py --out data/golden

llama-gqa has two query heads for each key-value head and an output matrix of its own; llama-mqa has one
key-value head for all four, and tied embeddings. For each:
  config.json, model.safetensors   the model, in the Hugging Face layout (float32)
  golden.json                      greedy ids and logits, in five kinds of run
  past_key_values.json             the keys and values of a prompt, and its logits everywhere
Everything is computed by oracle_llama.py in float64. Checked against transformers: every run without
sinks, and the keys and values. The runs with sinks are checked against two other ways to the same
numbers: token by token with a cache, and all at once with distances.
"""
import argparse
import json
import random
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

import stable_json
from oracle import attention, band, greedy_by
from oracle_llama import Llama

MODELS = {
    "llama-gqa": dict(seed=5, layers=3, heads=4, key_value_heads=2, width=32, inner_width=64,
                      vocabulary=101, context=64, tied=False),
    "llama-mqa": dict(seed=9, layers=2, heads=4, key_value_heads=1, width=24, inner_width=40,
                      vocabulary=67, context=48, tied=True),
}
# Between the oracle and transformers, which computes norms and angles in float32. The error of an angle
# grows with the position: the logits of a hundred tokens differ by up to 3e-5.
KEYS_VALUES, LOGITS = 1e-5, 5e-5
SAME = 1e-12         # between two of our own ways, both float64
SMALLEST_GAP = 2e-3  # of a run that is chosen here; a test in float64 cannot flip it
FEWEST_DIFFERENT = 4  # ids among the last twelve of a run that is chosen here
ABOUT = (
    "float64 references, greedy, on a tie the lowest id. ids = prompt + new; last_logits = after the "
    "prompt (they chose the first new id); end_logits = those that chose the last id. full: a query sees "
    "all earlier tokens. window W: query i sees keys max(0,i-W+1)..i. layers: a window a layer, 0: all "
    "earlier tokens. past: a window, and more tokens than max_position_embeddings. In all of these the "
    "position of token i is i. sinks S with a window W: query i sees the first S tokens and the last W, "
    "itself among them, each once; queries and keys are rotated by their places in that list, 0, 1, 2, ..., "
    "new at every query; more tokens than max_position_embeddings")


# ---- The models.
def config_of(layers, heads, key_value_heads, width, inner_width, vocabulary, context, tied):
    return {"model_type": "llama", "architectures": ["LlamaForCausalLM"], "num_hidden_layers": layers,
            "num_attention_heads": heads, "num_key_value_heads": key_value_heads, "hidden_size": width,
            "intermediate_size": inner_width, "vocab_size": vocabulary,
            "max_position_embeddings": context, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
            "tie_word_embeddings": tied, "hidden_act": "silu", "bos_token_id": 1, "eos_token_id": 2,
            "attention_bias": False, "mlp_bias": False}


def random_model(seed, config):
    """A model whose weights are wide enough that every fault moves its logits."""
    model = LlamaForCausalLM(LlamaConfig(**config)).eval()
    generator = torch.Generator().manual_seed(seed)
    for name, weight in model.named_parameters():
        values = torch.randn(weight.shape, generator=generator)
        if "norm" in name:
            weight.copy_(1 + values * 0.1)
        elif "embed" in name or "lm_head" in name:
            weight.copy_(values * 0.6)
        else:
            weight.copy_(values * (1.6 / weight.shape[1] ** 0.5))
    return model


# ---- Attention with sinks, in two other ways.
class WithCache(Llama):
    """Token by token. Keys are stored before their rotation; a token that no later query sees is dropped;
    what is left is rotated anew for every query, by its place."""

    def __init__(self, weights, config):
        super().__init__(weights, config)
        self.stored = [None] * self.layers  # keys and values [G, S, D]
        self.layer = 0

    def attend_in_cache(self, query, key, value, window, sinks):
        keys, values = self.stored[self.layer] or (key[:, :0], value[:, :0])
        keys, values = torch.cat([keys, key], 1), torch.cat([values, value], 1)
        if keys.shape[1] > sinks + window:
            keys = torch.cat([keys[:, :sinks], keys[:, sinks + 1:]], 1)
            values = torch.cat([values[:, :sinks], values[:, sinks + 1:]], 1)
        self.stored[self.layer] = keys, values
        self.layer = (self.layer + 1) % self.layers
        places = torch.arange(keys.shape[1])
        return attention(self.rotate(query, places[-1:]), self.share(self.rotate(keys, places)),
                         self.share(values), torch.ones(1, keys.shape[1], dtype=torch.bool))


class ByDistance(Llama):
    """All at once. Only distances matter, and only those to the sinks differ from what they are with
    positions that run on: from p to the sink s it is min(p, S + W - 1) - s. So every query is rotated
    twice: by its position, for the window, and by at most S + W - 1, for the sinks."""

    def attend_in_cache(self, query, key, value, window, sinks):
        positions = torch.arange(query.shape[1])
        keys = self.share(self.rotate(key, positions)).transpose(1, 2)
        scores = self.rotate(query, positions) @ keys
        near = self.rotate(query, positions.clamp(max=sinks + window - 1))
        scores[:, :, :sinks] = near @ keys[:, :, :sinks]
        visible = band(len(positions), window)
        visible[:, :sinks] |= band(len(positions))[:, :sinks]
        scores = (scores / self.head_size ** 0.5).masked_fill(~visible, float("-inf"))
        return scores.softmax(-1) @ self.share(value)


# ---- The runs.
class Runs:
    """Makes the entries of golden.json with one model."""

    def __init__(self, model, weights, config, seed):
        self.llama = Llama(weights, config)
        self.model = model.double()  # transformers' own
        self.context, self.vocabulary = config["max_position_embeddings"], config["vocab_size"]
        self.random = random.Random(seed)

    def prompt(self, length):
        return [self.random.randrange(self.vocabulary) for _ in range(length)]

    def greedy(self, prompt, new, window=None, sinks=None):
        return greedy_by(lambda ids: self.llama.forward(ids, window, sinks)[-1], prompt, new)

    def run(self, prompt, new, window=None, sinks=None):
        return self.checked(prompt, *self.greedy(prompt, new, window, sinks), window, sinks)

    def chosen_run(self, length, new, window=None, sinks=None):
        """The run of the first prompt whose ids are decided clearly and do not fall into a short loop."""
        while True:
            prompt = self.prompt(length)
            ids, gap = self.greedy(prompt, new, window, sinks)
            if gap > SMALLEST_GAP and len(set(ids[-12:])) >= FEWEST_DIFFERENT:
                return self.checked(prompt, ids, gap, window, sinks)

    def checked(self, prompt, ids, gap, window, sinks):
        def last(ids):
            return self.llama.forward(ids, window, sinks)[-1]

        if sinks is None:
            self.check_with_transformers(ids, window)
        else:
            self.check_sinks(ids, window, sinks)
        return {"prompt": prompt, "ids": ids, "min_margin": gap,
                "last_logits": [round(x, 9) for x in last(prompt).tolist()],
                "end_logits": [round(x, 9) for x in last(ids[:-1]).tolist()]}

    def check_with_transformers(self, ids, window):
        """Logits everywhere. A window a layer is left out: transformers takes one mask."""
        if isinstance(window, list):
            return
        mask = band(len(ids), window)[None, None]
        theirs = self.model(torch.tensor([ids]), attention_mask=mask).logits[0]
        assert (self.llama.forward(ids, window) - theirs).abs().max() < LOGITS

    def check_sinks(self, ids, window, sinks):
        ours = self.llama.forward(ids, window, sinks)
        weights, config = self.llama.weights, self.llama.config
        at_once = ByDistance(weights, config).forward(ids, window, sinks)
        with_cache = WithCache(weights, config)
        by_token = torch.cat([with_cache.forward([one], window, sinks) for one in ids])
        assert (ours - at_once).abs().max() < SAME and (ours - by_token).abs().max() < SAME

    def all(self):
        """The content of golden.json. The first prompts of `full` and `window` are as they come."""
        context = self.context
        full = [self.run(self.prompt(length), new)
                for length, new in ((1, 20), (5, 30), (context // 2, context // 2))]
        windows = [{"window": window, **self.run(self.prompt(7), 20, window)}
                   for window in (1, 3, 8, context)]
        full += [self.chosen_run(9, context - 9)]
        windows += [{"window": window, **self.chosen_run(9, 24, window)}
                    for window in (2, 5, 16, context // 2)]
        layers = [{"windows": list(some), **self.chosen_run(6, 24, [w or None for w in some])}
                  for some in self.some_windows_a_layer()]
        past = [{"window": window, **self.chosen_run(10, new, window)}
                for window, new in ((16, 90), (5, 60), (context // 2, 2 * context))]
        sinks = [{"sinks": count, "window": window, **self.chosen_run(length, 90, window, count)}
                 for count, window, length in ((4, 12, 10), (1, 7, 3), (2, 16, 30), (4, 4, 20), (0, 8, 5))]
        return {"about": ABOUT, "full": full, "window": windows, "layers": layers, "past": past,
                "sinks": sinks}

    def some_windows_a_layer(self):
        return {3: [(0, 4, 0), (3, 0, 5), (8, 2, 0), (2, 3, 6)],
                2: [(0, 4), (5, 0), (2, 8)]}[self.llama.layers]


def past_key_values(runs, length):
    """Keys and values of every layer after a prompt, [G, S, D], as transformers keeps them."""
    llama, ids, past = runs.llama, runs.prompt(length), []
    logits = llama.forward(ids, past=past)
    layers = [(llama.rotate(key, torch.arange(length)), value) for key, value in past]
    whole, by_token, theirs = DynamicCache(), DynamicCache(), []
    runs.model(torch.tensor([ids]), cache=whole, use_cache=True)
    for one in ids:
        step = runs.model(torch.tensor([[one]]), cache=by_token, use_cache=True)
        theirs.append(step.logits[0, -1])
    assert (torch.stack(theirs) - logits).abs().max() < LOGITS
    for cache in (whole, by_token):
        for (key, value), layer in zip(layers, cache.layers, strict=True):
            assert (layer.keys[0] - key).abs().max() < KEYS_VALUES
            assert (layer.values[0] - value).abs().max() < KEYS_VALUES
    return {"about": "what a cache holds after a prompt, float64, every digit: keys, rotated by their "
                     "positions, and values, [G, S, D] a layer for G key-value heads; checked against "
                     "transformers' past_key_values, fed whole and token by token. all_logits [S, V]: "
                     "at every position",
            "prompt": ids,
            "layers": [{"keys": key.tolist(), "values": value.tolist()} for key, value in layers],
            "all_logits": logits.tolist()}


def make(folder, seed, **shape):
    folder.mkdir(parents=True, exist_ok=True)
    config = config_of(**shape)
    model = random_model(seed, config)
    weights = {name: value.clone() for name, value in model.state_dict().items()
               if not (config["tie_word_embeddings"] and name == "lm_head.weight")}
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    (folder / "model.safetensors").chmod(0o644)
    (folder / "config.json").write_text(json.dumps(config, indent=1))
    runs = Runs(model, weights, config, seed)
    files = {"golden.json": runs.all(), "past_key_values.json": past_key_values(runs, 9)}
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
