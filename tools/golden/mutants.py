#!/usr/bin/env python3
"""Tries known faults on the golden models: would the references notice each one?

    python3 tools/golden/mutants.py data/golden/nano data/golden/tiny

(mutants_llama.py does the same for the Llamas.)

Every mutant is the oracle with one fault that a real system of this kind has had. A mutant is caught
by tokens when some case's greedy ids change, and by logits when the logits that chose a case's first
or last id move by more than 1e-6 (a test compares at 1e-9). Exit status 1 if a mutant survives both.
"""
import json
import sys
from pathlib import Path

import torch

from oracle import attention, band, forward, load, lowest_best

MOVED = 1e-6


# ---- Faults of the position: the position of token i after a prompt of n tokens.
POSITIONS = {
    "position stuck at the prompt's end": lambda i, n, layers: n - 1,
    "position one too high": lambda i, n, layers: i + 1,
    "position one too low": lambda i, n, layers: i - 1,
    "position starts again at zero": lambda i, n, layers: i - n,
    "position zero for every new token": lambda i, n, layers: 0,
    "position advanced twice a step": lambda i, n, layers: n + 2 * (i - n),
    "position advanced by every layer": lambda i, n, layers: layers * i,
}


def shifted_positions(rule, length, prompt_length, layers, context):
    def position(i):
        wanted = i if i < prompt_length else rule(i, prompt_length, layers)
        return min(context - 1, max(0, wanted))
    return [position(i) for i in range(length)]


# ---- Faults of the mask. The input arrives in chunks; a row of visible[i][j] belongs to query i.
def in_chunks(length, size, rule):
    """rule(i, j, past, total): may query i, in the chunk [past, total), see key j < total?"""
    visible = torch.zeros(length, length, dtype=torch.bool)
    for past in range(0, length, size):
        total = min(length, past + size)
        for i in range(past, total):
            for j in range(total):
                visible[i, j] = rule(i, j, past, total)
    return visible


FULL_MASKS = {
    "mask without the past length": lambda i, j, past, total: j <= i - past,
    "mask hides the past": lambda i, j, past, total: past <= j <= i,
    "chunk not causal": lambda i, j, past, total: True,
    "query does not see itself": lambda i, j, past, total: j < i or i == 0,
    "first token hidden": lambda i, j, past, total: (0 < j <= i) or i == 0,
}


def window_masks(window):
    """Faults of a sliding window of W tokens."""
    return {
        "window one too wide": lambda i, j, past, total: i - window <= j <= i,
        "window one too narrow": lambda i, j, past, total: i - window + 1 < j <= i or i == j,
        "no window": lambda i, j, past, total: j <= i,
        "evicts before a chunk attends": lambda i, j, past, total: total - window <= j <= i,
        "chunk sees all that is kept": lambda i, j, past, total: past - window + 1 <= j <= i,
        "window only once it is full": lambda i, j, past, total:
            j <= i and (total <= window + 1 or j > i - window),
        "keeps the first token too": lambda i, j, past, total: j <= i and (j > i - window or j == 0),
        "evicts at each layer's update": lambda i, j, past, total:
            i - window // 2 < j <= i or i == j,
    }


# ---- Faults of the attention itself.
def with_unwritten_slots(query, key, value, visible):
    """Two unwritten slots, zeros, are visible: a zero key still gets softmax weight."""
    def padded(x):
        return torch.cat([x, x.new_zeros(x.shape[0], 2, x.shape[2])], 1)
    seen = torch.ones(len(visible), 2, dtype=torch.bool)
    return attention(query, padded(key), padded(value), torch.cat([visible, seen], 1))


def without_scale(query, key, value, visible):
    return attention(query * query.shape[-1] ** 0.5, key, value, visible)


def keys_as_values(query, key, value, visible):
    return attention(query, key, key, visible)


