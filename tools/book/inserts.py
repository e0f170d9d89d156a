"""What the book's text takes from the code and from measurements, as Markdown. Called by cog from HTML comments.

    <!-- [[[cog excerpt("chapters/02_cat_cache/cat_cache.cpp", "update") ]]] -->
    <!-- [[[end]]] -->
"""

import difflib
import json
import statistics
from pathlib import Path

from pictures import catalogue
from sizes import *  # noqa: F401,F403: what follows from formulas alone

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "data" / "results"


def _code(path, anchor=None):
    """A file's lines, or those between `// ANCHOR: name` and `// ANCHOR_END: name`; without anchors' lines."""
    lines = (ROOT / path).read_text().splitlines()
    if anchor:
        places = [i for i, line in enumerate(lines) if line.strip() in (f"// ANCHOR: {anchor}", f"// ANCHOR_END: {anchor}")]
        if len(places) != 2:
            raise SystemExit(f"book: {path} has no part between ANCHOR: {anchor} and ANCHOR_END: {anchor}")
        lines = lines[places[0] + 1 : places[1]]
    lines = [line for line in lines if "// ANCHOR" not in line]
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def excerpt(path, anchor):
    return "\n".join([f"`{path}`", "```cpp", *_code(path, anchor), "```"])


def changes(old, new, anchor=None, rename={}, old_anchor=None):
    """What the new file (or its part `anchor`) changes in the old one (or its part `old_anchor`, or `anchor`), as a
    diff. `rename`: words of the old file that merely have another name in the new one."""
    before, after = "\n".join(_code(old, old_anchor or anchor)), _code(new, anchor)
    for word, other in rename.items():
        before = before.replace(word, other)
    before = before.splitlines()
    lines = list(difflib.unified_diff(before, after, lineterm="", n=4))[3:]  # without files' names
    if not lines:
        raise SystemExit(f"book: {old} and {new} do not differ")
    lines = [" ..." if line.startswith("@@") else line for line in lines]
    return "\n".join([f"`{old}` → `{new}`", "```diff", *[line.rstrip() for line in lines], "```"])


def output(name, before=None):
    """A recorded run: data/results/runs/NAME.txt, whose first line is its command. With `before` only the lines before
    the first one that begins so."""
    file = RESULTS / "runs" / f"{name}.txt"
    if not file.exists():
        raise SystemExit(f"book: {name} was never recorded: run `make record`")
    text = file.read_text()
    if before:
        text, found, _ = text.partition(f"\n{before}")
        if not found:
            raise SystemExit(f"book: no line of the recorded run {name} begins with '{before}'")
        text += "\n..."
    return "```console\n" + text.rstrip("\n") + "\n```"


def picture(name):
    """A picture of book/pictures with its alt text, for the text that cog is at: see pictures/catalogue.py."""
    import cog  # there only while cog runs

    return catalogue.markdown(name, cog.inFile)


def results():
    return json.loads((RESULTS / "throughput.json").read_text())


def _label(row):
    if row.get("in_every_other"):
        return f"{row['chapter']}, {row['window']} / full"
    return row["chapter"] + (f", W = {row['window']}" if row["window"] else "")


def _spread(values):
    middle = statistics.median(values)
    return f"{middle:.1f}" if len(values) < 2 else f"{middle:.1f} [{min(values):.1f}–{max(values):.1f}]"


