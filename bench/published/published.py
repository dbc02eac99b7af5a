"""What the four published experiments say, row by row. None of it was measured here: other machines, other load generators.

A row without a figure has the sentence that says why: often only the ends of a range, or ratios, were handed on.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One line of a table. `key` finds our figure in what `collect` gathered; without it `why` says why there is none."""

    label: str
    # as published, in the unit of the table; empty if the figure is not known
    published: str
    key: str = ""
    why: str = ""
    # the published figure for a ratio, and whether more is better
    value: float | None = None
    more_is_better: bool = True
    # the same or a like program of others, run here: its ratio says what the machines differ by
    is_peer: bool = False
    # the rate of a step, and the key of the most that its target does
    rate: float = 0.0
    most: str = ""


@dataclass(frozen=True)
class Table:
    """A table of an experiment."""

    title: str
    unit: str
    rows: tuple[Row, ...]
    # what a reader must know of it
    note: str = ""


@dataclass(frozen=True)
class Experiment:
    """A page."""

    name: str
    title: str
    machine: str
    tables: tuple[Table, ...]


SIZES = (1_000, 10_000, 50_000, 100_000)
LATENCY_SIZES = (1_000, 10_000, 50_000)
WORKERS = (1, 10, 50, 100)
QUERIES = (100, 1_000, 5_000, 10_000)
PARSED = ("simple", "phrase", "negation", "complex")
FUSED = (10, 100, 500, 1_000)
# Serial indexing is one durable commit for each document.
SERIAL_MAX = 10_000
SEE_RANGE = "the published figures are known as a range only"

ENGINE = Experiment(
    "search-engine",
    "Search engine: Tantivy, vectors and reciprocal rank fusion",
    "a Mac; more is not known of it",
    (
        Table(
            "Indexing",
            "documents/s",
            tuple(
                Row(f"{size:,} documents, {how}", "", f"index {how} {size}")
                if how == "in batches" or size <= SERIAL_MAX
                else Row(f"{size:,} documents, serial", "", why=f"one durable commit for each document takes too long beyond {SERIAL_MAX:,}")
                for size in SIZES
                for how in ("serial", "in batches")
            )
            + (
                Row("slowest row", "416", "index slowest", value=416),
                Row("fastest row", "21,006", "index fastest", value=21_006),
            ),
            "Published are the slowest and the fastest of these rows, not which is which. Ours: text alone, each batch durable; serial is a commit for each document, which must reach the disk.",
        ),
        Table(
            "Latency of a query",
            "µs",
            tuple(
                Row(f"{size:,} documents, {part}", published, f"latency {size} {part}", value=value, more_is_better=False)
                for size in LATENCY_SIZES
                for part, published, value in (
                    [("p50", "234", 234.0), ("p95", "712", 712.0), ("p99", "984", 984.0), ("mean", "290", 290.0)]
                    if size == 50_000
                    else [("p50", "", None), ("p95", "", None), ("p99", "", None), ("mean", "", None)]
                )
            ),
            "Published at 50,000; of the smaller sizes no figure was handed on. Ours: lexical search of a query of one to four words, one core, in process; the mean with its 95 % interval where `engine.py` measured it. Figures of [search](../search.md) were taken while other engines took turns on the same cores; alone p50 was 77 µs at 50,000 ([history](../history.md#search-beside-other-engines)).",
        ),
        Table(
            "Workers",
            "queries/s",
            tuple(Row(f"{workers} worker{'s' * (workers > 1)}, {queries:,} queries", "", f"workers {workers} {queries}") for workers in WORKERS for queries in QUERIES)
            + (
                Row("slowest row", "4,782", "workers slowest", value=4_782),
                Row("fastest row", "27,287", "workers fastest", value=27_287),
            ),
            "Over 50,000 documents. Published are the slowest and the fastest of these rows. Ours: threads of one process, as many as workers, on all cores that are measured on.",
        ),
        Table(
            "Parsing of a query",
            "µs",
            tuple(Row(kind, "", f"parse {kind}", more_is_better=False) for kind in PARSED)
            + (
                Row("fastest row", "74", "parse fastest", value=74, more_is_better=False),
                Row("slowest row", "103", "parse slowest", value=103, more_is_better=False),
            ),
            "Published are the fastest and the slowest of the four kinds.",
        ),
        Table(
            "Reciprocal rank fusion of two lists",
            "µs",
            tuple(
                Row(
                    f"{length:,} results each",
                    {10: "6", 1_000: "648"}.get(length, ""),
                    f"fusion {length}",
                    value={10: 6.0, 1_000: 648.0}.get(length),
                    more_is_better=False,
                )
                for length in FUSED
            ),
            "Published is the range of 6 to 648, taken here as its shortest and longest lists.",
        ),
        Table(
            "Memory of 50,000 documents",
            "bytes per document",
            (
                Row("resident after opening", "", "memory opened", more_is_better=False),
                Row("resident after all searches", "766", "memory warm", value=766, more_is_better=False),
                Row("before, MiB of the process", "", "memory before", more_is_better=False),
                Row("after, MiB of the process", "", "memory after", more_is_better=False),
            ),
            "Published is the difference by document. Ours: text alone.",
        ),
        Table(
            "Peers, 50,000 documents, p50 of a hybrid search",
            "ms",
            (
                Row("Weir, in process", "", "peer Weir", more_is_better=False),
                Row("Qdrant Edge, from Python", "", "peer Qdrant Edge", more_is_better=False),
                Row("LanceDB, from Python", "", "peer LanceDB", more_is_better=False),
                Row("OpenSearch, one node, from Python", "", "peer OpenSearch", more_is_better=False),
                Row("OpenSearch, three nodes on this machine, from Python", "", "peer OpenSearch, three nodes", more_is_better=False),
            ),
        ),
    ),
)


