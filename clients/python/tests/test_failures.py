"""Failures and retries, against a server that replies as a script says."""

from __future__ import annotations

import os
import time
import unittest
from collections.abc import Callable
from email.utils import formatdate
from typing import Any
from unittest import mock

import httpx
import servers
from servers import Scripted, scripted

import weir
from weir import Weir
from weir._flows import RETRY_SECONDS_MAX

FOUND = Scripted(body={"results": [], "took_ms": 1.5})
JOB = {
    "job_id": "job_1",
    "status": "running",
    "total_documents": 1,
    "processed_documents": 0,
    "failed_documents": 0,
    "started_at": 1,
}
COMPLETED = Scripted(body={**JOB, "status": "completed", "processed_documents": 1, "finished_at": 2})


def problem(status: int, code: str, **headers: str) -> Scripted:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Scripted(status, {"status": status, "code": code, "detail": "why. A remedy.", "request_id": "r"}, named)


OVERLOADED = problem(503, "overloaded", retry_after_ms="20")
Act = Callable[[Weir], Any]


def search(client: Weir) -> weir.SearchReply:
    return client.search("weir")


def feedback(client: Weir) -> weir.Feedback:
    return client.add_feedback("weir", "a/1", relevant=True)


def delete(client: Weir) -> weir.Deletion:
    return client.delete_document("a/1")


