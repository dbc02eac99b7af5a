"""The progress of jobs, and the batches of an ingest."""

from __future__ import annotations

import io
import unittest
from unittest import mock

from servers import Received, Scripted, scripted

from weir import Progress, Weir
from weir._progress import line

STATES = ({"processed_documents": 1}, {"processed_documents": 3, "failed_documents": 1, "finished_at": 2})


def job(request: Received) -> Scripted:
    state = STATES[0] if request.method == "POST" else STATES[1]
    base = {"job_id": "j", "status": "completed", "total_documents": 4, "failed_documents": 0, "started_at": 1}
    return Scripted(body={**base, **state})


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


class ProgressTest(unittest.TestCase):
    def test_a_line_has_the_share_the_counts_and_the_time(self) -> None:
        for progress, expected in (
            (Progress(0, 0, 4, 0.2), "[" + "." * 30 + "] 0/4 documents, 0 s"),
            (Progress(1, 1, 4, 3), "[" + "#" * 15 + "." * 15 + "] 2/4 documents, 1 failed, 3 s"),
            (Progress(1, 0, 4, 3, 0.5), "[" + "#" * 15 + "." * 15 + "] 1/4 documents, 3 s"),
            (Progress(9, 0, 4, 3), "[" + "#" * 30 + "] 9/4 documents, 3 s"),
            (Progress(0, 0, 0, 0), "[" + "." * 30 + "] 0/0 documents, 0 s"),
            (Progress(7, 0, None, 3), "7 documents, 3 s"),
        ):
            self.assertEqual(line(progress), expected)

    def ingest(self, stream: io.StringIO, progress: bool) -> str:
        with scripted(by=job) as (url, _), Weir(url) as client, mock.patch("sys.stderr", stream):
            client.ingest([{"text": "a"}] * 4, wait=True, progress=progress)
        return stream.getvalue()

    def test_the_bar_is_drawn_on_a_terminal_only(self) -> None:
        drawn = self.ingest(Terminal(), True)
        self.assertEqual(drawn.count("\r"), 2)
        self.assertIn("4/4 documents, 1 failed", drawn)
        self.assertTrue(drawn.endswith("\n"))
        self.assertEqual(self.ingest(io.StringIO(), True), "")
        self.assertEqual(self.ingest(Terminal(), False), "")

    def test_a_function_gets_each_change(self) -> None:
        seen: list[tuple[int, int, int | None]] = []
        with scripted(by=job) as (url, received), Weir(url) as client:
            client.wait_for_job("j", progress=lambda p: seen.append((p.processed, p.failed, p.total)))
            self.assertEqual(seen, [(3, 1, 4)])
            seen.clear()
            documents = [{"text": "a"}] * 4
            client.ingest_many(documents, progress=lambda p: seen.append((p.processed, p.failed, p.total)))
            self.assertEqual(seen, [(3, 1, 4)])
            self.assertEqual(received[1].json(), {"collection": "default", "documents": documents})

    def test_batches_are_limited_in_bytes(self) -> None:
        with scripted(by=job) as (url, received), Weir(url) as client, mock.patch("weir._ingest.BATCH_BYTES_MAX", 40):
            report = client.ingest_many([{"text": "x" * 20}, {"text": "y"}, {"text": "z"}, {"text": "w" * 90}])
            sizes = [len(request.json()["documents"]) for request in received if request.method == "POST"]
            self.assertEqual((sizes, report.documents), ([1, 2, 1], 4))

    def test_no_more_than_four_jobs_are_unfinished(self) -> None:
        with scripted(by=job) as (url, received), Weir(url) as client:
            client.ingest_many([{"text": "a"}] * 10, batch_size=1)
            unfinished = most = 0
            for request in received:
                unfinished += 1 if request.method == "POST" else -1
                most = max(most, unfinished)
            self.assertEqual((most, unfinished), (4, 0))


if __name__ == "__main__":
    unittest.main()
