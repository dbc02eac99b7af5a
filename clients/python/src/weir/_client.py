"""The blocking client."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import httpx
from numpy.typing import NDArray

from weir import _calls as calls
from weir import _types as types
from weir._chat import ChatChunk, ChatReply, chat_call, chat_stream_call, chunk_reader
from weir._embeddings import Embeddings
from weir._errors import of_transport
from weir._flows import Flow, Flows, Sleep, Step
from weir._http import Body, Call, Reply, Request, Settings
from weir._ingest import IngestRun, LineStream, ingest, ingest_lines
from weir._lines import Lines
from weir._options import Document, Filter
from weir._progress import Watch, reporter
from weir._streams import batched, check_many, check_sizes, map_in_order
from weir._upload import File, read_file

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

    from weir._options import (
        ChatMessage,
        ChatOptions,
        Chunks,
        DocumentPage,
        EmbedOptions,
        NewCollection,
        ResultOptions,
        Search,
        SearchOptions,
    )

T = TypeVar("T")


class Weir:
    """A client of one gateway, with a pool of connections; any number of threads can use it.

    `base_url` and `api_key` default to the variables WEIR_URL and WEIR_API_KEY, then to http://127.0.0.1:8000, no key.
    `ca_file` (or WEIR_CA_FILE): a PEM file with authorities that are trusted for https beside the public ones.
    `timeout`: how many seconds the gateway may send nothing. A call is repeated up to `retries` times if that is safe.
    """

    def __init__(
        self,
        base_url: str | None = None,
        api_key: str | None = None,
        *,
        timeout: float = 60.0,
        retries: int = 2,
        ca_file: str | None = None,
    ) -> None:
        self._settings = Settings.of(base_url, api_key, timeout, retries, ca_file)
        self._flows = Flows(self._settings)
        self._http = httpx.Client(
            headers=self._settings.headers,
            timeout=self._settings.timeout,
            trust_env=self._settings.uses_proxies,
            verify=self._settings.verify,
        )

    def close(self) -> None:
        """Closes the connections."""
        self._http.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Search

    def search(self, query: str | None = None, **options: Unpack[SearchOptions]) -> types.SearchReply:
        """One page of results. Needs at least one of `query`, `vector`, `filter`, `sort` and `facets`."""
        return self._call(calls.search({"query": query, **options}))

    def iter_search(self, query: str | None = None, **options: Unpack[ResultOptions]) -> Iterator[types.SearchResult]:
        """The results of all pages, of which each is requested when it is reached; `top_k` is the size of a page."""
        return self._items(lambda cursor: calls.search_page({"query": query, **options, "cursor": cursor}))

    def search_many(self, searches: Sequence[Search]) -> list[calls.SearchOutcome]:
        """Up to 32 searches in one call: for each, in this order, its reply or the `ApiError` of its refusal."""
        return self._call(calls.search_batch(searches))

    # Ingest

    def ingest(
        self,
        documents: Iterable[Document | Mapping[str, Any]],
        *,
        collection: str = "default",
        replace_if_equal: Sequence[str] = (),
        webhook_url: str | None = None,
        idempotency_key: str | None = None,
        wait: bool = False,
        timeout: float | None = None,
        progress: Watch = False,
    ) -> types.Job:
        """Sends documents in one request. They are stored when this returns; with `wait`, searchable.

        The job lists documents that failed. A stored document is replaced only by one that equals it in the metadata
        fields `replace_if_equal`. `timeout` and `progress` are those of `wait_for_job`. The gateway calls `webhook_url`
        when the job has ended. The same call with the same `idempotency_key` gives the job of the first.
        """
        check_many(documents, "documents")
        shown = reporter(progress)
        try:
            terms = calls.Terms(replace_if_equal, webhook_url, idempotency_key)
            return self._run(ingest(self._flows, documents, collection, wait, timeout, shown, terms))
        finally:
            shown.close()

    def ingest_many(
        self,
        documents: Iterable[Document | Mapping[str, Any]],
        *,
        collection: str = "default",
        replace_if_equal: Sequence[str] = (),
        webhook_url: str | None = None,
        batch_size: int = 200,
        progress: Watch = False,
    ) -> types.IngestReport:
        """Sends any number of documents in batches, and returns when all are searchable.

        At most four batches are unfinished at a time, and one is in memory. After an error, repeat the call: unchanged
        documents are not embedded again. Each batch is a job, whose end the gateway tells `webhook_url`.
        """
        check_many(documents, "documents")
        total = len(documents) if isinstance(documents, Sequence) else None
        terms = calls.Terms(replace_if_equal, webhook_url)
        run = IngestRun(self._flows, collection, batch_size, reporter(progress), total, terms)
        try:
            for document in documents:
                self._run(run.add(document))
            return self._run(run.finish())
        finally:
            run.close()

    def ingest_lines(
        self,
        documents: Iterable[Document | Mapping[str, Any]],
        *,
        collection: str = "default",
        replace_if_equal: Sequence[str] = (),
        wait: bool = False,
    ) -> types.IngestLines:
        """Sends any number of documents in one request, at constant memory: each is read when the gateway takes it.

        They are stored when this returns; with `wait`, searchable. A bad document fails alone. The call has no time
        limit, and does not repeat itself; repeating it is safe, because documents that are stored are not changed.
        """
        check_many(documents, "documents")
        stream = LineStream()
        request = calls.ingest_lines(stream.parts(documents), collection, replace_if_equal, wait)
        return self._run(ingest_lines(self._flows, request, stream))

    def upload(
        self,
        file: File,
        *,
        collection: str = "default",
        id: str | None = None,
        title: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        name: str | None = None,
        keep_original: bool | None = None,
        webhook_url: str | None = None,
        idempotency_key: str | None = None,
        wait: bool = False,
        timeout: float | None = None,
    ) -> types.Job:
        """Sends a file: its path, or its bytes with a `name`. It is stored when this returns; the job reads it.

        The document has the name of the file as `id` and the title that the file declares, unless they are given.
        With `keep_original`, the file itself is kept, for `get_original`.
        A kind that is not read is an `ApiError`; the job has any other reason for which there is no text in its
        `errors`. With `wait`, the document is searchable when this returns, or `WeirTimeoutError` after `timeout`
        seconds. `webhook_url` and `idempotency_key` are those of `ingest`.
        """
        options = {"id": id, "title": title, "metadata": metadata, "keep_original": keep_original}
        terms = calls.Terms((), webhook_url, idempotency_key)
        job = self._call(calls.upload(*read_file(file, name), collection, options, terms))
        return self.wait_for_job(job, timeout=timeout) if wait else job

    def wait_for_job(self, job: str | types.Job, *, timeout: float | None = None, progress: Watch = False) -> types.Job:
        """Waits until a job is completed. `JobError` if it fails, `WeirTimeoutError` after `timeout` seconds.

        `progress=True` draws a bar if stderr is a terminal; a function is called with each `Progress`.
        """
        shown = reporter(progress)
        try:
            return self._run(self._flows.wait_for_job(job, timeout, shown.show_job))
        finally:
            shown.close()

    def get_job(self, job_id: str) -> types.Job:
        """One job."""
        return self._call(calls.get_job(job_id))

    def list_jobs(self, *, limit: int | None = None, cursor: str | None = None) -> types.Page[types.Job]:
        """A page of jobs, newest first."""
        return self._call(calls.list_jobs(limit, cursor))

    def iter_jobs(self, *, page_size: int | None = None) -> Iterator[types.Job]:
        """All jobs, newest first."""
        return self._items(lambda cursor: calls.list_jobs(page_size, cursor))

    def cancel_job(self, job_id: str) -> types.Job:
        """Cancels a job: what is searchable by now stays, the rest is not embedded."""
        return self._call(calls.cancel_job(job_id))

    def retry_failed(self, job_id: str, *, webhook_url: str | None = None) -> types.Job:
        """Stores the failed and the cancelled documents of a job again, with the new job that is returned."""
        return self._call(calls.retry_failed(job_id, webhook_url))

    def list_job_documents(
        self, job_id: str, *, state: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> types.Page[types.JobDocument]:
        """A page of the documents of a job with their states; those that were unchanged are not listed."""
        return self._call(calls.list_job_documents(job_id, state, limit, cursor))

    def iter_job_documents(
        self, job_id: str, *, state: str | None = None, page_size: int | None = None
    ) -> Iterator[types.JobDocument]:
        """All documents of a job with their states."""
        return self._items(lambda cursor: calls.list_job_documents(job_id, state, page_size, cursor))

    # Collections

    def list_collections(self) -> list[types.Collection]:
        """All collections."""
        return self._call(calls.list_collections())

    def get_collection(self, name: str) -> types.Collection:
        """One collection."""
        return self._call(calls.get_collection(name))

    def put_collection(
        self, name: str, *, rechunk: bool = False, move: bool = False, **settings: Unpack[NewCollection]
    ) -> types.Collection:
        """Creates a collection, or checks that it has these settings: `Conflict` if not.

        With `rechunk`, the documents of an existing one are split again if `chunking` differs; until they are, its
        `status` is `rebuilding`, and searches find their earlier chunks. With `move`, its index is moved to another
        `engine`, without embedding; until the next index is complete, the earlier one answers searches.
        """
        return self._call(calls.put_collection(name, settings, rechunk, move))

    def preview_chunks(
        self,
        text: str,
        *,
        collection: str = "default",
        title: str | None = None,
        pages: Sequence[DocumentPage] | None = None,
        chunking: Chunks | None = None,
        limit: int | None = None,
    ) -> types.ChunksPreview:
        """The chunks of a text, split as the documents of a collection are, or by `chunking`. Nothing is stored."""
        return self._call(calls.preview_chunks(collection, text, title, pages, chunking, limit))

    def preview_file(
        self,
        file: File,
        *,
        collection: str = "default",
        name: str | None = None,
        title: str | None = None,
        chunking: Chunks | None = None,
        limit: int | None = None,
    ) -> types.ChunksPreview:
        """The chunks of a file: a path, or bytes with a `name`. Nothing is stored."""
        shown, content = read_file(file, name)
        return self._call(calls.preview_file(shown, content, collection, title, chunking, limit))

    def reconcile(self, name: str) -> types.Reconciliation:
        """Has an index in a Qdrant cluster compared with the store, in the background, and mended.

        Its `status` is `waiting` or `running` until it has ended: `get_reconciliation` asks again.
        """
        return self._call(calls.reconcile(name))

    def get_reconciliation(self, name: str) -> types.Reconciliation:
        """The last comparison of an index in a Qdrant cluster with the store."""
        return self._call(calls.get_reconciliation(name))

    def delete_collection(self, name: str) -> types.Deletion:
        """Deletes a collection and everything in it."""
        return self._call(calls.delete_collection(name))

    # Documents

    def get_document(self, id: str, *, collection: str = "default") -> types.StoredDocument:
        """One document."""
        return self._call(calls.get_document(id, collection))

    def get_original(self, id: str, *, collection: str = "default") -> bytes:
        """The file from which a document was made. `ApiError` with the code `document_not_found` if it was not kept."""
        return self._call(calls.get_original(id, collection))

    def list_documents(
        self,
        *,
        collection: str = "default",
        filter: Filter | None = None,
        sort: str | None = None,
        limit: int | None = None,
        after: str | None = None,
        cursor: str | None = None,
    ) -> types.Page[types.StoredDocument]:
        """A page of documents by id; with `filter` or `sort`, of the searchable ones that match."""
        return self._call(calls.list_documents(collection, filter, sort, limit, after, cursor))

    def iter_documents(
        self,
        *,
        collection: str = "default",
        filter: Filter | None = None,
        sort: str | None = None,
        after: str | None = None,
        page_size: int | None = None,
    ) -> Iterator[types.StoredDocument]:
        """All documents, in the order of `list_documents`."""
        return self._items(lambda cursor: calls.list_documents(collection, filter, sort, page_size, after, cursor))

    def export(self, collection: str = "default", *, after: str | None = None) -> Generator[dict[str, Any], None, None]:
        """All documents, in the order of their ids, as `ingest_many` takes them back.

        The request is sent when the first document is read. Closing the iterator ends the export.
        """
        response = self._call(calls.export(collection, after))
        lines = Lines()
        with closing(response):
            try:
                for part in response.iter_bytes():
                    yield from lines.feed(part)
            except httpx.RequestError as error:
                raise of_transport(error, self._settings.base_url) from error
            lines.finish()

    def put_document(
        self,
        id: str,
        document: Mapping[str, Any],
        *,
        collection: str = "default",
        version: int | None = None,
        only_new: bool = False,
        webhook_url: str | None = None,
        idempotency_key: str | None = None,
        wait: bool = False,
    ) -> types.Job:
        """Stores a document; `PreconditionFailed` if it has another `version`, or exists with `only_new`.

        `webhook_url` and `idempotency_key` are those of `ingest`.
        """
        terms = calls.Terms((), webhook_url, idempotency_key)
        return self._call(calls.put_document(id, document, collection, version, only_new, wait, terms))

    def patch_document(
        self,
        id: str,
        changes: Mapping[str, Any],
        *,
        collection: str = "default",
        version: int | None = None,
        webhook_url: str | None = None,
        idempotency_key: str | None = None,
        wait: bool = False,
    ) -> types.Job:
        """Changes `title` and `metadata` by a JSON merge patch, in which None removes; nothing is embedded again.

        `webhook_url` and `idempotency_key` are those of `ingest`.
        """
        terms = calls.Terms((), webhook_url, idempotency_key)
        return self._call(calls.patch_document(id, changes, collection, version, wait, terms))

    def delete_document(self, id: str, *, collection: str = "default", version: int | None = None) -> types.Deletion:
        """Deletes one document, if it has `version`; after this no search returns it."""
        return self._call(calls.delete_document(id, collection, version))

    def delete_documents(
        self, filter: Filter | None = None, *, collection: str = "default", all: bool = False, dry_run: bool = False
    ) -> types.DocumentsDeleteReply:
        """Deletes the documents that match, up to the gateway's limit: repeat it while `remaining` is above 0."""
        return self._call(calls.delete_documents(collection, filter, all, dry_run))

    # Chat

    def chat(
        self, messages: str | Sequence[ChatMessage | Mapping[str, Any]], *, model: str, **options: Unpack[ChatOptions]
    ) -> ChatReply:
        """The answer of a language model to a question or a conversation; with `collection`, from its documents.

        The answer's citations are checked by the gateway. A call that may have reached the model is not repeated.
        """
        return self._call(chat_call(messages, model, options))

    def chat_stream(
        self, messages: str | Sequence[ChatMessage | Mapping[str, Any]], *, model: str, **options: Unpack[ChatOptions]
    ) -> Generator[ChatChunk, None, None]:
        """The same answer in parts as the model writes them; the last ones have citations, sources and usage.

        The request is sent when the first part is read. Closing the iterator ends the answer.
        """
        response = self._call(chat_stream_call(messages, model, options))
        yield from self._chunks(response)

    # Embeddings and models

    def embed(self, texts: str | Sequence[str], **options: Unpack[EmbedOptions]) -> Embeddings:
        """The embeddings of texts, by the first embedding model of the gateway if `model` is not given."""
        return self._run(self._flows.embed([texts] if isinstance(texts, str) else texts, options))

    def embed_many(
        self, texts: Iterable[str], *, batch_size: int = 64, max_in_flight: int = 4, **options: Unpack[EmbedOptions]
    ) -> Iterator[NDArray[Any]]:
        """The embedding of each text, in order, of any number of texts.

        At most `batch_size * max_in_flight` texts are read ahead. Closing the iterator, as a loop that ends early does,
        stops the requests.
        """
        check_many(texts, "texts")
        check_sizes(batch_size, max_in_flight)

        def work(batch: list[str], stopped: threading.Event) -> Embeddings:
            return self._run(self._flows.embed(batch, options), stopped)

        return _rows(map_in_order(work, batched(texts, batch_size), max_in_flight))

    def list_models(
        self, capability: Literal["chat", "embeddings", "rerank", "classify"] | None = None
    ) -> list[types.Model]:
        """All models, the default one first; those with this capability alone, if one is named."""
        return self._call(calls.list_models(capability))

    def get_model(self, id: str) -> types.Model:
        """One model, by its id or an alias."""
        return self._call(calls.get_model(id))

    # Quality

    def add_feedback(
        self,
        query: str,
        document_id: str,
        *,
        collection: str | None = None,
        relevant: bool | None = None,
        grade: int | None = None,
        chunk: int | None = None,
    ) -> types.Feedback:
        """Stores a judgment: `relevant`, or a `grade` from 0 to 100."""
        fields = {"query": query, "document_id": document_id, "collection": collection, "relevant": relevant}
        return self._call(calls.add_feedback({**fields, "grade": grade, "chunk": chunk}))

    def list_feedback(
        self,
        *,
        collection: str | None = None,
        key: int | None = None,
        since: float | None = None,
        until: float | None = None,
        limit: int | None = None,
        cursor: str | None = None,
    ) -> types.Page[types.Feedback]:
        """A page of judgments, newest first; of one API key, or of a time in unix seconds."""
        return self._call(calls.list_feedback(collection, key, since, until, limit, cursor))

    def iter_feedback(self, *, collection: str | None = None, page_size: int | None = None) -> Iterator[types.Feedback]:
        """All judgments, newest first."""
        return self._items(lambda cursor: calls.list_feedback(collection, limit=page_size, cursor=cursor))

    def delete_feedback(
        self,
        collection: str,
        *,
        key: int | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> types.FeedbackDeletion:
        """Deletes judgments of one API key, or of a time; else all, and what searches have taught relevance."""
        return self._call(calls.delete_feedback(collection, key, since, until))

    def list_queries(
        self,
        *,
        collection: str = "default",
        report: Literal["popular", "zero_results", "low_relevance"] | None = None,
        limit: int | None = None,
        below: float | None = None,
    ) -> list[types.LoggedQuery]:
        """A report of the query log; `below` is the relevance that counts as low."""
        return self._call(calls.list_queries(collection, report, limit, below))

    # API keys

    def create_key(
        self,
        name: str,
        *,
        scopes: Sequence[str] | None = None,
        collections: Sequence[str] | None = None,
        models: Sequence[str] | None = None,
        filter: Mapping[str, Any] | None = None,
        expires_at: float | None = None,
        limits: Mapping[str, float] | None = None,
        model_limits: Mapping[str, Mapping[str, float]] | None = None,
    ) -> types.NewApiKey:
        """Creates an API key; the reply alone has its text."""
        fields = {"name": name, "scopes": scopes, "collections": collections, "models": models}
        restrictions = {"expires_at": expires_at, "limits": limits, "model_limits": model_limits}
        return self._call(calls.create_key({**fields, "filter": filter, **restrictions}))

    def list_keys(self) -> list[types.ApiKey]:
        """All API keys that allow no more than the own one."""
        return self._call(calls.list_keys())

    def update_key(self, id: int, changes: Mapping[str, Any]) -> types.ApiKey:
        """Changes fields of an API key, as of `create_key`. What is left out stays, None takes a restriction away."""
        return self._call(calls.update_key(id, changes))

    def revoke_key(self, id: int) -> types.ApiKey:
        """Revokes an API key at once."""
        return self._call(calls.revoke_key(id))

    def rotate_key(self, id: int, *, grace_seconds: float | None = None) -> types.NewApiKey:
        """Gives an API key another text; the one before stays valid for `grace_seconds`."""
        return self._call(calls.rotate_key(id, grace_seconds))

    def list_audit(self, *, limit: int | None = None, cursor: str | None = None) -> types.Page[types.AuditEntry]:
        """A page of what was done with keys and by administrators, newest first."""
        return self._call(calls.list_audit(limit, cursor))

    def usage(
        self, *, from_day: str | None = None, to_day: str | None = None, group_by: str | None = None
    ) -> types.UsageReport:
        """Requests, tokens and cost from the day `from_day` to `to_day`, summed by `group_by`: "key,model,day"."""
        return self._call(calls.usage(from_day, to_day, group_by))

    # The gateway

    def formats(self) -> types.Formats:
        """The kinds of files that the gateway reads."""
        return self._call(calls.formats())

    def health(self) -> types.Health:
        """The state of the gateway and its number of documents."""
        return self._call(calls.health())

    def readiness(self) -> types.Readiness:
        """Whether the gateway takes requests; not an error if it does not."""
        return self._call(calls.readiness())

    def liveness(self) -> str:
        """A text of the process, if it runs."""
        return self._call(calls.liveness())

    def metrics(self) -> str:
        """Metrics in the format of Prometheus."""
        return self._call(calls.metrics())

    def openapi(self) -> dict[str, Any]:
        """The gateway's description of its API, in OpenAPI 3.1."""
        return self._call(calls.openapi())

    def _call(self, call: Call[T]) -> T:
        return self._run(self._flows.call(call))

    def _items(self, page: Callable[[str | None], Call[types.Page[T]]]) -> Iterator[T]:
        cursor: str | None = None
        while True:
            current = self._call(page(cursor))
            yield from current.data
            cursor = calls.next_cursor(current, cursor)
            if cursor is None:
                return

    def _run(self, flow: Flow[T], stopped: threading.Event | None = None) -> T:
        try:
            step = next(flow)
            while True:
                try:
                    reply = self._take(step, stopped)
                except httpx.RequestError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(reply)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            flow.close()

    def _take(self, step: Step, stopped: threading.Event | None) -> Reply | None:
        if isinstance(step, Request):
            return self._send(step)
        _sleep(step, stopped)
        return None

    def _send(self, request: Request) -> Reply:
        url = self._settings.base_url + request.target
        made = self._http.build_request(
            request.method,
            url,
            content=request.body,
            headers=request.headers,
            timeout=self._settings.timeout_of(request),
        )
        response = self._http.send(made, stream=True)
        if request.is_streamed and response.status_code < 300:
            return Reply(response.status_code, response.headers, b"", response)
        body = Body()
        with closing(response):
            for part in response.iter_bytes():
                body.add(part)
        return Reply(response.status_code, response.headers, body.joined())

    def _chunks(self, response: httpx.Response) -> Iterator[ChatChunk]:
        reader = chunk_reader(response.headers)
        with closing(response):
            try:
                for part in response.iter_bytes():
                    yield from reader.feed(part)
            except httpx.RequestError as error:
                raise of_transport(error, self._settings.base_url) from error
            yield from reader.finish()


def _sleep(step: Sleep, stopped: threading.Event | None) -> None:
    if stopped is None:
        time.sleep(step.seconds)
    elif stopped.wait(step.seconds):
        raise CancelledError


def _rows(batches: Generator[Embeddings, None, None]) -> Iterator[NDArray[Any]]:
    with closing(batches):
        for batch in batches:
            yield from batch.vectors
