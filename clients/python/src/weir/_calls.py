"""The calls of the native API: how each request is built and its reply read. Nothing here does IO."""

from __future__ import annotations

from collections.abc import AsyncIterable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar, Union
from urllib.parse import quote, urlencode

import httpx

from weir import _types as types
from weir._decode import decode
from weir._errors import ApiError, ReplyError, of_problem
from weir._http import Call, Reply, Request, encode, path, query
from weir._upload import form

T = TypeVar("T")
SearchOutcome = Union[types.SearchReply, ApiError]

_JSON = {"content-type": "application/json"}
_NOT_READY = 503


class Terms(NamedTuple):
    """How documents are stored."""

    replace_if_equal: Sequence[str] = ()
    webhook_url: str | None = None
    idempotency_key: str | None = None

    def headers(self) -> dict[str, str]:
        return {} if self.idempotency_key is None else {"idempotency-key": quoted(self.idempotency_key)}


def ingest(documents: Sequence[bytes], collection: str, terms: Terms = Terms()) -> Call[types.Job]:  # noqa: B008
    """`documents` are in JSON."""
    asked = b',"replace_if_equal":%b' % encode(list(terms.replace_if_equal)) if terms.replace_if_equal else b""
    if terms.webhook_url is not None:
        asked += b',"webhook_url":%b' % encode(terms.webhook_url)
    body = b'{"collection":%b,"documents":[%b]%b}' % (encode(collection), b",".join(documents), asked)
    return Call(Request("POST", "/v1/ingest", body, {**_JSON, **terms.headers()}), _object(types.Job))


def ingest_lines(
    parts: Iterable[bytes] | AsyncIterable[bytes], collection: str, replace_if_equal: Sequence[str], wait: bool
) -> Call[types.IngestLines]:
    """`parts` are lines of JSON. They are gone after one attempt."""
    compared = [("replace_if_equal", name) for name in replace_if_equal]
    parameters = urlencode([("collection", collection), *compared, ("wait", str(wait).lower())], quote_via=quote)
    media = {"content-type": "application/x-ndjson"}
    request = Request("POST", f"/v1/ingest?{parameters}", parts, media, has_timeout=False)
    return Call(request, _object(types.IngestLines), is_repeatable=False)


def upload(name: str, content: bytes, collection: str, options: Mapping[str, Any], terms: Terms) -> Call[types.Job]:
    """`options`: the id, title and metadata of the document, and whether the file is kept."""
    body, media_type = form(name, content, collection, options, terms.webhook_url)
    headers = {"content-type": media_type, **terms.headers()}
    return Call(Request("POST", "/v1/ingest", body, headers), _object(types.Job))


def quoted(key: str) -> str:
    """An idempotency key as a structured field."""
    escaped = key.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'


def get_job(job_id: str) -> Call[types.Job]:
    return Call(_get("/v1/jobs" + path(job_id)), _object(types.Job))


def list_jobs(limit: int | None = None, cursor: str | None = None) -> Call[types.Page[types.Job]]:
    return Call(_get("/v1/jobs" + query(limit=limit, cursor=cursor)), _page(types.Job))


def cancel_job(job_id: str) -> Call[types.Job]:
    return Call(Request("POST", "/v1/jobs" + path(job_id) + "/cancel"), _object(types.Job))


def retry_failed(job_id: str, webhook_url: str | None) -> Call[types.Job]:
    # the second time there is nothing left to try again
    target = "/v1/jobs" + path(job_id) + "/retry-failed" + query(webhook_url=webhook_url)
    request = Request("POST", target)
    return Call(request, _object(types.Job), is_repeatable=False)


def list_job_documents(
    job_id: str, state: str | None = None, limit: int | None = None, cursor: str | None = None
) -> Call[types.Page[types.JobDocument]]:
    target = "/v1/jobs" + path(job_id) + "/documents" + query(state=state, limit=limit, cursor=cursor)
    return Call(_get(target), _page(types.JobDocument))


