"""Code written for another version of the seam is refused by the compiler, and compiles once it is put right.

usage: python3 interface_test.py BUILD/compile_commands.json   (the compiler and the flags are the build's own)
"""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
LIKE = ROOT / "chapters" / "04_preallocated" / "preallocated_cache.cpp"  # compiled as this file is


def compiled(text):
    """Whether this C++ text compiles, and what the compiler says."""
    entries = json.loads(Path(sys.argv[1]).read_text())
    entry = next(entry for entry in entries if Path(entry["file"]).resolve() == LIKE)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "cache.cpp"
        source.write_text(text)
        words = shlex.split(entry["command"])
        words[words.index("-o") + 1] = os.devnull
        words[words.index("-c") + 1] = str(source)
        run = subprocess.run(
            [*words, "-fsyntax-only"], cwd=entry["directory"], env=os.environ | {"LC_ALL": "C", "CCACHE_DISABLE": "1"},
            capture_output=True, text=True,
        )
    return run.returncode == 0, run.stderr


class Interface(unittest.TestCase):
    def expect(self, name, wrong, right, message):
        text = (HERE / f"{name}.cpp").read_text()
        self.assertEqual(text.count(wrong), 1)
        compiles, errors = compiled(text)
        self.assertFalse(compiles)
        self.assertRegex(errors, message)
        compiles, errors = compiled(text.replace(wrong, right))
        self.assertTrue(compiles, errors)

    def test_an_old_signature_overrides_nothing(self):
        self.expect(
            "old_signature",
            "(const torch::Tensor& key, const torch::Tensor& value, int64_t layer)",
            "(int64_t layer, const torch::Tensor& key, const torch::Tensor& value)",
            "update.*(does not override|marked 'override' hides virtual member function)",  # GCC; Clang
        )

    def test_another_seam_version_is_named(self):
        self.expect("other_seam_version", "kSeamVersion == 0", "kSeamVersion == 1", "written for version 0 of the seam")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1])
