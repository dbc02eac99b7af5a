"""What single steps cost: guardrails alone, replies from the cache, chat with sources beside one search. One caller, one request after another."""

from __future__ import annotations

import http.client
import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import targets
from processes import EngineError
from processes.server import Command, Server, environment
from results import Guarded, Report, Timing
from targets import MODEL, ROOT, Paths

SAMPLE = ROOT / "samples" / "xquad" / "documents"
COLLECTION = "sample"
# Same meaning, other words: the second is answered by the reply to the first.
QUESTION, PARAPHRASE = "How do I reset my password?", "How can I reset my password?"
SEARCHED = "who sang the American anthem before the football final"
TOP_K = 5
EXACT, SEMANTIC, SOURCES = "exact", "semantic", "with-sources"
WARMUP = 20
CHAT, CHAT_STREAM, HIT = "chat", "chat, first event of a stream", "exact hit"
SEMANTIC_HIT, EMBEDDING, SOURCES_STREAM, SEARCH = "semantic hit", "one query embedding", "chat with sources, first event of a stream", "one search"
LINE = re.compile(r"\| (?P<what>[^|]+) \| (?P<us>[\d.]+) \| (?P<us_min>[\d.]+) \| (?P<wanted>[\d.]+) \| µs per (?P<per>\w+) \|")


@dataclass(frozen=True)
class Case:
    """One kind of request; `cache` is what its reply tells in `x-weir-cache`."""

    name: str
    path: str
    body: dict[str, Any] = field(default_factory=dict)
    cache: str | None = None

    @property
    def is_stream(self) -> bool:
        """Whether the first event is measured."""
        return self.body.get("stream", False)


def chat(model: str, text: str, **more: Any) -> dict[str, Any]:
    """A request with one message."""
    return {"model": model, "messages": [{"role": "user", "content": text}]} | more


def cases() -> list[Case]:
    """The names are those of the page."""
    return [
        Case(CHAT, targets.CHAT, chat(MODEL, QUESTION)),
        Case(HIT, targets.CHAT, chat(EXACT, QUESTION), "hit"),
        Case(SEMANTIC_HIT, targets.CHAT, chat(SEMANTIC, PARAPHRASE), "semantic_hit"),
        Case(EMBEDDING, "/v1/embeddings", {"model": "embedder", "input": PARAPHRASE}),
        Case(CHAT_STREAM, targets.CHAT, chat(MODEL, SEARCHED, stream=True)),
        Case(SOURCES_STREAM, targets.CHAT, chat(SOURCES, SEARCHED, stream=True)),
        Case(SEARCH, "/v1/search", {"collection": COLLECTION, "query": SEARCHED, "top_k": TOP_K, "group_by": "chunk"}),
    ]


def config(paths: Paths, data: Path, mock_port: int) -> str:
    """weir.toml. Embeddings are not cached: a semantic hit and a search contain the one of their question."""
    routes = {MODEL: "", EXACT: 'cache = { mode = "exact" }', SEMANTIC: 'cache = { mode = "semantic" }'}
    routes[SOURCES] = f'retrieval = {{ collection = "{COLLECTION}", top_k = {TOP_K} }}'
    tables = "".join(f'[[routes]]\nmodel = "{model}"\ntargets = [{{ upstream = "mock" }}]\n{more}\n' for model, more in routes.items())
    return f"""[server]
data_dir = "{data}"
[telemetry]
requests = "none"
[inference]
cache_bytes_max = 0
[[models]]
id = "embedder"
folder = "{paths.model}"
{targets.upstream(mock_port)}{tables}"""


