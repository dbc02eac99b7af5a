"""LangChain's chat model of OpenAI."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import Any

import openai
from langchain_core.messages import HumanMessage
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from ..gateway import refused
from ..table import Call
from .expected import (
    BREAK,
    CITED_TEXT,
    CLAUDE,
    ECHO_LAST,
    ECHO_SOURCES,
    GUARDED,
    INJECTION,
    OPENAI,
    PRIVATE_PROMPT,
    PROMPT,
    TOOL_PROMPT,
    broken,
    same_answer,
)
from .langchain_messages import same_message, same_stream, same_tool_call, tool

PACKAGE = "langchain-openai"
FINISH = "finish_reason"


def calls(url: str) -> list[Call]:
    """Messages and streams of a model by OpenAI's API, and of one by translation; the call of a tool; a refusal."""
    model = chat(url, OPENAI)
    rows = [row for name in (OPENAI, CLAUDE) for row in calls_of(chat(url, name), name)]

    async def asynchronous() -> str:
        return same_stream([chunk async for chunk in model.astream(PROMPT)], FINISH, "stop", has_usage=False)

    return [
        *rows,
        Call(
            "with use_responses_api=True: invoke(…)",
            lambda: same_message(chat(url, OPENAI, use_responses_api=True).invoke(PROMPT), "status", "completed"),
        ),
        Call("astream(…)", lambda: asyncio.run(asynchronous())),
        *(
            Call(f'with model="{name}": stream(…) that loses its provider', partial(lost, url, name))
            for name in (OPENAI, CLAUDE)
        ),
        *guarded(url),
        Call(
            'with model="none": invoke(…)',
            lambda: refused(lambda: chat(url, "none").invoke(PROMPT), openai.NotFoundError, "there is no model `none`"),
        ),
    ]


def chat(url: str, model: str, **fields: Any) -> ChatOpenAI:
    """A chat model."""
    return ChatOpenAI(model=model, base_url=f"{url}/v1", api_key=SecretStr("unused"), **fields)


def guarded(url: str) -> list[Call]:
    """A route with guardrails, sources and a cache, of which the client knows nothing."""
    of = f'with model="{GUARDED}"'
    last = chat(url, GUARDED, default_headers=ECHO_LAST)
    cited = chat(url, GUARDED, default_headers=ECHO_SOURCES)

    def streamed(model: ChatOpenAI, prompt: str, expected: str) -> str:
        return same_answer("".join(chunk.text for chunk in model.stream(prompt)), expected)

    blocked = partial(refused, lambda: last.invoke(INJECTION), openai.BadRequestError, "`injection`")
    return [
        Call(f"{of}: invoke(…)", lambda: same_answer(str(last.invoke(PRIVATE_PROMPT).content), PRIVATE_PROMPT)),
        Call(f"{of}: stream(…)", lambda: streamed(last, PRIVATE_PROMPT, PRIVATE_PROMPT)),
        Call(f"{of}: invoke(…) of a source", lambda: same_answer(str(cited.invoke(PROMPT).content), CITED_TEXT)),
        Call(f"{of}: stream(…) of a source", lambda: streamed(cited, PROMPT, CITED_TEXT)),
        Call(f"{of}: invoke(…) of an injected prompt", blocked),
    ]


def lost(url: str, name: str) -> str:
    """The result of a stream that breaks off."""
    model = chat(url, name, default_headers=BREAK)
    return broken(lambda: (chunk.text for chunk in model.stream(PROMPT)), openai.APIError)


def calls_of(model: ChatOpenAI, name: str) -> list[Call]:
    """What every provider must serve."""
    told = model.model_copy(update={"stream_usage": True})
    tools = model.bind_tools([tool])
    question = [HumanMessage(TOOL_PROMPT)]
    of = f'with model="{name}"'
    return [
        Call(f"{of}: invoke(…)", lambda: same_message(model.invoke(PROMPT), FINISH, "stop")),
        Call(f"{of}: stream(…)", lambda: same_stream(list(model.stream(PROMPT)), FINISH, "stop", has_usage=False)),
        Call(
            f"{of}, stream_usage=True: stream(…)",
            lambda: same_stream(list(told.stream(PROMPT)), FINISH, "stop", has_usage=True),
        ),
        Call(f"{of}: bind_tools([…]).invoke(…)", lambda: same_tool_call(tools.invoke(question), FINISH, "tool_calls")),
    ]
