"""The client of OpenAI for Python: chat, completions and responses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import openai

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
    LISTED,
    OPEN_WEBUI,
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
    same_citations,
    same_text,
    same_tool,
    same_url_citation,
    text_of,
)

PACKAGE = "openai"
MESSAGES: list[Any] = [{"role": "user", "content": PROMPT}]
TOOLS: list[Any] = [
    {
        "type": "function",
        "function": {"name": TOOL_NAME, "description": TOOL_DESCRIPTION, "parameters": TOOL_SCHEMA},
    }
]


def usage_of(usage: Any) -> tuple[int, int]:
    """Prompt and completion tokens of a chat."""
    ensure(usage is not None, "there is no usage")
    ensure(usage.total_tokens == usage.prompt_tokens + usage.completion_tokens, f"the sum of the usage is {usage}")
    return usage.prompt_tokens, usage.completion_tokens


def same_chunks(chunks: list[Any], has_usage: bool) -> str:
    """The result of a stream of a chat."""
    usages = [chunk.usage for chunk in chunks if chunk.usage]
    ensure(len(usages) == int(has_usage), f"{len(usages)} chunks have a usage")
    choices = [choice for chunk in chunks for choice in chunk.choices]
    finishes = [choice.finish_reason for choice in choices if choice.finish_reason]
    ensure(len(finishes) == 1, f"the reasons of the end are {finishes}")
    text = text_of(choice.delta.content for choice in choices)
    return same_text(text, finishes[0], "stop", usage_of(usages[0]) if has_usage else None)


class Chat:
    """Calls of `/v1/chat/completions`, of one model."""

    def __init__(self, client: openai.OpenAI, model: str) -> None:
        self.client = client
        self.model = model

    def whole(self) -> str:
        """A reply at once."""
        reply = self.client.chat.completions.create(model=self.model, messages=MESSAGES)
        choice = reply.choices[0]
        return same_text(choice.message.content, choice.finish_reason, "stop", usage_of(reply.usage))

    def stream(self) -> str:
        """A stream."""
        return same_chunks(list(self.chunks()), has_usage=False)

    def stream_with_usage(self) -> str:
        """A stream whose last chunk is the usage."""
        return same_chunks(list(self.chunks(stream_options={"include_usage": True})), has_usage=True)

    def chunks(self, **fields: Any) -> Iterator[Any]:
        """The chunks of a stream."""
        create: Any = self.client.chat.completions.create
        yield from create(model=self.model, messages=MESSAGES, stream=True, **fields)

    def tool(self) -> str:
        """A call of a tool, and the reply to its result."""
        create = self.client.chat.completions.create
        question: list[Any] = [{"role": "user", "content": TOOL_PROMPT}]
        choice = create(model=self.model, messages=question, tools=TOOLS).choices[0]
        calls: list[Any] = choice.message.tool_calls or []
        ensure(len(calls) == 1, f"{len(calls)} calls of tools")
        result = same_tool(calls[0].function.name, calls[0].function.arguments, choice.finish_reason, "tool_calls")
        answer = {"role": "tool", "tool_call_id": calls[0].id, "content": "a low dam"}
        messages = [*question, choice.message.model_dump(exclude_none=True), answer]
        after = create(model=self.model, messages=messages, tools=TOOLS).choices[0]
        same_text(after.message.content, after.finish_reason, "stop")
        return f"{result}; the text after its result"

    def tool_stream(self) -> str:
        """A call of a tool as a stream, put together by the client."""
        question: list[Any] = [{"role": "user", "content": TOOL_PROMPT}]
        with self.client.chat.completions.stream(model=self.model, messages=question, tools=TOOLS) as stream:
            choice = stream.get_final_completion().choices[0]
        calls: list[Any] = choice.message.tool_calls or []
        ensure(len(calls) == 1, f"{len(calls)} calls of tools")
        return same_tool(calls[0].function.name, calls[0].function.arguments, choice.finish_reason, "tool_calls")

    def broken(self, headers: dict[str, str]) -> str:
        """A stream that breaks off."""

        def parts() -> Iterator[str | None]:
            for chunk in self.chunks(extra_headers=headers):
                yield from (choice.delta.content for choice in chunk.choices)

        return broken(parts, openai.APIError)

    def calls(self) -> list[Call]:
        """What every provider must serve."""
        create = f'chat.completions.create(model="{self.model}"'
        return [
            Call(f"{create}, …)", self.whole),
            Call(f"{create}, stream=True)", self.stream),
            Call(f'{create}, stream=True, stream_options={{"include_usage": True}})', self.stream_with_usage),
            Call(f"{create}, tools=[…])", self.tool),
            Call(f'chat.completions.stream(model="{self.model}", tools=[…])', self.tool_stream),
            Call(f"{create}, stream=True) that loses its provider", lambda: self.broken(BREAK)),
            Call(f"{create}, stream=True) with an error of its provider", lambda: self.broken(PROVIDER_ERROR)),
        ]


async def asynchronous(url: str, is_stream: bool) -> str:
    """A chat by the asynchronous client."""
    async with openai.AsyncOpenAI(base_url=url, api_key="unused") as client:
        create: Any = client.chat.completions.create
        if is_stream:
            stream = await create(model=OPENAI, messages=MESSAGES, stream=True)
            return same_chunks([chunk async for chunk in stream], has_usage=False)
        reply = await create(model=OPENAI, messages=MESSAGES)
        choice = reply.choices[0]
        return same_text(choice.message.content, choice.finish_reason, "stop", usage_of(reply.usage))


def completions(client: openai.OpenAI) -> list[Call]:
    """Calls of `/v1/completions`."""

    def whole() -> str:
        reply = client.completions.create(model=OPENAI, prompt=PROMPT)
        return same_text(reply.choices[0].text, reply.choices[0].finish_reason, "stop", usage_of(reply.usage))

    def stream() -> str:
        choices = [
            choice
            for chunk in client.completions.create(model=OPENAI, prompt=PROMPT, stream=True)
            for choice in chunk.choices
        ]
        return same_text(text_of(choice.text for choice in choices), choices[-1].finish_reason, "stop")

    return [
        Call("completions.create(prompt=…)", whole),
        Call("completions.create(prompt=…, stream=True)", stream),
    ]


def responses(client: openai.OpenAI) -> list[Call]:
    """Calls of `/v1/responses`."""

    def same_response(response: Any) -> str:
        usage = response.usage.input_tokens, response.usage.output_tokens
        return same_text(response.output_text, response.status, "completed", usage)

    def stream() -> str:
        events: list[Any] = list(client.responses.create(model=OPENAI, input=PROMPT, stream=True))
        deltas = text_of(event.delta for event in events if event.type == "response.output_text.delta")
        ensure(events[-1].type == "response.completed", f"the last event is {events[-1].type}")
        result = same_response(events[-1].response)
        ensure(deltas == events[-1].response.output_text, f"the deltas are {deltas!r}")
        return result

    return [
        Call("responses.create(input=…)", lambda: same_response(client.responses.create(model=OPENAI, input=PROMPT))),
        Call("responses.create(input=…, stream=True)", stream),
    ]


def guarded(client: openai.OpenAI) -> list[Call]:
    """A route with guardrails, sources and a cache."""
    create: Any = client.chat.completions.create

    def ask(prompt: str, headers: dict[str, str], **fields: Any) -> Any:
        messages = [{"role": "user", "content": prompt}]
        return create(model=GUARDED, messages=messages, extra_headers=headers, **fields)

    def streamed() -> str:
        chunks = list(ask(PRIVATE_PROMPT, ECHO_LAST, stream=True))
        parts = [choice.delta.content for chunk in chunks for choice in chunk.choices]
        return same_answer(text_of(parts), PRIVATE_PROMPT)

    def cited() -> str:
        reply = ask(PROMPT, ECHO_SOURCES)
        same_answer(reply.choices[0].message.content, CITED_TEXT)
        return same_citations(reply.citations)

    def cited_stream() -> str:
        return same_citations([chunk for chunk in ask(PROMPT, ECHO_SOURCES, stream=True)][-1].citations)

    def kept() -> str:
        messages: Any = [{"role": "user", "content": "twice"}]
        raw = client.chat.completions.with_raw_response
        results = [raw.create(model=GUARDED, messages=messages).headers.get("x-weir-cache") for _ in range(2)]
        ensure(results[1] == "hit", f"the second reply is a {results[1]!r}")
        return "the reply of the first call"

    of = f'chat.completions.create(model="{GUARDED}"'
    return [
        Call(
            f"{of}, …)", lambda: same_answer(ask(PRIVATE_PROMPT, ECHO_LAST).choices[0].message.content, PRIVATE_PROMPT)
        ),
        Call(f"{of}, stream=True)", streamed),
        Call(f"{of}, …) of a source", cited),
        Call(f"{of}, stream=True) of a source", cited_stream),
        Call(f"{of}, …) a second time", kept),
        Call(
            f"{of}, …) of an injected prompt",
            lambda: refused(lambda: ask(INJECTION, ECHO_LAST), openai.BadRequestError, "`injection`"),
        ),
    ]


def listed(client: openai.OpenAI) -> list[Call]:
    """Routes whose answers show their sources."""
    messages: Any = MESSAGES
    fields: dict[str, Any] = {"model": LISTED, "extra_headers": ECHO_SOURCES}

    def same_message(message: Any) -> str:
        ensure(len(message.annotations or []) == 1, f"the annotations are {message.annotations!r}")
        return same_url_citation(message.annotations[0].url_citation, message.content)

    def chat() -> str:
        return same_message(client.chat.completions.create(messages=messages, **fields).choices[0].message)

    def chat_stream() -> str:
        with client.chat.completions.stream(messages=messages, **fields) as stream:
            return same_message(stream.get_final_completion().choices[0].message)

    def same_response(response: Any) -> str:
        part = response.output[0].content[0]
        ensure([one.type for one in part.annotations] == ["url_citation"], f"the part is {part!r}")
        return same_url_citation(part.annotations[0], response.output_text)

    def response() -> str:
        return same_response(client.responses.create(input=PROMPT, **fields))

    def response_stream() -> str:
        with client.responses.stream(input=PROMPT, **fields) as stream:
            events: list[Any] = list(stream)
            final = stream.get_final_response()
        numbers = [event.sequence_number for event in events if event.type.startswith("response.")]
        ensure(numbers == sorted(numbers), f"the numbers are {numbers}")
        added = [event for event in events if event.type == "response.output_text.annotation.added"]
        ensure(len(added) == 1, f"{len(added)} annotations were added")
        deltas = text_of(event.delta for event in events if event.type == "response.output_text.delta")
        ensure(deltas == final.output_text, f"the deltas are {deltas!r}")
        return same_response(final)

    def open_webui() -> str:
        stream: Any = client.chat.completions.create(
            model=OPEN_WEBUI, messages=messages, stream=True, extra_headers=ECHO_SOURCES
        )
        chunks = list(stream)
        ensure(all(chunk.choices[0].delta is not None for chunk in chunks), f"the chunks are {chunks!r}")
        same_answer(text_of(chunk.choices[0].delta.content for chunk in chunks), CITED_TEXT)
        events = [chunk.event for chunk in chunks if getattr(chunk, "event", None)]
        ensure([event["type"] for event in events] == ["source"], f"the events are {events!r}")
        return "the answer, and an event with its source"

    return [
        Call(f'chat.completions.create(model="{LISTED}", …)', chat),
        Call(f'chat.completions.stream(model="{LISTED}", …)', chat_stream),
        Call(f'responses.create(model="{LISTED}", …)', response),
        Call(f'responses.stream(model="{LISTED}", …)', response_stream),
        Call(f'chat.completions.create(model="{OPEN_WEBUI}", stream=True)', open_webui),
    ]


def calls(url: str) -> list[Call]:
    """Chats with a model of each provider, the other routes, a refusal."""
    client = openai.OpenAI(base_url=f"{url}/v1", api_key="unused")
    create = client.chat.completions.create
    chats = [call for model in (OPENAI, CLAUDE, GEMINI) for call in Chat(client, model).calls()]
    return [
        *chats,
        Call("AsyncOpenAI: chat.completions.create(…)", lambda: asyncio.run(asynchronous(f"{url}/v1", False))),
        Call(
            "AsyncOpenAI: chat.completions.create(stream=True)",
            lambda: asyncio.run(asynchronous(f"{url}/v1", True)),
        ),
        *completions(client),
        *responses(client),
        *guarded(client),
        *listed(client),
        Call(
            'chat.completions.create(model="none")',
            lambda: refused(
                lambda: create(model="none", messages=MESSAGES), openai.NotFoundError, "there is no model `none`"
            ),
        ),
        Call(
            'chat.completions.create(model="none", stream=True)',
            lambda: refused(
                lambda: create(model="none", messages=MESSAGES, stream=True),
                openai.NotFoundError,
                "there is no model `none`",
            ),
        ),
    ]