def search(options: Mapping[str, Any]) -> Call[types.SearchReply]:
    return Call(_post("/v1/search", encode(_given(options))), _object(types.SearchReply))


def search_page(options: Mapping[str, Any]) -> Call[types.Page[types.SearchResult]]:
    """The same, of which only the results are wanted."""
    whole = search(options)

    def parse(reply: Reply) -> types.Page[types.SearchResult]:
        found = whole.parse(reply)
        return types.Page(found.results, found.next_cursor)

    return Call(whole.request, parse)


def search_batch(searches: Sequence[Mapping[str, Any]]) -> Call[list[SearchOutcome]]:
    body = encode({"queries": [_given(options) for options in searches]})
    return Call(_post("/v1/search", body), _outcomes)


def list_collections() -> Call[list[types.Collection]]:
    return Call(_get("/v1/collections"), _list(types.Collection))


def get_collection(name: str) -> Call[types.Collection]:
    return Call(_get(_collection(name)), _object(types.Collection))


def put_collection(name: str, settings: Mapping[str, Any], rechunk: bool, move: bool) -> Call[types.Collection]:
    target = _collection(name) + query(rechunk="true" if rechunk else None, move="true" if move else None)
    return Call(Request("PUT", target, encode(_given(settings)), _JSON), _object(types.Collection))


def preview_chunks(
    collection: str,
    text: str,
    title: str | None,
    pages: Sequence[Mapping[str, Any]] | None,
    chunking: Mapping[str, Any] | None,
    limit: int | None,
) -> Call[types.ChunksPreview]:
    body = _given({"text": text, "title": title, "pages": pages, "chunking": chunking, "limit": limit})
    return Call(_post(_collection(collection) + "/chunks/preview", encode(body)), _object(types.ChunksPreview))


def preview_file(
    name: str,
    content: bytes,
    collection: str,
    title: str | None,
    chunking: Mapping[str, Any] | None,
    limit: int | None,
) -> Call[types.ChunksPreview]:
    shown = None if chunking is None else encode(chunking).decode()
    parameters = query(filename=name, title=title, chunking=shown, limit=limit)
    headers = {"content-type": "application/octet-stream"}
    target = _collection(collection) + "/chunks/preview" + parameters
    return Call(Request("POST", target, content, headers), _object(types.ChunksPreview))


def reconcile(name: str) -> Call[types.Reconciliation]:
    return Call(Request("POST", _collection(name) + "/reconcile"), _object(types.Reconciliation))


def get_reconciliation(name: str) -> Call[types.Reconciliation]:
    return Call(_get(_collection(name) + "/reconcile"), _object(types.Reconciliation))


def delete_collection(name: str) -> Call[types.Deletion]:
    # the second time it is 404, so that a repetition would hide that the first one succeeded
    return Call(Request("DELETE", _collection(name)), _object(types.Deletion), is_repeatable=False)


def get_document(id: str, collection: str) -> Call[types.StoredDocument]:
    return Call(_get(_collection(collection) + "/documents" + path(id)), _object(types.StoredDocument))


def get_original(id: str, collection: str) -> Call[bytes]:
    return Call(_get(_collection(collection) + "/documents" + path(id) + "/original"), _bytes)


def list_documents(
    collection: str,
    filter: Mapping[str, Any] | None = None,
    sort: str | None = None,
    limit: int | None = None,
    after: str | None = None,
    cursor: str | None = None,
) -> Call[types.Page[types.StoredDocument]]:
    condition = None if filter is None else encode(filter).decode()
    parameters = query(filter=condition, sort=sort, limit=limit, after=after if cursor is None else None, cursor=cursor)
    return Call(_get(_collection(collection) + "/documents" + parameters), _page(types.StoredDocument))


def export(collection: str, after: str | None) -> Call[httpx.Response]:
    """The lines of an export, which are read while they are received."""
    target = _collection(collection) + "/export" + query(after=after)
    return Call(Request("GET", target, is_streamed=True), _streamed)


