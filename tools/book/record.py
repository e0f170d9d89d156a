"""Runs the programs whose output the book shows and keeps it: data/results/runs/NAME.txt, first line the command.

usage: python3 tools/book/record.py [--check] [NAME...]   (after `make run`; on a quiet machine, since rates are shown)
Without names all of them; the name `traces` stands for what the pictures are drawn from, data/results/traces.
--check records nothing: it runs them and fails where one says something else than what is kept, rates, times and the
machine's description aside.
"""

import argparse
import difflib
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RUNS_FOLDER = ROOT / "data" / "results" / "runs"
TRACES_FOLDER = ROOT / "data" / "results" / "traces"
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
CLAIMS = ["operations", "forever", "cropping", "long_chunk"]
PROGRAMS = [*sorted(folder.name for folder in (ROOT / "chapters").glob("[0-9][0-9]_*")), "tour"]
RUNS = {name: f"build/bin/{name} {FLAGS.get(name, '')}".rstrip() for name in PROGRAMS}
RUNS["layouts"] = "build/bin/layouts"
RUNS |= {f"{name}_trace": f'build/bin/{name} --prompt "Once upon a time" {flags} --trace' for name, flags in TRACES.items()}
RUNS |= {f"by_hand_{name}": f"build/bin/by_hand {name}" for name in PROGRAMS if name != "tour"}
RUNS |= {f"claims_{name}": f"build/bin/claims {name}" for name in CLAIMS}

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

# Each failure is a file of this name in tests/failures.
FAILURES = [
    file.stem for file in sorted((ROOT / "tests" / "failures").glob("*.cpp")) if f"\nFailure {file.stem}()" in file.read_text()
]
RUNS |= {f"failures_{name}": f"build/bin/failures {name}" for name in FAILURES}
RUNS |= {f"workshop_{step}": f"build/bin/workshop {step}" for step in ("starter", "step_1", "step_2", "step_3", "finished")}


def recorded(command):
    run = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=True)
    lines = [f"$ {command}", *run.stdout.splitlines()]
    return "\n".join(line.rstrip() for line in lines) + "\n"


# What differs from run to run, or from machine to machine, and what stands for it in a comparison.
MEASURED = [
    (r" +\d+\.\d+ ms \[.*\]", " #"),  # a median with its spread
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


def filed_trace(name, programs=ROOT / "build" / "bin"):
    """The trace of one run as JSON text."""
    program = programs / name.removesuffix("_turn")
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        command = f'"{program}" --prompt "Once upon a time" {FILED_TRACES[name]} --threads 1 "--trace={file}"'
        subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=True)
        return file.read_text()


def made(names):
    """What these runs say now, by the file that keeps it."""
    texts = {RUNS_FOLDER / f"{name}.txt": recorded(RUNS[name]) for name in names if name != "traces"}
    if "traces" in names:
        texts |= {TRACES_FOLDER / f"{name}.json": filed_trace(name) for name in FILED_TRACES}
    return texts


def check(names):
    stale = []
    for file, text in made(names).items():
        before, now = (unmeasured(t).splitlines() for t in (file.read_text() if file.exists() else "", text))
        if before != now:
            stale.append(file.stem)
            print("\n".join(difflib.unified_diff(before, now, f"{file.name}, as kept", f"{file.name}, now", lineterm="")))
    if stale:
        sys.exit(f"record: {', '.join(stale)}: other output than the book shows: run `make record` and `make book`")


def record(names):
    # All of them before the first file changes: the tour names the commit and says whether the tree differs from it.
    for file, text in made(names).items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("names", nargs="*", metavar="NAME")
    arguments = parser.parse_args()
    names = arguments.names or [*RUNS, "traces"]
    unknown = [name for name in names if name not in [*RUNS, "traces"]]
    if unknown:
        sys.exit(f"record: there is no run called {unknown[0]}; there are {', '.join(RUNS)} and traces")
    (check if arguments.check else record)(names)
