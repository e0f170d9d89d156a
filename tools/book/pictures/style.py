"""How the pictures look: colours for light and dark, a canvas in pixels, and SVG that is the same at every run.

matplotlib writes fixed colours. So it is given stand-ins, one a colour's name, and `svg` puts CSS variables in their
place: the reader's system then chooses light or dark.
"""

import io
import re

import matplotlib
from matplotlib.figure import Figure

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "kvbook", "font.sans-serif": ["DejaVu Sans"]})

WIDTH = 700  # pixels: a text column

# Name: in light, in dark. After Okabe and Ito, which readers of every colour vision can tell apart.
COLOURS = {
    "ink": ("#1f2328", "#e6edf3"),
    "soft": ("#59636e", "#9aa4af"),
    "faint": ("#c9d1d9", "#3d444d"),
    "held": ("#a6cfe8", "#1f4d6b"),
    "new": ("#0072b2", "#56b4e9"),
    "on-new": ("#ffffff", "#0d1117"),
    "evicted": ("#d55e00", "#ff9a52"),
    "one": ("#1f2328", "#e6edf3"),
    "two": ("#d55e00", "#ff9a52"),
    "three": ("#b0528a", "#e59ac7"),
    "four": ("#0072b2", "#56b4e9"),
    "five": ("#00785a", "#2fc79d"),
    "six": ("#8a5a00", "#e6b422"),
}
_STAND_IN = {name: f"#e0{number:02x}d7" for number, name in enumerate(COLOURS)}


def colour(name):
    return _STAND_IN[name]


def canvas(height, width=WIDTH):
    """A figure of width x height pixels and axes over all of it in pixels, y from the top."""
    figure = Figure(figsize=(width / 72, height / 72))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.axis("off")
    return figure, axes


def plot(figure, box, x_label, title):
    """Axes of a plot in the pixels (left, top, width, height), with a quiet frame and its title above."""
    width, height = (size * 72 for size in figure.get_size_inches())
    left, top, across, down = box
    axes = figure.add_axes((left / width, 1 - (top + down) / height, across / width, down / height))
    axes.patch.set_visible(False)
    for side, line in axes.spines.items():
        line.set_visible(side == "bottom")
        line.set_color(colour("soft"))
    axes.tick_params(length=0, labelsize=11, labelcolor=colour("soft"), pad=5)
    axes.grid(axis="y", color=colour("faint"), linewidth=0.8)
    axes.set_axisbelow(True)
    axes.set_xlabel(x_label, fontsize=11, color=colour("soft"), labelpad=5)
    axes.set_title(title, fontsize=12, color=colour("ink"), loc="left", pad=10, weight="bold")
    return axes


def text(axes, x, y, words, size=12, name="ink", ha="left", va="center", **more):
    words = words.replace("$", r"\$")  # matplotlib would read mathematics
    axes.text(x, y, words, fontsize=size, color=colour(name), ha=ha, va=va, **more)


def svg(figure, fingerprint):
    """The figure as SVG text, with what it was made from in a comment."""
    figure.patch.set_visible(False)
    written = io.StringIO()
    figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    drawing = written.getvalue()
    drawing = drawing[drawing.index("<svg") :]
    drawing = re.sub(r'(width|height)="([\d.]+)pt"', r'\1="\2"', drawing)  # a point is a pixel here
    drawing = re.sub(r"'DejaVu Sans'(, [^;\"]*)?", "sans-serif", drawing)
    drawing = re.sub(r" <metadata>.*?</metadata>\n", "", drawing, flags=re.DOTALL)
    drawing = re.sub(r' d="[^"]*"', lambda path: re.sub(r"\s+", " ", path[0]).replace(' "', '"'), drawing)
    for name, stand_in in _STAND_IN.items():
        drawing = drawing.replace(stand_in, f"var(--{name})")
    light, dark = ("".join(f"--{name}:{pair[i]};" for name, pair in COLOURS.items()) for i in (0, 1))
    style = f"<style>:root{{{light}}}@media (prefers-color-scheme: dark){{:root{{{dark}}}}}</style>\n"
    head, body = drawing.split(">\n", 1)
    lines = f"<!-- made from {fingerprint} -->\n{head}>\n {style}{body}".splitlines()
    return "\n".join(line.rstrip() for line in lines) + "\n"