def put_document(
    id: str,
    document: Mapping[str, Any],
    collection: str,
    version: int | None,
    only_new: bool,
    wait: bool,
    terms: Terms,
) -> Call[types.Job]:
    condition = {"if-none-match": "*"} if only_new else _if_version(version)
    headers = {**_JSON, **condition, **terms.headers()}
    request = Request("PUT", _document(id, collection, wait, terms.webhook_url), encode(document), headers)
    # without a key a repetition would fail, because the first one changed the version
    return Call(request, _object(types.Job), is_repeatable=not condition or terms.idempotency_key is not None)


def patch_document(
    id: str, changes: Mapping[str, Any], collection: str, version: int | None, wait: bool, terms: Terms
) -> Call[types.Job]:
    headers = {"content-type": "application/merge-patch+json", **_if_version(version), **terms.headers()}
    request = Request("PATCH", _document(id, collection, wait, terms.webhook_url), encode(changes), headers)
    return Call(request, _object(types.Job), is_repeatable=version is None or terms.idempotency_key is not None)


def delete_document(id: str, collection: str, version: int | None) -> Call[types.Deletion]:
    request = Request("DELETE", _document(id, collection), None, _if_version(version))
    return Call(request, _object(types.Deletion), is_repeatable=False)


def delete_documents(
    collection: str, filter: Mapping[str, Any] | None, delete_all: bool, dry_run: bool
) -> Call[types.DocumentsDeleteReply]:
    body = {"filter": filter, "all": delete_all or None, "dry_run": dry_run or None}
    target = _collection(collection) + "/documents/delete"
    # a repetition would report only what the first one left
    return Call(_post(target, encode(_given(body))), _object(types.DocumentsDeleteReply), is_repeatable=dry_run)


def add_feedback(fields: Mapping[str, Any]) -> Call[types.Feedback]:
    return Call(_post("/v1/feedback", encode(_given(fields))), _object(types.Feedback), is_repeatable=False)


def list_feedback(
    collection: str | None = None,
    key: int | None = None,
    since: float | None = None,
    until: float | None = None,
    limit: int | None = None,
    cursor: str | None = None,
) -> Call[types.Page[types.Feedback]]:
    selected = query(collection=collection, key=key, since=since, until=until, limit=limit, cursor=cursor)
    return Call(_get("/v1/feedback" + selected), _page(types.Feedback))


def delete_feedback(
    collection: str, key: int | None = None, since: float | None = None, until: float | None = None
) -> Call[types.FeedbackDeletion]:
    selected = query(collection=collection, key=key, since=since, until=until)
    # a repetition would report only what the first one left
    return Call(Request("DELETE", "/v1/feedback" + selected), _object(types.FeedbackDeletion), is_repeatable=False)


def create_key(fields: Mapping[str, Any]) -> Call[types.NewApiKey]:
    return Call(_post("/v1/keys", encode(_given(fields))), _object(types.NewApiKey), is_repeatable=False)


def list_keys() -> Call[list[types.ApiKey]]:
    return Call(_get("/v1/keys"), _list(types.ApiKey))


def update_key(id: int, changes: Mapping[str, Any]) -> Call[types.ApiKey]:
    return Call(Request("PATCH", f"/v1/keys/{id}", encode(changes), _JSON), _object(types.ApiKey))


def revoke_key(id: int) -> Call[types.ApiKey]:
    return Call(Request("DELETE", f"/v1/keys/{id}"), _object(types.ApiKey), is_repeatable=False)


def rotate_key(id: int, grace_seconds: float | None) -> Call[types.NewApiKey]:
    target = f"/v1/keys/{id}/rotate" + query(grace_seconds=grace_seconds)
    return Call(Request("POST", target), _object(types.NewApiKey), is_repeatable=False)


def list_audit(limit: int | None = None, cursor: str | None = None) -> Call[types.Page[types.AuditEntry]]:
    return Call(_get("/v1/audit" + query(limit=limit, cursor=cursor)), _page(types.AuditEntry))


