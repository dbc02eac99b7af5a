#!/usr/bin/env python3
"""Measures the retrieval quality of a gateway of its own by `weir eval`, against the project's targets.

    scripts/quality.py --data /path/to/sets
    scripts/quality.py --data /path/to/sets scifact cacm -- --fusion rrf --out run.json

The sets are folders below the data folder. What stands behind `--` goes to `weir eval`; `weir eval --help` has it all.
The targets are those of `fixtures/eval/targets.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TARGETS = ROOT / "fixtures" / "eval" / "targets.json"
READY_SECONDS_MAX = 120.0
# The key of the targets for the mean of the development sets; the others are the sets.
MEAN = "mean"

Targets = dict[str, dict[str, float]]


def minimum_arguments(targets: Targets, sets: list[str]) -> list[str]:
    """The `--min-ndcg` of these sets; that of the mean only when they are just the development sets."""
    is_whole = set(sets) == set(targets) - {MEAN}
    wanted = [*sets, MEAN] if is_whole else sets
    return [
        f"--min-ndcg={'' if name == MEAN else name}/{configuration}={ndcg}"
        for name in wanted
        for configuration, ndcg in targets.get(name, {}).items()
    ]


@contextmanager
def serving(binary: Path, model: Path, data: Path | None = None) -> Iterator[str]:
    """A gateway of our own on a free port over a data folder, by default a temporary one: its URL while it's ready."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{probe.getsockname()[1]}"
    with tempfile.TemporaryDirectory(prefix="weir-quality-") as folder:
        log = Path(folder) / "log"
        data_dir = str(data or Path(folder) / "data")
        command = [str(binary), "serve", "--listen", address, "--data-dir", data_dir, "--model", str(model)]
        with log.open("wb") as sink:
            server = subprocess.Popen(command, stdout=sink, stderr=sink)
        try:
            wait_until_ready(f"http://{address}", server, log)
            yield f"http://{address}"
        finally:
            server.terminate()
            try:
                server.wait(timeout=30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()


def wait_until_ready(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    """Returns when `/readyz` answers 200; raises with the end of the server's log when it stops or takes too long."""
    deadline = time.monotonic() + READY_SECONDS_MAX
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(f"{url}/readyz", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.1)
    raise OSError(f"the gateway did not become ready:\n{log.read_text(errors='replace')[-2000:]}")


def parse_arguments(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    """The command line, and what goes to `weir eval`."""
    ours, theirs = arguments, list[str]()
    if "--" in arguments:
        at = arguments.index("--")
        ours, theirs = arguments[:at], arguments[at + 1 :]
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    parser = argparse.ArgumentParser(description="Measure retrieval quality against the project's targets.")
    parser.add_argument("sets", nargs="*", help="folders below the data folder (default: the development sets)")
    parser.add_argument(
        "--data", default=os.environ.get("WEIR_EVAL_DATA", ""), help="folder of the sets (WEIR_EVAL_DATA)"
    )
    parser.add_argument("--binary", type=Path, default=target / "release" / "weir")
    parser.add_argument("--model", type=Path, default=ROOT / "models" / "all-MiniLM-L6-v2")
    return parser.parse_args(ours), theirs


def main(arguments: list[str]) -> int:
    """The exit code of `weir eval`; 0 when there is no data, which is said."""
    options, theirs = parse_arguments(arguments)
    if not options.data or not Path(options.data).is_dir():
        print(f"quality: SKIPPED, no data folder at `{options.data}`; name one: make quality DATA=/path/to/sets")
        return 0
    targets: Targets = json.loads(TARGETS.read_text(encoding="utf-8"))
    sets = options.sets or [name for name in targets if name != MEAN]
    folders = [str(Path(options.data) / name) for name in sets]
    try:
        with serving(options.binary, options.model) as url:
            command = [str(options.binary), "eval", "--url", url, *minimum_arguments(targets, sets), *theirs, *folders]
            return subprocess.run(command, check=False).returncode
    except OSError as error:
        print(f"quality: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
