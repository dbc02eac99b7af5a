"""Tests of the Python monolith's store; bench/gateway runs them where numpy is installed."""

from __future__ import annotations

import tempfile
import unittest
from pathlib import Path

import numpy as np
from store import Store, Vectors


def rows(*values: tuple[float, float]) -> Vectors:
    """Vectors of two floats."""
    return np.array(values, dtype=np.float32)


class StoreOfTwo(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.store, self.other = Store(Path(folder.name)), Store(Path(folder.name))
        self.store.add([{"id": "a"}, {"id": "b"}], rows((1, 0), (0.6, 0.8)))

    def check(self, store: Store, vector: tuple[float, float], wanted: list[tuple[str, float]], top_k: int = 5) -> None:
        found = store.search(rows(vector)[0], top_k)
        self.assertEqual([(hit["id"], round(hit["score"], 4)) for hit in found], wanted)

    def test_the_best_come_first(self) -> None:
        self.check(self.store, (1, 0), [("a", 1.0), ("b", 0.6)])
        self.check(self.store, (0, 1), [("b", 0.8)], top_k=1)

    def test_the_same_id_replaces_a_document(self) -> None:
        self.store.add([{"id": "a"}], rows((0, 1)))
        self.check(self.store, (0, 1), [("a", 1.0), ("b", 0.8)])

    def test_another_worker_sees_what_was_added(self) -> None:
        self.check(self.other, (1, 0), [("a", 1.0), ("b", 0.6)])
        self.store.add([{"id": "c"}], rows((0, -1)))
        self.assertEqual(self.other.count, 3)


if __name__ == "__main__":
    unittest.main()