def by_load(name: str, figures: dict[str, str]) -> tuple[Row, ...]:
    """Replicas of a service for each load."""
    values = {load: float(figure) for load, figure in figures.items()}
    return tuple(
        Row(f"{name}: replicas for {load} requests/s", figure, f"replicas {name} {load}", value=values[load], more_is_better=False, is_peer="Python" in name)
        for load, figure in figures.items()
    )


EMBEDDING = Experiment(
    "embedding-gateway",
    "Embedding gateway: a monolith in Python, its successors, what they save",
    "4 vCPU, concurrency 16, 2,000 requests, a load generator in Python that ends at about 450 requests/s",
    (
        Table(
            "Requests/s",
            "requests/s",
            (
                Row("Python monolith", "356", "rate Python", value=356, is_peer=True),
                Row("monolith in Rust with ONNX", "456", "rate ONNX", value=456),
                Row("split", "450", "rate split", value=450),
                Row("thin, pseudo-embeddings (published in Go)", "451", "rate thin", value=451),
                Row("Weir monolith", "", "rate Weir"),
            ),
            "Published figures end where the load generator ends; ours are by weir-bench.",
        ),
        Table(
            "p95",
            "ms",
            (
                Row("Python monolith", "150", "p95 Python", value=150, more_is_better=False, is_peer=True),
                Row("monolith in Rust with ONNX", "123", "p95 ONNX", value=123, more_is_better=False),
                Row("split", "117", "p95 split", value=117, more_is_better=False),
                Row("thin", "114", "p95 thin", value=114, more_is_better=False),
                Row("Weir monolith", "", "p95 Weir", more_is_better=False),
            ),
        ),
        Table(
            "Memory",
            "MiB",
            (
                Row("Python monolith", "387", "rss Python", value=387, more_is_better=False, is_peer=True),
                Row("monolith in Rust with ONNX", "126", "rss ONNX", value=126, more_is_better=False),
                Row("split", "228", "rss split", value=228, more_is_better=False),
                Row("thin (published in Go)", "6.5", "rss thin", value=6.5, more_is_better=False),
                Row("Weir monolith", "", "rss Weir", more_is_better=False),
            ),
            "The published thin gateway holds no documents; ours has 5,000 and their index on disk.",
        ),
        Table(
            "Replicas",
            "replicas",
            by_load("Python monolith", {"5,000": "15", "10,000": "29", "20,000": "57"})
            + by_load("monolith in Rust with ONNX", {"5,000": "11", "10,000": "22", "20,000": "44"})
            + tuple(Row(f"Weir monolith: replicas for {load} requests/s", "", f"replicas Weir {load}", more_is_better=False) for load in ("5,000", "10,000", "20,000")),
            "The load divided by the requests/s of one at concurrency 16, rounded up.",
        ),
        Table(
            "Saved a year at 10,000 requests/s, against the Python monolith",
            "dollars",
            (
                Row("monolith in Rust with ONNX, nodes of $1,200", "8,400", "saved ONNX low", value=8_400),
                Row("monolith in Rust with ONNX, nodes of $1,700", "11,900", "saved ONNX high", value=11_900),
                Row("Weir monolith, nodes of $1,200", "", "saved Weir low"),
                Row("Weir monolith, nodes of $1,700", "", "saved Weir high"),
            ),
            "Published are the price of a node and the replicas; the sums follow from them.",
        ),
        Table(
            "500 to 1,000 requests/s: memory of all replicas",
            "MiB",
            (
                Row("Python monolith, three replicas published", "1,161", "small Python", value=1_161, more_is_better=False, is_peer=True),
                Row("monolith in Rust with ONNX, three replicas published", "378", "small ONNX", value=378, more_is_better=False),
                Row("Weir monolith", "", "small Weir", more_is_better=False),
            ),
        ),
        Table(
            "Cold start to `/healthz`, and size with the model",
            "ms and MiB",
            (
                Row("Weir monolith, start", "", "start Weir", more_is_better=False),
                Row("Python monolith, start", "", "start Python", more_is_better=False),
                Row("thin, start", "", "start thin", more_is_better=False),
                Row("Weir monolith, size", "", "size Weir", more_is_better=False),
                Row("Python monolith, size", "", "size Python", more_is_better=False),
                Row("thin, size (published in Go: an image of 13 MB)", "13", "size thin", value=13, more_is_better=False),
            ),
        ),
        Table(
            "Weir monolith against the published stack, as run here",
            "ratio",
            (
                Row("requests/s, Weir to Python with PyTorch; wanted 30", "", "torch rate ratio"),
                Row("p95, Weir to Python with PyTorch; wanted 0.05", "", "torch p95 ratio", more_is_better=False),
                Row("RSS, Weir to Python with PyTorch; wanted 0.1", "", "torch rss ratio", more_is_better=False),
            ),
            "Where PyTorch does 125 requests/s, 30 times are 3,750. A request takes 0.700 ms of CPU time, of which the thin gateway, which has no encoder, takes 0.287, "
            "so that two cores have time for 2,860 a second. Where PyTorch did 158 requests/s, in another run, not even a gateway that cost nothing could have reached 30 times.",
        ),
        Table(
            "ONNX Runtime in Weir beside the same runtime in Python",
            "ratio",
            (
                Row("requests/s, Weir to Python", "", "onnx rate ratio"),
                Row("p95, Weir to Python", "", "onnx p95 ratio", more_is_better=False),
                Row("RSS, Weir to Python", "", "onnx rss ratio", more_is_better=False),
            ),
        ),
    ),
)

