"""Many viewers that read a live stream over plain sockets, as a browser does, and draw nothing."""

import re
import selectors
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

STAMP = re.compile(rb'data-now="(\d+)"')
TAIL = 64


@dataclass(slots=True, kw_only=True)
class Viewer:
    """One open stream, and the timestamps of the refreshes it received, in milliseconds."""

    stream: socket.socket
    stamps: list[int] = field(default_factory=list)
    _tail: bytes = b""

    def read(self) -> int:
        """Read what arrived; return how many refreshes began in it."""
        data = self.stream.recv(1 << 18)
        if not data:
            raise ConnectionError("the stream ended")
        text = self._tail + data
        stamps = [int(match.group(1)) for match in STAMP.finditer(text)]
        self.stamps += stamps
        # A stamp that was cut in two is found with the next piece, and none is found twice.
        last = max((match.end() for match in STAMP.finditer(text)), default=0)
        self._tail = text[max(last, len(text) - TAIL) :]
        return len(stamps)


def open_stream(port: int, key: str, view: str) -> Viewer:
    """Open the live stream of a view."""
    stream = socket.create_connection(("127.0.0.1", port), timeout=60)
    stream.sendall(
        f"GET /live?view={view} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
        f"Authorization: Bearer {key}\r\nAccept: text/event-stream\r\n\r\n".encode()
    )
    return Viewer(stream=stream)


def watch(
    viewers: Sequence[Viewer],
    *,
    until: Callable[[], bool],
    on_frame: Callable[[Viewer, int], None] = lambda _viewer, _stamp: None,
) -> None:
    """Read all streams until `until` is true; call `on_frame` for every refresh."""
    with selectors.DefaultSelector() as waiting:
        for viewer in viewers:
            waiting.register(viewer.stream, selectors.EVENT_READ, viewer)
        while not until():
            for key, _ in waiting.select(timeout=60):
                viewer = key.data
                for _ in range(viewer.read()):
                    on_frame(viewer, viewer.stamps[-1])
