"""Tests of the soak: slopes of known samples, and a run of seconds."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from pathlib import Path

import soak
import targets
from processes import EngineError
from soak import Sample

CHECKED = Path(os.environ.get("CARGO_TARGET_DIR", targets.ROOT / "target")) / "checked"
COUNTS = {"plain": (100, 98)}


def samples(rss_mib_per_minute: float, files_per_minute: float = 0.0) -> list[Sample]:
    """Ten minutes of growth, which begin with a jump that settles."""
    grown = [Sample(at / 10, 50 + rss_mib_per_minute * at / 10, 30 + files_per_minute * at / 10) for at in range(101)]
    return [Sample(one.minutes, one.rss_mib - 20, 3) if one.minutes < 1 else one for one in grown]


class Slopes(unittest.TestCase):
    def test_a_line_through_points_has_the_least_squares(self) -> None:
        self.assertEqual(soak.slope([(0, 1), (1, 3), (2, 5)]), 2)
        # by hand: the means are 1 and 2, the sums 1 and 2
        self.assertEqual(soak.slope([(0, 2), (1, 1), (2, 3)]), 0.5)
        self.assertEqual(soak.slope([(1, 5), (1, 9)]), 0)

    def test_the_first_quarter_is_left_out(self) -> None:
        rss, files = soak.slopes(samples(0.25, 1.5))
        self.assertAlmostEqual(rss, 0.25)
        self.assertAlmostEqual(files, 1.5)

    def test_too_few_samples_are_an_error(self) -> None:
        with self.assertRaisesRegex(EngineError, "only 1 of 2 samples"):
            soak.slopes(samples(0.0)[:2])

    def check(self, grown: list[Sample], counts: dict[str, tuple[int, int]], *, is_kept: bool) -> None:
        self.assertEqual(soak.verdict(grown, counts, 0.5, 2.0)[1], is_kept)

    def test_growth_above_a_limit_fails(self) -> None:
        self.check(samples(0.49, 1.9), COUNTS, is_kept=True)
        self.check(samples(0.51), COUNTS, is_kept=False)
        self.check(samples(0.0, 2.1), COUNTS, is_kept=False)
        self.check(samples(0.0), COUNTS | {"stream": (100, 0)}, is_kept=False)


class TinyRun(unittest.TestCase):
    def test_all_kinds_of_traffic_are_answered(self) -> None:
        for binary in ("weir", "weir-bench", "weir-mock"):
            if not (CHECKED / binary).exists():
                self.skipTest(f"{CHECKED / binary} is not built: cargo build --workspace --profile checked")
        self.assertEqual(self.run_tiny("1000000").returncode, 0)

    def test_a_slope_above_its_limit_ends_with_1(self) -> None:
        if not (CHECKED / "weir").exists():
            self.skipTest(f"{CHECKED / 'weir'} is not built: cargo build --workspace --profile checked")
        done = self.run_tiny("-1000000")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("FAILED", done.stdout)

    def run_tiny(self, limit: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, soak.__file__, "--minutes", "0.1", f"--rss-max={limit}", "--files-max=1000000"]
        command += ["--weir", str(CHECKED / "weir"), "--load", str(CHECKED / "weir-bench"), "--mock", str(CHECKED / "weir-mock")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        self.assertNotEqual(done.returncode, 2, done.stderr)
        return done


if __name__ == "__main__":
    unittest.main()
