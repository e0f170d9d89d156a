"""Tests of the book's pictures: each was drawn from what is recorded now, and says in words what it shows."""

import re
import sys
import unittest
import xml.etree.ElementTree as ElementTree
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools" / "book"))
sys.dont_write_bytecode = True

import record  # noqa: E402
from pictures import catalogue, traces  # noqa: E402

SVG = "{http://www.w3.org/2000/svg}"


class PicturesTest(unittest.TestCase):
    def test_every_picture_was_drawn_from_what_is_recorded_now(self):
        for name, picture in catalogue.PICTURES.items():
            file = catalogue.FOLDER / f"{name}.svg"
            self.assertTrue(file.exists(), f"{file.name} is missing: run `make pictures`")
            self.assertIn(f"made from {picture.fingerprint()}", file.read_text()[:200], f"{name} is stale: run `make pictures`")

    def test_no_other_picture_lies_there(self):
        self.assertEqual({file.stem for file in catalogue.FOLDER.iterdir()}, set(catalogue.PICTURES))

    def test_a_picture_is_xml_whose_colours_all_follow_light_and_dark(self):
        for file in catalogue.FOLDER.glob("*.svg"):
            drawing = file.read_text()
            self.assertEqual(ElementTree.fromstring(drawing).tag, f"{SVG}svg")
            head, body = drawing.split("</style>", 1)
            self.assertIn("prefers-color-scheme: dark", head)
            self.assertEqual(re.findall(r"(?:fill|stroke): *#\w+", body), [], file.name)
            used = set(re.findall(r"var\((--[\w-]+)\)", body))
            self.assertLessEqual(used, set(re.findall(r"(--[\w-]+):", head)), file.name)

    def test_its_text_is_text_and_no_smaller_than_11_pixels(self):
        for file in catalogue.FOLDER.glob("*.svg"):
            drawing = ElementTree.fromstring(file.read_text())
            fonts = [text.get("style", "") for text in drawing.iter(f"{SVG}text")]
            self.assertTrue(fonts, file.name)
            for font in fonts:
                self.assertIn("sans-serif", font)
                self.assertGreaterEqual(float(re.search(r"([\d.]+)px", font)[1]), 11, f"{file.name}: {font}")

    def test_the_words_count_as_the_traces_do(self):
        for name in ("01_naive", "02_cat_cache"):
            fed = [len(forward["ids"]) for forward in traces.load(f"results/traces/{name}.json")["forwards"]]
            self.assertIn(f"together {sum(fed)}", catalogue.PICTURES["work"].alt)

    def test_a_text_gets_the_picture_with_its_words_and_a_path_that_leads_there(self):
        for text in ("README.md", "chapters/02_cat_cache/README.md"):
            shown = catalogue.markdown("02_cat_cache_strip", text)
            alt, path = re.fullmatch(r"!\[([^\]]+)\]\(([^)]+)\)", shown).groups()
            self.assertIn("ten forwards", alt.lower())
            self.assertTrue(((ROOT / text).parent / path).resolve().is_file(), shown)


class SlotsTest(unittest.TestCase):
    """The cases of trace_test.cpp, since the logic is that of slot_states()."""

    def slots(self, first, count, keys, after):
        forward = {"first_position": first, "ids": [7] * count, "keys": keys, "after": after}
        return [(slot.position, slot.state) for slot in traces.slots(forward)]

    def test_buffers_are_there_and_empty_in_the_first_forward(self):
        expected = [(0, "new"), (1, "new"), (-1, "empty"), (-1, "empty")]
        self.assertEqual(self.slots(0, 2, [0, 1], [0, 1, -1, -1]), expected)

    def test_a_growing_cache_gets_a_slot_a_token(self):
        self.assertEqual(self.slots(2, 1, [0, 1, 2], [0, 1, 2]), [(0, "held"), (1, "held"), (2, "new")])

    def test_a_new_token_takes_the_free_slot_and_what_leaves_is_marked(self):
        self.assertEqual(self.slots(2, 1, [0, 1, 2], [1, 2, -1]), [(0, "evicted"), (1, "held"), (2, "new")])

    def test_a_chunk_on_a_full_window_stands_beside_it(self):
        expected = [(3, "evicted"), (4, "evicted"), (5, "evicted"), (6, "new"), (7, "new")]
        self.assertEqual(self.slots(5, 3, [3, 4, 5, 6, 7], [6, 7, -1]), expected)

    def test_a_ring_puts_the_new_token_in_the_place_of_the_oldest(self):
        self.assertEqual(self.slots(4, 1, [3, 4, 2], [3, 4, 2]), [(3, "held"), (4, "new"), (2, "held")])

    def test_without_a_cache_nothing_is_kept(self):
        self.assertEqual(self.slots(0, 3, [0, 1, 2], []), [(0, "evicted"), (1, "evicted"), (2, "evicted")])


class RecordedTracesTest(unittest.TestCase):
    def test_the_programs_write_the_traces_that_are_recorded(self):
        for name in record.FILED_TRACES:
            with self.subTest(name):
                recorded = (traces.DATA / "results" / "traces" / f"{name}.json").read_text()
                self.assertEqual(record.filed_trace(name), recorded, f"{name}: run `make traces`")

    def test_no_other_trace_is_recorded(self):
        found = {file.stem for file in (traces.DATA / "results" / "traces").iterdir()}
        self.assertEqual(found, set(record.FILED_TRACES))


if __name__ == "__main__":
    unittest.main()
