"""The peers: other people's engines behind one small interface, ids (or texts) in, unit vectors out.

Each is set up as its own documentation says is fastest on a CPU; the page says how, see `prose.py`.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

INPUTS = ("input_ids", "attention_mask", "token_type_ids")
OUTPUT = "sentence_embedding"
# Texts that an engine with one session over all cores gets at once, sorted by length, so that little is padded. Of 1,
# 4, 8, 16 and 32 this was the fastest for ONNX Runtime; of several sessions each takes one text: faster than 2, 4, 8.
BATCH_TEXTS_MAX = 8
# The default of `encode`.
TORCH_TEXTS_MAX = 32

Ids = Sequence[Sequence[int]]
Vectors = npt.NDArray[np.float32]


class Peer(Protocol):
    """An engine with its model loaded."""

    detail: str

    def prepare(self, texts: list[str], sequences: Ids) -> Callable[[], Vectors]:
        """A call that embeds them. Arranging them is not part of the call, padding is."""


def padded(sequences: Ids) -> dict[str, npt.NDArray[np.int64]]:
    """The inputs of a batch: ids padded to the longest, the mask, the segments."""
    longest = max(len(ids) for ids in sequences)
    ids = np.zeros((len(sequences), longest), dtype=np.int64)
    mask = np.zeros_like(ids)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = sequence
        mask[row, : len(sequence)] = 1
    return dict(zip(INPUTS, (ids, mask, np.zeros_like(ids)), strict=True))


def in_batches(sequences: Ids, run: Callable[[Ids], Vectors], texts_max: int) -> Vectors:
    """Embeds in batches of similar length; vectors come in the order of the sequences."""
    order = sorted(range(len(sequences)), key=lambda at: len(sequences[at]))
    out: Vectors | None = None
    for start in range(0, len(order), texts_max):
        rows = order[start : start + texts_max]
        vectors = run([sequences[row] for row in rows])
        if out is None:
            out = np.empty((len(sequences), vectors.shape[1]), dtype=np.float32)
        out[rows] = vectors
    assert out is not None, "a case has at least one text"
    return out


def in_shares(sequences: Ids, runs: Sequence[Callable[[Ids], Vectors]], pool: ThreadPoolExecutor) -> Vectors:
    """Embeds by several sessions at once: each takes the next texts, the longest first, until there are none."""
    order = iter(sorted(range(len(sequences)), key=lambda at: -len(sequences[at])))
    found: list[Vectors] = [np.empty(0, dtype=np.float32)] * len(sequences)

    def work(run: Callable[[Ids], Vectors]) -> None:
        # `next` of an iterator over a list is one step under the interpreter's lock
        for row in order:
            found[row] = run([sequences[row]])[0]

    list(pool.map(work, runs))
    return np.stack(found)


class Sessions:
    """What ONNX Runtime and OpenVINO share: one session over `threads`, or several of one thread each."""

    def __init__(self, runs: Sequence[Callable[[dict[str, Any]], Any]], detail: str) -> None:
        self.detail = detail
        self._runs = [lambda ids, run=run: np.asarray(run(padded(ids))) for run in runs]
        self._pool = ThreadPoolExecutor(len(runs))

    def prepare(self, texts: list[str], sequences: Ids) -> Callable[[], Vectors]:
        """One call for a lone text, batches for one session, single texts for several."""
        del texts
        if len(sequences) == 1:
            return lambda: self._runs[0](sequences)
        if len(self._runs) == 1:
            return lambda: in_batches(sequences, self._runs[0], BATCH_TEXTS_MAX)
        return lambda: in_shares(sequences, self._runs, self._pool)


def onnx_runtime(model: Path, threads: int, sessions: int) -> Peer:
    """ONNX Runtime with all its graph optimisations on top of the fused graph."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL

    def run_of_new_session() -> Callable[[dict[str, Any]], Any]:
        session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
        return lambda inputs: session.run([OUTPUT], inputs)[0]

    return Sessions([run_of_new_session() for _ in range(sessions)], onnxruntime.__version__)


def openvino(model: Path, threads: int, sessions: int) -> Peer:
    """OpenVINO: several sessions are requests of one compiled model that has as many streams of one thread."""
    import openvino

    core = openvino.Core()
    hint = "LATENCY" if sessions == 1 else "THROUGHPUT"
    settings = {"INFERENCE_NUM_THREADS": threads * sessions, "NUM_STREAMS": sessions, "PERFORMANCE_HINT": hint}
    compiled = core.compile_model(core.read_model(model), "CPU", settings)

    def run_of_new_request() -> Callable[[dict[str, Any]], Any]:
        request = compiled.create_infer_request()
        return lambda inputs: request.infer(inputs)[0]

    return Sessions([run_of_new_request() for _ in range(sessions)], openvino.__version__.split("-")[0])


class SentenceTransformers:
    """sentence-transformers on PyTorch: its `encode` of texts, or its modules from ids."""

    def __init__(self, folder: Path, threads: int, takes_texts: bool) -> None:
        os.environ["HF_HUB_OFFLINE"] = "1"
        os.environ["TOKENIZERS_PARALLELISM"] = "false"
        import sentence_transformers
        import torch

        torch.set_num_threads(threads)
        self._torch = torch
        self._model = sentence_transformers.SentenceTransformer(str(folder), device="cpu").eval()
        self._takes_texts = takes_texts
        self.detail = f"{sentence_transformers.__version__} on torch {torch.__version__}"

    def prepare(self, texts: list[str], sequences: Ids) -> Callable[[], Vectors]:
        """`encode` sorts and pads by itself; ids are padded and handed to the modules."""
        if self._takes_texts and texts:
            return lambda: np.asarray(self._model.encode(texts, batch_size=TORCH_TEXTS_MAX, normalize_embeddings=True))
        return lambda: in_batches(sequences, self._forward, TORCH_TEXTS_MAX)

    def _forward(self, sequences: Ids) -> Vectors:
        with self._torch.inference_mode():
            features = {name: self._torch.from_numpy(values) for name, values in padded(sequences).items()}
            vectors: Vectors = self._model(features)["sentence_embedding"].numpy()
            return vectors
