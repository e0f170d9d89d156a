"""Trains a tales model, which copies what its opening told into its ending.

recipes.py says what is trained, and what matters in it.
"""
import math
import sys
import time
from pathlib import Path

import numpy
import torch
from transformers.utils import logging

import recipes
import words


class Stream:
    """Tales joined to one row of ids, each after an end-of-text id; rows are cut out of it."""

    def __init__(self, tokenizer, end_of_text, tales):
        ids, starts = [], []
        for encoding in tokenizer.encode_batch([tale.text for tale in tales]):
            starts.append(len(ids))
            ids.append(end_of_text)
            ids += encoding.ids
        self.ids = torch.tensor(ids)
        self.starts = numpy.array(starts)

    def rows(self, random, count, length, share_at_start):
        """Some rows start at a tale, every other one of them without its end-of-text id, since a
        program's prompt has none; the rest start anywhere."""
        last = len(self.ids) - length - 2
        at_start = random.choice(self.starts[self.starts < last], int(count * share_at_start))
        at_start[::2] += 1
        anywhere = random.integers(0, last, count - len(at_start))
        first = torch.from_numpy(numpy.concatenate([at_start, anywhere]))
        return self.ids[first[:, None] + torch.arange(length + 1)]


def repeated_facts(inputs, targets, is_fact, end_of_text):
    """True where the target is a fact word that this tale has already told."""
    length = inputs.shape[1]
    tale = (inputs == end_of_text).cumsum(1)
    same_word = targets[:, :, None] == inputs[:, None, :]
    same_tale = tale[:, :, None] == tale[:, None, :]
    earlier = torch.ones(length, length, dtype=torch.bool).tril()
    return is_fact[targets] & (same_word & same_tale & earlier).any(2)


def learning_rate(recipe, step):
    if step < recipe.warm_up_steps:
        return recipe.learning_rate * (step + 1) / recipe.warm_up_steps
    share = (step - recipe.warm_up_steps) / (recipe.steps - recipe.warm_up_steps)
    extra = recipe.learning_rate - recipe.final_learning_rate
    return recipe.final_learning_rate + 0.5 * extra * (1 + math.cos(math.pi * share))


def new_optimizer(recipe, model):
    matrices = [p for p in model.parameters() if p.dim() >= 2]
    vectors = [p for p in model.parameters() if p.dim() < 2]
    return torch.optim.AdamW([{"params": matrices, "weight_decay": recipe.weight_decay},
                              {"params": vectors, "weight_decay": 0.0}],
                             lr=recipe.learning_rate, betas=recipe.betas, fused=True)


def fact_ids(vocabulary_ids):
    """The ids of the fact words, with the space before each ("Ġ" in GPT-2's byte alphabet)."""
    missing = [word for word in words.FACT_WORDS if "Ġ" + word not in vocabulary_ids]
    assert not missing, f"not one token each: {missing}"
    return [vocabulary_ids["Ġ" + word] for word in words.FACT_WORDS]


def train(recipe, tokenizer, easy_tales, full_tales, end_of_text, report):
    """Returns the trained model, float32. Calls report(step, loss, loss of repeated facts)."""
    torch.set_flush_denormal(True)
    torch.manual_seed(recipe.seed)
    random = numpy.random.default_rng(recipe.seed)
    easy = Stream(tokenizer, end_of_text, easy_tales)
    full = Stream(tokenizer, end_of_text, full_tales)
    is_fact = torch.zeros(end_of_text + 1, dtype=torch.bool)
    is_fact[fact_ids(tokenizer.get_vocab())] = True
    model = recipe.new_model(end_of_text + 1)
    optimizer = new_optimizer(recipe, model)
    for step in range(recipe.steps):
        is_easy = step < recipe.easy_steps
        length = recipe.easy_length if is_easy else recipe.context
        count = recipe.tokens_per_step // length
        rows = (easy.rows(random, count, length, 0.75) if is_easy
                else full.rows(random, count, length, 0.5))
        inputs, targets = rows[:, :-1], rows[:, 1:]
        offset = random.integers(0, recipe.context - length + 1, (count, 1))
        logits = model(inputs, position_ids=torch.from_numpy(offset) + torch.arange(length),
                       use_cache=False).logits
        losses = torch.nn.functional.cross_entropy(
            logits.flatten(0, 1), targets.flatten(), reduction="none").view(targets.shape)
        repeated = repeated_facts(inputs, targets, is_fact, end_of_text)
        weight = 1 + (recipe.fact_weight - 1) * repeated
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(recipe, step)
        optimizer.zero_grad(set_to_none=True)
        ((losses * weight).sum() / weight.sum()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), recipe.largest_gradient)
        optimizer.step()
        report(step, losses.detach().mean().item(), losses.detach()[repeated].mean().item())
    return model.eval()


def save(recipe, model, folder):
    """Stores config.json and model.safetensors, weights in float16."""
    logging.disable_progress_bar()
    model.half().save_pretrained(folder)
    recipes.correct_config(recipe, Path(folder))
    (Path(folder) / "generation_config.json").unlink(missing_ok=True)


class Progress:
    """A report for train(): one line that is rewritten on a terminal, a line in 50 steps in a log."""

    def __init__(self, steps, every=50):
        self.steps, self.every, self.began = steps, every, time.time()
        self.loss = self.fact_loss = None  # moving averages

    def __call__(self, step, loss, fact_loss):
        self.loss = loss if step == 0 else 0.95 * self.loss + 0.05 * loss
        self.fact_loss = fact_loss if step == 0 else 0.95 * self.fact_loss + 0.05 * fact_loss
        last = step + 1 == self.steps
        line = (f"training: step {step + 1} of {self.steps}, loss {self.loss:.3f}, "
                f"of repeated facts {self.fact_loss:.3f}, {self.minutes():.1f} min")
        if sys.stderr.isatty():
            print("\r" + line, end="\n" if last else "", file=sys.stderr, flush=True)
        elif last or (step + 1) % self.every == 0:
            print(line, file=sys.stderr, flush=True)

    def minutes(self):
        return (time.time() - self.began) / 60
