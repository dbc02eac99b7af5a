"""Whether queries stay fast while something else wants the cores: ingest at full speed, and ten times too many queries.

1. 50 searches a second for a while alone, then while a second collection is filled as fast as it goes; and how fast that
   goes alone.
2. Embeddings of ten words and of up to a hundred (sixty in the mean), and then searches of ten, at ten times the rate that the
   gateway can answer: how many are answered still in full, how fast, and how fast the others are refused. That rate is
   measured once more after, because the machine changes from minute to minute; shares are of the mean. The generator has a core of its own and one thread on
   it (two would wait for each other's slices, which is 4 ms at p99 even before a server that only refuses), and the
   gateway has the others. What of these the bare answering takes at such a rate, a server shows that does nothing else.

Every query is embedded anew (`cache-control: no-cache`). SECONDS_PER_PART is the length of each part.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from pathlib import Path
from typing import Any

from search_load import TARGET, serving, write_queries

SECONDS = int(os.environ.get("SECONDS_PER_PART", "30"))
SEARCHES_PER_S = 50
OVERLOAD = 10
CONNECTIONS = 512
DEGRADED = "weir_search_degraded_total"
BATCH = 50
CORES = sorted(os.sched_getaffinity(0))
# of the second part
# on a machine with one core both share it
GENERATOR_CORES, SERVER_CORES = CORES[-1:], CORES[:-1] or CORES


def pinned(cores: list[int]) -> list[str]:
    """What to put before a command so that it runs on these cores; nothing where all are meant."""
    return ["taskset", "-c", ",".join(map(str, cores))] if cores else []


def load(folder: Path, url: str, bodies: Path, pid: int, *arguments: str, cores: list[int] | None = None) -> dict[str, Any]:
    """One run of the generator, with a thread for each of the cores where some are given."""
    report = folder / f"report-{time.monotonic_ns()}.json"
    if cores:
        arguments = (*arguments, "--threads", str(len(cores)))
    command = [*pinned(cores or []), TARGET / "weir-bench", "load", "--url", url, "--body-file", bodies, "--pid", str(pid)]
    command += ["--header", "cache-control: no-cache", "--duration", f"{SECONDS}s", "--allow-errors", "--json", report]
    command += arguments
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return dict(json.loads(report.read_text()))


def post(url: str, body: dict[str, Any]) -> tuple[int, float]:
    """The status of a JSON request, and after how many seconds to try again."""
    data = json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=120) as reply:
            return int(reply.status), 0.0
    except urllib.error.HTTPError as error:
        return error.code, float(error.headers.get("retry-after", "1"))


class Ingest(threading.Thread):
    """Fills a collection with ever new paragraphs until it is told to stop; each request waits until all is searchable."""

    def __init__(self, url: str, texts: list[str], run: int) -> None:
        super().__init__()
        self.url, self.texts, self.run_number = url, texts, run
        self.documents, self.stopping, self.seconds = 0, threading.Event(), 0.0
        self.lock = threading.Lock()

    def run(self) -> None:
        started = time.monotonic()
        writers = [threading.Thread(target=self.write, args=(number,)) for number in range(4)]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()
        self.seconds = time.monotonic() - started

    def write(self, writer: int) -> None:
        batch = 0
        while not self.stopping.is_set():
            batch += 1
            texts = (self.texts[(batch * BATCH + i) % len(self.texts)] for i in range(BATCH))
            documents = [{"text": f"{self.run_number} {writer} {batch} {text}"} for text in texts]
            status, wait = post(f"{self.url}/v1/ingest?wait=true", {"collection": "other", "documents": documents})
            if status in (200, 202):
                with self.lock:
                    self.documents += BATCH
            else:
                time.sleep(wait)

    def finish(self) -> float:
        """Documents a second."""
        self.stopping.set()
        self.join()
        return self.documents / self.seconds


def beside_ingest(folder: Path, url: str, pid: int, bodies: Path, texts: list[str]) -> None:
    rate = ["--rate", str(SEARCHES_PER_S), "--concurrency", "32"]
    alone = load(folder, f"{url}/v1/search", bodies, pid, *rate)
    ingest = Ingest(url, texts, 1)
    ingest.start()
    time.sleep(SECONDS)
    ingest_alone = ingest.finish()
    ingest = Ingest(url, texts, 2)
    ingest.start()
    beside = load(folder, f"{url}/v1/search", bodies, pid, *rate)
    ingest_beside = ingest.finish()
    for name, report in (("alone", alone), ("beside ingest", beside)):
        p50, p99 = report["latency_ms_p50"], report["latency_ms_p99"]
        print(f"{SEARCHES_PER_S} searches/s {name:<14} p50 {p50:6.2f} ms  p99 {p99:6.2f} ms  failed {report['requests_failed']}")
    more = beside["latency_ms_p99"] - alone["latency_ms_p99"]
    kept = ingest_beside / ingest_alone
    print(f"p99 beside ingest: {more:+.2f} ms (target: at most +3)")
    print(f"ingest alone {ingest_alone:.1f}, beside searches {ingest_beside:.1f} documents/s: {kept:.0%} (target: 70 %)")


def metric(url: str, name: str) -> float:
    """The sum of a metric's values."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=10) as reply:
        lines = reply.read().decode().splitlines()
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.split("{")[0].split(" ")[0] == name)


