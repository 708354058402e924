"""A client of another Headway's API: one request, its reply, or the error of a refusal.

A POST carries an idempotency key, so that it may be sent again when the connection breaks: it is
done once. If the server asks it to wait, it waits, up to a limit. No error contains the API key.
"""

import json
import socket
import ssl
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

import httpx

from headway import __version__
from headway.clock import Clock, fresh_id
from headway.errors import (
    ConfigError,
    ConflictError,
    ForbiddenError,
    HeadwayError,
    InvalidError,
    NotFoundError,
    StoreError,
    TimedOutError,
    TooManyError,
    UnauthenticatedError,
    UnreadableError,
    UnsentError,
)
from headway.providers.http import retry_after_s

PROVIDER = "headway"
MAYBE_DONE = "the request may have been carried out"
CONNECT_S, ANSWER_S = 10.0, 120.0
WAIT_S_MIN, WAIT_S_MAX = 1.0, 30.0
WAIT_STATUSES = {409, 429, 503}
BAD = 400
NOT_SET_UP = "this server is not set up for that"
PROBLEM = "application/problem+json"
KINDS: dict[int, type[HeadwayError]] = {
    403: ForbiddenError,
    404: NotFoundError,
    409: ConflictError,
    503: StoreError,
}
Query = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiReply:
    """A good answer: its JSON, and the version and clock of the server that gave it."""

    json: Any
    version: str
    now: datetime
    speed: float | None


class HeadwayApi:
    """One server, called with one API key; `last` is the newest reply."""

    def __init__(
        self, url: str, key: str, *, clock: Clock, transport: httpx.BaseTransport | None = None
    ) -> None:
        self.url = _checked(url)
        self.last: ApiReply | None = None
        self._clock = clock
        self._client = httpx.Client(
            base_url=self.url,
            headers={
                "Authorization": f"Bearer {_printable(key)}",
                "User-Agent": f"headway/{__version__}",
            },
            timeout=httpx.Timeout(ANSWER_S, connect=CONNECT_S),
            follow_redirects=False,
            # A certificate of one's own may be named (SSL_CERT_FILE); a proxy would see the key.
            verify=httpx.create_ssl_context(trust_env=True),
            trust_env=False,
            transport=transport,
        )

    def close(self) -> None:
        """Let the connection go."""
        self._client.close()

    def request(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Mapping[str, Any] | None = None,
        wait_s_max: float = WAIT_S_MAX,
    ) -> ApiReply:
        """Send a request and read its reply; a POST is done once. Raises HeadwayError.

        If the server asks to wait, wait up to `wait_s_max` seconds in all.
        """
        if method == "POST":
            body = body or {}
        reply = self._ask(method, path, query=query, body=body, wait_s_max=wait_s_max)
        return self._read_reply(reply)

    def lines(
        self,
        path: str,
        query: Query | None = None,
        *,
        method: str = "GET",
        body: Mapping[str, Any] | None = None,
    ) -> Iterator[str]:
        """Yield the lines of a long answer as they come; raises HeadwayError, also under way."""
        request = self._client.build_request(method, path, params=_query_params(query), json=body)
        with self._explained():
            answer = self._client.send(request, stream=True)
            try:
                if answer.status_code >= BAD or answer.is_redirect:
                    answer.read()
                self._read_reply(answer, is_json=False)
                yield from answer.iter_lines()
            finally:
                answer.close()

    def _ask(
        self,
        method: str,
        path: str,
        *,
        query: Query | None = None,
        body: Mapping[str, Any] | None = None,
        wait_s_max: float = WAIT_S_MAX,
    ) -> httpx.Response:
        """Send a request until the reply does not ask us to wait."""
        headers = {"Idempotency-Key": fresh_id()} if method == "POST" else {}
        request = self._client.build_request(
            method, path, params=_query_params(query), json=body, headers=headers
        )
        waited_s, is_again = 0.0, False
        while True:
            try:
                with self._explained():
                    answer = self._client.send(request)
            except TimedOutError as error:
                # A timeout is no broken connection: a slow server would be slow again.
                if is_again or isinstance(error.__cause__, httpx.TimeoutException):
                    raise
                is_again = True
                continue
            wait_s = retry_after_s(answer.headers) if answer.status_code in WAIT_STATUSES else None
            if wait_s is None or waited_s + wait_s > wait_s_max:
                return answer
            wait_s = max(wait_s, WAIT_S_MIN)
            self._clock.sleep(wait_s)
            waited_s += wait_s

    def _read_reply(self, answer: httpx.Response, *, is_json: bool = True) -> ApiReply:
        """Read a reply; raises the error that it stands for if it is not a success."""
        if answer.is_redirect:
            where = _plain(answer.headers.get("location", ""))
            raise ConfigError(f"{self.url} redirects to {where}; use that address: --server URL")
        if answer.status_code >= BAD:
            self._refused(answer)
        try:
            reply = ApiReply(
                json=answer.json() if is_json else None,
                version=_plain(answer.headers["headway-version"]),
                now=datetime.fromisoformat(answer.headers["headway-now"]),
                speed=float(speed) if (speed := answer.headers.get("headway-speed")) else None,
            )
        except (KeyError, ValueError):
            self._raise_not_headway(answer)
        self.last = reply
        return reply

    def _refused(self, answer: httpx.Response) -> NoReturn:
        """Raise the error that a refusal stands for, with the same message."""
        status = answer.status_code
        try:
            problem = json.loads(answer.content)
            detail, title = _plain(problem["detail"]), problem["title"]
        except (ValueError, KeyError, TypeError):
            self._raise_not_headway(answer)
        if not answer.headers.get("content-type", "").startswith(PROBLEM):
            self._raise_not_headway(answer)
        if status == httpx.codes.UNAUTHORIZED:
            raise UnauthenticatedError(
                f"{self.url} does not accept the key in HEADWAY_API_KEY, or it expired; create"
                " one there: headway key create NAME --role operator"
            )
        if status == httpx.codes.TOO_MANY_REQUESTS:
            raise TooManyError(detail, retry_after_s=retry_after_s(answer.headers) or 0.0)
        is_known = "headway-version" in answer.headers
        if status in {httpx.codes.NOT_FOUND, httpx.codes.METHOD_NOT_ALLOWED} and not is_known:
            raise UnreadableError(
                f"{self.url} cannot be asked for that; it may run another version of headway than"
                f" this one, {__version__}",
                provider=PROVIDER,
            )
        if title == NOT_SET_UP:
            raise ConfigError(detail)
        raise KINDS.get(status, InvalidError)(detail)

    def _raise_not_headway(self, answer: httpx.Response) -> NoReturn:
        raise UnreadableError(
            f"the server at {self.url} is not Headway, or a proxy in front of it answered"
            f" (status {answer.status_code})",
            provider=PROVIDER,
            status=answer.status_code,
        )

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise our error for a broken exchange; the text of httpx's own may quote a header."""
        try:
            yield
        except httpx.ConnectTimeout as error:
            message = f"no connection to {self.url} within {CONNECT_S:g} s"
            raise UnsentError(message, provider=PROVIDER) from error
        except httpx.ConnectError as error:
            message = f"no connection to {self.url}: {_why(error)}"
            raise UnsentError(message, provider=PROVIDER) from error
        except httpx.TimeoutException as error:
            message = f"{self.url} did not answer within {ANSWER_S:g} s; {MAYBE_DONE}"
            raise TimedOutError(message, provider=PROVIDER) from error
        except httpx.HTTPError as error:
            message = f"the connection to {self.url} broke; {MAYBE_DONE}"
            raise TimedOutError(message, provider=PROVIDER) from error


