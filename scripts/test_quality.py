"""Tests of quality.py, against a gateway that only knows the wire format."""

from __future__ import annotations

import contextlib
import io
import json
import math
import tempfile
import threading
import unittest
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import quality


class WordGateway(BaseHTTPRequestHandler):
    """Ranks documents by the number of words that they share with the query. Refuses what it doesn't know."""

    protocol_version = "HTTP/1.1"
    documents: dict[str, dict[str, str]] = {}
    busy_times = 0
    searches: list[dict[str, Any]] = []

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("content-length", str(len(data)))
        if status == 503:
            self.send_header("retry-after", "0")
        self.end_headers()
        self.wfile.write(data)

    def _body(self) -> dict[str, Any]:
        return dict(json.loads(self.rfile.read(int(self.headers.get("content-length", 0))) or b"{}"))

    def do_PUT(self) -> None:
        self._body()
        WordGateway.documents[self.path.rsplit("/", 1)[1]] = {}
        self._answer(201, {"name": "x"})

    def do_DELETE(self) -> None:
        self._answer(200, {"deleted": bool(WordGateway.documents.pop(self.path.rsplit("/", 1)[1], None))})

    def do_GET(self) -> None:
        count = int(self.path.rsplit("-", 1)[1])
        job = {"job_id": self.path.rsplit("/", 1)[1], "status": "completed", "total_documents": count}
        self._answer(200, job | {"processed_documents": count, "failed_documents": 0, "error": None, "errors": []})

    def do_POST(self) -> None:
        body = self._body()
        if self.path == "/v1/ingest":
            assert set(body) == {"collection", "documents"} and len(body["documents"]) <= 500
            WordGateway.documents[body["collection"]].update(
                {document["id"]: f"{document['title']} {document['text']}" for document in body["documents"]}
            )
            self._answer(202, {"job_id": f"job-{len(body['documents'])}"})
        elif WordGateway.busy_times > 0:
            WordGateway.busy_times -= 1
            self._answer(503, {"code": "overloaded"})
        else:
            WordGateway.searches.append(body)
            self._answer(200, {"results": self._rank(body), "took_ms": 0.1})

    def _rank(self, body: dict[str, Any]) -> list[dict[str, str]]:
        words = set(body["query"].split())
        shared = {
            name: len(words & set(text.split())) for name, text in WordGateway.documents[body["collection"]].items()
        }
        best = sorted((name for name in shared if shared[name]), key=lambda name: (-shared[name], name))
        return [{"id": name} for name in best[: body["top_k"]]]

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


class Measures(unittest.TestCase):
    def test_ndcg_is_that_of_trec_eval(self) -> None:
        scores = {"a": 3, "b": 1, "c": 0}
        self.assertEqual(quality.ndcg(["a", "b"], scores), 1.0)
        expected = (1 / math.log2(2) + 3 / math.log2(4)) / (3 / math.log2(2) + 1 / math.log2(3))
        self.assertAlmostEqual(quality.ndcg(["b", "x", "a"], scores), expected, places=12)
        self.assertEqual(quality.ndcg([], scores), 0.0)

    def test_only_the_first_ten_count(self) -> None:
        self.assertEqual(quality.ndcg([*"0123456789", "a"], {"a": 1}), 0.0)
        self.assertAlmostEqual(quality.ndcg([*"012345678", "a"], {"a": 1}), 1 / math.log2(11), places=12)

    def test_recall_is_the_part_of_the_relevant(self) -> None:
        self.assertEqual(quality.recall(["a", "x", "b"], {"a": 1, "b": 2, "c": 0}, 2), 0.5)

    def test_a_fusion_is_read_from_its_short_form(self) -> None:
        self.assertEqual(quality.parse_fusion("rrf"), {"method": "rrf"})
        self.assertEqual(
            quality.parse_fusion("convex:0.4,0.6"), {"method": "convex", "weights": {"lexical": 0.4, "dense": 0.6}}
        )
        self.assertEqual(
            quality.parse_fusion("rrf:1,2,k=30"),
            {"method": "rrf", "weights": {"lexical": 1.0, "dense": 2.0}, "k": 30.0},
        )
        for wrong in ("sum", "rrf:1", "convex:a,b"):
            with self.assertRaises(ValueError):
                quality.parse_fusion(wrong)


class WholeRun(unittest.TestCase):
    def setUp(self) -> None:
        WordGateway.documents, WordGateway.busy_times, WordGateway.searches = {}, 0, []
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), WordGateway)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.data = Path(folder.name)

    def write_set(self, name: str) -> None:
        """Three documents that answer and 998 that don't; query q2 finds its document in the second place."""
        (self.data / name).mkdir()
        documents = [
            {"_id": "d1", "title": "Weir", "text": "a low dam"},
            {"_id": "d2", "title": "", "text": "a boat"},
        ]
        documents += [{"_id": "d3", "title": "", "text": "a boat on water"}]
        documents += [{"_id": f"n{i}", "title": "", "text": "nothing"} for i in range(998)]
        queries = [{"_id": "q1", "text": "dam"}, {"_id": "q2", "text": "boat"}, {"_id": "q3", "text": "nothing"}]
        for file, rows in (("corpus", documents), ("queries", queries)):
            (self.data / name / f"{file}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (self.data / name / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td1\t1\nq2\td3\t1\nq3\td1\t0\n")

    def run_main(self, *arguments: str) -> tuple[int, str]:
        out = io.StringIO()
        url = f"http://127.0.0.1:{self.server.server_address[1]}"
        with contextlib.redirect_stdout(out):
            status = quality.main(["--data", str(self.data), "--url", url, *arguments])
        return status, out.getvalue()

    def test_a_set_is_ingested_asked_printed_and_removed(self) -> None:
        self.write_set("small")
        WordGateway.busy_times = 2
        status, out = self.run_main("--fusion", "convex:0.4,0.6", "small")
        self.assertEqual(status, 0)
        expected = f"{(1 + 1 / math.log2(3)) / 2:.4f}"
        rows = [line.split() for line in out.splitlines()[1:]]
        self.assertEqual([row[:2] for row in rows], [["small", "2"]] * 4)
        self.assertEqual([row[-2:] for row in rows], [[expected, "1.0000"]] * 4)
        self.assertEqual(WordGateway.documents, {})
        fusions = [search["fusion"] for search in WordGateway.searches if "fusion" in search]
        self.assertEqual(fusions, [{"method": "convex", "weights": {"lexical": 0.4, "dense": 0.6}}] * 2)
        self.assertEqual({search["mode"] for search in WordGateway.searches}, {"hybrid", "dense", "lexical"})

    def test_a_target_that_is_missed_fails_the_run(self) -> None:
        self.write_set("scifact")
        (self.data / "scifact" / "qrels.tsv").write_text("query-id\tcorpus-id\tscore\nq1\td2\t1\n")
        status, out = self.run_main("scifact")
        self.assertEqual((status, out.count("BELOW")), (1, 3))

    def test_rankings_are_saved(self) -> None:
        self.write_set("small")
        self.run_main("--modes", "dense", "--save", str(self.data / "runs.json"), "small")
        saved = json.loads((self.data / "runs.json").read_text())
        self.assertEqual(saved, {"small": {"dense": {"q1": ["d1"], "q2": ["d2", "d3"]}}})

    def test_a_missing_folder_is_skipped_visibly(self) -> None:
        out = io.StringIO()
        with contextlib.redirect_stdout(out):
            self.assertEqual(quality.main(["--data", ""]), 0)
        self.assertIn("SKIPPED", out.getvalue())


if __name__ == "__main__":
    unittest.main()
