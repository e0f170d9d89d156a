"""Runs the programs whose output the book shows and keeps it: data/results/runs/NAME.txt, first line the command.

usage: python3 tools/book/record.py [--check] [NAME...]   (after `make run`; on a quiet machine, since rates are shown)
Without names all of them; the name `traces` stands for what the pictures are drawn from, data/results/traces.
--check records nothing: it runs them and fails where one says something else than what is kept, rates, times and the
machine's description aside.
"""

import argparse
import difflib
import os
import re
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RUNS_FOLDER = ROOT / "data" / "results" / "runs"
TRACES_FOLDER = ROOT / "data" / "results" / "traces"
PROGRAMS_FOLDER = os.environ.get("KVBOOK_PROGRAM_FOLDER", "build/bin").replace(" ", "\\ ")
# Every chapter's program is run as it is, or so:
FLAGS = {
    "03_masked_offsets": '--new-tokens 60 --chunk 16 --turn " Then a duck came."',
    "04_preallocated": "--new-tokens 100 --capacity 256",
    "06_ring_buffer": "--window 64",
    "07_ragged_batch": '--prompt "Once upon a time" --prompt "There was once a clever boy named" --prompt "One day" --new-tokens 60',
    "08_paged": '--prompt "Once upon a time" --prompt "There was once a clever boy named" --prompt "One day" --new-tokens 60 --pool-pages 8',
    "10_layer_windows": "--layer-windows 64,64,0,0",
    "11_offload": "--resident-mib 1",
    "tour": "--quick",
}
TRACES = {
    "02_cat_cache": "--new-tokens 6",
    "03_masked_offsets": '--new-tokens 4 --turn " a duck came"',
    "04_preallocated": "--new-tokens 6 --capacity 12",
    "05_sliding_window": "--new-tokens 8 --window 6",
    "06_ring_buffer": "--new-tokens 8 --window 6",
    "10_layer_windows": "--new-tokens 8 --layer-windows 0,6,6,6",
}
ROWS_TRACE = '--prompt "There was once a boy" --prompt "One day" --rows 2 --new-tokens 4'
CLAIMS = ["operations", "forever", "cropping", "long_chunk", "order", "take_back", "padding", "waste", "sharing", "outlier", "rounding", "layers"]
PROGRAMS = [*sorted(folder.name for folder in (ROOT / "chapters").glob("[0-9][0-9]_*")), "tour"]
RUNS = {name: f"build/bin/{name} {FLAGS.get(name, '')}".rstrip() for name in PROGRAMS}
RUNS |= {name: f"build/bin/{name}" for name in ("layouts", "pool", "schedule")}
RUNS |= {f"{name}_trace": f'build/bin/{name} --prompt "Once upon a time" {flags} --trace' for name, flags in TRACES.items()}
RUNS["07_ragged_batch_trace"] = f"build/bin/07_ragged_batch {ROWS_TRACE} --trace"
RUNS |= {f"by_hand_{name}": f"build/bin/by_hand {name}" for name in PROGRAMS if name != "tour"}
RUNS |= {f"claims_{name}": f"build/bin/claims {name}" for name in CLAIMS}

# What the pictures and the stepper are made from: one run of every chapter, and those that have it with a second turn.
LIKE_CHAPTER_4 = ("10_layer_windows", "11_offload")  # the same slots, unless flags say otherwise
FILED_TRACES = {name: "--new-tokens 10" for name in PROGRAMS if name not in ("tour", *LIKE_CHAPTER_4)}
FILED_TRACES["04_preallocated"] += " --capacity 16"
FILED_TRACES["05_sliding_window"] += " --window 6"
FILED_TRACES["06_ring_buffer"] += " --window 6"
SECOND_TURN = '--new-tokens 4 --turn " a duck came"'
FILED_TRACES |= {
    "03_masked_offsets_turn": SECOND_TURN,
    "04_preallocated_turn": f"{SECOND_TURN} --capacity 16",
    "05_sliding_window_turn": f"{SECOND_TURN} --window 6",
    "06_ring_buffer_turn": f"{SECOND_TURN} --window 6",
    "07_ragged_batch_rows": ROWS_TRACE,
    "09_int8_turn": f"{SECOND_TURN} --scales group --group 4",
    "10_layer_windows_turn": f"{SECOND_TURN} --layer-windows 16,6,6,6",
}

