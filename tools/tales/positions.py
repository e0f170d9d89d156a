#!/usr/bin/env python3
"""Measures how well a Llama of the tales reads on past the length that it was trained with.

    python3 tools/tales/positions.py --model data/tales-llama

The text is a stream of held-out tales, one after another, each begun by the end-of-text id, of eight
times the trained length. The table tells the mean loss (cross-entropy, in nats) of the tokens at each
stretch of positions:
- full: every query sees everything before it; distances grow past those of the training;
- window: the last W tokens; the positions run on, or are places in the cache;
- sinks: the first S tokens and the last W - S; the positions are places in the cache, or run on.
All in float64, from the weights as stored; with places in the cache, one query after another.
"""
import argparse
import json
import sys
from pathlib import Path

import torch

import corpus
import evaluate
import tokenizer as vocabulary
import train

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "golden"))
from oracle import band
from oracles import Oracle

SEED = evaluate.HELD_OUT_SEED + 1
STREAMS = 16
SINKS = 4
RUN_ON, IN_CACHE = "run on", "places in the cache"


def streams(tokenizer, end_of_text, count, length):
    """Rows of length + 1 ids; each begins with a tale."""
    rows, row = [], []
    for tale in corpus.full_tales(SEED, count * length // 100):
        row += [end_of_text, *tokenizer.encode(tale.text).ids]
        if len(row) > length:
            rows.append(row[:length + 1])
            row = []
        if len(rows) == count:
            return rows
    raise AssertionError("too few tales for the streams")


def stretches(context):
    """Positions [from, to) that the table tells apart."""
    edges = [0, context // 2, context, 2 * context, 4 * context, 8 * context]
    return list(zip(edges, edges[1:]))


def ways(context):
    """What a query sees, and how positions are counted."""
    window = context // 2
    return [{"sees": "all", "sinks": 0, "window": None, "positions": RUN_ON},
            {"sees": "window", "sinks": 0, "window": window, "positions": RUN_ON},
            {"sees": "window", "sinks": 0, "window": window, "positions": IN_CACHE},
            {"sees": "sinks and window", "sinks": SINKS, "window": window - SINKS,
             "positions": RUN_ON},
            {"sees": "sinks and window", "sinks": SINKS, "window": window - SINKS,
             "positions": IN_CACHE}]


def logits(llama, ids, way):
    if way["positions"] == IN_CACHE:
        return llama.forward(ids, way["window"], sinks=way["sinks"])
    visible = band(len(ids), way["window"])
    visible[:, :way["sinks"]] |= band(len(ids))[:, :way["sinks"]]
    return llama.forward(ids, visible=visible)


def mean_by_stretch(losses, wanted, parts):
    """losses and wanted [N, T]: the mean over all streams, and the standard error of that mean."""
    means = {}
    for begin, end in parts:
        name = f"{begin}-{end - 1}"
        here = wanted[:, begin:end]
        by_stream = torch.stack([row[use].mean() for row, use in zip(losses[:, begin:end], here)
                                 if use.any()])
        means[name] = {"mean": round(losses[:, begin:end][here].mean().item(), 4),
                       "standard_error": round((by_stream.std() / len(by_stream) ** 0.5).item(), 4)}
    return means


def measure(folder, count=STREAMS, say=lambda line: None):
    """The table, ready for JSON."""
    model, tokenizer = Oracle(folder), vocabulary.load(folder)
    end_of_text = vocabulary.end_of_text_id(folder)
    length, parts = 8 * model.context, stretches(model.context)
    rows = torch.tensor(streams(tokenizer, end_of_text, count, length))
    inputs, targets = rows[:, :-1], rows[:, 1:]
    is_fact = torch.zeros(end_of_text + 1, dtype=torch.bool)
    is_fact[train.fact_ids(tokenizer.get_vocab())] = True
    repeated = torch.cat([train.repeated_facts(inputs[i:i + 1], targets[i:i + 1], is_fact, end_of_text)
                          for i in range(count)])
    table = []
    for way in ways(model.context):
        losses = torch.stack([
            torch.nn.functional.cross_entropy(logits(model.llama, one.tolist(), way), target,
                                              reduction="none")
            for one, target in zip(inputs, targets)])
        table.append({**way, "loss": mean_by_stretch(losses, torch.ones_like(repeated), parts),
                      "loss_repeated_facts": mean_by_stretch(losses, repeated, parts),
                      "loss_other_tokens": mean_by_stretch(losses, ~repeated, parts)})
        shown = {name: value["mean"] for name, value in table[-1]["loss"].items()}
        say(f"{way['sees']}, positions {way['positions']}: loss {shown}")
    return {"streams": count, "tokens_per_stream": length, "seed": SEED,
            "trained_length": model.context, "arithmetic": "float64", "table": table}


def main():
    parser = argparse.ArgumentParser(description="prints the table of loss by position as JSON")
    parser.add_argument("--model", type=Path, default=Path("data/tales-llama"))
    parser.add_argument("--streams", type=int, default=STREAMS)
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_grad_enabled(False)
    table = measure(args.model, args.streams, lambda line: print(line, file=sys.stderr, flush=True))
    print(json.dumps(table, indent=1))


if __name__ == "__main__":
    main()
