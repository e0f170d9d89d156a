"""Recorded traces (data/results/traces, made by record.py; common/trace.h says what they hold), read for drawing."""

import json
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
DATA = ROOT / "data"
VOCABULARY = DATA / "tales" / "vocab.json"

HELD, NEW, EVICTED, EMPTY = "held", "new", "evicted", "empty"
NO_TOKEN = -1  # in a trace: an empty slot


@dataclass(frozen=True)
class Slot:
    """What a slot shows of one forward: `position` is that of the token in it, NO_TOKEN where there is none."""

    position: int
    state: str


def load(path):
    return json.loads((DATA / path).read_text())


def words():
    """The text of every id of the tales model."""
    return {number: text.replace("Ġ", " ") for text, number in json.loads(VOCABULARY.read_text()).items()}


def tokens(trace):
    """The text of the token at every position that was fed."""
    text_of = words()
    return {
        forward["first_position"] + i: text_of[number]
        for forward in trace["forwards"]
        for i, number in enumerate(forward["ids"])
    }


def first_key(forward):
    """The position of the key in the mask's column 0: the columns end with the tokens fed."""
    return forward["first_position"] + len(forward["ids"]) - len(forward["visible"][0])


def slots(forward):
    """Every slot during one forward, old tokens and new ones; the same as slot_states() in common/trace_text.cpp."""
    kept = set(forward["after"])
    found = [Slot(p, EMPTY if p == NO_TOKEN else HELD if p in kept else EVICTED) for p in forward["before"]]
    # Buffers are made in the first forward: their slots are there, and empty, as it writes.
    found += [Slot(NO_TOKEN, EMPTY)] * (len(forward["after"]) - len(found))
    for position in range(forward["first_position"], forward["first_position"] + len(forward["ids"])):
        fresh = Slot(position, NEW if position in kept else EVICTED)
        free = next((i for i, slot in enumerate(found) if slot.state == EMPTY), None)
        if free is None:
            found.append(fresh)
        else:
            found[free] = fresh
    return found


def bytes_text(count):
    if count < 1000:
        return f"{count} B"
    return f"{count / 1e3:.1f} kB" if count < 1_000_000 else f"{count / 1e6:.2f} MB"
