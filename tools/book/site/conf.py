"""The book as a static site: `make site`. Sphinx reads this file; book_site.py beside it has what is our own.

A page has the same path in the site as its text in the repository, so the texts' own links work.
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

project = "The KV cache"
html_title = "The KV cache, chapter by chapter"
root_doc = "README"
include_patterns = [
    "README.md", "BOOK.md", "CONTRIBUTING.md", "chapters/*/*.md", "workshop/README.md", "book/*.md", "tests/CASES.md", "tools/README.md",
]
exclude_patterns = [".*", "build*", "data"]

extensions = ["myst_parser", "book_site"]
myst_enable_extensions = ["dollarmath"]
myst_fence_as_directive = ["math"]
myst_heading_anchors = 4  # as GitHub names them
highlight_language = "text"

html_theme = "furo"
html_static_path = ["site.css"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_copy_source = False
html_use_index = False
html_show_search_summary = False  # it would fetch pages, which file:// refuses
html_show_copyright = False
