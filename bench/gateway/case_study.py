"""The tables of the published case study, computed from what was measured: improvement, replicas, cost.

Published at concurrency 16 with 2,000 requests on 4 vCPU. Its formulae, as its figures show them:

- improvement: the change against the Python monolith, as a share of the monolith's figure;
- replicas for a load: the load divided by the requests/s of one replica, rounded up;
- yearly savings: the replicas that are saved times the price of a node;
- memory of a small deployment: the replicas for the most that it is asked for times the memory of one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

LOADS_PER_S = (5_000, 10_000, 20_000)
# Dollars a year.
NODE_PRICES = (1_200, 1_700)
# Of a small deployment: the least and the most requests/s.
SMALL_LOADS_PER_S = (500, 1_000)


@dataclass(frozen=True)
class Figures:
    """One service at concurrency 16."""

    name: str
    requests_per_s: float
    latency_ms_p95: float
    rss_mib: float


# What was published; the first is what the others are compared with.
PUBLISHED = (
    Figures("Python monolith", 356, 150, 387),
    Figures("Rust monolith with ONNX", 456, 123, 126),
    Figures("split", 450, 117, 228),
    Figures("Go thin", 451, 114, 6.5),
)
PUBLISHED_HARNESS_LIMIT_PER_S = 450


@dataclass(frozen=True)
class Improvement:
    """Changes in percent: requests/s should grow, the others shrink."""

    name: str
    requests_per_s: float
    latency_p95: float
    rss: float


def improvement(base: Figures, other: Figures) -> Improvement:
    """Of a service against the Python monolith."""
    return Improvement(
        other.name,
        change(base.requests_per_s, other.requests_per_s),
        change(base.latency_ms_p95, other.latency_ms_p95),
        change(base.rss_mib, other.rss_mib),
    )


def change(before: float, after: float) -> float:
    """In percent of what was before."""
    return (after / before - 1) * 100


def replicas(load_per_s: float, requests_per_s: float) -> int:
    """How many serve a load."""
    return math.ceil(load_per_s / requests_per_s)


def savings(base: Figures, other: Figures, load_per_s: float) -> tuple[int, int]:
    """Dollars a year at the lower and the higher price of a node."""
    saved = replicas(load_per_s, base.requests_per_s) - replicas(load_per_s, other.requests_per_s)
    return saved * NODE_PRICES[0], saved * NODE_PRICES[1]


def small_deployment(figures: Figures) -> tuple[int, float]:
    """Replicas for the small load, and their memory in MiB."""
    count = replicas(SMALL_LOADS_PER_S[1], figures.requests_per_s)
    return count, count * figures.rss_mib
