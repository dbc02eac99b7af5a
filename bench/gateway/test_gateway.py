"""Tests of the comparison of gateways: a tiny run, and the tables that follow from known figures."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import case_study
import documents
import report
import services
from case_study import PUBLISHED, Figures
from documents import ROOT
from processes import usage
from report import Load, Report, SettingResult
from services import GO, PYTHON_ONNX, PYTHON_TORCH, WEIR, WEIR_SPLIT, WEIR_THIN, PythonSetting

CHECKED = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "checked"
GO_TOOL = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
GO_SOURCE = services.PEERS / "go_thin"


def load(requests_per_s: float, p95: float = 10.0, rss: float = 100.0) -> Load:
    """A turn without failures."""
    return Load(1000, 0, requests_per_s, p95 / 2, p95, p95 * 2, rss, 1.5)


def made_report() -> Report:
    """Every row at two concurrencies, with figures that reach some targets."""
    run = {"documents": 5000, "characters_mean": 1400, "source": "made up", "queries": 800, "rounds": 1, "seconds": 1.0}
    found = Report(run, [PYTHON_TORCH, PYTHON_ONNX, GO, WEIR, WEIR_SPLIT, WEIR_THIN])
    rates = {PYTHON_TORCH: 30.0, PYTHON_ONNX: 40.0, GO: 2000.0, WEIR: 1000.0, WEIR_SPLIT: 850.0, WEIR_THIN: 1900.0}
    for name, rate in rates.items():
        for concurrency in (1, 16):
            found.loads[name, concurrency] = [load(rate, p95=1e4 / rate, rss=1000.0 if "Python" in name else 90.0)]
    found.settings = [SettingResult("torch, slow", load(20.0)), SettingResult("torch, fast", load(30.0))]
    return found


class CaseStudy(unittest.TestCase):
    """The published figures give the published tables."""

    def setUp(self) -> None:
        self.python, self.rust, self.split, self.go = PUBLISHED

    def test_replicas_are_rounded_up(self) -> None:
        for figures, wanted in ((self.python, [15, 29, 57]), (self.rust, [11, 22, 44])):
            found = [case_study.replicas(at, figures.requests_per_s) for at in case_study.LOADS_PER_S]
            self.assertEqual(found, wanted, figures.name)
        self.assertEqual(case_study.replicas(912, 456), 2)

    def test_savings_are_the_replicas_saved_times_the_price_of_a_node(self) -> None:
        found = [case_study.savings(self.python, self.rust, at) for at in case_study.LOADS_PER_S]
        self.assertEqual(found, [(4_800, 6_800), (8_400, 11_900), (15_600, 22_100)])

    def test_a_slower_service_saves_less_than_nothing(self) -> None:
        slow = Figures("slow", 100, 1, 1)
        self.assertEqual(case_study.savings(self.python, slow, 5_000), (-35 * 1_200, -35 * 1_700))

    def test_improvement_is_the_change_in_percent(self) -> None:
        found = case_study.improvement(self.python, self.rust)
        rounded = [round(value) for value in (found.requests_per_s, found.latency_p95, found.rss)]
        self.assertEqual(rounded, [28, -18, -67])

    def test_a_small_deployment_has_the_replicas_of_its_highest_load(self) -> None:
        self.assertEqual(case_study.small_deployment(self.python), (3, 1161))
        self.assertEqual(case_study.small_deployment(self.rust), (3, 378))

    def test_the_tables_say_it(self) -> None:
        tables = report.case_tables(list(PUBLISHED))
        self.assertIn("| Rust monolith with ONNX | +28 % | -18 % | -67 % |", tables)
        self.assertIn("| Python monolith | 15 | 29 | 57 |", tables)
        self.assertIn("| split | $3,600 to $5,100 | $7,200 to $10,200 | $14,400 to $20,400 |", tables)
        self.assertIn("| Rust monolith with ONNX | 3 | 378 MiB |", tables)


class Page(unittest.TestCase):
    def test_the_better_python_is_what_ours_is_compared_with(self) -> None:
        found = made_report()
        self.assertEqual(found.best_python, PYTHON_ONNX)
        values = {(target.what, target.bound): (target.value, target.verdict) for target in report.targets(found)}
        against = f"{WEIR}: requests/s against"
        self.assertEqual(values[f"{against} the best Python monolith", 30], (25.0, "BELOW"))
        value, verdict = values[f"{against} {PYTHON_TORCH}, the published stack", 30]
        self.assertEqual((round(value or 0, 2), verdict), (33.33, "reached"))
        self.assertEqual(values[f"{WEIR_SPLIT}: requests/s against {WEIR}", 0.8], (0.85, "reached"))
        self.assertEqual(values[f"{WEIR_THIN}: requests/s against {GO}", 1], (0.95, "BELOW"))

    def test_a_row_that_was_not_measured_is_said(self) -> None:
        found = made_report()
        found.loads = {key: loads for key, loads in found.loads.items() if "Python" not in key[0]}
        self.assertEqual([target.verdict for target in report.targets(found)][:6], ["not measured"] * 6)
        self.assertEqual(report.figures(found)["case_study"], {})

    def test_all_settings_are_printed_the_best_first(self) -> None:
        lines = report.settings_table(made_report()).splitlines()[2:]
        self.assertEqual([line.split(" | ")[0] for line in lines], ["| torch, fast", "| torch, slow"])

    def test_the_page_has_every_concurrency_and_the_computed_tables(self) -> None:
        page = report.page(made_report())
        self.assertIn("| concurrency 1 |", page)
        self.assertIn("| concurrency 16 |", page)
        # 5,000 requests/s by 40 and by 1,000 a replica
        self.assertIn(f"| {PYTHON_ONNX} | 125 | 250 | 500 |", page)
        self.assertIn(f"| **{WEIR}** | $144,000 to $204,000 |", page)

    def test_the_middle_of_rounds_is_the_median_of_each_figure(self) -> None:
        found = report.middle([load(10, p95=5), load(30, p95=1), load(20, p95=9)])
        self.assertEqual((found.requests_per_s, found.latency_ms_p95, found.requests), (20, 5, 3000))

    def test_cpu_is_divided_by_the_answered_requests(self) -> None:
        names = ("latency_ms_p50", "latency_ms_p95", "latency_ms_p99")
        figures = dict.fromkeys(names, 1.0) | {"requests_per_s": 200.0, "duration_s": 2.0, "requests_failed": 3}
        found = Load.of(figures | {"server_rss_bytes_max": 2**21, "server_cpu_s": 0.8})
        self.assertEqual((found.requests, found.failures, found.rss_mib, found.cpu_ms_per_request), (400, 3, 2.0, 2.0))


class Documents(unittest.TestCase):
    def test_the_sample_becomes_as_many_different_documents_as_are_wanted(self) -> None:
        found = documents.load(None, 1_000)
        self.assertEqual(len({document["text"] for document in found.documents}), 1_000)
        self.assertTrue(all(len(query.split()) <= documents.QUERY_WORDS for query in found.queries))

    def test_sets_are_read_until_there_are_enough(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            for folder in ("another", "scifact"):
                (Path(name) / folder).mkdir()
                lines = [json.dumps({"_id": str(at), "title": "t", "text": f"{folder} {at}"}) + "\n" for at in range(3)]
                (Path(name) / folder / "corpus.jsonl").write_text("".join(lines))
                (Path(name) / folder / "queries.jsonl").write_text(json.dumps({"_id": "q", "text": f"about {folder}"}) + "\n")
            found = documents.load(Path(name), 4)
            self.assertEqual([document["id"] for document in found.documents], ["scifact-0", "scifact-1", "scifact-2", "another-0"])
            self.assertEqual(found.queries, ["about scifact", "about another"])
            with self.assertRaisesRegex(ValueError, "has 6 documents, 7 are wanted"):
                documents.load(Path(name), 7)


class Settings(unittest.TestCase):
    def test_threads_and_workers_go_up_to_the_cores(self) -> None:
        found = [(one.workers, one.threads) for one in services.python_settings(3) if one.backend == "torch"]
        self.assertEqual(found, [(workers, threads) for workers in (1, 2, 3) for threads in (3, 2, 1)])
        self.assertEqual(PythonSetting("onnx", 2, 1).name, "ONNX Runtime int8, 2 workers of 1 thread")

    def test_a_process_and_its_children_are_counted(self) -> None:
        code = "import subprocess, sys; subprocess.run([sys.executable, '-c', 'print(sum(range(9000000)), flush=True); input()'])"
        with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
            assert process.stdout is not None, "it was opened as a pipe"
            process.stdout.readline()
            pids = usage.tree([process.pid])
            self.assertEqual(len(pids), 2)
            self.assertGreater(usage.cpu_seconds(pids), usage.cpu_seconds([process.pid]))
            self.assertGreater(usage.resident_bytes(pids), 2**20)
            process.communicate(b"\n")
        self.assertEqual(usage.cpu_seconds(pids), 0.0)


class GoGateway(unittest.TestCase):
    def test_its_own_tests_pass(self) -> None:
        if GO_TOOL is None:
            self.skipTest("Go is not installed (apt install golang-go)")
        done = subprocess.run([GO_TOOL, "test", "./..."], cwd=GO_SOURCE, capture_output=True, text=True, check=False, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)


class PythonMonolith(unittest.TestCase):
    def test_its_own_tests_pass(self) -> None:
        python = ROOT / ".cache" / "bench-peers" / "python_monolith" / "bin" / "python"
        if not python.exists():
            self.skipTest(f"{python} is not installed: bench/gateway.sh does it")
        folder = services.PEERS / "python_monolith"
        command = [str(python), "-m", "unittest", "discover", "--start-directory", str(folder), "--pattern", "test_*.py"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)


class TinyRun(unittest.TestCase):
    def test_weir_and_go_are_measured(self) -> None:
        for binary in ("weir", "weir-bench"):
            if not (CHECKED / binary).exists():
                self.skipTest(f"{CHECKED / binary} is not built: cargo build --workspace --profile checked")
        with tempfile.TemporaryDirectory() as name:
            out = Path(name)
            if GO_TOOL is not None:
                subprocess.run([GO_TOOL, "build", "-o", out / "go_thin", "."], cwd=GO_SOURCE, check=True, timeout=300)
            command = [sys.executable, str(Path(report.__file__).with_name("measure.py")), "--tiny"]
            command += ["--weir", str(CHECKED / "weir"), "--load", str(CHECKED / "weir-bench"), "--cache", name, "--out", name]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            figures = json.loads((out / "gateway.json").read_text(encoding="utf-8"))
            self.assertIn(f"**{WEIR_THIN}**", (out / "gateway.md").read_text(encoding="utf-8"))
        wanted = [WEIR_THIN] if GO_TOOL is None else [GO, WEIR_THIN]
        self.assertEqual(sorted(row["service"] for row in figures["rows"]), wanted)
        for row in figures["rows"]:
            self.assertEqual(row["failures"], 0, row)
            self.assertGreater(row["requests"], 10)
            self.assertGreater(row["cpu_ms_per_request"], 0)
        self.assertGreater(figures["facts"][WEIR_THIN]["start_seconds"][0], 0)


if __name__ == "__main__":
    unittest.main()