def shifted_keys(query, key, value, visible):
    """Keys moved up by one slot against their values, as when only one of the two is shifted."""
    return attention(query, torch.cat([key[:, :1], key[:, :-1]], 1), value, visible)


def heads_swapped(query, key, value, visible):
    return attention(query, key, value, visible).flip(0)


ATTENTIONS = {
    "unwritten slots visible": with_unwritten_slots,
    "no 1/sqrt(D)": without_scale,
    "keys stored as values": keys_as_values,
    "keys shifted against values": shifted_keys,
    "heads in another order": heads_swapped,
}


# ---- Faults of loading and of the blocks.
def changed(weights, ending, change):
    return {name: change(value) if name.endswith(ending) else value
            for name, value in weights.items()}


def loading_faults(weights, config):
    """Name -> (weights, config)."""
    def zeros(x):
        return torch.zeros_like(x)

    def query_key_swapped(x):
        query, key, value = x.chunk(3, -1)
        return torch.cat([key, query, value], -1)

    def heads_interleaved(x):
        heads = config["n_head"]
        return x.unflatten(-1, (3, -1, heads)).transpose(-1, -2).flatten(-3)

    return {
        "attn.c_proj transposed": (changed(weights, "attn.c_proj.weight", lambda x: x.T), config),
        "query and key exchanged": (changed(changed(
            weights, "c_attn.weight", query_key_swapped), "c_attn.bias", query_key_swapped), config),
        "heads split across": (changed(changed(
            weights, "c_attn.weight", heads_interleaved), "c_attn.bias", heads_interleaved), config),
        "no c_attn bias (taken for a mask)": (changed(weights, "attn.c_attn.bias", zeros), config),
        "no attn.c_proj bias": (changed(weights, "attn.c_proj.bias", zeros), config),
        "no mlp.c_fc bias": (changed(weights, "mlp.c_fc.bias", zeros), config),
        "no mlp.c_proj bias": (changed(weights, "mlp.c_proj.bias", zeros), config),
        "ln_1 and ln_2 exchanged": ({**weights, **{
            name.replace("ln_1", "ln_x").replace("ln_2", "ln_1").replace("ln_x", "ln_2"): value
            for name, value in weights.items() if ".ln_" in name}}, config),
        "ln_f without its weights": (changed(changed(
            weights, "ln_f.weight", torch.ones_like), "ln_f.bias", zeros), config),
        "exact gelu for gelu_new": (weights, {**config, "activation_function": "gelu"}),
        "epsilon 1e-6": (weights, {**config, "layer_norm_epsilon": 1e-6}),
        "last layer left out": (weights, {**config, "n_layer": config["n_layer"] - 1}),
    }


def run(last_logits, case):
    """A mutant's greedy ids up to the first wrong one, and its logits that chose the first and the last
    of the case's ids. last_logits(ids): the mutant's logits after some ids."""
    ids = list(case["prompt"])
    while len(ids) < len(case["ids"]) and ids == case["ids"][:len(ids)]:
        ids.append(lowest_best(last_logits(ids).nan_to_num()))  # NaN: a query that sees no key
    return ids, last_logits(case["prompt"]), last_logits(case["ids"][:-1])


