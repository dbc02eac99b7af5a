"""Sends generated requests to every route of a running gateway and compares the replies with `/openapi.json`.

No reply may have a 5xx status, or a status, media type, body or error code that the description does not have. The
requests are those of Schemathesis: the examples of the description, values at the limits of its types, and random ones,
valid and not. The gateway should be of no other use: collections are changed and deleted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import urllib.parse
from pathlib import Path

from .known import NAMES_VARIABLE, fetch, prepare

CLIENTS = Path(__file__).resolve().parents[1]
CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "documented_error_code",
)
DESCRIPTION = "openapi.json"
LOOPBACK = ("127.0.0.1", "::1", "localhost")


def main() -> int:
    """Runs Schemathesis and returns its exit code."""
    parser = argparse.ArgumentParser(prog="contract", description=__doc__)
    parser.add_argument("--url", required=True, help="base URL of a gateway with models that embed and rerank")
    parser.add_argument("--examples", type=int, default=10, help="random requests for each route (default: 10)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed sends the same requests (default: 1)")
    arguments = parser.parse_args()
    url = arguments.url.rstrip("/")
    if urllib.parse.urlsplit(url).hostname not in LOOPBACK:
        parser.error(f"{url} is on another machine; start a gateway on this one")
    names = prepare(url)
    environment = {
        **os.environ,
        "NO_PROXY": ",".join(LOOPBACK),
        "PYTHONPATH": str(CLIENTS),
        "SCHEMATHESIS_HOOKS": "contract.hooks",
        NAMES_VARIABLE: json.dumps(names),
    }
    command = [sys.executable, "-B", "-m", "schemathesis.cli", "run", DESCRIPTION, "--url", url]
    command += ["--header", f"Authorization: Bearer {names['own_key']}"]
    command += ["--checks", ",".join(CHECKS)]
    command += ["--phases", "examples,coverage,fuzzing", "--max-examples", str(arguments.examples)]
    command += ["--seed", str(arguments.seed), "--generation-database", "none", "--request-timeout", "60"]
    command += ["--continue-on-failure", "--warnings", "off", "--no-color"]
    # a folder without configuration, for the files that it leaves
    with tempfile.TemporaryDirectory() as folder:
        # read from a file: Schemathesis sends no generated requests to where it has read the description
        Path(folder, DESCRIPTION).write_text(json.dumps(fetch(f"{url}/openapi.json")), encoding="utf-8")
        code = subprocess.run(command, cwd=folder, env=environment, check=False).returncode
    fetch(f"{url}/v1/keys", key=names["own_key"])  # otherwise all replies since its end were 401
    return code


if __name__ == "__main__":
    sys.exit(main())
