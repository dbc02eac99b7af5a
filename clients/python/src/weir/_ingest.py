"""Ingest of any number of documents: in batches, each a job that is watched to its end."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Union

from weir import _calls as calls
from weir._documents import encode_document, refusal
from weir._flows import Flow, Flows
from weir._http import Call
from weir._progress import Reporter
from weir._streams import as_async
from weir._types import IngestLines, IngestReport, Job, JobDocumentError, LineError

# Bytes of documents in one request, about: enough to be efficient, far below the gateway's limit.
BATCH_BYTES_MAX = 8 << 20
# Jobs that are accepted and not finished, so that the gateway always has the next batch.
JOBS_MAX = 4
# Failed documents that a report lists.
ERRORS_MAX = 1_000
# The same of a stream of lines, as the gateway does.
LINE_ERRORS_MAX = 100
# Bytes of lines that are sent together, about.
PART_BYTES = 64 << 10


def ingest(
    flows: Flows,
    documents: Iterable[Mapping[str, Any]],
    collection: str,
    wait: bool,
    timeout: float | None,
    shown: Reporter,
    terms: calls.Terms,
) -> Flow[Job]:
    """Sends documents in one request; with `wait`, waits until they are searchable.

    A document without a JSON form fails alone: the job that is returned has it among its failed documents.
    """
    encoded: list[bytes] = []
    errors: list[JobDocumentError] = []
    for position, document in enumerate(documents):
        made = encode_document(document, position)
        encoded.append(made) if isinstance(made, bytes) else errors.append(made)
    if errors and not encoded:
        raise refusal(errors)
    job = yield from flows.call(calls.ingest(encoded, collection, terms))
    if wait:
        job = yield from flows.wait_for_job(job, timeout, shown.show_job)
    return replace(
        job,
        total_documents=job.total_documents + len(errors),
        failed_documents=job.failed_documents + len(errors),
        errors=[*errors, *job.errors],
    )


class LineStream:
    """Documents as lines of JSON, made while they are sent. One without a JSON form fails, and is an empty line."""

    def __init__(self) -> None:
        self.errors: list[LineError] = []
        self.failed = 0
        self._lines = 0

    def parts(self, documents: Iterable[Mapping[str, Any]]) -> Iterator[bytes]:
        """Lines, some together."""
        part: list[bytes] = []
        size = 0
        for document in documents:
            line = self._line(document)
            part.append(line)
            size += len(line)
            if size >= PART_BYTES:
                yield b"".join(part)
                part, size = [], 0
        yield b"".join(part)

    async def parts_async(
        self, documents: Union[Iterable[Mapping[str, Any]], AsyncIterable[Mapping[str, Any]]]
    ) -> AsyncIterator[bytes]:
        """The same of either kind of iterable."""
        part: list[bytes] = []
        size = 0
        async for document in as_async(documents):
            line = self._line(document)
            part.append(line)
            size += len(line)
            if size >= PART_BYTES:
                yield b"".join(part)
                part, size = [], 0
        yield b"".join(part)

    def _line(self, document: Mapping[str, Any]) -> bytes:
        encoded = encode_document(document, self._lines)
        self._lines += 1
        if isinstance(encoded, bytes):
            return encoded + b"\n"
        self.failed += 1
        if len(self.errors) < LINE_ERRORS_MAX:
            self.errors.append(LineError(self._lines, encoded.code, encoded.message, encoded.document_id))
        return b"\n"


def ingest_lines(flows: Flows, call: Call[IngestLines], stream: LineStream) -> Flow[IngestLines]:
    """Sends the lines of a stream. Documents without a JSON form are among the failed ones."""
    reply = yield from flows.call_once(call)
    errors = sorted([*stream.errors, *reply.errors], key=lambda error: error.line)[:LINE_ERRORS_MAX]
    return replace(reply, failed_documents=reply.failed_documents + stream.failed, errors=errors)


class IngestRun:
    """One ingest. `add` and `finish` are flows; `close` ends the progress in any case."""

    def __init__(
        self,
        flows: Flows,
        collection: str,
        batch_size: int,
        shown: Reporter,
        total: int | None,
        terms: calls.Terms,
    ) -> None:
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; it must be at least 1")
        self._flows = flows
        self._collection = collection
        self._batch_size = batch_size
        self._terms = terms
        self._shown = shown
        self._total = total
        self._batch: list[bytes] = []
        self._batch_bytes = 0
        self._unfinished: deque[str] = deque()
        self._counts = dict.fromkeys(("documents", "processed", "failed", "new", "changed", "unchanged", "chunks"), 0)
        self._job_ids: list[str] = []
        self._errors: list[JobDocumentError] = []
        self._position = 0

    def add(self, document: Mapping[str, Any]) -> Flow[None]:
        """Adds a document, and sends the batch when it is full. One without a JSON form is a failed document."""
        encoded = encode_document(document, self._position)
        self._position += 1
        self._counts["documents"] += 1
        if isinstance(encoded, JobDocumentError):
            self._counts["failed"] += 1
            if len(self._errors) < ERRORS_MAX:
                self._errors.append(encoded)
            return
        if self._batch and self._batch_bytes + len(encoded) > BATCH_BYTES_MAX:
            yield from self._send()
        self._batch.append(encoded)
        self._batch_bytes += len(encoded)
        if len(self._batch) >= self._batch_size:
            yield from self._send()

    def finish(self) -> Flow[IngestReport]:
        """Sends the last batch and waits until all documents are searchable."""
        if self._batch:
            yield from self._send()
        yield from self._finish_jobs(0)
        return IngestReport(**self._counts, job_ids=self._job_ids, errors=self._errors)

    def close(self) -> None:
        self._shown.close()

    def _send(self) -> Flow[None]:
        yield from self._finish_jobs(JOBS_MAX - 1)
        job = yield from self._flows.call(calls.ingest(self._batch, self._collection, self._terms))
        self._job_ids.append(job.job_id)
        self._unfinished.append(job.job_id)
        self._batch, self._batch_bytes = [], 0

    def _finish_jobs(self, count: int) -> Flow[None]:
        """Waits until at most `count` jobs are unfinished."""
        while len(self._unfinished) > count:
            job = yield from self._flows.wait_for_job(self._unfinished[0], None, self._show)
            self._unfinished.popleft()
            self._count(job)

    def _count(self, job: Job) -> None:
        self._counts["processed"] += job.processed_documents
        self._counts["failed"] += job.failed_documents
        self._counts["new"] += job.new_documents
        self._counts["changed"] += job.changed_documents
        self._counts["unchanged"] += job.unchanged_documents
        self._counts["chunks"] += job.chunks
        self._errors.extend(job.errors[: ERRORS_MAX - len(self._errors)])

    def _show(self, oldest: Job) -> None:
        """Shows the documents of the oldest unfinished job beside those of finished jobs."""
        processed = self._counts["processed"] + oldest.processed_documents
        failed = self._counts["failed"] + oldest.failed_documents
        done = self._counts["processed"] + self._counts["failed"] + oldest.progress * oldest.total_documents
        self._shown.show(processed, failed, self._total, done / self._total if self._total else None)
