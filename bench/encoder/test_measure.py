"""Tests of the encoder's comparison: a tiny run of the encoder alone, and the figures that follow from known times."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import cases
import engines
import report
from pages import measured_cores

BINARIES = Path(os.environ.get("CARGO_TARGET_DIR", cases.ROOT / "target")) / "checked" / "examples"
MODEL = Path(os.environ.get("WEIR_TEST_MODEL", cases.ROOT / "models" / "all-MiniLM-L6-v2"))


def one_token_a_word(texts: list[str]) -> list[list[int]]:
    """A tokenizer that needs no model."""
    return [[101, *(1000 + len(word) for word in text.split()), 102] for text in texts]


def made_report(times_ms: dict[str, float]) -> report.Report:
    """Engines of the named kinds that take as long as is said for 16 tokens on one core."""
    case = cases.lone_case(16, 1, one_token_a_word)
    found = report.Report([case], {}, {}, [report.Peaks("avx2", 40.0, 80.0, 100.0, None)], [])
    for kind, time_ms in times_ms.items():
        engine = engines.Engine(kind, kind, [], 1)
        found.engines[report.key(engine)] = report.EngineFacts(engine, "1.0", 1.0)
        found.samples[report.key(engine), case.name] = report.Samples([int(time_ms * 1e6)] * 3, [0] * 3)
    return found


class Figures(unittest.TestCase):
    def test_a_ratio_is_how_many_times_as_long_the_peer_takes(self) -> None:
        rows = report.ratios(made_report({"weir int8": 2.0, "ort int8": 5.0, "st ids": 30.0}))
        self.assertEqual([(row["ratio"], row["target"]) for row in rows], [(2.5, 1.9), (15.0, 12.0)])

    def test_a_missed_target_is_said(self) -> None:
        page = report.page(made_report({"weir int8": 2.0, "ort int8": 3.0, "st ids": 30.0}))
        self.assertIn("**1.50×** (BELOW: ≥ 1.9×)", page)
        self.assertIn("**15.00×** (reached: ≥ 12×)", page)

    def test_the_share_counts_weights_and_attention(self) -> None:
        found = made_report({"weir int8": 2.5})
        self.assertEqual(report.multiply_adds(found.cases[0]), 16 * (10_616_832 + 4_608 * 16))
        (row,) = report.shares(found)
        # 171.0 million in 2.5 ms are 68.4 billion a second
        self.assertEqual((row["share_int8"], row["share_quads"]), (0.8552, 0.6842))

    def test_percentiles_are_by_nearest_rank(self) -> None:
        samples = report.Samples([1_000_000 * at for at in range(1, 201)], [])
        self.assertEqual([samples.wall_ms(part) for part in (0, 0.5, 0.99, 1)], [1, 100, 198, 200])


class Cases(unittest.TestCase):
    def test_a_batch_has_texts_of_exactly_the_length(self) -> None:
        case = cases.batch_case(128, 2, one_token_a_word)
        self.assertEqual([len(ids) for ids in case.sequences], [128] * 32)
        self.assertEqual(len(set(case.texts)), 32)
        self.assertEqual(case.tokens, 4096)

    def test_one_core_has_batches_but_no_split_texts(self) -> None:
        names = {cores: [case.name for case in cases.all_cases(cores, one_token_a_word)] for cores in (1, 2)}
        self.assertEqual(len(names[1]), len(set(names[1])))
        self.assertEqual([len(names[cores]) for cores in (1, 2)], [8, 10])
        self.assertEqual({case.cores for case in cases.all_cases(2, one_token_a_word) if not case.is_lone}, {2})


class TinyRun(unittest.TestCase):
    def test_the_encoder_is_measured_in_every_precision(self) -> None:
        for binary in ("bench_encoder", "peak"):
            if not (BINARIES / binary).exists():
                self.skipTest(f"{BINARIES / binary} is not built: cargo build --workspace --profile checked --examples")
        with tempfile.TemporaryDirectory() as name:
            out = Path(name)
            command = [sys.executable, str(engines.HERE / "measure.py"), "--tiny", "--binaries", str(BINARIES)]
            command += ["--model", str(MODEL), "--cache", str(out / "cache"), "--out", str(out)]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
            self.assertEqual(done.returncode, 0, done.stderr)
            figures = json.loads((out / "encoder.json").read_text(encoding="utf-8"))
            self.assertIn("weir int8", (out / "encoder.md").read_text(encoding="utf-8"))
        measured = [(row["case"], row["engine"]) for row in figures["rows"]]
        expected = ("8 tokens", "16 tokens", "mixed lengths")
        precisions = ("weir int8", "weir bf16", "weir f32")
        self.assertEqual(sorted(measured), sorted((case, engine) for case in expected for engine in precisions))
        cores = len(measured_cores())
        nearest = {row["engine"]: row["cosine_min"] for row in figures["engines"] if row["cores"] == cores}
        self.assertGreater(nearest["weir f32"], 0.9999)
        self.assertGreater(nearest["weir int8"], 0.97)


if __name__ == "__main__":
    unittest.main()
