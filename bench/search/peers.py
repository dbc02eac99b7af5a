"""The peers: other people's search engines behind one small interface, each in its best form for a hybrid search.

Every search gives the ten best documents with their titles and texts, as ours does. What each is set up with stands in
its `setup`, which the page quotes.
"""

from __future__ import annotations

import json
import os
import re
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

import opensearch
import postgres

HITS = 10
# Candidates of each retriever for the fusion.
DEPTH = 100
RRF_K = 60
# Documents per call while building.
BATCH = 1000
DIMENSION = 384

Vectors = npt.NDArray[np.float32]
Document = dict[str, Any]


class Peer(Protocol):
    """An engine: filled once, then opened and asked."""

    # one sentence for the page
    setup: ClassVar[str]
    # hybrid, lexical, dense
    modes: ClassVar[tuple[str, ...]]
    # settings of the approximate search, the cheapest first; nothing where it's exact or there's none
    efforts: ClassVar[tuple[int, ...]]
    filters: ClassVar[bool]

    def __init__(self, folder: Path) -> None: ...

    def build(self, documents: list[Document], vectors: Vectors) -> None:
        """Fills the folder, indexes included, everything on disk at the end if the engine has files."""

    def open(self) -> None:
        """Opens what was built."""

    def search(self, mode: str, text: str, vector: Vectors, below: int | None, effort: int) -> list[int]:
        """Numbers of the ten best documents, of those with `n` below a bound where there is one."""


def number(document: Document) -> int:
    """The number in a document's id."""
    return int(document["id"][1:])


def both(document: Document) -> str:
    """Title and text in one, as in our lexical index."""
    return f"{document['title']} {document['text']}"


def reciprocal_rank(*rankings: list[int]) -> list[int]:
    """The best of several rankings, in plain Python."""
    scores: dict[int, float] = {}
    for ranking in rankings:
        for rank, found in enumerate(ranking, start=1):
            scores[found] = scores.get(found, 0.0) + 1.0 / (RRF_K + rank)
    return sorted(scores, key=lambda found: -scores[found])[:HITS]


class LanceDb(Peer):
    """lancedb: one table with a full-text, a vector and a scalar index."""

    setup = (
        "table with an FTS index (stemming, stop words, no positions), IVF_HNSW_SQ (one partition, m 20, "
        "ef_construction 150, dot product), a BTREE on `n`; hybrid by `query_type='hybrid'` with RRF; effort is `ef`"
    )
    modes: ClassVar[tuple[str, ...]] = ("hybrid", "lexical", "dense")
    efforts = (100, 200, 400, 800, 1600)
    filters = True
    columns: ClassVar[list[str]] = ["id", "title", "text"]

    def __init__(self, folder: Path) -> None:
        # a warning for each search about columns that are not asked for
        os.environ.setdefault("LANCE_LOG", "error")
        import lancedb

        self._database = lancedb.connect(folder)
        self._table: Any = None

    def build(self, documents: list[Document], vectors: Vectors) -> None:
        """Adds in batches, then makes the indexes."""
        import pyarrow as pa  # type: ignore[import-untyped]

        kind = pa.list_(pa.float32(), DIMENSION)
        texts = [(name, pa.string()) for name in ("title", "text", "both")]
        schema = pa.schema([("id", pa.int64()), *texts, ("n", pa.int64()), ("vector", kind)])
        table = self._database.create_table("documents", schema=schema)
        # a call of `add` writes a file: larger batches than elsewhere
        for start in range(0, len(documents), BATCH * 20):
            part = documents[start : start + BATCH * 20]
            flat = pa.array(np.asarray(vectors[start : start + len(part)]).reshape(-1))
            columns = {
                "id": [number(document) for document in part],
                "title": [document["title"] for document in part],
                "text": [document["text"] for document in part],
                "both": [both(document) for document in part],
                "n": [document["n"] for document in part],
                "vector": pa.FixedSizeListArray.from_arrays(flat, DIMENSION),
            }
            table.add(pa.table(columns, schema=schema))
        table.create_scalar_index("n")
        table.create_fts_index("both", use_tantivy=False, with_position=False, stem=True, remove_stop_words=True)
        table.create_index(metric="dot", index_type="IVF_HNSW_SQ", num_partitions=1, m=20, ef_construction=150)
        table.optimize()

    def open(self) -> None:
        """Opens the table."""
        from lancedb.rerankers import RRFReranker

        self._table = self._database.open_table("documents")
        self._reranker = RRFReranker(RRF_K)

    def search(self, mode: str, text: str, vector: Vectors, below: int | None, effort: int) -> list[int]:
        """One query builder for each mode."""
        if mode == "lexical":
            query = self._table.search(text, query_type="fts", fts_columns="both")
        elif mode == "dense":
            query = self._table.search(vector, query_type="vector").distance_type("dot").ef(effort)
        else:
            query = self._table.search(query_type="hybrid", fts_columns="both", vector_column_name="vector")
            query = query.vector(vector).text(text).distance_type("dot").ef(effort).rerank(self._reranker)
        if below is not None:
            query = query.where(f"n < {below}", prefilter=True)
        found: list[int] = query.select(self.columns).limit(HITS).to_arrow()["id"].to_pylist()
        return found


