"""LangChain's chat model of Anthropic."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import anthropic
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from pydantic import SecretStr

from ..gateway import TIMEOUT_SECONDS, ensure, refused
from ..table import Call
from .expected import BREAK, CLAUDE, OPENAI, PROMPT, TEXT_TOKENS, TOKENS_MAX, TOOL_PROMPT, broken
from .langchain_messages import same_message, same_stream, same_tool_call, tool

PACKAGE = "langchain-anthropic"
FINISH = "stop_reason"


def chat(url: str, model: str, **fields: Any) -> ChatAnthropic:
    """A chat model."""
    return ChatAnthropic(
        model_name=model,
        base_url=url,
        api_key=SecretStr("unused"),
        max_tokens_to_sample=TOKENS_MAX,
        timeout=TIMEOUT_SECONDS,
        stop=None,
        **fields,
    )


def same_passed_on(chunks: list[Any]) -> str:
    """The result of a stream in Anthropic's API, of whose usage the mock tells only the output at the end.

    The input is in its first event, where this client does not look.
    """
    result = same_stream(chunks, FINISH, "end_turn", has_usage=None)
    tokens = sum(chunk.usage_metadata["output_tokens"] for chunk in chunks if chunk.usage_metadata)
    ensure(tokens == TEXT_TOKENS, f"the usage is {tokens} output tokens")
    return f"{result}, {tokens} output tokens"


def same_translated(chunks: list[Any]) -> str:
    """The result of a stream that was translated to Anthropic's API, whose end has the whole usage."""
    return same_stream(chunks, FINISH, "end_turn", has_usage=True)


def lost(url: str, name: str) -> str:
    """The result of a stream that breaks off."""
    model = chat(url, name, default_headers=BREAK)
    return broken(lambda: (chunk.text for chunk in model.stream(PROMPT)), anthropic.APIError)


def calls_of(model: ChatAnthropic, name: str) -> list[Call]:
    """What every provider must serve."""
    tools = model.bind_tools([tool])
    question = [HumanMessage(TOOL_PROMPT)]
    same = same_passed_on if name == CLAUDE else same_translated
    of = f'with model="{name}"'
    return [
        Call(f"{of}: invoke(…)", lambda: same_message(model.invoke(PROMPT), FINISH, "end_turn")),
        Call(f"{of}: stream(…)", lambda: same(list(model.stream(PROMPT)))),
        Call(f"{of}: bind_tools([…]).invoke(…)", lambda: same_tool_call(tools.invoke(question), FINISH, "tool_use")),
    ]


def calls(url: str) -> list[Call]:
    """Messages and streams of a model by Anthropic's API, and of one by translation; the call of a tool; a refusal."""

    async def asynchronous() -> str:
        return same_passed_on([chunk async for chunk in chat(url, CLAUDE).astream(PROMPT)])

    return [
        *(row for name in (CLAUDE, OPENAI) for row in calls_of(chat(url, name), name)),
        Call("astream(…)", lambda: asyncio.run(asynchronous())),
        *(
            Call(f'with model="{name}": stream(…) that loses its provider', partial(lost, url, name))
            for name in (CLAUDE, OPENAI)
        ),
        Call(
            'with model="none": invoke(…)',
            lambda: refused(
                lambda: chat(url, "none").invoke(PROMPT), anthropic.NotFoundError, "there is no model `none`"
            ),
        ),
    ]
