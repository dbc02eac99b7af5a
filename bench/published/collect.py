"""Our figures of the published rows, from what the other scripts of bench/ wrote, by the keys of `published.py`."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from published import BACKENDS, CHAIN, PAYLOADS, STEPS

PYTHON, PYTHON_ONNX = "Python, PyTorch f32", "Python, ONNX int8"
SERVICES = {"Python": PYTHON, "ONNX": "Weir, ONNX", "split": "Weir split", "thin": "Weir thin", "Weir": "Weir monolith"}
# As rows of the published page name them.
DEPLOYED = {"Python monolith": "Python", "monolith in Rust with ONNX": "ONNX", "Weir": "Weir"}
COMPARED_CONCURRENCY = 16
COMPARED_DOCUMENTS = 50_000
TEXT_ONLY = "Weir, text only"
LOADS = (5_000, 10_000, 20_000)
PRICES = {"low": 1_200, "high": 1_700}
SMALL_LOAD = 1_000
MIB = 1_048_576


@dataclass(frozen=True)
class Figure:
    """One of ours. `spread` is shown behind it."""

    value: float
    source: str
    machine: str
    spread: str = ""


Pairs = Iterator[tuple[str, float, str]]


def of_engine(found: dict[str, Any]) -> Pairs:
    """What `engine.py` measured: nothing else makes these rows."""
    indexing: dict[str, dict[str, float]] = found["index"]
    rates = []
    for how, sizes in indexing.items():
        for size, rate in sizes.items():
            rates.append(rate)
            yield f"index {how} {size}", rate, ""
    yield "index slowest", min(rates), ""
    yield "index fastest", max(rates), ""
    for size, entry in found["latency"].items():
        for part in ("p50", "p95", "p99"):
            yield f"latency {size} {part}", entry[part], ""
        yield f"latency {size} mean", entry["mean"], interval(entry)
    by_workers = [(workers, queries, rate) for workers, counts in found["workers"].items() for queries, rate in counts.items()]
    for workers, queries, rate in by_workers:
        yield f"workers {workers} {queries}", rate, ""
    yield "workers slowest", min(rate for *_, rate in by_workers), ""
    yield "workers fastest", max(rate for *_, rate in by_workers), ""
    for kind, entry in found["parse"].items():
        yield f"parse {kind}", entry["mean"], interval(entry)
    yield "parse fastest", min(entry["mean"] for entry in found["parse"].values()), ""
    yield "parse slowest", max(entry["mean"] for entry in found["parse"].values()), ""
    for length, entry in found["fusion"].items():
        yield f"fusion {length}", entry["mean"], interval(entry)
    for name, value in found["memory"].items():
        yield f"memory {name}", value, ""


def interval(entry: dict[str, float]) -> str:
    """The 95 % interval of a mean."""
    return f"{entry['low']:.3g} to {entry['high']:.3g}"


def of_search(found: dict[str, Any]) -> Pairs:
    """Rows that bench/search makes too, and the peers."""
    for entry in found["engines"]:
        if entry["engine"] == TEXT_ONLY:
            yield f"index in batches {entry['documents']}", entry["documents"] / entry["build_without_settling_s"], ""
            if entry["documents"] == COMPARED_DOCUMENTS:
                yield "memory opened", entry["opened_bytes_per_document"], ""
                yield "memory warm", entry["warm_bytes_per_document"], ""
    for entry in found["searches"]:
        if entry["engine"] == TEXT_ONLY and (entry["mode"], entry["cores"], entry["below"]) == ("lexical", 1, None):
            for part in ("p50", "p95", "p99", "mean"):
                yield f"latency {entry['documents']} {part}", entry[f"{part}_ms"] * 1e3, ""
        if (entry["documents"], entry["mode"], entry["cores"], entry["below"]) == (COMPARED_DOCUMENTS, "hybrid", 1, None):
            yield f"peer {entry['engine']}", entry["p50_ms"], ""
    for target in found["targets"]:
        if target["what"].startswith("reciprocal rank of two lists of 1,000") and target["value"] is not None:
            yield "fusion 1000", target["value"], "p50"


def of_gateway(found: dict[str, Any]) -> Pairs:
    """The services at the compared concurrency, and the tables of the case study."""
    rows = {row["service"]: row for row in found["rows"] if row["concurrency"] == COMPARED_CONCURRENCY}
    for name, service in SERVICES.items():
        if service in rows:
            yield f"rate {name}", rows[service]["requests_per_s"], ""
            yield f"p95 {name}", rows[service]["latency_ms_p95"], ""
            yield f"rss {name}", rows[service]["rss_mib"], ""
    base = rows.get(PYTHON)
    for label, name in DEPLOYED.items():
        row = rows.get(SERVICES[name])
        if row is None:
            continue
        counts = {load: math.ceil(load / row["requests_per_s"]) for load in (*LOADS, SMALL_LOAD)}
        for load in LOADS:
            yield f"replicas {label} {load:,}", counts[load], ""
        yield f"small {name}", counts[SMALL_LOAD] * row["rss_mib"], f"{counts[SMALL_LOAD]} replicas"
        if base is not None and name != "Python":
            saved = math.ceil(10_000 / base["requests_per_s"]) - counts[10_000]
            for which, price in PRICES.items():
                yield f"saved {name} {which}", saved * price, ""
    for name, service in SERVICES.items():
        facts = found["facts"].get(service)
        if facts is not None:
            starts = sorted(facts["start_seconds"])
            yield f"start {name}", starts[len(starts) // 2] * 1e3, ""
            yield f"size {name}", shipped_bytes(facts["shipped"]) / MIB, ""
    for pair, our_service, other in (("onnx", SERVICES["ONNX"], PYTHON_ONNX), ("torch", SERVICES["Weir"], PYTHON)):
        ours, theirs = rows.get(our_service), rows.get(other)
        if ours is not None and theirs is not None:
            for name, part in (("rate", "requests_per_s"), ("p95", "latency_ms_p95"), ("rss", "rss_mib")):
                yield f"{pair} {name} ratio", ours[part] / theirs[part], ""


def shipped_bytes(shipped: dict[str, Any]) -> float:
    """The program and its model."""
    return float(sum(value for name, value in shipped.items() if name.endswith("_bytes")))


def of_llm(found: dict[str, Any]) -> Pairs:
    """Steps, layers, backends, payloads, chaos, work per core."""
    rows = {(row["scenario"], row["target"]): row for row in found["rows"]}
    for (scenario, target), row in rows.items():
        kind, _, rest = scenario.partition("-")
        if scenario == "closed-1k":
            yield f"most {target}", row["requests_per_s"], ""
        if kind == "rate" and int(rest) in STEPS:
            yield f"step {target} {rest}", row["latency_ms_p95"], ""
        if scenario == "rate-1000":
            yield f"core {target} 1000", row["requests_per_cpu_s"], ""
        if scenario == "closed-1k":
            yield f"core {target} closed", row["requests_per_cpu_s"], ""
        if kind == "loaded" and int(rest) in BACKENDS and row["added"]:
            yield f"loaded {target} {rest}", row["added"]["ms_p50"], ""
        if kind in ("request", "reply") and (size := size_name(rest)) in PAYLOADS:
            yield f"payload {kind} {target} {size}", row["latency_ms_p50"], ""
        if scenario == "chaos":
            yield f"chaos {target}", row["ok"] / row["requests"] * 100, ""
    first = rows.get(("rate-5000", "Weir L1"))
    if first is not None and first["added"]:
        yield "added Weir L1", first["added"]["ms_p95"], ""
    for name, scenario, target in (("L2", "rate-5000", "Weir L2"), ("L3", "rate-10000", "Weir L3")):
        one, other = rows.get((scenario, target)), rows.get((scenario, "Weir L1"))
        if one is not None and other is not None:
            yield f"added {name}", one["latency_ms_p95"] - other["latency_ms_p95"], ""


def size_name(size: str) -> str:
    """`1k` as 1 KB."""
    return size.replace("k", " KB").replace("m", " MB")


def of_wire(found: dict[str, Any]) -> Pairs:
    """The chain and every case."""
    if found["is_stub"]:
        return
    for step in found["steps"]:
        if step["factor"] is not None:
            yield f"step {step['before']} → {step['after']}", step["factor"], ""
    for row in found["rows"]:
        yield f"wire {row['link']} {row['batch']} {row['requests']}", row["gbit_per_s_mean"], f"± {row['gbit_per_s_sigma']:.2g}"
    last = CHAIN[-1][1]
    ends = [row for row in found["rows"] if row["link"] == last and row["batch"] == 256]
    if ends:
        yield "end", max(ends, key=lambda row: row["requests"])["gbit_per_s_mean"], f"{max(row['requests'] for row in ends):,} requests"
    copies = [rate for rates in found["tcp_copy_gbit_per_s"].values() for rate in rates]
    if copies:
        yield "copy", max(copies), ""
    for target in found["targets"]:
        if "vectors per CPU-second" in target["what"] and target["value"] is not None:
            yield "json per cpu", target["value"], ""


# Later ones replace figures of earlier ones.
READERS = {"search": of_search, "engine": of_engine, "gateway": of_gateway, "llm": of_llm, "wire": of_wire}


def collect(folders: list[Path]) -> dict[str, Figure]:
    """The figures of all files `NAME.json` in the folders; a later folder goes before an earlier one."""
    found: dict[str, Figure] = {}
    for name, read in READERS.items():
        for folder in folders:
            path = folder / f"{name}.json"
            if not path.exists():
                continue
            figures = json.loads(path.read_text(encoding="utf-8"))
            machine = str(figures["machine"]).split(" (")[0]
            for key, value, spread in read(figures):
                found[key] = Figure(float(value), name, machine, spread)
    return found
