#!/usr/bin/env python3
"""Makes a tales model again, from a seed: vocabulary, model, evaluation and prompts.

    python3 tools/tales/make_all.py --out data/tales
    python3 tools/tales/make_all.py --family llama --out data/tales-llama

The Llama reads the same tales and takes its vocabulary from data/tales. Training took 46 minutes
(GPT-2) and 18 minutes (Llama) on one thread of a busy two-core machine; a free core is faster.
The same seed gives the same corpus and vocabulary everywhere, and the same weights on the same
machine and package versions; elsewhere the weights differ in their last digits, and the figures a
little.
"""
import argparse
import json
import os
import platform
import shutil
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch

import corpus
import evaluate
import positions
import prompts
import recipes
import tokenizer
import train

FULL_TALES, EASY_TALES, HELD_OUT_TALES = 25_000, 12_000, 200
VOCABULARY_FILES = ("vocab.json", "merges.txt")
MODEL_FILES = ("config.json", "model.safetensors", *VOCABULARY_FILES)
FOLDERS = {"gpt2": Path("data/tales"), "llama": Path("data/tales-llama")}
VOCABULARIES = {"gpt2": None, "llama": FOLDERS["gpt2"]}  # None: learn it from the tales
PACKAGES = ("torch", "transformers", "tokenizers", "safetensors", "numpy")


def say(line):
    print(line, file=sys.stderr, flush=True)


def copy_files(names, source, target):
    target.mkdir(parents=True, exist_ok=True)
    for name in names:
        shutil.copyfile(source / name, target / name)


def make_model(work, seed, recipe, vocabulary):
    """Writes the corpus, the vocabulary, the model and training.json into the folder `work`.
    vocabulary: a folder to copy it from, or None: learn it."""
    full = corpus.full_tales(seed, FULL_TALES)
    easy = corpus.easy_tales(seed + 1, EASY_TALES)
    for name, tales in (("full.txt", full), ("easy.txt", easy)):
        (work / name).write_text("".join(tale.text + "\n" for tale in tales))
    lengths = sorted(len(tale.text.split()) for tale in full)
    words_per_tale = {"min": lengths[0], "median": lengths[len(lengths) // 2], "max": lengths[-1]}
    say(f"corpus: {len(full)} tales, words a tale {words_per_tale}")
    if vocabulary is None:
        tokenizer.learn([tale.text for tale in full], work)
    else:
        copy_files(VOCABULARY_FILES, vocabulary, work)
    progress = train.Progress(recipe.steps)
    model = train.train(recipe, tokenizer.load(work), easy, full, tokenizer.end_of_text_id(work),
                        progress)
    train.save(recipe, model, work)
    description = {"corpus_seed": seed, "full_tales": FULL_TALES, "easy_tales": EASY_TALES,
                   "words_per_tale": words_per_tale, "recipe": asdict(recipe),
                   "final_loss": round(progress.loss, 4),
                   "final_loss_repeated_facts": round(progress.fact_loss, 4),
                   "minutes": round(progress.minutes(), 1)}
    (work / "training.json").write_text(json.dumps(description, indent=1) + "\n")


def environment(args):
    command = (f"python3 tools/tales/make_all.py --family {args.family} --out {FOLDERS[args.family]} "
               f"--seed {args.seed}")
    return {"command": f"{command} --steps {args.steps} --threads {args.threads}",
            "versions": {"python": platform.python_version(),
                         **{package: version(package) for package in PACKAGES}}}


def write_evaluation(work, out, args):
    description = environment(args)
    training = work / "training.json"
    if training.exists():
        description["training"] = json.loads(training.read_text())
    description |= evaluate.evaluate(out, HELD_OUT_TALES, say)
    if args.family == "llama":  # GPT-2 has no positions beyond its context
        description["loss_by_position"] = positions.measure(out, say=say)
    (out / "evaluation.json").write_text(json.dumps(description, indent=1) + "\n")


def write_prompts(out):
    entries = prompts.choose(prompts.Writer(out), say)
    (out / "prompts.json").write_text(json.dumps(prompts.as_file(entries), indent=1) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", choices=list(recipes.RECIPES), default="gpt2")
    parser.add_argument("--out", type=Path, help="default: data/tales or data/tales-llama")
    parser.add_argument("--work", type=Path,
                        help="folder for the corpus and other files that are not kept (default: "
                             "build/tales or build/tales-llama)")
    parser.add_argument("--seed", type=int, default=1, help="of the corpus; training adds 6")
    parser.add_argument("--steps", type=int, help="default: the recipe's")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--keep-model", action="store_true",
                        help="do not train: publish and evaluate the model that is in --work")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    recipe = recipes.RECIPES[args.family](seed=args.seed + 6)
    args.steps = recipe.steps = args.steps or recipe.steps
    args.out = args.out or FOLDERS[args.family]
    args.work = args.work or Path("build") / FOLDERS[args.family].name
    args.work.mkdir(parents=True, exist_ok=True)
    if not args.keep_model:
        make_model(args.work, args.seed, recipe, VOCABULARIES[args.family])
    copy_files(MODEL_FILES, args.work, args.out)
    torch.set_grad_enabled(False)
    write_evaluation(args.work, args.out, args)
    write_prompts(args.out)


if __name__ == "__main__":
    main()
