"""Ingest with embedding beside what the encoder alone does on the same texts.

`DOCUMENTS` passages of `samples/xquad` (4,000 by default), those of one chunk, numbered so that no text is embedded twice, go to a fresh gateway in
requests of 200; the time ends when all are searchable. The encoder (`bench_encoder`, tokenising included) has the same texts and as many threads, in
turns with the gateway. Exits with 1 if the median of the ratios is above 1.15.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lines import call, is_searchable
from search_load import ROOT
from service import MODEL, start, stop

DOCUMENTS = int(os.environ.get("DOCUMENTS", "4000"))
ROUNDS = int(os.environ.get("ROUNDS", "5"))
RATIO_MAX = 1.15
TOKENS_MAX = 190  # one chunk
PER_REQUEST = 200
ENCODER = Path(os.environ.get("ENCODER_BINARY", ""))


def texts() -> list[str]:
    """Different passages."""
    lines = (ROOT / "samples" / "xquad" / "documents" / "xquad.jsonl").read_text().splitlines()
    passages = [json.loads(line)["text"] for line in lines]
    return [f"{number} {passages[number % len(passages)]}" for number in range(DOCUMENTS)]


def encoder_seconds(passages: list[str]) -> tuple[float, list[str]]:
    """The encoder on all cores: token ids and embeddings of all texts that are one chunk; these texts."""
    command: list[str | Path] = [ENCODER]
    if not ENCODER.name:
        command = ["cargo", "run", "--release", "--locked", "--quiet", "-p", "weir-encoder", "--example", "bench_encoder", "--"]
    threads = str(len(os.sched_getaffinity(0)))
    encoder = subprocess.Popen([*command, "--model", MODEL, "--threads", threads], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert encoder.stdin is not None and encoder.stdout is not None
    encoder.stdout.readline()

    def ask(request: dict[str, object]) -> dict[str, object]:
        print(json.dumps(request), file=encoder.stdin, flush=True)
        return dict(json.loads(encoder.stdout.readline()))  # type: ignore[union-attr]

    begun = time.perf_counter()
    sequences: list[list[int]] = ask({"command": "tokenize", "texts": passages})["sequences"]  # type: ignore[assignment]
    tokenised = (time.perf_counter() - begun) / int(threads)
    kept = [(text, ids) for text, ids in zip(passages, sequences, strict=True) if len(ids) <= TOKENS_MAX]
    sequences = [ids for _, ids in kept]
    ask({"command": "load", "case": "all", "sequences": sequences})
    times = ask({"command": "run", "case": "all", "warmup": 0, "repetitions": 1})["wall_ns"]
    encoder.stdin.close()
    encoder.wait(timeout=30)
    return tokenised + times[0] / 1e9, [text for text, _ in kept]  # type: ignore[index]


def ingest_seconds(passages: list[str]) -> float:
    """From the first request until all documents are searchable."""
    with tempfile.TemporaryDirectory() as folder:
        server, _ = start(Path(folder))
        try:
            begun = time.perf_counter()
            for at in range(0, len(passages), PER_REQUEST):
                part = [{"id": f"d{at + number}", "text": text} for number, text in enumerate(passages[at : at + PER_REQUEST])]
                call("POST", "/v1/ingest", json.dumps({"documents": part}))
            while not is_searchable():
                time.sleep(0.01)
            seconds = time.perf_counter() - begun
            found = call("GET", "/v1/collections/default")
            if found["chunk_count"] != len(passages):
                raise SystemExit(f"{found['chunk_count']} chunks of {len(passages)} texts")
            return seconds
        finally:
            stop(server)


def main() -> int:
    every, ratios = texts(), []
    for _ in range(ROUNDS):
        alone, passages = encoder_seconds(every)
        whole = ingest_seconds(passages)
        ratios.append(whole / alone)
        print(f"{len(passages)} texts: the encoder alone {alone:.2f} s, ingest {whole:.2f} s: {whole / alone:.3f}", flush=True)
    ratio = statistics.median(ratios)
    print(f"median {ratio:.3f} (at most {RATIO_MAX})")
    return int(ratio > RATIO_MAX)


if __name__ == "__main__":
    sys.exit(main())
