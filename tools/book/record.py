"""Runs the programs whose output the book shows and keeps it: data/results/runs/NAME.txt, first line the command.

usage: python3 tools/book/record.py [NAME...]    (after `make run`; on a quiet machine, since rates are shown too)
       python3 tools/book/record.py traces       (only what the pictures are drawn from; any machine gives the same)
Without names all of them, and the traces: data/results/traces/NAME.json.
"""

import subprocess
import sys
import tempfile
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

# What the pictures and the stepper are made from: one run of every chapter, and those that have it with a second turn.
FILED_TRACES = {name: "--new-tokens 10" for name in PROGRAMS if name != "tour"}
FILED_TRACES["04_preallocated"] += " --capacity 16"
FILED_TRACES["05_sliding_window"] += " --window 6"
SECOND_TURN = '--new-tokens 4 --turn " a duck came"'
FILED_TRACES |= {
    "03_masked_offsets_turn": SECOND_TURN,
    "04_preallocated_turn": f"{SECOND_TURN} --capacity 16",
    "05_sliding_window_turn": f"{SECOND_TURN} --window 6",
}


def recorded(command):
    run = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [f"$ {command}", *run.stdout.splitlines()]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def filed_trace(name, programs=ROOT / "build" / "bin"):
    """The trace of one run as JSON text."""
    program = programs / name.removesuffix("_turn")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        command = f'"{program}" --prompt "Once upon a time" {FILED_TRACES[name]} --threads 1 "--trace={file}"'
        subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=True)
        return file.read_text()


def write(folder, texts):
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (folder / name).write_text(text)


if __name__ == "__main__":
    names = sys.argv[1:] or [*RUNS, "traces"]
    # All of them before the first file changes: the tour names the commit and says whether the tree differs from it.
    texts = {f"{name}.txt": recorded(RUNS[name]) for name in names if name != "traces"}
    filed = {f"{name}.json": filed_trace(name) for name in FILED_TRACES if "traces" in names}
    write(ROOT / "data" / "results" / "runs", texts)
    write(ROOT / "data" / "results" / "traces", filed)
