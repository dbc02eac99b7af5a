"""Tests of the published tables: a tiny run, rows without gaps, and the pages that follow from the figures in the repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from xml.etree import ElementTree

import collect
import published
import side_by_side
from collect import Figure
from published import EXPERIMENTS, Row

ROOT = side_by_side.ROOT
BENCHMARKS = ROOT / "docs" / "benchmarks"
BINARIES = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "checked" / "examples"
ROWS = [(experiment.name, row) for experiment in EXPERIMENTS for table in experiment.tables for row in table.rows]


class Rows(unittest.TestCase):
    def test_a_row_has_a_figure_of_ours_or_the_reason_why_not(self) -> None:
        for name, row in ROWS:
            self.assertNotEqual(bool(row.key), bool(row.why), f"{name}: {row.label}")

    def test_a_figure_has_one_row(self) -> None:
        keys = [row.key for _, row in ROWS if row.key]
        self.assertEqual(len(keys), len(set(keys)))

    def test_a_value_is_the_published_one(self) -> None:
        for name, row in ROWS:
            if row.value is not None:
                digits = row.published.removeprefix("about ").replace(",", "")
                self.assertEqual(float(digits), row.value, f"{name}: {row.label}")

    def test_every_figure_that_was_handed_on_has_its_row(self) -> None:
        shown = {row.published for _, row in ROWS}
        engine = "416 21,006 234 712 984 290 4,782 27,287 74 103 6 648 766"
        gateway = "356 150 387 456 123 126 450 117 228 451 114 6.5 13 15 29 57 11 22 44 1,161 378"
        chain = "11.2 2.9 9 1.83 1.15 1.9"
        layers = "4 35 50 1.7 5,789 5 670 1,250 6,000"
        for figure in f"{engine} {gateway} {chain} {layers}".split():
            self.assertIn(figure, shown)
        self.assertLessEqual({"about 4", "about 20", "about 35", "less than 0.1"}, shown)


class Collected(unittest.TestCase):
    def test_every_row_is_made_by_a_script(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            for kind, made in MADE.items():
                (folder / f"{kind}.json").write_text(json.dumps({"machine": "2 cores of X (y)"} | made))
            found = collect.collect([folder])
        missing = {row.key for _, row in ROWS if row.key} - set(found)
        self.assertEqual(missing, set())
        self.assertEqual(found["rate Weir"], Figure(2_000.0, "gateway", "2 cores of X"))
        self.assertEqual(found["replicas Weir 10,000"].value, 5)
        self.assertEqual(found["saved Weir high"].value, (100 - 5) * 1_700)
        self.assertAlmostEqual(found["added L3"].value, 0.5)
        self.assertEqual(found["chaos direct"].value, 90)
        self.assertEqual((found["index slowest"].value, found["workers fastest"].value), (5.0, 70.0))

    def test_a_later_folder_goes_before_an_earlier_one(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            folders = [Path(name) / "a", Path(name) / "b", Path(name) / "empty"]
            for folder, rate in zip(folders[:2], (1.0, 2.0)):
                folder.mkdir()
                made = {"machine": "m", "is_stub": False, "steps": [], "rows": [], "targets": [], "tcp_copy_gbit_per_s": {"1": [rate]}}
                (folder / "wire.json").write_text(json.dumps(made))
            self.assertEqual(collect.collect(folders)["copy"].value, 2.0)


class Pages(unittest.TestCase):
    def test_the_pages_follow_from_the_figures(self) -> None:
        text = side_by_side.SUMMARY_PAGE.read_text(encoding="utf-8")
        for path, made in side_by_side.files(side_by_side.read_figures(), text).items():
            self.assertTrue(path.read_text(encoding="utf-8") == made, f"{path.name} is stale: PYTHONPATH=bench python bench/published/side_by_side.py")

    def test_ratios_are_in_our_favour_above_one(self) -> None:
        figure = Figure(50.0, "engine", "m")
        self.assertEqual(side_by_side.ratio(Row("a", "100", "k", value=100, more_is_better=False), figure), 2.0)
        self.assertEqual(side_by_side.ratio(Row("a", "100", "k", value=100), figure), 0.5)
        self.assertIsNone(side_by_side.ratio(Row("a", "", "k"), figure))

    def test_what_was_not_measured_is_said(self) -> None:
        row = Row("a", "1", "k", value=1)
        self.assertEqual(side_by_side.row_cells(row, {})[2:4], ["not measured yet", ""])
        self.assertEqual(side_by_side.row_cells(Row("a", "1", why="no reason"), {})[2:], ["", "", "no reason"])
        self.assertEqual(side_by_side.row_cells(row, {"k": Figure(-0.25, "llm", "m")})[2], "**−0.250**")
        step = Row("a", "", "k", rate=500, most="most a")
        beyond, within = ({"most a": Figure(most, "llm", "m")} for most in (549.0, 550.0))
        self.assertEqual(side_by_side.row_cells(step, beyond)[2:], ["", "", "it does 549 requests/s at most here"])
        self.assertEqual(side_by_side.row_cells(step, within)[2], "not measured yet")

    def test_plots_are_svg_with_a_bar_for_each_ratio(self) -> None:
        figures = {"end": Figure(3.8, "wire", "m")}
        plot = ElementTree.fromstring(side_by_side.plot(published.WIRE, figures))
        bars = [one for one in plot.iter("{http://www.w3.org/2000/svg}rect") if one.get("fill") == "#0b6e4f"]
        self.assertEqual(len(bars), 1)


class TinyRun(unittest.TestCase):
    def test_the_search_engine_is_measured(self) -> None:
        binary = BINARIES / "bench_search"
        if not binary.exists():
            self.skipTest(f"{binary} is not built")
        with tempfile.TemporaryDirectory() as name:
            command = [sys.executable, str(Path(__file__).with_name("engine.py")), "--tiny", "--binaries", str(BINARIES)]
            paths = f"{ROOT / 'bench'}:{ROOT / 'bench' / 'search'}"
            environment = os.environ | {"PYTHONPATH": paths}
            done = subprocess.run([*command, "--cache", name, "--out", name], capture_output=True, text=True, env=environment, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
            found = collect.collect([Path(name)])
        for key in ("index serial 100", "index in batches 300", "latency 300 p99", "workers 3 50", "parse complex", "fusion 100", "memory warm"):
            self.assertIn(key, found)
        self.assertGreater(found["index in batches 300"].value, found["index serial 100"].value)
        low, high = map(float, found["parse simple"].spread.split(" to "))
        self.assertLessEqual(low, high)


def summary_of(value: float) -> dict[str, float]:
    """Of an engine."""
    return dict.fromkeys(("p50", "p95", "p99", "mean", "low", "high"), value)


def loads() -> list[dict[str, object]]:
    """What bench/llm writes of its rows, for every target."""
    targets = ["direct", "Rust floor", "Go ReverseProxy", "Weir L1", "Weir L2", "Weir L3", "Portkey", "LiteLLM, 4 workers", "litellm-rs"]
    names = ["closed-1k", "chaos", *(f"rate-{rate}" for rate in published.STEPS), *(f"loaded-{latency}" for latency in published.BACKENDS)]
    names += [f"{what}-{size}" for what in ("request", "reply") for size in ("1k", "10k", "100k", "1m")]
    late = {"Weir L2": 0.25, "Weir L3": 0.5}
    row = {"latency_ms_p50": 1.0, "requests_per_s": 20.0, "requests_per_cpu_s": 10.0, "added": {"ms_p50": 0.1, "ms_p95": 0.2}, "ok": 90, "requests": 100}
    return [row | {"scenario": name, "target": target, "latency_ms_p95": 2.0 + late.get(target, 0.0)} for name in names for target in targets]


def services() -> dict[str, object]:
    """What bench/gateway writes."""
    rates = {"Python, PyTorch f32": 100, "Python, ONNX int8": 500, "Weir, ONNX": 450, "Weir split": 1_800, "Weir thin": 4_000, "Weir monolith": 2_000}
    rows = [{"service": name, "concurrency": 16, "requests_per_s": rate, "latency_ms_p95": 10.0, "rss_mib": 90.0} for name, rate in rates.items()]
    facts = {name: {"start_seconds": [0.1, 0.2, 0.3], "shipped": {"program_bytes": 2**20, "model_bytes": 2**20, "what": ""}} for name in rates}
    return {"rows": rows, "facts": facts}


MADE: dict[str, dict[str, object]] = {
    "engine": {
        "index": {
            "serial": {str(size): 5.0 for size in published.SIZES if size <= published.SERIAL_MAX},
            "in batches": {str(size): 50.0 for size in published.SIZES},
        },
        "latency": {str(size): summary_of(1.0) for size in published.LATENCY_SIZES},
        "workers": {str(workers): {str(queries): 70.0 for queries in published.QUERIES} for workers in published.WORKERS},
        "parse": {kind: summary_of(1.0) for kind in published.PARSED},
        "fusion": {str(length): summary_of(1.0) for length in published.FUSED},
        "memory": {"before": 1.0, "after": 2.0, "opened": 3.0, "warm": 4.0},
    },
    "search": {
        "engines": [],
        "targets": [],
        "searches": [
            {"engine": name, "documents": 50_000, "mode": "hybrid", "cores": 1, "below": None, "p50_ms": 1.0} for name in ("Weir", "Qdrant Edge", "LanceDB", "OpenSearch", "OpenSearch, three nodes")
        ],
    },
    "gateway": services(),
    "llm": {"rows": loads()},
    "wire": {
        "is_stub": False,
        "steps": [{"before": before, "after": after, "factor": 2.0} for before, after, _ in published.CHAIN],
        "rows": [
            {"link": link, "batch": batch, "requests": requests, "gbit_per_s_mean": 1.0, "gbit_per_s_sigma": 0.1}
            for link in published.LINKS
            for batch in (32, 256)
            for requests in (100, 1_000)
        ],
        "targets": [{"what": "vectors per CPU-second", "value": 1.4}],
        "tcp_copy_gbit_per_s": {"1": [20.0]},
    },
}


if __name__ == "__main__":
    unittest.main()
