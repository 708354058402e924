"""Checks for every client: limits are used, faults raise the right error, no secret is shown."""

from collections.abc import Iterator, Mapping

from headway.errors import (
    PermanentError,
    ProviderError,
    ThrottledError,
    TimedOutError,
    TransientError,
    UnauthorizedError,
    UnreadableError,
    UnsentError,
)
from headway_lab.conformance.world import ProviderWorld
from headway_lab.simulators.reply import SimReply

MEGABYTE = 1_000_000
RETRY_AFTER_S = 7
HOSTILE = {
    "HTML": b"<html><body>Down for maintenance</body></html>",
    "truncated JSON": b'{"results": [{"id": 1, "na',
    "an empty body": b"",
    "bytes that are not text": b"\xff\xfe\x00\x01",
    "a number": b"7",
    "a string": b'"ok"',
    "null": b"null",
    "an empty list": b"[]",
    "deeply nested JSON": b"[" * 100_000,
}
Kinds = type[ProviderError] | tuple[type[ProviderError], ...]


def _fails(
    world: ProviderWorld,
    kind: Kinds,
    answer: str,
    *,
    status: int = 200,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> ProviderError:
    """Return the error of one call that gets this answer."""
    world.transport.fault = SimReply(status=status, body=body, headers=headers or {})
    return _error(world, kind, answer)


def _error(world: ProviderWorld, kind: Kinds, answer: str) -> ProviderError:
    kinds = kind if isinstance(kind, tuple) else (kind,)
    expected = " or ".join(sorted(kind.__name__ for kind in kinds))
    before = len(world.transport.requests)
    result: object = None
    try:
        world.call()
    except Exception as error:  # noqa: BLE001 - any other one is what this check looks for
        result = error
    assert isinstance(result, kinds), f"{answer} must raise {expected}, not {result!r}"
    requests = len(world.transport.requests) - before
    assert requests <= 1, f"one call made {requests} requests; the engine repeats, not a client"
    assert result.provider == world.provider.name, f"{answer}: the error names another provider"
    return result


def one_call_is_one_request(world: ProviderWorld) -> None:
    """Check that an ordinary call succeeds and sends exactly one request."""
    before = len(world.transport.requests)
    world.call()
    requests = len(world.transport.requests) - before
    assert requests == 1, f"a call costs one permit, but {requests} requests were sent"


def every_call_passes_declared_limits(world: ProviderWorld) -> None:
    """Check that the client names at least one limit, and only limits that its record declares."""
    assert world.used_keys, "the client names no limit key, so nothing limits its calls"
    unknown = set(world.used_keys) - set(world.limit_keys)
    assert not unknown, f"the record declares no limit for {sorted(unknown)}"


def limits_in_replies_are_read(world: ProviderWorld) -> None:
    """Check that the client reports the limits in its last reply, and only those."""
    world.call()
    reported = world.observations
    assert bool(reported) == world.reports_limit, f"after a good reply it reports {reported}"
    if not reported:
        return
    assert set(reported) <= set(world.used_keys), "a reported limit is not one of the client's"
    assert all(observation.used >= 0 for observation in reported.values()), f"{reported}"
    _fails(world, TransientError, "status 500 without headers", status=500)
    assert not world.observations, "the limits of an older reply are reported again"


def unexpected_bodies_are_unreadable(world: ProviderWorld) -> None:
    """Check that an unexpected body raises UnreadableError, never another exception."""
    for name, body in HOSTILE.items():
        _fails(world, UnreadableError, f"{name} with status 200", body=body)


def a_huge_body_is_not_read_to_its_end(world: ProviderWorld) -> None:
    """Check that a body above `bytes_max` is refused as soon as it is too large."""
    sent = 0

    def pieces() -> Iterator[bytes]:
        nonlocal sent
        while sent < 2 * world.bytes_max:
            sent += MEGABYTE
            yield b" " * MEGABYTE

    world.transport.stream = pieces
    _error(world, UnreadableError, f"a body of more than {world.bytes_max:,} bytes")
    assert sent <= world.bytes_max + MEGABYTE, f"{sent:,} bytes were read of a body too large"


def throttling_carries_the_time_to_wait(world: ProviderWorld) -> None:
    """Check that status 429 raises ThrottledError with the time of Retry-After, if it has one."""
    for headers, wait_s in (({"Retry-After": str(RETRY_AFTER_S)}, RETRY_AFTER_S), ({}, None)):
        error = _fails(world, ThrottledError, "status 429", status=429, headers=headers)
        shown_s = getattr(error, "retry_after_s", None)
        assert shown_s == wait_s, f"retry_after_s is {shown_s} with the headers {headers}"


def a_refused_credential_is_unauthorized(world: ProviderWorld) -> None:
    """Check that status 401 with the body of a refusal raises UnauthorizedError."""
    _fails(world, UnauthorizedError, "status 401", status=401, body=world.refusal)


def a_page_is_no_refused_credential(world: ProviderWorld) -> None:
    """Check that pages, and a 403 or 404 of unknown meaning, raise anything but UnauthorizedError.

    Something in front of the API may send them; a connection must not end for that.
    """
    replies = [(status, HOSTILE["HTML"]) for status in (400, 401, 403, 404)]
    for status, body in [*replies, (403, b"{}"), (404, b"{}")]:
        kinds = (PermanentError, TransientError)
        _fails(world, kinds, f"status {status} with {body!r}", status=status, body=body)


def server_errors_are_transient(world: ProviderWorld) -> None:
    """Check that status 500 and above raises TransientError, with any body."""
    for status in (500, 502, 503, 504):
        error = _fails(world, TransientError, f"{status}", status=status, body=HOSTILE["HTML"])
        assert not isinstance(error, UnreadableError), f"status {status} is not a reply to read"


def silence_is_a_timeout(world: ProviderWorld) -> None:
    """Check that no answer and a broken connection raise TimedOutError.

    The provider may have counted the request.
    """
    for outcome in ("hang", "drop"):
        world.transport.fault = SimReply(outcome=outcome)
        _error(world, TimedOutError, f"no answer ({outcome})")


def no_connection_is_unsent(world: ProviderWorld) -> None:
    """Check that a refused connection raises UnsentError: the request was not sent."""
    world.transport.fault = SimReply(outcome="refuse")
    _error(world, UnsentError, "no connection")


def secrets_are_never_shown(world: ProviderWorld) -> None:
    """Check that no error and no repr shows a secret, even if the provider echoes it."""
    assert world.secrets, "the world must name its secrets, or there is nothing to check"
    echo = " ".join(world.secrets).encode()
    texts = [repr(world.client), repr(world.context), repr(world.provider)]
    for status in (200, 400, 403, 429, 500, 401):
        error = _fails(world, ProviderError, f"{status}", status=status, body=echo)
        texts += [str(error), repr(error)]
    for place, secret in enumerate(world.secrets):
        shown = [text.replace(secret, "<SECRET>") for text in texts if secret in text]
        assert not shown, f"secret no. {place} of the world is shown: {shown[0]}"
