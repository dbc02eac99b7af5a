"""The client of OpenAI for Node, by a script in JavaScript."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from ..gateway import ensure
from ..node import package_version, run
from ..table import Call
from .expected import CLAUDE, HALF, OPENAI, PROMPT, TEXT, same_text, text_of

SCRIPT = Path(__file__).resolve().parent / "openai_node.cjs"


def version() -> str:
    """The installed version of the package."""
    return package_version("openai")


def usage_of(usage: dict[str, int]) -> tuple[int, int]:
    """Prompt and completion tokens of a chat."""
    return usage["prompt_tokens"], usage["completion_tokens"]


def calls(url: str) -> list[Call]:
    """Chats with a model by OpenAI's API, and with one by translation; responses; a refusal."""

    @cache
    def seen() -> dict[str, Any]:
        return dict(run(SCRIPT, url, PROMPT))

    def whole(model: str) -> str:
        reply = seen()[model]["whole"]
        return same_text(reply["text"], reply["finish"], "stop", usage_of(reply["usage"]))

    def stream(model: str) -> str:
        reply = seen()[model]["stream"]
        ensure(reply["error"] is None, f"the error is {reply['error']}")
        return same_text(text_of(reply["parts"]), reply["finish"], "stop", usage_of(reply["usage"]))

    def broken(model: str) -> str:
        reply = seen()[model]["broken"]
        text = "".join(reply["parts"])
        ensure(bool(reply["error"]) and reply["error"]["isApiError"], f"the reply is {reply}")
        ensure(text == HALF, f"before the error came {text!r}")
        return "`APIError` after half of the text"

    def responses() -> str:
        reply = seen()["responses"]
        ensure(reply["text"] == TEXT, f"the text without a stream is {reply['text']!r}")
        usage = reply["usage"]["input_tokens"], reply["usage"]["output_tokens"]
        return same_text(text_of(reply["parts"]), reply["status"], "completed", usage)

    def refusal() -> str:
        error = seen()["none"]["error"]
        expected = {"isApiError": True, "isNotFound": True, "code": "model_not_found"}
        ensure(error == expected, f"the error is {error}")
        return "`NotFoundError`: code `model_not_found`"

    def of(model: str) -> list[Call]:
        create = f'chat.completions.create({{model: "{model}"'
        return [
            Call(f"{create}, …}})", lambda: whole(model)),
            Call(f"{create}, stream: true, stream_options: {{include_usage: true}}}})", lambda: stream(model)),
            Call(f"{create}, stream: true}}) that loses its provider", lambda: broken(model)),
        ]

    return [
        *of(OPENAI),
        *of(CLAUDE),
        Call("responses.create({input: …, stream: true})", responses),
        Call('chat.completions.create({model: "none", stream: true})', refusal),
    ]
