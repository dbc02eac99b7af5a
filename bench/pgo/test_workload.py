"""Tests of the workload: a run of seconds, and that it ends with an error where a gateway does not start."""

from __future__ import annotations

import os
import subprocess
import sys
import unittest
from pathlib import Path

import targets

CHECKED = Path(os.environ.get("CARGO_TARGET_DIR", targets.ROOT / "target")) / "checked"
# Of each kind of request at least one is sent.
SCALE = "0.002"


class Run(unittest.TestCase):
    def setUp(self) -> None:
        for binary in ("weir", "weir-bench", "weir-mock"):
            if not (CHECKED / binary).exists():
                self.skipTest(f"{CHECKED / binary} is not built: cargo build --workspace --profile checked")

    def run_tiny(self, **replaced: str) -> subprocess.CompletedProcess[str]:
        binaries = {"weir": "weir", "load": "weir-bench", "mock": "weir-mock"}
        flags = {f"--{flag}": str(CHECKED / name) for flag, name in binaries.items()} | {f"--{name}": value for name, value in replaced.items()}
        command = [sys.executable, str(Path(__file__).with_name("workload.py")), "--scale", SCALE, *(part for flag in flags.items() for part in flag)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    def test_every_kind_of_request_is_answered(self) -> None:
        done = self.run_tiny()
        self.assertEqual(done.returncode, 0, done.stderr)
        for path in ("/v1/chat/completions", "/v1/messages", "/v1/search", "/v1/embeddings"):
            self.assertIn(f"to {path}", done.stdout)

    def test_a_gateway_that_does_not_start_ends_the_run(self) -> None:
        done = self.run_tiny(model="/nonexistent", scale="0.0001")
        self.assertEqual(done.returncode, 1)
        self.assertIn("retrieval did not start", done.stderr)


if __name__ == "__main__":
    unittest.main()