STEPS = (500, 1_000, 2_000, 5_000, 8_000, 10_000, 12_000)
BACKENDS = (0, 50, 200, 500)
PAYLOADS = ("1 KB", "10 KB", "100 KB", "1 MB")
LAYERS = ("Weir L1", "Weir L2", "Weir L3")
VIDAI = {5_000: ("about 4", 4.0), 10_000: ("about 20", 20.0), 12_000: ("about 35", 35.0)}
BIFROST = {5_000: ("4", 4.0), 10_000: ("35", 35.0), 12_000: ("50", 50.0)}
NO_BIFROST = "Bifrost cannot be had from the package registries; Go's ReverseProxy stands for a proxy in Go"

LLM = Experiment(
    "llm-gateway",
    "LLM gateway: steps of load, layers, backends, payloads, chaos",
    "a Xeon with 8 threads, mock, gateway and load on one machine, 20 s a step",
    (
        Table(
            "p95 by step: L1 (keys, limits, routing)",
            "ms",
            tuple(
                Row(f"{rate:,} requests/s", VIDAI.get(rate, ("", None))[0], f"step Weir L1 {rate}", value=VIDAI.get(rate, ("", None))[1], more_is_better=False)
                for rate in STEPS
            ),
            "Published of VidaiServer.",
        ),
        Table(
            "p95 by step: a gateway in Go",
            "ms",
            tuple(
                Row(
                    f"{rate:,} requests/s, Bifrost published, Go's ReverseProxy here",
                    BIFROST.get(rate, ("", None))[0],
                    f"step Go ReverseProxy {rate}",
                    value=BIFROST.get(rate, ("", None))[1],
                    more_is_better=False,
                    is_peer=True,
                )
                for rate in STEPS
            ),
            NO_BIFROST + ".",
        ),
        Table(
            "p95 by step: other targets here",
            "ms",
            tuple(
                Row(f"{target}, {rate:,} requests/s", "", f"step {target} {rate}", more_is_better=False, rate=rate, most=f"most {target}")
                for target in ("direct", "Rust floor", "Weir L2", "Weir L3", "Portkey", "LiteLLM, 4 workers", "litellm-rs")
                for rate in STEPS
            ),
            "A target is given only rates of which it did a tenth more in the closed loop.",
        ),
        Table(
            "Added at 5,000 requests/s",
            "ms",
            (
                Row("L1", "1.7", "added Weir L1", value=1.7, more_is_better=False),
                Row("LiteLLM", "5,789", why="it does not do this rate here: 278 requests/s with four workers is its most"),
                Row("L2 (guardrails by regular expressions), more than L1", "less than 0.1", "added L2", more_is_better=False),
                Row("L3 (PostgreSQL), more than L1; published at 10,000 requests/s", "5", "added L3", value=5, more_is_better=False),
            ),
        ),
        Table(
            "Slower and faster backends, where LiteLLM is loaded: added p50",
            "ms",
            tuple(
                Row(f"{target}, backend of {latency} ms", "", f"loaded {target} {latency}", more_is_better=False)
                for target in ("Weir L1", "LiteLLM, 4 workers", "litellm-rs", "Portkey")
                for latency in BACKENDS
            ),
            "The published work calls it an inverted catastrophe: a faster backend cost LiteLLM more. Of its figures none was handed on.",
        ),
        Table(
            "Payloads: p50",
            "ms",
            tuple(
                Row(f"{target}, {what} of {size}", "", f"payload {what} {target} {size}", more_is_better=False)
                for target in ("direct", "Weir L1", "Weir L3")
                for what in ("request", "reply")
                for size in PAYLOADS
            ),
            "97 requests/s, of 100 KB 19, of 1 MB 3: what the mock alone can do. No published figure was handed on.",
        ),
        Table(
            "Chaos: share of good replies",
            "%",
            tuple(Row(target, "", f"chaos {target}") for target in ("direct", "Weir L1", "Portkey", "LiteLLM, 4 workers", "litellm-rs")),
            "2 % errors 500, 1 % closed before the headers, 1 % within the body, 1 % cut JSON. No published figure was handed on.",
        ),
        Table(
            "Work per core",
            "requests/s per core",
            (
                Row("Kong", "670", why="Kong is not in the package registries", value=670),
                Row("VidaiServer, least; Weir L1 at 1,000 requests/s", "1,250", "core Weir L1 1000", value=1_250),
                Row("VidaiServer, most; Weir L1 in the closed loop", "6,000", "core Weir L1 closed", value=6_000),
                Row("Rust floor, closed loop", "", "core Rust floor closed"),
                Row("Go ReverseProxy, closed loop", "", "core Go ReverseProxy closed"),
                Row("Portkey, closed loop", "", "core Portkey closed"),
                Row("LiteLLM, 4 workers, closed loop", "", "core LiteLLM, 4 workers closed"),
                Row("litellm-rs, closed loop", "", "core litellm-rs closed"),
                Row("LiteLLM's Rust core", "", why="it serves `/v1/messages` first; these loads are chat completions"),
            ),
            "Ours are requests per CPU-second of the gateway's processes.",
        ),
    ),
)

