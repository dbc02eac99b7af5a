"""Vectors of 1,024 float32 over FastAPI, encoded in three ways. A baseline of bench/wire.sh.

    python server.py --port 8000 --workers 7

`POST /v1/embeddings/json`, `/orjson` and `/raw` take {"input": [texts]} and answer a vector for each text. The vectors are made once:
only what sending them costs is measured.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

import numpy as np
import orjson
from fastapi import FastAPI, Response
from pydantic import BaseModel

DIMENSION = 1024
INPUTS_MAX = 2048
SEED = 7


class Embeddings(BaseModel):
    """The body of a request."""

    input: list[str]


def make_app() -> FastAPI:
    """One worker's application."""
    app = FastAPI()
    vectors = np.random.default_rng(SEED).standard_normal((INPUTS_MAX, DIMENSION), dtype=np.float32)

    @app.get("/healthz")
    async def healthz() -> dict[str, str]:
        return {"status": "ok"}

    # As the framework's first pages show it: Python's lists, which the framework checks and encodes.
    @app.post("/v1/embeddings/json")
    async def as_json(body: Embeddings) -> Any:
        return {"embeddings": vectors[: len(body.input)].tolist()}

    @app.post("/v1/embeddings/orjson")
    async def as_orjson(body: Embeddings) -> Response:
        content = orjson.dumps({"embeddings": vectors[: len(body.input)]}, option=orjson.OPT_SERIALIZE_NUMPY)
        return Response(content, media_type="application/json")

    @app.post("/v1/embeddings/raw")
    async def as_raw(body: Embeddings) -> Response:
        count = len(body.input)
        headers = {"x-embedding-count": str(count), "x-embedding-dim": str(DIMENSION), "x-embedding-dtype": "float32"}
        return Response(vectors[:count].tobytes(), media_type="application/octet-stream", headers=headers)

    return app


def main() -> None:
    """Reads the command line and serves."""
    import uvicorn

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--workers", type=int, default=7)
    given = parser.parse_args()
    os.environ["OMP_NUM_THREADS"] = "1"
    uvicorn.run(
        "server:make_app",
        factory=True,
        app_dir=os.path.dirname(os.path.abspath(__file__)),
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
