"""Memory of the reply cache: what its metric says against what the process holds.

`python bench/llm/cache_memory.py` starts a gateway (WEIR_BINARY) before a server of its own and asks questions that are all different, until
the cache was filled twice. It prints, for each size of reply, the metric `weir_reply_cache_bytes`, by how much the process has grown, and the
quotient, and ends with 1 where they differ by more than a tenth.
"""

from __future__ import annotations

import argparse
import http.client
import json
import math
import multiprocessing
import os
import random
import re
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

LIMIT = 256 << 20
CLIENTS = 4
HEADERS = b"x-request-id: 0123456789abcdef\r\nopenai-processing-ms: 120\r\nopenai-model: gpt-4o-mini\r\nopenai-version: 2020-10-01\r\n"


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def serve_one(connection: socket.socket) -> None:
    """Answers with as many bytes as the question asks for."""
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    buffer = b""
    while True:
        while b"\r\n\r\n" not in buffer:
            part = connection.recv(65536)
            if not part:
                return
            buffer += part
        head, buffer = buffer.split(b"\r\n\r\n", 1)
        length = int(re.search(rb"content-length: (\d+)", head, re.IGNORECASE).group(1))  # type: ignore[union-attr]
        while len(buffer) < length:
            buffer += connection.recv(65536)
        body, buffer = buffer[:length], buffer[length:]
        size = int(re.search(rb"(\d+) bytes", body).group(1))  # type: ignore[union-attr]
        start = (
            b'{"id":"x","object":"chat.completion","created":1,"model":"m","usage":{"prompt_tokens":1,"completion_tokens":1},'
            b'"choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"'
        )
        reply = start + b"x" * max(1, size - len(start) - 5) + b'"}}]}'
        connection.sendall(
            b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n" + HEADERS + b"content-length: %d\r\n\r\n" % len(reply) + reply
        )


def serve(port: int) -> None:
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(256)
    while True:
        threading.Thread(target=serve_one, args=(listener.accept()[0],), daemon=True).start()


def ask(port: int, client: int, requests: int, smallest: int, largest: int) -> None:
    """Questions that are all different; sizes are spread evenly on a logarithmic scale."""
    sizes = random.Random(client)
    connection = http.client.HTTPConnection("127.0.0.1", port)
    for number in range(requests):
        size = int(smallest * (largest / smallest) ** sizes.random())
        text = f"What are {size} bytes of {client} and {number}?"
        body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]})
        connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
        reply = connection.getresponse()
        reply.read()
        assert reply.status == 200, reply.status


def resident(process: int) -> int:
    status = Path(f"/proc/{process}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status).group(1)) * 1024  # type: ignore[union-attr]


def metric(port: int, headers: dict[str, str] | None = None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port)
    connection.request("GET", "/metrics", headers=headers or {})
    text = connection.getresponse().read().decode()
    return int(float(re.search(r"^weir_reply_cache_bytes (\S+)", text, re.MULTILINE).group(1)))  # type: ignore[union-attr]


def measure(mode: str, upstream: int, smallest: int, largest: int, fillings: float) -> bool:
    port = free_port()
    with tempfile.TemporaryDirectory() as name:
        config = Path(name) / "weir.toml"
        config.write_text(
            f'[[upstreams]]\nid = "o"\nprovider = "openai"\nurl = "http://127.0.0.1:{upstream}/v1"\n'
            f'[[routes]]\nmodel = "m"\ntargets = [{{ upstream = "o" }}]\ncache = {{ mode = "{mode}" }}\n'
            '[telemetry]\nrequests = "none"\n'
        )
        command = [os.environ["WEIR_BINARY"], "serve", "--config", config, "--listen", f"127.0.0.1:{port}"]
        weir = subprocess.Popen(
            [*command, "--data-dir", Path(name) / "data", "--model", "pseudo"], stderr=subprocess.DEVNULL, env={}
        )
        try:
            for _ in range(100):
                try:
                    ask(port, CLIENTS, 20, smallest, smallest)
                    break
                except OSError:
                    time.sleep(0.1)
            before = (metric(port), resident(weir.pid))
            mean = (largest - smallest) / max(1e-9, math.log(largest / smallest)) if largest > smallest else smallest
            requests = int(fillings * LIMIT / (mean + 600) / CLIENTS)
            clients = [
                multiprocessing.Process(target=ask, args=(port, client, requests, smallest, largest))
                for client in range(CLIENTS)
            ]
            for one in clients:
                one.start()
            for one in clients:
                one.join()
            time.sleep(15)  # the allocator gives back what is free after ten seconds
            held = metric(port) - before[0]
            grown = resident(weir.pid) - before[1]
        finally:
            weir.terminate()
            weir.wait()
    quotient = grown / held
    print(f"| {mode} | {smallest} to {largest} | {held >> 20} | {grown >> 20} | {quotient:.2f} |", flush=True)
    return abs(quotient - 1) <= 0.1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fillings", type=float, default=2.0)
    arguments = parser.parse_args()
    port = free_port()
    server = multiprocessing.Process(target=serve, args=(port,), daemon=True)
    server.start()
    print("| mode | bytes of a reply | metric, MiB | grown, MiB | quotient |\n|---|---|---|---|---|")
    is_good = True
    for mode, smallest, largest in (
        ("exact", 500, 500),
        ("semantic", 500, 2_000),
        ("exact", 1_000, 100_000),
        ("exact", 20_000, 1_000_000),
    ):
        is_good &= measure(mode, port, smallest, largest, arguments.fillings)
    server.terminate()
    return 0 if is_good else 1


if __name__ == "__main__":
    sys.exit(main())
