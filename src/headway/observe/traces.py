"""Traces through OpenTelemetry's own SDK: a span for each call and each request to the API.

Spans are made after the call or request ends, from times that are measured anyway. The SDK is
imported only if tracing is on: it is an extra, and takes long to load.
"""

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from importlib.util import find_spec
from typing import TYPE_CHECKING, Protocol

from headway import __version__
from headway.core.monitoring.calls import ANSWERED, CallRecord
from headway.errors import ConfigError

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import SpanProcessor

# The default address of a collector.
ENDPOINT = "http://127.0.0.1:4318"
EXPORT_S = 5.0
EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
BROKEN = 500


class Traces(Protocol):
    """Receives when calls and requests were made, and how they ended."""

    def call(self, call: CallRecord) -> None:
        """Take a call."""

    def request(
        self, route: str, method: str, status: int, *, began_at: datetime, took_s: float
    ) -> None:
        """Take a request to the API, by the pattern of its route."""

    def close(self) -> None:
        """Send what is left."""


class OtlpTraces:
    """Sends spans to a collector from a thread of the SDK; a missing collector blocks nothing."""

    def __init__(self, processor: "SpanProcessor") -> None:
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415 - an extra
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415 - an extra
        from opentelemetry.trace import SpanKind, Status, StatusCode  # noqa: PLC0415 - an extra

        named = Resource.create({"service.name": "headway", "service.version": __version__})
        self._provider = TracerProvider(resource=named, shutdown_on_exit=False)
        self._provider.add_span_processor(processor)
        self._tracer = self._provider.get_tracer("headway", __version__)
        self._client, self._server = SpanKind.CLIENT, SpanKind.SERVER
        self._error: Callable[[str], Status] = lambda why: Status(StatusCode.ERROR, why)

    def call(self, call: CallRecord) -> None:
        """Write the span of one call; the ledger holds the parts of the call."""
        known: dict[str, str | int | float] = {
            "headway.call": call.id,
            "headway.verb": call.verb,
            "headway.provider": call.provider,
            "headway.ended": call.ended,
            "headway.waited_s": call.waited_s,
            "headway.seats_used": call.seats_used,
            "headway.seats_paid": call.seats_paid,
        }
        if call.seller is not None:
            known["headway.seller"] = call.seller
        if call.http_status is not None:
            known["http.response.status_code"] = call.http_status
        why = None if call.ended == ANSWERED else call.ended
        name = f"{call.verb} {call.provider}"
        self._write(name, known, call.begun_at, call.took_s, why=why, is_ours=True)

    def request(
        self, route: str, method: str, status: int, *, began_at: datetime, took_s: float
    ) -> None:
        """Write the span of one request; a route is a pattern, never the requested path."""
        known: dict[str, str | int | float] = {
            "http.request.method": method,
            "http.route": route,
            "http.response.status_code": status,
        }
        why = str(status) if status >= BROKEN else None
        self._write(f"{method} {route}", known, began_at, took_s, why=why, is_ours=False)

    def close(self) -> None:
        """Send what is left, and end the thread."""
        self._provider.shutdown()

    def _write(
        self,
        name: str,
        known: Mapping[str, str | int | float],
        began_at: datetime,
        took_s: float,
        *,
        why: str | None,
        is_ours: bool,
    ) -> None:
        span = self._tracer.start_span(
            name,
            kind=self._client if is_ours else self._server,
            attributes=dict(known),
            start_time=_ns(began_at),
        )
        if why is not None:
            span.set_status(self._error(why))
        span.end(_ns(began_at + timedelta(seconds=took_s)))


def open_traces(endpoint: str, *, enabled: bool) -> Traces | None:
    """Return where spans go, or None if tracing is off; raises ConfigError without the SDK.

    OpenTelemetry's own variables set the rest (headers, certificates).
    """
    if not (endpoint or enabled):
        return None
    if find_spec("opentelemetry") is None or find_spec("opentelemetry.sdk") is None:
        raise ConfigError(
            "traces need the OpenTelemetry SDK; install it: pip install 'headway[otel]'"
        )
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415 - an extra
        OTLPSpanExporter,
    )
    from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415 - an extra

    url = f"{(endpoint or ENDPOINT).rstrip('/')}/v1/traces"
    return OtlpTraces(BatchSpanProcessor(OTLPSpanExporter(endpoint=url, timeout=EXPORT_S)))


def _ns(at: datetime) -> int:
    return (at - EPOCH) // timedelta(microseconds=1) * 1000
