#!/usr/bin/env python3
"""Fits and measures the estimate of relevance over evaluation sets; prints tables, coefficients, and draws a plot.

Ingests the sets into a gateway of its own, asks every query of every set of every collection, and reads what the
estimate sees of the hits through the example `relevance_features`. Then, for each kind of search:

- calibration: expected calibration error (ten bins of one width) over a set's (query, hit) pairs of the first ten hits,
  and over the first hits alone, by curves that were fitted without the set, while its queries come one after the other
  to a collection that learns from them what its searches usually find, in random orders; hits without a judgment count
  as not relevant;
- the same before any query came, and once all have;
- feedback: the calibration error when some judged hits of the set refine the curves;
- answerable or not: area under the ROC of a set's own queries against those of another set asked of its collection, by
  the best relevance among the hits, with the same curves, beside raw top-1 cosine;
- right or wrong: area under the ROC of a set's right first hits against its wrong ones, by relevance with the same curves,
  beside raw top-1 cosine;
- the limit: the calibration error if the share of relevant hits were known, that of judged hits alone, and that of
  curves that know all judgments of all sets.

    cargo build --release --workspace --example relevance_features
    scripts/relevance.py --data /path/to/sets --work /tmp/relevance --plot docs/benchmarks/relevance.svg

A second run with the same `--work` measures again without ingesting.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from random import Random
from statistics import fmean as mean
from typing import Any

import quality
from evaluation_sets import EvaluationSet, Gateway, ingest, load_set
from relevance_curves import AS_AT_START, Asked, Curve, Fit, Hit, Pair, Query, Row, fit, logistic, sigmoid

SETS = ("scifact", "cranfield", "cacm", "xquad_en", "dbpedia_entity_subset5k", "trecqa")
KINDS = ("hybrid", "dense", "lexical")
BINS = 10
# The prior of the product's refinement: standard deviations of shift and slope.
PRIOR = (0.5, 0.25)
FEEDBACK = (10, 30, 100)
REPEATS = 20
THRESHOLDS = (0.05, 0.1, 0.2, 0.3, 0.4)
# The threshold whose results are shown pair by pair.
THRESHOLD = 0.2


def calibration_error(pairs: list[tuple[float, float]]) -> float:
    """Expected calibration error of (probability, label) pairs."""
    error = 0.0
    for members in bins(pairs):
        if members:
            expected, observed = mean(p for p, _ in members), mean(y for _, y in members)
            error += len(members) / len(pairs) * abs(expected - observed)
    return error


def bins(pairs: list[tuple[float, float]]) -> list[list[tuple[float, float]]]:
    """The pairs by probability, in bins of one width."""
    found: list[list[tuple[float, float]]] = [[] for _ in range(BINS)]
    for pair in pairs:
        found[min(int(pair[0] * BINS), BINS - 1)].append(pair)
    return found


def area_under_roc(above: list[float], below: list[float]) -> float:
    """The probability that one of `above` is larger than one of `below`; ties count half."""
    ranked = sorted([(value, 1) for value in above] + [(value, 0) for value in below])
    total, at = 0.0, 0
    while at < len(ranked):
        end = at
        while end < len(ranked) and ranked[end][0] == ranked[at][0]:
            end += 1
        total += (at + 1 + end) / 2 * sum(label for _, label in ranked[at:end])
        at = end
    count = len(above)
    return (total - count * (count + 1) / 2) / (count * len(below))


# (probability, label) of the hits of every query.
Judged = list[list[tuple[float, float]]]


def judged(
    queries: list[Query], kind: str, curve: Curve, deviations: Pair, refined: tuple[float, float] = (0.0, 1.0)
) -> Judged:
    """What the hits of every query are judged to be, and are."""
    shift, slope = refined
    return [
        [(sigmoid(shift + slope * curve.log_odds(hit, deviations)), hit.relevant) for hit in query.hits[kind]]
        for query in queries
    ]


def judged_as_they_come(queries: list[Query], kind: str, fitted: Fit, seed: int) -> Judged:
    """The same while the collection learns from one query after the other, in a random order."""
    order = list(range(len(queries)))
    Random(seed).shuffle(order)  # noqa: S311 - not for secrets
    found = fitted.followed(queries, order)
    return [judged([queries[at]], kind, fitted.curve, deviations)[0] for at, deviations in found]


def flat(lists: Iterable[list[tuple[float, float]]]) -> list[tuple[float, float]]:
    """All pairs."""
    return [pair for one in lists for pair in one]


def some_of(hits: list[Hit], seed: int) -> list[Hit]:
    """Three hits that a user might have judged."""
    return Random(seed).sample(hits, min(3, len(hits)))  # noqa: S311 - not for secrets


def after_feedback(queries: list[Query], kind: str, curve: Curve, deviations: Pair, count: int) -> float:
    """The calibration error when `count` hits refine the curves, over the hits of queries without any of them."""
    errors = []
    for seed in range(REPEATS):
        order = list(range(len(queries)))
        Random(seed).shuffle(order)  # noqa: S311 - not for secrets
        told = {at for at in order[: max(count // 3, 1)] if queries[at].hits[kind]}
        hits = [hit for at in sorted(told) for hit in some_of(queries[at].hits[kind], seed + at)]
        rows: list[Row] = [((1.0, curve.log_odds(hit, deviations)), hit.relevant, 1.0) for hit in hits]
        shift, slope = logistic(rows, (0.0, 1.0), PRIOR)
        rest = [query for at, query in enumerate(queries) if at not in told]
        errors.append(calibration_error(flat(judged(rest, kind, curve, deviations, (shift, slope)))))
    return mean(errors)


def report(asked: Asked, kind: str, sets: list[str], plot: Path | None) -> Fit:
    """Prints the tables of one kind of search; the curves over all sets are what is shipped."""
    print(f"\n## {kind}\n")
    print("| set left out | queries | relevant (first ten / first) | expected | ECE | ECE of the first hit |", end="")
    print(" before any query | after all |" + "".join(f" after {count} judged |" for count in FEEDBACK))
    print("|---|---|---|---|---|---|---|---|" + "---|" * len(FEEDBACK))
    fits = {name: fit(asked, kind, [other for other in sets if other != name]) for name in sets}
    own: dict[str, list[tuple[float, float]]] = {}
    errors: list[tuple[float, ...]] = []
    for name in sets:
        queries, fitted = asked[name, name], fits[name]
        orders = [judged_as_they_come(queries, kind, fitted, seed) for seed in range(REPEATS)]
        own[name] = flat(orders[0])
        firsts = [[one[0] for one in lists if one] for lists in orders]
        learned = fitted.learned(queries)
        once, before = (flat(judged(queries, kind, fitted.curve, deviations)) for deviations in (learned, AS_AT_START))
        row = (
            mean(calibration_error(flat(lists)) for lists in orders),
            mean(calibration_error(first) for first in firsts),
            calibration_error(before),
            calibration_error(once),
            *(after_feedback(queries, kind, fitted.curve, learned, count) for count in FEEDBACK),
        )
        errors.append(row)
        base, base_first = mean(y for _, y in own[name]), mean(y for _, y in firsts[0])
        expected = mean(p for lists in orders for p, _ in flat(lists))
        expected_first = mean(p for first in firsts for p, _ in first)
        shares = f"{base:.2f} / {base_first:.2f} | {expected:.2f} / {expected_first:.2f}"
        print(f"| {name} | {len(queries)} | {shares} |" + "".join(f" {error:.3f} |" for error in row))
    means = [mean(column) for column in zip(*errors, strict=True)]
    print("| mean of the sets | | | |" + "".join(f" {error:.3f} |" for error in means))
    pooled = calibration_error(flat(own.values()))
    print(f"| all pairs together | | | | {pooled:.3f} |" + " |" * (len(means) - 1))
    everything = fit(asked, kind, sets)
    print_limits(asked, kind, fits, everything)
    print_areas(asked, kind, sets, fits)
    print_first_hits(asked, kind, sets, fits)
    print_thresholds(asked, kind, sets, fits)
    if plot:
        plot.write_text(reliability_plot(own), encoding="utf-8")
    return everything


def print_limits(asked: Asked, kind: str, fits: dict[str, Fit], everything: Fit) -> None:
    """Prints what would make the calibration error smaller, once all queries came."""
    print("\n| set | never judged | ECE of judged hits | share known | curves of all sets |")
    print("|---|---|---|---|---|")
    errors = []
    for name, fitted in fits.items():
        queries = asked[name, name]
        hits, deviations = [hit for query in queries for hit in query.hits[kind]], fitted.learned(queries)
        odds = [(fitted.curve.log_odds(hit, deviations), hit.relevant, hit.judged) for hit in hits]
        of_judged = [(sigmoid(log_odds), y) for log_odds, y, is_judged in odds if is_judged]
        # where relevant documents are listed and no others, judged hits are always right
        both = f"{calibration_error(of_judged):.3f}" if min(y for _, y in of_judged) == 0.0 else ""
        shift = shift_to_share([(log_odds, y) for log_odds, y, _ in odds])
        known = calibration_error([(sigmoid(log_odds + shift), y) for log_odds, y, _ in odds])
        of_all = flat(judged(queries, kind, everything.curve, everything.learned(queries)))
        errors.append((known, calibration_error(of_all)))
        unjudged = 100 * mean(float(not hit.judged) for hit in hits)
        print(f"| {name} | {unjudged:.0f} % | {both} |" + "".join(f" {error:.3f} |" for error in errors[-1]))
    print("| mean of the sets | | |" + "".join(f" {mean(column):.3f} |" for column in zip(*errors, strict=True)))


def shift_to_share(odds: list[tuple[float, float]]) -> float:
    """What added to all log-odds makes the mean probability of (log-odds, label) pairs the share of their labels."""
    share, low, high = sum(y for _, y in odds), -20.0, 20.0
    for _ in range(40):
        middle = (low + high) / 2
        is_much = sum(sigmoid(log_odds + middle) for log_odds, _ in odds) > share
        low, high = (low, middle) if is_much else (middle, high)
    return (low + high) / 2


def print_areas(asked: Asked, kind: str, sets: list[str], fits: dict[str, Fit]) -> None:
    """Prints how well own and foreign queries are told apart, beside raw top-1 cosine."""

    def best(collection: str, queries: str) -> list[float]:
        curve, deviations = fits[collection].curve, fits[collection].learned(asked[collection, collection])
        lists = judged(asked[collection, queries], kind, curve, deviations)
        return [max((pair[0] for pair in one), default=0.0) for one in lists]

    print("\n| collection (curves without it) |" + "".join(f" {name} |" for name in sets))
    print("|---|" + "---|" * len(sets))
    below = 0
    for name in sets:
        cells = []
        for other in sets:
            if other == name:
                cells.append("")
                continue
            ours = area_under_roc(best(name, name), best(name, other))
            raw = area_under_roc([q.cosine for q in asked[name, name]], [q.cosine for q in asked[name, other]])
            worse = ours < raw - 1e-9
            below += worse
            cells.append(f"{ours:.4f} ({raw:.4f})" + (" BELOW" if worse else ""))
        print(f"| {name} |" + "".join(f" {cell} |" for cell in cells))
    print(f"\nrelevance (raw top-1 cosine); pairs below raw cosine: {below} of {len(sets) * (len(sets) - 1)}")


def print_first_hits(asked: Asked, kind: str, sets: list[str], fits: dict[str, Fit]) -> None:
    """Prints how well right and wrong first hits are told apart, beside raw top-1 cosine."""
    print("\n| first hits: right against wrong | relevance | raw top-1 cosine |")
    print("|---|---|---|")
    areas = []
    for name in sets:
        queries, fitted = asked[name, name], fits[name]
        firsts = judged(queries, kind, fitted.curve, fitted.learned(queries))
        seen = [(one[0], query.cosine) for one, query in zip(firsts, queries, strict=True) if one]
        right, wrong = ([pair for pair in seen if pair[0][1] == label] for label in (1.0, 0.0))
        ours = area_under_roc([relevance for (relevance, _), _ in right], [relevance for (relevance, _), _ in wrong])
        raw = area_under_roc([cosine for _, cosine in right], [cosine for _, cosine in wrong])
        areas.append((ours, raw))
        print(f"| {name} | {ours:.3f} | {raw:.3f} |")
    print("| mean of the sets |" + "".join(f" {mean(column):.3f} |" for column in zip(*areas, strict=True)))


def print_thresholds(asked: Asked, kind: str, sets: list[str], fits: dict[str, Fit]) -> None:
    """Prints how many own and foreign queries still get a result at some values of `min_relevance`."""

    def kept(collection: str, queries: str, least: float) -> float:
        curve, deviations = fits[collection].curve, fits[collection].learned(asked[collection, collection])
        lists = judged(asked[collection, queries], kind, curve, deviations)
        return mean(float(any(p >= least for p, _ in one)) for one in lists)

    print("\n| min_relevance |" + "".join(f" {name} |" for name in sets))
    print("|---|" + "---|" * len(sets))
    for least in THRESHOLDS:
        cells = []
        for name in sets:
            foreign = mean(kept(name, other, least) for other in sets if other != name)
            cells.append(f" {100 * kept(name, name, least):.0f} / {100 * foreign:.0f} % |")
        print(f"| {least} |" + "".join(cells))
    print(f"\n| collection, queries that get a result at {THRESHOLD} |" + "".join(f" {name} |" for name in sets))
    print("|---|" + "---|" * len(sets))
    for name in sets:
        shares = [100 * kept(name, other, THRESHOLD) for other in sets]
        print(f"| {name} |" + "".join(f" {share:.0f} % |" for share in shares))


def reliability_plot(own: dict[str, list[tuple[float, float]]]) -> str:
    """An SVG: what came true over what was expected, a panel for each set."""
    size, gap, columns = 170, 40, 3
    rows = -(-len(own) // columns)
    width, height = columns * (size + gap) + gap, rows * (size + gap + 14) + gap
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        ' font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for at, (name, pairs) in enumerate(own.items()):
        x, y = gap + at % columns * (size + gap), gap + at // columns * (size + gap + 14)
        title = f"{name}: ECE {calibration_error(pairs):.3f}"
        out += [
            f'<text x="{x}" y="{y - 6}">{title}</text>',
            f'<rect x="{x}" y="{y}" width="{size}" height="{size}" fill="none" stroke="#999"/>',
            f'<path d="M{x} {y + size}L{x + size} {y}" stroke="#bbb" stroke-dasharray="3"/>',
            f'<text x="{x}" y="{y + size + 13}" fill="#666">expected 0..1, observed upwards</text>',
        ]
        for members in bins(pairs):
            if members:
                expected, observed = mean(p for p, _ in members), mean(v for _, v in members)
                radius = 2 + 9 * math.sqrt(len(members) / len(pairs))
                centre = f'cx="{x + size * expected:.1f}" cy="{y + size * (1 - observed):.1f}"'
                out.append(f'<circle {centre} r="{radius:.1f}" fill="#27c" fill-opacity="0.6"/>')
    return "\n".join([*out, "</svg>", ""])


@contextmanager
def gateway(binary: Path, model: Path, work: Path) -> Iterator[str]:
    """A gateway over `work/data`: its URL while it's ready."""
    address = "127.0.0.1:18473"
    log = work / "log"
    with log.open("wb") as sink:
        command = [str(binary), "serve", "--listen", address, "--data-dir", str(work / "data"), "--model", str(model)]
        server = subprocess.Popen(command, stdout=sink, stderr=sink)
    try:
        quality.wait_until_ready(f"http://{address}", server, log)
        yield f"http://{address}"
    finally:
        server.terminate()
        server.wait(timeout=60)


