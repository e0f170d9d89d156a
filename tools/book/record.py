"""Runs the programs whose output the book shows and keeps it: data/results/runs/NAME.txt, first line the command.

usage: python3 tools/book/record.py [NAME...]    (after `make run`; on a quiet machine, since rates are shown too)
Without names all of them.
"""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
# Every chapter's program is run as it is, or so:
FLAGS = {
    "03_masked_offsets": '--new-tokens 60 --chunk 16 --turn " Then a duck came."',
    "04_preallocated": "--new-tokens 100 --capacity 256",
    "tour": "--quick",
}
TRACES = {
    "02_cat_cache": "--new-tokens 6",
    "03_masked_offsets": '--new-tokens 4 --turn " a duck came"',
    "04_preallocated": "--new-tokens 6 --capacity 12",
    "05_sliding_window": "--new-tokens 8 --window 6",
}
PROGRAMS = [*sorted(folder.name for folder in (ROOT / "chapters").glob("[0-9][0-9]_*")), "tour"]
RUNS = {name: f"build/bin/{name} {FLAGS.get(name, '')}".rstrip() for name in PROGRAMS}
RUNS |= {f"{name}_trace": f'build/bin/{name} --prompt "Once upon a time" {flags} --trace' for name, flags in TRACES.items()}


def recorded(command):
    run = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [f"$ {command}", *run.stdout.splitlines()]
    return "\n".join(line.rstrip() for line in lines) + "\n"


if __name__ == "__main__":
    # All of them before the first file changes: the tour names the commit and says whether the tree differs from it.
    texts = {name: recorded(RUNS[name]) for name in sys.argv[1:] or RUNS}
    folder = ROOT / "data" / "results" / "runs"
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / f"{name}.txt").write_text(text)