class LanceDbByHand(LanceDb):
    """lancedb again, with two searches for ids that are merged in Python."""

    setup = "the same table; hybrid by two searches for 100 ids each, RRF in Python, then ten rows by id"
    modes: ClassVar[tuple[str, ...]] = ("hybrid",)

    def search(self, mode: str, text: str, vector: Vectors, below: int | None, effort: int) -> list[int]:
        """Row ids of both rankings, fused, and the rows of the best."""
        lexical = self._table.search(text, query_type="fts", fts_columns="both")
        dense = self._table.search(vector, query_type="vector").distance_type("dot").ef(effort)
        rankings = []
        for query in (lexical, dense):
            if below is not None:
                query.where(f"n < {below}", prefilter=True)
            rankings.append(query.select(["id"]).with_row_id(True).limit(DEPTH).to_arrow())
        rows = [ranking["_rowid"].to_pylist() for ranking in rankings]
        ids = {
            row: found
            for ranking, rows_ in zip(rankings, rows, strict=True)
            for row, found in zip(rows_, ranking["id"].to_pylist(), strict=True)
        }
        best = reciprocal_rank(*rows)
        self._table.take_row_ids(best).select(self.columns).to_arrow()
        return [ids[row] for row in best]


class Qdrant(Peer):
    """qdrant-edge: a shard with a BM25 text index and HNSW."""

    setup = (
        "shard with a BM25 text index (Snowball English, stop words), HNSW m 16, ef_construct 100, full_scan_threshold "
        "10,000 KB, dot product, an integer index on `n`; one query with two prefetches of 100 and RRF; `optimize` until "
        "nothing is left to do, `flush`; effort is `hnsw_ef`"
    )
    modes: ClassVar[tuple[str, ...]] = ("hybrid", "lexical", "dense")
    efforts = (64, 128, 256, 512, 1024)
    filters = True

    def __init__(self, folder: Path) -> None:
        import qdrant_edge

        self._q = qdrant_edge
        self._folder = str(folder)
        self._shard: Any = None

    def build(self, documents: list[Document], vectors: Vectors) -> None:
        """Upserts in batches, indexes, optimises."""
        q = self._q
        params = q.EdgeVectorParams(size=DIMENSION, distance=q.Distance.Dot)
        hnsw = q.HnswIndexConfig(m=16, ef_construct=100, full_scan_threshold=10_000)
        shard = q.EdgeShard.create(self._folder, q.EdgeConfig(vectors=params, hnsw_config=hnsw))
        for start in range(0, len(documents), BATCH):
            part = documents[start : start + BATCH]
            rows = vectors[start : start + BATCH].tolist()
            points = [
                q.Point(
                    number(document),
                    row,
                    {key: document[key] for key in ("title", "text", "n")} | {"both": both(document)},
                )
                for document, row in zip(part, rows, strict=True)
            ]
            shard.update(q.UpdateOperation.upsert_points(points))
        stemmer = q.SnowballParams(q.SnowballLanguage.English)
        # nothing is filtered by words: without this the graph gets links for every frequent word, in six times the time
        text = q.TextIndexParams(
            lowercase=True, stopwords=q.Language.English, stemmer=stemmer, scoring=True, enable_hnsw=False
        )
        shard.update(q.UpdateOperation.create_field_index("both", text))
        shard.update(q.UpdateOperation.create_field_index("n", q.PayloadSchemaType.Integer))
        while shard.optimize():
            pass
        shard.flush()
        shard.close()

    def open(self) -> None:
        """Loads the shard."""
        self._shard = self._q.EdgeShard.load(self._folder)

    def search(self, mode: str, text: str, vector: Vectors, below: int | None, effort: int) -> list[int]:
        """One request for each mode; a hybrid one has two prefetches."""
        q = self._q
        condition = None
        if below is not None:
            condition = q.Filter(must=[q.FieldCondition("n", range=q.RangeFloat(lt=below))])
        params = q.SearchParams(hnsw_ef=effort)
        dense, lexical = q.Query.Nearest(vector.tolist()), q.TextQuery("both", text)
        payload = ["title", "text"]
        if mode == "hybrid":
            prefetches = [
                q.Prefetch(limit=DEPTH, query=lexical, filter=condition),
                q.Prefetch(limit=DEPTH, query=dense, filter=condition, params=params),
            ]
            request = q.QueryRequest(limit=HITS, query=q.Fusion.Rrf(RRF_K), prefetches=prefetches, with_payload=payload)
        else:
            query = lexical if mode == "lexical" else dense
            request = q.QueryRequest(limit=HITS, query=query, filter=condition, params=params, with_payload=payload)
        return [point.id for point in self._shard.query(request)]


