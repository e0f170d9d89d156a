#!/usr/bin/env python3
"""Makes the float64 references of a tales model: what greedy decoding writes after each prompt.

    python3 tools/golden/make_golden_tales.py --model data/tales --out data/golden/tales.json
    python3 tools/golden/make_golden_tales.py --model data/tales-llama --out data/golden/tales_llama.json

Full attention is transformers' own generate, checked against the oracle token by token. For the
default prompt also what a window of 64 and of 16 gives: the oracle with a banded mask. Float64 from
the stored float16 weights.
"""
import argparse
import json
import sys
from pathlib import Path

import torch

import stable_json
from oracles import Oracle

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tales"))
import tokenizer as vocabulary

WINDOWS = (64, 16)


def generated(model, prompt, new):
    """transformers' greedy ids. All of the mask is ones, or generate would hide a pad token."""
    mask = torch.ones(1, len(prompt), dtype=torch.long)
    ids = model.generate(torch.tensor([prompt]), attention_mask=mask, max_new_tokens=new,
                         min_new_tokens=new, do_sample=False, eos_token_id=None,
                         pad_token_id=model.config.vocab_size - 1)
    return ids[0].tolist()


def continuation(model, tokenizer, prompt, new, window=None):
    ids, gap = model.greedy(prompt, new, window)
    new_ids = ids[len(prompt):]
    return {"new_ids": new_ids, "min_margin": gap,
            "text": tokenizer.decode(new_ids, skip_special_tokens=False)}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=Path("data/tales"))
    parser.add_argument("--out", type=Path, default=Path("data/golden/tales.json"))
    parser.add_argument("--threads", type=int, default=1)
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    torch.set_grad_enabled(False)
    model = Oracle(args.model)
    theirs = model.of_transformers()
    tokenizer = vocabulary.load(args.model)
    chosen = json.loads((args.model / "prompts.json").read_text())
    new = chosen["new_tokens"]
    entries = []
    for prompt in chosen["prompts"]:
        ids = prompt["ids"]
        assert tokenizer.encode(prompt["text"]).ids == ids
        entry = {"name": prompt["name"], "prompt": ids,
                 **continuation(model, tokenizer, ids, new)}
        assert generated(theirs, ids, new) == ids + entry["new_ids"], prompt["name"]
        if prompt["name"] == "default":
            ours = model.forward(ids)
            difference = (ours - theirs(torch.tensor([ids])).logits[0]).abs().max().item()
            print(f"largest difference from transformers: {difference:.1e}", file=sys.stderr)
            assert difference < model.tolerance
            entry["last_logits"] = [round(x, 9) for x in ours[-1].tolist()]
            entry["windows"] = [
                {"window": window,
                 **continuation(model, tokenizer, ids, new, window)}
                for window in WINDOWS]
        entries.append(entry)
        print(f"{prompt['name']}: smallest gap {entry['min_margin']:.4f}", file=sys.stderr)
    about = ("float64 references from the stored float16 weights: greedy new_ids after each prompt, "
             "full attention, checked against transformers; windows: a banded mask, query i sees "
             "keys max(0,i-W+1)..i; last_logits: after the prompt; text: the new ids decoded")
    value = {"about": about, "model": args.model.name, "new_tokens": new, "prompts": entries}
    print(f"{args.out}: {stable_json.write(args.out, value)}")


if __name__ == "__main__":
    main()
