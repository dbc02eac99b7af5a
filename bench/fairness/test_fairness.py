"""Tests of the measurement of fairness: a tiny run on the real gateway, and the targets."""

from __future__ import annotations

import os
import unittest
from pathlib import Path

import measure

CHECKED = Path(os.environ.get("CARGO_TARGET_DIR", measure.ROOT / "target")) / "checked"


class Fairness(unittest.TestCase):
    """What is measured, and when it is a fault."""

    def test_nothing_waits_for_a_large_document(self) -> None:
        # its embedding takes longer than the run, on any machine
        figures = measure.measure(CHECKED / "weir", size=5_000_000, seconds=12, busy_processes=0)
        print(measure.report(figures))
        self.assertEqual((figures.failed, figures.refused), ([], 0))
        self.assertLess(figures.progress[-1], 1)
        # the test may run beside other work: of the times only those that a queue behind the document could not reach
        self.assertGreaterEqual(len(figures.sentences), 2)
        self.assertLess(max(figures.sentences), 8)
        self.assertLess(max(figures.embeddings), 12)

    def test_large_texts_have_no_passage_twice(self) -> None:
        lines = measure.large_text(50_000).splitlines()
        self.assertEqual(len(set(lines)), len(lines))
        self.assertGreaterEqual(sum(len(line.encode()) + 1 for line in lines), 50_000)

    def test_every_missed_target_is_a_fault(self) -> None:
        def figures(**changes: object) -> measure.Figures:
            held = {"alone": [0.01] * 100, "beside": [0.03] * 100, "sentences": [2.9], "embeddings": [1.0], "progress": [0.0, 0.1, 0.2, 0.3, 0.4]}
            return measure.Figures(**{**held, **changes})  # type: ignore[arg-type]

        self.assertEqual(figures().faults(), [])
        for changes in (
            {"beside": [0.031] * 100},
            {"sentences": [1.0, 3.1]},
            {"sentences": []},
            {"refused": 1},
            {"progress": [0.0, 0.0, 0.0, 0.0, 0.0]},
            {"progress": [0.4, 0.3, 0.2, 0.1, 0.0]},
            {"failed": ["a search was answered with 500"]},
        ):
            self.assertEqual(len(figures(**changes).faults()), 1, changes)


if __name__ == "__main__":
    unittest.main()