class Chroma(Peer):
    """chromadb: a local collection; it has no ranking by words."""

    setup = (
        "PersistentClient, HNSW of inner product, max_neighbors 16, ef_construction 100, ef_search 400; no BM25, so no "
        "hybrid"
    )
    modes: ClassVar[tuple[str, ...]] = ("dense",)
    efforts: ClassVar[tuple[int, ...]] = ()
    filters = True

    def __init__(self, folder: Path) -> None:
        import chromadb
        from chromadb.config import Settings

        settings = Settings(anonymized_telemetry=False)
        self._client = chromadb.PersistentClient(str(folder), settings=settings)
        self._collection: Any = None

    def build(self, documents: list[Document], vectors: Vectors) -> None:
        """Adds in batches."""
        # changing `ef_search` of a collection that is there had no effect, so it's no effort that could be tried
        configuration: Any = {"hnsw": {"space": "ip", "ef_search": 400}, "embedding_function": None}
        collection = self._client.create_collection("documents", configuration=configuration)
        for start in range(0, len(documents), BATCH):
            part = documents[start : start + BATCH]
            collection.add(
                ids=[document["id"] for document in part],
                documents=[document["text"] for document in part],
                metadatas=[{"n": document["n"], "title": document["title"]} for document in part],
                embeddings=np.asarray(vectors[start : start + BATCH]),
            )

    def open(self) -> None:
        """Gets the collection."""
        self._collection = self._client.get_collection("documents", embedding_function=None)

    def search(self, mode: str, text: str, vector: Vectors, below: int | None, effort: int) -> list[int]:
        """One query."""
        condition: Any = None if below is None else {"n": {"$lt": below}}
        include: Any = ["documents", "metadatas"]
        found = self._collection.query(query_embeddings=[vector], n_results=HITS, where=condition, include=include)
        return [int(id_[1:]) for id_ in found["ids"][0]]


class Bm25s(Peer):
    """bm25s beside an exact comparison by numpy, merged in Python."""

    setup = (
        "bm25s (PyStemmer, English stop words) and exact f32 by numpy on one thread, both in memory; RRF in Python; "
        "filters as masks"
    )
    modes: ClassVar[tuple[str, ...]] = ("hybrid", "lexical", "dense")
    efforts: ClassVar[tuple[int, ...]] = ()
    filters = True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def build(self, documents: list[Document], vectors: Vectors) -> None:
        """Indexes the tokens, saves both."""
        import bm25s  # type: ignore[import-untyped]

        tokens = self._tokens([both(document) for document in documents])
        retriever = bm25s.BM25()
        retriever.index(tokens, show_progress=False)
        retriever.save(str(self._folder / "bm25"))
        np.save(self._folder / "vectors.npy", vectors)
        np.save(self._folder / "n.npy", np.array([document["n"] for document in documents], dtype=np.int32))
        kept = [{key: document[key] for key in ("id", "title", "text")} for document in documents]
        (self._folder / "documents.json").write_text(json.dumps(kept), encoding="utf-8")

    def open(self) -> None:
        """Loads everything into memory."""
        import bm25s

        self._retriever = bm25s.BM25.load(str(self._folder / "bm25"), load_vocab=True)
        self._vectors = np.load(self._folder / "vectors.npy")
        self._n = np.load(self._folder / "n.npy")
        self._documents = json.loads((self._folder / "documents.json").read_text(encoding="utf-8"))

    def search(self, mode: str, text: str, vector: Vectors, below: int | None, effort: int) -> list[int]:
        """Both rankings, from arrays of all scores."""
        mask = None if below is None else self._n < below
        depth = DEPTH if mode == "hybrid" else HITS
        rankings = []
        if mode != "dense":
            rankings.append(self._lexical(text, mask, depth))
        if mode != "lexical":
            rankings.append(self._dense(vector, mask, depth))
        best = reciprocal_rank(*rankings) if mode == "hybrid" else rankings[0]
        return [number(self._documents[at]) for at in best]

    def _lexical(self, text: str, mask: Any, depth: int) -> list[int]:
        tokens = self._tokens([text])
        depth = min(depth, len(self._documents))
        weights = None if mask is None else mask.astype(np.float32)
        found, scores = self._retriever.retrieve(tokens, k=depth, show_progress=False, n_threads=0, weight_mask=weights)
        return [int(at) for at, score in zip(found[0], scores[0], strict=True) if score > 0]

    def _dense(self, vector: Vectors, mask: Any, depth: int) -> list[int]:
        rows = None if mask is None else np.flatnonzero(mask)
        scores = (self._vectors if rows is None else self._vectors[rows]) @ vector
        depth = min(depth, len(scores))
        best = np.argpartition(-scores, depth - 1)[:depth] if depth else np.empty(0, dtype=np.int64)
        best = best[np.argsort(-scores[best])]
        return [int(at) for at in (best if rows is None else rows[best])]

    def _tokens(self, texts: list[str]) -> Any:
        import bm25s
        import Stemmer  # type: ignore[import-not-found]

        return bm25s.tokenize(texts, stopwords="en", stemmer=Stemmer.Stemmer("english"), show_progress=False)


