"""Tests of the comparison of LLM gateways: a tiny run, and the tables that follow from known figures."""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest
from dataclasses import replace
from pathlib import Path
from typing import Any

import costs
import goals
import measure
import postgres
import report
import results
import scenarios
import targets
from processes import EngineError
from processes.server import Server
from results import Check, Guarded, Load, Report, Rows, Timing
from scenarios import Kind, Scenario
from targets import DIRECT, FLOOR, GO, LITELLM, ROOT, WEIR, WEIR_EMBEDDING, WEIR_L2, WEIR_PG

TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
CHECKED = TARGET / "checked"
MODEL_FOLDER = Path(os.environ.get("WEIR_TEST_MODEL", ROOT / "models" / "all-MiniLM-L6-v2"))
GO_TOOL = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
# What weir-bench writes, as far as it is read here.
GENERATED: dict[str, Any] = {
    "requests_sent": 400,
    "requests_ok": 397,
    "failures": {"bad_status": 3, "timeout": 0},
    "requests_per_s": 198.5,
    "duration_s": 2.0,
    "latency_ms_p50": 1.0,
    "latency_ms_p95": 2.0,
    "latency_ms_p99": 3.0,
    "server_cpu_s": 0.08,
    "server_rss_bytes_max": 2**22,
    "server_rss_bytes_start": 2**21,
}


def load(requests_per_s: float, p50: float = 1.0, p95: float = 2.0, cpu_us: float = 50.0, **more: Any) -> Load:
    """A turn without failures."""
    found = Load(1000, 1000, {}, requests_per_s, p50, p95, p95 * 2, cpu_us, 1e6 / cpu_us, 30.0, 20.0)
    return replace(found, **more)


def made_report() -> Report:
    """Every kind of scenario, with figures that reach some goals."""
    found = Report({"seconds": 1.0, "rounds": 2, "has_plots": True}, scenarios.full((500, 5_000), 2_000, 10_000))
    found.names = [DIRECT, FLOOR, GO, WEIR, WEIR_L2, WEIR_PG]
    cpu_us = {DIRECT: 10.0, FLOOR: 40.0, GO: 150.0, WEIR: 50.0, WEIR_L2: 55.0, WEIR_PG: 65.0}
    for scenario in found.scenarios:
        for at, name in enumerate(found.names):
            for number in range(2):
                first = {"first_event_ms_p50": 50 + at / 10, "first_event_ms_p95": 55.0, "events": 103_000, "events_min": 103}
                turn = load(1e6 / cpu_us[name], 0.2 + at / 10, 0.4 + at / 5, cpu_us[name], **(first if scenario.is_stream else {}))
                found.add(scenario.name, name, number, turn)
    found.checks = {name: Check(103, name != GO) for name in found.names}
    found.rows = Rows("15.18", 5_000, 4_998, 4.4)
    found.details = dict.fromkeys(found.names, "made up")
    found.guardrails = [Guarded("scan, clean prompt (0 findings)", 3.0, 2.9, 4.0, "KB"), Guarded("scan, with hits (8 findings)", 7.0, 6.9, 6.0, "KB")]
    p50s = {
        costs.CHAT: 0.1,
        costs.HIT: 0.05,
        costs.SEMANTIC_HIT: 0.4,
        costs.EMBEDDING: 0.3,
        costs.CHAT_STREAM: 0.2,
        costs.SOURCES_STREAM: 0.9,
        costs.SEARCH: 0.5,
    }
    found.timings = {what: [Timing(ms, 2 * ms, 100.0, 500)] * 2 for what, ms in p50s.items()}
    return found


class PublishedRows(unittest.TestCase):
    def test_a_run_for_the_published_page_has_its_steps_backends_and_payloads(self) -> None:
        found = scenarios.published((500, 12_000))
        names = ["closed-1k", "rate-500", "rate-12000", *(f"loaded-{latency}" for latency in (0, 50, 200, 500))]
        names += [f"{what}-{size}" for size in ("1k", "10k", "100k", "1m") for what in ("request", "reply")]
        self.assertEqual([one.name for one in found], [*names, "chaos"])
        by_name = {one.name: one for one in found}
        self.assertEqual(by_name["request-1m"].body_bytes, 2**20)
        self.assertEqual(by_name["reply-1m"].mock, ("--response-bytes", str(2**20)))
        self.assertEqual(by_name["loaded-0"].mock, ())


