"""Draws every picture into book/pictures: `make pictures`."""

import importlib

from pictures import style, traces
from pictures.catalogue import FOLDER, PICTURES


def drawn(picture):
    function = getattr(importlib.import_module(f"pictures.{picture.module}"), picture.function)
    return function(*(traces.load(source) for source in picture.sources if source.startswith("results/traces/")))


drawings = {f"{name}.svg": style.svg(drawn(picture), picture.fingerprint()) for name, picture in PICTURES.items()}
FOLDER.mkdir(parents=True, exist_ok=True)
for old in FOLDER.glob("*.svg"):
    old.unlink()
for file, drawing in drawings.items():
    (FOLDER / file).write_text(drawing)
