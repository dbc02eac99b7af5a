"""A retrieval service as one would write it in Python: FastAPI, a sentence transformer, numpy. A baseline of bench/gateway.sh.

    python server.py --port 8000 --workers 2 --threads 1 --backend torch --model models/all-MiniLM-L6-v2 --data FOLDER
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

# Of numpy's products, which reads it when it's imported. Several requests at once would each wait for all of its threads: a search
# of 2,000 documents took up to twenty times the CPU time with two (on two busy cores).
os.environ["OPENBLAS_NUM_THREADS"] = "1"

import embedders  # noqa: E402
from fastapi import FastAPI  # noqa: E402
from pydantic import BaseModel, Field  # noqa: E402
from store import Store  # noqa: E402

TOP_K_MAX = 1000


class Document(BaseModel):
    """What a caller stores."""

    id: str
    title: str = ""
    text: str
    metadata: dict[str, Any] = {}


class Ingest(BaseModel):
    """The body of an ingest."""

    documents: list[Document]


class Search(BaseModel):
    """The body of a search."""

    query: str
    top_k: int = Field(default=5, ge=1, le=TOP_K_MAX)


def make_app() -> FastAPI:
    """One worker's application; its settings come by the environment, since uvicorn starts workers as new processes."""
    loaded: dict[str, Any] = {}

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        loaded["embedder"] = embedders.load(
            os.environ["PEER_BACKEND"], Path(os.environ["PEER_MODEL"]), int(os.environ["PEER_THREADS"])
        )
        loaded["store"] = Store(Path(os.environ["PEER_DATA"]))
        yield

    app = FastAPI(lifespan=lifespan)

    # Functions without `async` run in FastAPI's pool of threads, so that a request is read while another is computed.
    @app.get("/healthz")
    def healthz() -> dict[str, Any]:
        return {"status": "ok", "model_loaded": True, "document_count": loaded["store"].count}

    @app.post("/v1/ingest")
    def ingest(body: Ingest) -> dict[str, Any]:
        texts = [f"{document.title} {document.text}".strip() for document in body.documents]
        if texts:
            loaded["store"].add([document.model_dump() for document in body.documents], loaded["embedder"].embed(texts))
        return {"ingested": len(texts)}

    @app.post("/v1/search")
    def search(body: Search) -> dict[str, Any]:
        started = time.perf_counter()
        vector = loaded["embedder"].embed([body.query])[0]
        results = loaded["store"].search(vector, body.top_k)
        return {"results": results, "took_ms": (time.perf_counter() - started) * 1e3}

    return app


def main() -> None:
    """Reads the command line and serves."""
    import uvicorn

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="of PyTorch or ONNX Runtime, in each worker")
    parser.add_argument("--backend", choices=("torch", "onnx"), default="torch")
    parser.add_argument("--model", type=Path, required=True)
    parser.add_argument("--data", type=Path, required=True, help="where documents and vectors are kept")
    given = parser.parse_args()
    os.environ |= {
        "PEER_BACKEND": given.backend,
        "PEER_MODEL": str(given.model.resolve()),
        "PEER_THREADS": str(given.threads),
        "PEER_DATA": str(given.data.resolve()),
    }
    uvicorn.run(
        "server:make_app",
        factory=True,
        app_dir=str(Path(__file__).parent),
        host=given.host,
        port=given.port,
        workers=given.workers,
        loop="uvloop",
        http="httptools",
        access_log=False,
        log_level="warning",
    )


if __name__ == "__main__":
    main()
