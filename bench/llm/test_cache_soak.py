"""Tests of the soak of the reply cache: the verdict on known samples, and a run of seconds."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from pathlib import Path

import cache_soak
import targets
from cache_memory import LIMIT
from cache_soak import KINDS, Sample

CHECKED = Path(os.environ.get("CARGO_TARGET_DIR", targets.ROOT / "target")) / "checked"
COUNTS = dict.fromkeys(KINDS, 1)


class Verdict(unittest.TestCase):
    def check(self, samples: list[Sample], counts: dict[str, int], *, is_kept: bool) -> None:
        self.assertEqual(cache_soak.verdict(samples, counts, 0.1)[1], is_kept)

    def test_memory_must_be_within_the_tolerance(self) -> None:
        at = [Sample(10, LIMIT, int(LIMIT * share)) for share in (0.91, 1.0, 1.09)]
        self.check(at, COUNTS, is_kept=True)
        self.check([*at, Sample(20, LIMIT, int(LIMIT * 1.11))], COUNTS, is_kept=False)
        self.check([*at, Sample(20, LIMIT, int(LIMIT * 0.89))], COUNTS, is_kept=False)

    def test_the_cache_must_stay_full_and_every_kind_occur(self) -> None:
        self.check([Sample(10, LIMIT // 2, LIMIT // 2)], COUNTS, is_kept=False)
        self.check([Sample(10, LIMIT, LIMIT)], COUNTS | {"left": 0}, is_kept=False)


class TinyRun(unittest.TestCase):
    def test_every_kind_of_traffic_occurs_while_the_cache_grows(self) -> None:
        for binary in ("weir", "weir-mock"):
            if not (CHECKED / binary).exists():
                self.skipTest(f"{CHECKED / binary} is not built: cargo build --workspace --profile checked")
        command = [sys.executable, cache_soak.__file__, "--seconds", "4", "--interval", "2", "--settle", "1", "--tolerance", "2", "--share", "0.04"]
        command += ["--smallest", "300000", "--largest", "900000", "--weir", str(CHECKED / "weir"), "--mock", str(CHECKED / "weir-mock")]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("passed", done.stdout)


if __name__ == "__main__":
    unittest.main()
