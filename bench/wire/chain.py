"""The links of the chain: server, route and client of each, in the order in which the experiment improved them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from processes.server import Command, Server

ROOT = Path(__file__).resolve().parent.parent.parent
VECTORS = ROOT / "bench" / "peers" / "vectors"
DIMENSION = 1024
CONCURRENCY = 10
# Workers of uvicorn in the published run, which had eight cores.
WORKERS_PUBLISHED = 7
FASTAPI, WEIR = "FastAPI", "Weir"
JSON_FASTAPI, ORJSON_FASTAPI, RAW_FASTAPI = "FastAPI JSON", "FastAPI orjson", "FastAPI raw"
JSON_WEIR, RAW_WEIR = "Weir JSON", "Weir raw"
RUST_WEIR, ZERO_COPY_WEIR = "Weir raw, Rust client", "Weir raw, Rust client, zero-copy"
# The model of the gateway: a hash of each text, so that vectors are made but no network is computed.
MODEL_ID = "pseudo"
WEIR_SETTINGS = {"WEIR_INFERENCE_CACHE_BYTES_MAX": "0", "WEIR_INFERENCE_REQUEST_WAIT_MS_MAX": "60000", "WEIR_LOG_LEVEL": "warn"}


@dataclass(frozen=True)
class Link:
    """A row: `mode` is what the client does with the reply."""

    name: str
    server: str
    path: str
    client: str
    mode: str


LINKS = (
    Link(JSON_FASTAPI, FASTAPI, "/v1/embeddings/json", "aiohttp", "json"),
    Link(ORJSON_FASTAPI, FASTAPI, "/v1/embeddings/orjson", "aiohttp", "orjson"),
    Link(RAW_FASTAPI, FASTAPI, "/v1/embeddings/raw", "aiohttp", "raw"),
    Link(JSON_WEIR, WEIR, "/v1/embeddings", "aiohttp", "orjson"),
    Link(RAW_WEIR, WEIR, "/v1/embeddings", "aiohttp", "raw"),
    Link(RUST_WEIR, WEIR, "/v1/embeddings", "rust", "copy"),
    Link(ZERO_COPY_WEIR, WEIR, "/v1/embeddings", "rust", "view"),
)

# The steps of the published experiment, as factors between links.
PUBLISHED_STEPS = (
    (JSON_FASTAPI, ORJSON_FASTAPI, 11.2),
    (ORJSON_FASTAPI, RAW_FASTAPI, 2.9),
    (RAW_FASTAPI, RAW_WEIR, 9.0),
    (RAW_WEIR, RUST_WEIR, 1.83),
    (RUST_WEIR, ZERO_COPY_WEIR, 1.15),
)
PUBLISHED_GBIT_PER_S = 1.9


@dataclass(frozen=True)
class Case:
    """The size of a run."""

    batch: int
    requests: int

    @property
    def name(self) -> str:
        """For headings."""
        return f"{self.requests:,} requests of {self.batch} vectors"

    @property
    def vector_bytes(self) -> int:
        """As float32, whatever the encoding."""
        return self.batch * self.requests * DIMENSION * 4


CASES = tuple(Case(batch, requests) for batch in (32, 256) for requests in (100, 1_000))
TINY_CASES = (Case(4, 5),)


def fastapi_server(python: Path, workers: int, folder: Path) -> Server:
    """uvicorn with some workers."""
    script = str(VECTORS / "server.py")
    arguments = [str(python), script, "--port", "{port}", "--workers", str(workers)]
    return Server(f"{FASTAPI} with {workers} workers", [Command(arguments)], folder / f"fastapi-{workers}.log")


def weir_server(binary: Path, folder: Path) -> Server:
    """The production handler, with embeddings that are made anew for each text."""
    config = folder / "weir.toml"
    config.write_text(f'[[models]]\nid = "{MODEL_ID}"\nkind = "pseudo"\ndimension = {DIMENSION}\n', encoding="utf-8")
    arguments = [str(binary), "serve", "--config", str(config), "--listen", "127.0.0.1:{port}", "--data-dir", str(folder / "data")]
    return Server(WEIR, [Command(arguments, WEIR_SETTINGS)], folder / "weir.log")


def stub_server(python: Path, folder: Path) -> Server:
    """Stands in for the gateway in tests."""
    script = str(Path(__file__).with_name("stub.py"))
    return Server(WEIR, [Command([str(python), script, "--port", "{port}"])], folder / "stub.log")


def client_command(link: Link, url: str, case: Case, runs: int, python: Path, rust: Path) -> list[str]:
    """Prints a line of JSON with the seconds of each run."""
    if link.client == "rust":
        return [str(rust), url + link.path, MODEL_ID, link.mode, str(case.batch), str(case.requests), str(runs)]
    command = [str(python), str(VECTORS / "client.py"), "--url", url + link.path, "--decode", link.mode]
    command += ["--batch", str(case.batch), "--requests", str(case.requests), "--runs", str(runs)]
    return command + (["--model", MODEL_ID] if link.server == WEIR else [])
