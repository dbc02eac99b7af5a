"""Documents without a JSON form fail alone, against the real gateway."""

from __future__ import annotations

import unittest
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, ClassVar

import numpy as np
import servers

from weir import JobDocumentError

CIRCULAR: dict[str, Any] = {}
CIRCULAR["self"] = CIRCULAR
# Documents of which the even ones are good, and what is said of the others.
DOCUMENTS: list[dict[str, Any]] = [
    {"id": "good/0", "text": "A weir is a low dam."},
    {"id": "nan", "text": "a", "metadata": {"sizes": [1.5, {"height": float("nan")}]}},
    {"id": "good/2", "text": "A sluice is a gate for water."},
    {"id": "infinity", "text": "a", "metadata": {"price": float("-inf")}},
    {"id": "good/4", "text": "A lock lifts boats."},
    {"text": "half of \ud83d a pair"},
    {"id": "good/6", "text": "A ferry crosses the river.", "metadata": {"sizes": np.array([1.5, 2.5])}},
    {"id": "\udcff/7", "text": "a"},
    {"id": "good/8", "text": "A mill grinds corn.", "metadata": {"year": None}},
    {"id": "array", "text": "a", "metadata": {"sizes": np.array([1.0, np.inf])}},
    {"id": "good/10", "text": "A bridge spans the river."},
    {"id": "object", "text": "a", "metadata": {"set": {1, 2}}},
    {"id": "good/12", "text": "A canal is dug."},
    {"id": "name", "text": "a", "metadata": {"\udcff": 1}},
    {"id": "good/14", "text": "A pump lifts water."},
    {"id": "circular", "text": "a", "metadata": CIRCULAR},
]
EXPECTED = [
    ("nan", "documents[1]: `metadata.sizes[1].height` is nan"),
    ("infinity", "documents[3]: `metadata.price` is -inf"),
    ("documents[5]", "documents[5]: `text` has a lone surrogate"),
    ("\\udcff/7", "documents[7]: `id` has a lone surrogate"),
    ("array", "documents[9]: `metadata.sizes[1]` is inf"),
    ("object", "documents[11]: set has no JSON form"),
    ("name", "documents[13]: the name `\\udcff` of a field has a lone surrogate"),
    ("circular", "documents[15]: "),
]
GOOD = {f"good/{position}" for position in range(0, 16, 2)}


class DocumentsTest(unittest.TestCase):
    stack: ClassVar[ExitStack]
    url: ClassVar[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.stack = ExitStack()
        cls.url = cls.stack.enter_context(servers.gateway())

    @classmethod
    def tearDownClass(cls) -> None:
        cls.stack.close()

    def check(self, errors: list[JobDocumentError]) -> None:
        self.assertEqual(len(errors), len(EXPECTED), errors)
        for error, (id, message) in zip(errors, EXPECTED):
            self.assertEqual((error.document_id, error.code), (id, "invalid_parameter"))
            self.assertTrue(error.message.startswith(message), error.message)
            # a message can be printed and stored
            error.message.encode()

    def test_they_fail_alone_in_a_request(self) -> None:
        for make in servers.CLIENTS:
            own = f"one-{make.__name__.lower()}"
            with self.subTest(make.__name__), make(self.url) as client:
                job = client.ingest(DOCUMENTS, collection=own, wait=True)
                self.assertEqual((job.total_documents, job.processed_documents, job.failed_documents), (16, 8, 8))
                self.check(job.errors)
                self.assertEqual({document.id for document in client.iter_documents(collection=own)}, GOOD)

    def test_errors_of_the_gateway_are_listed_behind_them(self) -> None:
        with servers.CLIENTS[0](self.url) as client:
            bad: dict[str, Any] = {"id": "nan", "text": "a", "metadata": {"x": float("nan")}}
            documents = [bad, {"id": "no text"}, DOCUMENTS[0]]
            job = client.ingest(documents, collection="both", wait=True)
            self.assertEqual([error.document_id for error in job.errors], ["nan", "no text"])
            self.assertEqual((job.processed_documents, job.failed_documents), (1, 2))

    def test_they_fail_alone_in_batches(self) -> None:
        def documents() -> Iterator[dict[str, Any]]:
            yield from DOCUMENTS

        for make in servers.CLIENTS:
            own = f"many-{make.__name__.lower()}"
            with self.subTest(make.__name__), make(self.url) as client:
                report = client.ingest_many(documents(), collection=own, batch_size=3)
                self.assertEqual((report.documents, report.processed, report.failed), (16, 8, 8))
                self.check(report.errors)
                self.assertEqual({document.id for document in client.iter_documents(collection=own)}, GOOD)

    def test_without_a_good_one_nothing_is_sent(self) -> None:
        for make in servers.CLIENTS:
            with make(self.url) as client:
                with self.assertRaisesRegex(ValueError, r"`nan` can't be sent: documents\[0\]: .*; 7 more have none"):
                    client.ingest(DOCUMENTS[1::2], collection="nothing")
                report = client.ingest_many(DOCUMENTS[1::2], collection="nothing")
                self.assertEqual((report.documents, report.failed, report.job_ids), (8, 8, []))
                self.assertNotIn("nothing", [collection.name for collection in client.list_collections()])


if __name__ == "__main__":
    unittest.main()
