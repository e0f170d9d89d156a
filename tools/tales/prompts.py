#!/usr/bin/env python3
"""Chooses the prompts: openings of held-out tales on which a window shows what it costs.

    python3 tools/tales/prompts.py --model data/tales --out data/tales/prompts.json

A prompt is an opening, which tells the facts; no end-of-text id stands before it. It qualifies when
greedy decoding, in float64,
- decides each of 200 tokens with a gap above 0.01 between the two best logits,
- ends the tale with every fact right under full attention,
- first repeats a fact more than 64 tokens after the prompt.
The default prompt also ends its tale, in good order, with every fact wrong under a window of 64.
"""
import argparse
import json
import re
import sys
from pathlib import Path

import torch

import corpus
import tokenizer as vocabulary
import words

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "golden"))
import oracle

NEW_TOKENS = 200
WINDOW = 64
SMALLEST_GAP = 0.01
PROMPTS = 6
CANDIDATE_SEED = 31_337


class Writer:
    """A model, its tokenizer, and greedy text."""

    def __init__(self, folder):
        self.weights, self.config = oracle.load(folder)
        self.tokenizer = vocabulary.load(folder)
        self.end_of_text = vocabulary.end_of_text_id(folder)

    def continue_text(self, prompt_ids, window=None, stop_below=0.0):
        """New ids and the smallest gap; None as soon as a gap is under `stop_below`."""
        ids, smallest = list(prompt_ids), float("inf")
        for _ in range(NEW_TOKENS):
            logits = oracle.forward(self.weights, self.config, ids, window)[-1]
            best, second = logits.topk(2).values.tolist()
            smallest = min(smallest, best - second)
            if smallest < stop_below:
                return None
            ids.append(oracle.lowest_best(logits))
        return ids[len(prompt_ids):], smallest

    def first_tale(self, new_ids):
        """The ids up to the first end-of-text id, or None when the tale does not end."""
        return new_ids[:new_ids.index(self.end_of_text)] if self.end_of_text in new_ids else None

    def facts(self, ids):
        """kind -> the fact words in a text. A continuation holds only those of the ending."""
        found = re.findall(r"\w+", self.tokenizer.decode(ids))
        return {kind: {word for word in found if word in known}
                for kind, known in words.FACTS.items()}

    def first_fact(self, ids):
        """The index of the first token that is a fact word."""
        for index, token in enumerate(ids):
            if self.tokenizer.decode([token]).strip() in words.FACT_WORDS:
                return index
        return len(ids)


def all_right(found, told):
    return all(found[kind] <= {told[kind]} for kind in told) and all(
        found[kind] for kind in ("name", "colour", "object", "place"))


def all_wrong(found, told):
    """One word of each kind that full attention would repeat, and never the right one."""
    return all(len(found[kind]) == 1 and told[kind] not in found[kind]
               for kind in ("name", "colour", "object", "place")) and (
        told["relative"] not in found["relative"] and len(found["relative"]) <= 1)


def told_facts(tale):
    return {kind: word for kind, word in tale.facts.items()
            if re.search(rf"\b{word}\b", tale.opening)}


def qualified(writer, tale):
    """A prompt's entry, or None."""
    ids = writer.tokenizer.encode(tale.opening).ids
    written = writer.continue_text(ids, stop_below=SMALLEST_GAP)
    if written is None:
        return None
    new_ids, gap = written
    ending = writer.first_tale(new_ids)
    if ending is None or writer.first_fact(ending) <= WINDOW:
        return None
    if not all_right(writer.facts(ending), tale.facts):
        return None
    return {"text": tale.opening, "ids": ids, "facts": told_facts(tale), "min_margin": gap,
            "new_ids": new_ids}


def is_demonstration(writer, entry, tale):
    """Does a window of 64 end the same tale with other facts?"""
    written = writer.continue_text(entry["ids"], WINDOW, stop_below=SMALLEST_GAP)
    if written is None:
        return False
    ending = writer.first_tale(written[0])
    if ending is None or not all_wrong(writer.facts(ending), tale.facts):
        return False
    same = writer.first_fact(ending)
    return ending[:same] == entry["new_ids"][:same]


def choose(writer, say=lambda line: None, candidates=4000):
    """PROMPTS entries, the default one first; each begins with other words."""
    default, default_start, others = None, None, {}
    for tale in corpus.full_tales(CANDIDATE_SEED, candidates):
        start = " ".join(tale.opening.split()[:4])
        may_be_default = default is None and len(told_facts(tale)) == len(words.FACTS)
        if not may_be_default and (start in others or start == default_start):
            continue
        entry = qualified(writer, tale)
        if entry is None:
            continue
        if may_be_default and is_demonstration(writer, entry, tale):
            default, default_start = entry, start
            others.pop(start, None)
        elif start not in others:
            others[start] = entry
        else:
            continue
        say(f"prompts: gap {entry['min_margin']:.4f}: {tale.opening}")
        if default is not None and len(others) >= PROMPTS - 1:
            break
    assert default is not None, "no opening shows what a window of 64 forgets"
    return [default, *list(others.values())[:PROMPTS - 1]]


def as_file(entries):
    """The content of prompts.json."""
    names = ["default"] + [f"tale-{number}" for number in range(2, len(entries) + 1)]
    return {"about": "openings of held-out tales. A prompt is plain text: no end-of-text id stands "
                     "before it. facts: what the opening tells and the ending should repeat; "
                     f"min_margin: over {NEW_TOKENS} greedy tokens in float64",
            "new_tokens": NEW_TOKENS, "window": WINDOW,
            "prompts": [{"name": name, "text": entry["text"], "ids": entry["ids"],
                         "facts": entry["facts"], "min_margin": entry["min_margin"]}
                        for name, entry in zip(names, entries)]}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("data/tales"))
    parser.add_argument("--out", type=Path, default=Path("data/tales/prompts.json"))
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_grad_enabled(False)
    entries = choose(Writer(args.model), lambda line: print(line, file=sys.stderr, flush=True))
    args.out.write_text(json.dumps(as_file(entries), indent=1, ensure_ascii=True) + "\n")


if __name__ == "__main__":
    main()
