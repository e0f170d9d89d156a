#!/usr/bin/env python3
"""Tries known faults on the golden Llamas: would the references notice each one?

    python3 tools/golden/mutants_llama.py data/golden/llama-gqa data/golden/llama-mqa

As mutants.py, for what a Llama does otherwise than GPT-2: rotary positions, RMSNorm, grouped queries,
SwiGLU, attention sinks. Exit status 1 if a mutant is never noticed.
"""
import json
import sys

import torch

import mutants
from oracle import attention, load
from oracle_llama import Llama, kept


# ---- Faults of the rotation.
class NeighbouringPairs(Llama):
    """Pairs (2i, 2i + 1), as in the paper and in Meta's own weights, not (i, i + D/2)."""

    def rotate(self, x, positions):
        by_halves = torch.cat([x[..., 0::2], x[..., 1::2]], -1)
        first, second = super().rotate(by_halves, positions).chunk(2, -1)
        return torch.stack([first, second], -1).flatten(-2)


class TurnedBackwards(Llama):
    def rotate(self, x, positions):
        return super().rotate(x, -positions)


class HalfTheSpeed(Llama):
    """Exponent i / D, not 2i / D."""

    def rotate(self, x, positions):
        slower = {**self.config, "rope_theta": self.config["rope_theta"] ** 0.5}
        return Llama(self.weights, slower).rotate(x, positions)


class RotatedValues(Llama):
    def attend(self, query, key, value, positions, visible):
        return super().attend(query, key, self.rotate(value, positions), positions, visible)


class KeysNotRotated(Llama):
    def attend(self, query, key, value, positions, visible):
        return super().attend(query, self.rotate(key, -positions), value, positions, visible)


class QueriesNotRotated(Llama):
    def attend(self, query, key, value, positions, visible):
        return super().attend(self.rotate(query, -positions), key, value, positions, visible)


class NothingRotated(Llama):
    def rotate(self, x, positions):
        return x


class KeysRotatedTwice(Llama):
    def attend(self, query, key, value, positions, visible):
        return super().attend(query, self.rotate(key, positions), value, positions, visible)


class QueryOneAhead(Llama):
    def attend(self, query, key, value, positions, visible):
        ahead = self.rotate(query, torch.ones_like(positions))
        return super().attend(ahead, key, value, positions, visible)


