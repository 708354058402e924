"""The way from a client to its simulator, with faults, edited replies and endless bodies."""

from collections.abc import Callable, Iterable, Iterator

import httpx

from headway.clock import Clock
from headway_lab.simulators.reply import Handle, SimReply
from headway_lab.simulators.transport import SimTransport


class FaultyTransport(httpx.BaseTransport):
    """Delivers requests to a simulator and records them.

    `fault` is answered in place of the simulator, `stream` is the body of such an answer, piece by
    piece; `edit` changes the body of the simulator's good answers.
    """

    def __init__(self, handle: Handle, clock: Clock) -> None:
        self._inner = SimTransport(handle, clock)
        self._clock = clock
        self.requests: list[httpx.Request] = []
        self.fault: SimReply | None = None
        self.stream: Callable[[], Iterable[bytes]] | None = None
        self.edit: Callable[[bytes], bytes] | None = None

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Deliver the request, or answer with the fault."""
        self.requests.append(request)
        if self.stream is not None:
            return httpx.Response(200, stream=_Pieces(self.stream()))
        if self.fault is not None:
            fault = self.fault
            return SimTransport(lambda *_: fault, self._clock).handle_request(request)
        response = self._inner.handle_request(request)
        if self.edit is None or response.status_code != httpx.codes.OK:
            return response
        body = self.edit(response.read())
        headers = [pair for pair in response.headers.raw if pair[0].lower() != b"content-length"]
        return httpx.Response(response.status_code, headers=headers, stream=_Pieces([body]))


class _Pieces(httpx.SyncByteStream):
    def __init__(self, pieces: Iterable[bytes]) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._pieces)
