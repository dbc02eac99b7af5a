"""The client against the real gateway."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import tempfile
import unittest
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar, get_type_hints

import numpy as np
import servers

import weir
from weir import AsyncWeir, BadRequest, Weir, _options, _types

# The method that makes each call of the API.
METHODS = {
    "POST /v1/ingest": "ingest",
    "GET /v1/jobs": "list_jobs",
    "GET /v1/jobs/{id}": "get_job",
    "GET /v1/jobs/{id}/documents": "list_job_documents",
    "POST /v1/jobs/{id}/cancel": "cancel_job",
    "POST /v1/jobs/{id}/retry-failed": "retry_failed",
    "POST /v1/search": "search",
    "GET /v1/feedback": "list_feedback",
    "POST /v1/feedback": "add_feedback",
    "DELETE /v1/feedback": "delete_feedback",
    "GET /v1/collections": "list_collections",
    "GET /v1/collections/{name}": "get_collection",
    "PUT /v1/collections/{name}": "put_collection",
    "DELETE /v1/collections/{name}": "delete_collection",
    "POST /v1/collections/{name}/reconcile": "reconcile",
    "GET /v1/collections/{name}/reconcile": "get_reconciliation",
    "POST /v1/collections/{name}/chunks/preview": "preview_chunks",
    "GET /v1/collections/{name}/export": "export",
    "PATCH /v1/collections/{name}/documents/{id}": "patch_document",
    "GET /v1/collections/{name}/queries": "list_queries",
    "GET /v1/collections/{name}/documents": "list_documents",
    "GET /v1/collections/{name}/documents/{id}": "get_document",
    "GET /v1/collections/{name}/documents/{id}/original": "get_original",
    "DELETE /v1/collections/{name}/documents/{id}": "delete_document",
    "POST /v1/collections/{name}/documents/delete": "delete_documents",
    "POST /v1/chat/completions": "chat",
    "POST /v1/embeddings": "embed",
    "GET /v1/models": "list_models",
    "GET /v1/models/{id}": "get_model",
    "POST /v1/keys": "create_key",
    "GET /v1/keys": "list_keys",
    "PATCH /v1/keys/{id}": "update_key",
    "DELETE /v1/keys/{id}": "revoke_key",
    "POST /v1/keys/{id}/rotate": "rotate_key",
    "GET /v1/audit": "list_audit",
    "GET /v1/usage": "usage",
    "GET /healthz": "health",
    "GET /livez": "liveness",
    "GET /v1/formats": "formats",
    "GET /readyz": "readiness",
    "GET /metrics": "metrics",
    "GET /openapi.json": "openapi",
}
# Other names of the calls above, the events of jobs, whose state the client asks for instead, the API of
# text-embeddings-inference, and pages.
OTHERS = {
    "GET /v1/jobs/{id}/events",
    "PUT /v1/collections/{name}/documents/{id}",
    "POST /chat/completions",
    "POST /v1/completions",
    "POST /v1/messages",
    "POST /v1/messages/count_tokens",
    "POST /v1/responses",
    "POST /embeddings",
    "GET /models",
    "GET /models/{id}",
    "POST /",
    "POST /api/embed",
    "POST /api/embeddings",
    "POST /decode",
    "POST /embed",
    "POST /embed_all",
    "POST /embed_sparse",
    "POST /predict",
    "POST /rerank",
    "POST /similarity",
    "POST /tokenize",
    "POST /v1/embed",
    "POST /v1/rerank",
    "POST /v2/embed",
    "POST /v2/rerank",
    "GET /v1/embedder",
    "GET /api/ps",
    "GET /api/tags",
    "GET /api/version",
    "POST /api/chat",
    "POST /api/generate",
    "POST /api/show",
    "GET /ping",
    "GET /info",
    "GET /health",
    "GET /",
    "GET /docs",
}
# Query parameters without an argument: the client looks at the job until it ends, however long that takes.
# `from` is a word of Python: `from_day` and `to_day`.
# Pages of models are for clients of Anthropic. Files go as forms.
PARAMETERS_NOT_USED = {
    "ingest": {"wait", "filename", "id", "title", "metadata", "keep_original"},
    "usage": {"from", "to"},
    "preview_chunks": {"filename"},
    "list_models": {"limit", "after_id", "before_id"},
}
# Fields of embeddings that other clients send, and those of the encoding, which the client chooses.
FIELDS_OF_OTHER_CLIENTS = {
    "add_special_tokens",
    "embed_dtype",
    "embedding_type",
    "encoding_format",
    "endianness",
    "late_chunking",
    "modality",
    "normalize",
    "prompt_name",
    "return_multivector",
    "return_tokenized_input",
    "task",
    "truncate_prompt_tokens",
    "truncation_direction",
}
# Requests, and the fields that are set by the client or have another spelling.
REQUESTS: dict[str, tuple[type, set[str]]] = {
    "SearchRequest": (_options.Search, {"queries"}),
    "Document": (_options.Document, set()),
    "CollectionSettings": (_options.NewCollection, set()),
    "EmbeddingsRequest": (_options.EmbedOptions, FIELDS_OF_OTHER_CLIENTS | {"input"}),
    "Fusion": (_options.Fusion, set()),
    "RerankOptions": (_options.RerankOptions, set()),
    "LateInteraction": (_options.LateInteraction, set()),
    "FacetOptions": (_options.FacetOptions, set()),
    "SortOptions": (_options.SortKey, set()),
}
# Replies whose dataclass has no schema of its name.
REPLIES_OF_THE_CLIENT = {"Page", "IngestReport"}
RIVER = [
    {"id": "a/1", "title": "Weirs", "text": "A weir is a low dam.", "metadata": {"year": 1884, "lang": "en"}},
    {"id": "a/2", "text": "Ein Wehr staut einen Fluss.", "metadata": {"year": 1902, "lang": "de"}},
    {"id": "a/3", "text": "A sluice is a gate for water.", "metadata": {"year": 1950, "lang": "en"}},
]


Test = Callable[["GatewayTest", Weir, str], None]


def with_both_clients(test: Test) -> Callable[[GatewayTest], None]:
    """Runs a test with each client, and with a collection of its own that has the documents."""

    @functools.wraps(test)
    def run(self: GatewayTest) -> None:
        for make in servers.CLIENTS:
            with self.subTest(make.__name__), make(self.url) as client:
                own = f"{test.__name__}-{make.__name__}".lower()
                job = client.ingest(RIVER, collection=own, wait=True)
                self.assertEqual((job.status, job.processed_documents), ("completed", 3))
                test(self, client, own)

    # unittest would pass nothing for the parameters of the test
    del run.__wrapped__
    return run


class GatewayTest(unittest.TestCase):
    stack: ClassVar[ExitStack]
    url: ClassVar[str]

    @classmethod
    def setUpClass(cls) -> None:
        cls.stack = ExitStack()
        cls.url = cls.stack.enter_context(servers.gateway(WEIR_SEARCH_QUERY_LOG="true"))

    @classmethod
    def tearDownClass(cls) -> None:
        cls.stack.close()

    def setUp(self) -> None:
        self.client = Weir(self.url)
        self.addCleanup(self.client.close)

    def test_every_call_of_the_api_has_a_method(self) -> None:
        paths = self.client.openapi()["paths"]
        described = {f"{verb.upper()} {path}": call for path, calls in paths.items() for verb, call in calls.items()}
        self.assertEqual(set(described) - OTHERS, set(METHODS))
        for name, method in METHODS.items():
            signature = inspect.signature(getattr(Weir, method))
            parameters = {item["name"] for item in described[name].get("parameters", []) if item["in"] == "query"}
            missing = parameters - set(signature.parameters) - PARAMETERS_NOT_USED.get(method, set())
            self.assertEqual(missing, set(), method)

    def test_every_field_of_the_api_has_a_name(self) -> None:
        schemas = self.client.openapi()["components"]["schemas"]
        for name, (kind, others) in REQUESTS.items():
            fields = {field for part in kind.__mro__ for field in getattr(part, "__annotations__", {})}
            self.assertEqual(set(schemas[name]["properties"]) - others, fields, name)
        replies = [kind for kind in vars(_types).values() if inspect.isclass(kind) and dataclasses.is_dataclass(kind)]
        self.assertGreater(len(replies), 30)
        for reply in replies:
            name = reply.__name__
            if name not in REPLIES_OF_THE_CLIENT:
                fields = {field.name for field in dataclasses.fields(reply)}
                self.assertEqual(set(schemas[name]["properties"]), fields, name)

    def test_both_clients_have_the_same_methods(self) -> None:
        def signatures(client: type) -> dict[str, list[str]]:
            methods = inspect.getmembers(client, inspect.isfunction)
            return {name: list(inspect.signature(m).parameters) for name, m in methods if not name.startswith("_")}

        self.assertEqual(signatures(Weir), signatures(AsyncWeir))

    def test_types_of_replies_are_resolved_by_this_python(self) -> None:
        for kind in vars(_types).values():
            if dataclasses.is_dataclass(kind):
                self.assertTrue(get_type_hints(kind))

    @with_both_clients
    def test_a_search_returns_all_parts_of_a_result(self, client: Weir, own: str) -> None:
        reply = client.search(
            "low dam",
            collection=own,
            filter={"year": {"lt": 1950}},
            facets=["lang"],
            highlight=True,
            explain=True,
            why_not="a/3",
            fusion={"method": "rrf", "weights": {"lexical": 1, "dense": 1}, "k": 60},
        )
        first = reply.results[0]
        self.assertEqual((first.id, first.title, first.metadata["year"]), ("a/1", "Weirs", 1884))
        self.assertEqual(first.citation.quote, first.text)
        self.assertEqual(first.ranks.lexical, 1)
        assert first.highlights and first.explanation and reply.explain and reply.facets and reply.why_not
        self.assertEqual([first.text[start:end] for start, end in first.highlights], ["low", "dam"])
        self.assertEqual({term.term for term in first.explanation.terms}, {"low", "dam"})
        self.assertEqual(reply.explain.fusion, _types.ExplainFusion("rrf", _types.FusionWeights(1, 1), 60))
        self.assertEqual({(entry.value, entry.count) for entry in reply.facets["lang"]}, {("en", 1), ("de", 1)})
        self.assertEqual((reply.why_not.id, reply.why_not.stage), ("a/3", "filter"))
        self.assertEqual(reply.timings_ms.keys() >= {"parse", "embed", "lexical"}, True)

    @with_both_clients
    def test_a_stream_of_documents_is_read_while_it_is_sent(self, client: Weir, own: str) -> None:
        read: list[int] = []

        def documents() -> Iterator[dict[str, Any]]:
            for number in range(2_500):
                read.append(number)
                # the first bad one has no JSON form, the second has no text
                bad: dict[int, dict[str, Any]] = {7: {"text": float("nan")}, 9: {"metadata": {}}}
                yield {"id": f"s/{number}", **bad.get(number, {"text": "A lock."})}

        outcome = client.ingest_lines(documents(), collection=own, wait=True)
        self.assertEqual((outcome.lines, outcome.new_documents, outcome.failed_documents), (2_500, 2_498, 2))
        self.assertEqual([(error.line, error.document_id) for error in outcome.errors], [(8, "s/7"), (10, "s/9")])
        self.assertIn("nan", outcome.errors[0].message)
        self.assertTrue(outcome.done and outcome.jobs)
        self.assertEqual(client.search("lock", collection=own, mode="lexical", top_k=1).results[0].text, "A lock.")
        self.assertEqual(client.ingest_lines(documents(), collection=own).unchanged_documents, 2_498)
        self.assertEqual(len(read), 5_000)
        with self.assertRaises(BadRequest):
            client.ingest_lines([], collection="no such name")

    @with_both_clients
    def test_an_uploaded_file_is_cited_by_page(self, client: Weir, own: str) -> None:
        text = b"The first page is about bread.\n\fThe crest of the weir stands high.\n"
        metadata = {"year": 1884}
        job = client.upload(text, name="manual.txt", collection=own, id="manual", metadata=metadata, wait=True)
        self.assertEqual((job.status, job.total_documents), ("completed", 1))
        citation = (
            client.search("crest", collection=own, filter={"year": 1884, "file.name": "manual.txt"}).results[0].citation
        )
        self.assertEqual((citation.document_id, citation.page, citation.page_end), ("manual", 1, 2))
        self.assertEqual(citation.page_breaks, [text.index(b"\f") + 1])
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "note.md"
            path.write_bytes(b"# A note")
            client.upload(path, collection=own, wait=True)
        self.assertEqual(client.get_document("note.md", collection=own).text, "# A note")
        with self.assertRaises(weir.ApiError) as refused:
            client.upload(b"\0", name="a.exe", collection=own)
        self.assertEqual(refused.exception.code, "unsupported_format")
        with self.assertRaises(ValueError):
            client.upload(b"text", collection=own)

    @with_both_clients
    def test_a_kept_file_is_returned_as_it_was_sent(self, client: Weir, own: str) -> None:
        client.upload(b"\xef\xbb\xbfA weir", name="a b.txt", collection=own, keep_original=True, wait=True)
        self.assertEqual(client.get_original("a b.txt", collection=own), b"\xef\xbb\xbfA weir")
        client.upload(b"A lock", name="b.txt", collection=own, wait=True)
        with self.assertRaises(weir.ApiError) as refused:
            client.get_original("b.txt", collection=own)
        self.assertEqual(refused.exception.code, "document_not_found")

    @with_both_clients
    def test_a_reply_says_how_the_query_was_read(self, client: Weir, own: str) -> None:
        auto = client.search("dam -gate -l", collection=own).query
        text = client.search("dam -gate", collection=own, syntax="text").query
        assert auto and text
        self.assertEqual((auto.excluded, auto.as_text), (["gate"], ["-l"]))
        self.assertEqual((text.excluded, text.as_text), ([], ["dam -gate"]))
        with self.assertRaises(weir.BadRequest) as refused:
            client.search("dam AND", collection=own, syntax="strict")
        self.assertEqual(refused.exception.code, "invalid_query")

    @with_both_clients
    def test_an_embedding_of_numpy_is_searched(self, client: Weir, own: str) -> None:
        text = "Ein Wehr staut einen Fluss."
        reply = client.search(vector=client.embed(text).vectors[0], collection=own, top_k=1)
        self.assertEqual(reply.results[0].id, "a/2")
        self.assertAlmostEqual(reply.results[0].scores.dense or 0, 1, places=4)

    @with_both_clients
    def test_each_of_several_searches_has_its_reply_or_error(self, client: Weir, own: str) -> None:
        replies = client.search_many([{"query": "weir", "collection": own}, {"query": "weir", "top_k": 0}])
        self.assertIsInstance(replies[0], weir.SearchReply)
        assert isinstance(replies[1], weir.BadRequest)
        self.assertEqual((replies[1].code, replies[1].status), ("invalid_parameter", 400))

    @with_both_clients
    def test_iterators_follow_the_cursor(self, client: Weir, own: str) -> None:
        self.assertEqual([d.id for d in client.iter_documents(collection=own, page_size=1)], ["a/1", "a/2", "a/3"])
        self.assertEqual(
            [d.id for d in client.iter_documents(collection=own, after="a/1", page_size=1)], ["a/2", "a/3"]
        )
        by_year = client.iter_documents(collection=own, filter={"lang": "en"}, sort="-year", page_size=1)
        self.assertEqual([document.id for document in by_year], ["a/3", "a/1"])
        results = client.iter_search("dam gate", collection=own, sort=["year"], mode="lexical", top_k=1)
        self.assertEqual([result.id for result in results], ["a/1", "a/3"])
        page = client.list_documents(collection=own, limit=2)
        rest = client.list_documents(collection=own, limit=2, cursor=page.next_cursor)
        self.assertEqual([d.id for d in page.data + rest.data], ["a/1", "a/2", "a/3"])
        self.assertIsNone(rest.next_cursor)

    @with_both_clients
    def test_jobs_are_listed_newest_first(self, client: Weir, own: str) -> None:
        later = client.ingest([RIVER[0]], collection=own)
        self.assertEqual(client.wait_for_job(later.job_id).unchanged_documents, 1)
        self.assertEqual(client.wait_for_job(later).job_id, client.get_job(later.job_id).job_id)
        jobs = [job for job in client.iter_jobs(page_size=1) if job.collection == own]
        self.assertEqual([job.total_documents for job in jobs], [1, 3])

    @with_both_clients
    def test_documents_with_any_id_are_read_and_deleted(self, client: Weir, own: str) -> None:
        ids = ["..", ".", "a/b", "%2E", "ü?#&+ x", "../models"]
        client.ingest([{"id": id, "text": "dots"} for id in ids], collection=own, wait=True)
        for id in ids:
            self.assertEqual(client.get_document(id, collection=own).id, id)
            self.assertEqual(client.delete_document(id, collection=own), weir.Deletion(True, 1))
            with self.assertRaises(weir.NotFound):
                client.delete_document(id, collection=own)
        with self.assertRaisesRegex(ValueError, "empty"):
            client.delete_document("", collection=own)
        self.assertEqual(len(list(client.iter_documents(collection=own))), 3)

    @with_both_clients
    def test_documents_are_changed_in_the_version_that_is_known(self, client: Weir, own: str) -> None:
        made = client.put_document("n", {"text": "a note", "metadata": {"a": 1}}, collection=own, only_new=True)
        with self.assertRaises(weir.PreconditionFailed):
            client.put_document("n", {"text": "another"}, collection=own, only_new=True)
        changes = {"title": "Notes", "metadata": {"a": None, "b": 2}}
        changed = client.patch_document("n", changes, collection=own, version=made.version, wait=True)
        self.assertEqual(changed.status, "completed")
        stored = client.get_document("n", collection=own)
        self.assertEqual((stored.title, stored.metadata, stored.version), ("Notes", {"b": 2}, changed.version))
        for act in (
            lambda: client.patch_document("n", changes, collection=own, version=made.version),
            lambda: client.put_document("n", {"text": "x"}, collection=own, version=made.version),
            lambda: client.delete_document("n", collection=own, version=made.version),
        ):
            with self.assertRaises(weir.PreconditionFailed) as caught:
                act()
            self.assertEqual(caught.exception.code, "precondition_failed")
        self.assertTrue(client.delete_document("n", collection=own, version=changed.version).deleted)

    def test_an_export_is_ingested_again(self) -> None:
        with Weir(self.url) as client:
            pages: list[weir.DocumentPage] = [{"end": 4}, {"end": 8, "label": "ii"}]
            sent: list[weir.Document] = [
                {"id": "a", "title": "t", "text": "x", "metadata": {"n": 1}},
                {"id": "b", "text": "one two.", "pages": pages},
            ]
            client.ingest(sent, collection="exported", wait=True)
            exported = list(client.export("exported"))
            self.assertEqual([(one["id"], one.get("pages")) for one in exported], [("a", None), ("b", pages)])
            client.ingest(exported, collection="exported-again", wait=True)
            self.assertEqual(list(client.export("exported-again")), exported)
            self.assertEqual(list(client.export("exported", after="a")), exported[1:])
            with self.assertRaises(weir.NotFound):
                next(client.export("no-such-collection"))

    @with_both_clients
    def test_documents_are_deleted_by_filter(self, client: Weir, own: str) -> None:
        counted = client.delete_documents({"lang": "en"}, collection=own, dry_run=True)
        self.assertEqual((counted.matched, counted.deleted), (2, 0))
        self.assertEqual(client.delete_documents({"lang": "en"}, collection=own).deleted, 2)
        with self.assertRaises(weir.BadRequest):
            client.delete_documents(collection=own)
        self.assertEqual(client.delete_documents(all=True, collection=own).deleted, 1)

    @with_both_clients
    def test_collections_are_created_checked_and_deleted(self, client: Weir, own: str) -> None:
        name = own + "-new"
        made = client.put_collection(name, embedding="none", language="german", chunking={"max_tokens": 64})
        self.assertEqual((made.settings.language, made.settings.embedding, made.model), ("german", "none", None))
        self.assertEqual(client.get_collection(name), made)
        self.assertIn(name, [collection.name for collection in client.list_collections()])
        self.assertEqual(made.settings.chunking, weir.Chunking("tokens", 64, 32))
        with self.assertRaises(weir.Conflict):
            client.put_collection(own, chunking={"policy": "sentences"})
        changed = client.put_collection(own, rechunk=True, chunking={"policy": "sentences", "max_sentences": 1})
        expected = weir.Chunking("sentences", 200, max_sentences=1, overlap_sentences=0)
        self.assertEqual(changed.settings.chunking, expected)
        with self.assertRaises(weir.BadRequest) as refused:
            client.put_collection(own, move=True, engine="qdrant", chunking={"policy": "sentences", "max_sentences": 1})
        self.assertIn("qdrant.urls", str(refused.exception))
        self.assertEqual(client.put_collection(own, move=True, engine="embedded").settings.chunking, expected)
        with self.assertRaises(weir.Conflict) as caught:
            client.put_collection(name, language="english")
        self.assertEqual(caught.exception.code, "collection_conflict")
        self.assertTrue(client.delete_collection(name).deleted)
        with self.assertRaises(weir.NotFound):
            client.get_collection(name)

    @with_both_clients
    def test_documents_bring_their_embeddings(self, client: Weir, own: str) -> None:
        name = own + "-vectors"
        made = client.put_collection(name, vectors={"dimension": 2})
        self.assertEqual(made.settings.vectors, _types.VectorSettings(2, "cosine"))
        vectors = np.array([[2, 0], [0, 3]], dtype=np.float32)
        documents: list[weir.Document] = [
            {"id": "x", "text": "A weir.", "vector": vectors[0]},
            {"id": "y", "text": "A lock.", "vector": [0, 3]},
            {"id": "nan", "text": "A dam.", "vector": [0, float("nan")]},
        ]
        job = client.ingest(documents, collection=name, wait=True)
        self.assertEqual((job.processed_documents, [error.document_id for error in job.errors]), (2, ["nan"]))
        found = client.search(vector=[0, 1], collection=name, top_k=1).results[0]
        self.assertEqual((found.id, round(found.scores.dense or 0, 3)), ("y", 1.0))
        exported = {document["id"]: document["vector"] for document in client.export(name)}
        self.assertEqual(exported, {"x": [2.0, 0.0], "y": [0.0, 3.0]})

    @with_both_clients
    def test_chunks_are_previewed(self, client: Weir, own: str) -> None:
        text = "# A\n\nOne.\n\n## B\n\nTwo."
        shown = client.preview_chunks(text, collection=own, title="T", chunking={"policy": "headings"})
        self.assertEqual([chunk.quote for chunk in shown.chunks], ["# A\n\nOne.", "## B\n\nTwo."])
        self.assertEqual((shown.total_chunks, shown.chunks[1].context, shown.chunks[1].start), (2, "A", 11))
        pages = client.preview_file(
            b"One.\n\fTwo.", name="a.txt", collection=own, chunking={"policy": "pages"}, limit=1
        )
        self.assertEqual((pages.total_chunks, [(one.quote, one.page) for one in pages.chunks]), (2, [("One.", 1)]))
        self.assertEqual(client.preview_chunks("One.", collection=own).chunking, weir.Chunking("tokens", 200, 32))

    @with_both_clients
    def test_feedback_and_the_query_log_are_read(self, client: Weir, own: str) -> None:
        client.search("no such words at all", collection=own, mode="lexical")
        stored = client.add_feedback("low dam", "a/1", collection=own, relevant=True)
        client.add_feedback("low dam", "a/2", collection=own, grade=0)
        self.assertTrue(stored.relevant)
        entries = list(client.iter_feedback(collection=own, page_size=1))
        self.assertEqual([entry.document_id for entry in entries], ["a/2", "a/1"])
        self.assertEqual(len(client.list_feedback(collection=own).data), 2)
        self.assertEqual(client.list_feedback(collection=own, until=1.0).data, [])
        self.assertEqual(client.delete_feedback(own, until=1.0), weir.FeedbackDeletion(0, False))
        self.assertEqual(client.delete_feedback(own), weir.FeedbackDeletion(2, True))
        self.assertEqual(client.list_feedback(collection=own).data, [])
        self.assertIsInstance(client.list_queries(collection=own, report="zero_results", limit=5), list)

    @with_both_clients
    def test_models_and_states_are_read(self, client: Weir, _: str) -> None:
        model = client.list_models()[0]
        self.assertEqual((model.id, model.dimensions), ("pseudo", 384))
        self.assertEqual(client.get_model("pseudo"), model)
        self.assertEqual(client.list_models("embeddings"), [model])
        self.assertEqual(client.list_models("chat"), [])
        self.assertEqual(client.health().status, "ok")
        self.assertTrue(client.readiness().ready)
        self.assertIn("pdf", client.formats().extensions)
        self.assertEqual(client.liveness().strip(), "ok")
        self.assertIn("weir_", client.metrics())

    @with_both_clients
    def test_embeddings_are_a_view_of_the_reply(self, client: Weir, _: str) -> None:
        embeddings = client.embed(["a weir", "what holds back a river?"])
        self.assertEqual(embeddings.vectors.shape, (2, 384))
        self.assertFalse(embeddings.vectors.flags.owndata)
        self.assertFalse(embeddings.vectors.flags.writeable)
        self.assertEqual((embeddings.model, len(embeddings)), ("pseudo", 2))
        self.assertGreater(embeddings.prompt_tokens, 0)
        alone = client.embed("a weir", model="pseudo", input_type="query").vectors
        self.assertTrue(np.array_equal(alone[0], embeddings.vectors[0]))

    @with_both_clients
    def test_a_stream_of_texts_is_embedded_in_order(self, client: Weir, _: str) -> None:
        texts = [f"text {number}" for number in range(25)]
        rows = list(client.embed_many(iter(texts), batch_size=4, max_in_flight=3))
        self.assertTrue(np.array_equal(np.stack(rows), client.embed(texts).vectors))

    @with_both_clients
    def test_documents_of_a_generator_are_ingested_in_batches(self, client: Weir, own: str) -> None:
        seen: list[weir.Progress] = []
        documents = ({"id": str(number), "text": f"text {number}"} for number in range(25))
        report = client.ingest_many(documents, collection=own, batch_size=4, progress=seen.append)
        self.assertEqual((report.documents, report.new, report.failed, len(report.job_ids)), (25, 25, 0, 7))
        counts = [progress.processed for progress in seen]
        self.assertEqual((counts, counts[-1], seen[-1].total), (sorted(counts), 25, None))
        again = client.ingest_many([{"id": "0", "text": "text 0"}, {"id": "1"}], collection=own)
        self.assertEqual((again.unchanged, again.failed, again.errors[0].document_id), (1, 1, "1"))

    @with_both_clients
    def test_a_document_that_differs_in_a_compared_field_is_not_replaced(self, client: Weir, own: str) -> None:
        changed = [{**document, "text": "new", "metadata": {"lang": "en"}} for document in RIVER]
        job = client.ingest(changed, collection=own, replace_if_equal=["lang"], wait=True)
        self.assertEqual((job.changed_documents, [error.document_id for error in job.errors]), (2, ["a/2"]))
        report = client.ingest_many(changed, collection=own, replace_if_equal=["lang"], batch_size=1)
        self.assertEqual((report.unchanged, [error.code for error in report.errors]), (2, ["document_conflict"]))

    @with_both_clients
    def test_a_call_that_is_repeated_with_its_key_has_one_job(self, client: Weir, own: str) -> None:
        key = f'{own} "1"'
        jobs = [client.ingest(RIVER, collection=own, idempotency_key=key, wait=True) for _ in range(2)]
        self.assertEqual((jobs[0].job_id, jobs[0].total_documents), (jobs[1].job_id, 3))
        with self.assertRaises(weir.ApiError) as caught:
            client.ingest(RIVER[:1], collection=own, idempotency_key=key)
        self.assertEqual(caught.exception.code, "idempotency_mismatch")
        files = [client.upload(b"text", name="a.txt", collection=own, idempotency_key=f"{own} 2") for _ in range(2)]
        self.assertEqual(files[0].job_id, files[1].job_id)

    @with_both_clients
    def test_a_webhook_needs_a_secret_of_the_gateway(self, client: Weir, own: str) -> None:
        calls: list[Callable[[], object]] = [
            lambda: client.ingest(RIVER, collection=own, webhook_url="https://example.com/"),
            lambda: client.ingest_many(RIVER, collection=own, webhook_url="https://example.com/"),
            lambda: client.upload(b"text", name="a.txt", collection=own, webhook_url="https://example.com/"),
        ]
        for call in calls:
            with self.assertRaises(weir.BadRequest) as caught:
                call()
            self.assertEqual(caught.exception.param, "webhook_url")

    @with_both_clients
    def test_an_error_has_code_parameter_remedy_and_request(self, client: Weir, own: str) -> None:
        with self.assertRaises(weir.NotFound) as caught:
            client.search("weir", collection="nowhere")
        error = caught.exception
        self.assertEqual((error.status, error.code), (404, "collection_not_found"))
        self.assertIn("GET /v1/collections", str(error))
        self.assertIn(error.request_id or "no id", str(error))
        with self.assertRaises(weir.BadRequest) as refused:
            client.search("weir", collection=own, top_k=0)
        self.assertEqual((refused.exception.param, refused.exception.code), ("top_k", "invalid_parameter"))
        with self.assertRaises(weir.BadRequest) as misspelt:
            client.search("weir", topk=3)  # type: ignore[call-arg]
        self.assertIn("top_k", str(misspelt.exception))


if __name__ == "__main__":
    unittest.main()
