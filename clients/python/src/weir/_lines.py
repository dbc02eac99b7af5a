"""Lines of JSON from the parts of a reply."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from weir._errors import ReplyError

# A document with its text, escaped, is shorter.
LINE_BYTES_MAX = 256 << 20


class Lines:
    """Puts lines together from the parts of a reply, and reads them."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._bytes = 0

    def feed(self, part: bytes) -> Iterator[dict[str, Any]]:
        """The objects whose lines are complete with these bytes."""
        *ends, rest = part.split(b"\n")
        for end in ends:
            yield _read(b"".join([*self._parts, end]))
            self._parts, self._bytes = [], 0
        self._parts.append(rest)
        self._bytes += len(rest)
        if self._bytes > LINE_BYTES_MAX:
            raise ReplyError(
                f"the reply has a line of more than {LINE_BYTES_MAX} bytes; check any proxy before the gateway"
            )

    def finish(self) -> None:
        """`ReplyError` if the last line is not complete."""
        if self._bytes > 0:
            raise ReplyError("the export broke off; the log of the gateway has the reason")


def _read(line: bytes) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ReplyError(f"a line of the reply is not JSON: {error}; check any proxy before the gateway") from error
    if not isinstance(value, dict):
        raise ReplyError("a line of the reply is not an object; check base_url, and any proxy before the gateway")
    return value
