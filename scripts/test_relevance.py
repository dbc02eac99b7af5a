"""What the figures of `relevance.py` mean."""

from __future__ import annotations

import math
import unittest

import relevance
from relevance import Hit


class RelevanceTest(unittest.TestCase):
    """Each against a value that was worked out by hand."""

    def test_the_calibration_error_weighs_each_bin_by_its_members(self) -> None:
        pairs = [(0.15, 0.0)] * 3 + [(0.95, 1.0)]
        self.assertAlmostEqual(relevance.calibration_error(pairs), 0.75 * 0.15 + 0.25 * 0.05)
        self.assertAlmostEqual(relevance.calibration_error([(0.5, 1.0), (0.5, 0.0)]), 0.0)
        self.assertAlmostEqual(relevance.calibration_error([(1.0, 1.0)]), 0.0)

    def test_the_area_counts_ties_half(self) -> None:
        self.assertAlmostEqual(relevance.area_under_roc([3.0, 2.0], [1.0, 0.0]), 1.0)
        self.assertAlmostEqual(relevance.area_under_roc([1.0], [1.0]), 0.5)
        self.assertAlmostEqual(relevance.area_under_roc([2.0, 0.0], [1.0]), 0.5)

    def test_a_logistic_fit_finds_the_observed_share_and_is_held_by_its_prior(self) -> None:
        rows: list[relevance.Row] = [((1.0,), label, 1.0) for label in (1.0, 1.0, 1.0, 0.0)]
        self.assertAlmostEqual(relevance.logistic(rows, (0.0,), (math.inf,))[0], math.log(3), places=6)
        self.assertLess(relevance.logistic(rows, (0.0,), (0.1,))[0], 0.02)

    def test_the_curves_are_those_of_the_product(self) -> None:
        curve = relevance.Curve((-22.11, 48.44), 0.265, 4.094, 0.577)
        for nearness, gap, expected in ((0.7, 0.0, 0.56586), (0.7, 0.5, 0.14402), (0.4, 0.0, 0.20606)):
            seen = relevance.sigmoid(curve.log_odds(Hit(nearness, gap, 0.0, 0.0)))
            self.assertAlmostEqual(seen, expected, places=4)


if __name__ == "__main__":
    unittest.main()
