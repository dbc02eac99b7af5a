"""The curves of relevance: how they are fitted, and what a collection learns from its searches.

As in `crates/ranking/src/relevance`, which has the fitted coefficients.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import fmean as mean

# Gaps count by this power.
POWERS = {"hybrid": 0.8, "dense": 0.3, "lexical": 0.8}
# Standard deviations of the coefficients' prior; that of the intercept is not held back. Those of what a collection's
# score baseline are, since five sets say little about them; that of the words' share is held back most, because a larger
# one tells foreign queries from a set's own worse than the raw cosine does.
PRIOR_OF_CURVES = (math.inf, 1000.0, 1000.0, 7.0, 10.0, 0.04)
# How sharply an unanswerable query is told from others, and what foreign queries weigh beside a set's own.
SHARPNESS = 2.0
FOREIGN_WEIGHTS = {"hybrid": 0.15, "dense": 0.25, "lexical": 0.25}
FOREIGN_QUERIES_MAX = 150
# What the searches of a collection usually find: searches that count at most, and what the start counts as, as in
# `baseline.rs`, with the ranges of the mean cosine and the mean drop.
MEMORY = 1000.0
START_COUNTS = 1.0
RANGES = ((0.3, 0.6), (0.2, 0.8))
# The least log-odds of a hit that the query names, as in `relevance/mod.rs`.
LEAST = {"similar": -math.inf, "rare": 1.1, "name": 2.2}
# What a gap takes is never less than this share of what it takes at the start.
GAP_LEAST = 0.1


@dataclass(frozen=True)
class Hit:
    """What the estimate sees of a hit, whether it is relevant, whether anybody judged."""

    nearness: float
    gap: float
    relevant: float
    judged: bool
    share: float = 0.0
    exactness: str = "similar"


@dataclass(frozen=True)
class Query:
    """The first hits of a query by kind of search, the raw cosine of the best chunk, and what the search found first.

    `profile` has the mean cosine of ten documents, and what the tenth lacks to the best BM25 score, as a share of it.
    """

    hits: dict[str, list[Hit]]
    cosine: float
    profile: tuple[float | None, float | None]


Asked = dict[tuple[str, str], list[Query]]


def sigmoid(value: float) -> float:
    """The logistic function, without overflow."""
    if value < 0:
        power = math.exp(max(value, -700.0))
        return power / (1.0 + power)
    return 1.0 / (1.0 + math.exp(-value))


def softplus(value: float) -> float:
    """ln(1 + exp(value)), without overflow."""
    return max(value, 0.0) + math.log1p(math.exp(-abs(value)))


# Values, label, weight.
Row = tuple[tuple[float, ...], float, float]


def solve(matrix: list[list[float]], right: list[float]) -> list[float]:
    """Solves a small linear system by elimination with pivots."""
    rows = [[*row, value] for row, value in zip(matrix, right, strict=True)]
    size = len(rows)
    for column in range(size):
        pivot = max(range(column, size), key=lambda row: abs(rows[row][column]))
        rows[column], rows[pivot] = rows[pivot], rows[column]
        for row in range(size):
            if row != column:
                factor = rows[row][column] / rows[column][column]
                rows[row] = [a - factor * b for a, b in zip(rows[row], rows[column], strict=True)]
    return [rows[at][size] / rows[at][at] for at in range(size)]


def logistic(rows: list[Row], centre: tuple[float, ...], spread: tuple[float, ...]) -> list[float]:
    """Weighted logistic regression by Newton's method with a Gaussian prior; the first column of a row is 1.

    `centre` and `spread` describe the prior of each coefficient; an infinite spread leaves it free.
    """
    size = len(centre)
    found = list(centre)
    for _ in range(40):
        weights = [0.0 if math.isinf(one) else one**-2 for one in spread]
        gradient = [weight * (a - b) for weight, a, b in zip(weights, found, centre, strict=True)]
        twice = [[weights[i] if i == j else 0.0 for j in range(size)] for i in range(size)]
        for values, label, weight in rows:
            expected = sigmoid(sum(a * b for a, b in zip(found, values, strict=True)))
            error, curvature = weight * (expected - label), weight * expected * (1.0 - expected)
            for i, a in enumerate(values):
                gradient[i] += error * a
                for j in range(i + 1):
                    twice[i][j] += curvature * a * values[j]
        for i in range(size):
            twice[i][i] += 1e-9
            for j in range(i):
                twice[j][i] = twice[i][j]
        step = solve(twice, gradient)
        found = [a - b for a, b in zip(found, step, strict=True)]
        if max(map(abs, step)) < 1e-7:
            break
    return found


# A mean cosine and a mean drop.
Pair = tuple[float, float]


class ScoreBaseline:
    """The score baseline of a collection, as in `baseline.rs`."""

    def __init__(self, start: Pair) -> None:
        """Begins at `start`."""
        self.start = start
        self.means = list(start)
        self.counts = [START_COUNTS, START_COUNTS]

    def update(self, profile: tuple[float | None, float | None], weight: float) -> None:
        """Adds a search, which the collection could answer with the probability `weight`."""
        for at, value in enumerate(profile):
            if value is not None:
                self.counts[at] = min(self.counts[at] + weight, MEMORY)
                self.means[at] += weight / self.counts[at] * (value - self.means[at])

    def deviations(self) -> Pair:
        """How far the means are from where a collection starts."""
        cosine, drop = (
            min(max(value, low), high) - start
            for value, (low, high), start in zip(self.means, RANGES, self.start, strict=True)
        )
        return cosine, drop


AS_AT_START: Pair = (0.0, 0.0)


@dataclass(frozen=True)
class Curve:
    """The curves of one kind of search, as in `relevance/mod.rs`."""

    answerable: Pair
    best: float
    gap: float
    power: float
    unanswerable: float
    share: float
    cosine: float
    drop: float

    def log_odds(self, hit: Hit, deviations: Pair) -> float:
        """That the hit answers its query, in a collection with these deviations of its baseline."""
        answerable = self.answerable[0] + self.answerable[1] * hit.nearness
        behind = max(self.gap + self.drop * deviations[1], GAP_LEAST * self.gap) * hit.gap**self.power
        share = self.share * hit.share * sigmoid(answerable)
        similar = self.best + share + self.cosine * deviations[0] - behind - self.unanswerable * softplus(-answerable)
        return max(similar, LEAST[hit.exactness])


def weights(queries: list[Query], answerable: Pair) -> list[float]:
    """How probable it is that the collection can answer each query."""
    near = (query.hits["hybrid"][0].nearness if query.hits["hybrid"] else 0.0 for query in queries)
    return [sigmoid(answerable[0] + answerable[1] * one) for one in near]


@dataclass(frozen=True)
class Fit:
    """Curves, with what they need to follow a collection's searches."""

    curve: Curve
    start: Pair
    answerable: Pair

    def followed(self, queries: list[Query], order: Iterable[int]) -> Iterator[tuple[int, Pair]]:
        """Each query in this order, with what the collection has learned before it."""
        baseline, weight = ScoreBaseline(self.start), weights(queries, self.answerable)
        for at in order:
            yield at, baseline.deviations()
            baseline.update(queries[at].profile, weight[at])

    def learned(self, queries: list[Query]) -> Pair:
        """What the collection has learned once all queries came."""
        baseline = ScoreBaseline(self.start)
        for query, weight in zip(queries, weights(queries, self.answerable), strict=True):
            baseline.update(query.profile, weight)
        return baseline.deviations()