class Postgres(Peer):
    """PostgreSQL's full text over a GIN index; the server is started by `postgres.py`."""

    setup = (
        "GIN index over an English `tsvector`, any word may match, `ts_rank`; index on `n`; prepared statement; "
        "shared_buffers 2 GB, no parallel workers, fsync on"
    )
    modes: ClassVar[tuple[str, ...]] = ("lexical",)
    efforts: ClassVar[tuple[int, ...]] = ()
    filters = True

    def __init__(self, folder: Path) -> None:
        self._server = postgres.Server(folder)
        self._connection: Any = None

    def build(self, documents: list[Document], vectors: Vectors) -> None:
        """Copies, then indexes."""
        connection = self._server.connect()
        connection.execute(
            "CREATE TABLE documents (id int PRIMARY KEY, title text, body text, n int, "
            "words tsvector GENERATED ALWAYS AS (to_tsvector('english', title || ' ' || body)) STORED)"
        )
        with connection.cursor().copy("COPY documents (id, title, body, n) FROM STDIN") as copy:
            for document in documents:
                # it takes no NUL, which a few docstrings have
                text = document["text"].replace("\0", " ")
                copy.write_row((number(document), document["title"], text, document["n"]))
        connection.execute("CREATE INDEX ON documents USING gin (words) WITH (fastupdate = off)")
        connection.execute("CREATE INDEX ON documents (n)")
        connection.execute("VACUUM ANALYZE documents")
        connection.execute("CHECKPOINT")
        connection.close()
        self._server.stop()

    def open(self) -> None:
        """Starts the server and connects."""
        self._connection = self._server.connect()

    @property
    def pid(self) -> int:
        """Of the server, whose memory counts."""
        return self._server.pid

    def search(self, mode: str, text: str, vector: Vectors, below: int | None, effort: int) -> list[int]:
        """The ten best by rank."""
        words = " | ".join(re.findall(r"\w+", text)) or "nothing"
        condition = "" if below is None else f"AND n < {below}"
        rows = self._connection.execute(
            "SELECT id, title, body FROM documents, to_tsquery('english', %s) AS query WHERE words @@ query "
            f"{condition} ORDER BY ts_rank(words, query) DESC LIMIT {HITS}",
            (words,),
            prepare=True,
        ).fetchall()
        return [row[0] for row in rows]


PEERS: dict[str, Any] = {
    "LanceDB": LanceDb,
    "LanceDB, by hand": LanceDbByHand,
    "Qdrant Edge": Qdrant,
    "Chroma": Chroma,
    "bm25s + numpy": Bm25s,
    "PostgreSQL": Postgres,
    "OpenSearch": opensearch.OpenSearch,
    "OpenSearch, three nodes": opensearch.OpenSearchThree,
}
# The packages that each comes from: without one, the peer is left out and the page says so.
PACKAGES = {
    "LanceDB": "lancedb",
    "LanceDB, by hand": "lancedb",
    "Qdrant Edge": "qdrant-edge-py",
    "Chroma": "chromadb",
    "bm25s + numpy": "bm25s",
    "PostgreSQL": "psycopg",
}


def is_installed(name: str) -> bool:
    """Whether the peer's package is here, and its server where it has one."""
    if name.startswith("OpenSearch"):
        return opensearch.is_installed()
    try:
        version(PACKAGES[name])
    except PackageNotFoundError:
        return False
    return name != "PostgreSQL" or postgres.binaries() is not None


def detail(name: str) -> str:
    """The version of the peer."""
    if name.startswith("OpenSearch"):
        return opensearch.installed_version()
    if name == "PostgreSQL":
        return f"server {postgres.installed_version()}, psycopg {version('psycopg')}"
    return version(PACKAGES[name])


def disk_bytes(folder: Path) -> int:
    """What is in a folder, files once."""
    return sum(os.lstat(Path(root) / name).st_size for root, _, names in os.walk(folder) for name in names)
