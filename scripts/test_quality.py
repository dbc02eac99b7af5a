"""Tests of quality.py: what it has `weir` do."""

from __future__ import annotations

import contextlib
import io
import json
import os
import tempfile
import unittest
from pathlib import Path

import quality

# Serves `/readyz` for `serve`; notes its arguments for `eval`, and fails like a set below its target.
WEIR = """#!/usr/bin/env python3
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer
if sys.argv[1] == "eval":
    print("\\n".join(sys.argv[2:]), file=open({noted!r}, "w"))
    sys.exit(3)
class Ready(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
    def log_message(self, *arguments): pass
host, port = sys.argv[sys.argv.index("--listen") + 1].split(":")
HTTPServer((host, int(port)), Ready).serve_forever()
"""


class Targets(unittest.TestCase):
    def test_every_configuration_of_the_named_sets_has_its_minimum(self) -> None:
        targets = {"a": {"hybrid": 0.7, "dense": 0.6}, "b": {"hybrid": 0.4}, "mean": {"hybrid": 0.5}}
        self.assertEqual(quality.minimum_arguments(targets, ["b"]), ["--min-ndcg=b/hybrid=0.4"])
        self.assertEqual(quality.minimum_arguments(targets, ["other"]), [])
        self.assertEqual(
            quality.minimum_arguments(targets, ["b", "a"]),
            ["--min-ndcg=b/hybrid=0.4", "--min-ndcg=a/hybrid=0.7", "--min-ndcg=a/dense=0.6", "--min-ndcg=/hybrid=0.5"],
        )

    def test_the_targets_are_of_the_five_sets_and_their_mean(self) -> None:
        targets = json.loads(quality.TARGETS.read_text())
        self.assertEqual(len(targets), 6)
        self.assertEqual(targets["mean"], {"hybrid": 0.643})


class WholeRun(unittest.TestCase):
    def test_weir_eval_is_called_over_a_gateway_of_its_own(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            noted = Path(folder) / "noted"
            weir = Path(folder) / "weir"
            weir.write_text(WEIR.format(noted=str(noted)))
            os.chmod(weir, 0o755)
            code = quality.main(["--data", folder, "--binary", str(weir), "cacm", "--", "--fusion", "rrf"])
            self.assertEqual(code, 3)
            seen = noted.read_text().split()
        self.assertEqual(seen[0], "--url")
        self.assertEqual(seen[2:], ["--min-ndcg=cacm/hybrid=0.554", "--fusion", "rrf", f"{folder}/cacm"])

    def test_a_missing_folder_is_skipped_visibly(self) -> None:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(quality.main(["--data", ""]), 0)
        self.assertIn("SKIPPED", out.getvalue())


if __name__ == "__main__":
    unittest.main()
