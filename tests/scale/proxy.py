"""A connection that may stall: bytes pass both ways between a client and a port of this host."""

import socket
import threading
from contextlib import suppress
from typing import Self

HOST = "127.0.0.1"
CHUNK_BYTES = 1 << 16


class Proxy:
    """Forwards to one port; while stalled nothing passes, and nothing is refused either."""

    def __init__(self, port: int) -> None:
        self._to = port
        self._flows = threading.Event()
        self._flows.set()
        self._listener = socket.create_server((HOST, 0))
        self._ends: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._flows.set()
        for end in (self._listener, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()

    @property
    def port(self) -> int:
        return int(self._listener.getsockname()[1])

    def stall(self) -> None:
        """Let nothing pass from now on."""
        self._flows.clear()

    def flow(self) -> None:
        """Let everything pass, what has waited first."""
        self._flows.set()

    def _accept(self) -> None:
        with suppress(OSError):  # the listener is closed at the end
            while True:
                client, _ = self._listener.accept()
                threading.Thread(target=self._join, args=(client,), daemon=True).start()

    def _join(self, client: socket.socket) -> None:
        self._flows.wait()
        try:
            server = socket.create_connection((HOST, self._to))
        except OSError:
            client.close()
            return
        self._ends += [client, server]
        threading.Thread(target=self._pump, args=(server, client), daemon=True).start()
        self._pump(client, server)

    def _pump(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while chunk := one.recv(CHUNK_BYTES):
                self._flows.wait()
                other.sendall(chunk)
        with suppress(OSError):
            other.shutdown(socket.SHUT_WR)
