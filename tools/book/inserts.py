"""What the book's text takes from the code and from measurements, as Markdown. Called by cog from HTML comments.

    <!-- [[[cog excerpt("chapters/02_cat_cache/cat_cache.cpp", "update") ]]] -->
    <!-- [[[end]]] -->
"""

import json
import statistics
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
RESULTS = ROOT / "data" / "results"


def excerpt(path, anchor):
    """The lines between `// ANCHOR: name` and `// ANCHOR_END: name`, without other anchors' lines."""
    lines = (ROOT / path).read_text().splitlines()
    start = lines.index(next(line for line in lines if line.strip() == f"// ANCHOR: {anchor}")) + 1
    end = lines.index(next(line for line in lines if line.strip() == f"// ANCHOR_END: {anchor}"))
    body = [line for line in lines[start:end] if "// ANCHOR" not in line]
    return "\n".join([f"`{path}`", "```cpp", *body, "```"])


def output(name):
    """A recorded run: data/results/runs/NAME.txt, whose first line is its command."""
    file = RESULTS / "runs" / f"{name}.txt"
    if not file.exists():
        raise SystemExit(f"book: {name} was never recorded: run `make record`")
    return "```console\n" + file.read_text().rstrip("\n") + "\n```"


def results():
    return json.loads((RESULTS / "throughput.json").read_text())


def _label(row):
    return row["chapter"] + (f", W = {row['window']}" if row["window"] else "")


def _spread(values):
    middle = statistics.median(values)
    return f"{middle:.1f}" if len(values) < 2 else f"{middle:.1f} [{min(values):.1f}–{max(values):.1f}]"


def _percentile_99(values):
    values = sorted(values)
    return values[-(-99 * len(values) // 100) - 1]


def _same(row):
    not_promised = "(bf16)" if results()["dtype"] == "bfloat16" else "(window)"
    return {True: "yes", False: "**no**", None: not_promised}[row["same_tokens"]]


def machine():
    """One line that says where the table was measured."""
    r = results()
    m = r["machine"]
    return (
        f"Measured on: {m['cpu']}, {r['threads']} threads, {r['dtype']}, LibTorch {m['libtorch']} with {m['blas']}, "
        f"{m['compiler']} {m['build_type']}, read bandwidth {r['read_bandwidth'] / 1e9:.1f} GB/s, commit {m['commit']}."
    )


def _tok_s(row):
    return statistics.median(row["tokens_per_s"])


def _step_ms(row):
    """Decode steps only; where there is just one new token, the time to that."""
    return row["step_ms"] or row["ttft_ms"]


def _markdown(columns, rows):
    """columns: heads, with ">" in front of those that are aligned right. rows: lists of cells."""
    heads = "| " + " | ".join(column.lstrip(">") for column in columns) + " |"
    rule = "|" + "|".join("--:" if column.startswith(">") else "---" for column in columns) + "|"
    return "\n".join([heads, rule, *("| " + " | ".join(row) + " |" for row in rows)])


def _rows(work, upto):
    """The rows up to a chapter, each with its label."""
    for row in work["rows"]:
        if row["chapter"][:2] <= upto:
            fewer = row["new_tokens"] != work["new_tokens"]
            yield row, _label(row) + (f" ({row['new_tokens']} new tokens, once)" if fewer else "")


def _cache_ms(row):
    return f"{statistics.median(row['cache_step_ms']):.2f}" if row["cache_step_ms"] else "-"


def table(workload=0):
    """The throughput table of one workload, all columns."""
    r = results()
    work = r["workloads"][workload]
    columns = ["chapter", ">weights<br>MB/token", ">TTFT ms", ">tok/s end to end,<br>median [min–max]", ">ms/token,<br>median, p99"]
    columns += [">x naive", ">GB/s", ">% of read<br>bandwidth", ">cache<br>ms/token"]
    columns += [">KV MB", ">peak MB", "same tokens"]
    rows = []
    for row, label in _rows(work, "99"):
        step = statistics.median(_step_ms(row))
        rate = r["weight_bytes"] / (step / 1e3)
        rows.append([
            label,
            f"{r['weight_bytes'] / 1e6:.0f}",
            f"{statistics.median(row['ttft_ms']):.1f}",
            _spread(row["tokens_per_s"]).replace(" [", "<br>["),
            f"{step:.1f}, {_percentile_99(_step_ms(row)):.1f}",
            f"{_tok_s(row) / _tok_s(work['rows'][0]):.1f}",
            f"{rate / 1e9:.1f}",
            f"{100 * rate / r['read_bandwidth']:.0f}",
            _cache_ms(row),
            f"{row['kv_bytes'] / 1e6:.1f}",
            f"{row['peak_bytes'] / 1e6:.1f}",
            _same(row),
        ])
    return _markdown(columns, rows)


def short_table(upto, workload=0):
    """The same table up to a chapter, with the columns that tell the chapters apart."""
    work = results()["workloads"][workload]
    columns = ["chapter", ">tok/s [min–max]", ">x naive", ">ms/token", ">cache ms/token", ">KV MB", ">peak MB", "same"]
    rows = []
    for row, label in _rows(work, upto):
        rows.append([
            label,
            _spread(row["tokens_per_s"]),
            f"{_tok_s(row) / _tok_s(work['rows'][0]):.1f}",
            f"{statistics.median(_step_ms(row)):.1f}",
            _cache_ms(row),
            f"{row['kv_bytes'] / 1e6:.1f}",
            f"{row['peak_bytes'] / 1e6:.1f}",
            _same(row),
        ])
    return _markdown(columns, rows)


def beside_linear(workload=0, upto="99"):
    """Decode steps beside the same steps' at::linear calls alone, interleaved."""
    lines = ["| chapter | decode step, ms | its at::linear calls alone, ms | more |", "|---|--:|--:|--:|"]
    for row in results()["workloads"][workload]["rows"]:
        if row["linear_ms"] and row["chapter"][:2] <= upto:
            step, linear = (statistics.median(row[key]) for key in ("step_beside_linear_ms", "linear_ms"))
            lines.append(f"| {_label(row)} | {step:.2f} | {linear:.2f} | {100 * (step / linear - 1):.1f} % |")
    return "\n".join(lines)


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
