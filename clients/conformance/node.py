"""Packages for Node, and scripts in JavaScript that import them."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from .gateway import TIMEOUT_SECONDS, ensure
from .runs import CACHE

MODULES = CACHE / "node_modules"


def package_version(name: str) -> str:
    """The installed version of a package."""
    package = MODULES / name / "package.json"
    return str(json.loads(package.read_text(encoding="utf-8"))["version"])


def run(script: Path, *arguments: str) -> Any:
    """The JSON that a script prints."""
    done = subprocess.run(
        ["node", str(script), *arguments],
        env={**os.environ, "NODE_PATH": str(MODULES)},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
    )
    ensure(done.returncode == 0, done.stderr.strip())
    return json.loads(done.stdout)
