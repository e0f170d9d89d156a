"""A film strip: a row a forward, a square a slot."""

from matplotlib.patches import Rectangle

from pictures import style, traces

ROW = 27
SQUARE = 24
POSITION, FED = 50, 66
LEFT = 190  # where the slots begin
RIGHT_KEYS, RIGHT_BYTES = 622, 694


def square(axes, x, y, state, label="", size=SQUARE):
    """One slot. Its state is told by filling, border and a stroke, not by colour alone."""
    box = dict(xy=(x + 1, y + 1), width=size - 2, height=size - 2, clip_on=False)
    middle = (x + size / 2, y + size / 2 + 0.5)
    if state == traces.EMPTY:
        axes.add_patch(Rectangle(**box, fill=False, edgecolor=style.colour("soft"), linestyle=(0, (2, 2)), linewidth=1))
        return
    if state == traces.EVICTED:
        axes.add_patch(Rectangle(**box, fill=False, edgecolor=style.colour("evicted"), linewidth=1.4))
        axes.plot(
            [x + 3, x + size - 3], [y + size - 3, y + 3], color=style.colour("evicted"), alpha=0.5, clip_on=False
        )
        style.text(axes, *middle, label, 11, "ink", "center")
        return
    filling = {traces.HELD: "held", traces.NEW: "new"}[state]
    axes.add_patch(Rectangle(**box, facecolor=style.colour(filling), edgecolor="none"))
    new = state == traces.NEW
    style.text(axes, *middle, label, 11, "on-new" if new else "ink", "center", weight="bold" if new else "normal")


def legend(axes, x, y, signs):
    for state, words, width in signs:
        square(axes, x, y - 8, state, size=16)
        style.text(axes, x + 21, y, words, 11, "soft")
        x += width
    return x


def fed_text(forward, words, room=17):
    fed = [words[number] for number in forward["ids"]]
    whole = "".join(fed).strip()
    if len(whole) <= room:
        return whole
    return f"{len(fed)} tokens, … {fed[-1].strip()}"


def position_text(forward):
    first, count = forward["first_position"], len(forward["ids"])
    text = str(first) if count == 1 else f"{first}–{first + count - 1}"
    if "layers" in forward:
        return f"L{forward['layers'][0]}:{text}"
    return f"{forward['row']}:{text}" if "row" in forward else text


def _position_head(forward):
    return "row:pos." if "row" in forward else "L:pos." if "layers" in forward else "position"


def draw(trace):
    forwards = trace["forwards"]
    words = traces.words()
    top = 62
    figure, axes = style.canvas(top + ROW * len(forwards) + 6)
    signs = [(traces.NEW, "new", 62), (traces.HELD, "held", 62)]
    if any(slot.state == traces.EVICTED for forward in forwards for slot in traces.slots(forward)):
        signs.append((traces.EVICTED, "not kept", 86))
    if any(slot.state == traces.EMPTY for forward in forwards for slot in traces.slots(forward)):
        signs.append((traces.EMPTY, "empty", 70))
    end = legend(axes, LEFT, 14, signs)
    style.text(axes, end, 14, "number: the token's position", 11, "soft")
    for x, head, ha in (
        (POSITION, _position_head(forwards[0]), "right"),
        (FED, "tokens fed", "left"),
        (LEFT + 1, "slots during the forward", "left"),
        (RIGHT_KEYS, "keys seen", "right"),
        (RIGHT_BYTES, "held after", "right"),
    ):
        style.text(axes, x, 44, head, 11, "soft", ha)
    for i, forward in enumerate(forwards):
        y = top + ROW * i
        middle = y + SQUARE / 2
        style.text(axes, POSITION, middle, position_text(forward), 12, "soft", "right")
        style.text(axes, FED, middle, fed_text(forward, words), 12)
        for column, slot in enumerate(traces.slots(forward)):
            label = "" if slot.position == traces.NO_TOKEN else str(slot.position)
            square(axes, LEFT + SQUARE * column, y, slot.state, label)
        keys = sum(position != traces.NO_TOKEN for position in forward["keys"])
        style.text(axes, RIGHT_KEYS, middle, str(keys), 12, "ink", "right")
        style.text(axes, RIGHT_BYTES, middle, traces.bytes_text(forward["bytes"]), 12, "ink", "right")
    return figure
