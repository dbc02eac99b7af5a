"""Texts to unit vectors: sentence-transformers on PyTorch, or ONNX Runtime."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Protocol

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy as np  # noqa: E402
import numpy.typing as npt  # noqa: E402

# Of long texts, in tokens: what sentence-transformers reads in the model's `sentence_bert_config.json`.
TOKENS_MAX = 256
# The default of `SentenceTransformer.encode`.
BATCH_TEXTS = 32

Vectors = npt.NDArray[np.float32]


class Embedder(Protocol):
    """A loaded model."""

    def embed(self, texts: list[str]) -> Vectors:
        """A row of length one for each text."""


class Torch:
    """`SentenceTransformer.encode` in f32."""

    def __init__(self, model: Path, threads: int) -> None:
        import torch
        from sentence_transformers import SentenceTransformer

        torch.set_num_threads(threads)
        self._model = SentenceTransformer(str(model), device="cpu").eval()

    def embed(self, texts: list[str]) -> Vectors:
        """One call."""
        rows: Vectors = np.asarray(
            self._model.encode(texts, batch_size=BATCH_TEXTS, normalize_embeddings=True, show_progress_bar=False)
        )
        return rows


class Onnx:
    """The tokenizer of the model, its graph in ONNX Runtime, mean pooling in numpy."""

    def __init__(self, folder: Path, threads: int) -> None:
        import onnxruntime  # type: ignore[import-untyped]
        from tokenizers import Tokenizer

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        self._session: Any = onnxruntime.InferenceSession(
            str(folder / "model.onnx"), options, providers=["CPUExecutionProvider"]
        )
        self._inputs = {value.name for value in self._session.get_inputs()}
        self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._tokenizer.enable_truncation(TOKENS_MAX)
        self._tokenizer.enable_padding()

    def embed(self, texts: list[str]) -> Vectors:
        """In batches of similar length, as `encode` does."""
        order = sorted(range(len(texts)), key=lambda at: len(texts[at]))
        rows = np.empty((len(texts), 0), dtype=np.float32)
        for start in range(0, len(order), BATCH_TEXTS):
            places = order[start : start + BATCH_TEXTS]
            batch = self._forward([texts[at] for at in places])
            if rows.shape[1] == 0:
                rows = np.empty((len(texts), batch.shape[1]), dtype=np.float32)
            rows[places] = batch
        return rows

    def _forward(self, texts: list[str]) -> Vectors:
        encodings = self._tokenizer.encode_batch(texts)
        ids = np.array([encoding.ids for encoding in encodings], dtype=np.int64)
        mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64)
        given = {"input_ids": ids, "attention_mask": mask, "token_type_ids": np.zeros_like(ids)}
        hidden = self._session.run(None, {name: given[name] for name in self._inputs})[0]
        weights = mask[:, :, None].astype(np.float32)
        mean = (hidden * weights).sum(axis=1) / weights.sum(axis=1)
        unit: Vectors = mean / np.linalg.norm(mean, axis=1, keepdims=True)
        return unit


def load(backend: str, model: Path, threads: int) -> Embedder:
    """`torch` takes the folder of the model, `onnx` one that `export.py` wrote."""
    return Torch(model, threads) if backend == "torch" else Onnx(model, threads)
