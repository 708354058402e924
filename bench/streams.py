"""Many viewers over plain sockets, who read a live stream as a browser does but draw nothing."""

import re
import selectors
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

STAMP = re.compile(rb'data-now="(\d+)"')
TAIL = 64


@dataclass(slots=True, kw_only=True)
class Viewer:
    """One open stream, and the instants whose state it was shown, in milliseconds."""

    stream: socket.socket
    stamps: list[int] = field(default_factory=list)
    _tail: bytes = b""

    def read(self) -> int:
        """Take what has come; return how many boards began in it."""
        data = self.stream.recv(1 << 18)
        if not data:
            raise ConnectionError("the stream ended")
        text = self._tail + data
        found = [int(each.group(1)) for each in STAMP.finditer(text)]
        self.stamps += found
        # A stamp that was cut in two is found with the next piece, and none is found twice.
        last = max((each.end() for each in STAMP.finditer(text)), default=0)
        self._tail = text[max(last, len(text) - TAIL) :]
        return len(found)


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
    seen: Callable[[Viewer, int], None] = lambda _viewer, _stamp: None,
) -> None:
    """Read all streams as they come until told; `seen` hears of every board."""
    with selectors.DefaultSelector() as waiting:
        for viewer in viewers:
            waiting.register(viewer.stream, selectors.EVENT_READ, viewer)
        while not until():
            for key, _ in waiting.select(timeout=60):
                viewer = key.data
                for _ in range(viewer.read()):
                    seen(viewer, viewer.stamps[-1])
