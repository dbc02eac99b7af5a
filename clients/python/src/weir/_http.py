"""Requests and replies as values: everything about a call except how its bytes are sent."""

from __future__ import annotations

import json
import os
import platform
import ssl
from collections.abc import AsyncIterable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar
from urllib.parse import quote, urlencode

import httpx

from weir._errors import ReplyError
from weir._version import __version__

T = TypeVar("T")

DEFAULT_URL = "http://127.0.0.1:8000"
# How long opening a connection may take.
CONNECT_SECONDS_MAX = 5.0
# A larger reply is an error.
REPLY_BYTES_MAX = 1 << 30
_LOOPBACK = ("localhost", "127.", "::1")


@dataclass(frozen=True)
class Request:
    """A request. `target` is a path with its query, percent-encoded."""

    method: str
    target: str
    body: bytes | Iterable[bytes] | AsyncIterable[bytes] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    is_streamed: bool = False
    """Whether the body of a reply that is a success is read later, from `Reply.stream`."""
    has_timeout: bool = True
    """Whether the gateway may be silent for `Settings.timeout` only."""


@dataclass(frozen=True)
class Reply:
    """A reply. The names of `headers` are compared without case."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    stream: httpx.Response | None = None
    """The rest of a reply to a request with `is_streamed`."""

    def json(self) -> Any:  # noqa: ANN401
        """The body as JSON; `ReplyError` if it is not."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError) as error:
            raise ReplyError(
                f"the reply is not JSON: {error}; check base_url, and any proxy before the gateway"
            ) from error


class Body:
    """The body of a reply that is being received."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._bytes = 0

    def add(self, part: bytes) -> None:
        """Adds the next part; `ReplyError` when the body is too large."""
        self._bytes += len(part)
        if self._bytes > REPLY_BYTES_MAX:
            raise ReplyError(f"the reply has more than {REPLY_BYTES_MAX} bytes; request less at once")
        self._parts.append(part)

    def joined(self) -> bytes:
        """The complete body."""
        return b"".join(self._parts)


@dataclass(frozen=True)
class Call(Generic[T]):
    """A request and what its reply means.

    `is_repeatable`: executing it twice has the same effect and reply as once. `accepts` are error statuses that `parse`
    handles.
    """

    request: Request
    parse: Callable[[Reply], T]
    is_repeatable: bool = True
    accepts: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Settings:
    """What a client is made with, checked once."""

    base_url: str
    headers: Mapping[str, str] = field(repr=False)
    timeout: httpx.Timeout
    retries: int
    ca_file: str | None = None

    @classmethod
    def of(
        cls, base_url: str | None, api_key: str | None, timeout: float, retries: int, ca_file: str | None = None
    ) -> Settings:
        """Settings from arguments, and from WEIR_URL, WEIR_API_KEY and WEIR_CA_FILE where they are None."""
        if timeout <= 0:
            raise ValueError(f"timeout is {timeout}; it must be more than 0 seconds")
        if retries < 0:
            raise ValueError(f"retries is {retries}; it must be 0 or more")
        headers = {"user-agent": f"weir-python/{__version__} python/{platform.python_version()}"}
        key = os.environ.get("WEIR_API_KEY") if api_key is None else api_key
        if key:
            headers["authorization"] = f"Bearer {_checked_key(key)}"
        url = _checked_url(os.environ.get("WEIR_URL") or DEFAULT_URL if base_url is None else base_url)
        limits = httpx.Timeout(timeout, connect=min(timeout, CONNECT_SECONDS_MAX))
        return cls(url, headers, limits, retries, ca_file or os.environ.get("WEIR_CA_FILE") or None)

    def timeout_of(self, request: Request) -> httpx.Timeout:
        """How long the gateway may be silent."""
        return self.timeout if request.has_timeout else httpx.Timeout(None, connect=self.timeout.connect)

    @property
    def uses_proxies(self) -> bool:
        """Whether the proxies of the environment are used: not for this machine."""
        return not httpx.URL(self.base_url).host.startswith(_LOOPBACK)

    @property
    def verify(self) -> ssl.SSLContext | bool:
        """How certificates are verified. Loading those of the authorities takes 25 ms, and is left out without TLS."""
        is_plain = self.base_url.startswith("http:") and not self.uses_proxies
        if is_plain:
            return ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        if self.ca_file is None:
            return True
        context = httpx.create_ssl_context()
        context.load_verify_locations(self.ca_file)
        return context


def path(*segments: str) -> str:
    """A path of these segments, each percent-encoded."""
    for segment in segments:
        if not segment:
            raise ValueError("an id or name is empty; it must have at least one character")
    # clients and proxies drop segments of dots, also behind this one
    return "".join(
        "/" + (segment.replace(".", "%2E") if segment in (".", "..") else quote(segment, safe=""))
        for segment in segments
    )


def query(**parameters: object) -> str:
    """A query string of the parameters that are not None, with its question mark."""
    given = {name: value for name, value in parameters.items() if value is not None}
    return "?" + urlencode(given, quote_via=quote) if given else ""


def encode(value: object) -> bytes:
    """`value` in JSON. NaN, infinity and texts that are not valid Unicode are a `ValueError`."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_plain)
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(
            f"a text has a lone surrogate ({error.reason}); remove it, for example by .encode('utf-8', 'replace')"
        ) from error


def _plain(value: object) -> object:
    """NumPy's arrays and numbers, and mappings, as JSON has them."""
    if isinstance(value, Mapping):
        return dict(value)
    to_list = getattr(value, "tolist", None)
    if callable(to_list):
        return to_list()
    raise TypeError(
        f"{type(value).__name__} has no JSON form; use texts, numbers, booleans, None, lists and dictionaries"
    )


def _checked_url(url: str) -> str:
    if not url.startswith(("http://", "https://")):
        raise ValueError(f"base_url is `{url}`; it must begin with http:// or https://, such as {DEFAULT_URL}")
    try:
        httpx.URL(url)
    except httpx.InvalidURL as error:
        raise ValueError(f"base_url is `{url}`: {error}; it must be an address such as {DEFAULT_URL}") from error
    return url.rstrip("/")


def _checked_key(key: str) -> str:
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ValueError("api_key has white space or characters beyond ASCII; remove them")
    return key
