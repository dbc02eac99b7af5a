"""Chat with a language model behind the gateway, and with the documents of a collection as its sources."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Optional, Union

import httpx

from weir._decode import decode
from weir._errors import ReplyError, WeirConnectionError, of_problem
from weir._http import REPLY_BYTES_MAX, Body, Call, Reply, Request, encode
from weir._options import ChatRetrieval

# A longer line of a stream is an error.
LINE_BYTES_MAX = 16 << 20
_TARGET = "/v1/chat/completions"
_JSON = {"content-type": "application/json"}
_BAD_GATEWAY = 502
Messages = Union[str, Sequence[Mapping[str, Any]]]


@dataclass(frozen=True)
class ChatSource:
    """A source that the model was given: the bytes from `start` to `end` of a document's text in UTF-8."""

    n: int
    """Its number in the prompt, from 1."""
    document_id: str
    start: int
    end: int
    relevance: Optional[float] = None
    """The estimated probability that it answers the question."""
    flagged: bool = False
    """Whether it contains instructions to a model."""
    page: Optional[int] = None
    """The page, slide, sheet, chapter or message on which the text begins, from 1; None without pages."""
    page_end: Optional[int] = None
    page_label: Optional[str] = None
    """The label of the first page, such as `iv`, where that is not its number."""
    pages_approximate: bool = False
    page_breaks: list[int] = field(default_factory=list)
    """Offsets at which the further pages begin."""


@dataclass(frozen=True)
class ChatCitation:
    """A reference to a source in an answer, as the gateway has checked it."""

    n: int
    """The number that the answer names."""
    quote: str
    """The document's text from `start` to `end`; of a citation that is not verified, what the answer quotes."""
    verified: bool
    document_id: Optional[str] = None
    start: Optional[int] = None
    end: Optional[int] = None
    reason: Optional[str] = None
    """Why it is not verified."""
    page: Optional[int] = None
    """The page, slide, sheet, chapter or message on which the text begins, from 1; None without pages."""
    page_end: Optional[int] = None
    page_label: Optional[str] = None
    """The label of the first page, such as `iv`, where that is not its number."""
    pages_approximate: bool = False
    page_breaks: list[int] = field(default_factory=list)
    """Offsets at which the further pages begin."""


@dataclass(frozen=True)
class ChatUsage:
    """Tokens of a request."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    total_tokens: int = 0


@dataclass(frozen=True)
class ChatReply:
    """An answer."""

    text: str
    """The text of the first choice; empty if the model calls a tool."""
    model: str
    finish_reason: Optional[str] = None
    citations: list[ChatCitation] = field(default_factory=list)
    sources: list[ChatSource] = field(default_factory=list)
    usage: Optional[ChatUsage] = None
    body: dict[str, Any] = field(default_factory=dict, repr=False)
    """The whole reply, in the form of OpenAI's API."""


@dataclass(frozen=True)
class ChatChunk:
    """A part of an answer. Most have text only; the last ones have what belongs to the whole answer."""

    text: str
    finish_reason: Optional[str] = None
    citations: list[ChatCitation] = field(default_factory=list)
    sources: list[ChatSource] = field(default_factory=list)
    usage: Optional[ChatUsage] = None
    body: dict[str, Any] = field(default_factory=dict, repr=False)
    """The whole chunk, in the form of OpenAI's API."""


@dataclass(frozen=True)
class _Parts:
    """The fields of a reply or a chunk that have a type here."""

    model: str = ""
    citations: Optional[list[ChatCitation]] = None
    sources: Optional[list[ChatSource]] = None
    usage: Optional[ChatUsage] = None


def chat_call(messages: Messages, model: str, options: Mapping[str, Any]) -> Call[ChatReply]:
    """The whole answer."""
    return Call(_request(messages, model, options, is_stream=False), lambda reply: _reply(reply.json()), False)


def chat_stream_call(messages: Messages, model: str, options: Mapping[str, Any]) -> Call[httpx.Response]:
    """The answer in parts, which `chunk_reader` reads."""
    return Call(_request(messages, model, options, is_stream=True), _stream, False)


def chunk_reader(headers: Mapping[str, str]) -> ChunkReader:
    """The reader of a reply to a stream; a model without streams replies at once."""
    is_stream = headers.get("content-type", "").startswith("text/event-stream")
    return _EventReader() if is_stream else _WholeReader()


