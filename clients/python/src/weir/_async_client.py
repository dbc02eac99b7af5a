"""The asynchronous client: the same methods as `Weir`, on asyncio."""

from __future__ import annotations

import asyncio
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Iterable,
    Mapping,
    Sequence,
)
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import httpx
from numpy.typing import NDArray

from weir import _calls as calls
from weir import _types as types
from weir._chat import ChatChunk, ChatReply, chat_call, chat_stream_call, chunk_reader
from weir._embeddings import Embeddings
from weir._errors import of_transport
from weir._flows import Flow, Flows, Step
from weir._http import Body, Call, Reply, Request, Settings
from weir._ingest import IngestRun, LineStream, ingest, ingest_lines
from weir._lines import Lines
from weir._options import Document, Filter
from weir._progress import Watch, reporter
from weir._streams import as_async, batched_async, check_many, check_sizes, map_in_order_async
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


class AsyncWeir:
    """A client of one gateway, with a pool of connections; any number of tasks of one event loop can use it.

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
        self._http = httpx.AsyncClient(
            headers=self._settings.headers,
            timeout=self._settings.timeout,
            trust_env=self._settings.uses_proxies,
            verify=self._settings.verify,
        )

    async def close(self) -> None:
        """Closes the connections."""
        await self._http.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Search

    async def search(self, query: str | None = None, **options: Unpack[SearchOptions]) -> types.SearchReply:
        """One page of results. Needs at least one of `query`, `vector`, `filter`, `sort` and `facets`."""
        return await self._call(calls.search({"query": query, **options}))

    def iter_search(
        self, query: str | None = None, **options: Unpack[ResultOptions]
    ) -> AsyncIterator[types.SearchResult]:
        """The results of all pages, of which each is requested when it is reached; `top_k` is the size of a page."""
        return self._items(lambda cursor: calls.search_page({"query": query, **options, "cursor": cursor}))

    async def search_many(self, searches: Sequence[Search]) -> list[calls.SearchOutcome]:
        """Up to 32 searches in one call: for each, in this order, its reply or the `ApiError` of its refusal."""
        return await self._call(calls.search_batch(searches))

    # Ingest

    async def ingest(
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
            return await self._run(ingest(self._flows, documents, collection, wait, timeout, shown, terms))
        finally:
            shown.close()

    async def ingest_many(
        self,
        documents: Iterable[Document | Mapping[str, Any]] | AsyncIterable[Document | Mapping[str, Any]],
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
            async for document in as_async(documents):
                await self._run(run.add(document))
            return await self._run(run.finish())
        finally:
            run.close()

    async def ingest_lines(
        self,
        documents: Iterable[Document | Mapping[str, Any]] | AsyncIterable[Document | Mapping[str, Any]],
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
        request = calls.ingest_lines(stream.parts_async(documents), collection, replace_if_equal, wait)
        return await self._run(ingest_lines(self._flows, request, stream))

    async def upload(
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
        job = await self._call(calls.upload(*read_file(file, name), collection, options, terms))
        return await self.wait_for_job(job, timeout=timeout) if wait else job

    async def wait_for_job(
        self, job: str | types.Job, *, timeout: float | None = None, progress: Watch = False
    ) -> types.Job:
        """Waits until a job is completed. `JobError` if it fails, `WeirTimeoutError` after `timeout` seconds.

        `progress=True` draws a bar if stderr is a terminal; a function is called with each `Progress`.
        """
        shown = reporter(progress)
        try:
            return await self._run(self._flows.wait_for_job(job, timeout, shown.show_job))
        finally:
            shown.close()

    async def get_job(self, job_id: str) -> types.Job:
        """One job."""
        return await self._call(calls.get_job(job_id))

    async def list_jobs(self, *, limit: int | None = None, cursor: str | None = None) -> types.Page[types.Job]:
        """A page of jobs, newest first."""
        return await self._call(calls.list_jobs(limit, cursor))

    def iter_jobs(self, *, page_size: int | None = None) -> AsyncIterator[types.Job]:
        """All jobs, newest first."""
        return self._items(lambda cursor: calls.list_jobs(page_size, cursor))

    async def cancel_job(self, job_id: str) -> types.Job:
        """Cancels a job: what is searchable by now stays, the rest is not embedded."""
        return await self._call(calls.cancel_job(job_id))

    async def retry_failed(self, job_id: str, *, webhook_url: str | None = None) -> types.Job:
        """Stores the failed and the cancelled documents of a job again, with the new job that is returned."""
        return await self._call(calls.retry_failed(job_id, webhook_url))

    async def list_job_documents(
        self, job_id: str, *, state: str | None = None, limit: int | None = None, cursor: str | None = None
    ) -> types.Page[types.JobDocument]:
        """A page of the documents of a job with their states; those that were unchanged are not listed."""
        return await self._call(calls.list_job_documents(job_id, state, limit, cursor))

    def iter_job_documents(
        self, job_id: str, *, state: str | None = None, page_size: int | None = None
    ) -> AsyncIterator[types.JobDocument]:
        """All documents of a job with their states."""
        return self._items(lambda cursor: calls.list_job_documents(job_id, state, page_size, cursor))

    # Collections

    async def list_collections(self) -> list[types.Collection]:
        """All collections."""
        return await self._call(calls.list_collections())

    async def get_collection(self, name: str) -> types.Collection:
        """One collection."""
        return await self._call(calls.get_collection(name))

    async def put_collection(
        self, name: str, *, rechunk: bool = False, move: bool = False, **settings: Unpack[NewCollection]
    ) -> types.Collection:
        """Creates a collection, or checks that it has these settings: `Conflict` if not.

        With `rechunk`, the documents of an existing one are split again if `chunking` differs; until they are, its
        `status` is `rebuilding`, and searches find their earlier chunks. With `move`, its index is moved to another
        `engine`, without embedding; until the next index is complete, the earlier one answers searches.
        """
        return await self._call(calls.put_collection(name, settings, rechunk, move))

    async def preview_chunks(
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
        return await self._call(calls.preview_chunks(collection, text, title, pages, chunking, limit))

    async def preview_file(
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
        return await self._call(calls.preview_file(shown, content, collection, title, chunking, limit))

    async def reconcile(self, name: str) -> types.Reconciliation:
        """Has an index in a Qdrant cluster compared with the store, in the background, and mended.

        Its `status` is `waiting` or `running` until it has ended: `get_reconciliation` asks again.
        """
        return await self._call(calls.reconcile(name))

    async def get_reconciliation(self, name: str) -> types.Reconciliation:
        """The last comparison of an index in a Qdrant cluster with the store."""
        return await self._call(calls.get_reconciliation(name))

    async def delete_collection(self, name: str) -> types.Deletion:
        """Deletes a collection and everything in it."""
        return await self._call(calls.delete_collection(name))

    # Documents

    async def get_document(self, id: str, *, collection: str = "default") -> types.StoredDocument:
        """One document."""
        return await self._call(calls.get_document(id, collection))

    async def get_original(self, id: str, *, collection: str = "default") -> bytes:
        """The file from which a document was made. `ApiError` with the code `document_not_found` if it was not kept."""
        return await self._call(calls.get_original(id, collection))

    async def list_documents(
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
        return await self._call(calls.list_documents(collection, filter, sort, limit, after, cursor))

    def iter_documents(
        self,
        *,
        collection: str = "default",
        filter: Filter | None = None,
        sort: str | None = None,
        after: str | None = None,
        page_size: int | None = None,
    ) -> AsyncIterator[types.StoredDocument]:
        """All documents, in the order of `list_documents`."""
        return self._items(lambda cursor: calls.list_documents(collection, filter, sort, page_size, after, cursor))

    async def export(
        self, collection: str = "default", *, after: str | None = None
    ) -> AsyncGenerator[dict[str, Any], None]:
        """All documents, in the order of their ids, as `ingest_many` takes them back.

        The request is sent when the first document is read. Closing the iterator ends the export.
        """
        response = await self._call(calls.export(collection, after))
        lines = Lines()
        try:
            try:
                async for part in response.aiter_bytes():
                    for document in lines.feed(part):
                        yield document
            except httpx.RequestError as error:
                raise of_transport(error, self._settings.base_url) from error
            lines.finish()
        finally:
            await response.aclose()

    async def put_document(
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
        return await self._call(calls.put_document(id, document, collection, version, only_new, wait, terms))

    async def patch_document(
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
        return await self._call(calls.patch_document(id, changes, collection, version, wait, terms))

    async def delete_document(
        self, id: str, *, collection: str = "default", version: int | None = None
    ) -> types.Deletion:
        """Deletes one document, if it has `version`; after this no search returns it."""
        return await self._call(calls.delete_document(id, collection, version))

    async def delete_documents(
        self, filter: Filter | None = None, *, collection: str = "default", all: bool = False, dry_run: bool = False
    ) -> types.DocumentsDeleteReply:
        """Deletes the documents that match, up to the gateway's limit: repeat it while `remaining` is above 0."""
        return await self._call(calls.delete_documents(collection, filter, all, dry_run))

    # Chat

    async def chat(
        self, messages: str | Sequence[ChatMessage | Mapping[str, Any]], *, model: str, **options: Unpack[ChatOptions]
    ) -> ChatReply:
        """The answer of a language model to a question or a conversation; with `collection`, from its documents.

        The answer's citations are checked by the gateway. A call that may have reached the model is not repeated.
        """
        return await self._call(chat_call(messages, model, options))

    async def chat_stream(
        self, messages: str | Sequence[ChatMessage | Mapping[str, Any]], *, model: str, **options: Unpack[ChatOptions]
    ) -> AsyncGenerator[ChatChunk, None]:
        """The same answer in parts as the model writes them; the last ones have citations, sources and usage.

        The request is sent when the first part is read. Closing the iterator ends the answer.
        """
        response = await self._call(chat_stream_call(messages, model, options))
        chunks = self._chunks(response)
        try:
            async for chunk in chunks:
                yield chunk
        finally:
            await chunks.aclose()

    # Embeddings and models

    async def embed(self, texts: str | Sequence[str], **options: Unpack[EmbedOptions]) -> Embeddings:
        """The embeddings of texts, by the first embedding model of the gateway if `model` is not given."""
        return await self._run(self._flows.embed([texts] if isinstance(texts, str) else texts, options))

    def embed_many(
        self,
        texts: Iterable[str] | AsyncIterable[str],
        *,
        batch_size: int = 64,
        max_in_flight: int = 4,
        **options: Unpack[EmbedOptions],
    ) -> AsyncIterator[NDArray[Any]]:
        """The embedding of each text, in order, of any number of texts.

        At most `batch_size * max_in_flight` texts are read ahead. Closing the iterator, as `contextlib.aclosing` does
        for a loop that ends early, stops the requests.
        """
        check_many(texts, "texts")
        check_sizes(batch_size, max_in_flight)

        def work(batch: list[str]) -> Awaitable[Embeddings]:
            return self._run(self._flows.embed(batch, options))

        return _rows(map_in_order_async(work, batched_async(as_async(texts), batch_size), max_in_flight))

    async def list_models(
        self, capability: Literal["chat", "embeddings", "rerank", "classify"] | None = None
    ) -> list[types.Model]:
        """All models, the default one first; those with this capability alone, if one is named."""
        return await self._call(calls.list_models(capability))

    async def get_model(self, id: str) -> types.Model:
        """One model, by its id or an alias."""
        return await self._call(calls.get_model(id))

    # Quality

    async def add_feedback(
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
        return await self._call(calls.add_feedback({**fields, "grade": grade, "chunk": chunk}))

    async def list_feedback(
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
        return await self._call(calls.list_feedback(collection, key, since, until, limit, cursor))

    def iter_feedback(
        self, *, collection: str | None = None, page_size: int | None = None
    ) -> AsyncIterator[types.Feedback]:
        """All judgments, newest first."""
        return self._items(lambda cursor: calls.list_feedback(collection, limit=page_size, cursor=cursor))

    async def delete_feedback(
        self,
        collection: str,
        *,
        key: int | None = None,
        since: float | None = None,
        until: float | None = None,
    ) -> types.FeedbackDeletion:
        """Deletes judgments of one API key, or of a time; else all, and what searches have taught relevance."""
        return await self._call(calls.delete_feedback(collection, key, since, until))

    async def list_queries(
        self,
        *,
        collection: str = "default",
        report: Literal["popular", "zero_results", "low_relevance"] | None = None,
        limit: int | None = None,
        below: float | None = None,
    ) -> list[types.LoggedQuery]:
        """A report of the query log; `below` is the relevance that counts as low."""
        return await self._call(calls.list_queries(collection, report, limit, below))

    # API keys

    async def create_key(
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
        return await self._call(calls.create_key({**fields, "filter": filter, **restrictions}))

    async def list_keys(self) -> list[types.ApiKey]:
        """All API keys that allow no more than the own one."""
        return await self._call(calls.list_keys())

    async def update_key(self, id: int, changes: Mapping[str, Any]) -> types.ApiKey:
        """Changes fields of an API key, as of `create_key`. What is left out stays, None takes a restriction away."""
        return await self._call(calls.update_key(id, changes))

    async def revoke_key(self, id: int) -> types.ApiKey:
        """Revokes an API key at once."""
        return await self._call(calls.revoke_key(id))

    async def rotate_key(self, id: int, *, grace_seconds: float | None = None) -> types.NewApiKey:
        """Gives an API key another text; the one before stays valid for `grace_seconds`."""
        return await self._call(calls.rotate_key(id, grace_seconds))

    async def list_audit(self, *, limit: int | None = None, cursor: str | None = None) -> types.Page[types.AuditEntry]:
        """A page of what was done with keys and by administrators, newest first."""
        return await self._call(calls.list_audit(limit, cursor))

    async def usage(
        self, *, from_day: str | None = None, to_day: str | None = None, group_by: str | None = None
    ) -> types.UsageReport:
        """Requests, tokens and cost from the day `from_day` to `to_day`, summed by `group_by`: "key,model,day"."""
        return await self._call(calls.usage(from_day, to_day, group_by))

    # The gateway

    async def formats(self) -> types.Formats:
        """The kinds of files that the gateway reads."""
        return await self._call(calls.formats())

    async def health(self) -> types.Health:
        """The state of the gateway and its number of documents."""
        return await self._call(calls.health())

    async def readiness(self) -> types.Readiness:
        """Whether the gateway takes requests; not an error if it does not."""
        return await self._call(calls.readiness())

    async def liveness(self) -> str:
        """A text of the process, if it runs."""
        return await self._call(calls.liveness())

    async def metrics(self) -> str:
        """Metrics in the format of Prometheus."""
        return await self._call(calls.metrics())

    async def openapi(self) -> dict[str, Any]:
        """The gateway's description of its API, in OpenAPI 3.1."""
        return await self._call(calls.openapi())

    async def _call(self, call: Call[T]) -> T:
        return await self._run(self._flows.call(call))

    async def _items(self, page: Callable[[str | None], Call[types.Page[T]]]) -> AsyncIterator[T]:
        cursor: str | None = None
        while True:
            current = await self._call(page(cursor))
            for item in current.data:
                yield item
            cursor = calls.next_cursor(current, cursor)
            if cursor is None:
                return

    async def _run(self, flow: Flow[T]) -> T:
        try:
            step = next(flow)
            while True:
                try:
                    reply = await self._take(step)
                except httpx.RequestError as error:
                    step = flow.throw(error)
                else:
                    step = flow.send(reply)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            flow.close()

    async def _take(self, step: Step) -> Reply | None:
        if isinstance(step, Request):
            return await self._send(step)
        await asyncio.sleep(step.seconds)
        return None

    async def _send(self, request: Request) -> Reply:
        url = self._settings.base_url + request.target
        made = self._http.build_request(
            request.method,
            url,
            content=request.body,
            headers=request.headers,
            timeout=self._settings.timeout_of(request),
        )
        response = await self._http.send(made, stream=True)
        if request.is_streamed and response.status_code < 300:
            return Reply(response.status_code, response.headers, b"", response)
        body = Body()
        try:
            async for part in response.aiter_bytes():
                body.add(part)
        finally:
            await response.aclose()
        return Reply(response.status_code, response.headers, body.joined())

    async def _chunks(self, response: httpx.Response) -> AsyncGenerator[ChatChunk, None]:
        reader = chunk_reader(response.headers)
        try:
            try:
                async for part in response.aiter_bytes():
                    for chunk in reader.feed(part):
                        yield chunk
            except httpx.RequestError as error:
                raise of_transport(error, self._settings.base_url) from error
            for chunk in reader.finish():
                yield chunk
        finally:
            await response.aclose()


async def _rows(batches: AsyncGenerator[Embeddings, None]) -> AsyncIterator[NDArray[Any]]:
    try:
        async for batch in batches:
            for row in batch.vectors:
                yield row
    finally:
        await batches.aclose()