def timings(paths: Paths, mock_port: int, seconds: float, rounds: int, found: Report) -> None:
    """All cases in every round, in random order, against a gateway with the sample."""
    if not (paths.model / "tokenizer.json").exists():
        raise FileNotFoundError(f"no model in {paths.model.name}; scripts/setup.sh fetches it")
    folder = paths.data / "costs"
    folder.mkdir()
    file = folder / "weir.toml"
    file.write_text(config(paths, folder / "data", mock_port), encoding="utf-8")
    key = targets.weir_key(paths, folder / "data", "chat,search,ingest,embed")
    arguments = [str(paths.weir), "serve", "--config", str(file), "--listen", "127.0.0.1:{port}"]
    server = Server("Weir with a model", [Command(arguments, {"WEIR_LOG_LEVEL": "warn"})], folder / "weir.log", "/readyz")
    server.start()
    try:
        ingest = [str(paths.weir), "ingest", str(SAMPLE), "--collection", COLLECTION, "--url", server.url]
        done = subprocess.run(ingest, capture_output=True, text=True, check=False, env=environment({"WEIR_API_KEY": key}))
        if done.returncode != 0:
            raise EngineError(f"weir ingest failed:\n{done.stdout}{done.stderr}")
        for model in (EXACT, SEMANTIC):
            ask(server, key, Case("", targets.CHAT, chat(model, QUESTION)))
        order = Random(7)
        for _ in range(rounds):
            for case in order.sample(cases(), len(cases())):
                found.timings.setdefault(case.name, []).append(turn(paths, server, key, case, seconds))
    finally:
        server.stop()


def turn(paths: Paths, server: Server, key: str, case: Case, seconds: float) -> Timing:
    """One connection for some seconds; the reply is looked at before and after."""
    file = paths.data / "timing.json"
    ask(server, key, case)
    command = [str(paths.load), "load", "--url", f"{server.url}{case.path}", "--concurrency", "1", "--threads", "1", "--warmup", str(WARMUP)]
    command += ["--duration", f"{seconds:g}s", "--body", json.dumps(case.body), "--header", f"authorization: Bearer {key}"]
    command += ["--pid", str(server.pids[0]), "--json", str(file), *(["--stream"] if case.is_stream else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise EngineError(f"{case.name}: weir-bench failed:\n{done.stdout}{done.stderr}")
    ask(server, key, case)
    figures = json.loads(file.read_text(encoding="utf-8"))
    what, sent = "first_event" if case.is_stream else "latency", int(figures["requests_sent"])
    return Timing(figures[f"{what}_ms_p50"], figures[f"{what}_ms_p95"], figures["server_cpu_s"] * 1e6 / max(sent, 1), sent)


def ask(server: Server, key: str, case: Case) -> None:
    """One request, whose reply must come from where the case says."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    try:
        connection.request("POST", case.path, json.dumps(case.body), {"content-type": "application/json", "authorization": f"Bearer {key}"})
        reply = connection.getresponse()
        text = reply.read().decode(errors="replace")
    finally:
        connection.close()
    cache = reply.headers.get("x-weir-cache")
    if reply.status != 200 or (case.cache is not None and cache != case.cache):
        raise EngineError(f"{case.name}: status {reply.status}, cache {cache}: {text[:300]}")
    if case.body.get("model") == SOURCES and '"sources":[{' not in text:
        raise EngineError(f"{case.name}: the reply has no sources: {text[-300:]}")


def guardrails(paths: Paths, _mock_port: int, _seconds: float, rounds: int, found: Report) -> None:
    """The measurement of crates/guardrails: of each row the run with the middle median."""
    if not paths.guardrails.exists():
        raise FileNotFoundError(f"{paths.guardrails.name} is not built; bench/llm.sh does it")
    runs = [parse(subprocess.run([str(paths.guardrails)], capture_output=True, text=True, check=True).stdout) for _ in range(rounds)]
    if not runs[0]:
        raise EngineError(f"{paths.guardrails.name} printed no table")
    found.guardrails = [sorted(rows, key=lambda row: row.us)[len(rows) // 2] for rows in zip(*runs, strict=True)]


def parse(text: str) -> list[Guarded]:
    """The table that it prints."""
    return [Guarded(row["what"], float(row["us"]), float(row["us_min"]), float(row["wanted"]), row["per"]) for row in LINE.finditer(text)]
