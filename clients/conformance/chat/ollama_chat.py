"""The client of Ollama: chat, prompts, tools and models."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import Any

import ollama

from ..gateway import ensure, refused
from ..table import Call
from .expected import (
    BREAK,
    CITED_TEXT,
    CLAUDE,
    ECHO_LAST,
    ECHO_SOURCES,
    GEMINI,
    GUARDED,
    INJECTION,
    OPENAI,
    PRIVATE_PROMPT,
    PROMPT,
    PROVIDER_ERROR,
    TOOL_DESCRIPTION,
    TOOL_NAME,
    TOOL_PROMPT,
    TOOL_SCHEMA,
    broken,
    same_answer,
    same_text,
    same_tool,
    text_of,
)

PACKAGE = "ollama"
MESSAGES = [{"role": "user", "content": PROMPT}]
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {"name": TOOL_NAME, "description": TOOL_DESCRIPTION, "parameters": TOOL_SCHEMA},
    }
]
# The first bytes of a PNG.
IMAGE = base64.b64encode(b"\x89PNG\r\n\x1a\n0000").decode()


def usage_of(reply: Any) -> tuple[int, int]:
    """Prompt and completion tokens of the end of a reply, whose durations must fit together."""
    ensure(reply.done, "the reply is not done")
    ensure(reply.total_duration >= reply.eval_duration > 0, f"the durations are {reply!r}")
    return reply.prompt_eval_count, reply.eval_count


class Chat:
    """Calls of one model."""

    def __init__(self, client: ollama.Client, model: str) -> None:
        self.client = client
        self.model = model

    def whole(self) -> str:
        """A reply at once."""
        reply = self.client.chat(model=self.model, messages=MESSAGES)
        return same_text(reply.message.content, reply.done_reason, "stop", usage_of(reply))

    def stream(self) -> str:
        """A stream."""
        parts = list(self.client.chat(model=self.model, messages=MESSAGES, stream=True))
        text = text_of(part.message.content for part in parts)
        return same_text(text, parts[-1].done_reason, "stop", usage_of(parts[-1]))

    def tool(self) -> str:
        """A call of a tool, and the reply to its result."""
        messages: list[Any] = [{"role": "user", "content": TOOL_PROMPT}]
        reply = self.client.chat(model=self.model, messages=messages, tools=TOOLS)
        calls: Any = reply.message.tool_calls or []
        ensure(len(calls) == 1, f"{len(calls)} calls of tools")
        result = same_tool(calls[0].function.name, dict(calls[0].function.arguments), reply.done_reason, "stop")
        messages += [reply.message, {"role": "tool", "tool_name": TOOL_NAME, "content": "a low dam"}]
        after = self.client.chat(model=self.model, messages=messages, tools=TOOLS)
        same_text(after.message.content, after.done_reason, "stop")
        return f"{result}; the text after its result"

    def tool_stream(self) -> str:
        """A call of a tool in a stream."""
        question = [{"role": "user", "content": TOOL_PROMPT}]
        parts = list(self.client.chat(model=self.model, messages=question, tools=TOOLS, stream=True))
        calls: list[Any] = [call for part in parts for call in part.message.tool_calls or []]
        ensure(len(calls) == 1, f"{len(calls)} calls of tools")
        arguments = dict(calls[0].function.arguments)
        return same_tool(calls[0].function.name, arguments, parts[-1].done_reason, "stop")

    def broken(self, url: str, headers: dict[str, str]) -> str:
        """A stream that breaks off."""
        client = ollama.Client(host=url, headers=headers)

        def parts() -> Iterator[str | None]:
            for part in client.chat(model=self.model, messages=MESSAGES, stream=True):
                yield part.message.content

        return broken(parts, ollama.ResponseError)

    def calls(self, url: str) -> list[Call]:
        """What every provider must serve."""
        chat = f'chat(model="{self.model}"'
        return [
            Call(f"{chat}, …)", self.whole),
            Call(f"{chat}, stream=True)", self.stream),
            Call(f"{chat}, tools=[…])", self.tool),
            Call(f"{chat}, tools=[…], stream=True)", self.tool_stream),
            Call(f"{chat}, stream=True) that loses its provider", lambda: self.broken(url, BREAK)),
            Call(f"{chat}, stream=True) with an error of its provider", lambda: self.broken(url, PROVIDER_ERROR)),
        ]


async def asynchronous(url: str) -> str:
    """A stream of the asynchronous client."""
    stream = await ollama.AsyncClient(host=url).chat(model=OPENAI, messages=MESSAGES, stream=True)
    parts = [part async for part in stream]
    return same_text(text_of(part.message.content for part in parts), parts[-1].done_reason, "stop")


def prompts(client: ollama.Client) -> list[Call]:
    """Calls of `/api/generate`."""

    def whole(**fields: Any) -> str:
        reply = client.generate(model=OPENAI, prompt=PROMPT, **fields)
        return same_text(reply.response, reply.done_reason, "stop", usage_of(reply))

    def stream() -> str:
        parts = list(client.generate(model=OPENAI, prompt=PROMPT, stream=True))
        text = text_of(part.response for part in parts)
        return same_text(text, parts[-1].done_reason, "stop", usage_of(parts[-1]))

    def limited() -> str:
        reply = client.generate(model=OPENAI, prompt=PROMPT, options={"num_predict": 2, "temperature": 0.5})
        ensure((reply.done_reason, reply.eval_count) == ("length", 2), f"the reply is {reply!r}")
        return "2 tokens, `length`"

    def loaded() -> str:
        reply = client.generate(model=OPENAI, keep_alive=0)
        ensure(reply.done_reason == "unload", f"the end is {reply.done_reason!r}")
        return "`unload`"

    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return [
        Call("generate(prompt=…)", whole),
        Call("generate(prompt=…, stream=True)", stream),
        Call("generate(prompt=…, raw=True)", lambda: whole(raw=True)),
        Call("generate(prompt=…, images=[…], format={…})", lambda: whole(images=[IMAGE], format=schema)),
        Call("generate(prompt=…, options={…})", limited),
        Call("generate(keep_alive=0)", loaded),
    ]


def guarded(url: str) -> list[Call]:
    """A route with guardrails, sources and a cache."""

    def ask(prompt: str, headers: dict[str, str], **fields: Any) -> Any:
        messages = [{"role": "user", "content": prompt}]
        return ollama.Client(host=url, headers=headers).chat(model=GUARDED, messages=messages, **fields)

    def streamed() -> str:
        parts = list(ask(PRIVATE_PROMPT, ECHO_LAST, stream=True))
        return same_answer(text_of(part.message.content for part in parts), PRIVATE_PROMPT)

    def cited() -> str:
        return same_answer(ask(PROMPT, ECHO_SOURCES).message.content, CITED_TEXT)

    of = f'chat(model="{GUARDED}"'
    return [
        Call(f"{of}, …)", lambda: same_answer(ask(PRIVATE_PROMPT, ECHO_LAST).message.content, PRIVATE_PROMPT)),
        Call(f"{of}, stream=True)", streamed),
        Call(f"{of}, …) of a source", cited),
        Call(
            f"{of}, …) of an injected prompt",
            lambda: refused(lambda: ask(INJECTION, ECHO_LAST), ollama.ResponseError, "`injection`"),
        ),
    ]


def calls(url: str) -> list[Call]:
    """Chats with a model of each provider, prompts, models, refusals."""
    client = ollama.Client(host=url)

    def models() -> str:
        names = [model.model for model in client.list().models]
        ensure(GUARDED in names, f"the list is {names}")
        return "the routes"

    def show() -> str:
        shown: Any = client.show(GUARDED)
        ensure("completion" in shown.capabilities, f"the capabilities are {shown.capabilities}")
        return ", ".join(f"`{capability}`" for capability in shown.capabilities)

    def refusal(**fields: Any) -> Any:
        return client.generate(model=OPENAI, prompt=PROMPT, **fields)

    chats = [call for model in (OPENAI, CLAUDE, GEMINI) for call in Chat(client, model).calls(url)]
    return [
        *chats,
        Call("AsyncClient: chat(stream=True)", lambda: asyncio.run(asynchronous(url))),
        *prompts(client),
        *guarded(url),
        Call("list()", models),
        Call(f'show("{GUARDED}")', show),
        Call("ps()", lambda: f"{len(client.ps().models)} embedding model"),
        Call(
            "generate(template=…)",
            lambda: refused(lambda: refusal(template="t"), ollama.ResponseError, "`template` is not possible"),
        ),
        Call(
            "generate(options={mirostat: 2})",
            lambda: refused(
                lambda: refusal(options={"mirostat": 2}), ollama.ResponseError, "`options.mirostat` is not possible"
            ),
        ),
        Call(
            'chat(model="none")',
            lambda: refused(
                lambda: client.chat(model="none", messages=MESSAGES), ollama.ResponseError, "there is no model `none`"
            ),
        ),
    ]
