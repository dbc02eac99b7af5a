"""What the figures of `relevance.py` mean."""

from __future__ import annotations

import math
import unittest

import relevance
import relevance_curves as curves
from relevance_curves import Hit, Query


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
        rows: list[curves.Row] = [((1.0,), label, 1.0) for label in (1.0, 1.0, 1.0, 0.0)]
        self.assertAlmostEqual(curves.logistic(rows, (0.0,), (math.inf,))[0], math.log(3), places=6)
        self.assertLess(curves.logistic(rows, (0.0,), (0.1,))[0], 0.02)

    def test_a_shift_makes_the_mean_probability_the_share_of_labels(self) -> None:
        self.assertAlmostEqual(relevance.shift_to_share([(0.5, 1.0), (0.5, 1.0), (0.5, 0.0)]), math.log(2) - 0.5)
        self.assertAlmostEqual(relevance.shift_to_share([(2.0, 1.0), (-2.0, 0.0)]), 0.0)

    def test_what_searches_find_is_learned_after_each_of_them_and_fades(self) -> None:
        queries = [Query({"hybrid": [Hit(1.0, 0.0, 1.0, judged=True)]}, 1.0, (0.4, None))] * 2
        curve = curves.Curve((0.0, 100.0), 0.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0)
        fitted = curves.Fit(curve, (0.5, 0.4), curve.answerable)
        seen = list(fitted.followed(queries, [1, 0]))
        self.assertEqual([at for at, _ in seen], [1, 0])
        self.assertEqual(seen[0][1], (0.0, 0.0))
        self.assertAlmostEqual(seen[1][1][0], -0.05)
        self.assertAlmostEqual(fitted.learned(queries)[0], -0.1 * 2 / 3)
        baseline = curves.ScoreBaseline((0.5, 0.4))
        for value, times in ((0.5, 5000), (0.4, 1000)):
            for _ in range(times):
                baseline.update((value, 2.0), 1.0)
        self.assertAlmostEqual(baseline.deviations()[0], -0.1 * (1 - math.exp(-1)), places=4)
        self.assertAlmostEqual(baseline.deviations()[1], 0.8 - 0.4)

    def test_a_fit_finds_that_gaps_count_more_where_scores_drop_more(self) -> None:
        def asked(drop: float, relevant: float) -> list[Query]:
            # the second hit is right as often as `relevant` says
            first = Hit(0.7, 0.0, 1.0, judged=True)
            wrong, right = (Hit(0.7, 0.5, label, judged=True) for label in (0.0, 1.0))
            hits = [[first, right if at < relevant else wrong] for at in range(4)]
            return [Query({"hybrid": one}, 0.7, (0.5, drop)) for one in hits]

        foreign = [Query({"hybrid": [Hit(0.1, 0.0, 0.0, judged=True)]}, 0.1, (0.1, 0.1))] * 4
        own = {"sharp": asked(0.6, 0.0), "middle": asked(0.4, 2.0), "flat": asked(0.2, 4.0)}
        sets = list(own)
        fitted = curves.fit({(a, b): own[a] if a == b else foreign for a in sets for b in sets}, "hybrid", sets)
        self.assertAlmostEqual(fitted.start[1], 0.4, places=4)
        second = {
            name: fitted.curve.log_odds(queries[0].hits["hybrid"][1], fitted.learned(queries))
            for name, queries in own.items()
        }
        self.assertLess(second["sharp"], second["middle"] - 0.5)
        self.assertLess(second["middle"], second["flat"] - 0.5)

    def test_the_curves_are_those_of_the_product(self) -> None:
        curve = curves.Curve((-21.09, 48.18), 0.511, 7.753, 0.8, 0.539, 0.058, -6.908, 28.328)
        near, flat, sharp, high = (0.0, 0.0), (0.0, 0.22 - 0.435), (0.0, 0.75 - 0.435), (0.6 - 0.518, 0.0)
        for nearness, gap, deviations, expected in (
            (0.7, 0.0, near, 0.6318),
            (0.7, 0.5, near, 0.0196),
            (0.4, 0.0, near, 0.3668),
            (0.7, 0.2, sharp, 0.0169),
            (0.7, 0.2, flat, 0.5203),
            (0.7, 0.0, high, 0.4934),
        ):
            seen = curves.sigmoid(curve.log_odds(Hit(nearness, gap, 0.0, judged=True, share=0.5), deviations))
            self.assertAlmostEqual(seen, expected, places=4)
        named = Hit(0.0, 0.9, 0.0, judged=True, exactness="name")
        self.assertAlmostEqual(curves.sigmoid(curve.log_odds(named, near)), 0.9002, places=4)


if __name__ == "__main__":
    unittest.main()
