"""The tokens that each forward feeds, without a cache and with one, side by side."""

from pictures import strip, style, traces

ROW = 22
SQUARE = 20
LEFT, RIGHT = 84, 446  # where each side's squares begin


def draw(naive, cached):
    token = traces.tokens(cached)
    forwards = list(zip(naive["forwards"], cached["forwards"], strict=True))
    top = 64
    figure, axes = style.canvas(top + ROW * len(forwards) + 36)
    style.text(axes, 8, 18, "forward", 11, "soft")
    style.text(axes, LEFT, 18, "without a cache: everything, again", 12, weight="bold")
    style.text(axes, RIGHT, 18, "with one: what is new", 12, weight="bold")
    signs = [(traces.NEW, "fed for the first time", 156), (traces.EVICTED, "fed again", 0)]
    strip.legend(axes, LEFT, 42, signs)
    for i, pair in enumerate(forwards):
        y = top + ROW * i
        style.text(axes, 52, y + SQUARE / 2, str(i + 1), 12, "soft", "right")
        new = pair[1]["first_position"]  # what the cached side feeds had not been computed before
        for forward, x in zip(pair, (LEFT, RIGHT)):
            positions = range(forward["first_position"], forward["first_position"] + len(forward["ids"]))
            for column, position in enumerate(positions):
                state = traces.NEW if position >= new else traces.EVICTED
                strip.square(axes, x + SQUARE * column, y, state, str(position), SQUARE)
            style.text(axes, x + SQUARE * len(positions) + 6, y + SQUARE / 2, str(len(positions)), 12, "soft")
        last = new + len(pair[1]["ids"]) - 1
        style.text(axes, RIGHT + 120, y + SQUARE / 2, token[last].strip() if i else "the prompt", 12, "soft")
    y = top + ROW * len(forwards) + 16
    for side, x in ((naive, LEFT), (cached, RIGHT)):
        style.text(axes, x, y, f"{sum(len(f['ids']) for f in side['forwards'])} tokens fed", 13, weight="bold")
    return figure