def embeddings(connection: Gateway, texts: list[str]) -> list[list[float]]:
    """Embeds texts."""
    found: list[list[float]] = []
    for at in range(0, len(texts), 64):
        reply = connection.call("POST", "/v1/embeddings", {"model": "all-MiniLM-L6-v2", "input": texts[at : at + 64]})
        found += [item["embedding"] for item in reply["data"]]
    return found


def collect(data: dict[str, EvaluationSet], options: argparse.Namespace) -> None:
    """Ingests what isn't there, embeds all queries, and writes what the estimate sees into `work/seen`."""
    work: Path = options.work
    searches: dict[str, str] = {}
    with gateway(options.binary, options.model, work) as url, closing(Gateway(url)) as connection:
        there = {one["name"] for one in connection.call("GET", "/v1/collections")["data"]}
        for name, one in data.items():
            if collection_name(name) not in there:
                ingest(connection, collection_name(name), one.documents)
            lines = zip(one.queries.values(), embeddings(connection, list(one.queries.values())), strict=True)
            searches[name] = "".join(json.dumps({"query": text, "embedding": row}) + "\n" for text, row in lines)
    with closing(sqlite3.connect(work / "data" / "store.sqlite3")) as store:
        ids = dict(store.execute("SELECT name, id FROM collections"))
    (work / "seen").mkdir(exist_ok=True)
    for collection in data:
        folder = max((work / "data" / "index" / str(ids[collection_name(collection)])).iterdir())
        form = json.loads((folder / "FORMAT").read_text(encoding="utf-8"))
        command = [str(options.features), str(folder), str(form["dimension"]), form["fingerprint"]]
        for name, asked in searches.items():
            ran = subprocess.run(command, input=asked, capture_output=True, text=True, check=True)
            (work / "seen" / f"{collection}.{name}.jsonl").write_text(ran.stdout, encoding="utf-8")


