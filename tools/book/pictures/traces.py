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


def tokens(trace, upto=None):
    """The text of the token at every position that was fed; with `upto` in the row of that forward, up to it."""
    text_of, found = words(), {}
    for forward in trace["forwards"]:
        if upto is None or forward.get("row") == upto.get("row"):
            found |= {forward["first_position"] + i: text_of[number] for i, number in enumerate(forward["ids"])}
        if forward is upto:
            break
    return found


def slots(forward):
    """Every slot during one forward, old tokens and new ones; the same as slot_states() in common/trace_text.cpp."""
    kept = set(forward["after"])

    def state(position):
        if position == NO_TOKEN:
            return EMPTY
        if position not in kept:
            return EVICTED
        return NEW if position >= forward["first_position"] else HELD

    found = [Slot(position, state(position)) for position in forward["keys"]]
    room = 0 if "row" in forward else len(forward["after"]) - len(found)  # rows show what attention is given
    return found + [Slot(NO_TOKEN, EMPTY)] * room


def bytes_text(count):
    if count < 1000:
        return f"{count} B"
    return f"{count / 1e3:.1f} kB" if count < 1_000_000 else f"{count / 1e6:.2f} MB"
