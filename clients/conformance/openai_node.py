"""The client of OpenAI for Node, by a script in JavaScript."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

from .gateway import TEXTS, TIMEOUT_SECONDS, Gateway, ensure
from .table import Call

FOLDER = Path(__file__).resolve().parent
MODULES = FOLDER.parent.parent / ".cache" / "clients" / "node_modules"


def version() -> str:
    """The installed version of the package."""
    package = MODULES / "openai" / "package.json"
    return str(json.loads(package.read_text(encoding="utf-8"))["version"])


def calls(gateway: Gateway) -> list[Call]:
    """Embeddings in both formats, models, a refusal."""

    @cache
    def seen() -> dict[str, Any]:
        run = subprocess.run(
            ["node", str(FOLDER / "openai_node.cjs"), gateway.url, gateway.model, json.dumps(TEXTS)],
            env={**os.environ, "NODE_PATH": str(MODULES)},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_SECONDS,
        )
        ensure(run.returncode == 0, run.stderr.strip())
        return dict(json.loads(run.stdout))

    def models() -> str:
        ids = seen()["models"]
        ensure(gateway.model in ids and gateway.reranker in ids, f"the list is {ids}")
        return "the models of the configuration"

    def refusal() -> str:
        expected = {"isNotFound": True, "code": "model_not_found", "param": "model"}
        ensure(seen()["refusal"] == expected, f"the error is {seen()['refusal']}")
        return "`NotFoundError`: code `model_not_found`, param `model`"

    return [
        Call("embeddings.create({input: […]})", lambda: gateway.same_embeddings(seen()["default"])),
        Call('embeddings.create({encoding_format: "float"})', lambda: gateway.same_embeddings(seen()["float"])),
        Call("models.list()", models),
        Call('embeddings.create({model: "none"})', refusal),
    ]
