"""Runs the programs whose output the book shows and keeps it: data/results/runs/NAME.txt, first line the command.

usage: python3 tools/book/record.py [--check] [NAME...]   (after `make run`; on a quiet machine, since rates are shown)
Without names all of them. --check records nothing: it runs them and fails where one says something else than what is
kept, rates, times and the machine's description aside.
"""

import argparse
import difflib
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
FOLDER = ROOT / "data" / "results" / "runs"
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
RUNS |= {f"workshop_{step}": f"build/bin/workshop {step}" for step in ("starter", "step_1", "step_2", "step_3", "finished")}


def recorded(command):
    run = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [f"$ {command}", *run.stdout.splitlines()]
    return "\n".join(line.rstrip() for line in lines) + "\n"


# What differs from run to run, or from machine to machine, and what stands for it in a comparison.
MEASURED = [
    (r"\d+(\.\d+)? (ms|tok/s|GB/s|times|threads)", r"# \2"),
    (r"(tok/s here,) \d+ (there)", r"\1 # \2"),
    (r"[+-]\d+\.\d %", "# %"),
    (r"(smallest gap \d\.\d\d)\d*", r"\1"),  # the last digits are rounding
    (r"source tree at .*", "source tree at #"),
    (r".*last-level cache .*", "(cpu)"),
    (r"LibTorch .* BLAS .*", "(libraries)"),
    # A row of the throughput table: its name, weights, KV, peak and "same tokens" stay.
    (r"^(\d\d_\w+(?:, W = \d+)?) +(\d+) .* (\S+ +\S+ +\S+)$", r"\1 \2 # \3"),
]


def unmeasured(text):
    for pattern, stands_for in MEASURED:
        text = re.sub(pattern, stands_for, text, flags=re.MULTILINE)
    return text


def check(names):
    stale = []
    for name in names:
        kept = (FOLDER / f"{name}.txt").read_text()
        before, now = (unmeasured(text).splitlines() for text in (kept, recorded(RUNS[name])))
        if before != now:
            stale.append(name)
            print("\n".join(difflib.unified_diff(before, now, f"{name}, as kept", f"{name}, now", lineterm="")))
    if stale:
        sys.exit(f"record: {', '.join(stale)}: other output than the book shows: run `make record` and `make book`")


def record(names):
    # All of them before the first file changes: the tour names the commit and says whether the tree differs from it.
    texts = {name: recorded(RUNS[name]) for name in names}
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        (FOLDER / f"{name}.txt").write_text(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    names = arguments.names or list(RUNS)
    unknown = [name for name in names if name not in RUNS]
    if unknown:
        sys.exit(f"record: there is no run called {unknown[0]}; there are {', '.join(RUNS)}")
    (check if arguments.check else record)(names)
