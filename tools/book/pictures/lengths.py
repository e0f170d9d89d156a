"""Plots over the prompt's length, from data/results/lengths.json, and over the window, from windows.json."""

import json
import statistics

from pictures import style, traces

RESULTS = traces.ROOT / "data" / "results" / "lengths.json"
WINDOWS = traces.ROOT / "data" / "results" / "windows.json"
# Each row of the table: its label, colour and marker.
ROWS = {
    ("01_naive", None): ("01 naive", "one", "o"),
    ("02_cat_cache", None): ("02 cat", "two", "s"),
    ("03_masked_offsets", None): ("03 masked offsets", "three", "D"),
    ("04_preallocated", None): ("04 preallocated", "four", "^"),
    ("05_sliding_window", None): ("05 window, whole context", "five", "v"),
    ("05_sliding_window", 256): ("05 window, W = 256", "five", "x"),
    ("06_ring_buffer", 256): ("06 ring, W = 256", "six", "P"),
}
X_LABEL = "prompt, tokens"


def series(key):
    """The workloads' rows of one line of the table, as (prompt tokens, row)."""
    chapter, window = key
    for work in json.loads(RESULTS.read_text())["workloads"]:
        for row in work["rows"]:
            if (row["chapter"], row["window"]) == (chapter, window):
                yield work["prompt_tokens"], row


def spread(axes, key, values_of):
    """The median as a line, the middle 80 % of the samples as a band; returns the line's last point."""
    label, name, marker = ROWS[key]
    points = [(length, sorted(values_of(row))) for length, row in series(key) if values_of(row)]
    if not points:
        return None
    lengths = [length for length, _ in points]
    middle = [statistics.median(values) for _, values in points]
    low, high = ([values[int(share * (len(values) - 1))] for _, values in points] for share in (0.1, 0.9))
    color = style.colour(name)
    axes.fill_between(lengths, low, high, color=color, alpha=0.1, linewidth=0)
    dashes = (0, (5, 3)) if key[1] else "-"
    axes.plot(lengths, middle, color=color, linewidth=1.8, linestyle=dashes, marker=marker, markersize=5)
    return lengths[-1], middle[-1], label, name


def by_window():
    """Time inside the cache against the window, for the caches that keep one."""
    figure = style.canvas(330)[0]
    x_label = "window W, tokens (line: median of the decode steps; band: the middle 80 % of them)"
    axes = style.plot(figure, (34, 36, 476, 248), x_label, "time inside the cache, ms per token")
    rows = [row for row in json.loads(WINDOWS.read_text())["workloads"][0]["rows"] if row["window"]]
    ends = []
    for chapter, words, name, marker in (
        ("05_sliding_window", "05 window, shifts", "five", "v"), ("06_ring_buffer", "06 ring", "six", "P")
    ):
        points = [(row["window"], sorted(row["cache_step_ms"])) for row in rows if row["chapter"] == chapter]
        sizes = [size for size, _ in points]
        middle = [statistics.median(values) for _, values in points]
        low, high = ([values[int(share * (len(values) - 1))] for _, values in points] for share in (0.1, 0.9))
        axes.fill_between(sizes, low, high, color=style.colour(name), alpha=0.1, linewidth=0)
        axes.plot(sizes, middle, color=style.colour(name), linewidth=1.8, marker=marker, markersize=6)
        ends.append((sizes[-1], middle[-1], words, name))
    axes.set_xlim(0, 540)
    axes.set_ylim(0, 1.02 * axes.get_ylim()[1])
    axes.set_xticks([128, 256, 512])
    label_ends(axes, ends)
    return figure


def label_ends(axes, ends):
    """Each line's name at its end, moved apart where they would overlap."""
    gap, below = 0.055 * axes.get_ylim()[1], None
    for x, y, words, name in sorted(ends, key=lambda end: end[1]):
        below = y if below is None else max(y, below + gap)
        axes.annotate(
            words, (x, y), (x + 0.065 * axes.get_xlim()[1], below), fontsize=11, color=style.colour(name), va="center", annotation_clip=False,
            arrowprops={"arrowstyle": "-", "color": style.colour(name), "linewidth": 0.8, "relpos": (0, 0.5),
                        "shrinkA": 0, "shrinkB": 5},
        )


def lines(values_of, title):
    figure = style.canvas(352)[0]
    x_label = f"{X_LABEL} (line: median of the decode steps after it; band: the middle 80 % of them)"
    axes = style.plot(figure, (34, 36, 476, 270), x_label, title)
    ends = [end for key in ROWS if (end := spread(axes, key, values_of))]
    axes.set_xlim(0, 1024)
    axes.set_ylim(0, 1.02 * axes.get_ylim()[1])
    axes.set_xticks([32, 128, 256, 384, 512, 768, 992])
    label_ends(axes, ends)
    return figure


def speed():
    return lines(lambda row: [1e3 / ms for ms in row["step_ms"]], "decode tokens per second")


def cache_time():
    return lines(lambda row: row["cache_step_ms"], "time inside the cache, ms per token")


def memory():
    """A panel a row: what is held after the last token, and the most held during a forward."""
    figure, page = style.canvas(640)
    style.text(page, 34, 14, "MB of keys and values: filled, held after the last token; dashed, peak of a forward", 12)
    most = max(row["peak_bytes"] for key in ROWS for _, row in series(key)) / 1e6
    for i, (key, (label, name, _)) in enumerate(ROWS.items()):
        axes = style.plot(figure, (34 + 226 * (i % 3), 60 + 200 * (i // 3), 196, 120), X_LABEL if i > 3 else "", label)
        points = list(series(key))
        lengths = [length for length, _ in points]
        held, peak = ([row[what] / 1e6 for _, row in points] for what in ("kv_bytes", "peak_bytes"))
        axes.fill_between(lengths, held, color=style.colour(name), alpha=0.18, linewidth=0)
        axes.plot(lengths, held, color=style.colour(name), linewidth=2)
        axes.plot(lengths, peak, color=style.colour("ink"), linewidth=1.4, linestyle=(0, (3, 2)))
        axes.set_xlim(0, 1024)
        axes.set_ylim(0, 1.1 * most)
        axes.set_xticks([32, 512, 992])
        if not any(peak):
            style.text(axes, 512, most / 2, "nothing held", 11, "soft", "center")
    return figure
