"""The error tree. A class answers two questions: whose fault is it, and will trying again help?

HeadwayError
├── ConfigError                    ours to mend: a setting, a file, an address; never retried
├── StoreError                     the database cannot be reached or is not fit; nothing was done
├── BrokerError                    messages cannot be sent; the work waits in the database
├── RequestError(status_code)      the caller's
│   ├── UnauthenticatedError       nobody we know
│   ├── ForbiddenError             known, but not allowed to
│   ├── NotFoundError
│   ├── ConflictError
│   ├── InvalidError
│   └── TooManyError               asked too often; retry_after_s says how long to wait
├── ConnectorError(provider)       the other side's; no listing is charged for it
│   ├── TransientError             timeout, 5xx, unreadable reply; trying again may help
│   │   ├── TimedOutError          no answer in time: the request may have been counted
│   │   ├── UnsentError            no connection: the request never left
│   │   ├── UnreadableError        an answer that is not what was promised
│   │   ├── AppRefusedError        our own app is refused, or has no secret: ours to mend
│   │   └── ThrottledError         told to wait; retry_after_s says how long, if it was said
│   ├── UnauthorizedError          the credential is refused; refresh it, then try again
│   └── PermanentError             4xx: this request will never be accepted
└── InvariantError                 a bug; logged, alerted, never retried

"Not yet", "budget spent" and "no seat" are not errors but values, because they are normal.
"""


class HeadwayError(Exception):
    """Anything Headway raises on purpose; its text is one line fit for a person."""


class ConfigError(HeadwayError):
    """A setting, file or address is wrong; the text says which and what to do."""


class StoreError(HeadwayError):
    """The database cannot be reached or is not fit for use; nothing was done."""


class BrokerError(HeadwayError):
    """The broker of a scale-out cannot be reached; nothing is lost, it waits in the database."""


class RequestError(HeadwayError):
    """The caller asked for something that cannot be done as asked."""

    status_code = 400


class UnauthenticatedError(RequestError):
    """The caller has no key or session that is known; the text says how to get one."""

    status_code = 401


class ForbiddenError(RequestError):
    """The caller is known, and may not do this."""

    status_code = 403


class NotFoundError(RequestError):
    """The thing asked for does not exist."""

    status_code = 404


class ConflictError(RequestError):
    """The thing asked for collides with what is there."""

    status_code = 409


class InvalidError(RequestError):
    """The input is malformed; the text names the field."""

    status_code = 422


class TooManyError(RequestError):
    """The caller asks too often."""

    status_code = 429

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ProviderError(HeadwayError):
    """An outside API failed; no listing is to blame. `ended` is the word that metrics have."""

    ended = "failed"

    def __init__(self, message: str, *, provider: str, status: int | None = None) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status


class TransientError(ProviderError):
    """The other side failed in a way that may pass: 5xx, broken connection."""


class TimedOutError(TransientError):
    """No answer in time; the request may well have been counted."""

    ended = "timed_out"


class UnsentError(TransientError):
    """No connection could be made; the request never left."""

    ended = "unsent"


class UnreadableError(TransientError):
    """The answer is not what was promised: HTML, truncated JSON, an error in a 200."""

    ended = "unreadable"


class AppRefusedError(TransientError):
    """Our own app's key or secret is refused or missing; no seller can help, nor is to blame."""

    ended = "app_refused"


class ThrottledError(TransientError):
    """The other side told us to wait."""

    ended = "throttled"

    def __init__(
        self, message: str, *, provider: str, status: int = 429, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, provider=provider, status=status)
        self.retry_after_s = retry_after_s


class UnauthorizedError(ProviderError):
    """The credential was refused; refresh it, then try again."""

    ended = "unauthorized"


class PermanentError(ProviderError):
    """This very request will never be accepted."""

    ended = "refused"


class InvariantError(HeadwayError):
    """A law was broken: a bug, never to be retried."""
