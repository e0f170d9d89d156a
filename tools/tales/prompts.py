#!/usr/bin/env python3
"""Chooses the prompts: openings of held-out tales on which a window shows what it costs.

    python3 tools/tales/prompts.py --model data/tales --out data/tales/prompts.json
    python3 tools/tales/prompts.py --model data/tales-llama --out data/tales-llama/prompts.json

A prompt is an opening, which tells the facts; no end-of-text id stands before it. It qualifies when
greedy decoding, in float64,
- decides each of 200 tokens with a gap above 0.01 between the two best logits,
- ends the tale with every fact right under full attention,
- first repeats a fact more than 64 tokens after the prompt.
The default prompt tells all five facts; under a window of 64 it goes on with the same words up to
the first fact, and then ends its tale, in good order, with every fact wrong.
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
from oracle import lowest_best
from oracles import Oracle

NEW_TOKENS = 200
WINDOW = 64
SMALLEST_GAP = 0.01
PROMPTS = 6
CANDIDATE_SEED = 31_337


class Writer:
    """A model, its tokenizer, and greedy text in float64."""

    def __init__(self, folder):
        self.model = Oracle(folder)
        self.fast_model = self.model.of_transformers()
        self.tokenizer = vocabulary.load(folder)
        self.end_of_text = vocabulary.end_of_text_id(folder)

    def full(self, prompt_ids):
        """New ids and the smallest gap under full attention: transformers, with its cache."""
        output = self.fast_model.generate(
            torch.tensor([prompt_ids]), attention_mask=torch.ones(1, len(prompt_ids)),
            max_new_tokens=NEW_TOKENS, min_new_tokens=NEW_TOKENS, do_sample=False,
            eos_token_id=None, pad_token_id=self.end_of_text, output_logits=True,
            return_dict_in_generate=True)
        best_two = torch.cat(output.logits).topk(2).values
        gap = (best_two[:, 0] - best_two[:, 1]).min().item()
        return output.sequences[0, len(prompt_ids):].tolist(), gap

    def windowed(self, prompt_ids, window, beginning):
        """New ids under a window: the oracle. None when a gap is too small, or as soon as they do
        not begin with the ids `beginning`."""
        new_ids = []
        while len(new_ids) < NEW_TOKENS:
            logits = self.model.forward(prompt_ids + new_ids, window)[-1]
            best, second = logits.topk(2).values.tolist()
            new_ids.append(lowest_best(logits))
            same = new_ids[:len(beginning)] == beginning[:len(new_ids)]
            if best - second < SMALLEST_GAP or not same:
                return None
        return new_ids

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
    new_ids, gap = writer.full(ids)
    ending = writer.first_tale(new_ids)
    if gap < SMALLEST_GAP or ending is None or writer.first_fact(ending) <= WINDOW:
        return None
    if not all_right(writer.facts(ending), tale.facts):
        return None
    return {"text": tale.opening, "ids": ids, "facts": told_facts(tale), "min_margin": gap,
            "new_ids": new_ids}


def is_demonstration(writer, entry, tale):
    """Does a window of 64 tell the same tale up to the first fact, and end it with other facts?"""
    beginning = entry["new_ids"][:writer.first_fact(entry["new_ids"])]
    new_ids = writer.windowed(entry["ids"], WINDOW, beginning)
    ending = writer.first_tale(new_ids) if new_ids is not None else None
    return ending is not None and all_wrong(writer.facts(ending), tale.facts)


def choose(writer, say=lambda line: None, candidates=4000):
    """PROMPTS entries, the default one first; each begins with other words."""
    default, default_start, others = None, None, {}
    for tale in corpus.full_tales(CANDIDATE_SEED, candidates):
        start = " ".join(tale.opening.split()[:3])
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
                         "facts": entry["facts"], "min_margin": round(entry["min_margin"], 4)}
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
