"""Tests of the measurement of gateways over PostgreSQL: a tiny run on the real gateway, and the bounds."""

from __future__ import annotations

import os
import unittest
from pathlib import Path
from unittest import mock

import measure
import replicas

CHECKED = Path(os.environ.get("CARGO_TARGET_DIR", measure.ROOT / "target")) / "checked"


class Scale(unittest.TestCase):
    """What is measured, and when a bound is missed."""

    def test_all_gateways_are_measured(self) -> None:
        with mock.patch.multiple(measure, WEIR=str(CHECKED / "weir"), LOAD=str(CHECKED / "weir-bench")):
            figures = measure.measure(rounds=1, count=300, seconds=0.3)
        print(measure.report(figures))
        kinds = {what for name, what in figures.values if name == measure.SQLITE}
        self.assertGreaterEqual(len(kinds), 8)
        for name in measure.NAMES:
            self.assertEqual({what for other, what in figures.values if other == name}, kinds)
        self.assertTrue(all(value > 0 for values in figures.values.values() for value in values))

    def test_every_bound_can_be_missed(self) -> None:
        def figures(scale: float, redis: float) -> measure.Figures:
            found = measure.Figures()
            what = ("p50 ms, 1", "p50 ms, 16", "CPU ms, 1", "CPU ms, 16", "limited p50 ms, 1", "202 p50 ms", "RSS MiB")
            for name in measure.NAMES:
                factor = 1.0 if name == measure.SQLITE else scale
                for one in what:
                    found.add(name, one, factor + (redis if name == measure.REDIS else 0))
                found.add(name, "documents/s", 1 / factor)
            return found

        self.assertTrue(all(goal.is_met for goal in figures(1.0, 0.0).goals()))
        self.assertFalse(any(goal.is_met for goal in figures(4.0, 30.0).goals()))


class Replicas(unittest.TestCase):
    """The start of a gateway, and memory."""

    def test_both_parts_are_measured(self) -> None:
        with mock.patch.multiple(measure, WEIR=str(CHECKED / "weir")), mock.patch.object(replicas, "WEIR", str(CHECKED / "weir")):
            started = replicas.start_of_a_gateway(200)
            used = replicas.memory(seconds=2.0, count=50)
        print(started.report(), used.report(), sep="\n")
        self.assertEqual(started.chunks, 200)
        self.assertGreater(started.index_bytes, 10_000)
        self.assertEqual(len(used.samples), 4)
        self.assertGreater(used.searches, 20)

    def test_every_bound_can_be_missed(self) -> None:
        def used(last: float) -> replicas.Memory:
            samples = {name: [(mib,) * len(replicas.KINDS) for mib in [100.0] * 4 + [100.0 if name == measure.SQLITE else last]] for name in (measure.SQLITE, "PostgreSQL 1")}
            return replicas.Memory(samples)

        self.assertTrue(all(goal.is_met for goal in used(102.0).goals()))
        self.assertEqual([goal.is_met for goal in used(130.0).goals()], [True, False, False])


if __name__ == "__main__":
    unittest.main()