def overload(folder: Path, url: str, pid: int, path: str, bodies: Path, words: int) -> None:
    """Ten times the capacity of a route, its rate at 16 connections, for texts of up to `words` words."""

    def run(*arguments: str) -> dict[str, Any]:
        return load(folder, f"{url}{path}", bodies, pid, *arguments, cores=GENERATOR_CORES)

    at_capacity = [run("--concurrency", "16")]
    first = float(at_capacity[0]["requests_per_s"])
    unloaded = run("--rate", str(int(first / 2)), "--concurrency", "64")
    arguments = ["--rate", str(int(first * OVERLOAD)), "--concurrency", str(CONNECTIONS)]
    before = metric(url, DEGRADED)
    rss: list[int] = []
    watching = [threading.Timer(SECONDS * part, lambda: rss.append(rss_bytes(pid))) for part in (0.33, 0.83)]
    for timer in watching:
        timer.start()
    over = run(*arguments, "--expect-status", "200,503")
    for timer in watching:
        timer.join()
    degraded = (metric(url, DEGRADED) - before) / over["duration_s"]
    time.sleep(1)  # or callers who come back at once, whatever they are told, would keep the overload up
    at_capacity.append(run("--concurrency", "16"))
    rates, p99s = ([float(report[key]) for report in at_capacity] for key in ("requests_per_s", "latency_ms_p99"))
    capacity, sent = sum(rates) / len(rates), over["requests_sent"] / over["duration_s"]
    goodput = over["statuses"].get("200", 0) / over["duration_s"] - degraded
    accepted, refused = (over["service_by_status"].get(status) for status in ("200", "503"))
    print(f"{path}, up to {words} words: capacity {rates[0]:.0f} and {rates[1]:.0f}/s; p99 {p99s[0]:.2f} and {p99s[1]:.2f} ms, at half of it "
          f"{unloaded['latency_ms_p99']:.2f} ms")
    print(f"{sent:.0f}/s sent, which is {sent / capacity:.1f} times that: goodput {goodput:.0f}/s, {goodput / capacity:.0%} of capacity "
          f"(target: 70 %), and {degraded:.0f}/s by words alone")
    print(f"accepted: p50 {accepted['ms_p50']:.2f}, p99 {accepted['ms_p99']:.2f} ms (target: 3 times the p99 unloaded)")
    if refused:
        print(f"refused:  p50 {refused['ms_p50']:.2f}, p99 {refused['ms_p99']:.2f} ms (target: 10 ms)")
    print(f"statuses {over['statuses']}")
    most = [f"{bytes / 2**20:.0f}" for bytes in (at_capacity[0]["server_rss_bytes_max"], *rss)]
    print(f"RSS at most {most[0]} MiB at capacity; overloaded {most[1]} MiB after a third of the time, {most[2]} MiB later")
    bare_answers(folder, bodies, arguments)


def bare_answers(folder: Path, bodies: Path, arguments: list[str]) -> None:
    """What the same load takes of a server that only answers."""
    command = [*pinned(SERVER_CORES), TARGET / "weir-bench", "null", "--threads", str(len(SERVER_CORES))]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        url = server.stdout.readline().split()[-1]
        bare = load(folder, url, bodies, server.pid, *arguments, cores=GENERATOR_CORES)
        server.terminate()
    cores = bare["server_cores_mean"]
    print(f"a server that only answers takes {cores:.2f} cores for {bare['requests_per_s']:.0f}/s, {cores / len(SERVER_CORES):.0%} of "
          f"what the gateway has; p50 {bare['service_ms_p50']:.2f}, p99 {bare['service_ms_p99']:.2f} ms")


def rss_bytes(pid: int) -> int:
    """Resident bytes of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmRSS:"))


def write_inputs(queries: Path, bodies: Path) -> Path:
    """The same texts as requests for embeddings."""
    texts = [json.loads(line)["query"] for line in queries.read_text().splitlines()]
    bodies.write_text("".join(json.dumps({"model": "all-MiniLM-L6-v2", "input": text}) + "\n" for text in texts))
    return bodies


def main() -> int:
    with tempfile.TemporaryDirectory() as name, serving(Path(name)) as (url, pid):
        folder = Path(name)
        bodies = write_queries(folder / "queries.jsonl")
        texts = [json.loads(line)["query"] for line in write_queries(folder / "texts.jsonl", 100).read_text().splitlines()]
        beside_ingest(folder, url, pid, bodies, texts)
    with tempfile.TemporaryDirectory() as name, serving(Path(name), pinned(SERVER_CORES)) as (url, pid):
        folder = Path(name)
        for words in (10, 100):
            inputs = write_inputs(write_queries(folder / "texts.jsonl", words), folder / "inputs.jsonl")
            overload(folder, url, pid, "/v1/embeddings", inputs, words)
        overload(folder, url, pid, "/v1/search", write_queries(folder / "queries.jsonl"), 10)
    return 0


if __name__ == "__main__":
    sys.exit(main())
