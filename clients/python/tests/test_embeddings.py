"""Formats of embeddings, and streams of texts, against a server that replies as a script says."""

from __future__ import annotations

import asyncio
import base64
import threading
import time
import unittest
from collections.abc import AsyncIterator, Iterator
from typing import Any

import numpy as np
import servers
from servers import Received, Scripted, scripted

import weir
from weir import AsyncWeir, Weir

MODELS = {"data": [{"id": "ranker", "capabilities": ["rerank"]}, {"id": "m", "capabilities": ["embeddings"]}]}


def raw(body: bytes, count: int, dimension: int, dtype: str, **headers: str) -> Scripted:
    described = {
        "content-type": "application/octet-stream",
        "x-embedding-count": str(count),
        "x-embedding-dim": str(dimension),
        "x-embedding-dtype": dtype,
        "x-embedding-model": "m",
        "x-usage-prompt-tokens": "7",
    }
    return Scripted(body=body, headers={**described, **{name.replace("_", "-"): v for name, v in headers.items()}})


def listed(*embeddings: object, **fields: object) -> Scripted:
    data = [{"index": index, "embedding": embedding} for index, embedding in enumerate(embeddings)]
    return Scripted(body={"data": data[::-1], "model": "m", "usage": {"prompt_tokens": 7}, **fields})


def encoded(*numbers: float) -> str:
    return base64.b64encode(np.array(numbers, "<f4").tobytes()).decode()


def lengths(request: Received) -> Scripted:
    """The embedding of a text is its number."""
    texts = request.json()["input"]
    return raw(np.array([[float(text)] for text in texts], "<f4").tobytes(), len(texts), 1, "float32")


class EmbeddingsTest(unittest.TestCase):
    def embed(self, reply: Scripted) -> weir.Embeddings:
        with scripted(reply) as (url, received), Weir(url, retries=0) as client:
            embeddings = client.embed(["a", "b"], model="m")
            self.assertIn("application/octet-stream", received[0].headers["accept"])
            self.assertEqual(received[0].json(), {"model": "m", "input": ["a", "b"], "encoding_format": "base64"})
            return embeddings

    def test_raw_bytes_of_every_type_are_viewed(self) -> None:
        for name, dtype in (("float32", "<f4"), ("float16", "<f2"), ("int8", "i1"), ("ubinary", "u1")):
            rows = np.array([[1, 2, 3], [4, 5, 6]], dtype)
            embeddings = self.embed(raw(rows.tobytes(), 2, 3, name))
            self.assertTrue(np.array_equal(embeddings.vectors, rows), name)
            self.assertEqual(embeddings.vectors.dtype, np.dtype(dtype))
            self.assertFalse(embeddings.vectors.flags.owndata)
            self.assertEqual((embeddings.model, embeddings.prompt_tokens), ("m", 7))
        bits = self.embed(raw(b"\x01\x02\x03\x04", 2, 16, "ubinary"))
        self.assertEqual(bits.vectors.tolist(), [[1, 2], [3, 4]])

    def test_base64_and_numbers_are_read_where_there_is_no_raw_reply(self) -> None:
        for first, second in ((encoded(1, 2), encoded(3, 4)), ([1, 2], [3, 4])):
            embeddings = self.embed(listed(first, second))
            self.assertEqual(embeddings.vectors.tolist(), [[1, 2], [3, 4]])
            self.assertEqual(embeddings.vectors.dtype, np.float32)
            self.assertFalse(embeddings.vectors.flags.writeable)

    def test_truncated_inputs_are_reported(self) -> None:
        headers = {"x_truncated_inputs": "0,1", "x_truncated_inputs_count": "12"}
        embeddings = self.embed(raw(b"\0" * 8, 2, 1, "float32", **headers))
        self.assertEqual((embeddings.truncated_inputs, embeddings.truncated_count), ([0, 1], 12))

    def test_a_malformed_reply_is_an_error(self) -> None:
        rows = b"\0" * 24
        for reply, message in (
            (raw(rows[1:], 2, 3, "float32"), "23 bytes for 2 embeddings of dimension 3"),
            (raw(rows, 3, 2, "float32"), "not for 2"),
            (raw(b"", 2, 0, "float32"), "dimension 0"),
            (raw(b"", 2, 3, "float32"), "0 bytes"),
            (raw(rows, 2, 3, "float64"), "unknown type `float64`"),
            (raw(rows, 2, 3, "float32", x_embedding_dim="three"), "x-embedding-dim `three`"),
            (raw(rows, 2, 3, "float32", x_embedding_dim="-3"), "x-embedding-dim `-3`"),
            (raw(rows, 2, 3, "float32", x_embedding_count=""), "x-embedding-count ``"),
            (raw(rows, 2, 3, "float32", x_truncated_inputs="a"), "x-truncated-inputs `a`"),
            (Scripted(body=rows, headers={"content-type": "application/octet-stream"}), "no header x-embedding-count"),
            (listed(encoded(1, 2)), "has 1 embeddings"),
            (listed(encoded(1, 2), encoded(1)), "different lengths"),
            (listed([1, 2], [1]), "no list of embeddings"),
            (listed("not base64!", "x"), "no list of embeddings"),
            (listed([1], [1], usage=None), "no list of embeddings"),
            (Scripted(body=[]), "no list of embeddings"),
        ):
            with self.subTest(message), self.assertRaisesRegex(weir.ReplyError, message):
                self.embed(reply)

    def test_the_first_embedding_model_is_the_default(self) -> None:
        def reply(request: Received) -> Scripted:
            return Scripted(body=MODELS) if request.method == "GET" else raw(b"\0" * 4, 1, 1, "float32")

        for make in servers.CLIENTS:
            with scripted(by=reply) as (url, received), make(url) as client:
                client.embed("a")
                client.embed("a")
                self.assertEqual([r.target for r in received], ["/v1/models", "/v1/embeddings", "/v1/embeddings"])
                self.assertEqual(received[1].json()["model"], "m")
            with scripted(Scripted(body={"data": []})) as (url, _), make(url) as client:
                with self.assertRaisesRegex(weir.WeirError, "no embedding model; add"):
                    client.embed("a")