class Figures(unittest.TestCase):
    def test_cpu_is_divided_by_the_requests_that_were_sent(self) -> None:
        found = Load.of(GENERATED)
        self.assertEqual((found.requests, found.ok, found.failures, found.failed), (400, 397, {"bad_status": 3}, 3))
        self.assertAlmostEqual(found.cpu_us_per_request, 200.0)
        self.assertAlmostEqual(found.requests_per_cpu_s, 5_000.0)
        self.assertEqual((found.rss_mib, found.rss_start_mib, found.events, found.cpu_us_per_event), (4.0, 2.0, 0, 0.0))

    def test_cpu_of_streams_is_divided_by_their_events(self) -> None:
        names = [f"{what}_ms_{at}" for what in ("first_event", "event_gap") for at in ("p50", "p95", "p99")]
        found = Load.of(GENERATED | dict.fromkeys(names, 7.0) | {"events": 4_000, "events_per_reply_min": 103})
        self.assertEqual((found.events, found.events_min, found.events_per_s, found.first_event_ms_p95), (4_000, 103, 2_000.0, 7.0))
        self.assertAlmostEqual(found.cpu_us_per_event, 20.0)

    def test_the_middle_of_rounds_is_the_median_of_each_figure_and_the_sum_of_counts(self) -> None:
        turns = [load(10, p95=5, failures={"reset": 2}, events_min=9), load(30, p95=1, events_min=7), load(20, p95=9, failures={"reset": 1})]
        found = results.middle(turns)
        self.assertEqual((found.requests_per_s, found.latency_ms_p95, found.requests), (20, 5, 3_000))
        self.assertEqual((found.failures, found.events_min), ({"reset": 3}, 0))

    def test_what_is_added_is_compared_within_each_round(self) -> None:
        found = Report({}, [scenarios.at_rate("rate-500", "", 500)], [DIRECT, WEIR])
        # A busy second round: by medians of all figures the difference would be another one.
        for number, (direct, ours) in enumerate([(1.0, 1.5), (10.0, 10.4), (1.0, 1.6)]):
            found.add("rate-500", DIRECT, number, load(500, direct, direct * 2))
            found.add("rate-500", WEIR, number, load(500, ours, ours * 2))
        added = found.added(found.scenarios[0], WEIR)
        assert added is not None, "both were measured"
        self.assertAlmostEqual(added.ms_p50, 0.5)
        self.assertAlmostEqual(added.ms_p95, 1.0)
        self.assertAlmostEqual(added.ratio_p50, 1.5)
        self.assertIsNone(found.added(found.scenarios[0], DIRECT))


