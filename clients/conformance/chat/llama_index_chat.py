"""LlamaIndex's chat model of servers with OpenAI's API."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
from llama_index.core.llms import ChatMessage
from llama_index.core.tools import FunctionTool
from llama_index.llms.openai_like import OpenAILike

from ..gateway import ensure, refused
from ..table import Call
from .expected import (
    BREAK,
    CLAUDE,
    OPENAI,
    PROMPT,
    TOOL_DESCRIPTION,
    TOOL_NAME,
    TOOL_PROMPT,
    broken,
    same_text,
    same_tool,
    text_of,
)

PACKAGE = "llama-index-llms-openai-like"
MESSAGES = [ChatMessage(role="user", content=PROMPT)]


def chat(url: str, model: str, **fields: Any) -> OpenAILike:
    """A chat model."""
    return OpenAILike(model=model, api_base=f"{url}/v1", api_key="unused", is_chat_model=True, **fields)


def same_reply(reply: Any) -> str:
    """The result of a reply at once."""
    choice = reply.raw.choices[0]
    usage = reply.raw.usage.prompt_tokens, reply.raw.usage.completion_tokens
    return same_text(reply.message.content, choice.finish_reason, "stop", usage)


def same_stream(replies: list[Any]) -> str:
    """The result of a stream, each reply of which has the text so far."""
    text = text_of(reply.delta for reply in replies)
    ensure(text == replies[-1].message.content, f"the parts are {text!r}")
    finishes = [choice.finish_reason for reply in replies for choice in reply.raw.choices if choice.finish_reason]
    ensure(len(finishes) == 1, f"the reasons of the end are {finishes}")
    return same_text(text, finishes[0], "stop")


def look_up(text: str) -> str:
    """The function of the tool."""
    return text


def called(model: OpenAILike) -> str:
    """The result of a call of the tool."""
    tool = FunctionTool.from_defaults(look_up, name=TOOL_NAME, description=TOOL_DESCRIPTION)
    reply: Any = model.chat_with_tools([tool], user_msg=TOOL_PROMPT)
    selected = model.get_tool_calls_from_response(reply)
    ensure(len(selected) == 1, f"{len(selected)} calls of tools")
    finish = reply.raw.choices[0].finish_reason
    return same_tool(selected[0].tool_name, selected[0].tool_kwargs, finish, "tool_calls")


def calls(url: str) -> list[Call]:
    """Chats with a model by OpenAI's API, and with one by translation; a completion; a refusal."""
    model = chat(url, OPENAI)

    async def asynchronous() -> str:
        return same_stream([reply async for reply in await model.astream_chat(MESSAGES)])

    def completed() -> str:
        reply: Any = OpenAILike(model=OPENAI, api_base=f"{url}/v1", api_key="unused").complete(PROMPT)
        return same_text(reply.text, reply.raw.choices[0].finish_reason, "stop")

    def of(name: str) -> list[Call]:
        model = chat(url, name)
        lost = chat(url, name, default_headers=BREAK)
        tools = chat(url, name, is_function_calling_model=True)
        return [
            Call(f'with model="{name}": chat([…])', lambda: same_reply(model.chat(MESSAGES))),
            Call(f'with model="{name}": stream_chat([…])', lambda: same_stream(list(model.stream_chat(MESSAGES)))),
            Call(f'with model="{name}": chat_with_tools([…])', lambda: called(tools)),
            Call(
                f'with model="{name}": stream_chat([…]) that loses its provider',
                lambda: broken(lambda: (reply.delta for reply in lost.stream_chat(MESSAGES)), openai.APIError),
            ),
        ]

    return [
        *of(OPENAI),
        *of(CLAUDE),
        Call("astream_chat([…])", lambda: asyncio.run(asynchronous())),
        Call("with is_chat_model=False: complete(…)", completed),
        Call(
            'with model="none": chat([…])',
            lambda: refused(lambda: chat(url, "none").chat(MESSAGES), openai.NotFoundError, "there is no model `none`"),
        ),
    ]
