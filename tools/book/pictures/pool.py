"""A pool of pages: a row an operation, a group of squares a page, in the colours of those whose tables name it."""

import re

from matplotlib.patches import Rectangle

from pictures import style, traces

RUN = "results/runs/pool.txt"  # what build/bin/pool says

ROW, SQUARE, GAP = 40, 15, 12
LEFT, TOP = 268, 66
OWNERS = ("four", "two", "five")


def name(row):
    return "ABC"[row]


def square(axes, x, y, page, filled):
    box = dict(width=SQUARE - 2, clip_on=False)
    if not filled:
        axes.add_patch(
            Rectangle((x + 1, y + 1), height=SQUARE - 2, fill=False, edgecolor=style.colour("soft"), linestyle=(0, (2, 2)), linewidth=0.9, **box)
        )
        return
    if page["cached"]:
        axes.add_patch(
            Rectangle((x + 1, y + 1), height=SQUARE - 2, facecolor=style.colour("faint"), edgecolor=style.colour("soft"), linewidth=0.9, **box)
        )
        return
    share = (SQUARE - 2) / len(page["owners"])
    for i, owner in enumerate(page["owners"]):
        axes.add_patch(
            Rectangle((x + 1, y + 1 + i * share), height=share, facecolor=style.colour(OWNERS[owner]), edgecolor="none", **box)
        )


def states_told():
    """What each line of the run says: the operation, and of each page its owners, its slots and whether it is cached."""
    states = []
    for line in (traces.DATA / RUN).read_text().splitlines():
        pages = re.findall(r"  ([A-C ]{2}) ([#o.]{4})(?=  |$)", line)
        if not pages:
            continue
        states.append(
            {
                "what": re.split(r"  ", line)[0],
                "pages": [
                    {"owners": ["ABC".index(c) for c in owners.strip()], "cached": "o" in slots, "slots": slots}
                    for owners, slots in pages
                ],
            }
        )
    return states


def draw():
    states = states_told()
    size = len(states[0]["pages"][0]["slots"])
    pages = len(states[0]["pages"])
    width = SQUARE * size + GAP
    figure, axes = style.canvas(TOP + ROW * len(states) + 4)
    x = LEFT
    for page, words, across in (
        ({"owners": [0], "cached": False}, "A's", 52),
        ({"owners": [1], "cached": False}, "B's", 52),
        ({"owners": [2], "cached": False}, "C's", 52),
        ({"owners": [0, 1], "cached": False}, "of both", 76),
        ({"owners": [], "cached": True}, "cached", 74),
    ):
        square(axes, x, 7, page, True)
        style.text(axes, x + 20, 14, words, 11, "soft")
        x += across
    square(axes, x, 7, {}, False)
    style.text(axes, x + 20, 14, "empty", 11, "soft")
    for page in range(pages):
        style.text(axes, LEFT + page * width, 44, f"page {page}", 11, "soft")
    for i, state in enumerate(states):
        y = TOP + ROW * i
        what, _, more = state["what"].partition(": ")
        style.text(axes, 8, y + (0 if more else 7) + 8, what, 12)
        if more:
            style.text(axes, 8, y + 23, more, 11, "soft")
        for number, page in enumerate(state["pages"]):
            left = LEFT + number * width
            for slot in range(size):
                square(axes, left + slot * SQUARE, y + 8, page, page["slots"][slot] != ".")
            owners = " ".join(name(row) for row in page["owners"])
            style.text(axes, left + 1, y + 1, owners, 11, "ink", weight="bold")
    return figure