def usage(from_day: str | None, to_day: str | None, group_by: str | None) -> Call[types.UsageReport]:
    return Call(
        _get("/v1/usage" + query(**{"from": from_day, "to": to_day, "group_by": group_by})), _object(types.UsageReport)
    )


def list_queries(
    collection: str, report: str | None, limit: int | None, below: float | None
) -> Call[list[types.LoggedQuery]]:
    target = _collection(collection) + "/queries" + query(report=report, limit=limit, below=below)
    return Call(_get(target), _list(types.LoggedQuery))


def list_models(capability: str | None = None) -> Call[list[types.Model]]:
    return Call(_get("/v1/models" + query(capability=capability)), _list(types.Model))


def get_model(id: str) -> Call[types.Model]:
    return Call(_get("/v1/models" + path(id)), _object(types.Model))


def formats() -> Call[types.Formats]:
    return Call(_get("/v1/formats"), _object(types.Formats))


def health() -> Call[types.Health]:
    return Call(_get("/healthz"), _object(types.Health))


def readiness() -> Call[types.Readiness]:
    return Call(_get("/readyz"), _object(types.Readiness), accepts=frozenset({_NOT_READY}))


def liveness() -> Call[str]:
    return Call(_get("/livez"), _text)


def metrics() -> Call[str]:
    return Call(_get("/metrics"), _text)


def openapi() -> Call[dict[str, Any]]:
    return Call(_get("/openapi.json"), _dictionary)


def next_cursor(page: types.Page[T], cursor: str | None) -> str | None:
    """The cursor behind `page`, which was requested with `cursor`."""
    if page.next_cursor is not None and page.next_cursor == cursor:
        raise ReplyError("the next page has the cursor of this one; check any proxy before the gateway")
    return page.next_cursor


def _get(target: str) -> Request:
    return Request("GET", target)


def _post(target: str, body: bytes) -> Request:
    return Request("POST", target, body, _JSON)


def _collection(name: str) -> str:
    return "/v1/collections" + path(name)


def _document(id: str, collection: str, wait: bool = False, webhook_url: str | None = None) -> str:
    parameters = query(wait="true" if wait else None, webhook_url=webhook_url)
    return _collection(collection) + "/documents" + path(id) + parameters


def _if_version(version: int | None) -> dict[str, str]:
    return {} if version is None else {"if-match": f'"{version}"'}


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _object(kind: type[T]) -> Callable[[Reply], T]:
    return lambda reply: decode(kind, reply.json())


def _page(kind: type[T]) -> Callable[[Reply], types.Page[T]]:
    def parse(reply: Reply) -> types.Page[T]:
        page = decode(types.Page, reply.json())
        return types.Page([decode(kind, entry) for entry in page.data], page.next_cursor)

    return parse


def _list(kind: type[T]) -> Callable[[Reply], list[T]]:
    page = _page(kind)
    return lambda reply: page(reply).data


def _bytes(reply: Reply) -> bytes:
    return reply.body


def _streamed(reply: Reply) -> httpx.Response:
    if reply.stream is None:
        raise ReplyError("the reply is not a stream; check base_url, and any proxy before the gateway")
    return reply.stream


def _text(reply: Reply) -> str:
    return reply.body.decode("utf-8", "replace")


def _dictionary(reply: Reply) -> dict[str, Any]:
    value = reply.json()
    if not isinstance(value, dict):
        raise ReplyError("the reply is not a JSON object; check base_url, and any proxy before the gateway")
    return value


def _outcomes(reply: Reply) -> list[SearchOutcome]:
    return [_outcome(entry) for entry in decode(types.BatchReply, reply.json()).replies]


def _outcome(entry: Any) -> SearchOutcome:  # noqa: ANN401
    problem = None
    if isinstance(entry, dict) and "results" not in entry:
        status = entry.get("status")
        problem = of_problem(status if isinstance(status, int) else 500, entry)
    return problem or decode(types.SearchReply, entry)
