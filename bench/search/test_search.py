"""Tests of the comparison of search: a tiny run, and the figures that follow from known times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import corpus
import engines
import report
import sources
import targets
import truth
from engines import OURS, OURS_HTTP, Built, Engine, Memory, Opened
from pages import measured_cores
from report import Case, Report

BINARIES = Path(os.environ.get("CARGO_TARGET_DIR", engines.ROOT / "target")) / "checked" / "examples"
MANY = "There are many ways in which this can be done, but it should not be done by hand if there is a tool for it. "


def made_report(times_ms: dict[str, float]) -> Report:
    """Engines that take as long as is said for a hybrid search over 50,000 documents."""
    found = Report(corpus.Facts(50_000, 50_000, 10, 400.0, {}, "none", "made"))
    for name, time_ms in times_ms.items():
        engine = Engine(name, "made up")
        found.add_engine(50_000, engine, "1.0", Built(2.0, 0.5, 5_000_000), Opened(0.1, Memory(), Memory(50_000, 0)))
        for cores in (1, 4):
            found.samples_of(name, Case(50_000, "hybrid", None, cores)).add(0, [int(time_ms * 1e6)] * 4, [[1]] * 4)
    return found


class Targets(unittest.TestCase):
    def test_a_target_says_whether_it_is_reached(self) -> None:
        page = report.page(made_report({OURS: 0.4, OURS_HTTP: 2.0, "LanceDB": 30.0, "LanceDB, by hand": 18.0}))
        self.assertIn("hybrid p50 | **0.400 ms** | ≤ 0.45 ms (stretch 0.3) | reached |", page)
        self.assertIn("against LanceDB's best, both from Python | **9.00 times** | ≥ 10 times | BELOW |", page)
        self.assertIn("against Qdrant Edge's best, both from Python |  | ≥ 2 times | not measured |", page)

    def test_a_stretch_is_said_too(self) -> None:
        target = targets.Target("speed", 0.2, 0.45, "ms", stretch=0.3)
        self.assertEqual(target.verdict, "reached, stretch too")
        self.assertEqual(targets.Target("speed", 0.5, 0.45, "ms").verdict, "ABOVE")
        self.assertEqual(targets.Target("recall", 0.5, 0.98, "", at_least=True).verdict, "BELOW")

    def test_percentiles_are_by_nearest_rank(self) -> None:
        samples = report.Samples([1_000_000 * at for at in range(1, 201)])
        self.assertEqual([samples.ms(part) for part in (0, 0.5, 0.99, 1)], [1, 100, 198, 200])

    def test_memory_is_what_came_after_opening(self) -> None:
        facts = report.EngineFacts(
            Engine("a", "b"), "1.0", Built(1, 0, 1), Opened(0.1, Memory(100, 50), Memory(200, 150)), Memory(300, 1050)
        )
        self.assertEqual(facts.resident(10), (20.0, 120.0, 20.0))


class TruthOfFour(unittest.TestCase):
    def setUp(self) -> None:
        near = [[1.0, 0.5, 0.5, 0.1]]
        self.exact = truth.Truth(
            [[0, 1]], [[1.0, 0.5]], 1, lambda at, found: [near[at][document] for document in found]
        )

    def test_what_is_as_near_as_the_last_counts(self) -> None:
        self.assertEqual(
            [self.exact.recall(0, [found]) for found in ([0, 1], [0, 2], [0, 3], [])], [1.0, 1.0, 0.5, 0.0]
        )

    def test_real_neighbours_are_counted_apart(self) -> None:
        self.assertEqual(self.exact.recall_of_real(0, [[0, 3]]), 1.0)
        self.assertEqual(self.exact.recall_of_real(0, [[1, 2]]), 0.0)

    def test_a_search_is_full_with_as_many_hits_as_there_are(self) -> None:
        self.assertEqual(self.exact.full(0, [[0, 1], [0]]), 0.5)


class Passages(unittest.TestCase):
    def test_short_paragraphs_are_joined_and_long_ones_cut_between_sentences(self) -> None:
        found = list(sources.passages([MANY, MANY, MANY * 9]))
        self.assertEqual([len(text) for text in found], [215, 539, 431])
        self.assertTrue(all(text.endswith("for it.") for text in found))

    def test_a_program_is_no_prose(self) -> None:
        self.assertFalse(
            sources.is_prose("let x = y[3] * {4}; // the sum of it is to be in a table of 12 | 34 | 56 " * 4)
        )

    def test_a_manual_page_becomes_sections(self) -> None:
        page = [
            ".SH NAME",
            "ls \\- list",
            ".SH DESCRIPTION",
            "Lists \\fBall\\fP files.",
            ".PP",
            "Or",
            ".B some",
            "of them.",
        ]
        self.assertEqual(
            list(sources.roff(page))[1:],
            [("name", [" ls - list"]), ("description", [" Lists all files.", " Or some of them."])]
        )  # fmt: skip

    def test_a_query_comes_from_the_passage_alone(self) -> None:
        passage = sources.Passage("made", "The river dam of the old mill", MANY)
        self.assertEqual(corpus.query_of(passage), corpus.query_of(passage))
        blend = corpus.blend_texts(passage, sources.Passage("made", "other", "One. Two. Three."))
        self.assertEqual((blend.title, blend.text), (passage.title, MANY.strip() + " Two. Three."))


class TinyRun(unittest.TestCase):
    def test_the_index_and_installed_peers_are_measured(self) -> None:
        if not (BINARIES / "bench_search").exists():
            self.skipTest(
                f"{BINARIES / 'bench_search'} is not built: cargo build --workspace --profile checked --examples"
            )
        with tempfile.TemporaryDirectory() as name:
            command = [
                sys.executable,
                str(engines.HERE / "measure.py"),
                "--tiny",
                "--binaries",
                str(BINARIES),
                "--out",
                name,
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            figures = json.loads((Path(name) / "search.json").read_text(encoding="utf-8"))
            self.assertIn("**Weir**", (Path(name) / "search.md").read_text(encoding="utf-8"))
        ours = [row for row in figures["searches"] if row["engine"] == OURS and row["below"] is None]
        kinds = [(mode, cores) for cores in sorted({1, len(measured_cores())}) for mode in engines.MODES]
        self.assertEqual(sorted((row["mode"], row["cores"]) for row in ours), sorted(kinds))
        self.assertEqual({row["recall"] for row in ours if row["mode"] == "dense"}, {1.0})


if __name__ == "__main__":
    unittest.main()