class Page(unittest.TestCase):
    def test_nothing_is_added_by_a_target_that_did_not_answer(self) -> None:
        found = made_report()
        for number in range(2):
            found.add(f"stream-{scenarios.STREAM_RATES[0]}", WEIR, number, load(0, failures={"bad_status": 1000}, ok=0))
        self.assertIsNone(found.added(found.of_kind(Kind.STREAM)[0], WEIR))

    def test_goals_are_ratios_of_this_run(self) -> None:
        values = {goal.what: (goal.value, goal.verdict) for goal in goals.goals(made_report())}
        self.assertEqual(values[f"{WEIR}: requests/s in the closed loop against {FLOOR}"], (0.8, "reached"))
        self.assertEqual(values[f"{WEIR}: requests per CPU-second in the closed loop"], (20_000.0, "reached"))
        self.assertEqual(values[f"{WEIR_PG}: CPU per request at 5,000/s, more than {WEIR}"], (15.0, "ABOVE"))
        self.assertEqual(values[f"{WEIR_PG}: requests without a row"], (2.0, "ABOVE"))
        value, verdict = values[f"{WEIR}: added time to the first event, p50"]
        self.assertEqual((round(value or 0, 3), verdict), (0.3, "reached"))
        self.assertEqual(values[f"{WEIR}: p95 at 8,000/s"], (None, "not measured"))
        value, verdict = values[f"{WEIR}: added p50 at 5,000/s, the highest rate with direct p95 below 1 ms"]
        self.assertEqual((round(value or 0, 3), verdict), (0.3, "reached"))

    def test_goals_of_guardrails_cache_and_sources_follow_from_the_same_run(self) -> None:
        found = {goal.what: (round(goal.value or 0, 3), goal.verdict) for goal in goals.goals(made_report())}
        self.assertEqual(found[f"{WEIR_L2}: p95 at 5,000/s, more than {WEIR}"], (0.2, "ABOVE"))
        self.assertEqual(found["guardrails alone: scan, clean prompt (0 findings), per KB"], (3.0, "reached"))
        self.assertEqual(found["guardrails alone: scan, with hits (8 findings), per KB"], (7.0, "ABOVE"))
        self.assertEqual(found["cache: exact hit, p50"], (0.05, "reached"))
        self.assertEqual(found["cache: semantic hit, p50 without one query embedding"], (0.1, "reached"))
        # 0.7 ms added, beside a search of 0.5
        shares = [value for what, value in found.items() if what.startswith("sources: ")]
        self.assertEqual(shares, [(1.4, "ABOVE")])

    def test_the_rate_at_which_latencies_are_compared_is_the_highest_with_a_fast_direct(self) -> None:
        found = made_report()
        self.assertEqual(getattr(found.steady(), "name", None), "rate-5000")
        for number in range(2):
            found.add("rate-5000", DIRECT, number, load(5_000, p95=1.0))
        self.assertEqual(getattr(found.steady(), "name", None), "rate-500")

    def test_differences_are_those_of_the_same_round(self) -> None:
        found = Report({}, [scenarios.at_rate("rate-500", "", 500)], [WEIR, WEIR_L2])
        for number, (plain, guarded) in enumerate([(1.0, 1.25), (9.0, 9.5), (2.0, 2.125)]):
            found.add("rate-500", WEIR, number, load(500, p95=plain))
            found.add("rate-500", WEIR_L2, number, load(500, p95=guarded))
        self.assertEqual(goals.difference(found, "rate-500", WEIR_L2, WEIR, goals.p95), 0.25)

    def test_gaps_are_compared_with_direct_at_the_same_time(self) -> None:
        found = Report({}, scenarios.full((50,), 2_000, 10), [DIRECT, WEIR, WEIR_EMBEDDING])
        gaps = {
            ("hold-quarter", DIRECT): 51,
            ("hold-quarter", WEIR): 52,
            ("hold-quarter-embedding", DIRECT): 50,
            ("hold-quarter-embedding", WEIR_EMBEDDING): 55,
        }
        for (scenario, name), gap in gaps.items():
            for number in range(2):
                found.add(scenario, name, number, load(50, ok=500, gap_ms_p99=gap))
        values = {goal.what: (goal.value, goal.verdict) for goal in goals.goals(found)}
        what = f"{WEIR}: p99 of the gaps of 500 active streams"
        self.assertEqual(values[f"{what}, more than direct"], (1, "reached"))
        self.assertEqual(values[f"{what} while embedding is overloaded, more than direct at the same time"], (5, "ABOVE"))

    def test_a_goal_that_is_missed_says_so(self) -> None:
        found = made_report()
        for number in range(2):
            found.add("closed-1k", WEIR, number, load(1_000, cpu_us=100))
        verdicts = {goal.what: goal.verdict for goal in goals.goals(found)}
        self.assertEqual(verdicts[f"{WEIR}: requests/s in the closed loop against {GO}"], "BELOW")
        self.assertEqual(verdicts[f"{WEIR}: CPU per request in the closed loop against {FLOOR}"], "ABOVE")

    def test_faults_of_the_only_target_leave_a_share_of_good_replies(self) -> None:
        found = made_report()
        what = f"{WEIR}: good replies while its only target has faults"
        for ok, expected in ((1_493, "reached"), (1_492, "BELOW")):
            for number in range(2):
                found.add("chaos", WEIR, number, load(50, requests=1_500, ok=ok, failures={"bad_status": 1_500 - ok}))
            self.assertEqual([goal.verdict for goal in goals.goals(found) if goal.what == what], [expected])

    def test_some_scenarios_are_measured_alone_and_not_written_over_the_page(self) -> None:
        given = measure.parse_arguments(["--scenarios", "chaos", "--out", "elsewhere"])
        run = measure.start(given, Path("nowhere"))
        self.assertEqual([one.name for one in run.found.scenarios], ["chaos"])
        for wrong in (["--scenarios", "chaos"], ["--scenarios", "choas", "--out", "elsewhere"]):
            with self.assertRaises(SystemExit), contextlib.redirect_stderr(io.StringIO()):
                measure.start(measure.parse_arguments(wrong), Path("nowhere"))

    def test_every_scenario_and_target_has_its_row(self) -> None:
        found = made_report()
        found.left_out = {LITELLM: "it did not start"}
        page = report.page(found)
        for scenario in found.scenarios:
            self.assertIn(f"| {scenario.title} |", page)
        # added p50, p95 and their ratios: 0.5 ms beside 0.2, and 1.0 beside 0.4
        self.assertIn(f"| **{WEIR}** | 20,000 | 0.500 | 1.00 | 2.00 | +0.300 (2.50×) | +0.600 (2.50×) | 50.0 | 20,000 | 30.0 | 0 |", page)
        self.assertIn(f"Left out: {LITELLM} (it did not start).", page)
        self.assertIn("| Weir L3 | requests sent |", page)
        self.assertIn("| PostgreSQL 15.18 | 5,000 | 4,998 | 4.40 |", page)
        self.assertIn("| scan, clean prompt (0 findings) | 3.00 | 2.90 | µs/KB |", page)
        self.assertIn("| exact hit | 0.050 | 0.100 | 100 | 1,000 |", page)
        self.assertIn("## Published elsewhere", page)

    def test_streams_with_other_bytes_than_the_mock_are_named(self) -> None:
        found = made_report()
        table = report.stream_table(found, found.of_kind(Kind.STREAM)[0])
        rows = {line.split(" | ")[0].strip("| *"): line for line in table.splitlines()[2:]}
        self.assertIn("| no, other bytes |", rows[GO])
        self.assertIn("| all |", rows[WEIR])

    def test_a_short_run_warns(self) -> None:
        found = made_report()
        self.assertIn("2 rounds of 1 s for each target and scenario, medians.\n\n**A short run.**", report.page(found))
        found.run |= {"rounds": 2, "seconds": 3.0}
        self.assertNotIn("A short run", report.page(found))
        found.run["rounds"] = 1
        self.assertIn("One round of 3 s for each target and scenario.\n", report.page(found))

    def test_what_became_less_keeps_its_sign(self) -> None:
        self.assertEqual([report.exact(value) for value in (-0.25, -250.5, 3.0, 0.25)], ["−0.250", "−250", "3", "0.250"])

    def test_failures_are_printed_with_their_kinds(self) -> None:
        self.assertEqual(report.failed_cell(load(1, failures={"reset": 2, "bad_status": 1_000})), "1,002 (bad_status 1,000, reset 2)")

    def test_json_has_every_turn(self) -> None:
        found = report.figures(made_report())
        json.dumps(found)
        self.assertEqual(len(found["rows"]), 6 * len(found["scenarios"]))
        self.assertTrue(all(len(row["rounds"]) == 2 for row in found["rows"]))


