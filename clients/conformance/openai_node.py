"""The client of OpenAI for Node, by a script in JavaScript."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

from .gateway import TEXTS, Gateway, ensure
from .node import package_version, run
from .table import Call

SCRIPT = Path(__file__).resolve().parent / "openai_node.cjs"


def version() -> str:
    """The installed version of the package."""
    return package_version("openai")


def calls(gateway: Gateway) -> list[Call]:
    """Embeddings in both formats, models, a refusal."""

    @cache
    def seen() -> dict[str, Any]:
        return dict(run(SCRIPT, gateway.url, gateway.model, json.dumps(TEXTS)))

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
