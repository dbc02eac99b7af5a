"""The errors of the client: one tree below `WeirError`. Every message has the remedy."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import httpx

if TYPE_CHECKING:
    from weir._types import Job

# Characters of a body that is not Weir's, in a message.
_EXCERPT_CHARACTERS_MAX = 200


class WeirError(Exception):
    """Any failure of a call."""


class WeirConnectionError(WeirError, ConnectionError):
    """The gateway could not be reached, or the connection broke before the reply was complete."""


class WeirTimeoutError(WeirError, TimeoutError):
    """The gateway did not reply, or a job did not end, in time."""


class ReplyError(WeirError):
    """The reply is not one of Weir's API: another program, or a proxy that changes replies."""


class JobError(WeirError):
    """A job failed or was cancelled; `job` is its last state."""

    def __init__(self, job: Job) -> None:
        reason = job.error or "no reason is known"
        super().__init__(
            f"job {job.job_id} {job.status}: {reason}; ingest the documents again: those stored are not embedded twice"
        )
        self.job = job


class ApiError(WeirError):
    """The gateway replied with an error.

    `code` is stable and listed in docs/errors.md; it is None when the reply is not in a format of Weir, as that of a
    proxy. `message` has the remedy, `param` names the parameter, `body` is the parsed JSON or the text of the reply.
    """

    def __init__(
        self, status: int, code: str | None, message: str, param: str | None, request_id: str | None, body: object
    ) -> None:
        marks = [mark for mark in (code, f"request {request_id}" if request_id else None) if mark]
        super().__init__(f"{message} ({', '.join(marks)})" if marks else message)
        self.status = status
        self.code = code
        self.message = message
        self.param = param
        self.request_id = request_id
        self.body = body


class BadRequest(ApiError):
    """400, and every other 4xx without a class of its own: the request has to be changed."""


class Unauthorized(ApiError):
    """401: the API key is missing or not valid."""


class Forbidden(ApiError):
    """403: the caller may not do this."""


class NotFound(ApiError):
    """404: no such collection, document, job or model."""


class Conflict(ApiError):
    """409: the collection exists with other settings, or the job has ended."""


class PreconditionFailed(ApiError):
    """412: the document does not have the version that the call requires."""


class TooLarge(ApiError):
    """413: the request, or a part of it, has too many bytes."""


class RateLimited(ApiError):
    """429: too many requests of this caller."""


class ServerError(ApiError):
    """5xx: the gateway failed."""


class Overloaded(ServerError):
    """503: the gateway is at its capacity or not ready; the same request can succeed later."""


_CLASSES: dict[int, type[ApiError]] = {
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    412: PreconditionFailed,
    413: TooLarge,
    429: RateLimited,
    503: Overloaded,
}


def of_problem(status: int, body: object, request_id: str | None = None) -> ApiError | None:
    """The error that a JSON body describes: Weir's, OpenAI's, or TEI's. None if it is none of them."""
    if not isinstance(body, dict):
        return None
    error = body.get("error")
    fields = error if isinstance(error, dict) else {"message": error}
    message = _text(body.get("detail")) or _text(fields.get("message"))
    if message is None:
        return None
    code = _text(body.get("code")) or _text(fields.get("code")) or _text(body.get("error_type"))
    request_id = _text(body.get("request_id")) or request_id
    return _class(status)(status, code, message, _text(fields.get("param")), request_id, body)


def of_reply(status: int, headers: Mapping[str, str], content: bytes, url: str) -> WeirError:
    """The error of a reply whose status is not a success."""
    request_id = headers.get("x-request-id")
    text = content.decode("utf-8", "replace")
    try:
        problem = of_problem(status, json.loads(text), request_id)
    except (ValueError, RecursionError):
        problem = None
    if problem is not None:
        return problem
    if 300 <= status < 400:
        return ReplyError(
            f"{url} redirects to {headers.get('location', 'an unnamed address')}; set base_url to that address"
        )
    excerpt = text[:_EXCERPT_CHARACTERS_MAX].strip() or "no text"
    message = (
        f"{url} answered {status}, and not as Weir does: {excerpt}; check base_url, and any proxy before the gateway"
    )
    return _class(status)(status, None, message, None, request_id, text)


def of_transport(error: httpx.RequestError, url: str) -> WeirError:
    """The error of a request without a complete reply."""
    reason = str(error) or type(error).__name__
    if is_refused_by_tls(error):
        return WeirConnectionError(
            f"no TLS connection to {url}: {reason}; check the certificate, and http:// or https:// of base_url"
        )
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout)):
        return WeirConnectionError(
            f"the gateway at {url} can't be reached: {reason}; start it with `weir serve`, or set base_url or WEIR_URL"
        )
    if isinstance(error, httpx.PoolTimeout):
        return WeirTimeoutError(f"all connections to {url} were busy; send fewer requests at once, or raise `timeout`")
    if isinstance(error, httpx.TimeoutException):
        return WeirTimeoutError(f"{url} did not reply in time: {reason}; raise `timeout`, or request less at once")
    if isinstance(error, (httpx.DecodingError, httpx.ProxyError, httpx.UnsupportedProtocol)):
        return ReplyError(f"{url} can't be called: {reason}; check base_url, and any proxy before the gateway")
    return WeirConnectionError(
        f"the connection to {url} broke: {reason}; the request may have been executed: check before you repeat it"
    )


def is_refused_by_tls(error: BaseException) -> bool:
    """Whether TLS refused the connection, so that every further attempt would fail too."""
    return any(isinstance(cause, ssl.SSLError) or "[SSL" in str(cause) for cause in _causes(error))


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__


def _class(status: int) -> type[ApiError]:
    return _CLASSES.get(status, BadRequest if status < 500 else ServerError)


def _text(value: Any) -> str | None:  # noqa: ANN401
    return value if isinstance(value, str) and value else None
