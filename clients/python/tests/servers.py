"""Servers of the tests: the real gateway, and one that replies as a script says."""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import shutil
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast

from weir import AsyncWeir, Weir

ROOT = Path(__file__).resolve().parents[3]
START_SECONDS_MAX = 60
# The client of the tests takes its settings from arguments only.
for variable in ("WEIR_URL", "WEIR_API_KEY", "WEIR_CA_FILE"):
    os.environ.pop(variable, None)


def binary() -> Path:
    """The gateway: WEIR_BINARY, or what cargo has built last."""
    if "WEIR_BINARY" in os.environ:
        return Path(os.environ["WEIR_BINARY"])
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [path for path in (target / "checked/weir", target / "release/weir") if path.is_file()]
    if not built:
        raise FileNotFoundError(f"no gateway in {target}: `cargo build --profile checked`, or name one by WEIR_BINARY")
    return max(built, key=lambda path: path.stat().st_mtime)


@contextmanager
def gateway(**variables: str) -> Iterator[str]:
    """The address of a gateway of its own, with pseudo embeddings. It is stopped at the end."""
    folder = tempfile.mkdtemp(prefix="weir-client-")
    environment = {"WEIR_MODEL": "pseudo", "WEIR_DATA_DIR": folder, "WEIR_LISTEN": "127.0.0.1:0", **variables}
    # the log goes to a file, because nobody reads a pipe
    log = Path(folder, "log")
    with log.open("wb") as stderr:
        process = subprocess.Popen([binary(), "serve"], env=environment, stderr=stderr)
    try:
        yield _address(process, log)
    finally:
        process.terminate()
        try:
            process.wait(START_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        shutil.rmtree(folder)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    begun = time.monotonic()
    while time.monotonic() - begun < START_SECONDS_MAX and process.poll() is None:
        for line in log.read_text().splitlines():
            if '"address":' in line and line.endswith("}"):
                return f"http://{json.loads(line)['address']}"
        time.sleep(0.02)
    raise TimeoutError(f"the gateway did not start:\n{log.read_text()}")


@dataclass
class Scripted:
    """A reply. `is_cut` closes the connection without one, or within the body if there is a body."""

    status: int = 200
    body: bytes | dict[str, Any] | list[Any] = b""
    headers: dict[str, str] = field(default_factory=dict)
    delay_seconds: float = 0.0
    is_cut: bool = False


@dataclass
class Received:
    """A request that the script got."""

    method: str
    target: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:  # noqa: ANN401
        return json.loads(self.body)


Script = Callable[[Received], Scripted]


@contextmanager
def scripted(*replies: Scripted, by: Script | None = None) -> Iterator[tuple[str, list[Received]]]:
    """The address of a server that sends these replies in turn, the last one ever after; and its requests."""
    received: list[Received] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = -1  # one packet for each reply: a second would be delayed by the receiver

        def handle_any(self) -> None:
            length = int(self.headers.get("content-length", 0))
            headers = {name.lower(): value for name, value in self.headers.items()}
            request = Received(self.command, self.path, headers, self.rfile.read(length))
            received.append(request)
            reply = by(request) if by else replies[min(len(received), len(replies)) - 1]
            time.sleep(reply.delay_seconds)
            _send(self, reply)

        do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = handle_any  # noqa: N815

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: object, client_address: object) -> None:
            """Clients that go away are part of the tests."""

    server = Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", received
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _send(handler: BaseHTTPRequestHandler, reply: Scripted) -> None:
    body = reply.body if isinstance(reply.body, bytes) else json.dumps(reply.body).encode()
    handler.close_connection = reply.is_cut or handler.close_connection
    if reply.is_cut and not body:
        return
    headers = {"content-type": "application/json", "content-length": str(len(body) * (2 if reply.is_cut else 1))}
    handler.send_response(reply.status)
    for name, value in {**headers, **reply.headers}.items():
        handler.send_header(name, value)
    handler.end_headers()
    handler.wfile.write(body)


def free_port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return cast(int, probe.getsockname()[1])


class Blocking:
    """An `AsyncWeir` whose methods block, so that one test runs with both clients."""

    def __init__(self, *arguments: Any, **options: Any) -> None:  # noqa: ANN401
        self._loop = asyncio.new_event_loop()
        self._client = AsyncWeir(*arguments, **options)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        method = getattr(self._client, name)

        def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401
            result = method(*arguments, **options)
            return self._loop.run_until_complete(result) if inspect.isawaitable(result) else self._iterate(result)

        return call

    def _iterate(self, items: AsyncIterator[Any]) -> Iterator[Any]:
        try:
            while True:
                yield self._loop.run_until_complete(_next(items))
        except StopAsyncIteration:
            return
        finally:
            self._loop.run_until_complete(items.aclose())  # type: ignore[attr-defined]

    def __enter__(self) -> Any:  # noqa: ANN401
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run_until_complete(self._client.close())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()


async def _next(items: AsyncIterator[Any]) -> Any:  # noqa: ANN401
    return await items.__anext__()


CLIENTS = cast("tuple[type[Weir], ...]", (Weir, Blocking))