class FailuresTest(unittest.TestCase):
    def check(self, act: Act, replies: list[Scripted], expected: type[Exception] | None, requests: int) -> str:
        """Runs `act` with both clients against these replies; returns the error's message."""
        message = ""
        for make in servers.CLIENTS:
            with self.subTest(make.__name__), scripted(*replies) as (url, received):
                with make(url, retries=2, timeout=5) as client:
                    if expected is None:
                        act(client)
                    else:
                        with self.assertRaises(expected) as caught:
                            act(client)
                        self.assertIs(type(caught.exception), expected)
                        message = str(caught.exception)
                self.assertEqual(len(received), requests)
        return message

    def test_an_overloaded_gateway_is_asked_again_after_the_delay_it_names(self) -> None:
        begun = time.monotonic()
        self.check(search, [problem(503, "overloaded", retry_after="5", retry_after_ms="200"), FOUND], None, 2)
        self.assertGreaterEqual(time.monotonic() - begun, 2 * 0.2)
        self.assertLess(time.monotonic() - begun, 5)

    def test_whole_seconds_and_dates_are_respected(self) -> None:
        for is_date in (False, True):
            # dates have whole seconds
            value = formatdate(time.time() + 2, usegmt=True) if is_date else "1"
            with scripted(problem(503, "overloaded", retry_after=value), FOUND) as (url, received), Weir(url) as client:
                begun = time.monotonic()
                client.search("weir")
                self.assertGreaterEqual(time.monotonic() - begun, 0.9)
                self.assertEqual(len(received), 2)

    def test_retries_end(self) -> None:
        message = self.check(search, [OVERLOADED], weir.Overloaded, 3)
        self.assertIn("A remedy.", message)

    def test_a_delay_beyond_the_limit_is_not_waited_for(self) -> None:
        longer = str(int(RETRY_SECONDS_MAX) + 1)
        self.check(search, [problem(429, "rate_limit_exceeded", retry_after=longer), FOUND], weir.RateLimited, 1)

    def test_a_refused_call_of_any_kind_is_repeated(self) -> None:
        stored = Scripted(body={"deleted": True, "chunks": 1})
        self.check(delete, [OVERLOADED, stored], None, 2)
        self.check(delete, [problem(429, "rate_limit_exceeded", retry_after_ms="1"), stored], None, 2)

    def test_a_call_that_may_have_been_executed_is_repeated_only_if_that_is_safe(self) -> None:
        late = problem(504, "deadline_exceeded", retry_after_ms="1")
        self.check(search, [late, FOUND], None, 2)
        self.check(feedback, [late], weir.ServerError, 1)
        cut = Scripted(is_cut=True)
        self.check(search, [cut, FOUND], None, 2)
        self.check(search, [Scripted(body=b'{"results"', is_cut=True), FOUND], None, 2)
        for act in (feedback, delete):
            message = self.check(act, [cut], weir.WeirConnectionError, 1)
            self.assertIn("may have been executed", message)

    def test_the_gateway_decides_by_x_should_retry(self) -> None:
        self.check(search, [problem(503, "overloaded", x_should_retry="false")], weir.Overloaded, 1)
        again = problem(500, "internal", x_should_retry="true", retry_after_ms="1")
        self.check(feedback, [again], weir.ServerError, 3)

    def test_a_failure_for_good_is_not_repeated(self) -> None:
        for status, expected in {
            400: weir.BadRequest,
            401: weir.Unauthorized,
            403: weir.Forbidden,
            404: weir.NotFound,
            409: weir.Conflict,
            412: weir.PreconditionFailed,
            410: weir.BadRequest,
            413: weir.TooLarge,
            500: weir.ServerError,
            507: weir.ServerError,
        }.items():
            self.check(search, [problem(status, "a_code")], expected, 1)

    def test_errors_of_every_format_are_read(self) -> None:
        openai = {"error": {"message": "m", "type": "t", "param": "model", "code": "model_not_found"}}
        tei = {"error": "m", "error_type": "Validation"}
        for body, code, param in ((openai, "model_not_found", "model"), (tei, "Validation", None)):
            with scripted(Scripted(404, body, {"x-request-id": "req_1"})) as (url, _), Weir(url) as client:
                with self.assertRaises(weir.NotFound) as caught:
                    client.search("weir")
                error = caught.exception
                self.assertEqual(
                    (error.message, error.code, error.param, error.request_id), ("m", code, param, "req_1")
                )
                self.assertEqual(error.body, body)

    def test_an_error_of_another_program_is_quoted(self) -> None:
        page = Scripted(502, b"<h1>Bad Gateway</h1>", {"content-type": "text/html"})
        message = self.check(feedback, [page], weir.ServerError, 1)
        self.assertIn("<h1>Bad Gateway</h1>; check base_url", message)
        moved = Scripted(301, b"", {"location": "https://weir.example"})
        self.assertIn("https://weir.example", self.check(search, [moved], weir.ReplyError, 1))

    def test_a_malformed_reply_is_an_error_with_the_place(self) -> None:
        for body, place in (
            (b"<html>", "not JSON"),
            (b"[" * 100_000, "not JSON"),
            ({"took_ms": 1}, "has no `results`"),
            ({"results": [{"id": "a", "score": 1}], "took_ms": 1}, "/results/0 has no `text`"),
            ({"results": {}, "took_ms": 1}, "/results is dict instead of list"),
            ({"results": [], "took_ms": True}, "/took_ms is bool instead of float"),
        ):
            self.assertIn(place, self.check(search, [Scripted(body=body)], weir.ReplyError, 1))

    def test_fields_of_a_newer_gateway_are_ignored(self) -> None:
        with scripted(Scripted(body={"results": [], "took_ms": 2, "new": {"a": 1}})) as (url, _), Weir(url) as client:
            self.assertEqual(client.search("weir"), weir.SearchReply([], 2))

    def test_a_list_that_never_ends_is_an_error(self) -> None:
        same = Scripted(body={"data": [], "next_cursor": "c"})
        self.check(lambda client: list(client.iter_jobs()), [same], weir.ReplyError, 2)

    def test_a_refused_connection_says_how_to_start_a_gateway(self) -> None:
        for make in servers.CLIENTS:
            with make(f"http://127.0.0.1:{servers.free_port()}", retries=1) as client:
                with self.assertRaises(weir.WeirConnectionError) as caught:
                    client.health()
                self.assertIsInstance(caught.exception, ConnectionError)
                self.assertIsInstance(caught.exception.__cause__, httpx.ConnectError)
                self.assertRegex(str(caught.exception), "`weir serve`.*WEIR_URL")

    def test_a_gateway_that_starts_meanwhile_is_reached(self) -> None:
        failures: list[Exception] = [httpx.ConnectError("refused"), httpx.ConnectTimeout("late")]
        with scripted(FOUND) as (url, received), Weir(url) as client:
            send = client._send
            with mock.patch.object(client, "_send", side_effect=lambda r: self.raise_first(failures) or send(r)):
                self.assertEqual(client.search("weir").results, [])
            self.assertEqual(len(received), 1)

    @staticmethod
    def raise_first(failures: list[Exception]) -> None:
        if failures:
            raise failures.pop(0)

    def test_a_late_reply_is_a_timeout_and_not_repeated(self) -> None:
        for make in servers.CLIENTS:
            with scripted(Scripted(delay_seconds=2)) as (url, received):
                with make(url, timeout=0.5) as client, self.assertRaises(weir.WeirTimeoutError) as caught:
                    client.search("weir")
                self.assertIsInstance(caught.exception, TimeoutError)
                self.assertIn("raise `timeout`", str(caught.exception))
                self.assertEqual(len(received), 1)

    def test_tls_to_a_server_without_it_is_refused_at_once(self) -> None:
        with scripted(FOUND) as (url, _), Weir(url.replace("http:", "https:")) as client:
            begun = time.monotonic()
            with self.assertRaisesRegex(weir.WeirConnectionError, "http:// or https://"):
                client.health()
            self.assertLess(time.monotonic() - begun, 5)

    def test_a_reply_beyond_the_limit_is_refused(self) -> None:
        with mock.patch("weir._http.REPLY_BYTES_MAX", 10):
            message = self.check(search, [Scripted(body=b"x" * 11)], weir.ReplyError, 1)
        self.assertIn("more than 10 bytes", message)

    def test_the_key_is_sent_and_not_shown(self) -> None:
        with scripted(problem(401, "invalid_api_key")) as (url, received), Weir(url, "secret-key") as client:
            with self.assertRaises(weir.Unauthorized) as caught:
                client.health()
            self.assertEqual(received[0].headers["authorization"], "Bearer secret-key")
            self.assertNotIn("secret-key", f"{caught.exception!r} {client._settings!r}")
        for key in ("two words", "line\n", "schlüssel"):
            with self.assertRaisesRegex(ValueError, "api_key has") as refused:
                Weir(api_key=key)
            self.assertNotIn(key, str(refused.exception))

    def test_settings_come_from_arguments_then_variables(self) -> None:
        with scripted(FOUND) as (url, received), mock.patch.dict(os.environ, WEIR_URL=url + "/", WEIR_API_KEY="k"):
            with Weir() as client:
                client.search("weir")
            with Weir(url, "") as client:
                client.search("weir")
            self.assertEqual([request.target for request in received], ["/v1/search"] * 2)
            self.assertEqual([request.headers.get("authorization") for request in received], ["Bearer k", None])
        for arguments, message in (
            ({"base_url": "127.0.0.1:8000"}, "must begin with http://"),
            ({"timeout": 0}, "timeout is 0"),
            ({"retries": -1}, "retries is -1"),
        ):
            with self.assertRaisesRegex(ValueError, message):
                Weir(**arguments)

    def test_values_that_json_lacks_are_refused_before_they_are_sent(self) -> None:
        with Weir() as client:
            for value in (float("nan"), "\ud800", object()):
                with self.assertRaises((ValueError, TypeError)):
                    client.search("weir", filter={"a": value})
            with self.assertRaisesRegex(TypeError, "put it into a list"):
                client.ingest({"text": "one"})  # type: ignore[dict-item]
            with self.assertRaisesRegex(TypeError, "put it into a list"):
                client.embed_many("one")

    def test_a_job_is_waited_for(self) -> None:
        for make in servers.CLIENTS:
            with scripted(Scripted(body=JOB), Scripted(body=JOB), COMPLETED) as (url, received), make(url) as client:
                self.assertEqual(client.ingest([{"text": "a"}], wait=True).status, "completed")
                self.assertEqual([request.method for request in received], ["POST", "GET", "GET"])

    def test_a_job_that_fails_or_lasts_is_an_error(self) -> None:
        failed = Scripted(body={**JOB, "status": "failed", "error": "the disk is full", "finished_at": 2})
        message = self.check(lambda client: client.wait_for_job("job_1"), [failed], weir.JobError, 1)
        self.assertRegex(message, "job_1 failed: the disk is full; ingest the documents again")
        for make in servers.CLIENTS:
            with scripted(Scripted(body=JOB)) as (url, _), make(url) as client:
                with self.assertRaisesRegex(weir.WeirTimeoutError, "job_1 is running after 0.1 s; it continues"):
                    client.wait_for_job("job_1", timeout=0.1)

    def test_readiness_of_a_gateway_that_is_not_ready_is_no_error(self) -> None:
        with scripted(Scripted(503, {"ready": False, "failing": ["store"]})) as (url, received), Weir(url) as client:
            self.assertEqual(client.readiness(), weir.Readiness(False, ["store"]))
            self.assertEqual(len(received), 1)


if __name__ == "__main__":
    unittest.main()
