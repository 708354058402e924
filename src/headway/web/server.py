"""The page's server: a socket taken before anything else starts, and uvicorn in a thread."""

import errno
import socket
import threading
from ipaddress import IPv4Network, ip_network

import uvicorn
from fastapi import FastAPI

from headway.errors import ConfigError
from headway.web.connection_limits import HEADER_WAIT_S, ConnectionLimits
from headway.web.site import end_streams

STOP_S = 1
LOOPBACK = "127.0.0.1,::1"
MAPPED_BITS = 96


def listen(host: str, port: int) -> socket.socket:
    """Listen on the page's address; raises ConfigError with advice if it is not available."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        taken = socket.socket(family, socket.SOCK_STREAM)
    except OSError:
        raise ConfigError(f"no such address {host}; correct HEADWAY_WEB_HOST") from None
    # After Ctrl-C the last connections linger in the kernel; that must not block the next run.
    taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        taken.bind((host, port))
        taken.listen(128)
    except OSError as error:
        taken.close()
        raise _explained(error, host, port) from None
    return taken


def _explained(error: OSError, host: str, port: int) -> ConfigError:
    if error.errno == errno.EADDRINUSE:
        return ConfigError(
            f"port {port} on {host} is in use; stop its user, or choose another with --port"
            " or HEADWAY_WEB_PORT (--port 0 takes a free one)"
        )
    if error.errno == errno.EACCES:
        return ConfigError(f"port {port} needs more rights; choose one above 1023 with --port")
    return ConfigError(f"cannot listen on {host}: {error.strerror}; correct HEADWAY_WEB_HOST")


def address(taken: socket.socket) -> str:
    """Return the page's address, as a browser wants it."""
    host, port = taken.getsockname()[:2]
    shown = {"0.0.0.0": "127.0.0.1", "::": "[::1]"}.get(host, f"[{host}]" if ":" in host else host)  # noqa: S104 - shown, not bound
    return f"http://{shown}:{port}/"


class SiteServer:
    """Serves a site from a thread until stopped; open streams do not hold it up.

    Only `proxies` may set `X-Forwarded-For` and `X-Forwarded-Proto`.
    """

    def __init__(
        self,
        site: FastAPI,
        taken: socket.socket,
        *,
        proxies: str = LOOPBACK,
        header_wait_s: float = HEADER_WAIT_S,
    ) -> None:
        self._site = site
        self._socket = taken
        trusted = _networks(proxies)
        limits = ConnectionLimits(trusted, header_wait_s=header_wait_s)
        config = uvicorn.Config(
            site,
            log_config=None,  # its warnings go where all warnings go
            log_level="warning",
            access_log=False,
            timeout_graceful_shutdown=STOP_S,
            timeout_keep_alive=30,
            lifespan="on",
            server_header=False,
            forwarded_allow_ips=trusted,
            http=limits.protocol,  # type: ignore[arg-type] # it takes any factory
            ws="none",
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(
            target=self._server.run, kwargs={"sockets": [taken]}, name="web", daemon=True
        )

    def start(self) -> None:
        """Start serving; connections made before that wait in the socket."""
        self._thread.start()

    def stop(self) -> None:
        """End streams, finish replies, and let the socket go."""
        self._server.should_exit = True
        if self._server.started:
            end_streams(self._site)
        self._thread.join(STOP_S * 3)
        self._socket.close()


def _networks(proxies: str) -> list[str]:
    """Return networks as a server wants them; a socket for both kinds names IPv4 hosts as IPv6."""
    networks = [ip_network(proxy.strip()) for proxy in proxies.split(",")]
    mapped = [
        f"::ffff:{network.network_address}/{MAPPED_BITS + network.prefixlen}"
        for network in networks
        if isinstance(network, IPv4Network)
    ]
    return [*map(str, networks), *mapped]
