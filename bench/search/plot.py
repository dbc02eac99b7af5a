"""The plots of the page: latency by size, searches a second by threads, and how cost grows with size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import matplotlib

from engines import OURS, OURS_HTTP
from pages import core_count
from report import Case, Report

matplotlib.use("svg")

import matplotlib.pyplot as plt  # noqa: E402
from matplotlib.artist import Artist  # noqa: E402
from matplotlib.axes import Axes  # noqa: E402
from matplotlib.figure import Figure  # noqa: E402

COLOURS = {
    OURS: "#0b6e4f",
    OURS_HTTP: "#3fa37c",
    "Weir, text only": "#9fd3bd",
    "LanceDB": "#d1662f",
    "LanceDB, by hand": "#efb089",
    "Qdrant Edge": "#b3294e",
    "Chroma": "#7b5ea7",
    "bm25s + numpy": "#7a7a7a",
    "PostgreSQL": "#31648c",
    "OpenSearch": "#c9a227",
    "OpenSearch, three nodes": "#e6d28a",
}
# At which size rates by threads are drawn.
RATE_DOCUMENTS = 50_000
THREADS = (1, 2, 4)


def draw(report: Report, folder: Path) -> None:
    """Writes the plots as SVG, the same bytes for the same figures."""
    plt.rcParams.update({"svg.hashsalt": "weir", "svg.fonttype": "none", "font.size": 9})
    save(latency(report), folder / "search-latency.svg")
    save(rate(report), folder / "search-rate.svg")
    save(cost(report), folder / "search-cost.svg")


def save(figure: Figure, file: Path) -> None:
    """With the legend below."""
    found: dict[str, Artist] = {}
    for axes in figure.axes:
        handles, labels = axes.get_legend_handles_labels()
        found.update(zip(labels, handles, strict=True))
    figure.legend(list(found.values()), list(found), loc="lower center", ncols=5, frameon=False)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    figure.patch.set_facecolor("white")
    figure.savefig(file, metadata={"Date": None})
    plt.close(figure)


def latency(report: Report) -> Figure:
    """p50 and, dotted, p99 of each kind of search by size, on one core."""
    figure, all_axes = plt.subplots(1, 3, figsize=(12, 4.4), sharey=True)
    for axes, mode in zip(all_axes, ("hybrid", "lexical", "dense"), strict=True):
        for name, colour in COLOURS.items():
            found = [(size, report.found(name, Case(size, mode, None, 1))) for size in report.sizes]
            measured = [(size, samples) for size, samples in found if samples]
            sizes = [size for size, _ in measured]
            axes.plot(
                sizes, [samples.ms(0.5) for _, samples in measured], color=colour, marker="o", markersize=4, label=name
            )
            axes.plot(sizes, [samples.ms(0.99) for _, samples in measured], color=colour, linestyle=":", linewidth=1)
        axes.set(xscale="log", yscale="log", xlabel="documents", title=f"{mode}, one core")
        axes.grid(alpha=0.3)
    all_axes[0].set_ylabel("ms: p50, dotted p99")
    return figure


def rate(report: Report) -> Figure:
    """Searches a second by threads."""
    figure, all_axes = plt.subplots(1, 2, figsize=(11, 4.4))
    for axes, mode in zip(all_axes, ("hybrid", "lexical"), strict=True):
        for name, colour in COLOURS.items():
            found = [(threads, report.rates.get((name, RATE_DOCUMENTS, mode, threads))) for threads in THREADS]
            measured = [(threads, rate) for threads, rate in found if rate]
            axes.plot(
                [threads for threads, _ in measured], [rate for _, rate in measured],
                color=colour, marker="o", markersize=4, label=name,
            )  # fmt: skip
        axes.set(yscale="log", xlabel="threads", title=f"{mode}, {RATE_DOCUMENTS:,} documents, {core_count(report.cores)}")
        axes.set_xticks(THREADS, [str(threads) for threads in THREADS])
        axes.grid(alpha=0.3)
    all_axes[0].set_ylabel("searches/s")
    return figure


def cost(report: Report) -> Figure:
    """What a document costs, by size."""
    figure, all_axes = plt.subplots(1, 3, figsize=(12, 4.4))
    drawn: list[tuple[str, Callable[[int, str], float]]] = [
        ("resident bytes per document, warm", lambda size, name: report.facts[size, name].resident(size)[1]),
        ("disk bytes per document", lambda size, name: report.facts[size, name].built.disk_bytes / size),
        ("µs to build, per document", lambda size, name: report.facts[size, name].built.total_seconds / size * 1e6),
    ]
    for axes, (title, value) in zip(all_axes, drawn, strict=True):
        draw_cost(axes, report, value)
        axes.set(xscale="log", yscale="log", xlabel="documents", title=title)
        axes.grid(alpha=0.3)
    return figure


def draw_cost(axes: Axes, report: Report, value: Callable[[int, str], float]) -> None:
    """A line for each engine."""
    for name, colour in COLOURS.items():
        sizes = [size for size in report.sizes if (size, name) in report.facts]
        axes.plot(sizes, [value(size, name) for size in sizes], color=colour, marker="o", markersize=4, label=name)
