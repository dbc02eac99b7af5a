"""Runs the calls of a client."""

from __future__ import annotations

import importlib
import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

from .table import Row

REPOSITORY = Path(__file__).resolve().parents[2]
CACHE = REPOSITORY / ".cache" / "clients"


def version(module: ModuleType) -> str:
    """The version of the client that a module runs."""
    package = getattr(module, "PACKAGE", None)
    return importlib.metadata.version(package) if package else str(module.version())


def rows_of(client: str, name: str, target: object) -> list[Row]:
    """The results of all calls of a client, whose module has `PACKAGE` or `version()`, and `calls(target)`."""
    try:
        module = importlib.import_module(name)
        number = version(module)
        calls = module.calls(target)
    except Exception as error:
        reason = f"{type(error).__name__}: {error}; `scripts/setup.sh clients` installs the clients"
        return [Row(client, "", "import", reason, passed=False)]
    rows = []
    for call in calls:
        try:
            rows.append(Row(client, number, call.name, call.run(), passed=True))
        except Exception as error:
            rows.append(Row(client, number, call.name, f"{type(error).__name__}: {error}", passed=False))
    return rows


def other_rows_of(package: str, client: str, folder: str, url: str) -> list[Row]:
    """The results of a client with the releases of another folder of the cache, which a process of its own imports."""
    path = os.pathsep.join([str(REPOSITORY / "clients"), str(CACHE / folder)])
    command = [sys.executable, "-m", package, "--url", url, "--client", client, "--json"]
    run = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
    if not run.stdout:
        return [Row(client, "", "import", run.stderr.strip(), passed=False)]
    return [Row(**row) for row in json.loads(run.stdout)]
