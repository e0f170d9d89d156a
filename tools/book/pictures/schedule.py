"""Who looks into which buffer while what comes back: a column a layer, a lane a buffer."""

import re

from matplotlib.patches import Rectangle

from pictures import style, traces

RUN = "results/runs/schedule.txt"  # what build/bin/schedule says

LEFT, TOP = 96, 64
COLUMN, LANE, GAP = 58, 30, 18


def forwards_told():
    """Of each forward with two layers in memory: its P, and what happens at each layer and at commit."""
    forwards = []
    for line in (traces.DATA / RUN).read_text().splitlines():
        head = re.match(r"(\d+) of \d+ layers have room in memory, P = (\d+)", line)
        if head:
            forwards.append({"residents": int(head[1]), "P": int(head[2]), "events": []})
        event = re.match(r"  (?:layer (\d+) computes in buffer (\d+)|commit)", line)
        if not event:
            continue
        fetched = re.search(r"(\d+) of layer (\d+) fetched into buffer (\d+)", line)
        written = re.search(r"(\d+) written", line)
        forwards[-1]["events"].append(
            {
                "layer": None if event[1] is None else int(event[1]),
                "buffer": None if event[2] is None else int(event[2]),
                "written": int(written[1]) if written else 0,
                "fetched": tuple(map(int, fetched.groups())) if fetched else None,
            }
        )
    return [forward for forward in forwards if forward["residents"] == 2 and forward["P"] > 0]


def box(axes, x, y, words, filling, ink="ink", dashed=False):
    size = dict(xy=(x + 2, y + 2), width=COLUMN - 4, height=LANE - 4, clip_on=False)
    if dashed:
        axes.add_patch(
            Rectangle(**size, fill=False, edgecolor=style.colour(filling), linestyle=(0, (3, 2)), linewidth=1.4)
        )
    else:
        axes.add_patch(Rectangle(**size, facecolor=style.colour(filling), edgecolor="none"))
    style.text(axes, x + COLUMN / 2, y + LANE / 2, words, 11, ink, "center")


def draw():
    forwards = forwards_told()
    lanes = {"buffer 0": TOP, "buffer 1": TOP + LANE + 6, "written": TOP + 2 * LANE + 14, "fetched": TOP + 2 * LANE + 34}
    columns = sum(len(forward["events"]) for forward in forwards)
    figure, axes = style.canvas(TOP + 2 * LANE + 56, width=LEFT + COLUMN * columns + GAP * (len(forwards) - 1) + 8)
    box(axes, LEFT, 2, "layer 0", "new", "on-new")
    style.text(axes, LEFT + COLUMN + 4, 17, "its attention looks there", 11, "soft")
    box(axes, LEFT + 230, 2, "layer 1", "four", dashed=True)
    style.text(axes, LEFT + 230 + COLUMN + 4, 17, "on its way from the file meanwhile", 11, "soft")
    for lane, y in lanes.items():
        style.text(axes, 8, y + (LANE / 2 if lane.startswith("buffer") else 8), lane, 11, "soft")
    x = LEFT
    for forward in forwards:
        style.text(axes, x + 4, TOP - 14, f"P = {forward['P']}", 11, "soft")
        for event in forward["events"]:
            if event["layer"] is not None:
                box(axes, x, lanes[f"buffer {event['buffer']}"], f"layer {event['layer']}", "new", "on-new")
            else:
                style.text(axes, x + COLUMN / 2, lanes["buffer 1"] + LANE / 2, "commit", 11, "soft", "center")
            if event["fetched"]:
                tokens, layer, buffer = event["fetched"]
                box(axes, x, lanes[f"buffer {buffer}"], f"layer {layer}", "four", dashed=True)
                style.text(axes, x + COLUMN / 2, lanes["fetched"] + 8, f"{tokens} tokens", 11, "ink", "center")
            if event["written"]:
                style.text(axes, x + COLUMN / 2, lanes["written"] + 8, str(event["written"]), 11, "ink", "center")
            x += COLUMN
        x += GAP
    return figure
