"""Chat with sources: the client, the real gateway, and a scripted provider behind it."""

from __future__ import annotations

import json
import tempfile
import unittest
from contextlib import ExitStack
from typing import Any, ClassVar

import servers
from servers import Received, Scripted, scripted

import weir

TEXT = "A weir is a low dam across a river."
ANSWER = 'It is "a low dam across a river" [1], and "a high dam" [1].'
USAGE = {"prompt_tokens": 9, "completion_tokens": 4, "total_tokens": 13}
WHOLE = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "model": "m-1",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": ANSWER}, "finish_reason": "stop"}],
    "usage": USAGE,
}
EVENTS = {"content-type": "text/event-stream"}


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> dict[str, Any]:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return {"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": "m-1", "choices": [choice]}


def stream(*chunks: dict[str, Any], end: str = "data: [DONE]\n\n") -> bytes:
    return ("".join(f"data: {json.dumps(one)}\n\n" for one in chunks) + end).encode()


PARTS = [chunk({"role": "assistant", "content": ANSWER[at : at + 7]}) for at in range(0, len(ANSWER), 7)]
STREAM = stream(*PARTS, chunk({}, "stop"), {**chunk({}), "choices": [], "usage": USAGE})


def provider(request: Received) -> Scripted:
    if request.json().get("stream"):
        return Scripted(body=STREAM, headers=EVENTS)
    return Scripted(body=WHOLE)