class Verdicts:
    """For each mutant: the cases that it ran on, and how many of them caught it."""

    def __init__(self):
        self.ran, self.by_tokens, self.by_logits = {}, {}, {}

    def judge(self, name, case, last_logits):
        ids, first, last = run(last_logits, case)
        moved = max((first - torch.tensor(case["last_logits"])).abs().max().item(),
                    (last - torch.tensor(case["end_logits"])).abs().max().item())
        for count, caught in ((self.ran, True), (self.by_tokens, ids != case["ids"]),
                              (self.by_logits, not moved <= MOVED)):
            count[name] = count.get(name, 0) + bool(caught)

    def try_masks(self, masks, case, window):
        """Tries each mask with chunks of 1, 2 and 3, unless it is the right one at that size."""
        lengths = (len(case["prompt"]), len(case["ids"]) - 1)
        for name, rule in masks.items():
            for size in (1, 2, 3):
                if any((in_chunks(n, size, rule) != band(n, window)).any() for n in lengths):
                    self.try_on(name, case, None, visible=(size, rule))

    def report(self, folder, more_survivors=()):
        """Prints the counts. True when every mutant was caught."""
        print(f"{folder}: mutant, runs, caught by tokens, caught by logits")
        for name, ran in self.ran.items():
            print(f"  {name:44} {ran:3} {self.by_tokens[name]:3} {self.by_logits[name]:3}")
        survivors = [name for name in self.ran
                     if not self.by_tokens[name] and not self.by_logits[name]]
        survivors += more_survivors
        print(f"{folder}: {len(self.ran)} mutants, "
              f"{sum(map(bool, self.by_tokens.values()))} caught by tokens, survivors: {survivors}")
        return not survivors


class Gpt2Verdicts(Verdicts):
    def __init__(self, weights, config):
        super().__init__()
        self.weights, self.config = weights, config

    def try_on(self, name, case, window, weights=None, config=None, **fault):
        """`fault` may hold positions=rule, visible=(chunk size, rule) or attend=function."""
        weights, config = weights or self.weights, config or self.config

        def last_logits(ids):
            options = dict(fault)
            if "positions" in fault:
                options["positions"] = shifted_positions(
                    fault["positions"], len(ids), len(case["prompt"]), config["n_layer"],
                    config["n_positions"])
            if "visible" in fault:
                options["visible"] = in_chunks(len(ids), *fault["visible"])
            return forward(weights, config, ids, window, **options)[-1]

        self.judge(name, case, last_logits)


def try_full(verdicts, case):
    for name, rule in POSITIONS.items():
        verdicts.try_on(name, case, None, positions=rule)
    verdicts.try_masks(FULL_MASKS, case, None)
    for name, attend in ATTENTIONS.items():
        verdicts.try_on(name, case, None, attend=attend)
    for name, (weights, config) in loading_faults(verdicts.weights, verdicts.config).items():
        verdicts.try_on(name, case, None, weights, config)


def try_window(verdicts, case):
    verdicts.try_masks(window_masks(case["window"]), case, case["window"])


def try_layers(verdicts, case):
    windows = [window or None for window in case["windows"]]
    mutants = {"windows of the layers reversed": windows[::-1],
               "first layer's window for all": [windows[0]] * len(windows),
               "last layer's window for all": [windows[-1]] * len(windows),
               "no layer has a window": [None] * len(windows)}
    for name, mutant in mutants.items():
        if mutant != windows:
            verdicts.try_on(name, case, mutant)


def batch_rows_differ(folder):
    """The batch must notice rows that are exchanged or copied."""
    path = folder / "batch.json"
    if not path.exists():
        return True
    logits = torch.tensor(json.loads(path.read_text())["logits"], dtype=torch.float64)
    return all((logits[a] - logits[b]).abs().amax(-1).min() > MOVED
               for a in range(len(logits)) for b in range(a))


def check(folder):
    weights, config = load(folder)
    cases = json.loads((folder / "golden.json").read_text())
    verdicts = Gpt2Verdicts(weights, config)
    for case in cases["full"]:
        try_full(verdicts, case)
    for case in cases["window"]:
        try_window(verdicts, case)
    for case in cases["layers"]:
        try_layers(verdicts, case)
    differ = batch_rows_differ(folder)
    return verdicts.report(folder, [] if differ else ["rows of a batch exchanged"])


def check_all(check, folders):
    """Exit status 0 when every mutant of every folder was caught."""
    torch.set_num_threads(1)
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    results = [check(Path(folder)) for folder in folders]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    check_all(check, sys.argv[1:] or ["data/golden/nano", "data/golden/tiny"])
