"""Spans reach a collector over real HTTP, describe a call, and name no part and no secret."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from headway.core.catalog.listings import SellerId
from headway.core.monitoring.calls import UNUSED, CallRecord
from headway.observe.metrics import ProcessMetrics
from headway.observe.traces import open_traces

AT = datetime(2026, 3, 2, 12, tzinfo=UTC)


class Collector(HTTPServer):
    """Receives and keeps spans, as OpenTelemetry's collector does."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Post)
        self.paths: list[str] = []
        self.spans: list[Span] = []
        self.service = ""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Post(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        request = ExportTraceServiceRequest.FromString(body)
        collector = self.server
        assert isinstance(collector, Collector)
        collector.paths.append(self.path)
        for resource in request.resource_spans:
            names = {
                attribute.key: attribute.value.string_value
                for attribute in resource.resource.attributes
            }
            collector.service = names["service.name"]
            collector.spans += [
                span for limit_key in resource.scope_spans for span in limit_key.spans
            ]
        self.send_response(200)
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    server = Collector()
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def call(ended: str = "answered", **more: object) -> CallRecord:
    known = {
        "id": "call-1",
        "verb": "push",
        "provider": "shopify",
        "seller": SellerId("acme"),
        "begun_at": AT,
        "waited_s": 0.0,
        "took_s": 0.25,
        "http_status": 200,
    }
    return CallRecord(**{**known, "ended": ended, **more})  # type: ignore[arg-type]


def attributes(span: Span) -> dict[str, str | int | float]:
    return {
        attribute.key: getattr(attribute.value, str(attribute.value.WhichOneof("value")))
        for attribute in span.attributes
    }


def test_a_call_is_a_span_with_its_id_step_provider_and_outcome(collector: Collector) -> None:
    watch = ProcessMetrics()
    watch.traces = open_traces(collector.url, enabled=False)
    assert watch.traces is not None
    watch.ended(call())
    watch.ended(call("throttled", id="call-2", http_status=429))
    watch.ended(call(UNUSED, id="call-3"))
    watch.traces.close()
    good, bad = collector.spans
    assert (collector.paths, collector.service) == (["/v1/traces"], "headway")
    assert good.name == "push shopify"
    assert good.end_time_unix_nano - good.start_time_unix_nano == 250_000_000
    assert good.start_time_unix_nano == int(AT.timestamp()) * 10**9
    assert attributes(good) == {
        "headway.call": "call-1",
        "headway.verb": "push",
        "headway.provider": "shopify",
        "headway.ended": "answered",
        "headway.waited_s": 0.0,
        "headway.seats_used": 0,
        "headway.seats_paid": 0,
        "headway.seller": "acme",
        "http.response.status_code": 200,
    }
    assert (bad.status.code, bad.status.message) == (2, "throttled")
    assert good.status.code == 0


def test_a_request_is_a_span_by_the_pattern_of_its_route(collector: Collector) -> None:
    watch = ProcessMetrics()
    watch.traces = open_traces(collector.url, enabled=False)
    assert watch.traces is not None
    for status in (200, 503):
        watch.answered("/parts/{name}", "GET", status, began_at=AT, took_s=0.1)
    watch.answered(None, "GET", 404, began_at=AT, took_s=0.1)
    watch.traces.close()
    assert [span.name for span in collector.spans] == ["GET /parts/{name}"] * 2 + ["GET unknown"]
    assert [span.status.code for span in collector.spans] == [0, 2, 0]


def test_an_unreachable_collector_does_not_stop_the_process() -> None:
    traces = open_traces("http://127.0.0.1:9", enabled=True)
    assert traces is not None
    traces.call(call())
    traces.close()


def test_tracing_is_off_by_default_and_not_imported() -> None:
    assert open_traces("", enabled=False) is None
    # FastAPI imports the small API package if it is installed; only the SDK is expensive.
    code = (
        "import sys, headway.cli.run, headway.cli.api\n"
        "from headway.observe.traces import open_traces\n"
        "assert open_traces('', enabled=False) is None\n"
        "sys.exit(any(each.startswith('opentelemetry.sdk') for each in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
