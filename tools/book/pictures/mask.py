"""A mask matrix: the queries of one forward down, the keys across, a filled square where a query sees a key."""

from matplotlib.patches import Rectangle

from pictures import style, traces

CELL = 27
LEFT = 112
TOP = 118


def telling_forward(trace):
    """The last forward that feeds several tokens."""
    return [forward for forward in trace["forwards"] if len(forward["ids"]) > 1][-1]


def cell(axes, x, y, seen):
    box = dict(xy=(x + 1, y + 1), width=CELL - 2, height=CELL - 2, clip_on=False)
    if seen:
        axes.add_patch(Rectangle(**box, facecolor=style.colour("new"), edgecolor="none"))
        axes.plot(
            [x + CELL / 2], [y + CELL / 2], marker="o", markersize=5, color=style.colour("on-new"), clip_on=False
        )
    else:
        axes.add_patch(Rectangle(**box, fill=False, edgecolor=style.colour("faint"), linewidth=1))


def bracket(axes, first, last, y, words):
    """A line over columns first to last, with its words above."""
    left, right = LEFT + CELL * first + 2, LEFT + CELL * (last + 1) - 2
    axes.plot([left, left, right, right], [y + 5, y, y, y + 5], color=style.colour("soft"), linewidth=1.2, clip_on=False)
    style.text(axes, (left + right) / 2, y - 10, words, 11, "ink", "center")


def draw(trace):
    forward = telling_forward(trace)
    token = traces.tokens(trace, forward)
    visible = forward["visible"]
    first, positions = forward["first_position"], forward["keys"]
    rows, keys = len(visible), len(positions)
    again = next((j for j in range(1, keys) if positions[j] < positions[j - 1] and positions[j] in positions[:j]), 0)
    unwritten = 0 if "row" in forward or again else max(0, len(forward["after"]) - keys)  # buffers longer than what is committed
    bottom = TOP + CELL * rows
    figure, axes = style.canvas(bottom + 26, width=max(LEFT + CELL * (keys + unwritten) + 8, 420))

    for j, position in enumerate(positions):
        x = LEFT + CELL * j + CELL / 2
        there = position != traces.NO_TOKEN  # else a column that another row needs
        style.text(axes, x, TOP - 10, str(position) if there else "–", 11, "soft", "center")
        if there:
            style.text(axes, x + 1, TOP - 22, token[position].strip(), 11, "ink", "center", "bottom", rotation=90)
    for i in range(rows):
        middle = TOP + CELL * i + CELL / 2
        style.text(axes, LEFT - 34, middle, token[first + i].strip(), 12, "ink", "right")
        style.text(axes, LEFT - 10, middle, str(first + i), 11, "soft", "right")
        for j in range(keys):
            cell(axes, LEFT + CELL * j, TOP + CELL * i, visible[i][j])
    style.text(axes, LEFT - 10, TOP - 10, "queries ↓", 11, "soft", "right")
    style.text(axes, LEFT - 10, TOP - 34, "keys →", 11, "soft", "right")

    nobodys = positions.count(traces.NO_TOKEN)  # the last columns
    old = again or sum(position < first for position in positions) - nobodys  # the first columns
    if old > 0:
        edge = LEFT + CELL * old
        axes.plot([edge, edge], [TOP - 4, bottom + 4], color=style.colour("evicted"), linewidth=2, clip_on=False)
        words = "in codes" if again else f"P = {first} committed" if old == first else f"P = {first}, {old} of them held"
        bracket(axes, 0, old - 1, 22, words)
        bracket(axes, old, keys - nobodys - 1, 22, "as they came" if again else f"T = {rows} new")
    else:
        bracket(axes, 0, keys - nobodys - 1, 22, f"{rows} new" if nobodys else f"T = {rows} tokens, all new")
    if nobodys:
        bracket(axes, keys - nobodys, keys - 1, 22, "nobody's")
    if unwritten:
        box = dict(width=CELL * unwritten - 4, height=CELL * rows - 4, clip_on=False)
        axes.add_patch(
            Rectangle((LEFT + CELL * keys + 3, TOP + 2), **box, fill=False, edgecolor=style.colour("soft"),
                      linestyle=(0, (3, 3)), linewidth=1.2)
        )
        x = LEFT + CELL * (keys + unwritten / 2)
        for i, words in enumerate((f"{unwritten} slots", "not written:", "never seen")):
            style.text(axes, x, TOP + CELL * rows / 2 + 16 * (i - 1), words, 11, "ink", "center")
    seen = {sum(row) for row in visible}
    band = f"; every query sees W = {seen.pop()} keys" if len(seen) == 1 else ""
    style.text(axes, LEFT, bottom + 15, "● the query sees the key" + band, 11, "soft")
    return figure
