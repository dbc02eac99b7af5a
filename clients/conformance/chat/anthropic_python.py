"""The client of Anthropic for Python."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic
from anthropic.types import CitationsSearchResultLocation

from ..gateway import ensure, refused
from ..table import Call
from .expected import (
    BREAK,
    CITED_QUOTE,
    CITED_TEXT,
    CITED_URL,
    CLAUDE,
    ECHO_SOURCES,
    LISTED,
    LISTED_CLAUDE,
    OPENAI,
    PROMPT,
    PROVIDER_ERROR,
    SOURCE_LIST,
    TOKENS_MAX,
    TOOL_DESCRIPTION,
    TOOL_NAME,
    TOOL_PROMPT,
    TOOL_SCHEMA,
    broken,
    same_text,
    same_tool,
    text_of,
)

PACKAGE = "anthropic"
MESSAGES: list[Any] = [{"role": "user", "content": PROMPT}]
QUESTION: list[Any] = [{"role": "user", "content": TOOL_PROMPT}]
TOOLS: list[Any] = [{"name": TOOL_NAME, "description": TOOL_DESCRIPTION, "input_schema": TOOL_SCHEMA}]


def same_message(message: Any) -> str:
    """The result of a call whose reply is text."""
    ensure([block.type for block in message.content] == ["text"], f"the blocks are {message.content}")
    usage = message.usage.input_tokens, message.usage.output_tokens
    return same_text(message.content[0].text, message.stop_reason, "end_turn", usage)


def same_use(message: Any) -> str:
    """The result of a call whose reply is the use of a tool."""
    blocks = [block for block in message.content if block.type == "tool_use"]
    ensure(len(blocks) == 1, f"the blocks are {message.content}")
    return same_tool(blocks[0].name, blocks[0].input, message.stop_reason, "tool_use")


class Messages:
    """Calls of `/v1/messages`, of one model."""

    def __init__(self, client: anthropic.Anthropic, model: str) -> None:
        self.client = client
        self.fields: dict[str, Any] = {"model": model, "max_tokens": TOKENS_MAX}

    def whole(self) -> str:
        """A reply at once."""
        return same_message(self.client.messages.create(messages=MESSAGES, **self.fields))

    def stream(self) -> str:
        """A stream, put together by the client."""
        with self.client.messages.stream(messages=MESSAGES, **self.fields) as stream:
            text = text_of(stream.text_stream)
            message: Any = stream.get_final_message()
        ensure(text == message.content[0].text, f"the parts are {text!r}")
        return same_message(message)

    def events(self, **fields: Any) -> Iterator[Any]:
        """The events of a stream."""
        yield from self.client.messages.create(messages=MESSAGES, stream=True, **self.fields, **fields)

    def raw_stream(self) -> str:
        """A stream by its events."""
        events = list(self.events())
        ensure(events[0].type == "message_start", f"the first event is {events[0].type}")
        ensure(events[-1].type == "message_stop", f"the last event is {events[-1].type}")
        text = text_of(event.delta.text for event in events if event.type == "content_block_delta")
        end = next(event for event in events if event.type == "message_delta")
        return same_text(text, end.delta.stop_reason, "end_turn")

    def tool(self) -> str:
        """A use of a tool, and the reply to its result."""
        create = self.client.messages.create
        message: Any = create(messages=QUESTION, tools=TOOLS, **self.fields)
        result = same_use(message)
        use = next(block for block in message.content if block.type == "tool_use")
        answer = {"type": "tool_result", "tool_use_id": use.id, "content": "a low dam"}
        turns = [
            *QUESTION,
            {"role": "assistant", "content": message.content},
            {"role": "user", "content": [answer]},
        ]
        after: Any = create(messages=turns, tools=TOOLS, **self.fields)
        same_text(after.content[0].text, after.stop_reason, "end_turn")
        return f"{result}; the text after its result"

    def tool_stream(self) -> str:
        """A use of a tool as a stream."""
        with self.client.messages.stream(messages=QUESTION, tools=TOOLS, **self.fields) as stream:
            return same_use(stream.get_final_message())

    def broken(self, headers: dict[str, str]) -> str:
        """A stream that breaks off."""

        def parts() -> Iterator[str]:
            for event in self.events(extra_headers=headers):
                if event.type == "content_block_delta":
                    yield event.delta.text

        return broken(parts, anthropic.APIError)

    def calls(self) -> list[Call]:
        """What a provider must serve."""
        create = f'messages.create(model="{self.fields["model"]}"'
        stream = f'messages.stream(model="{self.fields["model"]}"'
        return [
            Call(f"{create}, …)", self.whole),
            Call(f"{create}, stream=True)", self.raw_stream),
            Call(f"{stream}, …)", self.stream),
            Call(f"{create}, tools=[…])", self.tool),
            Call(f"{stream}, tools=[…])", self.tool_stream),
            Call(f"{create}, stream=True) that loses its provider", lambda: self.broken(BREAK)),
            Call(f"{create}, stream=True) with an error of its provider", lambda: self.broken(PROVIDER_ERROR)),
        ]


def same_cited(message: Any) -> str:
    """The result of an answer with a citation of its own API, and with its list of sources."""
    texts = [block.text for block in message.content]
    ensure(texts == [CITED_TEXT, SOURCE_LIST], f"the texts are {texts!r}")
    citations = message.content[0].citations or []
    ensure(len(citations) == 1, f"the citations are {citations!r}")
    ensure(isinstance(citations[0], CitationsSearchResultLocation), f"the citation is a {type(citations[0])}")
    ensure((citations[0].cited_text, citations[0].source) == (CITED_QUOTE, CITED_URL), f"it is {citations[0]!r}")
    return "the citation of the source, and the list of sources"


def listed(client: anthropic.Anthropic, model: str) -> list[Call]:
    """A route whose answers show their sources."""
    fields: dict[str, Any] = {"model": model, "max_tokens": TOKENS_MAX, "extra_headers": ECHO_SOURCES}

    def whole() -> str:
        return same_cited(client.messages.create(messages=MESSAGES, **fields))

    def stream() -> str:
        with client.messages.stream(messages=MESSAGES, **fields) as stream:
            return same_cited(stream.get_final_message())

    def next_turn() -> str:
        said: Any = client.messages.create(messages=MESSAGES, **fields).content
        turns: list[Any] = [*MESSAGES, {"role": "assistant", "content": said}, *MESSAGES]
        return same_cited(client.messages.create(messages=turns, **fields))

    return [
        Call(f'messages.create(model="{model}", …)', whole),
        Call(f'messages.stream(model="{model}", …)', stream),
        Call(f'messages.create(model="{model}", …) after such an answer', next_turn),
    ]


async def asynchronous(url: str) -> str:
    """A stream by the asynchronous client."""
    async with anthropic.AsyncAnthropic(base_url=url, api_key="unused") as client:
        async with client.messages.stream(model=CLAUDE, max_tokens=TOKENS_MAX, messages=MESSAGES) as stream:
            return same_message(await stream.get_final_message())


def calls(url: str) -> list[Call]:
    """Messages by Anthropic's API, and by translation to OpenAI's; a refusal."""
    client = anthropic.Anthropic(base_url=url, api_key="unused")

    def unknown() -> object:
        return client.messages.create(model="none", max_tokens=TOKENS_MAX, messages=MESSAGES)

    return [
        *Messages(client, CLAUDE).calls(),
        *Messages(client, OPENAI).calls(),
        *listed(client, LISTED_CLAUDE),
        *listed(client, LISTED),
        Call("AsyncAnthropic: messages.stream(…)", lambda: asyncio.run(asynchronous(url))),
        Call(
            'messages.create(model="none")',
            lambda: refused(unknown, anthropic.NotFoundError, "there is no model `none`"),
        ),
    ]
