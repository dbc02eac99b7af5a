"""A stand-in for the gateway that keeps the contract of raw embeddings, for tests of the measurement. The standard library alone.

`POST /v1/embeddings` with {"model","input"} answers OpenAI's JSON or, for `Accept: application/octet-stream`, N × D × 4 bytes with their
shape in headers.
"""

from __future__ import annotations

import argparse
import json
import struct
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

DIMENSION = 1024
RAW = "application/octet-stream"


class Handler(BaseHTTPRequestHandler):
    """One connection."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        """Always healthy."""
        self._reply(b'{"status":"ok"}', "application/json", {})

    def do_POST(self) -> None:
        """Vectors of the texts' lengths."""
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        values = [float(len(text)) for text in body["input"]]
        if RAW in self.headers.get("accept", ""):
            shape = {"x-embedding-count": str(len(values)), "x-embedding-dim": str(DIMENSION), "x-embedding-dtype": "float32"}
            self._reply(b"".join(struct.pack("<f", value) * DIMENSION for value in values), RAW, shape)
        else:
            data = [{"index": at, "embedding": [value] * DIMENSION} for at, value in enumerate(values)]
            self._reply(json.dumps({"object": "list", "data": data}).encode(), "application/json", {})

    def _reply(self, content: bytes, kind: str, headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in ({"content-type": kind, "content-length": str(len(content))} | headers).items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Nothing."""


class Server(ThreadingHTTPServer):
    """Its queue is as long as the clients' connections are many."""

    request_queue_size = 64
    daemon_threads = True


def main() -> None:
    """Reads the command line and serves."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, required=True)
    Server(("127.0.0.1", parser.parse_args().port), Handler).serve_forever()


if __name__ == "__main__":
    main()
