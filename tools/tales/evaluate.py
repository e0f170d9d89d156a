#!/usr/bin/env python3
"""Measures how well a tales model recalls, with full attention and with windows.

    python3 tools/tales/evaluate.py --model data/tales
    python3 tools/tales/evaluate.py --model data/tales-llama

The tales are held out: of a seed that training never saw. Recall is the share of tales in which the
likeliest token, at the place where the ending first repeats a fact, is that fact. Attention runs in
float64 with an explicit banded mask, from the weights as stored.
"""
import argparse
import itertools
import json
import sys
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import torch

import corpus
import tokenizer as vocabulary
import words

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "golden"))
from oracle import lowest_best
from oracles import Oracle

HELD_OUT_SEED = 990_001
WINDOWS = (None, 256, 128, 64, 32, 16, 8)  # None: full attention; only those below the context
LAYER_WINDOW = 64  # of the layers that are windowed where the others are not


@dataclass
class EncodedTale:
    ids: list     # no end-of-text id before it: a program's prompt has none
    places: dict  # kind -> (token of the last mention in the opening, token of the repetition)


def encode(tokenizer, tale):
    encoding = tokenizer.encode(tale.text)
    # The offset of a token " word" begins at the space or at the word, depending on the library.
    tokens = {}
    for index, (start, end) in enumerate(encoding.offsets):
        tokens[start + (tale.text[start] == " ")] = index
    places = {}
    for kind, recall in tale.recalls.items():
        mention, repetition = tokens[recall.mention], tokens[recall.repetition]
        assert encoding.ids[mention] == encoding.ids[repetition], recall
        places[kind] = (mention, repetition)
    return EncodedTale(encoding.ids, places)


def held_out(tokenizer, count, context, seed=HELD_OUT_SEED):
    tales = [encode(tokenizer, tale) for tale in corpus.full_tales(seed, 2 * count)]
    return [tale for tale in tales if len(tale.ids) <= context][:count]


def percent(part, whole):
    return round(100 * part / whole, 1) if whole else None


def measure(model, tales, window):
    """One row of the recall table. window: None (full), a number, or a list with one entry a layer."""
    one_for_all = isinstance(window, int)
    right, told, beyond_right, beyond = Counter(), Counter(), Counter(), Counter()
    other_loss, others = 0.0, 0
    for tale in tales:
        logits = model.forward(tale.ids[:-1], window)
        targets = torch.tensor(tale.ids[1:])
        losses = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
        is_other = torch.ones(len(targets), dtype=torch.bool)
        for kind, (mention, repetition) in tale.places.items():
            is_right = lowest_best(logits[repetition - 1]) == tale.ids[repetition]
            told[kind] += 1
            right[kind] += is_right
            if one_for_all and repetition - mention > window:
                beyond[kind] += 1
                beyond_right[kind] += is_right
            is_other[repetition - 1] = False
        other_loss += losses[is_other].sum().item()
        others += int(is_other.sum())
    return {"window": window,
            "recall_percent": {kind: percent(right[kind], told[kind]) for kind in words.FACTS},
            "recall_percent_beyond_window":
                None if not one_for_all else
                {kind: percent(beyond_right[kind], beyond[kind]) for kind in words.FACTS},
            "loss_other_tokens": round(other_loss / others, 4)}


def guessing(tokenizer, tales):
    """Recall of someone who always names the most frequent word of a kind."""
    shares = {}
    for kind in words.FACTS:
        named = Counter(tale.ids[tale.places[kind][1]] for tale in tales if kind in tale.places)
        word, count = named.most_common(1)[0]
        shares[kind] = {"word": tokenizer.decode([word]).strip(),
                        "percent": percent(count, sum(named.values()))}
    return shares


def evaluate(folder, count, say=lambda line: None):
    """The recall table and what describes it, ready for JSON."""
    model = Oracle(folder)
    tokenizer = vocabulary.load(folder)
    tales = held_out(tokenizer, count, model.context)
    rows = []
    for window in WINDOWS:
        if window is not None and window >= model.context:
            continue
        row = measure(model, tales, window)
        rows.append(row)
        say(f"window {str(window or 'full'):>4}: recall % {row['recall_percent']}, "
            f"loss of other tokens {row['loss_other_tokens']}")
    layers = []
    for windowed in itertools.product((False, True), repeat=model.layers):
        windows = [LAYER_WINDOW if here else None for here in windowed]
        row = measure(model, tales, windows)
        layers.append({"layer_windows": [window or 0 for window in windows],  # 0: full, as in the flag
                       "recall_percent": row["recall_percent"],
                       "loss_other_tokens": row["loss_other_tokens"]})
        say(f"layer windows {layers[-1]['layer_windows']}: recall % {row['recall_percent']}")
    distances = sorted(repetition - mention for tale in tales
                       for mention, repetition in tale.places.values())
    return {"held_out_tales": len(tales), "held_out_seed": HELD_OUT_SEED,
            "facts": {kind: sum(kind in tale.places for tale in tales) for kind in words.FACTS},
            "tokens_per_tale": {"min": min(len(tale.ids) for tale in tales),
                                "median": sorted(len(t.ids) for t in tales)[len(tales) // 2],
                                "max": max(len(tale.ids) for tale in tales)},
            "distance_tokens": {"min": distances[0], "median": distances[len(distances) // 2],
                                "max": distances[-1]},
            "most_frequent_guess": guessing(tokenizer, tales),
            "parameters": sum(value.numel() for value in model.weights.values()),
            "table": rows,
            "by_layer": layers}


def main():
    parser = argparse.ArgumentParser(description="prints the recall table of a tales model as JSON")
    parser.add_argument("--model", type=Path, default=Path("data/tales"))
    parser.add_argument("--tales", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_grad_enabled(False)
    table = evaluate(args.model, args.tales, lambda line: print(line, file=sys.stderr, flush=True))
    print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
