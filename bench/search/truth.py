"""What an exact comparison finds: the ten documents nearest to each query, in f32, at a size and below a bound."""

from __future__ import annotations

from collections.abc import Callable
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Any

from corpus import DIMENSION, Corpus

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Numbers = npt.NDArray[np.int64]
    Scores = npt.NDArray[np.float32]

NEIGHBOURS = 10
BLOCK_ROWS = 50_000
# Similarities that differ by less are equal: sums in another order differ in their last bits.
SAME = 1e-6
# Up to this size, plain Python is fast enough, so that a tiny run needs no package.
PLAIN_DOCUMENTS_MAX = 2_000


class Truth:
    """The nearest documents of every query, best first, and how near they are."""

    def __init__(
        self,
        ids: list[list[int]],
        scores: list[list[float]],
        real: int,
        near: Callable[[int, list[int]], list[float]],
    ) -> None:
        self._ids, self._scores, self._real = ids, scores, real
        # the similarities of a query to some documents
        self._near = near

    def recall(self, first: int, hits: list[list[int]]) -> float:
        """The share of the nearest that the hits of queries from `first` on have; what is equally near counts."""
        right, wanted = 0, 0
        for place, found in enumerate(hits):
            at = (first + place) % len(self._ids)
            expected = self._scores[at]
            if expected and found:
                right += min(sum(near >= expected[-1] - SAME for near in self._near(at, found)), len(expected))
            wanted += len(expected)
        return right / max(wanted, 1)

    def recall_of_real(self, first: int, hits: list[list[int]]) -> float:
        """The share of those nearest that are real passages, not blends, that the hits have."""
        right, wanted = 0, 0
        for place, found in enumerate(hits):
            real = {id_ for id_ in self._ids[(first + place) % len(self._ids)] if id_ < self._real}
            right += len(real.intersection(found))
            wanted += len(real)
        return right / max(wanted, 1)

    def full(self, first: int, hits: list[list[int]]) -> float:
        """The share of queries that got as many hits as there are, up to ten."""
        wanted = [len(self._ids[(first + place) % len(self._ids)]) for place in range(len(hits))]
        return sum(len(found) >= count for found, count in zip(hits, wanted, strict=True)) / max(len(hits), 1)


def truth(corpus: Corpus, documents: int, below: int | None) -> Truth:
    """Of the first documents, those with `n` below a bound: from the cache, or computed now."""
    if documents <= PLAIN_DOCUMENTS_MAX:
        return plain_truth(corpus, documents, below)
    import numpy as np

    folder = corpus.folder / "truth"
    folder.mkdir(exist_ok=True)
    file = folder / f"{documents}-{'all' if below is None else below}-{corpus.facts.hash}.npz"
    if not file.exists():
        rows = np.arange(documents) if below is None else np.flatnonzero(n_of(corpus)[:documents] < below)
        ids, scores = nearest(corpus, rows)
        part = file.with_name(f"part-{file.name}")
        np.savez(part, ids=ids, scores=scores)
        part.rename(file)
    kept = np.load(file)
    counts = (kept["ids"] >= 0).sum(axis=1)
    ids_ = [row[:count] for row, count in zip(kept["ids"].tolist(), counts, strict=True)]
    scores_ = [row[:count] for row, count in zip(kept["scores"].tolist(), counts, strict=True)]
    vectors, queries = corpus.vectors(), corpus.query_vectors()

    def near(at: int, found: list[int]) -> list[float]:
        similarities: list[float] = (vectors[found] @ queries[at]).tolist()
        return similarities

    return Truth(ids_, scores_, corpus.facts.real, near)


def nearest(corpus: Corpus, rows: Numbers) -> tuple[Numbers, Scores]:
    """The nearest of some rows, -1 where there are fewer than ten."""
    import numpy as np

    queries = np.array(corpus.query_vectors())
    vectors = corpus.vectors()
    ids = np.full((len(queries), NEIGHBOURS), -1, dtype=np.int64)
    scores = np.full((len(queries), NEIGHBOURS), -np.inf, dtype=np.float32)
    for start in range(0, len(rows), BLOCK_ROWS):
        block = rows[start : start + BLOCK_ROWS]
        near = queries @ np.array(vectors[block]).T
        count = min(NEIGHBOURS, len(block))
        places = np.argpartition(-near, count - 1, axis=1)[:, :count]
        ids = np.concatenate([ids, block[places]], axis=1)
        scores = np.concatenate([scores, np.take_along_axis(near, places, axis=1)], axis=1)
        order = np.argsort(-scores, axis=1, kind="stable")[:, :NEIGHBOURS]
        ids, scores = np.take_along_axis(ids, order, axis=1), np.take_along_axis(scores, order, axis=1)
    return ids, scores


def n_of(corpus: Corpus) -> Numbers:
    """`n` of every document."""
    import numpy as np

    file = corpus.folder / f"n-{corpus.facts.hash}.npy"
    if not file.exists():
        documents = corpus.documents(corpus.facts.documents)
        np.save(file, np.array([document["n"] for document in documents], dtype=np.int64))
    kept: Numbers = np.load(file)
    return kept


def plain_truth(corpus: Corpus, documents: int, below: int | None) -> Truth:
    """The same in plain Python."""
    vectors, queries = plain_rows(corpus.folder / "documents.f32"), plain_rows(corpus.folder / "queries.f32")
    rows = [at for at, document in enumerate(corpus.documents(documents)) if below is None or document["n"] < below]

    def near(at: int, found: list[int]) -> list[float]:
        return [sum(map(mul, vectors[document], queries[at])) for document in found]

    ids, scores = [], []
    for at in range(len(queries)):
        best = sorted(zip((-score for score in near(at, rows)), rows, strict=True))[:NEIGHBOURS]
        ids.append([row for _, row in best])
        scores.append([-score for score, _ in best])
    return Truth(ids, scores, corpus.facts.real, near)


def plain_rows(file: Path) -> list[Any]:
    """The rows of a file."""
    values = memoryview(file.read_bytes()).cast("f")
    return [values[start : start + DIMENSION] for start in range(0, len(values), DIMENSION)]
