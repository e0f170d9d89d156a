"""Draws every picture into book/pictures: `make pictures`."""

import importlib

from pictures import style, traces
from pictures.catalogue import FOLDER, PICTURES


def drawn(picture):
    function = getattr(importlib.import_module(f"pictures.{picture.module}"), picture.function)
    return function(*(traces.load(source) for source in picture.sources if source.startswith("results/traces/")))


FOLDER.mkdir(parents=True, exist_ok=True)
for old in FOLDER.glob("*.svg"):
    old.unlink()
for name, picture in PICTURES.items():
    (FOLDER / f"{name}.svg").write_text(style.svg(drawn(picture), picture.fingerprint()))
