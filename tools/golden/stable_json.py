"""Writes a JSON file, but leaves one alone whose numbers are the same up to rounding.

Float64 results differ in their last digits from one processor to another. A reference file should
change when its meaning changes, not when someone makes it again on another machine.
"""
import json

SAME = 1e-9


def same(one, other):
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float) and isinstance(other, float):
        return abs(one - other) <= SAME
    return type(one) is type(other) and one == other


def write(path, value, indent=None):
    """Says what it did: "written" or "kept"."""
    if path.exists() and same(json.loads(path.read_text(encoding="utf-8")), value):
        return "kept"
    path.write_text(json.dumps(value, indent=indent) + "\n", encoding="utf-8")
    return "written"