class StreamTest(unittest.TestCase):
    def test_the_order_is_that_of_the_texts_though_later_batches_are_faster(self) -> None:
        def reply(request: Received) -> Scripted:
            scripted = lengths(request)
            scripted.delay_seconds = 0.05 if request.json()["input"][0] == "0" else 0
            return scripted

        for make in servers.CLIENTS:
            with scripted(by=reply) as (url, received), make(url) as client:
                rows = client.embed_many((str(n) for n in range(10)), batch_size=3, max_in_flight=2, model="m")
                self.assertEqual([row.tolist() for row in rows], [[n] for n in range(10)])
                sizes = sorted(len(request.json()["input"]) for request in received)
                self.assertEqual(sizes, [1, 3, 3, 3])

    def test_a_consumer_that_stops_stops_the_requests(self) -> None:
        for make in servers.CLIENTS:
            read: list[int] = []
            with scripted(by=lengths) as (url, received), make(url) as client:
                rows = client.embed_many(self.endless(read), batch_size=2, max_in_flight=3, model="m")
                self.assertEqual(next(rows).tolist(), [0])
                self.assertLessEqual(len(read), 2 * 3)
                rows.close()  # type: ignore[attr-defined]
                sent, threads = len(received), [t for t in threading.enumerate() if t.name.startswith("weir")]
                self.assertLessEqual(sent, 3)
                self.assertEqual(threads, [])
                self.assertEqual(len(list(client.embed(["1"], model="m").vectors)), 1)
                self.assertLessEqual(len(received), 3 + 1)

    def test_a_consumer_that_stops_does_not_wait_for_retries(self) -> None:
        def reply(request: Received) -> Scripted:
            later = {"retry-after": "60"}
            return lengths(request) if request.json()["input"] == ["0"] else Scripted(503, b"", later)

        for make in servers.CLIENTS:
            with scripted(by=reply) as (url, _), make(url) as client:
                begun = time.monotonic()
                rows = client.embed_many(self.endless([]), batch_size=1, max_in_flight=2, model="m")
                next(rows)
                rows.close()  # type: ignore[attr-defined]
                self.assertLess(time.monotonic() - begun, 10)

    def test_a_failed_batch_ends_the_stream(self) -> None:
        def reply(request: Received) -> Scripted:
            return Scripted(400, {"detail": "d"}) if "4" in request.json()["input"] else lengths(request)

        for make in servers.CLIENTS:
            with scripted(by=reply) as (url, _), make(url) as client:
                seen: list[float] = []
                with self.assertRaises(weir.BadRequest):
                    for row in client.embed_many(self.endless([]), batch_size=2, max_in_flight=2, model="m"):
                        seen.extend(row.tolist())
                self.assertEqual(seen, [0, 1, 2, 3])

    def test_an_error_of_the_texts_is_passed_on(self) -> None:
        def texts() -> Iterator[str]:
            yield "1"
            raise KeyError("source")

        for make in servers.CLIENTS:
            with scripted(by=lengths) as (url, _), make(url) as client:
                with self.assertRaises(KeyError):
                    list(client.embed_many(texts(), batch_size=1, model="m"))
            with self.assertRaisesRegex(ValueError, "batch_size is 0"):
                Weir().embed_many([], batch_size=0)

    def test_asynchronous_sources_are_read(self) -> None:
        job: dict[str, Any] = {"job_id": "j", "status": "completed", "total_documents": 2, "finished_at": 1}
        job.update(processed_documents=2, failed_documents=0, started_at=0)

        async def texts() -> AsyncIterator[str]:
            for number in range(5):
                await asyncio.sleep(0)
                yield str(number)

        async def run(url: str) -> tuple[list[float], weir.IngestReport]:
            async with AsyncWeir(url) as client:
                rows = [float(row[0]) async for row in client.embed_many(texts(), batch_size=2, model="m")]
                documents = ({"text": text} async for text in texts())
                return rows, await client.ingest_many(documents, batch_size=2)

        def reply(request: Received) -> Scripted:
            return lengths(request) if request.target == "/v1/embeddings" else Scripted(body=job)

        with scripted(by=reply) as (url, received):
            rows, report = asyncio.run(run(url))
            self.assertEqual((rows, report.documents, len(report.job_ids)), ([0, 1, 2, 3, 4], 5, 3))
            self.assertEqual(sum(request.target == "/v1/ingest" for request in received), 3)

    @staticmethod
    def endless(read: list[int]) -> Iterator[str]:
        number = 0
        while True:
            read.append(number)
            yield str(number)
            number += 1


if __name__ == "__main__":
    unittest.main()