def _checked(url: str) -> str:
    """Return the address of a server; raises ConfigError."""
    try:
        parsed = httpx.URL(url.strip())
    except httpx.InvalidURL:
        parsed = httpx.URL()
    if parsed.scheme not in {"http", "https"} or not parsed.host:
        raise ConfigError("--server: write an address such as https://headway.example.com")
    if parsed.userinfo or parsed.query or parsed.fragment:
        raise ConfigError("--server: write the address alone; the key is in HEADWAY_API_KEY")
    return str(parsed).rstrip("/")


def _printable(key: str) -> str:
    """Return a key that fits into a header; raises ConfigError that does not show it."""
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        raise ConfigError("HEADWAY_API_KEY is not a key; make one: headway key create")
    return key


def _query_params(query: Query | None) -> dict[str, Any]:
    return {name: value for name, value in (query or {}).items() if value not in (None, "", ())}


def _plain(text: object) -> str:
    return "".join(char if char.isprintable() else " " for char in str(text))


def _why(error: BaseException) -> str:
    """Return why a connection could not be made, from the chain of causes."""
    under: BaseException | None = error
    while under is not None:
        if isinstance(under, ssl.SSLCertVerificationError):
            return (
                f"its certificate is not valid ({under.verify_message}); set SSL_CERT_FILE to the"
                " certificate of its authority"
            )
        if isinstance(under, ssl.SSLError):
            return "the TLS handshake failed; does the server use http:// instead of https://?"
        if isinstance(under, socket.gaierror):
            return "there is no host of that name"
        if isinstance(under, ConnectionRefusedError):
            return "no server is running there; start it with: headway run"
        under = under.__cause__ or under.__context__
    return "it cannot be reached"
