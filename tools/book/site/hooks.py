"""What makes a site of the repository's texts: mkdocs calls these functions (mkdocs.yml names this file).

A page has the same path in the site as its text in the repository, so the texts' own links work. A source file that a
text links to, or names as code, becomes a page too. Formulas become MathML, which browsers draw without any script.
"""

import html
import json
import posixpath
import re
import sys
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.structure.files import File

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools" / "book"))

from pictures import traces  # noqa: E402

LANGUAGES = {
    ".cpp": "cpp", ".h": "cpp", ".in": "cpp", ".py": "python", ".sh": "bash", ".cmake": "cmake", ".js": "javascript",
    ".css": "css", ".yml": "yaml", ".json": "json", ".txt": "text", "Makefile": "make", "Dockerfile": "docker",
    "CMakeLists.txt": "cmake", "LICENSE": "text",
}
LINK = re.compile(r"(\]\()([^)\s#]+)((?:#[^)\s]*)?\))")
NAMED = re.compile(r"`([\w./-]+)`")


def chapter_texts():
    """The texts of every chapter's folder, its README first."""
    for folder in sorted((ROOT / "chapters").glob("[0-9][0-9]_*")):
        readme = folder / "README.md"
        yield [readme, *(text for text in sorted(folder.glob("*.md")) if text != readme)]


def relative(path):
    return path.relative_to(ROOT).as_posix()


def texts():
    """Every text of the book, as paths under the root."""
    chapters = [relative(text) for chapter in chapter_texts() for text in chapter]
    return ["README.md", "BOOK.md", *chapters, "book/stepper.md", "tests/CASES.md", "tools/README.md", "CONTRIBUTING.md"]


def title(path):
    heading = re.search(r"^# (.+)$", (ROOT / path).read_text(), re.MULTILINE)
    return heading[1].replace("`", "")


def on_config(config):
    chapters = []
    for chapter in chapter_texts():
        first, *more = [{title(relative(text)): relative(text)} for text in chapter]
        chapters += [first] if not more else [{list(first)[0]: [first, *more]}]
    config.nav = [
        {title("README.md"): "README.md"},
        {title("BOOK.md"): "BOOK.md"},
        *chapters,
        {title("book/stepper.md"): "book/stepper.md"},
        {"Working on it": ["CONTRIBUTING.md", "tests/CASES.md", "tools/README.md"]},
    ]
    return config


def language(path):
    return LANGUAGES.get(path.name) or LANGUAGES.get(path.suffix)


def target_of(link, text):
    """The file under the root that a link in a text means."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(text), link))


def named_sources(text):
    """Paths under the root of the source files that a text links to or names."""
    words = (ROOT / text).read_text()
    paths = {target_of(match[2], text) for match in LINK.finditer(words)}
    paths |= {path for name in NAMED.findall(words) for path in (name, target_of(name, text))}
    return {path for path in paths if (ROOT / path).is_file() and language(ROOT / path)}


def source_page(path):
    fence = "`" * 12
    words = (ROOT / path).read_text().rstrip("\n")
    return f"---\nsearch:\n  exclude: true\n---\n# {path}\n\n{fence}{language(ROOT / path)}\n{words}\n{fence}\n"


def stepper_data():
    """The traces, and the text of every id in them, as a script: pages opened from file:// may not read files."""
    chosen = {}
    for file in sorted((traces.DATA / "results" / "traces").glob("*.json")):
        if not file.stem.endswith("_turn"):
            chosen[file.stem] = json.loads(file.read_text())
    used = {number for trace in chosen.values() for forward in trace["forwards"] for number in forward["ids"]}
    words = {number: text for number, text in traces.words().items() if number in used}
    return f"window.kvbook = {json.dumps({'traces': chosen, 'words': words})};\n"


def on_files(files, config):
    for file in list(files):
        if file.src_dir == config.docs_dir:
            files.remove(file)
    copied = [*texts(), "book/stepper.js", "book/stepper.css"]
    copied += [relative(picture) for picture in sorted((ROOT / "book" / "pictures").glob("*.svg"))]
    for path in copied:
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    for name in ("site.css", "iframe-worker.js"):
        files.append(File.generated(config, f"assets/{name}", abs_src_path=str(Path(__file__).with_name(name))))
    files.append(File.generated(config, "book/traces.js", content=stepper_data()))
    for path in sorted(set().union(*map(named_sources, texts()))):
        files.append(File.generated(config, f"{path}.md", content=source_page(path)))
    return files


def on_page_markdown(markdown, page, config, files):
    if page.file.src_uri not in texts():
        return markdown
    if page.file.src_uri == "book/stepper.md":
        page.meta["hide"] = ["toc"]  # two panels want the width
    markdown = re.sub(r"^<!-- \[\[\[.*\]\]\] -->$", "", markdown, flags=re.MULTILINE)
    markdown = re.sub(r"<details>", '<details markdown="1">', markdown)

    def to_page(match):
        path = target_of(match[2], page.file.src_uri)
        for end in (".md", "/README.md"):
            if files.get_file_from_path(path + end):
                return match[1] + match[2].rstrip("/") + end + match[3]
        return match[0]

    return LINK.sub(to_page, markdown)


def on_page_content(content, page, config, files):
    def to_source(match):
        for path in (match[1], target_of(match[1], page.file.src_uri)):
            if (file := files.get_file_from_path(f"{path}.md")) or (file := files.get_file_from_path(path)):
                return f'<a href="{file.url_relative_to(page.file)}">{match[0]}</a>'
        return match[0]

    def to_mathml(match):
        block = match[1] == "div"
        return convert(html.unescape(match[2]), display="block" if block else "inline")

    content = re.sub(r"(?<!\">)<code>([\w./-]+)</code>", to_source, content)
    return re.sub(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', to_mathml, content, flags=re.DOTALL)