class Scenarios(unittest.TestCase):
    def test_only_the_gateway_with_a_model_and_direct_are_measured_beside_embedding(self) -> None:
        found = Report({}, scenarios.full((50,), 10, 10), [DIRECT, WEIR, WEIR_EMBEDDING])
        run = measure.Run(paths(Path("/nowhere")), 9, 1.0, 1, found)
        with_model, plain = (targets.Target(name, "", Server(name, [], Path("/nowhere"))) for name in (WEIR_EMBEDDING, WEIR))
        beside = ["hold-active-embedding", "hold-quarter-embedding"]
        self.assertEqual([one.name for one in found.scenarios if measure.takes_part(run, one, with_model)], beside)
        self.assertTrue(set(beside).isdisjoint(one.name for one in found.scenarios if measure.takes_part(run, one, plain)))

    def test_a_slow_backend_gets_more_connections(self) -> None:
        self.assertEqual([scenarios.connections(rate, seconds) for rate, seconds in ((50, 0.0), (500, 0.5), (12_000, 0.0))], [32, 510, 240])

    def test_names_are_unique_and_faults_come_last(self) -> None:
        found = scenarios.full(scenarios.RATES, 2_000, 10_000)
        self.assertEqual(len({one.name for one in found}), len(found))
        self.assertEqual((found[0].kind, found[-1].kind), (Kind.CLOSED, Kind.CHAOS))

    def test_a_target_gets_only_rates_that_it_can_do(self) -> None:
        found = Report({}, scenarios.full((50, 500), 0, 0), [DIRECT, LITELLM])
        found.add("closed-1k", LITELLM, 0, load(77))
        run = measure.Run(paths(Path("/nowhere")), 9, 1.0, 1, found)
        target = targets.Target(LITELLM, "", Server(LITELLM, [], Path("/nowhere")))
        part = {one.name for one in found.scenarios if measure.takes_part(run, one, target)}
        self.assertIn("rate-50", part)
        self.assertNotIn("rate-500", part)
        self.assertTrue(all(measure.takes_part(run, one, None) for one in found.scenarios))


