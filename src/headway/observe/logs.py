"""The log of one process: lines for people or lines of JSON, and never a secret in either.

The work of our steps, the messages of a command and the warnings of libraries all come here. A line
for people is the text alone, as it always was; a line of JSON also has the instant, the level, the
step and, where a call was made, its id and its seller.
"""

import json
import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from typing import Any

import structlog
from structlog import contextvars

HIDDEN = "***"
# Shorter ones are no secret, and may occur in a line by chance.
SECRET_CHARS_MIN = 8
DEPTH_MAX = 6
NAMES = re.compile(
    r"authorization|cookie|csrf|passw|secret|token|credential|dsn|signature"
    r"|(?:^|[_-])(?:api|access|private|signing|secret)?[_-]?key$",
    re.IGNORECASE,
)
NAMED = r"[a-z_-]*(?:password|secret|token|api[_-]?key)"
# Secrets that their shape gives away, anywhere in a line; the first group stays.
SHAPES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        r"(\b[a-z][a-z0-9+.-]*://)[^\s/@]*:[^\s/]*@",  # a password in an address
        r"(\bbearer +)[a-z0-9._~+/=:-]{6,}",
        r"(\bbasic +)(?=\S*[0-9=+/])[a-z0-9+/=]{6,}",
        r"(\b(?:authorization|cookie|x-api-key|x-shopify-access-token)\"?'? *[:=] *)[^\r\n]+",
        rf"(\b{NAMED}(?:\"?'? *= *|[\"'] *: *[\"']?))[^\s,;&\"']+",
        rf"(\b{NAMED}: +)(?=\S*[0-9])\S{{6,}}",
        r"()\b(?:hw_|shp[a-z]{2}_|whsec_)[a-z0-9_=+/-]{6,}",
    )
)
# The field of a line about a failed call, named like the label of the metrics.
FAILED = "ended"
Event = MutableMapping[str, Any]


class Redactor:
    """Cuts secrets out of a line: by the name of a field, by their shape, by their value."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        known = {secret for secret in secrets if len(secret) >= SECRET_CHARS_MIN}
        # The longest first: one may begin as another does.
        self._known = sorted(known, key=len, reverse=True)

    def __call__(self, _logger: object, _method: str, event: Event) -> Event:
        """Redact one event, as structlog asks."""
        return {name: self._field(name, value, 0) for name, value in event.items()}

    def text(self, text: str) -> str:
        """Redact plain text."""
        for secret in self._known:
            text = text.replace(secret, HIDDEN)
        for shape in SHAPES:
            text = shape.sub(rf"\g<1>{HIDDEN}", text)
        return text

    def _field(self, name: str, value: object, depth: int) -> object:
        if NAMES.search(name) and value is not None and not isinstance(value, bool):
            return HIDDEN
        if depth < DEPTH_MAX and isinstance(value, Mapping):
            return {key: self._field(str(key), item, depth + 1) for key, item in value.items()}
        if depth < DEPTH_MAX and isinstance(value, list | tuple | set | frozenset):
            return [self._field("", item, depth + 1) for item in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self.text(str(value))


class Log:
    """One process's log; `write` takes a finished line."""

    def __init__(
        self, write: Callable[[str], None], *, is_json: bool = False, secrets: Collection[str] = ()
    ) -> None:
        self._logger = structlog.wrap_logger(
            _Lines(write),
            processors=[
                contextvars.merge_contextvars,
                structlog.processors.add_log_level,
                structlog.processors.TimeStamper(fmt="iso", utc=True, key="at"),
                structlog.processors.format_exc_info,
                Redactor(secrets),
                _as_json if is_json else _as_text,
            ],
            wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        )

    def info(self, text: str) -> None:
        """Write a message for the person who started the process."""
        self._logger.info(text)

    def log_step(self, step: str, text: str) -> None:
        """Log what a step did, with the call that this thread made for it, then forget the call.

        The line is a warning if that call failed.
        """
        has_failed = FAILED in contextvars.get_contextvars()
        self._logger.log(logging.WARNING if has_failed else logging.INFO, text, step=step)
        forget_call()

    def log_library(self, record: logging.LogRecord) -> None:
        """Log the warning of a library."""
        level = max(logging.WARNING, min(record.levelno, logging.CRITICAL)) // 10 * 10
        self._logger.log(level, record.getMessage(), step=record.name, exc_info=record.exc_info)

    @contextmanager
    def library_warnings(self) -> Iterator[None]:
        """Log all warnings of libraries here, until the end."""
        root, handler = logging.getLogger(), _LibraryHandler(self)
        root.addHandler(handler)
        try:
            yield
        finally:
            root.removeHandler(handler)


def name_call(call_id: str, seller: str | None) -> None:
    """Name the call that this thread makes in every line it writes."""
    forget_call()
    contextvars.bind_contextvars(call=call_id, **({} if seller is None else {"seller": seller}))


def name_failure(ended: str) -> None:
    """Name how that call failed."""
    contextvars.bind_contextvars(**{FAILED: ended})


def forget_call() -> None:
    """Name no call any more."""
    contextvars.unbind_contextvars("call", "seller", FAILED)


class _Lines:
    """The logger that structlog expects: every level writes a line."""

    def __init__(self, write: Callable[[str], None]) -> None:
        self.info = self.warning = self.error = self.critical = write


class _LibraryHandler(logging.Handler):
    def __init__(self, log: Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Pass it on."""
        self._log.log_library(record)


def _as_text(_logger: object, _method: str, event: Event) -> str:
    """Return the line for people: the message, after the step's name if there is one."""
    lines: Sequence[str] = [event["event"], *filter(None, [event.get("exception")])]
    text = "\n".join(lines)
    return f"{event['step']}: {text}" if event.get("step") else text


def _as_json(_logger: object, _method: str, event: Event) -> str:
    first = {name: event.get(name) for name in ("at", "level", "step", "event")}
    shown = {name: value for name, value in {**first, **event}.items() if value is not None}
    return json.dumps(shown, ensure_ascii=False, default=str)
