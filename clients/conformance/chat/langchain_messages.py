"""Messages of LangChain's chat models, compared with what the mock replies."""

from __future__ import annotations

import operator
from functools import reduce
from typing import Any

from ..gateway import ensure
from .expected import TOOL_DESCRIPTION, TOOL_NAME, TOOL_SCHEMA, same_text, same_tool, text_of

tool: dict[str, Any] = {
    "type": "function",
    "function": {"name": TOOL_NAME, "description": TOOL_DESCRIPTION, "parameters": TOOL_SCHEMA},
}


def usage_of(message: Any) -> tuple[int, int]:
    """Input and output tokens of a message."""
    usage = message.usage_metadata
    ensure(usage is not None, "there is no usage")
    return usage["input_tokens"], usage["output_tokens"]


def same_message(message: Any, field: str, finish: str) -> str:
    """The result of a call whose reply is text; the metadata has the reason of the end in this field."""
    return same_text(message.text, message.response_metadata.get(field), finish, usage_of(message))


def same_stream(chunks: list[Any], field: str, finish: str, has_usage: bool | None) -> str:
    """The result of a stream whose chunks add up to the text; `has_usage` is `None` if the caller looks at it."""
    text_of(chunk.text for chunk in chunks)
    message = reduce(operator.add, chunks)
    ensure(has_usage is not False or message.usage_metadata is None, "there is a usage")
    usage = usage_of(message) if has_usage else None
    return same_text(message.text, message.response_metadata.get(field), finish, usage)


def same_tool_call(message: Any, field: str, finish: str) -> str:
    """The result of a call whose reply is a call of the tool."""
    ensure(len(message.tool_calls) == 1, f"{len(message.tool_calls)} calls of tools")
    call = message.tool_calls[0]
    return same_tool(call["name"], call["args"], message.response_metadata.get(field), finish)
