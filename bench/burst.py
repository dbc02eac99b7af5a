"""Bursts by OpenAI's asynchronous client with its default settings: one request for each text, all sent at once.

For each burst: how many texts are answered, after how long, and beside it in the same run

- the encoder alone: all texts in one request, which has no competition on the machine;
- the client alone: the same requests against a server that only answers (`weir-bench null`), because a client in Python takes
  longer for a short text than the encoder, and on the same cores.

Client and encoder share the cores, so no burst can take less than the client alone, nor than the encoder alone and the client's share
of the cores. A burst may take 1.3 times the longer of the two. At the end, 50 searches a second beside the largest burst. ROUNDS bursts of each
kind, the median counts. Every text is embedded anew (`cache-control: no-cache`).
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from openai import AsyncOpenAI, OpenAI, OpenAIError
from search_load import TARGET, serving, write_queries

MODEL = "all-MiniLM-L6-v2"
FRESH = {"cache-control": "no-cache"}
ROUNDS = int(os.environ.get("ROUNDS", "5"))
RATIO_MAX = 1.3
CORES = len(os.sched_getaffinity(0))
# texts, words of each
BURSTS = [(100, 10), (1000, 10), (200, 60)]
SEARCHES_PER_S = 50


def texts_of(folder: Path, count: int, words: int) -> list[str]:
    """Different texts of real words; the longest paragraphs first, because most have no 60 words after their middle."""
    lines = write_queries(folder / "queries.jsonl", words).read_text().splitlines()
    texts = sorted((json.loads(line)["query"] for line in lines), key=lambda text: -len(text.split()))
    texts = [text for text in texts if len(text.split()) >= min(words, len(texts[99].split()))]
    return [f"{number} {texts[number % len(texts)]}" for number in range(count)]


async def burst(url: str, texts: list[str]) -> tuple[int, float]:
    """How many of the texts were answered, and the seconds until the last reply."""
    async with AsyncOpenAI(base_url=f"{url}/v1", api_key="unused") as client:

        async def embed(text: str) -> bool:
            try:
                await client.embeddings.create(model=MODEL, input=text, extra_headers=FRESH)
            except OpenAIError:
                return False
            return True

        started = time.perf_counter()
        answered = sum(await asyncio.gather(*(embed(text) for text in texts)))
        return answered, time.perf_counter() - started


def encoder_alone(url: str, texts: list[str]) -> float:
    """Seconds for all texts in one request."""
    with OpenAI(base_url=f"{url}/v1", api_key="unused") as client:
        started = time.perf_counter()
        client.embeddings.create(model=MODEL, input=texts, extra_headers=FRESH)
        return time.perf_counter() - started


@contextmanager
def answering(url: str) -> Iterator[str]:
    """A server that answers every request with one embedding, which it does not compute."""
    with OpenAI(base_url=f"{url}/v1", api_key="unused") as client:
        reply = client.embeddings.with_raw_response.create(model=MODEL, input="a text of ten words", encoding_format="base64")
    command = [TARGET / "weir-bench", "null", "--threads", "1", "--body", reply.text]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().split()[-1]
        finally:
            server.terminate()


def searches_beside(folder: Path, url: str, pid: int, texts: list[str]) -> None:
    """The latency of searches alone and beside bursts one after another."""
    bodies = write_queries(folder / "queries.jsonl")
    command = [TARGET / "weir-bench", "load", "--url", f"{url}/v1/search", "--body-file", bodies, "--pid", str(pid)]
    command += ["--rate", str(SEARCHES_PER_S), "--concurrency", "32", "--duration", "15s", "--header", "cache-control: no-cache"]
    for name in ("alone", "beside bursts"):
        stopping = threading.Event()
        answered: list[int] = []

        def repeat() -> None:
            while not stopping.is_set():
                answered.append(asyncio.run(burst(url, texts))[0])

        bursts = threading.Thread(target=repeat)
        if name != "alone":
            bursts.start()
        report = folder / "report.json"
        subprocess.run([*command, "--json", report], check=True, stdout=subprocess.DEVNULL)
        if name != "alone":
            stopping.set()
            bursts.join()
        figures = json.loads(report.read_text())
        print(
            f"{SEARCHES_PER_S} searches/s {name:<13} p50 {figures['latency_ms_p50']:.2f} ms  p99 {figures['latency_ms_p99']:.2f} ms  "
            f"failed {figures['requests_failed']}" + (f"  bursts answered {answered} of {len(texts)}" if answered else "")
        )


def main() -> int:
    missed = 0
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as (url, pid):
        folder = Path(name)
        with answering(url) as null:
            for count, words in BURSTS:
                texts = texts_of(folder, count, words)
                runs = [(encoder_alone(url, texts), asyncio.run(burst(null, texts))[1], *asyncio.run(burst(url, texts))) for _ in range(ROUNDS)]
                encoder, client, took = (statistics.median(run[column] for run in runs) for column in (0, 1, 3))
                answered = [run[2] for run in runs]
                ratio = took / max(client, encoder + client / CORES)
                missed += min(answered) < count or ratio > RATIO_MAX
                print(
                    f"{count} texts of {words} words: answered {answered}, in {took:.2f} s; encoder alone {encoder:.2f} s, client alone {client:.2f} s, "
                    f"{took / encoder:.2f} times the encoder alone, {ratio:.2f} times the least for both (target: all, at most {RATIO_MAX})"
                )
        searches_beside(folder, url, pid, texts_of(folder, 1000, 10))
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