class ChatTest(unittest.TestCase):
    stack: ClassVar[ExitStack]
    url: ClassVar[str]
    received: ClassVar[list[Received]]

    @classmethod
    def setUpClass(cls) -> None:
        cls.stack = ExitStack()
        url, cls.received = cls.stack.enter_context(scripted(by=provider))
        file = cls.stack.enter_context(tempfile.NamedTemporaryFile("w", suffix=".toml"))
        file.write(f'[[upstreams]]\nid = "up"\nprovider = "openai"\nurl = "{url}/v1"\n')
        file.flush()
        cls.url = cls.stack.enter_context(servers.gateway(WEIR_CONFIG=file.name))
        with weir.Weir(cls.url) as client:
            client.ingest(
                [{"id": "weirs", "text": TEXT, "metadata": {"year": 1884}}, {"id": "mills", "text": "A mill."}],
                wait=True,
            )

    @classmethod
    def tearDownClass(cls) -> None:
        cls.stack.close()

    def check_sources(self, part: weir.ChatReply | weir.ChatChunk) -> None:
        self.assertEqual([source.document_id for source in part.sources], ["weirs"])
        source = part.sources[0]
        self.assertEqual((source.n, TEXT.encode()[source.start : source.end].decode()), (1, TEXT))
        good, forged = part.citations
        self.assertEqual((good.verified, good.document_id, good.quote), (True, "weirs", "a low dam across a river"))
        assert good.start is not None
        self.assertEqual(TEXT.encode()[good.start : good.end].decode(), good.quote)
        self.assertEqual((forged.verified, forged.start, forged.quote), (False, None, "a high dam"))
        self.assertTrue(forged.reason)

    def test_an_answer_has_its_citations_and_sources(self) -> None:
        for make in servers.CLIENTS:
            with self.subTest(make.__name__), make(self.url) as client:
                reply = client.chat(
                    "What is a weir?", model="up/m", collection="default", filter={"year": 1884}, max_tokens=50
                )
                self.assertEqual((reply.text, reply.model, reply.finish_reason), (ANSWER, "m-1", "stop"))
                self.assertEqual(reply.usage, weir.ChatUsage(9, 4, 13))
                self.assertEqual(reply.body["id"], "chatcmpl-1")
                self.check_sources(reply)
                sent = self.received[-1].json()
                self.assertEqual((sent["model"], sent["max_tokens"], "weir" in sent), ("m", 50, False))
                self.assertIn(TEXT, json.dumps(sent["messages"]))

    def test_a_stream_has_the_same_parts(self) -> None:
        for make in servers.CLIENTS:
            with self.subTest(make.__name__), make(self.url) as client:
                chunks = list(
                    client.chat_stream("What is a weir?", model="up/m", collection="default", filter={"year": 1884})
                )
                self.assertEqual("".join(part.text for part in chunks), ANSWER)
                self.assertGreater(len([part for part in chunks if part.text]), 3)
                self.assertEqual([part.finish_reason for part in chunks if part.finish_reason], ["stop"])
                self.assertEqual([part.usage for part in chunks if part.usage], [weir.ChatUsage(9, 4, 13)])
                (last,) = [part for part in chunks if part.sources]
                self.check_sources(last)

    def test_without_a_collection_the_model_answers_alone(self) -> None:
        for make in servers.CLIENTS:
            with make(self.url) as client:
                messages = [{"role": "system", "content": "Be short."}, {"role": "user", "content": "weirs?"}]
                reply = client.chat(messages, model="up/m", temperature=0, extra={"seed": 7})
                self.assertEqual((reply.text, reply.citations, reply.sources), (ANSWER, [], []))
                sent = self.received[-1].json()
                self.assertEqual((sent["messages"], sent["temperature"], sent["seed"]), (messages, 0, 7))

    def test_wrong_arguments_are_refused_before_they_are_sent(self) -> None:
        before = len(self.received)
        for make in servers.CLIENTS:
            with make(self.url) as client:
                with self.assertRaisesRegex(ValueError, "`top_k` chooses sources; name the `collection`"):
                    client.chat("weirs?", model="up/m", top_k=3)
                with self.assertRaisesRegex(ValueError, "lone surrogate"):
                    client.chat("\ud800", model="up/m")
                with self.assertRaisesRegex(TypeError, "at least one message"):
                    client.chat([], model="up/m")
                with self.assertRaises(weir.NotFound):
                    client.chat("weirs?", model="up/m", collection="absent")
                with self.assertRaises(weir.NotFound):
                    list(client.chat_stream("weirs?", model="up/m", collection="absent"))
        self.assertEqual(len(self.received), before)

    def check(self, reply: Scripted, kind: type[Exception], message: str, parts: int = 0) -> None:
        """A stream of a server that is not a gateway: its parts, and the error that ends it, after one request."""
        for make in servers.CLIENTS:
            with self.subTest(make.__name__), scripted(reply) as (url, received), make(url, retries=2) as client:
                read: list[str] = []
                with self.assertRaisesRegex(kind, message):
                    for part in client.chat_stream("a", model="m"):
                        read.append(part.text)
                self.assertEqual((len(read), len(received)), (parts, 1))

    def test_a_stream_that_breaks_never_looks_complete(self) -> None:
        two = stream(*PARTS[:2], end="")
        self.check(Scripted(body=two, headers=EVENTS), weir.WeirConnectionError, "before the answer was complete", 2)
        self.check(Scripted(body=two, headers=EVENTS, is_cut=True), weir.WeirConnectionError, "broke", 2)
        error = {"error": {"message": "the upstream's stream broke", "code": "upstream_error"}}
        self.check(Scripted(body=stream(*PARTS[:2], error), headers=EVENTS), weir.ServerError, "stream broke", 2)
        self.check(Scripted(body=b"data: x\n\n", headers=EVENTS), weir.ReplyError, "not JSON")
        self.check(Scripted(502, {"error": {"message": "no", "code": "upstream_error"}}), weir.ServerError, "no")

    def test_a_request_that_reached_nobody_is_repeated(self) -> None:
        busy = Scripted(503, {"error": {"message": "busy"}}, {"retry-after-ms": "1"})
        for make in servers.CLIENTS:
            with scripted(busy, Scripted(body=STREAM, headers=EVENTS)) as (url, received), make(url) as client:
                self.assertEqual("".join(part.text for part in client.chat_stream("a", model="m")), ANSWER)
                self.assertEqual(len(received), 2)
            with scripted(busy, Scripted(body=WHOLE)) as (url, received), make(url) as client:
                self.assertEqual(client.chat("a", model="m").text, ANSWER)
                self.assertEqual(len(received), 2)

    def test_a_reply_at_once_is_one_part(self) -> None:
        for make in servers.CLIENTS:
            with scripted(Scripted(body=WHOLE)) as (url, _), make(url) as client:
                (only,) = list(client.chat_stream("a", model="m"))
                self.assertEqual((only.text, only.finish_reason), (ANSWER, "stop"))

    def test_a_stream_may_be_left_early(self) -> None:
        with scripted(Scripted(body=STREAM, headers=EVENTS)) as (url, _), weir.Weir(url) as client:
            parts = client.chat_stream("a", model="m")
            self.assertEqual(next(parts).text, ANSWER[:7])
            parts.close()
            self.assertEqual(next(client.chat_stream("a", model="m")).text, ANSWER[:7])


if __name__ == "__main__":
    unittest.main()
