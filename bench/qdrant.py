"""Collections in a Qdrant cluster beside embedded ones: bench/qdrant.sh runs it.

Ranking: each set is stored in a collection of either engine, and measured by `weir eval`. Cost: the queries of the first set
are sent one after the other, again and again, so that their embeddings are cached; the gateway's times stand beside those of
the official client, which makes only the two rankings (by words and by embeddings) of each of these searches, in one call.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from contextlib import closing
from pathlib import Path
from statistics import median

from pages import machine
from processes import LineProcess
from search_load import ROOT, TARGET, wait_until_ready

DATA = Path(os.environ.get("DATA", ROOT / ".." / "shared" / "data"))
SETS = os.environ.get("SETS", "cacm cranfield scifact trecqa dbpedia_entity_subset5k").split()
SECONDS = float(os.environ.get("SECONDS_PER_TURN", "4"))
ROUNDS = int(os.environ.get("ROUNDS", "3"))
NODES = 3
DIFFERENCE_MAX = 0.015
P50_MS_MAX, CPU_MS_MAX = 0.5, 0.3


def weir(url: str, *words: object) -> str:
    """A command of the client; what it prints."""
    command = [TARGET / "weir", *words, "--url", url]
    return subprocess.run(list(map(str, command)), check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout


def ndcg(url: str, name: str, *words: str) -> float:
    """nDCG@10 of hybrid search over a set."""
    reply = json.loads(weir(url, "eval", DATA / name, "--mode", "hybrid", "--json", *words))
    return float(reply["scores"][0]["ndcg_at_10"])


def documents(name: str, folder: Path) -> Path:
    """The documents of a set, without those that have no text."""
    lines = (DATA / name / "corpus.jsonl").read_text().splitlines()
    path = folder / f"{name}.jsonl"
    path.write_text("".join(f"{line}\n" for line in lines if any(json.loads(line).get(key, "").strip() for key in ("title", "text"))))
    return path


def compare_ranking(url: str, folder: Path) -> bool:
    """Both engines over each set; whether no set ranks worse than it may."""
    print(f"{'set':<28}{'embedded':>10}{'Qdrant':>10}{'difference':>12}")
    differences = []
    for name in SETS:
        weir(url, "collections", "create", name, "--engine", "qdrant")
        weir(url, "ingest", documents(name, folder), "--collection", name)
        embedded, qdrant = ndcg(url, name), ndcg(url, name, "--collection", name)
        differences.append(qdrant - embedded)
        print(f"{name:<28}{embedded:>10.4f}{qdrant:>10.4f}{qdrant - embedded:>+12.4f}", flush=True)
    return all(difference >= -DIFFERENCE_MAX for difference in differences)


def compare_cost(url: str, pid: int, nodes: LineProcess, folder: Path) -> bool:
    """Searches through the gateway, and their rankings by the bare client, in turns; whether the gateway adds no more than it may."""
    queries = [json.loads(line)["text"] for line in (DATA / SETS[0] / "queries.jsonl").read_text().splitlines()]
    bodies = folder / "bodies.jsonl"
    bodies.write_text("".join(json.dumps({"query": query, "collection": SETS[0], "top_k": 10}) + "\n" for query in queries))
    load = [TARGET / "weir-bench", "load", "--url", f"{url}/v1/search", "--body-file", bodies, "--concurrency", "1", "--threads", "1"]
    load += ["--warmup", str(len(queries)), "--duration", f"{SECONDS}s", "--pid", str(pid), "--json", "-"]
    added = []
    print(f"\n{'p50, ms':>20}{'CPU, ms':>10}{'p50 of the bare client':>26}{'its CPU':>10}{'searches':>12}")
    for _ in range(ROUNDS):
        nodes.call(command="record")
        report = json.loads(subprocess.run(list(map(str, load)), check=True, capture_output=True, text=True).stdout)
        bare = nodes.call(command="bare", seconds=SECONDS)
        p50, cpu = report["latency_ms_p50"], 1e3 / report["server_requests_per_cpu_s"]
        added.append((p50 - bare["p50_ms"], cpu - bare["cpu_ms"]))
        print(f"{p50:>20.3f}{cpu:>10.3f}{bare['p50_ms']:>26.3f}{bare['cpu_ms']:>10.3f}{bare['searches']:>12}", flush=True)
    p50, cpu = (median(values) for values in zip(*added, strict=True))
    print(f"the gateway adds {p50:.3f} ms in p50 (at most {P50_MS_MAX}) and {cpu:.3f} ms of CPU (at most {CPU_MS_MAX})")
    return p50 <= P50_MS_MAX and cpu <= CPU_MS_MAX


def main() -> int:
    """Starts the nodes and a gateway, and compares."""
    print(machine())
    program = str(TARGET / "examples" / "bench_nodes")
    with tempfile.TemporaryDirectory() as name, closing(LineProcess("bench_nodes", [program], dict(os.environ), ROOT)) as nodes:
        folder, urls = Path(name), nodes.call(command="nodes", count=NODES)["urls"]
        command = [TARGET / "weir", "serve", "--listen", "127.0.0.1:0", "--data-dir", folder / "data"]
        command += ["--model", ROOT / "models" / "all-MiniLM-L6-v2"]
        log = folder / "weir.log"
        with log.open("wb") as output:
            server = subprocess.Popen(command, stderr=output, env=os.environ | {"WEIR_QDRANT_URLS": ", ".join(urls)})
        try:
            url = wait_until_ready(log)
            ranks = compare_ranking(url, folder)
            costs = compare_cost(url, server.pid, nodes, folder)
        finally:
            server.terminate()
            server.wait(timeout=30)
    return 0 if ranks and costs else 1


if __name__ == "__main__":
    raise SystemExit(main())
