"""Checks for every client: faults become the right error, and no secret is shown."""

from collections.abc import Mapping

from headway.errors import (
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

HOSTILE = {
    "HTML": b"<html><body>Down for maintenance</body></html>",
    "truncated": b'{"results": [{"id": 1, "na',
    "empty": b"",
    "not text": b"\xff\xfe\x00\x01",
    "a number": b"7",
    "a text": b'"ok"',
    "null": b"null",
    "an empty list": b"[]",
    "deeply nested": b"[" * 100_000,
}


def _fails(
    world: ProviderWorld,
    kind: type[ProviderError],
    *,
    status: int = 200,
    body: bytes = b"",
    headers: Mapping[str, str] | None = None,
) -> ProviderError:
    """Return the error of one call that is answered like this."""
    world.transport.fault = SimReply(status=status, body=body, headers=headers or {})
    return _error(world, kind)


def _error(world: ProviderWorld, kind: type[ProviderError]) -> ProviderError:
    before = len(world.transport.requests)
    try:
        world.call()
    except kind as error:
        assert len(world.transport.requests) - before <= 1, "a call is at most one request"
        return error
    raise AssertionError(f"the call did not raise {kind.__name__}")


def one_call_is_one_request(world: ProviderWorld) -> None:
    """Check that an ordinary call succeeds and sends exactly one request."""
    before = len(world.transport.requests)
    world.call()
    assert len(world.transport.requests) - before == 1


def every_call_passes_declared_limits(world: ProviderWorld) -> None:
    """Check that the client names at least one limit, and only limits that its record declares."""
    assert world.used_keys, "a client without a limit could flood its provider"
    assert set(world.used_keys) <= set(world.limit_keys)


def hostile_bodies_are_unreadable(world: ProviderWorld) -> None:
    """Check that an unexpected body raises UnreadableError, never another exception."""
    for name, body in HOSTILE.items():
        error = _fails(world, UnreadableError, body=body)
        assert error.provider == world.provider.name, name


def a_huge_body_is_unreadable(world: ProviderWorld) -> None:
    """Check that a body above the size limit is refused before it is read to its end."""
    if world.bytes_max <= 5_000_000:  # noqa: PLR2004 - larger bodies take too long to make
        _fails(world, UnreadableError, body=b" " * (world.bytes_max + 1))


def throttling_tells_how_long_to_wait(world: ProviderWorld) -> None:
    """Check that status 429 raises ThrottledError with the time of Retry-After, if it has one."""
    error = _fails(world, ThrottledError, status=429, headers={"Retry-After": "7"})
    assert isinstance(error, ThrottledError)
    assert error.retry_after_s == 7  # noqa: PLR2004 - as above
    error = _fails(world, ThrottledError, status=429)
    assert isinstance(error, ThrottledError)
    assert error.retry_after_s is None


def a_refused_credential_is_unauthorized(world: ProviderWorld) -> None:
    """Check that status 401 raises UnauthorizedError."""
    _fails(world, UnauthorizedError, status=401, body=b"{}")


def server_errors_are_transient(world: ProviderWorld) -> None:
    """Check that status 500 and above raises TransientError, whatever the body is."""
    for status in (500, 502, 503, 504):
        _fails(world, TransientError, status=status, body=HOSTILE["HTML"])


def silence_is_a_timeout(world: ProviderWorld) -> None:
    """Check that no answer and a broken connection raise TimedOutError.

    The request may have been counted.
    """
    for outcome in ("hang", "drop"):
        world.transport.fault = SimReply(outcome=outcome)
        _error(world, TimedOutError)


def no_connection_is_unsent(world: ProviderWorld) -> None:
    """Check that a refused connection raises UnsentError: the request never left."""
    world.transport.fault = SimReply(outcome="refuse")
    _error(world, UnsentError)


def secrets_are_never_shown(world: ProviderWorld) -> None:
    """Check that no error and no repr shows a secret, even if the other side echoes it."""
    assert world.secrets, "a world must name its secrets, or there is nothing to check"
    echo = " ".join(world.secrets).encode()
    texts = [repr(world.client), repr(world.context), repr(world.provider)]
    for status in (200, 400, 403, 429, 500, 401):
        error = _fails(world, ProviderError, status=status, body=echo)
        texts += [str(error), repr(error)]
    for secret in world.secrets:
        assert not any(secret in text for text in texts)


CHECKS = (
    one_call_is_one_request,
    every_call_passes_declared_limits,
    hostile_bodies_are_unreadable,
    a_huge_body_is_unreadable,
    throttling_tells_how_long_to_wait,
    a_refused_credential_is_unauthorized,
    server_errors_are_transient,
    silence_is_a_timeout,
    no_connection_is_unsent,
    secrets_are_never_shown,
)
