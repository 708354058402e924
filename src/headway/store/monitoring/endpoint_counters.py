"""How endpoints stand, for metrics and alerts."""

from headway.core.monitoring.metrics import EndpointMetric, EndpointMetrics
from headway.store.pool import guarded
from headway.store.queries import Queries, read_as

SHOWN = 100
# One that a person disabled is nobody's trouble.
FAILING = """
SELECT endpoint.id::text, endpoint.user_id AS seller,
  coalesce(substring(endpoint.url from '^[a-z]+://([^/?]+)'), endpoint.url) AS host,
  endpoint.status = 'disabled' AS is_disabled,
  CASE endpoint.status WHEN 'disabled' THEN coalesce(endpoint.disabled_at, endpoint.failing_since)
    ELSE endpoint.failing_since END AS since,
  CASE endpoint.status WHEN 'disabled' THEN endpoint.reason ELSE coalesce((
    SELECT error FROM event_deliveries AS delivery
    WHERE delivery.endpoint_id = endpoint.id AND delivery.ended_at IS NULL AND error <> ''
    ORDER BY delivery.due_at LIMIT 1), 'its last events were given up') END AS error, (
  SELECT count(*) FROM event_deliveries AS delivery
  WHERE delivery.endpoint_id = endpoint.id AND delivery.ended_at IS NULL) AS waiting
FROM webhook_endpoints AS endpoint WHERE endpoint.failing_since IS NOT NULL
ORDER BY endpoint.failing_since, endpoint.id LIMIT %(shown)s
"""
COUNTS = """
SELECT (SELECT count(*) FROM webhook_endpoints WHERE status = 'enabled') AS enabled,
  (SELECT count(*) FROM webhook_endpoints WHERE status = 'disabled') AS disabled,
  (SELECT count(*) FROM event_deliveries WHERE ended_at IS NULL) AS waiting,
  (SELECT event.occurred_at FROM event_deliveries AS delivery
   JOIN webhook_endpoints AS endpoint ON endpoint.id = delivery.endpoint_id
   JOIN webhook_events AS event ON event.id = delivery.event_id
   WHERE delivery.ended_at IS NULL AND endpoint.status = 'enabled'
   ORDER BY delivery.event_id LIMIT 1) AS oldest_at
"""


class EndpointCounters(Queries):
    """Queries on `webhook_endpoints` and `event_deliveries`."""

    def read(self) -> EndpointMetrics:
        """Count endpoints and events that wait, and name the endpoints that fail."""
        with guarded(), self._pool.connection() as connection:
            failing = read_as(connection, EndpointMetric, FAILING, {"shown": SHOWN})
            row = connection.execute(COUNTS).fetchone()
        assert row is not None, "counts always answer"
        enabled, disabled, waiting, oldest_at = row
        return EndpointMetrics(
            failing=failing,
            enabled=enabled,
            disabled=disabled,
            waiting=waiting,
            oldest_at=oldest_at,
        )
