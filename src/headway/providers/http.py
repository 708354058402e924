"""One HTTP request, its answer whole or an error of our tree; never a retry, never a sleep.

Maps broken exchanges and statuses to errors. It does not read bodies: the connector does.
"""

import json
import logging
import re
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from http.cookiejar import DefaultCookiePolicy
from typing import Any

import httpx

from headway import __version__
from headway.clock import Clock, ScaledClock
from headway.errors import (
    PermanentError,
    ProviderError,
    ThrottledError,
    TimedOutError,
    TooLargeError,
    TransientError,
    UnauthorizedError,
    UnreadableError,
    UnsentError,
)
from headway.providers.excerpt import RETRY_AFTER_S_MAX, excerpt
from headway.providers.http_deadline import SEND_WITHIN_S, DeadlineTransport

BODY_BYTES_MAX = 5_000_000
HIDDEN_CHARS_MIN = 8  # shorter ones are no secret, and may occur in a body by chance
# 430 is how Shopify's filter says that requests come too fast.
THROTTLED = frozenset({429, 430})
# Statuses that may pass by themselves, whatever the request.
PASSING = frozenset({401, 403, 408})
NUMBER = re.compile(r"\s*(-?)([0-9]{1,30}(?:\.[0-9]{0,30})?)\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpResponse:
    """A whole answer, whatever its status."""

    status: int
    headers: httpx.Headers
    body: bytes

    @property
    def document(self) -> dict[str, Any] | None:
        """The JSON object in the body; None if it is a page, or anything else."""
        try:
            document = json.loads(self.body)
        except (ValueError, RecursionError):
            return None
        return document if isinstance(document, dict) else None

    @property
    def is_page(self) -> bool:
        """True if the body is a page for people: something in front of the API answered."""
        return self.body.lstrip()[:1] == b"<"


Observer = Callable[[HttpResponse], object]
_OBSERVER: ContextVar[Observer | None] = ContextVar("observer", default=None)


@contextmanager
def observed(observer: Observer) -> Iterator[None]:
    """Show every whole answer that is read here meanwhile to an observer, as it came."""
    token = _OBSERVER.set(observer)
    try:
        yield
    finally:
        _OBSERVER.reset(token)


def build_client(
    url: str, *, clock: Clock, timeout_s: float, transport: httpx.BaseTransport | None = None
) -> httpx.Client:
    """Make the client of one outside API; a transport stands in for the network."""
    # Sockets use real seconds; a transport of ours uses the clock that it was created with.
    speed = clock.speed if isinstance(clock, ScaledClock) and transport is None else 1.0
    soon_s = min(SEND_WITHIN_S, timeout_s) / speed
    client = httpx.Client(
        base_url=url,
        transport=transport or DeadlineTransport(clock=clock, timeout_s=timeout_s, speed=speed),
        timeout=httpx.Timeout(timeout_s / speed, connect=soon_s, write=soon_s, pool=soon_s),
        follow_redirects=False,
        trust_env=False,
        headers={
            "User-Agent": f"headway/{__version__}",
            "Accept-Encoding": "identity",
            "Connection": "close",
        },
    )
    client.cookies.jar.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    # At DEBUG httpcore writes the headers of replies, and one of them is a token.
    logging.getLogger("httpcore").setLevel(logging.INFO)
    return client


def exchange(
    client: httpx.Client,
    request: httpx.Request,
    *,
    clock: Clock,
    timeout_s: float,
    provider: str,
    hide: Collection[str] = (),
) -> HttpResponse:
    """Send one request and read its whole answer within the timeout; raises ProviderError.

    What is in `hide` is cut from the body, should the other side echo it.
    """
    body = bytearray()
    response = download(
        client,
        request,
        clock=clock,
        timeout_s=timeout_s,
        provider=provider,
        write=body.extend,
        bytes_max=BODY_BYTES_MAX,
        hide=hide,
    )
    answer = replace(response, body=response.body or _without(bytes(body), hide))
    if (observer := _OBSERVER.get()) is not None:
        observer(answer)
    return answer


def download(
    client: httpx.Client,
    request: httpx.Request,
    *,
    clock: Clock,
    timeout_s: float,
    provider: str,
    write: Callable[[bytes], object],
    bytes_max: int,
    hide: Collection[str] = (),
) -> HttpResponse:
    """Send one request and write its body piece by piece; raises ProviderError.

    Only the body of an error status is in the response; it is short.
    """
    deadline_s = clock.monotonic() + timeout_s
    error_body = bytearray()
    try:
        response = client.send(request, stream=True)
        try:
            is_error = response.status_code >= httpx.codes.BAD_REQUEST
            _read(
                response,
                error_body.extend if is_error else write,
                bytes_max=BODY_BYTES_MAX if is_error else bytes_max,
                clock=clock,
                deadline_s=deadline_s,
                provider=provider,
            )
        finally:
            response.close()
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        # The text of such an error may quote a header, and a header may be a secret.
        raise _broken(error, provider) from None
    body = _without(bytes(error_body), hide)
    return HttpResponse(status=response.status_code, headers=response.headers, body=body)


def check_status(answer: HttpResponse, *, provider: str, shows_body: bool) -> None:
    """Raise the error of a status other than 2xx, with the start of the body if allowed."""
    if 200 <= answer.status < 300:  # noqa: PLR2004 - the class of good answers
        return
    detail = excerpt(answer.body) if shows_body else ""
    text = f"{provider} answered {answer.status}" + (f": {detail}" if detail else "")
    if answer.status in THROTTLED:
        wait_s = retry_after_s(answer.headers)
        raise ThrottledError(text, provider=provider, status=answer.status, retry_after_s=wait_s)
    raise _error_class(answer)(text, provider=provider, status=answer.status)


def retry_after_s(headers: httpx.Headers) -> float | None:
    """Read Retry-After: seconds, whole or not, or a date measured from the reply's own Date."""
    value = headers.get("retry-after", "")
    if number := NUMBER.fullmatch(value):
        sign, seconds = number.groups()
        return 0.0 if sign else min(float(seconds), RETRY_AFTER_S_MAX)
    until, sent_at = _http_date(value), _http_date(headers.get("date", ""))
    if until is None or sent_at is None:
        return None
    return min(max((until - sent_at).total_seconds(), 0.0), RETRY_AFTER_S_MAX)


def _without(body: bytes, hide: Collection[str]) -> bytes:
    """Return a body without these secrets."""
    for secret in hide:
        if len(secret) >= HIDDEN_CHARS_MIN:
            body = body.replace(secret.encode(), b"***")
    return body


def _read(
    response: httpx.Response,
    write: Callable[[bytes], object],
    *,
    bytes_max: int,
    clock: Clock,
    deadline_s: float,
    provider: str,
) -> None:
    """Read the body before the deadline; the body of an error may be incomplete."""
    size, is_error = 0, response.status_code >= httpx.codes.BAD_REQUEST
    if not is_error and response.headers.get("content-encoding", "identity") != "identity":
        raise UnreadableError(f"{provider} sent a compressed reply unasked", provider=provider)
    try:
        for chunk in response.iter_raw():
            size += len(chunk)
            if size > bytes_max:
                if is_error:
                    break
                megabytes = bytes_max // 1_000_000
                raise TooLargeError(f"{provider} sent more than {megabytes} MB", provider=provider)
            write(chunk)
            if clock.monotonic() > deadline_s:
                raise httpx.ReadTimeout("the call's deadline has passed")
    except httpx.HTTPError:
        if not is_error:
            raise


def _broken(error: Exception, provider: str) -> ProviderError:
    name = type(error).__name__
    if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.PoolTimeout):
        return UnsentError(f"no connection to {provider} ({name})", provider=provider)
    if isinstance(error, httpx.LocalProtocolError | httpx.UnsupportedProtocol | httpx.InvalidURL):
        return PermanentError(f"no valid request to {provider} ({name})", provider=provider)
    if isinstance(error, httpx.TimeoutException):
        return TimedOutError(f"no answer from {provider} in time", provider=provider)
    return TimedOutError(f"the connection to {provider} broke ({name})", provider=provider)


def _error_class(
    answer: HttpResponse,
) -> type[UnreadableError | TransientError | UnauthorizedError | PermanentError]:
    """Return the error of a status; a page or a 403 says nothing of the token or the request."""
    status = answer.status
    if status < httpx.codes.BAD_REQUEST:  # a redirect: nothing here was promised to move
        return UnreadableError
    if status == httpx.codes.UNAUTHORIZED and answer.document is not None:
        return UnauthorizedError
    is_permanent = status not in PASSING and status < httpx.codes.INTERNAL_SERVER_ERROR
    return PermanentError if is_permanent and not answer.is_page else TransientError


def _http_date(value: str) -> datetime | None:
    try:
        parsed = parsedate_to_datetime(value)
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)
