"""Sends one event to one endpoint: signed, in a time limit, and to no address of our own network.

The name is resolved here, each of its addresses is checked, and the connection goes to one of them:
a name that resolves differently a moment later changes nothing. Redirects are not followed.
"""

import contextlib
import socket
import threading
from collections.abc import Callable, Sequence
from ipaddress import ip_address

import httpx

from headway.clock import Clock, ScaledClock
from headway.core.accounts import standard_webhooks
from headway.core.accounts.outgoing_webhooks import DeliveryAttempt, DueEvent, EndpointLease
from headway.core.accounts.webhook_addresses import Network, check_url, is_in, may_reach
from headway.errors import ConfigError, InvalidError
from headway.providers.excerpt import excerpt
from headway.providers.http import build_client, retry_after_s
from headway.providers.http_deadline import SEND_WITHIN_S, DeadlineTransport
from headway.providers.vault import Vault

REPLY_BYTES_MAX = 1_000
ADDRESSES_MAX = 3


class WebhookSender:
    """HTTP to endpoints; `networks` are those that endpoints of the deployment may be in."""

    def __init__(
        self,
        *,
        clock: Clock,
        open_vault: Callable[[], Vault],
        timeout_s: float,
        networks: Sequence[Network] = (),
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self.timeout_s = timeout_s
        self._clock = clock
        self._open_vault = open_vault
        self._vault: Vault | None = None
        self._networks = networks
        self._transport = transport
        self._speed = clock.speed if isinstance(clock, ScaledClock) else 1.0
        self._clients: dict[str, httpx.Client] = {}

    def send(self, lease: EndpointLease, event: DueEvent) -> DeliveryAttempt:
        """Send an event; whatever goes wrong is in the result."""
        began_s = self._clock.monotonic()
        networks = () if lease.seller is not None else self._networks
        try:
            check_url(lease.url, networks)
            client = self._client(httpx.URL(lease.url).scheme, networks)
            status, headers, reply = self._exchange(client, lease, event, began_s)
        except (InvalidError, ConfigError) as error:
            return DeliveryAttempt(error=str(error))
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            return DeliveryAttempt(error=_explained(error), took_s=self._took_s(began_s))
        return DeliveryAttempt(
            status=status,
            reply=excerpt(reply),
            retry_after_s=retry_after_s(headers),
            took_s=self._took_s(began_s),
        )

    def _took_s(self, began_s: float) -> float:
        return self._clock.monotonic() - began_s

    def _exchange(
        self, client: httpx.Client, lease: EndpointLease, event: DueEvent, began_s: float
    ) -> tuple[int, httpx.Headers, bytes]:
        """Send the request and read the beginning of the answer."""
        reply = bytearray()
        headers = self._headers(lease, event)
        with client.stream("POST", lease.url, content=event.body, headers=headers) as response:
            # The status decides; an answer that breaks off afterwards has been given.
            with contextlib.suppress(httpx.HTTPError):
                for chunk in response.iter_raw():
                    reply += chunk
                    if len(reply) >= REPLY_BYTES_MAX or self._took_s(began_s) > self.timeout_s:
                        break
            return response.status_code, response.headers, bytes(reply[:REPLY_BYTES_MAX])

    def _headers(self, lease: EndpointLease, event: DueEvent) -> dict[str, str]:
        timestamp = int(self._clock.now().timestamp())
        vault = self._vault = self._vault or self._open_vault()
        secrets = [vault.decrypt(secret) for secret in lease.secrets]
        if not secrets:
            raise ConfigError("the endpoint has no signing secret; rotate it to make one")
        signatures = [
            standard_webhooks.sign(secret, event.message_id, timestamp, event.body)
            for secret in secrets
        ]
        return {
            "content-type": "application/json",
            standard_webhooks.ID: event.message_id,
            standard_webhooks.TIMESTAMP: str(timestamp),
            standard_webhooks.SIGNATURE: " ".join(signatures),
        }

    def _client(self, scheme: str, networks: Sequence[Network]) -> httpx.Client:
        """Return the client for endpoints of the deployment, or of sellers."""
        key = f"{scheme} {bool(networks)}"
        if key not in self._clients:

            def resolve(host: str, port: int) -> Sequence[str]:
                wait_s = min(SEND_WITHIN_S, self.timeout_s) / self._speed
                return checked_addresses(
                    host, port, networks=networks, is_plain=scheme == "http", wait_s=wait_s
                )

            transport = self._transport or DeadlineTransport(
                clock=self._clock, timeout_s=self.timeout_s, speed=self._speed, resolve=resolve
            )
            self._clients[key] = build_client(
                "", clock=self._clock, timeout_s=self.timeout_s, transport=transport
            )
        return self._clients[key]


def checked_addresses(
    host: str, port: int, *, networks: Sequence[Network], is_plain: bool, wait_s: float
) -> Sequence[str]:
    """Return the addresses of a host if an endpoint may be at each of them.

    Raises InvalidError if one is not public. `is_plain` is for http, which our own networks allow.
    """
    addresses = [ip_address(text) for text in _resolved(host, port, wait_s)]
    if any(not may_reach(address, networks) for address in addresses):
        raise InvalidError(f"{host} resolves to an address that is not public")
    if is_plain and not all(is_in(address, networks) for address in addresses):
        raise InvalidError(f"{host} is a public address: its URL must begin with https://")
    addresses.sort(key=lambda address: address.version)
    return [str(address) for address in addresses[:ADDRESSES_MAX]]


def _resolved(host: str, port: int, wait_s: float) -> list[str]:
    """Ask the system's resolver; it has no time limit of its own, so it works in a thread."""
    found: list[str] = []
    error: list[OSError | UnicodeError] = []

    def ask() -> None:
        try:
            for *_, place in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM):
                found.append(str(place[0]).partition("%")[0])
        except (OSError, UnicodeError) as problem:
            error.append(problem)

    thread = threading.Thread(target=ask, name="resolve", daemon=True)
    thread.start()
    thread.join(wait_s)
    if thread.is_alive():
        raise httpx.ConnectTimeout(f"{host} was not resolved in time")
    if error or not found:
        raise httpx.ConnectError(f"{host} cannot be resolved")
    return list(dict.fromkeys(found))


def _explained(error: Exception) -> str:
    """Return what went wrong; the text of an error may quote the request, so only some is used."""
    text = str(error)
    if text.endswith(("was not resolved in time", "cannot be resolved")):
        return text
    if isinstance(error, httpx.ConnectTimeout | httpx.PoolTimeout):
        return "no connection in time"
    if isinstance(error, httpx.TimeoutException):
        return "no answer in time"
    if isinstance(error, httpx.ConnectError):
        is_tls = "certificate" in text.lower() or "ssl" in text.lower()
        return f"no secure connection: {excerpt(text.encode())}" if is_tls else "no connection"
    return f"the connection broke ({type(error).__name__})"