def _percentile_99(values):
    values = sorted(values)
    return values[-(-99 * len(values) // 100) - 1]


def _same(row):
    not_promised = "(bf16)" if results()["dtype"] == "bfloat16" else "(rounds)" if row["chapter"] == "09_int8" else "(window)"
    return {True: "yes", False: "**no**", None: not_promised}[row["same_tokens"]]


def machine():
    """One line that says where the table was measured."""
    r = results()
    m = r["machine"]
    return (
        f"Measured on: {m['cpu']}, {r['threads']} threads, {r['dtype']}, LibTorch {m['libtorch']} with {m['blas']}, "
        f"{m['compiler']} {m['build_type']}, read bandwidth {r['read_bandwidth'] / 1e9:.1f} GB/s, commit {m['commit']}."
        + "".join(
            f" With {work['prompt_tokens']} + {work['new_tokens']} tokens in a run of its own: {work['read_bandwidth'] / 1e9:.1f} GB/s."
            for work in r["workloads"]
            if "read_bandwidth" in work
        )
    )


def _tok_s(row):
    return statistics.median(row["tokens_per_s"])


def _step_ms(row):
    """Decode steps only; where there is just one new token, the time to that."""
    return row["step_ms"] or row["ttft_ms"]


def _weight_rate(row, r):
    return r["weight_bytes"] / (statistics.median(_step_ms(row)) / 1e3)


# Each column: its head, and its cell of a row; r holds all results, naive the first row.
COLUMNS = {
    "weights<br>MB/token": lambda row, r, naive: f"{r['weight_bytes'] / 1e6:.0f}",
    "TTFT ms": lambda row, r, naive: f"{statistics.median(row['ttft_ms']):.1f}",
    "tok/s end to end,<br>median [min–max]": lambda row, r, naive: _spread(row["tokens_per_s"]),
    "ms/token,<br>median": lambda row, r, naive: f"{statistics.median(_step_ms(row)):.1f}",
    "p99": lambda row, r, naive: f"{_percentile_99(_step_ms(row)):.1f}",
    "x naive": lambda row, r, naive: f"{_tok_s(row) / _tok_s(naive):.1f}",
    "GB/s": lambda row, r, naive: f"{_weight_rate(row, r) / 1e9:.1f}",
    "% of read<br>bandwidth": lambda row, r, naive: f"{100 * _weight_rate(row, r) / r['read_bandwidth']:.0f}",
    "cache<br>ms/token": lambda row, r, naive: (
        f"{statistics.median(row['cache_step_ms']):.2f}" if row["cache_step_ms"] else "-"
    ),
    "KV MB": lambda row, r, naive: f"{row['kv_bytes'] / 1e6:.1f}",
    "peak MB": lambda row, r, naive: f"{row['peak_bytes'] / 1e6:.1f}",
    "same<br>tokens": lambda row, r, naive: _same(row),
}
# Those that tell the chapters apart.
FEW = [head for head in COLUMNS if head.split("<")[0] not in ("weights", "TTFT ms", "p99", "GB/s", "% of read")]


def table(workload=0, upto="99", heads=tuple(COLUMNS)):
    """The throughput table of one workload, up to a chapter."""
    r = results()
    work = r["workloads"][workload]
    r |= {"read_bandwidth": work.get("read_bandwidth", r["read_bandwidth"])}
    lines = ["| chapter | " + " | ".join(heads) + " |", "|---|" + "--:|" * len(heads)]
    for row in work["rows"]:
        if row["chapter"][:2] <= upto:
            fewer = "" if row["new_tokens"] == work["new_tokens"] else f" ({row['new_tokens']} new tokens, once)"
            cells = [COLUMNS[head](row, r, work["rows"][0]) for head in heads]
            lines.append(f"| {_label(row)}{fewer} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def short_table(upto, workload=0):
    """The same with the columns that tell the chapters apart."""
    return table(workload, upto, FEW)


def beside_linear(workload=0, upto="99"):
    """Decode steps beside the same steps' at::linear calls alone, interleaved."""
    lines = ["| chapter | decode step, ms | its at::linear calls alone, ms | more |", "|---|--:|--:|--:|"]
    for row in results()["workloads"][workload]["rows"]:
        if row["linear_ms"] and row["chapter"][:2] <= upto:
            step, linear = (statistics.median(row[key]) for key in ("step_beside_linear_ms", "linear_ms"))
            lines.append(f"| {_label(row)} | {step:.2f} | {linear:.2f} | {100 * (step / linear - 1):.1f} % |")
    return "\n".join(lines)


def lengths():
    return json.loads((RESULTS / "lengths.json").read_text())


def by_length(upto="99", key="cache_step_ms", digits=2):
    """Medians of one kind of sample, a row a chapter, a column a prompt length."""
    works = lengths()["workloads"]
    lines = ["| chapter | " + " | ".join(f"{work['prompt_tokens']:,}" for work in works) + " |"]
    lines.append("|---|" + "--:|" * len(works))
    for i, row in enumerate(works[0]["rows"]):
        cells = [statistics.median(work["rows"][i][key]) if work["rows"][i][key] else None for work in works]
        if row["chapter"][:2] <= upto and None not in cells:
            lines.append(f"| {_label(row)} | " + " | ".join(f"{cell:.{digits}f}" for cell in cells) + " |")
    return "\n".join(lines)


def where_lengths():
    """One line that says where the lengths were measured."""
    r = lengths()
    return (
        f"Measured at these prompt lengths, 32 new tokens each, {r['workloads'][0]['rows'][1]['repetitions']} repetitions "
        f"in turn (01_naive: {r['workloads'][0]['uncached_new_tokens']} new tokens, once; {r['machine']['cpu']}, {r['threads']} threads, {r['dtype']}, commit {r['machine']['commit']})."
    )


def windows():
    return json.loads((RESULTS / "windows.json").read_text())


def by_window(key="cache_step_ms", digits=2):
    """Medians of one kind of sample and the middle 80 % of them, a row a chapter, a column a window."""
    rows = [row for row in windows()["workloads"][0]["rows"] if row["window"]]
    sizes = sorted({row["window"] for row in rows})
    lines = ["| chapter | " + " | ".join(f"W = {size}" for size in sizes) + " |", "|---|" + "--:|" * len(sizes)]
    for chapter in dict.fromkeys(row["chapter"] for row in rows):
        cells = []
        for row in rows:
            if row["chapter"] == chapter:
                samples = sorted(row[key])
                low, high = (samples[int(share * (len(samples) - 1))] for share in (0.1, 0.9))
                cells.append(f"{statistics.median(samples):.{digits}f} [{low:.{digits}f}–{high:.{digits}f}]")
        lines.append(f"| {chapter} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def where_windows():
    """One line that says where the windows were measured."""
    r = windows()
    work = r["workloads"][0]
    return (
        f"Median and the middle 80 % of {len(work['rows'][1]['cache_step_ms']):,} decode steps after a prompt of "
        f"{work['prompt_tokens']} tokens, {work['rows'][1]['repetitions']} repetitions in turn ({r['machine']['cpu']}, "
        f"{r['threads']} threads, {r['dtype']}, commit {r['machine']['commit']})."
    )


def batching():
    return json.loads((RESULTS / "batching.json").read_text())


def by_batch(dtype):
    """Rows together beside one row alone."""
    heads = ("tok/s together", "ms a step", "one product alone, ms", "cache ms a step", "tok/s alone", "ms a step, alone", "times", "KV MB")
    lines = ["| rows | " + " | ".join(heads) + " |", "|--:|" + "--:|" * len(heads)]
    for row in batching()["batches"][dtype]:
        middle = {key: statistics.median(row[key]) for key in row if isinstance(row[key], list)}
        cells = (
            _spread(row["tokens_per_s"]), f"{middle['step_ms']:.1f}", f"{middle['product_ms']:.2f}",
            f"{middle['cache_step_ms']:.2f}",
            _spread(row["solo_tokens_per_s"]), f"{middle['solo_step_ms']:.1f}",
            f"{middle['tokens_per_s'] / middle['solo_tokens_per_s']:.1f}", f"{row['kv_bytes'] / 1e6:.1f}",
        )
        lines.append(f"| {row['rows']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def padding_shares():
    """How much of what is computed is padding, by policy."""
    r = batching()
    heads = ("forwards", "tokens fed", "padding", "share of padding", "seconds, median [min–max]")
    lines = [f"| {r['requests']} requests, {r['rows']} at once | " + " | ".join(heads) + " |", "|---|" + "--:|" * len(heads)]
    for row in r["padding"]:
        share = 100 * row["padding_tokens"] / (row["real_tokens"] + row["padding_tokens"])
        cells = (f"{row['forwards']:,}", f"{row['real_tokens']:,}", f"{row['padding_tokens']:,}", f"{share:.0f} %", _spread(row["seconds"]))
        lines.append(f"| {row['policy']} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def where_batching():
    """One line that says where the batches were measured."""
    r = batching()
    return (
        f"Measured with {r['model']}, {r['repetitions']} repetitions in turn after a warm-up ({r['machine']['cpu']}, "
        f"{r['threads']} threads, commit {r['machine']['commit']})."
    )


def paging():
    return json.loads((RESULTS / "paging.json").read_text())


def by_pages():
    """Time inside the cache and of a whole decode step, a row a cache, two columns a place."""
    entries = paging()["gathering"]
    places = list(dict.fromkeys((entry["rows"], entry["length"]) for entry in entries))
    named = [f"{length} tokens" if rows == 1 else f"{rows} rows of {length}" for rows, length in places]
    lines = ["| cache ms · step ms | " + " | ".join(named) + " |", "|---|" + "--:|" * len(places)]
    for chapter, page in dict.fromkeys((entry["chapter"], entry["page"]) for entry in entries):
        cells = [
            f"{statistics.median(entry['cache_ms']):.2f} · {statistics.median(entry['step_ms']):.1f}"
            for entry in entries
            if (entry["chapter"], entry["page"]) == (chapter, page)
        ]
        lines.append(f"| {chapter}{f', page {page}' if page else ''} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def by_prefix():
    """Time to first token by how much of the prompt was adopted."""
    lines = ["| tokens of prompt | adopted | fed | TTFT ms, median [min–max] |", "|--:|--:|--:|--:|"]
    for entry in paging()["prefixes"]:
        fed = entry["prompt"] - entry["adopted"]
        lines.append(f"| {entry['prompt']} | {entry['adopted']} | {fed} | {_spread(entry['ttft_ms'])} |")
    return "\n".join(lines)


def where_paging():
    """One line that says where the pages were measured."""
    r = paging()
    return (
        f"Medians of {r['repetitions'] * r['steps']} steps, caches in turn, with {r['model']} in float32 "
        f"({r['machine']['cpu']}, {r['threads']} threads, commit {r['machine']['commit']})."
    )


def recall():
    """What the small model recalls at which window, from data/tales/evaluation.json."""
    evaluation = json.loads((ROOT / "data" / "tales" / "evaluation.json").read_text())
    facts = list(evaluation["facts"])
    lines = ["| window | " + " | ".join(facts) + " | loss on other tokens |", "|---|" + "--:|" * (len(facts) + 1)]
    for row in evaluation["table"]:
        shares = " | ".join(f"{row['recall_percent'][fact]:.1f} %" for fact in facts)
        lines.append(f"| {row['window'] or 'all'} | {shares} | {row['loss_other_tokens']:.3f} |")
    guess = evaluation["most_frequent_guess"]
    shares = " | ".join(f"{guess[fact]['percent']:.1f} %" for fact in facts)
    return "\n".join([*lines, f"| always guessing the most frequent word | {shares} | |"])


def recall_by_layer():
    """What the small model recalls with a window of 64 in which layers, from the same file."""
    evaluation = json.loads((ROOT / "data" / "tales" / "evaluation.json").read_text())
    facts = list(evaluation["facts"])
    context = json.loads((ROOT / "data" / "tales" / "config.json").read_text())["n_positions"]
    lines = [
        "| layer windows | of the bytes | " + " | ".join(facts) + " | loss on other tokens |",
        "|---|--:|" + "--:|" * (len(facts) + 1),
    ]
    for row in sorted(evaluation["by_layer"], key=lambda row: sum(window > 0 for window in row["layer_windows"])):
        windows = row["layer_windows"]
        held = sum(window or context for window in windows) / (context * len(windows))
        shares = " | ".join(f"{row['recall_percent'][fact]:.1f} %" for fact in facts)
        name = ",".join(str(window) for window in windows)
        lines.append(f"| {name} | {100 * held:.0f} % | {shares} | {row['loss_other_tokens']:.3f} |")
    guess = evaluation["most_frequent_guess"]
    shares = " | ".join(f"{guess[fact]['percent']:.1f} %" for fact in facts)
    return "\n".join([*lines, f"| always guessing the most frequent word | | {shares} | |"])


# name, context, layers, of them full, window, key-value heads, head size
WINDOWED_MODELS = (
    ("Gemma 2 27B", 8192, 46, 23, 4096, 16, 128),
    ("Gemma 3 27B", 131072, 62, 10, 1024, 16, 128),
    ("gpt-oss-120b", 131072, 36, 18, 128, 8, 64),
)


def models_with_windows():
    """Bytes of keys and values of some published models, all layers full and with their windows; bfloat16."""
    lines = [
        "| model | layers | of them full | W | H_kv | D | 8,192 tokens,<br>all full | with windows | "
        "131,072 tokens,<br>all full | with windows |",
        "|---|" + "--:|" * 9,
    ]
    for name, context, layers, full, window, heads, size in WINDOWED_MODELS:
        cells = []
        for tokens in (8192, 131072):
            if tokens > context:
                cells += ["-", "-"]
                continue
            a_slot = 2 * heads * size * 2  # keys and values of one token in one layer
            all_full, with_windows = layers * tokens * a_slot, (full * tokens + (layers - full) * window) * a_slot
            cells += [f"{all_full / 1e9:.2f} GB", f"{with_windows / 1e9:.2f} GB ({100 * with_windows / all_full:.0f} %)"]
        lines.append(f"| {name} | {layers} | {full} | {window:,} | {heads} | {size} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def offloading():
    return json.loads((RESULTS / "offloading.json").read_text())


def by_residents():
    """A decode step by how many layers have room in memory."""
    lines = [
        "| tokens held | layers in memory | memory MB | file MB | read MB | wait ms | step ms, median [min–max] |",
        "|--:|---|--:|--:|--:|--:|--:|",
    ]
    for entry in offloading()["offloading"]:
        middle = {key: statistics.median(entry[key]) if entry[key] else 0 for key in ("read_mb", "wait_ms")}
        lines.append(
            f"| {entry['length']} | {entry['resident_layers'] or 'all: 04_preallocated'} | {entry['memory_bytes'] / 1e6:.1f} | "
            f"{entry['file_bytes'] / 1e6:.1f} | {middle['read_mb']:.1f} | {middle['wait_ms']:.2f} | {_spread(entry['step_ms'])} |"
        )
    return "\n".join(lines)


def where_offloading():
    """One line that says where that was measured."""
    r = offloading()
    return (
        f"Medians of {r['repetitions'] * r['steps']} steps, caches in turn, with {r['model']} in float32 "
        f"({r['machine']['cpu']}, {r['threads']} threads, commit {r['machine']['commit']})."
    )


def by_disk():
    """What the longest row with two layers in memory would wait for disks of some speeds, a layer at a time: arithmetic."""
    entries = [entry for entry in offloading()["offloading"] if entry["length"] > 512]
    two = next(entry for entry in entries if entry["resident_layers"] == 2)
    layers = max(entry["resident_layers"] or 0 for entry in entries)
    own = statistics.median(two["step_ms"]) - statistics.median(two["wait_ms"])
    megabytes = statistics.median(two["read_mb"]) / layers
    lines = ["| disk reads | a layer's transfer | a layer's own work | wait in a step | step |", "|--:|--:|--:|--:|--:|"]
    for speed in (0.2, 0.5, 3, 7):
        transfer = megabytes / speed
        wait = layers * max(0, transfer - own / layers)
        lines.append(f"| {speed} GB/s | {transfer:.1f} ms | {own / layers:.1f} ms | {wait:.0f} ms | {own + wait:.0f} ms |")
    return "\n".join(lines)
