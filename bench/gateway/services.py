"""The services that are compared: how each is started, filled with documents, and what has to be shipped to run it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from documents import ROOT, Document
from processes import EngineError
from processes.server import Command, Server

PEERS = ROOT / "bench" / "peers"
PYTHON_TORCH, PYTHON_ONNX, GO = "Python, PyTorch f32", "Python, ONNX int8", "Go thin"
# The Python monolith by backend. Each is a row in its best setting; the better one is what the others are compared with.
PYTHON = {"torch": PYTHON_TORCH, "onnx": PYTHON_ONNX}
WEIR, WEIR_ONNX, WEIR_SPLIT, WEIR_THIN = "Weir monolith", "Weir, ONNX", "Weir split", "Weir thin"
MODEL_ID = "all-MiniLM-L6-v2"
# Documents in one request, and how long an ingest may take.
BATCH = 250
INGEST_SECONDS_MAX = 1800.0
# All queue instead of refusing, like the peers, and nothing is cached.
WEIR_SETTINGS = {
    "WEIR_INFERENCE_CACHE_BYTES_MAX": "0",
    "WEIR_INFERENCE_QUERY_WAIT_MS_MAX": "60000",
    "WEIR_LIMITS_SEARCH_WAIT_MS_MAX": "60000",
    "WEIR_LIMITS_SEARCH_CONCURRENCY_MAX": "1024",
    "WEIR_LOG_LEVEL": "warn",
}
# What PyTorch's package for machines with a GPU has beside the package for CPUs.
GPU_PARTS = ("nvidia*", "triton*", "cuda*", "libtorch_cuda*", "libc10_cuda*")
INGEST = "/v1/ingest"


@dataclass(frozen=True)
class Paths:
    """What was installed and built, and where data is kept."""

    weir: Path
    model: Path
    cache: Path
    data: Path

    @property
    def python(self) -> Path:
        """Of the Python monolith."""
        return self.cache / "python_monolith" / "bin" / "python"

    @property
    def go(self) -> Path:
        """The Go gateway's binary."""
        return self.cache / "go_thin"

    @property
    def onnx(self) -> Path:
        """The model as ONNX, in int8."""
        return self.cache / "onnx-int8"

    @property
    def onnx_library(self) -> Path | None:
        """The shared library of the Python package."""
        found = sorted(self.cache.glob("python_monolith/lib/python*/site-packages/onnxruntime/capi/libonnxruntime.so.*"))
        return found[-1] if found else None


@dataclass(frozen=True)
class PythonSetting:
    """One way to run the Python monolith."""

    backend: str
    workers: int
    threads: int

    @property
    def name(self) -> str:
        """In tables."""
        backend = "torch f32" if self.backend == "torch" else "ONNX Runtime int8"
        return f"{backend}, {self.workers} worker{'s' * (self.workers > 1)} of {self.threads} thread{'s' * (self.threads > 1)}"


@dataclass(frozen=True)
class Shipped:
    """Bytes on disk that running it needs beside a C library: programs, and models."""

    program_bytes: int
    model_bytes: int
    what: str

    @property
    def total_bytes(self) -> int:
        """An image's content without its base."""
        return self.program_bytes + self.model_bytes


@dataclass
class Service:
    """One row."""

    name: str
    detail: str
    server: Server
    shipped: Callable[[], Shipped]
    fill: Callable[[Server, list[Document]], None]
    expected: str = '"results"'
    # keeps its documents on disk: it is started again after the ingest, whose memory is not that of searching
    is_durable: bool = True
    # files that it needs before its first start
    files: dict[Path, str] = field(default_factory=dict)

    def prepare(self) -> None:
        """Writes its files."""
        for file, content in self.files.items():
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, encoding="utf-8")


def cores() -> int:
    """That this process may use."""
    return len(os.sched_getaffinity(0))


def python_settings(cores_max: int) -> list[PythonSetting]:
    """Threads and workers up to the number of cores, in powers of two and the number itself.

    The first of a backend embeds the documents for all: it has the most threads.
    """
    counts = sorted({count for count in (1, 2, 4, 8, 16, 32) if count < cores_max} | {cores_max})
    return [
        PythonSetting(backend, workers, threads)
        for backend in ("torch", "onnx")
        for workers in counts
        for threads in reversed(counts)
    ]


def python_monolith(paths: Paths, setting: PythonSetting) -> Service:
    """FastAPI with one of the settings. All settings of a backend share their documents."""
    model = paths.model if setting.backend == "torch" else paths.onnx
    data = paths.data / f"python-{setting.backend}"
    script = PEERS / "python_monolith" / "server.py"
    arguments = [str(paths.python), str(script), "--port", "{port}", "--backend", setting.backend, "--model", str(model)]
    arguments += ["--workers", str(setting.workers), "--threads", str(setting.threads), "--data", str(data)]
    name = PYTHON[setting.backend]
    server = Server(name, [Command(arguments)], paths.data / "logs" / f"python-{setting.backend}.log")
    return Service(name, setting.name, server, lambda: python_files(paths, setting, model), fill_in_batches)


def python_files(paths: Paths, setting: PythonSetting, model: Path) -> Shipped:
    """The interpreter with its library, the packages that the setting needs, and the model."""
    unused = ["onnx", "onnxruntime"] if setting.backend == "torch" else ["torch", "transformers", "sentence_transformers", "onnx"]
    excluded = (*GPU_PARTS, *unused, "pip", "setuptools", "__pycache__")
    packages = next((paths.cache / "python_monolith" / "lib").glob("python*")) / "site-packages"
    library = Path(os.__file__).parent
    program = tree_bytes(packages, excluded) + tree_bytes(library, ("site-packages", "test", "__pycache__", "config-*"))
    program += Path(sys.executable).resolve().stat().st_size
    return Shipped(program, model_bytes(model), "interpreter, packages without GPU parts, model")