# Each failure is a file of this name in tests/failures.
FAILURES = [
    file.stem for file in sorted((ROOT / "tests" / "failures").glob("*.cpp")) if f"\nFailure {file.stem}()" in file.read_text()
]
RUNS |= {f"failures_{name}": f"build/bin/failures {name}" for name in FAILURES}
RUNS |= {f"workshop_{step}": f"build/bin/workshop {step}" for step in ("starter", "step_1", "step_2", "step_3", "finished")}


def stop(fault, status=2):
    print(f"record: {fault}", file=sys.stderr)
    sys.exit(status)


def output_of(command):
    """What a program says. Those of another build are run where the environment names their folder."""
    there = command.replace("build/bin/", f"{PROGRAMS_FOLDER}/", 1)
    try:
        run = subprocess.run(shlex.split(there), cwd=ROOT, capture_output=True, text=True)
    except OSError as error:
        stop(f"{command}: {error}: build it first, `make record` does")
    if run.returncode != 0:
        stop(f"{command} ended with status {run.returncode}: {run.stderr.strip() or 'it said nothing'}")
    return run.stdout


def recorded(command):
    lines = [f"$ {command}", *output_of(command).splitlines()]
    return "\n".join(line.rstrip() for line in lines) + "\n"


# What differs from run to run, or from machine to machine, and what stands for it in a comparison.
MEASURED = [
    (r" +\d+\.\d+ ms \[[\d.–]+\]", " #"),  # a median with its spread
    (r"\b\d+ threads", "# threads"),
    (r"first after [\d.]+ ms · \d+ tok/s end to end · \d+ tok/s decoding", "(rates)"),
    (r"· \d+ tok/s here, \d+ there: [\d.]+ times$", "(rates)"),
    (r"· waited [\d.]+ ms, \d+ % of the time$", "(times)"),
    (r"all begun after \d+ ms · \d+ tok/s end to end · \d+ tok/s decoding", "(rates)"),
    (r"· \d+ tok/s together, \d+ one after the other: [\d.]+ times$", "(rates)"),
    (r"(same tokens: [\w, ]+), \d+ tok/s, [\d.]+ times$", r"\1 (rates)"),
    (r"takes [\d.]+ ms, its at::linear calls alone [\d.]+ ms: [+-][\d.]+ %$", "(times)"),
    (r"(smallest gap 0\.0*[1-9]\d)\d*", r"\1"),  # further digits are rounding
    (r"(smallest gap [1-9]\d*\.\d)\d*", r"\1"),
    (r"· source tree at .*$", "(commit)"),
    (r"^.* · last-level cache .*$", "(cpu)"),
    (r"^LibTorch .* · BLAS .*$", "(libraries)"),
    # A row of the throughput table, quick form: its name, weights, KV, peak and "same tokens" stay.
    (r"^(\d\d_\w+(?:, W = \d+|, \d+ / full)?) +(\d+)(?: +[\d.]+){3} +(?:[\d.]+|-) +[\d.]+x +[\d.]+ +\d+% +(?:[\d.]+|-) +"
     r"([\d.]+ +[\d.]+ +\S+)$", r"\1 \2 # \3"),
]


def unmeasured(text):
    for pattern, stands_for in MEASURED:
        text = re.sub(pattern, stands_for, text, flags=re.MULTILINE)
    return text


def filed_trace(name):
    """The trace of one run as JSON text."""
    program = f"build/bin/{name.removesuffix('_turn').removesuffix('_rows')}"
    prompt = "" if "--prompt" in FILED_TRACES[name] else '--prompt "Once upon a time"'
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "trace.json"
        output_of(f'{program} {prompt} {FILED_TRACES[name]} --threads 1 "--trace={file}"')
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
        stop(f"{', '.join(stale)}: other output than the book shows: run `make record` and `make book`", status=1)


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
    names = arguments.names or ([*RUNS] if arguments.check else [*RUNS, "traces"])  # pictures_test checks the traces
    unknown = [name for name in names if name not in [*RUNS, "traces"]]
    if unknown:
        stop(f"there is no run called {unknown[0]}; there are {', '.join(RUNS)} and traces")
    (check if arguments.check else record)(names)
