"""Shows a process's own metrics over HTTP, where it has no page of its own."""

from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import start_http_server

from headway.errors import ConfigError
from headway.observe.metrics import Metrics


@contextmanager
def exported(metrics: Metrics, host: str, port: int) -> Iterator[str]:
    """Serve until the end; yield the address. Raises ConfigError where it cannot be had."""
    try:
        server, thread = start_http_server(port, addr=host, registry=metrics.own)
    except OSError as error:
        raise ConfigError(
            f"no metrics on {host}:{port}: {error.strerror}; correct HEADWAY_METRICS_PORT or"
            " HEADWAY_METRICS_HOST"
        ) from None
    try:
        yield f"http://{host}:{server.server_port}/metrics"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