def fit_answerable(asked: Asked, kind: str, sets: list[str]) -> Pair:
    """Fits how near a collection has to come to a query that it can answer."""
    rows: list[Row] = []
    for pair in ((collection, queries) for collection in sets for queries in sets):
        nearness = [query.hits[kind][0].nearness for query in asked[pair] if query.hits[kind]]
        own = pair[0] == pair[1]
        weight = (1000.0 if own else 1000.0 / (len(sets) - 1)) / len(nearness)
        rows += [((1.0, one), float(own), weight) for one in nearness]
    intercept, slope = logistic(rows, (0.0, 0.0), (math.inf, 1000.0))
    return SHARPNESS * intercept, SHARPNESS * slope


def mean_profile(queries: list[Query], answerable: Pair) -> Pair:
    """The mean profile of the queries, each with its weight."""
    found = zip(queries, weights(queries, answerable), strict=True)
    seen = [(query.profile, weight) for query, weight in found]

    def of(at: int) -> float:
        known = [(profile[at], weight) for profile, weight in seen]
        pairs = [(value, weight) for value, weight in known if value is not None]
        return sum(value * weight for value, weight in pairs) / sum(weight for _, weight in pairs)

    return of(0), of(1)


def fit(asked: Asked, kind: str, sets: list[str]) -> Fit:
    """Fits the curves over some sets, each of which weighs the same."""
    answerable = fit_answerable(asked, kind, sets)
    of_hybrid = answerable if kind == "hybrid" else fit_answerable(asked, "hybrid", sets)
    profiles = {name: mean_profile(asked[name, name], of_hybrid) for name in sets}
    start = (mean(one for one, _ in profiles.values()), mean(one for _, one in profiles.values()))
    rows: list[Row] = []
    for pair in ((collection, queries) for collection in sets for queries in sets):
        queries, weight = asked[pair], 1000.0
        if pair[0] != pair[1]:
            queries = queries[:: max(1, len(queries) // FOREIGN_QUERIES_MAX)]
            weight *= FOREIGN_WEIGHTS[kind] / (len(sets) - 1)
        cosine, drop = (one - other for one, other in zip(profiles[pair[0]], start, strict=True))
        hits = [hit for query in queries for hit in query.hits[kind] if hit.exactness == "similar"]
        for hit in hits:
            behind = -(hit.gap ** POWERS[kind])
            odds = answerable[0] + answerable[1] * hit.nearness
            values = (1.0, behind, -softplus(-odds), cosine, behind * drop, hit.share * sigmoid(odds))
            rows.append((values, hit.relevant, weight / len(hits)))
    best, gap, unanswerable, cosine, drop, share = logistic(rows, (0.0,) * len(PRIOR_OF_CURVES), PRIOR_OF_CURVES)
    return Fit(Curve(answerable, best, gap, POWERS[kind], unanswerable, share, cosine, drop), start, of_hybrid)
