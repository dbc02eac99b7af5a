"""Documents and their vectors in a folder, so that all workers of the server search the same ones; exact top-k by numpy."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Vectors = npt.NDArray[np.float32]


class Store:
    """What one worker sees. It reads the folder again when another worker has added to it."""

    def __init__(self, folder: Path) -> None:
        self._vectors_file = folder / "vectors.npy"
        self._documents_file = folder / "documents.json"
        self._lock_file = folder / "lock"
        self._seen = -1
        self._documents: list[dict[str, Any]] = []
        self._vectors: Vectors = np.empty((0, 0), dtype=np.float32)
        folder.mkdir(parents=True, exist_ok=True)

    def add(self, documents: list[dict[str, Any]], vectors: Vectors) -> None:
        """Appends; one with a known id replaces it."""
        with self._lock_file.open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self.refresh()
            rows = {document["id"]: (document, row) for document, row in zip(self._documents, self._vectors, strict=True)}
            rows |= {document["id"]: (document, row) for document, row in zip(documents, vectors, strict=True)}
            replace(self._documents_file, json.dumps([document for document, _ in rows.values()]).encode())
            stacked = np.stack([row for _, row in rows.values()])
            temporary = self._vectors_file.with_suffix(".tmp.npy")
            np.save(temporary, stacked)
            os.replace(temporary, self._vectors_file)
            self.refresh()

    def refresh(self) -> None:
        """Loads what is new: a system call if nothing is."""
        try:
            now = self._vectors_file.stat().st_mtime_ns
        except FileNotFoundError:
            return
        if now != self._seen:
            documents = json.loads(self._documents_file.read_bytes())
            vectors = np.load(self._vectors_file)
            if len(documents) == len(vectors):  # else another worker is in between
                self._documents, self._vectors, self._seen = documents, vectors, now

    @property
    def count(self) -> int:
        """The number of documents."""
        self.refresh()
        return len(self._documents)

    def search(self, vector: Vectors, top_k: int) -> list[dict[str, Any]]:
        """The documents with the highest inner product, best first."""
        self.refresh()
        documents, vectors = self._documents, self._vectors
        if not documents:
            return []
        scores = vectors @ vector
        wanted = min(top_k, len(scores))
        best = np.argpartition(scores, -wanted)[-wanted:]
        best = best[np.argsort(-scores[best])]
        return [documents[at] | {"score": float(scores[at])} for at in best]


def replace(file: Path, content: bytes) -> None:
    """Writes a file as a whole or not at all."""
    temporary = file.with_suffix(".tmp")
    temporary.write_bytes(content)
    os.replace(temporary, file)
