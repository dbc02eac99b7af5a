"""What the service costs beside its work: the time from start to `/readyz`, resident memory, and small embedding requests.

1. Starts with packed weights present and files in the page cache, nine times: the median of the time to `/readyz`, and RSS a second later.
2. `POST /v1/embeddings` with one text of ten tokens and with 32 texts of 66 tokens, concurrency 16, the generator on the same cores; every text
   embedded anew. Each beside what the encoder alone does on these cores at its best (`throughput`, right before), less the share of them that the
   generator took.
3. One request of 2,048 texts of the model's full length: RSS before and at its highest.
"""

from __future__ import annotations

import http.client
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from search_load import ROOT, TARGET

STARTS = 9
SECONDS = int(os.environ.get("SECONDS_PER_PART", "10"))
MODEL = os.environ.get("MODEL", str(ROOT / "models" / "all-MiniLM-L6-v2"))
WEIR = Path(os.environ.get("BINARY", TARGET / "weir"))
ADDRESS = ("127.0.0.1", int(os.environ.get("PORT", "18743")))
# all of them one token each
WORDS = "river water dam mill stone bridge bank boat fish flood lake rain field town road house".split()


def start(folder: Path, weir: Path = WEIR, address: tuple[str, int] = ADDRESS) -> tuple[subprocess.Popen[bytes], float]:
    """A gateway over the data in a folder, and the seconds until it was ready."""
    command = [weir, "serve", "--listen", "{}:{}".format(*address), "--data-dir", folder / "data", "--model", MODEL]
    started = time.perf_counter()
    server = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    while server.poll() is None:
        try:
            connection = http.client.HTTPConnection(*address, timeout=1)
            connection.request("GET", "/readyz")
            if connection.getresponse().status == 200:
                return server, time.perf_counter() - started
        except OSError:
            time.sleep(0.001)
    raise SystemExit("the gateway did not start")


def stop(server: subprocess.Popen[bytes]) -> None:
    server.terminate()
    server.wait(timeout=30)


def rss_mib(pid: int, field: str = "VmRSS") -> float:
    """A size of /proc/PID/status."""
    found = re.search(rf"^{field}:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    return int(found[1]) / 2**10 if found else 0.0


def texts(count: int, words: int) -> list[str]:
    choose = random.Random(0)
    return [" ".join(choose.choices(WORDS, k=words)) for _ in range(count)]


def encoder_alone() -> dict[int, float]:
    """Texts per second of the encoder on all cores, at its best batch size, by their tokens."""
    command = ["cargo", "run", "--release", "--locked", "--quiet", "-p", "weir-encoder", "--example", "throughput", "--", MODEL, "int8"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT).stdout
    best: dict[int, float] = {}
    for tokens, rate in re.findall(r"^\d+x(\d+) on .*, (\d+) texts/s$", printed, re.MULTILINE):
        best[int(tokens)] = max(best.get(int(tokens), 0.0), float(rate))
    return best


def requests(folder: Path, pid: int, batch: int, tokens: int, alone: float) -> None:
    """Small requests, or batches, and their rate beside that of the encoder alone."""
    bodies = folder / "bodies.jsonl"
    model = {"model": "all-MiniLM-L6-v2", "encoding_format": "base64"}
    every = texts(5_000, tokens - 2)  # two special tokens
    inputs = [every[at : at + batch] for at in range(0, len(every) - batch + 1, batch)]
    bodies.write_text("".join(json.dumps(model | {"input": one}) + "\n" for one in inputs))
    command = [TARGET / "weir-bench", "load", "--url", "http://{}:{}/v1/embeddings".format(*ADDRESS), "--concurrency", "16"]
    command += ["--duration", f"{SECONDS}s", "--header", "cache-control: no-cache", "--body-file", bodies]
    report = folder / "report.json"
    began, used = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([*command, "--pid", str(pid), "--json", report], check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    generator = after.ru_utime + after.ru_stime - used.ru_utime - used.ru_stime
    share = generator / (time.perf_counter() - began) / len(os.sched_getaffinity(0))
    figures = json.loads(report.read_text())
    rate = figures["requests_per_s"] * batch
    print(f"embeddings, {batch} texts of {tokens} tokens: {figures['requests_per_s']:,.0f} requests/s, {rate:,.0f} texts/s, "
          f"p50 {figures['latency_ms_p50']:.2f} ms, p99 {figures['latency_ms_p99']:.2f} ms, RSS at most "
          f"{figures['server_rss_bytes_max'] / 2**20:.0f} MiB; the encoder alone {alone:,.0f} texts/s, the generator took "
          f"{100 * share:.0f} % of the cores: {100 * rate / (alone * (1 - share)):.0f} % of what was left")


def large_request(pid: int) -> None:
    body = json.dumps({"model": "all-MiniLM-L6-v2", "input": texts(2048, 300), "encoding_format": "base64"})
    before, highest, is_over = rss_mib(pid), 0.0, threading.Event()

    def watch() -> None:
        nonlocal highest
        while not is_over.wait(0.02):
            highest = max(highest, rss_mib(pid))

    watcher = threading.Thread(target=watch)
    watcher.start()
    started = time.perf_counter()
    connection = http.client.HTTPConnection(*ADDRESS, timeout=300)
    headers = {"content-type": "application/json", "cache-control": "no-cache"}
    connection.request("POST", "/v1/embeddings", body, headers)
    reply = connection.getresponse()
    reply.read()
    seconds = time.perf_counter() - started
    is_over.set()
    watcher.join()
    tokens = 2048 * 256 / seconds
    print(f"2,048 texts of 256 tokens: status {reply.status}, {seconds:.1f} s ({tokens:,.0f} tokens/s), RSS {before:.0f} MiB "
          f"before, {highest:.0f} MiB at most")


def main() -> int:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        stop(start(folder)[0])  # packs the weights
        starts, sizes = [], []
        for _ in range(STARTS):
            server, seconds = start(folder)
            time.sleep(1)
            starts.append(seconds * 1e3)
            sizes.append(rss_mib(server.pid))
            stop(server)
        print(f"start to /readyz: median {statistics.median(starts):.0f} ms (target 60), {min(starts):.0f} to {max(starts):.0f}; "
              f"RSS idle {statistics.median(sizes):.0f} MiB (target 60)")
        alone = encoder_alone()
        server, _ = start(folder)
        try:
            requests(folder, server.pid, 1, 10, alone[10])
            requests(folder, server.pid, 32, 66, alone[66])
        finally:
            stop(server)
        # the deadline is for requests that somebody waits for, not for this one
        os.environ["WEIR_SERVER_REQUEST_DEADLINE_MS"] = "300000"
        server, _ = start(folder)
        try:
            large_request(server.pid)
        finally:
            stop(server)
    return 0


if __name__ == "__main__":
    sys.exit(main())
