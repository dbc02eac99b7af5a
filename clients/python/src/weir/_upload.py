"""Files as the parts of a form."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Union

from weir._http import encode

# A path, or the bytes of a file.
File = Union[str, "os.PathLike[str]", bytes]


def read_file(file: File, name: str | None) -> tuple[str, bytes]:
    """The name and the bytes of a file."""
    if isinstance(file, bytes):
        if not name:
            raise ValueError("name is missing: the bytes of a file have no name; say for example name='report.pdf'")
        return name, file
    path = Path(file)
    return name or path.name, path.read_bytes()


def form(
    name: str, content: bytes, collection: str, options: Mapping[str, Any], webhook_url: str | None = None
) -> tuple[bytes, str]:
    """The form of a file with its options, and its media type."""
    boundary = "weir-" + secrets.token_hex(16)
    shown = name.replace('"', "%22").replace("\r", "%0D").replace("\n", "%0A")
    parts = [
        ('name="collection"', collection.encode()),
        *([] if webhook_url is None else [('name="webhook_url"', webhook_url.encode())]),
        (f'name="file"; filename="{shown}"', content),
        ('name="options"', encode({key: value for key, value in options.items() if value is not None})),
    ]
    mark = boundary.encode()
    body = b"".join(
        b"--%b\r\ncontent-disposition: form-data; %b\r\n\r\n%b\r\n" % (mark, head.encode(), part)
        for head, part in parts
    )
    return body + b"--%b--\r\n" % mark, f"multipart/form-data; boundary={boundary}"