def collection_name(name: str) -> str:
    """What a set's collection is called."""
    return name.replace("_", "-")


def read(data: dict[str, EvaluationSet], work: Path) -> Asked:
    """What was collected, with the judgments."""
    asked: Asked = {}
    for collection in data:
        for name, one in data.items():
            lines = (work / "seen" / f"{collection}.{name}.jsonl").read_text(encoding="utf-8").splitlines()
            asked[collection, name] = [
                query_of(json.loads(line), one.judgments[query] if collection == name else {})
                for query, line in zip(one.queries, lines, strict=True)
            ]
    return asked


def query_of(seen: dict[str, Any], scores: dict[str, int]) -> Query:
    """One line of the example's output."""
    hits = {
        kind: [
            Hit(near, gap, float(scores.get(document, 0) > 0), document in scores, share, exactness)
            for document, near, gap, share, exactness in seen[kind]
        ]
        for kind in KINDS
    }
    cosine, drop = seen["shape"]
    return Query(hits, float(seen["best_cosine"] or 0.0), (cosine, drop))


def main(arguments: list[str]) -> int:
    """Collects, fits and prints; 0, also when there is no data, which is said."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", quality.ROOT / "target")) / "release"
    parser = argparse.ArgumentParser(description="Fit and measure the estimate of relevance.")
    parser.add_argument("sets", nargs="*", default=list(SETS), help="folders below the data folder")
    parser.add_argument("--data", default=os.environ.get("WEIR_EVAL_DATA", ""), help="folder of the sets")
    parser.add_argument("--work", type=Path, required=True, help="folder for the gateway's data and what was seen")
    parser.add_argument("--binary", type=Path, default=target / "weir")
    parser.add_argument("--features", type=Path, default=target / "examples" / "relevance_features")
    parser.add_argument("--model", type=Path, default=quality.ROOT / "models" / "all-MiniLM-L6-v2")
    parser.add_argument("--plot", type=Path, help="write the reliability plot of hybrid search here")
    parser.add_argument("--again", action="store_true", help="measure what an earlier run saw")
    options = parser.parse_args(arguments)
    if not options.data or not Path(options.data).is_dir():
        print(f"relevance: SKIPPED, no data folder at `{options.data}`; name one with --data")
        return 0
    options.work.mkdir(parents=True, exist_ok=True)
    data = {name: load_set(Path(options.data) / name) for name in options.sets}
    if not options.again:
        collect(data, options)
    asked = read(data, options.work)
    shipped = {kind: report(asked, kind, list(data), options.plot if kind == "hybrid" else None) for kind in KINDS}
    print("\n## Coefficients over all sets, for `crates/ranking/src/relevance/mod.rs`, and the start, for `baseline.rs`\n")
    for kind, fitted in shipped.items():
        print(f"{kind.upper()}: {fitted.curve}")
    print("start: {:.3f} {:.3f}".format(*shipped["hybrid"].start))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