# ---- Faults of the heads and of the attention.
class HeadsSharedInTurn(Llama):
    """Head h reads h % G, not h // (H / G)."""

    def share(self, x):
        return x.repeat(self.heads // self.key_value_heads, 1, 1)


class HeadsReversed(Llama):
    def attend(self, query, key, value, positions, visible):
        return super().attend(query, key, value, positions, visible).flip(0)


class NoScale(Llama):
    def attend(self, query, key, value, positions, visible):
        return super().attend(query * self.head_size ** 0.5, key, value, positions, visible)


class ScaledByWidth(Llama):
    def attend(self, query, key, value, positions, visible):
        wrong = (self.head_size / self.width) ** 0.5
        return super().attend(query * wrong, key, value, positions, visible)


class KeysAsValues(Llama):
    def attend(self, query, key, value, positions, visible):
        return super().attend(query, key, key, positions, visible)


class KeysOneSlotOff(Llama):
    def attend(self, query, key, value, positions, visible):
        moved = torch.cat([key[:, :1], key[:, :-1]], 1)
        return super().attend(query, moved, value, positions, visible)


# ---- Faults of the norm and of the inner layer.
class NoEpsilon(Llama):
    def norm(self, x, name):
        return x / x.square().mean(-1, keepdim=True).sqrt() * self.weight(name + ".weight")


class EpsilonOutsideTheRoot(Llama):
    def norm(self, x, name):
        root = x.square().mean(-1, keepdim=True).sqrt()
        return x / (root + self.config["rms_norm_eps"]) * self.weight(name + ".weight")


class MeanTakenOff(Llama):
    def norm(self, x, name):
        return super().norm(x - x.mean(-1, keepdim=True), name)


class SumOfSquares(Llama):
    def norm(self, x, name):
        return super().norm(x, name) / x.shape[-1] ** 0.5


class NormWithoutWeights(Llama):
    def norm(self, x, name):
        return super().norm(x, name) / self.weight(name + ".weight")


class OnePlusTheWeights(Llama):
    def norm(self, x, name):
        return super().norm(x, name) * (1 + 1 / self.weight(name + ".weight"))


class GateAndUpExchanged(Llama):
    def linear(self, x, name):
        other = {"gate_proj": "up_proj", "up_proj": "gate_proj"}
        parent, _, last = name.rpartition(".")
        return super().linear(x, f"{parent}.{other.get(last, last)}" if parent else name)


class Gelu(Llama):
    def mlp(self, x, block):
        gate = torch.nn.functional.gelu(self.linear(x, block + "mlp.gate_proj"))
        return self.linear(gate * self.linear(x, block + "mlp.up_proj"), block + "mlp.down_proj")


class NoGate(Llama):
    def mlp(self, x, block):
        inner = torch.nn.functional.silu(self.linear(x, block + "mlp.up_proj"))
        return self.linear(inner, block + "mlp.down_proj")


MODELS = {
    "pairs of neighbours rotated": NeighbouringPairs,
    "rotated backwards": TurnedBackwards,
    "exponent i / D": HalfTheSpeed,
    "values rotated too": RotatedValues,
    "keys not rotated": KeysNotRotated,
    "queries not rotated": QueriesNotRotated,
    "nothing rotated": NothingRotated,
    "keys rotated twice": KeysRotatedTwice,
    "query one position ahead": QueryOneAhead,
    "head h reads h % G": HeadsSharedInTurn,
    "heads in another order": HeadsReversed,
    "no 1/sqrt(D)": NoScale,
    "1/sqrt(width)": ScaledByWidth,
    "keys stored as values": KeysAsValues,
    "keys shifted against values": KeysOneSlotOff,
    "RMSNorm without epsilon": NoEpsilon,
    "epsilon outside the root": EpsilonOutsideTheRoot,
    "mean taken off": MeanTakenOff,
    "sum of squares, not mean": SumOfSquares,
    "norm without its weights": NormWithoutWeights,
    "norm with 1 + weights": OnePlusTheWeights,
    "gate and up exchanged": GateAndUpExchanged,
    "gelu for silu": Gelu,
    "no gate": NoGate,
}


# ---- Faults of loading.
def loading_faults(weights, config):
    """Name -> (weights, config)."""
    def renamed(one, other):
        return {name.replace(one, "*").replace(other, one).replace("*", other): value
                for name, value in weights.items()}

    faults = {
        "o_proj transposed": (mutants.changed(weights, "o_proj.weight", lambda x: x.T), config),
        "q_proj transposed": (mutants.changed(weights, "q_proj.weight", lambda x: x.T), config),
        "k_proj and v_proj exchanged": (renamed("k_proj", "v_proj"), config),
        "norms of a layer exchanged":
            (renamed("input_layernorm", "post_attention_layernorm"), config),
        "last norm left out": (mutants.changed(weights, "model.norm.weight", torch.ones_like), config),
        "last layer left out":
            (weights, {**config, "num_hidden_layers": config["num_hidden_layers"] - 1}),
        "theta 500000": (weights, {**config, "rope_theta": 500000.0}),
        "epsilon 1e-6": (weights, {**config, "rms_norm_eps": 1e-6}),
    }
    if not config["tie_word_embeddings"]:
        faults["embedding taken for lm_head"] = (weights, {**config, "tie_word_embeddings": True})
    return faults


# ---- Faults of positions beyond the context.
def beyond_the_context(context, window):
    """Name -> the position of token i after a prompt of n tokens."""
    return {"position stops at the context": lambda i, n, layers: min(i, context - 1),
            "position begins again at the context": lambda i, n, layers: i % context,
            "position by slot of the ring": lambda i, n, layers: i % window}


# ---- Faults of sinks: what a query sees, the places of these keys, and its own.
def in_order(seen):
    return seen, list(range(len(seen))), len(seen) - 1


SINK_FAULTS = {
    "one sink fewer": lambda p, w, s: in_order(kept(p, w, max(0, s - 1))),
    "one sink more": lambda p, w, s: in_order(kept(p, w, s + 1)),
    "evicted": lambda p, w, s: in_order(kept(p, w, 0)),
    "window one too wide": lambda p, w, s: in_order(kept(p, w + 1, s)),
    "window one too narrow": lambda p, w, s: in_order(kept(p, w - 1, s)),
    "taken out of the window": lambda p, w, s: in_order(kept(p, max(1, w - s), s)),
    "nothing evicted": lambda p, w, s: in_order(list(range(p + 1))),
    "positions run on": lambda p, w, s: (kept(p, w, s), kept(p, w, s), p),
    "query by its position, keys by place": lambda p, w, s: (*in_order(kept(p, w, s))[:2], p),
    "keys keep their first place": lambda p, w, s:
        (kept(p, w, s), [min(k, s + w - 1) for k in kept(p, w, s)], min(p, s + w - 1)),
    "places of the time before the eviction": lambda p, w, s:
        (kept(p, w, s), [k if k < s else k - max(0, p - s - w) for k in kept(p, w, s)],
         min(p, s + w)),
    "window counted without the sinks": lambda p, w, s:
        (kept(p, w, s), [k if k < s else k - min(k, max(s, p - w + 1)) for k in kept(p, w, s)],
         min(p, w - 1)),
    "placed after the window": lambda p, w, s:
        (kept(p, w, s), [k + w if p >= s + w and k < s else k - max(0, p - w + 1)
                         for k in kept(p, w, s)], min(p, w - 1)),
    "query does not see itself": lambda p, w, s:
        in_order([k for k in kept(p, w, s) if k < max(s, 1) or k != p]),
}


def with_places(rule):
    """A Llama whose attention with sinks follows a rule of SINK_FAULTS."""
    class Faulty(Llama):
        def attend_in_cache(self, query, key, value, window, sinks):
            rows = []
            for position in range(query.shape[1]):
                seen, places, place = rule(position, window, sinks)
                one_query = self.rotate(query[:, position:position + 1], torch.tensor([place]))
                keys = self.rotate(key[:, seen], torch.tensor(places))
                rows.append(attention(one_query, self.share(keys), self.share(value[:, seen]),
                                      torch.ones(1, len(seen), dtype=torch.bool)))
            return torch.cat(rows, 1)
    return Faulty


# ---- The trial.
class LlamaVerdicts(mutants.Verdicts):
    def __init__(self, weights, config):
        super().__init__()
        self.weights, self.config = weights, config
        self.context = config["max_position_embeddings"]

    def try_on(self, name, case, window, kind=Llama, weights=None, config=None, sinks=None,
               positions=None, visible=None):
        """positions: a rule as in mutants.POSITIONS. visible: a chunk size and a rule."""
        model = kind(weights or self.weights, config or self.config)

        def last_logits(ids):
            shifted = None if positions is None else mutants.shifted_positions(
                positions, len(ids), len(case["prompt"]), model.layers, 10 * self.context)
            mask = None if visible is None else mutants.in_chunks(len(ids), *visible)
            return model.forward(ids, window, sinks, shifted, mask)[-1]

        self.judge(name, case, last_logits)


def try_full(verdicts, case):
    for name, kind in MODELS.items():
        if kind is not HeadsSharedInTurn or verdicts.config["num_key_value_heads"] > 1:
            verdicts.try_on(name, case, None, kind)
    for name, rule in mutants.POSITIONS.items():
        verdicts.try_on(name, case, None, positions=rule)
    verdicts.try_masks(mutants.FULL_MASKS, case, None)
    for name, (weights, config) in loading_faults(verdicts.weights, verdicts.config).items():
        verdicts.try_on(name, case, None, weights=weights, config=config)


def try_past(verdicts, case):
    for name, rule in beyond_the_context(verdicts.context, case["window"]).items():
        verdicts.try_on(name, case, case["window"], positions=rule)


def try_sinks(verdicts, case):
    for name, rule in SINK_FAULTS.items():
        verdicts.try_on("sinks: " + name, case, case["window"], with_places(rule),
                        sinks=case["sinks"])


def check(folder):
    weights, config = load(folder)
    cases = json.loads((folder / "golden.json").read_text())
    verdicts = LlamaVerdicts(weights, config)
    for case in cases["full"]:
        try_full(verdicts, case)
    for case in cases["window"]:
        mutants.try_window(verdicts, case)
    for case in cases["layers"]:
        mutants.try_layers(verdicts, case)
    for case in cases["past"]:
        try_past(verdicts, case)
    for case in cases["sinks"]:
        try_sinks(verdicts, case)
    return verdicts.report(folder)


if __name__ == "__main__":
    mutants.check_all(check, sys.argv[1:] or ["data/golden/llama-gqa", "data/golden/llama-mqa"])
