"""What the figures of `relevance.py` mean."""

from __future__ import annotations

import math
import unittest

import relevance
from relevance import Hit, Query


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

    def test_a_shift_makes_the_mean_probability_the_share_of_labels(self) -> None:
        self.assertAlmostEqual(relevance.shift_to_share([(0.5, 1.0), (0.5, 1.0), (0.5, 0.0)]), math.log(2) - 0.5)
        self.assertAlmostEqual(relevance.shift_to_share([(2.0, 1.0), (-2.0, 0.0)]), 0.0)

    def test_the_least_worst_curves_are_better_at_their_worst_than_the_fitted_ones(self) -> None:
        def query(nearness: float, relevant: float) -> Query:
            return Query({"hybrid": [Hit(nearness, 0.2, 0.0, relevant, judged=True)]}, nearness)

        # two sets where the hit answers, one where it doesn't: the fit leans to the two
        answers = {"a": 1.0, "b": 1.0, "c": 0.0}
        asked = {
            (collection, queries): [query(0.6, answers[collection]) if collection == queries else query(0.1, 0.0)]
            for collection in answers
            for queries in answers
        }

        def worst(curve: relevance.Curve) -> float:
            return max(
                relevance.calibration_error(relevance.flat(relevance.judged(asked[name, name], "hybrid", curve)))
                for name in answers
            )

        least = relevance.least_worst(asked, "hybrid", list(answers))
        self.assertGreater(worst(relevance.fit(asked, "hybrid", list(answers))), 0.6)
        self.assertLess(worst(least), 0.51)

    def test_the_curves_are_those_of_the_product(self) -> None:
        curve = relevance.Curve((-21.94, 49.31), 0.312, 3.967, 0.590)
        for nearness, gap, expected in ((0.7, 0.0, 0.57737), (0.7, 0.5, 0.15822), (0.4, 0.0, 0.25798)):
            seen = relevance.sigmoid(curve.log_odds(Hit(nearness, gap, 0.0, 0.0, judged=True)))
            self.assertAlmostEqual(seen, expected, places=4)


if __name__ == "__main__":
    unittest.main()