def paths(folder: Path) -> targets.Paths:
    """Everything in one folder."""
    return targets.Paths(*(folder / name for name in ("weir", "weir-bench", "weir-mock", "floor", "cache", "data", "model", "guardrails")))


class Time(unittest.TestCase):
    def test_a_scenario_that_would_begin_too_late_is_left_out_and_named(self) -> None:
        run = measure.Run(paths(Path("/nowhere")), 9, 1.0, 2, Report({}, scenarios.tiny()), deadline=0.0)
        measure.measure_all(run)
        self.assertEqual(run.found.left_out, {one.title: "the time was over" for one in scenarios.tiny()})
        self.assertEqual(run.found.loads, {})


class Commands(unittest.TestCase):
    def command(self, scenario: Scenario, *, is_equal: bool = True) -> list[str]:
        with tempfile.TemporaryDirectory() as name:
            run = measure.Run(paths(Path(name)), 9, 4.0, 1, Report({}, [scenario]))
            (run.paths.data).mkdir()
            (run.paths.data / f"{scenario.name}.sse").write_bytes(b"data: a\n\ndata: [DONE]\n\n")
            run.mock = targets.mock(run.paths, 9, ())
            run.mock._ports = [9]
            run.found.checks[DIRECT] = Check(2, is_equal)
            return measure.command_of(run, scenario, None, Path("out.json"))

    def test_a_stream_is_compared_where_bytes_are_passed_on_unchanged(self) -> None:
        scenario = Scenario("stream-20", "", Kind.STREAM, rate=20)
        self.assertEqual(self.command(scenario)[-1], "2")
        self.assertIn("--reference", self.command(scenario))
        self.assertNotIn("--reference", self.command(scenario, is_equal=False))

    def test_open_streams_are_held_for_their_own_time(self) -> None:
        found = self.command(Scenario("hold-idle", "", Kind.HOLD, concurrency=50, seconds=10.0))
        self.assertEqual(found[-2:], ["--stream", "--hold"])
        self.assertEqual(found[found.index("--duration") + 1], "10s")

    def test_weir_is_configured_by_its_telemetry(self) -> None:
        self.assertIn('requests = "none"', targets.weir_config(Path("/d"), 9000, None))
        config = targets.weir_config(Path("/d"), 9000, "postgres://x")
        self.assertIn('postgres_url = "env:WEIR_TELEMETRY_URL"', config)
        self.assertIn('targets = [{ upstream = "mock" }]', config)
        self.assertNotIn("postgres://", config)

    def test_a_gateway_beside_embedding_keeps_no_embeddings(self) -> None:
        config = targets.weir_config(Path("/d"), 9000, None, model=Path("/m/small"))
        self.assertIn('id = "embedder"\nfolder = "/m/small"\n[inference]\ncache_bytes_max = 0\n[[upstreams]]', config)
        self.assertIn('kind = "pseudo"\n[[upstreams]]', targets.weir_config(Path("/d"), 9000, None))

    def test_weir_is_configured_with_cache_and_sources(self) -> None:
        config = costs.config(paths(Path("/d")), Path("/d/data"), 9000)
        self.assertIn('model = "semantic"\ntargets = [{ upstream = "mock" }]\ncache = { mode = "semantic" }\n', config)
        self.assertIn('retrieval = { collection = "sample", top_k = 5 }', config)
        self.assertIn("cache_bytes_max = 0", config)

    def test_the_table_of_the_guardrails_is_read(self) -> None:
        text = "| what | median | fastest | line | unit |\n|---|---|---|---|---|\n| scan, clean prompt (0 findings) | 3.21 | 3.10 | 4 | µs per KB |\n"
        self.assertEqual(costs.parse(text), [Guarded("scan, clean prompt (0 findings)", 3.21, 3.1, 4.0, "KB")])

    def test_the_key_is_found_in_what_the_command_prints(self) -> None:
        self.assertEqual(targets.key_in("weir_3KyThm\n\nkey 1 (bench): keep it, it is not shown again\n"), "weir_3KyThm")
        with self.assertRaisesRegex(EngineError, "printed no key"):
            targets.key_in("nothing")

    def test_ids_are_masked_and_events_counted_as_by_the_load_generator(self) -> None:
        self.assertEqual(measure.without_ids(b'{"id":"a1","x":"b"}'), b'{"id":"","x":"b"}')
        self.assertEqual(measure.events(b"data: a\r\n\r\n: ping\n\ndata: [DONE]\n\n"), 2)


