"""Limits on a request's body: its size, and the time to send it."""

import asyncio

from fastapi import Request, Response
from starlette.requests import ClientDisconnect
from starlette.types import Message

from headway.web.problems import problem

BODY_BYTES_MAX = 1_000_000
BODY_WAIT_S = 10.0


async def read_body(
    request: Request, *, wait_s: float = BODY_WAIT_S, bytes_max: int = BODY_BYTES_MAX
) -> bytes | Response:
    """Read the body; give up on one that is too large or too slow, without keeping it."""
    too_large = problem(413, f"a body may have {bytes_max:,} bytes")
    length = request.headers.get("content-length", "")
    if length.isdecimal() and int(length) > bytes_max:
        return too_large
    pieces: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(wait_s):
            async for piece in request.stream():
                size += len(piece)
                if size > bytes_max:
                    return too_large
                pieces.append(piece)
    except (TimeoutError, ClientDisconnect):
        return problem(408, f"the body was not whole within {wait_s:g} s")
    return b"".join(pieces)


def with_body(request: Request, body: bytes) -> Request:
    """Return the same request with the body that was read before."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive() -> Message:
        return messages.pop() if messages else await request.receive()

    return Request(request.scope, receive)
