"""A Sphinx extension with what the book's site has of its own.

The contents come from the folders. A source file that a text links to, or names as code, becomes a page. Formulas become
MathML, which browsers draw without any script. The stepper gets the recorded traces.
"""

import html
import json
import posixpath
import shutil
import sys
from pathlib import Path

from docutils import nodes
from latex2mathml.converter import convert
from sphinx import addnodes

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools" / "book"))

from pictures import traces  # noqa: E402

LANGUAGES = {
    ".cpp": "cpp", ".h": "cpp", ".in": "cpp", ".py": "python", ".sh": "bash", ".cmake": "cmake", ".js": "javascript",
    ".css": "css", ".yml": "yaml", ".json": "json", ".txt": "text", "Makefile": "make", "Dockerfile": "docker",
    "CMakeLists.txt": "cmake", "LICENSE": "text",
}
sources = set()  # paths under the root of the files that become pages


# Contents -----------------------------------------------------------------------------------------------------------
def contents():
    """The book's order as a table of contents; a chapter's other texts follow its README."""
    chapters = []
    for folder in sorted((ROOT / "chapters").glob("[0-9][0-9]_*")):
        texts = sorted(folder.glob("*.md"), key=lambda text: (text.name != "README.md", text.name))
        chapters += [text.relative_to(ROOT).with_suffix("").as_posix() for text in texts]
    parts = {
        "The book": ["Start <self>", "BOOK", *chapters, "book/stepper", "workshop/README", "book/field_guide"],
        "Working on it": ["CONTRIBUTING", "tests/CASES", "tools/README"],
    }
    return "".join(f"\n```{{toctree}}\n:hidden:\n:caption: {name}\n{chr(10).join(parts[name])}\n```\n" for name in parts)


def add_contents(app, docname, source):
    if docname == app.config.root_doc:
        source[0] += contents()


# Source files -------------------------------------------------------------------------------------------------------
def language(path):
    return LANGUAGES.get(posixpath.basename(path)) or LANGUAGES.get(posixpath.splitext(path)[1])


def source_reference(app, path, inside):
    """A reference to the page of a file under the root, if it is one for a page."""
    if not language(path) or not (ROOT / path).is_file():
        return None
    sources.add(path)
    here = posixpath.dirname(app.env.docname)
    return nodes.reference("", "", inside, refuri=posixpath.relpath(f"{path}.html", here), internal=True)


def link_sources(app, doctree):
    here = posixpath.dirname(app.env.docname)
    for node in list(doctree.findall(addnodes.download_reference)):  # so MyST reads a link to a file that is no text
        path = posixpath.normpath(posixpath.join(here, node["reftarget"]))
        reference = source_reference(app, path, nodes.inline())
        if reference:
            reference.children = node.children
            node.replace_self(reference)
    for node in list(doctree.findall(nodes.literal)):
        if isinstance(node.parent, nodes.reference):
            continue
        for path in (node.astext(), posixpath.normpath(posixpath.join(here, node.astext()))):
            if reference := source_reference(app, path, node.deepcopy()):
                node.replace_self(reference)
                break


def source_pages(app):
    for path in sorted(sources):
        words = (ROOT / path).read_text()
        code = app.builder.highlighter.highlight_block(words, language(path), linenos=False)
        yield path, {"title": path, "body": f"<h1>{html.escape(path)}</h1>\n{code}"}, "page.html"


# Formulas -----------------------------------------------------------------------------------------------------------
def formula(writer, node):
    writer.body.append(convert(node.astext()))
    raise nodes.SkipNode


def displayed_formula(writer, node):
    writer.body.append(convert(node.astext(), display="block"))
    raise nodes.SkipNode


# Files beside the pages -----------------------------------------------------------------------------------------------
def stepper_data():
    """The traces, and the text of every id in them, as a script: pages opened from file:// may not read files."""
    chosen = {}
    for file in sorted((traces.DATA / "results" / "traces").glob("*.json")):
        if not file.stem.endswith(("_turn", "_rows")):
            chosen[file.stem] = json.loads(file.read_text())
    used = {number for trace in chosen.values() for forward in trace["forwards"] for number in forward["ids"]}
    words = {number: text for number, text in traces.words().items() if number in used}
    return f"window.kvbook = {json.dumps({'traces': chosen, 'words': words})};\n"


def add_files(app, exception):
    if exception:
        return
    out = Path(app.outdir)
    shutil.copy(out / "README.html", out / "index.html")
    for name in ("stepper.js", "stepper.css"):
        shutil.copy(ROOT / "book" / name, out / "book")
    (out / "book" / "traces.js").write_text(stepper_data())


def setup(app):
    app.add_html_math_renderer("mathml", (formula, None), (displayed_formula, None))
    app.connect("source-read", add_contents)
    app.connect("doctree-read", link_sources, priority=100)  # before files to download are collected
    app.connect("html-collect-pages", source_pages)
    app.connect("build-finished", add_files)
    return {"parallel_read_safe": False}
