"""What the texts name in code type is there: tests, and files of the repository."""

import re
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TEXTS = [ROOT / "README.md", ROOT / "BOOK.md", ROOT / "CONTRIBUTING.md"]
TEXTS += [text for folder in ("chapters", "book", "workshop") for text in sorted((ROOT / folder).rglob("*.md"))]
FOLDERS = ("chapters/", "common/", "tests/", "workshop/", "book/", "tools/", "data/")


def named(text):
    """The words in code type that stand in sentences, not in blocks."""
    return re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text.read_text(), flags=re.DOTALL | re.MULTILINE))


class NamesTest(unittest.TestCase):
    def test_every_test_that_a_text_names_exists(self):
        sources = [*(ROOT / "tests").rglob("*.cpp"), *(ROOT / "workshop").rglob("*.cpp")]
        tests = set()
        for source in sources:
            for suite, name in re.findall(r"^TEST(?:_P|_F)?\((\w+),\s*(\w+)\)", source.read_text(), flags=re.MULTILINE):
                tests |= {f"{suite}.{name}", name, *re.findall(r"^Case\d\d", name)}
        for text in TEXTS:
            for word in named(text):
                test = re.fullmatch(r"(?:\w+/)?((?:[A-Z]\w+\.)?[A-Z]\w+)(?:/\w+\*?)?", word)
                if test and ("." in test[1] or re.match(r"Case\d\d", test[1])) and not re.search(r"\.(md|h|cpp|py)$", word):
                    self.assertTrue(test[1] in tests, f"{text.relative_to(ROOT)} names the test {word}")

    def test_every_file_that_a_text_names_exists(self):
        for text in TEXTS:
            for word in named(text):
                if word.startswith(FOLDERS) and re.fullmatch(r"[\w./-]+", word) and not re.search("NN_|NAME", word):
                    self.assertTrue(any((folder / f"{word}{end}").exists() for folder in (ROOT, text.parent) for end in ("", ".h")),
                                    f"{text.relative_to(ROOT)} names the file {word}")


if __name__ == "__main__":
    unittest.main()
