"""Documents in JSON, and why one has no JSON form."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any, Union

from weir._http import encode
from weir._types import JobDocumentError

# The code of the gateway for documents that it refuses.
INVALID = "invalid_parameter"


def encode_document(document: Mapping[str, Any], position: int) -> Union[bytes, JobDocumentError]:
    """The document in JSON, or the error of one that has no JSON form, with its id and its position from 0."""
    try:
        return encode(document)
    except (ValueError, TypeError, RecursionError) as error:
        place, flaw = f"documents[{position}]", str(error)
        # a document that contains itself has no end
        with suppress(RecursionError):
            flaw = next(_flaws(document, ""), flaw)
        return JobDocumentError(_id_of(document) or place, INVALID, f"{place}: {flaw}")


def refusal(errors: list[JobDocumentError]) -> ValueError:
    """The error of a request in which no document has a JSON form."""
    first = errors[0]
    more = f"; {len(errors) - 1} more have none either" if len(errors) > 1 else ""
    return ValueError(f"the document `{first.document_id}` can't be sent: {first.message}{more}")


def _id_of(document: object) -> str | None:
    id = document.get("id") if isinstance(document, Mapping) else None
    return _shown(id) if isinstance(id, str) and id else None


def _shown(text: str) -> str:
    """A text with escapes for what is not valid Unicode."""
    return text.encode("utf-8", "backslashreplace").decode()


def _flaws(value: object, path: str) -> Iterator[str]:
    """The values that JSON lacks, in order, each with its path and the remedy."""
    if isinstance(value, str):
        if not _is_valid(value):
            yield (
                f"`{path}` has a lone surrogate, which is not valid Unicode; "
                "remove it, for example by .encode('utf-8', 'replace').decode()"
            )
    elif isinstance(value, float):
        if not math.isfinite(value):
            yield f"`{path}` is {value}, which JSON has no number for; leave it out, or send None"
    elif isinstance(value, Mapping):
        for name, inner in value.items():
            shown = _shown(name) if isinstance(name, str) else repr(name)
            if isinstance(name, str) and not _is_valid(name):
                yield f"the name `{shown}` of a field has a lone surrogate; rename the field"
            yield from _flaws(inner, f"{path}.{shown}" if path else shown)
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from _flaws(inner, f"{path}[{index}]")
    else:
        to_list = getattr(value, "tolist", None)
        if callable(to_list):
            plain = to_list()
            if isinstance(plain, (list, str, float)):
                yield from _flaws(plain, path)


def _is_valid(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