class ChunkReader:
    """Reads the parts of an answer from the bytes of a reply."""

    def feed(self, part: bytes) -> Iterator[ChatChunk]:
        """The chunks that are complete with these bytes."""
        raise NotImplementedError

    def finish(self) -> Iterator[ChatChunk]:
        """The rest, when the reply is complete."""
        raise NotImplementedError


class _WholeReader(ChunkReader):
    def __init__(self) -> None:
        self._body = Body()

    def feed(self, part: bytes) -> Iterator[ChatChunk]:
        self._body.add(part)
        return iter(())

    def finish(self) -> Iterator[ChatChunk]:
        whole = _reply(Reply(200, {}, self._body.joined()).json())
        yield ChatChunk(whole.text, whole.finish_reason, whole.citations, whole.sources, whole.usage, whole.body)


class _EventReader(ChunkReader):
    """Server-sent events: each line `data: …` has a chunk, and the last one `[DONE]`."""

    def __init__(self) -> None:
        self._rest = b""
        self._bytes = 0
        self._is_done = False

    def feed(self, part: bytes) -> Iterator[ChatChunk]:
        self._bytes += len(part)
        *lines, self._rest = (self._rest + part).split(b"\n")
        if len(self._rest) > LINE_BYTES_MAX or self._bytes > REPLY_BYTES_MAX:
            raise ReplyError(
                "the stream has a line or a length beyond the limit of the client; ask for a shorter answer"
            )
        for line in lines:
            name, _, value = line.rstrip(b"\r").partition(b":")
            if name != b"data" or self._is_done:
                continue
            data = value.strip()
            self._is_done = data == b"[DONE]"
            if data and not self._is_done:
                yield _chunk(Reply(200, {}, data).json())

    def finish(self) -> Iterator[ChatChunk]:
        if not self._is_done:
            raise WeirConnectionError("the stream ended before the answer was complete; ask again")
        return iter(())


def _request(messages: Messages, model: str, options: Mapping[str, Any], *, is_stream: bool) -> Request:
    if not isinstance(messages, str) and (isinstance(messages, Mapping) or not messages):
        raise TypeError("messages must be a question, or a list with at least one message")
    given = {name: value for name, value in options.items() if value is not None}
    sources = {name: given.pop(name) for name in ChatRetrieval.__annotations__ if name in given}
    if sources and "collection" not in sources:
        raise ValueError(f"`{next(iter(sources))}` chooses sources; name the `collection` that has them")
    extra = given.pop("extra", {})
    body: dict[str, Any] = {
        "model": model,
        "messages": [{"role": "user", "content": messages}] if isinstance(messages, str) else list(messages),
        **given,
        **extra,
    }
    if sources:
        body["weir"] = sources
    if is_stream:
        body = {"stream_options": {"include_usage": True}, **body, "stream": True}
    return Request("POST", _TARGET, encode(body), _JSON, is_streamed=is_stream)


def _stream(reply: Reply) -> httpx.Response:
    if reply.stream is None:
        raise ReplyError("the reply has no stream; check base_url, and any proxy before the gateway")
    return reply.stream


def _reply(body: object) -> ChatReply:
    fields, parts = _object(body), decode(_Parts, body)
    choice = _choice(fields)
    return ChatReply(
        _text(choice.get("message")),
        parts.model,
        _finish_reason(choice),
        parts.citations or [],
        parts.sources or [],
        parts.usage,
        fields,
    )


def _chunk(body: object) -> ChatChunk:
    fields = _object(body)
    if "error" in fields:
        raise of_problem(_BAD_GATEWAY, fields) or ReplyError(f"the stream has an error: {json.dumps(fields)[:200]}")
    parts = decode(_Parts, body)
    choice = _choice(fields)
    return ChatChunk(
        _text(choice.get("delta")),
        _finish_reason(choice),
        parts.citations or [],
        parts.sources or [],
        parts.usage,
        fields,
    )


def _object(body: object) -> dict[str, Any]:
    if not isinstance(body, dict):
        raise ReplyError("the reply is not a JSON object; check base_url, and any proxy before the gateway")
    return body


def _choice(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    choices = fields.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    return first if isinstance(first, dict) else {}


def _text(message: object) -> str:
    content = message.get("content") if isinstance(message, dict) else None
    return content if isinstance(content, str) else ""


def _finish_reason(choice: Mapping[str, Any]) -> str | None:
    reason = choice.get("finish_reason")
    return reason if isinstance(reason, str) else None
