"""Tests of the comparison of encodings: a tiny run, and the tables that follow from known times."""

from __future__ import annotations

import http.client
import json
import os
import struct
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import chain
import report
import tcp_copy
from chain import CASES, DIMENSION, JSON_WEIR, ORJSON_FASTAPI, RAW_WEIR, ROOT, ZERO_COPY_WEIR, Case
from report import COMPARED, Report, Result

CHECKED = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "checked"
RUST_CLIENT = CHECKED / "examples" / "bench_wire"
PEERS_PYTHON = ROOT / ".cache" / "bench-peers" / "vectors" / "bin" / "python"


def made_report(seconds: dict[str, float], copy: float = 40.0) -> Report:
    """Links that take as long as is said for the compared case."""
    found = Report(2, copies={1: [copy / 2], 10: [copy]})
    for name, each in seconds.items():
        found.results[name, COMPARED] = [Result(each, each / 1_000, 1 << 20)] * 2
    return found


class Tables(unittest.TestCase):
    def test_the_parameters_are_those_of_the_experiment(self) -> None:
        self.assertEqual([(case.batch, case.requests) for case in CASES], [(32, 100), (32, 1000), (256, 100), (256, 1000)])
        self.assertIn(COMPARED, CASES)

    def test_a_rate_counts_the_floats_of_the_vectors(self) -> None:
        # 256,000 vectors of 4 KiB in two seconds
        self.assertAlmostEqual(made_report({RAW_WEIR: 2.0}).rate(RAW_WEIR, COMPARED) or 0, 4.194304)

    def test_the_lesser_of_two_bounds_is_wanted(self) -> None:
        for seconds, copy, bound, verdict in ((0.5, 100.0, 50 * 0.08388608, "reached"), (0.5, 40.0, 50 * 0.08388608, "reached"),
                                              (1.5, 4.0, 2.0, "reached"), (5.0, 4.0, 2.0, "BELOW")):  # fmt: skip
            target = report.targets(made_report({ZERO_COPY_WEIR: seconds, ORJSON_FASTAPI: 100.0}, copy))[0]
            self.assertAlmostEqual(target.bound, bound)
            self.assertEqual(target.verdict, verdict)

    def test_json_is_compared_by_the_time_of_the_servers_processor(self) -> None:
        target = report.targets(made_report({JSON_WEIR: 2.0, ORJSON_FASTAPI: 5.0}))[1]
        self.assertEqual((round(target.value or 0, 6), target.verdict), (2.5, "reached"))

    def test_the_steps_are_factors_between_neighbours(self) -> None:
        found = made_report({name: seconds for name, seconds in zip((link.name for link in chain.LINKS), (64, 32, 16, 20, 8, 4, 2), strict=True)})
        self.assertEqual([step.factor for step in report.steps(found)], [2.0] * 5)
        self.assertIn("| FastAPI JSON → FastAPI orjson | 2.00 | 11.2 |", report.step_table(found))

    def test_a_link_that_was_not_measured_leaves_a_gap(self) -> None:
        found = made_report({ORJSON_FASTAPI: 1.0})
        self.assertEqual({step.factor for step in report.steps(found)}, {None})
        self.assertEqual([target.verdict for target in report.targets(found)], ["not measured"] * 2)

    def test_sigma_is_that_of_a_sample(self) -> None:
        self.assertEqual((report.sigma([1.0, 3.0]), report.sigma([5.0])), (2**0.5, 0.0))


class Stub(unittest.TestCase):
    def test_it_keeps_the_contract_of_raw_embeddings(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            server = chain.stub_server(Path(sys.executable), Path(name))
            server.start()
            try:
                connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
                body = json.dumps({"model": "pseudo", "input": ["a", "bcd"]})
                connection.request("POST", "/v1/embeddings", body, {"accept": "application/octet-stream"})
                reply = connection.getresponse()
                content = reply.read()
                connection.close()
            finally:
                server.stop()
        shape = [reply.headers[f"x-embedding-{field}"] for field in ("count", "dim", "dtype")]
        self.assertEqual(shape, ["2", "1024", "float32"])
        self.assertEqual(struct.unpack(f"<{2 * DIMENSION}f", content), (1.0,) * DIMENSION + (3.0,) * DIMENSION)


class Copy(unittest.TestCase):
    def test_bytes_arrive(self) -> None:
        self.assertGreater(tcp_copy.bytes_per_s(2, 0.1), 1_000_000)


class TinyRun(unittest.TestCase):
    def test_every_link_is_measured_whose_client_is_built(self) -> None:
        if not PEERS_PYTHON.exists():
            self.skipTest(f"{PEERS_PYTHON} is not installed: bench/wire.sh does it")
        with tempfile.TemporaryDirectory() as name:
            command = [sys.executable, str(Path(report.__file__).with_name("measure.py")), "--tiny"]
            command += ["--python", str(PEERS_PYTHON), "--rust", str(RUST_CLIENT), "--out", name]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
            self.assertEqual(done.returncode, 0, done.stderr)
            figures = json.loads((Path(name) / "wire.json").read_text(encoding="utf-8"))
            self.assertIn("no figures of Weir", (Path(name) / "wire.md").read_text(encoding="utf-8"))
        built = ("aiohttp", "rust") if RUST_CLIENT.exists() else ("aiohttp",)
        wanted = [link.name for link in chain.LINKS if link.client in built]
        self.assertEqual(sorted(row["link"] for row in figures["rows"]), sorted(wanted))
        self.assertEqual({len(row["runs"]) for row in figures["rows"]}, {2})
        self.assertEqual(Case(figures["rows"][0]["batch"], figures["rows"][0]["requests"]), chain.TINY_CASES[0])
        self.assertEqual(len(figures["left_out"]), len(chain.LINKS) - len(wanted))


if __name__ == "__main__":
    unittest.main()
