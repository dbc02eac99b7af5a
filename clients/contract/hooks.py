"""Loaded by Schemathesis: puts known names into the requests, and checks the codes of errors."""

from __future__ import annotations

import json
import os
from typing import Any

import schemathesis

from .known import DEADLINE_MS, NAMES_VARIABLE, QUERY, body_value, is_raw, path_value

NAMES: dict[str, str] = json.loads(os.environ[NAMES_VARIABLE])


@schemathesis.hook
def before_call(_: Any, case: Any, __: Any) -> None:
    """Replaces most of the generated names by those of the prepared collections, documents, jobs and models."""
    method, path = case.method.upper(), case.path
    for name, value in (case.path_parameters or {}).items():
        # a collection with any other name would stay; any name is checked by the other methods
        # and the key of the requests is not to be revoked
        if method == "PUT" or str(value) == NAMES["own_id"] or not is_raw(value):
            case.path_parameters[name] = path_value(NAMES, method, path, name)
    for name, value in (case.query or {}).items():
        if name in QUERY and not is_raw(value):
            case.query[name] = QUERY[name]
    name_in(case.body, path)


def name_in(body: Any, path: str) -> None:
    """The same in a body, also in objects and lists in it."""
    if isinstance(body, list):
        for item in body:
            name_in(item, path)
    if not isinstance(body, dict):
        return
    for name, value in body.items():
        known = body_value(NAMES, path, name)
        if name == "deadline_ms" and isinstance(value, int):
            body[name] = max(value, DEADLINE_MS) if value > 0 else value
        elif known is not None and isinstance(value, str) and not is_raw(value):
            body[name] = known
        else:
            name_in(value, path)


@schemathesis.check
def documented_error_code(_: Any, response: Any, case: Any) -> None:
    """The `code` of an error is one of those that the description lists under its status."""
    if response.status_code < 400 or response.status_code == 405:
        return
    body = response.json()
    error = body.get("error")
    code = body.get("code") or (error.get("code") if isinstance(error, dict) else None)
    if code is None:
        return  # the error bodies of some APIs have none
    described = case.operation.definition.raw["responses"].get(str(response.status_code), {})
    if f"`{code}`" not in described.get("description", ""):
        raise AssertionError(f"the description does not list `{code}` under {response.status_code}")