class PostgresServer(unittest.TestCase):
    def test_rows_are_counted_in_the_table_of_requests(self) -> None:
        try:
            server = postgres.Postgres()
        except EngineError as error:
            self.skipTest(str(error))
        self.addCleanup(server.stop)
        server.start()
        with self.assertRaisesRegex(EngineError, "there is none"):
            server.rows()
        server.query("create table weir_requests (at int) partition by range (at)")
        server.query("create table weir_requests_1 partition of weir_requests for values from (0) to (1000)")
        server.query("insert into weir_requests select generate_series(1, 40)")
        self.assertEqual(server.rows(), 40)
        self.assertGreater(server.cpu_seconds(), 0)


class TinyRun(unittest.TestCase):
    def test_the_floor_and_weir_are_measured(self) -> None:
        for binary in ("weir", "weir-bench", "weir-mock"):
            if not (CHECKED / binary).exists():
                self.skipTest(f"{CHECKED / binary} is not built: cargo build --workspace --profile checked")
        figures = self.run_tiny("floor,weir,weir-guard,weir-embedding", [DIRECT, FLOOR, WEIR, WEIR_L2])
        beside = [row for row in figures["rows"] if row["scenario"] == "hold-active-embedding"]
        self.assertEqual([(row["target"], row["ok"], row["failures"]) for row in beside], [(DIRECT, 50, {}), (WEIR_EMBEDDING, 50, {})])
        self.assertEqual(figures["left_out"], {})
        self.assertEqual(sorted(figures["timings"]), sorted(case.name for case in costs.cases()))
        self.assertTrue(all(turn["requests"] > 5 for turns in figures["timings"].values() for turn in turns), figures["timings"])
        self.assertEqual({row["per"] for row in figures["guardrails"]}, {"KB", "token"})

    def test_the_proxies_are_measured_without_weir(self) -> None:
        for binary in ("weir-bench", "weir-mock"):
            if not (CHECKED / binary).exists():
                self.skipTest(f"{CHECKED / binary} is not built: cargo build --workspace --profile checked")
        self.run_tiny("floor,go", [DIRECT, FLOOR] if GO_TOOL is None else [DIRECT, FLOOR, GO])

    def run_tiny(self, peers: str, wanted: list[str]) -> dict[str, Any]:
        folder, floor = targets.ROOT / "bench" / "peers", TARGET / "floor"
        # without optimisation: what it does is tested here, not how fast
        build = ["cargo", "build", "--locked", "--quiet", "--target-dir", str(floor)]
        build += ["--manifest-path", str(folder / "floor" / "Cargo.toml")]
        subprocess.run(build, check=True, timeout=900, env=os.environ | {"CARGO_PROFILE_DEV_DEBUG": "0"})
        with tempfile.TemporaryDirectory() as name:
            out = Path(name)
            if GO_TOOL is not None:
                subprocess.run([GO_TOOL, "build", "-o", out / "go_proxy", "."], cwd=folder / "go_proxy", check=True, timeout=300)
            command = [sys.executable, str(Path(report.__file__).with_name("measure.py")), "--tiny", "--peers", peers, "--cache", name, "--out", name]
            binaries = {"weir": CHECKED / "weir", "load": CHECKED / "weir-bench", "mock": CHECKED / "weir-mock", "floor": floor / "debug" / "floor"}
            binaries |= {"guardrails": CHECKED / "examples" / "bench_guardrails", "model": MODEL_FOLDER}
            command += [part for flag, binary in binaries.items() for part in (f"--{flag}", str(binary))]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            figures: dict[str, Any] = json.loads((out / "llm.json").read_text(encoding="utf-8"))
            self.assertIn(f"| {FLOOR} |", (out / "llm.md").read_text(encoding="utf-8"))
        rows = [row for row in figures["rows"] if row["scenario"] != "hold-active-embedding"]
        self.assertEqual(len(rows), len(wanted) * (len(scenarios.tiny()) - 1), figures["left_out"])
        for row in rows:
            self.assertIn(row["target"], wanted)
            self.assertGreater(row["ok"], 5, row)
            if row["scenario"] != "chaos":
                self.assertEqual(row["failures"], {}, row)
        # A window sends other events than the mock.
        self.assertTrue(all(check["is_equal"] for name, check in figures["checks"].items() if name != WEIR_L2), figures["checks"])
        return figures


if __name__ == "__main__":
    unittest.main()