def go_thin(paths: Paths) -> Service:
    """Pseudo-embeddings, the standard library."""
    server = Server(GO, [Command([str(paths.go), "-listen", "127.0.0.1:{port}"])], paths.data / "logs" / "go.log")
    detail = "hashes of words as embeddings, exact search with a heap"
    return Service(GO, detail, server, lambda: Shipped(paths.go.stat().st_size, 0, "binary"), fill_in_batches, is_durable=False)


def weir_service(
    paths: Paths, name: str, detail: str, model: list[Path], config: str, before: list[Command] | None = None
) -> Service:
    """A gateway with a configuration of its own, after the processes that it calls."""
    folder = paths.data / name.replace(",", "").replace(" ", "-").lower()
    file = folder / "weir.toml"
    server = Server(name, [*(before or []), weir_command(paths, file, folder / "data")], folder / "weir.log")

    def shipped() -> Shipped:
        models = sum(model_bytes(path) for path in model)
        return Shipped(stripped_bytes(paths.weir), models, "binary, model" if model else "binary")

    return Service(name, detail, server, shipped, fill_by_jobs, '"degraded":false', files={file: config})


def weir_command(paths: Paths, config: Path, data: Path) -> Command:
    """`weir serve`."""
    arguments = [str(paths.weir), "serve", "--config", str(config), "--listen", "127.0.0.1:{port}", "--data-dir", str(data)]
    return Command(arguments, WEIR_SETTINGS)


def weir_monolith(paths: Paths) -> Service:
    """Gateway and encoder in one process."""
    config = f'[[models]]\nid = "{MODEL_ID}"\nfolder = "{paths.model}"\n'
    return weir_service(paths, WEIR, "its own encoder, int8", [paths.model], config)


def weir_onnx(paths: Paths) -> Service:
    """The same model as ONNX, the file that the Python monolith uses too."""
    library = paths.onnx_library
    if library is None:
        raise EngineError(f"{WEIR_ONNX}: there is no libonnxruntime below {paths.cache}; bench/gateway.sh installs it")
    config = f'[onnx]\nlibrary = "{library}"\n\n[[models]]\nid = "{MODEL_ID}"\nkind = "onnx"\nfolder = "{paths.onnx}"\n'
    return weir_service(paths, WEIR_ONNX, "the model as ONNX, int8, by ONNX Runtime", [paths.onnx, library], config)


def weir_split(paths: Paths) -> Service:
    """A gateway and an embedder, two processes."""
    folder = paths.data / "weir-embedder"
    embedder_config = folder / "weir.toml"
    embedder = weir_command(paths, embedder_config, folder / "data")
    embedder = Command([*embedder.arguments, "--role", "embed"], WEIR_SETTINGS)
    detail = "a gateway and an embedder, both on this machine"
    service = weir_service(paths, WEIR_SPLIT, detail, [paths.model], "", [embedder])
    gateway = service.server.commands[-1]
    roles = ["--role", "gateway", "--embedder-url", "http://127.0.0.1:{port0}"]
    service.server.commands[-1] = Command([*gateway.arguments, *roles], gateway.environment)
    service.files[embedder_config] = f'[[models]]\nid = "{MODEL_ID}"\nfolder = "{paths.model}"\n'
    return service


def weir_thin(paths: Paths) -> Service:
    """Pseudo-embeddings: all that a gateway does but the model."""
    return weir_service(paths, WEIR_THIN, "hashes of texts as embeddings", [], '[[models]]\nid = "pseudo"\nkind = "pseudo"\n')


def fill_in_batches(server: Server, documents: list[Document]) -> None:
    """Each reply says that its documents can be found."""
    if server.call("GET", "/healthz")["document_count"] == len(documents):
        return
    for batch in batches(documents):
        server.call("POST", INGEST, {"documents": batch})


def fill_by_jobs(server: Server, documents: list[Document]) -> None:
    """Waits for the last job. Documents that are there already cost nothing."""
    job = ""
    for batch in batches(documents):
        job = server.call("POST", INGEST, {"documents": batch})["job_id"]
    deadline = time.monotonic() + INGEST_SECONDS_MAX
    while (found := server.call("GET", f"/v1/jobs/{job}"))["status"] != "completed":
        if found["status"] in ("failed", "cancelled") or time.monotonic() > deadline:
            raise EngineError(f"{server.name} could not ingest: {found}")
        time.sleep(0.2)
    count = server.call("GET", "/healthz")["document_count"]
    if count != len(documents):
        raise EngineError(f"{server.name} has {count} documents instead of {len(documents)}; empty its folder of data")


def batches(documents: list[Document]) -> Iterator[list[Document]]:
    """Parts of one request each."""
    for start in range(0, len(documents), BATCH):
        yield documents[start : start + BATCH]


def stripped_bytes(binary: Path) -> int:
    """A binary's size as it's released, without symbols."""
    if shutil.which("strip") is None:
        return binary.stat().st_size
    with tempfile.TemporaryDirectory() as name:
        out = Path(name) / "stripped"
        subprocess.run(["strip", "--strip-all", "-o", out, binary], check=True)
        return out.stat().st_size


def model_bytes(model: Path) -> int:
    """A file, or the files of a folder."""
    return model.stat().st_size if model.is_file() else tree_bytes(model, (".*",))


def tree_bytes(folder: Path, excluded: tuple[str, ...]) -> int:
    """Of all files in a folder but those below excluded names."""
    total = 0
    for entry in folder.iterdir():
        if any(entry.match(pattern) for pattern in excluded):
            continue
        if entry.is_symlink():
            continue
        total += tree_bytes(entry, excluded) if entry.is_dir() else entry.stat().st_size
    return total
