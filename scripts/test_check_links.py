"""Tests of check_links.py."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

import check_links


class Links(unittest.TestCase):
    def check(self, text: str, *expected: str) -> None:
        """The targets that are dead in a page beside `other.md`, which has the headings `One` (twice) and `A & B`."""
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            (root / "other.md").write_text("# One\n\n## One\n\n## A & B `c_d`\n")
            (root / "page.md").write_text(text)
            dead = check_links.dead_links(root / "page.md", root)
        self.assertEqual([line.split("`")[1] for line in dead], list(expected))

    def test_a_file_must_exist(self) -> None:
        self.check("[a](other.md) [b](none.md) [c](/other.md) ![d](none.png)", "none.md", "none.png")

    def test_a_heading_must_exist(self) -> None:
        self.check("[a](other.md#one) [b](other.md#one-1) [c](other.md#one-2)", "other.md#one-2")
        self.check("[a](other.md#a--b-c_d)\n\n# Here\n[b](#here) [c](#there)", "#there")

    def test_reference_links_are_links(self) -> None:
        self.check("[a]: none.md", "none.md")

    def test_code_and_the_web_are_left_alone(self) -> None:
        self.check("`[a](none.md)`\n```\n[b](none.md)\n```\n[c](https://example.org/none.md)")


if __name__ == "__main__":
    unittest.main()
