#!/usr/bin/env python3
"""The requests of the profile by which the released binary is optimised (scripts/pgo.sh): an instrumented `weir` serves them and counts what runs.

    python bench/pgo/workload.py --weir … --load … --mock … [--scale 1]

Chat requests, plain and streamed, small and large, in two APIs, with a key and its limits, once more under guardrails; then a collection is ingested,
searched in every mode, and texts are embedded. How often each is sent is chosen so that no part drowns the others in the profile. A request that fails
ends the run: a profile of errors would optimise these.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import targets
from processes import EngineError
from processes.server import Command, Server, free_ports, stop_on_sigterm
from search_load import write_queries
from targets import MODEL, ROOT, Paths, Target

SAMPLE = ROOT / "samples" / "xquad" / "documents"
MESSAGES, SEARCH = "/v1/messages", "/v1/search"
# Replies at once, so that the time of the run is that of the gateway.
MOCK = ("--tokens", "100", "--first-token-ms", "0", "--token-ms", "0")
TEXT = "Please summarise the notes of the meeting for the team, and keep the tone friendly. Mail ada.lovelace@example.com. "
TEXTS = 32


@dataclass(frozen=True)
class Load:
    """Requests of one kind, in a closed loop."""

    path: str
    requests: int
    flags: list[str] = field(default_factory=list)
    concurrency: int = 16


def chat(requests: int, size: int, *, is_stream: bool = False) -> Load:
    """Chat completions with a prompt of `size` bytes."""
    stream = ["--stream"] if is_stream else []
    return Load(targets.CHAT, requests, ["--chat-bytes", str(size), "--chat-model", MODEL, *stream], concurrency=64)


def body(path: str, requests: int, content: dict[str, Any]) -> Load:
    """The same body every time."""
    return Load(path, requests, ["--body", json.dumps(content)])


def messages(requests: int) -> Load:
    """Anthropic's API before an upstream of OpenAI's."""
    content = {"model": MODEL, "max_tokens": 200, "messages": [{"role": "user", "content": TEXT * 8}]}
    return body(MESSAGES, requests, content)


def embeddings(requests: int, count: int) -> Load:
    """`count` texts in each request, embedded anew."""
    content = {"model": targets.EMBEDDER, "input": [f"{number} {TEXT}" for number in range(count)]}
    return body(targets.EMBEDDINGS, requests, content)


def searches(requests: int, queries: Path, folder: Path, mode: str) -> Load:
    """The queries in one mode."""
    bodies = folder / f"{mode}.jsonl"
    lines = [json.dumps(json.loads(line) | {"mode": mode}) for line in queries.read_text(encoding="utf-8").splitlines()]
    bodies.write_text("\n".join(lines), encoding="utf-8")
    return Load(SEARCH, requests, ["--body-file", str(bodies)])


def drive(paths: Paths, target: Target, loads: list[Load], scale: float) -> None:
    """Sends all requests of the loads, one load after the other."""
    for load in loads:
        count = max(1, round(load.requests * scale))
        command = [str(paths.load), "load", "--url", target.server.url + load.path, "--requests", str(count), "--timeout", "60s"]
        command += ["--concurrency", str(min(load.concurrency, count)), "--header", "cache-control: no-cache", *load.flags]
        command += [part for header in target.headers for part in ("--header", header)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise EngineError(f"{target.name}, {load.path}:\n{done.stdout}{done.stderr}")
        print(f"pgo: {target.name}: {count:,} requests to {load.path}", flush=True)


@contextmanager
def running(*servers: Server) -> Iterator[None]:
    """Started in this order. What is measured is written when a server ends."""
    with ExitStack() as stack:
        for server in servers:
            server.start()
            stack.callback(server.stop)
        yield


def retrieval(paths: Paths) -> Target:
    """A gateway with the default model and the settings of a new user, over the sample."""
    folder = paths.data / "retrieval"
    folder.mkdir()
    config = folder / "weir.toml"
    config.write_text(f'[[models]]\nid = "{targets.EMBEDDER}"\nfolder = "{paths.model}"\n', encoding="utf-8")
    command = [str(paths.weir), "serve", "--config", str(config), "--data-dir", str(folder / "data"), "--listen", "127.0.0.1:{port}"]
    return Target("retrieval", "", Server("retrieval", [Command(command, {"WEIR_LOG_LEVEL": "warn"})], folder / "weir.log", "/readyz"))


def run(paths: Paths, scale: float) -> None:
    """Everything, one gateway at a time."""
    mock = targets.mock(paths, free_ports(1)[0], MOCK)
    with running(mock):
        plain = targets.weir(paths, mock.port)
        with running(plain.server):
            drive(paths, plain, [chat(60_000, 1_000), chat(2_000, 100_000), chat(1_500, 1_000, is_stream=True), messages(3_000)], scale)
        guarded = targets.weir(paths, mock.port, targets.WEIR_L2)
        with running(guarded.server):
            drive(paths, guarded, [chat(5_000, 1_000), chat(300, 1_000, is_stream=True)], scale)
    target = retrieval(paths)
    with running(target.server):
        ingest = [str(paths.weir), "ingest", str(SAMPLE), "--url", target.server.url]
        variables = {name: value for name, value in os.environ.items() if not name.startswith("WEIR_")}
        subprocess.run(ingest, check=True, stdout=subprocess.DEVNULL, env=variables)
        queries = write_queries(paths.data / "queries.jsonl")
        loads = [searches(requests, queries, paths.data, mode) for mode, requests in (("hybrid", 2_000), ("lexical", 2_000), ("dense", 1_000))]
        drive(paths, target, [*loads, embeddings(1_000, 1), embeddings(20, TEXTS)], scale)


def main(arguments: list[str]) -> int:
    """1 when a request failed."""
    release = ROOT / "target" / "release"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1.0, help="a share of the requests")
    parser.add_argument("--model", type=Path, default=Path(os.environ.get("WEIR_TEST_MODEL", ROOT / "models" / "all-MiniLM-L6-v2")))
    for flag, name in (("weir", "weir"), ("load", "weir-bench"), ("mock", "weir-mock")):
        parser.add_argument(f"--{flag}", type=Path, default=release / name)
    given = parser.parse_args(arguments)
    stop_on_sigterm()
    with tempfile.TemporaryDirectory(prefix="pgo-") as name:
        folder = Path(name)
        paths = Paths(given.weir.resolve(), given.load.resolve(), given.mock.resolve(), folder, folder, folder, given.model.resolve(), folder)
        try:
            run(paths, given.scale)
        except (OSError, EngineError) as error:
            print(f"pgo: {error}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
