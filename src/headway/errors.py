"""The error tree. A class answers two questions: who caused it, and does a retry help?

HeadwayError
├── ConfigError                    a setting, a file or an address is wrong; never retried
├── StoreError                     the database cannot be reached or used; nothing was done
├── BrokerError                    messages cannot be sent; the work waits in the database
├── RequestError(status_code)      the caller's request cannot be served
│   ├── UnauthenticatedError       no valid key or session
│   ├── ForbiddenError             authenticated, but not allowed
│   ├── NotFoundError
│   ├── ConflictError
│   ├── InvalidError
│   └── TooManyError               rate limited; retry_after_s says how long to wait
├── ProviderError(provider)        an outside API failed; not counted against any listing
│   ├── TransientError             timeout, 5xx, unreadable reply; a retry may help
│   │   ├── TimedOutError          no answer in time; the provider may have counted the request
│   │   ├── UnsentError            no connection; the request was not sent
│   │   ├── UnreadableError        the reply does not have the documented form
│   │   │   └── TooLargeError      the reply is larger than we read; ask for less
│   │   ├── AppRefusedError        our app's credentials are refused or missing; fix the settings
│   │   ├── SuspendedError         the account is frozen or locked; it waits until its owner acts
│   │   ├── MovedError             the shop has another address; follow it, then try again
│   │   └── ThrottledError         rate limited; retry_after_s is what the provider asked for
│   ├── UnauthorizedError          this very token is refused, unmistakably; refresh it, try again
│   └── PermanentError             4xx: this request will never be accepted
│       └── RequestRefusedError    whatever its rows: no scope, or an unknown filter
└── InvariantError                 a bug; logged, alerted, never retried

"Not yet", "budget spent" and "no seat" are normal: they are return values, not errors.
"""


class HeadwayError(Exception):
    """Base of all errors that Headway raises; the text is one line for a person."""


class ConfigError(HeadwayError):
    """A setting, file or address is wrong; the text says which and what to do."""


class StoreError(HeadwayError):
    """The database cannot be reached or used; nothing was done."""


class StoreUnavailableError(StoreError):
    """The database gives no connection, or has lost one; nothing can be done without it."""


class BrokerError(HeadwayError):
    """The Celery broker cannot be reached; the work waits in the database."""


class RequestError(HeadwayError):
    """The caller's request cannot be served."""

    status_code = 400


class UnauthenticatedError(RequestError):
    """The caller has no valid key or session; the text says how to get one."""

    status_code = 401


class ForbiddenError(RequestError):
    """The caller is not allowed to do this."""

    status_code = 403


class NotFoundError(RequestError):
    """The requested object does not exist."""

    status_code = 404


class ConflictError(RequestError):
    """The request conflicts with the current state."""

    status_code = 409


class InvalidError(RequestError):
    """The input is malformed; the text names the field."""

    status_code = 422


class TooManyError(RequestError):
    """The caller exceeded a request limit."""

    status_code = 429

    def __init__(self, message: str, *, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class ProviderError(HeadwayError):
    """An outside API failed; not counted against any listing. `ended` is the label in metrics."""

    ended = "failed"

    def __init__(self, message: str, *, provider: str, status: int | None = None) -> None:
        super().__init__(message)
        self.provider = provider
        self.status = status


class TransientError(ProviderError):
    """The provider failed in a way that may be temporary: 5xx, broken connection."""


class TimedOutError(TransientError):
    """No answer in time; the provider may have counted the request."""

    ended = "timed_out"


class UnsentError(TransientError):
    """No connection could be made; the request was not sent."""

    ended = "unsent"


class UnreadableError(TransientError):
    """The reply does not have the documented form: HTML, truncated JSON, an error in a 200."""

    ended = "unreadable"


class TooLargeError(UnreadableError):
    """The reply is larger than we read: ask for less."""


class AppRefusedError(TransientError):
    """Our app's key or secret is refused or missing; no seller can fix it."""

    ended = "app_refused"


class SuspendedError(TransientError):
    """The platform has suspended this account or shop; it waits until its owner has acted."""

    ended = "suspended"


class MovedError(TransientError):
    """The shop has another address; the next token request follows it."""

    ended = "moved"


class ThrottledError(TransientError):
    """The provider asked us to wait."""

    ended = "throttled"

    def __init__(
        self, message: str, *, provider: str, status: int = 429, retry_after_s: float | None = None
    ) -> None:
        super().__init__(message, provider=provider, status=status)
        self.retry_after_s = retry_after_s


class UnauthorizedError(ProviderError):
    """This very token is refused, unmistakably; refresh it, then try again.

    A page, a 403 or an error of unknown meaning is a TransientError: it says nothing of a token.
    """

    ended = "unauthorized"


class PermanentError(ProviderError):
    """The provider will never accept this request."""

    ended = "refused"


class RequestRefusedError(PermanentError):
    """The provider refuses this request whatever rows it is about; asking for less is no help."""


class InvariantError(HeadwayError):
    """A law was broken: a bug; never retried."""
