"""Rules that take several requests: retries, waiting for jobs, ingest in batches.

A flow is a generator: it yields what has to be done, a `Request` or a `Sleep`, and is sent the `Reply`. The clients run
flows with blocking or asynchronous IO, so that each rule exists once.
"""

from __future__ import annotations

import email.utils
import itertools
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, TypeVar, Union

import httpx

from weir import _calls as calls
from weir._embeddings import Embeddings, embed
from weir._errors import JobError, WeirError, WeirTimeoutError, is_refused_by_tls, of_reply, of_transport
from weir._http import Call, Reply, Request, Settings
from weir._types import Job

T = TypeVar("T")

# The first and the longest delay between two attempts where the gateway names none.
DELAY_SECONDS_FIRST = 0.1
DELAY_SECONDS_MAX = 5.0
# All delays of a call together: the gateway's longest Retry-After.
RETRY_SECONDS_MAX = 120.0
# The first and the longest delay between two looks at a job.
POLL_SECONDS_FIRST = 0.01
POLL_SECONDS_MAX = 0.5

# The gateway refused the request before it did anything, so that every call can be repeated.
_REFUSED = frozenset({429, 503})
# The reply was lost, or an upstream failed, so that only repeatable calls are repeated.
_UNCERTAIN = frozenset({502, 504})


@dataclass(frozen=True)
class Sleep:
    """A delay."""

    seconds: float


Step = Union[Request, Sleep]
Flow = Generator[Step, Any, T]


class Flows:
    """The flows of one client."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._default_model: str | None = None

    def call(self, call: Call[T]) -> Flow[T]:
        """Repeats an attempt until it succeeds, fails for good, or the retries are used up."""
        waited = 0.0
        for attempt, backoff in enumerate(_backoff(DELAY_SECONDS_FIRST, DELAY_SECONDS_MAX)):
            delay: float | None = None
            cause: BaseException | None = None
            try:
                reply: Reply = yield call.request
            except httpx.RequestError as error:
                failure, cause = of_transport(error, self._settings.base_url), error
                if _was_not_sent(error) or (call.is_repeatable and _is_broken(error)):
                    delay = backoff
            else:
                if reply.status < 300 or reply.status in call.accepts:
                    return call.parse(reply)
                failure = of_reply(reply.status, reply.headers, reply.body, self._settings.base_url)
                if _is_retryable(reply, call):
                    named = _retry_after(reply.headers)
                    delay = backoff if named is None else named
            if delay is None or attempt >= self._settings.retries or waited + delay > RETRY_SECONDS_MAX:
                raise failure from cause
            yield Sleep(delay)
            waited += delay
        raise AssertionError("the backoff has no end")

    def call_once(self, call: Call[T]) -> Flow[T]:
        """One attempt, of a request whose body can't be sent again."""
        try:
            reply: Reply = yield call.request
        except httpx.RequestError as error:
            raise of_transport(error, self._settings.base_url) from error
        if reply.status >= 300:
            raise of_reply(reply.status, reply.headers, reply.body, self._settings.base_url)
        return call.parse(reply)

    def embed(self, texts: Sequence[str], options: Mapping[str, Any]) -> Flow[Embeddings]:
        """Embeds texts by the model of `options`, or by the first one of the gateway."""
        model = options.get("model") or (yield from self._embedding_model())
        return (yield from self.call(embed(texts, {**options, "model": model})))

    def _embedding_model(self) -> Flow[str]:
        if self._default_model is None:
            models = yield from self.call(calls.list_models())
            able = [model.id for model in models if "embeddings" in model.capabilities]
            if not able:
                raise WeirError("the gateway has no embedding model; add a `[[models]]` entry to its configuration")
            self._default_model = able[0]
        return self._default_model

    def wait_for_job(self, job: str | Job, timeout: float | None, watch: Callable[[Job], None]) -> Flow[Job]:
        """Looks at a job until it ends; `watch` gets each state. `JobError` when it failed or was cancelled."""
        job_id = job if isinstance(job, str) else job.job_id
        state = None if isinstance(job, str) else job
        begun = time.monotonic()
        for delay in _backoff(POLL_SECONDS_FIRST, POLL_SECONDS_MAX):
            if state is None:
                state = yield from self.call(calls.get_job(job_id))
            watch(state)
            if state.is_finished:
                return _completed(state)
            if timeout is not None and time.monotonic() - begun + delay > timeout:
                raise WeirTimeoutError(f"job {job_id} is {state.status} after {timeout} s; it continues: wait again")
            yield Sleep(delay)
            state = None
        raise AssertionError("the backoff has no end")


def _completed(job: Job) -> Job:
    if job.status != "completed":
        raise JobError(job)
    return job


def _backoff(first: float, longest: float) -> Iterator[float]:
    """Delays that double, without end."""
    return (min(first * 2**number, longest) for number in itertools.chain(range(32), itertools.repeat(32)))


def _was_not_sent(error: httpx.RequestError) -> bool:
    is_connecting = isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout))
    return is_connecting and not is_refused_by_tls(error)


def _is_broken(error: httpx.RequestError) -> bool:
    """Whether the connection broke, as when the gateway restarts. After a timeout the gateway may still be working."""
    return isinstance(error, (httpx.NetworkError, httpx.RemoteProtocolError)) and not is_refused_by_tls(error)


def _is_retryable(reply: Reply, call: Call[T]) -> bool:
    asked = reply.headers.get("x-should-retry", "").lower()
    if asked in ("true", "false"):
        return asked == "true"
    return reply.status in _REFUSED or (reply.status in _UNCERTAIN and call.is_repeatable)


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """The delay in seconds that the reply asks for."""
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(KeyError, ValueError):
            return max(0.0, float(headers[name]) * unit)
    with suppress(KeyError, ValueError, TypeError):
        until = email.utils.parsedate_to_datetime(headers["retry-after"])
        return max(0.0, (until - datetime.now(timezone.utc)).total_seconds())
    return None