CHAIN = (
    ("FastAPI JSON", "FastAPI orjson", 11.2),
    ("FastAPI orjson", "FastAPI raw", 2.9),
    ("FastAPI raw", "Weir raw", 9.0),
    ("Weir raw", "Weir raw, Rust client", 1.83),
    ("Weir raw, Rust client", "Weir raw, Rust client, zero-copy", 1.15),
)
LINKS = ("FastAPI JSON", "FastAPI orjson", "FastAPI raw", "Weir JSON", "Weir raw", "Weir raw, Rust client", "Weir raw, Rust client, zero-copy")

WIRE = Experiment(
    "wire",
    "Vectors on the wire: from JSON to zero-copy",
    "eight cores, uvicorn with 7 workers, 1,024 float32 a vector, concurrency 10, ten runs",
    (
        Table(
            "The chain",
            "times the step before",
            tuple(Row(f"{before} → {after}".replace("Weir raw", "Axum, here Weir, raw", 1) if before == "FastAPI raw" else f"{before} → {after}", f"{factor:g}", f"step {before} → {after}", value=factor, is_peer="Weir" not in after) for before, after, factor in CHAIN),
            "Raw replies have no step from FastAPI to Weir here: the client in Python, the same for both, is what limits them; of the servers' CPU time Weir needs 0.87 for a vector.",
        ),
        Table(
            "The end of the chain",
            "Gbit/s",
            (
                Row("zero-copy, 1,000 requests of 256 vectors", "1.9", "end", value=1.9),
                Row("a bare TCP copy (published: iperf3)", "", "copy"),
            ),
            "The published ceiling by iperf3 was not handed on.",
        ),
        Table(
            "Every case",
            "Gbit/s, mean ± σ of the runs",
            tuple(
                Row(f"{link}, {requests:,} requests of {batch} vectors", "", f"wire {link} {batch} {requests}")
                for batch in (32, 256)
                for requests in (100, 1_000)
                for link in LINKS
            ),
            "Published are the factors alone.",
        ),
        Table(
            "JSON, vectors per CPU-second of the server",
            "times FastAPI with orjson",
            (Row("Weir JSON", "", "json per cpu"),),
            "Wanted is 1.5. FastAPI sends vectors that were made once, the gateway makes each anew; of its CPU time half is writing the floats and a third is the system's, much of it page faults ([history](../history.md#vectors-on-the-wire)).",
        ),
    ),
)

EXPERIMENTS = (ENGINE, EMBEDDING, LLM, WIRE)
